"""Quantization in imported models, written in the core's operators, as calls of qnn's.

ONNX rounds halves to even, qnn.quantize away from zero: numbers halfway between two steps may
become the other one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.build import value_of
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, call, constant, rewrite

from .dialect import RELAY
from .ops.qnn_affine import QUANTIZED, limits

__all__ = ["lift_quantized"]


def lift_quantized(mod: IRModule) -> IRModule:
    """A module of the core's operators with qnn.quantize and qnn.dequantize where they are meant.

    Scales and zero points are constants: one number, or one for each index of an axis.
    """
    made = {
        name: rewrite(f, _quantize_or_dequantize)
        for name, f in mod.functions.items()
        if isinstance(f, Function)
    }
    return mod.with_functions(made)


def _quantize_or_dequantize(n: Any) -> RelaxExpr | None:
    if not isinstance(n, Call) or not isinstance(n.type, TensorType):
        return None
    return {"multiply": _dequantize, "cast": _quantize}.get(n.callee, _no)(n)


def _no(n: Call) -> RelaxExpr | None:
    return None


def _is(x: Any, name: str) -> bool:
    return isinstance(x, Call) and x.callee == name


def _dequantize(n: Call) -> RelaxExpr | None:
    """(cast(x) - cast(zero)) * scale"""
    x, scale = n.args
    zero: RelaxExpr | None = None
    if _is(x, "subtract"):
        x, zero = x.args  # type: ignore[union-attr]
    if not _is(x, "cast"):
        return None
    q = x.args[0]  # type: ignore[union-attr]
    if not isinstance(q.type, TensorType) or q.type.dtype not in QUANTIZED:
        return None
    found = _parameters(scale, zero, n.type)
    if found is None or q.type.shape != n.type.shape or n.type.dtype != "float32":  # type: ignore[attr-defined]
        return None
    s, z, axis = found
    return call(RELAY.ops["qnn.dequantize"], q, s, z, axis=axis, name=n.name)


def _quantize(n: Call) -> RelaxExpr | None:
    """cast(clip(round(x / scale) + cast(zero)))"""
    dtype, clip = n.attrs["dtype"], n.args[0]
    if dtype not in QUANTIZED or not _is(clip, "clip"):
        return None
    low, high = limits(dtype)
    if (clip.attrs["min"], clip.attrs["max"]) != (low, high):  # type: ignore[union-attr]
        return None
    y, zero = clip.args[0], None  # type: ignore[union-attr]
    if _is(y, "add"):
        y, zero = y.args
    if not _is(y, "round") or y.attrs["mode"] != "even" or not _is(y.args[0], "divide"):
        return None
    x, scale = y.args[0].args
    found = _parameters(scale, zero, n.type)
    if found is None or x.type.shape != n.type.shape or x.type.dtype != "float32":  # type: ignore[attr-defined]
        return None
    s, z, axis = found
    return call(RELAY.ops["qnn.quantize"], x, s, z, axis=axis, out_dtype=dtype, name=n.name)


def _parameters(
    scale: RelaxExpr | None, zero: RelaxExpr | None, t: Any
) -> tuple[Constant, Constant, int] | None:
    """The scale, the zero point and the axis that they vary along; None: they are none."""
    if zero is not None:
        zero = zero.args[0] if _is(zero, "cast") else zero  # type: ignore[attr-defined]
        if not isinstance(zero, Constant) or not _whole(zero.data):
            return None
    if not isinstance(scale, Constant) or scale.type.dtype != "float32":
        return None
    if not bool(np.all(np.asarray(scale.data) > 0)):
        return None
    axes = {a for a in (_axis(v, t) for v in (scale, zero)) if a != "one"}
    if None in axes or len(axes) > 1:
        return None
    z = np.zeros((), "int32") if zero is None else np.asarray(zero.data).astype("int32")
    vectors = [constant(_vector(np.asarray(v))) for v in (scale.data, z)]
    axis: Any = next(iter(axes), -1)
    return vectors[0], vectors[1], axis


def _whole(v: np.ndarray[Any, Any]) -> bool:
    """Whether all elements are integers, of whatever type."""
    return v.dtype.kind in "iu" or bool(np.all(np.rint(v) == v))


def _vector(v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return v.reshape(()) if v.size == 1 else v.reshape(-1)


def _axis(v: Constant | None, t: Any) -> int | str | None:
    """The axis that a constant varies along; "one": it does not; None: it varies along several."""
    if v is None or v.data.size == 1:
        return "one"
    shape = v.data.shape
    at = len(t.shape) - len(shape)
    whole = at >= 0 and value_of(t.shape[at]) == shape[0] and shape[0] == v.data.size
    return at if whole else None
