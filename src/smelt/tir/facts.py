"""What is known of the variables of one function: over the arithmetic Analyzer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from smelt.arith import Analyzer, Answer
from smelt.ir.build import all_of, is_const, maximum, minimum
from smelt.ir.expr import INDEX, And, Expr, FloorDiv, IntImm, Min, Mul, Var, const
from smelt.ir.walk import free_vars, joined, substitute
from smelt.tir.nodes import Block, Buffer, BufferStore, Evaluate, For, PrimFunc, Range, walk
from smelt.tir.rewrite import loads

Box = list[tuple[Expr, Expr]]
"""The smallest and largest index per dimension."""


class Facts:
    """Bounds of loop variables, block variables and symbolic sizes, and questions about them."""

    def __init__(self, func: PrimFunc, least: int = 0) -> None:
        """The ranges of everything that the function binds are read when something is asked.

        least  what all sizes of its buffers are at least; more may follow for some
        """
        self.func, self.least = func, least

    @functools.cached_property
    def analyzer(self) -> Analyzer:
        """What knows the ranges."""
        func = self.func
        found = {v for p in func.buffers for e in p.shape for v in free_vars(e)}
        sizes: dict[Expr, int] = dict.fromkeys(found, self.least)
        sizes |= {e: max(n, sizes.get(e, n)) for e, n in sizes_of(func).items()}
        analyzer = analyzer_of(sizes)
        inner: dict[Var, None] = {}
        for s in walk(func.body):
            if isinstance(s, For):
                analyzer.bind(s.var, s.min, s.extent)
            elif isinstance(s, Block):
                for i in s.iter_vars:
                    analyzer.bind(i.var, i.dom.min, i.dom.extent)
                inner |= {v: None for b in s.alloc_buffers for e in b.shape for v in free_vars(e)}
        for v in inner:
            if v not in sizes:
                analyzer.bind(v, (0, None))
        return analyzer

    def bind(self, var: Var, low: Expr, extent: Expr) -> None:
        """`var` runs from `low` over `extent` values."""
        self.analyzer.bind(var, low, extent)

    def simplify(self, e: Expr) -> Expr:
        """An equal, simpler expression."""
        if isinstance(e, IntImm | Var):
            return e
        return self.analyzer.simplify(e)

    def prove(self, condition: Expr) -> bool:
        """Whether a condition certainly holds."""
        if isinstance(condition, IntImm):
            return bool(condition.value)
        return bool(self.analyzer.can_prove(condition))

    def answer(self, condition: Expr) -> Answer:
        """YES, NO or UNKNOWN."""
        return self.analyzer.prove(condition)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions certainly have one value."""
        return a is b or is_const(self.analyzer.simplify(a - b), 0)

    def relax(self, e: Expr, loops: Sequence[For]) -> tuple[Expr, Expr] | None:
        """The smallest and the largest value of `e` while `loops` run; None where not known."""
        found = () if isinstance(e, IntImm) or not loops else free_vars(e)
        inside = [x for x in loops if x.var in found]
        if not inside:
            return e, e
        if not all(isinstance(x.min, IntImm) and isinstance(x.extent, IntImm) for x in inside):
            inside = list(loops)  # ends that depend on further ones
        domains = {x.var: (x.min, x.extent) for x in inside}
        return self.analyzer.interval(e, domains)

    def box(self, region: Sequence[Range], shape: Sequence[Expr], loops: Sequence[For]) -> Box:
        """The smallest box of an array of that shape which holds a region while loops run."""
        out: Box = []
        for r, size in zip(region, shape, strict=True):
            low = self.relax(r.min, loops)
            high = (
                low
                if is_const(r.extent, 1)
                else self.relax(self.simplify(r.min + r.extent - 1), loops)
            )
            if low is None or high is None:
                out.append((const(0, INDEX), self.simplify(size - 1)))
            else:
                out.append((low[0], high[1]))
        return out

    def union(self, a: Box, b: Box) -> Box:
        """The smallest box that holds both."""
        return [
            (least(x0, y0, self.prove), most(x1, y1, self.prove))
            for (x0, x1), (y0, y1) in zip(a, b, strict=True)
        ]

    def hull(self, boxes: Iterable[Box]) -> Box | None:
        """The smallest box that holds all; None where there are none."""
        return functools.reduce(lambda a, b: b if a is None else self.union(a, b), boxes, None)

    def contains(self, outer: Box, inner: Box) -> bool:
        """Whether one box certainly lies inside another."""
        return all(
            self.prove(low >= first) and self.prove(high <= last)
            for (low, high), (first, last) in zip(inner, outer, strict=True)
        )

    def covers(self, outer: Box, inner: Box, shape: Sequence[Expr]) -> bool:
        """Whether what a box holds of an array of that shape is certainly in another box."""
        return all(
            (self.prove(low >= first) or self.prove(first <= 0))
            and (self.prove(high <= last) or self.prove(last >= size - 1))
            for (low, high), (first, last), size in zip(inner, outer, shape, strict=True)
        )

    def extent(self, low: Expr, high: Expr) -> Expr:
        """The number of integers from low to high; at least 1 where it is a constant."""
        return self.simplify(high - low + const(1, INDEX))

    def upper(self, e: Expr) -> int | None:
        """The largest value of an expression where it is known as a number."""
        return self.analyzer.bounds(e)[1]

    def step(self, e: Expr, var: Var) -> Expr | None:
        """What one more of `var` adds to `e`; None where that depends on `var`."""
        difference = self.simplify(substitute(e, {var: var + 1}) - e)
        return None if var in free_vars(difference) else difference

    def linear(self, e: Expr, variables: Sequence[Var]) -> list[tuple[Var, int]] | None:
        """The constant factor of each variable in `e`; None where `e` is no such sum."""
        found = self.analyzer.linear(e, variables)
        if found is None:
            return None
        out = [(v, c.value) for v, c in found[0].items() if isinstance(c, IntImm)]
        return (
            out if len(out) == len(found[0]) and not free_vars(found[1]) & set(variables) else None
        )

    def conjunction(self, *conditions: Expr) -> Expr:
        """All conditions, without those that certainly hold."""
        parts = [p for c in conditions for p in conjuncts(c)]
        kept: dict[Expr, None] = {}
        for p in parts:
            if not self.prove(p):
                kept[p] = None
        return all_of(*kept)


