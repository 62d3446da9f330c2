"""The sketch for blocks that no other sketch knows: any formula, any decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.build import call
from smelt.ir.expr import cast
from smelt.rules.cost import Cost
from smelt.rules.cpu import apply, plan
from smelt.rules.cpu.generic import RULES, Built, Generic, Rule
from smelt.rules.sketch import Decision, Domain
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule
from smelt.topi.registry import get_op

from .build import (
    FAR,
    NARROW,
    ONE,
    TWO,
    Array,
    close,
    data,
    laid_out,
    made,
    number,
    run_scheduled,
    written,
)  # fmt: skip

MACHINES = [ONE, TWO, NARROW, FAR]
Sizes = Callable[[], int]


def axis(n: int, name: str = "r") -> Any:
    return te.reduce_axis((0, n), name=name)


def distance(size: Sizes, dtype: str = "float32", turned: bool = False, root: bool = False) -> Any:
    n, m, k = size(), size(), size()
    a, b = te.placeholder((n, k), dtype, "a"), te.placeholder((m, k), dtype, "b")
    if turned:
        b = te.placeholder((k, m), dtype, "b")
    r = axis(k)
    y = te.compute((n, m), lambda i, j: te.sum(
        te.abs(a[i, r] - (b[r, j] if turned else b[j, r])), axis=r), name="y")  # fmt: skip
    if root:
        return made(a, b, te.compute((n, m), lambda i, j: te.sqrt(y[i, j]) + 1.0, name="z"))
    return made(a, b, y)


def stencil(size: Sizes) -> PrimFunc:
    n, m = size(), size()
    x, w = te.placeholder((n + 2, m + 2), name="x"), te.placeholder((3, 3), name="w")
    a, b = axis(3, "a"), axis(3, "b")
    return made(x, w, te.compute(
        (n, m), lambda i, j: te.sum(x[i + a, j + b] * w[a, b], axis=[a, b]), name="y"))  # fmt: skip


def five_points(size: Sizes) -> PrimFunc:
    n, m = size(), size()
    x = te.placeholder((n + 2, m + 2), name="x")
    return made(x, te.compute((n, m), lambda i, j: (
        x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2] - 4.0 * x[i + 1, j + 1]
    ), name="y"))  # fmt: skip


def bag(size: Sizes) -> PrimFunc:
    n, m, k = size(), size(), size()
    t, at = te.placeholder((10, m), name="t"), te.placeholder((n, k), "int64", "at")
    r = axis(k)
    return made(t, at, te.compute((n, m), lambda i, j: te.sum(t[at[i, r], j], axis=r), name="y"))


def correlation(size: Sizes) -> PrimFunc:
    n, m, k, d = size(), size(), size(), 3
    a = te.placeholder((k, n, m), name="a")
    b = te.placeholder((k, n + d, m + d), name="b")
    r = axis(k)
    return made(a, b, te.compute((d, d, n, m), lambda u, v, i, j: te.max(
        te.abs(a[r, i, j] - b[r, i + u, j + v]), axis=r), name="y"))  # fmt: skip


def turned_maximum(size: Sizes) -> PrimFunc:
    n, m, k = size(), size(), size()
    a, b = te.placeholder((k, m, n), name="a"), te.placeholder((n, k), name="b")
    r = axis(k)
    return made(a, b, te.compute(
        (n, m), lambda i, j: te.max(a[r, j, i] + b[i, r], axis=r), name="y"))  # fmt: skip


def three_factors(size: Sizes) -> PrimFunc:
    n, m, k = size(), size(), size()
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    c = te.placeholder((k,), name="c")
    r = axis(k)
    return made(a, b, c, te.compute(
        (n, m), lambda i, j: te.sum(a[i, r] * b[r, j] * c[r], axis=r), name="y"))  # fmt: skip


def triangle(size: Sizes) -> PrimFunc:
    n, m = size(), size()
    x = te.placeholder((n, m), name="x")
    r = axis(m)
    return made(x, te.compute((n, 5), lambda i, j: te.sum(
        te.if_then_else(te.all_of(r <= i, r != j), x[i, r], 0.0), axis=r), name="y"))  # fmt: skip


def windows(size: Sizes) -> PrimFunc:
    n, m = size(), size()
    x, t = te.placeholder((n, m + 4), name="x"), te.placeholder((5,), name="t")
    r = axis(5)
    return made(x, t, te.compute((n, m), lambda i, j: te.sum(
        call("exp", x[i, j + r] - t[r]), axis=r), name="y"))  # fmt: skip


def counts(size: Sizes) -> PrimFunc:
    n, m, k = size(), size(), size()
    x, y = te.placeholder((k, n), "int8", "x"), te.placeholder((m,), "int8", "y")
    r = axis(k)
    return made(x, y, te.compute((n, m), lambda i, j: te.sum(
        cast("int32", x[r, i] > y[j]), axis=r), name="z"))  # fmt: skip


def any_of_both(size: Sizes) -> PrimFunc:
    n, m, k = size(), size(), size()
    a, b = te.placeholder((n, k), "bool", "a"), te.placeholder((k, m), "bool", "b")
    r = axis(k)
    return made(a, b, te.compute(
        (n, m), lambda i, j: te.max(te.all_of(a[i, r], b[r, j]), axis=r), name="y"))  # fmt: skip


def outer(size: Sizes) -> PrimFunc:
    n, m, k = size(), size(), size()
    a, b, c = (te.placeholder((s,), name=x) for s, x in ((n, "a"), (m, "b"), (k, "c")))
    return made(a, b, c, te.compute(
        (n, m, k), lambda i, j, h: call("tanh", a[i] * b[j]) - c[h], name="y"))  # fmt: skip


def strided(size: Sizes) -> PrimFunc:
    n, m = size(), size()
    x = te.placeholder((2 * n + 1, 3 * m + 2), name="x")
    a, b = axis(2, "a"), axis(4, "b")
    return made(x, te.compute((n, m), lambda i, j: te.min(
        x[2 * i + a, 3 * j + b - te.if_then_else(b > 2, 1, 0)], axis=[a, b]
    ), name="y"))  # fmt: skip


FORMULAS: dict[str, Callable[[Sizes], PrimFunc]] = {
    "distance": distance,
    "distance of columns": lambda s: distance(s, turned=True),
    "root of a distance": lambda s: distance(s, turned=True, root=True),
    "doubles": lambda s: distance(s, "float64", turned=True),
    "bytes": lambda s: distance(s, "int8", turned=True),
    "stencil": stencil, "five points": five_points, "bag": bag, "correlation": correlation,
    "turned maximum": turned_maximum, "three factors": three_factors, "triangle": triangle,
    "windows": windows, "counts": counts, "any of both": any_of_both, "outer": outer,
    "strided": strided,
}  # fmt: skip


def values(func: PrimFunc, sizes: dict[str, int] | None = None) -> list[Array]:
    out = written(func)
    found = []
    for n, b in enumerate(func.buffers):
        if b not in out:
            x = data(*[number(e, sizes or {}) for e in b.shape], dtype=b.type, seed=n)
            found.append(np.abs(x) if b.type == "int64" else x)
    return found


def expected(func: PrimFunc, given_: list[Array]) -> list[Array]:
    found = [np.zeros([number(e, {}) for e in b.shape], b.type) for b in written(func)]
    interpret(func, *given_, *found)
    return found


def decided(func: PrimFunc, machine: Any, choice: st.DataObject, **known: Any) -> Schedule:
    """A program under any decision for each of its parts."""
    found = plan(func, machine, sketches=[Generic(**known)])
    sch = found.schedule.copy()
    for part in found.parts:
        (scored,) = [s for sketch, s in part.scored if sketch.name == "generic"]
        rank = choice.draw(st.integers(0, len(scored.order) - 1))
        scored.space.build(sch, scored.decision(rank))
    return sch


@pytest.mark.parametrize("name", FORMULAS)
@settings(max_examples=12, deadline=None)
@given(choice=st.data())
def test_any_decision_computes_the_same(name: str, choice: st.DataObject) -> None:
    sizes = st.sampled_from([1, 2, 3, 5, 8, 13, 19, 37])
    func = FORMULAS[name](lambda: choice.draw(sizes))
    sch = decided(func, choice.draw(st.sampled_from(MACHINES)), choice)
    given_ = values(func)
    for a, b in zip(run_scheduled(func, sch, *given_), expected(func, given_), strict=True):
        close(a, b, 1e-4)


@settings(max_examples=10, deadline=None)
@given(choice=st.data())
def test_a_symbolic_size(choice: st.DataObject) -> None:
    n = te.size_var("n")
    a, b = te.placeholder((n, 9), name="a"), te.placeholder((9, 21), name="b")
    r = axis(9)
    y = te.compute((n, 21), lambda i, j: te.sum(te.abs(a[i, r] - b[r, j]), axis=r), name="y")
    func = made(a, b, y)
    sch = decided(func, choice.draw(st.sampled_from(MACHINES)), choice)
    rows = choice.draw(st.sampled_from([1, 2, 7, 33]))
    p, q = data(rows, 9), data(9, 21)
    (found,) = run_scheduled(func, sch, p, q, sizes={"n": rows})
    close(found, np.abs(p[:, :, None] - q).sum(1), 1e-4)


@settings(max_examples=10, deadline=None)
@given(choice=st.data())
def test_two_results_of_a_reduction(choice: st.DataObject) -> None:
    x = te.placeholder((13, 21), name="x")
    func = made(x, get_op("argmax")(x, axis=0))
    sch = decided(func, choice.draw(st.sampled_from(MACHINES)), choice)
    a = data(13, 21)
    close(run_scheduled(func, sch, a)[0].reshape(-1), a.argmax(0))


def test_operands_that_several_results_share_are_loaded_once() -> None:
    """Where a window is as good along several dimensions, tiles reach along those that share."""
    (part,) = plan(correlation(lambda: 40), ONE, sketches=[Generic()]).parts
    decision = part.choices[0].decision
    assert sum([decision[d.name] > 1 for d in part.choices[0].space.domains
                if d.name.startswith("tile.") and d.name != "tile.vector"]) > 1  # fmt: skip


class Slow(Rule):
    """A rule of one's own: whether there is a note on the outermost loop, which costs."""

    name = "slow"

    def domains(self, space: Any) -> tuple[Domain, ...]:
        return (Domain("slow.note", (0, 1)),)

    def legal(self, tile: Any) -> Any:
        return tile.columns["tile.0"] == 1

    def cost(self, tile: Any, cost: Cost) -> Cost:
        return Cost(cost.cycles * (1 + tile.columns["slow.note"]), cost.traffic, cost.tasks)

    def finish(self, built: Built, decision: Decision) -> None:
        if decision["slow.note"]:
            built.schedule.annotate(next(iter(built.outer.values())), "note", 1)


