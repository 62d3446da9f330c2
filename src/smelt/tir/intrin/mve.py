"""Helium (MVE): vector instructions of Arm's microcontrollers, e.g. Cortex-M55.

Sources: Armv8-M Architecture Reference Manual (DDI 0553), under the instructions' names; the C
names are those of the Arm C Language Extensions (IHI 0053).

There are 8 vector registers of 128 bits; sums across lanes go to general-purpose registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smelt.ir.expr import Expr, const
from smelt.tir.named_calls import call_llvm

from .programs import dot, fma, fused_scalar
from .registry import Instruction, TensorIntrin

_mve = partial(Instruction.register, arch="arm", header="arm_mve.h")
_LOAD = {"int8": "vldrbq_s8", "uint8": "vldrbq_u8", "int16": "vldrhq_s16"}


def _vmladava(lanes: int, bits: int, unsigned: int) -> Callable[..., Expr]:
    """LLVM's intrinsic says by numbers whether to read lanes unsigned, subtract, exchange pairs."""

    def expand(c: Expr, a: Expr, b: Expr) -> Expr:
        flags = [const(x, "int32") for x in (unsigned, 0, 0)]
        return call_llvm("int32", f"llvm.arm.mve.vmldava.v{lanes}i{bits}", *flags, c, a, b)

    return expand


for _a, _lanes, _kind in (("int8", 16, "s8"), ("uint8", 16, "u8"), ("int16", 8, "s16")):
    _load = _LOAD[_a]
    _c = "(uint32_t)*c" if _a == "uint8" else "*c"
    _cast = "(int32_t)" if _a == "uint8" else ""
    _made = _mve(
        f"arm.mve.vmladava_{_kind}",
        dot(1, _lanes, _a, _a),
        features=("mve",),
        llvm=_vmladava(_lanes, 128 // _lanes, int(_a == "uint8")),
        c=f"*r = {_cast}vmladavaq_{_kind}({_c}, {_load}(a), {_load}(b));",
        source="DDI 0553, VMLADAVA",
    )
    TensorIntrin.register(f"arm.mve.dot_{_lanes}_{_kind}", *_made.tile())

_made = _mve(
    "arm.mve.vmlaldava_s16",
    dot(1, 8, "int16", "int16", "int64"),
    features=("mve",),
    c="*r = vmlaldavaq_s16(*c, vldrhq_s16(a), vldrhq_s16(b));",
    source="DDI 0553, VMLALDAVA",
)
TensorIntrin.register("arm.mve.dot_8_s16_wide", *_made.tile())


_made = _mve(
    "arm.mve.vfma_f32",
    fma(4, form="scalar"),
    features=("mve.fp",),
    llvm=fused_scalar,
    c="vst1q_f32(r, vfmaq_n_f32(vld1q_f32(c), vld1q_f32(b), *a));",
    source="DDI 0553, VFMA (vector by scalar plus vector)",
)
TensorIntrin.register("arm.mve.fma_4x", *_made.tile())
