"""Arithmetic on known elements: numbers, and expressions over symbolic sizes.

Shapes pass through float tensors too (sizes times a scale, rounded). An integer expression may
therefore stand in a float tensor, as the exact value it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.build import ceildiv, truncdiv, truncmod
from smelt.ir.expr import GT, INDEX, Cast, Div, Expr, FloatImm, IntImm, Mul, binary, cast, convert
from smelt.ir.limits import worth_knowing

from .build import Build
from .registry import evaluates
from .values import Value, at_least, not_negative, objects

Operands = Sequence["Value | None"]
Attrs = Mapping[str, Any]


_OBJECT = 32
"""Bytes of an element that is a Python object."""

_BITS = 128
"""More than any integer has that is an element."""


def _elementwise(fn: Callable[..., Any], operands: Sequence[Value], dtype: str) -> Value:
    """`fn` on the elements, broadcast; ValueError where they are too many to be worth it."""
    arrays = [v.elements() for v in operands]
    if not worth_knowing(_OBJECT * math.prod(np.broadcast_shapes(*[a.shape for a in arrays]))):
        raise ValueError("many elements")
    result = np.frompyfunc(fn, len(operands), 1)(*arrays)
    array = result if isinstance(result, np.ndarray) else objects([result], ())
    return Value.of_array(array, dtype)


def _given(operands: Operands) -> list[Value]:
    return [v for v in operands if v is not None]


# ---------------------------------------------------------------------------------- arithmetic


def _divide(a: Any, b: Any, dtype: str) -> Any:
    if dt.is_float(dtype):
        if isinstance(a, Expr) or isinstance(b, Expr):
            return cast(dtype, a) / cast(dtype, convert(b, dtype))
        return a / b
    if isinstance(a, int) and isinstance(b, int):
        return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)) if a else 0 // b
    if not_negative(a) and not_negative(b):
        return convert(a) // b
    return truncdiv(a, b)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, Expr) and isinstance(b, int | float) and b == int(b) and 0 <= b <= 4:
        out: Any = 1
        for _ in range(int(b)):
            out = a * out
        return out
    if isinstance(a, Expr) or isinstance(b, Expr):
        return build.call("pow", cast("float32", convert(a)), cast("float32", convert(b)))
    if isinstance(a, int) and (b < 0 or a.bit_length() * b > _BITS):
        raise ValueError("an integer to a negative power, or one that no element type holds")
    made = a**b
    if isinstance(made, complex):
        raise ValueError("no real number")
    return made


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Pow": _power,
}


@evaluates("Div")
def _division(g: Build, operands: Operands, attrs: Attrs) -> Value:
    a, b = _given(operands)
    return _elementwise(lambda x, y: _divide(x, y, a.dtype), (a, b), a.dtype)


@evaluates("Mod")
def _modulo(g: Build, operands: Operands, attrs: Attrs) -> Value | None:
    a, b = _given(operands)
    if dt.is_float(a.dtype):
        return None
    if attrs.get("fmod", 0):
        return _elementwise(lambda x, y: truncmod(x, y), (a, b), a.dtype)
    return _elementwise(lambda x, y: x % y, (a, b), a.dtype)


def _smaller(a: Any, b: Any) -> Any:
    if isinstance(a, Expr) or isinstance(b, Expr):
        return b if at_least(a, b) else a if at_least(b, a) else build.minimum(a, b)
    return min(a, b)


def _larger(a: Any, b: Any) -> Any:
    if isinstance(a, Expr) or isinstance(b, Expr):
        return a if at_least(a, b) else b if at_least(b, a) else build.maximum(a, b)
    return max(a, b)


@evaluates("Min", "Max", "Sum")
def _folded(g: Build, operands: Operands, attrs: Attrs) -> Value:
    fn = {"Min": _smaller, "Max": _larger, "Sum": _ARITHMETIC["Add"]}[g.step.op]
    first, *rest = _given(operands)
    for v in rest:
        first = _elementwise(fn, (first, v), first.dtype)
    return first


def _floor(e: Any) -> Any:
    if not isinstance(e, Expr):
        return float(math.floor(e))
    ratio = _ratio(e)
    return (
        ratio[0] // ratio[1] if ratio else e if not dt.is_float(e.dtype) else build.call("floor", e)
    )


def _ceil(e: Any) -> Any:
    if not isinstance(e, Expr):
        return float(math.ceil(e))
    ratio = _ratio(e)
    return ceildiv(*ratio) if ratio else e if not dt.is_float(e.dtype) else build.call("ceil", e)


def _ratio(e: Expr) -> tuple[Expr, int] | None:
    """n and d where a float is the integer expression n divided by the number d.

    A float constant is taken for the simple fraction it is nearest to, as 0.7 for 7 / 10.
    """
    up, down = 1, 1
    while True:
        match e:
            case Mul(a, FloatImm(_, c)) if (f := _fraction(c)) is not None:
                e, up, down = a, up * f.numerator, down * f.denominator
            case Div(a, FloatImm(_, c)) if (f := _fraction(c)) is not None:
                e, up, down = a, up * f.denominator, down * f.numerator
            case Cast(_, n) if n.dtype == INDEX:
                return n * (up // math.gcd(up, down)), down // math.gcd(up, down)
            case _:
                return None


def _fraction(c: float) -> Fraction | None:
    """A positive fraction with a denominator up to 1000 that rounds to this float32."""
    if not math.isfinite(c) or c <= 0:
        return None
    f = Fraction(c).limit_denominator(1000)
    return f if f and np.float32(float(f)) == np.float32(c) else None


def _root(e: Any) -> Any:
    return build.call("sqrt", cast("float32", e)) if isinstance(e, Expr) else math.sqrt(e)


_ARITHMETIC.update({
    "Neg": lambda a: -a if not isinstance(a, Expr) else convert(0, a.dtype) - a,
    "Abs": lambda a: abs(a) if not isinstance(a, Expr) else _larger(a, 0 - a),
    "Floor": _floor,
    "Ceil": _ceil,
    "Sqrt": _root,
    "Identity": lambda a: a,
})  # fmt: skip


@evaluates(*_ARITHMETIC)
def _arithmetic(g: Build, operands: Operands, attrs: Attrs) -> Value:
    found = _given(operands)
    return _elementwise(_ARITHMETIC[g.step.op], found, found[0].dtype)


@evaluates("Round")
def _round(g: Build, operands: Operands, attrs: Attrs) -> Value | None:
    x = _given(operands)[0]
    return _elementwise(lambda a: float(round(a)), (x,), x.dtype) if x.is_array else None


@evaluates("Reciprocal")
def _reciprocal(g: Build, operands: Operands, attrs: Attrs) -> Value:
    x = _given(operands)[0]
    return _elementwise(lambda a: _divide(1.0, a, x.dtype), (x,), x.dtype)


_BYTES = ("bool", "int8", "uint8")


@evaluates("Cast", "CastLike")
def _cast(g: Build, operands: Operands, attrs: Attrs) -> Value | None:
    x = _given(operands)[0]
    dtype = (
        operands[1].dtype
        if g.step.op == "CastLike" and operands[1] is not None
        else g.dtype(attrs["to"])
    )
    if any(dt.bits(d) == 8 and d not in _BYTES for d in (x.dtype, dtype)):
        return None  # the rules of narrow types are the converter's
    if x.is_array and dt.is_float(x.dtype) and not dt.is_float(dtype) and dtype != "bool":
        return _elementwise(int, (x,), dtype)
    if x.is_array:
        assert x.known is not None
        return Value.of_array(x.known.astype(dt.to_numpy(dtype)))
    if dtype == "bool":
        return _elementwise(lambda a: _differ(a, 0), (x,), dtype)
    if dt.is_float(dtype):
        return _elementwise(lambda a: a if not isinstance(a, int) else float(a), (x,), dtype)
    return _elementwise(truncated, (x,), dtype)


def truncated(e: Any) -> Any:
    """A number or expression converted to an integer."""
    if not isinstance(e, Expr):
        return int(e)
    if not dt.is_float(e.dtype):
        return e if e.dtype == INDEX else cast(INDEX, e)
    ratio = _ratio(e)
    if ratio:
        return ratio[0] // ratio[1] if not_negative(ratio[0]) else truncdiv(*ratio)
    return Cast(INDEX, e)


# ------------------------------------------------------------------------------------ conditions


def _same(a: Any, b: Any) -> Any:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a == b
    if a is b:
        return True
    if at_least(a, convert(b) + 1) or at_least(b, convert(a) + 1):
        return False
    return build.equal(a, b)


def _differ(a: Any, b: Any) -> Any:
    same = _same(a, b)
    return build.logical_not(same) if isinstance(same, Expr) else not same


def _greater(a: Any, b: Any) -> Any:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a > b
    if at_least(a, convert(b) + 1):
        return True
    return False if at_least(b, a) else binary(GT, a, b)


def _not(a: Any) -> Any:
    return build.logical_not(a) if isinstance(a, Expr) else not a


_CONDITIONS: dict[str, Callable[..., Any]] = {
    "Equal": _same,
    "Greater": _greater,
    "Less": lambda a, b: _greater(b, a),
    "GreaterOrEqual": lambda a, b: _not(_greater(b, a)),
    "LessOrEqual": lambda a, b: _not(_greater(a, b)),
    "And": lambda a, b: _logic(build.all_of, a, b),
    "Or": lambda a, b: _logic(build.any_of, a, b),
    "Xor": lambda a, b: _differ(a, b),
    "Not": _not,
}


def _logic(fn: Callable[..., Expr], a: Any, b: Any) -> Any:
    joined = fn(a, b)
    return bool(joined.value) if isinstance(joined, IntImm) else joined


@evaluates(*_CONDITIONS)
def _condition(g: Build, operands: Operands, attrs: Attrs) -> Value:
    return _elementwise(_CONDITIONS[g.step.op], _given(operands), "bool")


@evaluates("Where")
def _where(g: Build, operands: Operands, attrs: Attrs) -> Value:
    c, a, b = _given(operands)
    return _elementwise(
        lambda p, x, y: build.select(p, x, y) if isinstance(p, Expr) else x if p else y,
        (c, a, b),
        a.dtype,
    )


# ------------------------------------------------------------------------------------ reductions


_REDUCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "ReduceProd": (_ARITHMETIC["Mul"], 1),
    "ReduceSum": (_ARITHMETIC["Add"], 0),
    "ReduceMax": (_larger, None),
    "ReduceMin": (_smaller, None),
}


@evaluates(*_REDUCTIONS)
def _reduction(g: Build, operands: Operands, attrs: Attrs) -> Value | None:
    x = _given(operands)[0]
    axes = attrs.get("axes")
    if len(operands) > 1 and operands[1] is not None:
        axes = g.ints(operands[1], "axes")
    if not axes and attrs.get("noop_with_empty_axes", 0):
        return x
    places = g.axes(axes, x.rank) if axes else tuple(range(x.rank))
    fn, start = _REDUCTIONS[g.step.op]
    array = x.elements()
    for p in sorted(places, reverse=True):
        if array.shape[p] == 0 and start is None:
            return None
        parts = [array[(slice(None),) * p + (k,)] for k in range(array.shape[p])]
        rest = array.shape[:p] + array.shape[p + 1 :]
        total = parts[0] if parts else objects([start] * math.prod(rest), rest)
        for part in parts[1:]:
            total = np.frompyfunc(fn, 2, 1)(total, part)
        array = total if isinstance(total, np.ndarray) else objects([total], ())
        if attrs.get("keepdims", 1):
            array = np.expand_dims(array, p)
    return Value.of_array(array, x.dtype)


@evaluates("NonZero")
def _nonzero(g: Build, operands: Operands, attrs: Attrs) -> Value | None:
    x = _given(operands)[0]
    if not x.is_array or x.known is None:
        return None
    return Value.of_array(np.array(np.nonzero(x.known), np.int64))
