"""The walk over a model's nodes: checks, order, inputs, and one converter call per node."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.limits import ADDRESSABLE, DIMENSIONS, NESTED, WRITTEN_OUT
from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.ir.sizes import by_name, plain_shapes
from smelt.ir.types import TensorType, tensor_type
from smelt.relax import nodes as relax

from . import converters  # noqa: F401  (converters enter themselves)
from .build import Build, where
from .inputs import Given, Inputs, Shapes
from .order import in_order, uses, with_branches
from .problems import Lost, Problems
from .read import Body, Graph, Model, Reference, Step, function_of, has_body, load, version_of
from .registry import (
    Converter,
    Evaluator,
    converter_of,
    custom_converter,
    evaluator_of,
    rename,
)
from .values import Operand, SequenceValue, Value


def from_onnx(
    model: object,
    shapes: Shapes | None = None,
    *,
    values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> IRModule:
    """A module whose function "main" is the model.

    model   a path, the file's bytes, or an onnx.ModelProto
    shapes  input name -> extents that replace those of the file: numbers, names of symbolic sizes,
            or expressions over them
    values  input name -> an array: its value, known from now on; the function has no such parameter
    operators  "domain.Operator" -> an operator of `@smelt.op`, or a converter: a function of a
            `Build`, the operands (`Value`) and the attributes, that gives values
    name    what messages call the model; the file's name otherwise

    Raises NeedsValues where the graph's structure depends on the values of inputs, Unsupported with
    all that is not supported, ImportFailure for a broken model.
    """
    loaded = load(model, name)
    known = by_name("values", values, "'x': array")
    custom = by_name("operators", operators, "'domain.Operator': function")
    importer = Importer(loaded, plain_shapes(shapes)[0], known, custom)
    main = importer.function()
    attrs: dict[str, Any] = {"name": _own_name(loaded)}
    if importer.decides:
        attrs["typed"] = True
    return IRModule({"main": main}, attrs)


def _own_name(model: Model) -> str:
    """What the model is called from here on: as its file, or else as its graph."""
    name = model.graph.name if model.name.startswith("<") else model.name.removesuffix(".onnx")
    return name or "model"


class Importer:
    """One model on its way in.

    decides   whether the program decides while it runs
    problems  what is not supported, by node
    steps     the nodes that the results need
    """

    def __init__(
        self,
        model: Model,
        shapes: Shapes,
        values: Mapping[str, Given],
        operators: Mapping[str, Any],
    ) -> None:
        """Take a model that was read."""
        self.model = model
        self.custom = {n: custom_converter(n, given) for n, given in operators.items()}
        self.inputs = Inputs(model.name, model.graph.inputs, shapes, values)
        self.decides = False
        self.problems = Problems(model.name)
        self.steps: list[Step] = []
        self.passed_over: set[int] = set()
        self.written_out = 0
        self.callers: list[tuple[str, str]] = []

    def function(self) -> relax.Function:
        """The model's graph as a function."""
        graph = self.model.graph
        if not graph.outputs:
            raise ImportFailure(f"{self.model.name}: the model has no outputs")
        self.steps = order = in_order(self.model.name, graph, outer=())
        for step in with_branches(order):
            if not self.known(step):
                self.problems.unknown(self.label(step), step)
        scope: dict[str, Operand] = {n: Value.of_array(a, name=n) for n, a in graph.arrays.items()}
        scope.update(self.inputs.operands())
        for param in self.inputs.params:
            if isinstance(param.type, TensorType):
                shape = Value(param.type, param).shape
                _check_size(self.model.name, f"the input {param.name!r}", shape, param.type.dtype)
        self.run(order, scope, self.model.opsets, collect=True)
        self.problems.check()
        return self.result(graph.outputs, [scope[o] for o in graph.outputs])

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

    # --------------------------------------------------------------------------------------- nodes

    def label(self, step: Step) -> str:
        """A node's operator and version, for messages."""
        version = version_of(step.op, self.model.opsets.get(step.domain, 0), step.domain)
        op = f"{step.domain}.{step.op}" if step.domain else step.op
        return f"{op}-{version}" if version else f"{op} (not in {self.opset_name(step.domain)})"

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
        if (step.domain, step.op) in self.model.functions or _full_name(step) in self.custom:
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
        self,
        steps: Iterable[Step],
        scope: dict[str, Operand],
        opsets: Mapping[str, int],
        collect: bool = False,
    ) -> None:
        """Convert nodes in order; results enter the scope.

        collect  note what is not supported, and go on with the nodes that do not depend on it
        """
        for step in steps:
            self.written_out += not collect
            if self.written_out > WRITTEN_OUT:
                raise Unsupported(
                    f"{self.model.name}: the node {step.label!r} ({step.op}): functions, branches "
                    f"and loops written out are too many nodes\n  supported: {WRITTEN_OUT}"
                )
            opset = opsets.get(step.domain, 0)
            operands = [scope[n] if n else None for n in step.inputs]
            lost = collect and any(isinstance(scope.get(n), Lost) for n in uses(step))
            if lost or (collect and self.problems.has(step)):
                self.passed_over.add(id(step))
                scope.update({n: Lost() for n in step.outputs if n})
                continue
            try:
                results = self.convert(step, operands, scope, opset, opsets)
            except Unsupported as e:
                if not collect:
                    raise
                self.problems.add(step, self.label(step), e)
                scope.update({n: Lost() for n in step.outputs if n})
                continue
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
        operands: Sequence[Operand | None],
        scope: dict[str, Operand],
        opset: int,
        opsets: Mapping[str, int],
    ) -> Sequence[Operand]:
        """The results of one node."""
        for v in operands:
            if isinstance(v, _Missing):
                raise Unsupported(v.name)
        converter = self.custom.get(_full_name(step))
        body = self.model.functions.get((step.domain, step.op))
        if body is not None and converter is None:
            return self.inline(step, body, operands)
        converter = converter or converter_of(step.domain, step.op, opset)
        if converter is None:
            types = [_noted(v) for v in operands]
            body = function_of(step, opset, types)
            if body is None:
                at = where(self.model.name, step, opset)
                raise Unsupported(f"{at}: no converter, and no function body for it")
            return self.inline(step, body, operands)
        g = Build(self.model.name, step, opset, Scope(self, scope, opsets))
        attrs = _attributes(g, converter)
        _check_operands(g, converter, operands)
        evaluator = evaluator_of(step.op) if converter.folds and not step.domain else None
        if evaluator is not None and all(v is None or v.small for v in operands):
            found = _evaluated(evaluator, g, operands, attrs)  # type: ignore[arg-type]
            if found is not None:
                if found.has_floats:
                    found.compute = lambda: converter.fn(g, *operands, **attrs)
                return (found,)
        try:
            result = converter.fn(g, *operands, **attrs)
        except (ArithmeticError, ValueError, IndexError, MemoryError) as e:
            text = f"no result from these operands and attributes: {type(e).__name__}: {e}"
            raise ImportFailure(f"{g.where}: {text}") from e
        results = result if isinstance(result, tuple) else (result,)
        for v in results:
            if isinstance(v, Value):
                _check_size(g.where, "a result", v.shape, v.dtype)
        return results

    def inline(self, step: Step, body: Body, operands: Sequence[Operand | None]) -> list[Operand]:
        """The results of a function: its nodes run with the operands under their formal names."""
        key = (step.domain, step.op)
        if key in self.callers or len(self.callers) >= NESTED:
            said = f"{self.model.name}: node {step.label!r}: the function {_full_name(step)!r} "
            if key in self.callers:
                raise ImportFailure(f"{said}calls itself")
            raise Unsupported(f"{said}is nested too deeply\n  supported: {NESTED} levels")
        self.callers.append(key)
        try:
            return self.body(step, body, operands)
        finally:
            self.callers.pop()

    def body(self, step: Step, body: Body, operands: Sequence[Operand | None]) -> list[Operand]:
        """The results of a function's nodes."""
        inner: dict[str, Operand] = {}
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
        self.run(in_order(self.model.name, graph, outer=inner), inner, body.opsets)
        absent_result = f"{self.model.name}: node {step.label!r}: a result that its function lacks"
        return [inner[o] if o in inner else _Missing(absent_result) for o in body.outputs]


