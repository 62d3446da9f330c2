"""Memories that a model may use: smelt's Pool, and the classic structures that say the same."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import CompileError

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_WORD = 4
"""Bytes of an access whose speed counts."""


@dataclass(frozen=True)
class Pool:
    """A memory of a device, for results or for constants.

    name       a name for C
    size       bytes; None: as many as are needed
    speed      in any unit: what is read and written most goes to the fastest; of equal ones, to
               the first
    constants  whether constants stand there, and no results
    """

    name: str
    size: int | None = None
    speed: float = 1.0
    constants: bool = False

    @property
    def room(self) -> float:
        """Its size, or more bytes than there are."""
        return math.inf if self.size is None else self.size


def check_pools(pools: Sequence[Pool], reserved: Container[str] = ()) -> tuple[Pool, ...]:
    """Pools, whose names differ also as macros. reserved: what none is called. Raises
    CompileError."""
    if not isinstance(pools, Sequence) or not all(isinstance(p, Pool) for p in pools):
        raise CompileError(f'pools is {pools!r}; legal: several of Pool("sram", 65536), in a list')
    names = [str(p.name).upper() for p in pools]
    for p, name in zip(pools, names, strict=True):
        if not _NAME.fullmatch(name) or p.name in reserved:
            wrong = "legal is a name for C that C does not use itself"
        elif names.count(name) > 1:
            wrong = "there are several of that name; legal: once each, capitals or not"
        elif not isinstance(p.size, int | None) or p.room < 0:
            wrong = f"its size is {p.size!r}; legal: bytes from 0, or None"
        elif p.speed <= 0:
            wrong = f"its speed is {p.speed}; legal: above 0"
        else:
            continue
        raise CompileError(f"the memory pool {p.name!r}: {wrong}")
    return tuple(pools)


class PoolAllocation(NamedTuple):
    """Where a block stands."""

    pool_info: Pool
    byte_offset: int


@dataclass(eq=False)
class BufferInfo:
    """A block of memory, as an algorithm of the user's gets it.

    first, last  the steps in which it is alive; before the first one is -1
    conflicts    the blocks that are alive in one of them, too
    """

    name_hint: str
    size_bytes: int
    pool_candidates: tuple[Pool, ...]
    alignment: int
    first: int
    last: int
    conflicts: list[BufferInfo] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class PoolInfoProperties:
    """What a memory is; -1: not known."""

    size_hint_bytes: int | None = -1
    clock_frequency_hz: int = -1
    read_bandwidth_bytes_per_cycle: int = -1
    write_bandwidth_bytes_per_cycle: int = -1
    read_latency_cycles: int = 0
    write_latency_cycles: int = 0
    target_burst_bytes: Mapping[Any, int] | None = None

    @property
    def known(self) -> tuple[int | None, float]:
        """Size and speed of a pool: how fast words are read and written."""
        reads = self.read_latency_cycles + _WORD / max(1, self.read_bandwidth_bytes_per_cycle)
        writes = self.write_latency_cycles + _WORD / max(1, self.write_bandwidth_bytes_per_cycle)
        size = None if (self.size_hint_bytes or 0) < 0 else self.size_hint_bytes
        return size, max(1, self.clock_frequency_hz) * 2 * _WORD / (reads + writes)


_UNKNOWN = PoolInfoProperties()


class WorkspacePoolInfo(Pool):
    """A memory for results. targets: who may use it; all do."""

    def __init__(
        self,
        pool_name: str,
        targets: object = (),
        pool_info_properties: PoolInfoProperties = _UNKNOWN,
    ) -> None:
        super().__init__(pool_name, *pool_info_properties.known)


class ConstantPoolInfo(Pool):
    """A memory for constants; which ones is for smelt to say."""

    def __init__(
        self, pool_name: str, targets: object = (), constant_info_arr: Sequence[object] = (),
        pool_info_properties: PoolInfoProperties = _UNKNOWN,
    ) -> None:  # fmt: skip
        if constant_info_arr:
            raise CompileError(f"{pool_name}: smelt chooses constants; leave out constant_info_arr")
        super().__init__(pool_name, *pool_info_properties.known, constants=True)


@dataclass(frozen=True)
class WorkspaceMemoryPools:
    """All memories for results."""

    pools: Sequence[Pool]


class ConstantMemoryPools(WorkspaceMemoryPools):
    """All memories for constants."""


def classic_pools(who: str, *given: object) -> tuple[Pool, ...]:
    """What classic structures say. Raises CompileError."""
    for g in given:
        if not isinstance(g, WorkspaceMemoryPools | None):
            raise CompileError(f"{who}: a {type(g).__name__} is given as memory pools; legal: "
                               "WorkspaceMemoryPools([...]) or ConstantMemoryPools")  # fmt: skip
    pools = [p for g in given if isinstance(g, WorkspaceMemoryPools) for p in g.pools]
    return check_pools(pools)
