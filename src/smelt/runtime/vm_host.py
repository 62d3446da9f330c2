"""Operators of the virtual machine with data-dependent sizes, in numpy.

Each takes arrays and plain attributes, and gives an array or a tuple of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.container import ADT
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import InputError
from smelt.runtime.images import decode
from smelt.runtime.ndarray import array, empty, wrapped
from smelt.runtime.packed import get_global_func

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


@host_op("arange")
def arange(
    begin: Array, end: Array, by: Array, *, dtype: str, start: Any, stop: Any, step: Any
) -> Array:
    """begin, begin + by, ... up to end, which is left out; operands are scalars."""
    first, last, each = begin.item(), end.item(), by.item()
    if each == 0:
        raise InputError("arange: step is 0; it has to be another number")
    count = max(0, math.ceil((last - first) / each))
    return np.asarray(first + each * np.arange(count)).astype(numpy_dtype(dtype))


@host_op("dyn.reshape")
def reshape(x: Array, shape: Array, *, allowzero: bool) -> Array:
    """x in another shape: 0 copies an extent unless allowzero, -1 is what remains."""
    wanted = [int(v) for v in shape.reshape(-1)]
    if not allowzero:
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
def full(value: Array, shape: Array, *, dtype: str) -> Array:
    """All value, a scalar; dtype "": of its type."""
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
    return np.array(np.tile(x, _shape(reps, "dyn.tile")), order="C")


@host_op("dyn.strided_slice")
def strided_slice(x: Array, begin: Array, end: Array, strides: Array, *, slice_mode: str) -> Array:
    """Elements from begin to end, which is left out, in steps, along the first dimensions.

    slice_mode  "size": `end` holds numbers of elements, -1 is all that remain, steps are 1
    """
    cut = []
    for n, (b, e, s) in enumerate(
        zip(begin.reshape(-1), end.reshape(-1), strides.reshape(-1), strict=True)
    ):
        first, last, step = int(b), int(e), int(s)
        if slice_mode == "size":
            first = first % x.shape[n] if x.shape[n] else 0
            last, step = (x.shape[n] if last < 0 else first + last), 1
        if step == 0:
            raise InputError("dyn.strided_slice: a step is 0; it has to be another number")
        cut.append(slice(first, last, step))
    return np.array(x[tuple(cut)], order="C")


@host_op("dyn.one_hot")
def one_hot(indices: Array, on: Array, off: Array, depth: Array, *, axis: int, dtype: str) -> Array:
    """on where the place along a new axis of `depth` places is the index, off elsewhere."""
    count = int(depth.item())
    if count < 0:
        raise InputError(f"dyn.one_hot: depth is {count}; 0 or more are possible")
    at = axis % (indices.ndim + 1)
    places = np.arange(count).reshape([-1 if d == at else 1 for d in range(indices.ndim + 1)])
    made: Array = np.where(np.expand_dims(indices, at) == places, on.item(), off.item())
    return made.astype(numpy_dtype(dtype))


@host_op("dyn.topk")
def topk(
    x: Array, k: Array, *, axis: int, ret_type: str, is_ascend: bool, dtype: str
) -> Array | tuple[Array, Array]:
    """The k largest (smallest) elements along a dimension, in order, and where they stand.

    k below 1 is all of them. Equal elements stay in their order.
    """
    size = x.shape[axis]
    count = int(k.item())
    count = size if count < 1 else min(count, size)
    if is_ascend:
        order = np.argsort(x, axis=axis, kind="stable")
    else:
        order = np.flip(size - 1 - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    best = np.take(order, np.arange(count), axis)
    values = np.ascontiguousarray(np.take_along_axis(x, best, axis))
    places = np.ascontiguousarray(best.astype(numpy_dtype(dtype)))
    if ret_type == "both":
        return values, places
    return values if ret_type == "values" else places


@host_op("packed")
def packed(
    *args: Array, func: str, inplace: list[int], outputs: list[Any], fresh: bool
) -> Array | tuple[Array, ...]:
    """What a registered function gives for NDArrays.

    inplace  for each result the operand that it updates, or -1; what it writes to is a copy
    outputs  element types and extents of the results, None for those that are not known before
    fresh    it gets the results behind the operands, and writes to them
    """
    f: Any = get_global_func(func)
    given = [array(a) if n in inplace else wrapped(np.asarray(a, order="C"))
             for n, a in enumerate(args)]  # fmt: skip
    made = [empty(tuple(dims), dtype) for dtype, dims in outputs] if fresh else []
    told = f(*given, *made)
    if not fresh:
        listed = list(told) if isinstance(told, tuple | list | ADT) else [told]
        gives = [n for n in range(len(outputs)) if not inplace or inplace[n] < 0]
        if len(listed) < len(gives) or (not inplace and len(listed) > len(gives)):
            raise InputError(f"{func} gave {len(listed)} results, {len(gives)} needed")
        own = dict(zip(gives, listed, strict=False))
        made = [own[n] if n in own else given[inplace[n]] for n in range(len(outputs))]
    results = [np.asarray(m) for m in made]
    for n, (result, (dtype, dims)) in enumerate(zip(results, outputs, strict=True)):
        fits = len(dims) == result.ndim and all(
            want in (None, have) for want, have in zip(dims, result.shape, strict=True)
        )
        if not fits or result.dtype != numpy_dtype(dtype):
            shown = ", ".join(["?" if d is None else str(d) for d in dims])
            raise InputError(f"{func}: result {n} is {result.dtype}{list(result.shape)}; "
                             f"{dtype}[{shown}] needed")  # fmt: skip
    return results[0] if len(results) == 1 else tuple(results)


# ------------------------------------------------------------------------- sizes, lists of tensors


@host_op("sizes")
def sizes(values: Array, *wanted: Array, where: str) -> tuple[Array, ...]:
    """Extents from numbers: one vector for each, which nobody reads, of that length.

    wanted  the numbers have to be these; or a single one: their product
    where   what the numbers are, for messages
    """
    made = []
    for w in wanted:
        if w.size == 1 and int(np.prod(values)) != int(w.item()):
            raise InputError(f"{where} is {values.tolist()}, which does not hold {w} elements")
        if w.size > 1 and not np.array_equal(w, values):
            raise InputError(f"{where} asks for {values.tolist()}, which does not fit {w.tolist()}")
    for v in values.reshape(-1).tolist():
        if v < 0:
            raise InputError(f"{where} is {v}; it has to be 0 or more")
        made.append(np.empty(int(v), np.uint8))
    return tuple(made)


host_op("decode_image")(decode)


@host_op("list")
def new_list() -> list[Array]:
    """A list without items."""
    return []


@host_op("append")
def append(items: list[Array], x: Array) -> list[Array]:
    """The list with one item more; the old one is used up."""
    items.append(x)
    return items


@host_op("stack")
def stack(items: list[Array], *, axis: int, shape: list[int], dtype: str, reverse: bool) -> Array:
    """The items of a list along a new axis.

    shape  an item's, where there is none: 0 stands for extents that are not known
    """
    if not items:
        rest = list(shape)
        rest.insert(axis % (len(rest) + 1), 0)
        return np.zeros(rest, numpy_dtype(dtype))
    for n, x in enumerate(items):
        if x.shape != items[0].shape:
            raise InputError(
                f"a loop stacks its results, but that of iteration {n} has the shape "
                f"{list(x.shape)}, that of iteration 0 {list(items[0].shape)}"
            )
    return np.stack(items[::-1] if reverse else items, axis)
