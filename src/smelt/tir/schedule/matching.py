"""Whether a tile of a program is what an instruction does: description and tile compared.

The description's variables are given values in the tile's loops, its buffers places in the tile's
buffers. Operands of sums, products, minima, maxima, conjunctions and disjunctions match in any
order and grouping, loops of a nest in any order; loops of one iteration do not count; a widening
that happens in two steps is one in one step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from smelt.ir import dtype as dt
from smelt.ir.build import is_const, value_of
from smelt.ir.expr import INDEX, Add, And, Cast, Expr, Max, Min, Mul, Or, Ramp, Var
from smelt.ir.node import Node
from smelt.ir.walk import free_vars, joined, substitute
from smelt.tir.rewrite import loads

from .. import nodes
from .show import show_first
from .state import State

_REORDERED = (Add, Mul, Min, Max, And, Or)
_Access = nodes.BufferLoad | nodes.BufferStore


@dataclass
class OperandPlace:
    """Where a description's buffer lies in the tile: index d is base[d] + sum of steps[d][k] * k.

    steps  per dimension of the tile's buffer, a factor for each dimension of the description's
    """

    buffer: nodes.Buffer
    base: tuple[Expr, ...]
    steps: tuple[tuple[int, ...], ...]

    def at(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The indices in the tile's buffer; a ramp stays one."""
        out = []
        for low, row in zip(self.base, self.steps, strict=True):
            total = low
            for index, step in zip(indices, row, strict=True):
                if step:
                    total = _moved(index, step, total)
            out.append(total)
        return tuple(out)


def _moved(index: Expr, step: int, by: Expr) -> Expr:
    """index * step + by, where at most one of index and by is a vector."""
    if isinstance(index, Ramp):
        return Ramp(index.base * step + by, index.stride * step, index.lanes)
    scaled = index if step == 1 else index * step
    if isinstance(by, Ramp):
        return Ramp(by.base + scaled, by.stride, by.lanes)
    return scaled if is_const(by, 0) else by + scaled if is_const(scaled, 0) else scaled + by


class Difference(Exception):
    """The first parts of description and tile that are not the same."""

    def __init__(
        self, why: str, description: Node | None, tile: Node | None, at: nodes.Stmt
    ) -> None:
        """Keep both sides, and the statement of the tile that they stand in."""
        super().__init__(why)
        self.why, self.description, self.tile, self.at = why, description, tile, at


