"""The one description of a processor: what rules, costs and reports may know of hardware.

It follows from the target's words alone, never from the machine that compiles, so that equal
targets give equal code anywhere; only where it asks so (`-measured`), what was measured counts.
Figures of processors stand in `figures`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from smelt.ir.node import Node

from .figures import figures_of, ways_of
from .measured import read_measured, unreadable
from .processor import architecture, features_of, lacks, pointer_bytes
from .target import Target


class Cache(Node, interned=True):
    """A level of data cache.

    name             "L1", "L2", "L3"
    size             bytes, of all cores that share it together
    cores            how many share it
    bytes_per_cycle  what one core reads from it in a cycle, sustained
    ways             places for lines whose addresses differ in the upper bits alone
    """

    name: str
    size: int
    cores: int
    bytes_per_cycle: float
    ways: int

    @property
    def way(self) -> int:
        """Bytes after which places in it repeat."""
        return self.size // self.ways


class Machine(Node, interned=True):
    """A processor in numbers.

    cpu               its name, e.g. "znver4"
    arch              the family of processors, e.g. "x86"
    vector_bytes      width of a vector register
    unit_bytes        width of the units that multiply and add: so many more vectors of this width
                      than of whole registers start in a cycle
    vector_registers  how many of them
    fma               whether a fused multiply-add exists
    clock             cycles a second while all cores work
    multiply_adds     vectors of float32 multiply-adds that start in a cycle (multiplications, where
                      they are not fused)
    adds              vectors of float32 additions that start in a cycle
    loads, stores     vectors read from and written to L1 in a cycle
    latency           cycles from a multiply-add to the next on the same accumulator (of a
                      multiplication, where they are not fused)
    add_latency       cycles of an addition
    dot               what brings instructions that sum products of narrow integers, by LLVM's
                      feature names
    dots              vectors of those of bytes that start in a cycle (tiles of a matrix unit do not
                      count); 0: there are none
    caches            data caches, the nearest first; none: memory is as near as a cache
    memory            bytes a second from memory, of one core
    memory_all        bytes a second from memory, of all cores together
    memory_latency    seconds from an address to its contents in memory
    launch            seconds to start a parallel loop and to wait for its end
    task              seconds to claim a piece of one
    line_bytes        bytes that come from memory together
    page_bytes        bytes of a page of memory
    pages             pages whose place a core knows at once
    page_cycles       what another one costs, as others are looked up meanwhile
    far_pages         pages whose place a core finds in a second table
    far_page_cycles   what one costs that is not there either
    pointer_bytes     bytes of an address
    cores             processors that may be used
    scopes            kinds of memory that a program may allocate in, by their names in programs
    """

    cpu: str
    arch: str
    vector_bytes: int
    unit_bytes: int
    vector_registers: int
    fma: bool
    clock: float
    multiply_adds: float
    adds: float
    loads: float
    stores: float
    latency: int
    add_latency: int
    dot: tuple[str, ...]
    dots: float
    caches: tuple[Cache, ...]
    memory: float
    memory_all: float
    memory_latency: float
    launch: float
    task: float
    line_bytes: int
    page_bytes: int
    pages: int
    page_cycles: float
    far_pages: int
    far_page_cycles: float
    pointer_bytes: int
    cores: int
    scopes: tuple[str, ...]

    def lanes(self, element_bytes: int) -> int:
        """Elements in a vector register."""
        return max(1, self.vector_bytes // element_bytes)

    @property
    def masked(self) -> float:
        """How much longer a step takes some of whose lanes are masked: the widest vectors have
        registers for masks, others mask their loads at most, or take lane by lane."""
        return 1.0 if self.vector_bytes >= 64 else 2.0 if self.vector_bytes >= 32 else 4.0

    @property
    def flops(self) -> float:
        """Operations on float32 that one core does in a second at most."""
        started = 2 * self.multiply_adds if self.fma else self.multiply_adds + self.adds
        return self.clock * started * self.lanes(4)

    def cache(self, level: int) -> Cache:
        """A level of cache, 1 the nearest; the last where there are fewer, else all of memory."""
        if self.caches:
            return self.caches[min(level, len(self.caches)) - 1]
        space = 1 << (8 * self.pointer_bytes - 1)
        return Cache("memory", space, self.cores, self.memory / self.clock, 1)

    def cache_sizes(self, threads: int = 1) -> dict[str, int]:
        """Bytes of the caches that some threads have together, each larger than the one before."""
        found: dict[str, int] = {}
        for c in self.caches:
            size = c.size * max(1, min(threads, self.cores) // c.cores)
            if size > max(found.values(), default=0):
                found[c.name] = size
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values by field, of which `from_json` makes the same machine."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__match_args__}
        caches = [{name: getattr(c, name) for name in c.__match_args__} for c in self.caches]
        return {**fields, "dot": [*self.dot], "caches": caches, "scopes": [*self.scopes]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Machine:
        """The machine that `to_json` has written."""
        caches = tuple([Cache(**c) for c in data["caches"]])
        lists = {"dot": tuple(data["dot"]), "caches": caches, "scopes": tuple(data["scopes"])}
        return cls(**{**data, **lists})


_AVX512 = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
_SCOPES = {"hexagon": ("global", "vtcm")}
_VECTORS = {"arm": {"neon", "mve"}, "riscv": {"v"}, "wasm": {"simd128"}}
"""Where vectors are optional: what brings them."""
_LENGTH = re.compile(r"(zvl|sve)\d+b")
"""How many bits a register of vectors has, where it is more than 128: of RISC-V at least, and of
Arm's SVE."""
_VECTOR_DOT = ("avx512vnni", "avxvnni", "avxvnniint8", "dotprod", "i8mm", "dsp", "mve")
_PAIRS = ("sse4.1", "avx2", "avx512bw", "avx512vl")
"""What brings instructions that sum products of 16-bit words as fast as others multiply floats."""
_DOT = (*_VECTOR_DOT, "amx-int8", *_PAIRS)
_CORES = 4
"""Cores of a machine of which nothing is said."""
MEASURED = ("clock", "memory", "memory_all", "memory_latency", "launch")
"""The fields that `smelt targets --measure` finds out, beside the caches' bytes a cycle."""


