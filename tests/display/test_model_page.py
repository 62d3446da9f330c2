"""The page of a whole model: its graph, its kernels, and what of it a browser is given."""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from smelt import Options
from smelt.display import Measured, model_page
from smelt.display.layers import Wire, layered
from smelt.runtime.kernel_times import KernelTime
from smelt.runtime.limits import MachineLimits
from smelt.runtime.report import MemoryInfo, ProfileReport

from .dom import Element, read
from .test_page import _luminance

EVIL = "</script><img src=x onerror=alert(1)>"


def value(name: str, *shape: int, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def saved(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
    return helper.make_model(
        helper.make_graph(nodes, EVIL, inputs, outputs),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def chain(count: int) -> onnx.ModelProto:
    """Softmax and relu in turns, each with a name; the first reads what the last reads, too."""
    nodes = []
    for n in range(count):
        kind = "Softmax" if n % 2 == 0 else "Relu"
        nodes.append(helper.make_node(kind, [f"v{n}"], [f"v{n + 1}"], name=f"{EVIL}{n}"))
    nodes.append(helper.make_node("Add", [f"v{count}", "v0"], ["y"], name="last"))
    return saved(nodes, [value("v0", 4, 8)], [value("y", 4, 8)])


def branch() -> onnx.ModelProto:
    """Exp or Neg, as an input says."""
    sides = [
        helper.make_graph([helper.make_node(op, ["x"], [op], name=op)], op, [], [value(op, 4)])
        for op in ("Exp", "Neg")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=sides[0], else_branch=sides[1])
    condition = value("c", dtype=TensorProto.BOOL)
    return saved([node], [condition, value("x", 4)], [value("y", 4)])


def made(tmp_path: Path, model: onnx.ModelProto, **options: Any) -> tuple[Element, Any]:
    """The page of a model, checked as far as every page has to be, and the data in it."""
    file = tmp_path / "page.html"
    model_page(model, file, **options)
    text = file.read_text()
    page = read(text)
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|@import|url\((?!#)|<img", text)
    for e in page.walk():
        assert not {"src", "srcset", "action"} & e.attributes.keys()
        assert not [a for a in e.attributes if a.startswith("on")]
    data, script = page.find("script")
    assert data.attributes["type"] == "application/json"
    assert "innerHTML" in script.text
    return page, json.loads(data.text)


def programs(page: Element) -> list[Element]:
    """What the page brings along of programs, unpacked."""
    packed = [base64.b64decode(t.text) for t in page.find("template")]
    return [read(f"<!DOCTYPE html>\n{zlib.decompress(p).decode()}") for p in packed]


def test_kernels_have_rows_and_boxes_and_share_programs(tmp_path: Path) -> None:
    page, data = made(tmp_path, chain(8))
    rows = page.find("tbody")[0].find("tr")
    boxes = [b for b in data["boxes"] if b["kind"] == "kernel"]
    assert [b["label"] for b in boxes] == [r.find("a")[0].text for r in rows]
    assert [b["kernel"] for b in boxes] == list(range(len(rows)))
    used = {int(r.attributes["data-program"]) for r in rows}
    assert len(programs(page)) == len(used) < len(rows)
    for program in programs(page):
        titles = [h.text for h in program.find("h3")]
        assert titles == ["Loops", "Text", "Memory footprint", "Steps of the schedule"]


def test_equal_kernels_have_the_nodes_of_their_own(tmp_path: Path) -> None:
    page, data = made(tmp_path, chain(8))
    names = [n for b in data["boxes"] if b["kind"] == "kernel" for n in b["nodes"]]
    assert names == [f"{EVIL}{n}" for n in range(8)] + ["last"]
    rows = page.find("tbody")[0].find("tr")
    assert ", ".join([r.find("small")[0].text for r in rows]) == ", ".join(names)
    inner = [b["label"] for b in data["boxes"] if b["kind"] == "operator"]
    assert inner == [b for _ in range(4) for b in ("softmax", "relu")] + ["add"]


def test_a_result_that_is_copied_hides_no_names(tmp_path: Path) -> None:
    model = chain(4)
    model.graph.output[0].CopyFrom(value("z", 8, 4))
    model.graph.node.append(helper.make_node("Transpose", ["y"], ["z"], name="t", perm=[1, 0]))
    page, _ = made(tmp_path, model)
    rows = page.find("tbody")[0].find("tr")
    names = [r.find("small")[0].text for r in rows]
    assert ", ".join(names[:-1]) == ", ".join([f"{EVIL}{n}" for n in range(4)] + ["last"])


def test_repetitions_fold_and_nothing_is_lost(tmp_path: Path) -> None:
    page, data = made(tmp_path, chain(120))
    blocks = [n for n, b in enumerate(data["boxes"]) if b["kind"] == "block"]
    assert len(blocks) > 3
    kernels = [b for b in data["boxes"] if b["kind"] == "kernel"]
    assert len(kernels) == len(page.find("tbody")[0].find("tr"))
    assert {b["parent"] for b in kernels} > set(blocks)
    last = next(n for n, b in enumerate(data["boxes"]) if b["kind"] == "output")
    reached, before = {last}, None
    while reached != before:  # everything leads to the result
        before = set(reached)
        reached |= {a for a, b, _ in data["links"] if b in reached}
    innermost = set(range(len(data["boxes"]))) - {b["parent"] for b in data["boxes"]}
    assert reached == innermost


def test_times_colour_the_kernels(tmp_path: Path) -> None:
    _, data = made(tmp_path, chain(6))
    names = [b["label"] for b in data["boxes"] if b["kind"] == "kernel"]
    times = [KernelTime(n, (), 1, 4.0**-k, 1000, 100) for k, n in enumerate(names)]
    report = ProfileReport("m", tuple(times), 2.0)
    measured = Measured(report, MachineLimits(1.0, 1.0), MemoryInfo(2048, 1024, 1024))
    page, data = made(tmp_path, chain(6), measured=measured)
    first = page.find("tbody")[0].find("tr")[0]
    assert [c.text for c in first.find("td")] == ["1.0000", "50.0", "0.0", "0", "100 B"]
    assert [b["heat"] for b in data["boxes"] if b["kind"] == "kernel"][:2] == [1.0, 0.5]
    assert "1.00 KiB" in page.find("dl")[0].text
    other = Measured(ProfileReport("m", tuple(times[1:]), 2.0))
    page, _ = made(tmp_path, chain(6), measured=other)
    assert [b.text for b in page.find("thead")[0].find("button")] == ["kernel", "bytes"]
    assert "another form of this model" in page.find("p", "hint")[0].text


def test_workers_write_the_same_page(tmp_path: Path) -> None:
    sizes = range(1, 41)  # a program each: so many that workers are used
    nodes = [helper.make_node("Relu", [f"x{n}"], [f"y{n}"]) for n in sizes]
    ends = [[value(f"{end}{n}", n) for n in sizes] for end in "xy"]
    done: list[tuple[str, int, int]] = []
    pages = []
    for workers in (0, 2):
        page = tmp_path / f"{workers}.html"
        model_page(
            saved(nodes, *ends),
            page,
            options=Options(workers=workers),
            progress=lambda *step: done.append(step),
        )
        pages.append(page.read_text())
    assert pages[0] == pages[1]
    assert pages[0].count("<template") == len(sizes)
    assert done.count(("pages", len(sizes), len(sizes))) == 2


def test_a_model_that_decides_has_its_graph(tmp_path: Path) -> None:
    page, data = made(tmp_path, branch())
    assert "decides while it runs" in page.find("p", "hint")[0].text
    assert not page.find("table")
    labels = [b["label"] for b in data["boxes"]]
    assert {"exp", "negative", "if", "x", "c", "y"} <= set(labels)
    gives = {(labels[a], labels[b]) for a, b, _ in data["links"]}
    assert gives == {("x", "exp"), ("x", "negative"), ("exp", "if"), ("negative", "if"),
                     ("c", "if"), ("if", "y")}  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[float], list[Wire]]:
    count = draw(st.integers(1, 25))
    widths = draw(st.lists(st.integers(40, 300), min_size=count, max_size=count))
    wires = []
    for n in range(-2, count):
        later = st.sets(st.integers(max(n + 1, 0), count - 1), max_size=4)
        targets = draw(later) if n + 1 < count else set()
        leaves = n >= 0 and draw(st.booleans())
        if targets or leaves:
            wires.append(Wire(n, n if n >= 0 else None, tuple(targets), leaves))
    return [float(w) for w in widths], wires


@given(networks())
def test_no_boxes_overlap_and_all_links_lead_down(network: tuple[list[float], list[Wire]]) -> None:
    widths, wires = network
    found = layered(widths, wires)
    rows: dict[int, list[tuple[float, float]]] = {}
    for layer, side, width in zip(found.layer, found.side, widths, strict=True):
        rows.setdefault(layer, []).append((side, width))
    for first, sides in found.passages.values():
        for n, side in enumerate(sides, first):
            rows[n].append((side, 0.0))
    for row in rows.values():
        for (a, wide), (b, other) in itertools.pairwise(sorted(row)):
            assert b - a >= (wide + other) / 2 + 5
        assert all(abs(side) + width / 2 <= found.width / 2 + 1 for side, width in row)
    for wire in wires:
        start = -1 if wire.source is None else found.layer[wire.source]
        first, sides = found.passages.get(wire.key, (start + 1, []))
        ends = [found.layer[t] for t in wire.targets] + [max(rows) + 1] * wire.leaves
        assert first == start + 1
        assert first + len(sides) == max(ends)
        assert wire.source is None or min(ends) > start


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_warm_and_cool_boxes(scheme: str) -> None:
    folder = resources.files("smelt.display")
    colours: dict[str, str] = {}
    for name in ("page.css", "model.css"):
        roots = re.findall(r":root \{(.*?)\}", folder.joinpath(name).read_text(), re.DOTALL)
        colours |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", roots[scheme == "dark"]))
    for behind in ("hot", "cool"):
        a, b = sorted([_luminance(colours["ink"]), _luminance(colours[behind])])
        assert (b + 0.05) / (a + 0.05) >= 4.5
