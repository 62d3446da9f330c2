"""The inputs of a model: what the file says of them, and what the caller gives instead.

A file names sizes ("batch") and computes with them ("past_sequence_length + 1"). A text counts as
an expression where every name in it is an extent of its own somewhere; others are names, whatever
they look like ("seq-len").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.ir.errors import ImportFailure, TypeMismatch, Unsupported
from smelt.ir.expr import INDEX, Expr, Var, convert
from smelt.ir.sizes import LEGAL, parse_extent
from smelt.ir.text import fresh_name
from smelt.ir.types import TensorType, tensor_type
from smelt.relax import nodes as relax
from smelt.runtime.errors import nearest

from .graph import Input
from .problems import NeedsValues
from .values import Operand, SequenceValue, Value, simplify

Shapes = Mapping[str, Sequence["int | str | Expr"]]
"""The extents of inputs by name: numbers, names, expressions; they replace those of the file."""

Given = Any
"""What stands for an input: an array, its value; a TensorType, that of one that stays an input; a
list of those for a sequence; None for an optional value that is absent."""


class Extents:
    """One model's sizes by name.

    fixed  extents that `shapes` gives in the places of names of the file: they hold for all inputs
    alone  names of the file that are an extent by themselves
    """

    def __init__(self, model: str, inputs: Sequence[Input], shapes: Shapes) -> None:
        """Read the names that the inputs' extents have."""
        self.model, self.shapes = model, shapes
        self.sizes: dict[str, Var] = {}
        self.alone = {d for i in inputs for d in i.shape or () if isinstance(d, str)}
        found: dict[str, set[Any]] = {}
        for i in inputs:
            for d, new in zip(i.shape or (), shapes.get(i.name, ()), strict=False):
                if isinstance(d, str):
                    found.setdefault(d, set()).add(new)
        self.fixed = {d: next(iter(new)) for d, new in found.items() if len(new) == 1}
        taken = {d for d in self.alone if d.isidentifier()}
        odd = sorted(d for d in self.alone if not d.isidentifier())
        self.names = {d: fresh_name(d.strip(), taken) for d in odd}

    def of_input(self, i: Input) -> list[int | Expr]:
        """The extents of one input. Raises TypeMismatch where `shapes` does not fit the file."""
        given = self.shapes.get(i.name)
        if given is None:
            return [self.of_file(i.name, k, d) for k, d in enumerate(i.shape or ())]
        if i.shape is not None and len(given) != len(i.shape):
            raise TypeMismatch(
                f"{self.model}: shapes gives the input {i.name!r} {len(given)} dimensions, "
                f"the file {len(i.shape)}: ({', '.join(map(_shown, i.shape))})"
            )
        return [self.given(i.name, k, d) for k, d in enumerate(given)]

    def size(self, name: str) -> Var:
        """The symbolic size of a name."""
        return self.sizes.setdefault(name, Var(name))

    def given(self, name: str, index: int, d: Any) -> int | Expr:
        """One extent of an input as `shapes` gives it."""
        if isinstance(d, Expr):
            return d
        if d is None or d == "":
            return self.size(f"{name}_{index}")
        found = d
        if isinstance(d, str):
            parsed = parse_extent(d, self.size)
            found = None if parsed is None else simplify(parsed)
            if found is None:
                raise TypeMismatch(
                    f"{self.model}: shapes gives the input {name!r} the extent {d!r}, "
                    f"which is no expression\n  legal: {LEGAL}"
                )
        legal = isinstance(found, int | Expr) and not isinstance(found, bool)
        if not legal or (isinstance(found, int) and found < 0):
            raise TypeMismatch(
                f"{self.model}: shapes gives the input {name!r} the extent {d!r}; "
                "legal: numbers from 0, names, expressions"
            )
        return found  # type: ignore[no-any-return]

    def of_file(self, name: str, index: int, d: int | str | None) -> int | Expr:
        """One extent of an input as the file gives it."""
        if d is None or d in self.fixed:
            return self.given(name, index, None if d is None else self.fixed[d])
        if isinstance(d, int):
            return d
        found = None if d.isidentifier() else parse_extent(d, self.known)
        if found is None:
            return self.size(self.names.get(d, d))
        value: int | Expr = simplify(found)
        if isinstance(value, int) and value < 0:
            raise TypeMismatch(
                f"{self.model}: the input {name!r} has the extent {d!r}, which is {value}; "
                "sizes are 0 or more"
            )
        return value

    def known(self, part: str) -> Expr:
        """The size of a name in an expression; ValueError where it is no extent by itself."""
        if part not in self.alone:
            raise ValueError(part)
        return convert(self.of_file(part, 0, part), INDEX)


def _shown(d: object) -> str:
    return "?" if d is None else str(d)


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


def refuse_other_types(inputs: Sequence[Input], wanted: Mapping[str, str], where: str) -> None:
    """ImportFailure where the types that a caller says of inputs are not those of the file.

    where  importer and argument, for messages
    """
    given = {i.name: i.dtype for i in inputs}
    for name, want in wanted.items():
        if name not in given:
            raise ImportFailure(
                f"{where}: the model has no input {name!r}; inputs: {', '.join(given)}"
            )
        if want != given[name]:
            raise ImportFailure(
                f"{where} of input {name!r}: {want} given, {given[name]} in the file"
            )
