"""Nested parallel loops become one."""

from __future__ import annotations

import numpy as np

from smelt import te
from smelt.lowering.collapse import collapse_parallel
from smelt.pipeline import lower_program as lower
from smelt.tir.interpret import interpret
from smelt.tir.nodes import For, walk
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule

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


def test_branches_between_parallel_loops_are_shared_out() -> None:
    f = parse(NESTED)
    g = collapse_parallel(f)
    assert len([s for s in walk(g.body) if isinstance(s, For) and s.kind == "parallel"]) == 1
    for n in range(4):
        a, b = np.zeros(60, np.float32), np.zeros(60, np.float32)
        interpret(f, a, n)
        interpret(g, b, n, order="random")
        assert np.array_equal(a, b)
        assert set(a) <= {1.0, 2.0}


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
