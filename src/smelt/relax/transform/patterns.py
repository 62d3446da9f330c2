"""Operators that models spell out, recognised and put back together; each docstring is the law.

Constants may be 0-d or [1], operands in any order, squares written as powers, means as sums: what
`simplify` brings to one form is not asked about here. A pattern is replaced only where its
intermediate values have no use outside of it.
"""

from __future__ import annotations

import math

import numpy as np

from smelt.ir.build import value_of
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, RelaxExpr, Var, tensor_type_of

from .engine import GraphRewriter, RuleSet, apply_rules
from .fold_constants import FOLD_RULES
from .match import (
    close,
    constant_operand,
    dims,
    dtype_of,
    given,
    is_float,
    is_op,
    other_scalar,
    scalar_of,
    shape_of,
    strip_scale,
    type_is,
)  # fmt: skip
from .pattern_activations import ACTIVATION_RULES
from .simplify import SIMPLIFY_RULES

NORM_RULES = RuleSet()
rule = NORM_RULES.rule


# ------------------------------------------------------------------------------ means and roots


def _reduced(x: RelaxExpr | None, name: str) -> tuple[RelaxExpr, tuple[int, ...]] | None:
    """(operand, axes) of a reduction whose result keeps its dimensions, by itself or a reshape."""
    r = x.args[0] if is_op(x, "reshape") else x
    if not is_op(r, name) or r.args[0] is None:
        return None
    of = r.args[0]
    rank = tensor_type_of(of).rank
    axes = r.attrs["axes"]
    axes = tuple(range(rank)) if axes is None else tuple(sorted([a % rank for a in axes]))
    kept = tuple([1 if d in axes else e for d, e in enumerate(shape_of(of))])
    have = tuple([value_of(e) if d in axes else e for d, e in enumerate(shape_of(x))])
    return (of, axes) if have == kept else None


def mean_of(x: RelaxExpr | None) -> tuple[RelaxExpr, tuple[int, ...]] | None:
    """(operand, axes) of a mean that keeps its dimensions: mean, or sum over the number."""
    found = _reduced(x, "mean")
    if found or x is None or not is_op(x, "multiply", "divide"):
        return found
    total, k = strip_scale(x)
    found = _reduced(total, "sum")
    if not found:
        return None
    sizes = [dims(found[0])[a] for a in found[1]]
    count = math.prod([s for s in sizes if s is not None])
    return found if None not in sizes and close(k * count, 1.0) else None


def _inverse_root(x: RelaxExpr | None) -> RelaxExpr | None:
    """v of 1 / sqrt(v), however it is written."""
    if is_op(x, "rsqrt"):
        return x.args[0]
    if is_op(x, "reciprocal") and is_op(x.args[0], "sqrt"):
        return x.args[0].args[0]
    if is_op(x, "power") and scalar_of(x.args[1]) == -0.5:
        return x.args[0]
    return None


def _over_root(n: Call) -> list[tuple[RelaxExpr, RelaxExpr]]:
    """(d, v) for each way to read a value as d / sqrt(v)."""
    a, b = n.args
    found: list[tuple[RelaxExpr, RelaxExpr]] = []
    if is_op(n, "divide") and is_op(b, "sqrt") and a is not None and b.args[0] is not None:
        found.append((a, b.args[0]))
    for x, r in ((a, b), (b, a)):
        v = _inverse_root(r) if is_op(n, "multiply") else None
        if v is not None and x is not None:
            found.append((x, v))
    return found


def _is_square(x: RelaxExpr | None) -> RelaxExpr | None:
    """v of v * v."""
    if is_op(x, "multiply") and x.args[0] is x.args[1]:
        return x.args[0]
    if is_op(x, "square") or (is_op(x, "power") and scalar_of(x.args[1]) == 2.0):
        return x.args[0]
    return None


