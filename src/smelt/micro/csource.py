"""What a model is as C: its texts, and what they need."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from smelt.runtime.errors import ExportError, MicroError
from smelt.runtime.files import check_target, write_file

from .memory import MemoryReport

NATIVE = Path(__file__).resolve().parent / "native"
"""The part of a program that is the same for all models."""


@dataclass(frozen=True)
class CTensor:
    """An input or output of a model as C.

    name   its member in the structure of inputs, or of outputs
    dtype, shape  of the row-major array
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class CSource:
    """A model as C.

    source, header    the texts; the source includes the header under the name NAME.h
    inputs, outputs   what it takes and gives
    workspace_bytes   what a run needs besides inputs and outputs
    constant_bytes    of weights and the like, which are read only
    kernels           the names of its functions, in the order of a run
    memory            where results stand, and when
    operations        arithmetic on elements in each of them; a multiply-add counts two; None
                      where it depends on values
    graph             for the graph executor: the graph as JSON, which is in the source, too
    parameters        its parameters by name, as save_param_dict writes them
    """

    name: str
    source: str
    header: str
    inputs: tuple[CTensor, ...]
    outputs: tuple[CTensor, ...]
    workspace_bytes: int
    constant_bytes: int
    kernels: tuple[str, ...]
    memory: MemoryReport
    operations: tuple[int | None, ...] = ()
    graph: str = ""
    parameters: bytes = b""

    @property
    def runtime(self) -> dict[str, str]:
        """The files of smelt's that it is compiled with: none, or the graph executor's."""
        names = ("smelt_graph.h", "smelt_graph.c") if self.graph else ()
        return {n: (NATIVE / n).read_text(encoding="utf-8") for n in names}

    def net_files(self) -> dict[str, str]:
        """The model under the name net, with all that it is compiled with. Raises MicroError."""
        if f"{self.name}_params[" in self.header:
            raise MicroError(
                f"{self.name} has not its parameters in its source, which defines no "
                f"{self.name}_params; legal: link-params=True"
            )
        net = self.source.replace(f'#include "{self.name}.h"', '#include "net.h"', 1)
        return {"net.c": net, "net.h": self.header, **self.runtime}

    def space(self) -> str:
        """C: memory of the size that a run needs, as `space`, whose address it takes.

        Raises MicroError where inputs and outputs stand there, so that no run could be asked twice.
        """
        if self.memory.workspace_io:
            raise MicroError(
                f"{self.name} has its inputs and outputs in the workspace, and a program that "
                "serves it keeps them apart; legal: compile_c(..., workspace_io=False)"
            )
        upper = self.name.upper()
        form = "static union {{ uint8_t bytes[{} + 1]; int64_t aligned; }} {};\n"
        pools = [p.name for p in self.memory.pools if not p.constants]
        if not pools:
            return form.format(f"{upper}_WORKSPACE_BYTES", "space")
        rooms = [form.format(f"{upper}_{p.upper()}_WORKSPACE_POOL_SIZE", f"in_{p}") for p in pools]
        given = ", ".join([f"&in_{p}" for p in pools])
        kind = f"static const struct {self.name}_workspace_pools"
        return f"{''.join(rooms)}{kind} space = {{{given}}};\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the source, model.c, and beside it the header, model.h, and what it is compiled
        with. Raises ExportError."""
        target = Path(path)
        check_target(target, (".c",), "model.c")
        header = target.with_suffix(".h")
        if {*header.name} & {*'"\\\n'}:
            raise ExportError(f"cannot write {target}: the name stands in an #include")
        text = self.source.replace(f'#include "{self.name}.h"', f'#include "{header.name}"', 1)
        others = {target.with_name(n): t for n, t in self.runtime.items()}
        for path, content in {header: self.header, target: text, **others}.items():
            write_text(path, content)


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all. Raises ExportError."""
    write_file(path, lambda file: file.write(text.encode()))
