"""What stages, axes and rewritten operations are, before anything is carried out."""

from __future__ import annotations

import pytest

from smelt import te
from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import INDEX, Var, const
from smelt.pipeline import lower_program as lower
from smelt.tir.nodes import BufferStore, For, IterVar, Stmt

from .classics import row_sums
from .programs import argmax, chain, conv, dense, keeps, matmul, outputs, pairs, text, total


def names(axes: list[IterVar] | tuple[IterVar, ...]) -> list[str]:
    return [a.var.name for a in axes]


def extents(axes: list[IterVar] | tuple[IterVar, ...]) -> list[int | None]:
    return [value_of(a.dom.extent) for a in axes]


# --------------------------------------------------------------------------------------- axes


def test_a_stage_begins_with_the_axes_of_its_operation() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    assert s[c].op is c.op is s[c.op].origin_op
    assert s[c].leaf_iter_vars == [*c.op.axis, *c.op.reduce_axis] == s[c].all_iter_vars
    assert [x.name for x in s.stages] == ["A", "B", "C"]
    assert s.outputs == [c.op]
    assert s[a].leaf_iter_vars == []
    assert s[b].scope == ""


def test_splits_tell_the_ranges_of_their_axes() -> None:
    _, _, c = matmul(37, 10, 7)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    outer, inner = s[c].split(i, factor=8)
    assert names([outer, inner]) == ["i_outer", "i_inner"]
    assert extents([outer, inner]) == [5, 8]
    assert extents(s[c].split(j, nparts=3)) == [3, 4]
    assert extents(s[c].split(c.op.reduce_axis[0], factor=64)) == [1, 7]  # no larger than it is
    assert [type(r).__name__ for r in s[c].relations] == ["Split", "Split", "Split"]
    assert {a.kind for a in s[c].leaf_iter_vars[-2:]} == {"reduce"}


def test_axes_that_are_not_named_keep_their_places() -> None:
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 4, 5)
    assert names(s[c].leaf_iter_vars) == ["i_outer", "j_outer", "i_inner", "j_inner", "k"]
    s[c].reorder(yi, xo)
    assert s[c].leaf_iter_vars == [yi, yo, xi, xo, *c.op.reduce_axis]


def test_fusing() -> None:
    _, _, c = matmul(12, 10, 7)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    assert s[c].fuse(i) is i
    both = s[c].fuse(j, i)  # neighbours in the other order
    assert names([both]) == ["i_j_fused"]
    assert extents([both]) == [120]
    everything = s[c].fuse(both, *c.op.reduce_axis)
    assert everything.kind == "reduce"
    a, b = sorted(c.op.inputs, key=lambda t: t.name)
    keeps(s, [a, b, c])


def test_fusing_nothing_makes_an_axis_of_one_iteration() -> None:
    x = te.placeholder((5,), name="X")
    k = te.reduce_axis((0, 5), "k")
    y = te.compute((), lambda: te.sum(x[k], axis=k), name="Y")
    z = te.compute((), lambda: y[()] * 2.0, name="Z")
    s = te.create_schedule(z.op)
    for t in (y, z):
        one = s[t].fuse(*t.op.axis)
        s[t].parallel(one)
    s[y].compute_at(s[z], s[z].leaf_iter_vars[0])
    assert "T.parallel(1)" in text(keeps(s, [x, z]).func)


def test_a_later_word_about_an_axis_replaces_an_earlier_one() -> None:
    a, d = chain()
    s = te.create_schedule(d.op)
    s[d].unroll(d.op.axis[1])
    s[d].vectorize(d.op.axis[1])
    found = text(te.lower_schedule(s, [a, d]).func)
    assert "T.vectorized(9)" in found
    assert "T.unroll" not in found


def test_an_inner_stage_is_split_by_what_is_needed_there() -> None:
    a, d = chain(10, 12)
    s = te.create_schedule(d.op)
    c = d.op.inputs[0]
    o, _ = s[d].split(d.op.axis[1], factor=4)
    outer, inner = s[c].split(c.op.axis[1], factor=8)  # said before the place is known
    assert extents([outer, inner]) == [2, 8]
    s[c].vectorize(inner)
    s[c].compute_at(s[d], o)
    found = text(keeps(s, [a, d]).func)
    assert "T.vectorized(4)" in found
    assert "T.where" not in found


