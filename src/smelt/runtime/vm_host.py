"""Operators of the virtual machine whose results' sizes only the data tell, in numpy.

Each takes arrays and plain attributes, and gives an array or a tuple of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import InputError

__all__ = ["HOST_OPS", "host_op"]

Array = npt.NDArray[Any]

HOST_OPS: dict[str, Callable[..., Any]] = {}
"""The operators by name."""


def host_op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as an operator of the virtual machine."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        if name in HOST_OPS:
            raise ValueError(f"the machine has an operator {name!r} already")
        HOST_OPS[name] = fn
        return fn

    return enter


def _shape(values: Array, name: str) -> tuple[int, ...]:
    """A shape from an operand of numbers."""
    shape = tuple([int(v) for v in np.asarray(values).reshape(-1)])
    if any(v < 0 for v in shape):
        raise InputError(f"{name}: the shape {list(shape)} has a negative extent")
    return shape


@host_op("argwhere")
def argwhere(x: Array) -> Array:
    """Where x is not 0: int32 [count, the dimensions of x], row-major."""
    return np.argwhere(x).astype(np.int32)


@host_op("unique")
def unique(x: Array, *, sorted: bool = True, counts: bool = False) -> tuple[Array, ...]:
    """The distinct elements of a vector, where each comes first, which one each element is, how
    many there are [1], and how often each comes; values [count], indices int32."""
    values, first, inverse, number = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        values, first, number, inverse = values[order], first[order], number[order], place[inverse]
    made = (values, first, inverse, np.asarray([len(values)]), *([number] if counts else []))
    return (made[0], *[np.ascontiguousarray(m, np.int32) for m in made[1:]])


@host_op("arange")
def arange(start: Array, stop: Array, step: Array, *, dtype: str) -> Array:
    """start, start + step, ... up to stop, which is left out; operands are scalars."""
    a, b, c = start.item(), stop.item(), step.item()
    if c == 0:
        raise InputError("arange: step is 0; it has to be another number")
    count = max(0, math.ceil((b - a) / c))
    return (a + c * np.arange(count)).astype(numpy_dtype(dtype))


@host_op("dyn.reshape")
def reshape(x: Array, shape: Array) -> Array:
    """x in another shape: 0 copies an extent, -1 is what remains."""
    wanted = [int(v) for v in shape.reshape(-1)]
    wanted = [x.shape[n] if v == 0 and n < x.ndim else v for n, v in enumerate(wanted)]
    known = math.prod([v for v in wanted if v != -1])
    rest = x.size // known if known else 0
    made = [rest if v == -1 else v for v in wanted]
    if wanted.count(-1) > 1 or min([0, *made]) < 0 or math.prod(made) != x.size:
        raise InputError(f"dyn.reshape: {list(x.shape)} cannot become {wanted}")
    return np.ascontiguousarray(x).reshape(made)


@host_op("dyn.broadcast_to")
def broadcast_to(x: Array, shape: Array) -> Array:
    """x repeated to a shape."""
    wanted = _shape(shape, "dyn.broadcast_to")
    try:
        return np.array(np.broadcast_to(x, wanted), order="C")
    except ValueError:
        raise InputError(
            f"dyn.broadcast_to: {list(x.shape)} cannot become {list(wanted)}"
        ) from None


@host_op("dyn.full")
def full(value: Array, shape: Array, *, dtype: str = "") -> Array:
    """All value, a scalar."""
    kind = numpy_dtype(dtype) if dtype else value.dtype
    return np.full(_shape(shape, "dyn.full"), value.item(), kind)


@host_op("dyn.zeros")
def zeros(shape: Array, *, dtype: str) -> Array:
    """All zero."""
    return np.zeros(_shape(shape, "dyn.zeros"), numpy_dtype(dtype))


@host_op("dyn.ones")
def ones(shape: Array, *, dtype: str) -> Array:
    """All one."""
    return np.ones(_shape(shape, "dyn.ones"), numpy_dtype(dtype))


@host_op("dyn.tile")
def tile(x: Array, reps: Array) -> Array:
    """x repeated a number of times along each dimension."""
    return np.ascontiguousarray(np.tile(x, _shape(reps, "dyn.tile")))


@host_op("dyn.strided_slice")
def strided_slice(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    """Elements from begin to end, which is left out, in steps, along the first dimensions."""
    triples = zip(begin.reshape(-1), end.reshape(-1), strides.reshape(-1), strict=True)
    cut = tuple([slice(int(b), int(e), int(s)) for b, e, s in triples])
    return np.ascontiguousarray(x[cut])


@host_op("dyn.topk_values")
def topk_values(x: Array, k: Array, *, axis: int = -1, is_ascend: bool = False) -> Array:
    """The k largest (smallest) elements along a dimension, in order."""
    return np.ascontiguousarray(np.take_along_axis(x, _best(x, k, axis, is_ascend), axis))


@host_op("dyn.topk_indices")
def topk_indices(
    x: Array, k: Array, *, axis: int = -1, is_ascend: bool = False, dtype: str = "int32"
) -> Array:
    """Where the k largest (smallest) elements along a dimension stand."""
    return np.ascontiguousarray(_best(x, k, axis, is_ascend).astype(numpy_dtype(dtype)))


def _best(x: Array, k: Array, axis: int, ascend: bool) -> Array:
    keys = x if ascend else np.flip(x, axis)
    order = np.argsort(keys, axis=axis, kind="stable")
    if not ascend:  # equal elements in their order, the largest first
        order = np.flip(x.shape[axis] - 1 - order, axis)
    return np.take(order, np.arange(min(int(k.item()), x.shape[axis])), axis)
