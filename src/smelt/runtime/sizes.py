"""The symbolic sizes of a model: found from the inputs' shapes, checked before anything runs.

A size is read where it stands alone as an extent; one that stands in expressions only is solved
for. Ranges, and equations that operators need, are part of the metadata:

    symbols         ["n", "past"]
    size_ranges     {"n": [1, 16]}       from, to (None: no limit)
    size_equations  [["a * 2", "b", "node_add (add)", false]]    true: either may be 1 instead
    size_least      [["h - 4", "node_conv (conv2d)"]]    extents that must not be negative
    size_notes      ["m is n: node_add (add) needs it"]      sizes that the model's file has more
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smelt.runtime.errors import LoadError
from smelt.runtime.expression import evaluate, names_in


class ModelSizes:
    """What is known of the sizes of one model."""

    def __init__(
        self, model: str, metadata: Mapping[str, Any], shapes: Iterable[Sequence[int | str]]
    ) -> None:
        """Raises LoadError where a size cannot be found from any shape."""
        self.symbols: tuple[str, ...] = tuple(metadata.get("symbols", ()))
        ranges = metadata.get("size_ranges") or {}
        self.ranges = {n: (int(r[0]), r[1]) for n, r in ranges.items() if n in self.symbols}
        self.equations = [tuple(e) for e in metadata.get("size_equations", ())]
        self.least = [tuple(e) for e in metadata.get("size_least", ())]
        self.notes = list(metadata.get("size_notes", ()))
        extents = [d for shape in shapes for d in shape if isinstance(d, str)]
        self.solved = self._solvable(model, extents)

    def _solvable(self, model: str, extents: Sequence[str]) -> list[tuple[str, str]]:
        """(size, expression) in an order in which each can be solved."""
        known = {d for d in extents if d in self.symbols}
        found: list[tuple[str, str]] = []
        while not known.issuperset(self.symbols):
            more = [
                (name, d)
                for d in extents
                for name in names_in(d)
                if names_in(d) - known == {name} and self._is_linear(d, name)
            ]
            if not more:
                break
            found.append(more[0])
            known.add(more[0][0])
        for symbol in self.symbols:
            if symbol not in known:
                raise LoadError(
                    f"{model}: symbol {symbol!r} is no dimension of an input, "
                    "so no call could give its value"
                )
        return found

    @staticmethod
    def _is_linear(extent: str, name: str) -> bool:
        """Whether an expression grows with a size by the same amount everywhere."""
        others = dict.fromkeys(names_in(extent), 7)
        values = [evaluate(extent, {**others, name: v}) for v in (1, 2, 3, 4, 5, 6, 1000)]
        step = values[1] - values[0]
        even = all(v == values[0] + k * step for k, v in enumerate(values[:-1]))
        return even and step != 0 and values[-1] == values[0] + 999 * step

    def solve(self, name: str, extent: str, value: int, sizes: Mapping[str, int]) -> int | None:
        """The size for which an expression has a value; None where there is none from 0 on."""
        low, high = (evaluate(extent, {**sizes, name: v}) for v in (0, 1))
        if high == low or (value - low) % (high - low):
            return None
        found = (value - low) // (high - low)
        return found if found >= 0 else None

    def outside(self, name: str, value: int) -> str | None:
        """What is wrong with the value of a size; None: nothing."""
        if name not in self.ranges:
            return None
        low, high = self.ranges[name]
        if value >= low and (high is None or value <= high):
            return None
        return f"{low} to {high} needed" if high is not None else f"{low} or more needed"

    def broken(self, sizes: Mapping[str, int]) -> str | None:
        """The first equation that sizes break, or negative extent, as a text; None: they hold."""
        for left, right, why, either in self.equations:
            a, b = evaluate(left, sizes), evaluate(right, sizes)
            if a != b and not (either and 1 in (a, b)):
                or_one = " or one of them 1" if either else ""
                return f"{why} needs {left} = {right}{or_one}, but these are {a} and {b}"
        for extent, why in self.least:
            if (value := evaluate(extent, sizes)) < 0:
                return f"{why} would have a result whose extent {extent} is {value}"
        return None
