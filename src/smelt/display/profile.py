"""A profile as a page: a table that sorts by any column, with a bar for each share."""

from __future__ import annotations

from smelt.runtime import KernelTime, ProfileReport
from smelt.runtime.limits import MachineLimits

from .element import Html, element, headings, join, totals
from .page import document


def profile_page(report: ProfileReport, limits: MachineLimits | None = None) -> str:
    """The text of an HTML file about a profile.

    limits  adds the share of the machine's limit that each kernel reaches
    """
    facts = {"run": f"{report.total:.4f} ms", "runs": str(len(report.runs) or "not known"),
             "between kernels": f"{report.between:.4f} ms"}  # fmt: skip
    columns = ["kernel", "ms", "% of the run", "calls", "GFLOP/s", "GB/s"]
    columns += [] if limits is None else ["% of the limit", "limit of"]
    heads = headings([*columns, "operators", "nodes"])
    ordered = sorted(report.kernels, key=lambda k: -k.milliseconds)
    rows = [element("tr", _cells(report, k, limits)) for k in ordered]
    notes = [*([] if limits is None else [limits.text()]), *report.notes(limits)]
    header = element(
        "header",
        element("h1", f"Profile of {report.model}"),
        totals(facts.items()),
        [element("p", note, class_="hint") for note in notes],
    )
    table = element(
        "table", element("thead", element("tr", heads)), element("tbody", rows), class_="kernels"
    )
    parts = [element("div", table, class_="scroll")]
    if report.control is not None:
        lines = "\n".join(report.control.lines())
        parts += [element("h2", "Control"), element("pre", lines)]
    main = element("main", parts)
    return document(f"Profile of {report.model}", join(header, main), ("page.css", "profile.js"))


def _cells(report: ProfileReport, k: KernelTime, limits: MachineLimits | None) -> list[Html]:
    most = max([x.milliseconds for x in report.kernels]) or 1.0
    percent = 100 / (report.total or 1.0)
    share = _share(k.milliseconds * percent, most * percent)  # drawn beside the largest one
    cells = [_words(k.name), _number(k.milliseconds, 4), share, _number(k.calls, 0)]
    cells += [_number(k.gflops, 1), _number(k.gbytes, 1)]
    if limits is not None:
        cells += [_share(limits.share(k)), _words(limits.bound(k))]
    return [*cells, _words(" ".join(k.ops)), _words(", ".join(k.nodes))]


def _words(text: str) -> Html:
    return element("td", text)


def _number(value: float | None, digits: int) -> Html:
    text = "" if value is None else f"{value:.{digits}f}"
    return element("td", text, class_="amount", data_value=str(-1 if value is None else value))


def _share(percent: float, full: float = 100) -> Html:
    """A percentage, drawn too, up to `full`; what is over 100 has a mark."""
    bar = element("span", class_="bar", style=f"width:{min(100 * percent / full, 100):.2f}%")
    text = f"{percent:.1f}{'*' if percent > 100 else ''}"
    return element(
        "td", text, element("span", bar, class_="track"), class_="amount", data_value=str(percent)
    )
