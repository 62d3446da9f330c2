"""Operators on known elements: numbers, and expressions over symbolic sizes.

Shapes pass through float tensors too (sizes times a scale, rounded). An integer expression may
therefore stand in a float tensor, as the exact value it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.build import ceildiv, truncdiv, truncmod
from smelt.ir.expr import INDEX, Cast, Div, Expr, FloatImm, Mul, cast, convert
from smelt.ir.limits import worth_knowing

from .values import Value, at_least, objects

_OBJECT = 32
"""Bytes of an element that is a Python object."""

_BITS = 128
"""More than any integer has that is an element."""


def either(known: Callable[[], Value | None], in_graph: Callable[[], Value]) -> Value:
    """What is known of a result; the graph's where that is nothing, or no attribute can hold it.

    Nothing is known of what has no value: a division by zero, an overflow.
    """
    try:
        found = known()
    except (ArithmeticError, ValueError):
        found = None
    if found is None:
        return in_graph()
    if found.has_floats:
        found.compute = in_graph
    return found


def elementwise(op: str, *operands: Value) -> Value | None:
    """An operator of the core on known elements, broadcast; None where that says nothing."""
    fn = _OPERATORS.get(op)
    if fn is None or not all(v.small for v in operands):
        return None
    x = operands[1] if op == "where" else operands[0]
    if (op == "round" and not x.is_array) or (op in ("mod", "fmod") and dt.is_float(x.dtype)):
        return None
    if op in ("divide", "reciprocal"):
        fn = partial(fn, dtype=x.dtype)
    return _mapped(fn, operands, "bool" if op in _CONDITIONS else x.dtype)


def _mapped(fn: Callable[..., Any], operands: Sequence[Value], dtype: str) -> Value:
    """`fn` on the elements, broadcast; ValueError where they are too many to be worth it."""
    arrays = [v.elements() for v in operands]
    if not worth_knowing(_OBJECT * math.prod(np.broadcast_shapes(*[a.shape for a in arrays]))):
        raise ValueError("many elements")
    result = np.frompyfunc(fn, len(operands), 1)(*arrays)
    array = result if isinstance(result, np.ndarray) else objects([result], ())
    return Value.of_array(array, dtype)


_BYTES = ("bool", "int8", "uint8")


def converted(x: Value, dtype: str) -> Value | None:
    """Known elements as another type; None for narrow types, which have rules of their own."""
    if not x.small or any(dt.bits(d) == 8 and d not in _BYTES for d in (x.dtype, dtype)):
        return None
    if x.is_array and dt.is_float(x.dtype) and not dt.is_float(dtype) and dtype != "bool":
        return _mapped(int, (x,), dtype)
    if x.is_array:
        return Value.of_array(x.array.astype(dt.to_numpy(dtype)))
    if dtype == "bool":
        return _mapped(_on(bool, lambda a: build.not_equal(a, 0)), (x,), dtype)
    if dt.is_float(dtype):
        return _mapped(lambda a: a if not isinstance(a, int) else float(a), (x,), dtype)
    return _mapped(truncated, (x,), dtype)


def reduced(op: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value | None:
    """Known elements reduced along axes; None where that says nothing."""
    if op not in _REDUCTIONS or not x.small:
        return None
    fn, start = _REDUCTIONS[op]
    array = x.elements()
    for p in sorted(axes, reverse=True):
        if array.shape[p] == 0 and start is None:
            return None
        parts = [array[(slice(None),) * p + (k,)] for k in range(array.shape[p])]
        rest = array.shape[:p] + array.shape[p + 1 :]
        total = parts[0] if parts else objects([start] * math.prod(rest), rest)
        for part in parts[1:]:
            total = np.frompyfunc(fn, 2, 1)(total, part)
        array = total if isinstance(total, np.ndarray) else objects([total], ())
        if keepdims:
            array = np.expand_dims(array, p)
    return Value.of_array(array, x.dtype)


# --------------------------------------------------------------------------------------- arithmetic


def _divide(a: Any, b: Any, dtype: str) -> Any:
    if dt.is_float(dtype):
        if isinstance(a, Expr) or isinstance(b, Expr):
            return cast(dtype, a) / cast(dtype, convert(b, dtype))
        return a / b
    if isinstance(a, int) and isinstance(b, int):
        return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)) if a else 0 // b
    if at_least(a, 0) and at_least(b, 0):
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


def truncated(e: Any) -> Any:
    """A number or expression converted to an integer."""
    if not isinstance(e, Expr):
        return int(e)
    if not dt.is_float(e.dtype):
        return e if e.dtype == INDEX else cast(INDEX, e)
    ratio = _ratio(e)
    if ratio:
        return ratio[0] // ratio[1] if at_least(ratio[0], 0) else truncdiv(*ratio)
    return Cast(INDEX, e)


# --------------------------------------------------------------------------------------- operators


def _on(numbers: Callable[..., Any], expressions: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, or of operands some of which are expressions."""

    def apply(*operands: Any) -> Any:
        symbolic = any(isinstance(x, Expr) for x in operands)
        return expressions(*operands) if symbolic else numbers(*operands)

    return apply


def _rounded(way: str, divide: Callable[..., Any]) -> Callable[..., Any]:
    """floor or ceil, where `divide` does the same to a fraction of sizes."""

    def expression(e: Expr) -> Expr:
        ratio = _ratio(e)
        if ratio:
            return divide(*ratio)  # type: ignore[no-any-return]
        return build.call(way, e) if dt.is_float(e.dtype) else e

    return _on(lambda e: float(getattr(math, way)(e)), expression)


_CONDITIONS: dict[str, Callable[..., Any]] = {
    "equal": _on(operator.eq, build.equal),
    "greater": operator.gt,
    "less": operator.lt,
    "greater_equal": operator.ge,
    "less_equal": operator.le,
    "logical_and": build.all_of,
    "logical_or": build.any_of,
    "logical_xor": _on(operator.ne, build.not_equal),
    "logical_not": _on(operator.not_, build.logical_not),
}

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,
    "reciprocal": lambda a, dtype: _divide(1.0, a, dtype),
    "mod": lambda a, b: a % b,
    "fmod": truncmod,
    "power": _power,
    "minimum": _on(min, build.minimum),
    "maximum": _on(max, build.maximum),
    "negative": _on(operator.neg, lambda a: convert(0, a.dtype) - a),
    "abs": _on(abs, lambda a: build.maximum(a, 0 - a)),
    "floor": _rounded("floor", operator.floordiv),
    "ceil": _rounded("ceil", ceildiv),
    "round": lambda a: float(round(a)),
    "sqrt": _on(math.sqrt, lambda a: build.call("sqrt", cast("float32", a))),
    "identity": lambda a: a,
    "where": lambda p, x, y: build.select(p, x, y) if isinstance(p, Expr) else x if p else y,
    **_CONDITIONS,
}

_REDUCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "prod": (_OPERATORS["multiply"], 1),
    "sum": (_OPERATORS["add"], 0),
    "max": (_OPERATORS["maximum"], None),
    "min": (_OPERATORS["minimum"], None),
}
