"""Small graphs for the tests of graph passes, and the comparison before and after."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import smelt.topi  # noqa: F401  (the operators)
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import (
    Call,
    Constant,
    Function,
    RelaxExpr,
    Tuple,
    Var,
    call,
    constant,
    values,
)
from smelt.topi.registry import Op

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def var(name: str, *shape: Any, dtype: str = "float32") -> Var:
    return Var(name, tensor_type(shape, dtype))


def const(*shape: int, dtype: str = "float32", positive: bool = False) -> Constant:
    data = RNG.standard_normal(shape)
    return constant((np.abs(data) + 0.5 if positive else data).astype(dtype))


def num(value: float, *shape: int, dtype: str = "float32") -> Constant:
    return constant(np.full(shape, value, dtype))


def module(params: Sequence[Var], *results: RelaxExpr) -> IRModule:
    body = results[0] if len(results) == 1 else Tuple(results)
    return IRModule({"main": Function(tuple(params), body)})


def ops_of(mod: IRModule) -> dict[str, int]:
    nodes = values(mod["main"].body)
    names = [n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, Op)]
    return dict(Counter(names))


def random_inputs(mod: IRModule, size: int = 3, seed: int = 1) -> list[Array]:
    rng = np.random.default_rng(seed)
    out = []
    for p in mod["main"].params:
        assert isinstance(p.type, TensorType)
        shape = [getattr(e, "value", size) for e in p.type.shape]
        if p.type.dtype == "bool":
            out.append(rng.random(shape) < 0.5)
        elif p.type.dtype.startswith("int"):
            out.append(rng.integers(0, 3, shape).astype(p.type.dtype))
        else:
            out.append(rng.standard_normal(shape).astype(p.type.dtype))
    return out


def assert_same(
    before: IRModule, after: IRModule, tolerance: float = 2e-5, inputs: list[Array] | None = None
) -> None:
    xs = random_inputs(before) if inputs is None else inputs
    old = interpret(before["main"], *xs, module=before)
    new = interpret(after["main"], *xs, module=after)
    for a, b in zip(old, new, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        scale = max(float(np.nanmax(np.abs(a.astype(np.float64)), initial=0.0)), 1e-6)
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
        assert float(np.nanmax(difference, initial=0.0)) <= tolerance * scale


def becomes(
    change: Callable[[IRModule], IRModule], before: IRModule, want: dict[str, int],
    tolerance: float = 2e-5,
) -> IRModule:  # fmt: skip
    """The pass gives these operators, keeps the result, and finds nothing more to do."""
    after = change(before)
    assert ops_of(after) == want
    assert_same(before, after, tolerance)
    assert change(after) is after
    return after


__all__ = [
    "RNG", "Array", "assert_same", "becomes", "call", "const", "module", "num", "ops_of",
    "random_inputs", "var",
]  # fmt: skip
