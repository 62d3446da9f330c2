"""The walk over a model's nodes: order, inputs, what is not supported, and one result per name."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.limits import ADDRESSABLE, DIMENSIONS, WRITTEN_OUT
from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.ir.types import TensorType
from smelt.relax import nodes as relax

from .graph import Graph, ModelNode, in_order, uses, with_branches
from .inputs import Given, Inputs, Shapes
from .problems import Lost, Missing, Problems
from .values import Operand, Value


class Importer(ABC):
    """One model on its way in. A front end says which operators it knows, and what they become.

    decides   whether the program decides while it runs
    problems  what is not supported, by node
    steps     the nodes that the results need
    """

    def __init__(
        self, model: str, graph: Graph, shapes: Shapes, values: Mapping[str, Given],
        opsets: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Take a model that was read.

        model   what messages call it
        opsets  versions of the sets of operators, by domain, where a format has them
        """
        self.model, self.graph, self.opsets = model, graph, opsets or {}
        self.inputs = Inputs(model, graph.inputs, shapes, values)
        self.decides = False
        self.problems = Problems(model)
        self.steps: list[ModelNode] = []
        self.passed_over: set[int] = set()
        self.written_out = 0

    @abstractmethod
    def known(self, step: ModelNode) -> bool:
        """Whether anything says what the node's operator becomes."""

    @abstractmethod
    def convert(
        self, step: ModelNode, operands: Sequence[Operand | None], scope: Environment
    ) -> Sequence[Operand]:
        """The results of one node."""

    def operator(self, step: ModelNode, opsets: Mapping[str, int]) -> str:
        """A node's operator, for messages."""
        return step.op

    def label(self, step: ModelNode) -> str:
        """A node's operator, for lists of what is not supported."""
        return self.operator(step, self.opsets)

    def function(self) -> relax.Function:
        """The model's graph as a function."""
        if not self.graph.outputs:
            raise ImportFailure(f"{self.model}: the model has no outputs")
        self.steps = order = in_order(self.model, self.graph, outer=())
        for step in with_branches(order):
            if not self.known(step):
                self.problems.unknown(self.label(step), step)
        names: dict[str, Operand] = self.inputs.operands()
        for param in self.inputs.params:
            if isinstance(param.type, TensorType):
                shape = Value(param.type, param).shape
                check_size(self.model, f"the input {param.name!r}", shape, param.type.dtype)
        scope = Environment(self, {**arrays_of(self.graph), **names}, self.opsets)
        self.run(order, scope, collect=True)
        self.problems.check()
        return self.result(self.graph.outputs, [scope.names[o] for o in self.graph.outputs])

    def module(self, name: str) -> IRModule:
        """A module whose function "main" is the model."""
        main = self.function()
        attrs: dict[str, Any] = {"name": name}
        return IRModule({"main": main}, {**attrs, "typed": True} if self.decides else attrs)

    def result(self, names: Sequence[str], values: Sequence[Operand]) -> relax.Function:
        """The function of the results; sequences among them are flattened."""
        exprs: list[relax.RelaxExpr] = []
        flat: list[str] = []
        groups: list[int] = []
        for name, v in zip(names, values, strict=True):
            if isinstance(v, Value):
                exprs.append(v.expr)
                flat.append(name)
                groups.append(-1)
                continue
            items = v.items or []
            exprs += [i.expr for i in items]
            flat += [f"{name}.{n}" for n in range(len(items))]
            groups.append(-2 if v.items is None else len(items))
        attrs: dict[str, Any] = {"output_names": tuple(flat)}
        if any(g != -1 for g in groups):
            attrs["output_groups"] = tuple(groups)
        body = exprs[0] if len(exprs) == 1 else relax.Tuple(tuple(exprs))
        return relax.Function(tuple(self.inputs.params), body, attrs)

    def run(self, steps: Iterable[ModelNode], scope: Environment, collect: bool = False) -> None:
        """Convert nodes in order; results enter the scope.

        collect  note what is not supported, and go on with the nodes that do not depend on it
        """
        names = scope.names
        for step in steps:
            self.written_out += not collect
            if self.written_out > WRITTEN_OUT:
                raise Unsupported(
                    f"{self.model}: the node {step.label!r} ({step.op}): functions, branches "
                    f"and loops written out are too many nodes\n  supported: {WRITTEN_OUT}"
                )
            operands = [names[n] if n else None for n in step.inputs]
            lost = collect and any(isinstance(names.get(n), Lost) for n in uses(step))
            if lost or (collect and self.problems.has(step)):
                self.passed_over.add(id(step))
                names.update({n: Lost() for n in step.outputs if n})
                continue
            try:
                missing = next((v for v in operands if isinstance(v, Missing)), None)
                if missing is not None:
                    raise Unsupported(missing.name)
                results = self.convert(step, operands, scope)
            except Unsupported as e:
                if not collect:
                    raise
                self.problems.add(step, self.label(step), e)
                names.update({n: Lost() for n in step.outputs if n})
                continue
            scope.enter(step, results)


