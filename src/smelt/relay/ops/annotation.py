"""Marks that passes look at: operators that give their operand unchanged."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import RelaxExpr, call
from smelt.topi import get_op

from ..dialect import RELAY, alias, builder, relay_function, relay_op

MARKS = {
    "annotation.stop_fusion": "The value is computed before what uses it is fused.",
    "annotation.checkpoint": "The value is kept where others are computed again.",
    "annotation.bitpack_start": "From here on elements are packed into words.",
    "annotation.bitpack_end": "From here on elements are no longer packed.",
    "annotation.force_cast": "The value has its own element type here in a quantized program.",
}


def _enter(name: str, text: str) -> None:
    def body(data: RelaxExpr) -> RelaxExpr:
        return call("identity", data)

    body.__doc__ = text
    RELAY.op(name, kind="opaque" if name == "annotation.stop_fusion" else None)(body)


for _name, _text in MARKS.items():
    _enter(_name, _text)


for _name in ("annotation.compiler_begin", "annotation.compiler_end"):
    relay_function(_name)(builder(get_op(_name)))


@relay_op("annotation.cast_hint")
def cast_hint(data: RelaxExpr, *, dtype: str) -> RelaxExpr:
    """The element type that a quantized program would have here."""
    return call("identity", data)


def _named(attrs: dict[str, Any]) -> dict[str, Any]:
    """Devices by their text."""
    return {**attrs, "device": str(attrs["device"])}


@relay_op("on_device", prepare=_named)
def on_device(
    body: RelaxExpr, *, device: Any, constrain_result: bool = False, constrain_body: bool = True
) -> RelaxExpr:
    """A value that is to be computed on a device; all of a program's values are on one."""
    return call("identity", body)


alias("annotation.on_device", "body device constrain_result constrain_body", of="on_device")
