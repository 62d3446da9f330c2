"""How much a cache has to fetch: the addresses of a program run through a simulated cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.ir.expr import Expr, IntImm
from smelt.ir.node import Node
from smelt.tir import nodes as tir
from smelt.tir.schedule.trace_text import expr_text

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


class _Cache:
    """A cache that forgets what has not been used for longest (a dict keeps its order)."""

    def __init__(self, size: int) -> None:
        self.lines: dict[int, None] = {}
        self.room = size // LINE
        self.accesses = self.misses = 0

    def touch(self, address: int) -> None:
        line = address // LINE
        self.accesses += 1
        if line in self.lines:
            del self.lines[line]
        else:
            self.misses += 1
            if len(self.lines) >= self.room:
                del self.lines[next(iter(self.lines))]
        self.lines[line] = None


def cache_traffic(flat: tir.PrimFunc, cache_bytes: int) -> Traffic:
    """The traffic of a program of flat serial loops, run once, between a cache and the next one.

    cache_bytes  its size; fully associative, least recently used line replaced, lines of 64 bytes
    """
    writer = _Writer()
    for b in flat.buffers:
        writer.place(b)
    writer.stmt(flat.body, 1)
    scope: dict[str, Any] = {}
    exec("\n".join(["def run(touch):", *writer.lines]), scope)
    cache = _Cache(cache_bytes)
    run: Callable[[Callable[[int], None]], None] = scope["run"]
    run(cache.touch)
    return Traffic(cache.accesses, cache.misses)


class _Writer:
    """Writes the program again as Python that only touches addresses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.base: dict[tir.Buffer, int] = {}
        self.end = 0

    def place(self, b: tir.Buffer) -> None:
        (size,) = b.shape
        if not isinstance(size, IntImm):
            raise Unsupported(f"cache_traffic: the size of {b.name} is not a number")
        self.base[b] = self.end
        self.end += (size.value * dt.bytes_of(b.type) // 4096 + 1) * 4096  # apart, page by page

    def stmt(self, s: tir.Stmt, depth: int) -> None:
        pad = " " * depth
        match s:
            case tir.Seq(stmts):
                for part in stmts:
                    self.stmt(part, depth)
            case tir.For():
                last = expr_text(s.min + s.extent)
                self.lines.append(f"{pad}for {s.var.name} in range({expr_text(s.min)}, {last}):")
                self.stmt(s.body, depth + 1)
            case tir.IfThenElse(condition, then, other):
                self.lines.append(f"{pad}if {expr_text(condition)}:")
                self.stmt(then, depth + 1)
                if other is not None:
                    self.lines.append(f"{pad}else:")
                    self.stmt(other, depth + 1)
            case tir.Allocate():
                self.place(s.buffer)
                self.stmt(s.body, depth)
            case tir.BufferStore():
                self.expr(s.value, pad)
                self.touch(s.buffer, s.indices, pad)
            case tir.Evaluate():
                self.expr(s.value, pad)
            case _:
                raise Unsupported(f"cache_traffic: a {type(s).__name__} is not understood")
        if not self.lines or self.lines[-1].endswith(":"):
            self.lines.append(pad + " pass")

    def expr(self, e: Node, pad: str) -> None:
        for child in e.children():
            if isinstance(child, Expr):
                self.expr(child, pad)
        if isinstance(e, tir.BufferLoad):
            self.touch(e.buffer, e.indices, pad)

    def touch(self, b: tir.Buffer, indices: tuple[Expr, ...], pad: str) -> None:
        if b.scope == "local":  # in registers
            return
        offset = expr_text(indices[0])
        self.lines.append(f"{pad}touch({self.base[b]} + {dt.bytes_of(b.type)} * {offset})")
