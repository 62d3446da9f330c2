"""Processors: the family behind a target, its pointers, the instruction sets that are on.

Features have LLVM's names; which processor has which is from LLVM's tables (X86.td,
AArch64Processors.td, ARMProcessors.td, RISCVProcessors.td).
"""

from __future__ import annotations

import platform
from functools import cache

from .target import Target

_V2 = "sse3 ssse3 sse4.1 sse4.2 popcnt"
_V3 = f"{_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_ICE = (
    "avx512vnni avx512vbmi avx512vbmi2 avx512ifma avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq"
)
_SAPPHIRE = f"{_V4} {_ICE} avxvnni avx512bf16 avx512fp16 amx-tile amx-int8 amx-bf16"
_LAKE = f"{_V3} avxvnni gfni vaes vpclmulqdq"
_FOREST = f"{_LAKE} avxvnniint8 avxifma avxneconvert"
_A76 = "fullfp16 dotprod"
_A510 = f"{_A76} fp16fml bf16 i8mm"
_A7 = "dsp neon vfp3 vfp4 fp16 hwdiv hwdiv-arm"
_GC = "m a f d c"
_P670 = f"{_GC} v zfhmin zba zbb zbs"

LEVELS = {
    "x86-64": "", "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4,
}  # fmt: skip
"""The levels of the x86-64 psABI and their features."""

