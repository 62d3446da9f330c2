"""ONNX models as graph programs: which converter a node has, functions, attributes, operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from smelt.frontend import common
from smelt.frontend.common import Build, Environment, Graph, ModelNode, Operand, Value
from smelt.frontend.common.converter import attributes_of, check_operands, custom_converter
from smelt.frontend.common.graph import in_order
from smelt.frontend.common.inputs import Given, Shapes
from smelt.frontend.common.problems import Missing
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.limits import NESTED
from smelt.ir.module import IRModule
from smelt.ir.sizes import by_name, plain_shapes

from .read import Body, ModelFile, Reference, function_of, has_body, load, named_by, version_of
from .registry import converter_of


def from_onnx(
    model: object, shapes: Shapes | None = None, *, values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None, name: str | None = None,
) -> IRModule:  # fmt: skip
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
    return Importer(loaded, plain_shapes(shapes)[0], known, custom).module(_own_name(loaded))


def _own_name(model: ModelFile) -> str:
    """What the model is called from here on: as its file, or else as its graph."""
    name = model.graph.name if model.name.startswith("<") else model.name.removesuffix(".onnx")
    return name or "model"


class Importer(common.Importer):
    """One ONNX model on its way in."""

    def __init__(
        self, model: ModelFile, shapes: Shapes, values: Mapping[str, Given],
        operators: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Take a model that was read, and what nodes of the user's own operators become."""
        super().__init__(model.name, model.graph, shapes, values, model.opsets)
        self.functions = model.functions
        self.custom = {n: custom_converter(n, given) for n, given in operators.items()}
        self.callers: list[tuple[str, str]] = []

    def operator(self, step: ModelNode, opsets: Mapping[str, int]) -> str:
        """Operator and version, as Relu-14; only the operator where no version has it."""
        version = version_of(step.op, opsets.get(step.domain, 0), step.domain)
        op = f"{step.domain}.{step.op}" if step.domain else step.op
        return op if version is None else f"{op}-{version}"

    def label(self, step: ModelNode) -> str:
        """Operator and version, or the set of operators that lacks it."""
        opset = self.opsets.get(step.domain)
        op = self.operator(step, self.opsets)
        if version_of(step.op, opset or 0, step.domain):
            return op
        missing = f"any opset the model imports for {step.domain!r}"
        missing = f"{step.domain or 'ai.onnx'} {opset}" if opset else missing
        return f"{op} (not in {missing})"

    def known(self, step: ModelNode) -> bool:
        """Whether a converter or a function body exists."""
        if (step.domain, step.op) in self.functions or _full_name(step) in self.custom:
            return True
        opset = self.opsets.get(step.domain)
        if opset is None:
            if step.domain == "":
                raise ImportFailure(
                    f"{self.model}: the node {step.label!r} uses the operator {step.op}, but "
                    "the model imports no opset for the domain ai.onnx"
                )
            return False
        exists = bool(step.domain) or version_of(step.op, opset) is not None
        if exists and converter_of(step.domain, step.op, opset) is not None:
            return True
        return not step.domain and has_body(step.op, opset)

    def convert(
        self, step: ModelNode, operands: Sequence[Operand | None], scope: Environment
    ) -> Sequence[Operand]:
        """The results of one node."""
        g = Build(step, scope)
        converter = self.custom.get(_full_name(step))
        body = self.functions.get((step.domain, step.op))
        if converter is None and body is None:
            converter = converter_of(step.domain, step.op, g.opset)
        if converter is None:
            body = body or function_of(step, g.opset, [_noted(v) for v in operands])
            if body is None:
                raise Unsupported(f"{g.where}: no converter, and no function body for it")
            return self.inline(step, body, operands)
        attrs = attributes_of(g, converter, _idle(g))
        check_operands(g, converter, operands)
        return g.results(converter.fn, *operands, **attrs)

    def inline(
        self, step: ModelNode, body: Body, operands: Sequence[Operand | None]
    ) -> list[Operand]:
        """The results of a function: its nodes run with the operands under their formal names."""
        key = (step.domain, step.op)
        if key in self.callers or len(self.callers) >= NESTED:
            said = f"{self.model}: node {step.label!r}: the function {_full_name(step)!r} "
            if key in self.callers:
                raise ImportFailure(f"{said}calls itself")
            raise Unsupported(f"{said}is nested too deeply\n  supported: {NESTED} levels")
        self.callers.append(key)
        try:
            return self.body(step, body, operands)
        finally:
            self.callers.pop()

    def body(
        self, step: ModelNode, body: Body, operands: Sequence[Operand | None]
    ) -> list[Operand]:
        """The results of a function's nodes."""
        inner = {n: v for n, v in zip(body.inputs, operands, strict=False) if v is not None}
        absent = {n for n in body.inputs if n not in inner}
        attrs = {**body.defaults, **step.attrs}
        steps = [_bound(s, step, attrs, absent) for s in body.steps]
        made = {*inner, *[o for s in steps for o in s.outputs]}
        wanted = [o for o, n in zip(body.outputs, step.outputs, strict=False) if n and o in made]
        graph = Graph(step.op, [], {}, steps, wanted)
        self.run(in_order(self.model, graph, outer=inner), Environment(self, inner, body.opsets))
        absent_result = f"{self.model}: node {step.label!r}: a result that its function lacks"
        return [inner[o] if o in inner else Missing(absent_result) for o in body.outputs]


def _full_name(step: ModelNode) -> str:
    """Domain and name of a node's operator, as users write them."""
    return f"{step.domain or 'ai.onnx'}.{step.op}"


def _noted(v: Operand | None) -> tuple[str, Sequence[Any] | None] | None:
    """Element type and extents of an operand, as a function's body may need them."""
    if isinstance(v, Value):
        return v.dtype, v.shape
    return (v.dtype, None) if v is not None and v.items is not None and v.dtype else None


def _bound(
    inner: ModelNode, outer: ModelNode, attrs: Mapping[str, Any], absent: set[str]
) -> ModelNode:
    """A node of a function with the attributes of the calling node put in."""
    given = {
        k: attrs.get(v.name) if isinstance(v, Reference) else v for k, v in inner.attrs.items()
    }
    own = {k: v for k, v in given.items() if v is not None}
    inputs = tuple(["" if n in absent else n for n in inner.inputs])
    name = f"{outer.label}/{inner.label}"
    return replace(inner, name=name, inputs=inputs, attrs=own, named=named_by(inner.op, own))


# ------------------------------------------------------------------------------------ operands


def _idle(g: Build) -> tuple[str, ...]:
    """Attributes of old versions that say nothing about results."""
    if g.opset >= 7:
        return ()
    return ("consumed_inputs", "broadcast") if g.step.op == "Gemm" else ("consumed_inputs",)
