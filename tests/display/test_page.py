"""Pages: well formed, self-contained, safe, and right about what they show."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt
from smelt import te
from smelt.display import html
from smelt.display.amounts import Amounts, Cache, caches_of
from smelt.display.element import Html, element, join
from smelt.display.steps import changes, folded
from smelt.display.tokens import tokens
from smelt.ir.build import value_of
from smelt.ir.expr import const
from smelt.ir.module import IRModule
from smelt.pipeline import lower_program as lower
from smelt.relax.printer import script as graph_script
from smelt.tir.analysis import footprint
from smelt.tir.nodes import AssertStmt, Evaluate, For, PrimFunc, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from tests.schedule.support import conv, matmul

from .dom import Element, read
from .test_footprint import CALL, TURNS, tiled
from .test_show import model

EVIL = "\"><script>alert(1)</script>&amp;'</style>--><!--"


def pages() -> dict[str, Callable[[], str]]:
    m, n, k = (te.size_var(x) for x in "mnk")
    return {
        "program": lambda: html(matmul(3, 4, 5)),
        "lowered": lambda: html(lower(tiled())),
        "symbolic": lambda: html(tiled(m, n, k)),
        "conv": lambda: html(conv(1, 2, 4, 4, 3)),
        "threads": lambda: html(threads()),
        "while": lambda: html(parse(TURNS)),
        "host": lambda: html(parse(CALL)),
        "module": lambda: html(IRModule({"a": matmul(3, 4, 5), "b": conv(1, 2, 4, 4, 3)})),
        "graph": lambda: html(model()),
        "fused": lambda: html(model(), "fused"),
        "scheduled": lambda: html(model(), "scheduled"),
        "llvm": lambda: html(model(), "llvm"),
        "expression": lambda: html(te.size_var("n") + 1),
        "other target": lambda: html(matmul(3, 4, 5), target="cuda"),
    }


def threads() -> Schedule:
    """A matrix product for a graphics processor, with a tile in shared memory."""
    s = Schedule(matmul(8, 8, 4))
    i, j, k = s.get_loops("C")
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")
    s.compute_at(s.cache_read("C", 1, "shared"), k)
    return s


def checked(text: str) -> Element:
    """The tree of a page; asserts that it is well formed, complete in itself, and consistent."""
    page = read(text)
    ids = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for e in page.walk():
        assert not {"src", "srcset", "action", "data"} & e.attributes.keys()
        assert not [a for a in e.attributes if a.startswith("on")]
        for name in ("href", "data-box"):
            if name in e.attributes:
                assert e.attributes[name].removeprefix("#") in ids
                assert name != "href" or e.attributes[name].startswith("#")
    assert not re.search(r"https?:|@import|url\(", text)
    assert len(page.find("script")) == len(page.find("style")) == 1
    policy = [e for e in page.find("meta") if "http-equiv" in e.attributes]
    assert policy[0].attributes["content"].startswith("default-src 'none'; ")
    return page


@pytest.mark.parametrize("name", pages())
def test_pages_are_well_formed_and_complete(name: str) -> None:
    page = checked(pages()[name]())
    assert page.find("h1")[0].text == page.find("title")[0].text


def test_show_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    smelt.show(matmul(3, 4, 5), html=file)
    assert file.read_text() == html(matmul(3, 4, 5))
    assert capsys.readouterr().out == ""


# ---------------------------------------------------------------------------------- text and boxes


def text_of(section: Element) -> str:
    return "".join([line.text + "\n" for line in section.find("pre")[0].find("span", "line")])


def test_the_text_is_the_programs_and_every_line_knows_its_box() -> None:
    func = tiled()
    page = checked(html(func))
    assert text_of(page) == script(func)
    boxes = {e.attributes["id"]: e for e in page.find("details", "box")}
    lines = page.find("pre")[0].find("span", "line")
    for n, line in enumerate(lines, 1):
        around = [
            name
            for name, b in boxes.items()
            if int(b.attributes["data-first"]) <= n <= int(b.attributes["data-last"])
        ]
        assert line.attributes.get("data-box") == (around[-1] if around else None)
        assert bool(around) == (n > 2)


def test_there_is_a_box_for_every_loop_and_block() -> None:
    func = tiled()
    page = checked(html(func))
    found = footprint(func)
    loops = page.find("details", "loop")
    names = [b.find("summary")[0].find("b")[0].text for b in loops]
    assert names == [level.name for level in found.levels[1:]]
    kinds = [b.find("span", "kind")[0].text for b in loops]
    assert kinds == [s.kind for s in walk(func.body) if isinstance(s, For)]
    assert [e.text for e in loops[0].find("span", "extent")][:2] == ["× 4", "× 3"]
    (block,) = page.find("details", "block")
    clauses = {
        c.find("span", "label")[0].text: c.find("code")[0].text for c in block.find(of="clause")
    }
    assert clauses["reads"] == "B[v_k, v_j], A[v_i, v_k]"
    assert clauses["writes"] == "C[v_i, v_j]"
    assert clauses["where"] == "i_0 * 4 + i_1 < 13 and j_0 * 8 + j_1 < 19"


def test_threads_have_the_name_of_their_axis_and_scopes_are_said() -> None:
    page = checked(html(threads()))
    kinds = [e.text for e in page.find(of="nest")[0].find("span", "kind")]
    assert kinds[:3] == ["blockIdx.x", "threadIdx.x", "serial"]
    assert [e.text for e in page.find("ul", "legend")[0].find("li")] == ["serial", "thread_binding"]
    assert "The target's caches are not known." in page.find("p", "hint")[0].text
    names = [e.text for e in page.find(of="level")[0].find("span", "name")]
    assert "A_shared (shared)" in names or "B_shared (shared)" in names


def test_marks_are_lines_of_the_text() -> None:
    page = checked(html(matmul(3, 4, 5), mark={"j": "a <b>note</b>"}))
    (note,) = page.find("span", "note")
    assert note.text.strip() == "^^^^^^^^^^^^^^^^^^ a <b>note</b>".replace(
        "^" * 18, "^" * len("for j in range(4)")
    )


def test_functions_of_a_module_have_a_table_of_contents_and_links() -> None:
    page = checked(html(model(), "fused"))
    contents = page.find("nav")[0].find("a")
    sections = page.find("section")
    assert [a.text for a in contents] == [s.find("h2")[0].text for s in sections]
    assert [a.attributes["href"] for a in contents] == ["#" + s.attributes["id"] for s in sections]
    calls = [a for a in sections[0].find("a") if a.text == "fused_relu_add"]
    assert calls[0].attributes["href"] == "#" + sections[1].attributes["id"]
    module = smelt.stages.stage_module(model(), "fused")
    assert text_of(sections[0]) == graph_script(IRModule({"main": module["main"]}))


# ------------------------------------------------------------------------------------- footprints


def test_bars_have_the_bytes_of_the_footprint() -> None:
    func = matmul(64, 64, 64)
    page = checked(html(func, target="llvm -mtriple=aarch64-linux-gnu"))
    found = footprint(func)
    rows = page.find(of="level")
    assert len(rows) == len(found.levels)
    for row, level in zip(rows, found.levels, strict=True):
        widths = [
            float(b.attributes["style"].removeprefix("width:").removesuffix("%"))
            for b in row.find("span", "bar")
        ]
        sizes = [value_of(level.bytes), *[value_of(t.bytes) for t in level.touches]]
        assert all(0 <= w <= 100 for w in widths)
        for (w, a), (v, b) in itertools.combinations(zip(widths, sizes, strict=True), 2):
            assert a is not None
            assert b is not None
            assert (w < v) == (a < b)
        kinds = [b.attributes["class"].split()[-1] for b in row.find("span", "bar")]
        assert kinds == ["L1" if (s or 0) <= 32 << 10 else "L2" for s in sizes]
    assert "L1 32.0 KiB, L2 1.00 MiB" in page.find("p", "hint")[0].text


def test_symbolic_sizes_have_no_bar_but_their_expression() -> None:
    page = checked(html(matmul(te.size_var("m"), te.size_var("n"), te.size_var("k"))))
    first = page.find(of="level")[0]
    assert not first.find("span", "bar")
    assert [e.text for e in first.find("span", "amount")[1:]] == [
        "k * m * 4 B",
        "k * n * 4 B",
        "m * n * 4 B",
    ]


def test_caches_of_targets() -> None:
    assert [c.name for c in caches_of("llvm -mtriple=aarch64-linux-gnu")] == ["L1", "L2"]
    assert caches_of("llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4") == ()
    assert caches_of("cuda") == ()
    here = caches_of(None)
    assert [c.size for c in here] == sorted({c.size for c in here})


def test_the_smallest_cache_that_holds_it() -> None:
    amounts = Amounts({}, (Cache("L1", 1000), Cache("L2", 4000)), 9000)
    assert [amounts.cache(n) for n in (0, 1000, 1001, 4000, 4001)] == [
        "L1",
        "L1",
        "L2",
        "L2",
        "memory",
    ]
    assert [amounts.position(n) for n in (1, 1000, 9000)] == sorted(
        amounts.position(n) for n in (1, 1000, 9000)
    )
    assert Amounts({}, (), 9000).cache(5) == ""
    assert amounts.count(const(0), exact=False) == "0"
    assert amounts.count(const(12_345), exact=False) == "≤ 12,345"


# ------------------------------------------------------------------------------------------- steps


def test_every_step_of_a_schedule_is_shown_with_what_it_changed(sch: Schedule) -> None:
    page = checked(html(sch))
    items = page.find("ol", "steps")[0].find("li")
    calls = [call for call, _ in sch.steps()["main"]]
    assert [i.find("summary")[0].find("code")[0].text for i in items] == calls
    assert [i.attributes["value"] for i in items] == [str(n + 1) for n in range(len(calls))]
    programs = [f for _, f in sch.steps()["main"]] + [sch.func]
    for item, before, after in zip(items, programs, programs[1:], strict=False):
        lines = item.find(of="diff")[0].find(of="line")
        old = [e.text[2:].strip() for e in lines if e.tag != "ins"]
        new = "".join([e.text[2:] + "\n" for e in lines if e.tag != "del"])
        assert old == [line.strip() for line in script(before).splitlines()]
        assert new == script(after)
    assert page.find("section")[-1].find("pre")[0].text == "".join(str(sch.trace).splitlines())


def test_changes_keep_the_order_of_both_texts() -> None:
    assert changes("a\nb\nc", "a\nx\n  c\nd") == [
        (" ", "a"), ("-", "b"), ("+", "x"), (" ", "  c"), ("+", "d"),
    ]  # fmt: skip
    assert changes("", "a") == [("+", "a")]


@given(st.lists(st.tuples(st.sampled_from("   +-"), st.sampled_from("abc")), max_size=60))
def test_folding_loses_no_line(found: list[tuple[str, str]]) -> None:
    drawn = read(f"<!DOCTYPE html>\n{join(*folded(found))}")
    assert [(e.text[0], e.text[2:]) for e in drawn.find(of="line")] == found
    for fold in drawn.find("details"):
        assert len(fold.find(of="line")) >= 8
        assert {e.tag for e in fold.find(of="line")} == {"span"}


# ------------------------------------------------------------------------------------------ safety


def evil() -> PrimFunc:
    func = matmul(3, 4, 5)
    body = func.body.replace(
        block=func.body.block.replace(annotations={"note": EVIL})  # type: ignore[attr-defined]
    )
    return func.replace(body=body).with_attrs(name=EVIL)


def test_names_and_notes_are_escaped() -> None:
    for text in (
        html(evil()),
        html(IRModule({EVIL: evil(), "b": evil()})),
        html(evil(), mark={"i": EVIL}),
        html(AssertStmt(const(True), EVIL)),
        html(Evaluate(te.size_var("n"))),
    ):
        page = checked(text)
        assert "alert(1)" not in page.find("script")[0].text
        assert "<script>alert" not in text
    assert page.find("h1")[0].text == "statement"
    assert checked(html(evil())).find("title")[0].text == EVIL


def test_elements_escape_what_is_no_markup() -> None:
    assert element("b", EVIL, title=EVIL).count("<") == 2
    assert join("<", Html("<br>"), None) == "&lt;<br>"
    assert element("p", [None, "a&b", element("br")], class_="x", hidden=True, id=None) == (
        '<p class="x" hidden>a&amp;b<br></p>'
    )


@pytest.mark.parametrize(
    "line",
    ["for i in range(-3, 4):", 'x["a\\"b"] = 1.5e-3  # T.f', "  ^^^ note for", "T.a.b(é_1)", ""],
)
def test_tokens_are_the_whole_line(line: str) -> None:
    assert "".join([part for _, part in tokens(line)]) == line


def test_token_kinds() -> None:
    found = [t for t in tokens('for i in T.serial(-3): x = "s"  # c') if t[0] is not None]
    assert found == [
        ("keyword", "for"), ("keyword", "in"), ("builtin", "T.serial"), ("number", "-3"),
        ("string", '"s"'), ("comment", "# c"),
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------- colours


def _luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    r, g, b = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_background(scheme: str) -> None:
    css = resources.files("smelt.display").joinpath("page.css").read_text()
    roots = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    assert len(roots) == 2
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", roots[scheme == "dark"]))
    back = ("paper", "panel", "lit", "lit-head", "added", "removed")
    text = [name for name in colours if name not in (*back, "edge")]
    assert len(text) == 17
    for front, behind in itertools.product(text, back):
        a, b = sorted([_luminance(colours[front]), _luminance(colours[behind])])
        limit = 4.5 if behind in ("paper", "panel") else 3.0
        assert (b + 0.05) / (a + 0.05) >= limit, f"{front} on {behind}"


def test_both_schemes_have_the_same_colours() -> None:
    css = resources.files("smelt.display").joinpath("page.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    names = [set(re.findall(r"--([\w-]+):", block)) for block in (light, dark)]
    assert names[0] - names[1] == {"mono"}
    assert set(re.findall(r"var\(--([\w-]+)", css)) - names[0] == {
        "kind", "cache", "depth", "at-L1", "at-L2", "at-L3",
    }  # fmt: skip
