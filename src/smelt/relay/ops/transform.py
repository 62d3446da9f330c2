"""Operators that move elements."""

from __future__ import annotations

import itertools
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, const
from smelt.ir.types import TupleType
from smelt.relax.nodes import RelaxExpr, Tuple, TupleGetItem, call

from ..dialect import relay_op
from .common import axes_of, normal_axis, rank_of, reshaped, shape_of


def items_of(data: RelaxExpr, op: str) -> list[RelaxExpr]:
    """The items of an operand that is a tuple."""
    if isinstance(data, Tuple):
        return list(data.items)
    if not isinstance(data.type, TupleType):
        raise TypeMismatch(f"{op}: the operand is one tensor; a tuple of tensors is legal")
    return [TupleGetItem(data, i) for i in range(len(data.type.items))]


@relay_op("reshape")
def reshape(data: RelaxExpr, *, newshape: Any, allowzero: bool = False) -> RelaxExpr:
    """Another shape: 0 copies an extent, -1 is what remains, -2 all the rest.

    -3 is the product of two extents, -4 splits one into the next two.
    """
    return reshaped(data, new_shape(data, newshape, allowzero))


def new_shape(data: RelaxExpr, newshape: Any, allowzero: bool) -> tuple[Any, ...]:
    """The extents that a newshape with Relay's special numbers means."""
    source = list(shape_of(data))
    wanted = list(newshape) if isinstance(newshape, tuple | list) else [newshape]
    out: list[Any] = []
    at, i = 0, 0
    while i < len(wanted):
        e = wanted[i]
        n = e if isinstance(e, int) else None
        if n == 0 and not allowzero:
            out.append(_source(source, at, newshape))
            at += 1
        elif n == -2:
            out += source[at:]
            at = len(source)
        elif n == -3:
            out.append(_source(source, at, newshape) * _source(source, at + 1, newshape))
            at += 2
        elif n == -4:
            whole = _source(source, at, newshape)
            a, b = wanted[i + 1], wanted[i + 2]
            a, b = (whole // b if a == -1 else a), (whole // a if b == -1 else b)
            out += [a, b]
            at, i = at + 1, i + 2
        else:
            out.append(e)
            at += 1
        i += 1
    if any(isinstance(e, int) and e == -1 for e in out):
        total, rest = data.type.elements(), 1  # type: ignore[attr-defined]
        for e in out:
            rest = rest if isinstance(e, int) and e == -1 else rest * e
        out = [total // rest if isinstance(e, int) and e == -1 else e for e in out]
    return tuple(out)


def _source(source: list[Any], at: int, newshape: Any) -> Any:
    if at >= len(source):
        raise TypeMismatch(
            f"reshape: newshape={newshape} refers to dimension {at} of a tensor of {len(source)}"
        )
    return source[at]


@relay_op("transpose")
def transpose(data: RelaxExpr, *, axes: Any = None) -> RelaxExpr:
    """Dimensions in another order; None reverses them."""
    return call("transpose", data, axes=None if axes is None else axes_of(axes, rank_of(data)))


@relay_op("expand_dims")
def expand_dims(data: RelaxExpr, *, axis: int, num_newaxis: int = 1) -> RelaxExpr:
    """New dimensions of extent 1 in front of an axis."""
    rank = rank_of(data)
    if not -rank - 1 <= axis <= rank:
        raise TypeMismatch(f"expand_dims: axis={axis}; legal: {-rank - 1} to {rank}")
    first = axis if axis >= 0 else axis + rank + 1
    return call("expand_dims", data, axes=tuple(range(first, first + num_newaxis)))


@relay_op("squeeze")
def squeeze(data: RelaxExpr, *, axis: Any = None) -> RelaxExpr:
    """Without dimensions of extent 1; None: all of them."""
    return call("squeeze", data, axes=None if axis is None else axes_of(axis, rank_of(data)))


@relay_op("broadcast_to")
def broadcast_to(data: RelaxExpr, *, shape: Any) -> RelaxExpr:
    """A larger shape that the tensor is repeated into."""
    return call("broadcast_to", data, shape=shape)


@relay_op("concatenate")
def concatenate(data: RelaxExpr, *, axis: int = 0) -> RelaxExpr:
    """The tensors of a tuple behind each other along an axis."""
    return call("concat", *items_of(data, "concatenate"), axis=axis)


@relay_op("split")
def split(data: RelaxExpr, *, indices_or_sections: Any, axis: int = 0) -> list[RelaxExpr]:
    """Parts along an axis: so many equal ones, or cut in front of the indices given."""
    at = normal_axis(axis, rank_of(data))
    extent = shape_of(data)[at]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        cuts = [extent * i // count for i in range(count + 1)]
    else:
        cuts = [const(0, INDEX), *indices_or_sections, extent]
    return [
        call("strided_slice", data, axes=(at,), begin=(a,), end=(b,), strides=(1,))
        for a, b in itertools.pairwise(cuts)
    ]


@relay_op("strided_slice")
def strided_slice(
    data: RelaxExpr,
    *,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Any = None,
    slice_mode: str = "end",
) -> RelaxExpr:
    """Every strides-th element from begin up to end; slice_mode "size": end counts elements."""
    at = tuple(range(len(begin))) if axes is None else axes_of(axes, rank_of(data))
    steps = tuple(strides) if strides else (1,) * len(begin)
    steps = steps * len(begin) if len(steps) == 1 else steps
    stop = tuple(end)
    if slice_mode == "size":
        shape = shape_of(data)
        stop = tuple(
            [shape[a] if n == -1 else b + n for a, b, n in zip(at, begin, end, strict=True)]
        )
        steps = (1,) * len(begin)
    return call("strided_slice", data, axes=at, begin=tuple(begin), end=stop, strides=steps)


@relay_op("take")
def take(
    data: RelaxExpr,
    indices: RelaxExpr,
    *,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "clip",
) -> RelaxExpr:
    """Slices of an axis by index; None: elements of the whole in order."""
    if axis is None:
        data, axis = reshaped(data, (data.type.elements(),)), 0  # type: ignore[attr-defined]
    return call("gather", data, indices, axis=axis)


@relay_op("gather")
def gather(data: RelaxExpr, indices: RelaxExpr, *, axis: int) -> RelaxExpr:
    """One element of an axis for each index."""
    return call("gather_elements", data, indices, axis=axis)


@relay_op("tile")
def tile(data: RelaxExpr, *, reps: Any) -> RelaxExpr:
    """Repeated along each dimension."""
    many = tuple(reps) if isinstance(reps, tuple | list) else (reps,)
    rank = max(len(many), rank_of(data))
    many = (1,) * (rank - len(many)) + many
    if rank > rank_of(data):
        data = reshaped(data, (*(1,) * (rank - rank_of(data)), *shape_of(data)))
    return call("tile", data, repeats=many)


@relay_op("reverse")
def reverse(data: RelaxExpr, *, axis: Any) -> RelaxExpr:
    """Backwards along an axis."""
    return call("flip", data, axes=axes_of(axis, rank_of(data)))
