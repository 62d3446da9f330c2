"""The memory footprint as bars: what one iteration of each loop touches, beside the caches."""

from __future__ import annotations

from smelt.ir.build import value_of
from smelt.ir.expr import Expr
from smelt.tir.analysis import Footprint, Level, Touched
from smelt.tir.analysis.table import byte_text, reuse_text

from .amounts import Amounts
from .element import Html, element, join, totals

_OPEN_ROWS = 48  # with more rows than this, those of single buffers begin folded


def summary(found: Footprint, amounts: Amounts) -> Html:
    """A function's totals, as a list of terms."""
    total = found.total
    terms = [
        ("operations", amounts.count(total.operations, total.exact_operations)),
        ("memory touched", amounts.size(total.bytes, total.exact)),
    ]
    if total.intensity is not None:
        terms.append(("operations per byte", f"{total.intensity:,.2f}"))
    return totals(terms)


def bars(found: Footprint, amounts: Amounts) -> Html:
    """One row for each loop, and inside it one for each buffer."""
    rows = sum(1 + len(level.touches) for level in found.levels)
    caches = ", ".join([f"{c.name} {byte_text(c.size)}" for c in amounts.caches])
    beside = f"Lines: {caches}." if caches else "The target's caches are not known."
    places = {c.name: f"{amounts.position(c.size):.2f}%" for c in amounts.caches}
    style = ";".join([f"--at-{name}:{at}" for name, at in places.items()])
    names = [element("span", n, class_=n, style=f"left:{at}") for n, at in places.items()]
    marks = element("span", names, class_="marks")
    text = (
        "Different bytes that one iteration touches, on a logarithmic scale. "
        f"{beside} ×N: loads and stores per element touched. ≤: at most."
    )
    return element(
        "div",
        element("p", text, class_="hint"),
        element("div", marks, class_="axis", aria_hidden="true"),
        [_level(level, amounts, rows <= _OPEN_ROWS) for level in found.levels],
        class_="bars",
        style=style or None,
    )


def _level(level: Level, amounts: Amounts, unfolded: bool) -> Html:
    name = "whole function" if level.source is None else level.name
    kind = "" if level.source is None else level.kind.split("_")[0]
    head = [
        element("span", name, class_=f"name head {kind}".strip(), style=f"--depth:{level.depth}"),
        _track(level.bytes, amounts, "total"),
        element("span", amounts.fit(level), class_="amount"),
    ]
    if not level.touches:
        return element("div", head, class_=f"{_row(level.bytes)} level")
    return element(
        "details",
        element("summary", head, class_=_row(level.bytes)),
        [_touched(t, level, amounts) for t in level.touches],
        class_="level",
        open=unfolded,
    )


def _touched(t: Touched, level: Level, amounts: Amounts) -> Html:
    scope = "" if t.buffer.scope == "global" else f" ({t.buffer.scope})"
    reuse = "" if t.reuse is None else f" ×{reuse_text(t.reuse)}"
    name = join(t.name, element("small", scope) if scope else None)
    return element(
        "div",
        element("span", name, class_="name", style=f"--depth:{level.depth + 1}"),
        _track(t.bytes, amounts, "buffer" if not scope else "buffer elsewhere"),
        element("span", amounts.size(t.bytes, t.exact), element("b", reuse), class_="amount"),
        element("span", _details(t, amounts), class_="more"),
        class_=_row(t.bytes),
    )


def _details(t: Touched, amounts: Amounts) -> str:
    if t.opaque:
        return "a call that is not understood has all of it"
    box = " × ".join([amounts.count(e) for e in t.box]) or "one element"
    reads = amounts.count(t.reads, t.exact_counts)
    writes = amounts.count(t.writes, t.exact_counts)
    return f"box {box}; loads {reads}, stores {writes}"


def _row(size: Expr) -> str:
    """Where the size is not a number there is no bar, and the amount has its place."""
    return "row" if value_of(size) is not None else "row symbolic"


def _track(size: Expr, amounts: Amounts, kind: str) -> Html | None:
    value = value_of(size)
    if value is None:
        return None
    where = amounts.cache(value)
    bar = element(
        "span", class_=f"bar {kind} {where}".strip(), style=f"width:{amounts.position(value):.2f}%"
    )
    return element("span", bar, class_="track", aria_hidden="true")
