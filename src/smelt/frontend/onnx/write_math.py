"""Writers of operators that compute element by element, of reductions and of products."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.relax.compose.common import cast_to, scalar
from smelt.relax.folding import folded
from smelt.relax.nodes import Call, RelaxExpr, call, constant
from smelt.topi.registry import get_op

from .ops_math import FOLDED, REDUCTIONS
from .registry import ROWS, Same
from .write_graph import (
    SAME,
    Form,
    Results,
    Writer,
    dtype_of,
    element_number,
    known,
    otherwise,
    shape_of,
    written,
)

# ------------------------------------------------------- operators that are the same on both sides


def _of_row(r: Same, w: Writer, operands: Any, attrs: Mapping[str, Any]) -> Results:
    """The operator of ONNX of a row, where its attributes can say what the call's do."""
    schema = w.schema(r.name)
    rest, given = dict(attrs), {}
    for name, default in r.attributes.items():
        value, legal = rest.pop(r.names.get(name, name)), r.legal.get(name)
        if isinstance(legal, Mapping):
            value = next((k for k, v in legal.items() if v == value), None)
        if value is None or (legal is not None and value not in legal):
            raise Unsupported(f"{r.name} has no {name} that says {dict(attrs)}")
        if name in schema.attributes:
            given[name] = type(default)(value)
        elif value != default:
            raise Unsupported(f"{r.name} of operator set {w.opset} has no attribute {name!r}")
    own = get_op(r.core).attributes
    for name, value in rest.items():
        if value != own[name].default:
            raise Unsupported(f"{r.name} has no attribute that says {name}={value!r}")
    return w.emit(r.name, *_indexed(w, r.name, operands), **given)


_INDEXED = {"GatherElements": ("int32", "int64"), "ScatterElements": ("int32", "int64"),
            "GatherND": ("int64",), "ScatterND": ("int64",),
            "ReverseSequence": ("int64",)}  # fmt: skip
"""Operators whose second operand has to be of one of a few types; the last one holds them all."""


def _indexed(w: Writer, name: str, operands: Any) -> list[Any]:
    given = list(operands)
    legal = _INDEXED.get(name)
    if legal and dtype_of(given[1]) not in legal:
        given[1] = w.as_type(given[1], legal[-1])
    return given


def _form(rows_of_one: list[Same]) -> Form:
    """The newest of some operators that mean the same."""

    def form(w: Writer, *operands: Any, **attrs: Any) -> Results:
        legal = [r for r in rows_of_one if r.since <= w.opset]
        if not legal:
            raise Unsupported(f"{rows_of_one[0].name} comes with operator set "
                              f"{rows_of_one[0].since}")  # fmt: skip
        return _of_row(legal[-1], w, operands, attrs)

    return form


def _enter() -> None:
    found: dict[str, list[Same]] = {}
    for r in sorted(ROWS, key=lambda r: r.since):
        if not r.domain:
            found.setdefault(r.core, []).append(r)
    for core, same in found.items():
        SAME[core] = _form(same)


_enter()


def _plain(name: str) -> Form:
    def form(w: Writer, *operands: Any, **attrs: Any) -> Results:
        return w.emit(name, *operands)

    return form


for _name, _core in FOLDED.items():
    if _core != "add":
        written(_core)(_plain(_name))
written("power")(_plain("Pow"))


@written("fmod")
def fmod(w: Writer, a: RelaxExpr, b: RelaxExpr) -> Results:
    """The sign is the dividend's."""
    return w.emit("Mod", a, b, fmod=1)


@written("mod")
def mod(w: Writer, a: RelaxExpr, b: RelaxExpr) -> Results:
    """The sign is the divisor's; ONNX has it for integers."""
    if dt.is_int(dtype_of(a)):
        return w.emit("Mod", a, b, fmod=0)
    rest = call("fmod", a, b)
    zero = scalar(0, dtype_of(a))
    wrong = call("logical_xor", call("less", rest, zero), call("less", b, zero))
    moved = call("logical_and", call("not_equal", rest, zero), wrong)
    return call("where", moved, call("add", rest, b), rest)


@written("cast")
def cast(w: Writer, x: RelaxExpr, *, dtype: str) -> Results:
    """Another element type; what is beyond a float8 is what the type says."""
    w.check_type("Cast", w.schema("Cast").outputs[0], dtype)
    narrow = dtype.startswith("float8")
    return w.emit("Cast", x, to=element_number(dtype), saturate=0 if narrow else None)


@written("reinterpret")
def reinterpret(w: Writer, x: RelaxExpr, *, dtype: str) -> Results:
    """The same bits; of integers that is what a cast keeps."""
    if dt.is_int(dtype) and dt.is_int(dtype_of(x)):
        return call("cast", x, dtype=dtype)
    return w.emit("BitCast", x, to=element_number(dtype))


