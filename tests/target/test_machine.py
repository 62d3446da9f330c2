"""The machine behind a target: figures of all processors, JSON, what was measured."""

from __future__ import annotations

import json
import os
import platform
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from smelt.codegen.llvm import resolve
from smelt.ir.errors import TargetError
from smelt.target import Machine, Target, machine_of, machine_text
from smelt.target.figures import _TABLES
from smelt.target.processor import architecture, features_of, known_cpus, needed_features

TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu", "armv7-linux-gnueabihf", "riscv64-linux-gnu",
           "riscv32-unknown-elf")  # fmt: skip
OTHERS = ("llvm -mtriple=wasm32", "llvm -mtriple=wasm32 -mattr=+simd128", "hexagon -mcpu=v68",
          "c -mcpu=cortex-m4", "c -march=rv32imc", "c -march=armv8.2-a", "c")  # fmt: skip
HASWELL = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"


def target_of(triple: str, cpu: str) -> Target:
    return Target(f"llvm -mtriple={triple} -mcpu={cpu}")


ALL = [
    *[target_of(t, cpu) for t in TRIPLES for cpu in known_cpus(Target(f"llvm -mtriple={t}"))],
    *map(Target, OTHERS),
]


@pytest.mark.parametrize("target", ALL, ids=str)
def test_figures_are_sane(target: Target) -> None:
    m = machine_of(target)
    positive = (m.clock, m.multiply_adds, m.adds, m.loads, m.stores, m.latency, m.add_latency,
                m.memory, m.memory_latency, m.launch, m.cores, m.flops)  # fmt: skip
    assert min(positive) > 0
    assert m.lanes(4) in (1, 4, 8, 16, 32)
    assert m.memory <= m.memory_all <= m.cores * m.memory
    assert all(a.size < b.size and a.cores <= b.cores for a, b in pairwise(m.caches))
    assert all(a.bytes_per_cycle >= b.bytes_per_cycle for a, b in pairwise(m.caches))
    assert all(c.bytes_per_cycle * m.clock >= m.memory for c in m.caches)
    assert m.dots == 0 or m.dot
    assert "global" in m.scopes


def test_every_processor_has_one_row() -> None:
    for family, rows in _TABLES.items():
        names = [name for names, _ in rows for name in names.split()]
        assert len(names) == len(set(names)), family
    named = {name for rows in _TABLES.values() for names, _ in rows for name in names.split()}
    assert named == {cpu for t in TRIPLES for cpu in known_cpus(Target(f"llvm -mtriple={t}"))}


@pytest.mark.parametrize(
    ("words", "multiply_adds", "adds", "dots", "latency", "caches"),
    [
        ("x86_64-linux-gnu haswell", 2, 1, 0, 5, (32, 256, 8192)),
        ("x86_64-linux-gnu sapphirerapids", 2, 2, 2, 4, (48, 2048, 61440)),
        ("x86_64-linux-gnu znver4", 1, 1, 1, 4, (32, 1024, 32768)),
        ("x86_64-linux-gnu znver5", 2, 2, 2, 4, (48, 1024, 32768)),
        ("x86_64-linux-gnu x86-64", 1, 1, 0, 4, (32, 256, 4096)),
        ("aarch64-linux-gnu cortex-a53", 1, 1, 0, 4, (32, 512)),
        ("aarch64-linux-gnu cortex-a72", 1, 1, 0, 3, (32, 1024)),
        ("aarch64-linux-gnu neoverse-v1", 2, 2, 2, 2, (64, 1024, 32768)),
        ("arm64-apple-macos apple-m1", 4, 4, 4, 4, (128, 12288)),
        ("armv7-linux-gnueabihf cortex-a7", 0.25, 0.25, 0, 4, (32, 512)),
        ("riscv64-linux-gnu spacemit-x60", 1, 1, 0, 5, (32, 512)),
        ("thumbv6m-none-eabi cortex-m0", 0.02, 0.02, 0, 50, ()),
        ("thumbv8.1m.main-none-eabihf cortex-m55", 0.5, 0.5, 0.5, 2, (32,)),
    ],
)
def test_figures_of_some(
    words: str, multiply_adds: float, adds: float, dots: float, latency: int, caches: Any
) -> None:
    m = machine_of(target_of(*words.split()))
    assert (m.multiply_adds, m.adds, m.dots, m.latency) == (multiply_adds, adds, dots, latency)
    assert tuple([c.size >> 10 for c in m.caches]) == caches


