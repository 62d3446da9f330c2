"""The core's operators on floats as operators on integers, for FakeQuantizationToInteger."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.tables import entering
from smelt.ir.types import TensorType
from smelt.relax.compose import affine, common, integer, quantize
from smelt.relax.compose.operands import const
from smelt.relax.compose.window import placed
from smelt.relax.folding import folded
from smelt.relax.graph_op import GraphOp, instance_of, kind_of
from smelt.relax.nodes import (
    Call,
    Constant,
    RelaxExpr,
    Tuple,
    call,
    constant,
    renewed_call,
    tensor_type_of,
)
from smelt.topi.registry import OpInstance

from .affine_types import NotInteger, Rule, TensorAffineType, Types, array, same_numbers, times
from .fold_constants import fold_expression
from .match import given

Result = Sequence[Any]
"""The expression of integers and what they stand for."""

RULES: dict[str, Rule] = {}
"""Operator of the core: what makes its calls integer ones."""

rule = entering(RULES)


def rule_of(n: Call) -> Rule | None:
    """The rule of an operator of the core; None: it has no integer form."""
    name = n.callee
    if name in RULES:
        return RULES[name]
    if source_axes(n) is not None:
        return moved
    function = len(n.args) == 1 and kind_of(n) == "elementwise" and isinstance(n.type, TensorType)
    return looked_up if function and dt.is_float(common.dtype_of(n)) else None


# ----------------------------------------------------------------------------- types of operands


def type_of(n: Call, types: Types, at: int = 0) -> TensorAffineType:
    """What an operand stands for."""
    found = types.get(n.args[at])
    if not isinstance(found, TensorAffineType):
        raise NotInteger(f"its operand {at} is not quantized")
    return found


def single(t: TensorAffineType, what: str = "its operand") -> TensorAffineType:
    """A type with one scale and one zero point."""
    if not t.one:
        raise NotInteger(f"{what} has a scale for each index of an axis; one is legal here")
    return t


def settled(n: Call, types: Types) -> TensorAffineType:
    """The type that the result will be quantized to."""
    found = types.get(n)
    if not isinstance(found, TensorAffineType):
        raise NotInteger("its result is not quantized right behind it, so its scale is not known")
    return single(found, "its result")


def rescaled(n: Call, types: Types) -> tuple[TensorAffineType, TensorAffineType]:
    """The operand's type, and the result's: the settled one, or else the operand's."""
    t = single(type_of(n, types))
    found = types.get(n)
    out = found if isinstance(found, TensorAffineType) and found.dtype == t.dtype else t
    return t, single(out, "its result")


def narrow(t: TensorAffineType) -> TensorAffineType:
    """A type of 8 bits."""
    if dt.bits(t.dtype) != 8:
        raise NotInteger(f"its operand is {t.dtype}; legal: int8, uint8")
    return t


def centred(x: RelaxExpr, t: TensorAffineType) -> RelaxExpr:
    """int32 without the zero point."""
    zero = array(t.zero_point)
    known = zero is not None and not np.any(zero)
    return integer.centred(x, const(0) if known else single(t).zero_point)


def sums_type(scale: RelaxExpr, axis: int = -1) -> TensorAffineType:
    """int32 with zero point 0."""
    return TensorAffineType(scale, const(0), "int32", axis)


