"""The last tile of a loop over an unknown number of places begins earlier, so that it is complete.

    for v in range(ceil(n / 8)):             for v in range(ceil(n / 8)):
        tile at v * 8, as far as there           if v < (n - 1) // 8: tile at v * 8
        are places below n             ->        elif n > 8: a tile of 2, 4, 6 or 8 that ends at n
                                                 else: one tile of n places

Places that two tiles have in common are computed twice and stored once. Nothing inside of a tile
has to ask any more whether a place exists, nor where the edge of an image is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.arith.poly import INTS
from smelt.ir.build import all_of
from smelt.ir.expr import LE, LT, Call, Compare, Expr, IntImm, Var
from smelt.ir.walk import free_vars
from smelt.tir import nodes as tir
from smelt.tir.facts import conjuncts
from smelt.tir.rewrite import Rewriter, loads
from smelt.tir.script_ops import expressions


class Ragged(NamedTuple):
    """A loop over tiles: its variable, the places of a tile, and all of them together."""

    v: Var
    size: int
    places: Expr


class Guard(NamedTuple):
    """A comparison, and the loops around it inside of the loop over tiles."""

    e: Compare
    loops: tuple[tir.For, ...]


def ragged(s: tir.For, guards: Iterable[Guard], analyzer: Analyzer) -> Ragged | None:
    """How a loop is tiled, where a guard inside of a serial loop inside asks whether a place exists
    and the number of places is unknown."""
    if s.kind not in ("serial", "parallel") or not analyzer.can_prove_equal(s.min, 0):
        return None
    for guard in guards:
        if any(x.kind == "serial" for x in guard.loops):
            found = _tile(guard, s.var, analyzer)
            if found is not None and _covers(s.extent, found, analyzer) and _repeatable(s.body):
                return found
    return None


def _tile(guard: Guard, v: Var, analyzer: Analyzer) -> Ragged | None:
    """A guard as `v * size + place < places`, where the inner loops give every place of a tile."""
    left = _left(guard.e)
    inner = {x.var: (x.min, x.extent) for x in guard.loops}
    ends = None if left is None else analyzer.interval(analyzer.simplify(left), inner)
    if ends is None:
        return None
    size = analyzer.simplify(ends[1] - ends[0] + 1)
    form = analyzer.linear(ends[1], [v])
    if not isinstance(size, IntImm) or form is None or v in free_vars(form[1]):
        return None
    step = form[0].get(v)
    places = analyzer.simplify(form[1])
    if not isinstance(step, IntImm) or step.value != -size.value or size.value < 2:
        return None
    return None if isinstance(places, IntImm) else Ragged(v, size.value, places)


def _left(e: Expr) -> Expr | None:
    """What is positive exactly where a comparison holds."""
    if not isinstance(e, LT | LE):
        return None
    return e.b - e.a + (1 if isinstance(e, LE) else 0)


def _covers(extent: Expr, found: Ragged, analyzer: Analyzer) -> bool:
    """Whether so many tiles are as many as there have to be."""
    _, size, places = found
    enough = analyzer.can_prove(extent * size >= places)
    return enough and analyzer.can_prove(extent * size < places + size)


def _repeatable(body: tir.Stmt) -> bool:
    """Whether a statement gives the same once more: it reads nothing that it hands on."""
    parts = list(tir.walk(body))
    if any(isinstance(s, tir.Evaluate) and not tir.is_no_op(s) for s in parts):
        return False
    if any(s.kind == "parallel" for s in parts if isinstance(s, tir.For)):
        return False
    found = list(expressions(*parts))
    if any(isinstance(e, Call) and e.op.startswith(("smelt.", "call_")) for e in found):
        return False
    given = _given(body)
    return not any(x.buffer in given for e in found for x in loads(e))


def _given(body: tir.Stmt) -> set[tir.Buffer]:
    """The buffers that a statement stores and does not make."""
    parts = list(tir.walk(body))
    own = {s.buffer for s in parts if isinstance(s, tir.Allocate)}
    return {s.buffer for s in parts if isinstance(s, tir.BufferStore)} - own


def moved(body: tir.Stmt, tile: Ragged, places: int, analyzer: Analyzer) -> tir.Stmt | None:
    """The last tile as one of so many places that ends where there are no more, and stores those
    that are its own; None where the body does not show how."""
    mover = _Moved(tile, tile.places - places, analyzer, _given(body))
    found = mover.stmt(body)
    return found if mover.shown else None


class _Moved(Rewriter):
    def __init__(
        self, tile: Ragged, start: Expr, analyzer: Analyzer, given: set[tir.Buffer]
    ) -> None:
        super().__init__()
        self.tile, self.start, self.analyzer, self.given = tile, start, analyzer, given
        self.shown, self.own = True, False

    def expr(self, e: Expr) -> Expr:
        v, size, _ = self.tile
        if v not in free_vars(e):
            return e
        form = self.analyzer.linear(e, [v]) if e.dtype in INTS else None
        if form is not None and v not in free_vars(form[1]):
            step = form[0].get(v)
            if isinstance(step, IntImm) and step.value % size == 0:
                return self.analyzer.simplify(form[1] + self.start * (step.value // size))
        if e is v:
            self.shown = False
            return e
        return self.visit_expr(e)

    def visit_BufferStore(self, s: tir.BufferStore) -> tir.Stmt:
        self.shown = self.shown and (self.own or s.buffer not in self.given)
        return super().visit_BufferStore(s)

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        places = [self._place(c) for c in conjuncts(s.condition)]
        asks = s.else_body is None and any(p is not None for p in places)
        if not asks or not _given(s.then_body) & self.given:
            return super().visit_IfThenElse(s)
        v, size, _ = self.tile
        conditions = [self.expr(c) for c in conjuncts(s.condition)]
        conditions += [self.start + p >= v * size for p in places if p is not None]
        outer, self.own = self.own, True
        body = self.stmt(s.then_body)
        self.own = outer
        return tir.IfThenElse(all_of(conditions), body)

    def _place(self, c: Expr) -> Expr | None:
        """The place in the tile of which a condition asks whether it exists."""
        v, size, places = self.tile
        left = _left(c)
        if left is None:
            return None
        place = self.analyzer.simplify(places - v * size - left)
        mentioned = free_vars(place)
        return None if v in mentioned or mentioned & free_vars(places) else place
