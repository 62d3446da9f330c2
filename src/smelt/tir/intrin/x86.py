"""x86: fused multiply-adds of AVX2 and AVX-512, dot products of 8-bit and 16-bit integers.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (document 325383),
under the instructions' names; for AVX-VNNI the Intel Architecture Instruction Set Extensions
Programming Reference (document 319433).

The tiles of matrix products keep C in registers: rows x vectors accumulators, one register for
each vector of B, and A comes from memory. AVX-512 has 32 registers, AVX2 has 16.
"""

from __future__ import annotations

from functools import partial

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, cast
from smelt.tir.named_calls import call_llvm

from .programs import dot, fma, fused
from .registry import Instruction, TensorIntrin

_SDM = "Intel SDM vol. 2, "
_x86 = partial(Instruction.register, arch="x86", header="immintrin.h")


def _register_fma(name: str, bits: int, feature: str, dtype: str) -> None:
    lanes, kind = (bits // 32, "ps") if dtype == "float32" else (bits // 64, "pd")
    mm = f"_mm{bits if bits > 128 else ''}"
    _x86(
        name,
        fma(lanes, dtype),
        features=(feature,),
        llvm=fused,
        c=f"{mm}_storeu_{kind}(r, {mm}_fmadd_{kind}({mm}_loadu_{kind}(a), {mm}_loadu_{kind}(b), "
        f"{mm}_loadu_{kind}(c)));",
        source=f"{_SDM}VFMADD231{kind.upper()}",
    )


def _register_dot(
    name: str, bits: int, features: tuple[str, ...], mnemonic: str, a: str, b: str, avx: str = ""
) -> None:
    """vpdpbusd (groups of four bytes) or vpdpwssd (pairs of 16-bit words)."""
    lanes = bits // 32
    group = 4 if a == "uint8" else 2
    mm, si = f"_mm{bits}", f"si{bits}"

    def load(p: str) -> str:
        return f"{mm}_loadu_{si}((const void *){p})"

    _x86(
        name,
        dot(lanes, group, a, b),
        features=features,
        llvm=f"llvm.x86.avx512.{mnemonic}.{bits}",
        c=f"{mm}_storeu_{si}((void *)r, "
        f"{mm}_{mnemonic.removeprefix('vp')}{avx}_epi32({load('c')}, {load('a')}, {load('b')}));",
        source=f"{_SDM}{mnemonic.upper()}",
    )


def _register_pairs(
    name: str, bits: int, features: tuple[str, ...], llvm: str, b: str, widen: str
) -> None:
    """vpmaddwd and an addition: pairs of 16-bit words, whose products are summed exactly.

    b, widen  the type of the second operand, and the function that makes 16-bit words of bytes
    """
    lanes = bits // 32
    mm = f"_mm{bits if bits > 128 else ''}"
    si = f"si{bits}"

    def add(c: Expr, a: Expr, b: Expr) -> Expr:
        return c + call_llvm(f"int32x{lanes}", llvm, a, cast(f"int16x{2 * lanes}", b))

    def load(p: str) -> str:
        return f"{mm}_loadu_{si}((const void *){p})"

    second = load("b")
    if widen:
        half = bits // 2
        narrow = (
            "_mm_loadl_epi64" if half == 64 else f"_mm{half if half > 128 else ''}_loadu_si{half}"
        )
        second = f"{mm}_{widen}({narrow}((const void *)b))"
    _x86(
        name,
        dot(lanes, 2, "int16", b),
        features=features,
        llvm=add,
        c=f"{mm}_storeu_{si}((void *)r, {mm}_add_epi32({load('c')}, "
        f"{mm}_madd_epi16({load('a')}, {second})));",
        source=f"{_SDM}PMADDWD",
    )


for _dtype, _kind in (("float32", "ps"), ("float64", "pd")):
    _register_fma(f"x86.avx2.vfmadd231{_kind}", 256, "fma", _dtype)
    _register_fma(f"x86.avx512.vfmadd231{_kind}", 512, "avx512f", _dtype)

_VNNI, _VL = ("avx512vnni",), ("avx512vnni", "avx512vl")
_register_dot("x86.avx512.vpdpbusd", 512, _VNNI, "vpdpbusd", "uint8", "int8")
_register_dot("x86.avx512.vpdpwssd", 512, _VNNI, "vpdpwssd", "int16", "int16")
_register_dot("x86.avx512vl.vpdpbusd", 256, _VL, "vpdpbusd", "uint8", "int8")
_register_dot("x86.avxvnni.vpdpbusd", 256, ("avxvnni",), "vpdpbusd", "uint8", "int8", "_avx")
for _suffix, _b, _widen in (
    ("", "int16", ""), ("_s8", "int8", "cvtepi8_epi16"), ("_u8", "uint8", "cvtepu8_epi16")
):  # fmt: skip
    _sse = ("sse4.1",) if _widen else ("sse2",)
    _register_pairs(f"x86.sse.pmaddwd{_suffix}", 128, _sse, "llvm.x86.sse2.pmadd.wd", _b, _widen)
    _register_pairs(
        f"x86.avx2.vpmaddwd{_suffix}", 256, ("avx2",), "llvm.x86.avx2.pmadd.wd", _b, _widen
    )
    _register_pairs(
        f"x86.avx512.vpmaddwd{_suffix}",
        512,
        ("avx512bw",),
        "llvm.x86.avx512.pmaddw.d.512",
        _b,
        _widen,
    )

_x86(
    "x86.avx512.vdpbf16ps",
    dot(16, 2, "bfloat16", "bfloat16", "float32"),
    features=("avx512bf16",),
    llvm="llvm.x86.avx512bf16.dpbf16ps.512",
    c="_mm512_storeu_ps(r, _mm512_dpbf16_ps(_mm512_loadu_ps(c), "
    "(__m512bh)_mm512_loadu_si512((const void *)a), "
    "(__m512bh)_mm512_loadu_si512((const void *)b)));",
    source=f"{_SDM}VDPBF16PS",
)

# ---------------------------------------------------------------------------------------- tiles


def _tiles(instruction: str, name: str, *sizes: tuple[int, int]) -> None:
    """Tiles of rows x vectors registers; `{}` in the name stands for the size in elements."""
    made = Instruction.get(instruction)
    for rows, vectors in sizes or [(0, 1)]:
        size = f"{rows}x{vectors * dt.lanes(made.type)}"
        TensorIntrin.register(name.format(size), *made.tile(rows, vectors))


_FMA2, _FMA5 = "x86.avx2.vfmadd231p", "x86.avx512.vfmadd231p"
_tiles(f"{_FMA2}s", "x86.avx2.fma_8x")
_tiles(f"{_FMA5}s", "x86.avx512.fma_16x")
_tiles(f"{_FMA2}d", "x86.avx2.fma_4x_f64")
_tiles(f"{_FMA5}d", "x86.avx512.fma_8x_f64")
_tiles(f"{_FMA2}s", "x86.avx2.fma_tile_{}", (6, 2), (4, 3))
for _size in ((4, 4), (6, 4), (8, 2), (8, 3), (12, 2)):
    _tiles(f"{_FMA5}s", "x86.avx512.fma_tile_{}", _size)
    _tiles("x86.avx512.vpdpbusd", "x86.avx512.vnni_tile_{}", _size)
_tiles("x86.avx512.vpdpbusd", "x86.avx512.vnni_dot_16x4")
_tiles("x86.avx512.vpdpwssd", "x86.avx512.vnni_dot_16x2_i16")
_tiles("x86.avx512.vdpbf16ps", "x86.avx512.bf16_dot_16x2")
_tiles("x86.avx512vl.vpdpbusd", "x86.avx512vl.vnni_dot_8x4")
_tiles("x86.avxvnni.vpdpbusd", "x86.avxvnni.vnni_dot_8x4")
