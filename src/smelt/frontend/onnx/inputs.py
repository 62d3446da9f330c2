"""The inputs of a model: what the file says of them, and what the caller gives instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType, tensor_type
from smelt.relax import nodes as relax
from smelt.runtime.errors import nearest

from .build import NeedsValues
from .extents import Extents
from .extents import Shapes as Shapes
from .read import Input
from .values import Operand, SequenceValue, Value

Given = Any
"""What stands for an input: an array, its value; a TensorType, that of one that stays an input; a
list of those for a sequence; None for an optional value that is absent."""


class Inputs:
    """The inputs of one model: parameters of its function, and known values.

    params   the function's parameters
    names    parameter -> the input that it is (a part of)
    """

    def __init__(
        self, model: str, inputs: Sequence[Input], shapes: Shapes, values: Mapping[str, Given]
    ) -> None:
        """Check what is given against the inputs there are."""
        self.model, self.inputs = model, inputs
        self.params: list[relax.Var] = []
        self.names: dict[relax.Var, str] = {}
        known = {i.name for i in inputs}
        for what, given in (("shapes", shapes), ("values", values)):
            for name in given:
                if name not in known:
                    raise TypeMismatch(
                        f"{model}: {what} names {name!r}, which is no input{nearest(name, known)}\n"
                        f"  inputs: {', '.join(sorted(known)) or 'none'}"
                    )
        self.shapes, self.values = shapes, values
        self.extents = Extents(model, inputs, shapes)

    def operands(self) -> dict[str, Operand]:
        """The inputs' values by name; the parameters are made here."""
        missing = [i.name for i in self.inputs
                   if i.kind != "tensor" and i.name not in self.values]  # fmt: skip
        if missing:
            raise NeedsValues(
                f"{self.model}: the input {missing[0]!r} is no tensor, but "
                f"{_kind_of(next(i for i in self.inputs if i.name == missing[0]))}: its structure "
                "has to be known when the model is compiled",
                missing,
            )
        return {i.name: self.operand(i) for i in self.inputs}

    def operand(self, i: Input) -> Operand:
        """One input."""
        if i.name not in self.values:
            return self.param(i.name, i.name, tensor_type(self.shape(i), i.dtype))
        given = self.values[i.name]
        if given is None:
            return SequenceValue(None, i.dtype)
        if isinstance(given, list | tuple):
            parts = [self.given(i.name, f"{i.name}.{n}", part) for n, part in enumerate(given)]
            return SequenceValue(parts, i.dtype)
        return self.given(i.name, i.name, given)

    def given(self, source: str, name: str, given: Given) -> Value:
        """What is known of an input, or of a part of it: its value, or its type only."""
        if isinstance(given, np.ndarray):
            return Value.of_array(given, name=name)
        if isinstance(given, TensorType):
            return self.param(source, name, given)
        raise TypeMismatch(
            f"{self.model}: values gives {name!r} a {type(given).__name__}; give an array: "
            f"values={{{source!r}: numpy.array(...)}}, a list of arrays for a sequence"
        )

    def param(self, source: str, name: str, t: TensorType) -> Value:
        """A parameter of the function."""
        made = relax.Var(name, t)
        self.params.append(made)
        self.names[made] = source
        return Value(t, made)

    def shape(self, i: Input) -> list[int | Expr]:
        """The extents of an input, symbolic sizes shared by name."""
        if not i.dtype:
            raise Unsupported(f"{self.model}: input {i.name!r} has no type")
        if i.name not in self.shapes and i.shape is None:
            raise NeedsValues(
                f"{self.model}: the input {i.name!r} has no shape in the file; "
                f"give one: shapes={{{i.name!r}: (...)}}",
                (),
                [i.name],
            )
        return self.extents.of_input(i)


def _kind_of(i: Input) -> str:
    if not i.kind:
        return "without a type"
    return f"an {i.kind}" if i.kind[0] == "o" else f"a {i.kind}"