def _without_epsilon(v: RelaxExpr) -> tuple[RelaxExpr, float]:
    """(w, epsilon) of v = w + epsilon; v itself where there is none."""
    found = other_scalar(v) if is_op(v, "add") else None
    return found if found and found[1] >= 0 else (v, 0.0)


def _are_last(axes: tuple[int, ...], x: RelaxExpr) -> bool:
    """Whether these are the last dimensions of a value."""
    return axes == tuple(range(axes[0], tensor_type_of(x).rank))


def _mean_square(v: RelaxExpr) -> tuple[RelaxExpr, tuple[int, ...], float] | None:
    """(d, axes, epsilon) of v = mean(d * d) + epsilon."""
    v, epsilon = _without_epsilon(v)
    mean = mean_of(v)
    d = _is_square(mean[0]) if mean else None
    return (d, mean[1], epsilon) if mean and d is not None and _are_last(mean[1], d) else None


def _variance(v: RelaxExpr) -> tuple[RelaxExpr, tuple[int, ...], float] | None:
    """(x, axes, epsilon) of v = mean(x * x) - mean(x) * mean(x) + epsilon."""
    v, epsilon = _without_epsilon(v)
    if not is_op(v, "subtract"):
        return None
    square, mean = mean_of(v.args[0]), mean_of(_is_square(v.args[1]))
    x = _is_square(square[0]) if square else None
    if square is None or x is None or mean is None or mean[0] is not x or mean[1] != square[1]:
        return None
    return (x, mean[1], epsilon) if _are_last(mean[1], x) else None


def _ones(g: GraphRewriter, x: RelaxExpr, axis: int) -> Constant | None:
    """A scale of ones over the dimensions of x from `axis` on."""
    sizes = dims(x)[axis:]
    return None if None in sizes else g.constant(np.ones([s or 0 for s in sizes]), dtype_of(x))


# -------------------------------------------------------------------------------------- norms


