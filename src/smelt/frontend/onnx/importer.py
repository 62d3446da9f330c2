"""The walk over a model's nodes: checks, order, inputs, and one converter call per node."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import ImportFailure, TypeMismatch, Unsupported
from smelt.ir.expr import Expr, Var
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax import nodes as relax

from . import (  # noqa: F401
    evaluate,
    ops_batchnorm,
    ops_einsum,
    ops_index,
    ops_math,
    ops_ml,
    ops_ml_svm,
    ops_ml_trees,
    ops_nn,
    ops_norm,
    ops_old,
    ops_pool,
    ops_random,
    ops_sets,
    ops_shape,
    ops_signal,
    ops_train,
)
from .build import Build, where
from .read import (
    Body,
    Graph,
    Input,
    Model,
    Reference,
    Step,
    function_of,
    has_body,
    load,
    subgraphs,
    version_of,
)
from .registry import Converter, Evaluator, converter_of, evaluator_of, rename
from .values import Value

__all__ = ["from_onnx"]

Shapes = Mapping[str, Sequence["int | str | Expr"]]


def from_onnx(model: object, shapes: Shapes | None = None, *, name: str | None = None) -> IRModule:
    """A module whose function "main" is the model.

    model   a path, the file's bytes, or an onnx.ModelProto
    shapes  input name -> extents that replace those of the file: numbers, names of symbolic sizes,
            or expressions over them
    name    what messages call the model; the file's name otherwise
    """
    loaded = load(model, name)
    return IRModule({"main": _Importer(loaded).function(shapes or {})}, {"name": _own_name(loaded)})


def _own_name(model: Model) -> str:
    """What the model is called from here on: as its file, or else as its graph."""
    name = model.graph.name if model.name.startswith("<") else model.name.removesuffix(".onnx")
    return name or "model"


class _Importer:
    """One model on its way in."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sizes: dict[str, Var] = {}

    def function(self, shapes: Shapes) -> relax.Function:
        """The model's graph as a function."""
        graph = self.model.graph
        order = _order(self.model.name, graph, outer=())
        self.check_operators(order)
        scope: dict[str, Value] = {n: Value.of_array(a, name=n) for n, a in graph.arrays.items()}
        params = []
        for i, shape in zip(graph.inputs, self.input_shapes(graph.inputs, shapes), strict=True):
            param = relax.Var(i.name, tensor_type(shape, i.dtype))
            params.append(param)
            scope[i.name] = Value(tensor_type(shape, i.dtype), param)
        self.run(order, scope, self.model.opsets)
        results = [scope[o].expr for o in graph.outputs]
        body = results[0] if len(results) == 1 else relax.Tuple(tuple(results))
        return relax.Function(tuple(params), body, {"output_names": tuple(graph.outputs)})

    # -------------------------------------------------------------------------------------- inputs

    def input_shapes(self, inputs: Sequence[Input], shapes: Shapes) -> list[list[int | Expr]]:
        """The extents of every input, symbolic sizes shared by name."""
        model = self.model.name
        known = {i.name for i in inputs}
        for name in shapes:
            if name not in known:
                raise TypeMismatch(
                    f"{model}: shapes names {name!r}, which is no input\n"
                    f"  inputs: {', '.join(sorted(known)) or 'none'}"
                )
        fixed = self.fixed_sizes(inputs, shapes)
        result = []
        for i in inputs:
            given = shapes.get(i.name)
            if given is None and i.shape is None:
                raise TypeMismatch(
                    f"{model}: the input {i.name!r} has no shape in the file; "
                    f"give one: shapes={{{i.name!r}: (...)}}"
                )
            if given is not None and i.shape is not None and len(given) != len(i.shape):
                raise TypeMismatch(
                    f"{model}: shapes gives the input {i.name!r} {len(given)} dimensions, "
                    f"the file {len(i.shape)}: ({', '.join(map(_shown, i.shape))})"
                )
            dims: Sequence[Any] = given if given is not None else i.shape or ()
            result.append(
                [
                    self.extent(i.name, k, fixed.get(d, d) if given is None else d)
                    for k, d in enumerate(dims)
                ]
            )
        return result

    def fixed_sizes(self, inputs: Sequence[Input], shapes: Shapes) -> dict[Any, Any]:
        """Named sizes of the file that `shapes` gives one number: it holds for all inputs."""
        found: dict[Any, set[Any]] = {}
        for i in inputs:
            for d, new in zip(i.shape or (), shapes.get(i.name, ()), strict=False):
                if isinstance(d, str):
                    found.setdefault(d, set()).add(new)
        return {d: next(iter(new)) for d, new in found.items() if len(new) == 1}

    def extent(self, name: str, index: int, d: Any) -> int | Expr:
        """One extent of an input."""
        if isinstance(d, Expr):
            return d
        if (
            isinstance(d, bool)
            or not isinstance(d, int | str | None)
            or (isinstance(d, int) and d < 1)
        ):
            raise TypeMismatch(
                f"{self.model.name}: shapes gives the input {name!r} the extent {d!r}; "
                "legal: numbers from 1, names, expressions"
            )
        if isinstance(d, int):
            return d
        key = d or f"{name}_{index}"
        return self.sizes.setdefault(key, Var(key))

    # --------------------------------------------------------------------------------------- nodes

    def check_operators(self, order: Iterable[Step]) -> None:
        """One Unsupported for all operators that nothing here knows."""
        missing: dict[str, list[str]] = {}
        for step in _with_branches(order):
            if not self.known(step):
                version = version_of(step.op, self.model.opsets.get(step.domain, 0), step.domain)
                op = f"{step.domain}.{step.op}" if step.domain else step.op
                label = (
                    f"{op}-{version}"
                    if version
                    else f"{op} (not in {self.opset_name(step.domain)})"
                )
                missing.setdefault(label, []).append(step.label)
        if not missing:
            return
        lines = []
        for label, nodes in sorted(missing.items()):
            names = ", ".join(map(repr, nodes[:5])) + (", ..." if len(nodes) > 5 else "")
            lines.append(f"  {label}: {len(nodes)} node{'s' * (len(nodes) > 1)} ({names})")
        count = len(missing)
        raise Unsupported(
            f"{self.model.name}: {count} operator{'s' * (count > 1)} not supported\n"
            + "\n".join(lines)
        )

    def opset_name(self, domain: str) -> str:
        """An operator set with its version, for messages."""
        version = self.model.opsets.get(domain)
        return (
            f"{domain or 'ai.onnx'} {version}"
            if version
            else f"any opset the model imports for {domain!r}"
        )

    def known(self, step: Step) -> bool:
        """Whether a converter or a function body exists."""
        if (step.domain, step.op) in self.model.functions:
            return True
        opset = self.model.opsets.get(step.domain)
        if opset is None:
            if step.domain == "":
                raise ImportFailure(
                    f"{self.model.name}: the node {step.label!r} uses the operator {step.op}, but "
                    "the model imports no opset for the domain ai.onnx"
                )
            return False
        exists = bool(step.domain) or version_of(step.op, opset) is not None
        if exists and converter_of(step.domain, step.op, opset) is not None:
            return True
        return not step.domain and has_body(step.op, opset)

    def run(
        self, steps: Iterable[Step], scope: dict[str, Value], opsets: Mapping[str, int]
    ) -> None:
        """Convert nodes in order; results enter the scope."""
        for step in steps:
            opset = opsets.get(step.domain, 0)
            operands = [scope[n] if n else None for n in step.inputs]
            results = self.convert(step, operands, scope, opset, opsets)
            for n, v in zip(step.outputs, results, strict=False):
                if n:
                    v.name = v.name or n
                    scope[n] = v
            for n in step.outputs[len(results) :]:
                if n:
                    scope[n] = _Missing(
                        f"{where(self.model.name, step, opset)}: the result {n!r} "
                        f"(number {step.outputs.index(n)}) is used\n"
                        f"  supported: the first {len(results)}"
                    )

    def convert(
        self,
        step: Step,
        operands: Sequence[Value | None],
        scope: dict[str, Value],
        opset: int,
        opsets: Mapping[str, int],
    ) -> Sequence[Value]:
        """The results of one node."""
        for v in operands:
            if isinstance(v, _Missing):
                raise Unsupported(v.name)
        body = self.model.functions.get((step.domain, step.op))
        if body is not None:
            return self.inline(step, body, operands)
        converter = converter_of(step.domain, step.op, opset)
        if converter is None:
            types = [None if v is None else (v.dtype, v.shape) for v in operands]
            body = function_of(step, opset, types)
            if body is None:
                at = where(self.model.name, step, opset)
                raise Unsupported(f"{at}: no converter, and no function body for it")
            return self.inline(step, body, operands)
        g = Build(self.model.name, step, opset, lambda b: self.branch(b, scope, opsets))
        attrs = _attributes(g, converter)
        _check_operands(g, converter, operands)
        evaluator = evaluator_of(step.op) if converter.folds and not step.domain else None
        if evaluator is not None and all(v is None or v.small for v in operands):
            found = _evaluated(evaluator, g, operands, attrs)
            if found is not None:
                if found.has_floats:
                    found.compute = lambda: converter.fn(g, *operands, **attrs)
                return (found,)
        result = converter.fn(g, *operands, **attrs)
        return result if isinstance(result, tuple) else (result,)

    def branch(
        self, graph: Graph, scope: Mapping[str, Value], opsets: Mapping[str, int]
    ) -> list[Value]:
        """The results of a branch of the node, which sees the values around it."""
        inner = {**scope, **{n: Value.of_array(a, name=n) for n, a in graph.arrays.items()}}
        self.run(_order(self.model.name, graph, outer=scope), inner, opsets)
        return [inner[o] for o in graph.outputs]

    def inline(self, step: Step, body: Body, operands: Sequence[Value | None]) -> list[Value]:
        """The results of a function: its nodes run with the operands under their formal names."""
        inner: dict[str, Value] = {}
        absent = set(body.inputs[len(operands) :])
        for n, v in zip(body.inputs, operands, strict=False):
            if v is None:
                absent.add(n)
            else:
                inner[n] = v
        attrs = {**body.defaults, **step.attrs}
        steps = [_bound(s, step, attrs, absent) for s in body.steps]
        made = {*inner, *[o for s in steps for o in s.outputs]}
        wanted = [o for o, n in zip(body.outputs, step.outputs, strict=False) if n and o in made]
        graph = Graph(step.op, [], {}, steps, wanted)
        self.run(_order(self.model.name, graph, outer=inner), inner, body.opsets)
        absent_result = f"{self.model.name}: node {step.label!r}: a result that its function lacks"
        return [inner[o] if o in inner else _Missing(absent_result) for o in body.outputs]


