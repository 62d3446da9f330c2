"""Operators on floats as operators on integers, for FakeQuantizationToInteger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.nodes import Call, Constant, RelaxExpr, Tuple, renewed_call
from smelt.relax.transform.match import dims, dtype_of, given, rank_of

from .. import ops as ops  # enters the operators that the rules are for
from ..dialect import const, find_builder, make
from .affine_types import (
    NotInteger,
    Rule,
    TensorAffineType,
    TupleAffineType,
    array,
    register_fake_quantization_to_integer,
    register_optional_fake_quantization_to_integer,
    same_numbers,
    times,
)
from .structure import FoldConstantExpr

Types = dict[Any, Any]
Result = Sequence[Any]
"""The expression of integers and what they stand for."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule for calls of these operators."""

    def enter(fn: Rule) -> Rule:
        for name in names:
            register_fake_quantization_to_integer(name, fn)
        return fn

    return enter


def qnn(name: str, *args: Any, **attrs: Any) -> Any:
    """A call of an operator of qnn."""
    build = find_builder(f"qnn.{name}")
    assert build is not None
    return build(*args, **attrs)


def folded(x: RelaxExpr) -> RelaxExpr:
    """An expression with its constant parts computed."""
    return FoldConstantExpr(x, None, fold_qnn=True)  # type: ignore[arg-type, no-any-return]


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


def narrow(t: TensorAffineType) -> TensorAffineType:
    """A type of 8 bits."""
    if dt.bits(t.dtype) != 8:
        raise NotInteger(f"its operand is {t.dtype}; legal: int8, uint8")
    return t


def integers(x: RelaxExpr, dtype: str = "int32") -> RelaxExpr:
    """Integers as another type that holds them."""
    return x if dtype_of(x) == dtype else make("cast", x, dtype=dtype)


def centred(x: RelaxExpr, t: TensorAffineType) -> RelaxExpr:
    """int32 without the zero point."""
    zero = array(t.zero_point)
    wide = integers(x)
    if zero is not None and not np.any(zero):
        return wide
    return make("subtract", wide, integers(single(t).zero_point))


def sums_type(scale: RelaxExpr, axis: int = -1) -> TensorAffineType:
    """int32 with zero point 0."""
    return TensorAffineType(scale, const(0), "int32", axis)


