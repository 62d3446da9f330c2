"""Operators of Relay and Relax that are one of the core's under other names: rows of a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from numbers import Number
from typing import Any

from smelt.ir.types import TupleType
from smelt.topi.registry import Op

from ..nodes import RelaxExpr, call
from .common import axes_of, cast_to, items_of, normal_axis, one_of, rank_of
from .layout import gathered, spread


def row_body(
    op: Op, operands: str, required: str, attributes: Mapping[str, Any], *, renamed: str = "",
    idle: str = "", along: str = "", images: bool = False, forms: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None, cast: str = "",
) -> Callable[..., Any]:  # fmt: skip
    """What makes the call of the core: a function of the operands, and of attributes by name.

    operands    their names; "indices:Indices" where numbers are not of the others' type
    required    attributes that have to be given
    attributes  those behind them, with defaults
    renamed     attributes with other names: "reps=repeats" where the core calls reps repeats
    idle        attributes that say nothing to the core
    along       an attribute that names dimensions of the first operand, counted from either end, or
                all but them where the attribute `exclude` is true
    images      the first operand and the result are images in the attribute `layout`
    forms       {attribute or operand: {value: the core's}, or what makes the core's form of a
                value}, where that is not plain from the type that the core declares
    fixed       attributes of the core's that are not given; others have their usual values
    cast        an attribute that names the element type of the result
    """
    mine = dict(pair.split("=") for pair in renamed.split())
    left_out = {*idle.split(), *["layout"] * images, "exclude", cast}
    kinds = {n: str(p.annotation).removesuffix(" | None") for n, p in op.attributes.items()}
    declared = {**dict.fromkeys(required.split(), Parameter.empty), **attributes}
    usual = {n: _KINDS.get(kinds.get(mine.get(n, n), "")) for n in declared}
    form_of = {**usual, **(forms or {})}
    parts, kind = [o.partition(":") for o in operands.split()], Parameter.POSITIONAL_OR_KEYWORD

    def body(*given: RelaxExpr, **attrs: Any) -> Any:
        found = {n: _formed(n, v, form_of[n]) for n, v in attrs.items()}
        given = tuple([_formed(n, x, form_of.get(n))
                       for x, (n, _, _) in zip(given, parts, strict=False)])  # fmt: skip
        if along and "exclude" in attrs:
            found[along] = axes_of(found[along], rank_of(given[0]), attrs["exclude"])
        elif along:
            found[along] = _counted(found[along], rank_of(given[0]), mine.get(along, along))
        own = {mine.get(n, n): v for n, v in found.items() if n not in left_out}
        if images:
            given = (spread(given[0], attrs["layout"], "layout", "NCHW"), *given[1:])
        made: RelaxExpr = call(op, *given, **(fixed or {}), **own)
        if images:
            made = gathered(made, "NCHW", attrs["layout"], "layout")
        if cast:
            return cast_to(made, attrs[cast])
        return items_of(made) if isinstance(made.type, TupleType) else made

    vars(body)["__signature__"] = inspect.Signature([
        *[Parameter(n, kind, annotation=a or "RelaxExpr") for n, _, a in parts],
        *[Parameter(a, Parameter.KEYWORD_ONLY, default=d) for a, d in declared.items()],
    ])  # fmt: skip
    body.__doc__ = op.__doc__
    return body


def _number(kind: type) -> Callable[[Any], Any]:
    return lambda value: kind(value) if isinstance(value, Number) else value


def floats(values: Any) -> tuple[float, ...]:
    """Numbers, or one, as floats."""
    return tuple([float(v) for v in (values if isinstance(values, tuple) else (values,))])


_KINDS = {"float": _number(float), "int": _number(int), "tuple[float, ...]": floats}
"""What brings a value into the form of an attribute that the core declares with a type."""


def _formed(name: str, given: Any, form: Any) -> Any:
    """The core's form of an attribute's value."""
    if isinstance(form, Mapping):
        one_of(name, given, *form)
        return form[given]
    return given if form is None else form(given)


def _counted(axis: Any, rank: int, name: str) -> Any:
    """One dimension or, where the core calls them so, axes, counted from the front; None stays."""
    if axis is None:
        return None
    return axes_of(axis, rank) if name == "axes" else normal_axis(axis, rank)