def test_rules_can_be_added() -> None:
    func = distance(lambda: 12, turned=True)
    own = Generic((*RULES, Slow()))
    (part,) = plan(func, ONE, sketches=[own]).parts
    (scored,) = [s for _, s in part.scored]
    ranked = [scored.decision(n) for n in range(len(scored.order))]
    assert ranked[0]["slow.note"] == 0
    assert all(d["tile.0"] == 1 for d in ranked)
    worst = next(d for d in ranked if d["slow.note"])
    sch = part.site.schedule.copy()
    scored.space.build(sch, worst)
    given_ = values(func)
    close(run_scheduled(func, sch, *given_)[0], expected(func, given_)[0], 1e-4)
    assert '"note"' in str(sch.trace)


def test_what_it_does_not_fit() -> None:
    def refusal(func: PrimFunc) -> str:
        (part,) = plan(func, ONE, sketches=[Generic()]).parts
        return dict(part.refused)["generic"]

    x = te.placeholder((9,), name="x")
    r = axis(9)
    assert "no dimensions" in refusal(made(x, te.compute(
        (), lambda: te.sum(x[r], axis=r), name="y")))  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_layouts(order: tuple[int, ...]) -> None:
    func = distance(lambda: 19, turned=True)
    func = laid_out(func, {"b": order, "y": order})
    given_ = values(func)
    sch = apply(plan(func, TWO, sketches=[Generic()]), strict=True).schedule
    close(run_scheduled(func, sch, *given_)[0], expected(func, given_)[0], 1e-4)


def test_two_reductions_of_one_operand() -> None:
    """No block is taken for what follows another one that it does not read."""
    x, r, q = te.placeholder((7, 40), name="x"), axis(40), axis(40, "q")
    s = te.compute((7,), lambda i: te.sum(x[i, r], axis=r), name="s")
    t = te.compute((7,), lambda i: te.sum(x[i, q] * x[i, q], axis=q), name="t")
    func = made(x, s, t)
    a = data(7, 40)
    found = run_scheduled(func, apply(plan(func, ONE), strict=True).schedule, a)
    close(found[0], a.sum(1), 1e-4)
    close(found[1], (a * a).sum(1), 1e-4)
