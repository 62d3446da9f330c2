"""What will be wanted soon is asked for from memory ahead of time.

A loop's annotation PREFETCH, {buffer: iterations}, says whose elements, and how many of the loop's
iterations ahead; {buffer: [iterations, 2]} asks for them no nearer than the second cache, and a
third number gives the bytes of the processor's lines. A fourth one says that the loop right inside
has so many turns, each of which asks for its part of what all of them read; where it has an unknown
number, those behind ask for the last part again. It is good where a processor does not see by
itself what comes next: rows that lie far apart, or many instructions between one line of memory and
the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import minimum, value_of
from smelt.ir.expr import Call, Expr, IntImm, Ramp, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.rewrite import loads, map_stmts
from smelt.tir.script_ops import PREFETCH

_LINE = 64
"""Bytes that come from memory together, where nothing else is said."""


def inject_prefetch(func: tir.PrimFunc) -> tir.PrimFunc:
    """The innermost loops inside of an annotated one ask for what the latter comes to later."""

    def expanded(loop: tir.For) -> tir.Stmt:
        wanted = loop.annotations.get(PREFETCH)
        if wanted is None:
            return loop
        rest = {k: v for k, v in loop.annotations.items() if k != PREFETCH}
        return _asking(loop.replace(annotations=rest), wanted)

    return func.replace(body=map_stmts(func.body, tir.For, expanded))


def _asking(loop: tir.For, wanted: Mapping[str, int | Sequence[int]]) -> tir.Stmt:
    """A loop whose innermost loops, it may be itself, ask for elements ahead of time."""
    turns = {x.var: s for s in _outermost(loop.body) for x in tir.walk(s) if isinstance(x, tir.For)}

    def asking(inner: tir.For) -> tir.Stmt:
        parts = list(tir.walk(inner.body))
        if inner.kind != "serial" or any(isinstance(s, tir.For) for s in parts):
            return inner
        own = {s.var for s in parts if isinstance(s, tir.LetStmt)}
        found: list[tir.Stmt] = []
        for name, ahead in wanted.items():
            iterations, *more = [ahead] if isinstance(ahead, int) else ahead
            cache, line = more[:1], more[1] if len(more) > 1 else _LINE
            moved = {loop.var: loop.var + iterations}
            turn = turns.get(inner.var, inner)
            if len(more) > 2 and turn is not inner and value_of(turn.extent) in (None, more[2]):
                moved[inner.var] = _part(inner, turn, more[2])
            for place in _lines(inner, name, line, {loop.var, inner.var}, own):
                later = substitute(place.indices[0], moved)
                element = tir.address_of(place.replace(indices=(later,)))
                args = (element, *[IntImm("int32", c) for c in cache])
                found.append(tir.Evaluate(Call("int32", PREFETCH, args)))
        return inner.replace(body=tir.seq(*found, inner.body)) if found else inner

    return map_stmts(loop, tir.For, asking)


def _outermost(s: tir.Stmt) -> list[tir.For]:
    """The loops of a statement that are in no other one."""
    if isinstance(s, tir.For):
        return [s]
    return [x for part in tir.sub_statements(s) for x in _outermost(part)]


def _part(inner: tir.For, turn: tir.For, parts: int) -> Expr:
    """A loop's variable, slowed down so that every turn of another loop comes over its part."""
    shift, moved = parts.bit_length() - 1, inner.var - inner.min
    slow = moved >> shift if parts == 1 << shift else moved // parts
    part = turn.var - turn.min
    if value_of(turn.extent) is None:
        part = minimum(part, const(parts - 1, part.dtype))
    return inner.min + part * (inner.extent // parts) + slow


def _lines(
    inner: tir.For, name: str, size: int, moving: set[Var], own: set[Var]
) -> list[tir.BufferLoad]:
    """One load of each line of memory that an iteration reads of a buffer."""
    analyzer = Analyzer()
    found: list[tir.BufferLoad] = []
    for x in loads(inner.body):
        index = x.indices[0]
        start = index.base if isinstance(index, Ramp) else index
        used = free_vars(start)
        if x.buffer.name != name or not moving <= used or used & own or loads(start):
            continue
        line = size // dt.bytes_of(x.buffer.type)
        apart = [analyzer.simplify(start - f.indices[0]) for f in found]
        if not any(isinstance(d, IntImm) and abs(d.value) < line for d in apart):
            found.append(tir.BufferLoad(x.buffer, (start,)))
    return found
