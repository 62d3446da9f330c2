"""Relay's algebraic data types: names for nodes of the one graph IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from smelt.ir.classic_class import classic_class
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.types import GlobalTypeVar as CoreTypeName
from smelt.ir.types import IncompleteType, Type
from smelt.ir.types import TypeVar as CoreTypeVar
from smelt.relax import adt as core
from smelt.relax.nodes import Var, incomplete

from .dialect import value


@classic_class(core.Constructor)
def Constructor(
    name_hint: str, inputs: Sequence[Type], belong_to: CoreTypeName
) -> core.Constructor:
    """A constructor: `relay.Constructor(name_hint, inputs, belong_to)`.

    A constructor of a data type from the types of its fields.
    """
    return core.Constructor(name_hint, tuple([_type(i) for i in inputs]), belong_to)


@classic_class(core.TypeData)
def TypeData(
    header: CoreTypeName, type_vars: Sequence[CoreTypeVar], constructors: Sequence[core.Constructor]
) -> core.TypeData:
    """A definition of a data type: `relay.TypeData(header, type_vars, constructors)`.

    A definition; every constructor belongs to the data type of this name.
    """
    for c in constructors:
        if c.belong_to is not header:
            raise TypeMismatch(
                f"relay.TypeData: the constructor {c.name} belongs to {c.belong_to.name}, "
                f"not to {header.name}"
            )
    return core.TypeData(header, tuple(type_vars), tuple(constructors))


@classic_class(core.Pattern)
def Pattern(*given: Any) -> Any:
    """Any pattern."""
    raise TypeMismatch("relay.Pattern is the class of all patterns; make one of its kinds")


@classic_class(core.PatternWildcard)
def PatternWildcard() -> core.PatternWildcard:
    """Any value: `relay.PatternWildcard()`."""
    return core.PatternWildcard()


@classic_class(core.PatternVar)
def PatternVar(var: Var) -> core.PatternVar:
    """Any value, by a name: `relay.PatternVar(var)`."""
    return core.PatternVar(var)


@classic_class(core.PatternConstructor)
def PatternConstructor(
    constructor: core.Constructor, patterns: Sequence[core.Pattern] | None = None
) -> core.PatternConstructor:
    """What a constructor made: `relay.PatternConstructor(constructor, patterns=None)`.

    One pattern a field.
    """
    given = tuple(patterns or ())
    if len(given) != len(constructor.inputs):
        raise TypeMismatch(
            f"relay.PatternConstructor: {constructor.name} has {len(constructor.inputs)} "
            f"fields, {len(given)} patterns given"
        )
    return core.PatternConstructor(constructor, given)


@classic_class(core.PatternTuple)
def PatternTuple(patterns: Sequence[core.Pattern] | None = None) -> core.PatternTuple:
    """A tuple: `relay.PatternTuple(patterns)`.

    One pattern an item.
    """
    return core.PatternTuple(tuple(patterns or ()))


@classic_class(core.Clause)
def Clause(lhs: core.Pattern, rhs: Any) -> core.Clause:
    """One case: `relay.Clause(lhs, rhs)`.

    A pattern, and the value where it fits.
    """
    return core.Clause(lhs, value(rhs, "relay.Clause: the value"))


@classic_class(core.Match)
def Match(data: Any, clauses: Sequence[core.Clause], complete: bool = True) -> core.Match:
    """A choice by the look of a value: `relay.Match(data, clauses, complete=True)`.

    The value of the first clause that fits.
    """
    known = [c.rhs.type for c in clauses if not incomplete(c.rhs.type)]
    t = known[0] if known else IncompleteType()
    return core.Match(value(data, "relay.Match: the data"), tuple(clauses), bool(complete), t)


def _type(t: Any) -> Type:
    if not isinstance(t, Type):
        raise TypeMismatch(f"relay.Constructor: an input is {type(t).__name__} {t!r}, not a type")
    return t


def _no_references(name: str) -> NoReturn:
    raise Unsupported(
        f"relay.{name}: references to changing values are not supported; pass the value as a "
        "parameter of a function that calls itself, and give the new one back"
    )


def RefCreate(*given: Any) -> NoReturn:
    """References are not supported."""
    _no_references("RefCreate")


def RefRead(*given: Any) -> NoReturn:
    """References are not supported."""
    _no_references("RefRead")


def RefWrite(*given: Any) -> NoReturn:
    """References are not supported."""
    _no_references("RefWrite")
