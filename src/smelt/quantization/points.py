"""Which values of a model are worth being integers.

Layers are products with constant weights. Their operands are quantized, and so are results of
convolutions and what elementwise work, pools and moves make of quantized values, as long as this
leads to another layer. What stands between a product and its activation is not: the sums of a
layer are rounded once. Everything else stays in floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from smelt.ir.node import ordered
from smelt.relax.graph import Leaders, operands, users_of
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Tuple
from smelt.relax.transform.fold_scale import PRODUCTS, vector_along
from smelt.relax.transform.match import dims, dtype_of, is_op, rank_of

MOVES = ("max_pool", "adaptive_max_pool", "reshape", "transpose", "squeeze", "expand_dims",
         "concat", "strided_slice", "flip", "depth_to_space", "space_to_depth", "broadcast_to",
         "tile", "gather", "pad")  # fmt: skip
"""Results are numbers of the operands: they share one range."""

WORK = ("add", "subtract", "multiply", "minimum", "maximum", "relu", "clip", "leaky_relu", "prelu",
        "elu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish", "silu", "gelu", "mish", "mean",
        "avg_pool", "adaptive_avg_pool", "resize")  # fmt: skip
"""Operators whose results have a range of their own."""

_LARGE = 1 << 16
"""Tables of fewer bytes stay in floats."""

_ACTIVATIONS = ("relu", "clip")
"""What becomes a part of the layer before it."""


@dataclass(frozen=True)
class Layer:
    """A product with constant weights, and what is computed of its sums before they are rounded.

    name     the node's name, or else one of its weights; unique
    call     the product
    weights  the constant
    x        the other operand
    bias     an add of a constant vector right behind it, if there is one
    result   the last of what belongs to the layer: the bias and an activation
    """

    name: str
    call: Call
    weights: Constant
    x: RelaxExpr
    bias: Call | None
    result: RelaxExpr

    @property
    def weight_at(self) -> int:
        """Which operand the weights are."""
        return 1 if self.call.args[1] is self.weights else 0

    @property
    def channel(self) -> int:
        """The dimension of the result that output channels are."""
        if self.call.callee != "matmul":
            return 1
        return rank_of(self.call) - (1 if self.weight_at == 1 else 2)

    @property
    def axis(self) -> int | None:
        """The dimension of the weights that output channels are; None: they are not one of them."""
        name, w = self.call.callee, self.weights.data
        if name == "matmul":
            if w.ndim != 2:
                return None
            turned = self.call.attrs["transpose_b" if self.weight_at else "transpose_a"]
            return (0 if turned else 1) if self.weight_at else (1 if turned else 0)
        if name == "conv_transpose":
            return 1 if self.call.attrs["groups"] == 1 else None
        return 0


@dataclass
class Points:
    """Where a function is quantized.

    layers   by name
    values   every value that is quantized, and for the sake of which layers
    groups   of each of them the one that stands for all that share its range
    takers   operators that take quantized operands
    makers   values whose every user takes them quantized: nothing else of them is kept
    moved    values that are numbers of other ones, which share their range
    """

    layers: dict[str, Layer]
    values: dict[RelaxExpr, frozenset[str]]
    groups: Leaders
    takers: set[RelaxExpr]
    makers: set[RelaxExpr]
    moved: set[RelaxExpr]

    def takes(self, user: RelaxExpr, value: RelaxExpr) -> bool:
        """Whether an operator takes a value as integers."""
        return value in self.values and (value in self.makers or user in self.takers)


class Graph:
    """A function's own values and their users."""

    def __init__(self, f: Function) -> None:
        self.order: list[RelaxExpr] = list(ordered([f.body], operands))
        self.users = users_of(self.order, operands)
        ends = f.body.items if isinstance(f.body, Tuple) else (f.body,)
        self.results = set(ends)
        inner = Counter(v for n in self.order for v in n.children() if v not in operands(n))
        self.kept = self.results | {v for v in inner if isinstance(v, RelaxExpr)}

    def next_of(self, n: RelaxExpr) -> RelaxExpr | None:
        """The only user of a value that nothing else needs."""
        users = self.users.get(n, ())
        return users[0] if len(users) == 1 and n not in self.kept else None

    def behind(self, n: RelaxExpr) -> RelaxExpr:
        """The activation behind a value, or itself."""
        after = self.next_of(n)
        while is_op(after, *_ACTIVATIONS):
            n, after = after, self.next_of(after)
        return n


def layers_of(f: Function) -> dict[str, Layer]:
    """The layers of a function, by unique names."""
    graph = Graph(f)
    return {layer.name: layer for layer in _layers(graph)}


