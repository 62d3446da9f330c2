"""One operator on made-up operands: the oracle in numpy against the tensor expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import smelt
from smelt.ir import dtype as dt
from smelt.ir.expr import IntImm, Var, convert
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, TupleType, tensor_type
from smelt.ir.walk import substitute
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple, TupleGetItem, call
from smelt.relax.nodes import Var as Param
from smelt.te import create_prim_func
from smelt.te.tensor import ExternOp
from smelt.tir.interpret import interpret as run_program
from smelt.tir.verify import verify
from smelt.topi import get_op

from .te_eval import evaluate

Array = np.ndarray[Any, Any]
SIZES = {name: Var(name) for name in ("n", "m", "s", "t")}
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-11}
SMALL = 4000
"""Iterations up to which the loop interpreter checks a case too."""


class Case:
    """An operator with operands and attributes.

    operands  arrays, or None where one is left out
    symbolic  operand -> {dimension: size name}: extents that are unknown at compile time
    """

    def __init__(
        self,
        name: str,
        *operands: Array | None,
        symbolic: dict[int, dict[int, str]] | None = None,
        **attrs: Any,
    ) -> None:
        self.name, self.operands, self.attrs = name, operands, attrs
        self.symbolic = symbolic or {}
        self.sizes: dict[Var, int] = {}
        self.types = [None if x is None else self._type(k, x) for k, x in enumerate(operands)]

    def _type(self, k: int, x: Array) -> TensorType:
        shape: list[Any] = list(x.shape)
        for d, size in self.symbolic.get(k, {}).items():
            shape[d] = SIZES[size]
            self.sizes[SIZES[size]] = x.shape[d]
        return tensor_type(shape, dt.from_numpy(x.dtype))

    def __repr__(self) -> str:
        shapes = [None if x is None else f"{x.dtype}{list(x.shape)}" for x in self.operands]
        return f"{self.name}{shapes}{self.attrs or ''}{self.symbolic or ''}"

    @property
    def kind(self) -> str:
        return get_op(self.name).instance(self.types, self._call().attrs).kind

    def _call(self) -> Call:
        params = [None if t is None else Param(f"x{k}", t) for k, t in enumerate(self.types)]
        return call(self.name, *params, **self.attrs)

    def numpy(self) -> list[Array]:
        """The oracle's results; `interpret` also compares them with the inferred types."""
        value = self._call()
        params = tuple([a for a in value.args if a is not None])
        results = interpret(Function(params, value), *self._given())  # type: ignore[arg-type]
        if not self.symbolic:
            for t, x in zip(get_op(self.name).infer(self.types, value.attrs), results, strict=True):
                assert t.fixed_shape() == x.shape
        return results

    def _given(self) -> list[Array]:
        return [x for x in self.operands if x is not None]

    def check(self, tolerance: float | None = None) -> None:
        """The tensor expression, and the program made of it, give what numpy gives."""
        expected = self.numpy()
        instance = get_op(self.name).instance(self.types, self._call().attrs)
        inputs = [t for t in instance.inputs if t is not None]
        found = evaluate(
            instance.outputs, dict(zip(inputs, self._given(), strict=True)), self.sizes
        )
        for want, got in zip(expected, found, strict=True):
            close(got, want, tolerance)
        func = create_prim_func([*inputs, *instance.outputs], self.name)
        verify(func)
        if self._work(instance.outputs) <= SMALL:
            outs = [np.zeros(w.shape, w.dtype) for w in expected]
            arrays = [np.array(x, order="C") for x in self._given()]
            run_program(
                func, *arrays, *outs, *[self.sizes[p] for p in func.params if isinstance(p, Var)]
            )
            for want, got in zip(expected, outs, strict=True):
                close(got, want, tolerance)

    def native(self, level: int = 3) -> list[Array]:
        """What the operator gives, compiled for this machine."""
        value = self._call()
        results: RelaxExpr = value
        if isinstance(value.type, TupleType):
            results = Tuple(tuple([TupleGetItem(value, k) for k in range(len(value.type.items))]))
        params = tuple([a for a in value.args if isinstance(a, Param)])
        module = IRModule({"main": Function(params, results)})
        exe = smelt.compile(
            module, options=smelt.Options(threads=1, workers=0, cache_dir="", opt_level=level)
        )
        found = exe(*self._given())
        return [x.numpy() for x in (found if isinstance(found, list | tuple) else [found])]

    def check_native(self, tolerance: float | None = None, level: int = 3) -> None:
        """Compiled for this machine, the operator gives what numpy gives."""
        for want, got in zip(self.numpy(), self.native(level), strict=True):
            close(got, want, tolerance)

    def _work(self, outputs: Sequence[Any]) -> int:
        total = 0
        stack, seen = [t.op for t in outputs], set()
        while stack:
            op = stack.pop()
            if id(op) in seen or not hasattr(op, "body"):
                continue
            seen.add(id(op))
            values = {v: convert(n) for v, n in self.sizes.items()}
            if isinstance(op, ExternOp):
                extents = [e for t in op.outputs for e in t.shape]
            else:
                extents = [a.dom.extent for a in (*op.axis, *op.reduce_axis)]
            sizes = [substitute(e, values) for e in extents]
            total += math.prod([e.value if isinstance(e, IntImm) else SMALL + 1 for e in sizes])
            stack += [t.op for t in op.inputs]
        return total


def close(got: Array, want: Array, tolerance: float | None = None) -> None:
    """Equal types and shapes; equal integers; floats near each other."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    name = dt.from_numpy(want.dtype)
    if not dt.is_float(name):
        np.testing.assert_array_equal(got, want)
        return
    limit = tolerance or TOLERANCE[name]
    a, b = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit, equal_nan=True)


def label(value: Any) -> str:
    """A parameter of a test in its name: arrays by type and shape."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return str(value).replace(" ", "")


def data(shape: Sequence[int], dtype: str = "float32", low: float = -3, high: float = 3) -> Array:
    """Numbers that differ from each other, always the same for a shape."""
    random = np.random.default_rng([*shape, len(dtype)])
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dt.is_int(dtype):
        begin = int(low) if dt.is_signed(dtype) else max(int(low), 0)
        return random.integers(begin, max(int(high), begin + 1) + 1, shape).astype(
            dt.to_numpy(dtype)
        )
    return random.uniform(low, high, shape).astype(dt.to_numpy(dtype))


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
Make = Callable[..., Case]
