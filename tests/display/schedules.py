"""Random schedules: what footprints are tried on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from smelt import te
from smelt.ir.errors import ScheduleError
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule
from tests.lowering.programs import argmax, concat, pool
from tests.schedule.support import chain, conv, matmul, softmax

__all__ = ["random_schedule"]

Sizes = dict[str, int]

PROGRAMS: dict[str, Callable[[Any, Any, Any], PrimFunc]] = {
    "matmul": matmul,
    "relu": lambda m, n, k: matmul(m, n, k, relu=True),
    "chain": lambda m, n, _: chain(m, n),
    "softmax": lambda m, n, _: softmax(m, n),
    "argmax": lambda m, n, _: argmax(m, n),
    "concat": concat,
    "conv": lambda m, n, k: conv(1, 1 + m % 3, 3 + n % 4, 3 + k % 4, 1 + m % 5, stride=1 + n % 2),
    "pool": lambda m, n, k: pool(1 + m % 3, 4 + n % 4, 4 + k % 4, stride=1 + n % 2),
}
SYMBOLIC = ("matmul", "relu", "chain", "softmax", "argmax")


def random_schedule(random: Random) -> tuple[Schedule, list[Sizes]]:
    """A small program after some random steps, and sizes to run it with."""
    sizes = [random.randint(1, 9) for _ in "mnk"]
    name = random.choice(sorted(PROGRAMS))
    if name in SYMBOLIC and random.random() < 0.3:
        func = PROGRAMS[name](*[te.size_var(x) for x in "mnk"])
        given = [dict(zip("mnk", s, strict=True)) for s in (sizes, sizes[::-1])]
    else:
        func, given = PROGRAMS[name](*sizes), [{}]
    s = Schedule(func)
    for _ in range(random.randint(0, 9)):
        before = s.copy()
        try:
            random.choice(MOVES)(s, random)
        except ScheduleError:
            s = before
    return s, given


def _nest(s: Schedule, random: Random) -> tuple[str, list[str]]:
    """A block and the loops around it."""
    block = random.choice([b for b in s.state.index.blocks if b != "root"])
    return block, [*s.get_loops(block)] or ["none"]


def _on_loop(primitive: str) -> Callable[[Schedule, Random], object]:
    def move(s: Schedule, random: Random) -> object:
        return getattr(s, primitive)(random.choice(_nest(s, random)[1]))

    return move


def _split(s: Schedule, random: Random) -> object:
    inner = random.randint(1, 5)
    factors = random.choice([[None, inner], [inner, None], [2, None, inner]])
    return s.split(random.choice(_nest(s, random)[1]), factors)


def _fuse(s: Schedule, random: Random) -> object:
    loops = _nest(s, random)[1]
    k = random.randint(0, max(0, len(loops) - 2))
    return s.fuse(*loops[k : k + 2])


def _reorder(s: Schedule, random: Random) -> object:
    loops = _nest(s, random)[1]
    return s.reorder(*random.sample(loops, len(loops)))


def _move(primitive: str) -> Callable[[Schedule, Random], object]:
    def move(s: Schedule, random: Random) -> object:
        block, loop = _nest(s, random)[0], random.choice(_nest(s, random)[1])
        return getattr(s, primitive)(block, loop)

    return move


def _cache(primitive: str) -> Callable[[Schedule, Random], object]:
    def move(s: Schedule, random: Random) -> object:
        scope = random.choice(["global", "local"])
        return getattr(s, primitive)(_nest(s, random)[0], 0, scope)

    return move


def _decompose(s: Schedule, random: Random) -> object:
    block, loops = _nest(s, random)
    return s.decompose_reduction(block, random.choice(loops))


def _rfactor(s: Schedule, random: Random) -> object:
    return s.rfactor(random.choice(_nest(s, random)[1]), 0)


def _partition(s: Schedule, random: Random) -> object:
    return s.loop_partition(random.choice(_nest(s, random)[1]), [random.randint(1, 5), None])


def _layout(s: Schedule, random: Random) -> object:
    block, factor = _nest(s, random)[0], random.randint(1, 5)
    return s.transform_layout(
        block, ("write", 0), lambda *i: (*i[:-1], i[-1] // factor, i[-1] % factor)
    )


def _inline(s: Schedule, random: Random) -> object:
    return s.compute_inline(_nest(s, random)[0])


MOVES: tuple[Callable[[Schedule, Random], object], ...] = (
    _split, _split, _split, _fuse, _reorder, _decompose, _rfactor, _partition, _layout, _inline,
    _on_loop("parallel"), _on_loop("vectorize"), _on_loop("unroll"), _on_loop("blockize"),
    _move("compute_at"), _move("reverse_compute_at"), _cache("cache_read"), _cache("cache_write"),
)  # fmt: skip
"""Steps of every kind that changes loops, blocks or buffers."""
