"""Operators of the virtual machine with data-dependent sizes, in numpy.

Each takes arrays and plain attributes, and gives an array or a tuple of them.
"""

from __future__ import annotations

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
            raise InputError(
                f"{where} is {values.tolist()}, which does not hold {w.item()} elements"
            )
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
