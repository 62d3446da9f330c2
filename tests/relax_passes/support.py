"""What the tests of passes share: programs, and the law that a pass keeps what they compute."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function, RelaxExpr, Var
from smelt.relax.verify import verify

RNG = np.random.default_rng(3)


def var(name: str, *shape: Any, dtype: str = "float32") -> Var:
    """A parameter."""
    return Var(name, tensor_type(shape, dtype))


def array(*shape: int) -> np.ndarray:
    """Random numbers of float32."""
    return RNG.uniform(-1, 1, shape).astype("float32")


def module(params: list[Var], body: RelaxExpr, **others: Any) -> IRModule:
    """A module of "main" and other functions."""
    return IRModule({"main": Function(tuple(params), body), **others})


def calls(mod: IRModule, name: str = "main") -> Counter[str]:
    """How often each operator or function is called in a function."""
    return Counter([n.callee for n in postorder(mod[name]) if isinstance(n, Call)])


def inputs(mod: IRModule, name: str = "main") -> list[np.ndarray]:
    """Arrays for the parameters of a function."""
    return [array(*p.type.fixed_shape()) for p in mod[name].params]


def same(before: IRModule, after: IRModule, *given: np.ndarray, tolerance: float = 1e-5) -> None:
    """Both are well formed and compute the same."""
    verify(after)
    arrays = list(given) or inputs(before)
    old = interpret(before["main"], *arrays, module=before)
    new = interpret(after["main"], *arrays, module=after)
    assert len(old) == len(new)
    for a, b in zip(old, new, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
