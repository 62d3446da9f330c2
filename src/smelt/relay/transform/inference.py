"""SimplifyInference: what only training needs goes; normalisations become arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.relax.nodes import Call, RelaxExpr, Tuple
from smelt.relax.transform.engine import GraphRewriter, RuleSet
from smelt.relax.transform.match import dims, dtype_of, given, rank_of
from smelt.transform import Pass

from ..dialect import RELAY, make
from .passes import rule_pass

INFERENCE_RULES = RuleSet(dialect=RELAY)
rule = INFERENCE_RULES.rule


def SimplifyInference() -> Pass:
    """Batch normalisation becomes a product and a sum, dropout its operand; other norms arithmetic.

    What is computed of constants alone stands as calls; FoldConstant computes it.
    """
    return rule_pass("SimplifyInference", INFERENCE_RULES)


def along(vector: RelaxExpr, axis: int, rank: int) -> RelaxExpr:
    """A vector as it broadcasts along an axis of a tensor."""
    behind = rank - 1 - axis % rank
    return make("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector


@rule("nn.batch_norm")
def batch_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """batch_norm(x, gamma, beta, mean, var)  =  x * scale + shift

    scale = gamma / sqrt(var + epsilon),  shift = beta - mean * scale
    """
    x, gamma, beta, mean, var = given(n)
    root = make("sqrt", make("add", var, n.attrs["epsilon"]))
    scale: RelaxExpr = make("divide", 1.0, root)
    if n.attrs["scale"]:
        scale = make("multiply", scale, gamma)
    shift: RelaxExpr = make("multiply", make("negative", mean), scale)
    if n.attrs["center"]:
        shift = make("add", shift, beta)
    axis, rank = n.attrs["axis"], rank_of(x)
    y = make("multiply", x, along(scale, axis, rank))
    return Tuple((make("add", y, along(shift, axis, rank)), mean, var))


@rule("nn.dropout")
def dropout(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """dropout(x)  =  (x, ones)"""
    x = n.args[0]
    if x is None or None in dims(x):
        return None
    return Tuple((x, make("ones", shape=dims(x), dtype=dtype_of(x))))


def normalized(x: RelaxExpr, axes: Sequence[int], epsilon: float) -> RelaxExpr:
    """x less its mean over axes, over the root of its variance there."""
    apart = make("subtract", x, make("mean", x, axis=tuple(axes), keepdims=True))
    var = make("mean", make("multiply", apart, apart), axis=tuple(axes), keepdims=True)
    return make("multiply", apart, make("rsqrt", make("add", var, epsilon)))


def _affine(n: Call, y: RelaxExpr, axis: int) -> RelaxExpr:
    """y * gamma + beta, as far as the attributes ask for it."""
    rank = rank_of(y)
    if n.attrs["scale"]:
        y = make("multiply", y, along(given(n)[1], axis, rank))
    if n.attrs["center"]:
        y = make("add", y, along(given(n)[2], axis, rank))
    return y


@rule("nn.layer_norm")
def layer_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """layer_norm(x, gamma, beta)  =  normalized(x) * gamma + beta   over one axis"""
    x = given(n)[0]
    axis = n.attrs["axis"] % rank_of(x)
    return _affine(n, normalized(x, (axis,), n.attrs["epsilon"]), axis)


@rule("nn.instance_norm")
def instance_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """instance_norm(x, gamma, beta)  =  normalized(x) * gamma + beta   over all but two axes"""
    x = given(n)[0]
    axis = n.attrs["axis"] % rank_of(x)
    axes = [d for d in range(1, rank_of(x)) if d != axis]
    return _affine(n, normalized(x, axes, n.attrs["epsilon"]), axis)


@rule("nn.group_norm")
def group_norm(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """group_norm(x, gamma, beta)  =  normalized(x in groups) * gamma + beta"""
    x = given(n)[0]
    shape, axis = dims(x), n.attrs["axis"] % rank_of(x)
    if None in shape:
        return None
    groups = n.attrs["num_groups"]
    parted = (*shape[:axis], groups, (shape[axis] or 0) // groups, *shape[axis + 1 :])
    axes = [d for d in range(1, len(parted)) if d != axis]
    y = normalized(make("reshape", x, newshape=parted), axes, n.attrs["epsilon"])
    return _affine(n, make("reshape", y, newshape=shape), axis)


@rule("nn.l2_normalize")
def l2_normalize(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """l2_normalize(x)  =  x / sqrt(max(sum of x * x, eps))"""
    x = given(n)[0]
    total = make("sum", make("multiply", x, x), axis=n.attrs["axis"], keepdims=True)
    return make("divide", x, make("sqrt", make("maximum", total, n.attrs["eps"])))
