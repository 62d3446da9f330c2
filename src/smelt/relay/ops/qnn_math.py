"""Arithmetic and functions of quantized numbers."""

from __future__ import annotations

from inspect import Parameter

from smelt.relax.compose import affine

from ..dialect import RELAY, alias

for _name, _body in affine.OPERATORS.items():
    RELAY.op(f"qnn.{_name}")(_body)

alias(
    "qnn.leaky_relu",
    "x=data alpha input_scale input_zero_point output_scale output_zero_point",
    alpha=Parameter.empty,
)
