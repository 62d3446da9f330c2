"""Random graph functions with names, branches, closures and casts, for the laws of the text."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import TensorType, tensor_type
from smelt.relax.nodes import (
    Function,
    If,
    Let,
    MatchCast,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    call_function,
    constant,
)

NAMES = ["x", "v0", "f0", "class", "a.b", "R", "lv"]


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """A function over tensors [n, 4] and a truth value."""
    n = SizeVar("n")
    params = [Var("x", tensor_type((n, 4))), Var("c", tensor_type((), "bool"))]
    body = block(draw, params[1], [params[0]], draw(st.integers(1, 3)))
    if draw(st.booleans()):
        body = Tuple((body, params[0], body))
    return Function(tuple(params), body)


def block(draw: st.DrawFn, c: Var, known: list[Any], depth: int) -> RelaxExpr:
    """A value [n, 4] of some known ones; names are bound around it, in order."""
    values, lets = list(known), []
    for _ in range(draw(st.integers(1, 4))):
        made = step(draw, c, values, depth)
        if draw(st.booleans()):
            var = Var(draw(st.sampled_from(NAMES)), made.type)
            lets.append((var, made))
            made = var
        if isinstance(made.type, TensorType):
            values.append(made)
    result = values[-1] if draw(st.booleans()) else draw(st.sampled_from(values))
    for var, value in reversed(lets):
        result = Let(var, value, result)
    return result  # type: ignore[no-any-return]


def step(draw: st.DrawFn, c: Var, values: list[Any], depth: int) -> Any:
    """One more value."""
    x, y = draw(st.sampled_from(values)), draw(st.sampled_from(values))
    kinds = ["unary", "binary", "number", "item", "sum", "cast"]
    match draw(st.sampled_from([*kinds, "if", "closure", "let"] if depth else kinds)):
        case "unary":
            return call(draw(st.sampled_from(["relu", "exp"])), x)
        case "number":
            return call(
                "add", x, constant(np.asarray(draw(st.floats(-2, 2, width=32)), np.float32))
            )
        case "item":
            return TupleGetItem(Tuple((x, y)), draw(st.integers(0, 1)))
        case "sum":
            return call("add", call("sum", x, axes=(1,), keepdims=True), y)
        case "cast":
            return MatchCast(x, x.type)
        case "if":
            yes, no = (Function((), block(draw, c, values, depth - 1)) for _ in range(2))
            return If(c, yes, no, x.type)
        case "closure":
            p = Var(draw(st.sampled_from(NAMES)), x.type)
            f: Any = Function((p,), block(draw, c, [*values, p], depth - 1))
            if draw(st.booleans()):
                name = Var("f", f.type)
                return Let(name, f, call_function(name, [y]))
            return call_function(f, [x])
        case "let":
            return call("add", block(draw, c, values, depth - 1), y)
    return call(draw(st.sampled_from(["add", "maximum"])), x, y)
