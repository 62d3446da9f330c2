"""Physical layouts: the order in memory of every kernel's result, chosen over the whole graph.

Images are kept channels-last, so that convolutions read pixels as rows of a matrix and vectors run
over channels, whatever their number. Elementwise work keeps its operand's order. Another order, or
a copy, is taken where a view, an external function or a result of the model wants it: `price` says
which costs less.

After the pass a call of a kernel says the order of its results (attribute layout, outermost
dimension first; none: row-major), every reshape, transposition or slice that is left in "main" is a
view that costs nothing, and every result of "main" stands alone in memory, row-major.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, const
from smelt.ir.module import IRModule
from smelt.ir.text import fresh_name
from smelt.ir.types import TensorType, TupleType
from smelt.relax.compose.common import items_of
from smelt.relax.graph import function_of, is_foreign
from smelt.relax.nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    tensor_type_of,
    tensor_types,
    values,
)
from smelt.relax.shapes import sizes_of_parameters
from smelt.relax.views import (
    VIEW_NAMES,
    View,
    dense,
    dense_in_order,
    is_dense,
    transpose_axes,
    view_of,
)
from smelt.tir.facts import analyzer_of
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Op

COPIED = "copy"
"""The name of kernels that only copy."""
LAYOUT = "layout"
"""The attribute of a call: per result the dimensions in memory, outermost first."""

Order = tuple[int, ...]

_PIXELS = 64
"""Those of an image that fill vectors well enough, where rows are walked as one."""
_POOLS = ("max_pool", "avg_pool")
_ANY_ORDER = ("batch_norm", "depth_to_space", "instance_norm", "lrn", "space_to_depth")
_CHANNELS = 16
"""Channels from which on tiles are turned faster where these stand side by side."""


# ------------------------------------------------------------------------------------- prices


def price(group: Function, natural: Order, order: Order) -> float:
    """What it costs that a kernel writes its result in an order, in copies of that result.

    natural  the order that it writes without effort

    Measured: pooling, and convolutions whose window is one pixel of enough, take about what a copy
    does (0.6 to 1.2), as neighbouring pixels fill a vector; but where a mean leaves out what is
    padded, much more. Larger windows lose more than a copy by the edges of padded rows, by larger
    steps, and as Winograd's tiles want channels side by side (1.2 to 4.6 times; for 3 channels
    about 1): so do instructions that sum products of bytes. Groups share no load (10 times).
    Elementwise work and reductions write anywhere.
    """
    if order == natural:
        return 0.0
    over = [v for v in _calls(group) if _over_channels(v)]
    if all(map(_repeats, over)):
        return 0.5
    windows = [v for v in over if v.callee != "batch_norm"]
    return max([_window_price(v) for v in windows], default=6.0)


def _window_price(v: Call) -> float:
    """The same for one operator over channels."""
    if v.callee in _POOLS:
        return 0.9 if v.callee == "max_pool" or not any(v.attrs["pads"] or ()) else 6.0
    if v.callee != "conv2d":
        return 6.0
    if v.attrs["groups"] != 1 and not _is_batched_product(v):
        return 10.0
    sizes = [value_of(e) for e in tensor_type_of(v).shape[2:]]
    many = None not in sizes and prod([n or 0 for n in sizes]) >= _PIXELS
    return 0.9 if many and _is_one_pixel(v) else 6.0


def _of_bytes(v: Call) -> bool:
    """Whether a convolution is of 8-bit integers."""
    dtype = tensor_type_of(v.args[0]).dtype
    return dt.is_int(dtype) and dt.bits(dtype) == 8


COPY = 1.0
"""The price of a copy."""


def _is_one_pixel(v: Call) -> bool:
    """Whether a convolution's window is one, and moves over the image and nothing else; of floats,
    whose pixels may fill vectors."""
    filters = [value_of(e) for e in tensor_type_of(v.args[1]).shape[2:]]
    one = {1, *filters, *(v.attrs["strides"] or ())} == {1}
    return one and not any(v.attrs["pads"] or ()) and not _of_bytes(v)


def _is_batched_product(v: Call) -> bool:
    """Whether a convolution in groups multiplies pixels as they stand: its window is one of them,
    and groups have several channels on both sides."""
    if v.callee != "conv2d":
        return False
    outputs, inputs, *_ = [value_of(e) for e in tensor_type_of(v.args[1]).shape]
    return inputs != 1 and outputs != v.attrs["groups"] and _is_one_pixel(v)


def _in_tiles(v: Call) -> bool:
    """Whether a convolution has an algorithm that turns tiles of the image, all channels at a time,
    and enough of these to fill vectors."""
    if not isinstance(v.op, Op) or v.callee != "conv2d" or _of_bytes(v):
        return False
    types = [None if a is None else tensor_type_of(a) for a in v.args]
    fits = any(b.when(types, v.attrs) for b in v.op.bodies if b.name.startswith("winograd"))
    return fits and (value_of(tensor_type_of(v.args[0]).shape[1]) or 0) >= _CHANNELS


def keeps_channels_last(group: Function) -> bool:
    """Whether a kernel is one that runs over channels: convolution, pooling and their like. Others
    over channels keep their operand's order."""
    return any(_over_channels(v) and not (_repeats(v) or _in_any_order(v)) for v in _calls(group))


