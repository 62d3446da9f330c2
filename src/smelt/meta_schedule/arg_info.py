"""What arguments a program has: shapes and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smelt.ir.build import value_of
from smelt.ir.errors import CompileError
from smelt.tir.nodes import PrimFunc

from .utils import function_of


class ArgInfo:
    """What one argument is."""

    def as_json(self) -> Any:
        """As plain data."""
        raise NotImplementedError

    @staticmethod
    def from_json(json_obj: Any) -> ArgInfo:
        """What `as_json` gave. Raises CompileError."""
        match json_obj:
            case ["TENSOR", str(dtype), list(shape)]:
                return TensorInfo(dtype, shape)
        raise CompileError(f"ArgInfo: {json_obj!r:.60} is none; legal: ['TENSOR', dtype, shape]")

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[ArgInfo]:
        """The arguments of a program, in order. Raises CompileError for sizes that are symbolic."""
        found: list[ArgInfo] = []
        for b in func.buffers:
            shape = [value_of(e) for e in b.shape]
            if None in shape:
                raise CompileError(f"{func.name}: the shape of {b.name} is symbolic; only constant "
                                   "shapes can be described")  # fmt: skip
            found.append(TensorInfo(b.type, [int(e) for e in shape if e is not None]))
        return found

    @staticmethod
    def from_entry_func(mod: Any, remove_preproc: bool = True) -> list[ArgInfo]:
        """The arguments of a module's program."""
        return ArgInfo.from_prim_func(function_of("ArgInfo.from_entry_func", mod))


@dataclass(frozen=True)
class TensorInfo(ArgInfo):
    """A tensor argument."""

    dtype: str
    shape: tuple[int, ...]

    def __init__(self, dtype: str, shape: Sequence[int]) -> None:
        """Its element type and extents."""
        object.__setattr__(self, "dtype", str(dtype))
        object.__setattr__(self, "shape", tuple([int(e) for e in shape]))

    def as_json(self) -> Any:
        """As plain data."""
        return ["TENSOR", self.dtype, list(self.shape)]
