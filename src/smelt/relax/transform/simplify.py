"""Small laws of arithmetic on graphs; each rule's docstring is its law.

In the laws c, c1, c2 are constants, k is a number. Signs of zeros and the order of roundings are
not part of a law; NaN and infinity are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, RelaxExpr, tensor_type_of

from .engine import GraphRewriter, RuleSet, apply_rules
from .fold_constants import FOLD_RULES
from .fold_scale import FOLD_SCALE_RULES
from .match import (
    all_are,
    constant_operand,
    dims,
    dtype_of,
    is_float,
    is_op,
    other_scalar,
    scalar_of,
    shape_of,
    type_is,
)  # fmt: skip
from .simplify_moves import MOVE_RULES

ARITHMETIC_RULES = RuleSet()
rule = ARITHMETIC_RULES.rule


# ------------------------------------------------------------------------------------ neutral


@rule("identity", "annotation.compiler_begin", "annotation.compiler_end")
def identity(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """identity(x)  =  x; the marks of a partition that nobody has made mean nothing either."""
    return n.args[0]


@rule(lambda op: op.commutative)
def constant_second(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """op(c, x)  =  op(x, c)"""
    a, b = n.args
    return g.again(n, b, a) if isinstance(a, Constant) and not isinstance(b, Constant) else None


NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "power": 1.0,
           "logical_and": True, "logical_or": False}  # fmt: skip


@rule(*NEUTRAL)
def neutral(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x + 0  =  x - 0  =  x * 1  =  x / 1  =  x ** 1  =  x and True  =  x or False  =  x"""
    found = constant_operand(n)
    same = found and type_is(found[0], n) and all_are(found[1], NEUTRAL[n.callee])
    return found[0] if found and same else None


