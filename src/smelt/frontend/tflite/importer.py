"""TFLite models as graph programs: which converter a node has, its options and operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.frontend import common
from smelt.frontend.common import Environment, ModelNode, Operand, Value
from smelt.frontend.common.converter import attributes_of, check_operands, custom_converter
from smelt.frontend.common.inputs import Given, Shapes
from smelt.frontend.common.survey import Survey, survey_of
from smelt.ir.errors import ImportFailure
from smelt.ir.module import IRModule
from smelt.ir.sizes import by_name, plain_shapes
from smelt.relax import nodes as relax
from smelt.relax.updates import STATES

from .node import Node
from .read import CUSTOM, ModelFile, load
from .registry import converter_of


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
    made = Importer(loaded, loaded.by_tensor(plain), loaded.by_tensor(known), custom)
    return made.module(own.removesuffix(".tflite") or "model")


def survey(
    model: object, shapes: Shapes | None = None, values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None,
) -> Survey:  # fmt: skip
    """Look at a model; the arguments are those of from_tflite."""
    read = load(model)
    given = read.by_tensor(shapes), read.by_tensor(values)
    return survey_of(Importer(read, *given, operators or {}))


class Importer(common.Importer):
    """One TFLite model on its way in."""

    def __init__(
        self, model: ModelFile, shapes: Shapes, values: Mapping[str, Given],
        operators: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Take a model that was read, and what nodes of the user's own operators become."""
        super().__init__(model.name, model.graph, shapes, values)
        self.tensors, self.versions = model.tensors, model.versions
        self.graphs = [model.graph, *model.others]
        self.kept: dict[str, Value] = {}
        self.custom = {n: custom_converter(n, given) for n, given in operators.items()}

    def result(self, names: Sequence[str], values: Sequence[Operand]) -> relax.Function:
        """The function of the results; behind them, what variables are for the next call."""
        if not self.kept:
            return super().result(names, values)
        after = [f"{n} afterwards" for n in self.kept]
        f = super().result([*names, *after], [*values, *self.kept.values()])
        params = {p.name: n for n, p in enumerate(f.params)}
        pairs = [(params[name], len(names) + n) for n, name in enumerate(self.kept)]
        return f.replace(attrs={**f.attrs, STATES: tuple(sorted(pairs))})

    def operator(self, step: ModelNode, opsets: Mapping[str, int]) -> str:
        """The operator, and the tensor that the node makes."""
        made = next((o for o in step.outputs if o), "nothing")
        return f"{self.label(step)}, which makes {made!r}"

    def label(self, step: ModelNode) -> str:
        """The operator."""
        return f"{step.domain}.{step.op}" if step.domain else step.op

    def known(self, step: ModelNode) -> bool:
        """Whether a converter exists."""
        if step.domain == CUSTOM:
            return f"{CUSTOM}.{step.op}" in self.custom
        return converter_of(step.op) is not None

    def convert(
        self, step: ModelNode, operands: Sequence[Operand | None], scope: Environment
    ) -> Sequence[Operand]:
        """The results of one node."""
        given = [self.tensors[n] if n else None for n in step.inputs]
        made = [self.tensors[n] for n in step.outputs]
        g = Node(step, scope, given, made, self.kept, self.graphs)
        if step.domain == CUSTOM:
            converter = self.custom[f"{CUSTOM}.{step.op}"]
        else:
            found = converter_of(step.op)
            if found is None:  # in a subgraph
                g.unsupported(f"the operator {step.op}", "see docs/tflite.md")
            converter, newest = found
            version = self.versions[step.name]
            if version > newest:
                g.unsupported(f"version {version} of the operator", f"1 to {newest}")
        attrs = attributes_of(g, converter)
        check_operands(g, converter, operands)
        results = g.results(converter.fn, *operands, **attrs)
        for v, t in zip(results, g.made, strict=False):
            if isinstance(v, Value) and v.dtype != t.dtype:
                raise ImportFailure(
                    f"{g.where}: the file says that {t.name!r} is {t.dtype}; from these operands "
                    f"the operator makes {v.dtype}"
                )
        return results
