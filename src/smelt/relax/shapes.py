"""How types fit: what the sizes of one stand for in another; shapes as values of the compiler."""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, convert
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    on_parts,
    parts_of,
)
from smelt.ir.walk import free_vars, substitute

from .nodes import Function, incomplete


def show_type(t: Type, unknown: str = "a type not known yet") -> str:
    """A type as people write it: float32[n, 3], (float32[1], int64[1]).

    unknown  what stands for a part that is not known
    """

    def each(parts: Iterable[Type]) -> str:
        return ", ".join([show_type(p, unknown) for p in parts])

    match t:
        case TensorType(shape, dtype):
            return f"{dtype}[{', '.join(map(str, shape))}]"
        case TupleType(items):
            return f"({each(items)})"
        case FuncType(arg_types, ret_type):
            return f"fn ({each(arg_types)}) -> {show_type(ret_type, unknown)}"
        case TypeCall(func, args):
            return f"{func.name}[{each(args)}]" if args else func.name
        case TypeVar(name) | GlobalTypeVar(name):
            return name
    return unknown


class ShapeExpr(tuple[Any, ...]):
    """A shape as a value: extents, numbers or expressions over sizes. Attributes take it."""

    __slots__ = ()

    def __new__(cls, values: Sequence[Any]) -> ShapeExpr:
        """Extents given as numbers or expressions."""
        found = [convert(v, INDEX) for v in values]
        known = [value_of(e) for e in found]
        extents = [e if n is None else n for e, n in zip(found, known, strict=True)]
        return super().__new__(cls, extents)

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
    if isinstance(t, TensorType):
        return list(t.shape)
    return [e for part in parts_of(t) for e in extents_of(part)]


def with_sizes(t: Type, sizes: Mapping[SizeVar, Expr]) -> Type:
    """A type with extents in the places of sizes."""
    if not isinstance(t, TensorType):
        return on_parts(t, lambda part: with_sizes(part, sizes))
    shape = [convert(substitute(e, sizes), INDEX) for e in t.shape] if sizes else t.shape
    return TensorType(tuple(shape), t.dtype)


class BaseCheckResult(enum.IntEnum):
    """Whether values of one type are values of another.

    FAIL_L0  never: they are of different kinds
    FAIL_L1  never: tensors of different element types, ranks or known extents
    FAIL_L2  perhaps: extents may turn out to be equal when the program runs
    PASS     always
    """

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


def struct_info_base_check(
    base: Type, derived: Type, sizes: Mapping[SizeVar, Expr] | None = None
) -> BaseCheckResult:
    """Whether values of type `derived` are values of type `base`.

    sizes  what sizes of `base` stand for
    """
    if (base is derived and not sizes) or isinstance(base, IncompleteType):
        return BaseCheckResult.PASS
    if isinstance(derived, IncompleteType):
        return BaseCheckResult.FAIL_L2
    if isinstance(base, TensorType) and isinstance(derived, TensorType):
        if base.dtype != derived.dtype or base.rank != derived.rank:
            return BaseCheckResult.FAIL_L1
        gaps = [apart(a, b, sizes) for a, b in zip(base.shape, derived.shape, strict=True)]
        if any(g not in (None, 0) for g in gaps):
            return BaseCheckResult.FAIL_L1
        return BaseCheckResult.FAIL_L2 if None in gaps else BaseCheckResult.PASS
    parts, others = parts_of(base), parts_of(derived)
    alike = type(base) is type(derived) and isinstance(base, TupleType | FuncType)
    if not alike or len(parts) != len(others):
        return BaseCheckResult.FAIL_L0
    found = [struct_info_base_check(a, b, sizes) for a, b in zip(parts, others, strict=True)]
    return min(found, default=BaseCheckResult.PASS)


def bind_sizes(
    want: Type, have: Type, sizes: dict[SizeVar, Expr], bindable: Container[SizeVar] | None = None
) -> None:
    """Enter what the sizes that are extents of `want` stand for where `have` is given.

    bindable  the sizes that may stand for something; None: all
    """
    for a, b in zip(extents_of(want), extents_of(have), strict=False):
        if isinstance(a, SizeVar) and (bindable is None or a in bindable):
            sizes.setdefault(a, b)


def fits(
    want: Type, have: Type, sizes: dict[SizeVar, Expr], bindable: Container[SizeVar] | None = None
) -> bool:
    """Whether a value of type `have` may be one of type `want`.

    Extents may turn out to be equal when the program runs; numbers that differ do not fit.

    sizes     takes what sizes of `want` stand for
    bindable  the sizes that may stand for something; None: all
    """
    if want is have or incomplete(want) or incomplete(have):
        return True
    bind_sizes(want, have, sizes, bindable)
    return struct_info_base_check(want, have, sizes) >= BaseCheckResult.FAIL_L2


def apart(a: Expr, b: Expr, sizes: Mapping[SizeVar, Expr] | None = None) -> int | None:
    """How much larger `a`, with sizes in place, is than `b`; None where the run has to tell."""
    first = convert(substitute(a, sizes), INDEX) if sizes else a
    return 0 if first is b else value_of(Analyzer().simplify(first - b))


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
