"""What is known of processors, against LLVM's own tables."""

from __future__ import annotations

import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from smelt.codegen.llvm import ObjectCompiler, cpu_features, host_cpu, resolve
from smelt.ir.errors import TargetError
from smelt.runtime.native import missing_features
from smelt.target import Target, machine_of
from smelt.target.processor import (
    INSTRUCTIONS,
    SVE_LENGTHS,
    architecture,
    implied,
    known_cpus,
    lacks,
    needed_features,
    pointer_bytes,
    told_by_features,
)

TRIPLES = {
    "x86": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "arm": "armv7-linux-gnueabihf",
    "riscv": "riscv64-linux-gnu", "riscv32": "riscv32-unknown-elf", "wasm": "wasm32",
}  # fmt: skip
RV = "llvm -mtriple=riscv64-linux-gnu"
ARM = "llvm -mtriple=armv7-linux-gnueabihf"
A64 = "llvm -mtriple=aarch64-linux-gnu"


@pytest.mark.parametrize(
    "triple",
    [
        *TRIPLES.values(), "i686-linux-gnu", "arm64-apple-macos",
        "arm64_32-apple-watchos", "thumbv7em-none-eabihf", "wasm64",
    ],
)  # fmt: skip
def test_pointers_are_as_wide_as_llvm_says(triple: str) -> None:
    target = Target(f"llvm -mtriple={triple}")
    layout = str(ObjectCompiler(target)._machine.target_data)
    assert pointer_bytes(target) == (4 if "p:32:32" in layout.split("-") else 8)


def test_the_pointers_of_c_targets() -> None:
    widths = {"cortex-m4": 4, "-march=rv64gcv": 8, "-march=rv32imc": 4, "-march=armv8.2-a": 8}
    for words, width in widths.items():
        option = words if words.startswith("-") else f"-mcpu={words}"
        assert pointer_bytes(Target(f"c {option}")) == width


def test_llvm_knows_what_we_know() -> None:
    """It says on standard error where it does not, and goes on."""
    targets = [Target(f"llvm -mtriple={triple}") for triple in TRIPLES.values()]
    asked = [
        (t.mtriple, cpu, "")
        for t in targets
        for cpu in known_cpus(t)
        if not cpu.startswith(("armv", "thumbv"))  # names of triples
    ]
    for t in targets:
        listed = INSTRUCTIONS[architecture(t)]
        features = ",".join([f"+{f}" for f in listed if f not in SVE_LENGTHS])
        asked.append((t.mtriple, "", features))
    program = (
        "import llvmlite.binding as llvm\n"
        "llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()\n"
        f"for triple, cpu, features in {asked!r}:\n"
        "    made = llvm.Target.from_triple(triple)\n"
        "    m = made.create_target_machine(cpu=cpu, features=features)\n"
        "    m.emit_assembly(llvm.parse_assembly('define void @f() { ret void }'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = {line for line in done.stderr.splitlines() if "not a recognized" in line}
    assert (done.returncode, said) == (0, set()), done.stderr[-2000:]


@pytest.mark.parametrize(
    ("target", "features"),
    [
        (f"{A64} -mcpu=cortex-a72", ["neon"]),
        (f"{A64} -mcpu=cortex-a76", ["neon", "fullfp16", "dotprod"]),
        (f"{A64} -mattr=+i8mm,+sve", ["neon", "i8mm", "sve"]),
        (
            f"{A64} -mcpu=neoverse-v1",
            ["neon", "fullfp16", "fp16fml", "sha3", "dotprod", "bf16", "i8mm", "sve", "sve256b"],
        ),
        (f"{A64} -mcpu=neoverse-v1 -mattr=-sve,-sha3,-bf16,-fp16fml",
         ["neon", "fullfp16", "dotprod", "i8mm"]),
        (f"{RV} -mattr=+m,+a,+f,+d,+c,+v", ["m", "a", "f", "d", "c", "v"]),
        (f"{RV} -mcpu=sifive-u74", ["m", "a", "f", "d", "c"]),
        (f"{ARM} -mattr=+neon", ["neon", "vfp3"]),
        (ARM, ["neon", "vfp3"]),
        (f"{ARM} -mcpu=cortex-a53 -mattr=+crc",
         ["neon", "vfp3", "vfp4", "fp-armv8", "fp16", "hwdiv", "hwdiv-arm", "crc"]),
        ("llvm -mtriple=wasm32 -mattr=+simd128", []),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2",
         ["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"]),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=ivybridge",
         ["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "f16c", "avx"]),
    ],
)  # fmt: skip
def test_code_says_what_it_needs(target: str, features: list[str]) -> None:
    resolved = resolve(Target(target))
    assert needed_features(resolved) == features
    if architecture(resolved) != "x86":
        checked = set(missing_features(features))  # none is taken for granted on another machine
        assert checked == set(features) - set(cpu_features(resolve(Target("llvm -mcpu=native"))))


@pytest.mark.parametrize(
    ("target", "lacking", "vectors"),
    [
        (f"{A64} -mcpu=cortex-a72", (), (16, 32)),
        (f"{A64} -mcpu=neoverse-v1", (), (32, 32)),
        (f"{A64} -mcpu=neoverse-v1 -mattr=-sve", (), (16, 32)),
        (f"{A64} -mcpu=neoverse-v2", (), (16, 32)),
        (f"{A64} -mcpu=neoverse-v2 -mattr=+sve512b", (), (64, 32)),
        (f"{A64} -mcpu=a64fx", (), (64, 32)),
        (f"{ARM} -mattr=+neon", ("fma", "float16", "roundeven"), (16, 16)),
        (f"{ARM} -mcpu=cortex-a9 -mattr=-neon", ("fma", "roundeven"), (4, 16)),
        (f"{ARM} -mcpu=cortex-a72", (), (16, 16)),
        (f"{RV} -mattr=+m,+a,+f,+d,+c", ("float16",), (4, 32)),
        (f"{RV} -mattr=+m,+a,+f,+d,+c,+v,+zfh,+zvfh", (), (16, 32)),
        (f"{RV} -mcpu=sifive-p670", ("float16",), (16, 32)),
        ("llvm -mtriple=wasm32", ("fma", "float16"), (4, 16)),
        ("llvm -mtriple=wasm32 -mattr=+simd128", ("fma", "float16"), (16, 16)),
        ("llvm -mtriple=x86_64-linux-gnu", ("fma", "float16", "roundeven"), (16, 16)),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3", (), (32, 16)),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4", (), (64, 32)),
        ("llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4", ("roundeven",), (4, 16)),
        ("llvm -mtriple=thumbv8.1m.main-none-eabihf -mcpu=cortex-m55", ("roundeven",), (16, 8)),
    ],
)
def test_what_a_processor_has(
    target: str, lacking: tuple[str, ...], vectors: tuple[int, int]
) -> None:
    resolved = resolve(Target(target))
    machine = machine_of(resolved)
    assert lacks(resolved) == lacking
    assert (machine.vector_bytes, machine.vector_registers) == vectors
    assert machine.fma == ("fma" not in lacking)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (f"{A64} -mattr=+dotprd", "unknown CPU feature '+dotprd' for aarch64-linux-gnu; nearest: "),
        (f"{A64} -mattr=+avx2", "unknown CPU feature '+avx2' for aarch64-linux-gnu"),
        (f"{RV} -mattr=+vv", "unknown CPU feature '+vv' for riscv64-linux-gnu"),
        (f"{A64} -mcpu=cortex-a79", "unknown CPU 'cortex-a79' for aarch64-linux-gnu; known: "),
        (f"{RV} -mcpu=sifive-e31", "unknown CPU 'sifive-e31' for riscv64-linux-gnu; known: "),
        (f"{ARM} -mcpu=haswell", "unknown CPU 'haswell' for armv7-linux-gnueabihf; known: "),
    ],
)
def test_names_that_llvm_would_ignore_are_refused(target: str, text: str) -> None:
    with pytest.raises(TargetError) as caught:
        resolve(Target(target))
    assert str(caught.value).startswith(text)


