"""What a model is as C: its texts, and what they need."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from smelt.runtime.errors import ExportError
from smelt.runtime.files import check_target, write_file
from smelt.runtime.linking import c_name

from .memory import MemoryReport


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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the source, model.c, and beside it the header, model.h. Raises ExportError."""
        target = Path(path)
        check_target(target, (".c",), "model.c")
        header = target.with_suffix(".h")
        if target.stem != c_name(target.stem):
            raise ExportError(f"cannot write {target}: {target.stem} is no name for C")
        text = self.source.replace(f'#include "{self.name}.h"', f'#include "{header.name}"', 1)
        write_file(header, lambda file: file.write(self.header.encode()))
        write_file(target, lambda file: file.write(text.encode()))
