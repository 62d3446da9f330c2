"""Programs as people write them with Relay's functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.module import IRModule
from smelt.relax.nodes import Function, RelaxExpr, constant

from .face import relay


def weight(*shape: int, name: str = "") -> Any:
    """A constant of small whole numbers."""
    data = np.arange(np.prod(shape), dtype="float32").reshape(shape) % 5 - 2
    return constant(data, name)


def convolution(x: RelaxExpr, filters: int, name: str) -> Any:
    """A convolution of 3 x 3 and its normalisation."""
    w = weight(filters, 4, 3, 3, name=name)
    y = relay.nn.conv2d(x, w, padding=1, channels=filters, kernel_size=3)
    gamma, beta, mean, var = (weight(filters) for _ in range(4))
    return relay.nn.batch_norm(y, gamma, beta, mean, var)[0]


def resnet_block() -> Any:
    """Two convolutions beside a shortcut."""
    x = relay.var("data", shape=(1, 4, 8, 8))
    y = relay.nn.relu(convolution(x, 4, "conv1"))
    y = relay.nn.relu(relay.add(convolution(y, 4, "conv2"), x))
    return IRModule.from_expr(relay.Function([x], y))


def fused() -> Any:
    """A chain of operators after FuseOps."""
    x = relay.var("x", shape=(relay.Any(), 4))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weight(3, 4)), weight(3))) * 2.0
    return relay.transform.FuseOps(3)(IRModule.from_expr(relay.Function([x], y)))


def partitioned() -> Any:
    """A part for another compiler, as PartitionGraph leaves it."""
    p = relay.var("dnnl_0_i0", shape=(1, 4))
    inner = relay.var("FunctionVar_0_0", shape=(1, 4))
    composite = relay.Function([inner], relay.nn.relu(relay.nn.dense(inner, weight(3, 4))),
                               attrs={"PartitionedFromPattern": "nn.dense_nn.relu_",
                                      "Composite": "dnnl.dense_relu"})  # fmt: skip
    part = Function((p,), composite(p), {"Inline": 1, "Compiler": "dnnl", "Primitive": 1,
                                         "global_symbol": "dnnl_main_0"})  # fmt: skip
    x = relay.var("x", shape=(1, 4))
    called = relay.GlobalVar("dnnl_main_0")(x).replace(type=part.body.type)
    return IRModule({"main": relay.Function([x], relay.tanh(called)), "dnnl_main_0": part})


def list_sum() -> Any:
    """The sum of a list, and a function for all types."""
    mod = IRModule()
    of, a = relay.GlobalTypeVar("List"), relay.TypeVar("A")
    cons = relay.Constructor("Cons", [a, of(a)], of)
    nil = relay.Constructor("Nil", [], of)
    mod[of] = relay.TypeData(of, [a], [cons, nil])
    number = relay.scalar_type("int32")
    xs, head, tail = relay.var("xs", of(number)), relay.var("h", number), relay.var("t")
    total = relay.GlobalVar("sum")(tail).replace(type=number)
    clauses = [
        relay.Clause(
            relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternVar(tail)]),
            head + total,
        ),
        relay.Clause(relay.PatternConstructor(nil), relay.const(0)),
    ]
    mod["sum"] = relay.Function([xs], relay.Match(xs, clauses))
    b = relay.TypeVar("A")
    y = relay.var("y", b)
    mod["same"] = relay.Function([y], relay.Match(y, [
        relay.Clause(relay.PatternWildcard(), y)
    ], complete=False), type_params=[b])  # fmt: skip
    two = cons(relay.const(1), cons(relay.const(2), nil()))
    mod["main"] = relay.Function([], relay.GlobalVar("sum")(two).replace(type=number))
    return mod


def control() -> Any:
    """A branch, a let, a closure that calls itself, tuples, a symbolic size."""
    x, flag = relay.var("x", shape=(relay.Any(), 2)), relay.var("flag", "bool")
    shared, v, w = relay.exp(x), relay.var("v"), relay.var("w")
    branch = relay.If(flag, relay.tanh(relay.sqrt(shared)), shared)
    scale = relay.Function([w], w * v)
    pair = relay.Tuple([scale(shared), relay.Tuple([v]), relay.Tuple([])])
    return IRModule.from_expr(relay.Function([flag, x], relay.Let(v, branch, pair)))


PROGRAMS = (resnet_block, fused, partitioned, list_sum, control)
