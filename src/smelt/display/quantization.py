"""What quantization did to a model as a page: a table of layers that sorts by any column."""

from __future__ import annotations

from smelt.quantization import LayerReport, Report

from .element import Html, element, number, table
from .page import report_page

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
    heads = ["layer", "operator", "weights", "form", "least", "most", "cut off in %",
             "signal to noise in dB", "alone, in %", "why"]  # fmt: skip
    layers = table(heads, [element("tr", _cells(v)) for v in report.layers])
    return report_page(f"Quantization of {name}", facts, report.notes, [layers])


def _cells(v: LayerReport) -> list[Html]:
    least, most = v.input or (None, None)
    shape = " x ".join(map(str, v.weights))
    cells = [element("td", t) for t in (v.name, v.operator, shape, v.form)]
    cells += [number(e, ".4g") for e in (least, most, v.saturated)]
    return [*cells, _bar(v.noise), number(v.cost, ".4g"), element("td", v.why)]


def _bar(noise: float | None) -> Html:
    if noise is None:
        return number(None, "")
    width = max(0.0, min(100 * noise / _QUIET, 100))
    bar = element(
        "span", element("span", class_="bar", style=f"width:{width:.1f}%"), class_="track"
    )
    return element("td", f"{noise:.1f}", bar, class_="amount", data_value=str(noise))
