"""The memory of a model for a microcontroller as a page: blocks over addresses and steps."""

from __future__ import annotations

from smelt.micro.memory import Block, MemoryReport, PoolUse

from .element import Html, element, number, table
from .page import report_page

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 360, 80, 24
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d")


def memory_page(report: MemoryReport) -> str:
    """The text of an HTML file about a plan."""
    facts = {"workspace": f"{report.workspace:,} bytes", "least": f"{report.least:,} bytes",
             "constants": f"{report.constants:,} bytes", "inputs": f"{report.inputs:,} bytes",
             "outputs": f"{report.outputs:,} bytes"}  # fmt: skip
    peaks = set(report.peaks)
    rows = [
        element("tr", number(n, ","), element("td", ("▲ " if n in peaks else "") + s.kernel),
                number(s.live, ","), number(s.constants, ","))
        for n, s in enumerate(report.steps)
    ]  # fmt: skip
    drawn = [drawing(report)]
    if pools := [p for p in report.pools if not p.constants]:
        drawn = [x for p in pools for x in (element("h2", _title(p)), drawing(report, p))]
    drawn.append(table(["step", "kernel", "bytes alive", "bytes of constants"], rows))
    return report_page(f"Memory of {report.model}", facts, [_said(report)], drawn)


def _title(p: PoolUse) -> str:
    return f"{p.name}: {p.used:,} bytes" + ("" if p.size is None else f" of {p.size:,}")


def _said(report: MemoryReport) -> str:
    if report.workspace == report.least:
        return "No plan with these kernels in this order takes less: one step needs so much."
    more = report.workspace - report.least
    return f"{more:,} bytes more than a single step needs; a better plan may be there."


def drawing(report: MemoryReport, pool: PoolUse | None = None) -> Html:
    """Blocks as rectangles: steps from left to right, addresses from bottom to top. Where a result
    reaches into its operand both show. pool: those of one pool"""
    name, space = ("", report.workspace) if pool is None else (pool.name, pool.used)
    steps, top = max(1, len(report.steps)), max(1, space)
    across, up = (_WIDTH - _LEFT) / steps, (_HEIGHT - _BOTTOM) / top

    def box(n: int, b: Block) -> Html:
        title = element("title", f"{b.name}: {b.size:,} bytes at {b.offset:,}, steps {b.first} to "
                        f"{b.last}")  # fmt: skip
        return element(
            "rect", title, x=f"{_LEFT + b.first * across:.1f}", stroke="#fff", fill_opacity=0.75,
            y=f"{_HEIGHT - _BOTTOM - (b.offset + b.size) * up:.1f}", fill=_COLOURS[n % 7],
            width=f"{(b.last - b.first + 1) * across:.1f}", height=f"{b.size * up:.1f}",
        )  # fmt: skip

    words = [
        element("text", f"{value:,}", x=_LEFT - 6, y=f"{_HEIGHT - _BOTTOM - value * up + 4:.1f}",
                text_anchor="end", font_size=11, fill="currentColor")
        for value in sorted({0, space // 2, space})
    ]  # fmt: skip
    words += [
        element("text", str(n), x=f"{_LEFT + (n + 0.5) * across:.1f}", y=_HEIGHT - 8,
                text_anchor="middle", font_size=11, fill="currentColor")
        for n in range(0, steps, max(1, steps // 20))
    ]  # fmt: skip
    boxes = [box(n, b) for n, b in enumerate(report.blocks) if b.pool == name]
    return element("svg", boxes, words, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width="100%",
                   role="img", aria_label=f"memory of {report.model}")  # fmt: skip