def _in_any_order(v: Call) -> bool:
    """Whether an operator over channels is as fast in rows as with channels side by side, and a
    copy is as much as the operator itself: pooling by single steps, or of windows that share
    nothing; normalisation, moved blocks."""
    if v.callee in _POOLS:
        kernel = v.attrs["kernel"]
        steps = zip(v.attrs["strides"] or (1,) * len(kernel), kernel, strict=True)
        return all(s == 1 or s >= k for s, k in steps)
    return v.callee in _ANY_ORDER


def _over_channels(v: Call) -> bool:
    return isinstance(v.op, Op) and v.op.channels_last


def _repeats(v: Call) -> bool:
    """Whether pixels are only repeated: as fast in any order, so that of the operand stays."""
    return v.callee == "resize" and v.attrs["mode"] == "nearest"


@lru_cache(256)
def _calls(group: Function) -> tuple[Call, ...]:
    """The operators of a kernel."""
    return tuple([v for v in values(group.body) if isinstance(v, Call) and isinstance(v.op, Op)])


def _channel_operands(group: Function) -> list[int]:
    """Parameters that a kernel reads along channels, a vector at a time.

    Windows that slide over each channel alone: pooling and depthwise convolution. Of those over
    all channels Winograd's: a copy is less than what it saves (0.6 to 0.9 of the time with it).
    """
    read = [
        v.args[0] for v in _calls(group)
        if (v.callee in _POOLS and not _in_any_order(v))
        or (v.attrs.get("groups", 1) != 1 and not _is_batched_product(v)) or _in_tiles(v)
    ]  # fmt: skip
    return _parameters(group, read)


def _pixel_operands(group: Function) -> list[int]:
    """Parameters of which a kernel reads pixels as they stand: images whose window is one pixel."""
    return _parameters(
        group, [v.args[0] for v in _calls(group) if v.callee == "conv2d" and _is_one_pixel(v)]
    )


def _parameters(group: Function, read: Sequence[object]) -> list[int]:
    """Which parameters some operands are; others are made in the kernel."""
    return [i for x in read for i, p in enumerate(group.params) if p is x]


def _natural_order(
    group: Function, inputs: Sequence[View], out: TensorType, analyzer: Analyzer
) -> Order:
    """The order in which a kernel writes its result without effort."""
    rank = out.rank
    if rank >= 3 and keeps_channels_last(group):
        return _channels_last(rank)
    for view, p in zip(inputs, group.params, strict=True):
        t = p.type
        if isinstance(t, TensorType) and t.rank == rank and rank >= 3:
            order = memory_order(view, analyzer)
            if order is not None and (t.shape == out.shape or order != tuple(range(rank))):
                return order
    return tuple(range(rank))


