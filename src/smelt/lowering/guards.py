"""Conditions move to where they cost least: out of loops, into loop bounds, or away.

A padded convolution reads `if_then_else(inside, x, 0)`. Adding a product with that 0 changes
nothing, so the whole update is guarded instead; the guard's part that depends on the kernel row
alone becomes that loop's bounds, and the rest is left for loop partitioning.
"""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.build import all_of, is_const, maximum, minimum
from smelt.ir.expr import GE, LT, Add, Call, Cast, Expr, FloatImm, IntImm, Max, Min, Mul, Var
from smelt.ir.walk import free_vars
from smelt.tir import nodes as tir
from smelt.tir.facts import conjuncts
from smelt.tir.rewrite import loads, map_stmts

from .accesses import is_self
from .ranges import RangeRewriter, analyzer_for
from .safe import in_bounds

# -------------------------------------------------------------------------- guard the update


def _neutral_guard(s: tir.BufferStore) -> tir.Stmt:
    """An update under the condition without which it changes nothing."""
    v = s.value
    if not isinstance(v, Add | Max | Min):
        return s
    old, term = (v.a, v.b) if is_self(v.a, s) else (v.b, v.a)
    neutral = 0.0 if isinstance(v, Add) else float("-inf") if isinstance(v, Max) else float("inf")
    found = _strip(term, neutral) if is_self(old, s) else None
    if found is None:
        return s
    condition, stripped = found
    return tir.IfThenElse(condition, tir.BufferStore(s.buffer, type(v)(old, stripped), s.indices))


def _strip(e: Expr, neutral: float) -> tuple[Expr, Expr] | None:
    """if_then_else(c, x, neutral) -> (c, x), also below products and casts where neutral is 0."""
    if isinstance(e, Call) and e.op == "if_then_else":
        c, x, other = e.args
        if isinstance(other, FloatImm | IntImm) and other.value == neutral:
            return c, x
    if isinstance(e, Cast) and neutral == 0.0:
        inside = _strip(e.value, neutral)
        return inside and (inside[0], Cast(e.type, inside[1]))
    if isinstance(e, Mul) and neutral == 0.0:
        left = _strip(e.a, neutral)
        if left is not None:
            return left[0], Mul(left[1], e.b)
        right = _strip(e.b, neutral)
        if right is not None:
            return right[0], Mul(e.a, right[1])
    return None


def guard_reductions(func: tir.PrimFunc) -> tir.PrimFunc:
    """acc = acc + if_then_else(c, x, 0) * w   ->   if c: acc = acc + x * w."""
    return func.replace(body=map_stmts(func.body, tir.BufferStore, _neutral_guard))


# ------------------------------------------------------------------------ safe guards vanish


