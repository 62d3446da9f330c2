"""What a window over an image sees, side by side in memory, once for all that is made of it.

    for c in range(16):                          window = T.allocate((576,), "int8")
        for kh, kw, ic in T.grid(3, 3, 64):      for kh, kw, ic in T.grid(3, 3, 64):
            if_then_else(inside, x[...], z)  ->      window[kh * 192 + ...] = x[...] or z
                                                 for c in range(16): ... window[kh * 192 + ...]

Products of bytes are summed up several at a time where they follow one another, without a border.
Where each result has a window of its own (c is in x[...], too), a copy pays near the border alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from smelt.ir.build import value_of
from smelt.ir.expr import Call, Cast, Expr, Mul, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.access import flat_offset
from smelt.tir.rewrite import Rewriter, loads, renamed
from smelt.tir.script_ops import NO_PARTITION

from .partition import inside
from .ranges import RangeRewriter, analyzer_for

_LARGEST = 4096
"""Bytes of a window; that of a larger one stays where it is."""


class _Sum(NamedTuple):
    """The loops that a factor of products moves with, and the factor: shared, or guarded."""

    loops: tuple[tir.For, ...]
    factor: Expr


def _sums(s: tir.For) -> list[_Sum]:
    """The sums of products below a loop over results."""
    found = []
    inner: set[tir.Stmt] = set()
    for x in tir.walk(s.body):
        loops: list[tir.For] = []
        results = [s]
        if x in inner:
            continue
        while isinstance(x, tir.For) and x.kind in ("serial", "unrolled"):
            (loops if x.kind == "serial" else results).append(x)
            x = x.body
            inner.add(x)
        if not loops or not isinstance(x, tir.BufferStore):
            continue
        for e in _factors(x.value):
            own = [f for f in results if f.var in free_vars(e)]
            if {f.var for f in loops} <= free_vars(e) and not (
                own and isinstance(e, tir.BufferLoad)
            ):
                found.append(_Sum((*loops, *own), e))
    return found


def _factors(e: Expr) -> list[Expr]:
    """The bytes that a sum multiplies."""
    terms = [x for x in (getattr(e, "a", None), getattr(e, "b", None)) if isinstance(x, Mul)]
    casts = [f for t in terms for f in (t.a, t.b) if isinstance(f, Cast) and f.type == "int32"]
    return [f.value for f in casts if f.value.dtype in ("int8", "uint8") and loads(f.value)]


class _Windows(RangeRewriter):
    """Loops over results, from the inside."""

    def loop(self, s: tir.For) -> tir.Stmt:
        new = super().loop(s)
        if new is not s or s.kind != "serial" or not isinstance(s.body, tir.Allocate):
            return new
        sums = _sums(s)
        if len(sums) != 1 or (value_of(s.extent) or 2) < 2 or not self.apart(sums[0]):
            return s
        if s.var in free_vars(sums[0].factor):
            return self.own(s, sums[0])
        return self.gathered(s, sums[0], by_rows=True)

    def apart(self, u: _Sum) -> bool:
        """Whether bytes do not follow one another anyway, and there are few."""
        sizes = [value_of(f.extent) if value_of(f.min) == 0 else None for f in u.loops]
        if None in sizes or prod(sizes) > _LARGEST:  # type: ignore[arg-type]
            return False
        if not isinstance(u.factor, tir.BufferLoad):
            return isinstance(u.factor, Call) and u.factor.op == "if_then_else"
        steps = self.steps(u.factor, [f.var for f in u.loops])
        return steps != _dense(sizes)  # type: ignore[arg-type]

    def steps(self, x: tir.BufferLoad, variables: Sequence[Var]) -> list[int | None]:
        """How far a load goes with each of some variables; None: not known."""
        found = self.analyzer.linear(flat_offset(x.buffer, x.indices), variables)
        return [None if found is None else value_of(found[0].get(v, const(0))) for v in variables]

    def gathered(self, s: tir.Stmt, u: _Sum, by_rows: bool = False) -> tir.Stmt:
        """The window, then the results that read it.

        by_rows  whether it is copied by rows where all of it is inside
        """
        sizes = [int(value_of(f.extent) or 0) for f in u.loops]
        window = tir.Buffer("window", (const(prod(sizes)),), u.factor.dtype, "local")
        at = _place([f.var for f in u.loops], sizes)
        fresh = {f.var: Var(f.var.name, f.var.type) for f in u.loops}
        value, here = (substitute(e, fresh) for e in (u.factor, at))
        loops = [f.replace(var=fresh[f.var], kind="serial") for f in u.loops]
        fill = _filled(window, here, value, loops)
        guard = value.args[0] if by_rows and isinstance(value, Call) else None
        everywhere = None if guard is None else inside(guard, loops, self.analyzer)
        if everywhere is not None and isinstance(value, Call):
            fill = tir.IfThenElse(everywhere, self.copied(window, value.args[1], loops), fill)
        body = _Instead(u.factor, tir.BufferLoad(window, (at,))).stmt(s)
        return tir.Allocate(window, tir.seq(fill, body))

    def own(self, s: tir.For, u: _Sum) -> tir.Stmt:
        """A loop over results each of which has a window of its own: straight from the image where
        all of that is inside, gathered elsewhere."""
        assert isinstance(u.factor, Call)
        guard, value = u.factor.args[:2]
        together = s.var not in free_vars(guard)  # asked for all results at once
        body = s if together else s.body
        loops = tuple([f for f in u.loops if together or f is not s])
        everywhere = inside(guard, loops, self.analyzer)
        made: tir.Stmt = self.gathered(body, _Sum(loops, u.factor))
        if everywhere is not None:
            straight = renamed(_Instead(u.factor, value).stmt(body))
            made = tir.IfThenElse(everywhere, straight, made)
        return made if together else s.replace(body=made)

    def copied(self, window: tir.Buffer, value: Expr, loops: Sequence[tir.For]) -> tir.Stmt:
        """Loops that fill a window where all of it is inside, long ones where memory allows it."""
        variables, sizes = [f.var for f in loops], [int(value_of(f.extent) or 0) for f in loops]
        assert isinstance(value, tir.BufferLoad)
        d = _at_end(sizes, self.steps(value, variables))
        fresh: dict[Var, Expr] = {v: Var(v.name, v.type) for v in variables[:d]}
        one = Var("n", variables[0].type)
        for v, size, step in zip(variables[d:], sizes[d:], _dense(sizes)[d:], strict=True):
            fresh[v] = one // step % size if v is not variables[d] else one // step
        outer = [f.replace(var=v) for f, v in zip(loops, fresh.values(), strict=False)][:d]
        start = _place([f.var for f in outer], sizes[:d], prod(sizes[d:])) + one
        body: tir.Stmt = tir.BufferStore(window, substitute(value, fresh), (start,))
        body = tir.For(one, const(0, one.type), const(prod(sizes[d:]), one.type), body)
        for f in reversed(outer):
            body = f.replace(body=body)
        return body


def _at_end(sizes: Sequence[int], steps: Sequence[int | None]) -> int:
    """The first of the last dimensions that are one in memory."""
    d = len(sizes)
    while d > 0 and steps[d - 1] == prod(sizes[d:]):
        d -= 1
    return d


def _filled(window: tir.Buffer, at: Expr, value: Expr, loops: Sequence[tir.For]) -> tir.Stmt:
    """Loops that fill a window, asked for its border where that may change."""
    parts = value.args if isinstance(value, Call) else (const(True), value, value)
    guard, *values = parts
    sides: list[tir.Stmt] = [tir.BufferStore(window, v, (at,)) for v in values]
    for f in reversed(loops):
        if len(sides) == 2 and f.var in free_vars(guard):
            sides = [tir.IfThenElse(guard, sides[0], renamed(sides[1]))]
        sides = [tir.For(f.var, f.min, f.extent, x) for x in sides]
    whole = sides[0]
    return whole.replace(annotations={NO_PARTITION: True}) if isinstance(whole, tir.For) else whole


def _dense(sizes: Sequence[int]) -> list[int]:
    """Steps of dimensions that are one in memory."""
    return [prod(sizes[d + 1 :]) for d in range(len(sizes))]


def _place(variables: Sequence[Var], sizes: Sequence[int], unit: int = 1) -> Expr:
    at: Expr = const(0)
    for v, step in zip(variables, _dense(sizes), strict=True):
        at = at + v * (step * unit)
    return at


class _Instead(Rewriter):
    """One expression in place of another."""

    def __init__(self, old: Expr, new: Expr) -> None:
        super().__init__()
        self.memo[old] = new


def gather_windows(func: tir.PrimFunc) -> tir.PrimFunc:
    """Copy what a convolution's window sees before results are made of it."""
    return func.replace(body=_Windows(analyzer_for(func)).stmt(func.body))
