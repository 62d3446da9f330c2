"""Nested parallel loops become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import te
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.lowering.collapse import collapse_parallel
from smelt.pipeline import lower_program as lower
from smelt.tir.interpret import interpret
from smelt.tir.nodes import For, PrimFunc, walk
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule

Array = np.ndarray[Any, Any]

NESTED = """
@T.prim_func
def f(a: T.Buffer((60,), "float32"), n: T.int64):
    for i in T.parallel(3):
        if i < n:
            for j in T.parallel(4):
                for k in range(5):
                    a[i * 20 + j * 5 + k] = 1.0
        else:
            for l in T.parallel(4):
                for m in range(5):
                    a[i * 20 + l * 5 + m] = 2.0
"""


def check_equal(f: PrimFunc, g: PrimFunc, count: int, *sizes: int) -> Array:
    """Assert that two programs make the same of `count` zeros, tasks in any order; what it is."""
    kind = dt.to_numpy(f.buffers[0].type)
    a, b = np.zeros(count, kind), np.zeros(count, kind)
    interpret(f, a, *sizes)
    interpret(g, b, *sizes, order="random")
    assert np.array_equal(a, b)
    return a


def test_branches_between_parallel_loops_are_shared_out() -> None:
    f = parse(NESTED)
    g = collapse_parallel(f)
    assert len([s for s in walk(g.body) if isinstance(s, For) and s.kind == "parallel"]) == 1
    for n in range(4):
        assert set(check_equal(f, g, 60, n)) <= {1.0, 2.0}


def test_loops_of_different_extents_stay() -> None:
    f = parse(NESTED.replace("l in T.parallel(4)", "l in T.parallel(2)"))
    assert collapse_parallel(f) is f or collapse_parallel(f).body is f.body


def test_a_scheduled_matmul_has_one_parallel_loop() -> None:
    a, b = te.placeholder((37, 8), name="A"), te.placeholder((8, 51), name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((37, 51), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], "matmul"))
    i, j, _ = sch.get_loops("C")
    i_o, i_i = sch.split(i, [None, 8])
    sch.reorder(i_o, j, i_i)
    sch.parallel(i_o)
    sch.parallel(j)
    flat = lower(sch.func)
    assert len([s for s in walk(flat.body) if isinstance(s, For) and s.kind == "parallel"]) == 1
    x = np.random.default_rng(0).standard_normal((37, 8), np.float32)
    y = np.random.default_rng(1).standard_normal((8, 51), np.float32)
    out = np.zeros((37, 51), np.float32)
    interpret(flat, x.reshape(-1), y.reshape(-1), out.reshape(-1), order="random")
    assert np.allclose(out, x @ y, atol=1e-5)


UNKNOWN = """
@T.prim_func
def f(a: T.Buffer((n * m * 3,), "int32"), n: T.int64, m: T.int64):
    for i in T.parallel(n, annotations={"tasks": 4}):
        for j in T.parallel(m):
            for k in T.parallel(3):
                a[i * m * 3 + j * 3 + k] += T.int32(i * 100 + j * 10 + k + 1)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("m", [0, 1, 2, 5])
def test_unknown_numbers_of_iterations_are_shared_out_in_ranges(n: int, m: int) -> None:
    f, g = parse(UNKNOWN), collapse_parallel(parse(UNKNOWN))
    (loop,) = [s for s in walk(g.body) if isinstance(s, For) and s.kind == "parallel"]
    assert str(loop.extent) == "min(n * (m * 3), 4)"
    check_equal(f, g, n * m * 3, n, m)


def test_one_loop_of_unknown_extent_is_shared_out_in_32_ranges() -> None:
    text = """
@T.prim_func
def f(a: T.Buffer((n,), "int32"), n: T.int64):
    for i in T.parallel(n):
        a[i] += T.int32(i + 1)
"""
    f, g = parse(text), collapse_parallel(parse(text))
    for n in (0, 1, 31, 33, 100):
        assert np.array_equal(check_equal(f, g, n, n), np.arange(n) + 1)
    (loop,) = [s for s in walk(g.body) if isinstance(s, For) and s.kind == "parallel"]
    assert str(loop.extent) == "min(n, 32)"


def test_branches_around_unknown_extents() -> None:
    text = NESTED.replace("T.parallel(4)", "T.parallel(n + 2)").replace("20", "5 * (n + 2)")
    text = text.replace("(60,)", "(15 * (n + 2),)")
    f, g = parse(text), collapse_parallel(parse(text))
    assert len([s for s in walk(g.body) if isinstance(s, For) and s.kind == "parallel"]) == 1
    for n in range(5):
        assert set(check_equal(f, g, 15 * (n + 2), n)) <= {1.0, 2.0}


def test_the_annotation_counts_where_extents_are_known_too() -> None:
    f = parse(NESTED.replace("T.parallel(3)", 'T.parallel(3, annotations={"tasks": 5})'))
    g = collapse_parallel(f)
    (loop,) = [s for s in walk(g.body) if isinstance(s, For) and s.kind == "parallel"]
    assert str(loop.extent) == "5"
    check_equal(f, g, 60, 2)


@pytest.mark.parametrize("tasks", ["0", "-1", "1.5", '"all"'])
def test_tasks_are_a_number_from_one(tasks: str) -> None:
    f = parse(UNKNOWN.replace('"tasks": 4', f'"tasks": {tasks}'))
    with pytest.raises(CompileError, match="legal: how many tasks it is divided into at most"):
        collapse_parallel(f)
