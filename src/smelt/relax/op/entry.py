"""How builders are made: operands from Python values, names in messages, name spaces.

    @entry("nn.leakyrelu", core="leaky_relu")
    def leakyrelu(data: RelaxExpr, alpha: float = 0.01) -> RelaxExpr: ...

Parameters annotated RelaxExpr are operands: expressions, and numbers and arrays beside them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.build import value_of
from smelt.ir.errors import SmeltError, TypeMismatch, Unsupported
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType, TupleType, Type
from smelt.runtime.errors import nearest
from smelt.topi import get_op

from ..compose.common import items_of, legal, number_of, sizes
from ..compose.operands import Indices as Indices
from ..compose.operands import const, value
from ..compose.rows import row_body
from ..nodes import Constant, RelaxExpr, Tuple
from .registry import BUILDERS, builder

CORE_NAMES: dict[str, str] = {}
"""The core's operator by the Relax name, where a builder makes one call of it and nothing else."""

Operands = Sequence[RelaxExpr]
"""Several operands in a list or a tuple."""

KINDS = {"RelaxExpr": "value", "Indices": "index", "Operands": "many"}


def entry(*names: str, core: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the builder `relax.op.<name>`, under each of the names.

    Builders take all arguments by position, too, those that the function has as keywords alone.

    core  the operator of the one call that the builder makes, where it always makes one
    """

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(fn)
        signature = own.replace(parameters=[
            p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind == p.KEYWORD_ONLY else p
            for p in own.parameters.values()
        ])  # fmt: skip
        notes = {p.name: str(p.annotation).removesuffix(" | None") for p in own.parameters.values()}
        kinds = {name: KINDS[note] for name, note in notes.items() if note in KINDS}

        @functools.wraps(fn)
        def build(*args: Any, **named: Any) -> Any:
            where = f"relax.op.{names[0]}"
            try:
                bound = signature.bind(*args, **named)
            except TypeError as e:
                raise TypeMismatch(f"{where}: {e}; signature: {signature}") from e
            bound.apply_defaults()
            _convert(bound.arguments, kinds, where)
            given = inspect.BoundArguments(own, bound.arguments)
            try:
                made = fn(*given.args, **given.kwargs)
            except SmeltError as e:
                if str(e).startswith("relax.op."):
                    raise
                raise type(e)(f"{where}: {e}") from e
            return Tuple(tuple(made)) if isinstance(made, list) else made

        vars(build)["__signature__"] = signature
        for name in names:
            builder(name)(build)
            if core:
                CORE_NAMES[name] = core
        return build

    return enter


def same(
    names: str, operands: str, *, core: str = "", required: str = "", renamed: str = "",
    images: bool = False, forms: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None, idle: str = "", along: str = "",
    several: bool = False,
    **attributes: Any,
) -> None:  # fmt: skip
    """Enter a builder of one of the core's operators.

    names       the builder's; several in one text are one builder
    operands    their names; "indices:Indices" where numbers are not of the others' type
    core        the core's name, where it is another one
    required    attributes that have to be given
    several     whether there are several results
    attributes  those behind them, with their defaults; an axis is one of the first operand's

    renamed, images, forms, fixed, idle and along are those of row_body.
    """
    op = get_op(core or names)
    along = along or "axis" * ("axis" in [*required.split(), *attributes])
    body = row_body(op, operands, required, attributes, renamed=renamed, images=images, forms=forms,
                    fixed=fixed, idle=idle, along=along)  # fmt: skip
    body.__name__ = names.split()[0]
    entry(*names.split(), core="" if images or several else op.name)(body)


def _convert(given: dict[str, Any], kinds: dict[str, str], where: str) -> None:
    """The operands among a builder's arguments as expressions."""
    dtype = _element_type([given[n] for n in kinds if n in given])
    for name, kind in kinds.items():
        x = given.get(name)
        if x is None:
            continue
        what = f"{where}: the operand {name}"
        if kind == "many":
            parts = x if isinstance(x, list | tuple) else items_of(value(x, what))
            given[name] = [p if p is None else value(p, what, dtype) for p in parts]
        elif kind == "index" and isinstance(x, int | list):
            given[name] = const(x, "int64")
        else:
            given[name] = value(x, what, dtype)


def _element_type(operands: Sequence[Any]) -> str | None:
    """What plain numbers become: the type of the first tensor, bool where there is no other."""
    flat = [x for o in operands for x in (o if isinstance(o, list | tuple) else (o,))]
    types = [x.type for x in flat if isinstance(x, RelaxExpr)]
    known = [t.dtype for t in types if isinstance(t, TensorType)]
    return next((d for d in known if d != "bool"), known[0] if known else None)


def refused(names: Sequence[str], instead: str) -> None:
    """Enter builders of operators that have no place here; the error says what replaces them."""
    for name in names:
        _refuse(name, instead)


def _refuse(name: str, instead: str) -> None:
    def build(*args: Any, **named: Any) -> Any:
        raise Unsupported(f"relax.op.{name} has no place here: {instead}")

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Refused: {instead}."
    builder(name)(build)


# ------------------------------------------------------------------------------- what is given


def _plain(given: Any, otherwise: str) -> Any:
    """A number, also where it comes as a constant or has a `value`, or an expression of sizes."""
    if isinstance(given, RelaxExpr):
        known = number_of(given)
        legal(known is not None, otherwise)
        return known
    return given if isinstance(given, Expr) else getattr(given, "value", given)


def size_given(given: Any) -> Any:
    """A size as a number or an expression of sizes."""
    found = _plain(given, "a size is computed; numbers and expressions of symbolic sizes are legal")
    return found if isinstance(found, Expr) else int(found)


def number_given(given: Any) -> Any:
    """A number, also where it comes as a constant scalar, or an expression of sizes."""
    plain = _plain(given, "a number is computed; numbers and symbolic sizes are legal")
    found = value_of(plain) if isinstance(plain, Expr) else None
    return plain if found is None else found


def shape_given(given: Any) -> tuple[Any, ...]:
    """A shape as a tuple: numbers, sizes, a constant vector, or an object with `values`."""
    if isinstance(given, Constant):
        return sizes(given)
    if isinstance(given, RelaxExpr) and not hasattr(given, "values"):
        if isinstance(given.type, TensorType) or not isinstance(given, Tuple):
            raise Unsupported(
                "the shape is computed; legal: numbers, symbolic sizes, or a constant vector"
            )
        return tuple([size_given(i) for i in given.items])
    plain = getattr(given, "values", given)
    many = plain if isinstance(plain, tuple | list) else (plain,)
    return tuple([size_given(n) for n in many])


def type_given(given: Any) -> Type:
    """The type of results, given as a type or as several in a list."""
    if isinstance(given, list | tuple):
        return TupleType(tuple([type_given(g) for g in given]))
    legal(
        isinstance(given, Type),
        f"the result's type is given as {type(given).__name__} {given!r}; legal: a tensor type, "
        "or a list of them",
    )
    return given  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------- names


def namespace(prefix: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """__getattr__ and __dir__ of a module whose attributes are the builders with a prefix."""
    start = prefix + "." if prefix else ""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = BUILDERS.get(start + name)
        if found is None:
            known = list(names())
            raise AttributeError(
                f"relax.op{'.' * bool(prefix)}{prefix} has no operator {name!r}"
                f"{nearest(name, known)}"
            )
        return found

    def names() -> list[str]:
        own = [n.removeprefix(start) for n in BUILDERS if n.startswith(start)]
        return sorted([n for n in own if "." not in n])

    return find, names


def core_name(name: str) -> str:
    """The core's operator that a builder makes one call of: "relax.nn.relu" is "relu".

    Raises where the name is no builder's, or where the builder makes several calls.
    """
    plain = name.removeprefix("relax.")
    if plain in CORE_NAMES:
        return CORE_NAMES[plain]
    if plain in BUILDERS:
        raise Unsupported(
            f"is_op({name!r}): relax.op.{plain} makes no single call that could be matched; match "
            "the core's operators that it is made of"
        )
    raise TypeMismatch(f"is_op: no operator {name!r}{nearest(plain, list(CORE_NAMES))}")


def known_op(name: str) -> str:
    """The operator that patterns mean by a name: "relax.nn.relu" is "relu"; others are as given."""
    return core_name(name) if name.startswith("relax.") else name
