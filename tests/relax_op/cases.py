"""Cases of Relax's builders: a builder's call, its operands, and what numpy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.ir.dtype import from_numpy
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, RelaxExpr, Tuple, Var

RNG = np.random.default_rng(7)


@dataclass
class Case:
    """One builder with what its results have to be."""

    name: str
    build: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    wanted: Callable[..., Any]
    tolerance: float = 1e-5

    def function(self) -> Function:
        """The builder's results as a function of the inputs."""
        params = [
            Var(f"x{n}", tensor_type(x.shape, from_numpy(x.dtype)))
            for n, x in enumerate(self.inputs)
        ]
        made = self.build(*params)
        assert isinstance(made, RelaxExpr), self.name
        return Function(tuple(params), made)

    def results(self) -> list[np.ndarray]:
        """What numpy says."""
        made = self.wanted(*self.inputs)
        return list(made) if isinstance(made, tuple) else [np.asarray(made)]


CASES: list[Case] = []


def case(
    name: str, build: Callable[..., Any], inputs: Any, wanted: Any, tolerance: float = 1e-5
) -> None:
    """Enter a case."""
    many = inputs if isinstance(inputs, tuple) else (inputs,)
    CASES.append(Case(name, build, many, wanted, tolerance))


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Random numbers."""
    return RNG.uniform(low, high, shape).astype("float32")


def i64(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64") -> np.ndarray:
    """Random integers."""
    return RNG.integers(low, high, shape).astype(dtype)


def together(cases: list[Case]) -> tuple[Function, list[np.ndarray]]:
    """Many cases as one function, and its inputs."""
    params: list[Var] = []
    results: list[RelaxExpr] = []
    given: list[np.ndarray] = []
    for n, c in enumerate(cases):
        f = c.function()
        own = [Var(f"c{n}_{p.name}", p.type) for p in f.params]
        made = c.build(*own)
        params += own
        given += c.inputs
        results += made.items if isinstance(made, Tuple) else [made]
    return Function(tuple(params), Tuple(tuple(results))), given
