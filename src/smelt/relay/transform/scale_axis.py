"""Scales per channel become part of weights: FoldScaleAxis, forwards and backwards.

The weights are multiplied by an expression; FoldConstant computes it where they are constants.
"""

from __future__ import annotations

from smelt.relax.compose.common import array_of
from smelt.relax.nodes import Call, Constant, RelaxExpr, renewed_call
from smelt.relax.transform.engine import GraphRewriter, RuleSet
from smelt.relax.transform.match import dims, given, is_float, rank_of
from smelt.transform import Pass

from ..dialect import RELAY, const, is_call, make
from .inference import along
from .passes import rule_pass

BACKWARD, FORWARD = RuleSet(dialect=RELAY), RuleSet(dialect=RELAY)
CONVS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
POSITIVE = ("nn.relu", "nn.leaky_relu", "nn.max_pool2d")
"""Operators through which a positive factor may be drawn."""


def FoldScaleAxis() -> Pass:
    """Scales behind, then in front of convolutions and dense layers go into their weights."""
    return rule_pass("FoldScaleAxis", BACKWARD, FORWARD)


def BackwardFoldScaleAxis() -> Pass:
    """conv(x, w) * c  becomes  conv(x, w * c), also through a bias, an addition and relu."""
    return rule_pass("BackwardFoldScaleAxis", BACKWARD)


def ForwardFoldScaleAxis() -> Pass:
    """conv(x * c, w)  becomes  conv(x, w * c), also through relu and max_pool2d."""
    return rule_pass("ForwardFoldScaleAxis", FORWARD)


def channel_vector(c: RelaxExpr | None, x: RelaxExpr, axis: int) -> Constant | None:
    """What a constant is along one axis of a tensor that it broadcasts to: a vector.

    None where it is no constant, varies along another axis, or makes the tensor larger.
    """
    array = array_of(c)
    rank = rank_of(x)
    if array is None or array.ndim > rank or dims(x)[axis] is None:
        return None
    count = dims(x)[axis] or 0
    if array.size == 1:
        return const(array.reshape(1).repeat(count))
    place = axis - rank + array.ndim
    if place < 0 or array.shape[place] != array.size or array.size != count:
        return None
    return const(array.reshape(-1))


def _positive(vector: RelaxExpr) -> bool:
    array = array_of(vector)
    return array is not None and bool((array > 0).all())


def _channel(n: Call) -> int:
    """The axis of the result's channels."""
    if is_call(n, "nn.dense"):
        return rank_of(n) - 1
    layout: str = n.attrs["out_layout"] or n.attrs["data_layout"]
    return layout.index("C")


def _weight_scaled(n: Call, vector: RelaxExpr, letter: str) -> RelaxExpr | None:
    """The weights times a vector along output ("O") or input ("I") channels."""
    w = given(n)[1]
    if is_call(n, "nn.dense"):
        return make("multiply", w, along(vector, 0 if letter == "O" else 1, 2))
    layout, groups = n.attrs["kernel_layout"], n.attrs["groups"]
    if any(c.isdigit() for c in layout):
        return None
    if letter == "I" and groups > 1:
        array = array_of(vector)
        axis_o, axis_i = layout.index("O"), layout.index("I")
        if array is None or dims(w)[axis_i] != 1 or groups != array.size:
            return None
        per = (dims(w)[axis_o] or 0) // groups
        return make("multiply", w, along(const(array.repeat(per)), axis_o, rank_of(w)))
    return make("multiply", w, along(vector, layout.index(letter), rank_of(w)))


# -------------------------------------------------------------------------------- backwards


