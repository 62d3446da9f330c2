"""A profile as a page: a table that sorts by any column, with a bar for each share."""

from __future__ import annotations

from smelt.runtime import KernelTime, ProfileReport
from smelt.runtime.limits import MachineLimits

from .element import Html, element, number, table
from .page import report_page


def profile_page(report: ProfileReport, limits: MachineLimits | None = None) -> str:
    """The text of an HTML file about a profile.

    limits  adds the share of the machine's limit that each kernel reaches
    """
    facts = {"run": f"{report.total:.4f} ms", "runs": str(len(report.runs) or "not known"),
             "between kernels": f"{report.between:.4f} ms"}  # fmt: skip
    columns = ["kernel", "ms", "% of the run", "calls", "GFLOP/s", "GB/s"]
    columns += [] if limits is None else ["% of the limit", "limit of"]
    ordered = sorted(report.kernels, key=lambda k: -k.milliseconds)
    rows = [element("tr", _cells(report, k, limits)) for k in ordered]
    notes = [*([] if limits is None else [limits.text()]), *report.notes(limits)]
    parts = [table([*columns, "operators", "nodes"], rows)]
    if report.control is not None:
        lines = "\n".join(report.control.lines())
        parts += [element("h2", "Control"), element("pre", lines)]
    return report_page(f"Profile of {report.model}", facts, notes, parts)


def _cells(report: ProfileReport, k: KernelTime, limits: MachineLimits | None) -> list[Html]:
    most = max([x.milliseconds for x in report.kernels]) or 1.0
    percent = 100 / (report.total or 1.0)
    share = _share(k.milliseconds * percent, most * percent)  # drawn beside the largest one
    cells = [_words(k.name), number(k.milliseconds, ".4f"), share, number(k.calls, ".0f")]
    cells += [number(k.gflops, ".1f"), number(k.gbytes, ".1f")]
    if limits is not None:
        cells += [_share(limits.share(k)), _words(limits.bound(k))]
    return [*cells, _words(" ".join(k.ops)), _words(", ".join(k.nodes))]


def _words(text: str) -> Html:
    return element("td", text)


def _share(percent: float, full: float = 100) -> Html:
    """A percentage, drawn too, up to `full`; what is over 100 has a mark."""
    bar = element("span", class_="bar", style=f"width:{min(100 * percent / full, 100):.2f}%")
    text = f"{percent:.1f}{'*' if percent > 100 else ''}"
    return element(
        "td", text, element("span", bar, class_="track"), class_="amount", data_value=str(percent)
    )
