"""Operators as machine code: one model of several cases, compiled once, against numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import smelt
from smelt.ir.expr import Var
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, TupleType, tensor_type
from smelt.ir.walk import substitute
from smelt.relax.nodes import Function, RelaxExpr, Tuple, TupleGetItem, call
from smelt.relax.nodes import Var as Param

from .cases import Array, Case, close


def _renamed(t: TensorType, fresh: Mapping[Var, Var]) -> TensorType:
    """Every case has sizes of its own."""
    return tensor_type([substitute(e, fresh) for e in t.shape], t.dtype)


def run_compiled(cases: Sequence[Case]) -> list[list[Array]]:
    """The results of each case."""
    params: list[Param] = []
    given: list[Array] = []
    results: list[RelaxExpr] = []
    counts = []
    for k, case in enumerate(cases):
        fresh = {v: Var(f"{v.name}{k}") for v in case.sizes}
        types = [None if t is None else _renamed(t, fresh) for t in case.types]
        own = [None if t is None else Param(f"x{k}_{j}", t) for j, t in enumerate(types)]
        params += [p for p in own if p is not None]
        given += [x for x in case.operands if x is not None]
        value = call(case.name, *own, **case.attrs)
        count = len(value.type.items) if isinstance(value.type, TupleType) else 0
        results += [TupleGetItem(value, j) for j in range(count)] or [value]
        counts.append(max(count, 1))
    model = IRModule({"main": Function(tuple(params), Tuple(tuple(results)))})
    found = smelt.compile(model, options=smelt.Options(threads=2))(*given)
    rest = iter(found if isinstance(found, tuple) else (found,))
    return [[np.asarray(next(rest).numpy()) for _ in range(n)] for n in counts]


def check_compiled(cases: Sequence[Case], tolerance: float | None = None) -> None:
    """Compile all cases as one model and compare every result with the oracle's."""
    for case, got in zip(cases, run_compiled(cases), strict=True):
        for a, b in zip(got, case.numpy(), strict=True):
            try:
                close(a, b, tolerance)
            except AssertionError as e:
                raise AssertionError(f"{case}: {e}") from e


def check_all(cases: Sequence[Case], tolerance: float | None = None) -> None:
    """Every case as a tensor expression, as a program, and compiled."""
    for case in cases:
        case.check(tolerance)
    check_compiled(cases, tolerance)
