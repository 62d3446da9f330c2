"""What is done to weights before, and to biases after they are quantized.

Equalisation and smoothing move scales between layers: the function stays the same, its numbers lie
closer together. Bias correction adds what rounded weights take away on average.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smelt.relax.graph import transform
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, call, constant, renewed_call
from smelt.relax.transform.match import is_op, rank_of

from .insert import Plan, bias_vector
from .points import Graph, Layer, layers_of
from .statistics import Array, Statistics

_SWEEPS = 10
_LEAST = 1e-8


def channel_of_operand(layer: Layer) -> int:
    """The dimension of a layer's other operand that it sums over."""
    if layer.call.callee != "matmul":
        return 1
    rank = rank_of(layer.x)
    if layer.weight_at:
        return rank - (2 if layer.call.attrs["transpose_a"] else 1)
    return rank - (1 if layer.call.attrs["transpose_b"] else 2)


def by_channels(layer: Layer, w: Array) -> Array:
    """Weights as [output channel, input channel, taps]; of groups the input channels of each."""
    rows = w if layer.axis == 0 else w.swapaxes(0, 1)
    return rows.reshape(rows.shape[0], rows.shape[1], -1)


def as_stored(layer: Layer, w: Array) -> Array:
    """What `by_channels` gave, in the order of the constant."""
    first, second, *taps = layer.weights.data.shape
    if layer.axis == 0:
        return w.reshape(first, second, *taps)
    return np.ascontiguousarray(w.reshape(second, first, *taps).swapaxes(0, 1))


def groups_of(layer: Layer) -> int:
    """The groups of a convolution."""
    return int(layer.call.attrs.get("groups", 1))


# ----------------------------------------------------------------------------- bias correction


def corrections(plan: Plan, found: Mapping[RelaxExpr, Statistics]) -> dict[str, Array]:
    """What to add to the bias of each layer, so that its sums keep their means.

    found  the means of each layer's operand, by channel
    """
    made: dict[str, Array] = {}
    for layer in plan.points.layers.values():
        if layer.axis is None or layer.call.callee == "conv_transpose":
            continue
        lost = plan.weights_of(layer).floats() - layer.weights.data
        sums = by_channels(layer, np.asarray(lost, np.float64)).sum(axis=2)
        means = found[layer.x].means.reshape(-1)
        groups = groups_of(layer)
        if groups > 1:
            each = means.reshape(groups, 1, -1)
            change = (sums.reshape(groups, -1, sums.shape[1]) * each).sum(axis=2).reshape(-1)
        else:
            change = sums @ means
        made[layer.name] = -change
    return made


# -------------------------------------------------------------------------------- equalisation


def equalize(f: Function) -> tuple[Function, int]:
    """A function in which neighbouring layers have weights of like size in each channel, and how
    many pairs of layers there are.

    Between two layers of a pair stands at most a ReLU, which scales with its operand.
    """
    graph = Graph(f)
    layers = layers_of(f)
    by_x = {v.x: v for v in layers.values()}
    pairs = []
    for a in layers.values():
        end = a.bias or a.call
        after = graph.next_of(end)
        end = after if is_op(after, "relu", "leaky_relu") else end
        b = by_x.get(end)
        if b is not None and graph.next_of(end) is b.call and _pairs(a, b):
            pairs.append((a, b))
    new = {n: v.weights.data.astype(np.float64) for n, v in layers.items()}
    biases = {n: bias_vector(v) for n, v in layers.items()}
    for _ in range(_SWEEPS if pairs else 0):
        for a, b in pairs:
            _balance(a, b, new, biases)
    return _with_weights(f, layers, new, biases), len(pairs)


def _pairs(a: Layer, b: Layer) -> bool:
    """Whether output channels of one layer are input channels of the next one."""
    plain = all(v.axis is not None and v.call.callee != "conv_transpose" for v in (a, b))
    if not plain or rank_of(a.call) != rank_of(b.x):
        return False
    if a.channel != channel_of_operand(b):
        return False
    count = by_channels(b, b.weights.data).shape
    return groups_of(b) == 1 or (count[1] == 1 and groups_of(b) == count[0])