@rule("multiply", "divide")
def root_mean_square(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x / sqrt(mean(x * x) + epsilon)  =  rms_norm(x, 1)
    (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)  =  layer_norm(x, 1)
    and with mean(x * x) - mean(x) ** 2 for mean((x - mean(x)) ** 2)"""
    for d, v in _over_root(n):
        known = _variance(v)
        if known and type_is(d, n) and _centred(d, known[1]) is known[0]:
            place = known[1][0]
            ones = _ones(g, d, place)
            if ones is not None and g.only_inside(n, known[0]):
                return g.call("layer_norm", known[0], ones, None, axis=place, epsilon=known[2])
        found = _mean_square(v)
        if not found or found[0] is not d or not type_is(d, n):
            continue
        _, axes, epsilon = found
        x = _centred(d, axes)
        ones = _ones(g, d, axes[0])
        if ones is None:
            return None
        if x is not None and g.only_inside(n, x):
            return g.call("layer_norm", x, ones, None, axis=axes[0], epsilon=epsilon)
        if x is None and g.only_inside(n, d):
            return g.call("rms_norm", d, ones, axis=axes[0], epsilon=epsilon)
    return None


def _centred(d: RelaxExpr, axes: tuple[int, ...]) -> RelaxExpr | None:
    """x of d = x - mean(x) over these axes."""
    if not is_op(d, "subtract"):
        return None
    x, m = d.args
    found = mean_of(m)
    return x if found and found[0] is x and found[1] == axes else None


@rule("add")
def layer_norm_of_moments(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x * f + (bias - mean(x) * f)   with f = scale / sqrt(mean((x - mean(x)) ** 2) + epsilon)
    =  layer_norm(x, scale, bias)"""
    for product, rest in (n.args, n.args[::-1]):
        if not is_op(product, "multiply") or not is_op(rest, "subtract"):
            continue
        bias, shift = rest.args
        if not is_op(shift, "multiply"):
            continue
        for x, f in (product.args, product.args[::-1]):
            found = _factor(x, f)
            mean = found and next((a for a in shift.args if a is not f), None)
            of = mean_of(mean) if found else None
            if not found or not of or of[0] is not x or of[1] != found[1]:
                continue
            scale, axes, epsilon = found
            if x is None or not (_fits(scale, x, axes[0]) and _fits(bias, x, axes[0])):
                continue
            if g.only_inside(n, x, scale, bias):
                return g.call("layer_norm", x, scale, bias, axis=axes[0], epsilon=epsilon)
    return None


def _factor(
    x: RelaxExpr | None, f: RelaxExpr | None
) -> tuple[RelaxExpr, tuple[int, ...], float] | None:
    """(scale, axes, epsilon) of f = scale / sqrt(variance of x + epsilon)."""
    if not is_op(f, "multiply"):
        return None
    for scale, root in (f.args, f.args[::-1]):
        v = _inverse_root(root)
        found = _mean_square(v) if v is not None else None
        if found and scale is not None and _centred(found[0], found[1]) is x:
            return scale, found[1], found[2]
    return None


def _fits(v: RelaxExpr | None, x: RelaxExpr, axis: int) -> bool:
    """Whether a known value is laid over the dimensions of x from `axis` on."""
    tail = dims(x)[axis:]
    if not isinstance(v, Constant | Var) or dtype_of(v) != dtype_of(x) or len(dims(v)) > len(tail):
        return False
    pairs = zip(reversed(dims(v)), reversed(tail), strict=False)
    return all(a is not None and a in (1, b) for a, b in pairs)


@rule("multiply")
def scale_of_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """norm(x, s) * c  =  norm(x, s * c)   without a bias, c over the normalised dimensions"""
    for y, c in (n.args, n.args[::-1]):
        if not is_op(y, "layer_norm", "rms_norm") or (len(y.args) > 2 and y.args[2] is not None):
            continue
        s, x = y.args[1], y.args[0]
        if x is None or not g.single(y) or not type_is(y, n) or not isinstance(s, Constant):
            continue
        axis = y.attrs["axis"] % tensor_type_of(x).rank
        if not _fits(c, x, axis):
            continue
        if isinstance(c, Constant):
            return g.again(y, x, g.constant(g.exact(s) * g.exact(c), dtype_of(x)), *y.args[2:])
        if np.all(s.data == 1):
            return g.again(y, x, c, *y.args[2:])
    return None


@rule("add")
def bias_of_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """layer_norm(x, s) + c  =  layer_norm(x, s, c)   for c over the normalised dimensions"""
    for y, c in (n.args, n.args[::-1]):
        if not is_op(y, "layer_norm") or not g.single(y) or not type_is(y, n):
            continue
        x, s, b = (*y.args, None)[:3]
        if x is None or not _fits(c, x, y.attrs["axis"] % tensor_type_of(x).rank):
            continue
        if b is None:
            return g.again(y, x, s, c)
        if isinstance(b, Constant) and isinstance(c, Constant):
            return g.again(y, x, s, g.constant(g.exact(b) + g.exact(c), dtype_of(x)))
    return None


def _normed_groups(x: RelaxExpr | None) -> tuple[RelaxExpr, int, float] | None:
    """(y, groups, epsilon) of a norm without scale and bias over the groups of y's channels.

    The norm is that of layers over [n, groups, rest], or that of instances.
    """
    inner = x.args[0] if is_op(x, "reshape") else None
    if not is_op(inner, "layer_norm", "instance_norm") or not is_op(inner.args[0], "reshape"):
        return None
    of, (scale, bias) = inner.args[0], (*inner.args[1:], None)[:2]
    shape, y = dims(of), of.args[0]
    plain = isinstance(scale, Constant) and bool(np.all(scale.data == 1)) and (
        bias is None or (isinstance(bias, Constant) and not np.any(bias.data))
    )  # fmt: skip
    if is_op(inner, "layer_norm") and (len(shape) != 3 or inner.attrs["axis"] % 3 != 2):
        return None
    if not plain or y is None or len(shape) < 3 or shape[1] is None or tensor_type_of(y).rank < 3:
        return None
    same = shape_of(y)[:2] == shape_of(x)[:2] and shape_of(y)[0] == shape_of(of)[0]
    return (y, shape[1], inner.attrs["epsilon"]) if same else None


def _of_channels(g: GraphRewriter, v: RelaxExpr | None, x: RelaxExpr) -> RelaxExpr | None:
    """A value that lies along dimension 1 of x, as a vector."""
    if v is None or dtype_of(v) != dtype_of(x):
        return None
    rank, channels = tensor_type_of(x).rank, dims(x)[1]
    place = len(dims(v)) - (rank - 1)
    if channels is None or place not in (0, 1):
        return None
    fits = all(e == (channels if d == place else 1) for d, e in enumerate(dims(v)))
    return g.call("reshape", v, shape=(channels,)) if fits else None


@rule("add")
def group_norm_of_parts(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """norm(x by groups) * scale + bias  =  group_norm(x, scale, bias)   for a scale and a bias per
    channel"""
    for product, bias in (n.args, n.args[::-1]):
        if not is_op(product, "multiply"):
            continue
        for y, scale in (product.args, product.args[::-1]):
            found = _normed_groups(y)
            if not found or y is None or not type_is(y, n):
                continue
            x, groups, epsilon = found
            vectors = [_of_channels(g, v, y) for v in (scale, bias)]
            if None in vectors or not g.only_inside(n, x, scale, bias):
                continue
            made = g.call("group_norm", x, *vectors, groups=groups, epsilon=epsilon)
            return made if type_is(made, n) else g.call("reshape", made, shape=shape_of(n))
    return None


@rule("cast")
def norm_in_float32(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """cast(norm(cast(x, float32), s), type of x)  =  norm(x, s)   for narrow floats: they are
    normalised in float32 anyway"""
    (y,) = n.args
    if not is_op(y, "rms_norm", "layer_norm", "softmax") or not g.single(y):
        return None
    x = y.args[0].args[0] if is_op(y.args[0], "cast") else None
    if x is None or dtype_of(y) != "float32" or dtype_of(x) not in ("float16", "bfloat16"):
        return None
    if not type_is(x, n) or not all(a is None or isinstance(a, Constant) for a in y.args[1:]):
        return None
    kept = [None if a is None else g.constant(g.exact(a), dtype_of(x)) for a in y.args[1:]
            if isinstance(a, Constant | None)]  # fmt: skip
    lossless = all(a is None or np.array_equal(a.data.astype(np.float32), b.data)  # type: ignore[union-attr]
                    for a, b in zip(kept, y.args[1:], strict=True))  # fmt: skip
    return g.again(y, x, *kept) if lossless else None


# ------------------------------------------------------------------------------------ softmax


@rule("divide", "multiply")
def softmax_spelled(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """exp(x - max(x)) / sum(exp(x - max(x)))  =  exp(x) / sum(exp(x))  =  softmax(x)"""
    e, total = n.args
    if is_op(n, "multiply"):
        if is_op(e, "reciprocal"):
            e, total = total, e
        total = total.args[0] if is_op(total, "reciprocal") else None
    found = _reduced(total, "sum") if total is not None else None
    if not found or found[0] is not e or not is_op(e, "exp") or len(found[1]) != 1:
        return None
    x = _unshifted(e.args[0], found[1])
    if x is None or not g.only_inside(n, x):
        return None
    return g.call("softmax", x, axis=found[1][0])


def _unshifted(x: RelaxExpr | None, axes: tuple[int, ...]) -> RelaxExpr | None:
    """x, or the y of x = y - max(y)."""
    if is_op(x, "subtract"):
        found = _reduced(x.args[1], "max")
        if found and found[0] is x.args[0] and found[1] == axes:
            return x.args[0]
    return x


@rule("log")
def log_of_softmax(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """log(softmax(x))  =  log_softmax(x)"""
    (y,) = n.args
    if not is_op(y, "softmax") or not g.single(y):
        return None
    return g.call("log_softmax", y.args[0], axis=y.attrs["axis"])


@rule("subtract")
def log_softmax_spelled(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x - log(sum(exp(x)))  =  log_softmax(x), also with x - max(x) for x"""
    x, shift = given(n)
    found = _reduced(shift, "reduce_log_sum_exp")
    if found is None and is_op(shift, "log"):
        total = _reduced(shift.args[0], "sum")
        power = total[0] if total else None
        if total and is_op(power, "exp") and power.args[0] is not None:
            found = (power.args[0], total[1])
    if not found or found[0] is not x or len(found[1]) != 1 or not type_is(x, n):
        return None
    y = _unshifted(x, found[1])
    if y is None or not g.only_inside(n, y):
        return None
    return g.call("log_softmax", y, axis=found[1][0])


def guarded_softmax(x: RelaxExpr | None) -> Call | None:
    """The softmax s of where(isnan(s), 0, s): rows in which every score is masked give 0."""
    if not is_op(x, "where") or scalar_of(x.args[1]) != 0.0 or not is_op(x.args[0], "isnan"):
        return None
    s = x.args[2]
    return s if is_op(s, "softmax") and x.args[0].args[0] is s and type_is(s, x) else None


@rule("where")
def guard_not_needed(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """where(isnan(s), 0, s)  =  s   for s = softmax(x + mask), where no row of the mask is -inf
    throughout; scores are taken to be numbers"""
    s = guarded_softmax(n)
    if s is None:
        return None
    x = s.args[0]
    terms = x.args if is_op(x, "add") else (x,)
    masks = [a for a in terms if a is not None and not is_op(strip_scale(a)[0], "matmul")]
    axis = s.attrs["axis"] % tensor_type_of(s).rank
    known = len(masks) < len(terms) and all(_row_open(m, axis, n) for m in masks)
    return s if known else None


def _row_open(m: RelaxExpr | None, axis: int, n: Call) -> bool:
    """Whether every row along `axis` is shown to have a number that is not -inf."""
    if isinstance(m, Constant):
        place = axis - tensor_type_of(n).rank + m.data.ndim
        finite = np.isfinite(m.data)
        return bool(np.all(np.any(finite, axis=place) if place >= 0 else finite))
    if is_op(m, "where"):
        return all(
            isinstance(a, Constant) and bool(np.all(np.isfinite(a.data))) for a in m.args[1:]
        )
    found = constant_operand(m) if is_op(m, "multiply") else None
    if found and is_op(found[0], "subtract", "cast", "add") and is_float(m):
        return bool(np.all(np.isfinite(found[1].data))) and _from_integers(found[0])
    return False


def _from_integers(x: RelaxExpr | None) -> bool:
    """Whether a value is made of integers and finite constants only, as 1 - cast(mask) is."""
    for _ in range(8):
        if isinstance(x, Constant):
            return bool(np.all(np.isfinite(x.data)))
        if is_op(x, "cast"):
            return not is_float(x.args[0])
        if is_op(x, "reshape", "broadcast_to", "negative"):
            x = x.args[0]
        elif is_op(x, "add", "subtract"):
            a, b = x.args
            if not isinstance(b, Constant):
                a, b = b, a
            if not isinstance(b, Constant) or not np.all(np.isfinite(b.data)):
                return False
            x = a
        else:
            return False
    return False


PATTERN_RULES = NORM_RULES + ACTIVATION_RULES
"""All patterns but attention."""


def recognize_patterns(mod: IRModule) -> IRModule:
    """Put norms, softmax and activations back together; simplifies on the way."""
    return apply_rules(mod, FOLD_RULES + PATTERN_RULES + SIMPLIFY_RULES, share=True)
