"""Modules whose main calls one external function between smelt's own operators."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from smelt.byoc import codegen
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function, GlobalVar, RelaxExpr, Tuple, TupleGetItem, Var, call
from smelt.relax.nodes import constant as graph_constant
from smelt.runtime import external

Array = np.ndarray[Any, Any]
SYMBOL = "tvmgen_default_mine_main_0"
NAME = "mine"


@contextmanager
def registered() -> Iterator[None]:
    """No back ends at first; those that are registered inside are forgotten afterwards."""
    tables: list[dict[str, Any]] = [codegen._codegens, external._loaders]
    before = [dict(t) for t in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, old in zip(tables, before, strict=True):
            table.clear()
            table.update(old)


def outside(params: list[Var], body: RelaxExpr, symbol: str = SYMBOL, name: str = NAME) -> Function:
    attrs = {"Compiler": name, "global_symbol": symbol, "Primitive": 1}
    return Function(tuple(params), body, attrs)


def call_of(func: Function, *args: RelaxExpr, name: str = SYMBOL) -> Call:
    return Call(GlobalVar(name), args, {}, func.body.type)


def affine(n: int | SizeVar = 3, width: int = 4, name: str = NAME) -> IRModule:
    """main(x) = tanh(f(relu(x), b)) * 2, where f(x, b) = x * x + b is external."""
    x = Var("x", tensor_type((n, width), "float32"))
    p = Var("p0", tensor_type((n, width), "float32"))
    q = Var("p1", tensor_type((width,), "float32"))
    f = outside([p, q], call("add", call("multiply", p, p), q), name=name)
    b = graph_constant(np.linspace(0, 1, width).astype("float32"), "b")
    inner = call_of(f, call("relu", x), b)
    two = graph_constant(np.array(2, "float32"))
    main = Function((x,), call("multiply", call("tanh", inner), two))
    return IRModule({"main": main, SYMBOL: f})


def two_results() -> IRModule:
    """main(x) = a + transpose(b), a, b = f(transpose(x)): views around an external function."""
    x = Var("x", tensor_type((3, 4), "float32"))
    p = Var("p0", tensor_type((4, 3), "float32"))
    turned = call("transpose", p, axes=(1, 0))
    f = outside([p], Tuple((turned, call("negative", p))))
    inner = call_of(f, call("transpose", x, axes=(1, 0)))
    back = call("transpose", TupleGetItem(inner, 1), axes=(1, 0))
    y = call("add", TupleGetItem(inner, 0), back)
    return IRModule({"main": Function((x,), Tuple((y, TupleGetItem(inner, 1)))), SYMBOL: f})


def expected(mod: IRModule, *inputs: Array) -> list[Array]:
    return interpret(mod["main"], *inputs, module=mod)


def close(ours: Any, theirs: Array) -> None:
    a = np.asarray(ours)
    assert a.shape == theirs.shape
    assert np.abs(a - theirs).max() <= 1e-5 * max(1.0, np.abs(theirs).max())


AFFINE_C = """
#include <stdint.h>
int SYMBOL(const float* x, const float* b, float* out) {
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 4; j++)
            out[4 * i + j] = x[4 * i + j] * x[4 * i + j] + b[j];
    return 0;
}
"""


def affine_c(symbol: str) -> str:
    return AFFINE_C.replace("SYMBOL", symbol)


def affine_python(text: str, constants: Any) -> Callable[..., None]:
    def run(x: Array, b: Array, out: Array) -> None:
        out[...] = x * x + b

    return run