_CPUS: dict[str, tuple[tuple[str, str], ...]] = {
    "x86": (
        *[(features, level) for level, features in LEVELS.items()],
        ("", "generic athlon64 athlon-fx k8 opteron"),
        ("sse3", "athlon64-sse3 k8-sse3 nocona opteron-sse3"),
        ("sse3 sse4a popcnt lzcnt", "amdfam10 barcelona"),
        ("sse3 ssse3", "core2"),
        ("sse3 ssse3 movbe", "atom bonnell"),
        ("sse3 ssse3 sse4.1", "penryn"),
        ("sse3 ssse3 sse4a popcnt lzcnt", "btver1"),
        (_V2, "corei7 nehalem westmere"),
        (f"{_V2} movbe", "goldmont goldmont-plus silvermont slm"),
        (f"{_V2} movbe gfni", "tremont"),
        (f"{_V2} avx", "corei7-avx sandybridge"),
        (f"{_V2} avx f16c", "ivybridge core-avx-i"),
        (f"{_V2} sse4a lzcnt fma4 xop avx", "bdver1"),
        (f"{_V2} sse4a lzcnt bmi tbm f16c fma fma4 xop avx", "bdver2 bdver3"),
        (f"{_V2} sse4a lzcnt movbe bmi f16c avx", "btver2"),
        (_V3, "haswell broadwell skylake core-avx2"),
        (f"{_V3} sse4a tbm fma4 xop", "bdver4"),
        (f"{_V3} sse4a", "znver1 znver2"),
        (f"{_V3} sse4a vaes vpclmulqdq", "znver3"),
        (f"{_V3} avx512f avx512cd", "knl"),
        (_LAKE, "alderlake gracemont meteorlake raptorlake"),
        (_FOREST, "arrowlake grandridge sierraforest"),
        (f"{_FOREST} avxvnniint16", "arrowlake-s clearwaterforest lunarlake pantherlake"),
        (_V4, "skylake-avx512 skx"),
        (f"{_V4} avx512vbmi avx512ifma", "cannonlake"),
        (f"{_V4} avx512vnni", "cascadelake"),
        (f"{_V4} avx512vnni avx512bf16", "cooperlake"),
        (f"{_V4} {_ICE}", "icelake-client icelake-server rocketlake tigerlake"),
        (_SAPPHIRE, "sapphirerapids emeraldrapids"),
        (f"{_SAPPHIRE} amx-fp16", "graniterapids graniterapids-d"),
        (f"{_V4} {_ICE} sse4a avx512bf16", "znver4"),
        (f"{_V4} {_ICE} sse4a avx512bf16 avxvnni", "znver5"),
    ),
    "aarch64": (
        ("", "generic cortex-a34 cortex-a35 cortex-a53 cortex-a57 cortex-a72 cortex-a73 apple-a7"),
        ("", "apple-a8 apple-a9 apple-a10 cyclone exynos-m3 falkor kryo thunderx thunderx2t99"),
        ("", "thunderx3t110 thunderxt81 thunderxt83 thunderxt88"),
        ("fullfp16", "apple-a11 apple-a12 apple-s4 apple-s5 carmel"),
        ("fullfp16 sve sve512b", "a64fx"),
        ("dotprod", "saphira"),
        (_A76, "cortex-a55 cortex-a65 cortex-a65ae cortex-a75 cortex-a76 cortex-a76ae cortex-a77"),
        (_A76, "cortex-a78 cortex-a78ae cortex-a78c cortex-x1 cortex-x1c exynos-m4 exynos-m5"),
        (_A76, "neoverse-e1 neoverse-n1"),
        (f"{_A76} fp16fml", "cortex-r82 cortex-r82ae tsv110"),
        (f"{_A76} fp16fml sha3", "apple-a13 apple-a14 apple-m1 apple-s6 apple-s7 apple-s8"),
        (f"{_A76} bf16 i8mm sha3", "ampere1 ampere1a"),
        (f"{_A76} bf16 i8mm sha3 cssc", "ampere1b"),
        (f"{_A510} sha3", "apple-a15 apple-a16 apple-a17 apple-a18 apple-m2 apple-m3 apple-m4"),
        (f"{_A510} sha3", "apple-s9 apple-s10 oryon-1"),
        (f"{_A510} sve sve256b sha3", "neoverse-512tvb neoverse-v1"),
        (f"{_A510} sve sve2", "cortex-a320 cortex-a510 cortex-a520 cortex-a520ae cortex-a710"),
        (f"{_A510} sve sve2", "cortex-a715 cortex-a720 cortex-a720ae cortex-a725 cortex-x2"),
        (f"{_A510} sve sve2", "cortex-x3 cortex-x4 cortex-x925 cobalt-100 neoverse-n2"),
        (f"{_A510} sve sve2", "neoverse-n3 neoverse-v2 neoverse-v3 neoverse-v3ae"),
        (f"{_A510} sve sve2 sha3", "grace gb10"),
    ),
    "arm": (
        ("", "generic arm1176jz-s arm1176jzf-s mpcore cortex-m0 cortex-m0plus cortex-m1 sc000"),
        ("dsp", "arm1136j-s arm1136jf-s arm1156t2-s arm1156t2f-s"),
        ("hwdiv", "cortex-m3 cortex-m23 sc300"),
        ("dsp hwdiv vfp4d16sp", "cortex-m4 cortex-m7 cortex-m33 cortex-m35p star-mc1"),
        ("dsp hwdiv vfp4d16sp fp16 fullfp16 mve mve.fp", "cortex-m52 cortex-m55 cortex-m85"),
        ("dsp hwdiv", "cortex-r4 cortex-r4f"),
        ("dsp hwdiv hwdiv-arm", "cortex-r5 cortex-r7 cortex-r8"),
        ("dsp neon vfp3", "armv7 armv7a armv7l thumbv7 thumbv7a cortex-a8"),
        ("dsp neon vfp3 fp16", "cortex-a9"),
        ("dsp neon vfp3 vfp4 fp16", "cortex-a5"),
        (_A7, "cortex-a7 cortex-a12 cortex-a15 cortex-a17 krait swift"),
        (f"{_A7} fp-armv8", "armv8 armv8a armv8l cortex-a32 cortex-a35 cortex-a53 cortex-a57"),
        (f"{_A7} fp-armv8", "cortex-a72 cortex-a73 cortex-r52 cortex-r52plus cyclone exynos-m3"),
        (f"{_A7} fp-armv8 dotprod", "cortex-a55 cortex-a75 neoverse-n1"),
        (f"{_A7} fp-armv8 {_A76}", "cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae"),
        (f"{_A7} fp-armv8 {_A76}", "cortex-a78c cortex-x1 cortex-x1c exynos-m4 exynos-m5"),
        (f"{_A7} fp-armv8 {_A76} bf16 i8mm", "cortex-a510 cortex-a710 neoverse-n2 neoverse-v1"),
    ),
    "riscv32": (
        ("", "generic generic-rv32 rocket-rv32"),
        ("m c", "sifive-e20"),
        ("m a c", "sifive-e21 sifive-e31"),
        ("m a c zba zbb zbs", "rp2350-hazard3"),
        ("m a f c", "sifive-e24 sifive-e34 sifive-e76"),
        (_GC, "andes-a25 andes-a45"),
    ),
    "riscv": (
        ("", "generic generic-rv64 rocket-rv64"),
        ("m a c", "sifive-s21 sifive-s51"),
        (_GC, "andes-ax25 andes-ax45 sifive-s54 sifive-s76 sifive-u54 sifive-u74"),
        (f"{_GC} v", "andes-ax45mpv"),
        (f"{_GC} zba zbb", "mips-p8700 sifive-p550"),
        (f"{_GC} zba zbb zbs", "veyron-v1 xiangshan-nanhu"),
        (f"{_GC} zba zbb zbs zfhmin", "sifive-p450"),
        (_P670, "sifive-p470 sifive-p670"),
        (f"{_P670} zfh zvfh", "sifive-p870 xiangshan-kunminghu"),
        (f"{_P670} zfh zvfh zvl256b", "spacemit-x60 tt-ascalon-d8"),
        (f"{_P670} zfh zvfh zvl1024b", "sifive-x390"),
        (f"{_GC} v zfhmin zba zbb zfh zvfh zvl512b", "sifive-x280"),
    ),
}
"""By family: features, and the processors that have them."""

