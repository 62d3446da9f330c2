"""What qnn's operators do not take, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.ir.errors import SmeltError, TypeMismatch, Unsupported

from .support import q, scale, zero


def tensor(*shape: int, dtype: str = "int8") -> Any:
    return relay.var("x", shape=shape, dtype=dtype)


def weight(*shape: int, dtype: str = "int8") -> Any:
    return relay.const(np.zeros(shape, dtype))


def conv(x: Any, w: Any, zx: Any = None, zw: Any = None, **attrs: Any) -> Any:
    return q.conv2d(x, w, zx or zero(0), zw or zero(0), scale(1.0), scale(1.0),
                    **{"kernel_size": (3, 3), "channels": 2, **attrs})  # fmt: skip


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a float": (
        lambda: q.dequantize(tensor(3, dtype="float32"), scale(1.0), zero(0)),
        "qnn.dequantize: the data is float32; legal: int8, uint8, int16, uint16, int32",
    ),
    "integers": (
        lambda: q.quantize(tensor(3), scale(1.0), zero(0)),
        "qnn.quantize: the data is int8; legal: float32, float64",
    ),
    "a type": (
        lambda: q.quantize(tensor(3, dtype="float32"), scale(1.0), zero(0), out_dtype="int4"),
        "qnn.quantize: out_dtype='int4'; legal: 'int8'",
    ),
    "a scale's type": (
        lambda: q.dequantize(tensor(3), zero(1), zero(0)),
        "qnn.dequantize: input_scale is int32; legal: a float type",
    ),
    "a scale's length": (
        lambda: q.dequantize(tensor(3, 5), scale(1.0, 2.0), zero(0), axis=0),
        r"input_scale has the shape \(2,\); legal: a scalar, or a vector with one number for each "
        "of the 3 elements",
    ),
    "an axis": (
        lambda: q.dequantize(tensor(3, 5), scale(1.0, 2.0), zero(0), axis=2),
        "axis=2; a tensor of 2 dimensions has axes -2 to 1",
    ),
    "a rounding": (
        lambda: q.requantize(tensor(3), scale(1.0), zero(0), scale(1.0), zero(0), rounding="UP"),
        "rounding='UP'; legal: 'UPWARD', 'TONEAREST'",
    ),
    "zero points of the data by channel": (
        lambda: conv(tensor(1, 4, 5, 5), weight(2, 4, 3, 3), zx=zero(1, 2, 3, 4)),
        r"qnn.conv2d: input_zero_point has the shape \(4,\); a scalar is legal",
    ),
    "an int32 weight": (
        lambda: conv(tensor(1, 4, 5, 5), weight(2, 4, 3, 3, dtype="int32")),
        "qnn.conv2d: the kernel is int32; legal: int8, uint8, int16, uint16",
    ),
    "channels": (
        lambda: conv(tensor(1, 3, 5, 5), weight(2, 4, 3, 3)),
        "qnn.conv2d: the data has 3 channels, the weight reads 4",
    ),
    "two types": (
        lambda: q.add(tensor(3), tensor(3, dtype="uint8"), *[scale(1.0), zero(0)] * 3),
        "qnn.add: lhs is int8, rhs uint8; they have to be of one type",
    ),
    "a table of 16 bits": (
        lambda: q.tanh(tensor(3, dtype="int16"), *[scale(1.0), zero(0)] * 2),
        "qnn.tanh: x is int16; legal: int8, uint8",
    ),
    "a number of scales": (
        lambda: q.concatenate([tensor(3), tensor(3)], [scale(1.0)], [zero(0)] * 2, scale(1.0),
                              zero(0), axis=0),
        "qnn.concatenate: 2 tensors, 1 scales and 2 zero points",
    ),
    "a packed weight": (
        lambda: q.contrib_dense_pack(tensor(3, 3), weight(3, 3)),
        "relay.qnn.contrib_dense_pack is not an operator of smelt; write qnn.dense",
    ),
    "a simulated type": (
        lambda: q.simulated_quantize(tensor(3, dtype="float32"), scale(1.0), zero(0),
                                     out_dtype="int4"),
        "out_dtype='int4'; legal: disable, int8, uint8, int32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: tuple[Callable[[], Any], str]) -> None:
    make, message = case
    with pytest.raises(SmeltError, match=message):
        make()


def test_what_is_known_only_when_operands_are_is_refused_when_the_call_is_expanded() -> None:
    x = tensor(3)
    for value, message in ((-0.5, "input_scale=-0.5; it has to be positive"),
                           (1e30, "more than 2 \\*\\* 31 times the output's")):  # fmt: skip
        y = q.requantize(x, scale(value), zero(0), scale(1.0), zero(0))
        with pytest.raises(TypeMismatch, match=message):
            relay.qnn.transform.CanonicalizeOps()(relay.IRModule.from_expr(relay.Function([x], y)))


def test_unknown_operators_and_configurations() -> None:
    with pytest.raises(AttributeError, match=r"no operator 'conv2'; nearest: qnn\.conv2d"):
        q.conv2  # noqa: B018
    with (
        pytest.raises(TypeMismatch, match="compute_dtype='int32'; legal: 'int64'"),
        q.requantize_config(compute_dtype="int32"),
    ):
        pass
    with pytest.raises(Unsupported, match="not an operator of smelt"):
        relay.op.get("qnn.contrib_dense_pack").fn()


def test_operators_have_both_names() -> None:
    assert relay.qnn.requantize is relay.qnn.op.requantize
    assert {"quantize", "conv2d", "op", "transform"} <= set(dir(relay.qnn))
    with pytest.raises(AttributeError, match=r"no operator 'conv2'; nearest: qnn\.conv2d"):
        relay.qnn.conv2  # noqa: B018
