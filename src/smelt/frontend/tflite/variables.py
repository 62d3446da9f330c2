"""Variables of a model as values: what operators read and assign becomes operands and results.

A file orders reads and assignments by their places in its lists of operators. Here an assignment
makes a new value, which is read by what stands behind it, so that dataflow alone orders everything.
Subgraphs take the variables that they use as operands, and give those that they assign as results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from smelt.frontend.common import Graph, Input, ModelNode
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.limits import WRITTEN_OUT

from .read import RESOURCE, ModelFile

SUBGRAPHS = {
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
}
"""The attributes that name subgraphs."""

Variable = tuple[str, str]
"""A container and a name in it: all handles with both are handles of one variable."""

Names = dict[Variable, str]
"""Variables, and the values that they are."""


def carry_variables(
    model: ModelFile, evaluated: Callable[[ModelFile], Sequence[np.ndarray]]
) -> ModelFile:
    """A model without handles of variables: these are inputs and results of its graph, and those
    that nothing assigns are constants.

    evaluated  gives the results of a model without inputs: the variables' first values

    Raises Unsupported and ImportFailure for variables that cannot be values.
    """
    if all(t.dtype != RESOURCE for t in model.tensors.values()):
        return model
    found = _Variables(model)
    first = found.first_values()
    before = {v: found.entry(v, like) for v, like in first.now.items()}
    main = found.follow(model.graph, {}, before)
    needed = [v for v in main.used if v in before]
    graph = replace(first.graph, outputs=[first.now[v] for v in needed])
    made = replace(model, tensors=found.tensors, others=found.graphs[1:])
    arrays, kept = dict(main.graph.arrays), {}
    for v, array in zip(
        needed, evaluated(replace(made, graph=graph)) if needed else (), strict=True
    ):
        if main.now[v] == before[v]:
            arrays[before[v]] = array
        else:
            kept[before[v]] = main.now[v], array
    own = [Input(n, str(a.dtype), a.shape) for n, (_, a) in kept.items()]
    outputs = [*main.graph.outputs, *[after for after, _ in kept.values()]]
    inputs = [*main.graph.inputs, *own]
    whole = replace(main.graph, inputs=inputs, arrays=arrays, outputs=outputs)
    return replace(made, graph=whole, variables=kept)


@dataclass
class _Followed:
    """A graph without handles.

    now      the values of variables behind it
    used     the variables that it reads or assigns
    handles  the results of its nodes, and those of its inputs, that are handles
    """

    graph: Graph
    now: Names
    used: dict[Variable, None]
    handles: dict[str, Variable]


class _Variables:
    """The variables of one file.

    graphs  its subgraphs, and behind them those that take variables as operands
    first   the values of variables that CALL_ONCE gives them
    """

    def __init__(self, model: ModelFile) -> None:
        self.model, self.tensors = model.name, dict(model.tensors)
        self.graphs = [model.graph, *model.others]
        self.taken = {n for n, t in model.tensors.items() if t.dtype != RESOURCE}
        self.count = len(self.graphs)
        self.entries: Names = {}
        self.first: Names = {}
        self.followed = 0

    # --------------------------------------------------------------------------- names, errors

    def entry(self, v: Variable, like: str) -> str:
        """What a variable is called where a graph begins; its type is that of another value."""
        if v not in self.entries:
            self.entries[v] = self.fresh("/".join([n for n in v if n]) or "variable", like)
        return self.entries[v]

    def fresh(self, name: str, like: str) -> str:
        """A name that no value has, for one of the type of another one."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        self.tensors[name] = replace(self.tensors[like], name=name, variable=False)
        return name

    def where(self, step: ModelNode) -> str:
        """Model, node and operator."""
        return f"{self.model}: node {step.label!r} ({step.op})"

    def unsupported(self, step: ModelNode, what: str, supported: str) -> NoReturn:
        """What a node asks for, and what would be supported."""
        raise Unsupported(f"{self.where(step)}: {what}\n  supported: {supported}")

    # ------------------------------------------------------------------------------------ graphs

    def first_values(self) -> _Followed:
        """The subgraphs that run once, as one graph."""
        steps: list[ModelNode] = []
        arrays: dict[str, np.ndarray] = {}
        numbers = {s.attrs.get("init_subgraph_index", 0): s for s in self.graphs[0].steps
                   if s.op == "CALL_ONCE"}  # fmt: skip
        for n, step in numbers.items():
            if not 0 < n < self.count:
                raise ImportFailure(f"{self.where(step)}: subgraph {n}; there are {self.count}, "
                                    "and the first one is the model")  # fmt: skip
            steps += self.graphs[n].steps
            arrays |= self.graphs[n].arrays
        found = self.follow(Graph("first values", [], arrays, steps, []), {}, {})
        self.first = found.now
        return found

    def follow(self, graph: Graph, given: Mapping[str, Variable], before: Names) -> _Followed:
        """A graph without handles.

        given   the inputs that are handles
        before  the values of variables in front of it
        """
        steps: list[ModelNode] = []
        f = _Followed(graph, dict(before), {}, dict(given))
        self.followed += len(graph.steps)
        if self.followed > WRITTEN_OUT:
            raise Unsupported(f"{self.model}: subgraphs with variables are too many nodes\n"
                              f"  supported: {WRITTEN_OUT}")  # fmt: skip
        self.check_ends([i.name for i in graph.inputs], given)
        for step in graph.steps:
            if step.op in _ACCESS and not step.domain:
                steps += self.access(step, f)
            elif step.op in SUBGRAPHS:
                steps.append(self.branches(step, f))
            else:
                steps.append(step)
            if held := [n for n in steps[-1].inputs if n in f.handles] if steps else []:
                what = f"the operand {held[0]!r}, a handle of {shown(f.handles[held[0]])}"
                self.unsupported(step, what, f"such handles of {', '.join([*_ACCESS, *SUBGRAPHS])}")
        self.check_ends(graph.outputs, {} if graph is self.graphs[0] else f.handles)
        inputs = [i for i in graph.inputs if i.name not in f.handles]
        outputs = [o for o in graph.outputs if o not in f.handles]
        f.graph = replace(graph, inputs=inputs, steps=steps, outputs=outputs)
        return f

    def check_ends(self, names: Sequence[str], handles: Mapping[str, Variable]) -> None:
        """Unsupported where an input or output is a handle, and none of these."""
        for n in names:
            if n not in handles and self.tensors[n].dtype == RESOURCE:
                raise Unsupported(f"{self.model}: the input or output {n!r} is a handle of a "
                                  "resource\n  supported: tensors")  # fmt: skip

    def access(self, step: ModelNode, f: _Followed) -> list[ModelNode]:
        """A node of one variable as a node of values, where anything is left of it."""
        if (len(step.inputs), len(step.outputs)) != _ACCESS[step.op] or "" in step.inputs:
            raise ImportFailure(
                f"{self.where(step)}: operands and results are {len(step.inputs)} and "
                f"{len(step.outputs)}; legal: {_ACCESS[step.op]}"
            )
        if step.op == "VAR_HANDLE":
            container, name = (str(step.attrs.get(k, "")) for k in ("container", "shared_name"))
            f.handles[step.outputs[0]] = container, name
            return []
        if step.op == "CALL_ONCE":
            if not any(step is s for s in self.graphs[0].steps):
                self.unsupported(step, "a subgraph that does so", "CALL_ONCE in the model itself")
            if early := [v for v in f.used if v in self.first]:
                what = f"{shown(early[0])} is used in front of it"
                self.unsupported(step, what, "CALL_ONCE in front of what uses variables")
            return []
        v = f.handles.get(step.inputs[0])
        if v is None:
            raise ImportFailure(f"{self.where(step)}: the operand {step.inputs[0]!r} is no handle "
                                "of a variable")  # fmt: skip
        f.used[v] = None
        if step.op == "ASSIGN_VARIABLE":
            f.now[v] = self.fresh(f"{shown(v)} of node {step.label}", step.inputs[1])
            return [replace(step, inputs=step.inputs[1:], outputs=(f.now[v],))]
        if v not in f.now:
            legal = "variables that CALL_ONCE or a node in front of it assigns"
            self.unsupported(step, f"{shown(v)} has no value here, an error in TFLite too", legal)
        return [replace(step, inputs=(f.now[v],))]

    def branches(self, step: ModelNode, f: _Followed) -> ModelNode:
        """A branch or a loop whose subgraphs take and give variables as values."""
        loop, keys = step.op == "WHILE", SUBGRAPHS[step.op]
        given = step.inputs if loop else step.inputs[1:]
        numbers = [step.attrs.get(k, 0) for k in keys]
        subs = [self.graphs[n] for n in numbers if 0 < n < self.count]
        if len(subs) < 2 or any(len(s.inputs) != len(given) for s in subs):
            return step  # an error of the operator's converter
        before = {v: self.entry(v, name) for v, name in f.now.items()}
        parts = []
        for s in subs:
            pairs = zip(s.inputs, given, strict=True)
            inner = {i.name: f.handles[n] for i, n in pairs if n in f.handles}
            parts.append(self.follow(s, inner, before))
        self.pass_handles(step, f, given, list(zip(subs, parts, strict=True)))
        used = dict.fromkeys([v for p in parts for v in p.used])
        f.used.update(used)
        taken = [v for v in used if v in f.now]
        if loop:
            changed = taken
            if odd := [v for v in taken if parts[0].now[v] != before[v]]:
                self.unsupported(step, f"its condition assigns {shown(odd[0])}", "that in its body")
        else:
            changed = [v for v in used if all(v in p.now for p in parts)
                       and any(p.now[v] != before.get(v) for p in parts)]  # fmt: skip
        attrs = dict(step.attrs)
        for k, p in zip(keys, parts, strict=True):
            ins = [*p.graph.inputs, *[Input(before[v], "", None) for v in taken]]
            outs = [p.now[v] for v in changed] if k != "cond_subgraph_index" else []
            attrs[k] = len(self.graphs)
            self.graphs.append(replace(p.graph, inputs=ins, outputs=[*p.graph.outputs, *outs]))
        inputs = [*[n for n in step.inputs if n not in f.handles], *[f.now[v] for v in taken]]
        outputs = [n for n in step.outputs if n not in f.handles]
        for v in changed:
            like = parts[-1].now[v]
            f.now[v] = self.fresh(f"{shown(v)} of node {step.label}", like)
            outputs.append(f.now[v])
        return replace(step, inputs=tuple(inputs), outputs=tuple(outputs), attrs=attrs)

    def pass_handles(
        self, step: ModelNode, f: _Followed, given: Sequence[str],
        parts: Sequence[tuple[Graph, _Followed]],
    ) -> None:  # fmt: skip
        """Note the results of a branch or a loop that are handles."""
        loop = step.op == "WHILE"
        for s, p in parts[loop:]:
            if len(s.outputs) != len(step.outputs):
                raise ImportFailure(f"{self.where(step)}: {len(step.outputs)} results; a subgraph "
                                    f"has {len(s.outputs)}")  # fmt: skip
            for k, (o, own) in enumerate(zip(step.outputs, s.outputs, strict=True)):
                if own not in p.handles:
                    continue
                same = f.handles.get(given[k]) if loop else f.handles.setdefault(o, p.handles[own])
                if same != p.handles[own]:
                    what = f"the handle {o!r}, of {shown(p.handles[own])} or another variable"
                    self.unsupported(step, what, "handles of one variable")
                f.handles[o] = same


_ACCESS = {
    "VAR_HANDLE": (0, 1), "CALL_ONCE": (0, 0), "READ_VARIABLE": (1, 1), "ASSIGN_VARIABLE": (2, 0)
}  # fmt: skip
"""The operators of variables: how many operands and results they have."""


def shown(v: Variable) -> str:
    """A variable for messages."""
    return f"the variable {'/'.join([n for n in v if n])!r}"