class Matching:
    """One comparison of a description with a tile."""

    def __init__(self, state: State, name: str) -> None:
        """Nothing is known yet."""
        self.state, self.name = state, name
        self.places: dict[nodes.Buffer, OperandPlace] = {}
        self.written: set[nodes.Buffer] = set()
        self.inner: set[Var] = set()
        self.meaning: dict[Var, Expr] = {}
        self.values: dict[Var, Expr] = {}
        self.at: nodes.Stmt | None = None

    def compare(self, description: nodes.Stmt, tile: nodes.Stmt) -> None:
        """Fill `places`; refuses a tile that is something else."""
        first: Difference | None = None
        for order in _orders(description, tile):
            for known in (self.places, self.meaning, self.values, self.written, self.inner):
                known.clear()
            try:
                self._statement(order, tile)
                self._check_disjoint()
            except Difference as e:
                first = first or e
            else:
                return
        assert first is not None
        self._refuse(first)

    def _refuse(self, e: Difference) -> None:
        both = {"description": e.description, "tile": e.tile}.items()
        sides = [f"the {side} has {show_first(node)}" for side, node in both if node is not None]
        self.state.fail(
            f"the tile is not what {self.name} does: {'; '.join([e.why, *sides])}",
            mark={e.at: e.why} if e.at in self.state.index.order else {},
            legal="a tile that equals the description",
        )

    # -------------------------------------------------------------------------- statements

    def _differ(self, why: str, d: Node | None, t: Node | None) -> Difference:
        assert self.at is not None
        return Difference(why, d, t, self.at)

    def _statement(self, d: nodes.Stmt, t: nodes.Stmt) -> None:
        """Compare two statements."""
        d, t = self._without_unit(d, self.meaning), self._without_unit(t, self.values)
        self.at = t
        match d, t:
            case nodes.For(), nodes.For():
                low, extent = (substitute(e, self.meaning) for e in (d.min, d.extent))
                mine, count = (substitute(e, self.values) for e in (t.min, t.extent))
                if not self._same(extent, count):
                    raise self._differ("a loop has another extent", d.extent, t.extent)
                self.meaning[d.var] = t.var - mine + low
                self.inner.add(t.var)
                self._statement(d.body, t.body)
            case nodes.BlockRealize(), nodes.BlockRealize():
                self._block(d, t)
            case nodes.BufferStore(), nodes.BufferStore():
                self.written.add(d.buffer)
                self._access(d, t)
                self._expr(d.value, t.value)
            case nodes.Seq(a), nodes.Seq(b) if len(a) == len(b):
                for x, y in zip(a, b, strict=True):
                    self._statement(x, y)
            case nodes.IfThenElse(), nodes.IfThenElse() if (d.else_body is None) == (
                t.else_body is None
            ):
                self._expr(d.condition, t.condition)
                self._statement(d.then_body, t.then_body)
                if d.else_body is not None and t.else_body is not None:
                    self._statement(d.else_body, t.else_body)
            case nodes.LetStmt(), nodes.LetStmt():
                self._expr(d.value, t.value)
                self.meaning[d.var] = t.var
                self._statement(d.body, t.body)
            case nodes.Evaluate(), nodes.Evaluate():
                self._expr(d.value, t.value)
            case (nodes.Seq(), _) | (_, nodes.Seq()):
                counts = [len(x.stmts) if isinstance(x, nodes.Seq) else 1 for x in (t, d)]
                raise self._differ(f"{counts[0]} of {counts[1]} statements stand there", d, t)
            case _:
                raise self._differ("another statement stands there", d, t)

    def _without_unit(self, s: nodes.Stmt, values: dict[Var, Expr]) -> nodes.Stmt:
        """A statement without loops of one iteration around it."""
        while isinstance(s, nodes.For) and is_const(s.extent, 1):
            values[s.var] = substitute(s.min, values)
            s = s.body
        return s

    def _block(self, d: nodes.BlockRealize, t: nodes.BlockRealize) -> None:
        for i, v in d.bindings:
            self.meaning[i.var] = substitute(v, self.meaning)
        for i, v in t.bindings:
            self.values[i.var] = substitute(v, self.values)
        if not (is_const(d.predicate, 1) and is_const(t.predicate, 1)):
            if is_const(d.predicate, 1) or is_const(t.predicate, 1):
                raise self._differ("only one of them has a guard", d.predicate, t.predicate)
            self._expr(d.predicate, t.predicate)
        if d.block.init is None and t.block.init is not None:
            raise self._differ(
                "the tile sets initial values, which decompose_reduction takes out of it",
                None,
                t.block.init,
            )
        if d.block.init is not None and t.block.init is None:
            raise self._differ("the tile does not set initial values", d.block.init, None)
        if d.block.init is not None and t.block.init is not None:
            self._statement(d.block.init, t.block.init)
        self._statement(d.block.body, t.block.body)

    # ------------------------------------------------------------------------- expressions

    def _same(self, a: Expr, b: Expr) -> bool:
        return a is b or (a.dtype == b.dtype and self.state.facts.equal(a, b))

    def _expr(self, d: Expr, t: Expr) -> None:
        """Compare two expressions."""
        d, t = _narrowed(d), _narrowed(t)
        if isinstance(d, nodes.BufferLoad) and isinstance(t, nodes.BufferLoad):
            self._access(d, t)
            return
        if d.dtype == t.dtype == INDEX and not loads(d) and not loads(t):
            if self._same(substitute(d, self.meaning), substitute(t, self.values)):
                return
            raise self._differ("an index has another value", d, t)
        if type(d) is not type(t) or d.dtype != t.dtype:
            raise self._differ("another expression stands there", d, t)
        if isinstance(d, _REORDERED):
            self._terms(d, t)
            return
        if isinstance(d, Var):
            there = self.values.get(t, t) if isinstance(t, Var) else t
            if self.meaning.get(d, d) is not there:
                raise self._differ("another variable stands there", d, t)
            return
        below_d = [c for c in d.children() if isinstance(c, Expr)]
        below_t = [c for c in t.children() if isinstance(c, Expr)]
        if not below_d and d is not t:
            raise self._differ("another constant stands there", d, t)
        if len(below_d) != len(below_t) or getattr(d, "op", None) != getattr(t, "op", None):
            raise self._differ("another operation stands there", d, t)
        for a, b in zip(below_d, below_t, strict=True):
            self._expr(a, b)

    def _terms(self, d: Expr, t: Expr) -> None:
        """Operands in any order: each of the description's finds one of the tile's."""
        cls = type(d)
        mine, theirs = joined(d, cls), joined(t, cls)
        if len(mine) != len(theirs):
            raise self._differ(f"{len(theirs)} operands stand where {len(mine)} should", d, t)
        if self._assign(mine, theirs):
            return
        left = [x for x in mine if not any(self._fits(x, y) for y in theirs)]
        right = [y for y in theirs if not any(self._fits(x, y) for x in mine)]
        if left and right:
            self._expr(left[0], right[0])
        raise self._differ("the operands do not correspond", d, t)

    def _assign(self, mine: list[Expr], theirs: list[Expr]) -> bool:
        """Whether each of mine can have one of theirs for itself; then `places` says how."""
        if not mine:
            return True
        for k, t in enumerate(theirs):
            saved = dict(self.places)
            try:
                self._expr(mine[0], t)
            except Difference:
                found = False
            else:
                found = self._assign(mine[1:], theirs[:k] + theirs[k + 1 :])
            if found:
                return True
            self.places = saved
        return False

    def _fits(self, d: Expr, t: Expr) -> bool:
        """Whether two operands are the same, taken alone."""
        saved = self.places
        self.places = dict(saved)
        found = self._assign([d], [t])
        self.places = saved
        return found

    # -------------------------------------------------------------------------------- places

    def _access(self, description: _Access, tile: _Access) -> None:
        """Let a description's buffer stand for a part of a tile's buffer."""
        d, t = description.buffer, tile.buffer
        if d.dtype != t.dtype:
            raise self._differ(f"{t.name} holds {t.dtype}, not {d.dtype}", description, tile)
        if d.scope not in ("global", t.scope):
            raise self._differ(f"{t.name} lies in {t.scope}, not {d.scope}", description, tile)
        facts = self.state.facts
        mine = [facts.simplify(substitute(e, self.meaning)) for e in description.indices]
        theirs = [facts.simplify(substitute(e, self.values)) for e in tile.indices]
        place = self.places.get(d)
        if place is None:
            place = self._aligned(d, mine, t, theirs) or self._spread(d, mine, t, theirs)
            if place is None:
                raise self._differ(
                    f"{d.name} does not stand for a part of {t.name}", description, tile
                )
            self.places[d] = place
        there = place.at(mine)
        if place.buffer is not t or not all(map(self._same, there, theirs)):
            raise self._differ(
                f"{d.name} does not stand for one part of {t.name}", description, tile
            )

    def _aligned(
        self, d: nodes.Buffer, mine: Sequence[Expr], t: nodes.Buffer, theirs: Sequence[Expr]
    ) -> OperandPlace | None:
        """A box: the description's dimensions are the tile's last ones."""
        skip = t.rank - d.rank
        if skip < 0:
            return None
        base: list[Expr] = []
        for k, e in enumerate(theirs):
            low = e if k < skip else self.state.facts.simplify(e - mine[k - skip])
            if free_vars(low) & self.inner:
                return None
            base.append(low)
        steps = [tuple([int(k == n + skip) for n in range(d.rank)]) for k in range(t.rank)]
        return OperandPlace(t, tuple(base), tuple(steps))

    def _spread(
        self, d: nodes.Buffer, mine: Sequence[Expr], t: nodes.Buffer, theirs: Sequence[Expr]
    ) -> OperandPlace | None:
        """Dimensions in another order or with gaps: each index moves with one loop of its own."""
        loops = sorted(self.inner, key=lambda v: v.name)
        facts = self.state.facts
        rows = [[0] * d.rank for _ in theirs]
        for n, e in enumerate(mine):
            if is_const(d.shape[n], 1):
                continue
            form = dict(facts.linear(e, loops) or ())
            others = set().union(*[free_vars(x) for x in mine if x is not e])
            alone = [v for v, count in form.items() if count and v not in others]
            if len(form) != 1 or not alone:
                return None
            for k, there in enumerate(theirs):
                count = dict(facts.linear(there, loops) or ()).get(alone[0], 0)
                if count % form[alone[0]]:
                    return None
                rows[k][n] = count // form[alone[0]]
        place = OperandPlace(t, self._rest(theirs, rows, mine), tuple(map(tuple, rows)))
        moved = [[k for k, row in enumerate(rows) if row[n]] for n in range(d.rank)]
        one_each = [ks for n, ks in enumerate(moved) if not is_const(d.shape[n], 1)]
        separate = all(len(ks) == 1 for ks in one_each)
        distinct = len({ks[0] for ks in one_each if ks}) == len(one_each)
        if not separate or not distinct or any(free_vars(b) & self.inner for b in place.base):
            return None
        return place

    def _rest(
        self, theirs: Sequence[Expr], rows: Sequence[Sequence[int]], mine: Sequence[Expr]
    ) -> tuple[Expr, ...]:
        """What is left of the tile's indices without the parts that move."""
        out = []
        for e, row in zip(theirs, rows, strict=True):
            rest = e
            for step, index in zip(row, mine, strict=True):
                if step:
                    rest = rest - index * step
            out.append(self.state.facts.simplify(rest))
        return tuple(out)

    def _check_disjoint(self) -> None:
        """Buffers that the instruction writes must not share memory with its others."""
        for (a, x), (b, y) in itertools.combinations(self.places.items(), 2):
            if x.buffer is y.buffer and {a, b} & self.written and not self._disjoint(a, x, b, y):
                why = f"{a.name} and {b.name} both stand for parts of {x.buffer.name}, which are "
                raise self._differ(f"{why}not known to be apart", None, None)

    def _disjoint(self, a: nodes.Buffer, x: OperandPlace, b: nodes.Buffer, y: OperandPlace) -> bool:
        for k in range(x.buffer.rank):
            low, high = _ends(x, a, k)
            first, last = _ends(y, b, k)
            facts = self.state.facts
            if facts.prove(high < first) or facts.prove(last < low):
                return True
        return False


