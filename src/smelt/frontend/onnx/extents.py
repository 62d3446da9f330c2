"""The extents of a model's inputs: those of the file, and those that the user gives instead.

A file names sizes ("batch") and computes with them ("past_sequence_length + 1"). A text counts as
an expression where every name in it is an extent of its own somewhere; others are names, whatever
they look like ("seq-len").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, Var, convert
from smelt.ir.sizes import LEGAL, parse_extent
from smelt.ir.text import fresh_name

from .read import Input
from .values import simplify

Shapes = Mapping[str, Sequence["int | str | Expr"]]


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
