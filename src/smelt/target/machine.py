"""The one description of a processor: what rules, costs and reports may know of hardware.

It follows from the target's words alone, never from the machine that compiles, so that equal
targets give equal code anywhere. Figures of processors stand in `processor_figures`.
"""

from __future__ import annotations

from smelt.ir.node import Node

from .figures import Figures, figures_of
from .processor import architecture, features_of, lacks, pointer_bytes
from .target import Target


class Cache(Node, interned=True):
    """A level of data cache.

    name             "L1", "L2", "L3"
    size             bytes, of all cores that share it together
    cores            how many share it
    bytes_per_cycle  what one core reads from it in a cycle, sustained
    """

    name: str
    size: int
    cores: int
    bytes_per_cycle: float


class Machine(Node, interned=True):
    """A processor in numbers.

    cpu               its name, e.g. "znver4"
    vector_bytes      width of a vector register
    vector_registers  how many of them
    fma               whether a fused multiply-add exists
    clock             cycles a second while all cores work
    multiply_adds     vectors of float32 multiply-adds that start in a cycle (multiplications, where
                      they are not fused)
    loads, stores     vectors read from and written to L1 in a cycle
    latency           cycles from a multiply-add to the next on the same accumulator
    dot               instructions that sum products of narrow integers, by LLVM's feature names
    caches            data caches, the nearest first
    memory            bytes a second from memory, of one core
    memory_all        bytes a second from memory, of all cores together
    launch            seconds to start a parallel loop and to wait for its end
    pointer_bytes     bytes of an address
    cores             processors that may be used
    """

    cpu: str
    vector_bytes: int
    vector_registers: int
    fma: bool
    clock: float
    multiply_adds: float
    loads: float
    stores: float
    latency: int
    dot: tuple[str, ...]
    caches: tuple[Cache, ...]
    memory: float
    memory_all: float
    launch: float
    pointer_bytes: int
    cores: int

    def lanes(self, element_bytes: int) -> int:
        """Elements in a vector register."""
        return max(1, self.vector_bytes // element_bytes)

    @property
    def flops(self) -> float:
        """Operations on float32 that one core does in a second at most."""
        return 2.0 * self.clock * self.multiply_adds * self.lanes(4)

    def cache_sizes(self, threads: int = 1) -> dict[str, int]:
        """Bytes of the caches that some threads have together, each larger than the one before."""
        found: dict[str, int] = {}
        for c in self.caches:
            size = c.size * max(1, min(threads, self.cores) // c.cores)
            if size > max(found.values(), default=0):
                found[c.name] = size
        return found


_AVX512 = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
_VECTORS = {"arm": {"neon", "mve"}, "riscv": {"v"}, "wasm": {"simd128"}}
"""Where vectors are optional: what brings them."""
_DOT = ("avx512vnni", "avxvnni", "avxvnniint8", "amx-int8", "dotprod", "i8mm", "dsp", "mve")
_CORES = 4
"""Cores of a machine of which nothing is said."""


def machine_of(target: Target, cores: int = 0) -> Machine:
    """The machine behind a (resolved) target.

    cores  processors that may be used; 0: as many as the target says
    """
    on = features_of(target)
    width, registers = _vectors(architecture(target), on)
    f: Figures = figures_of(target)
    caches = tuple([Cache(f"L{n}", *level) for n, level in enumerate(f.caches, 1)])
    return Machine(
        target.mcpu or "generic",
        width,
        registers,
        "fma" not in lacks(target),
        f.clock,
        f.multiply_adds * min(1.0, f.pipe_bytes / width),
        f.loads * min(1.0, f.pipe_bytes / width),
        f.stores * min(1.0, f.pipe_bytes / width),
        f.latency,
        tuple([d for d in _DOT if d in on]),
        caches,
        f.memory,
        f.memory_all,
        f.launch,
        pointer_bytes(target),
        cores or int(target.attrs.get("num-cores", 0)) or _CORES,
    )


def _vectors(family: str, on: frozenset[str]) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are."""
    if family == "aarch64" or "v" in on:
        return 16, 32
    if on.issuperset(_AVX512):
        return 64, 32
    if "mve" in on:
        return 16, 8
    if family in _VECTORS and not on & _VECTORS[family]:
        return 4, 32 if family == "riscv" else 16  # scalars
    return (32 if on & {"avx", "avx2"} else 16), 16
