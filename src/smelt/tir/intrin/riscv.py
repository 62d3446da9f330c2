"""RISC-V vectors (RVV 1.0): multiply-adds of a vector and a scalar, of a fixed number of elements.

Sources: The RISC-V Instruction Set Manual, volume I, chapter "V" Standard Extension for Vector
Operations, under the instructions' names; the C names are those of the RISC-V Vector Intrinsic
Specification 1.0.

The extension V promises registers of 128 bits at least; what is asked for here fits there.
"""

from __future__ import annotations

from functools import partial

from smelt.ir.expr import Broadcast, Expr, cast

from .programs import MultiplyAdd, fma, fused_scalar
from .registry import Instruction, TensorIntrin

_rvv = partial(Instruction.register, arch="riscv", header="riscv_vector.h")


def _vwmacc(c: Expr, a: Expr, b: Expr) -> Expr:
    """LLVM selects vwmacc.vx for a sum with the product of widened factors."""
    return c + cast("int32x8", Broadcast(a, 8)) * cast("int32x8", b)


for _lanes, _m in ((4, "m1"), (8, "m2")):
    _made = _rvv(
        f"riscv.rvv.vfmacc_vf_{_lanes}",
        fma(_lanes, form="scalar"),
        features=("v",),
        llvm=fused_scalar,
        c=f"__riscv_vse32_v_f32{_m}(r, __riscv_vfmacc_vf_f32{_m}(__riscv_vle32_v_f32{_m}(c, "
        f"{_lanes}), *a, __riscv_vle32_v_f32{_m}(b, {_lanes}), {_lanes}), {_lanes});",
        source="RVV 1.0, VFMACC.VF",
    )
    TensorIntrin.register(f"riscv.rvv.fma_{_lanes}x", *_made.tile())

_made = _rvv(
    "riscv.rvv.vwmacc_vx_8",
    MultiplyAdd("int16", "int16", "int32", 8, form="scalar"),
    features=("v",),
    llvm=_vwmacc,
    c="__riscv_vse32_v_i32m2(r, __riscv_vwmacc_vx_i32m2(__riscv_vle32_v_i32m2(c, 8), *a, "
    "__riscv_vle16_v_i16m1(b, 8), 8), 8);",
    source="RVV 1.0, VWMACC.VX",
)
TensorIntrin.register("riscv.rvv.wmacc_8x", *_made.tile())