@written("clip")
def clip(w: Writer, x: RelaxExpr, *, min: float | None, max: float | None) -> Results:
    """Bounds are numbers of the operand's type."""
    own = dtype_of(x)
    if dt.is_int(own):
        low, high = dt.limits(own)
        min = None if min is None or min <= low else math.ceil(min)
        max = None if max is None or max >= high else math.floor(max)
    bounds = [None if v is None else w.number(v, x) for v in (min, max)]
    return w.emit("Clip", x, *bounds)


def _shift(left: bool) -> Form:
    """ONNX shifts numbers without a sign only."""

    def form(w: Writer, a: RelaxExpr, b: RelaxExpr) -> Results:
        own = dtype_of(a)
        if own.startswith("u"):
            return w.emit("BitShift", a, b, direction="LEFT" if left else "RIGHT")
        last = dt.bits(own) - 1
        inside = call("equal", call("clip", b, min=0, max=last), b)
        count = call("where", inside, b, scalar(last, dtype_of(b)))
        powers = constant(np.left_shift(np.int64(1), np.arange(last + 1)))
        factor, wide = call("gather", powers, count, axis=0), cast_to(a, "int64")
        if left:
            made = cast_to(call("multiply", wide, factor), own)
            return call("where", inside, made, scalar(0, own))
        made = call("floor_divide", wide, factor)
        if last == 63:  # 2 ** 63 is no int64: the sign alone remains
            sign = call("floor_divide", wide, scalar(2**63 - 1, "int64"))
            made = call(
                "where",
                call("less", count, scalar(63, dtype_of(b))),
                made,
                call("maximum", sign, scalar(-1, "int64")),
            )
        return cast_to(made, own)

    return form


written("left_shift")(_shift(True))
written("right_shift")(_shift(False))


def _half_up(x: RelaxExpr) -> RelaxExpr:
    """The nearest whole number, the larger one of two; x + 1/2 might be rounded itself."""
    whole = call("floor", x)
    above = call("greater_equal", call("subtract", x, whole), scalar(0.5, dtype_of(x)))
    return call("add", whole, call("cast", above, dtype=dtype_of(x)))


@otherwise("round")
def round_(w: Writer, x: RelaxExpr, *, mode: str) -> Results:
    """Halves to the larger number, or away from zero."""
    if mode == "up":
        return _half_up(x)
    return call("sign", x) * _half_up(call("abs", x)) if mode == "away" else None


@otherwise("gelu")
def gelu(w: Writer, x: RelaxExpr, *, approximate: str) -> Results:
    """Half of x (1 + erf(x / sqrt 2)), or the curve near it."""
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (call("tanh", inner) + 1.0)
    return x * 0.5 * (call("erf", x * math.sqrt(0.5)) + 1.0)