class _DropSafe(RangeRewriter):
    """Guards on stores into registers whose value is loaded in bounds anyway."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.inside: dict[tir.Buffer, set[Var]] = {}
        self.vectors: dict[Var, tuple[Expr, Expr]] = {}

    def visit_Allocate(self, s: tir.Allocate) -> tir.Stmt:
        self.inside[s.buffer] = set()
        return super().visit_Allocate(s)

    def loop(self, s: tir.For) -> tir.Stmt:
        for variables in self.inside.values():
            variables.add(s.var)
        if s.kind != "vectorized":
            return super().loop(s)
        self.vectors[s.var] = (s.min, s.extent)
        new = super().loop(s)
        del self.vectors[s.var]
        return new

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        conditions, store = _conditions(s)
        if not isinstance(store, tir.BufferStore) or not self._accumulates(store):
            return super().visit_IfThenElse(s)
        kept = list(conditions)
        for c in conditions:
            others = [x for x in kept if x is not c]
            if self._spatial(c, store):
                with self.analyzer.assume(all_of(others)):
                    if self._in_bounds(store.value):
                        whole = self._any_lane(c)
                        kept = others if whole is None else [*others, whole]
        kept = [c for c in kept if not is_const(c, 1)]
        return tir.IfThenElse(all_of(kept), store) if kept else store

    def _any_lane(self, c: Expr) -> Expr | None:
        """The condition that some lane of a vector exists: whole vectors may still go."""
        if not isinstance(c, LT | GE) or not self.vectors:
            return None
        ends = self.analyzer.interval(c.a - c.b, self.vectors)
        if ends is None:
            return None
        return self.analyzer.simplify(ends[0] < 0 if isinstance(c, LT) else ends[1] >= 0)

    def _accumulates(self, s: tir.BufferStore) -> bool:
        """Whether a store is to registers, of what is read elsewhere."""
        return s.buffer.scope == "local" and not any(
            load.buffer is not s.buffer and load.buffer.scope == "local" for load in loads(s.value)
        )

    def _spatial(self, condition: Expr, s: tir.BufferStore) -> bool:
        """Whether the guard only tells which elements exist, not which terms they have."""
        if loads(condition):
            return False
        indices = {v for i in s.indices for v in free_vars(i)}
        return not (free_vars(condition) & self.inside.get(s.buffer, set())) - indices

    def _in_bounds(self, e: Expr) -> bool:
        """Whether every load is, under the conditions of the value itself."""
        if isinstance(e, Call) and e.op == "if_then_else":
            condition, then, other = e.args
            with self.analyzer.assume(condition):
                inside = self._in_bounds(then)
            return inside and self._in_bounds(condition) and self._in_bounds(other)
        if isinstance(e, tir.BufferLoad) and not in_bounds(e, self.analyzer):
            return False
        return all(self._in_bounds(c) for c in e.children() if isinstance(c, Expr))


def _conditions(s: tir.Stmt) -> tuple[list[Expr], tir.Stmt]:
    """The conditions of nested branches without others, and what is below them."""
    conditions: list[Expr] = []
    while isinstance(s, tir.IfThenElse) and s.else_body is None:
        conditions += conjuncts(s.condition)
        s = s.then_body
    return conditions, s


def drop_safe_guards(func: tir.PrimFunc) -> tir.PrimFunc:
    """The guard of a ragged tile goes where it only keeps unused register elements from a value."""
    return func.replace(body=_DropSafe(analyzer_for(func)).stmt(func.body))


# ------------------------------------------------------------------------------ hoisting


def hoist_guards(func: tir.PrimFunc) -> tir.PrimFunc:
    """Conjuncts leave the loops whose variables they do not mention."""
    return func.replace(body=map_stmts(func.body, tir.For, _hoist_loop))


def _hoist_loop(s: tir.For) -> tir.Stmt:
    conditions, body = _conditions(s.body)
    outside = [c for c in conditions if s.var not in free_vars(c) and not loads(c)]
    if not outside:
        return s
    inside = [c for c in conditions if c not in outside]
    inner = tir.IfThenElse(all_of(inside), body) if inside else body
    return tir.IfThenElse(all_of(outside), s.replace(body=inner))


# ------------------------------------------------------------------------------ loop bounds


class _Tighten(RangeRewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.lanes: set[Var] = set()

    def loop(self, s: tir.For) -> tir.Stmt:
        if s.kind == "vectorized":
            self.lanes.add(s.var)
        new = self.parts(s)
        self.lanes.discard(s.var)
        s, body = new, new.body
        if s.kind != "serial" or not isinstance(body, tir.IfThenElse) or body.else_body is not None:
            return s
        low, high = s.min, s.min + s.extent
        rest = []
        for c in conjuncts(body.condition):
            # all lanes of a vector share the loops inside: what tells lanes apart stays a mask
            shared = not loads(c) and not free_vars(c) & self.lanes
            bounds = self.analyzer.solve_bounds(c, s.var) if shared else None
            if bounds is None:
                rest.append(c)
                continue
            low = low if bounds[0] is None else maximum(low, bounds[0])
            high = high if bounds[1] is None else minimum(high, bounds[1])
        if len(rest) == len(conjuncts(body.condition)):
            return s
        inner = tir.IfThenElse(all_of(rest), body.then_body) if rest else body.then_body
        low, high = self.analyzer.simplify(low), self.analyzer.simplify(high)
        return s.replace(min=low, extent=self.analyzer.simplify(high - low), body=inner)


def tighten_loops(func: tir.PrimFunc) -> tir.PrimFunc:
    """for k in range(n): if a <= k < b: S   ->   for k in range(max(0, a), min(n, b)): S."""
    return func.replace(body=_Tighten(analyzer_for(func)).stmt(func.body))
