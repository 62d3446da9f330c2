"""From a fused graph to a list of kernel launches on storages: views, layouts, lifetimes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import InternalError
from smelt.ir.expr import Expr, IntImm, Var, const
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, TupleType, Type
from smelt.ir.walk import free_vars
from smelt.relax.nodes import Call, Constant, Function, GlobalVar, RelaxExpr, TupleGetItem, values
from smelt.relax.nodes import Tuple as GraphTuple
from smelt.relax.nodes import Var as GraphVar
from smelt.relax.nodes import call as graph_call
from smelt.relax.views import (
    VIEW_NAMES,
    View,
    dense,
    dense_in_order,
    is_dense,
    transpose_axes,
    view_of,
)
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Op

from .called import program_for, stand_in
from .layout import channel_operands, keeps_channels_last, kernel_order, may_write_rows
from .ranges import analyzer_of

__all__ = [
    "GraphPlan",
    "Launch",
    "Place",
    "Storage",
    "plan_graph",
    "symbol_of",
    "with_flat_results",
]


@dataclass(eq=False)
class Storage:
    """A piece of memory.

    kind    "input", "output", "constant" or "temporary"
    index   which input or output
    bytes   its size
    """

    kind: str
    dtype: str
    bytes: Expr
    index: int = -1
    data: np.ndarray | None = None
    name: str = ""
    first: int = -1
    last: int = -1

    @property
    def fixed_bytes(self) -> int:
        """Its size, where that is a number."""
        assert isinstance(self.bytes, IntImm)
        return self.bytes.value


@dataclass(frozen=True)
class Place:
    """A value: where its elements stand in a storage."""

    storage: Storage
    view: View


@dataclass
class Launch:
    """One kernel call: a fused group, an external function or a program, on some places.

    program  the tensor program of the module that is called; `group` then stands for it
    """

    group: Function
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    name: str
    program: PrimFunc | None = None

    @property
    def external(self) -> bool:
        """Whether a back end of its own computes it."""
        return "Compiler" in self.group.attrs


@dataclass
class GraphPlan:
    """What happens when a model runs, before addresses are known."""

    inputs: list[Storage]
    outputs: list[Storage]
    launches: list[Launch] = field(default_factory=list)
    symbols: list[Var] = field(default_factory=list)


class _Conflict(Exception):
    """A view that needs its source in another memory order."""

    def __init__(self, source: int, order: tuple[int, ...]) -> None:
        super().__init__()
        self.source, self.order = source, order


class _Planner:
    """One pass over the graph with given memory orders; raises _Conflict to ask for others."""

    def __init__(
        self, mod: IRModule, main: Function, orders: dict[int, tuple[int, ...]], refused: set[int]
    ) -> None:
        self.mod, self.main, self.orders, self.refused = mod, main, orders, refused
        self.symbols = _symbols(main)
        self.analyzer = analyzer_of(dict.fromkeys(self.symbols, 0))
        self.places: dict[int, Place | tuple[Place, ...]] = {}
        self.origin: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.made_by: dict[Storage, int] = {}
        self.launches: list[Launch] = []
        self.turned: dict[Place, Place] = {}
        self.straight: dict[Place, Place] = {}

    def plan(self) -> GraphPlan:
        """Walk the graph, operands first."""
        inputs = []
        for i, p in enumerate(self.main.params):
            t = p.type
            assert isinstance(t, TensorType)
            s = Storage("input", t.dtype, t.bytes(), i, name=p.name)
            inputs.append(s)
            self.places[id(p)] = Place(s, dense(t.shape))
        for v in values(self.main.body):
            if id(v) not in self.places:
                self.value(v)
        outputs = self.results()
        for n, launch in enumerate(self.launches):
            for place in (*launch.inputs, *launch.outputs):
                s = place.storage
                s.first = n if s.first < 0 else s.first
                s.last = n
        return GraphPlan(inputs, outputs, self.launches, self.symbols)

    def value(self, v: RelaxExpr) -> None:
        """Find or make the place of one value."""
        if isinstance(v, Constant):
            s = Storage("constant", v.type.dtype, v.type.bytes(), data=v.data, name=v.name)
            self.places[id(v)] = Place(s, dense(v.type.shape))
        elif isinstance(v, GraphTuple):
            self.places[id(v)] = tuple([self.place(i) for i in v.items])
        elif isinstance(v, TupleGetItem):
            whole = self.places[id(v.value)]
            assert isinstance(whole, tuple)
            self.places[id(v)] = whole[v.index]
        elif isinstance(v, Call):
            self.call(v)
        else:
            raise InternalError(f"no plan for a {type(v).__name__} in a graph")

    def place(self, v: RelaxExpr) -> Place:
        """The place of a single value."""
        found = self.places[id(v)]
        assert isinstance(found, Place)
        return found

    def call(self, v: Call) -> None:
        """A kernel, or a view."""
        if isinstance(v.op, GlobalVar):
            group = self.mod[v.op.name]
            if isinstance(group, PrimFunc):
                self.external(v, stand_in(v), v.op.name, program_for(group, v))
            elif "Compiler" in group.attrs:
                self.external(v, group, symbol_of(group, v.op.name))
            else:
                self.launch(v, group, [self.place(a) for a in v.args if a is not None])
            return
        if v.callee in VIEW_NAMES:
            source = v.args[0]
            assert source is not None
            assert isinstance(v.type, TensorType)
            at = self.place(source)
            made = view_of(v.callee, v.attrs, at.view, v.type.shape, self.analyzer)
            if made is not None and _views_allowed(made):
                self.places[id(v)] = Place(at.storage, made)
                self.follow(v, source)
                return
            self.ask(v, source)
        self.copy(v)

    def follow(self, v: Call, source: RelaxExpr) -> None:
        """Remember from which kernel result a transposed value comes, and how dimensions moved."""
        rank = len(self.place(source).view.shape)
        origin = (
            self.origin.get(id(source))
            if not _is_kernel(source)
            else (id(source), tuple(range(rank)))
        )
        if origin is not None and isinstance(v.op, Op) and v.op.name == "transpose":
            self.origin[id(v)] = (
                origin[0],
                tuple([origin[1][a] for a in transpose_axes(v.attrs, len(origin[1]))]),
            )

    def ask(self, v: Call, source: RelaxExpr) -> None:
        """Restart with the source in the order that makes this value a view, where possible."""
        rank = len(self.place(source).view.shape)
        origin = (
            self.origin.get(id(source))
            if not _is_kernel(source)
            else (id(source), tuple(range(rank)))
        )
        if (
            origin is None
            or isinstance(v.op, GlobalVar)
            or v.callee not in ("reshape", "squeeze", "expand_dims")
        ):
            return
        if origin[0] in self.refused or origin[0] in self.orders:
            return
        raise _Conflict(*origin)

    def copy(self, v: Call) -> None:
        """An operator that could not be a view, as a kernel of its own."""
        params = [GraphVar(f"p{i}", a.type) for i, a in enumerate(v.args) if a is not None]
        found = iter(params)
        body = v.replace(args=tuple([None if a is None else next(found) for a in v.args]))
        assert isinstance(v.op, Op)
        group = Function(tuple(params), body, {"primitive": True, "name": v.op.name})
        self.launch(v, group, [self.place(a) for a in v.args if a is not None])

    def launch(self, v: Call, group: Function, inputs: list[Place]) -> None:
        """A kernel with fresh storages for its results."""
        types = _types(v.type)
        for i in channel_operands(group):
            inputs[i] = self.channels_last(inputs[i])
        made = []
        for t in types:
            order = self.orders.get(id(v)) or kernel_order(
                group, [p.view for p in inputs], [p.type for p in group.params], t, self.analyzer
            )
            s = Storage("temporary", t.dtype, t.bytes(), name=v.name)
            self.made_by[s] = id(v)
            made.append(Place(s, dense_in_order(t.shape, order)))
        self.launches.append(
            Launch(group, tuple(inputs), tuple(made), str(group.attrs.get("name", "kernel")))
        )
        self.places[id(v)] = made[0] if isinstance(v.type, TensorType) else tuple(made)

    def external(
        self, v: Call, group: Function, symbol: str, program: PrimFunc | None = None
    ) -> None:
        """A call of an external function or a program: everything dense and row-major."""
        self.refused.add(id(v))
        inputs = [self.row_major(a) for a in v.args if a is not None]
        made = [
            Place(Storage("temporary", t.dtype, t.bytes(), name=v.name), dense(t.shape))
            for t in _types(v.type)
        ]
        self.launches.append(Launch(group, tuple(inputs), tuple(made), symbol, program))
        self.places[id(v)] = made[0] if isinstance(v.type, TensorType) else tuple(made)

    def row_major(self, v: RelaxExpr) -> Place:
        """A value row-major in memory without gaps, copied where it is not."""
        at = self.place(v)
        if is_dense(at.view, self.analyzer):
            return at
        if at.storage.kind == "temporary" and self.may_reorder(v, at.storage):
            raise _Conflict(id(v), tuple(range(len(at.view.shape))))
        found = self.straight.get(at)
        if found is None:
            t = TensorType(at.view.shape, at.storage.dtype)
            found = self.straight[at] = Place(Storage("temporary", t.dtype, t.bytes()),
                                              dense(t.shape))  # fmt: skip
            self.launches.append(Launch(_copy_group(t), (at,), (found,), "copy"))
        return found

    def channels_last(self, at: Place) -> Place:
        """A value with its channels next to each other in memory, copied where they are not."""
        shape, strides = at.view.shape, at.view.strides
        if len(shape) < 3 or shape[1] is const(1) or self.analyzer.simplify(strides[1]) is const(1):
            return at
        found = self.turned.get(at)
        if found is None:
            view = dense_in_order(shape, (0, *range(2, len(shape)), 1))
            s = Storage("temporary", at.storage.dtype, _bytes(view, at.storage.dtype))
            found = self.turned[at] = Place(s, view)
            t = TensorType(shape, at.storage.dtype)
            self.launches.append(Launch(_copy_group(t), (at,), (found,), "copy"))
        return found

    def results(self) -> list[Storage]:
        """Make each result of the model stand alone in memory, row-major."""
        outputs = []
        taken: set[Storage] = set()
        for i, r in enumerate(self.main.results()):
            at = self.place(r)
            s = at.storage
            good = (
                s.kind == "temporary"
                and s not in taken
                and is_dense(at.view, self.analyzer)
                and self.analyzer.simplify(at.view.offset) is const(0)
                and self.analyzer.can_prove_equal(s.bytes, _bytes(at.view, s.dtype))
            )
            if not good and s.kind == "temporary" and s not in taken and self.may_reorder(r, s):
                raise _Conflict(id(r), tuple(range(len(at.view.shape))))
            if not good:
                s = self.copied(r, at)
            taken.add(s)
            s.kind, s.index = "output", i
            outputs.append(s)
        return outputs

    def may_reorder(self, r: RelaxExpr, s: Storage) -> bool:
        """Whether the kernel behind a result should write it row-major itself.

        Cheap ones do; most convolutions and their like would lose more than a copy costs.
        """
        made = self.made_by.get(s)
        if made != id(r) or made in self.orders or made in self.refused:
            return False
        if not isinstance(r, Call) or not isinstance(r.op, GlobalVar):
            return False
        group = self.mod[r.op.name]
        return not keeps_channels_last(group) or may_write_rows(group)

    def copied(self, r: RelaxExpr, at: Place) -> Storage:
        """A result copied into memory of its own."""
        t = r.type
        assert isinstance(t, TensorType)
        s = Storage("temporary", t.dtype, t.bytes())
        self.launches.append(Launch(_copy_group(t), (at,), (Place(s, dense(t.shape)),), "copy"))
        return s


def symbol_of(func: Function, name: str) -> str:
    """The name of an external function's code."""
    return str(func.attrs.get("global_symbol", name))