def least(a: Expr, b: Expr, prove: Callable[[Expr], bool | None]) -> Expr:
    """The smaller one of two values, as one of them where that is proved."""
    if prove(a <= b):
        return a
    return b if prove(b <= a) else minimum(a, b)


def most(a: Expr, b: Expr, prove: Callable[[Expr], bool | None]) -> Expr:
    """The larger one of two values, as one of them where that is proved."""
    if prove(a >= b):
        return a
    return b if prove(b >= a) else maximum(a, b)


def sizes_of(func: PrimFunc) -> dict[Expr, int]:
    """The symbolic sizes of a program, and sums of them, with the least value of each.

    Sizes are the factors of the parameters' extents, and what their strides are made of; another
    scalar parameter may be negative. A program is only called where something that it writes has
    elements: what is a factor of all of that is at least 1, other sizes are at least 0.
    """
    found: dict[Expr, int] = {}
    for b in func.buffers:
        for e in b.shape:
            found.update({x: 0 for x in joined(e, Mul) if isinstance(x, Var)})
        for e in b.strides:
            sizes = sorted(free_vars(e), key=lambda v: v.name)
            found.update(dict.fromkeys(sizes, 0))
    if found:
        written = [
            {x: n for e in b.shape for x, n in _least(e).items()} for b in written_parameters(func)
        ]
        for x, n in written[0].items() if written else ():
            if all(x in w for w in written):
                found[x] = n
    return found


def analyzer_of(sizes: Mapping[Expr, int]) -> Analyzer:
    """An analyzer that knows the least values of sizes, and of sums of them."""
    analyzer = Analyzer({v: (n, None) for v, n in sizes.items() if isinstance(v, Var)})
    for e, n in sizes.items():
        if not isinstance(e, Var):
            analyzer.suppose(e >= n)
    return analyzer


@functools.lru_cache(maxsize=1000)
def _least(e: Expr) -> dict[Expr, int]:
    """What an extent consists of, each with its least value where the extent is at least 1."""
    analyzer = Analyzer(dict.fromkeys(free_vars(e), (0, None)))
    match e:
        case IntImm():
            return {}
        case Mul(a, b) if analyzer.can_prove(a >= 0) and analyzer.can_prove(b >= 0):
            return _least(a) | _least(b)
        case Min(a, b):
            return _least(a) | _least(b)
        case FloorDiv(a, IntImm(_, n)) if n > 0:
            return {a: n}
    simple = analyzer.simplify(e)
    return {e: 1} if simple is e else _least(simple)


def written_parameters(func: PrimFunc) -> list[Buffer]:
    """The parameters that a program may write, besides its workspaces."""
    found: set[Buffer] = set()
    for s in walk(func.body):
        if isinstance(s, BufferStore):
            found.add(s.buffer)
        elif isinstance(s, Block):
            found.update(r.buffer for r in s.writes)
        elif isinstance(s, Evaluate):
            found.update(x.buffer for x in loads(s.value))
    own = len(func.buffers) - int(func.attrs.get("workspaces", 0))
    return [b for b in func.buffers[:own] if b in found]


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that `and` joins, without those that are true."""
    return [c for c in joined(e, And) if not isinstance(c, IntImm) or not c.value]
