"""How elementwise operators are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .draw import (
    EPSILON,
    FLOATS,
    INTS,
    MANTISSA,
    Draw,
    Out,
    Shape,
    Size,
    Skip,
    Value,
    broadcast,
    rounded,
)  # fmt: skip
from .table import draws

__all__ = ["fits", "partner_size"]

Function = Callable[[Any], Any]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


SMOOTH: dict[str, tuple[float, float, Function]] = {
    # operator: where it is drawn, its function
    "Exp": (-6, 4, np.exp),
    "Log": (0.05, 1e4, np.log),
    "Sqrt": (0.02, 1e4, np.sqrt),
    "Reciprocal": (0.2, 1e4, lambda x: 1 / x),
    "Tanh": (-50, 50, np.tanh),
    "Sigmoid": (-50, 50, _sigmoid),
    "Erf": (-10, 10, _erf),
    "Softplus": (-30, 30, lambda x: np.log1p(np.exp(x))),
    "Softsign": (-1e3, 1e3, lambda x: x / (1 + np.abs(x))),
    "Sin": (-20, 20, np.sin),
    "Cos": (-20, 20, np.cos),
    "Tan": (-1.2, 1.2, np.tan),
    "Asin": (-0.9, 0.9, np.arcsin),
    "Acos": (-0.9, 0.9, np.arccos),
    "Atan": (-1e3, 1e3, np.arctan),
    "Sinh": (-5, 5, np.sinh),
    "Cosh": (-5, 5, np.cosh),
    "Asinh": (-1e3, 1e3, np.arcsinh),
    "Acosh": (1.1, 1e3, np.arccosh),
    "Atanh": (-0.9, 0.9, np.arctanh),
    "Mish": (-30, 30, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "HardSwish": (-1e3, 1e3, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Gelu": (-20, 20, lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2)))),
    "HardSigmoid": (-1e3, 1e3, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "Elu": (-30, 1e3, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "Celu": (-30, 1e3, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "Selu": (-30, 1e3, lambda x: np.where(x > 0, 1.0507 * x, 1.7581 * np.expm1(np.minimum(x, 0)))),
    "LeakyRelu": (-1e3, 1e3, lambda x: np.where(x > 0, x, 0.01 * x)),
    "Swish": (-30, 30, lambda x: x * _sigmoid(x)),
}

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
    "Celu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "LeakyRelu": ("alpha",),
    "Swish": ("alpha",),
}


def _with_attributes(op: str, values: dict[str, float]) -> Function:
    """The function of an operator with attributes."""
    a, b = values.get("alpha", 1.0), values.get("beta", 0.0)
    below = {
        "Elu": lambda x: a * np.expm1(np.minimum(x, 0)),
        "Celu": lambda x: a * np.expm1(np.minimum(x, 0) / a),
        "Selu": lambda x: values["gamma"] * a * np.expm1(np.minimum(x, 0)),
        "LeakyRelu": lambda x: a * x,
    }
    if op == "HardSigmoid":
        return lambda x: np.clip(a * x + b, 0, 1)
    if op == "Swish":
        return lambda x: x * _sigmoid(a * x)
    slope = values.get("gamma", 1.0)
    return lambda x: np.where(x > 0, slope * x, below[op](x))


def through(x: Value, fn: Function, ulps: float = 8) -> Out:
    """What a smooth function makes of a value: bounds and slope from samples."""
    at = np.linspace(x.lo, x.hi, 801)
    with np.errstate(all="ignore"):
        y = np.asarray(fn(at), float)
    slope = float(np.abs(np.diff(y)).max() / max((x.hi - x.lo) / 800, 1e-9)) * 1.2
    lo, hi = float(y.min()), float(y.max())
    room = 0.02 * (hi - lo) + 1e-6
    err = slope * x.err + ulps * EPSILON[x.dtype] * max(abs(lo), abs(hi), slope * x.top, 1e-3)
    return Out(x.dtype, x.shape, lo - room if lo < 0 or lo > room else lo, hi + room, err)


@draws(*SMOOTH, weight=0.5)
def _smooth(d: Draw, op: str) -> None:
    low, high, fn = SMOOTH[op]
    x = d.pick(d.types(op) & set(FLOATS), lo=low, hi=high)
    attrs: dict[str, Any] = {}
    if op in ATTRIBUTES and d.chance(0.7):
        attrs = {name: d.between(1, 12) / 8 for name in ATTRIBUTES[op]}
        fn = _with_attributes(op, {"gamma": 1.0, **attrs})
    if op == "Gelu" and d.chance(0.5):
        attrs = {"approximate": "tanh"}
    out = through(x, fn)
    if x.dtype == "float64" and (op in ATTRIBUTES or op in ("HardSwish", "Gelu")):
        out.err += 4 * EPSILON["float32"] * max(abs(out.lo), abs(out.hi), x.top, 1)
    if op == "Sigmoid":
        out.err += EPSILON[x.dtype]  # onnxruntime takes small results from 1
    d.emit(op, [x], attrs, [out])


@draws("Abs", "Neg", "Relu")
def _exact(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    lo, hi = x.lo, x.hi
    if op == "Neg":
        lo, hi = -hi, -lo
    elif op == "Relu":
        lo, hi = max(lo, 0.0), max(hi, 0.0)
    else:
        lo, hi = (max(lo, -hi, 0.0), x.top)
    d.emit(op, [x], {}, [Out(x.dtype, x.shape, lo, hi, x.err, x.step)])


@draws("Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Shrink", weight=0.5)
def _steps(d: Draw, op: str) -> None:
    """Functions that jump: of exact values only."""
    x = d.pick(d.types(op), where=lambda v: v.exact)
    lo, hi, step, attrs = math.floor(x.lo), math.ceil(x.hi), 1.0, {}
    if op == "Sign":
        lo, hi = -1, 1
    elif op == "ThresholdedRelu":
        attrs, lo, step = {"alpha": d.between(0, 8) / 8 + 1 / 16}, min(lo, 0), x.step
        hi = max(hi, 0)
    elif op == "Shrink":
        attrs, step = (
            {"lambd": d.between(0, 8) / 8 + 1 / 16, "bias": float(d.between(0, 1))},
            x.step,
        )
        if not x.step and attrs["bias"]:
            raise Skip
        lo, hi = min(lo - 1, 0), max(hi + 1, 0)
        if x.dtype != "float32":  # onnxruntime computes in it whatever the type
            raise Skip
    d.emit(op, [x], attrs, [Out(x.dtype, x.shape, lo, hi, 0.0, step)])


# ----------------------------------------------------------------------------------- broadcasting


def partner_size(d: Draw, s: Size, strict: bool = True) -> Size:
    """An extent that broadcasts with another one: 1, a symbol, or the same."""
    if d.chance(0.25):
        return d.const(1)
    others = [o for o in d.symbols if d.chance(0.4) and fits((s,), (o,), strict)]
    return d.rng.choice(others) if others else s


def partner_shape(d: Draw, shape: Shape, strict: bool = True) -> Shape:
    """A shape that broadcasts with another one."""
    cut = d.between(0, len(shape)) if d.chance(0.4) else 0
    kept = [partner_size(d, s, strict) for s in shape[cut:]]
    if not cut and len(shape) < 4 and d.chance(0.1):
        kept.insert(0, d.const(d.between(1, 4)))
    return tuple(kept)


def fits(a: Sequence[Size], b: Sequence[Size], strict: bool = True) -> bool:
    """Whether two shapes broadcast; with `strict` in every run."""
    try:
        broadcast(a, b, strict=strict)
    except Skip:
        return False
    return True


def partner(d: Draw, x: Value, kinds: Any, exact: bool = False, **bounds: Any) -> Value:
    """A second operand; in one of ten cases the oracle refuses some of the runs."""
    strict = not d.chance(0.1)
    return d.pick(
        kinds,
        where=lambda v: fits(x.shape, v.shape, strict) and (v.exact or not exact),
        shape=lambda: partner_shape(d, x.shape, strict),
        **bounds,
    )


def _ends(f: Callable[[float, float], float], a: Value, b: Value) -> tuple[float, float]:
    corners = [f(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(corners), max(corners)


def _swapped(d: Draw, a: Value, b: Value) -> tuple[Value, Value]:
    return (a, b) if d.chance(0.6) else (b, a)


@draws("Add", "Sub", "Mul", weight=4)
def _arithmetic(d: Draw, op: str) -> None:
    a = d.pick(d.types(op))
    a, b = _swapped(d, a, partner(d, a, (a.dtype,)))
    shape = broadcast(a.shape, b.shape)
    if op == "Mul":
        lo, hi = _ends(lambda x, y: x * y, a, b)
        err, step = a.err * b.top + b.err * a.top + a.err * b.err, a.step * b.step
    else:
        sign = 1 if op == "Add" else -1
        lo, hi = _ends(lambda x, y: x + sign * y, a, b)
        err, step = a.err + b.err, min(a.step, b.step)
    d.emit(op, [a, b], {}, [Out(a.dtype, shape, *rounded(a.dtype, lo, hi, err, step))])


@draws("Div", weight=2)
def _div(d: Draw, op: str) -> None:
    """Divisors keep away from zero."""
    a = d.pick(d.types(op))
    low = 1.0 if a.dtype in INTS else 0.5
    b = partner(d, a, (a.dtype,), lo=low)
    if d.chance(0.3) and a.is_float:
        b = d.emit("Neg", [b], {}, [Out(b.dtype, b.shape, -b.hi, -b.lo, b.err, b.step)])[0]
    lo, hi = _ends(lambda x, y: x / y, a, b)
    if a.dtype in INTS:
        lo, hi = math.trunc(lo), math.trunc(hi)
    err = (a.err + b.err * max(abs(lo), abs(hi))) / min(abs(b.lo), abs(b.hi))
    shape = broadcast(a.shape, b.shape)
    d.emit(op, [a, b], {}, [Out(a.dtype, shape, *rounded(a.dtype, lo, hi, err))])


@draws("Pow")
def _pow(d: Draw, op: str) -> None:
    """A positive base, or a small constant whole exponent."""
    a = d.pick(d.types(op) & set(FLOATS), lo=-8.0, hi=8.0)
    if d.chance(0.5):
        n = d.one(2, 3, 0, 1, 2, 2)
        kinds = d.types(op, 1) & {"float32", "int64", "int32"}
        b = d.scalar(n, d.rng.choice(sorted(kinds)) if d.opset >= 12 else a.dtype)
        out = through(a, lambda x: x**n)
    elif d.chance(0.3):
        a = d.within(a, 0.2, None)
        p = d.one(0.5, -1.0, -2.0, -0.5, 1.5)
        b, out = d.scalar(p, a.dtype), through(a, lambda x: x**p)
    else:
        a = d.within(a, 0.3, None)
        b = partner(d, a, (a.dtype,), lo=-2.0, hi=2.0)
        lo, hi = _ends(lambda x, y: x**y, a, b)
        err = hi * (2 / a.lo * a.err + abs(math.log(a.lo)) * b.err + 2.1 * b.err)
        shape = broadcast(a.shape, b.shape)
        out = Out(a.dtype, shape, *rounded(a.dtype, lo, hi, err, ulps=24))
    d.emit(op, [a, b], {}, [out])


@draws("Mod", weight=0.6)
def _mod(d: Draw, op: str) -> None:
    """Of exact numbers; divisors at least 1, in magnitude."""
    fmod = d.chance(0.4)
    kinds = d.types(op) if fmod else d.types(op) & set(INTS)
    a = d.pick(kinds, where=lambda v: v.exact)
    if a.is_float and not a.step:
        raise Skip
    b = partner(d, a, (a.dtype,), exact=True, lo=1.0)
    if a.is_float and not b.step:
        raise Skip
    if not a.dtype.startswith("u") and d.chance(0.3):
        b = d.emit("Neg", [b], {}, [Out(b.dtype, b.shape, -b.hi, -b.lo, 0.0, b.step)])[0]
    top = b.top
    shape = broadcast(a.shape, b.shape)
    lo = 0.0 if a.dtype.startswith("u") else -top
    out = Out(a.dtype, shape, lo, top, 0.0, min(a.step, b.step))
    d.emit(op, [a, b], {"fmod": 1} if fmod else {}, [out])


@draws("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def _compare(d: Draw, op: str) -> None:
    a = d.pick(d.types(op), where=lambda v: v.exact)
    a, b = _swapped(d, a, partner(d, a, (a.dtype,), exact=True))
    d.emit(op, [a, b], {}, [Out("bool", broadcast(a.shape, b.shape), 0, 1)])


@draws("And", "Or", "Xor", weight=0.6)
def _logic(d: Draw, op: str) -> None:
    a = d.pick("bool")
    a, b = _swapped(d, a, partner(d, a, "bool"))
    d.emit(op, [a, b], {}, [Out("bool", broadcast(a.shape, b.shape), 0, 1)])


@draws("Not", weight=0.6)
def _not(d: Draw, op: str) -> None:
    x = d.pick("bool")
    d.emit(op, [x], {}, [Out("bool", x.shape, 0, 1)])


@draws("IsNaN", "IsInf", weight=0.3)
def _special(d: Draw, op: str) -> None:
    x = d.pick(d.types(op) & set(FLOATS))
    d.emit(op, [x], {}, [Out("bool", x.shape, 0, 1)])


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", weight=0.4)
def _bits(d: Draw, op: str) -> None:
    a = d.pick(d.types(op), where=lambda v: v.top < 2**20)
    inputs = [a] if op == "BitwiseNot" else [a, partner(d, a, (a.dtype,))]
    top = 1.0
    while top <= max(v.top for v in inputs):
        top *= 2
    lo, hi = -top, top
    if a.dtype.startswith("u"):
        lo, hi = 0.0, float(np.iinfo(a.dtype).max) if op == "BitwiseNot" else top
    hi = min(hi, float(np.iinfo(a.dtype).max))
    lo = max(lo, float(np.iinfo(a.dtype).min))
    shape = broadcast(*[v.shape for v in inputs])
    d.emit(op, inputs, {}, [Out(a.dtype, shape, lo, hi)])


@draws("BitShift", weight=0.4)
def _shift(d: Draw, op: str) -> None:
    a = d.pick(d.types(op))
    b = partner(d, a, (a.dtype,), lo=0.0, hi=3.0)
    left = d.chance(0.5)
    shape = broadcast(a.shape, b.shape)
    hi = a.hi * 2**b.hi if left else a.hi
    d.emit(op, [a, b], {"direction": "LEFT" if left else "RIGHT"}, [Out(a.dtype, shape, 0.0, hi)])


@draws("Max", "Min", "Sum", "Mean")
def _many(d: Draw, op: str) -> None:
    xs = [d.pick(d.types(op))]
    for _ in range(d.rng.choice((0, 1, 1, 1, 2, 3))):
        shape = broadcast(*[x.shape for x in xs])
        like = Value("", xs[0].dtype, shape, 0, 0)
        xs.append(partner(d, like, (xs[0].dtype,)))
    lows, highs = [x.lo for x in xs], [x.hi for x in xs]
    dtype, shape = xs[0].dtype, broadcast(*[x.shape for x in xs])
    step = min(x.step for x in xs)
    if op in ("Max", "Min"):
        f = max if op == "Max" else min
        out = Out(dtype, shape, f(lows), f(highs), max(x.err for x in xs), step)
    else:
        n = len(xs) if op == "Mean" else 1
        err, step = sum(x.err for x in xs) / n, step if n == 1 else 0.0
        out = Out(
            dtype, shape, *rounded(dtype, sum(lows) / n, sum(highs) / n, err, step, 2 * len(xs))
        )
    d.emit(op, xs, {}, [out])


@draws("Where", weight=1.5)
def _where(d: Draw, op: str) -> None:
    a = d.pick(d.types(op, 1))
    b = partner(d, a, (a.dtype,))
    both = Value("", "bool", broadcast(a.shape, b.shape), 0, 1)
    c = partner(d, both, "bool")
    shape = broadcast(a.shape, b.shape, c.shape)
    err, step = max(a.err, b.err), min(a.step, b.step)
    d.emit(op, [c, a, b], {}, [Out(a.dtype, shape, min(a.lo, b.lo), max(a.hi, b.hi), err, step)])


@draws("PRelu", weight=0.6)
def _prelu(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    s = d.leaf(x.dtype, partner_shape(d, x.shape)[-x.rank :] if x.rank else ())
    common = broadcast(x.shape, s.shape)
    d.valid(
        [all(a[r] == b[r] for a, b in zip(x.shape, common, strict=True)) for r in range(d.runs)]
    )
    if x.dtype.startswith("u"):
        raise Skip
    lo, hi = _ends(lambda p, q: p * q, x, s)
    out = rounded(x.dtype, min(lo, x.lo), max(hi, x.hi), x.err * max(s.top, 1), x.step * s.step)
    if x.step and out[3] > x.step:
        out = (*out[:3], x.step)
    d.emit(op, [x, s], {}, [Out(x.dtype, common, *out)])


@draws("Clip", weight=1.5)
def _clip(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.hi - v.lo >= 2)
    low = math.ceil(x.lo + (x.hi - x.lo) * d.between(0, 4) / 10)
    high = math.ceil(low + (x.hi - low) * d.between(3, 10) / 10)
    if low > high:
        raise Skip
    if d.opset < 11:
        d.within(x, low, high)
        return
    ends: list[Value | None] = []
    for bound, far in ((low, x.lo), (high, x.hi)):
        kind = d.between(0, 4)
        del far
        if kind == 0:
            ends.append(None)
        elif kind == 1 and d.outer is None:
            ends.append(d.leaf(x.dtype, (), bound, bound + 1, False, grid=True))
        else:
            ends.append(d.scalar(bound, x.dtype))
    a, b = ends
    if a is not None and b is not None and a.hi > b.lo:
        raise Skip
    lo = x.lo if a is None else max(x.lo, a.lo)
    hi = x.hi if b is None else min(x.hi, b.hi)
    lo, hi = min(lo, hi), max(lo, hi)
    step = x.step if (x.step and x.step <= 0.25) or x.dtype in INTS else 0.0
    d.emit(op, [x, *ends], {}, [Out(x.dtype, x.shape, lo, hi, x.err, step)])


# ------------------------------------------------------------------------------------------- types


def _castable(d: Draw, x: Value, to: str) -> Out:
    """What a conversion makes of a value."""
    lo, hi, err, step = x.lo, x.hi, x.err, x.step
    if to == "bool":
        if err:
            raise Skip
        return Out(to, x.shape, 0, 1)
    if to in INTS:
        info = np.iinfo(to)
        if err or lo < info.min or hi > info.max:
            raise Skip
        return Out(to, x.shape, math.trunc(lo), math.trunc(hi))
    top = max(x.top, 1e-6)
    grid = err == 0 and step and top / step < 2.0 ** MANTISSA[to]
    if grid or (x.dtype in FLOATS and MANTISSA[to] >= MANTISSA[x.dtype]):
        return Out(to, x.shape, lo, hi, err, step)
    return Out(to, x.shape, lo, hi, err + 2 * EPSILON[to] * top)


@draws("Cast", "CastLike", weight=1.5)
def _cast(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    kinds = ["float32", "float32", "float64", "float16", "int64", "int32", "bool", *INTS]
    to = d.rng.choice([*kinds, "bfloat16"] if d.opset >= 13 and d.chance(0.2) else kinds)
    out = _castable(d, x, to)
    if op == "CastLike":
        d.emit(op, [x, d.pick(to)], {}, [out])
    else:
        code = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6,
                "int64": 7, "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
                "bfloat16": 16}[to]  # fmt: skip
        d.emit(op, [x], {"to": code}, [out])
