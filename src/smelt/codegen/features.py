"""Which instruction sets a target has, and whether code that needs some may be made for it.

LLVM ends the process where it cannot select an instruction, so IR text says what it needs in
comments at its head (`needs_line`), and objects are made of it only for targets that have it.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

from smelt.ir.errors import CompileError
from smelt.target import Target

__all__ = [
    "LEVELS",
    "V3",
    "V4",
    "architecture",
    "calls_line",
    "check_needs",
    "features_of",
    "needs_line",
    "require",
    "unknown_calls",
]

_MARK = "; needs "
_CALLS = "; calls "

LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"),
}
"""The features of the x86-64 psABI's levels."""
LEVELS["x86-64-v3"] = (
    *LEVELS["x86-64-v2"], "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
)  # fmt: skip
LEVELS["x86-64-v4"] = (
    *LEVELS["x86-64-v3"], "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
)  # fmt: skip
V3 = {"haswell", "broadwell", "skylake", "alderlake", "znver1", "znver2", "znver3", "core-avx2"}
"""Processors of level 3 and not 4."""
V4 = {
    "skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server", "tigerlake",
    "rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids", "znver4", "znver5",
}  # fmt: skip
"""Processors of level 4."""

# Processors by feature, from LLVM's tables (X86.td, AArch64Processors.td, ARMProcessors.td).
_HAVE: dict[str, tuple[str, ...]] = {
    "avx512vnni": (
        "cascadelake", "cooperlake", "icelake-client", "icelake-server", "tigerlake", "rocketlake",
        "sapphirerapids", "emeraldrapids", "graniterapids", "znver4", "znver5",
    ),
    "avxvnni": (
        "alderlake", "meteorlake", "arrowlake", "lunarlake", "gracemont", "sapphirerapids",
        "emeraldrapids", "graniterapids", "znver5",
    ),
    "avx512bf16": (
        "cooperlake", "sapphirerapids", "emeraldrapids", "graniterapids", "znver4", "znver5",
    ),
    "dotprod": (
        "cortex-a55", "cortex-a75", "cortex-a76", "cortex-a77", "cortex-a78", "cortex-x1",
        "cortex-a510", "cortex-a710", "cortex-a715", "cortex-a720", "cortex-x2", "cortex-x3",
        "cortex-x4", "neoverse-e1", "neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2",
        "apple-m1", "apple-m2", "apple-m3", "apple-m4",
    ),
    "i8mm": (
        "cortex-a510", "cortex-a710", "cortex-a715", "cortex-a720", "cortex-x2", "cortex-x3",
        "cortex-x4", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m2", "apple-m3",
        "apple-m4",
    ),
    "dsp": (
        "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m35p", "cortex-m52", "cortex-m55",
        "cortex-m85",
    ),
    "mve": ("cortex-m52", "cortex-m55", "cortex-m85"),
    "mve.fp": ("cortex-m52", "cortex-m55", "cortex-m85"),
}  # fmt: skip
_MARCH = {
    "armv7e-m": ("dsp",),
    "armv8.4-a": ("dotprod",),
    "armv8.6-a": ("dotprod", "i8mm"),
    "armv9-a": ("dotprod",),
}
_FAMILIES = {
    "x86": ("x86_64", "amd64", "i386", "i586", "i686"),
    "aarch64": ("aarch64", "arm64"),
    "arm": ("arm", "thumb"),
    "riscv": ("riscv", "rv32", "rv64"),
}


def architecture(target: Target) -> str:
    """The family of a target's processor, as instructions name it; "" if none is known."""
    march = str(target.attrs.get("march", ""))
    triple = target.mtriple or (platform.machine() if target.kind.name == "llvm" else "")
    if march.startswith(("armv8", "armv9")) and "-m" not in march:
        return "aarch64"
    for word in (triple, march, "arm" if target.mcpu.startswith("cortex-m") else ""):
        for family, starts in _FAMILIES.items():
            if word.startswith(starts) and word:
                return family
    return ""


def features_of(target: Target) -> frozenset[str]:
    """The features that code for a target may use, as far as rules and instructions ask."""
    family, cpu, march = architecture(target), target.mcpu, str(target.attrs.get("march", ""))
    on = {f for f, cpus in _HAVE.items() if cpu in cpus}
    on.update(LEVELS.get("x86-64-v3" if cpu in V3 else "x86-64-v4" if cpu in V4 else cpu, ()))
    base, *extensions = march.split("+")
    on.update(extensions)
    on.update(_MARCH.get(base, ()))
    if family == "aarch64":
        on.add("neon")
    if family == "arm" and cpu.startswith("cortex-a"):
        on.add("dsp")
    if base.startswith(("rv32", "rv64")) and "v" in base[4:].split("_")[0]:
        on.add("v")
    if "mve.fp" in on:
        on.add("mve")
    for f in target.mattr:
        (on.discard if f.startswith("-") else on.add)(f.lstrip("+-"))
    return frozenset(on)


def needs_line(arch: str, features: Sequence[str], name: str) -> str:
    """A comment of IR text: an instruction of `name` stands in it."""
    return f"{_MARK}{arch} {','.join(features) or '-'} {name}"


def calls_line(name: str) -> str:
    """A comment of IR text: an LLVM intrinsic of which only LLVM knows whether it exists."""
    return f"{_CALLS}{name}"


def unknown_calls(ir: str, code: bytes) -> list[str]:
    """The intrinsics that LLVM has taken for functions of somebody else: it does not know them."""
    if not ir.startswith(";"):
        return []
    named = [x.removeprefix(_CALLS) for x in ir.splitlines() if x.startswith(_CALLS)]
    return [n for n in named if n.encode() in code]


def check_needs(ir: str, target: Target, kernel: str) -> None:
    """Raise where IR text of a kernel needs what a target has not."""
    for line in ir.splitlines():
        if not line.startswith(";"):
            break
        if not line.startswith(_MARK):
            continue
        arch, features, name = line.removeprefix(_MARK).split(" ", 2)
        needed = () if features == "-" else tuple(features.split(","))
        require(name, arch, needed, target, kernel)


def require(name: str, arch: str, features: Sequence[str], target: Target, kernel: str) -> None:
    """Raise a CompileError unless a target has what an instruction of that name needs."""
    own = architecture(target)
    if own != arch:
        raise CompileError(
            f"{kernel}: {name} is an instruction of {arch}, the target is {own or 'unknown'}: "
            f"{_without_features(target)}"
        )
    on = features_of(target)
    missing = [f for f in features if f not in on]
    if missing:
        raise CompileError(
            f"{kernel}: {name} needs {' and '.join(missing)}, which the target lacks: "
            f"{_without_features(target)}\n"
            f"  legal: a target that has it (-mattr={','.join('+' + f for f in missing)}), or a "
            "schedule without this instruction"
        )


def _without_features(target: Target) -> str:
    """A target as text; the long list that -mcpu=native stands for is left out."""
    if len(target.mattr) < 8:
        return str(target)
    return str(Target({k: v for k, v in target.export().items() if k != "mattr"}))
