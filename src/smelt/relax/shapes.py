"""How types fit: what the sizes of one stand for in another; shapes as values of the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, convert
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import FuncType, TensorType, TupleType, Type
from smelt.ir.walk import free_vars, substitute

from .nodes import Function, incomplete
from .verify import show_type


class ShapeExpr(tuple[Any, ...]):
    """A shape as a value: extents, numbers or expressions over sizes. Attributes take it."""

    __slots__ = ()

    def __new__(cls, values: Sequence[Any]) -> ShapeExpr:
        """Extents given as numbers or expressions."""
        found = [convert(v, INDEX) for v in values]
        known = [value_of(e) for e in found]
        return super().__new__(
            cls, [e if n is None else n for e, n in zip(found, known, strict=True)]
        )

    @property
    def values(self) -> tuple[Expr, ...]:
        """The extents as expressions."""
        return tuple([convert(v, INDEX) for v in self])


def sizes_in(t: Type) -> list[SizeVar]:
    """The sizes that a type mentions, in order of first use."""
    return sizes_among(extents_of(t))


def sizes_among(extents: Iterable[Expr]) -> list[SizeVar]:
    """The sizes in some extents, in order of first use; those of one extent by name."""
    found = [v for e in extents for v in sorted(free_vars(e), key=lambda v: v.name)]
    return list(dict.fromkeys(found))


def sizes_of_parameters(f: Function) -> list[SizeVar]:
    """The sizes in the types of a function's parameters, in order of first use."""
    return sizes_among([e for p in f.params for e in extents_of(p.type)])


def extents_of(t: Type) -> list[Expr]:
    """The extents of the tensors of a type."""
    match t:
        case TensorType(shape):
            return list(shape)
        case TupleType(items):
            return [e for i in items for e in extents_of(i)]
        case FuncType(args, ret):
            return [e for i in (*args, ret) for e in extents_of(i)]
    return []


def with_sizes(t: Type, sizes: Mapping[SizeVar, Expr]) -> Type:
    """A type with extents in the places of sizes."""
    match t:
        case TensorType(shape, dtype) if sizes:
            return TensorType(tuple([convert(substitute(e, sizes), INDEX) for e in shape]), dtype)
        case TupleType(items):
            return TupleType(tuple([with_sizes(i, sizes) for i in items]))
        case FuncType(args, ret, kinds):
            made = tuple([with_sizes(a, sizes) for a in args])
            return FuncType(made, with_sizes(ret, sizes), kinds)
    return t


def fits(want: Type, have: Type, sizes: dict[SizeVar, Expr], bindable: Any = None) -> bool:
    """Whether a value of type `have` may be one of type `want`.

    Extents may turn out to be equal when the program runs; numbers that differ do not fit.

    sizes     takes what sizes of `want` stand for
    bindable  the sizes that may stand for something; None: all
    """
    if want is have or incomplete(want) or incomplete(have):
        return True
    match want, have:
        case TensorType(shape, dtype), TensorType(other, given):
            if dtype != given or len(shape) != len(other):
                return False
            for a, b in zip(shape, other, strict=True):
                if isinstance(a, SizeVar) and (bindable is None or a in bindable):
                    sizes.setdefault(a, b)
            return not any(differing(a, b, sizes) for a, b in zip(shape, other, strict=True))
        case TupleType(items), TupleType(others):
            return len(items) == len(others) and all(
                fits(a, b, sizes, bindable) for a, b in zip(items, others, strict=True)
            )
        case FuncType(args, ret), FuncType(other_args, other_ret):
            return len(args) == len(other_args) and all(
                fits(a, b, sizes, bindable)
                for a, b in zip((*args, ret), (*other_args, other_ret), strict=True)
            )
    return False


def apart(a: Expr, b: Expr, sizes: Mapping[SizeVar, Expr] | None = None) -> int | None:
    """How much larger `a`, with sizes in place, is than `b`; None where the run has to tell."""
    if a is b:
        return 0
    first = convert(substitute(a, sizes), INDEX) if sizes else a
    return value_of(Analyzer().simplify(first - b))


def differing(a: Expr, b: Expr, sizes: Mapping[SizeVar, Expr]) -> bool:
    """Whether two extents differ for sure."""
    return a is not b and apart(a, b, sizes) not in (None, 0)


def call_result(t: FuncType, given: Sequence[Type]) -> Type:
    """What a function of type `t` gives for operands of some types.

    Sizes that only its result shows are new ones. Raises TypeMismatch where operands do not fit.
    """
    if len(given) != len(t.arg_types):
        raise TypeMismatch(f"{len(given)} operands for {len(t.arg_types)} parameters")
    sizes: dict[SizeVar, Expr] = {}
    for n, (want, have) in enumerate(zip(t.arg_types, given, strict=True)):
        if not fits(want, have, sizes):
            takes = f"the function takes {show_type(want)}"
            raise TypeMismatch(f"operand {n} is {show_type(have)}, {takes}")
    for v in sizes_in(t):
        sizes.setdefault(v, SizeVar(v.name))
    return with_sizes(t.ret_type, sizes)
