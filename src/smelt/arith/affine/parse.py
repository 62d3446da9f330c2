"""From index expressions to sums of splits.

Dividends of several terms become fused marks, so that a quotient or remainder is always
some digits of one mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from smelt.ir.expr import Add, Expr, FloorDiv, FloorMod, Mul, Sub, Var
from smelt.ir.node import postorder

from ..depend import Dependence
from .nodes import IterMark, IterSplit, IterSum, NotAffine, Sizes, value

_NO_SUM = "is no sum, quotient or remainder of iterators"
_STRANGE: dict[type, str] = {
    Mul: "is a product of iterators",
    FloorDiv: "has a divisor that varies",
    FloorMod: "has a divisor that varies",
}
"""What may be wrong with an expression of iterators, by its class."""


class Parser:
    """Reads expressions of one set of iterators.

    whole  a remainder by d keeps all d values even where fewer are reached: the rest is padding
    """

    def __init__(self, sizes: Sizes, iters: dict[Var, tuple[Expr, Expr]], whole: bool) -> None:
        """Marks of the iterators, which run over (low, extent)."""
        self.sizes = sizes
        self.cx = sizes.cx
        self.whole = whole
        self.marks: dict[Expr, IterMark] = {
            v: IterMark(v, extent, low, sizes.zero) for v, (low, extent) in iters.items()
        }
        self.constrained: list[IterMark] = []
        self._fused: dict[object, IterMark] = {}
        self.flipped: list[IterMark] = []
        self.varies = Dependence(self.marks)

    # ------------------------------------------------------------------------ expressions

    def parse(self, e: Expr) -> IterSum:
        """An expression as splits and a base, as it is written: only what is no sum, quotient or
        remainder is simplified. NotAffine where it is something else.
        """
        z = self.sizes
        done: dict[Expr, IterSum] = {}
        for n in postorder(e):
            if not isinstance(n, Expr):
                continue
            if isinstance(n, Var) and n in self.marks:
                done[n] = IterSum((self.all_of(self.marks[n]),), self.marks[n].low)
            elif not self.varies(n):
                done[n] = IterSum((), self.cx.simplify(n))
            elif isinstance(n, Add):
                done[n] = self.combined(done[n.a], done[n.b], z.one)
            elif isinstance(n, Sub):
                done[n] = self.combined(done[n.a], done[n.b], z.of(-1))
            elif isinstance(n, Mul) and not (self.varies(n.a) and self.varies(n.b)):
                moving, by = (n.b, n.a) if self.varies(n.b) else (n.a, n.b)
                done[n] = self.combined(IterSum((), z.zero), done[moving], done[by].base)
            elif isinstance(n, FloorDiv | FloorMod) and not self.varies(n.b):
                done[n] = self.divide(done[n.a], done[n.b].base)[isinstance(n, FloorMod)]
            else:
                simple = self.cx.simplify(n)
                if simple is n:
                    raise NotAffine(f"{n} {_STRANGE.get(type(n), _NO_SUM)}")
                done[n] = self.parse(simple)
        return done[e]

    def combined(self, a: IterSum, b: IterSum, by: Expr) -> IterSum:
        """a + b * by."""
        z = self.sizes
        args = [*a.args, *[_scaled(z, s, by) for s in b.args]]
        return self.canonical(args, z.plus(a.base, z.times(b.base, by)))

    # ------------------------------------------------------------------------------- sums

    def all_of(self, mark: IterMark) -> IterSplit:
        """A whole mark as a split."""
        return IterSplit(mark, self.sizes.one, mark.extent, self.sizes.one)

    def canonical(self, args: Iterable[IterSplit], base: Expr) -> IterSum:
        """Each digit once and with a positive scale; digits that are neighbours joined."""
        z = self.sizes
        scales: dict[tuple[IterMark, Expr, Expr], Expr] = {}
        for s in args:
            if s.extent is not z.one:
                key = (s.source, s.lower_factor, s.extent)
                scales[key] = z.plus(scales[key], s.scale) if key in scales else s.scale
        for mark in self.constrained:
            base = self._absorb(mark, scales, base)
        out: list[IterSplit] = []
        for (mark, lower, extent), scale in scales.items():
            if scale is z.zero:
                continue
            s = IterSplit(mark, lower, extent, scale)
            if not z.positive(scale):
                if not z.positive(z.less(z.zero, scale)):
                    raise NotAffine(f"the sign of the step {scale} is not known")
                base = z.plus(base, z.times(scale, z.less(extent, z.one)))
                s = self._flip(s)
            at = len(out)
            while at and z.at_least(s.scale, out[at - 1].scale):
                at -= 1
            out.insert(at, s)
        return IterSum(self._joined(out), base)

    def _absorb(
        self, mark: IterMark, scales: dict[tuple[IterMark, Expr, Expr], Expr], base: Expr
    ) -> Expr:
        """A constrained sum becomes its mark where the whole sum occurs; the new base."""
        z = self.sizes
        keys = [(s.source, s.lower_factor, s.extent) for s in mark.parts]
        if any(key not in scales for key in keys):
            return base
        by = scales[keys[-1]]
        wanted = [z.times(s.scale, by) for s in mark.parts]
        if any(scales[key] is not w for key, w in zip(keys, wanted, strict=True)):
            return base
        for key in keys:
            del scales[key]
        scales[mark, z.one, mark.extent] = by
        return z.plus(base, z.times(by, mark.low))

    def _flip(self, s: IterSplit) -> IterSplit:
        """-d * k  =  (extent - 1 - d) * k  +  what `canonical` has put into the base."""
        z = self.sizes
        scale = z.less(z.zero, s.scale)
        if s.source in self.flipped and s.extent is s.source.extent:
            (inner,) = s.source.parts
            return IterSplit(inner.source, inner.lower_factor, inner.extent, scale)
        for mark in self.flipped:
            (a,) = mark.parts
            if (a.source, a.lower_factor, a.extent) == (s.source, s.lower_factor, s.extent):
                return IterSplit(mark, z.one, mark.extent, scale)
        inner = IterSplit(s.source, s.lower_factor, s.extent, z.of(-1))
        source = IterSum((inner,), z.less(s.extent, z.one))
        mark = IterMark(source, s.extent, z.zero, z.zero)
        self.flipped.append(mark)
        return IterSplit(mark, z.one, mark.extent, scale)

    def _joined(self, args: list[IterSplit]) -> tuple[IterSplit, ...]:
        """x // (a*b) * b + x // a % b  =  x // a."""
        z = self.sizes
        out: list[IterSplit] = []
        for s in args:
            while out:
                a = out[-1]
                if not (
                    a.source is s.source
                    and a.lower_factor is z.times(s.lower_factor, s.extent)
                    and a.scale is z.times(s.scale, s.extent)
                ):
                    break
                extent = (
                    z.ceil(a.source.extent, s.lower_factor)
                    if self.reaches_end(a)
                    else z.times(a.extent, s.extent)
                )
                s = IterSplit(s.source, s.lower_factor, extent, s.scale)
                out.pop()
            out.append(s)
        return tuple(out)

    def reaches_end(self, s: IterSplit) -> bool:
        """Whether a split holds the topmost digit of its mark."""
        return self.sizes.at_least(self.sizes.times(s.lower_factor, s.extent), s.source.extent)

    def reach(self, args: Sequence[IterSplit]) -> Expr:
        """One more than the largest value of splits whose scales fit each other and end at 1."""
        z = self.sizes
        for s, below in self.steps(args, z.one):
            if s.scale is not below:
                raise NotAffine(
                    f"{value(z, s)} does not step by {below}, the number of values below it"
                )
        return z.times(args[0].scale, args[0].extent) if args else z.one

    def steps(self, args: Sequence[IterSplit], first: Expr) -> Iterator[tuple[IterSplit, Expr]]:
        """Splits from the lowest one on, with the scale at which each follows what is below it."""
        for s in reversed(args):
            yield s, first
            first = self.sizes.times(s.scale, s.extent)

    # --------------------------------------------------------------------------- division

    def divide(self, s: IterSum, d: Expr) -> tuple[IterSum, IterSum]:
        """s // d and s % d."""
        z = self.sizes
        if not z.positive(d):
            raise NotAffine(f"the divisor {d} is not shown to be positive")
        above: list[IterSplit] = []
        inner: list[IterSplit] = []
        for a in s.args:
            q = z.exact(a.scale, d)
            if q is None:
                inner.append(a)
            else:
                above.append(IterSplit(a.source, a.lower_factor, a.extent, q))
        whole = z.floor(s.base, d)
        base = z.less(s.base, z.times(whole, d))
        if not inner:
            return self.canonical(above, whole), IterSum((), base)
        if above and self._carries(s.args, inner[0], base, d):
            inner, above = list(s.args), []
        unit = inner[-1].scale
        parts = [z.exact(a.scale, unit) for a in inner]
        fine = z.exact(d, unit)
        if fine is None or None in parts:
            raise NotAffine(f"{d} is no multiple of the step {unit}")
        inner = [
            IterSplit(a.source, a.lower_factor, a.extent, q)
            for a, q in zip(inner, parts, strict=True)
            if q is not None
        ]
        shift = z.floor(base, unit)
        rest = z.less(base, z.times(shift, unit))
        high, low = self._cut(inner, shift, fine)
        return (
            self.canonical([*above, *high.args], z.plus(whole, high.base)),
            self.canonical(
                [_scaled(z, a, unit) for a in low.args], z.plus(rest, z.times(low.base, unit))
            ),
        )

    def _carries(self, args: Sequence[IterSplit], a: IterSplit, base: Expr, d: Expr) -> bool:
        """Whether a sum that fills its range would be torn apart at d, above the split a."""
        z = self.sizes
        if base is z.zero or z.at_least(d, z.plus(z.times(a.scale, a.extent), base)):
            return False
        return all(s.scale is below for s, below in self.steps(args, args[-1].scale))

    def _cut(self, args: list[IterSplit], shift: Expr, d: Expr) -> tuple[IterSum, IterSum]:
        """Quotient and remainder of a sum that steps by 1, less than d * (something) + d."""
        z = self.sizes
        reach = z.plus(self.reach(args), shift)
        if z.at_least(d, reach) and not self.whole:
            return IterSum((), z.zero), IterSum(tuple(args), shift)
        s = args[0]
        lower = z.one
        if len(args) == 1 and self.reaches_end(s) and shift is not z.zero:
            # (x // a + b) // d  =  (x + a*b) // (a*d)
            lower, shift = s.lower_factor, z.times(shift, s.lower_factor)
            args, own = self._origin(s.source)
            shift = z.plus(shift, own)
        elif len(args) == 1 and shift is z.zero and self._divides_evenly(s, d):
            return self._digits(s.source, s.lower_factor, d, s.extent)
        mark = self.fuse(args, shift)
        return self._digits(mark, lower, d, z.ceil(mark.extent, lower))

    def _divides_evenly(self, s: IterSplit, d: Expr) -> bool:
        return self.reaches_end(s) or self.sizes.divides(d, s.extent)

    def _digits(
        self, mark: IterMark, lower: Expr, d: Expr, extent: Expr
    ) -> tuple[IterSum, IterSum]:
        z = self.sizes
        high = IterSplit(mark, z.times(lower, d), z.ceil(extent, d), z.one)
        low = IterSplit(mark, lower, d, z.one)
        return IterSum((high,), z.zero), IterSum((low,), z.zero)

    def _origin(self, mark: IterMark) -> tuple[list[IterSplit], Expr]:
        """The splits and the shift that a mark was fused of; the mark itself otherwise."""
        z = self.sizes
        if mark.parts and mark.low is not z.zero and mark.left is not z.zero:
            return list(mark.parts), z.less(z.zero, mark.low)
        return [self.all_of(mark)], z.zero

    def fuse(self, args: Sequence[IterSplit], shift: Expr) -> IterMark:
        """A mark over a sum of splits plus a shift; where that is not 0, the start is padding."""
        z = self.sizes
        key = (tuple([(s.source, s.lower_factor, s.extent, s.scale) for s in args]), shift)
        found = self._fused.get(key)
        if found is None:
            if not z.at_least(shift, z.zero):
                raise NotAffine(f"the offset {shift} is not shown to be 0 or more")
            extent = z.plus(self.reach(args), shift)
            low = z.less(z.zero, shift)
            found = IterMark(IterSum(tuple(args), z.zero), extent, low, shift)
            self._fused[key] = found
        return found

    def constrain(self, e: Expr, low: Expr | None, high: Expr | None) -> None:
        """The values of a sum lie in low <= p < high: it becomes one mark."""
        z = self.sizes
        s = self.parse(e)
        first, end = s.base, z.plus(s.base, self.reach(s.args))
        if low is not None:
            first = z.larger(first, low)
        if high is not None:
            end = z.smaller(end, high)
        offset, extent = z.less(first, s.base), z.less(end, first)
        known = s.args[0].source if len(s.args) == 1 else None
        if known in self.constrained:  # another bound of the same sum
            known.low, known.extent = z.plus(known.low, offset), extent
        else:
            mark = IterMark(IterSum(s.args, z.zero), extent, offset, z.zero)
            self.constrained.append(mark)


def _scaled(z: Sizes, s: IterSplit, by: Expr) -> IterSplit:
    return IterSplit(s.source, s.lower_factor, s.extent, z.times(s.scale, by))