def _ends(p: OperandPlace, b: nodes.Buffer, dim: int) -> tuple[Expr, Expr]:
    low = high = p.base[dim]
    for step, extent in zip(p.steps[dim], b.shape, strict=True):
        reach = (extent - 1) * step
        low, high = (low + reach, high) if step < 0 else (low, high + reach)
    return low, high


def _narrowed(e: Expr) -> Expr:
    """A conversion without the one inside it, where that keeps every value."""
    while isinstance(e, Cast) and isinstance(e.value, Cast):
        inner = e.value
        if not dt.holds(inner.dtype, inner.value.dtype):
            break
        e = Cast(e.type, inner.value)
    return e.value if isinstance(e, Cast) and e.type == e.value.dtype else e


def _orders(description: nodes.Stmt, tile: nodes.Stmt) -> Iterator[nodes.Stmt]:
    """The description with the loops of its nest in the orders that fit the tile's extents."""
    yield description
    loops, units, body = _nest(description)
    others, _, _ = _nest(tile)
    if len(loops) != len(others) or not isinstance(body, nodes.BlockRealize):
        return
    wanted = [value_of(x.extent) for x in others]
    for order in itertools.islice(itertools.permutations(loops), 1, _MOST_ORDERS):
        if [value_of(x.extent) for x in order] == wanted:
            yield nodes.nested([*units, *order], body)


_MOST_ORDERS = 120
"""How many orders of a description's loops are looked at: all of five."""


def _nest(s: nodes.Stmt) -> tuple[list[nodes.For], list[nodes.For], nodes.Stmt]:
    """The loops around a statement, those of one iteration apart, and the statement."""
    loops: list[nodes.For] = []
    units: list[nodes.For] = []
    while isinstance(s, nodes.For):
        (units if is_const(s.extent, 1) else loops).append(s)
        s = s.body
    return loops, units, s
