"""Arm: NEON multiply-adds and dot products of AArch64, DSP instructions of 32-bit cores.

Sources: Arm Architecture Reference Manual for A-profile (DDI 0487), under the instructions' names;
Armv7-M Architecture Reference Manual (DDI 0403) for SMLAD and SMLALD; the C names are those of the
Arm C Language Extensions (IHI 0053, and IHI 0073 for NEON).

AArch64 has 32 vector registers of 128 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smelt.ir.build import call
from smelt.ir.expr import Call, Expr, IntImm, Shuffle, const
from smelt.tir.named_calls import call_llvm

from . import programs
from .registry import Instruction, TensorIntrin

_A64 = "DDI 0487, "
_LOAD = {"int8": "vld1q_s8", "uint8": "vld1q_u8"}


def _by_lane(b: Expr, lane: Expr, group: int) -> Expr:
    """A group of lanes of a vector, in place of every group."""
    assert isinstance(lane, IntImm)
    first, lanes = lane.value * group, 4 * group
    return Shuffle(b, b, tuple([first + i % group for i in range(lanes)]))


def _fmla_lane(c: Expr, a: Expr, b: Expr, lane: Expr) -> Expr:
    return call("fma", a, _by_lane(b, lane, 1), c)


_neon = partial(Instruction.register, arch="aarch64", header="arm_neon.h")

_neon(
    "arm.neon.fmla",
    programs.fma(4),
    features=("neon",),
    llvm=programs.fused,
    c="vst1q_f32(r, vfmaq_f32(vld1q_f32(c), vld1q_f32(a), vld1q_f32(b)));",
    source=f"{_A64}FMLA (vector)",
)
_neon(
    "arm.neon.fmla_lane",
    programs.fma(4, form="picked"),
    features=("neon",),
    llvm=_fmla_lane,
    c="vst1q_f32(r, vfmaq_laneq_f32(vld1q_f32(c), vld1q_f32(a), vld1q_f32(b), {lane}));",
    source=f"{_A64}FMLA (by element)",
)
TensorIntrin.register("arm.neon.fma_4x", *Instruction.get("arm.neon.fmla").tile())
for _rows in (4, 8):
    TensorIntrin.register(
        f"arm.neon.fma_tile_{_rows}x{_rows}",
        *Instruction.get("arm.neon.fmla_lane").tile(_rows, _rows // 4),
    )


# ---------------------------------------------------------------------------- dot products of bytes


def _words(function: str, a: str, b: str, lane: str = "") -> str:
    """The C statement of an instruction on vectors a and b of bytes that adds to four words.

    Unsigned sums are, modulo 2**32, the signed ones.
    """
    s, c, r = "s32", "c", "r"
    if a == b == "uint8":
        s, c, r = "u32", "(const uint32_t *)c", "(uint32_t *)r"
    return f"vst1q_{s}({r}, {function}_{s}(vld1q_{s}({c}), {_LOAD[a]}(a), {_LOAD[b]}(b){lane}));"


def _dot_lane(llvm: str, swapped: bool) -> Callable[..., Expr]:
    """A dot product with one group of b; `swapped`: LLVM's intrinsic takes b first."""

    def expand(c: Expr, a: Expr, b: Expr, lane: Expr) -> Expr:
        group = _by_lane(b, lane, 4)
        return call_llvm("int32x4", llvm, c, *((group, a) if swapped else (a, group)))

    return expand


for _name, _a, _b, _feature, _c, _tile in (
    ("sdot", "int8", "int8", "dotprod", "vdotq", "4x4"),
    ("udot", "uint8", "uint8", "dotprod", "vdotq", "4x4"),
    ("usdot", "uint8", "int8", "i8mm", "vusdotq", "4x4"),
    ("smmla", "int8", "int8", "i8mm", "vmmlaq", "2x2x8"),
    ("ummla", "uint8", "uint8", "i8mm", "vmmlaq", "2x2x8"),
    ("usmmla", "uint8", "int8", "i8mm", "vusmmlaq", "2x2x8"),
):
    _matrix = programs.MultiplyAdd(_a, _b, "int32", 4, 8, "matrix", rows=2)
    _made = _neon(
        f"arm.neon.{_name}",
        _matrix if "mmla" in _name else programs.dot(4, 4, _a, _b),
        features=(_feature,),
        llvm=f"llvm.aarch64.neon.{_name}.v4i32.v16i8",
        c=_words(_c, _a, _b),
        source=f"{_A64}{_name.upper()} (vector)",
    )
    TensorIntrin.register(f"arm.neon.{_name}_{_tile}", *_made.tile())