@BACKWARD.rule("multiply")
def scale_behind(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """f(conv(x, w)) * c  =  f(conv(x, w * c))"""
    if not is_float(n):
        return None
    for x, c in (n.args, n.args[::-1]):
        if array_of(c) is None or x is None or x.type is not n.type:
            continue
        axis = _source_channel(x)
        vector = None if axis is None else channel_vector(c, x, axis)
        if vector is not None:
            made = _scaled(g, x, vector, axis or 0)
            if made is not None:
                return made
    return None


def _source_channel(x: RelaxExpr) -> int | None:
    """The channel axis of the product that a value is computed from."""
    for _ in range(100):
        if not isinstance(x, Call):
            return None
        if is_call(x, *CONVS, "nn.dense"):
            return _channel(x)
        if not is_call(x, "nn.bias_add", "add", *POSITIVE):
            return None
        parts = [a for a in x.args if isinstance(a, Call)]
        if not parts:
            return None
        x = parts[0]
    return None


def _scaled(g: GraphRewriter, x: RelaxExpr, c: RelaxExpr, axis: int) -> RelaxExpr | None:
    """A value times a vector along an axis, with the factor in some weights; None: no way."""
    if not isinstance(x, Call) or not g.single(x):
        return None
    if is_call(x, *CONVS, "nn.dense"):
        if _channel(x) != axis:
            return None
        w = _weight_scaled(x, c, "O")
        return None if w is None else renewed_call(x, x.args[0], w)
    if is_call(x, "nn.bias_add") and x.attrs["axis"] % rank_of(x) == axis:
        y = _scaled(g, given(x)[0], c, axis)
        return None if y is None else renewed_call(x, y, make("multiply", x.args[1], c))
    if _commutes(x, axis) and _positive(c):
        y = _scaled(g, given(x)[0], c, axis)
        return None if y is None else renewed_call(x, y)
    if is_call(x, "add"):
        made = []
        for a in given(x):
            y = _term_scaled(g, a, x, c, axis)
            if y is None:
                return None
            made.append(y)
        return renewed_call(x, *made)
    return None


def _commutes(x: Call, axis: int) -> bool:
    """Whether positive factors along an axis may be drawn through an operator."""
    pool = is_call(x, "nn.max_pool2d") and x.attrs["layout"].index("C") == axis
    return pool or is_call(x, "nn.relu", "nn.leaky_relu")


def _term_scaled(
    g: GraphRewriter, a: RelaxExpr, whole: Call, c: RelaxExpr, axis: int
) -> RelaxExpr | None:
    """One term of a sum times a vector: a constant along the channels, or a product."""
    known = channel_vector(a, whole, axis)
    if known is not None:
        product = array_of(known) * array_of(c)  # type: ignore[operator]
        return along(const(product), axis, rank_of(whole))
    return _scaled(g, a, c, axis) if a.type is whole.type else None


# --------------------------------------------------------------------------------- forwards


@FORWARD.rule(*CONVS, "nn.dense")
def scale_in_front(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(f(x * c), w)  =  conv(f(x), w * c)"""
    x = given(n)[0]
    if not is_float(n):
        return None
    axis = rank_of(x) - 1 if is_call(n, "nn.dense") else n.attrs["data_layout"].index("C")
    found = _without_scale(g, x, axis, False)
    if found is None:
        return None
    plain, vector = found
    w = _weight_scaled(n, vector, "I")
    return None if w is None else renewed_call(n, plain, w)


def _without_scale(
    g: GraphRewriter, x: RelaxExpr, axis: int, positive: bool
) -> tuple[RelaxExpr, RelaxExpr] | None:
    """(a value, the vector that x is it times); positive: only positive factors count."""
    if not isinstance(x, Call) or not g.single(x):
        return None
    if is_call(x, "multiply"):
        for y, c in (x.args, x.args[::-1]):
            if y is None or y.type is not x.type:
                continue
            vector = channel_vector(c, x, axis)
            if vector is not None and (_positive(vector) or not positive):
                return y, vector
        return None
    if not _commutes(x, axis):
        return None
    found = _without_scale(g, given(x)[0], axis, True)
    return None if found is None else (renewed_call(x, found[0]), found[1])
