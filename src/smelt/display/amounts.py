"""Counts and bytes as text, and which cache holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smelt.codegen.llvm import resolve
from smelt.ir.build import value_of
from smelt.ir.expr import Expr
from smelt.ir.node import Node
from smelt.target import Target, machine_of
from smelt.tir.analysis import Level
from smelt.tir.analysis.table import count_of, size_of

from .element import Html, element


@dataclass(frozen=True, slots=True)
class Cache:
    """A data cache and its size in bytes."""

    name: str
    size: int


def caches_of(target: str | Target | None) -> tuple[Cache, ...]:
    """The data caches of a target, smallest first; None: this machine. No caches: not known."""
    made = resolve(Target("llvm -mcpu=native" if target is None else target))
    if made.kind.name not in ("llvm", "c"):
        return ()
    return tuple([Cache(n, size) for n, size in machine_of(made).cache_sizes().items()])


class Amounts:
    """Writes the amounts of one function.

    names    what its text calls variables
    caches   those that bytes are compared with
    largest  the most bytes that are to be drawn
    """

    def __init__(self, names: Mapping[Node, str], caches: Sequence[Cache], largest: int) -> None:
        """The scale of drawings goes up to twice the largest cache, or amount."""
        self.names, self.caches = names, caches
        self.top = math.log2(max(4, largest, *[c.size for c in caches])) + 1

    def count(self, e: Expr, exact: bool = True) -> str:
        """A number, or an expression over sizes."""
        return _bound(exact or value_of(e) == 0) + count_of(e, self.names)

    def size(self, e: Expr, exact: bool = True) -> str:
        """Bytes for people."""
        return _bound(exact) + size_of(e, self.names)

    def position(self, size: int) -> float:
        """Where so many bytes stand on the logarithmic scale, in percent."""
        return 100 * math.log2(max(size, 1)) / self.top

    def cache(self, size: int) -> str:
        """The smallest cache that holds so many bytes, "memory" where none does, "" if unknown."""
        fitting = [c.name for c in self.caches if size <= c.size]
        return fitting[0] if fitting else "memory" if self.caches else ""

    def fit(self, level: Level) -> Html:
        """The bytes that one iteration touches, and the cache they fit into."""
        value = value_of(level.bytes)
        where = self.cache(value) if value else ""
        text = self.size(level.bytes, level.exact)
        holder = f"> {self.caches[-1].name}" if where == "memory" else f"in {where}"
        return element(
            "span",
            text,
            element("i", holder) if where else None,
            class_=f"fit {where}".strip(),
            title="different bytes of memory that one iteration touches",
        )


def _bound(exact: bool) -> str:
    return "" if exact else "≤ "
