"""Unrolled loops: what stands in each copy, and how often an expression is worked out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from smelt.arith import Analyzer
from smelt.ir.expr import Var, const
from smelt.lowering.flatten import flatten_buffers
from smelt.lowering.unroll import unroll_loops
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc, seq
from smelt.tir.parser import parse
from smelt.tir.printer import script

HEAD = """@T.prim_func
def main(A: T.Buffer((99,), "float32"), U: T.Buffer((9,), "uint8"), n: T.int64):
"""


def _unrolled(*lines: str) -> list[str]:
    """The lines of a program's body after unrolling, without their indentation."""
    func = unroll_loops(parse(HEAD + "".join([f"    {line}\n" for line in lines])))
    return [line.strip() for line in script(func).splitlines()[2:]]


@pytest.mark.parametrize(
    ("index", "written"),
    [
        ("i + n", ["n", "n + 1", "n + 2"]),
        ("n - i", ["n", "n - 1", "n - 2"]),
        ("n * 3 + i * 2 - 2", ["n * 3 - 2", "n * 3", "n * 3 + 2"]),
        ("i * 4 - n", ["n * -1", "4 - n", "8 - n"]),  # a positive constant stands first here
        ("n // 2 + i", ["n // 2", "n // 2 + 1", "n // 2 + 2"]),
        ("(n + i) // 2", ["n // 2", "(n + 1) // 2", "n // 2 + 1"]),
        ("i * i", ["0", "1", "4"]),
        ("n * i", ["0", "n", "n * 2"]),
    ],
)
def test_indices_are_simple_in_every_copy(index: str, written: list[str]) -> None:
    lines = _unrolled("for i in T.unroll(3):", f"    A[{index}] = 1.0")
    assert lines == [f"A[{i}] = 1.0" for i in written]


def test_a_fact_of_a_branch_counts_only_inside_it() -> None:
    lines = _unrolled(
        "for i in T.unroll(2):", "    A[T.min(n, 5) + i] = 1.0",
        "    if n < 3:", "        A[T.min(n, 5) + i] = 2.0",
    )  # fmt: skip
    assert [x for x in lines if x.startswith("A")] == [
        "A[T.min(n, 5)] = 1.0", "A[n] = 2.0", "A[T.min(n, 5) + 1] = 1.0", "A[n + 1] = 2.0",
    ]  # fmt: skip


def test_a_constant_bound_inside_stands_in_every_copy() -> None:
    lines = _unrolled(
        "for i in T.unroll(2):", "    with T.LetStmt(T.uint8(7)) as u:", "        U[i] = u"
    )
    assert lines == ["U[0] = 7", "U[1] = 7"]


def test_one_variable_may_run_over_several_ranges() -> None:
    a, i, j = Buffer("A", (const(99),)), Var("i"), Var("j")
    store = BufferStore(a, const(1.0), ((i + j) % 8,))
    inner = For(j, const(0), const(2), store, "unrolled")

    def loop(extent: int, kind: str) -> For:
        return For(i, const(0), const(extent), inner, kind)

    func = PrimFunc((a,), seq(loop(7, "serial"), loop(9, "serial"), loop(2, "unrolled")))
    lines = [x.strip() for x in script(unroll_loops(func)).splitlines() if " = 1.0" in x]
    assert lines[:2] == ["A[i] = 1.0", "A[i + 1] = 1.0"]
    assert lines[2].startswith("A[i")
    assert lines[2].endswith("% 8] = 1.0")
    assert lines[4:] == ["A[0] = 1.0", "A[1] = 1.0", "A[1] = 1.0", "A[2] = 1.0"]


def test_an_index_is_not_worked_out_again_for_loops_that_it_does_not_mention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[Any] = Counter()
    original = Analyzer.simplify

    def counted(self: Analyzer, e: Any) -> Any:
        asked["questions"] += 1
        return original(self, e)

    monkeypatch.setattr(Analyzer, "simplify", counted)
    lines = _unrolled(
        "for k in T.unroll(8):", "    for i in T.unroll(16):", "        A[i] = A[i] + A[n + k]"
    )
    assert len(lines) == 128
    assert asked["questions"] < 200  # 128 places and 128 values are stored


@pytest.mark.parametrize("lower", [flatten_buffers, unroll_loops])
def test_a_loop_of_one_turn_leaves_its_value_in_indices(
    lower: Callable[[PrimFunc], PrimFunc],
) -> None:
    func = lower(parse(HEAD + "    for i in range(1):\n        A[i + 2] = A[i * 3 + 1]\n"))
    assert script(func).splitlines()[-1].strip() == "A[2] = A[1]"


def test_one_store_in_branches_of_lanes_is_written_out_in_each() -> None:
    lines = _unrolled(
        "for i in T.unroll(2):",
        "    if T.ramp(i * 4, 1, 4) < T.broadcast(n, 4):",
        "        A[T.ramp(i * 4 + n, 1, 4)] = T.broadcast(0.0, 4)",
    )
    assert [x for x in lines if x.startswith("A")] == [
        "A[T.ramp(n, 1, 4)] = T.broadcast(0.0, 4)", "A[T.ramp(n + 4, 1, 4)] = T.broadcast(0.0, 4)",
    ]  # fmt: skip
