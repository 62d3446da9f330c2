"""From a graph of kernels to a list of launches on storages: views and lifetimes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.ir.errors import InternalError
from smelt.ir.expr import Expr, IntImm, Var, const
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax import nodes as relax
from smelt.relax.graph import is_foreign
from smelt.relax.nodes import INPLACE
from smelt.relax.shapes import sizes_of_parameters
from smelt.relax.transform.choose_layouts import COPIED, copy_of, layout_of
from smelt.relax.transform.engine import order
from smelt.relax.updates import UPDATES, Updates, given, root_of
from smelt.relax.views import View, dense, dense_in_order, is_dense, same, view_of
from smelt.tir.facts import analyzer_of
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Op

from .call_tir import call_tir_group, program_for
from .constants import ConstantProgram


def number_of(e: object) -> int:
    """What is known to be a number, as all sizes of models as C are."""
    assert isinstance(e, IntImm)
    return e.value


@dataclass(frozen=True)
class Made:
    """Where a constant comes from that is made of others.

    result  which of the program's results it is
    """

    program: ConstantProgram
    sources: tuple[Storage, ...]
    result: int


@dataclass(eq=False)
class Storage:
    """A piece of memory.

    kind    "input", "output", "constant" or "temporary"
    index   which input or output
    bytes   its size
    made    how a constant is made for the kernel that reads it; it has no data then
    """

    kind: str
    dtype: str
    bytes: Expr
    index: int = -1
    data: np.ndarray | None = None
    name: str = ""
    first: int = -1
    last: int = -1
    made: Made | None = None

    @property
    def fixed_bytes(self) -> int:
        """Its size, where that is a number."""
        return number_of(self.bytes)


@dataclass(frozen=True)
class Place:
    """A value: where its elements stand in a storage."""

    storage: Storage
    view: View

    @property
    def bytes(self) -> Expr:
        """The size of its elements."""
        return TensorType(self.view.shape, self.storage.dtype).bytes()


@dataclass
class Launch:
    """One kernel call: a fused group, an external function or a program, on some places.

    program  the tensor program of the module that is called; `group` then stands for it
    nodes    the names of the model's nodes that it computes
    updates  for each result the operand that it is an update of, in the same memory, or -1;
             nothing: there are none
    """

    group: relax.Function
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    name: str
    program: PrimFunc | None = None
    nodes: tuple[str, ...] = ()
    updates: tuple[int, ...] = ()

    @property
    def own_outputs(self) -> list[Place]:
        """The places of the results that are no updates."""
        updates = self.updates or (-1,) * len(self.outputs)
        return [p for p, operand in zip(self.outputs, updates, strict=True) if operand < 0]

    @property
    def external(self) -> bool:
        """Whether a back end of its own computes it."""
        return is_foreign(self.group)


@dataclass
class GraphPlan:
    """What happens when a model runs, before addresses are known.

    updates  the inputs that are written to, and which output each becomes
    """

    inputs: list[Storage]
    outputs: list[Storage]
    launches: list[Launch] = field(default_factory=list)
    symbols: list[Var] = field(default_factory=list)
    updates: dict[int, int] = field(default_factory=dict)

    def planned(self, workspace_io: bool = False) -> dict[Storage, None]:
        """What stands in the workspace but for scratch buffers, its steps counted.

        workspace_io  inputs and outputs stand there, too
        """
        kinds = ("temporary", "input", "output") if workspace_io else ("temporary",)
        places = [p.storage for x in self.launches for p in (*x.inputs, *x.outputs)]
        found = dict.fromkeys([s for s in (*self.inputs, *places) if s.kind in kinds])
        for s in found:
            if s.kind == "input":  # they are there before the first step
                s.first = -1
            if s.kind == "output":  # after the last one
                s.last = len(self.launches)
        return found


class _Planner:
    """One pass over a graph whose layouts are chosen."""

    def __init__(self, mod: IRModule) -> None:
        self.mod, self.main = mod, mod["main"]
        self.symbols = sizes_of_parameters(self.main)
        self.analyzer = analyzer_of(dict.fromkeys(self.symbols, 0))
        becomes = dict(self.main.attrs.get(UPDATES, ()))
        self.inout = {p: becomes[n] for n, p in enumerate(self.main.params) if n in becomes}
        self.updates = Updates(mod, self.inout)
        self.places: dict[relax.RelaxExpr, Place | tuple[Place, ...]] = {}
        self.launches: list[Launch] = []

    def plan(self) -> GraphPlan:
        """Walk the graph, operands first."""
        inputs = []
        for i, p in enumerate(self.main.params):
            t = relax.tensor_type_of(p)
            s = Storage("input", t.dtype, t.bytes(), i, name=p.name)
            inputs.append(s)
            self.places[p] = Place(s, dense(t.shape))
        for v in self.updates.values():
            if v not in self.places:
                self.places[v] = self.made(v)
        outputs, updates = self.outputs(inputs)
        for n, launch in enumerate(self.launches):
            for place in (*launch.inputs, *launch.outputs):
                s = place.storage
                s.first = n if s.first < 0 else s.first
                s.last = n
        return GraphPlan(inputs, outputs, self.launches, self.symbols, updates)

    def outputs(self, inputs: Sequence[Storage]) -> tuple[list[Storage], dict[int, int]]:
        """The storages of the results, and which inputs become which of them.

        What is declared as an update and stands elsewhere is copied last of all: into memory of its
        own first, where it stands in another input that is written to.
        """
        updates = dict(self.main.attrs.get(UPDATES, ()))
        wanted = {o: i for i, o in updates.items()}
        outputs, moves = [], []
        for o, r in enumerate(self.main.results()):
            place = self.place(r)
            s = place.storage
            own = Storage("output", s.dtype, relax.tensor_type_of(r).bytes(), o)
            alone = self.is_alone(place)
            if o in wanted:
                if s is not inputs[wanted[o]] or not alone:
                    moves.append((place, inputs[wanted[o]]))
            elif alone and s.kind != "input":
                s.kind, s.index, own = "output", o, s
            else:
                self.copy(place, own)
            outputs.append(own)
        for n, (place, target) in enumerate(moves):
            if place.storage.kind == "input":
                moves[n] = self.aside(place), target
        for place, target in moves:
            self.copy(place, target)
        return outputs, updates

    def is_alone(self, place: Place) -> bool:
        """Whether a value is all of its memory, in row-major order."""
        return (
            place.view.offset is const(0)
            and is_dense(place.view, self.analyzer)
            and same(place.storage.bytes, place.bytes, self.analyzer)
        )

    def aside(self, source: Place) -> Place:
        """A copy of a value, which may be written to."""
        return self.copy(source, Storage("temporary", source.storage.dtype, source.bytes))

    def copy(self, source: Place, target: Storage) -> Place:
        """A launch that copies a value."""
        place = Place(target, dense(source.view.shape))
        group = copy_of(TensorType(source.view.shape, target.dtype))
        self.launches.append(Launch(group, (source,), (place,), COPIED))
        return place

    def made(self, v: relax.RelaxExpr) -> Place | tuple[Place, ...]:
        """The place of a value: new memory, or a view of its operand's."""
        match v:
            case relax.Constant():
                s = Storage("constant", v.type.dtype, v.type.bytes(), data=v.data, name=v.name)
                return Place(s, dense(v.type.shape))
            case relax.Tuple(items):
                return tuple([self.place(i) for i in items])
            case relax.TupleGetItem(value, index):
                whole = self.places[value]
                assert isinstance(whole, tuple)
                return whole[index]
            case relax.Call(relax.GlobalVar(name)):
                return self.launch(v, name)
            case relax.Call(Op(), (relax.RelaxExpr() as source, *_)):
                at, t = self.place(source), relax.tensor_type_of(v)
                view = view_of(v.callee, v.attrs, at.view, t.shape, self.analyzer)
                if view is not None:
                    return Place(at.storage, view)
        raise InternalError(f"no plan for {getattr(v, 'callee', type(v).__name__)} in a graph")

    def place(self, v: relax.RelaxExpr) -> Place:
        """The place of a single value."""
        found = self.places[v]
        assert isinstance(found, Place)
        return found

    def launch(self, v: relax.Call, name: str) -> Place | tuple[Place, ...]:
        """A kernel, an external function or a program, with fresh storages for its results."""
        callee = self.mod.functions[name]
        group = call_tir_group(v) if isinstance(callee, PrimFunc) else callee
        program = program_for(callee, v) if isinstance(callee, PrimFunc) else None
        assert isinstance(group, relax.Function)
        if program is None:
            own = str(group.attrs.get("name", "kernel"))
            name = symbol_of(group, name) if is_foreign(group) else own
        inputs = tuple([self.place(a) for a in given(v)])
        updates, written = self.updates.of.get(v, ()), v.attrs.get(INPLACE, ())
        if written:
            kept = set(written) - set(updates)
            inputs = tuple([self.aside(p) if n in kept else p for n, p in enumerate(inputs)])
            updates = written
        if self.is_in_order(v, group, inputs):
            return inputs[0]
        made = []
        for i, t in enumerate(relax.tensor_types(v.type)):
            if updates and updates[i] >= 0:
                made.append(inputs[updates[i]])
                continue
            s = Storage("temporary", t.dtype, t.bytes(), name=v.name)
            made.append(Place(s, dense_in_order(t.shape, layout_of(v, i, t.rank))))
        nodes = v.nodes or tuple(dict.fromkeys(self.nodes(group)))
        launch = Launch(group, inputs, tuple(made), name, program, nodes, updates)
        self.launches.append(launch)
        return made[0] if isinstance(v.type, TensorType) else tuple(made)

    def is_in_order(self, v: relax.Call, group: relax.Function, inputs: Sequence[Place]) -> bool:
        """Whether a call copies a result into the order in which it stands already, in the input
        that it is declared to update."""
        if group.attrs.get("name") != COPIED or inputs[0].storage.kind != "input":
            return False
        becomes = self.inout.get(self.main.params[inputs[0].storage.index], -1)
        own = becomes >= 0 and root_of(self.main.results()[becomes]).value is v
        stays = root_of(given(v)[0]) not in self.updates.updated
        return own and stays and self.is_alone(inputs[0])

    def nodes(self, group: relax.Function) -> Iterator[str]:
        """The names of the calls in a function, and in the functions that it calls."""
        for call, callee in calls_in(group, self.mod.functions):
            if isinstance(callee, relax.Function):
                yield from self.nodes(callee)
            if call.name:
                yield call.name


def calls_in(
    func: relax.Function, functions: Mapping[str, Any]
) -> Iterator[tuple[relax.Call, Any]]:
    """The calls in a function, not those inside what it calls, and what each of them calls."""
    for v in order(func.body):
        if isinstance(v, relax.Call):
            yield v, functions.get(v.op.name) if isinstance(v.op, relax.GlobalVar) else v.op


def symbol_of(func: relax.Function, name: str) -> str:
    """The name of an external function's code."""
    return str(func.attrs.get("global_symbol", name))


def plan_graph(mod: IRModule) -> GraphPlan:
    """The launches of "main", on storages."""
    return _Planner(mod).plan()
