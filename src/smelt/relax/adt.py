"""Algebraic data types: their definitions, their constructors, and Match, which takes values apart.

    List, a = GlobalTypeVar("List"), TypeVar("a")
    nil = Constructor("nil", (), List)
    cons = Constructor("cons", (a, TypeCall(List, (a,))), List)
    mod[List] = TypeData(List, (a,), (nil, cons))

A constructor is called like a function: `cons(x, nil())`. Only the virtual machine and the
interpreter run programs with values of data types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import FuncType, IncompleteType, Named, Type
from smelt.ir.types import GlobalTypeVar as GlobalTypeVar
from smelt.ir.types import TypeCall as TypeCall
from smelt.ir.types import TypeVar as TypeVar

from .nodes import Call, CallAttrs, RelaxExpr, Var


class Constructor(Named, RelaxExpr):
    """One way to make a value of a data type: a function from its fields. Has identity.

    inputs     the types of the fields, over the data type's variables
    belong_to  the data type
    """

    name: str
    inputs: tuple[Type, ...]
    belong_to: GlobalTypeVar

    @property
    def type(self) -> Type:
        """Not known here: the definition of the data type has the variables."""
        return IncompleteType()

    def __str__(self) -> str:
        return self.name

    def __call__(self, *args: RelaxExpr) -> Call:
        """A value of the data type."""
        if len(args) != len(self.inputs):
            raise TypeMismatch(
                f"the constructor {self.name} of {self.belong_to.name} takes {len(self.inputs)} "
                f"values, {len(args)} given"
            )
        return Call(self, args, CallAttrs("a constructor", {}), IncompleteType())


class TypeData(Type, interned=False):
    """The definition of a data type: its name, its variables, its constructors. Has identity."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...]
    constructors: tuple[Constructor, ...]

    def type_of(self, constructor: Constructor) -> FuncType:
        """A constructor as a function, for all types in the place of the variables."""
        made = TypeCall(self.header, self.type_vars)
        return FuncType(constructor.inputs, made, self.type_vars)


class Pattern(Node):
    """What a value may look like."""


class PatternWildcard(Pattern):
    """Any value."""


class PatternVar(Pattern):
    """Any value, by a name."""

    var: Var


class PatternConstructor(Pattern):
    """A value that this constructor made, of fields that look like the patterns."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()


class PatternTuple(Pattern):
    """A tuple of values that look like the patterns."""

    patterns: tuple[Pattern, ...]


class Clause(Node):
    """One case of a Match: the value of `rhs` where the data look like `lhs`."""

    lhs: Pattern
    rhs: RelaxExpr


class Match(RelaxExpr):
    """The value of the first clause whose pattern the data look like.

    complete  whether every value has to have a clause; False: others stop the program
    """

    data: RelaxExpr
    clauses: tuple[Clause, ...]
    complete: bool = True
    type: Type = IncompleteType()


def constructor_tag(mod: IRModule, c: Constructor) -> int:
    """The number of a constructor among those of its data type."""
    names = [x.name for x in mod.type_data(c.belong_to).constructors]
    if c.name not in names:
        raise TypeMismatch(
            f"the data type {c.belong_to.name} has no constructor {c.name!r}; "
            f"constructors: {', '.join(names)}"
        )
    return names.index(c.name)


# --------------------------------------------------------------------------------- completeness


def unmatched_cases(match: Match, mod: IRModule) -> list[Pattern]:
    """Values that no clause of a Match is for, as patterns; none where it is complete."""
    rows = [[c.lhs] for c in match.clauses]
    return [p[0] for p in _uncovered(rows, 1, mod)]


def _uncovered(rows: Sequence[Sequence[Pattern]], width: int, mod: IRModule) -> Iterator[Any]:
    """Rows of patterns that fit no row given: the usefulness algorithm, column by column.

    Recursion is as deep as the patterns are nested.
    """
    if width == 0:
        if not rows:
            yield []
        return
    heads = [r[0] for r in rows]
    inside = next((h for h in heads if isinstance(h, PatternTuple)), None)
    used = next((h.constructor for h in heads if isinstance(h, PatternConstructor)), None)
    if inside is None and used is None:
        for found in _uncovered([r[1:] for r in rows], width - 1, mod):
            yield [PatternWildcard(), *found]
        return
    whole: list[Any] = [None] if used is None else mod.type_data(used.belong_to).constructors
    for c in whole:  # a tuple is made in one way, which has no name
        count = len(c.inputs if inside is None else inside.patterns)
        kept = [_opened(r, count) for r in rows if _may_be(r[0], c)]
        for found in _uncovered(kept, count + width - 1, mod):
            fields = tuple(found[:count])
            made = PatternTuple(fields) if c is None else PatternConstructor(c, fields)
            yield [made, *found[count:]]


def _may_be(p: Pattern, c: Constructor | None) -> bool:
    return c is None or not isinstance(p, PatternConstructor) or p.constructor.name == c.name


def _opened(row: Sequence[Pattern], count: int) -> list[Pattern]:
    """A row with the first pattern's parts in its place."""
    head = row[0]
    parts = head.patterns if isinstance(head, PatternConstructor | PatternTuple) else ()
    return [*(parts or [PatternWildcard()] * count), *row[1:]]