def _evaluated(
    evaluator: Evaluator, g: Build, operands: Sequence[Value | None], attrs: Mapping[str, Any]
) -> Value | None:
    """The result on known elements; None where it has none (a division by zero, an overflow)."""
    try:
        found: Value | None = evaluator(g, operands, attrs)
    except (ArithmeticError, ValueError):
        return None
    return found


class _Missing(Value):
    """A result that no converter makes; an error where it is used."""

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(tensor_type((), "bool"), None, None, message)

    @property
    def expr(self) -> relax.RelaxExpr:
        raise Unsupported(self.name)


def _shown(d: object) -> str:
    return "?" if d is None else str(d)


def _bound(inner: Step, outer: Step, attrs: Mapping[str, Any], absent: set[str]) -> Step:
    """A node of a function with the attributes of the calling node put in."""
    own = {k: attrs.get(v.name) if isinstance(v, Reference) else v for k, v in inner.attrs.items()}
    inputs = tuple(["" if n in absent else n for n in inner.inputs])
    return Step(
        f"{outer.label}/{inner.label}",
        inner.op,
        inner.domain,
        inputs,
        inner.outputs,
        {k: v for k, v in own.items() if v is not None},
    )


def _with_branches(steps: Iterable[Step]) -> Iterable[Step]:
    for step in steps:
        yield step
        for g in subgraphs(step):
            yield from _with_branches(g.steps)