def _balance(a: Layer, b: Layer, new: dict[str, Array], biases: dict[str, Array | None]) -> None:
    """Give each channel between two layers the same largest weight on both sides."""
    first, second = by_channels(a, new[a.name]), by_channels(b, new[b.name])
    depthwise = groups_of(b) > 1
    have = np.abs(first).max(axis=(1, 2))
    want = np.abs(second).max(axis=(1, 2) if depthwise else (0, 2))
    usable = (have > _LEAST) & (want > _LEAST)
    s = np.where(usable, np.sqrt(have / np.where(usable, want, 1)), 1.0)
    new[a.name] = as_stored(a, first / s[:, None, None])
    by = s[:, None, None] if depthwise else s[None, :, None]
    new[b.name] = as_stored(b, second * by)
    held = biases[a.name]
    biases[a.name] = None if held is None else held / s


def _with_weights(
    f: Function, layers: Mapping[str, Layer], new: Mapping[str, Array],
    biases: Mapping[str, Array | None],
) -> Function:  # fmt: skip
    """A function with other weights and biases."""
    products = {v.call: v for v in layers.values()}
    adds = {v.bias: v for v in layers.values() if v.bias is not None}

    def put(old: RelaxExpr, fresh: RelaxExpr) -> RelaxExpr | None:
        layer = products.get(old) or adds.get(old)  # type: ignore[call-overload]
        if layer is None:
            return None
        assert isinstance(fresh, Call)
        if old is layer.call:
            value, held = new[layer.name], layer.weights
        else:
            b = biases[layer.name]
            assert b is not None
            value = b.reshape(-1, *[1] * (rank_of(layer.call) - layer.channel - 1))
            held = next(c for c in fresh.args if isinstance(c, Constant))
        made = constant(np.ascontiguousarray(value, np.float32), held.name)
        return renewed_call(fresh, *[made if c is held else c for c in fresh.args])

    return transform(f, put)  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------- smoothing

_NORMS = ("layer_norm", "rms_norm")


def norms_before(f: Function) -> dict[RelaxExpr, list[Layer]]:
    """The normalisations whose result goes into products of matrices, and these."""
    found: dict[RelaxExpr, list[Layer]] = {}
    for layer in layers_of(f).values():
        norm = is_op(layer.x, *_NORMS) and isinstance(layer.x.args[1], Constant)
        if norm and layer.call.callee == "matmul" and layer.weight_at and layer.axis is not None:
            found.setdefault(layer.x, []).append(layer)
    return {n: own for n, own in found.items() if channel_of_operand(own[0]) == rank_of(n) - 1}


def smooth(f: Function, largest: Mapping[RelaxExpr, Array], share: float) -> Function:
    """A function whose products get operands with no channel far larger than the others.

    Each channel is divided by largest ** share / largest weight ** (1 - share) behind its
    normalisation, and its weights are multiplied by it.

    largest  of each result of a normalisation the largest magnitude in each channel
    """
    graph = Graph(f)
    norms = norms_before(f)
    factor: dict[RelaxExpr, Array] = {}
    for norm, own in norms.items():
        weights = np.max([np.abs(by_channels(v, v.weights.data)).max(axis=(0, 2)) for v in own], 0)
        size = np.maximum(largest[norm].astype(np.float64), _LEAST)
        factor[norm] = size**share / np.maximum(weights, _LEAST) ** (1 - share)
        factor[norm] = np.maximum(factor[norm], 1e-5)
    owners = {v.call: norm for norm, own in norms.items() for v in own}
    layers = {v.call: v for own in norms.values() for v in own}
    inside = {n for n, own in norms.items() if len(graph.users[n]) == len(own)}
    divided: dict[RelaxExpr, RelaxExpr] = {}

    def put(old: RelaxExpr, fresh: RelaxExpr) -> RelaxExpr | None:
        if old in inside and old not in graph.kept:
            assert isinstance(fresh, Call)
            return _divide_norm(fresh, factor[old])
        norm = owners.get(old)  # type: ignore[call-overload]
        if norm is None:
            return None
        assert isinstance(fresh, Call)
        layer = layers[old]  # type: ignore[index]
        w = by_channels(layer, layer.weights.data) * factor[norm][None, :, None]
        x = fresh.args[0]
        if norm not in inside or norm in graph.kept:
            by = constant((1 / factor[norm]).astype(np.float32))
            x = divided.setdefault(norm, call("multiply", x, by))
        stored = constant(as_stored(layer, w).astype(np.float32), layer.weights.name)
        return renewed_call(fresh, x, stored)

    return transform(f, put)  # type: ignore[no-any-return]


def _divide_norm(norm: Call, by: Array) -> Call:
    """A normalisation whose scale and shift are divided."""
    x, *given = norm.args
    made = []
    for c in given:
        assert isinstance(c, Constant)
        made.append(constant((c.data / by).astype(np.float32), c.name))
    return renewed_call(norm, x, *made)