def find_points(f: Function, keep: Collection[str] = ()) -> Points:
    """Where a function is quantized.

    keep  the names of layers that stay in floats
    """
    graph = Graph(f)
    layers = {layer.name: layer for layer in _layers(graph) if layer.name not in keep}
    wanted = _wanted(graph, layers)
    points = Points(layers, wanted, Leaders(), {v.call for v in layers.values()}, set(), set())
    points.groups.update({v: v for v in wanted})
    for layer in layers.values():
        if layer.result in wanted:
            points.makers.add(layer.result)
    for n, acts, end in _region(graph, wanted):
        points.takers.add(n)
        points.makers.add(end)
        if n.callee in MOVES:
            points.moved.add(end)
            for v in acts:
                points.groups[points.groups.find(v)] = points.groups.find(end)
    return points


def is_activation(v: RelaxExpr | None) -> bool:
    """Whether a value is a tensor of floats that is not known yet."""
    return v is not None and not isinstance(v, Constant) and dtype_of(v) == "float32"


def tables_of(f: Function) -> list[Constant]:
    """The large tables of which rows are gathered: embeddings."""
    found = []
    for n in Graph(f).order:
        table = n.args[0] if is_op(n, "gather") and n.attrs["axis"] == 0 else None
        if not isinstance(table, Constant) or dtype_of(table) != "float32":
            continue
        if table.data.ndim == 2 and table.data.nbytes >= _LARGE:
            found.append(table)
    return found


# ------------------------------------------------------------------------------------- layers


def _layers(graph: Graph) -> Iterator[Layer]:
    """Every product with constant weights."""
    used: Counter[str] = Counter()
    for n in graph.order:
        if not is_op(n, *PRODUCTS) or dtype_of(n) != "float32" or n.attrs["out_dtype"]:
            continue
        a, b = n.args[:2]
        x, w = (a, b) if isinstance(b, Constant) else (b, a)
        if not isinstance(w, Constant) or not is_activation(x) or dtype_of(w) != "float32":
            continue
        if x is a or n.callee == "matmul":
            assert x is not None
            yield _layer(graph, n, w, x, used)


def _layer(graph: Graph, n: Call, w: Constant, x: RelaxExpr, used: Counter[str]) -> Layer:
    own = "" if n.name.isdigit() else n.name  # some formats number nodes
    name = own or w.name or n.callee
    used[name] += 1
    name = name if used[name] == 1 else f"{name}_{used[name]}"
    plain = Layer(name, n, w, x, None, n)
    after = graph.next_of(n)
    bias = after if after is not None and bias_of(plain, after) is not None else None
    assert bias is None or isinstance(bias, Call)
    return Layer(name, n, w, x, bias, graph.behind(bias or n))


def bias_of(layer: Layer, n: RelaxExpr) -> Constant | None:
    """The vector that an operator adds to each channel of a layer's sums; None: it does not."""
    if not is_op(n, "add") or dims(n) != dims(layer.call):
        return None
    b = next((a for a in n.args if isinstance(a, Constant)), None)
    count = dims(layer.call)[layer.channel]
    if b is None or count is None or layer.axis is None:
        return None
    v = vector_along(b.data, rank_of(n), layer.channel)
    return b if v is not None and v.size == count else None


# ------------------------------------------------------------------------------------- values


def _wanted(graph: Graph, layers: dict[str, Layer]) -> dict[RelaxExpr, frozenset[str]]:
    """The values that are quantized, in order, and for which layers."""
    found: dict[RelaxExpr, frozenset[str]] = {}

    def want(v: RelaxExpr, names: Iterable[str]) -> None:
        found[v] = found.get(v, frozenset()) | frozenset(names)

    for layer in layers.values():
        want(layer.x, [layer.name])
        if layer.call.callee != "matmul":
            want(layer.result, [layer.name])
    for _, acts, end in _candidates(graph):
        if all(v in found for v in acts):
            want(end, [name for v in acts for name in found[v]])
    useful: set[RelaxExpr] = {layer.x for layer in layers.values()}
    for _, acts, end in reversed(list(_region(graph, found))):
        if end in useful:
            useful.update(acts)
    return {n: found[n] for n in graph.order if n in found and n in useful}


def _candidates(graph: Graph) -> Iterator[tuple[Call, list[RelaxExpr], RelaxExpr]]:
    """Operators that may work on quantized numbers, their operands, and what they end in."""
    for n in graph.order:
        if not is_op(n, *MOVES, *WORK) or dtype_of(n) != "float32":
            continue
        acts = [v for v in operands(n) if is_activation(v)]
        if n.callee == "gather":
            acts = [v for v in acts if v is n.args[0]]
        if not acts or (n.callee == "pad" and n.attrs["value"] != 0.0):
            continue
        shares = n.callee in MOVES or is_op(n, *_ACTIVATIONS)
        yield n, acts, n if shares else graph.behind(n)


def _region(
    graph: Graph, wanted: Collection[RelaxExpr]
) -> Iterator[tuple[Call, list[RelaxExpr], RelaxExpr]]:
    """The candidates whose operands and result are quantized."""
    for n, acts, end in _candidates(graph):
        if end in wanted and all(v in wanted for v in acts):
            yield n, acts, end
