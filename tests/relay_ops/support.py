"""Cases of operators: what builds the call, its operands, and what the result has to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import smelt
from smelt import relay
from smelt.ir import dtype as dt
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, Tuple

Array = np.ndarray[Any, Any]


class Case:
    """A call of an operator.

    name     of the operator that it is a case of
    build    variables -> the expression, or a tuple of them
    inputs   arrays
    want     the results, or a function of the inputs that gives them
    limit    largest difference over the largest magnitude
    """

    def __init__(
        self, name: str, build: Callable[..., Any], inputs: Sequence[Array], want: Any,
        limit: float = 2e-6,
    ) -> None:  # fmt: skip
        self.name, self.build, self.inputs, self.limit = name, build, list(inputs), limit
        self._want = want

    @property
    def want(self) -> list[Array]:
        """The results."""
        found = self._want(*self.inputs) if callable(self._want) else self._want
        many = found if isinstance(found, tuple | list) else (found,)
        return [np.asarray(x) for x in many]

    def variables(self, prefix: str = "") -> list[Any]:
        """One for each input."""
        return [
            relay.var(f"{prefix}x{i}", shape=x.shape, dtype=dt.from_numpy(x.dtype))
            for i, x in enumerate(self.inputs)
        ]

    def results(self, variables: Sequence[Any]) -> list[Any]:
        """The expressions of the results."""
        made = self.build(*variables)
        if hasattr(made, "astuple"):
            return [made[i] for i in range(len(made))]
        return list(made) if isinstance(made, tuple | list) else [made]

    def function(self) -> Function:
        """A function of the inputs."""
        variables = self.variables()
        made = self.results(variables)
        return Function(tuple(variables), made[0] if len(made) == 1 else Tuple(tuple(made)))

    def check(self, results: Sequence[Any]) -> None:
        """Whether results are right."""
        want = self.want
        assert len(results) == len(want), self.name
        for ours, theirs in zip(results, want, strict=True):
            same(ours, theirs, self.limit, self.name)


def same(ours: Any, theirs: Array, limit: float = 2e-6, name: str = "") -> None:
    """Equal shape and type; equal values up to a difference relative to the largest magnitude."""
    a = np.asarray(ours)
    assert a.shape == theirs.shape, f"{name}: {a.shape} for {theirs.shape}"
    assert a.dtype == theirs.dtype, f"{name}: {a.dtype} for {theirs.dtype}"
    if a.dtype.kind in "biu":
        assert np.array_equal(a, theirs), f"{name}: {a} for {theirs}"
        return
    assert np.array_equal(np.isfinite(a), np.isfinite(theirs)), f"{name}: {a} for {theirs}"
    kept = np.isfinite(theirs)
    if kept.any():
        top = max(float(np.abs(theirs[kept]).max()), 1e-30)
        worst = float(np.abs(a[kept].astype("float64") - theirs[kept]).max()) / top
        assert worst <= limit, f"{name}: {worst}"


TOGETHER = 24
"""How many operators are compiled as one program."""


def first_of_each(cases: Sequence[Case]) -> list[Case]:
    """One case of each operator."""
    return list({c.name: c for c in reversed(cases)}.values())[::-1]


def check_compiled(cases: Sequence[Case]) -> None:
    """Several cases compiled as one program with a tuple of all results."""
    params, results, counts = [], [], []
    for n, c in enumerate(cases):
        variables = c.variables(f"c{n}_")
        made = c.results(variables)
        params += variables
        results += made
        counts.append(len(made))
    mod = relay.IRModule.from_expr(Function(tuple(params), Tuple(tuple(results))))
    exe = smelt.compile(mod)
    found = [x.numpy() for x in exe(*[x for c in cases for x in c.inputs])]
    at = 0
    for c, count in zip(cases, counts, strict=True):
        c.check(found[at : at + count])
        at += count


def run(expr: Any, *inputs: Array) -> list[Array]:
    """What the interpreter says of an expression of its free variables, in order of first use."""
    f = relay.IRModule.from_expr(expr)["main"]
    return interpret(f, *inputs)


def floats(*shape: int, seed: int = 0, low: float = -2, high: float = 2) -> Array:
    """Random float32 numbers."""
    rng = np.random.default_rng(seed + sum(shape))
    return rng.uniform(low, high, shape).astype("float32")


def ints(*shape: int, seed: int = 0, low: int = -9, high: int = 10, dtype: str = "int32") -> Array:
    """Random integers."""
    rng = np.random.default_rng(seed + 7 + sum(shape))
    return rng.integers(low, high, shape).astype(dtype)