@pytest.mark.parametrize(
    ("words", "like"),
    [
        ("llvm -mtriple=x86_64-linux-gnu", "x86-64"),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=" + ",".join(
            [f"+{f}" for f in sorted(features_of(target_of(TRIPLES[0], "x86-64-v3")))]),
         "x86-64-v3"),
        ("llvm -mtriple=thumbv7em-none-eabihf", "cortex-m4"),
        ("llvm -mtriple=armv7l-linux-gnueabihf", "cortex-a9"),
        ("llvm -mtriple=armv8l-linux-gnueabihf", "cortex-a53"),
        ("llvm -mtriple=riscv32-unknown-elf", "generic-rv32"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=unheard-of", "generic"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_known_has_the_figures_of_its_family(words: str, like: str) -> None:
    target = Target(words)
    triple = target.mtriple
    named = machine_of(target_of(triple, like))
    found = machine_of(target)
    assert (found.clock, found.caches) == (named.clock, named.caches)


def test_additions_count_where_nothing_is_fused() -> None:
    m = machine_of(target_of("x86_64-linux-gnu", "nehalem"))
    assert not m.fma
    assert m.flops == m.clock * (1 + 1) * 4
    m = machine_of(Target(HASWELL))
    assert m.flops == m.clock * 2 * 2 * 8


def test_memory_is_shared_by_the_cores_there_are() -> None:
    target = target_of("x86_64-linux-gnu", "icelake-server")
    assert machine_of(target, 2).memory_all == 2 * machine_of(target).memory
    assert machine_of(target, 64).memory_all == machine_of(target, 32).memory_all


def test_levels_of_cache_that_are_missing() -> None:
    m7 = machine_of(Target("c -mcpu=cortex-m7"))
    assert m7.cache(1) == m7.cache(2) == m7.caches[0]
    m0 = machine_of(Target("c -mcpu=cortex-m0"))
    assert m0.caches == ()
    assert m0.cache_sizes() == {}
    assert m0.cache(2).size == 1 << 31
    haswell = machine_of(Target(HASWELL))
    assert [haswell.cache(n).name for n in (1, 2, 3, 4)] == ["L1", "L2", "L3", "L3"]


def test_what_programs_may_allocate_in() -> None:
    assert machine_of(Target("hexagon -mcpu=v68")).scopes == ("global", "vtcm")
    assert machine_of(Target(HASWELL)).scopes == ("global",)


def test_nothing_of_this_machine_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **others: Any) -> Any:
        raise AssertionError(f"looked at this machine: {arguments}")

    with monkeypatch.context() as m:
        for module, name in ((os, "sched_getaffinity"), (os, "cpu_count"), (os, "open"),
                             (platform, "machine"), (platform, "processor"),
                             (Path, "read_bytes"), (Path, "read_text")):  # fmt: skip
            m.setattr(module, name, refuse, raising=False)
        m.setattr("builtins.open", refuse)
        found = [machine_of(t) for t in ALL if t.mtriple]
    assert found == [machine_of(t) for t in ALL if t.mtriple]


@pytest.mark.parametrize("words", [HASWELL, *OTHERS])
def test_json_round_trip(words: str) -> None:
    m = machine_of(Target(words))
    assert Machine.from_json(json.loads(json.dumps(m.to_json()))) is m


def test_text() -> None:
    assert (
        machine_text(machine_of(Target(HASWELL), 2))
        == """\
cpu               haswell
arch              x86
vector_bytes      32 bytes
unit_bytes        32 bytes
vector_registers  16
fma               yes
clock             3.5 GHz
multiply_adds     2 a cycle
adds              1 a cycle
loads             2 a cycle
stores            1 a cycle
latency           5 cycles
add_latency       3 cycles
dot               sse4.1, avx2
dots              0 a cycle
L1                32 KiB, 62 bytes a cycle, 8 ways
L2                256 KiB, 28 bytes a cycle, 8 ways
L3                8 MiB for 4 cores, 16 bytes a cycle, 8 ways
memory            14 GB/s
memory_all        22 GB/s
memory_latency    70 ns
launch            1 us
task              30 ns
line_bytes        64 bytes
page_bytes        4096 bytes
pages             64
page_cycles       4 cycles
far_pages         1536
far_page_cycles   30 cycles
pointer_bytes     8 bytes
cores             2
scopes            global"""
    )
    assert "caches            none" in machine_text(machine_of(Target("c -mcpu=cortex-m0")))


