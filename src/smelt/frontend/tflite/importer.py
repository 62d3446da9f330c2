"""TFLite models as graph programs: which converter a node has, its options and operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.frontend import common
from smelt.frontend.common import Environment, ModelNode, NeedsValues, Operand, Value
from smelt.frontend.common.converter import attributes_of, check_operands, custom_converter
from smelt.frontend.common.inputs import Given, Shapes
from smelt.frontend.common.survey import Survey, survey_of
from smelt.ir.errors import ImportFailure, TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.sizes import by_name, plain_shapes
from smelt.ir.types import TensorType, Type, tensor_type
from smelt.relax import nodes as relax
from smelt.relax.interpret import interpret
from smelt.relax.nodes import same_types
from smelt.relax.shapes import show_type
from smelt.relax.updates import with_states

from .node import Node
from .read import CUSTOM, ModelFile, Tensor, load
from .registry import converter_of
from .variables import carry_variables

_NOTES = (
    "_output_quantized", "_output_types", "_support_output_type_float_in_quantized_op"
)  # fmt: skip
"""What converters note among the attributes of others' operators: the types of results, which
stand at the tensors too."""


def from_tflite(
    model: object, shapes: Shapes | None = None, *, values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None, name: str | None = None,
) -> IRModule:  # fmt: skip
    """A module whose function "main" is the model.

    model   a path, or the file's bytes
    shapes  input name, or a signature's for it -> extents that replace those of the file: numbers,
            names of symbolic sizes, or expressions over them
    values  input name -> an array: its value, known from now on; the function has no such parameter
    operators  "custom.Operator" -> an operator of `@smelt.op`, or a converter: a function of a
            `Build`, the operands (`Value`) and the attributes, that gives values
    name    what messages call the model; the file's name otherwise

    Raises Unsupported with all that is not supported, ImportFailure for a broken model.
    """
    loaded = load(model, name)
    known = by_name("values", values, "'x': array")
    custom = by_name("operators", operators, "'custom.Operator': function")
    own = loaded.graph.name if loaded.name.startswith("<") else loaded.name
    plain = plain_shapes(shapes)[0]
    made = _importer(loaded, plain, known, custom)
    return made.module(own.removesuffix(".tflite") or "model")


def survey(
    model: object, shapes: Shapes | None = None, values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None,
) -> Survey:  # fmt: skip
    """Look at a model; the arguments are those of from_tflite."""
    return survey_of(_importer(load(model), shapes or {}, values or {}, operators or {}))


def _importer(
    model: ModelFile, shapes: Shapes, values: Mapping[str, Given], operators: Mapping[str, Any]
) -> Importer:
    """An importer of a model, whose variables are values; names may be those of signatures."""

    def evaluated(first: ModelFile) -> list[np.ndarray]:
        return [np.asarray(y) for y in interpret(Importer(first, {}, {}, operators).function())]

    given = model.by_tensor(shapes), model.by_tensor(values)
    return Importer(carry_variables(model, evaluated), *given, operators)


def _first_of(t: Tensor) -> np.ndarray | None:
    """What TFLite fills a tensor of integers with that is kept: its zero point; None: zeros."""
    return np.full(t.shape, t.zeros[0], t.dtype) if t.dtype == "int8" and t.quantized else None


class Importer(common.Importer):
    """One TFLite model on its way in."""

    def __init__(
        self, model: ModelFile, shapes: Shapes, values: Mapping[str, Given],
        operators: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Take a model that was read, and what nodes of the user's own operators become."""
        super().__init__(model.name, model.graph, shapes, values)
        self.tensors, self.versions, self.inner = model.tensors, model.versions, model.inner
        self.graphs = [model.graph, *model.others]
        self.variables = model.variables
        self.kept: dict[str, Value] = {}
        self.custom = {n: custom_converter(n, given) for n, given in operators.items()}

    def result(self, names: Sequence[str], values: Sequence[Operand]) -> relax.Function:
        """The function of the results; behind them, what variables are for the next call."""
        found = dict(zip(names, values, strict=True))
        kept = {n: found.pop(after) for n, (after, _) in self.variables.items()} | self.kept
        if not kept:
            return super().result(names, values)
        after = [f"{n} afterwards" for n in kept]
        f = super().result([*found, *after], [*found.values(), *kept.values()])
        params = {p.name: n for n, p in enumerate(f.params)}
        if fixed := [n for n in kept if n not in params]:
            raise TypeMismatch(f"{self.model}: values names {fixed[0]!r}, which the model changes: "
                               f"exe.state[{fixed[0]!r}] = array sets it")  # fmt: skip
        for name, (_, first) in self.variables.items():
            self.check_variable(name, first, f.params[params[name]].type, kept[name])
        pairs = {params[name]: len(found) + n for n, name in enumerate(kept)}
        starts = {params[name]: first for name, (_, first) in self.variables.items()}
        own = {params[n]: _first_of(self.tensors[n]) for n in self.kept}
        return with_states(f, pairs, starts | {i: a for i, a in own.items() if a is not None})

    def check_variable(self, name: str, first: np.ndarray, taken: Type, after: Operand) -> None:
        """Unsupported where a variable has another type than its first value."""
        own = tensor_type(first.shape, str(first.dtype))
        for t in (taken, after.type if isinstance(after, Value) else None):
            if not isinstance(t, TensorType) or not same_types(t, own):
                what = show_type(t) if isinstance(t, TensorType) else "a sequence"
                raise Unsupported(f"{self.model}: the variable {name!r} is {show_type(own)} at "
                                  f"first and {what} then\n  supported: one type")  # fmt: skip

    def function(self) -> relax.Function:
        """The model's graph as a function."""
        try:
            return super().function()
        except NeedsValues as e:
            own = [i.name for i in self.graph.inputs if self.tensors[i.name].variable]
            if not (kept := [*own, *self.variables]):
                raise
            raise Unsupported(
                f"{e}\n  (each set of values is compiled by itself; {kept[0]!r}, which the model "
                "keeps from call to call, cannot belong to all of them)"
            ) from e

    def operator(self, step: ModelNode, opsets: Mapping[str, int]) -> str:
        """The operator, and the tensor that the node makes."""
        made = next((o for o in step.outputs if o), "nothing")
        return f"{self.label(step)}, which makes {made!r}"

    def label(self, step: ModelNode) -> str:
        """The operator."""
        return f"{step.domain}.{step.op}" if step.domain else step.op

    def known(self, step: ModelNode) -> bool:
        """Whether a converter exists."""
        name = self.label(step)
        return name in self.custom or converter_of(name) is not None

    def convert(
        self, step: ModelNode, operands: Sequence[Operand | None], scope: Environment
    ) -> Sequence[Operand]:
        """The results of one node."""
        given = [self.tensors[n] if n else None for n in step.inputs]
        made = [self.tensors[n] for n in step.outputs]
        inner = [self.tensors[n] for n in self.inner[step.name]]
        g = Node(step, scope, given, made, inner, self.kept, self.graphs)
        name = self.label(step)
        if name in self.custom:
            converter = self.custom[name]
        else:
            found = converter_of(name)
            if found is None:  # in a subgraph
                g.unsupported(f"the operator {step.op}", "see docs/tflite.md")
            converter, newest = found
            version = self.versions[step.name]
            if version > newest:
                g.unsupported(f"version {version} of the operator", f"1 to {newest}")
        attrs = attributes_of(g, converter, _NOTES if step.domain == CUSTOM else ())
        check_operands(g, converter, operands)
        results = g.results(converter.fn, *operands, **attrs)
        for v, t in zip(results, g.made, strict=False):
            if isinstance(v, Value) and v.dtype != t.dtype:
                raise ImportFailure(
                    f"{g.where}: the file says that {t.name!r} is {t.dtype}; from these operands "
                    f"the operator makes {v.dtype}"
                )
        return results
