"""Graphs of random updates: compiled, they give what the interpreter gives, and leave inputs alone.

Every value has 4 x 4 elements, or is a view of one that has. Some inputs are states: after a run
their memory holds the result that they become.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, If, RelaxExpr, Tuple, TupleGetItem, Var, call, constant

SIDE = 4
STEPS = ("scatter_nd", "scatter_add", "scatter_elements", "write_sequence", "add", "multiply",
         "transpose", "rows", "sum", "concat", "relu")  # fmt: skip


def step(draw: Any, kind: str, pool: list[RelaxExpr]) -> RelaxExpr:
    """Another value of 4 x 4 elements."""
    x, y = (draw(st.sampled_from(pool)) for _ in range(2))
    places = constant(np.array(draw(st.lists(st.integers(0, SIDE - 1), min_size=2, max_size=2))))
    one = constant(np.asarray(places.data[:1]))
    rows = call("strided_slice", y, axes=(0,), begin=(1,), end=(3,))
    match kind:
        case "scatter_nd" | "scatter_add":
            how = "none" if kind == "scatter_nd" else "add"
            at = call("reshape", places, shape=(2, 1))
            return call("scatter_nd", x, at, rows, reduction=how)
        case "scatter_elements":
            at = call("broadcast_to", call("reshape", places, shape=(2, 1)), shape=(2, SIDE))
            return call("scatter_elements", x, at, rows, axis=0)
        case "write_sequence":
            whole, part = (call("reshape", v, shape=(1, -1 + 5 if v is x else 2, SIDE))
                           for v in (x, rows))  # fmt: skip
            made = call("write_sequence", whole, part, one, axis=1, circular=draw(st.booleans()))
            return call("reshape", made, shape=(SIDE, SIDE))
        case "transpose":
            return call("transpose", x, axes=(1, 0))
        case "rows":  # a part of x is updated, and the rest stands as it was
            part = call("strided_slice", x, axes=(0,), begin=(0,), end=(2,))
            first = constant(places.data[:1].reshape(1, 1) % 2)
            new = call("strided_slice", y, axes=(0,), begin=(3,), end=(4,))
            rest = call("strided_slice", x, axes=(0,), begin=(2,), end=(4,))
            return call("concat", call("scatter_nd", part, first, new), rest, axis=0)
        case "sum":
            return call("add", x, call("sum", y, axes=(0,), keepdims=True))
        case "concat":
            return call("concat", rows, rows, axis=0)
        case "relu":
            return call("relu", x)
    return call(kind, x, y)


def grown(draw: Any, params: Sequence[RelaxExpr], count: int) -> list[RelaxExpr]:
    """Some values that follow from others, the last of them from most."""
    pool: list[RelaxExpr] = [*params]
    for kind in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7)):
        pool.append(step(draw, kind, pool))
    return [pool[-1], *[draw(st.sampled_from(pool)) for _ in range(count - 1)]]


def tensors() -> list[Var]:
    return [Var(f"x{n}", tensor_type((SIDE, SIDE), "float32")) for n in range(3)]


@st.composite
def graphs(draw: Any) -> tuple[Function, int]:
    """A function, and how many of its first results are states."""
    params, count = tensors(), draw(st.integers(1, 3))
    results = grown(draw, params, count)
    body = Tuple(tuple(results)) if count > 1 else results[0]
    names = tuple([f"y{n}" for n in range(count)])
    return Function(tuple(params), body, {"output_names": names}), draw(st.integers(0, count))


@st.composite
def programs(draw: Any) -> tuple[Function, int]:
    """The same of two sides of a branch, with work before it."""
    params, count = tensors(), draw(st.integers(2, 3))
    flag = Var("flag", tensor_type((), "bool"))
    shared = [*params, *grown(draw, params, 1)]
    sides = [Tuple(tuple(grown(draw, shared, count))) for _ in "ab"]
    yes, no = (Function((), side) for side in sides)
    branch = If(flag, yes, no, sides[0].type)
    results = tuple([TupleGetItem(branch, n) for n in range(count)])
    names = tuple([f"y{n}" for n in range(count)])
    f = Function((*params, flag), Tuple(results), {"output_names": names})
    return f, draw(st.integers(0, count))


def agree(exe: Any, f: Function, states: int, seed: int) -> None:
    """Three calls: with the first values, then with what the calls before have left."""
    random = np.random.default_rng(seed)
    values = [random.integers(-4, 5, (SIDE, SIDE)).astype("float32") for _ in range(3)]
    for turn in range(3):
        more = [np.asarray(turn != 1)] * (len(f.params) - 3)
        wanted = interpret(f, *values, *more)
        for n in range(states):
            exe.state[f"x{n}"] = values[n]
        before = [v.copy() for v in values]
        found = exe(*values[states:], *more)
        rest = [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]
        kept = [exe.state[f"x{n}"].numpy() for n in range(states)]
        for n, (a, b) in enumerate(zip([*kept, *rest], wanted, strict=True)):
            np.testing.assert_array_equal(a, b, err_msg=f"result {n}")
        for a, b in zip(values, before, strict=True):
            np.testing.assert_array_equal(a, b)
        values = [w % 7 for w in (*wanted, *values)][:3]


def compiled(f: Function, states: int) -> Any:
    state = {f"x{n}": f"y{n}" for n in range(states)}
    return smelt.compile(IRModule({"main": f}), state=state, threads=1)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 9))
def test_updates_give_what_the_interpreter_gives(made: tuple[Function, int], seed: int) -> None:
    agree(compiled(*made), *made, seed)


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 9))
def test_branches_update_what_they_may(made: tuple[Function, int], seed: int) -> None:
    agree(compiled(*made), *made, seed)
