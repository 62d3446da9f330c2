"""Profiles and traces of programs that decide: turns, sides of branches, memory, events."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.display import profile_page
from smelt.runtime import InputError
from smelt.runtime.profiler import _MOST_EVENTS
from tests.models import control_nets
from tests.updates import nets
from tests.vm.test_native import in_python


def sites(report: Any) -> dict[str, int]:
    return {name: calls for name, calls, _ in report.control.sites}


def test_turns_are_counted() -> None:
    exe = smelt.compile(nets.filled(9), threads=1)
    cache = np.zeros((9, 8), "float32")
    for most in (0, 1, 9):
        report = exe.profile(np.asarray(most), cache, repeat=2)
        assert list(sites(report).values()) == [most]
        kernels = {k.name: k.calls for k in report.kernels}
        assert kernels.get("scatter_nd", 0) == most
    assert "loop_0: turns" in report.table()
    assert "memory: taken" in report.table()


def test_sides_of_branches_are_counted() -> None:
    exe = smelt.compile(nets.chosen(4), threads=1)
    for flag in (True, False):
        given = [np.asarray(flag), np.array([[1]]), np.ones((1, 8), "float32")]
        report = exe.profile(*given, np.zeros((4, 8), "float32"), repeat=1)
        wanted = {"main: branch 0, True": int(flag), "main: branch 0, False": int(not flag)}
        assert sites(report) == wanted
        page = profile_page(report)
        assert f"main: branch 0, {flag}" in page
        assert f"main: branch 0, {not flag}" not in page
        told = json.loads(report.json())["control"]
        assert {s["name"]: s["times"] for s in told["sites"]} == wanted
        assert told["allocations"] > 0 < told["most_bytes"]


def test_a_trace_has_every_call() -> None:
    exe = smelt.compile(control_nets.decoder(), threads=1)
    feeds = control_nets.decoder_inputs()[1]
    report = exe.profile(feeds, repeat=1)
    events = [e for e in json.loads(report.trace())["traceEvents"] if e["ph"] == "X"]
    assert report.control is not None
    turns = [e for e in events if e["name"].endswith(": turns")]
    (wanted,) = [calls for name, calls, _ in report.control.sites if name.endswith(": turns")]
    assert len(turns) == wanted > 3
    counts: dict[str, int] = {}
    for e in events:
        counts[e["name"]] = counts.get(e["name"], 0) + (e["cat"] == "kernel")
    for k in report.kernels:
        assert counts[k.name] >= k.calls > 0
    inside = [e for e in events if e["name"].startswith("attention")]
    for e in inside:
        begin, end = e["ts"], e["ts"] + e["dur"]
        assert any(t["ts"] <= begin and end <= t["ts"] + t["dur"] for t in turns)


def test_a_trace_of_too_many_events_says_so() -> None:
    exe = smelt.compile(control_nets.tiny_loop(), threads=1)
    given = control_nets.turns(_MOST_EVENTS // 2)
    report = exe.profile(given, repeat=1)
    assert report.control is not None
    assert report.control.lost > 0
    about = json.loads(report.trace())["otherData"]["about"]
    assert f"{report.control.lost} events at its end are left out" in about


def test_python_counts_no_turns() -> None:
    exe: Any = smelt.compile(nets.filled(3), threads=1)
    report = in_python(exe).profile(np.asarray(2), np.zeros((3, 8), "float32"), repeat=1)
    assert report.control is None


def test_what_a_loop_does_not_change_is_computed_once() -> None:
    """Keys and values of the memory that a decoder looks at."""
    exe = smelt.compile(control_nets.decoder(), threads=1)
    report = exe.profile(control_nets.decoder_inputs()[0], repeat=1)
    once = [k for k in report.kernels if k.nodes[:1] in (("matmul_0",), ("matmul_4",))]
    assert [k.calls for k in once] == [1, 1]


def test_a_report_is_no_executable() -> None:
    with pytest.raises(InputError, match="these numbers are of no executable"):
        smelt.runtime.MemoryInfo(1, 2, 3)()