def machine_of(target: Target, cores: int = 0) -> Machine:
    """The machine behind a (resolved) target.

    cores  processors that may be used; 0: as many as the target says
    """
    on = features_of(target)
    width, registers = _vectors(architecture(target), on)
    f = figures_of(target)
    narrow = min(1.0, f.pipe_bytes / width), min(1.0, f.access_bytes / width)
    cores = cores or int(target.attrs.get("num-cores", 0)) or _CORES
    made = Machine(
        cpu=target.mcpu or "generic",
        arch=architecture(target),
        vector_bytes=width,
        unit_bytes=min(width, f.pipe_bytes),
        vector_registers=registers,
        fma="fma" not in lacks(target),
        clock=f.clock * 1e9,
        multiply_adds=f.multiply_adds * narrow[0],
        adds=f.adds * narrow[0],
        loads=f.loads * narrow[1],
        stores=f.stores * narrow[1],
        latency=f.latency,
        add_latency=f.add_latency,
        dot=tuple([d for d in _DOT if d in on]),
        dots=0.0 if on.isdisjoint(_VECTOR_DOT) else f.dots * narrow[0],
        caches=tuple(
            [Cache(f"L{n}", *level, ways_of(f, n)) for n, level in enumerate(f.caches, 1)]
        ),
        memory=f.memory * 1e9,
        memory_all=min(f.memory_all, cores * f.memory) * 1e9,
        memory_latency=f.memory_latency * 1e-9,
        launch=f.launch * 1e-6,
        task=f.task * 1e-9,
        line_bytes=f.line,
        page_bytes=f.page,
        pages=f.pages,
        page_cycles=f.page_cycles,
        far_pages=f.far_pages,
        far_page_cycles=f.far_page_cycles,
        pointer_bytes=pointer_bytes(target),
        cores=cores,
        scopes=_SCOPES.get(architecture(target), ("global",)),
    )
    return _as_measured(made) if target.attrs.get("measured") else made


def _as_measured(machine: Machine) -> Machine:
    """With the figures that were measured for a CPU of that name: times, and what a cache gives."""
    file, data = read_measured(machine.cpu)
    try:
        found = Machine.from_json(data)
    except (KeyError, TypeError):
        raise unreadable(file) from None
    given = {c.name: c.bytes_per_cycle for c in found.caches}
    times = {name: getattr(found, name) for name in MEASURED}
    times["memory_all"] = min(found.memory_all, machine.cores * found.memory)
    return machine.replace(
        caches=tuple([c.replace(bytes_per_cycle=given.get(c.name, c.bytes_per_cycle))
                      for c in machine.caches]),
        **times,
    )  # fmt: skip


def _vectors(family: str, on: frozenset[str]) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are."""
    if family == "hexagon":
        return 128, 32
    if family == "aarch64" or "v" in on:
        return max([16, *[int(f[3:-1]) // 8 for f in on if _LENGTH.fullmatch(f)]]), 32
    if on.issuperset(_AVX512):
        return 64, 32
    if "mve" in on:
        return 16, 8
    if family in _VECTORS and not on & _VECTORS[family]:
        return 4, 32 if family == "riscv" else 16  # scalars
    return (32 if on & {"avx", "avx2"} else 16), 16