def _constants(t: TensorAffineType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    scale, zero = array(t.scale), array(t.zero_point)
    if scale is None or zero is None:
        raise NotInteger("the scale and zero point of its operand are not constants")
    return scale, zero


# ---------------------------------------------------------------------------- moved, not changed


def source_axes(n: Call) -> tuple[int | None, ...] | None:
    """What OpInstance says by this name of an operator of the core's."""
    found = None if isinstance(n.op, GraphOp) else instance_of(n)
    return found.source_axes if isinstance(found, OpInstance) else None


def moved(n: Call, types: Types) -> Result:
    """The operator on integers; scales that vary along an axis move with it."""
    t, axes = type_of(n, types), source_axes(n)
    y = renewed_call(n, *n.args)
    if t.one or axes is None:
        return y, single(t)
    axis = axes[t.axis % len(axes)]
    return y, single(t) if axis is None else t.moved(axis)


@rule("max", "min", "max_pool", "adaptive_max_pool")
def chosen(n: Call, types: Types) -> Result:
    """The operator on integers; scales may vary along the channels of pools."""
    t = type_of(n, types)
    channels = "pool" in n.callee and t.axis % tensor_type_of(n.args[0]).rank < 2
    return renewed_call(n, *n.args), t if channels else single(t)


@rule("pad")
def pad(n: Call, types: Types) -> Result:
    """The border's value is quantized."""
    if n.attrs["mode"] != "constant":
        return moved(n, types)
    t = type_of(n, types)
    scale, zero = _constants(single(t))
    q = int(_nearest(float(n.attrs["value"]) / float(scale[0]))) + int(zero[0])
    if not _fits(np.asarray(q), t.dtype):
        raise NotInteger(f"{t.dtype} does not hold the value of its border, {q}")
    return renewed_call(n, n.args[0], value=q), t


def _fits(x: np.ndarray[Any, Any], dtype: str) -> bool:
    low, high = dt.limits(dtype)
    return bool(np.all((x >= low) & (x <= high)))


def _nearest(x: Any) -> Any:
    """Halves away from zero, as operators on quantized tensors round."""
    return np.trunc(x + np.copysign(0.5, x))


# -------------------------------------------------------------------------------- one operand


@rule("relu")
def relu(n: Call, types: Types) -> Result:
    """max(q, zero point)"""
    x, t = n.args[0], type_of(n, types)
    zero = array(t.zero_point)
    if zero is None or np.any(zero != zero[0]) or not _fits(zero, t.dtype):
        raise NotInteger(f"the zero point of its operand is not one constant of {t.dtype}")
    if not np.any(zero):
        return (call("relu", x) if dt.is_signed(t.dtype) else x), t
    return call("maximum", x, const(int(zero[0]), t.dtype)), t


@rule("clip")
def clip(n: Call, types: Types) -> Result:
    """Between the integers that stand for the ends."""
    (x,), t = given(n), type_of(n, types)
    scale, zero = _constants(t)
    low, high = dt.limits(t.dtype)
    wanted = [
        np.full(1, end) if n.attrs[a] is None
        else _nearest(float(n.attrs[a]) / scale.astype(np.float64)) + zero
        for a, end in (("min", low), ("max", high))
    ]  # fmt: skip
    if np.any(wanted[0] > high) or np.any(wanted[1] < low):
        raise NotInteger(f"no number of its operand, which is {t.dtype}, lies between its ends")
    ends = [np.clip(e, low, high) for e in wanted]
    if t.one:
        a, b = (int(e[0]) for e in ends)
        return call("clip", x, min=a, max=b), t
    rest = common.rank_of(x) - t.axis % common.rank_of(x) - 1
    first, last = (const(e.reshape(-1, *(1,) * rest), t.dtype) for e in ends)
    return call("minimum", call("maximum", x, first), last), t


def _result(n: Call, types: Types, t: TensorAffineType) -> TensorAffineType:
    """The settled type, in integers of the operand's kind: int8 and uint8 differ by 128."""
    out = settled(n, types)
    if out.dtype == t.dtype:
        return out
    zero = array(out.zero_point)
    if dt.bits(out.dtype) != 8 or zero is None:
        raise NotInteger(f"its result will be {out.dtype}, its operand is {t.dtype}")
    shift = 128 if t.dtype == "uint8" else -128
    return TensorAffineType(out.scale, const(int(zero[0]) + shift), t.dtype)


def looked_up(n: Call, types: Types) -> Result:
    """A function of one tensor, by a table with a scale before and one behind."""
    t = narrow(single(type_of(n, types)))
    out = _result(n, types, t)
    return types.words.function(n, n.args[0], *t.numbers, *out.numbers), out


RULES["softmax"] = looked_up


@rule("leaky_relu")
def leaky_relu(n: Call, types: Types) -> Result:
    """To the result's scale where that is settled, else to the operand's."""
    t, out = rescaled(n, types)
    return types.words.function(n, n.args[0], *t.numbers, *out.numbers), out


# ------------------------------------------------------------------------------------ averages


@rule("mean")
def mean(n: Call, types: Types) -> Result:
    """mean(x)  =  sum(q - zero point) * (scale / count): exact"""
    (x,), t = given(n), type_of(n, types)
    axes = common.axes_of(n.attrs["axes"], common.rank_of(x))
    count = math.prod([common.extents(x)[a] or 0 for a in axes])
    if not count or count << dt.bits(t.dtype) >= 1 << 31:
        raise NotInteger(f"int32 does not hold the sum of {count or 'unknown many'} {t.dtype}")
    scale = times(single(t).scale, const(np.float32(1.0 / count)))
    y = call("sum", centred(x, t), axes=tuple(sorted(axes)), keepdims=n.attrs["keepdims"])
    return y, sums_type(scale)


@rule("avg_pool")
def avg_pool(n: Call, types: Types) -> Result:
    """To the result's scale where that is settled, else to the operand's."""
    (x,), (t, out), a = given(n), rescaled(n, types), n.attrs
    y = affine.average(x, t.numbers, out.numbers, a["kernel"], placed(n, len(a["kernel"])),
                       a["count_include_pad"])  # fmt: skip
    return y, out


# ------------------------------------------------------------------------------------ products


def factors(n: Call, types: Types, axis: int | None) -> tuple[TensorAffineType, TensorAffineType]:
    """What both operands of a product stand for.

    axis  of the weight, along which its scales may vary; None: one scale is legal
    """
    x, w = type_of(n, types), type_of(n, types, 1)
    for t in (x, w):
        if dt.bits(t.dtype) > 16:
            raise NotInteger(f"an operand is {t.dtype}; legal: integers of 8 and 16 bits")
    along = w.axis % tensor_type_of(n.args[1]).rank
    if axis is not None and not w.one and along != axis:
        raise NotInteger(f"the scales of its weight vary along axis {along}; legal: {axis}, the "
                         "output channels")  # fmt: skip
    return single(x, "its data"), single(w, "its second operand") if axis is None else w


@rule("conv1d", "conv2d", "conv3d", "conv_transpose")
def conv(n: Call, types: Types) -> Result:
    """A convolution with int32 sums, whose scale is the product of both scales"""
    (x, w), groups, turned = given(n), n.attrs["groups"], n.callee == "conv_transpose"
    s, t = factors(n, types, int(turned))
    a, zeros = placed(n, common.rank_of(w) - 2), (s.zero_point, t.zero_point)
    if not turned:
        y = integer.conv_sums(x, w, *zeros, groups, a)
    elif t.one or groups == 1:
        more = {"output_padding": n.attrs["output_padding"], "groups": groups, **a}
        y = integer.conv_transpose_sums(x, w, *zeros, **more)
    else:
        raise NotInteger(f"the scales of its weight vary and groups={groups}; legal: 1")
    return y, sums_type(times(s.scale, t.scale), 1)


@rule("matmul")
def matmul(n: Call, types: Types) -> Result:
    """A product with int32 sums; scales may vary along the columns of a matrix on the right"""
    (a, b), turned = given(n), n.attrs["transpose_b"]
    if common.rank_of(b) < 2:
        raise NotInteger("its second operand is a vector; legal: matrices")
    s, t = factors(n, types, int(not turned) if common.rank_of(b) == 2 else None)
    y = types.words.matmul(a, b, s, t, n.attrs["transpose_a"], turned)
    return y, sums_type(times(s.scale, t.scale), common.rank_of(y) - 1)


# ---------------------------------------------------------------------------------- two operands


def in_steps(
    b: RelaxExpr, found: TensorAffineType | None, scale: RelaxExpr, axis: int, types: Types
) -> RelaxExpr:
    """A constant in int32 with zero point 0, in steps of a scale, which may vary along an axis.

    found  what integers stand for; None: they are floats
    """
    zero = const(0)
    if found is None:
        return folded(quantize.quantized(b, scale, None, axis, "int32", "away"))
    if same_numbers(found.scale, scale) and same_numbers(found.zero_point, zero):
        return folded(common.cast_to(b, "int32"))
    numbers = (*found.numbers, scale, zero)
    made = types.words.write("requantize", b, *numbers, axis=axis, out_dtype="int32")
    return fold_expression(made)  # type: ignore[no-any-return]


def _widest(x: RelaxExpr, n: Call) -> bool:
    """Whether an operand has the shape of the result."""
    return tensor_type_of(x).replace(dtype=common.dtype_of(n)) is n.type


def _biased(n: Call, types: Types) -> Result | None:
    """sums + a constant, in the scale of the sums; None: it is something else, or too coarse"""
    out = types.get(n)
    step = None if out is None else array(out.scale)
    for x, b in (n.args, n.args[::-1]) if n.callee == "add" else (n.args,):
        t: Any = types.get(x)
        found = types.get(b)
        scale = array(t.scale) if t is not None and t.dtype == "int32" else None
        if scale is None or not isinstance(b, Constant) or x is None or not _widest(x, n):
            continue
        if step is not None and np.max(scale) > np.min(step):
            continue
        rest = common.rank_of(x) - 1 - t.axis % max(common.rank_of(x), 1)
        if found is not None and not found.one:
            behind = common.rank_of(b) - 1 - found.axis % common.rank_of(b)
            if t.one or behind != rest:
                continue
        if not t.one:  # a number for each scale
            b = constant(b.data * np.ones((scale.size, *(1,) * rest), b.data.dtype))
        q = in_steps(b, found, t.scale, max(common.rank_of(b) - 1 - rest, 0), types)
        if np.all(np.abs(integer.known(q)) < 1 << 30):  # type: ignore[arg-type]
            return call(n.callee, x, q), t
    return None


def _operands(n: Call, types: Types, levels: int) -> list[tuple[RelaxExpr, TensorAffineType]]:
    """Both operands; a constant becomes int32, its largest number `levels`."""
    found: list[tuple[Any, TensorAffineType]] = []
    for a in given(n):
        t = types.get(a)
        if t is not None:
            found.append((a, t))
            continue
        if not isinstance(a, Constant):
            raise NotInteger("an operand is neither quantized nor a constant")
        data = np.asarray(a.data, np.float64)
        scale = np.float32((float(np.max(np.abs(data), initial=0.0)) or 1.0) / levels)
        numbers = const(_nearest(data / float(scale)), "int32")
        found.append((numbers, sums_type(const(scale))))
    return found


@rule("add", "subtract")
def add(n: Call, types: Types) -> Result:
    """Sums of one scale are exact; others are formed in the result's scale"""
    biased = _biased(n, types)
    if biased is not None:
        return biased
    (a, s), (b, t) = _operands(n, types, 1 << 20)
    if s.one and t.one and same_numbers(s.scale, t.scale):
        y: RelaxExpr = call(n.callee, centred(a, s), centred(b, t))
        return y, sums_type(s.scale)
    out = settled(n, types)
    direct = s.dtype == t.dtype == out.dtype
    x, z = (a, b) if direct else (common.cast_to(v, "int32") for v in (a, b))
    y = types.words.write(n.callee, x, z, *s.numbers, *t.numbers, *out.numbers, lhs_axis=s.axis,
                          rhs_axis=t.axis)  # fmt: skip
    return y, TensorAffineType(*out.numbers, out.dtype if direct else "int32")


@rule("multiply")
def multiply(n: Call, types: Types) -> Result:
    """A positive number goes into the scale; 8-bit numbers are multiplied in int32."""
    for x, c in (n.args, n.args[::-1]):
        t = types.get(x)
        factor = array(c) if types.get(c) is None else None
        if t is not None and factor is not None and len(factor) == 1 and factor[0] > 0:
            if x is None or not _widest(x, n):
                continue
            scale = times(t.scale, const(np.float32(factor[0])))
            return x, TensorAffineType(scale, t.zero_point, t.dtype, t.axis)
    (a, s), (b, t) = _operands(n, types, (1 << 15) - 1)
    single(s), single(t)
    out = types.get(n)
    if isinstance(out, TensorAffineType) and out.one and s.dtype == t.dtype == out.dtype:
        return types.words.write("mul", a, b, *s.numbers, *t.numbers, *out.numbers), out
    for x, u in zip(n.args, (s, t), strict=True):
        if types.get(x) is not None:
            narrow(u)
    return call("multiply", centred(a, s), centred(b, t)), sums_type(times(s.scale, t.scale))


@rule("divide")
def divide(n: Call, types: Types) -> Result:
    """The scale is divided by a positive number."""
    t, divisor = type_of(n, types), array(n.args[1])
    if types.get(n.args[1]) is not None or divisor is None or len(divisor) != 1:
        raise NotInteger("its divisor is no constant number")
    if n.args[0] is None or not (_widest(n.args[0], n) and divisor[0] > 0):
        raise NotInteger(f"its divisor is {divisor[0]}; legal: a positive number")
    scale = folded(call("divide", t.scale, const(np.float32(divisor[0]))))
    return n.args[0], TensorAffineType(scale, t.zero_point, t.dtype, t.axis)


def _requantized(
    xs: Iterable[Any], known: Iterable[TensorAffineType], out: TensorAffineType, dtype: str,
    types: Types,
) -> list[Any]:  # fmt: skip
    """Integers of several types as those of one."""
    write = partial(types.words.write, "requantize", out_dtype=dtype)
    pairs = zip(xs, known, strict=True)
    return [write(x, *t.numbers, *out.numbers, axis=t.axis) for x, t in pairs]


@rule("minimum", "maximum")
def extreme(n: Call, types: Types) -> Result:
    """The operator on integers of one scale; others get the result's scale first"""
    known: list[Any] = [types.get(a) for a in n.args]
    s: Any = next((t for t in known if t is not None), None)
    if s is not None and None in known:
        c = n.args[known.index(None)]
        if not isinstance(c, Constant):
            raise NotInteger("an operand is neither quantized nor a constant")
        q = folded(quantize.quantized(c, *single(s).numbers, -1, "int32", "away"))
        numbers = array(q)
        kept = s.dtype if numbers is not None and _fits(numbers, s.dtype) else "int32"
        q = folded(common.cast_to(q, kept))
        both = [q if a is c else common.cast_to(a, kept) for a in n.args if a is not None]
        return call(n.callee, *both), TensorAffineType(s.scale, s.zero_point, kept)
    if all(t.one and t.same(known[0]) for t in known):
        return call(n.callee, *n.args), s
    out = settled(n, types)
    wide = TensorAffineType(*out.numbers, "int32")
    return call(n.callee, *_requantized(n.args, known, out, "int32", types)), wide


@rule("concat")
def concat(n: Call, types: Types) -> Result:
    """Parts of one type behind each other; others get the result's type first."""
    parts = [types.get(a) for a in n.args]
    known = [t for t in parts if isinstance(t, TensorAffineType)]
    if len(known) < len(parts):
        raise NotInteger("not all of its operands are quantized")
    if all(t.one and t.same(known[0]) for t in known):
        return renewed_call(n, *n.args), known[0]
    out, axis = settled(n, types), n.attrs["axis"]
    if all(t.one and t.dtype == out.dtype for t in known):
        data: Any = Tuple(n.args)  # type: ignore[arg-type]
        scales, zeros = (Tuple(v) for v in zip(*[t.numbers for t in known], strict=True))
        return types.words.write("concatenate", data, scales, zeros, *out.numbers, axis=axis), out
    made = _requantized(n.args, known, out, out.dtype, types)
    return call("concat", *made, axis=axis), out
