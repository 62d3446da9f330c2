"""Every case of ONNX's backend suite, read and written, against the lists."""

from __future__ import annotations

import warnings
from functools import cache

import onnx
import pytest

from tests.conformance import ratchet
from tests.conformance.suite import Case

from .suite import FOLDER, UPDATE, lists, names, outcome, sorted_out

SHARDS = 6


@cache
def cases() -> dict[str, Case]:
    return names()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_what_came_through_comes_through(shard: int) -> None:
    version, _ = ratchet.lines(FOLDER / "without.txt")
    if version != onnx.__version__:
        pytest.skip(f"the lists are of onnx {version}; {UPDATE} writes them anew")
    known = lists()
    mine = dict(list(cases().items())[shard::SHARDS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = {n: outcome(c) for n, c in mine.items()}
    found = sorted_out({n: r for n, r in outcomes.items() if r is not None})
    order = ("", "reference", "without")

    def place(listed: dict[str, dict[str, str]], name: str) -> str:
        return next((k for k, v in listed.items() if name in v), "")

    worse = [
        f"{n}: {found[place(found, n)][n]}"
        for n in mine
        if order.index(place(found, n)) > order.index(place(known, n))
    ]
    assert not worse, "\n".join(worse)
    better = [n for n in mine if order.index(place(found, n)) < order.index(place(known, n))]
    assert not better, f"{UPDATE} strikes them out: {', '.join(better)}"
