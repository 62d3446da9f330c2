"""What quantization did to a model as a page: a table of layers that sorts by any column."""

from __future__ import annotations

from smelt.quantization import LayerReport, Report

from .element import Html, element, headings, join, totals
from .page import document

_QUIET = 60.0
"""A ratio of signal to noise, in dB, that is drawn as a whole bar."""


def quantization_page(report: Report, name: str) -> str:
    """The text of an HTML file about a quantized model."""
    before, after = report.bytes
    facts = {
        "layers in integers": f"{report.quantized} of {len(report.layers)}",
        "ranges by": f"{report.method}, {report.samples} samples",
        "weights": f"{before / 1e6:.2f} -> {after / 1e6:.2f} MB",
    }
    for what, value in (("the same class", report.agreement), ("distance", report.distance),
                        ("drop", report.drop)):  # fmt: skip
        if value is not None:
            facts[what] = f"{value:.2f} %"
    heads = headings(["layer", "operator", "weights", "form", "least", "most", "cut off in %",
                      "signal to noise in dB", "alone, in %", "why"])  # fmt: skip
    table = element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", [element("tr", _cells(v)) for v in report.layers]),
        class_="kernels",
    )
    title = f"Quantization of {name}"
    header = element(
        "header",
        element("h1", title),
        totals(facts.items()),
        [element("p", note, class_="hint") for note in report.notes],
    )
    main = element("main", element("div", table, class_="scroll"))
    return document(title, join(header, main), ("page.css", "profile.js"))


def _cells(v: LayerReport) -> list[Html]:
    least, most = v.input or (None, None)
    shape = " x ".join(map(str, v.weights))
    cells = [element("td", t) for t in (v.name, v.operator, shape, v.form)]
    cells += [_number(least), _number(most), _number(v.saturated), _bar(v.noise), _number(v.cost)]
    return [*cells, element("td", v.why)]


def _number(value: float | None) -> Html:
    text = "" if value is None else f"{value:.4g}"
    return element("td", text, class_="amount", data_value=str(-1 if value is None else value))


def _bar(noise: float | None) -> Html:
    if noise is None:
        return _number(None)
    width = max(0.0, min(100 * noise / _QUIET, 100))
    bar = element(
        "span", element("span", class_="bar", style=f"width:{width:.1f}%"), class_="track"
    )
    return element("td", f"{noise:.1f}", bar, class_="amount", data_value=str(noise))
