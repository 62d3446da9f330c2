"""The matcher answers as the naive one does, and binds as one of its ways."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.relax.dpl import DominatorPattern
from smelt.relax.dpl.graph import DataflowGraph
from smelt.relax.dpl.match import Matcher, parts_first
from smelt.relax.nodes import values

from .naive import Imitator, random_graph, ways


@given(st.integers(0, 1 << 32))
@settings(max_examples=400, deadline=None)
def test_matches_as_written_down(seed: int) -> None:
    rng = random.Random(seed)
    root = random_graph(rng)
    imitator = Imitator(rng)
    pattern = imitator.of(root if rng.random() < 0.8 else random_graph(rng), 4)
    matcher = Matcher(DataflowGraph(root))
    for e in values(root):
        expected = list(ways(pattern, e, {}, root))
        found = matcher.match(pattern, e)
        assert (found is not None) == bool(expected), (pattern, e)
        if found is not None:
            paths = {p.path for p in parts_first(pattern) if isinstance(p, DominatorPattern)}
            assert {p: v[0] for p, v in found.items() if p not in paths} in expected


def test_both_answers_are_met_often() -> None:
    fits = matched = 0
    for seed in range(200):
        rng = random.Random(seed)
        root = random_graph(rng)
        matched += Imitator(rng).of(root, 4).match(root)
        fits += 1
    assert 40 < matched < fits - 40
