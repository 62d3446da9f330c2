"""Schedules as rules write them: each keeps the interpreter's result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import te
from smelt.artifact.constants import preparations
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import const
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import LoopRV, Schedule, Trace
from smelt.tir.schedule.primitive import primitive

from .support import chain, conv, matmul, program, run, same, softmax


def tiled_conv(func: PrimFunc) -> Schedule:
    """Register tiles of 6 pixels by 16 channels, the epilogue at the tile."""
    s = Schedule(func)
    for name in ("pad", "badd", "radd"):
        s.compute_inline(name)
    b = s.get_block("conv")
    n, o, y, x, rc, ry, rx = s.get_loops(b)
    o0, o1 = s.split(o, [None, 16])
    x0, x1 = s.split(x, [None, 6])
    s.reorder(n, o0, y, x0, rc, ry, rx, x1, o1)
    outer = s.fuse(n, o0, y)
    s.reverse_compute_at("relu", x0)
    s.set_scope(b, 0, "local")
    s.decompose_reduction(b, rc)
    s.vectorize(o1)
    s.unroll(x1)
    s.parallel(outer)
    return s


def tiled_matmul(func: PrimFunc, m: int = 8, n: int = 48) -> Schedule:
    """Register tiles of m by n."""
    s = Schedule(func)
    b = s.get_block("C")
    i, j, k = s.get_loops(b)
    i0, i1 = s.split(i, [None, m])
    j0, j1 = s.split(j, [None, n])
    s.reorder(i0, j0, k, i1, j1)
    if "D" in s.state.index.blocks:
        s.reverse_compute_at("D", j0)
        s.set_scope("C", 0, "local")
    s.decompose_reduction(b, k)
    s.vectorize(j1)
    s.unroll(i1)
    s.parallel(s.fuse(i0, j0))
    return s


@pytest.mark.parametrize(
    "size", [{}, {"stride": 2}, {"h": 8, "w": 6, "o": 32, "n": 2}, {"kernel": 1}]
)
def test_convolution_with_an_epilogue(size: dict[str, int]) -> None:
    func = conv(**size)
    s = tiled_conv(func)
    same(s, func)
    assert 'scope="local"' in script(s.func)
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert script(again.func) == script(s.func)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("size", [(37, 51, 29), (16, 96, 8), (3, 5, 7)])
def test_matmul_of_odd_sizes(size: tuple[int, int, int], relu: bool) -> None:
    func = matmul(*size, relu=relu)
    same(tiled_matmul(func), func)


def test_symbolic_sizes() -> None:
    m, n, k = te.size_var("m"), te.size_var("n"), te.size_var("k")
    func = matmul(m, n, k, relu=True)
    s = tiled_matmul(func)
    for sizes in ({"m": 37, "n": 51, "k": 29}, {"m": 8, "n": 48, "k": 1}, {"m": 1, "n": 1, "k": 2}):
        same(s, func, sizes)


def test_softmax_row_by_row_from_the_end() -> None:
    func = softmax()
    s = Schedule(func)
    row = s.get_loops("Y")[0]
    for name in ("total", "e", "top"):
        s.compute_at(name, row)
    s.parallel(row)
    same(s, func)


def test_softmax_row_by_row_from_the_front() -> None:
    func = softmax()
    s = Schedule(func)
    row = s.get_loops("top")[0]
    for name in ("e", "total", "Y"):
        s.reverse_compute_at(name, row)
    s.parallel(row)
    same(s, func)


def test_softmax_symbolic_tiles() -> None:
    m, n = te.size_var("m"), te.size_var("n")
    func = softmax(m, n)
    s = Schedule(func)
    outer, inner = s.split(s.get_loops("Y")[0], [None, 4])
    for name in ("total", "e", "top"):
        s.compute_at(name, outer)
    s.parallel(outer)
    same(s, func, {"m": 7, "n": 9})
    same(s, func, {"m": 4, "n": 1})
    assert isinstance(inner, LoopRV)


def test_compute_at_of_a_padding_block_stays_inside() -> None:
    func = conv(stride=2)
    s = Schedule(func)
    _, _, y, x = s.get_loops("conv")[:4]
    x0, _ = s.split(x, [None, 3])
    s.compute_at("pad", x0)
    same(s, func)
    assert y


def test_tiles_of_an_elementwise_chain() -> None:
    func = chain(13, 11)
    s = Schedule(func)
    i, j = s.get_loops("D")
    i0, _i1 = s.split(i, [None, 4])
    s.compute_at("C", i0)
    s.compute_at("B", s.get_loops("C")[1])
    same(s, func)
    t = Schedule(func)
    f0, _f1 = t.split(t.fuse(*t.get_loops("B")), [None, 11])
    t.reverse_compute_at("C", f0)
    same(t, func)
    assert j


def test_reverse_compute_at_refuses_what_is_no_box() -> None:
    s = Schedule(chain(13, 11))
    outer, _ = s.split(s.fuse(*s.get_loops("B")), [None, 7])
    with pytest.raises(ScheduleError, match="cannot prove that"):
        s.reverse_compute_at("C", outer)


def test_caches() -> None:
    func = matmul(9, 10, 11)
    s = Schedule(func)
    i, j, _k = s.get_loops("C")
    a = s.cache_read("C", "A", "local")
    c = s.cache_write("C", 0, "local")
    s.compute_at(a, i)
    s.reverse_compute_at(c, j)
    same(s, func)


def nchw16c(s: Schedule, size: int = 4) -> None:
    """The convolution's output with blocked channels."""
    s.transform_layout("conv", ("write", 0), lambda n, c, h, w: (n, c // size, h, w, c % size))


def test_blocked_layout_of_an_intermediate() -> None:
    func = conv()
    s = Schedule(func)
    s.compute_inline("pad")
    nchw16c(s)
    b = s.get_block("conv")
    n, o, y, x, rc, ry, rx = s.get_loops(b)
    o0, o1 = s.split(o, [None, 4])
    s.reorder(n, o0, y, x, rc, ry, rx, o1)
    s.reverse_compute_at("badd", x)
    same(s, func)
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert script(again.func) == script(s.func)


def test_layout_of_a_parameter() -> None:
    func = matmul(6, 10, 7)
    s = Schedule(func)
    s.transform_layout("C", "B", lambda k, j: (j // 4, k, j % 4), pad_value=0.0)
    packed = s.func.buffers[1]
    assert packed.fixed_shape() == (3, 7, 4)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 7)).astype("f4"), rng.standard_normal((7, 10)).astype("f4")
    wide = np.zeros((7, 12), "f4")
    wide[:, :10] = b
    c = np.empty((6, 10), "f4")
    interpret(s.func, a, np.ascontiguousarray(wide.reshape(7, 3, 4).transpose(1, 0, 2)), c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_padded_output_is_filled() -> None:
    func = chain(5, 6)
    s = Schedule(func)
    s.transform_layout("D", ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=7.0)
    out = run(s.func)
    assert out.shape == (5, 2, 4)
    assert (out[:, 1, 2:] == 7).all()
    np.testing.assert_array_equal(out.reshape(5, 8)[:, :6], run(func))


def test_rfactor() -> None:
    func = matmul(5, 6, 24)
    s = Schedule(func)
    k0, _ = s.split(s.get_loops("C")[2], [None, 8])
    rf = s.rfactor(k0, 0)
    s.parallel(s.get_loops(rf)[0])
    same(s, func)


def tile(n: int) -> tuple[PrimFunc, PrimFunc]:
    """C[0:n] += A * B[0:n], and its implementation (which says it backwards)."""
    body = f"""
for j in range({n}):
    with T.block("update"):
        v = T.axis.spatial({n}, j)
        C[v] = C[v] + A[0] * B[v]
"""
    return program(body), program(body.replace('"update"', '"fma"'))


def test_tensorize() -> None:
    func = matmul(5, 16, 6)
    s = Schedule(func)
    i, j, k = s.get_loops("C")
    _, j1 = s.split(j, [None, 8])
    s.reorder(i, k, j1)
    s.decompose_reduction("C", k)
    s.tensorize(j1, tile(8))
    assert '"fma"' in script(s.func)
    same(s, func)
    with pytest.raises(ScheduleError, match="no intrinsic"):
        s.tensorize("fma", "nonsense")


def test_blockize_with_an_outer_reduction() -> None:
    func = matmul(8, 8, 8)
    s = Schedule(func)
    i, j, k = s.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (s.split(x, [None, 4]) for x in (i, j, k))
    s.reorder(i0, j0, k0, i1, j1, k1)
    b = s.blockize(i1)
    same(s, func)
    s.parallel(s.get_loops(b)[0])
    same(s, func)


def test_padding_of_a_contraction() -> None:
    func = matmul(5, 6, 7, relu=True)
    s = Schedule(func)
    s.pad_einsum("C", [4, 4, 4])
    same(s, func)


@pytest.mark.parametrize(("given", "wanted"), [
    ("(1, 5)", ", strides=(1, 8)"), ("(6, 1)", ""), ("(1, 7)", ""),
])  # fmt: skip
def test_padding_keeps_the_order_of_the_result(given: str, wanted: str) -> None:
    text = script(matmul(5, 6, 7, relu=True))
    buffer = 'C = T.alloc_buffer((5, 6), "float32")'
    assert buffer in text
    func = parse(text.replace(buffer, f"{buffer[:-1]}, strides={given})"))
    s = Schedule(func)
    s.pad_einsum("C", [4, 4, 4])
    same(s, func)
    assert f'C_pad = T.alloc_buffer((8, 8), "float32"{wanted})' in script(s.func)


def test_partition_then_merge() -> None:
    func = chain(13, 4)
    s = Schedule(func)
    first, rest = s.loop_partition(s.get_loops("B")[0], [8, None])
    s.parallel(first)
    same(s, func)
    t = Schedule(func)
    t.merge(t.get_loops("B")[0], t.get_loops("C")[0])
    same(t, func)
    assert rest


def test_two_seeds_and_a_copy() -> None:
    func = matmul(16, 16, 16)

    def sampled(seed: int) -> str:
        s = Schedule(func, seed=seed)
        i = s.get_loops("C")[0]
        s.split(i, s.sample_perfect_tile(i, n=3))
        s.annotate("C", "unroll", s.sample_categorical([0, 16, 64], [0.3, 0.3, 0.4]))
        s.compute_inline("C") if seed < 0 else None
        copy = s.copy()
        assert str(copy.trace) == str(s.trace)
        again = Schedule(func, seed=99)
        Trace.from_json(s.trace.as_json()).apply(again)
        assert script(again.func) == script(s.func)
        return str(s.trace)

    assert sampled(3) == sampled(3)
    assert len({sampled(k) for k in range(8)}) > 1


def test_sampled_location() -> None:
    func = chain()
    s = Schedule(func, seed=1)
    s.compute_at("B", s.sample_compute_location("B"))
    same(s, func)


def test_a_failing_primitive_changes_nothing() -> None:
    s = Schedule(matmul())
    before: Any = (s.func, str(s.trace))
    with pytest.raises(ScheduleError):
        s.split("i", [None, 0])
    assert (s.func, str(s.trace)) == before


class Broken(Schedule):
    """With a primitive that learns of a loop, and gives up then."""

    @primitive
    def learn(self, loop: str) -> None:
        """Bind a variable of the program more narrowly, and fail."""
        self.state.facts.bind(self.state.loop(loop).var, const(0), const(1))
        self.state.fail("gives up")


def test_a_failing_primitive_teaches_nothing() -> None:
    s = Broken(matmul())
    i = s.state.loop("i").var
    with pytest.raises(ScheduleError, match="gives up"):
        s.learn("i")
    assert not s.state.facts.prove(i < 1)
    assert s.state.facts.prove(i < 37)


def test_output_in_two_blocks_of_names() -> None:
    s = Schedule(
        program("""
for i in range(4):
    with T.block("B"):
        v = T.axis.spatial(4, i)
        B[v] = A[v] + 1.0
for i in range(4):
    with T.block("B"):
        v = T.axis.spatial(4, i)
        C[v] = B[v] + 1.0
""")
    )
    assert s.get_child_blocks("root") == ["B", "B_1"]
    assert s.get_loops("B_1") == ["i_1"]
    assert s.get_consumers("B") == ["B_1"]
    assert s.get_producers("B_1") == ["B"]
    assert s.get_output_blocks() == ["B", "B_1"]


def test_sums_of_a_parameter_become_one_of_their_own() -> None:
    """Behind those that are given; others go on to use the first, and may have it changed."""
    x, w = te.placeholder((6, 5), name="X"), te.placeholder((5, 7), name="W")
    k, r = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 5), "r")
    total = te.compute((7,), lambda j: te.sum(w[r, j] * 2.0, axis=r), name="total")
    twice = te.compute((7, 5), lambda j, i: w[i, j] * 3.0, name="twice")
    y = te.compute((6, 7), lambda i, j: te.sum(x[i, k] * twice[j, k], axis=k), name="Y")
    z = te.compute((6, 7), lambda i, j: y[i, j] - total[j], name="Z")
    func = te.create_prim_func([x, w, z])
    s = Schedule(func)
    s.precompute("total")
    s.precompute("twice")
    assert [b.name for b in s.func.buffers] == ["X", "W", "total", "Z"]
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert script(again.func) == script(s.func)
    first, second = preparations(s)
    assert (first.reads, first.makes, second.reads, second.makes) == ((1,), (1,), (1,), (2,))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, n).astype("float32") for n in ((6, 5), (5, 7)))
    anew = [np.zeros(shape, "float32") for shape in ((7, 5), (7,))]
    for p, made in zip((first, second), anew, strict=True):
        interpret(p.func, b, made)
    found = np.zeros((6, 7), "float32")
    interpret(s.func, a, *anew, found)
    np.testing.assert_array_equal(found, a @ b * 3 - 2 * b.sum(0))