SHAPES = [(4, 56, 56), (3, 14, 14), (2, 8, 12), (5, 6, 7), (16, 7, 7)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everything_fused_and_split_may_be_parallel_and_vectors(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="X")
    y = te.compute(shape, lambda i, j, k: x[i, j, k] + 1.0, name="Y")
    for factor in (3, 7, 8, 12, 16, 64, 70):
        s = te.create_schedule(y.op)
        outer, inner = s[y].split(s[y].fuse(*y.op.axis), factor=factor)
        s[y].parallel(outer)
        s[y].vectorize(inner)
        te.lower_schedule(s, [x, y])


def test_splits_of_splits_that_leave_rests() -> None:
    a, d = chain(22, 9)
    s = te.create_schedule(d.op)
    i, j = d.op.axis
    io, ii = s[d].split(i, factor=8)
    iio, iii = s[d].split(ii, factor=3)
    c = d.op.inputs[0]
    s[d].reorder(io, j, iio, iii)
    s[c].compute_at(s[d], io)
    s[d].parallel(io)
    s[d].vectorize(iii)
    keeps(s, [a, d])


# --------------------------------------------------------------------------------------- place


def test_producers_may_stand_inside_producers() -> None:
    a, d = chain(8, 8)
    s = te.create_schedule(d.op)
    c = d.op.inputs[0]
    b = c.op.inputs[0]
    s[b].compute_at(s[c], c.op.axis[1])
    s[c].compute_at(s[d], d.op.axis[0])
    found = text(keeps(s, [a, d]).func)
    assert found.count("for i") == 1


def test_inline_and_back() -> None:
    a, d = chain()
    s = te.create_schedule(d.op)
    c = d.op.inputs[0]
    s[c].compute_inline()
    assert 'T.block("C")' not in text(te.lower_schedule(s, [a, d]).func)
    s[c].compute_root()
    assert 'T.block("C")' in text(te.lower_schedule(s, [a, d]).func)


def test_an_operation_of_two_results_can_be_inlined() -> None:
    x, out = pairs()
    s = te.create_schedule(out.op)
    s[out.op.inputs[0]].compute_inline()
    found = text(keeps(s, [x, out]).func)
    assert "alloc_buffer" not in found


def test_a_parameter_may_be_an_intermediate_result() -> None:
    a, d = chain()
    c = d.op.inputs[0]
    s = te.create_schedule(d.op)
    s[c].parallel(c.op.axis[0])
    keeps(s, [a, c, d])


def test_several_outputs() -> None:
    a, d = chain()
    c = d.op.inputs[0]
    s = te.create_schedule([c.op, d])
    assert s.outputs == [c.op, d.op]
    keeps(s, [a, c, d])


def test_an_extern_stage_is_a_statement() -> None:
    a, b, c = matmul(6, 5, 4)

    def double(ins: list[te.Tensor], outs: list[te.Tensor]) -> Stmt:
        i, j = Var("p"), Var("q")
        store = BufferStore(outs[0], ins[0][i, j] * 2.0, (i, j))
        return loop(i, 6, loop(j, 5, store))

    d = te.extern((6, 5), [c], double, name="D")
    e = te.compute((6, 5), lambda i, j: d[i, j] + 1.0, name="E")
    s = te.create_schedule(e.op)
    cc = s.cache_read(c, "local", [d])
    assert s[d].op.inputs == (cc,)
    assert s[d].leaf_iter_vars == []
    s[e].parallel(e.op.axis[0])
    keeps(s, [a, b, e])
    with pytest.raises(ScheduleError, match="D is written by a statement"):
        s[d].compute_inline()


def loop(v: Var, extent: int, body: Stmt) -> For:
    return For(v, const(0, INDEX), const(extent, INDEX), body)


def test_stages_with_rests_side_by_side_in_a_parallel_loop() -> None:
    a, b, bias, e = dense(9, 12, 8)
    s = te.create_schedule(e.op)
    d = e.op.inputs[0]
    c = d.op.inputs[0]
    _, jo = s[e].split(e.op.axis[1], nparts=3)
    tiles = s[e].fuse(e.op.axis[0], s[e].leaf_iter_vars[1])
    for x in (d, c):
        s[x].split(s[x].fuse(*x.op.axis), factor=3)
        s[x].compute_at(s[e], tiles)
    s[e].unroll(jo)
    s[e].parallel(tiles)
    keeps(s, [a, b, bias, e])


# --------------------------------------------------------------------------------------- rewriting


def test_cache_write_leaves_the_tensor_and_its_axes_where_they_are() -> None:
    a, b, c = matmul()
    axes, k = c.op.axis, c.op.reduce_axis
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    assert (cc.name, cc.scope, s[cc].scope) == ("C_local", "local", "local")
    assert s[c].op.axis == axes == c.op.axis
    assert s[c].op.reduce_axis == ()
    assert s[c].op.inputs == (cc,)
    assert s[c] is s[c.op] is s[s[c].op]
    assert s.outputs == [s[c].op]
    assert s[cc].op.reduce_axis == k  # the same objects
    assert not set(s[cc].op.axis) & set(axes)
    assert [x.name for x in s.stages] == ["A", "B", "C_local", "C"]
    keeps(s, [a, b, c])


def test_cache_write_takes_what_was_said_about_the_reduction_along() -> None:
    a, b, c = matmul(12, 10, 8)
    s = te.create_schedule(c.op)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].unroll(ki)
    cc = s.cache_write(c, "local")
    assert s[cc].leaf_iter_vars == [*s[cc].op.axis, ko, ki]
    assert s[c].leaf_iter_vars == list(c.op.axis)
    assert "T.unroll(4)" in text(keeps(s, [a, b, c]).func)