for _name, _a, _b, _feature, _c in (
    ("sdot", "int8", "int8", "dotprod", "vdotq_laneq"),
    ("udot", "uint8", "uint8", "dotprod", "vdotq_laneq"),
    ("sudot", "int8", "uint8", "i8mm", "vsudotq_laneq"),
):
    _swapped = _name == "sudot"
    _made = _neon(
        f"arm.neon.{_name}_lane",
        programs.dot(4, 4, _a, _b, form="picked"),
        features=(_feature,),
        llvm=_dot_lane(f"llvm.aarch64.neon.{'usdot' if _swapped else _name}.v4i32.v16i8", _swapped),
        c=_words(_c, _a, _b, ", {lane}"),
        source=f"{_A64}{_name.upper()} (by element)",
    )
    TensorIntrin.register(f"arm.neon.{'usdot' if _swapped else _name}_tile_8x8", *_made.tile(8, 2))

# ------------------------------------------------------------------ DSP instructions, 32-bit cores


def _word(x: Expr) -> Expr:
    """Two 16-bit or four 8-bit lanes as one word, the first lane lowest."""
    return Call("int32", "reinterpret", (x,))


def _smlad(c: Expr, a: Expr, b: Expr) -> Expr:
    return call_llvm("int32", "llvm.arm.smlad", _word(a), _word(b), c)


def _smlald(c: Expr, a: Expr, b: Expr) -> Expr:
    return call_llvm("int64", "llvm.arm.smlald", _word(a), _word(b), c)


def _smlad_s8(c: Expr, a: Expr, b: Expr) -> Expr:
    """Even bytes and odd bytes, widened two at a time: two multiply-adds of pairs."""

    def wide(x: Expr, rotation: int) -> Expr:
        word, by = _word(x), const(rotation, "int32")
        turned = call_llvm("int32", "llvm.fshr.i32", word, word, by) if rotation else word
        return call_llvm("int32", "llvm.arm.sxtb16", turned)

    even = call_llvm("int32", "llvm.arm.smlad", wide(a, 0), wide(b, 0), c)
    return call_llvm("int32", "llvm.arm.smlad", wide(a, 8), wide(b, 8), even)


def _dsp_c(kind: str, statement: str) -> str:
    """A C statement on the words x and y that hold a and b."""
    return f"{kind} x, y; memcpy(&x, a, 4); memcpy(&y, b, 4); *r = {statement};"


_BYTES = "__smlad(__sxtb16(__ror(x, 8)), __sxtb16(__ror(y, 8)), "
_BYTES += "__smlad(__sxtb16(x), __sxtb16(y), *c))"

for _name, _a, _length, _result, _llvm, _text, _source in (
    ("smlad", "int16", 2, "int32", _smlad, _dsp_c("int16x2_t", "__smlad(x, y, *c)"), "SMLAD"),
    ("smlald", "int16", 2, "int64", _smlald, _dsp_c("int16x2_t", "__smlald(x, y, *c)"), "SMLALD"),
    ("smlad_s8", "int8", 4, "int32", _smlad_s8, _dsp_c("uint32_t", _BYTES), "SXTB16, SMLAD"),
):
    _made = Instruction.register(
        f"arm.dsp.{_name}",
        programs.dot(1, _length, _a, _a, _result),
        arch="arm",
        features=("dsp",),
        llvm=_llvm,
        c=_text,
        header="arm_acle.h",
        source=f"DDI 0403, {_source}",
    )
    TensorIntrin.register(f"arm.dsp.{_name}_{_length}", *_made.tile())
