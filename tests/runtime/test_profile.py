"""Profiles as data: what they say, and when they say that they are not to be trusted."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.runtime import InputError, KernelTime, ProfileReport
from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.kernel_times import ProfiledRun, short_nodes
from smelt.runtime.limits import Bandwidth, MachineLimits
from smelt.runtime.metadata import parse_levels
from smelt.runtime.profiler import report

LEVELS = (Bandwidth("L1", 1 << 15, 400.0), Bandwidth("L2", 1 << 19, 200.0),
          Bandwidth("memory", 1 << 27, 20.0))  # fmt: skip
LIMITS = MachineLimits(100.0, 20.0, LEVELS, ((99.0, 20.0), (101.0, 19.5)), threads=2)
CONV = KernelTime("conv", ("conv2d", "relu"), 1, 2.0, 180_000_000, 1 << 20, ("c0", "r0"))
COPY = KernelTime("copy", ("transpose",), 1, 1.0, 0, 1 << 27, ("t0",))


def profiled(*milliseconds: float) -> ProfileReport:
    """Runs in which the convolution takes two thirds and the copy a quarter."""
    runs = [
        ProfiledRun(t, (t * 2 / 3, t / 4), (int(1e7 * n), int(1e7 * n + t * 7e5)))
        for n, t in enumerate(milliseconds, 1)
    ]
    return ProfileReport.of("net", (CONV, COPY), runs)


def test_a_sum_of_reports_has_the_medians_of_all_runs() -> None:
    both = profiled(3.0, 3.0) + profiled(9.0)
    assert [round(k.milliseconds, 6) for k in both.kernels] == [2.0, 0.75]
    assert (both.total, len(both.runs)) == (3.0, 3)
    assert both.between == pytest.approx(0.25)
    other = ProfileReport.of("net", (COPY, CONV), profiled(1.0).runs)
    with pytest.raises(InputError, match="net: profiles of different kernels"):
        profiled(1.0) + other


def test_the_table_says_what_the_limit_is_and_marks_what_is_above() -> None:
    lines = profiled(3.0, 3.0, 3.0, 3.0).table(limits=LIMITS).splitlines()
    assert [line.split()[-1] for line in lines[:3]] == ["nodes", "r0", "t0"]
    assert "   90.0  arithmetic  c0, r0" in lines[1]
    assert "  894.8* memory      t0" in lines[2]
    assert lines[-2] == (
        "limits, measured on 2 threads: 100 GFLOP/s, 400 GB/s from L1, 200 GB/s from L2, "
        "20 GB/s from memory"
    )
    assert lines[-1].startswith("* above the limit of reading: ")


def test_kernels_above_the_arithmetic_limit_are_explained() -> None:
    slow = MachineLimits(10.0, 20.0)
    assert slow.bound(CONV) == "arithmetic"
    notes = profiled(3.0).notes(slow)
    assert [n.split(":")[0].split(",")[0] for n in notes] == [
        "* above the limit", "* above the limit of reading",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (((99.0, 20.0), (108.0, 20.0)), []),
        (
            ((80.0, 20.0), (108.0, 20.0)),
            ["the machine was busy: the limit moved between 80 and 108 GFLOP/s during the "
             "measurement"],
        ),
        (
            ((80.0, 20.0), (80.0, 10.0)),
            ["the machine was busy: the limit moved between 10 and 20 GB/s from memory during the "
             "measurement"],
        ),
    ],
)  # fmt: skip
def test_limits_that_move_are_told(
    measured: tuple[tuple[float, float], ...], said: list[str]
) -> None:
    limits = MachineLimits(100.0, 20.0, measured=measured)
    assert limits.moved() == said
    data = json.loads(profiled(1000.0).json(limits))
    assert data["busy"] == bool(said)
    assert data["notes"][: len(said)] == said


def test_runs_that_vary_are_told() -> None:
    assert profiled(3.0, 3.1, 2.9, 3.0).notes() == []
    steady, restless = profiled(3.0, 3.0, 3.0, 3.0), profiled(2.0, 3.0, 4.0, 5.0)
    assert restless.notes() == [
        "the machine was busy: half of the 4 runs took less than 2.25 ms or more than 4.75 ms"
    ]
    assert (steady + restless).notes() != []
    assert "(varying from run to run)" not in steady.table()


@given(st.lists(st.integers(0, 1 << 40), min_size=2))
def test_larger_working_sets_have_no_more_bandwidth(sizes: list[int]) -> None:
    found = [LIMITS.bandwidth(n) for n in sorted(s for s in sizes if s)]
    assert all(20.0 <= g <= 400.0001 for g in found)
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(found))


def test_bandwidth_at_the_measured_sizes() -> None:
    assert [LIMITS.bandwidth(p.bytes) for p in LEVELS] == pytest.approx([400, 200, 20])
    assert [LIMITS.level(n) for n in (1, 1 << 18, 1 << 26, 1 << 40)] == [
        "L1", "L2", "memory", "memory",
    ]  # fmt: skip
    assert MachineLimits(1.0, 7.0).bandwidth(100) == 7.0


def test_names_of_nodes_stay_short_and_harmless() -> None:
    assert short_nodes(()) == ""
    assert short_nodes(["a", "b", "c"]) == "a, b, c"
    assert short_nodes(["first" * 4, "mid", "x" * 40, "z"]) == f"{'first' * 4} … z (+2)"
    assert short_nodes(["0123456789" * 4]) == "0123456789012…7890123456789"
    assert short_nodes(["\x1b[31mred", "a\nb"]) == "\ufffd[31mred, a\ufffdb"
    shown = ProfileReport("m", (KernelTime("k\x1b]0;", (), 1, 1.0, None, None),), 1.0).table()
    assert "\x1b" not in shown


def test_json_has_what_it_had_and_more() -> None:
    data = json.loads(profiled(3.0, 3.0).json(LIMITS))
    assert data["kernels"][0] == {
        "name": "conv", "ops": ["conv2d", "relu"], "calls": 1, "milliseconds": 2.0,
        "flops": 180_000_000, "bytes": 1 << 20, "nodes": ["c0", "r0"], "gflops": 90.0,
        "predicted": None,
        "gbytes": pytest.approx(0.524288), "limit_percent": pytest.approx(90.0),
        "limit": "arithmetic",
    }  # fmt: skip
    assert data["runs_ms"] == [3.0, 3.0]
    assert data["limits"]["levels"][0] == {"level": "L1", "bytes": 1 << 15, "gbytes": 400.0}
    assert json.loads(profiled(3.0).json())["limits"] is None


def test_a_trace_has_the_measured_times_on_one_track() -> None:
    data = json.loads(profiled(3.0, 6.0).trace())
    meta, events = data["traceEvents"][:2], data["traceEvents"][2:]
    assert [(e["ph"], e["args"]["name"]) for e in meta] == [("M", "net"), ("M", "calling thread")]
    assert {(e["ph"], e["pid"], e["tid"]) for e in events} == {("X", 1, 1)}
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [
        ("run 0", 0.0, pytest.approx(2850.0)),
        ("conv", 0.0, pytest.approx(2000.0)),
        ("copy", pytest.approx(2100.0), pytest.approx(750.0)),
        ("run 1", 10_000.0, pytest.approx(5700.0)),
        ("conv", 10_000.0, pytest.approx(4000.0)),
        ("copy", pytest.approx(14_200.0), pytest.approx(1500.0)),
    ]
    assert events[1]["args"] == {
        "nodes": ["c0", "r0"], "ops": ["conv2d", "relu"], "flops": 180_000_000, "bytes": 1 << 20,
        "calls": 1,
    }  # fmt: skip
    assert "calling" in data["otherData"]["about"] or "called" in data["otherData"]["about"]


def test_kernels_of_other_variants_are_left_out() -> None:
    described: list[dict[str, Any]] = [
        {"name": "a", "nodes": ["n"]},
        {"name": "b", "variant": {"n": 1}},
    ]
    runs = [ProfiledRun(2.0, (0.0, 1.0), (0, 5)), ProfiledRun(4.0, (0.0, 3.0), (0, 9))]
    made = report("m", described, {}, [0, 1], runs)
    assert [(k.name, k.milliseconds, k.nodes) for k in made.kernels] == [("b", 2.0, ())]
    assert [r.starts for r in made.runs] == [(5,), (9,)]


@pytest.mark.parametrize("nodes", ["conv", [1], {"a": 1}, None])
def test_nodes_in_metadata_are_a_list_of_texts(nodes: object) -> None:
    head = {"abi": ABI_VERSION, "name": "m", "inputs": [], "outputs": []}
    text = json.dumps({**head, "kernels": [{"name": "k", "nodes": ["fine", ""]}]})
    assert parse_levels(text.encode())[0]["kernels"][0]["nodes"] == ["fine", ""]
    wrong = json.dumps({**head, "kernels": [{"name": "k", "nodes": nodes}]})
    with pytest.raises(Exception, match=r"damaged: kernels\[0\]\.nodes"):
        parse_levels(wrong.encode())
