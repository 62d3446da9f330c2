"""Tensors of one value, of running numbers, and of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir.build import value_of
from smelt.ir.expr import Expr

from ..nodes import RelaxExpr, call, constant
from .common import cast_to, dtype_of, legal, number_of, rank_of, reshaped, scalar, shape_of


def full(shape: Any, value: RelaxExpr, dtype: str | None) -> RelaxExpr:
    """A tensor of one value, a scalar; dtype: of the result, None and "" that of the value."""
    legal(rank_of(value) == 0, f"fill_value has {rank_of(value)} dimensions; a scalar is legal")
    known, kind = number_of(value), dtype or dtype_of(value)
    if known is not None:
        return call("full", shape=shape, value=known, dtype=kind)
    return call("broadcast_to", cast_to(value, kind), shape=shape)


def arange(start: Any, stop: Any, step: Any, dtype: str) -> RelaxExpr:
    """start, start + step, ... up to stop, which is left out; numbers, or expressions of sizes."""
    legal(step != 0, "step=0; it has to be another number")
    if not any(isinstance(v, Expr) for v in (start, stop, step)):
        count: Any = max(0, math.ceil((stop - start) / step))
    else:
        whole = isinstance(step, int) and step > 0
        legal(whole, f"step={step}; beside symbolic sizes it has to be a whole number above 0")
        count = (stop - start + (step - 1)) // step
    return call("arange", start=start, step=step, count=count, dtype=dtype)


def size_vector(shape: Sequence[Any], dtype: str) -> RelaxExpr:
    """Sizes as a vector."""
    known = [value_of(e) for e in shape]
    if None not in known:
        return constant(np.asarray(known, dtype))
    return call("concat", *[_one(e, dtype) for e in shape], axis=0)


def size_scalar(e: Any, dtype: str) -> RelaxExpr:
    """A size as a scalar."""
    known = value_of(e)
    return reshaped(_one(e, dtype), ()) if known is None else scalar(known, dtype)


def _one(e: Any, dtype: str) -> RelaxExpr:
    return call("arange", start=e, step=1, count=1, dtype=dtype)


def hot(indices: RelaxExpr, places: RelaxExpr, axis: int) -> RelaxExpr:
    """Where one of the places, along a new axis, is the index: bools."""
    alone: list[Any] = [1] * (rank_of(indices) + 1)
    alone[axis] = shape_of(places)[0]
    column = reshaped(places, alone)
    return call("equal", call("expand_dims", indices, axes=(axis,)), column)
