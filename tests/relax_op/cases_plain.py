"""Cases of builders element by element, of creation, reductions, sorting."""

from __future__ import annotations

import math

import numpy as np

from smelt.relax import op
from tests.relax_arrays import f32s, i8s, i32s

from .cases import case, f32, i64

UNARY = {
    "abs": np.abs,
    "bitwise_not": np.bitwise_not,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "floor": np.floor,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "negative": np.negative,
    "round": np.round,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "no_op": lambda x: x,
}
INSIDE = {"acos": np.arccos, "asin": np.arcsin, "atanh": np.arctanh}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}

for _name, _fn in UNARY.items():
    _x = i64(3, 4) if _name == "bitwise_not" else f32(3, 4)
    case(_name, getattr(op, _name), _x, _fn)
for _name, _fn in INSIDE.items():
    case(_name, getattr(op, _name), f32(3, 4, low=-0.9, high=0.9), _fn)
for _name, _fn in POSITIVE.items():
    case(_name, getattr(op, _name), f32(3, 4, low=0.1, high=4), _fn)
case("acosh", op.acosh, f32(5, low=1.1, high=4), np.arccosh)
case("erf", op.erf, f32(7), lambda x: np.vectorize(math.erf)(x).astype("float32"))
case("logical_not", op.logical_not, i64(6, low=0, high=2).astype(bool), np.logical_not)

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": lambda a, b: np.power(np.abs(a) + 0.5, b),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
WHOLE = {
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
LOGICAL = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

for _name, _fn in BINARY.items():
    if _name == "power":
        case(_name, lambda a, b: op.power(op.add(op.abs(a), 0.5), b), (f32(2, 3), f32(3)), _fn)
    else:
        case(_name, getattr(op, _name), (f32(2, 3), f32(3)), _fn)
for _name, _fn in WHOLE.items():
    case(_name, getattr(op, _name), (i64(2, 3), i64(3, low=1, high=4)), _fn)
for _name, _fn in LOGICAL.items():
    case(_name, getattr(op, _name), (f32(2, 3) > 0, f32(3) > 0), _fn)
case("left_shift", op.left_shift, (i64(4, low=0, high=9), i64(4, low=0, high=4)), np.left_shift)
case("right_shift", op.right_shift, (i64(4, low=0, high=99), i64(4, low=0, high=4)), np.right_shift)
case("add", lambda x: op.add(1, x), f32(3), lambda x: 1 + x)
case("multiply", lambda x: op.multiply(x, f32s([1, 2, 3])), f32(3), lambda x: x * f32s([1, 2, 3]))
case("clip", lambda x: op.clip(x, -1, 0.5), f32(9), lambda x: np.clip(x, -1, 0.5))
case("astype", lambda x: op.astype(x, "int32"), f32(9), lambda x: x.astype("int32"))
case("wrap_param", lambda x: op.wrap_param(x, "float32"), i64(3), lambda x: x.astype("float32"))
case("ewise_fma", op.ewise_fma, (f32(3), f32(3), f32(3)), lambda a, b, c: a * b + c)
case("log_add_exp", op.log_add_exp, (f32(5), f32(5)), np.logaddexp)
case(
    "where",
    lambda c, x: op.where(c, x, 0.0),
    (f32(5) > 0, f32(5)),
    lambda c, x: np.where(c, x, np.float32(0)),
)
case(
    "masked_fill",
    lambda x, m: op.masked_fill(x, m, 7.5),
    (f32(5), f32(5) > 0),
    lambda x, m: np.where(m, np.float32(7.5), x),
)

# ------------------------------------------------------------------------------------ creation

_x = f32(2, 3)
case("full", lambda x: op.add(op.full((2, 3), 2.5), x), _x, lambda x: x + 2.5)
case("full_like", lambda x: op.full_like(x, 3), _x, lambda x: np.full_like(x, 3))
case("zeros", lambda x: op.add(op.zeros((2, 3), "float32"), x), _x, lambda x: x)
case("zeros_like", op.zeros_like, _x, np.zeros_like)
case("ones", lambda x: op.add(op.ones((2, 3), "float32"), x), _x, lambda x: x + 1)
case("ones_like", lambda x: op.ones_like(x, "int32"), _x, lambda x: np.ones((2, 3), "int32"))
case(
    "eye",
    lambda x: op.add(op.eye(2, 3, k=1), x),
    _x,
    lambda x: x + np.eye(2, 3, 1, dtype="float32"),
)
case("eye_like", lambda x: op.eye_like(x, -1), _x, lambda x: np.eye(2, 3, -1, dtype="float32"))
case(
    "arange",
    lambda x: op.add(op.arange(0, 9, 3, "float32"), x),
    _x,
    lambda x: x + np.arange(0, 9, 3, dtype="float32"),
)
case(
    "hamming_window",
    lambda x: op.multiply(op.hamming_window(3, False), x),
    _x,
    lambda x: x * np.hamming(3).astype("float32"),
)
case("tril", lambda x: op.tril(x, 1), f32(2, 4, 4), lambda x: np.tril(x, 1))
case("triu", lambda x: op.triu(x, -1), f32(4, 4), lambda x: np.triu(x, -1))

# ------------------------------------------------------------------------- reductions, sorting

for _name in ("sum", "prod", "min", "max", "mean", "std"):
    case(
        _name,
        lambda x, _n=_name: getattr(op, _n)(x, axis=[0, -1]),
        f32(3, 4, 2),
        lambda x, _n=_name: getattr(np, _n)(x, axis=(0, 2)),
    )
case("sum", op.sum, f32(3, 4), lambda x: np.sum(x))
case("sum", lambda x: op.sum(x, 1, keepdims=True), f32(3, 4), lambda x: x.sum(1, keepdims=True))
case("variance", lambda x: op.variance(x, -1, True), f32(3, 4), lambda x: x.var(-1, keepdims=True))
case("all", lambda x: op.all(x, 1), f32(3, 2) > -1, lambda x: x.all(1))
case("any", lambda x: op.any(x, 1), f32(3, 2) > 1, lambda x: x.any(1))
case("argmax", lambda x: op.argmax(x, 1), f32(3, 4), lambda x: np.argmax(x, 1))
case("argmax", op.argmax, f32(3, 4), lambda x: np.argmax(x))
case("argmin", lambda x: op.argmin(x, 0, True), f32(3, 4), lambda x: np.argmin(x, 0, keepdims=True))
case("cumsum", lambda x: op.cumsum(x, 1), f32(3, 4), lambda x: np.cumsum(x, 1))
case("cumsum", lambda x: op.cumsum(x, 0, exclusive=True), f32(4), lambda x: np.cumsum(x) - x)
case("cumprod", op.cumprod, f32(2, 3), lambda x: np.cumprod(x.reshape(-1)))
case("sort", lambda x: op.sort(x, 0, True), f32(4, 3), lambda x: -np.sort(-x, 0))
case("argsort", op.argsort, f32(4, 3), lambda x: np.argsort(x, -1).astype("int32"))
case(
    "topk",
    lambda x: op.topk(x, 2, 1),
    f32(3, 5),
    lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2].astype("int32")),
)
case(
    "topk",
    lambda x: op.topk(x, 1, ret_type="values", largest=False),
    f32(3, 5),
    lambda x: np.sort(x, 1)[:, :1],
)
case(
    "median",
    lambda x: op.median(x, 1),
    f32(3, 4),
    lambda x: (np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1]),
)
case("median", op.median, f32(3, 3), lambda x: np.median(x))
case(
    "quantize",
    lambda x: op.quantize(x, 0.1, 3, out_dtype="uint8"),
    f32(9),
    lambda x: np.clip(np.round(x / np.float32(0.1)) + 3, 0, 255).astype("uint8"),
)
case(
    "quantize",
    lambda x, s, z: op.quantize(x, s, z, axis=0),
    (f32(2, 3), f32s([0.1, 0.5]), i32s([1, -2])),
    lambda x, s, z: (np.round(x / s[:, None]) + z[:, None]).astype("int8"),
)
case(
    "dequantize",
    lambda x, s, z: op.dequantize(x, s, z, axis=1),
    (i64(2, 3, dtype="int8"), f32(3, low=0.1), i8s([1, 2, 3])),
    lambda x, s, z: (x.astype("int32") - z) * s,
)
