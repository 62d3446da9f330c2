"""A graph's stages as text files."""

from __future__ import annotations

from pathlib import Path

from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.lowering.instrument import dump_folder, write_text
from smelt.relax.printer import script as graph_script


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