# ------------------------------------------------------------------------------------ operands


def _attributes(g: Build, converter: Converter) -> dict[str, Any]:
    """The node's attributes as keywords of the converter."""
    names = {rename(p): p for p in converter.attributes}
    found: dict[str, Any] = {}
    for name, value in g.step.attrs.items():
        if name not in names:
            shown = "a graph" if isinstance(value, Graph) else repr(value)
            g.unsupported(f"attribute {name}={shown}", ", ".join(names) or "no attributes")
        if not converter.is_of_kind(names[name], value):
            g.malformed(
                f"attribute {name}={value!r} is no {converter.attributes[names[name]][0].lower()}"
            )
        found[names[name]] = value
    for name, p in names.items():
        if p not in found and converter.attributes[p][1] is inspect.Parameter.empty:
            g.malformed(f"the attribute {name!r} is missing")
    return found


def _check_operands(g: Build, converter: Converter, operands: Sequence[Value | None]) -> None:
    names = converter.operands
    if len(operands) > len(names) and not converter.variadic:
        used = [n for n in g.step.inputs[len(names) :] if n]
        if used:
            g.unsupported(
                f"operand {used[0]!r} (number {len(names)})", ", ".join(names) or "no operands"
            )
    for k in range(converter.required):
        if k >= len(operands) or operands[k] is None:
            g.malformed(f"the operand {names[k]!r} (number {k}) is missing")