def _constants(t: TensorAffineType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    scale, zero = array(t.scale), array(t.zero_point)
    if scale is None or zero is None:
        raise NotInteger("the scale and zero point of its operand are not constants")
    return scale, zero


def one_number(t: TensorAffineType) -> tuple[float, int]:
    """The scale and the zero point where they are known."""
    scale, zero = _constants(single(t))
    return float(scale[0]), int(zero[0])


# ---------------------------------------------------------------------------- moved, not changed

SAME_AXIS = ("nn.max_pool2d", "nn.max_pool1d", "nn.max_pool3d", "copy")
"""Operators that keep the axis that scales vary along."""

MOVES = ("reshape", "squeeze", "expand_dims", "strided_slice", "nn.batch_flatten", "tile", "repeat",
         "nn.depth_to_space", "nn.space_to_depth", "broadcast_to", "reverse", "max", "min",
         "nn.global_max_pool2d", "nn.adaptive_max_pool2d")  # fmt: skip


@rule(*SAME_AXIS)
def same_axis(n: Call, types: Types) -> Result:
    """The operator on integers; scales may vary along an axis."""
    return renewed_call(n, *n.args), type_of(n, types)


@rule(*MOVES)
def moved(n: Call, types: Types) -> Result:
    """The operator on integers of one scale."""
    return renewed_call(n, *n.args), single(type_of(n, types))


@rule("transpose")
def transpose(n: Call, types: Types) -> Result:
    """The axis of the scales moves too."""
    t, y = type_of(n, types), renewed_call(n, *n.args)
    if t.one:
        return y, t
    rank = rank_of(y)
    axes = n.attrs["axes"] or tuple(reversed(range(rank)))
    axis = [a % rank for a in axes].index(t.axis % rank)
    return y, TensorAffineType(t.scale, t.zero_point, t.dtype, axis)


@rule("layout_transform")
def layout_transform(n: Call, types: Types) -> Result:
    """The axis of the scales moves too, where no dimension is split"""
    t, y = type_of(n, types), renewed_call(n, *n.args)
    if t.one:
        return y, t
    have, want = n.attrs["src_layout"], n.attrs["dst_layout"]
    if sorted(have) != sorted(want):
        raise NotInteger(f"{have} to {want} splits dimensions, and scales vary along an axis")
    axis = want.index(have[t.axis % len(have)])
    return y, TensorAffineType(t.scale, t.zero_point, t.dtype, axis)


@rule("split")
def split(n: Call, types: Types) -> Result:
    """All parts have the type of the whole."""
    t, y = single(type_of(n, types)), renewed_call(n, *n.args)
    return y, TupleAffineType([t] * len(y.type.items))  # type: ignore[attr-defined]


@rule("image.resize2d", "nn.upsampling")
def resize2d(n: Call, types: Types) -> Result:
    """The nearest pixel alone."""
    if n.attrs["method"] != "nearest_neighbor":
        raise NotInteger(f"method={n.attrs['method']!r} mixes pixels; legal: 'nearest_neighbor'")
    return moved(n, types)


@rule("nn.pad")
def pad(n: Call, types: Types) -> Result:
    """The border's value is quantized."""
    t = type_of(n, types)
    if n.attrs["pad_mode"] != "constant":
        return moved(n, types)
    value = n.args[1] if len(n.args) > 1 else const(0.0)
    if not isinstance(value, Constant) or types.get(value) is not None:
        raise NotInteger("the value of its border is not a constant")
    scale, zero = one_number(t)
    q = int(_nearest(float(value.data.reshape(-1)[0]) / scale)) + zero
    if not _fits(np.asarray(q), t.dtype):
        raise NotInteger(f"{t.dtype} does not hold the value of its border, {q}")
    return renewed_call(n, n.args[0], const(q, t.dtype)), t


def _fits(x: np.ndarray[Any, Any], dtype: str) -> bool:
    low, high = dt.limits(dtype)
    return bool(np.all((x >= low) & (x <= high)))


def _nearest(x: Any) -> Any:
    """Halves away from zero, as qnn.quantize rounds."""
    return np.trunc(x + np.copysign(0.5, x))


# -------------------------------------------------------------------------------- one operand


@rule("nn.relu")
def relu(n: Call, types: Types) -> Result:
    """max(q, zero point)"""
    x, t = n.args[0], type_of(n, types)
    zero = array(t.zero_point)
    if zero is None or np.any(zero != zero[0]) or not _fits(zero, t.dtype):
        raise NotInteger(f"the zero point of its operand is not one constant of {t.dtype}")
    if not np.any(zero):
        return (make("nn.relu", x) if dt.is_signed(t.dtype) else x), t
    return make("maximum", x, const(int(zero[0]), t.dtype)), t


@rule("clip")
def clip(n: Call, types: Types) -> Result:
    """Between the integers that stand for the ends."""
    x, t = n.args[0], type_of(n, types)
    scale, zero = _constants(t)
    wanted = [
        _nearest(float(n.attrs[a]) / scale.astype(np.float64)) + zero for a in ("a_min", "a_max")
    ]
    low, high = dt.limits(t.dtype)
    if np.any(wanted[0] > high) or np.any(wanted[1] < low):
        raise NotInteger(f"no number of its operand, which is {t.dtype}, lies between its ends")
    ends = [np.clip(e, low, high) for e in wanted]
    if t.one:
        a, b = (int(e[0]) for e in ends)
        return make("clip", x, a_min=a, a_max=b), t
    rest = rank_of(x) - t.axis % rank_of(x) - 1
    first, last = (const(e.reshape(-1, *(1,) * rest), t.dtype) for e in ends)
    return make("minimum", make("maximum", x, first), last), t


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


def function(name: str, n: Call, types: Types, **attrs: Any) -> Result:
    """An operator of qnn on one tensor with a scale before and one behind."""
    t = narrow(single(type_of(n, types)))
    out = _result(n, types, t)
    return qnn(name, n.args[0], *t.numbers, *out.numbers, **attrs), out


@rule("tanh", "exp", "sqrt", "rsqrt", "erf", "sigmoid", "log", "abs")
def looked_up(n: Call, types: Types) -> Result:
    """The function of qnn that has the operator's name."""
    return function(n.callee, n, types)


def softmax(n: Call, types: Types) -> Result:
    """qnn.softmax"""
    return function("softmax", n, types, axis=n.attrs["axis"])


register_optional_fake_quantization_to_integer("nn.softmax", softmax)


def _rescaled(n: Call, types: Types) -> tuple[TensorAffineType, TensorAffineType]:
    """The operand's type, and the result's: the settled one, or else the operand's."""
    t = single(type_of(n, types))
    found = types.get(n)
    out = found if isinstance(found, TensorAffineType) and found.dtype == t.dtype else t
    return t, single(out, "its result")


@rule("nn.leaky_relu")
def leaky_relu(n: Call, types: Types) -> Result:
    """qnn.leaky_relu, to the result's scale where that is settled, else to the operand's."""
    t, out = _rescaled(n, types)
    return qnn("leaky_relu", n.args[0], n.attrs["alpha"], *t.numbers, *out.numbers), out


# ------------------------------------------------------------------------------------ averages


def _mean(n: Call, t: TensorAffineType, axes: tuple[int, ...], keepdims: bool) -> Result:
    """A sum whose scale is divided by the count: exact."""
    x = n.args[0]
    counts = [dims(x)[a] for a in axes]
    count = math.prod([c or 0 for c in counts])
    if not count or count << dt.bits(t.dtype) >= 1 << 31:
        raise NotInteger(f"int32 does not hold the sum of {count or 'unknown many'} {t.dtype}")
    scale = times(single(t).scale, const(np.float32(1.0 / count)))
    y = make("sum", centred(x, t), axis=axes, keepdims=keepdims)  # type: ignore[arg-type]
    return y, sums_type(scale)


@rule("mean")
def mean(n: Call, types: Types) -> Result:
    """mean(x)  =  sum(q - zero point) * (scale / count)"""
    rank = rank_of(n.args[0])
    given = n.attrs["axis"]
    axes = range(rank) if given is None else given if isinstance(given, tuple | list) else (given,)
    chosen = {a % rank for a in axes}
    if n.attrs["exclude"]:
        chosen = set(range(rank)) - chosen if given is not None else set(range(rank))
    return _mean(n, type_of(n, types), tuple(sorted(chosen)), n.attrs["keepdims"])


@rule("nn.global_avg_pool2d")
def global_avg_pool2d(n: Call, types: Types) -> Result:
    """A mean over the image."""
    layout = _plain_layout(n.attrs["layout"])
    if n.attrs["out_layout"] not in ("", layout):
        raise NotInteger(f"out_layout={n.attrs['out_layout']!r} differs from layout={layout!r}")
    return _mean(n, type_of(n, types), (layout.index("H"), layout.index("W")), True)


@rule("nn.avg_pool2d")
def avg_pool2d(n: Call, types: Types) -> Result:
    """qnn.avg_pool2d, to the result's scale where that is settled, else to the operand's."""
    t, out = _rescaled(n, types)
    return qnn("avg_pool2d", n.args[0], *t.numbers, *out.numbers, **n.attrs), out


# ------------------------------------------------------------------------------------ products


def _plain_layout(layout: str) -> str:
    if sorted(layout) != ["C", "H", "N", "W"]:
        raise NotInteger(f"the layout {layout!r}; legal: the letters of NCHW")
    return layout


def _weight_axis(t: TensorAffineType, axis: int, rank: int) -> None:
    if not t.one and t.axis % rank != axis:
        raise NotInteger(
            f"the scales of its weight vary along axis {t.axis % rank}; legal: {axis}, the output "
            "channels"
        )


def _factors(n: Call, types: Types) -> tuple[TensorAffineType, TensorAffineType]:
    x, w = type_of(n, types), type_of(n, types, 1)
    for t in (x, w):
        if dt.bits(t.dtype) > 16:
            raise NotInteger(f"an operand is {t.dtype}; legal: integers of 8 and 16 bits")
    return single(x, "its data"), w


def _product(
    name: str, s: TensorAffineType, t: TensorAffineType, *operands: RelaxExpr | None, **attrs: Any
) -> tuple[Any, RelaxExpr]:
    """A product of qnn with int32 sums, and their scale, the product of both scales."""
    y = qnn(name, *operands, s.zero_point, t.zero_point, s.scale, t.scale, **attrs)
    return y, times(s.scale, t.scale)


@rule("nn.conv2d", "nn.conv2d_transpose")
def conv(n: Call, types: Types) -> Result:
    """A convolution with int32 sums, whose scale is the product of both scales"""
    x, w = _factors(n, types)
    attrs = {k: v for k, v in n.attrs.items() if k != "out_dtype"}
    _weight_axis(w, attrs["kernel_layout"].index("O"), 4)
    layout = _plain_layout(attrs["out_layout"] or attrs["data_layout"])
    y, scale = _product(n.callee.removeprefix("nn."), x, w, *n.args, **attrs)
    return y, sums_type(scale, layout.index("C"))


@rule("nn.dense")
def dense(n: Call, types: Types) -> Result:
    """qnn.dense"""
    x, w = _factors(n, types)
    _weight_axis(w, 0, 2)
    y, scale = _product("dense", x, w, *n.args, units=n.attrs["units"])
    return y, sums_type(scale, rank_of(y) - 1)


@rule("nn.matmul")
def matmul(n: Call, types: Types) -> Result:
    """qnn.dense with a matrix on the right, else qnn.batch_matmul"""
    if rank_of(n.args[1]) != 2:
        return batch_matmul(n, types)
    if n.attrs["transpose_a"]:
        raise NotInteger("its data is transposed; transpose_a=False is legal")
    x, w = _factors(n, types)
    data, weight = given(n)
    _weight_axis(w, 0 if n.attrs["transpose_b"] else 1, 2)
    if not n.attrs["transpose_b"]:
        weight = folded(make("transpose", weight, axes=(1, 0)))
    y, scale = _product("dense", x, w, data, weight, units=n.attrs["units"])
    return y, sums_type(scale, rank_of(y) - 1)


@rule("nn.batch_matmul")
def batch_matmul(n: Call, types: Types) -> Result:
    """qnn.batch_matmul"""
    x, w = _factors(n, types)
    single(w, "its second operand")
    turned = {k: n.attrs[k] for k in ("transpose_a", "transpose_b")}
    y, scale = _product("batch_matmul", x, w, *n.args, **turned)
    return y, sums_type(scale)


@rule("nn.bias_add")
def bias_add(n: Call, types: Types) -> Result:
    """The bias in the scale of the sums."""
    x, b = given(n)
    t, axis = type_of(n, types), n.attrs["axis"] % rank_of(x)
    if not t.one and t.axis % rank_of(x) != axis:
        raise NotInteger(f"the scales of its data vary along axis {t.axis}, the bias along {axis}")
    zero = const(0)
    b_type = types.get(b)
    if b_type is None:
        b = folded(qnn("quantize", b, t.scale, zero, axis=0, out_dtype="int32"))
    elif not (same_numbers(b_type.scale, t.scale) and same_numbers(b_type.zero_point, zero)):
        b = folded(qnn("requantize", b, *b_type.numbers, t.scale, zero, axis=0, out_dtype="int32"))
    y = make("nn.bias_add", integers(x), folded(integers(b)), axis=n.attrs["axis"])
    return y, TensorAffineType(t.scale, t.zero_point, "int32", t.axis)


# ---------------------------------------------------------------------------------- two operands


def _quantized_constant(x: RelaxExpr, levels: int) -> tuple[RelaxExpr, TensorAffineType]:
    """A constant in int32, its largest number as `levels`."""
    if not isinstance(x, Constant):
        raise NotInteger("an operand is neither quantized nor a constant")
    data = np.asarray(x.data, np.float64)
    top = float(np.max(np.abs(data), initial=0.0)) or 1.0
    scale = np.float32(top / levels)
    return const(_nearest(data / float(scale)), "int32"), sums_type(const(scale))


def _operands(n: Call, types: Types, levels: int) -> list[tuple[RelaxExpr, TensorAffineType]]:
    found = []
    for a in given(n):
        t = types.get(a)
        found.append((a, t) if t is not None else _quantized_constant(a, levels))
    return found


@rule("add", "subtract")
def add(n: Call, types: Types) -> Result:
    """Sums of one scale are exact; others are formed in the result's scale"""
    (a, s), (b, t) = _operands(n, types, 1 << 20)
    if s.one and t.one and same_numbers(s.scale, t.scale):
        y = make(n.callee, centred(a, s), centred(b, t))
        return y, sums_type(s.scale)
    out = settled(n, types)
    direct = s.dtype == t.dtype == out.dtype
    x, z = (a, b) if direct else (integers(a), integers(b))
    y = qnn(n.callee, x, z, *s.numbers, *t.numbers, *out.numbers, lhs_axis=s.axis, rhs_axis=t.axis)
    kept = out.dtype if direct else "int32"
    return y, TensorAffineType(out.scale, out.zero_point, kept)


@rule("multiply")
def multiply(n: Call, types: Types) -> Result:
    """A positive number goes into the scale; 8-bit numbers are multiplied in int32."""
    for x, c in (n.args, n.args[::-1]):
        t = types.get(x)
        factor = array(c) if types.get(c) is None else None
        if t is not None and factor is not None and len(factor) == 1 and factor[0] > 0:
            if len(dims(c)) > rank_of(x):
                continue
            scale = times(t.scale, const(np.float32(factor[0])))
            return x, TensorAffineType(scale, t.zero_point, t.dtype, t.axis)
    (a, s), (b, t) = _operands(n, types, (1 << 15) - 1)
    single(s), single(t)
    out = types.get(n)
    if isinstance(out, TensorAffineType) and out.one and s.dtype == t.dtype == out.dtype:
        return qnn("mul", a, b, *s.numbers, *t.numbers, *out.numbers), out
    for x, u in ((n.args[0], s), (n.args[1], t)):
        if types.get(x) is not None:
            narrow(u)
    return make("multiply", centred(a, s), centred(b, t)), sums_type(times(s.scale, t.scale))


def _requantized(
    xs: Iterable[Any], types: Iterable[TensorAffineType], out: TensorAffineType, dtype: str
) -> list[Any]:
    """Integers of several types as those of one."""
    return [
        qnn("requantize", x, *t.numbers, *out.numbers, axis=t.axis, out_dtype=dtype)
        for x, t in zip(xs, types, strict=True)
    ]


@rule("minimum", "maximum")
def extreme(n: Call, types: Types) -> Result:
    """The operator on integers of one scale; others get the result's scale first"""
    known: list[Any] = [types.get(a) for a in n.args]
    s: Any = next((t for t in known if t is not None), None)
    if s is not None and None in known:
        c = n.args[known.index(None)]
        if not isinstance(c, Constant):
            raise NotInteger("an operand is neither quantized nor a constant")
        q = folded(qnn("quantize", c, *single(s).numbers, out_dtype="int32"))
        numbers = array(q)
        kept = s.dtype if numbers is not None and _fits(numbers, s.dtype) else "int32"
        both = [q if t is None else a for a, t in zip(n.args, known, strict=True)]
        made = make(n.callee, *[folded(integers(v, kept)) for v in both if v is not None])
        return made, TensorAffineType(s.scale, s.zero_point, kept)
    if all(t.one and t.same(known[0]) for t in known):
        return make(n.callee, *n.args), s
    out = settled(n, types)
    wide = TensorAffineType(out.scale, out.zero_point, "int32")
    return make(n.callee, *_requantized(n.args, known, out, "int32")), wide


@rule("concatenate")
def concatenate(n: Call, types: Types) -> Result:
    """Parts of one type behind each other; others get the result's type first."""
    data, found = n.args[0], types.get(n.args[0])
    if not isinstance(found, TupleAffineType) or not isinstance(data, Tuple):
        raise NotInteger("not all of its operands are quantized")
    parts, axis = found.types, n.attrs["axis"]
    if all(t.one and t.same(parts[0]) for t in parts):
        return renewed_call(n, data), parts[0]
    out = settled(n, types)
    if all(t.one and t.dtype == out.dtype for t in parts):
        scales, zeros = (Tuple(v) for v in zip(*[t.numbers for t in parts], strict=True))
        return qnn("concatenate", data, scales, zeros, *out.numbers, axis=axis), out
    made = _requantized(data.items, parts, out, out.dtype)
    return make("concatenate", Tuple(tuple(made)), axis=axis), out
