"""Figures of processors by LLVM's names for them: a row for each microarchitecture.

Units, their widths and latencies are those of the makers' documents (Intel's and AMD's
optimization manuals, Arm's software optimization guides and technical reference manuals) and of
public measurements: Agner Fog's instruction tables, uops.info, Dougall Johnson's pages on Apple's
cores, vfpbench for 32-bit Arm, cpufp for SpacemiT's X60, ncnn's notes on the Cortex-A53 and A55,
LLVM's scheduling models for the Cortex-M7, M55 and the X60.
Caches and their bandwidths are those of WikiChip and of Chips and Cheese.

Nobody publishes some figures, and one name stands for many products. These are plain estimates for
a usual product with that core: all clocks, memory bandwidths and latencies; what one core sustains
from L3, and from any cache of Arm and RISC-V cores; ways and pages, and what pages and tasks cost;
floats of processors without a unit for them (a library's 50 cycles); units and latencies of the
Cortex-R, of other makers' Arm cores but Apple's, of RISC-V cores but the X60, and of Hexagon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .processor import LEVELS, architecture, features_of, pointer_bytes
from .target import Target

_WAYS = 8


@dataclass(frozen=True)
class Figures:
    """What is known of a processor besides its features.

    clock           GHz while all cores work
    pipe_bytes      width of the units that multiply and add; wider vectors take several cycles
    access_bytes    width of a load or store
    multiply_adds   such units; adds: those that add; dots: those of dot-product instructions
    loads, stores   accesses to L1 in a cycle
    latency         cycles from a multiply-add to the next on the same accumulator (of a
                    multiplication, where there is no multiply-add)
    add_latency     cycles of an addition
    caches          (bytes, cores that share them, bytes a cycle) of each level
    memory          GB/s of one core; memory_all: of all
    memory_latency  ns
    launch          microseconds of a parallel loop around nothing
    line            bytes that come from memory together
    ways            places in L1 for lines whose addresses differ in the upper bits alone; further
                    caches are taken to have _WAYS
    page            bytes of a page of memory
    pages           pages whose place a core knows at once
    page_cycles     what another one costs, as others are looked up meanwhile
    far_pages       pages whose place a core finds in a second table
    far_page_cycles what one costs that is not there either
    task            nanoseconds to claim a piece of a parallel loop
    """

    clock: float
    pipe_bytes: int
    access_bytes: int
    multiply_adds: float
    adds: float
    dots: float
    loads: float
    stores: float
    latency: int
    add_latency: int
    caches: tuple[tuple[int, int, float], ...]
    memory: float
    memory_all: float
    memory_latency: float
    launch: float = 1.0
    line: int = 64
    ways: int = _WAYS
    page: int = 4096
    pages: int = 64
    page_cycles: float = 4.0
    far_pages: int = 1536
    far_page_cycles: float = 30.0
    task: float = 30.0


K, M = 1 << 10, 1 << 20
_F = Figures
_APPLE = {"line": 128, "page": 16 * K}

_X86: tuple[tuple[str, Figures], ...] = (
    # Levels: a middling server of the age.
    ("x86-64", _F(2.6, 16, 16, 1, 1, 0, 1, 1, 4, 3,
                  ((32 * K, 1, 16), (256 * K, 1, 12), (4 * M, 4, 8)), 5, 10, 85)),
    ("x86-64-v2", _F(2.8, 16, 16, 1, 1, 0, 1, 1, 4, 3,
                     ((32 * K, 1, 16), (256 * K, 1, 16), (8 * M, 4, 8)), 9, 25, 75)),
    ("x86-64-v3", _F(2.8, 32, 32, 2, 1, 0, 2, 1, 5, 3,
                     ((32 * K, 1, 60), (512 * K, 1, 28), (16 * M, 8, 12)), 11, 50, 85)),
    ("x86-64-v4", _F(2.8, 64, 64, 2, 2, 2, 2, 1, 4, 4,
                     ((32 * K, 1, 110), (1 * M, 1, 45), (24 * M, 16, 9)), 12, 120, 95)),
    # Intel
    ("nocona core2 penryn", _F(2.5, 16, 16, 1, 1, 0, 1, 1, 4, 3,
                               ((32 * K, 1, 16), (4 * M, 2, 8)), 5, 7, 90)),
    ("corei7 nehalem westmere", _F(2.9, 16, 16, 1, 1, 0, 1, 1, 4, 3,
                                   ((32 * K, 1, 16), (256 * K, 1, 14), (8 * M, 4, 8)), 9, 18, 65)),
    ("corei7-avx sandybridge ivybridge core-avx-i",
     _F(3.4, 32, 16, 1, 1, 0, 2, 1, 5, 3,
        ((32 * K, 1, 32), (256 * K, 1, 20), (8 * M, 4, 14)), 13, 20, 65)),
    ("haswell broadwell core-avx2", _F(3.5, 32, 32, 2, 1, 0, 2, 1, 5, 3,
                                       ((32 * K, 1, 62), (256 * K, 1, 28), (8 * M, 4, 16)),
                                       14, 22, 70)),
    ("skylake", _F(4.0, 32, 32, 2, 2, 0, 2, 1, 4, 4,
                   ((32 * K, 1, 62), (256 * K, 1, 32), (8 * M, 4, 18)), 18, 30, 60)),
    ("cannonlake icelake-client rocketlake tigerlake",
     _F(3.8, 32, 64, 2, 2, 2, 2, 1, 4, 4,
        ((48 * K, 1, 110), (512 * K, 1, 45), (8 * M, 4, 18)), 20, 38, 75, ways=12)),
    ("alderlake meteorlake raptorlake", _F(4.6, 32, 32, 2, 2, 2, 3, 2, 4, 3,
                                           ((48 * K, 1, 92), (1280 * K, 1, 45), (30 * M, 8, 20)),
                                           30, 60, 80, ways=12)),
    ("arrowlake arrowlake-s lunarlake pantherlake",
     _F(5.0, 32, 32, 2, 2, 2, 3, 2, 4, 3,
        ((48 * K, 1, 92), (3 * M, 1, 45), (36 * M, 8, 16)), 35, 75, 95, ways=12)),
    ("skylake-avx512 skx cascadelake cooperlake",
     _F(2.7, 64, 64, 2, 2, 2, 2, 1, 4, 4,
        ((32 * K, 1, 110), (1 * M, 1, 45), (22 * M, 16, 8)), 11, 100, 90, 2)),
    ("icelake-server", _F(2.9, 64, 64, 2, 2, 2, 2, 1, 4, 4,
                          ((48 * K, 1, 110), (1280 * K, 1, 45), (48 * M, 32, 9)),
                          12, 150, 90, 2, ways=12)),
    ("sapphirerapids emeraldrapids", _F(2.8, 64, 64, 2, 2, 2, 2, 1, 4, 3,
                                        ((48 * K, 1, 110), (2 * M, 1, 45), (60 * M, 32, 9)),
                                        12, 220, 115, 2, ways=12)),
    ("graniterapids graniterapids-d", _F(3.0, 64, 64, 2, 2, 2, 2, 1, 4, 3,
                                         ((48 * K, 1, 110), (2 * M, 1, 45), (144 * M, 43, 9)),
                                         14, 400, 120, 2, ways=12)),
    ("knl", _F(1.4, 64, 64, 2, 2, 0, 2, 1, 6, 6, ((32 * K, 1, 90), (1 * M, 2, 24)),
               8, 350, 150, 4)),
    ("atom bonnell", _F(1.6, 16, 16, 0.5, 1, 0, 1, 1, 5, 5,
                        ((24 * K, 1, 16), (512 * K, 1, 8)), 2.5, 3, 100)),
    ("silvermont slm", _F(2.0, 16, 16, 0.5, 1, 0, 1, 1, 5, 3,
                          ((24 * K, 1, 16), (1 * M, 2, 10)), 4, 9, 95)),
    ("goldmont goldmont-plus", _F(2.3, 16, 16, 1, 1, 0, 1, 1, 4, 3,
                                  ((24 * K, 1, 16), (2 * M, 2, 12)), 7, 14, 95)),
    ("tremont", _F(2.6, 16, 16, 1, 1, 0, 2, 2, 4, 3,
                   ((32 * K, 1, 32), (1536 * K, 4, 16), (4 * M, 4, 10)), 9, 18, 90)),
    ("gracemont", _F(3.2, 16, 16, 2, 2, 2, 2, 2, 6, 3,
                     ((32 * K, 1, 32), (2 * M, 4, 24), (6 * M, 4, 12)), 15, 25, 95)),
    ("grandridge sierraforest clearwaterforest",
     _F(2.6, 16, 16, 2, 2, 2, 2, 2, 5, 3,
        ((32 * K, 1, 32), (4 * M, 4, 24), (108 * M, 144, 6)), 10, 250, 120, 3)),
    # AMD
    ("athlon64 athlon-fx k8 opteron athlon64-sse3 k8-sse3 opteron-sse3",
     _F(2.2, 8, 8, 1, 1, 0, 2, 1, 4, 4, ((64 * K, 1, 16), (1 * M, 1, 6)), 4, 5, 60)),
    ("amdfam10 barcelona", _F(2.6, 16, 16, 1, 1, 0, 2, 1, 4, 4,
                              ((64 * K, 1, 32), (512 * K, 1, 10), (6 * M, 4, 6)), 6, 11, 75)),
    ("btver1", _F(1.6, 8, 8, 1, 1, 0, 1, 1, 2, 3, ((32 * K, 1, 8), (512 * K, 1, 4)), 3, 4, 90)),
    ("btver2", _F(1.8, 16, 16, 1, 1, 0, 1, 1, 2, 3,
                  ((32 * K, 1, 16), (2 * M, 4, 8)), 4, 7, 100)),
    ("bdver1 bdver2 bdver3 bdver4", _F(3.6, 16, 16, 1, 1, 0, 2, 1, 5, 5,
                                       ((16 * K, 1, 30), (2 * M, 2, 10), (8 * M, 8, 5)),
                                       8, 16, 75)),
    ("znver1", _F(3.3, 16, 16, 2, 2, 0, 2, 1, 5, 3,
                  ((32 * K, 1, 32), (512 * K, 1, 22), (8 * M, 4, 16)), 14, 30, 100)),
    ("znver2", _F(3.5, 32, 32, 2, 2, 0, 2, 1, 5, 3,
                  ((32 * K, 1, 62), (512 * K, 1, 28), (16 * M, 4, 20)),
                  20, 35, 95, far_pages=2048)),
    ("znver3", _F(3.6, 32, 32, 2, 2, 0, 2, 1, 4, 3,
                  ((32 * K, 1, 62), (512 * K, 1, 28), (32 * M, 8, 16)),
                  22, 38, 95, far_pages=2048)),
    ("znver4", _F(3.7, 32, 32, 2, 2, 2, 2, 1, 4, 3,
                  ((32 * K, 1, 64), (1 * M, 1, 32), (32 * M, 8, 24)),
                  25, 40, 100, far_pages=3072)),
    ("znver5", _F(4.1, 64, 64, 2, 2, 2, 2, 1, 4, 2,
                  ((48 * K, 1, 128), (1 * M, 1, 64), (32 * M, 8, 28)), 40, 60, 100, ways=12,
                  far_pages=4096)),
)  # fmt: skip
_ARM: tuple[tuple[str, Figures], ...] = (
    # Cortex-A, in 64 and 32 bits
    ("cortex-a53 cortex-a34 cortex-a35 cortex-a32 armv8 armv8a armv8l thunderx thunderxt81 "
     "thunderxt83 thunderxt88",
     _F(1.4, 16, 8, 1, 1, 0, 1, 1, 4, 4, ((32 * K, 1, 8), (512 * K, 4, 6)), 2, 3, 150, 3)),
    ("cortex-a55 cortex-a65 cortex-a65ae neoverse-e1 apple-s4 apple-s5",
     _F(1.8, 16, 8, 1, 1, 1, 1, 1, 4, 4,
        ((32 * K, 1, 8), (128 * K, 1, 8), (1 * M, 4, 5)), 4, 8, 150, 3)),
    ("cortex-a320 cortex-a510 cortex-a520 cortex-a520ae",
     _F(1.9, 16, 16, 1, 1, 1, 1, 1, 4, 4,
        ((32 * K, 1, 16), (256 * K, 2, 12), (4 * M, 8, 6)), 8, 20, 140, 3)),
    ("generic cortex-a57 cortex-a72 cortex-a73 apple-a7 cyclone kryo exynos-m3 falkor",
     _F(1.6, 8, 16, 2, 2, 0, 1, 1, 3, 4, ((32 * K, 1, 16), (1 * M, 4, 8)), 4, 5, 150, 2)),
    ("cortex-a75 saphira carmel exynos-m4 exynos-m5",
     _F(2.2, 8, 16, 2, 2, 2, 2, 1, 4, 3,
        ((64 * K, 1, 16), (256 * K, 1, 12), (2 * M, 4, 8)), 9, 15, 130, 2)),
    ("cortex-a76 cortex-a76ae cortex-a77 tsv110",
     _F(2.4, 16, 16, 2, 2, 2, 2, 1, 2, 2,
        ((64 * K, 1, 32), (512 * K, 1, 20), (2 * M, 4, 12)), 10, 14, 130, 2)),
    ("cortex-a78 cortex-a78ae cortex-a78c", _F(2.4, 16, 16, 2, 2, 2, 3, 2, 2, 2,
                                               ((64 * K, 1, 45), (512 * K, 1, 24), (4 * M, 4, 14)),
                                               14, 25, 130, 2)),
    ("cortex-a710 cortex-a715 cortex-a720 cortex-a720ae cortex-a725",
     _F(2.7, 16, 16, 2, 2, 2, 3, 2, 2, 2,
        ((64 * K, 1, 45), (512 * K, 1, 24), (8 * M, 8, 14)), 18, 40, 130, 2)),
    ("cortex-x1 cortex-x1c", _F(2.8, 16, 16, 4, 4, 4, 3, 2, 2, 2,
                                ((64 * K, 1, 48), (1 * M, 1, 30), (4 * M, 4, 16)), 22, 35, 120, 2)),
    ("cortex-x2 cortex-x3 cortex-x4 oryon-1",
     _F(3.1, 16, 16, 4, 4, 4, 3, 2, 2, 2,
        ((64 * K, 1, 48), (1 * M, 1, 32), (8 * M, 8, 16)), 28, 50, 120, 2)),
    ("cortex-x925 gb10", _F(3.6, 16, 16, 6, 6, 6, 4, 2, 2, 2,
                            ((64 * K, 1, 60), (2 * M, 1, 32), (16 * M, 8, 16)), 40, 75, 120, 2)),
    # Servers
    ("neoverse-n1", _F(2.6, 16, 16, 2, 2, 2, 2, 1, 2, 2,
                       ((64 * K, 1, 32), (1 * M, 1, 22), (32 * M, 64, 8)), 15, 150, 110, 3)),
    ("neoverse-n2 neoverse-n3 cobalt-100", _F(3.0, 16, 16, 2, 2, 2, 3, 2, 2, 2,
                                              ((64 * K, 1, 45), (1 * M, 1, 26), (64 * M, 64, 9)),
                                              20, 220, 115, 3)),
    ("neoverse-v1 neoverse-512tvb", _F(2.6, 16, 16, 4, 4, 4, 3, 2, 2, 2,
                                       ((64 * K, 1, 48), (1 * M, 1, 30), (32 * M, 64, 9)),
                                       22, 220, 115, 3)),
    ("neoverse-v2 neoverse-v3 neoverse-v3ae grace",
     _F(3.1, 16, 16, 4, 4, 4, 3, 2, 2, 2,
        ((64 * K, 1, 48), (2 * M, 1, 32), (114 * M, 72, 10)), 30, 400, 130, 3)),
    ("ampere1 ampere1a ampere1b", _F(3.0, 16, 16, 2, 2, 2, 2, 1, 4, 4,
                                     ((64 * K, 1, 32), (2 * M, 1, 20), (64 * M, 128, 6)),
                                     12, 200, 120, 3)),
    ("thunderx2t99 thunderx3t110", _F(2.2, 16, 16, 2, 2, 0, 2, 1, 6, 6,
                                      ((32 * K, 1, 32), (256 * K, 1, 20), (32 * M, 32, 8)),
                                      10, 110, 110, 3)),
    ("a64fx", _F(2.0, 64, 64, 2, 2, 0, 2, 1, 9, 9, ((64 * K, 1, 32), (8 * M, 12, 16)),
                 30, 800, 140, 2)),
    # Apple: the performance cores; the system's cache behind them is left out
    ("apple-a8 apple-a9 apple-a10", _F(1.8, 16, 16, 3, 3, 0, 2, 1, 4, 3,
                                       ((64 * K, 1, 32), (3 * M, 2, 20)), 12, 20, 110,
                                       page=16 * K)),
    ("apple-a11 apple-a12 apple-a13 apple-s6 apple-s7 apple-s8",
     _F(2.5, 16, 16, 3, 3, 3, 2, 2, 4, 3, ((64 * K, 1, 32), (8 * M, 2, 28)), 25, 32, 100,
      **_APPLE)),
    ("apple-a14 apple-m1", _F(3.1, 16, 16, 4, 4, 4, 3, 2, 4, 3,
                              ((128 * K, 1, 48), (12 * M, 4, 32)), 58, 60, 100,
      **_APPLE)),
    ("apple-a15 apple-a16 apple-m2 apple-s9 apple-s10",
     _F(3.4, 16, 16, 4, 4, 4, 3, 2, 4, 3, ((128 * K, 1, 48), (16 * M, 4, 32)), 75, 90, 100,
      **_APPLE)),
    ("apple-a17 apple-m3", _F(3.9, 16, 16, 4, 4, 4, 3, 2, 4, 3,
                              ((128 * K, 1, 48), (16 * M, 4, 32)), 80, 92, 100,
      **_APPLE)),
    ("apple-a18 apple-m4", _F(4.3, 16, 16, 4, 4, 4, 3, 2, 4, 3,
                              ((128 * K, 1, 48), (16 * M, 4, 32)), 95, 108, 100,
      **_APPLE)),
    # 32 bits only
    ("arm1176jz-s arm1176jzf-s mpcore arm1136j-s arm1136jf-s arm1156t2-s arm1156t2f-s",
     _F(0.7, 4, 4, 0.5, 1, 0, 1, 1, 8, 8, ((16 * K, 1, 4),), 0.4, 0.4, 200, line=32)),
    ("armv7 armv7a armv7l thumbv7 thumbv7a cortex-a9",
     _F(1.2, 8, 8, 1, 1, 0, 1, 1, 6, 5, ((32 * K, 1, 8), (1 * M, 4, 4)), 1, 1.4, 150, 3, line=32)),
    ("cortex-a8", _F(1.0, 8, 8, 1, 1, 0, 1, 1, 5, 4, ((32 * K, 1, 8), (256 * K, 1, 8)),
                     0.8, 0.8, 150)),
    ("cortex-a7 cortex-a5", _F(1.2, 4, 8, 1, 1, 0, 1, 1, 4, 4, ((32 * K, 1, 8), (512 * K, 4, 5)),
                               0.9, 1.4, 150, 4)),
    ("cortex-a12 cortex-a15 cortex-a17 krait swift",
     _F(1.7, 8, 16, 2, 2, 0, 1, 1, 4, 5, ((32 * K, 1, 16), (2 * M, 4, 8)), 3, 5, 140, 2)),
    ("cortex-r52 cortex-r52plus cortex-r82 cortex-r82ae",
     _F(1.0, 8, 8, 1, 1, 1, 1, 1, 4, 4, ((32 * K, 1, 8),), 1.5, 2, 120, 3)),
    ("cortex-r4 cortex-r4f cortex-r5 cortex-r7 cortex-r8",
     _F(0.6, 4, 8, 1, 1, 1, 1, 1, 5, 5, ((32 * K, 1, 8),), 0.5, 0.6, 100, line=32)),
    # Cortex-M: memory is on the chip
    ("cortex-m0 cortex-m0plus cortex-m1 sc000 cortex-m23 cortex-m3 sc300",
     _F(0.1, 4, 4, 0.02, 0.02, 0, 0.5, 0.5, 50, 50, (), 0.2, 0.2, 20)),
    ("cortex-m4 cortex-m33 cortex-m35p star-mc1",
     _F(0.17, 4, 4, 0.33, 1, 1, 1, 1, 3, 1, (), 0.5, 0.5, 12)),
    ("cortex-m7", _F(0.48, 4, 4, 1, 1, 1, 2, 1, 3, 3, ((16 * K, 1, 8),), 0.8, 0.8, 60, line=32)),
    ("cortex-m52 cortex-m55 cortex-m85", _F(0.4, 8, 8, 1, 1, 1, 1, 1, 2, 2, ((32 * K, 1, 8),),
                                            0.8, 0.8, 60, line=32)),
)  # fmt: skip
_RISCV: tuple[tuple[str, Figures], ...] = (
    ("generic generic-rv64 rocket-rv64 sifive-u54 sifive-s54",
     _F(1.2, 16, 8, 1, 1, 0, 1, 1, 5, 5, ((32 * K, 1, 8), (2 * M, 4, 6)), 1.5, 2.5, 150, 3)),
    ("sifive-u74 sifive-s76 sifive-e76 andes-ax25 andes-ax45",
     _F(1.4, 8, 8, 1, 1, 0, 1, 1, 5, 5, ((32 * K, 1, 8), (2 * M, 4, 6)), 1.5, 2.5, 150, 3)),
    ("andes-ax45mpv", _F(1.5, 16, 16, 1, 1, 0, 1, 1, 4, 4, ((32 * K, 1, 16), (1 * M, 4, 8)),
                         4, 8, 140, 3)),
    ("sifive-x280", _F(1.6, 32, 32, 1, 1, 0, 1, 1, 4, 4, ((32 * K, 1, 32), (512 * K, 1, 16),
                       (4 * M, 4, 10)), 8, 16, 140, 3)),
    ("spacemit-x60", _F(1.6, 16, 16, 2, 2, 0, 1, 1, 5, 4, ((32 * K, 1, 16), (512 * K, 4, 8)),
                        3, 7, 150, 3)),
    ("sifive-p450 sifive-p550 mips-p8700 xiangshan-nanhu veyron-v1",
     _F(1.8, 8, 8, 2, 2, 0, 2, 1, 4, 4,
        ((32 * K, 1, 16), (256 * K, 1, 12), (4 * M, 4, 8)), 5, 10, 140, 2)),
    ("sifive-p470 sifive-p670", _F(2.4, 16, 16, 2, 2, 0, 2, 1, 4, 4,
                                   ((32 * K, 1, 32), (512 * K, 1, 16), (4 * M, 4, 10)),
                                   8, 16, 130, 2)),
    ("sifive-p870 sifive-x390 tt-ascalon-d8 xiangshan-kunminghu",
     _F(2.5, 16, 16, 2, 2, 0, 2, 2, 4, 4,
        ((64 * K, 1, 32), (1 * M, 1, 24), (8 * M, 8, 12)), 15, 60, 120, 2)),
    ("generic-rv32 rocket-rv32 sifive-e20 sifive-e21 sifive-e31 sifive-s21 sifive-s51 "
     "rp2350-hazard3", _F(0.15, 4, 4, 0.02, 0.02, 0, 0.5, 0.5, 50, 50, (), 0.3, 0.3, 20)),
    ("sifive-e24 sifive-e34", _F(0.15, 4, 4, 1, 1, 0, 1, 1, 5, 5, (), 0.3, 0.3, 20)),
    ("andes-a25 andes-a45", _F(1.0, 8, 8, 1, 1, 0, 1, 1, 5, 5, ((32 * K, 1, 8),), 1, 1.5, 120, 3)),
)  # fmt: skip
_WASM = _F(3.0, 16, 16, 1, 1, 0, 2, 1, 4, 4,
           ((32 * K, 1, 32), (512 * K, 1, 20), (8 * M, 4, 12)), 12, 25, 90, 5)  # fmt: skip
_HEXAGON = _F(1.3, 128, 128, 1, 1, 2, 1, 1, 4, 4, ((1 * M, 4, 100),), 20, 30, 150, 5)
"""Vectors do not pass through its first-level cache, so the second is the nearest."""

_TABLES = {"x86": _X86, "aarch64": _ARM, "arm": _ARM, "riscv": _RISCV}
_MICRO = re.compile(r"v\d\S*m")
"""What the architecture of a Cortex-M is called: thumbv7em, armv8.1-m.main."""


def ways_of(f: Figures, level: int) -> int:
    """Those of a level of cache, 1 the nearest."""
    return f.ways if level == 1 else _WAYS


@cache
def _by_name(family: str) -> dict[str, Figures]:
    return {name: f for names, f in _TABLES.get(family, ()) for name in names.split()}


def figures_of(target: Target) -> Figures:
    """The figures of a target's processor; those of its level or family, if it is not known."""
    family = architecture(target)
    known = _by_name(family if family in _TABLES else "aarch64")
    for name in (target.mcpu, target.mtriple.split("-")[0]):
        if name in known and name != "generic":
            return known[name]
    return {"wasm": _WASM, "hexagon": _HEXAGON}.get(family) or known[_usual(family, target)]


def _usual(family: str, target: Target) -> str:
    """Of which processor the figures are where the name says nothing."""
    if family == "x86":
        on = features_of(target)
        return [name for name, needed in LEVELS.items() if on.issuperset(needed.split())][-1]
    if family == "arm":
        words = target.mtriple.split("-")[0] + str(target.attrs.get("march", ""))
        return "cortex-m4" if _MICRO.search(words) else "armv7"
    return "generic-rv32" if family == "riscv" and pointer_bytes(target) == 4 else "generic"