def _copy_group(t: TensorType) -> Function:
    """A kernel that only moves a value to other memory."""
    param = GraphVar("p0", t)
    body = graph_call("reshape", param, shape=t.shape)
    return Function((param,), body, {"primitive": True, "name": "copy"})


def _views_allowed(view: View) -> bool:
    """Views that repeat elements are left to kernels, which broadcast by themselves."""
    return all(
        s is not const(0) or getattr(e, "value", None) == 1
        for e, s in zip(view.shape, view.strides, strict=True)
    )


def _is_kernel(v: RelaxExpr) -> bool:
    return isinstance(v, Call) and isinstance(v.op, GlobalVar)


def _bytes(view: View, dtype: str) -> Expr:
    total: Expr = const(dt.bytes_of(dtype))
    for e in view.shape:
        total = total * e
    return total


def _types(t: Type) -> list[TensorType]:
    if isinstance(t, TupleType):
        return [x for x in t.items if isinstance(x, TensorType)]
    assert isinstance(t, TensorType)
    return [t]


def _symbols(main: Function) -> list[Var]:
    """The symbolic sizes of the inputs, in order of first use."""
    found: dict[Var, None] = {}
    for p in main.params:
        assert isinstance(p.type, TensorType)
        for e in p.type.shape:
            found.update(dict.fromkeys(sorted(free_vars(e), key=lambda v: v.name)))
    return list(found)


def with_flat_results(mod: IRModule) -> IRModule:
    """A module whose "main" gives tensors, or a tuple of them, and no tuples inside."""
    main = mod["main"]
    items: list[RelaxExpr] = []
    todo: list[RelaxExpr] = [main.body]
    while todo:
        v = todo.pop()
        if isinstance(v, GraphTuple):
            todo += reversed(v.items)
        elif isinstance(v.type, TupleType):
            todo += [TupleGetItem(v, i) for i in reversed(range(len(v.type.items)))]
        else:
            items.append(v)
    before = main.results()
    if len(items) == len(before) and all(a is b for a, b in zip(items, before, strict=True)):
        return mod
    return mod.with_functions({"main": main.replace(body=GraphTuple(tuple(items)))})


def plan_graph(mod: IRModule) -> GraphPlan:
    """The launches of "main", with memory orders settled."""
    mod = with_flat_results(mod)
    main = mod["main"]
    orders: dict[int, tuple[int, ...]] = {}
    refused: set[int] = set()
    for _ in range(1000):
        try:
            return _Planner(mod, main, orders, refused).plan()
        except _Conflict as c:
            orders[c.source] = c.order
    raise InternalError("the memory orders of the graph do not settle")
