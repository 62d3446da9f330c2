"""A graph's stages as text files; several observers of a kernel's."""

from __future__ import annotations

from pathlib import Path

from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.lowering.instrument import Observer, dump_folder, write_text
from smelt.relax.printer import script as graph_script
from smelt.tir.nodes import PrimFunc


def as_one(*given: Observer | None) -> Observer | None:
    """All of some observers of lowering; None where there is none."""
    watchers = [watcher for watcher in given if watcher is not None]

    def observe(name: str, func: PrimFunc) -> None:
        for watcher in watchers:
            watcher(name, func)

    return observe if watchers else None


class GraphDump:
    """Writes each stage that changed something as a numbered text file, where a folder is given."""

    def __init__(self, options: Options) -> None:
        folder = dump_folder(options)
        self.folder = Path(folder) if folder else None
        self.count, self.last = 0, ""

    def __call__(self, name: str, mod: IRModule) -> None:
        """Write a stage, unless it is as the last one was."""
        if self.folder is None:
            return
        text = graph_script(mod)
        if text != self.last:
            write_text(self.folder / f"{self.count:03d}_{name}.txt", text)
            self.count, self.last = self.count + 1, text