@pytest.mark.parametrize(
    ("words", "line", "page", "way"),
    [
        (HASWELL, 64, 4096, 4096),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5", 64, 4096, 4096),
        ("llvm -mtriple=arm64-apple-darwin -mcpu=apple-m2", 128, 16384, 16384),
        ("c -mcpu=cortex-m7", 32, 4096, 2048),
    ],
)
def test_lines_and_pages(words: str, line: int, page: int, way: int) -> None:
    """Addresses a way apart share a set of the nearest cache."""
    m = machine_of(Target(words))
    assert (m.line_bytes, m.page_bytes, m.cache(1).way) == (line, page, way)


# ---- what was measured -----------------------------------------------------------------------


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of machines, empty."""
    monkeypatch.setenv("SMELT_CACHE", "1")
    monkeypatch.setenv("SMELT_CACHE_DIR", str(tmp_path))
    made = tmp_path / "machines"
    made.mkdir()
    return made


def error_of(words: str) -> str:
    with pytest.raises(TargetError) as caught:
        machine_of(Target(words))
    return str(caught.value)


def test_times_are_those_measured_where_the_target_asks_so(folder: Path) -> None:
    known = machine_of(Target(HASWELL), 2)
    caches = tuple([c.replace(bytes_per_cycle=7.0, size=1) for c in known.caches])
    times = {"clock": 1e9, "memory": 2e9, "memory_all": 3e9, "memory_latency": 1e-7, "launch": 5e-6}
    seen = known.replace(**times, caches=caches, multiply_adds=9.0, cores=64)
    (folder / "haswell.json").write_text(json.dumps(seen.to_json()))
    assert machine_of(Target(HASWELL), 2) is known
    found = machine_of(Target(f"{HASWELL} -measured"), 2)
    assert [c.bytes_per_cycle for c in found.caches] == [7.0, 7.0, 7.0]
    assert [c.size for c in found.caches] == [c.size for c in known.caches]
    assert found.replace(caches=known.caches) is known.replace(**times)


def test_nothing_was_measured(folder: Path) -> None:
    assert error_of(f"{HASWELL} -measured") == (
        f"target option 'measured': nothing was measured of 'haswell'; {folder} has figures of no "
        "CPU; on a haswell, run `smelt targets --measure`"
    )


def test_another_cpu_was_measured(folder: Path) -> None:
    for name in ("znver4", "cortex-a72"):
        (folder / f"{name}.json").write_text("{}")
    assert error_of(f"{HASWELL} -measured") == (
        f"target option 'measured': nothing was measured of 'haswell'; {folder} has figures of "
        "cortex-a72, znver4; on a haswell, run `smelt targets --measure`"
    )


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"caches": [], "dot": [], "scopes": []}', "\0"])
def test_a_file_that_is_no_machine(folder: Path, text: str) -> None:
    (folder / "haswell.json").write_text(text)
    assert error_of(f"{HASWELL} -measured") == (
        f"target option 'measured': {folder / 'haswell.json'} holds no machine; run "
        "`smelt targets --measure` again"
    )


def test_no_folder_to_keep_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CACHE", "0")
    assert error_of(f"{HASWELL} -measured") == (
        "what is measured of machines is kept in the cache folder, and there is none; legal: "
        "SMELT_CACHE=1, and a folder's name in SMELT_CACHE_DIR"
    )


def test_only_code_for_llvm_can_ask_for_it() -> None:
    assert Target("llvm -measured").attrs["measured"] is True
    assert Target("llvm -measured=0").attrs["measured"] is False
    with pytest.raises(TargetError, match="target kind 'c' has no option 'measured'"):
        Target("c -measured")


def test_it_survives_resolving() -> None:
    assert resolve(Target("llvm -mcpu=native -measured")).attrs["measured"] is True
    assert architecture(Target("hexagon -mcpu=v68 -mtriple=hexagon")) == "hexagon"


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("generic-rv64 -mattr=+v", 16),
        ("generic-rv64 -mattr=+v,+zvl256b", 32),
        ("generic-rv64 -mattr=+v,+zvl256b,+zvl512b", 64),
        ("spacemit-x60", 32),
        ("sifive-x280", 64),
        ("sifive-p870", 16),
    ],
)
def test_vectors_of_riscv_are_as_long_as_is_promised(words: str, size: int) -> None:
    """Longer registers do not make units faster, and code for them asks the processor."""
    target = Target(f"llvm -mtriple=riscv64-linux-gnu -mcpu={words}")
    m = machine_of(target)
    assert (m.vector_bytes, m.lanes(4)) == (size, size // 4)
    assert m.flops == pytest.approx(m.clock * 2 * m.multiply_adds * m.lanes(4))
    asked = [f for f in needed_features(target) if f.startswith("zvl")]
    assert bool(asked) == (size > 16)