# --------------------------------------------------------------------------------------- order


def _order(model: str, graph: Graph, outer: Iterable[str]) -> list[Step]:
    """The nodes that the results need, operands first; wrong graphs end here."""
    maker = _makers(model, graph)
    given = {*graph.arrays, *[i.name for i in graph.inputs], *outer}
    for step in graph.steps:
        for n in _uses(step):
            if n and n not in given and n not in maker:
                raise ImportFailure(
                    f"{model}: the node {step.label!r} ({step.op}) reads {n!r}, "
                    "which nothing defines"
                )
    for o in graph.outputs:
        if o not in given and o not in maker:
            raise ImportFailure(f"{model}: the result {o!r} is defined by nothing")
    live: dict[int, None] = {}
    stack = [maker[o] for o in graph.outputs if o in maker]
    while stack:
        k = stack.pop()
        if k not in live:
            live[k] = None
            stack += [maker[n] for n in _uses(graph.steps[k]) if n in maker]
    return _sorted(model, graph.steps, sorted(live), maker)


def _sorted(
    model: str, steps: Sequence[Step], live: Sequence[int], maker: Mapping[str, int]
) -> list[Step]:
    """Depth first in the file's order; a node met below itself lies on a cycle."""
    done: list[Step] = []
    state: dict[int, int] = {}
    for root in live:
        stack = [(root, False)]
        while stack:
            k, ready = stack.pop()
            if ready:
                state[k] = 2
                done.append(steps[k])
                continue
            if state.get(k) == 2:
                continue
            if state.get(k) == 1:
                raise ImportFailure(
                    f"{model}: the graph has a cycle through the node {steps[k].label!r} "
                    f"({steps[k].op})"
                )
            state[k] = 1
            stack.append((k, True))
            below = [maker[n] for n in _uses(steps[k]) if n in maker]
            for b in below:
                if state.get(b) == 1:
                    raise ImportFailure(
                        f"{model}: the graph has a cycle through the node {steps[b].label!r} "
                        f"({steps[b].op})"
                    )
            stack += [(b, False) for b in reversed(below) if b not in state]
    return done


def _makers(model: str, graph: Graph) -> dict[str, int]:
    """Value name -> number of the node that makes it."""
    names = Counter([i.name for i in graph.inputs])
    twice = [n for n, c in names.items() if c > 1]
    if twice:
        raise ImportFailure(f"{model}: the input {twice[0]!r} is defined twice")
    maker: dict[str, int] = {}
    for k, step in enumerate(graph.steps):
        for o in step.outputs:
            if o and (o in maker or o in names or o in graph.arrays):
                raise ImportFailure(
                    f"{model}: the value {o!r} is defined twice: by the node {step.label!r} "
                    f"({step.op}) and by "
                    + (
                        f"the node {graph.steps[maker[o]].label!r}"
                        if o in maker
                        else "an input"
                        if o in names
                        else "an initializer"
                    )
                )
            if o:
                maker[o] = k
    return maker


def _uses(step: Step) -> list[str]:
    """The values a node reads, those that its branches take from around included."""
    used = [n for n in step.inputs if n]
    for g in subgraphs(step):
        own = {*g.arrays, *[i.name for i in g.inputs], *[o for s in g.steps for o in s.outputs]}
        used += [n for s in g.steps for n in _uses(s) if n not in own]
        used += [o for o in g.outputs if o not in own]
    return used
