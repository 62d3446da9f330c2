"""Random schedules on random programs keep the interpreter's result, and their traces replay."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.errors import ScheduleError
from smelt.tir.equal import assert_structural_equal
from smelt.tir.nodes import Block, PrimFunc, walk
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace
from smelt.tir.verify import verify

from .moves import LAST, MOVES, PRIMITIVES, QUERIES, Sight
from .programs import FIXED, SYMBOLIC
from .support import same

RARE = {
    "tensorize": ("matmul16",),
    "rolling_buffer": ("stencil",),
    "decompose_padding": ("conv",),
    "cache_inplace": ("in_place",),
    "pad_einsum": ("matmul", "chain"),
}
"""Primitives that few programs have a use for, and which those are."""


def test_every_primitive_takes_part() -> None:
    assert set(MOVES) == PRIMITIVES - QUERIES


class Case:
    """A random program of small size, sizes to run it with, and a schedule of it."""

    def __init__(self, random: Random, names: Sequence[str] = tuple(FIXED)) -> None:
        self.random = random
        m, n, k = (random.randint(1, 9) for _ in range(3))
        self.name = random.choice(names)
        make = FIXED[self.name]
        self.sizes: list[dict[str, int]] = [{}]
        if self.name in SYMBOLIC and random.random() < 0.3:
            self.func = make(te.size_var("m"), te.size_var("n"), te.size_var("k"))
            self.sizes = [dict(zip("mnk", e, strict=True)) for e in ((m, n, k), (n, k, 1))]
        else:
            self.func = make(m, n, k)
        self.schedule = Schedule(self.func)

    def step(self, kind: str) -> bool:
        """One random call; whether it was legal, and the parameters have kept their shapes."""
        before = self.schedule.copy()
        try:
            MOVES[kind](self.schedule, Sight(self.random, self.schedule))
        except ScheduleError:
            self.schedule = before
            return False
        if not self.takes_the_same_arrays():
            self.schedule = before
            return False
        return True

    def takes_the_same_arrays(self) -> bool:
        """Whether parameters have kept their shapes, but those that can be made of the old ones."""
        func, anew = self.schedule.func, set(self.schedule.state.relaid)
        blocks = [s for s in walk(func.body) if isinstance(s, Block)]
        written = {w.buffer.name for b in blocks for w in b.writes}
        if anew and (written & anew or self.sizes != [{}]):
            return False
        if len(func.buffers) > len(self.func.buffers):  # sums of a parameter became one
            return False
        return parameters_keep_their_shape(func, self.func, anew)

    def check(self) -> None:
        """The result is the same, and so is the program that the trace makes."""
        verify(self.schedule.func)
        for sizes in self.sizes:
            same(self.schedule, self.func, sizes)
        replays(self.schedule, self.func)


def parameters_keep_their_shape(func: PrimFunc, old: PrimFunc, relaid: Set[str]) -> bool:
    """Whether a caller can hand over the same arrays, but for those that are laid out anew."""
    return all(
        len(a.shape) == len(b.shape)
        and all(x is y for x, y in zip(a.shape, b.shape, strict=True))
        and a.type == b.type
        for a, b in zip(func.buffers, old.buffers, strict=True)
        if a.name not in relaid
    )


def replays(s: Schedule, func: PrimFunc) -> None:
    """The trace, as text and as JSON, makes the same program with the same text."""
    for trace in (
        Trace.from_text(str(s.trace)),
        Trace.from_json(json.dumps(s.trace.as_json())),
        s.trace.simplified(),
    ):
        again = Schedule(func, seed=77)
        trace.apply(again)
        assert_structural_equal(again.func, s.func)
        assert script(again.func) == script(s.func)
    assert str(Trace.from_text(str(s.trace))) == str(s.trace)
    assert s.trace.as_json() == str(s.trace).splitlines()


@given(st.integers(0, 1 << 32))
@settings(max_examples=120)
def test_random_schedules_keep_the_result(seed: int) -> None:
    case = Case(Random(seed))
    kinds = sorted(MOVES)
    for _ in range(case.random.randint(1, 14)):
        kind = case.random.choice(kinds)
        if case.step(kind) and kind in LAST:
            break
    case.check()


@pytest.mark.parametrize("kind", sorted(MOVES))
def test_each_primitive_keeps_the_result(kind: str) -> None:
    """After steps that may be in its way; a primitive that is never legal here is a mistake."""
    done = 0
    for seed in range(300):
        case = Case(Random(seed), RARE.get(kind, tuple(FIXED)))
        for other in case.random.choices(["split", "fuse", "reorder", "annotate"], k=seed % 3):
            case.step(other)
        if case.step(kind):
            case.check()
            done += 1
        if done == 3:
            return
    raise AssertionError(f"{kind} was legal {done} times in 300 tries")
