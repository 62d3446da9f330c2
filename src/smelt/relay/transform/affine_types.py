"""The rules that make operators of Relay on floats operators on integers."""

from __future__ import annotations

from typing import Any

from smelt.relax.transform.affine_types import Rule

from ..dialect import registering

RULES: dict[str, Rule] = {}
"""Operator: what makes its calls integer ones. Others are treated as what they are written in."""

OPTIONAL: set[str] = {"nn.softmax"}
"""Operators that become integer ones only where optional_qnn_ops names them."""


def register_fake_quantization_to_integer(
    op_name: str, func: Rule | None = None, level: int = 10
) -> Any:
    """Say what a call of an operator becomes between qnn.dequantize and qnn.quantize.

    func   (call, types) -> [expression of integers, its TensorAffineType or TupleAffineType].
           The call's operands are integers already; types[operand] says what they stand for.
           types.get(call) is the type that the quantized result will have, where that is settled.
           Raising NotInteger leaves the operator in floats. A decorator where it is None
    level  there for the classic signature: what is registered last counts
    """

    def enter(fn: Rule) -> None:
        RULES[op_name] = fn
        OPTIONAL.discard(op_name)

    return registering("register_fake_quantization_to_integer", op_name, enter, func)


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Rule | None = None, level: int = 10
) -> Any:
    """The same for an operator that is left in floats unless optional_qnn_ops names it."""

    def enter(fn: Rule) -> Rule:
        register_fake_quantization_to_integer(op_name, fn, level)
        OPTIONAL.add(op_name)
        return fn

    return enter if func is None else enter(func)