SVE_LENGTHS = ("sve256b", "sve512b")
"""How long SVE's registers are, where code counts on it: our words, LLVM has none for it."""

INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "x86": (
        "sse3", "ssse3", "sse4.1", "sse4.2", "sse4a", "popcnt", "lzcnt", "movbe", "bmi", "bmi2",
        "tbm", "f16c", "fma", "fma4", "xop", "avx", "avx2", "avxvnni", "avxvnniint8",
        "avxvnniint16", "avxifma", "avxneconvert", "avx512f", "avx512bw", "avx512cd", "avx512dq",
        "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16", "avx512vbmi", "avx512vbmi2",
        "avx512ifma", "avx512bitalg", "avx512vpopcntdq", "gfni", "vaes", "vpclmulqdq", "amx-tile",
        "amx-int8", "amx-bf16", "amx-fp16",
    ),
    "aarch64": (
        "fp-armv8", "neon", "aes", "sha2", "crc", "lse", "fullfp16", "fp16fml", "rdm", "jsconv",
        "complxnum", "rcpc", "sha3", "sm4", "dotprod", "bf16", "i8mm", "sve", *SVE_LENGTHS,
        "sve2", "sve2-aes", "cssc", "mops", "sme",
    ),
    "arm": (
        "neon", "vfp3", "vfp4", "fp-armv8", "fp16", "fullfp16", "hwdiv", "hwdiv-arm", "aes", "crc",
        "dotprod", "bf16", "i8mm", "mve", "mve.fp",
    ),
    "riscv": ("m", "a", "f", "d", "c", "v", "zvl256b", "zvl512b", "zvl1024b", "zfh", "zfhmin",
              "zvfh", "zba", "zbb", "zbs"),
    "wasm": (),
}  # fmt: skip
"""Features whose instructions code for a target that has them may hold, by family."""

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
    "wasm": ("wasm",),
}


def architecture(target: Target) -> str:
    """The family of a target's processor, as instructions name it; "" if none is known."""
    if target.kind.name == "hexagon":
        return "hexagon"
    march = str(target.attrs.get("march", ""))
    if march.startswith(("armv8", "armv9")) and "-m" not in march:
        return "aarch64"
    for word in (_machine(target), march, "arm" if target.mcpu.startswith("cortex-m") else ""):
        for family, starts in _FAMILIES.items():
            if word.startswith(starts) and word:
                return family
    return ""


def _machine(target: Target) -> str:
    """The first word of the triple, which LLVM code without one takes from this machine."""
    triple = target.mtriple or (platform.machine() if target.kind.name == "llvm" else "")
    return triple.split("-")[0]


