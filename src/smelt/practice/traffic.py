"""How much a cache has to fetch: the addresses of a program run through a simulated cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.tir.interpret import interpret
from smelt.tir.interpret_threads import Observer, Point
from smelt.tir.nodes import Buffer, PrimFunc

LINE = 64
"""Bytes of a cache line."""


class Traffic(NamedTuple):
    """What a run of a program asks of a cache.

    accesses  elements read or written
    misses    lines that had to be fetched from farther away
    """

    accesses: int
    misses: int

    @property
    def bytes(self) -> int:
        """The bytes fetched."""
        return self.misses * LINE


class _Cache(Observer):
    """A cache that forgets what has not been used for longest (a dict keeps its order)."""

    def __init__(self, size: int) -> None:
        self.lines: dict[int, None] = {}
        self.room = size // LINE
        self.accesses = self.misses = self.end = 0
        self.places: dict[int, tuple[int, Any]] = {}  # where memory stands, by its identity

    def memory(self, memory: Any, buffer: Buffer, common: bool) -> None:
        if buffer.scope != "local":  # that is in registers
            self.places[id(memory)] = self.end, memory
            self.end += (memory.nbytes // 4096 + 1) * 4096  # apart, page by page

    def reads(self, place: int, memory: Any, at: int, index: Point) -> None:
        if id(memory) not in self.places:
            return
        line = (self.places[id(memory)][0] + at * memory.itemsize) // LINE
        self.accesses += 1
        if line in self.lines:
            del self.lines[line]
        else:
            self.misses += 1
            if len(self.lines) >= self.room:
                del self.lines[next(iter(self.lines))]
        self.lines[line] = None

    writes = reads


def cache_traffic(flat: PrimFunc, cache_bytes: int) -> Traffic:
    """The traffic of a program of flat loops, run once, between a cache and the next one.

    cache_bytes  its size; fully associative, least recently used line replaced, lines of 64 bytes
    """
    arrays = []
    for b in flat.buffers:
        shape = b.fixed_shape()
        if shape is None:
            raise Unsupported(f"cache_traffic: the size of {b.name} is not a number")
        arrays.append(np.zeros(shape, dt.to_numpy(b.type)))
    cache = _Cache(cache_bytes)
    interpret(flat, *arrays, observer=cache)
    return Traffic(cache.accesses, cache.misses)
