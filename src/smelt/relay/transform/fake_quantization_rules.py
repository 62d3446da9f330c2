"""Operators of Relay on floats as operators of qnn, for FakeQuantizationToInteger.

Rules stand here where the result has to keep Relay's layouts or be one of Relay's operators; others
follow from what an operator is written in.
"""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.common import cast_to
from smelt.relax.nodes import Call, RelaxExpr
from smelt.relax.transform import fake_quantization_rules as core
from smelt.relax.transform.affine_types import NoForm, NotInteger, TensorAffineType, Types, times
from smelt.relax.transform.fake_quantization import Words
from smelt.relax.transform.fold_constants import fold_expression
from smelt.relax.transform.match import dims, given, rank_of
from smelt.topi.registry import Op

from .. import ops as ops  # enters the operators that the rules are for
from ..dialect import RELAY, make
from ..lift import lifted
from .affine_types import RULES, register_fake_quantization_to_integer


class RelayWords(Words):
    """Quantized numbers in operators of qnn."""

    dialect, rules = RELAY, RULES
    lifted = staticmethod(lifted)

    def __init__(self, off: set[str]) -> None:
        """Leave some operators in floats."""
        text = "becomes an integer operator only where optional_qnn_ops has it"
        self.off = dict.fromkeys(off, text)

    def op(self, name: str) -> Op:
        """qnn.quantize or qnn.dequantize."""
        return RELAY.get(f"qnn.{name}")

    def write(self, name: str, *given: RelaxExpr, **attrs: Any) -> RelaxExpr:
        """A call of an operator of qnn."""
        return make(f"qnn.{name}", *given, **attrs)

    def matmul(
        self, a: RelaxExpr, b: RelaxExpr, s: TensorAffineType, t: TensorAffineType, *turned: bool
    ) -> RelaxExpr:
        """qnn.dense with a matrix on the right, else qnn.batch_matmul."""
        numbers = (s.zero_point, t.zero_point, s.scale, t.scale)
        if rank_of(b) != 2:
            how = dict(zip(("transpose_a", "transpose_b"), turned, strict=True))
            return make("qnn.batch_matmul", a, b, *numbers, **how)
        if turned[0]:
            raise NotInteger("its data is transposed; transpose_a=False is legal")
        if not turned[1]:
            b = fold_expression(make("transpose", b, axes=(1, 0)))
        return make("qnn.dense", a, b, *numbers, units=dims(b)[0])

    def function(self, n: Call, x: RelaxExpr, *numbers: RelaxExpr) -> RelaxExpr:
        """The function of qnn that has the operator's name."""
        if f"qnn.{n.callee}" not in RELAY.ops or f"nn.{n.callee}" in self.off:
            raise NoForm(f"qnn has no {n.callee}")
        return make(f"qnn.{n.callee}", x, *numbers, **n.attrs)


def _plain_layout(layout: str) -> str:
    if sorted(layout) != ["C", "H", "N", "W"]:
        raise NotInteger(f"the layout {layout!r}; legal: the letters of NCHW")
    return layout


def conv(n: Call, types: Types) -> core.Result:
    """A convolution with int32 sums, whose scale is the product of both scales"""
    x, w = core.factors(n, types, n.attrs["kernel_layout"].index("O"))
    attrs = {k: v for k, v in n.attrs.items() if k != "out_dtype"}
    layout = _plain_layout(attrs["out_layout"] or attrs["data_layout"])
    numbers = (x.zero_point, w.zero_point, x.scale, w.scale)
    y = make(f"qnn.{n.callee.removeprefix('nn.')}", *n.args, *numbers, **attrs)
    return y, core.sums_type(times(x.scale, w.scale), layout.index("C"))


def bias_add(n: Call, types: Types) -> core.Result:
    """The bias in the scale of the sums."""
    x, b = given(n)
    t, axis = core.type_of(n, types), n.attrs["axis"] % rank_of(x)
    if not t.one and t.axis % rank_of(x) != axis:
        raise NotInteger(f"the scales of its data vary along axis {t.axis}, the bias along {axis}")
    q = core.in_steps(b, types.get(b), t.scale, 0, types)
    y = make("nn.bias_add", cast_to(x, "int32"), q, axis=n.attrs["axis"])
    return y, TensorAffineType(*t.numbers, "int32", t.axis)


def avg_pool2d(n: Call, types: Types) -> core.Result:
    """qnn.avg_pool2d, to the result's scale where that is settled, else to the operand's."""
    t, out = core.rescaled(n, types)
    return make("qnn.avg_pool2d", *n.args, *t.numbers, *out.numbers, **n.attrs), out


for _name, _rule in {"conv2d": conv, "conv2d_transpose": conv, "bias_add": bias_add,
                     "avg_pool2d": avg_pool2d}.items():  # fmt: skip
    register_fake_quantization_to_integer(f"nn.{_name}", _rule)
