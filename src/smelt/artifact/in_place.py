"""Results of kernels that may stand where an operand has stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.tir.nodes import (
    Buffer,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    sub_statements,
    walk,
)
from smelt.tir.rewrite import loads
from smelt.tir.script_ops import expressions

from .graph import Place, Storage
from .host import KernelCall

_MANY = 1 << 62
"""Of a loop whose length is not known."""


def joined_storages(
    calls: Sequence[KernelCall], programs: Mapping[str, PrimFunc]
) -> dict[Storage, Storage]:
    """Results that take the memory of an operand, by result: nobody needs that operand any more,
    and each element of it is read only where the same one of the result is written.

    programs  the lowered kernels by symbol
    """
    found: dict[Storage, Storage] = {}
    for n, c in enumerate(calls):
        outputs = c.launch.own_outputs
        if c.launch.external or len(outputs) != 1 or outputs[0].storage.kind != "temporary":
            continue
        out, buffers = outputs[0], programs[c.symbol].buffers
        at = len(c.places) - 1
        for k, p in enumerate(c.places[:at]):
            once = sum([q.storage is p.storage for q in c.places]) == 1
            free = once and p.storage.last == n and _fits(p, out)
            if free and read_where_written(programs[c.symbol], buffers[k], buffers[at]):
                found[out.storage] = p.storage
                break
    return found


def _fits(operand: Place, result: Place) -> bool:
    """Whether both are whole storages of as many bytes, whose elements stand alike."""
    s, t = operand.storage, result.storage
    if s.kind != "temporary" or value_of(s.bytes) != value_of(t.bytes):
        return False
    same = dt.bytes_of(s.dtype) == dt.bytes_of(t.dtype)
    return same and value_of(operand.view.offset) == value_of(result.view.offset) == 0


def read_where_written(func: PrimFunc, operand: Buffer, result: Buffer) -> bool:
    """Whether an operand's elements are read only by statements that write the same elements of the
    result, each of which is written once."""
    inside = set()
    for s in walk(func.body):
        if isinstance(s, BufferStore):
            own = [x for x in loads(s.value) if x.buffer is operand]
            if any(s.buffer is not result or x.indices != s.indices for x in own):
                return False
            inside.update(own)
    read = {x for e in expressions(*walk(func.body)) for x in loads(e) if x.buffer is operand}
    # every element is written, and there are not more stores than elements
    elements = prod([value_of(e) or 0 for e in result.shape])
    return bool(read) and read == inside and _stores(func.body, result) <= elements


def _stores(s: Stmt, b: Buffer) -> int:
    """How many stores into a buffer are run at most."""
    if isinstance(s, BufferStore):
        return int(s.buffer is b)
    inner = [_stores(x, b) for x in sub_statements(s)]
    if isinstance(s, For):
        return (value_of(s.extent) or _MANY) * sum(inner)
    return max(inner, default=0) if isinstance(s, IfThenElse) else sum(inner)
