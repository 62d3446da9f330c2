"""SimplifyExpr: algebraic laws on Relay's operators; all else stays as it was written."""

from __future__ import annotations

import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.compose.common import array_of
from smelt.relax.nodes import Call, RelaxExpr, Tuple
from smelt.relax.transform.engine import GraphRewriter, RuleSet
from smelt.relax.transform.match import all_are, dims, dtype_of, is_float, rank_of, type_is
from smelt.transform import Pass

from ..dialect import RELAY, const, is_call, make
from .passes import rule_pass

SIMPLIFY_RULES = RuleSet(dialect=RELAY)
rule = SIMPLIFY_RULES.rule


def SimplifyExpr() -> Pass:
    """Neutral elements, moves that undo each other, chains of reshapes, transposes and casts."""
    return rule_pass("SimplifyExpr", SIMPLIFY_RULES)


@rule("add", "subtract", "multiply", "divide", "power")
def neutral(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x + 0  =  x - 0  =  x * 1  =  x / 1  =  x ** 1  =  x"""
    op = n.callee
    one = 0.0 if op in ("add", "subtract") else 1.0
    a, b = n.args
    if all_are(b, one) and type_is(a, n):
        return a
    return b if op in ("add", "multiply") and all_are(a, one) and type_is(b, n) else None


@rule("reshape")
def reshape_twice(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """reshape(reshape(x))  =  reshape(x);  reshape to the same shape  =  x"""
    x = n.args[0]
    if type_is(x, n):
        return x
    if is_call(x, "reshape", "squeeze", "expand_dims", "nn.batch_flatten") and None not in dims(n):
        return make("reshape", x.args[0], newshape=dims(n))
    return None


def _axes(n: Call) -> tuple[int, ...]:
    rank = rank_of(n)
    given = n.attrs["axes"]
    return tuple(range(rank))[::-1] if given is None else tuple([a % rank for a in given])


@rule("transpose")
def transpose_twice(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """transpose(transpose(x, p), q)  =  transpose(x, p[q]);  in the order it has  =  x"""
    x, axes = n.args[0], _axes(n)
    if axes == tuple(range(len(axes))):
        return x
    if is_call(x, "transpose"):
        inner = _axes(x)
        return make("transpose", x.args[0], axes=tuple([inner[a] for a in axes]))
    return None


@rule("layout_transform")
def layout_twice(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """layout_transform back and forth  =  x;  to the same layout  =  x"""
    x, a = n.args[0], n.attrs
    if a["src_layout"] == a["dst_layout"]:
        return x
    if not is_call(x, "layout_transform"):
        return None
    y, first = x.args[0], x.attrs["src_layout"]
    if x.attrs["dst_layout"] != a["src_layout"]:
        return None
    if first == a["dst_layout"]:
        return y
    plain = all(not any(c.isdigit() for c in lay) for lay in (first, a["dst_layout"]))
    if not plain:
        return None
    return make("layout_transform", y, src_layout=first, dst_layout=a["dst_layout"])


@rule("cast")
def cast_twice(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """cast to the type it has  =  x;  cast(cast(x))  =  cast(x) where the inner one keeps all"""
    x = n.args[0]
    if type_is(x, n):
        return x
    if is_call(x, "cast") and dt.holds(dtype_of(x), dtype_of(x.args[0])):
        return make("cast", x.args[0], dtype=n.attrs["dtype"])
    return None


@rule("squeeze", "expand_dims", "broadcast_to", "nn.batch_flatten")
def nothing_moved(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A change of shape that changes no shape, or undoes the one before  =  x"""
    x = n.args[0]
    if is_call(x, "reshape", "squeeze", "expand_dims") and type_is(x.args[0], n):
        return x.args[0]
    return x if type_is(x, n) else None


@rule("concatenate")
def concatenate_one(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """concatenate((x,))  =  x"""
    items = n.args[0].items if isinstance(n.args[0], Tuple) else ()
    return items[0] if len(items) == 1 else None


@rule("copy", "annotation.stop_fusion", "annotation.cast_hint")
def copied(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """copy(x)  =  x"""
    return n.args[0] if is_call(n, "copy") else None


@rule("multiply")
def scales_together(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """(x * a) * b  =  x * (a * b)   for constants a, b"""
    x, b = n.args
    if not is_call(x, "multiply") or not g.single(x) or not is_float(n):
        return None
    y, a = x.args
    first, second = array_of(a), array_of(b)
    if first is None or second is None:
        return None
    return make("multiply", y, const(first * second))


@rule("divide")
def divided_by_root(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x / sqrt(y)  =  x * rsqrt(y)"""
    x, y = n.args
    if is_call(y, "sqrt") and g.single(y):
        return make("multiply", x, make("rsqrt", y.args[0]))
    return None


def _number(x: RelaxExpr | None) -> float | None:
    """The one value that all elements of a constant have."""
    array = array_of(x)
    known = array is not None and array.size and all_are(x, array.flat[0])
    return float(array.flat[0]) if array is not None and known else None


@rule("minimum")
def clipped_above(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """minimum(maximum(x, a), b)  =  clip(x, a, b)   for numbers a <= b"""
    low = n.args[0]
    high = _number(n.args[1])
    if high is None or not is_call(low, "maximum"):
        return None
    below = _number(low.args[1])
    if below is None or below > high:
        return None
    return make("clip", low.args[0], a_min=below, a_max=high)


@rule("clip")
def clip_twice(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """clip(clip(x, a, b), c, d)  =  clip(x, max(a, c), min(b, d))   where these are in order"""
    x = n.args[0]
    if not is_call(x, "clip"):
        return None
    low = max(n.attrs["a_min"], x.attrs["a_min"])
    high = min(n.attrs["a_max"], x.attrs["a_max"])
    return make("clip", x.args[0], a_min=low, a_max=high) if low <= high else None


# ------------------------------------------------------------------------------------ DivToMul

DIVISION_RULES = RuleSet(dialect=RELAY)


def DivToMul() -> Pass:
    """Division by a constant becomes multiplication by its inverse; floats only."""
    return rule_pass("DivToMul", DIVISION_RULES)


@DIVISION_RULES.rule("divide")
def by_the_inverse(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x / c  =  x * (1 / c)   for a constant c of floats without a zero"""
    c = array_of(n.args[1])
    if c is None or not is_float(n) or bool(np.any(c == 0)):
        return None
    return make("multiply", n.args[0], const((1.0 / c.astype("float64")).astype(c.dtype)))
