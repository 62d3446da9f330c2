"""Parameters beside a schedule that has its own, as classic programs hand both over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.expr import Var
from smelt.te import Tensor
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.schedule import Schedule


def with_parameters(given: Any, args: Sequence[Tensor | Var], name: str) -> PrimFunc:
    """The program of a tir Schedule, under a name; args have to be like its parameters.

    Raises CompileError where they are not, and for other things than schedules.
    """
    if not isinstance(given, Schedule):
        raise CompileError(f"args belong to a te.Schedule; {type(given).__name__} has parameters")
    func = given.func
    wanted = [_shown(b) for b in func.buffers]
    found = [_shown(a) for a in args if isinstance(a, Tensor)]
    if found != wanted:
        raise CompileError(
            f"args are {', '.join(found) or 'none'}; the schedule's program has "
            f"{', '.join(wanted) or 'none'}"
        )
    return func.with_attrs(name=name)


def _shown(b: Buffer) -> str:
    return f"{b.dtype}[{', '.join(map(str, b.shape))}]"
