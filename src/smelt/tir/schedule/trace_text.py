"""Arguments of primitives as Python text and as plain data, and back."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from smelt.arith.index_map import AXIS_SEPARATOR
from smelt.ir.build import maximum, minimum
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Binary, Expr, FloatImm, IntImm, Max, Min, StringImm, Var
from smelt.tir.nodes import PrimFunc


class Ref(str):
    """The name of an earlier result in a trace."""

    __slots__ = ()


class Formula(str):
    """Python text that is evaluated at replay: an expression over sizes and samples, a lambda."""

    __slots__ = ()


def formula(text: str) -> Formula:
    """Python text in the one way that a trace has it."""
    return Formula(ast.unparse(ast.parse(text, mode="eval")))


# ------------------------------------------------------------------------------------- to text


def text_of(v: Any) -> str:
    """A stored argument as Python text."""
    if isinstance(v, Ref | Formula):
        return str(v)
    if isinstance(v, list):
        return "[" + ", ".join(map(text_of, v)) + "]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(x)}" for k, x in v.items()) + "}"
    if isinstance(v, str):
        return json.dumps(str(v), ensure_ascii=False)
    if isinstance(v, float) and not math.isfinite(v):
        return f'float("{v}")'
    return repr(v)


def arguments_text(args: Mapping[str, Any], text: Callable[[Any], str]) -> str:
    """The arguments of a call by name, those under "*" in front, each as a text says it."""
    items = [text(v) for v in args.get("*", ())]
    return ", ".join(items + [f"{k}={text(v)}" for k, v in args.items() if k != "*"])


def expr_text(e: Expr) -> str:
    """An index expression as Python text."""
    if isinstance(e, Var):
        return e.name
    if isinstance(e, IntImm | FloatImm | StringImm):
        return text_of(e.value)
    if isinstance(e, Min | Max):
        return f"{e.symbol}({expr_text(e.a)}, {expr_text(e.b)})"
    if isinstance(e, Binary) and e.symbol in ("+", "-", "*", "//", "%"):
        return f"({expr_text(e.a)} {e.symbol} {expr_text(e.b)})"
    raise ScheduleError(
        f"{type(e).__name__} cannot stand in a trace\n"
        "  legal: + - * // % min and max of variables and numbers"
    )


# ----------------------------------------------------------------------------------- from text


def parse_call(s: ast.stmt, known: set[str]) -> tuple[str, dict[str, Any], tuple[str, ...], bool]:
    """(primitive, arguments, names of results, whether a list) of one line of a trace."""
    call: ast.expr
    names: list[str] = []
    many = False
    if isinstance(s, ast.Assign) and len(s.targets) == 1:
        target, call = s.targets[0], s.value
        many = isinstance(target, ast.Tuple | ast.List)
        items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        names = [i.id for i in items if isinstance(i, ast.Name)]
    elif isinstance(s, ast.Expr):
        call = s.value
    else:
        raise ScheduleError(f"trace, line {s.lineno}: not a call of a primitive: {ast.unparse(s)}")
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(), attr=name), args=args, keywords=keywords
        ):
            stored: dict[str, Any] = {"*": [_value(a, known) for a in args]} if args else {}
            stored |= {k.arg or "": _value(k.value, known) for k in keywords}
        case _:
            raise ScheduleError(
                f"trace, line {s.lineno}: expected sch.<primitive>(name=value, ...), "
                f"got {ast.unparse(call)}"
            )
    known.update(names)
    return name, stored, tuple(names), many


def _value(e: ast.expr, known: set[str]) -> Any:
    match e:
        case ast.Name(id=name):
            return Ref(name) if name in known else Formula(name)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(i, known) for i in items]
        case ast.Dict(keys=keys, values=values):
            pairs = [(k, v) for k, v in zip(keys, values, strict=True) if k is not None]
            return {ast.literal_eval(k): _value(v, known) for k, v in pairs}
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            return float(text)
    return Formula(ast.unparse(e))


# -------------------------------------------------------------------------------------- values


def refs_in(v: Any) -> Iterator[str]:
    """The earlier results that a stored argument mentions."""
    if isinstance(v, Ref):
        yield str(v)
    elif isinstance(v, Formula):
        yield from (n.id for n in ast.walk(ast.parse(v, mode="eval")) if isinstance(n, ast.Name))
    elif isinstance(v, list | tuple):
        for x in v:
            yield from refs_in(x)
    elif isinstance(v, dict):
        for x in v.values():
            yield from refs_in(x)


def resolve(v: Any, values: Mapping[str, Any], func: PrimFunc) -> Any:
    """A stored argument with earlier results and formulas evaluated."""
    if isinstance(v, Ref):
        if v not in values:
            raise ScheduleError(f"trace: {v} is used before it is made")
        return values[v]
    if isinstance(v, Formula):
        return evaluate(v, func, values)
    if isinstance(v, list):
        return [resolve(x, values, func) for x in v]
    if isinstance(v, dict):
        return {k: resolve(x, values, func) for k, x in v.items()}
    return v


_ALLOWED = (
    ast.Expression, ast.Lambda, ast.arguments, ast.arg, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.Constant, ast.Tuple, ast.List,
    ast.Call,
)  # fmt: skip


def evaluate(text: str, func: PrimFunc, values: Mapping[str, Any] | None = None) -> Any:
    """An expression over a function's scalars and earlier samples, or a lambda over indices."""
    tree = ast.parse(text, mode="eval")
    for n in ast.walk(tree):
        called = getattr(n.func, "id", "") if isinstance(n, ast.Call) else "min"
        if not isinstance(n, _ALLOWED) or called not in ("min", "max"):
            raise ScheduleError(f"trace: {text} is not an index expression")
    scope: dict[str, Any] = {p.name: p for p in func.params if isinstance(p, Var)}
    scope |= {k: v for k, v in (values or {}).items() if isinstance(v, int)}
    scope |= {"min": minimum, "max": maximum, "AXIS_SEPARATOR": AXIS_SEPARATOR, "__builtins__": {}}
    try:
        return eval(compile(tree, "<trace>", "eval"), scope)
    except NameError as e:
        known = ", ".join(p.name for p in func.params if isinstance(p, Var)) or "none"
        raise ScheduleError(
            f"trace: {text}: {func.name} has no scalar parameter {e.name!r}\n  legal: {known}"
        ) from None
