"""Footprints as text: one line per loop, one column per buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.ir.build import value_of
from smelt.ir.expr import Expr
from smelt.tir.printer_expr import ExprPrinter

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


def _three(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def reuse_text(reuse: float) -> str:
    """Three significant digits, none of them a zero after the point."""
    text = _three(reuse)
    return text.rstrip("0").rstrip(".") if "." in text else text


def table(found: Footprint) -> str:
    """The lines that print(footprint(func)) shows."""
    printer = ExprPrinter(lambda node: found.names.get(node, node.name))
    columns = found.total.touches
    head = ["one iteration of", "trips", "operations", *[_title(t) for t in columns], "memory"]
    rows = [head]
    for level in found.levels:
        by_buffer = {t.buffer: t for t in level.touches}
        cells = [by_buffer.get(t.buffer) for t in columns]
        rows.append(
            [
                _label(level),
                _count(level.trips, level.exact_trips, printer),
                _count(level.operations, level.exact_operations, printer),
                *["" if t is None else _touch(t, printer) for t in cells],
                _size(level.bytes, level.exact, printer),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    return "\n".join([*_heading(found, printer, any("<=" in line for line in lines)), *lines])


def _heading(found: Footprint, printer: ExprPrinter, bounds: bool) -> list[str]:
    """The totals, and what the columns mean."""
    total = found.total
    operations = _count(total.operations, total.exact_operations, printer)
    first = f"{found.func.name}: {operations} operations, "
    first += f"{_size(total.bytes, total.exact, printer)} of memory"
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


def _touch(t: Touched, printer: ExprPrinter) -> str:
    if t.opaque:
        return f"{_size(t.bytes, False, printer)} ?"
    reuse = "" if t.reuse is None else f" x{reuse_text(t.reuse)}"
    return _size(t.bytes, t.exact, printer) + reuse


def _size(e: Expr, exact: bool, printer: ExprPrinter) -> str:
    value = value_of(e)
    return _bound(exact) + (printer.text(e) + " B" if value is None else byte_text(value))


def _count(e: Expr, exact: bool, printer: ExprPrinter) -> str:
    value = value_of(e)
    return _bound(exact) + (printer.text(e) if value is None else count_text(value))


def _bound(exact: bool) -> str:
    return "" if exact else "<="