@rule("subtract")
def subtract_constant(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x - c  =  x + (-c)"""
    found = constant_operand(n)
    if not found:
        return None
    c = g.exact(found[1]) if is_float(n) else found[1].data  # integers wrap around
    return g.call("add", found[0], g.constant(np.negative(c), dtype_of(n)))


BEHIND = {"subtract": (0.0, "negative"), "divide": (1.0, "reciprocal")}


@rule(*BEHIND)
def number_first(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """0 - x  =  -x        1 / x  =  reciprocal(x)   on floats"""
    number, name = BEHIND[n.callee]
    fits = scalar_of(n.args[0]) == number and is_float(n) and type_is(n.args[1], n)
    return g.call(name, n.args[1]) if fits else None


@rule("add", "subtract")
def add_negative(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x + (-y)  =  x - y        x - (-y)  =  x + y        (-x) + y  =  y - x"""
    a, b = n.args
    plus = is_op(n, "add")
    if is_op(b, "negative") and g.single(b):
        return g.call("subtract" if plus else "add", a, b.args[0])
    if plus and is_op(a, "negative") and g.single(a) and not isinstance(b, Constant):
        return g.call("subtract", b, a.args[0])
    return None


@rule("negative", "reciprocal", "logical_not", "bitwise_not")
def there_and_back(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """-(-x)  =  1 / (1 / x)  =  not not x  =  x"""
    (x,) = n.args
    return x.args[0] if is_op(x, n.callee) else None


@rule("negative")
def negative_of(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """-(x * c)  =  x * (-c)        -(a - b)  =  b - a"""
    (x,) = n.args
    if is_op(x, "subtract") and is_float(x) and g.single(x):
        return g.call("subtract", x.args[1], x.args[0])
    found = constant_operand(x) if is_op(x, "multiply") and is_float(x) and g.single(x) else None
    if found:
        return g.call("multiply", found[0], g.constant(-g.exact(found[1]), dtype_of(n)))
    return None


# ------------------------------------------------------------------------ constants that meet


@rule("add")
def add_constants(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """(x + c1) + c2  =  x + (c1 + c2)"""
    found = _twice(g, n)
    return g.call("add", found[0], _joined(g, np.add, *found[1:])) if found else None


@rule("multiply")
def multiply_constants(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """(x * c1) * c2  =  x * (c1 * c2)   where no product over- or underflows"""
    found = _twice(g, n)
    if not found:
        return None
    x, c1, c2 = found
    c = _joined(g, np.multiply, c1, c2)
    if is_float(n):
        size = np.abs(c.data.astype(np.float64))
        lost = (size == 0) & (g.exact(c1) * g.exact(c2) != 0)
        if np.any(lost) or not np.all(np.isfinite(size)):
            return None
    return g.call("multiply", x, c)


def _joined(g: GraphRewriter, fn: Any, a: Constant, b: Constant) -> Constant:
    if is_float(a):
        return g.constant(fn(g.exact(a), g.exact(b)), dtype_of(a))
    return g.constant(fn(a.data, b.data), dtype_of(a))


def _twice(g: GraphRewriter, n: Call) -> tuple[RelaxExpr, Constant, Constant] | None:
    """(x, c1, c2) of op(op(x, c1), c2), where the constants together are no larger than apart."""
    outer = constant_operand(n)
    y = outer[0] if outer else None
    inner = constant_operand(y) if is_op(y, n.callee) and g.single(y) else None
    if not outer or not inner:
        return None
    a, b = inner[1].data, outer[1].data
    together = math.prod(np.broadcast_shapes(a.shape, b.shape))
    return (*inner, outer[1]) if together <= max(a.size, b.size) else None


@rule("divide")
def divide_exactly(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x / c  =  x * (1 / c)   where every element of c is a power of two"""
    found = constant_operand(n)
    if not found or not is_float(n):
        return None
    c = g.exact(found[1])
    mantissa, exponent = np.frexp(np.abs(c))
    if np.all(mantissa == 0.5) and np.all(np.abs(exponent) < 10):
        return g.call("multiply", found[0], g.constant(1.0 / c, dtype_of(n)))
    return None


# ------------------------------------------------------------------------------ powers, roots


@rule("power")
def power_of(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x ** 2  =  x * x        x ** 0.5  =  sqrt(x)        x ** -1  =  1 / x        x ** -0.5"""
    x, k = n.args[0], scalar_of(n.args[1])
    if k is None or x is None or not type_is(x, n):
        return None
    if k == 2.0:
        return g.call("multiply", x, x)
    name = {0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}.get(k) if is_float(n) else None
    return g.call(name, x) if name else None


@rule("square")
def square(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """square(x)  =  x * x"""
    return g.call("multiply", n.args[0], n.args[0])


@rule("reciprocal", "sqrt")
def reciprocal_root(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """1 / sqrt(x)  =  sqrt(1 / x)  =  rsqrt(x)        1 / rsqrt(x)  =  sqrt(x)"""
    (x,) = n.args
    if is_op(x, "sqrt" if is_op(n, "reciprocal") else "reciprocal") and g.single(x):
        return g.call("rsqrt", x.args[0])
    if is_op(n, "reciprocal") and is_op(x, "rsqrt") and g.single(x):
        return g.call("sqrt", x.args[0])
    return None


@rule("multiply")
def multiply_reciprocal(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x * (1 / y)  =  x / y   where y is not repeated along x"""
    for x, y in (n.args, n.args[::-1]):
        if is_op(y, "reciprocal") and g.single(y) and x is not y and type_is(y, n) and is_float(n):
            return g.call("divide", x, y.args[0])
    return None


@rule("divide")
def divide_reciprocal(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x / (1 / y)  =  x * y        x / sqrt(y)  =  x * rsqrt(y)   where y is repeated along x"""
    x, y = n.args
    if is_op(y, "reciprocal") and g.single(y) and is_float(n):
        return g.call("multiply", x, y.args[0])
    if is_op(y, "sqrt") and g.single(y) and not isinstance(x, Constant) and not type_is(y, n):
        return g.call("multiply", x, g.call("rsqrt", y.args[0]))
    return None


# ----------------------------------------------------------------------------------- clipping


def _bounds(x: RelaxExpr | None) -> tuple[float, float] | None:
    """The limits of relu and clip."""
    if is_op(x, "relu"):
        return 0.0, math.inf
    if is_op(x, "clip"):
        low, high = x.attrs["min"], x.attrs["max"]
        return -math.inf if low is None else low, math.inf if high is None else high
    return None


@rule("relu", "clip")
def clip_clip(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """clip(clip(x, a, b), c, d)  =  clip(x, a', b')   with a and b cut at c and d; relu is clip
    from 0 on"""
    outer, inner = _bounds(n), _bounds(n.args[0])
    x = n.args[0]
    if outer is None or inner is None or not isinstance(x, Call) or not g.single(x):
        return x if outer is not None and outer == inner else None
    if outer[0] > outer[1] or inner[0] > inner[1]:
        return None
    low, high = [min(max(v, outer[0]), outer[1]) for v in inner]
    return _clip(g, x.args[0], low, high)


def _clip(g: GraphRewriter, x: RelaxExpr | None, low: float, high: float) -> RelaxExpr:
    if low == 0.0 and high == math.inf:
        return g.call("relu", x)
    return g.call("clip", x, min=None if low == -math.inf else low,
                  max=None if high == math.inf else high)  # fmt: skip


@rule("clip")
def clip_one_side(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """clip(x, None, None)  =  x        clip(x, 0, None)  =  relu(x)"""
    bounds = _bounds(n)
    if bounds == (-math.inf, math.inf):
        return n.args[0]
    return g.call("relu", n.args[0]) if bounds == (0.0, math.inf) else None


@rule("minimum", "maximum")
def clip_by_number(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """max(x, k)  =  clip(x, k, None)        min(x, k)  =  clip(x, None, k)"""
    found = other_scalar(n)
    if not found or not is_float(n) or not math.isfinite(found[1]) or not type_is(found[0], n):
        return None
    if is_op(n, "maximum"):
        return _clip(g, found[0], found[1], math.inf)
    return _clip(g, found[0], -math.inf, found[1])


@rule("abs", "floor", "ceil", "trunc", "round")
def idempotent(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """f(f(x))  =  f(x)        |-x|  =  |x|        |relu(x)|  =  relu(x)"""
    (x,) = n.args
    if is_op(x, n.callee) or (is_op(n, "abs") and is_op(x, "relu")):
        return x
    return g.call("abs", x.args[0]) if is_op(n, "abs") and is_op(x, "negative") else None


# ------------------------------------------------------------------------------ cast, choice


@rule("cast")
def cast_cast(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """cast(x, its type)  =  x        cast(cast(x, a), b)  =  cast(x, b)   where a loses nothing"""
    (x,) = n.args
    if type_is(x, n):
        return x
    if is_op(x, "cast") and dt.holds(dtype_of(x), dtype_of(x.args[0])):
        return g.call("cast", x.args[0], dtype=n.attrs["dtype"])
    return None


@rule("where")
def where_known(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """where(True, a, b)  =  a        where(False, a, b)  =  b        where(c, a, a)  =  a"""
    c, a, b = n.args
    chosen = a if a is b else None
    if isinstance(c, Constant) and c.data.size:
        chosen = a if np.all(c.data) else b if not np.any(c.data) else chosen
    if chosen is None or type_is(chosen, n):
        return chosen
    return g.call("broadcast_to", chosen, shape=shape_of(n))


@rule("where")
def where_not(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """where(not c, a, b)  =  where(c, b, a)"""
    c, a, b = n.args
    return g.call("where", c.args[0], b, a) if is_op(c, "logical_not") else None


# ------------------------------------------------------------------------- batch normalisation


@rule("batch_norm")
def batch_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """batch_norm(x, scale, bias, mean, var)  =  x * s + (bias - mean * s)
    with s = scale / sqrt(var + epsilon), all four constants"""
    x, *statistics = n.args
    known = [g.exact(c) for c in statistics if isinstance(c, Constant)]
    if len(known) < 4 or dims(x)[1] is None:
        return None
    scale, bias, mean, var = known
    factor = scale / np.sqrt(var + n.attrs["epsilon"])
    shape = (-1, *[1] * (tensor_type_of(x).rank - 2))
    scaled = g.call("multiply", x, g.constant(factor.reshape(shape), dtype_of(x)))
    return g.call("add", scaled, g.constant((bias - mean * factor).reshape(shape), dtype_of(x)))


SIMPLIFY_RULES = ARITHMETIC_RULES + FOLD_SCALE_RULES + MOVE_RULES
"""All laws of simplification, without constant folding."""


def simplify(mod: IRModule) -> IRModule:
    """Apply the small laws: identities, scales into weights, moves that meet; fold constants."""
    return apply_rules(mod, FOLD_RULES + SIMPLIFY_RULES)