def _channels_last(rank: int) -> Order:
    return (0, *range(2, rank), 1)


def memory_order(view: View, analyzer: Analyzer) -> Order | None:
    """The order of a view's dimensions in memory, where it has no gaps.

    Dimensions of one element have no place of their own: they stay where they are if the others do.
    """
    rest = [d for d in range(len(view.shape)) if value_of(view.shape[d]) != 1]
    order: list[int] = []
    at: Expr = const(1)
    while rest:
        fits = [d for d in reversed(rest) if analyzer.simplify(view.strides[d] - at) is const(0)]
        if not fits:
            return None
        rest.remove(fits[0])
        order.insert(0, fits[0])
        at = analyzer.simplify(view.strides[fits[0]] * view.shape[fits[0]])
    if order == sorted(order):
        return tuple(range(len(view.shape)))
    units = [d for d in range(len(view.shape)) if d not in order]
    return (*units, *order)


# --------------------------------------------------------------------------------- the pass


def copy_of(t: TensorType) -> Function:
    """A function that copies a tensor: a kernel of the name COPIED."""
    p = Var("p0", t)
    attrs = {"primitive": True, "name": COPIED}
    return Function((p,), call("reshape", p, shape=t.shape), attrs)


def layout_of(v: Call, result: int, rank: int) -> Order:
    """The order in memory of a result of a kernel's call."""
    found = v.attrs.get(LAYOUT)
    return tuple(range(rank)) if found is None or not found[result] else tuple(found[result])


def with_flat_results(mod: IRModule) -> IRModule:
    """A module whose "main" gives tensors, or a tuple of them, and no tuples inside."""
    main = mod["main"]
    items = _flat(main.body)
    before = main.results()
    if len(items) == len(before) and all(a is b for a, b in zip(items, before, strict=True)):
        return mod
    return mod.with_functions({"main": main.replace(body=Tuple(tuple(items)))})


def _flat(v: RelaxExpr) -> list[RelaxExpr]:
    """A tensor, or those in a tuple."""
    if not isinstance(v.type, TupleType):
        return [v]
    return [tensor for item in items_of(v) for tensor in _flat(item)]


def choose_layouts(mod: IRModule) -> IRModule:
    """A module whose "main" says where its values stand in memory."""
    return _Chooser(with_flat_results(mod)).run()


class _Origin(NamedTuple):
    """Where a value stands.

    value   the new graph's node for it
    owner   the old call whose kernel writes the memory; None: an input's, a constant's or a copy
    order   how the dimensions of the owner's result became this value's; None: not only moved
    """

    value: RelaxExpr
    view: View
    owner: Call | None
    whole: bool
    order: Order | None


class _Wish(Exception):
    """A value has to be written in another order than its kernel would: the walk goes back."""

    def __init__(self, call: Call, order: Order) -> None:
        self.call, self.order = call, order