def test_cache_write_after_splits_keeps_the_result_in_the_order_of_the_loops() -> None:
    a, b, c = matmul(13, 10, 8)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    _, ji = s[c].split(j, factor=4)
    s[c].reorder(ji, i)
    cc = s.cache_write(c, "global")
    assert names(s[cc].op.axis) == ["j_inner", "j_outer", "i"]
    assert [value_of(e) for e in cc.shape] == [4, 3, 13]
    assert s[c].leaf_iter_vars == [i, j]
    assert s[c].relations == []
    keeps(s, [a, b, c])


def test_caches_of_caches() -> None:
    a, b, c = matmul(9, 8, 7)
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    aa = s.cache_read(a, "shared.dyn", cc)
    al = s.cache_read(aa, "local", [cc.op])
    assert [t.name for t in (aa, al)] == ["A_shared_dyn", "A_shared_dyn_local"]
    assert s[cc].op.inputs == (al, b)
    assert [x.name for x in s.stages][:4] == ["A", "A_shared_dyn", "A_shared_dyn_local", "B"]
    s[al].compute_at(s[cc], s[cc].op.reduce_axis[0])
    keeps(s, [a, b, c])


def test_some_readers_read_the_copy() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((6,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((6,), lambda i: b[i] - c[5 - i], name="D")
    s = te.create_schedule(d.op)
    bb = s.cache_read(b, "local", [d])
    assert s[c].op is c.op
    assert s[d].op.inputs == (bb, c)
    s[bb].compute_inline()
    keeps(s, [a, d])


def test_rfactor_moves_the_splits_of_its_axis() -> None:
    n = te.size_var("n")
    k1, k2 = te.reduce_axis((0, n), name="k1"), te.reduce_axis((0, n), name="k2")
    a = te.placeholder((n, n, n), name="A")
    b = te.compute((n,), lambda i: te.sum(a[i, k1, k2], axis=[k1, k2]), name="B")
    s = te.create_schedule(b.op)
    bf = s.rfactor(b, k1)
    assert bf.shape == (n, n)
    assert s[bf].op.reduce_axis == (k2,)
    assert s[b].op.reduce_axis[0].dom.extent is n
    assert len(s[b].all_iter_vars) == 2
    keeps(s, [a, b], {"n": 4})

    s = te.create_schedule(b.op)
    ko, ki = s[b].split(k1, factor=4)
    xo, xi = s[b].split(b.op.axis[0], factor=8)
    k2o, k2i = s[b].split(k2, factor=2)
    s[b].unroll(ko)
    bf = s.rfactor(b, ki, 1)
    assert value_of(bf.shape[1]) == 4
    assert bf.shape[0] is n
    assert s[bf].op.reduce_axis == (k2, ko)
    assert s[bf].leaf_iter_vars == [*s[bf].op.axis, k2o, k2i, ko]
    assert s[b].leaf_iter_vars == [xo, xi, *s[b].op.reduce_axis]
    assert extents(s[b].op.reduce_axis) == [4]
    with pytest.raises(ScheduleError, match="the number of iterations of k1_outer is not known"):
        te.lower_schedule(s, [a, b])


def test_rfactor_of_pairs_and_of_all_there_is() -> None:
    x, value, place = argmax()
    s = te.create_schedule(value.op)
    first, second = s.rfactor(value, value.op.reduce_axis[0], -1)
    assert [t.name for t in (first, second)] == ["best_0_rf", "best_1_rf"]
    assert s[first].op.reduce_axis == ()  # nothing is left to reduce there
    s[first].compute_inline()
    keeps(s, [x, value, place])


def test_lanes_may_end_at_different_terms() -> None:
    a, b, _ = row_sums(4, 23)
    s = te.create_schedule(b.op)
    _, ki = s[b].split(s[b].op.reduce_axis[0], factor=8)
    bf = s.rfactor(b, ki, 1)
    s[bf].compute_at(s[b], s[b].op.axis[0])
    s[bf].vectorize(s[bf].op.axis[1])  # around the sum of two or three terms
    keeps(s, [a, b])


def test_a_condition_on_data_stays() -> None:
    x, y = total()
    s = te.create_schedule(y.op)
    yl = s.cache_write(y, "local")
    xs = s.cache_read(x, "shared", [yl])
    s[yl].compute_at(s[y], y.op.axis[0])
    s[xs].compute_at(s[yl], s[yl].op.reduce_axis[1])
    keeps(s, [x, y])


def test_rfactor_keeps_start_and_condition() -> None:
    x, y = total()
    s = te.create_schedule(y.op)
    r, q = y.op.reduce_axis
    qo, _ = s[y].split(q, factor=4)
    part = s.rfactor(y, qo)
    assert s[part].op.reduce_axis[0] is r
    keeps(s, [x, y])


def test_a_reduction_may_start_from_a_tensor() -> None:
    x, start = te.placeholder((6, 8), name="X"), te.placeholder((6,), name="S")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((6,), lambda i: start[i] * 2.0, name="B")
    y = te.compute((6,), lambda i: te.sum(x[i, k], axis=k, init=b[i]), name="Y")
    s = te.create_schedule(y.op)
    io, ii = s[y].split(y.op.axis[0], factor=4)
    s[y].reorder(io, k, ii)
    s[y].vectorize(ii)
    s[b].compute_at(s[y], io)
    keeps(s, [x, start, y])


# --------------------------------------------------------------------------------------- schedules


def test_a_copy_is_independent() -> None:
    args = conv()
    s = te.create_schedule(outputs(args))
    relu = s.output_stages[0]
    y = relu.op.inputs[0]
    s[y].compute_at(relu, relu.op.axis[0])
    group = s.create_group(y.op.inputs[0], args[0])
    before = text(te.lower_schedule(s, args).func)
    other = s.copy()
    other[y].compute_root()
    other[relu.op].parallel(relu.op.axis[0])
    assert other[y].group is None
    assert other.groups[0] is not group
    assert other.groups[0].members[0] is other[y.op.inputs[0]]
    assert text(te.lower_schedule(s, args).func) == before
    assert text(te.lower_schedule(other, args).func) != before
    assert text(te.lower_schedule(s.normalize(), args).func) == before


def test_a_schedule_can_be_lowered_again_and_go_on() -> None:
    args = dense()
    s = te.create_schedule(outputs(args))
    e = s.output_stages[0]
    first = text(te.lower_schedule(s, args).func)
    assert text(te.lower_schedule(s, args).func) == first
    e.parallel(e.op.axis[0])
    assert "T.parallel" in text(te.lower_schedule(s, args).func)


def test_groups_inside_groups() -> None:
    x, w, out = conv(2, 4, 5, 3)
    y = out.op.inputs[0]
    pad = y.op.inputs[0]
    s = te.create_schedule(out.op)
    inner = s.create_group(pad, x)
    outer = s.create_group(y, [x, w])
    assert outer.members == [s[y], inner]
    assert inner.group is outer
    inner.compute_at(s[y], y.op.axis[0])
    outer.compute_at(s[out], out.op.axis[0])
    found = text(keeps(s, [x, w, out]).func)
    assert found.count("in range(1)") >= 1
    outer.compute_root()
    keeps(s, [x, w, out])


def test_a_cache_too_large_for_registers_is_handed_in() -> None:
    a, d = chain(200, 200)
    s = te.create_schedule(d.op)
    cache = s.cache_write(d, "local")  # computed as a whole: 160 kB
    flat = lower(te.lower_schedule(s, [a, d]).func)
    assert cache.name in [b.name for b in flat.buffers]


def test_names_of_programs_and_sizes() -> None:
    n = te.var("n")
    a, d = chain(n, 4)
    s = te.create_schedule(d.op)
    assert te.lower_schedule(s, [a, d], "f").func.name == "f"
    assert [p.name for p in te.lower_schedule(s, [n, a, d]).func.params] == ["n", "A", "D"]
    assert [p.name for p in te.lower_schedule(s, [a, d]).func.params] == ["A", "D", "n"]


def test_sums_of_rows_in_parts() -> None:
    a, b, _ = row_sums(5, 23)
    s = te.create_schedule(b.op)
    _, ki = s[b].split(s[b].op.reduce_axis[0], nparts=4)
    bf = s.rfactor(b, ki)
    bb = s.cache_write(bf, "local")
    s[bb].compute_at(s[bf], s[bf].op.axis[1])
    keeps(s, [a, b])
