"""Classic names of the tensor level that nothing here needs, and nodes from classic arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from enum import IntFlag, StrEnum
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.classic_class import classic_class
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr, ExprLike
from smelt.ir.node import Node
from smelt.ir.walk import substitute

from . import nodes


class ForKind(StrEnum):
    """The kinds of loops: `loop.kind == ForKind.PARALLEL`."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD_BINDING = "thread_binding"


class ScheduleDebugMask(IntFlag):
    """What `Schedule(debug_mask=)` verifies after every step: any of them is all there is."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


@classic_class(nodes.Range)
def Range(begin: ExprLike, end: ExprLike | None = None) -> nodes.Range:
    """From `begin` up to `end` (exclusive), or from 0 up to the only operand."""
    return nodes.Range.of(begin if end is None else (begin, end))


Range.from_min_extent = nodes.Range.from_min_extent


@classic_class(nodes.Seq)
def SeqStmt(seq: Iterable[nodes.Stmt]) -> nodes.Stmt:
    """Statements one after another."""
    return nodes.Seq(tuple(seq))


PrimExpr = Expr


def Let(var: expr.Var, value: ExprLike, body: Expr) -> Expr:
    """The body, with a value in the variable's place."""
    return substitute(body, {var: expr.convert(value, var.dtype)})


# ---------------------------------------------------------------- nodes from classic arguments

_ORDERS = {
    "Block": "iter_vars reads writes name body init alloc_buffers annotations",
    "For": "var min extent kind body thread annotations",
    "IterVar": "dom var kind thread",
}
"""The classic order of fields, where it is another one."""

_KINDS: dict[str, dict[int, str]] = {
    "For": dict(enumerate(nodes.LOOP_KINDS)), "IterVar": {0: "spatial", 2: "reduce", 4: "opaque"},
}  # fmt: skip
"""What classic numbers of kinds stand for."""

_TYPES = {
    **vars(expr), **vars(nodes), "str": str, "int": int, "float": float, "None": type(None),
    "Annotations": Mapping, "Mapping[str, Any]": Mapping,
}  # fmt: skip


def node_class(cls: type[Node]) -> Any:
    """A node class for programs outside: it takes lists, numbers, and the classic arguments."""
    name, fields = cls.__name__, cls.__match_args__
    orders = [fields, *[o.split() for n, o in _ORDERS.items() if n == name]]

    def make(*args: Any, **named: Any) -> Any:
        problem = f"legal: tir.{name}({', '.join(orders[-1])})"
        for order in orders:
            given = dict(zip(order, args, strict=False))
            given |= {_field(cls, n): v for n, v in named.items()}
            given = {n: v for n, v in given.items() if v is not None and (n, v) != ("thread", "")}
            try:
                inspect.signature(cls.__new__).bind(cls, **given)
                if len(args) <= len(order):
                    return cls(**_fitted(cls, given))
            except TypeError as e:
                problem = f"{e}; {problem}" if order is orders[-1] else problem
        raise TypeMismatch(f"tir.{name}: {problem}")

    make.__name__ = make.__qualname__ = name
    make.__doc__, make.__module__ = cls.__doc__, cls.__module__
    return classic_class(cls)(make)


def _field(cls: type[Node], name: str) -> str:
    """The field that a classic name stands for."""
    return "type" if name == "dtype" else getattr(getattr(cls, name, None), "__name__", name)


def _fitted(cls: type[Node], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument as what its field holds; a number is of the type of what stands beside it."""
    beside = [x.dtype for x in given.values() if isinstance(x, Expr | nodes.Buffer)]
    like = next((t for t in reversed(beside) if dt.kind(t) != "bool"), None)
    notes = [inspect.get_annotations(c) for c in cls.__mro__]
    made = {}
    for name, value in given.items():
        kind = next(n[name] for n in notes if name in n)
        if name == "kind":
            value = _KINDS[cls.__name__].get(value, value)
        if name == "op" and isinstance(value, str):
            value = value.removeprefix("tir.")
        made[name] = _as(kind, value, like)
        if made[name] is _UNFIT:
            raise TypeError(f"{name} is {value!r}, no {kind}")
    return made


_UNFIT = object()


def _as(kind: str, value: Any, like: str | None = None) -> Any:
    """A value as what an annotation says, or _UNFIT."""
    item = kind.removeprefix("tuple[").removesuffix(", ...]")
    if item != kind:
        items = [_as(item, v) for v in value] if isinstance(value, list | tuple) else [_UNFIT]
        return _UNFIT if _UNFIT in items else tuple(items)
    if kind == "Expr" and not isinstance(value, Expr | str):
        whole = like is None or dt.is_float(like) or not isinstance(value, float)
        return expr.convert(value, like if whole else None)
    if kind == "Range" and isinstance(value, tuple | int):
        return nodes.Range.of(value)
    if kind.startswith("str"):  # of a thread axis, of a text in a program
        value = getattr(value, "thread_tag", getattr(value, "value", value))
    return value if isinstance(value, tuple([_TYPES[k] for k in kind.split(" | ")])) else _UNFIT


NODES = {
    name: node_class(cls)
    for home in (expr, nodes) for name, cls in vars(home).items()
    if isinstance(cls, type) and issubclass(cls, Node) and cls.__match_args__
}  # fmt: skip
"""The node classes as programs outside see them."""

_PLAIN_FUNC = NODES["PrimFunc"]


@classic_class(nodes.PrimFunc)
def PrimFunc(
    params: Any,
    body: nodes.Stmt,
    ret_type: Any = None,
    buffer_map: Mapping[Any, nodes.Buffer] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> nodes.PrimFunc:
    """A tensor program: `PrimFunc(params, body, attrs)`, or buffers by their handles.

    ret_type  None: programs return nothing
    """
    if isinstance(ret_type, Mapping):
        ret_type, attrs = None, ret_type
    if ret_type is not None:
        raise TypeMismatch(f"tir.PrimFunc: ret_type is {ret_type!r}; legal: None")
    buffers = buffer_map or {}
    made: nodes.PrimFunc = _PLAIN_FUNC([buffers.get(p, p) for p in params], body)
    return made.with_attr(attrs or {})


NODES["PrimFunc"] = PrimFunc
