"""Integers of few bits in words, products of them, and sums of shifted images."""

from __future__ import annotations

from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.relax.compose.common import cast_to, pad_numbers, rank_of, scalar
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.window import window
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi.registry import attributes

from ..dialect import relay_op, same

same("nn.bitpack", "data", core="bitpack", idle="name", bits=1, pack_axis=1, bit_axis=2,
     pack_type="uint32", name="BitPack")  # fmt: skip
same(
    "nn.correlation", "data1 data2", core="correlation", renamed="padding=pads", idle="layout",
    forms={"padding": lambda value: pad_numbers(value, 2), "layout": {"NCHW": "NCHW"}},
    kernel_size=1, max_displacement=1, stride1=1, stride2=1, padding=(0, 0), is_multiply=True,
    layout="NCHW",
)  # fmt: skip


def _digits(x: RelaxExpr, bits: int) -> RelaxExpr:
    """The lowest bits as int32."""
    return call("bitwise_and", cast_to(x, "int32"), scalar((1 << bits) - 1, "int32"))


def _weight(x: RelaxExpr, bits: int, unipolar: bool, rank: int) -> RelaxExpr:
    """A weight's digits; unipolar: each binary digit 0 counts as -1."""
    if rank_of(x) != rank:
        raise TypeMismatch(
            f"the weight has {rank_of(x)} dimensions; legal: {rank}, integers that are not packed"
        )
    w = _digits(x, bits)
    if not unipolar:
        return w
    twice = call("multiply", w, scalar(2, "int32"))
    return call("subtract", twice, scalar((1 << bits) - 1, "int32"))


@relay_op("nn.bitserial_dense")
def bitserial_dense(
    data: RelaxExpr,
    weight: RelaxExpr,
    *,
    units: int | None = None,
    data_bits: int = 1,
    weight_bits: int = 1,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> RelaxExpr:
    """data [n, k] times the weight [units, k] transposed, integers of few bits."""
    a, w = _digits(data, data_bits), _weight(weight, weight_bits, unipolar, 2)
    return cast_to(call("matmul", a, w, transpose_b=True), out_dtype)


@relay_op("nn.bitserial_conv2d", prepare=window(2, "strides", "kernel_size"))
@attributes(strides=(1, 1), padding=(0, 0), channels=None, kernel_size=(3, 3), activation_bits=1,
            weight_bits=1, data_layout="NCHW", kernel_layout="OIHW", pack_dtype="uint32",
            out_dtype="int16", unipolar=True)  # fmt: skip
def bitserial_conv2d(data: RelaxExpr, weight: RelaxExpr, **a: Any) -> RelaxExpr:
    """A convolution of integers of few bits."""
    layout, own = a["data_layout"], a["kernel_layout"]
    x = spread(_digits(data, a["activation_bits"]), layout, "data_layout", "NCHW")
    w = _weight(weight, a["weight_bits"], a["unipolar"], 4)
    y = call("conv2d", x, spread(w, own, "kernel_layout", "OIHW"), strides=a["strides"],
             pads=a["padding"])  # fmt: skip
    return cast_to(gathered(y, "NCHW", layout, "data_layout"), a["out_dtype"])
