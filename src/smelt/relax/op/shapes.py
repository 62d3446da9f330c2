"""Operators that give elements another place: shapes, orders of dimensions, parts, repetitions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from smelt.arith.index_map import IndexMap
from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, convert

from ..compose.common import (
    along,
    axes_of,
    dtype_of,
    extents,
    flat,
    index_vector,
    legal,
    normal_axis,
    rank_of,
    reshaped,
    scalar,
    shape_of,
    sliced,
)
from ..compose.index import stacked
from ..compose.shapes import (
    FAR,
    batch_flattened,
    bounded,
    collapsed,
    meshed,
    new_shape,
    repeated,
    tiled,
)
from ..nodes import RelaxExpr, call
from .entry import Indices, Operands, entry, number_given, same, shape_given, size_given


@entry("reshape", core="reshape")
def reshape(x: RelaxExpr, shape: Any) -> RelaxExpr:
    """Another shape of as many elements; 0 copies an extent, -1 is what remains."""
    wanted = shape_given(shape)
    for e in wanted:
        n = value_of(e)
        legal(n is None or n >= -1, f"shape={wanted}: {n} has no meaning; legal: -1 and more")
    return reshaped(x, new_shape(shape_of(x), wanted))


entry("flatten", core="reshape")(flat)
entry("nn.batch_flatten", core="reshape")(batch_flattened)
same("squeeze", "x", renamed="axis=axes", axis=None)


@entry("permute_dims", core="transpose")
def permute_dims(x: RelaxExpr, axes: Any = None) -> RelaxExpr:
    """Dimensions in another order; None reverses them."""
    rank = rank_of(x)
    order = tuple(reversed(range(rank))) if axes is None else axes_of(axes, rank)
    return call("transpose", x, axes=order)


@entry("expand_dims", core="expand_dims")
def expand_dims(x: RelaxExpr, axis: Any) -> RelaxExpr:
    """New dimensions of extent 1, at these places of the result."""
    many = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    rank = rank_of(x) + len(many)
    axes = tuple(sorted([normal_axis(int(a), rank) for a in many]))
    legal(len(set(axes)) == len(axes), f"axis={axis}: a place is named twice")
    return call("expand_dims", x, axes=axes)


same("broadcast_to", "x", forms={"shape": shape_given}, required="shape")


@entry("collapse_sum_to")
def collapse_sum_to(data: RelaxExpr, shape: Any) -> RelaxExpr:
    """Summed over the dimensions that broadcasting from `shape` would have made."""
    return collapsed(data, shape_given(shape))


@entry("collapse_sum_like")
def collapse_sum_like(data: RelaxExpr, collapse_target: RelaxExpr) -> RelaxExpr:
    """Summed over the dimensions that broadcasting from another tensor would have made."""
    return collapsed(data, shape_of(collapse_target))


# ----------------------------------------------------------------------------- joining, cutting


@entry("concat", core="concat")
def concat(tensors: Operands, axis: int | None = 0) -> RelaxExpr:
    """Tensors behind each other along an axis; None: all elements as one vector."""
    items = list(tensors)
    legal(bool(items), "no tensor is given; at least one is needed")
    if axis is None:
        items, axis = [flat(x) for x in items], 0
    return call("concat", *items, axis=normal_axis(axis, rank_of(items[0])))


@entry("stack")
def stack(tensors: Operands, axis: int = 0) -> RelaxExpr:
    """Tensors behind each other along a new axis."""
    return stacked(list(tensors), axis)


@entry("split")
def split(x: RelaxExpr, indices_or_sections: Any, axis: int = 0) -> list[RelaxExpr]:
    """Parts along an axis as a tuple: so many (the last may be smaller), or cut in front of the
    indices given."""
    at = normal_axis(axis, rank_of(x))
    extent = shape_of(x)[at]
    cut = indices_or_sections
    cut = size_given(cut) if not isinstance(cut, list | tuple) else [size_given(c) for c in cut]
    if isinstance(cut, int):
        known = value_of(extent)
        legal(cut >= 1, f"indices_or_sections={cut}; it has to be at least 1")
        size: Any = extent if known is None else known
        step = (size + (cut - 1)) // cut
        places = [step * i for i in range(cut)]
        if known is not None:
            places = [min(p, known) for p in places]
        return [along(x, at, a, b) for a, b in pairwise([*places, extent])]
    return [along(x, at, a, b) for a, b in pairwise([convert(0, INDEX), *cut, extent])]


@entry("strided_slice", core="strided_slice")
def strided_slice(
    x: RelaxExpr, axes: Any, begin: Any, end: Any, strides: Any = None,
    assume_inbound: bool = False,
) -> RelaxExpr:  # fmt: skip
    """Every strides-th element from begin up to end of axes; negative numbers count from the end.

    assume_inbound  begin and end are known to lie inside; numbers are checked either way
    """
    at = axes_of(shape_given(axes), rank_of(x))
    first, last = shape_given(begin), shape_given(end)
    steps = shape_given(strides) if strides is not None else (1,) * len(at)
    legal(
        len(at) == len(first) == len(last) == len(steps),
        f"axes={at}, begin={first}, end={last} and strides={steps} need equally many numbers",
    )
    legal(all(isinstance(s, int) and s != 0 for s in steps), f"strides={steps}; numbers but 0")
    shape = shape_of(x)
    cuts = [
        (b, e) if assume_inbound and not _negative(b, e) else bounded(shape[a], b, e, s)
        for a, b, e, s in zip(at, first, last, steps, strict=True)
    ]
    return sliced(x, at, cuts, steps)


def _negative(*sizes: Any) -> bool:
    known = [value_of(s) for s in sizes]
    return any(k is not None and (k < 0 or k >= FAR) for k in known)


@entry("dynamic_strided_slice")
def dynamic_strided_slice(
    x: RelaxExpr, begin: Indices, end: Indices, strides: Indices
) -> RelaxExpr:
    """strided_slice of the first axes; begin, end and strides are vectors, constants here."""
    first, last, steps = shape_given(begin), shape_given(end), shape_given(strides)
    axes = tuple(range(len(first)))
    return strided_slice(x, axes, first, last, steps)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------- repetition


@entry("repeat")
def repeat(data: RelaxExpr, repeats: int, axis: int | None = None) -> RelaxExpr:
    """Each element of an axis several times; None: of all elements as one vector."""
    count = size_given(repeats)
    legal(isinstance(count, int) and count >= 1, f"repeats={repeats}; legal: at least 1")
    if axis is None:
        data, axis = flat(data), 0
    return repeated(data, count, axis)


@entry("tile")
def tile(data: RelaxExpr, repeats: Any) -> RelaxExpr:
    """Repeated along each dimension; the last number belongs to the last dimension."""
    many = shape_given(repeats)
    for r in many:
        known = value_of(r)
        legal(known is None or known >= 1, f"repeats={many}; every number has to be at least 1")
    return tiled(data, many)


same("flip", "data", renamed="axis=axes", required="axis")
same("reverse_sequence", "data seq_lengths", seq_axis=1, batch_axis=0)


@entry("meshgrid")
def meshgrid(tensors: Operands, indexing: str = "ij") -> list[RelaxExpr]:
    """Vectors as coordinates of a grid: each repeated over the dimensions of the others."""
    for n, x in enumerate(tensors):
        legal(rank_of(x) == 1, f"tensor {n} has {rank_of(x)} dimensions; 1 is legal")
    return meshed(tensors, indexing)


# -------------------------------------------------------------------------------------- layout


@entry("layout_transform")
def layout_transform(
    x: RelaxExpr, index_map: Any, pad_value: Any = None, axis_separators: Any = None,
    input_axis_separators: Any = None,
) -> RelaxExpr:  # fmt: skip
    """A tensor whose elements stand where an index map says: a function of indices, or an IndexMap.

    pad_value  what stands where the map leads no element (None: there has to be no such place)

    The extents have to be known. Axis separators say nothing about values; they are left out.
    """
    shape = extents(x)
    legal(None not in shape, f"the extents {shape} have to be known")
    source, valid = _table(_as_map(index_map, len(shape)), tuple([e or 0 for e in shape]))
    found = call("gather", flat(x), index_vector(source), axis=0)
    if valid.all():
        return found
    legal(
        pad_value is not None,
        f"the map leaves {int((~valid).sum())} places of the result {valid.shape} without an "
        "element; pad_value says what stands there",
    )
    border = scalar(number_given(pad_value), dtype_of(x))
    hit = call("cast", index_vector(valid), dtype="bool")
    return call("where", hit, found, border)


def _as_map(given: Any, rank: int) -> IndexMap:
    if isinstance(given, IndexMap):
        return given
    legal(isinstance(given, Callable), f"index_map={given!r}; a function or an IndexMap is legal")  # type: ignore[arg-type]
    return IndexMap.from_func(given, rank)


def _table(m: IndexMap, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """For each place of the result the element of the source, and whether there is one."""
    size = [value_of(e) for e in m.map_shape(list(shape))]
    legal(None not in size, f"the shape of the result {size} has to be known")
    source = np.zeros([s or 0 for s in size], "int64")
    valid = np.zeros(source.shape, bool)
    for n, place in enumerate(np.ndindex(*shape)):
        to = tuple([value_of(e) for e in m.map_indices(list(place))])
        source[to], valid[to] = n, True
    return source, valid
