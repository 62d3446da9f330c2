"""What the tests of written programs share: texts that are read back, run in two ways."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np

import smelt
from smelt.ir import assert_structural_equal
from smelt.script import parse
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.verify import verify

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    """Random numbers."""
    return RNG.standard_normal(shape).astype("float32")


def ints(low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    """Random integers, high exclusive."""
    return RNG.integers(low, high, shape, dtype)


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Room for a result."""
    return np.zeros(shape, dtype)


def kernel(text: str, **env: Any) -> PrimFunc:
    """The program of a text, verified; its printed form is the same program."""
    func = parse(f"@T.prim_func\n{dedent(text).strip()}\n", env)
    assert isinstance(func, PrimFunc)
    verify(func)
    assert_structural_equal(parse(func.script()), func)
    return func


def agrees(func: PrimFunc, args: list[Any], *expected: np.ndarray, native: bool = True) -> None:
    """The last arrays are the expected ones: by the interpreter, and by machine code."""
    ways: list[Callable[..., object]] = [lambda *given: interpret(func, *given)]
    if native:
        ways.append(smelt.build(func)[func.name])
    for run in ways:
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run(*given)
        arrays = [a for a in given if isinstance(a, np.ndarray)]
        for found, wanted in zip(arrays[-len(expected) :], expected, strict=True):
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(found, wanted)