class Scope:
    """What a node sees: the values around it, for the subgraphs that it holds."""

    def __init__(
        self, importer: Importer, names: dict[str, Operand], opsets: Mapping[str, int]
    ) -> None:
        """Take the values by name."""
        self.importer, self.names, self.opsets = importer, names, opsets

    def branch(self, graph: Graph, given: Sequence[Operand] = ()) -> list[Operand]:
        """The results of a subgraph of the node, which sees the values around it."""
        inner = {**self.names, **{n: Value.of_array(a, name=n) for n, a in graph.arrays.items()}}
        inner.update({i.name: v for i, v in zip(graph.inputs, given, strict=False)})
        model = self.importer.model.name
        steps = in_order(model, graph, outer=self.names)
        for step in steps:
            inner.update({n: Lost() for n in step.outputs if n and n in inner})
        self.importer.run(steps, inner, self.opsets)
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


def _evaluated(
    evaluator: Evaluator, g: Build, operands: Sequence[Value | None], attrs: Mapping[str, Any]
) -> Value | None:
    """The result on known elements; None where it has none (a division by zero, an overflow)."""
    try:
        found: Value | None = evaluator(g, operands, attrs)
    except (ArithmeticError, ValueError):
        return None
    return found


def _full_name(step: Step) -> str:
    """Domain and name of a node's operator, as users write them."""
    return f"{step.domain or 'ai.onnx'}.{step.op}"


def _noted(v: Operand | None) -> tuple[str, Sequence[Any] | None] | None:
    """Element type and extents of an operand, as a function's body may need them."""
    if isinstance(v, Value):
        return v.dtype, v.shape
    return (v.dtype, None) if v is not None and v.items is not None and v.dtype else None


class _Missing(Value):
    """A result that no converter makes; an error where it is used."""

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(tensor_type((), "bool"), None, None, message)

    @property
    def expr(self) -> relax.RelaxExpr:
        raise Unsupported(self.name)


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


def _check_size(where: str, what: str, shape: Sequence[Any], dtype: str) -> None:
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


def _check_operands(g: Build, converter: Converter, operands: Sequence[Operand | None]) -> None:
    names = converter.operands
    for k, v in enumerate(operands):
        label = names[k] if k < len(names) else converter.rest
        if isinstance(v, SequenceValue) and label not in converter.sequences:
            what = "an absent optional value" if v.items is None else "a sequence"
            g.malformed(f"the operand {label!r} (number {k}) is {what}; a tensor is expected")
    if len(operands) > len(names) and not converter.variadic:
        used = [n for n in g.step.inputs[len(names) :] if n]
        if used:
            g.unsupported(
                f"operand {used[0]!r} (number {len(names)})", ", ".join(names) or "no operands"
            )
    for k in range(converter.required):
        if k >= len(operands) or operands[k] is None:
            g.malformed(f"the operand {names[k]!r} (number {k}) is missing")
