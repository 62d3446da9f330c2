"""Where marks are cut into digits."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from smelt.ir.expr import Expr

from .nodes import IterMark, IterSplit, Sizes, value


class Digit(NamedTuple):
    """The part of a mark between two neighbouring cuts."""

    mark: IterMark
    position: int  # counted from the lowest


class Cuts:
    """The cuts that splits make in marks: each of them a multiple of those below it.

    conflict  says of which mark the splits want cuts that are no multiples of each other; the
              digits of such splits are not known
    """

    def __init__(self, z: Sizes, marks: Iterable[IterMark], splits: Iterable[IterSplit]) -> None:
        """Cuts marks where splits of them begin and end."""
        self.sizes = z
        self.conflict: str | None = None
        self.chains: dict[IterMark, list[Expr]] = {m: [z.one] for m in marks}
        self._ends: dict[IterMark, list[Expr]] = {m: [] for m in self.chains}
        for s in splits:
            self._insert(s.source, s.lower_factor)
            upper = z.times(s.lower_factor, s.extent)
            if z.at_least(upper, s.source.extent):
                self._ends[s.source].append(upper)
            else:
                self._insert(s.source, upper)

    def _insert(self, mark: IterMark, at: Expr) -> None:
        z, chain = self.sizes, self.chains[mark]
        position = self._position(mark, at)
        if position is None:
            clash = next(c for c in chain if not z.divides(c, at))
            self.conflict = self.conflict or (f"{value(z, mark)} is divided at {clash} and at {at}")
        elif position == len(chain) or chain[position] is not at:
            chain.insert(position, at)

    def _position(self, mark: IterMark, at: Expr) -> int | None:
        """Where a cut stands or would stand among those of a mark; None where it fits nowhere."""
        z, chain = self.sizes, self.chains[mark]
        for position, c in enumerate(chain):
            if c is at:
                return position
            if not z.divides(c, at):
                return position if z.divides(at, c) else None
        return len(chain)

    def fits(self, mark: IterMark, at: Expr) -> bool:
        """Whether a mark could have this cut too."""
        return self.sizes.at_least(at, mark.extent) or self._position(mark, at) is not None

    def reach(self, mark: IterMark) -> Expr:
        """One more than the largest value that the digits of a mark can stand for."""
        z = self.sizes
        last = self.chains[mark][-1]
        size = z.ceil(mark.extent, last)
        for end in self._ends[mark]:
            wider = z.exact(end, last)
            if wider is not None and z.at_least(wider, size):
                size = wider
        return z.times(size, last)

    def size(self, d: Digit) -> Expr:
        """How many values a digit has."""
        chain = self.chains[d.mark]
        above = chain[d.position + 1] if d.position + 1 < len(chain) else self.reach(d.mark)
        return self.sizes.floor(above, chain[d.position])

    def digits(self, s: IterSplit) -> list[tuple[Digit, Expr]]:
        """The digits of a split, the topmost first, and their scales; none where not known."""
        z, chain = self.sizes, self.chains[s.source]
        upper = z.times(s.lower_factor, s.extent)
        start = _index(chain, s.lower_factor)
        end = len(chain) if z.at_least(upper, s.source.extent) else _index(chain, upper)
        if start is None or end is None:
            return []
        low = chain[start]
        return [
            (Digit(s.source, k), z.times(z.floor(chain[k], low), s.scale))
            for k in range(end - 1, start - 1, -1)
        ]

    def parts(self, mark: IterMark) -> list[list[tuple[Digit, Expr]]]:
        """The digits of each part of a fused mark, and their weights in it.

        None for a part whose digits are not known, or do not fill it: only the topmost one may have
        more digits than values.
        """
        out = []
        for s in mark.parts:
            digits = self.digits(s)
            size = self.product(d for d, _ in digits)
            if digits and size is not s.extent and s is not mark.parts[0]:
                text = str(value(self.sizes, s.source))
                self.conflict = self.conflict or f"{text} is not divided evenly"
                digits = []
            out.append(digits)
        return out

    def source(self, mark: IterMark) -> list[tuple[Digit, Expr]]:
        """The digits that a fused mark is made of, and their weights in it; none if not known."""
        parts = self.parts(mark)
        return [pair for part in parts for pair in part] if all(parts) else []

    def product(self, digits: Iterable[Digit]) -> Expr:
        """How many values some digits have together."""
        return functools.reduce(self.sizes.times, map(self.size, digits), self.sizes.one)

    def split(self, d: Digit, scale: Expr) -> IterSplit:
        """A digit as a split."""
        return IterSplit(d.mark, self.chains[d.mark][d.position], self.size(d), scale)

    def name(self, d: Digit) -> str:
        """A digit as text."""
        return str(value(self.sizes, self.split(d, self.sizes.one)))


def _index(chain: list[Expr], at: Expr) -> int | None:
    return next((k for k, c in enumerate(chain) if c is at), None)


def resolved(z: Sizes, s: IterSplit) -> list[IterSplit] | None:
    """A split of a fused mark as splits of its parts; None where it divides one unevenly."""
    mark = s.source
    start, end = s.lower_factor, z.times(s.lower_factor, s.extent)
    top = z.at_least(end, mark.extent)
    out: list[IterSplit] = []
    for a in mark.parts:
        stop = z.times(a.scale, a.extent)
        if (z.at_least(a.scale, end) and not top) or z.at_least(start, stop):
            continue
        low = start if z.at_least(start, a.scale) else a.scale
        high = stop if top or z.at_least(end, stop) else end
        skip, count, scale = z.exact(low, a.scale), z.exact(high, low), z.exact(low, start)
        # below the end of its own mark a part has nothing above it that could be cut off
        open_end = a is mark.parts[0] and z.at_least(
            z.times(a.lower_factor, a.extent), a.source.extent
        )
        even = high is stop or open_end or z.divides(high, stop)
        if skip is None or count is None or scale is None or not even:
            return None
        lower = z.times(a.lower_factor, skip)
        out.append(IterSplit(a.source, lower, count, z.times(scale, s.scale)))
    return out