def _floor_divided(a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    if dt.is_float(dtype_of(a)):
        return call("floor", call("divide", a, b))
    return call("divide", call("subtract", a, call("mod", a, b)), b)


def _of_bits(core: str, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr | None:
    return call(core, a, b) if dtype_of(a) == "bool" else None


def _widened(core: str, x: RelaxExpr, **attrs: Any) -> RelaxExpr | None:
    """Small numbers as larger ones."""
    kind = "float32" if dt.is_float(dtype_of(x)) else "int32"
    if dt.width(dtype_of(x)) >= dt.width(kind):
        return None
    return call("cast", call(core, call("cast", x, dtype=kind), **attrs), dtype=dtype_of(x))


def _leading_zeros(x: RelaxExpr) -> RelaxExpr:
    """The bits of a type that are above a number's; float64 tells those of 32 bits."""
    bits, kind = dt.bits(dtype_of(x)), dtype_of(x)
    if bits > 32:
        raise Unsupported(f"ONNX counts no leading zeros of {kind}; legal: up to 32 bits")
    wide = call("log2", call("cast", x, dtype="float64") + 0.5)
    zeros = call("subtract", scalar(bits - 1, kind), call("cast", call("floor", wide), dtype=kind))
    below = call("where", call("equal", x, scalar(0, kind)), scalar(bits, kind), scalar(0, kind))
    return call("where", call("greater", x, scalar(0, kind)), zeros, below)


_COMPOSED: dict[str, Any] = {
    "identity": lambda x: x,
    "silu": lambda x: x * call("sigmoid", x),
    "square": lambda x: x * x,
    "rsqrt": lambda x: call("reciprocal", call("sqrt", x)),
    "log2": lambda x: call("log", x) * (1 / math.log(2)),
    "log10": lambda x: call("log", x) * (1 / math.log(10)),
    "exp2": lambda x: call("power", scalar(2, dtype_of(x)), x),
    "trunc": lambda x: call("sign", x) * call("floor", call("abs", x)),
    "isfinite": lambda x: call("logical_not", call("logical_or", call("isnan", x),
                                                   call("isinf", x))),
    "not_equal": lambda a, b: call("logical_not", call("equal", a, b)),
    "floor_divide": _floor_divided,
    "fast_exp": lambda x: call("exp", x),
    "fast_tanh": lambda x: call("tanh", x),
    "fast_erf": lambda x: call("erf", x),
    "hard_swish": lambda x: x * call("hard_sigmoid", x, alpha=1 / 6, beta=0.5),
    "mish": lambda x: x * call("tanh", call("softplus", x)),
    "celu": lambda x, alpha: call("relu", x) + call("minimum", scalar(0, dtype_of(x)), (
        call("exp", x * (1 / alpha)) - 1.0) * alpha),
    "bitwise_and": lambda a, b: _of_bits("logical_and", a, b),
    "bitwise_or": lambda a, b: _of_bits("logical_or", a, b),
    "cumsum": lambda x, **attrs: _widened("cumsum", x, **attrs),
    "cumprod": lambda x, **attrs: _widened("cumprod", x, **attrs),
    "clz": _leading_zeros,
    "bitwise_not": lambda x: call("bitwise_xor", x, scalar(-1, dtype_of(x))),
}  # fmt: skip
"""Operators made of others, asked behind ONNX's own."""


def _composed(made: Any) -> Form:
    return lambda w, *operands, **attrs: made(*operands, **attrs)


for _core, _made in _COMPOSED.items():
    otherwise(_core)(_composed(_made))


# ----------------------------------------------------------------------------------- reductions


def _reduction(name: str, core: str) -> Form:
    def form(w: Writer, x: RelaxExpr, *, axes: Any, keepdims: bool) -> Results:
        rank = len(shape_of(x))
        if axes is not None and not axes and rank:  # ONNX means all by that
            longer = call("expand_dims", x, axes=(rank,))
            return call(core, longer, axes=(rank,), keepdims=False)
        places = None if axes is None or len(axes) == rank else np.array(axes, np.int64)
        return w.emit(name, x, places, keepdims=int(keepdims))

    return form


for _name, _core in REDUCTIONS.items():
    otherwise(_core)(_reduction(_name, _core))


@written("mean")
def mean(w: Writer, x: RelaxExpr, *, axes: Any, keepdims: bool) -> Results:
    """Over all pixels of an image it has a name of its own."""
    rank = len(shape_of(x))
    image = axes == tuple(range(2, rank)) and rank > 3 and keepdims
    return w.emit("GlobalAveragePool", x) if image and dt.is_float(dtype_of(x)) else None


def _logical(core: str) -> Form:
    def form(w: Writer, x: RelaxExpr, **attrs: Any) -> Results:
        number = cast_to(cast_to(x, "bool"), "int32")
        return call("cast", call(core, number, **attrs), dtype="bool")

    return form


written("any")(_logical("max"))
written("all")(_logical("min"))


def _cumulative(name: str) -> Form:
    def form(w: Writer, x: RelaxExpr, *, axis: int, exclusive: bool, reverse: bool) -> Results:
        flags = {"exclusive": int(exclusive), "reverse": int(reverse)}
        return w.emit(name, x, np.array(axis, np.int64), **flags)

    return form


written("cumsum")(_cumulative("CumSum"))
written("cumprod")(_cumulative("CumProd"))


# ------------------------------------------------------------------------------------- products


def _turned(w: Writer, x: RelaxExpr, turn: bool) -> Any:
    rank = len(shape_of(x))
    if not turn or rank < 2:
        return x
    return call("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2))


@written("matmul")
def matmul(
    w: Writer, a: RelaxExpr, b: RelaxExpr, *, transpose_a: bool, transpose_b: bool, out_dtype: str,
    bias: RelaxExpr | None = None,
) -> Results:  # fmt: skip
    """MatMul, or Gemm where operands are transposed; MatMulInteger of bytes."""
    own = dtype_of(a)
    narrow = all(dtype_of(x) in ("int8", "uint8") for x in (a, b))
    if out_dtype == "int32" and narrow:
        return w.emit("MatMulInteger", _turned(w, a, transpose_a), _turned(w, b, transpose_b))
    if out_dtype and (out_dtype != own or dtype_of(b) != own):
        a, b, own = cast_to(a, out_dtype), cast_to(b, out_dtype), out_dtype
    flat = len(shape_of(a)) == len(shape_of(b)) == 2
    if flat and dt.is_float(own) and (transpose_a or transpose_b or bias is not None):
        return w.emit("Gemm", a, b, bias, transA=int(transpose_a) or None,
                      transB=int(transpose_b) or None)  # fmt: skip
    return w.emit("MatMul", _turned(w, a, transpose_a), _turned(w, b, transpose_b))


@written("add")
def gemm(w: Writer, a: RelaxExpr, b: RelaxExpr) -> Results:
    """A product of transposed matrices and what is added to it."""
    for x, bias in ((a, b), (b, a)):
        if not is_call(x, "matmul") or not w.used_once(x):
            continue
        turned = x.attrs["transpose_a"] or x.attrs["transpose_b"]
        shape, own = shape_of(x), shape_of(bias)
        fits = len(own) <= 2 and all(e in (1, f) for e, f in zip(own[::-1], shape[::-1],
                                                                 strict=False))  # fmt: skip
        plain = len(shape) == 2 and not x.attrs["out_dtype"] and dt.is_float(dtype_of(x))
        if turned and fits and plain:
            return w.emit_as(x, matmul, *x.args, **x.attrs, bias=bias)
    return None


def is_call(x: RelaxExpr | None, *ops: str) -> TypeGuard[Call]:
    """Whether a value is a call of one of some operators."""
    return isinstance(x, Call) and x.callee in ops


def operand_of(x: RelaxExpr) -> RelaxExpr:
    """The first operand of a call."""
    assert isinstance(x, Call)
    assert x.args[0] is not None
    return x.args[0]


@written("attention")
def attention(
    w: Writer, q: RelaxExpr, k: RelaxExpr, v: RelaxExpr, mask: RelaxExpr | None = None, *,
    scale: float,
) -> Results:  # fmt: skip
    """softmax(q k^T scale + mask) v, step by step."""
    scores: RelaxExpr = call("matmul", q, k, transpose_b=True) * scale
    if mask is not None and dtype_of(mask) == "bool":
        scores = call("where", mask, scores, scalar(-math.inf, dtype_of(scores)))
    elif mask is not None:
        scores = call("add", scores, cast_to(mask, dtype_of(scores)))
    return call("matmul", call("softmax", scores, axis=-1), v)


@written("fixed_point_multiply")
def fixed_point(w: Writer, x: RelaxExpr, *, multiplier: int, shift: int, rounding: str) -> Results:
    """In int64, by products and quotients."""
    left, right = max(shift, 0), max(-shift, 0)
    return _rescaled(x, scalar(multiplier, "int64"), scalar(left, "int64"),
                     scalar(right, "int64"), rounding)  # fmt: skip


@written("fixed_point_multiply_per_axis")
def fixed_point_per_axis(
    w: Writer, x: RelaxExpr, multiplier: RelaxExpr, left: RelaxExpr, right: RelaxExpr, *,
    axes: tuple[int, ...], rounding: str, is_lshift_required: bool, is_rshift_required: bool,
) -> Results:  # fmt: skip
    """The same with a multiplier for each element of some axes."""
    if known(left) is None or known(right) is None:
        raise Unsupported("shifts that are computed")
    rank = len(shape_of(x))
    places = [a % rank for a in axes]
    wide: list[RelaxExpr] = []
    for v, used in ((multiplier, True), (left, is_lshift_required), (right, is_rshift_required)):
        own = list(shape_of(v))
        full = [own[places.index(d)] if d in places else 1 for d in range(rank)]
        one = cast_to(v, "int64") if used else scalar(0, "int64")
        wide.append(call("reshape", one, shape=tuple(full)) if own and used else one)
    return _rescaled(x, wide[0], wide[1], wide[2], rounding)


def _rescaled(
    x: RelaxExpr, multiplier: RelaxExpr, left: RelaxExpr, right: RelaxExpr, rounding: str
) -> RelaxExpr:
    """x 2 ** left multiplier / 2 ** (31 + right), rounded, cut to 32 bits."""
    two = scalar(2, "int64")
    value = call("multiply", cast_to(x, "int64"), folded(call("power", two, left)))
    twice = rounding == "twice"
    value = call("multiply", value, multiplier)
    below = scalar(31, "int64") if twice else call("add", right, scalar(31, "int64"))
    half: RelaxExpr = folded(call("power", two, call("subtract", below, scalar(1, "int64"))))
    if rounding == "away":
        half = call("subtract", half, cast_to(call("less", value, scalar(0, "int64")), "int64"))
    whole: RelaxExpr = call(
        "floor_divide", call("add", value, half), folded(call("power", two, below))
    )
    if twice:  # halves away from zero the second time
        whole = cast_to(cast_to(whole, "int32"), "int64")
        half = folded(call("floor_divide", call("power", two, right), two))
        some = folded(call("greater", right, scalar(0, "int64")))
        down = call("logical_and", some, call("less", whole, scalar(0, "int64")))
        half = call("subtract", half, cast_to(down, "int64"))
        whole = call("floor_divide", call("add", whole, half), folded(call("power", two, right)))
    return cast_to(whole, "int32")
