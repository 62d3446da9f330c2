"""One mark for digits that belong together, so that no digit has two uses.

The simplifier resolves what it can, and so the digits of one sum arrive as those of several:
`(i * 6 + j) // 12` as `i // 2`, but `(i * 6 + j) % 4` as it is written. Marks that share digits are
therefore joined, and an index that uses a part of a fused mark uses the mark instead. After that
each digit has exactly one use, or the map is not shown to be injective.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from smelt.ir.expr import Expr

from .cuts import Cuts, Digit, resolved
from .nodes import IterMark, IterSplit, IterSum, NotAffine, Sizes, outer_first, value
from .parse import Parser

_ROUNDS = 200
"""Each round joins two marks or moves one index to an outer mark; real maps take a few."""


class _DigitOwner(NamedTuple):
    """Where a digit stands: in the source of a fused mark, at a weight."""

    mark: IterMark
    weight: Expr


_Parts = Mapping[IterSplit, tuple[list[IterSplit], Expr]]
"""Splits and what they become: other splits, plus a constant."""


class Digits:
    """The digits of the marks behind some sums.

    sums   the sums, each digit with one use
    marks  what they are made of, each before its own parts
    cuts   how the marks are cut
    """

    def __init__(self, parser: Parser, sums: Sequence[IterSum]) -> None:
        """Brings the sums into that form; NotAffine where it is not found."""
        self.parser = parser
        self.sizes: Sizes = parser.sizes
        self.sums = list(sums)
        for _ in range(_ROUNDS):
            self.refused: str | None = None
            used = [s.source for total in self.sums for s in total.args]
            self.marks = outer_first([*parser.constrained, *used])
            self.cuts = Cuts(self.sizes, self.marks, self._splits())
            self.owners = self._owners()
            if not (self._resolve() or self._join_marks() or self._lift()):
                break
        else:
            self.refused = "the map is too involved"
        reason = self.cuts.conflict or self.refused
        if reason is not None:
            raise NotAffine(reason)
        self.uses = self._used_once()

    def _splits(self) -> Iterator[IterSplit]:
        for total in self.sums:
            yield from total.args
        for m in self.marks:
            yield from m.parts

    def _owners(self) -> dict[Digit, list[_DigitOwner]]:
        """The fused marks that have a digit as a part."""
        owners: dict[Digit, list[_DigitOwner]] = {}
        for m in self.marks:
            for part in self.cuts.parts(m):
                for d, weight in part:
                    owners.setdefault(d, []).append(_DigitOwner(m, weight))
        return owners

    def _shift(self, mark: IterMark) -> Expr:
        """A fused mark less the sum of its splits."""
        assert isinstance(mark.source, IterSum)
        return self.sizes.less(mark.source.base, mark.low)

    def _plain(self, mark: IterMark) -> bool:
        """Whether a fused mark is just the sum of its splits, and all of that."""
        return not self._fixed(mark) and self._shift(mark) is self.sizes.zero

    def _fixed(self, mark: IterMark) -> bool:
        return mark in self.parser.constrained or mark in self.parser.flipped

    def _refuse(self, reason: str) -> bool:
        self.refused = self.refused or reason
        return False

    def _text(self, mark: IterMark) -> str:
        return str(value(self.sizes, mark))

    # ---------------------------------------------------------------------------- rewriting

    def _rewrite(self, parts: _Parts) -> bool:
        """Puts other splits in the place of some, everywhere."""
        self.sums = [self._rewritten(total, parts) for total in self.sums]
        for m in self.marks:
            if isinstance(m.source, IterSum) and any(s in parts for s in m.source.args):
                m.source = self._rewritten(m.source, parts)
                if m in self.parser.flipped:
                    self.parser.flipped.remove(m)  # it is a sum of other flipped marks now
        return True

    def _rewritten(self, total: IterSum, parts: _Parts) -> IterSum:
        if not any(s in parts for s in total.args):
            return total
        base, args = total.base, []
        for s in total.args:
            new, offset = parts.get(s, ([s], self.sizes.zero))
            args += new
            base = self.sizes.plus(base, offset)
        return self.parser.canonical(args, base)

    # --------------------------------------------------------------------------- resolution

    def _resolve(self) -> bool:
        """A mark whose digits in use are all digits of its parts is used no more."""
        for m in self.marks:
            if not m.parts:
                continue
            uses = [s for s in self._splits() if s.source is m]
            if self._plain(m):
                parts = {s: (p, self.sizes.zero) for s in uses if (p := self._resolved(s))}
                if len(parts) == len(uses):
                    return self._rewrite(parts)
                if self._narrow(m, uses):
                    return True
            elif m in self.parser.flipped:
                turned = {s: t for s in uses if (t := self._turned(s)) is not None}
                if turned:
                    return self._rewrite(turned)
        return False

    def _narrow(self, mark: IterMark, uses: Sequence[IterSplit]) -> bool:
        """The digits of a mark from the lowest one in use to the topmost one become a mark."""
        z, chain = self.sizes, self.cuts.chains[mark]
        positions = {d.position for s in uses for d, _ in self.cuts.digits(s)}
        low, high = min(positions, default=0), max(positions, default=0) + 1
        if not all(self.cuts.digits(s) for s in uses) or (low == 0 and high >= len(chain)):
            return False
        end = mark.extent if high == len(chain) else chain[high]
        extent = z.exact(end, chain[low])
        if extent is None:
            return False
        fine = self._resolved(IterSplit(mark, chain[low], extent, z.one))
        if not fine:
            return False
        total = self.parser.canonical(fine, z.zero)
        new = IterMark(total, self.parser.reach(total.args), z.zero, z.zero)
        if new.extent is not extent:
            return False
        parts = {}
        for s in uses:
            lower = z.floor(s.lower_factor, chain[low])
            top = z.at_least(z.times(lower, s.extent), extent)
            size = z.ceil(extent, lower) if top else s.extent
            parts[s] = ([IterSplit(new, lower, size, s.scale)], z.zero)
        return self._rewrite(parts)

    def _turned(self, s: IterSplit) -> tuple[list[IterSplit], Expr] | None:
        """A digit of extent - 1 - d as a digit of d turned round; None for all of them."""
        z = self.sizes
        (a,) = s.source.parts
        top = self.parser.reaches_end(s)
        lower, upper = s.lower_factor, z.times(s.lower_factor, s.extent)
        if (top and lower is z.one) or not z.divides(lower if top else upper, a.extent):
            return None
        start = z.times(a.lower_factor, lower)
        if not all(self.cuts.fits(a.source, z.times(start, n)) for n in (z.one, s.extent)):
            return None
        scale = z.less(z.zero, s.scale)
        digit = IterSplit(a.source, start, s.extent, scale)
        return [digit], z.times(s.scale, z.less(s.extent, z.one))

    def _resolved(self, s: IterSplit) -> list[IterSplit] | None:
        """A split of a fused mark as digits of its parts, where it ends where they do."""
        fine = resolved(self.sizes, s)
        for a in fine or ():
            upper = self.sizes.times(a.lower_factor, a.extent)
            if not all(self.cuts.fits(a.source, at) for at in (a.lower_factor, upper)):
                return None
        return fine

    # -------------------------------------------------------------------------------- joins

    def _join_marks(self) -> bool:
        """Makes digits of one mark of two marks that share a digit; overlapping ones last."""
        for overlapping in (False, True):
            for d, places in self.owners.items():
                if self.cuts.size(d) is self.sizes.one:
                    continue
                for a, b in combinations([place.mark for place in places], 2):
                    if self._join(a, b, d, overlapping):
                        return True
        return False

    def _join(self, a: IterMark, b: IterMark, shared: Digit, overlapping: bool) -> bool:
        if a is b:
            return self._refuse(f"{self.cuts.name(shared)} occurs twice in {self._text(a)}")
        for outer, inner in ((a, b), (b, a)):
            if _behind(inner, outer):
                return not overlapping and self._lift_source(outer, inner)
        in_a, in_b = self.cuts.source(a), self.cuts.source(b)
        if not in_a or not in_b:
            return False
        at_a = [d for d, _ in in_a].index(shared)
        at_b = [d for d, _ in in_b].index(shared)
        if at_a < at_b or (at_a == at_b and len(in_a) < len(in_b)):
            a, b, in_a, in_b, at_a, at_b = b, a, in_b, in_a, at_b, at_a
        start = at_a - at_b  # where the first digit of b stands in a
        both = min(len(in_a) - start, len(in_b))
        same = all(in_a[start + k][0] == in_b[k][0] for k in range(both))
        flipped = a in self.parser.flipped or b in self.parser.flipped
        if same and not flipped:
            if both < len(in_b):
                done = overlapping and self._overlap(a, b, in_b[both:])
            elif self._plain(b):
                done = self._contain(a, b, in_a, start)
            else:
                done = start == 0 and self._align(a, b, in_a[both - 1][1])
            if done:
                return True
        return self._refuse(f"{self._text(a)} and {self._text(b)} share {self.cuts.name(shared)}")

    def _contain(
        self, a: IterMark, b: IterMark, in_a: list[tuple[Digit, Expr]], start: int
    ) -> bool:
        """The digits of a that make up b, from position `start` on, are said by b."""
        stop = start + len(self.cuts.source(b))
        if self.cuts.product(d for d, _ in in_a[start:stop]) is not b.extent:
            return False
        args = [self.cuts.split(d, weight) for d, weight in in_a]
        args[start:stop] = [IterSplit(b, self.sizes.one, b.extent, in_a[stop - 1][1])]
        assert isinstance(a.source, IterSum)
        a.source = self.parser.canonical(args, a.source.base)
        return True

    def _overlap(self, a: IterMark, b: IterMark, below: list[tuple[Digit, Expr]]) -> bool:
        """a ends with digits that b begins with: b is said by a new mark over all digits."""
        z = self.sizes
        twice = {d for d, _ in self.cuts.source(a)} & {d for d, _ in below}
        if twice or not (self._plain(a) and self._plain(b)):
            return False
        lower = self.cuts.product(d for d, _ in below)
        args = [IterSplit(a, z.one, a.extent, lower)]
        args += [self.cuts.split(d, weight) for d, weight in below]
        total = self.parser.canonical(args, z.zero)
        mark = IterMark(total, self.parser.reach(total.args), z.zero, z.zero)
        b.source = IterSum((IterSplit(mark, z.one, b.extent, z.one),), z.zero)
        return True

    def _align(self, a: IterMark, b: IterMark, weight: Expr) -> bool:
        """b, made of the topmost digits of a up to a weight, is said by a but for a shift."""
        z = self.sizes
        shift = z.less(self._shift(a), z.times(self._shift(b), weight))
        equal = weight is z.one and not self._fixed(a)
        if equal and (self._fixed(b) or z.at_least(z.zero, shift)):
            # the larger shift is that of the larger divisor
            a, b, shift = b, a, z.less(z.zero, shift)
        if self._fixed(b):
            return False
        parts: dict[IterSplit, tuple[list[IterSplit], Expr]] = {}
        for s in self._splits():
            if s.source is b:
                lower = z.times(weight, s.lower_factor)
                moved = self._shifted(a, lower, s, self.parser.reaches_end(s), shift)
                if moved is None:
                    return False
                parts[s] = ([moved[0]], moved[1])
        return self._rewrite(parts)

    def _shifted(
        self, mark: IterMark, lower: Expr, s: IterSplit, top: bool, shift: Expr
    ) -> tuple[IterSplit, Expr] | None:
        """The digits of mark - shift from `lower` on, as many as s has, and what must be added.

        (m - k) // c = m // c - k / c and (m - k) // c % d = m // c % d for multiples of c, of c*d
        """
        z = self.sizes
        if not top:
            fits = z.divides(z.times(lower, s.extent), shift)
            return (IterSplit(mark, lower, s.extent, s.scale), z.zero) if fits else None
        step = z.exact(shift, lower)
        if step is None:
            return None
        whole = IterSplit(mark, lower, z.ceil(mark.extent, lower), s.scale)
        return whole, z.less(z.zero, z.times(step, s.scale))

    # -------------------------------------------------------------------------------- lifts

    def _lift(self) -> bool:
        """An index that uses a digit of a fused mark's part uses the mark instead."""
        for k, total in enumerate(self.sums):
            parts = self._lifts(total, {d: p[0] for d, p in self.owners.items()})
            if parts:
                self.sums[k] = self._rewritten(total, parts)
                return True
        return False

    def _lift_source(self, outer: IterMark, inner: IterMark) -> bool:
        """What stands beside digits of `inner` and is itself part of it becomes its digits."""
        places = {d: p for d, held in self.owners.items() for p in held if p.mark is inner}
        assert isinstance(outer.source, IterSum)
        parts = self._lifts(outer.source, places)
        if parts:
            outer.source = self._rewritten(outer.source, parts)
        return bool(parts)

    def _lifts(self, total: IterSum, places: Mapping[Digit, _DigitOwner]) -> _Parts:
        """The splits of a sum with digits that are parts of marks, said by these."""
        z = self.sizes
        out: dict[IterSplit, tuple[list[IterSplit], Expr]] = {}
        for s in total.args:
            pairs = self.cuts.digits(s)
            if not any(d in places for d, _ in pairs):
                continue
            args, base = [], z.zero
            for d, scale in pairs:
                lifted = (
                    self._lifted(d, scale, places[d])
                    if d in places
                    else (self.cuts.split(d, scale), z.zero)
                )
                if lifted is None:
                    self._refuse(f"{self.cuts.name(d)} is part of {self._text(places[d].mark)}")
                    break
                args.append(lifted[0])
                base = z.plus(base, lifted[1])
            else:
                out[s] = args, base
        return out

    def _lifted(self, d: Digit, scale: Expr, place: _DigitOwner) -> tuple[IterSplit, Expr] | None:
        """A digit as one of the mark that it is part of, and what must be added."""
        z = self.sizes
        digit = self.cuts.split(d, scale)
        digits = self.cuts.source(place.mark)
        if place.mark in self.parser.flipped:
            if self.cuts.product(x for x, _ in digits) is not place.mark.extent:
                return None
            # digits of extent - 1 - d are those of d turned round
            weight = z.less(z.zero, place.weight)
            flipped = IterSplit(place.mark, weight, digit.extent, z.less(z.zero, scale))
            return flipped, z.times(z.less(digit.extent, z.one), scale)
        top = bool(digits) and digits[0][0] == d
        return self._shifted(place.mark, place.weight, digit, top, self._shift(place.mark))

    # ----------------------------------------------------------------------------- coverage

    def _used_once(self) -> Counter[Digit]:
        uses: Counter[Digit] = Counter()
        for s in self._splits():
            uses.update([d for d, _ in self.cuts.digits(s)])
        for d, count in uses.items():
            if count > 1 and self.cuts.size(d) is not self.sizes.one:
                raise NotAffine(f"{self.cuts.name(d)} is used {count} times")
        return uses

    def unused(self) -> list[str]:
        """The digits of iterators and constrained sums that no index uses, as text."""
        z = self.sizes
        chains = self.cuts.chains
        out = [
            str(value(z, m))
            for m in self.parser.marks.values()
            if m not in chains and m.extent is not z.one
        ]
        for m, chain in chains.items():
            digits = [Digit(m, k) for k in range(len(chain))]
            out += [
                self.cuts.name(d)
                for d in digits
                if not self.uses[d] and self.cuts.size(d) is not z.one
            ]
        return out

    def padded(self) -> list[IterMark]:
        """The marks whose digits stand for more values than the mark has."""
        z = self.sizes
        out = []
        for m, chain in self.cuts.chains.items():
            top = Digit(m, len(chain) - 1)
            below = any(self.uses[Digit(m, k)] for k in range(top.position))
            last = chain[-1]
            size = m.extent if below else z.times(z.ceil(m.extent, last), last)
            wider = self.cuts.reach(m) is not size
            if m.left is not z.zero or (wider and self.uses[top]):
                out.append(m)
        return out


def _behind(inner: IterMark, outer: IterMark) -> bool:
    """Whether a mark is made of digits of another one, directly or not."""
    return any(s.source is inner or _behind(inner, s.source) for s in outer.parts)