class _Chooser:
    """One walk over the graph; where a wish is granted, it goes on from the kernel concerned."""

    def __init__(self, mod: IRModule) -> None:
        self.mod, self.main = mod, mod["main"]
        self.analyzer = analyzer_of(dict.fromkeys(sizes_of_parameters(self.main), 0))
        self.granted: dict[Call, Order] = {}
        self.places: dict[RelaxExpr, tuple[_Origin, ...]] = {}
        self.copies: dict[tuple[RelaxExpr, Order], _Origin] = {}
        self.functions: dict[str, Function] = {}
        self.symbols: dict[Any, str] = {}
        self.names = {*mod.functions}

    def run(self) -> IRModule:
        """Visit all values, then the results."""
        nodes = list(values(self.main.body))[: -1 if isinstance(self.main.body, Tuple) else None]
        at = {v: n for n, v in enumerate(nodes)}
        results: list[RelaxExpr] = []
        first: int | None = 0
        while first is not None:
            try:
                for v in nodes[first:]:
                    self.visit(v)
                results, first = self.results(), None
            except _Wish as wish:
                self.granted[wish.call] = wish.order
                first = at[wish.call]
        body = Tuple(tuple(results)) if isinstance(self.main.body, Tuple) else results[0]
        main = self.main.replace(body=body)
        return self.mod.with_functions({**self.functions, "main": main})

    def visit(self, v: RelaxExpr) -> None:
        """Decide where a value stands. Raises a _Wish where another one is to be decided anew."""
        match v:
            case Var() | Constant():
                self.places[v] = (_Origin(v, dense(tensor_type_of(v).shape), None, False, None),)
            case Tuple(items):
                self.places[v] = tuple([self.place(i) for i in items])
            case TupleGetItem(value, index):
                self.places[v] = (self.places[value][index],)
            case Call(GlobalVar() as op):
                group = self.mod[op.name]
                if isinstance(group, PrimFunc) or is_foreign(group):
                    self.external(v)
                else:
                    self.kernel(v, group, op)
            case Call(Op(), (RelaxExpr() as source, *_)) if v.callee in VIEW_NAMES:
                self.view(v, source)
            case Call():
                self.alone(v)

    def place(self, v: RelaxExpr) -> _Origin:
        """The place of a single value."""
        (found,) = self.places[v]
        return found

    def view(self, v: Call, source: RelaxExpr) -> None:
        """A view where it can be one; else its source may be written differently, or is copied."""
        at = self.place(source)
        made = view_of(v.callee, v.attrs, at.view, tensor_type_of(v).shape, self.analyzer)
        if made is not None and not _repeats_elements(made):
            order = None
            if at.order is not None and v.callee == "transpose":
                axes = transpose_axes(v.attrs, len(at.view.shape))
                order = tuple([at.order[a] for a in axes])
            whole = at.whole and v.callee != "strided_slice"
            self.places[v] = (_Origin(self.on(v, [at]), made, at.owner, whole, order),)
            return
        if v.callee in ("reshape", "squeeze", "expand_dims") and at.order is not None:
            self.wish(at.owner, at.order)
        self.alone(v)

    def wish(self, owner: Call | None, order: Order) -> None:
        """Raise that a kernel writes its result in an order, where that costs less than a copy."""
        if owner is None or owner in self.granted or not isinstance(owner.op, GlobalVar):
            return
        group = self.mod[owner.op.name]
        if isinstance(group, PrimFunc) or is_foreign(group):
            return
        inputs = [self.place(a).view for a in owner.args if a is not None]
        natural = _natural_order(group, inputs, tensor_type_of(owner), self.analyzer)
        if price(group, natural, order) < COPY:
            raise _Wish(owner, order)

    def kernel(self, v: Call, group: Function, op: GlobalVar) -> None:
        """A kernel, its operands copied where it needs channels next to each other."""
        inputs = [self.place(a) for a in v.args if a is not None]
        for i in _channel_operands(group):
            inputs[i] = self.channels_last(inputs[i])
        for i in _pixel_operands(group):
            inputs[i] = self.without_gaps(inputs[i])
        views = [p.view for p in inputs]
        types = tensor_types(v.type)
        wish = self.granted.get(v)
        orders = [wish or _natural_order(group, views, t, self.analyzer) for t in types]
        new = self.on(v, inputs).replace(op=op, attrs=_attrs(orders))
        made = [dense_in_order(t.shape, o) for t, o in zip(types, orders, strict=True)]
        self.stand(new, v, made, v)

    def stand(self, new: Call, v: Call, views: Sequence[View], owner: Call | None) -> None:
        """Note where the results of a call stand; owner: whose kernel may order a single one."""
        if not isinstance(v.type, TupleType):
            order = None if owner is None else tuple(range(len(views[0].shape)))
            self.places[v] = (_Origin(new, views[0], owner, True, order),)
            return
        items = [(TupleGetItem(new, i), view) for i, view in enumerate(views)]
        self.places[v] = tuple([_Origin(i, view, None, True, None) for i, view in items])

    def alone(self, v: Call) -> None:
        """An operator that is no view, as a kernel of its own."""
        op = self.function(v.callee, function_of(v))
        self.kernel(v, self.functions[op.name], op)

    def external(self, v: Call) -> None:
        """A call of an external function or a program: everything dense and row-major."""
        inputs = []
        for a in v.args:
            if a is None:
                continue
            at = self.place(a)
            if not is_dense(at.view, self.analyzer):
                order = tuple(range(len(at.view.shape)))
                if at.owner is a:
                    self.wish(at.owner, order)
                at = self.copied(at, order)
            inputs.append(at)
        views = [dense(t.shape) for t in tensor_types(v.type)]
        self.stand(self.on(v, inputs), v, views, None)

    def results(self) -> list[RelaxExpr]:
        """Each result of the model alone in memory, row-major."""
        out: list[RelaxExpr] = []
        taken: set[int] = set()
        for r in self.main.results():
            at = self.place(r)
            root = _memory(at.value)
            fits = at.whole and id(root) not in taken and is_dense(at.view, self.analyzer)
            if not fits:
                order = tuple(range(len(at.view.shape)))
                if at.owner is r and id(root) not in taken:
                    self.wish(at.owner, order)
                at = self.copied(at, order, again=True)
            taken.add(id(_memory(at.value)))
            out.append(at.value)
        return out

    def channels_last(self, at: _Origin) -> _Origin:
        """A value with its channels next to each other in memory: written so, or copied."""
        shape, strides = at.view.shape, at.view.strides
        if len(shape) < 3 or shape[1] is const(1) or self.analyzer.simplify(strides[1]) is const(1):
            return at
        order = _channels_last(len(shape))
        if at.order is not None:
            self.wish(at.owner, tuple([at.order[d] for d in order]))
        return self.copied(at, order)

    def without_gaps(self, at: _Origin) -> _Origin:
        """A value whose channels or pixels are next to each other, copied where neither are."""
        steps = [self.analyzer.simplify(at.view.strides[d]) for d in (1, -1)]
        if const(1) in steps or is_dense(at.view, self.analyzer):
            return at
        return self.copied(at, tuple(range(len(at.view.shape))))

    def copied(self, at: _Origin, order: Order, again: bool = False) -> _Origin:
        """A value copied into memory of its own; again: even where there is such a copy."""
        found = self.copies.get((at.value, order))
        if found is not None and not again:
            return found
        t = tensor_type_of(at.value)
        op = self.function(COPIED, copy_of(t))
        made = Call(op, (at.value,), _attrs([order]), t)
        place = _Origin(made, dense_in_order(t.shape, order), None, True, None)
        self.copies[at.value, order] = place
        return place

    def on(self, v: Call, inputs: Sequence[_Origin]) -> Call:
        """A call on the new operands."""
        found = iter([p.value for p in inputs])
        return v.replace(args=tuple([None if a is None else next(found) for a in v.args]))

    def function(self, name: str, f: Function) -> GlobalVar:
        """A kernel as a function of the module; equal ones share one."""
        assert isinstance(f.body, Call)
        key = (f.body.op, repr(dict(f.body.attrs)), tuple([p.type for p in f.params]))
        if key not in self.symbols:
            self.symbols[key] = symbol = fresh_name(name, self.names)
            self.functions[symbol] = f.replace(attrs={"primitive": True, "name": name})
        return GlobalVar(self.symbols[key])


def _memory(v: RelaxExpr) -> RelaxExpr:
    """The value whose memory a view of the new graph looks at."""
    while isinstance(v, Call) and isinstance(v.op, Op) and isinstance(v.args[0], RelaxExpr):
        v = v.args[0]
    return v


def _attrs(orders: Sequence[Order]) -> dict[str, tuple[Order, ...]]:
    """The attribute of a call; none where all results are row-major."""
    written = tuple([() if o == tuple(range(len(o))) else o for o in orders])
    return {LAYOUT: written} if any(written) else {}


def _repeats_elements(view: View) -> bool:
    """Views that repeat elements are left to kernels, which broadcast by themselves."""
    pairs = zip(view.shape, view.strides, strict=True)
    return any(s is const(0) and value_of(e) != 1 for e, s in pairs)
