"""Images: TFLite has channels last, smelt's operators have them behind the batch.

A result is turned back, which is a view of memory and no work. What reads it and wants channels
first takes what was turned, so that a chain of convolutions has no transposes in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.relax import nodes as relax
from smelt.relax.nodes import tensor_type_of

FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""The order of an image's dimensions that brings its channels there, by their number."""


def turned(g: Build, x: Value, axes: Sequence[int]) -> Value:
    """The dimensions in another order, at once where all elements are known."""
    if x.is_array:
        return Value.of_array(np.ascontiguousarray(x.array.transpose(axes)))
    return moves.transpose(g, x, axes)


def as_first(x: Value) -> Value | None:
    """An image with channels behind the batch, where it was one; None otherwise."""
    if x.known is not None or x.rank not in LAST:
        return None
    match x.expr:
        case relax.Call(callee="transpose", args=(inner,)) if (
            tuple(x.expr.attrs["axes"] or ()) == LAST[x.rank]
        ):
            return Value(tensor_type_of(inner), inner)
    return None


def first(g: Build, x: Value) -> Value:
    """An image with channels behind the batch."""
    found = as_first(x)
    return turned(g, x, FIRST[x.rank]) if found is None else found


def last(g: Build, x: Value) -> Value:
    """An image with channels last again."""
    return turned(g, x, LAST[x.rank])


def elementwise(g: Build, fn: Callable[..., Value], *xs: Value) -> Value:
    """A function of elements, broadcast; on images as they were before they were turned back,
    where one of them was."""
    firsts = [as_first(x) for x in xs]
    rank = max(x.rank for x in xs)
    images = [f for f in firsts if f is not None]
    if not images or any(f.rank != rank for f in images):
        return fn(*xs)
    given = []
    for x, f in zip(xs, firsts, strict=True):
        if f is None and x.rank:
            whole = moves.reshape(g, x, (1,) * (rank - x.rank) + x.shape)
            f = turned(g, whole, FIRST[rank])
        given.append(x if f is None else f)
    return last(g, fn(*given))
