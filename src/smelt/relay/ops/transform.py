"""Operators that give elements another place: shapes, orders of dimensions, parts, repetitions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, convert
from smelt.relax.compose.common import (
    along,
    axes_of,
    extents,
    items_of,
    legal,
    normal_axis,
    one_of,
    rank_of,
    reshaped,
    shape_of,
    sliced,
)
from smelt.relax.compose.index import stacked
from smelt.relax.compose.shapes import (
    FAR,
    batch_flattened,
    bounded,
    collapsed,
    completed,
    known_sizes,
    new_shape,
    repeated,
    tiled,
)
from smelt.relax.nodes import Call, RelaxExpr, call

from ..dialect import alias, make, relay_function, relay_op, same, sized

# -------------------------------------------------------------------------------------- shapes


@relay_op("reshape")
def reshape(data: RelaxExpr, *, newshape: Any, allowzero: bool = False) -> RelaxExpr:
    """Another shape of as many elements.

    newshape  extents; 0 copies one (unless allowzero), -1 is what remains, -2 all the rest, -3 the
              product of two, -4 splits one into the next two
    """
    return reshaped(data, new_shape(shape_of(data), newshape, allowzero))


@relay_op("reshape_like")
def reshape_like(
    data: RelaxExpr,
    shape_like: RelaxExpr,
    *,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> RelaxExpr:
    """The shape of another tensor; dimensions lhs_begin to lhs_end of the data become those from
    rhs_begin to rhs_end of shape_like."""
    have, want = shape_of(data), shape_of(shape_like)
    part = want[slice(rhs_begin, rhs_end)]
    first, last, _ = slice(lhs_begin, lhs_end).indices(len(have))
    return reshaped(data, completed(have, [*have[:first], *part, *have[last:]], want))


@relay_op("contrib_reverse_reshape")
def reverse_reshape(data: RelaxExpr, *, newshape: Any) -> RelaxExpr:
    """Another shape, whose special numbers (0, -1, -2, -3) count from the last dimension."""
    wanted = list(reversed(newshape if isinstance(newshape, tuple | list) else [newshape]))
    legal(not any(value_of(e) == -4 for e in wanted), f"newshape={newshape}: -4 is not supported")
    return reshaped(data, tuple(reversed(new_shape(shape_of(data)[::-1], wanted))))


alias("reverse_reshape", "data newshape", of="contrib_reverse_reshape")


@relay_op("expand_dims")
def expand_dims(data: RelaxExpr, *, axis: int, num_newaxis: int = 1) -> RelaxExpr:
    """New dimensions of extent 1 in front of an axis."""
    rank = rank_of(data)
    legal(-rank - 1 <= axis <= rank, f"axis={axis}; legal: {-rank - 1} to {rank}")
    legal(num_newaxis >= 0, f"num_newaxis={num_newaxis}; it has to be at least 0")
    first = axis if axis >= 0 else axis + rank + 1
    return call("expand_dims", data, axes=tuple(range(first, first + num_newaxis)))


same("squeeze", "data", renamed="axis=axes", along="axis", axis=None)


# --------------------------------------------------------------------------------------- order


same("transpose", "data", along="axes", forms={"axes": lambda axes: axes or None}, axes=None)
same("reverse", "data", core="flip", renamed="axis=axes", along="axis", required="axis")
same("reverse_sequence", "data seq_lengths", seq_axis=1, batch_axis=0)


same("sequence_mask", "data valid_length", mask_value=0.0, axis=0)

# ---------------------------------------------------------------------------------- repetition


same("broadcast_to", "data", required="shape")


@relay_op("broadcast_to_like")
def broadcast_to_like(data: RelaxExpr, broadcast_type: RelaxExpr) -> RelaxExpr:
    """The shape of another tensor that this one is repeated into."""
    return call("broadcast_to", data, shape=shape_of(broadcast_type))


@relay_op("collapse_sum_to")
def collapse_sum_to(data: RelaxExpr, *, shape: Any) -> RelaxExpr:
    """Summed over the dimensions that broadcasting from `shape` would have made."""
    return collapsed(data, tuple(shape))


@relay_op("collapse_sum_like")
def collapse_sum_like(data: RelaxExpr, collapse_type: RelaxExpr) -> RelaxExpr:
    """Summed over the dimensions that broadcasting from another tensor would have made."""
    return collapsed(data, shape_of(collapse_type))


@relay_op("repeat")
def repeat(data: RelaxExpr, *, repeats: int, axis: int = 0) -> RelaxExpr:
    """Each element of an axis several times."""
    legal(repeats >= 1, f"repeats={repeats}; it has to be at least 1")
    return repeated(data, repeats, axis)


@relay_op("tile")
def tile(data: RelaxExpr, *, reps: Any) -> RelaxExpr:
    """Repeated along each dimension."""
    many = tuple(reps) if isinstance(reps, tuple | list) else (reps,)
    for r in many:
        legal(not isinstance(r, int) or r >= 1, f"reps={reps}; every number has to be at least 1")
    return tiled(data, many)


# --------------------------------------------------------------------------- joining, cutting


@relay_op("concatenate", order="axis")
def concatenate(data: RelaxExpr, *, axis: int = 0) -> RelaxExpr:
    """The tensors of a tuple behind each other along an axis."""
    items = items_of(data)
    legal(bool(items), "the tuple has no item; at least one is needed")
    first, rank = items[0], rank_of(items[0])
    at = normal_axis(axis, rank)
    for n, x in enumerate(items):
        legal(
            rank_of(x) == rank,
            f"tensor {n} has {rank_of(x)} dimensions, tensor 0 has {rank}; they have to be equal",
        )
        for d, (a, b) in enumerate(zip(extents(x), extents(first), strict=True)):
            legal(
                d == at or a == b or None in (a, b),
                f"dimension {d} of tensor {n} is {a}, of tensor 0 {b}; outside axis={axis} they "
                "have to be equal",
            )
    return call("concat", *items, axis=at)


@relay_op("stack")
def stack(data: RelaxExpr, *, axis: int = 0) -> RelaxExpr:
    """The tensors of a tuple behind each other along a new axis."""
    return stacked(items_of(data), axis)


def _parts(made: Call) -> int:
    cut = made.attrs["indices_or_sections"]
    return cut if isinstance(cut, int) else len(cut) + 1


@relay_op("split", results=_parts, order="axis")
def split(data: RelaxExpr, *, indices_or_sections: Any, axis: int = 0) -> list[RelaxExpr]:
    """Parts along an axis: so many equal ones, or cut in front of the indices given."""
    at = normal_axis(axis, rank_of(data))
    extent = shape_of(data)[at]
    if isinstance(indices_or_sections, int):
        count, known = indices_or_sections, value_of(extent)
        legal(count >= 1, f"indices_or_sections={count}; it has to be at least 1")
        legal(
            known is None or known % count == 0,
            f"indices_or_sections={count} equal parts of axis {axis}, whose extent is {known}; it "
            "has to be a multiple",
        )
        cuts = [extent * i // count for i in range(count + 1)]
    else:
        given = list(indices_or_sections)
        known = value_of(extent)
        for a, b in zip([0, *given], [*given, known if known is not None else FAR], strict=True):
            legal(
                a <= b,
                f"indices_or_sections={tuple(given)} of axis {axis}, whose extent is {known}; they "
                "have to rise from 0 to the extent",
            )
        cuts = [convert(0, INDEX), *given, extent]
    return [along(data, at, a, b) for a, b in pairwise(cuts)]


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
    """Every strides-th element from begin up to end; negative numbers count from the end.

    slice_mode  "size": end counts elements, -1 is all the rest, and strides are 1
    """
    one_of("slice_mode", slice_mode, "end", "size")
    at = tuple(range(len(begin))) if axes is None else axes_of(axes, rank_of(data))
    legal(
        len(at) <= rank_of(data),
        f"begin has {len(at)} numbers; the data has {rank_of(data)} dimensions",
    )
    count = len(at)
    steps = tuple(strides) if strides else (1,)
    steps = steps * count if len(steps) == 1 else steps + (1,) * (count - len(steps))
    steps = steps if slice_mode == "end" else (1,) * count
    stop = (*end, *(FAR,) * (count - len(end)))
    legal(
        len(begin) == count and len(steps) == count,
        f"begin={tuple(begin)}, strides={steps} and axes={at} need equally many numbers",
    )
    bounds = []
    for a, b, n, s in zip(at, begin, stop, steps, strict=False):
        legal(s != 0, f"strides={steps}; 0 is not legal")
        if slice_mode == "size":
            n = FAR if value_of(n) == -1 else b + n
        bounds.append(bounded(shape_of(data)[a], b, n, s))
    return sliced(data, at, bounds, steps)


@relay_function("strided_slice")
def build_strided_slice(
    data: Any, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> RelaxExpr:
    """Every strides-th element from begin up to end; the three are numbers or expressions."""
    first, last, steps = (
        known_sizes(v) for v in (begin, end, (1,) if strides is None else strides)
    )
    if any(isinstance(v, RelaxExpr) for v in (first, last, steps)):
        legal(axes is None, "strided_slice: axes go with begin and end that are numbers")
        return sized("strided_slice", data, begin=first, end=last, strides=steps,
                     slice_mode=slice_mode)  # fmt: skip
    return make("strided_slice", data, begin=first, end=last, axes=axes, slice_mode=slice_mode,
                strides=None if strides is None else steps)  # fmt: skip


@relay_op("slice_like")
def slice_like(data: RelaxExpr, shape_like: RelaxExpr, *, axes: Any = None) -> RelaxExpr:
    """The first elements, as many as another tensor has along each of the axes (None: all)."""
    want = shape_of(shape_like)
    many = range(min(rank_of(data), len(want))) if not axes else axes_of(axes, rank_of(data))
    return sliced(data, many, [(0, want[a]) for a in many])


same("sliding_window", "data", along="axis", required="axis window_shape strides")
relay_op("nn.batch_flatten")(batch_flattened)
