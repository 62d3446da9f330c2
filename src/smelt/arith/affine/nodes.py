"""The parts of an affine iterator map, and arithmetic on their sizes.

mark    something that runs over 0, ..., extent - 1: an iterator, or a fused sum of splits
split   mark // lower_factor % extent * scale: some digits of a mark
sum     splits, the one with the largest scale first, plus a base
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from smelt.ir.expr import Add, Binary, Expr, FloorDiv, IntImm, Max, Min, Mul, Sub, Var

from ..context import Context
from ..poly import subtract
from ..prove import nonnegative, positive


class NotAffine(Exception):
    """Why a binding is no affine map of the iterators, or is not shown to have a property."""


@dataclass(eq=False, slots=True)
class IterMark:
    """Something that runs over 0, ..., extent - 1.

    source  an iterator, or a sum of splits
    extent  the number of values
    low     the mark's value is that of its source less `low`
    left    so many values at the start are reached by padding only
    """

    source: Var | IterSum
    extent: Expr
    low: Expr
    left: Expr

    @property
    def parts(self) -> tuple[IterSplit, ...]:
        """What a fused mark is the sum of; none for an iterator."""
        return self.source.args if isinstance(self.source, IterSum) else ()

    def variables(self) -> set[Var]:
        """The iterators behind the mark."""
        return self.source.variables() if isinstance(self.source, IterSum) else {self.source}


@dataclass(frozen=True, eq=False, slots=True)
class IterSplit:
    """mark // lower_factor % extent * scale."""

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr


@dataclass(frozen=True, eq=False, slots=True)
class IterSum:
    """The sum of splits, the one with the largest scale first, plus a base."""

    args: tuple[IterSplit, ...]
    base: Expr

    def variables(self) -> set[Var]:
        """The iterators that the sum depends on."""
        return {v for s in self.args for v in s.source.variables()}


def outer_first(marks: Iterable[IterMark]) -> list[IterMark]:
    """Marks and what they are made of, each before its own parts; NotAffine for a circle."""
    done: dict[IterMark, None] = {}
    open_marks: set[IterMark] = set()

    def visit(m: IterMark) -> None:
        if m in open_marks:
            raise NotAffine("the digits of the map depend on each other in a circle")
        if m not in done:
            open_marks.add(m)
            for s in m.parts:
                visit(s.source)
            open_marks.discard(m)
            done[m] = None

    for m in marks:
        visit(m)
    return list(reversed(done))


class Sizes:
    """Arithmetic on extents and scales, which are kept in normal form.

    Equal sizes are the same object.
    """

    def __init__(self, cx: Context, dtype: str) -> None:
        """Sizes of one integer type under what a context knows."""
        self.cx = cx
        self.dtype = dtype
        self.zero: Expr = IntImm(dtype, 0)
        self.one: Expr = IntImm(dtype, 1)

    def of(self, value: int) -> Expr:
        """A constant."""
        return IntImm(self.dtype, value)

    def made(self, cls: type[Binary], fold: Callable[[int, int], int], a: Expr, b: Expr) -> Expr:
        """An operation on sizes; constants fold at once."""
        if type(a) is type(b) is IntImm:
            return IntImm(self.dtype, fold(a.value, b.value))
        return self.cx.simplify(cls(a, b))

    def times(self, a: Expr, b: Expr) -> Expr:
        """a * b."""
        return a if b is self.one else self.made(Mul, operator.mul, a, b)

    def plus(self, a: Expr, b: Expr) -> Expr:
        """a + b."""
        return self.made(Add, operator.add, a, b)

    def less(self, a: Expr, b: Expr) -> Expr:
        """a - b."""
        return self.made(Sub, operator.sub, a, b)

    def exact(self, a: Expr, b: Expr) -> Expr | None:
        """a / b where b divides a, else None."""
        q = self.floor(a, b)
        return q if self.times(q, b) is a else None

    def floor(self, a: Expr, b: Expr) -> Expr:
        """a // b."""
        return a if b is self.one else self.made(FloorDiv, operator.floordiv, a, b)

    def ceil(self, a: Expr, b: Expr) -> Expr:
        """a / b rounded up."""
        return self.floor(self.plus(a, self.less(b, self.one)), b)

    def smaller(self, a: Expr, b: Expr) -> Expr:
        """The minimum."""
        return self.made(Min, min, a, b)

    def larger(self, a: Expr, b: Expr) -> Expr:
        """The maximum."""
        return self.made(Max, max, a, b)

    def positive(self, a: Expr) -> bool:
        """Whether a > 0 is shown."""
        return a.value > 0 if isinstance(a, IntImm) else positive(self.cx, self.cx.poly(a))

    def at_least(self, a: Expr, b: Expr) -> bool:
        """Whether a >= b is shown."""
        if type(a) is type(b) is IntImm:
            return a.value >= b.value
        return a is b or nonnegative(self.cx, subtract(self.cx.poly(a), self.cx.poly(b)))

    def divides(self, a: Expr, b: Expr) -> bool:
        """Whether b is shown to be a multiple of a."""
        return self.exact(b, a) is not None


# --------------------------------------------------------------------------------- expressions


def value(z: Sizes, node: IterMark | IterSplit | IterSum) -> Expr:
    """What a mark, a split or a sum stands for, simplified."""
    return z.cx.simplify(_value(z, node))


def _value(z: Sizes, node: IterMark | IterSplit | IterSum) -> Expr:
    if isinstance(node, IterSum):
        total = node.base
        for s in node.args:
            total = _value(z, s) + total
        return total
    if isinstance(node, IterMark):
        source = node.source
        return (_value(z, source) if isinstance(source, IterSum) else source) - node.low
    e = _value(z, node.source) // node.lower_factor
    if not z.at_least(z.times(node.lower_factor, node.extent), node.source.extent):
        e = e % node.extent
    return e * node.scale


IterSplitExpr, IterSumExpr = IterSplit, IterSum
