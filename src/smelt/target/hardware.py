"""What the rules need to know of a processor: vector registers, caches, cores."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from smelt.ir.node import Node
from smelt.runtime.native import cores as usable_cores

from .processor import architecture, lacks
from .target import Target


class Hardware(Node, interned=True):
    """A processor in numbers.

    vector_bytes      width of a vector register
    vector_registers  how many of them
    fma               whether a fused multiply-add exists
    l1, l2, l3        data caches in bytes, of one core (l3: shared)
    cores             processors that may be used
    """

    vector_bytes: int
    vector_registers: int
    fma: bool
    l1: int
    l2: int
    l3: int
    cores: int

    def lanes(self, element_bytes: int) -> int:
        """Elements in a vector register."""
        return max(1, self.vector_bytes // element_bytes)

    def caches(self, threads: int = 1) -> dict[str, int]:
        """The data caches that some threads have together, each larger than the one before."""
        found: dict[str, int] = {}
        for name, size in (("L1", self.l1 * threads), ("L2", self.l2 * threads), ("L3", self.l3)):
            if size > max(found.values(), default=0):
                found[name] = size
        return found


_AVX512 = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
_VECTORS = {"arm": {"neon", "mve"}, "riscv": {"v"}, "wasm": {"simd128"}}
"""Where vectors are optional: what brings them."""


def hardware_of(target: Target, features: Iterable[str]) -> Hardware:
    """The hardware behind a target.

    features  LLVM feature names that are on, e.g. of the host for -mcpu=native
    """
    on, family = set(features), architecture(target)
    triple = target.mtriple
    here = not triple or triple.split("-")[0] == platform.machine()
    caches = _caches() if here else (32 << 10, 512 << 10, 4 << 20)
    cores = int(target.attrs.get("num-cores", 0)) or usable_cores()
    width, registers = 16, 16
    if family == "aarch64" or "v" in on:
        registers = 32
    elif on.issuperset(_AVX512):
        width, registers = 64, 32
    elif "avx2" in on or "avx" in on:
        width = 32
    elif "mve" in on:
        registers = 8
    elif family in _VECTORS and not on & _VECTORS[family]:
        width, registers = 4, 32 if family == "riscv" else 16  # scalars
    return Hardware(width, registers, "fma" not in lacks(target), *caches, cores)


@cache
def _caches() -> tuple[int, int, int]:
    """This machine's data caches in bytes; common sizes where the system does not tell."""
    found = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and level in found:
            found[level] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
    return found[1], found[2], found[3]
