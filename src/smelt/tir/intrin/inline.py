"""Calls of instructions as statements in memory: operands stored, the meaning run on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.ir.expr import INDEX, Call, Expr, IntImm, Ramp, Var, cast, const
from smelt.tir.named_calls import NAMED_CALLS, name_of
from smelt.tir.nodes import Buffer, BufferLoad, Stmt
from smelt.tir.rewrite import Indices, RenameBound
from smelt.tir.script_ops import expr_nodes

from .registry import Instruction

Direct = Callable[[Instruction, Sequence[Expr], BufferLoad], Stmt]
"""How a code generator writes an instruction: operands (immediates, else the first element of each
in memory) and the first element of the result; all in flat buffers."""


def innermost_call(e: Expr) -> Call | None:
    """A call of an instruction whose operands call none, or None if there is none at all."""
    lazy: set[Expr] = set()
    for node in expr_nodes(e):
        if isinstance(node, Call) and node.op == "if_then_else":
            lazy.update(n for part in node.args[1:] for n in expr_nodes(part))
    for node in expr_nodes(e):
        if isinstance(node, Call) and node.op in NAMED_CALLS:
            if node in lazy:
                raise Unsupported(f"{name_of(node)} stands inside of if_then_else")
            return node
    return None


def known(e: Call) -> Instruction:
    """The instruction that a call means; an LLVM intrinsic that is none has no known meaning."""
    found = Instruction.called_by(e)
    if found is None:
        raise Unsupported(
            f"nobody says what {name_of(e)} does: register an Instruction with its meaning"
        )
    wrong = found.complaint(e.type, e.args[1:])
    if wrong is not None:
        raise Unsupported(wrong)
    return found


def element_of(e: Expr) -> BufferLoad | None:
    """The first element of an operand that lies in memory as the instruction wants it."""
    if not isinstance(e, BufferLoad) or len(e.indices) != 1:
        return None
    index = e.indices[0]
    if isinstance(index, Ramp):
        dense = isinstance(index.stride, IntImm) and index.stride.value == 1
        return BufferLoad(e.buffer, (index.base,)) if dense else None
    return e if dt.lanes(index.dtype) == 1 else None


def inlined(instruction: Instruction, places: Sequence[Expr], result: Buffer) -> Stmt:
    """The meaning on operands in memory, its loop variables and local buffers new ones.

    places  immediates, and the first element of every other operand
    """
    return _Inline(instruction, places, result).stmt(instruction.meaning.body)


class _Inline(RenameBound):
    def __init__(self, instruction: Instruction, places: Sequence[Expr], result: Buffer) -> None:
        super().__init__()
        self.places: dict[Buffer, BufferLoad] = {}
        for p, place in zip(instruction.operands, places, strict=True):
            if isinstance(p, Var):
                self.memo[p] = cast(p.type, place)
            else:
                assert isinstance(place, BufferLoad)
                self.places[p] = place
        self.buffers[instruction.result] = result

    def access(self, b: Buffer, indices: Indices) -> tuple[Buffer, Indices]:
        place = self.places.get(b)
        if place is None:
            return super().access(b, indices)
        return place.buffer, (place.indices[0] + indices[0],)


def lanes_buffer(name: str, dtype: str) -> Buffer:
    """A local buffer for the lanes of a value."""
    return Buffer(name, (const(dt.lanes(dtype), INDEX),), dt.scalar(dtype), "local")