def test_the_system_says_how_long_vectors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"neon": True, "sve": True, "sve2": False}
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: said)
    monkeypatch.setattr("smelt.codegen.llvm.missing_features", lambda asked: asked[1:])
    assert host_cpu()[1] == ("neon", "sve", "sve256b")
    said["sve"] = False
    assert host_cpu()[1] == ("neon",)


def test_what_a_hypervisor_hides_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM would count on all that the CPU's name stands for."""
    triple = llvm.get_process_triple()
    family = architecture(Target(f"llvm -mtriple={triple}"))
    cpu = {"x86": "sapphirerapids", "aarch64": "neoverse-v1"}[family]
    stands_for = implied(Target(f"llvm -mtriple={triple} -mcpu={cpu}"))
    hidden = stands_for[-1]
    seen = tuple(f for f in stands_for if f != hidden)
    monkeypatch.setattr("smelt.codegen.llvm.host_cpu", lambda: (cpu, seen))
    resolved = resolve(Target("llvm -mcpu=native"))
    assert f"-{hidden}" in resolved.mattr
    assert hidden not in needed_features(resolved)
    monkeypatch.undo()
    assert missing_features(needed_features(resolve(Target("llvm -mcpu=native")))) == []


@pytest.mark.parametrize(
    ("guess", "lacks", "cpu"),
    [
        ("rocketlake", "amx-fp16", "sapphirerapids"),
        ("rocketlake", "", "graniterapids"),
        ("sapphirerapids", "amx-fp16", "sapphirerapids"),
        ("znver3", "avx512f", "znver3"),
        ("haswell", "avx512f", "haswell"),
    ],
)
def test_a_machine_is_what_its_features_say(guess: str, lacks: str, cpu: str) -> None:
    """Virtual machines pass on the model number of an older processor."""
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={guess}")
    new = implied(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=graniterapids"))
    on = {*new, *implied(target)} - {lacks}
    if lacks == "avx512f":
        on = {*implied(target)}
    assert told_by_features(target, tuple(on)) == cpu
