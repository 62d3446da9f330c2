"""Memories that a model may use: smelt's Pool, and the classic structures that say the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

    def __post_init__(self) -> None:
        """Check the values. Raises CompileError."""
        for legal, what in (
            (_NAME.fullmatch(str(self.name)), f"name is {self.name!r}; legal: a name for C"),
            (self.size is None or self.size >= 0, f"size is {self.size}; legal: bytes from 0"),
            (self.speed > 0, f"speed is {self.speed}; legal: numbers above 0"),
        ):
            if not legal:
                raise CompileError(f"a memory pool's {what}")


def check_pools(pools: Sequence[Pool]) -> tuple[Pool, ...]:
    """Pools, whose names differ also as macros. Raises CompileError."""
    names = [p.name.upper() for p in pools]
    for n, p in enumerate(pools):
        if names[n] in names[:n]:
            raise CompileError(f"two memory pools are called {p.name}; capitals make no difference")
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

    def pool(self, name: str, constants: bool) -> Pool:
        """With these properties; how fast words are read and written is its speed."""
        reads = self.read_latency_cycles + _WORD / max(1, self.read_bandwidth_bytes_per_cycle)
        writes = self.write_latency_cycles + _WORD / max(1, self.write_bandwidth_bytes_per_cycle)
        size = -1 if self.size_hint_bytes is None else self.size_hint_bytes
        speed = max(1, self.clock_frequency_hz) * 2 * _WORD / (reads + writes)
        return Pool(name, None if size < 0 else size, speed, constants)


@dataclass(frozen=True)
class WorkspacePoolInfo:
    """A memory for results."""

    pool_name: str
    targets: Sequence[Any] = ()
    pool_info_properties: PoolInfoProperties | None = None


@dataclass(frozen=True)
class ConstantPoolInfo:
    """A memory for constants; smelt finds out which ones."""

    pool_name: str
    targets: Sequence[Any] = ()
    constant_info_arr: Sequence[Any] | None = None
    pool_info_properties: PoolInfoProperties | None = None


@dataclass(frozen=True)
class WorkspaceMemoryPools:
    """All memories for results."""

    pools: Sequence[WorkspacePoolInfo]


@dataclass(frozen=True)
class ConstantMemoryPools:
    """All memories for constants."""

    pools: Sequence[ConstantPoolInfo]


def classic_pools(who: str, workspace: object, constants: object) -> tuple[Pool, ...]:
    """What classic structures say. Raises CompileError."""
    found = []
    for name, given, kind in (("workspace", workspace, WorkspaceMemoryPools),
                              ("constant", constants, ConstantMemoryPools)):  # fmt: skip
        if given is not None and not isinstance(given, kind):
            raise CompileError(f"{who}: {name}_memory_pools is a {type(given).__name__}; legal: "
                               f"{kind.__name__}([...])")  # fmt: skip
        for p in given.pools if given is not None else ():
            if getattr(p, "constant_info_arr", None):
                raise CompileError(f"{who}: constant_info_arr of {p.pool_name} cannot be given: "
                                   "where each constant stands is for smelt to say")  # fmt: skip
            properties = p.pool_info_properties or PoolInfoProperties()
            found.append(properties.pool(p.pool_name, kind is ConstantMemoryPools))
    return check_pools(found)
