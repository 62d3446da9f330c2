"""Charts as SVG inside a page: lines that go in steps, and clouds of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from .element import Html, element

Point = tuple[float, float]

WIDTH, HEIGHT = 360, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 10, 10, 38
_RADIUS = 2.5


@dataclass(frozen=True, slots=True)
class Axis:
    """What of a scale is drawn.

    name  with its unit
    log   whether equal steps are equal ratios; both ends are positive then
    """

    name: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, name: str, values: Iterable[float], log: bool = False) -> Axis:
        """An axis on which all values have a place."""
        given = list(values)
        low, high = min(given, default=1.0), max(given, default=1.0)
        if log:
            return cls(name, low / 1.1, high * 1.1, True)
        room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
        return cls(name, max(0.0, low - room) if low >= 0 else low - room, high + room)

    def at(self, value: float) -> float:
        """The place of a value: 0 at the low end, 1 at the high one."""
        if self.log:
            return log10(value / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round values to write beside it."""
        if not self.log:
            step = _round((self.high - self.low) / 4)
            first, last = ceil(self.low / step), floor(self.high / step)
            return [n * step for n in range(first, last + 1)]
        decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        few = len(decades) < 4
        found = [m * 10.0**d for d in decades for m in ((1, 2, 5) if few else (1,))]
        return [v for v in found if self.low <= v <= self.high]


def _round(value: float) -> float:
    """The least of 1, 2, 5, 10, ... that is no smaller."""
    size = 10.0 ** floor(log10(value))
    return next(m * size for m in (1, 2, 5, 10) if m * size >= value * (1 - 1e-9))


def steps(points: Sequence[Point], x: Axis, y: Axis, title: str) -> Html:
    """A line that keeps its height up to the next point."""
    places = [_place(p, x, y) for p in points]
    moves = [f"M{places[0][0]:.1f} {places[0][1]:.1f}"] if places else []
    moves += [f"H{across:.1f}V{down:.1f}" for across, down in places[1:]]
    return _chart(x, y, title, [element("path", d="".join(moves), class_="line-of")])


def cloud(points: Sequence[Point], failed: Sequence[float], x: Axis, y: Axis, title: str) -> Html:
    """Points, with the line on which both sides are equal.

    failed  places on the x axis of what has no other side: crosses at the top
    """
    low, high = max(x.low, y.low), min(x.high, y.high)
    shown = []
    if low < high:
        (x1, y1), (x2, y2) = _place((low, low), x, y), _place((high, high), x, y)
        shown.append(element("line", x1=_short(x1), y1=_short(y1), x2=_short(x2), y2=_short(y2),
                             class_="equal"))  # fmt: skip
    # points that fall on one place are drawn once: there may be thousands
    places = dict.fromkeys([(round(a), round(b)) for a, b in [_place(p, x, y) for p in points]])
    shown += [element("circle", cx=a, cy=b, r=_RADIUS) for a, b in places]
    crosses = dict.fromkeys([round(_place((v, y.high), x, y)[0]) for v in failed])
    down = _TOP + 5
    shown += [
        element("path", d=f"M{a - 3} {down - 3}l6 6m0 -6l-6 6", class_="failed") for a in crosses
    ]
    return _chart(x, y, title, shown)


def _place(p: Point, x: Axis, y: Axis) -> Point:
    across = _LEFT + x.at(p[0]) * (WIDTH - _LEFT - _RIGHT)
    return across, HEIGHT - _BOTTOM - y.at(p[1]) * (HEIGHT - _TOP - _BOTTOM)


def _short(value: float) -> str:
    return f"{value:.1f}"


def _chart(x: Axis, y: Axis, title: str, shown: Sequence[Html]) -> Html:
    """Axes, their ticks and names, around what is shown."""
    right, foot = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for v in x.ticks():
        across = _short(_place((v, y.low), x, y)[0])
        parts.append(element("line", x1=across, y1=_TOP, x2=across, y2=foot, class_="grid"))
        parts.append(element("text", f"{v:g}", x=across, y=foot + 14, class_="tick below"))
    for v in y.ticks():
        down = _place((x.low, v), x, y)[1]
        at = _short(down)
        parts.append(element("line", x1=_LEFT, y1=at, x2=right, y2=at, class_="grid"))
        at = _short(down + 4)
        parts.append(element("text", f"{v:g}", x=_LEFT - 5, y=at, class_="tick beside"))
    middle = (_TOP + foot) / 2
    names = [
        element("text", x.name, x=(_LEFT + right) / 2, y=HEIGHT - 6, class_="name-of"),
        element("text", y.name, x=12, y=middle, class_="name-of",
                transform=f"rotate(-90 12 {middle:g})"),
    ]  # fmt: skip
    drawn = element("svg", element("title", title), parts, shown, names, role="img", class_="chart",
                    viewBox=f"0 0 {WIDTH} {HEIGHT}")  # fmt: skip
    return element("figure", drawn, element("figcaption", title))
