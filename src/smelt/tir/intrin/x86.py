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

from .programs import declared, dot, fma, fused, program
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
    """vpdpb...d (groups of four bytes) or vpdpwssd (pairs of 16-bit words)."""
    lanes = bits // 32
    group = 32 // dt.bits(a)
    llvm = "avx2" if "avxvnniint8" in features else "avx512"
    mm, si = f"_mm{bits}", f"si{bits}"

    def load(p: str) -> str:
        return f"{mm}_loadu_{si}((const void *){p})"

    _x86(
        name,
        dot(lanes, group, a, b),
        features=features,
        llvm=f"llvm.x86.{llvm}.{mnemonic}.{bits}",
        c=f"{mm}_storeu_{si}((void *)r, "
        f"{mm}_{mnemonic.removeprefix('vp')}{avx}_epi32({load('c')}, {load('a')}, {load('b')}));",
        source=f"{_SDM}{mnemonic.upper()}",
    )


def _register_pairs(name: str, bits: int, feature: str, llvm: str, b: str, widen: str) -> None:
    """vpmaddwd and an addition: pairs of 16-bit words, whose products are summed exactly.

    b, widen  the type of the second operand, and the function that makes 16-bit words of bytes
    """
    lanes = bits // 32
    mm = f"_mm{bits if bits > 128 else ''}"
    si = f"si{bits}"

    def add(c: Expr, a: Expr, b: Expr) -> Expr:
        return c + call_llvm(f"int32x{lanes}", f"llvm.x86.{llvm}", a, cast(f"int16x{2 * lanes}", b))

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
        features=(feature,),
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
for _kind, _a, _b in (("ss", "int8", "int8"), ("uu", "uint8", "uint8")):
    _name = f"vpdpb{_kind}d"
    _register_dot(f"x86.avxvnniint8.{_name}", 256, ("avxvnniint8",), _name, _a, _b)
for _suffix, _b, _widen in (
    ("", "int16", ""), ("_s8", "int8", "cvtepi8_epi16"), ("_u8", "uint8", "cvtepu8_epi16")
):  # fmt: skip
    for _name, _bits, _feature, _llvm in (
        ("sse.pmaddwd", 128, "sse4.1" if _widen else "sse2", "sse2.pmadd.wd"),
        ("avx2.vpmaddwd", 256, "avx2", "avx2.pmadd.wd"),
        ("avx512.vpmaddwd", 512, "avx512bw", "avx512.pmaddw.d.512"),
    ):
        _register_pairs(f"x86.{_name}{_suffix}", _bits, _feature, _llvm, _b, _widen)

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


def _register_bytes(name: str, bits: int, feature: str, llvm: str) -> None:
    """vpmaddubsw and an addition: pairs of bytes, whose products are summed in 16 bits that end at
    their limits."""
    lanes = bits // 16
    vector, si = f"int16x{lanes}", f"si{bits}"
    mm = f"_mm{bits if bits > 128 else ''}"
    products = [
        f'T.cast("int32", a[i * 2 + {k}]) * T.cast("int32", b[i * 2 + {k}])' for k in (0, 1)
    ]
    meaning = program(
        [declared("c", "int16", lanes), declared("a", "uint8", 2 * lanes),
         declared("b", "int8", 2 * lanes), declared("r", "int16", lanes)],
        f"for i in range({lanes}):",
        f'    r[i] = c[i] + T.cast("int16", T.max(T.min({" + ".join(products)}, 32767), -32768))',
    )  # fmt: skip
    c, a, b = [f"{mm}_loadu_{si}((const void *){p})" for p in "cab"]
    _x86(
        name,
        meaning,
        features=(feature,),
        llvm=lambda c, a, b: c + call_llvm(vector, llvm, a, b),
        c=f"{mm}_storeu_{si}((void *)r, {mm}_add_epi16({c}, {mm}_maddubs_epi16({a}, {b})));",
        source=f"{_SDM}PMADDUBSW",
    )


