"""What the classic single passes ask of programs: what may be computed early, what is flat."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.errors import CompileError
from smelt.tir.nodes import Allocate, AllocateConst, BlockRealize, BufferLoad, PrimFunc, walk
from smelt.tir.script_ops import INTRINSICS, expr_nodes


def is_speculable(e: expr.Expr) -> bool:
    """Whether an expression may be computed where the program would not: nothing in it can fail.

    A load may be out of bounds, or see another value; a division, a shift or a conversion of a
    float to an integer may be undefined.
    """
    return all(is_total(n) for n in expr_nodes(e))


def is_total(e: expr.Expr) -> bool:
    """Whether one node, its operands given, has a value anywhere and no effect."""
    match e:
        case BufferLoad():
            return False
        case expr.Call(_, op) if op not in INTRINSICS:
            return False
        case (
            expr.FloorDiv(a, b)
            | expr.FloorMod(a, b)
            | expr.TruncDiv(a, b)
            | expr.TruncMod(a, b)
            | expr.Div(a, b)
        ):
            return dt.is_float(a.dtype) or (isinstance(b, expr.IntImm) and b.value > 0)
        case expr.Cast(kind, value):
            return dt.is_float(kind) or not dt.is_float(value.dtype)
        case expr.Call(_, "shift_left" | "shift_right", (_, b)):
            return isinstance(b, expr.IntImm)
    return True


def in_bounds(e: BufferLoad, analyzer: Analyzer) -> bool:
    """Whether a load is certainly inside its buffer."""
    prove, places = analyzer.can_prove, zip(e.indices, e.buffer.shape, strict=True)
    return all(prove(i >= 0) and prove(i < n) for i, n in places)


def require_flat(func: PrimFunc, who: str) -> None:
    """Refuse a program with blocks."""
    for s in walk(func.body):
        if isinstance(s, BlockRealize):
            raise CompileError(
                f"{who}: {func.name} still has blocks, e.g. {s.block.name}; LowerOpaqueBlock "
                "(or smelt.lower) comes first"
            )


def require_one_dimension(func: PrimFunc, who: str) -> None:
    """Refuse a program with blocks, or with buffers of several dimensions."""
    require_flat(func, who)
    allocated = [s.buffer for s in walk(func.body) if isinstance(s, Allocate | AllocateConst)]
    for b in (*func.buffers, *allocated):
        if b.rank != 1:
            raise CompileError(
                f"{who}: the buffer {b.name} of {func.name} has {b.rank} dimensions; "
                "FlattenBuffer comes first"
            )
