"""Classic names of the tensor level that nothing here needs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag, StrEnum

from smelt.ir.classic_class import classic_class
from smelt.ir.expr import Expr, ExprLike

from . import nodes


class ForKind(StrEnum):
    """The kinds of loops: `loop.kind == ForKind.PARALLEL`."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD_BINDING = "thread_binding"


class ScheduleDebugMask(IntFlag):
    """What `Schedule(debug_mask=)` verifies after every step: any of them is all there is."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


@classic_class(nodes.Range)
def Range(begin: ExprLike, end: ExprLike | None = None) -> nodes.Range:
    """From `begin` up to `end` (exclusive), or from 0 up to the only operand."""
    return nodes.Range.of(begin if end is None else (begin, end))


Range.from_min_extent = nodes.Range.from_min_extent


@classic_class(nodes.Seq)
def SeqStmt(seq: Iterable[nodes.Stmt]) -> nodes.Stmt:
    """Statements one after another."""
    return nodes.Seq(tuple(seq))


PrimExpr = Expr