_register_bytes("x86.ssse3.pmaddubsw", 128, "ssse3", "llvm.x86.ssse3.pmadd.ub.sw.128")
_register_bytes("x86.avx2.vpmaddubsw", 256, "avx2", "llvm.x86.avx2.pmadd.ub.sw")
_register_bytes("x86.avx512.vpmaddubsw", 512, "avx512bw", "llvm.x86.avx512.pmaddubs.w.512")

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
for _kind in ("ss", "uu"):
    _tiles(f"x86.avxvnniint8.vpdpb{_kind}d", f"x86.avxvnniint8.vnni_dot_{_kind}_8x4")


def _digits(instruction: str, pairs: str, lanes: int) -> None:
    """Digits of `width` bits of a vector of bytes times bytes, and what makes 32 bits of the sums.

    Names end with the digits' width; digits of four bits at most are small enough for 16 bits.
    """
    every = f"T.ramp(0, 1, {4 * lanes})"
    sums = f"T.ramp(0, 1, {2 * lanes})"
    at = f"{sums} // 2, {sums} % 2"
    for width in (2, 4):
        shifts, ones = 8 // width, (1 << width) - 1
        params = [declared("A", "int8", 4 * shifts), declared("B", "uint8", lanes, 4),
                  declared("C", "int16", lanes, 2)]  # fmt: skip
        byte = f'T.shift_right(B[vj, vh * 2 + vp], T.cast("uint8", vs * {width}))'
        desc = [
            f"for s, j, h, p in T.grid({shifts}, {lanes}, 2, 2):",
            '    with T.block("dot"):',
            f"        vs = T.axis.reduce({shifts}, s)",
            f"        vj = T.axis.spatial({lanes}, j)",
            "        vh = T.axis.spatial(2, h)",
            "        vp = T.axis.reduce(2, p)",
            f'        C[vj, vh] = C[vj, vh] + T.cast("int16", T.bitwise_and({byte}, '
            f'T.uint8({ones}))) * T.cast("int16", A[vs * 4 + (vh * 2 + vp)])',
        ]
        impl = []
        for k in range(shifts):
            digits = f"B[{every} // 4, {every} % 4]"
            if k:
                digits = f"T.shift_right({digits}, T.broadcast(T.uint8({k * width}), {4 * lanes}))"
            if k < shifts - 1:
                digits = f"T.bitwise_and({digits}, T.broadcast(T.uint8({ones}), {4 * lanes}))"
            row = f"A[T.ramp({4 * k}, 1, 4)]"
            row = f"T.shuffle({row}, {row}, {tuple(range(4)) * lanes!r})"
            impl.append(f'C[{at}] = T.call_instruction("int16x{2 * lanes}", "{instruction}", '
                        f"C[{at}], {digits}, {row})")  # fmt: skip
        TensorIntrin.register(f"{instruction}.digits{width}", program(params, *desc),
                              program(params, *impl))  # fmt: skip
    params = [declared("A", "int16", lanes, 2), declared("C", "int32", lanes)]
    desc = [
        f"for j, h in T.grid({lanes}, 2):",
        '    with T.block("sum"):',
        f"        vj = T.axis.spatial({lanes}, j)",
        "        vh = T.axis.reduce(2, h)",
        '        C[vj] = C[vj] + T.cast("int32", A[vj, vh])',
    ]
    whole = f"T.ramp(0, 1, {lanes})"
    impl = [f'C[{whole}] = T.call_instruction("int32x{lanes}", "{pairs}", C[{whole}], A[{at}], '
            f"T.broadcast(T.int16(1), {2 * lanes}))"]  # fmt: skip
    TensorIntrin.register(f"{pairs}.sum", program(params, *desc), program(params, *impl))


_digits("x86.ssse3.pmaddubsw", "x86.sse.pmaddwd", 4)
_digits("x86.avx2.vpmaddubsw", "x86.avx2.vpmaddwd", 8)
_digits("x86.avx512.vpmaddubsw", "x86.avx512.vpmaddwd", 16)