class Environment:
    """What a node sees: the values around it, by name, for the subgraphs that it holds too."""

    def __init__(
        self, importer: Importer, names: dict[str, Operand], opsets: Mapping[str, int]
    ) -> None:
        """Take the values, and the versions of the sets of operators here."""
        self.importer, self.names, self.opsets = importer, names, opsets

    def enter(self, step: ModelNode, results: Sequence[Operand]) -> None:
        """Let the names of a node's results stand for them."""
        for k, n in enumerate(step.outputs):
            if n and k < len(results):
                results[k].name = results[k].name or n
                self.names[n] = results[k]
            elif n:
                self.names[n] = Missing(
                    f"{self.where(step)}: the result {n!r} (number {k}) is used\n"
                    f"  supported: the first {len(results)}"
                )

    def branch(self, graph: Graph, given: Sequence[Operand] = ()) -> list[Operand]:
        """The results of a subgraph of the node, which sees the values around it."""
        inner = {**self.names, **arrays_of(graph)}
        inner.update({i.name: v for i, v in zip(graph.inputs, given, strict=False)})
        steps = in_order(self.importer.model, graph, outer=self.names)
        for step in steps:
            inner.update({n: Lost() for n in step.outputs if n and n in inner})
        self.importer.run(steps, Environment(self.importer, inner, self.opsets))
        return [inner[o] for o in graph.outputs]

    def sources(self, expr: relax.RelaxExpr) -> tuple[str, ...] | None:
        """The inputs that a value is computed from; None where it depends on something else."""
        names = self.importer.inputs.names
        found = [n for n in postorder(expr) if isinstance(n, relax.Var)]
        if any(n not in names for n in found):
            return None
        return tuple(dict.fromkeys([names[n] for n in found]))

    def decide(self) -> None:
        """Note that the program decides while it runs."""
        self.importer.decides = True

    def where(self, step: ModelNode) -> str:
        """Model, node and operator as they stand at the head of a message."""
        operator = self.importer.operator(step, self.opsets)
        return f"{self.importer.model}: node {step.label!r} ({operator})"


def arrays_of(graph: Graph) -> dict[str, Operand]:
    """The arrays of a graph as values."""
    return {n: Value.of_array(a, name=n) for n, a in graph.arrays.items()}


def check_size(where: str, what: str, shape: Sequence[Any], dtype: str) -> None:
    """ImportFailure where a tensor cannot exist: an extent below 0, or too large to address."""
    known = [d for d in shape if isinstance(d, int)]
    text = f"{where}: {what} of the shape ({', '.join(map(str, shape))})"
    if min(known, default=0) < 0:
        raise ImportFailure(f"{text}: the extent {min(known)} is below 0")
    if len(shape) > DIMENSIONS:
        raise ImportFailure(f"{text} has {len(shape)} dimensions; {DIMENSIONS} are legal")
    bits = 8 * np.dtype(object).itemsize if dtype == "string" else dt.bits(dtype)
    if 0 not in known and math.prod(known) * bits > 8 * ADDRESSABLE:
        raise ImportFailure(f"{text} and type {dtype} is larger than {ADDRESSABLE} bytes")
