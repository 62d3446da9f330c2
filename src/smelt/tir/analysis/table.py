"""Footprints as text: one line per loop, one column per buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.ir.build import value_of
from smelt.ir.expr import Expr, text_of
from smelt.ir.node import Node

if TYPE_CHECKING:
    from .footprint import Footprint, Level, Touched

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def byte_text(size: int) -> str:
    """Bytes for people, three digits: 640 B, 4.19 KiB, 1.50 MiB."""
    value, unit = float(size), 0
    while value >= 1000 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{_three(value)} {_UNITS[unit]}"


def count_text(count: int) -> str:
    """A number for people: all digits below a million, three and a unit above."""
    if abs(count) < 10**6:
        return f"{count:,}"
    value, units = count / 1000, "kMGTP"
    while abs(value) >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{_three(value)} {units[0]}"


def size_of(e: Expr, names: Mapping[Node, str]) -> str:
    """Bytes that may depend on sizes, for people."""
    value = value_of(e)
    return text_of(e, names) + " B" if value is None else byte_text(value)


def count_of(e: Expr, names: Mapping[Node, str]) -> str:
    """A number that may depend on sizes, for people."""
    value = value_of(e)
    return text_of(e, names) if value is None else count_text(value)


def _three(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def reuse_text(reuse: float) -> str:
    """Three significant digits, none of them a zero after the point."""
    text = _three(reuse)
    return text.rstrip("0").rstrip(".") if "." in text else text


def table(found: Footprint) -> str:
    """The lines that print(footprint(func)) shows."""
    columns, names = found.total.touches, found.names
    head = ["one iteration of", "trips", "operations", *[_title(t) for t in columns], "memory"]
    rows = [head]
    for level in found.levels:
        by_buffer = {t.buffer: t for t in level.touches}
        cells = [by_buffer.get(t.buffer) for t in columns]
        rows.append(
            [
                _label(level),
                _bound(level.exact_trips) + count_of(level.trips, names),
                _bound(level.exact_operations) + count_of(level.operations, names),
                *["" if t is None else _touch(t, names) for t in cells],
                _bound(level.exact) + size_of(level.bytes, names),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    return "\n".join([*_heading(found, any("<=" in line for line in lines)), *lines])


def _heading(found: Footprint, bounds: bool) -> list[str]:
    """The totals, and what the columns mean."""
    total, names = found.total, found.names
    operations = _bound(total.exact_operations) + count_of(total.operations, names)
    first = f"{found.func.name}: {operations} operations, "
    first += f"{_bound(total.exact) + size_of(total.bytes, names)} of memory"
    if total.intensity:
        first += f", {_three(total.intensity)} operations a byte"
    second = "different bytes that one iteration touches; xN: loads and stores per element"
    if bounds:
        second += "; <=: at most"
    if any(t.buffer.scope != "global" for t in total.touches):
        second += "; memory: scope global"
    return [first, second]


def _label(level: Level) -> str:
    if level.source is None:
        return "(all)"
    kind = "" if level.kind in ("serial", "while") else f" {level.kind}"
    return "  " * (level.depth - 1) + level.name + kind


def _title(t: Touched) -> str:
    return t.name if t.buffer.scope == "global" else f"{t.name} ({t.buffer.scope})"


def _touch(t: Touched, names: Mapping[Node, str]) -> str:
    if t.opaque:
        return f"<={size_of(t.bytes, names)} ?"
    reuse = "" if t.reuse is None else f" x{reuse_text(t.reuse)}"
    return _bound(t.exact) + size_of(t.bytes, names) + reuse


def _bound(exact: bool) -> str:
    return "" if exact else "<="
