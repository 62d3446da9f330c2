"""Knobs: every policy, and configs by index and in logs."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import autotvm, te
from smelt.autotvm.space import SplitEntity, SplitSpace, get_factors, get_pow2s


def sizes(space: SplitSpace) -> list[list[int]]:
    return [e.size for e in space]


def test_factors_and_powers() -> None:
    assert get_factors(12) == [1, 2, 3, 4, 6, 12]
    assert get_pow2s(12) == [1, 2, 4, 8]


def test_splits() -> None:
    assert sizes(SplitSpace(12, num_outputs=2)) == [[-1, n] for n in (1, 2, 3, 4, 6, 12)]
    assert sizes(SplitSpace(12, "power2", num_outputs=2)) == [[-1, n] for n in (1, 2, 4, 8)]
    assert sizes(SplitSpace(12, "verbose", num_outputs=2, max_factor=8)) == [
        [-1, n] for n in (1, 2, 3, 4, 6, 8)
    ]
    assert sizes(SplitSpace(12, "verbose", num_outputs=2, no_tail=True, max_factor=8)) == [
        [-1, n] for n in (1, 2, 3, 4, 6)
    ]
    assert sizes(SplitSpace(8, num_outputs=2, filter=lambda e: e.size[1] >= 4)) == [
        [-1, 4],
        [-1, 8],
    ]
    assert sizes(SplitSpace(8, "candidate", candidate=[[-1, 3], [2, 4]])) == [[-1, 3], [2, 4]]
    three = sizes(SplitSpace(6, num_outputs=3))
    assert len(three) == 9
    assert all(6 % (a * b) == 0 for _, a, b in three)


def test_orders_and_annotations() -> None:
    cfg = autotvm.ConfigSpace()
    a, b, c = cfg.axis(4), cfg.axis(8), cfg.axis(2)

    def values(name: str) -> list[Any]:
        return [e.data for e in cfg.space_map[name]]

    cfg.define_reorder("same", [a, b, c], policy="identity")
    cfg.define_reorder("all", [a, b, c], policy="all")
    cfg.define_reorder("interval", [a, b, c], policy="interval_all", interval=(1, 3))
    cfg.define_reorder("given", [a, b, c], policy="candidate", candidate=[[c, a, b], [a, b, c]])
    cfg.define_reorder("woven", [a, b, c], policy="interleave", spatial=[[a, b]], reduce=[[c]])
    assert values("same") == [[0, 1, 2]]
    assert values("all") == [list(p) for p in permutations(range(3))]
    assert values("interval") == [[0, 1, 2], [0, 2, 1]]
    assert values("given") == [[2, 0, 1], [0, 1, 2]]
    assert values("woven") == [[0, 2, 1]]
    cfg.define_annotate("unroll", [a, b], policy="unroll")
    cfg.define_annotate("vec", [a, b], policy="try_vec")
    cfg.define_annotate("both", [a], policy="try_unroll_vec")
    cfg.define_annotate("cache", [a, b, c], policy="locate_cache", num_anchor=1)
    cfg.define_annotate("threads", [a, b], policy="bind_gpu")
    assert values("unroll") == [["unroll", "unroll"]]
    assert values("vec") == [["none", "none"], ["none", "vec"], ["vec", "none"]]
    assert values("both") == [["none"], ["unroll"], ["vec"]]
    assert values("cache") == [[0], [1], [2]]
    assert values("threads") == [["blockIdx.x", "threadIdx.x"]]
    cfg.define_knob("knob", [1, 2, "x"])
    assert values("knob") == [1, 2, "x"]
    assert len(cfg) == 6 * 2 * 2 * 3 * 3 * 3 * 3
    assert cfg["all"].perm == [0, 1, 2]
    assert cfg["knob"].val == 1


def test_chains_weave_in_every_order_that_keeps_their_own() -> None:
    cfg = autotvm.ConfigSpace()
    a, b, c, d = [cfg.axis(n) for n in (2, 3, 4, 5)]
    cfg.define_reorder("o", [a, b, c, d], policy="interleave", spatial=[[a, b]], reduce=[[c, d]])
    assert [e.perm for e in cfg.space_map["o"]] == [[0, 2, 1, 3], [0, 2, 3, 1]]


def config_space() -> autotvm.ConfigSpace:
    cfg = autotvm.ConfigSpace()
    cfg.define_split("tile", cfg.axis(8), num_outputs=2)
    cfg.define_annotate("ann", [cfg.axis(4)], policy="try_unroll_vec")
    cfg.define_knob("knob", ["a", "b"])
    return cfg


def test_configs_by_index() -> None:
    cfg = config_space()
    assert cfg.dims == [4, 3, 2]
    assert len(cfg) == cfg.range_length == 24
    assert cfg.get(5)["tile"].size == [-1, 2]  # the first knob changes fastest
    for n in range(24):
        config = cfg.get(n)
        assert config.index == n == cfg.knob2point(cfg.point2knob(n)) == cfg.index_of(config.values)
        row = config.to_json_dict()
        again = autotvm.ConfigEntity.from_json_dict(row)
        assert again == config
        assert again.to_json_dict() == row
    assert cfg.get_next_index(3, 2) == 5
    assert cfg.get_next_index(23) is None
    assert sorted(cfg.sample_ints(100)) == list(range(24))
    assert cfg.get_rand_index(3, 5, to_exclude=[3]) == 4
    for n in range(24):
        one, other = cfg.point2knob(n), cfg.point2knob(cfg.random_walk(n))
        assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_a_filter_leaves_configs_out() -> None:
    cfg = config_space()
    cfg.multi_filter(lambda c: c["tile"].size[1] < 8 or c["knob"].val == "b")
    assert len(cfg) == 21
    assert cfg.range_length == 24
    assert not cfg.is_index_valid(3)
    assert cfg.is_index_valid(15)
    assert cfg.subrange_length(0, 4) == 3
    assert 3 not in cfg.sample_ints(100)


def test_a_fallback_says_so_and_can_be_changed() -> None:
    cfg = autotvm.FallbackConfigEntity()
    cfg.define_split("tile", cfg.axis(48), num_outputs=3)
    cfg.define_knob("knob", [3, 4])
    assert cfg.is_fallback
    assert cfg["tile"].size == [-1, 1, 1]
    cfg.fallback_split("tile", [-1, 8, 4])
    assert cfg["tile"].size == [2, 6, 4]
    cfg["tile"] = SplitEntity([-1, 2, 2])
    assert cfg["tile"].size == [-1, 2, 2]


@pytest.mark.parametrize("kind", ["unroll", "vec", "none"])
def test_entities_are_carried_out(kind: str) -> None:
    A = te.placeholder((6, 16), name="A")
    B = te.compute((6, 16), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.ConfigSpace()
    y, x = s[B].op.axis
    axes = [y, *SplitEntity([-1, 2, 4]).apply(s, B, x)]
    cfg.define_reorder(
        "order", axes, policy="candidate", candidate=[[axes[n] for n in (1, 0, 2, 3)]]
    )
    order = cfg["order"].apply(s, B, axes)
    assert [a is axes[n] for a, n in zip(order, (1, 0, 2, 3), strict=True)] == [True] * 4
    cfg.define_annotate("ann", order[-1:], policy=kind)
    cfg["ann"].apply(s, B, order[-1:], axis_lens=[4], max_unroll=8, vec_size=[4])
    text = str(te.lower_schedule(s, [A, B]).trace)
    assert ("unroll" in text) == (kind == "unroll")
    assert ("vectorize" in text) == (kind == "vec")
    given = np.arange(96, dtype="float32").reshape(6, 16)
    found = smelt.nd.array(np.zeros((6, 16), "float32"))
    smelt.build(s, [A, B])(smelt.nd.array(given), found)
    np.testing.assert_array_equal(found.numpy(), given * 2 + 1)
