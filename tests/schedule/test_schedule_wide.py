"""Programs whose loops and sizes have 32 bits are scheduled as those of 64 bits are."""

from __future__ import annotations

import numpy as np
import pytest

import smelt
from smelt import te
from smelt.ir.expr import IntImm
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule

SIZES = """
    n = T.int32()
    m = T.int32()"""
BODY = """
    A = T.match_buffer(a, (N, M), "float32")
    B = T.match_buffer(b, (M, N), "float32")
    D = T.match_buffer(c, (N, N), "float32")
    C = T.alloc_buffer((N, N), "float32")
    for i, j, k in T.grid(N, N, M):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(N, N):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            x: T.int32 = vi * 2 + vj
            D[vi, vj] = T.if_then_else(vi < N - 1, C[vi, vj] * T.Cast("float32", x), T.float32(0))
"""


def program(symbolic: bool) -> PrimFunc:
    """D[i, j] = (A B)[i, j] * (2 i + j), but 0 in the last row."""
    names = ("n", "m") if symbolic else ("T.int32(12)", "T.int32(8)")
    body = BODY.replace("N", names[0]).replace("M", names[1])
    head = "@T.prim_func\ndef main(a: T.handle, b: T.handle, c: T.handle):"
    return parse(head + (SIZES if symbolic else "") + body)


STEPS = """
sch.split(l[0], [None, 5])
sch.split(l[1], [IntImm("int32", 4), None])
sch.fuse(l[0], l[1])
sch.vectorize(sch.split(l[1], [None, 4])[1])
sch.parallel(l[0])
sch.cache_read("C", 0, "local")
sch.cache_write("C", 0, "local")
sch.compute_at("C", sch.split(sch.get_loops("D")[0], [None, 4])[0])
sch.reverse_compute_at("D", sch.split(l[0], [None, 4])[0])
sch.decompose_reduction("C", sch.split(l[2], [None, 4])[0])
sch.rfactor(sch.split(l[2], [None, 4])[1], 0)
sch.blockize(l[2])
sch.reindex("C", ("read", 0))
sch.transform_layout("C", ("write", 0), lambda i, j: (j, i))
sch.transform_block_layout("D", lambda i, j: (j, i))
sch.read_at(l[0], "C", 0, "shared")
sch.pad_einsum("C", [4, 4, 4])
sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
"""


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("step", STEPS.strip().splitlines())
def test_primitives_keep_types_and_results(step: str, symbolic: bool) -> None:
    sch = Schedule(program(symbolic), debug_mask="all")
    eval(step, {"sch": sch, "l": sch.get_loops("C"), "IntImm": IntImm})
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (12, 8)), rng.integers(-3, 4, (8, 12))
    factor = 2 * np.arange(12)[:, None] + np.arange(12)
    expected = a @ b * factor * (np.arange(12) < 11)[:, None]
    given = [a.astype("float32"), b.astype("float32")]
    out = np.zeros((12, 12), "float32")
    interpret(sch.func, *given, out)
    np.testing.assert_array_equal(out, expected)
    if step.startswith(("sch.split", "sch.compute_at", "sch.rfactor")):
        out[:] = 0
        smelt.build(sch)(*given, out)
        np.testing.assert_array_equal(out, expected)


def test_sizes_among_the_parameters() -> None:
    n = te.var("n", "int32")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + i.astype("float32"), name="y")
    sch = Schedule(te.create_prim_func([n, x, y], "add"), debug_mask="all")
    sch.vectorize(sch.split(sch.get_loops("y")[0], [None, 8])[1])
    built = smelt.build(sch)
    out = np.zeros(21, "float32")
    built(np.ones(21, "float32"), out)
    np.testing.assert_array_equal(out, np.arange(21) + 1)
    built(21, np.ones(21, "float32"), out)


def test_programs_of_wide_indices_stay_as_they_are() -> None:
    func = parse("""@T.prim_func
def main(A: T.Buffer((16,), "int32"), s: T.int32):
    for i in range(16):
        with T.block("A"):
            v = T.axis.spatial(16, i)
            T.reads()
            T.writes(A[v])
            A[v] = s + T.int32(1)
""")
    assert Schedule(func).func is func
