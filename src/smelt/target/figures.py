"""Figures of processors by LLVM's names for them, from their makers' documents."""

from __future__ import annotations

from dataclasses import dataclass

from .processor import architecture
from .target import Target


@dataclass(frozen=True)
class Figures:
    """What is known of a processor besides its features.

    clock          cycles a second while all cores work
    pipe_bytes     width of the units that multiply and add, and of loads and stores; wider vectors
                   take several cycles
    multiply_adds  such units; loads, stores: accesses to L1 in a cycle
    latency        cycles of a multiply-add
    caches         (bytes, cores that share them, bytes a cycle) of each level
    memory         bytes a second of one core; memory_all: of all
    launch         seconds of a parallel loop around nothing
    """

    clock: float
    pipe_bytes: int
    multiply_adds: float
    loads: float
    stores: float
    latency: int
    caches: tuple[tuple[int, int, float], ...]
    memory: float
    memory_all: float
    launch: float = 1e-6


K, M, G = 1 << 10, 1 << 20, 1e9

_SERVER = Figures(3e9, 32, 2, 2, 1, 4, ((32 * K, 1, 64), (1 * M, 1, 32), (16 * M, 4, 16)),
                  12 * G, 25 * G)  # fmt: skip
_BOARD = Figures(1.5e9, 16, 1, 1, 1, 4, ((32 * K, 1, 16), (512 * K, 4, 16), (4 * M, 4, 8)),
                 4 * G, 6 * G)  # fmt: skip
_BY_CPU: dict[str, Figures] = {
    "znver4": Figures(3.7e9, 32, 2, 2, 1, 4, ((32 * K, 1, 64), (1 * M, 1, 32), (32 * M, 8, 24)),
                      25 * G, 40 * G),
    "znver5": Figures(4.1e9, 64, 2, 2, 1, 4, ((48 * K, 1, 128), (1 * M, 1, 64), (32 * M, 8, 28)),
                      40 * G, 60 * G),
}  # fmt: skip


def figures_of(target: Target) -> Figures:
    """The figures of a target's processor, those of its family where its name is not known."""
    family = _SERVER if architecture(target) == "x86" else _BOARD
    return _BY_CPU.get(target.mcpu, family)