def pointer_bytes(target: Target) -> int:
    """The bytes of a pointer on a target."""
    machine = _machine(target)
    if machine.startswith(("aarch64_32", "arm64_32")):
        return 4
    wide = architecture(target) == "aarch64" or "64" in machine + str(target.attrs.get("march"))
    return 8 if wide or machine == "s390x" else 4


@cache
def _rows(family: str) -> dict[str, tuple[str, ...]]:
    return {c: tuple(f.split()) for f, cpus in _CPUS.get(family, ()) for c in cpus.split()}


def _processors(target: Target) -> dict[str, tuple[str, ...]]:
    """The processors of a target's family, with their features."""
    family = architecture(target)
    return _rows("riscv32" if family == "riscv" and pointer_bytes(target) == 4 else family)


def known_cpus(target: Target) -> list[str]:
    """The processors that a target's CPU may be; none where the family is not known."""
    return [*_processors(target)]


def implied(target: Target) -> tuple[str, ...]:
    """The features that the name of a target's CPU stands for; without one, the triple's."""
    name = target.mcpu if target.mcpu not in ("", "generic") else _machine(target)
    return _processors(target).get(name, ())


def told_by_features(target: Target, on: tuple[str, ...]) -> str:
    """The processor that a machine is, whose name (`mcpu`) is a guess and whose features are `on`.

    Virtual machines pass on the model number of an older processor with a newer one's instructions;
    how many units and how much cache it has, follows from what it can do.
    """
    table, own = _processors(target), {*implied(target)}
    newer = [c for c, f in table.items() if own < {*f} <= {*on} and c not in LEVELS]
    return max(newer, key=lambda c: len(table[c]), default=target.mcpu)


def features_of(target: Target) -> frozenset[str]:
    """The features that code for a target may use, as far as rules and instructions ask."""
    family, march = architecture(target), str(target.attrs.get("march", ""))
    on = set(implied(target))
    base, *extensions = march.split("+")
    on.update(extensions)
    on.update(_MARCH.get(base, ()))
    if family == "aarch64":
        on.add("neon")
    if family == "x86" and pointer_bytes(target) == 8:
        on.add("sse2")
    if base.startswith(("rv32", "rv64")) and "v" in base[4:].split("_")[0]:
        on.add("v")
    if "mve.fp" in on:
        on.add("mve")
    for f in target.mattr:
        (on.discard if f.startswith("-") else on.add)(f.lstrip("+-"))
    return frozenset(on if "sve" in on else on.difference(SVE_LENGTHS))


def needed_features(target: Target) -> list[str]:
    """The CPU features without which code for a target must not run."""
    on = features_of(target)
    return [f for f in INSTRUCTIONS.get(architecture(target), ()) if f in on]


_HAVE: dict[str, dict[str, tuple[str, ...]]] = {
    "x86": {"fma": ("fma", "fma4", "avx512f"), "float16": ("f16c", "avx512f"),
            "roundeven": ("sse4.1", "avx", "avx2", "avx512f")},
    "arm": {"fma": ("vfp4", "vfp4d16sp", "fp-armv8", "mve.fp"),
            "float16": ("fp16", "vfp4", "vfp4d16sp", "fp-armv8", "fullfp16"),
            "roundeven": ("fp-armv8",)},
    "riscv": {"fma": ("f", "d", "v"), "float16": ("zfh", "zfhmin")},
    "wasm": {"fma": (), "float16": ()},
    "hexagon": {"fma": (), "roundeven": ()},
    "aarch64": {},
}  # fmt: skip
"""What may be lacking, and the features of which one brings it."""
_UNKNOWN: dict[str, tuple[str, ...]] = {"roundeven": ()}
"""Of other families: not all of their C libraries have that function (musl has none)."""


def lacks(target: Target) -> tuple[str, ...]:
    """What a target has no instructions for: "fma", "float16" (conversions), "roundeven"."""
    on = features_of(target)
    have = _HAVE.get(architecture(target), _UNKNOWN)
    lacking = [w for w, any_of in have.items() if not on & {*any_of}]
    if {"v", "zfhmin"} <= on and not on & {"zvfh", "zvfhmin"}:
        lacking.append("float16")  # scalars have it, vectors do not
    return tuple(lacking)
