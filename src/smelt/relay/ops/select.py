"""Operators that choose or write elements by tensors of indices, and operators that sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.relax.compose.common import (
    along,
    array_of,
    cast_to,
    dtype_of,
    extents,
    flat,
    index_vector,
    items_of,
    legal,
    normal_axis,
    one_of,
    rank_of,
    reshaped,
    scalar,
    shape_of,
    sizes,
)
from smelt.relax.compose.index import largest, rows_of
from smelt.relax.nodes import RelaxExpr, call, constant

from ..dialect import alias, make, relay_function, relay_op, same

MODES = {"clip": "clip", "wrap": "wrap", "fast": "clip"}


@relay_op("take")
def take(
    data: RelaxExpr,
    indices: RelaxExpr,
    *,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "clip",
) -> RelaxExpr:
    """Slices of an axis by index; None: elements of the whole in order.

    batch_dims  first dimensions that data and indices share
    mode        indices outside: "clip" to the ends, "wrap" round; "fast": there is none
    """
    one_of("mode", mode, *MODES)
    if axis is None:
        data, axis = flat(data), 0
    at = normal_axis(axis, rank_of(data))
    if not batch_dims:
        return call("gather", data, indices, axis=at, mode=MODES[mode])
    count = batch_dims if batch_dims > 0 else batch_dims + rank_of(indices)
    legal(
        0 <= count <= min(at, rank_of(indices)),
        f"batch_dims={batch_dims}; legal: at most axis={axis} and the {rank_of(indices)} "
        "dimensions of the indices",
    )
    first = (*range(count), at, *range(count, at), *range(at + 1, rank_of(data)))
    turned = call("transpose", data, axes=first)
    inside = _inside(indices, shape_of(data)[at], mode)
    found = call("gather_nd", turned, call("expand_dims", inside, axes=(rank_of(indices),)),
                 batch_dims=count)  # fmt: skip
    own, between = rank_of(indices) - count, at - count
    order = (
        *range(count), *range(count + own, count + own + between), *range(count, count + own),
        *range(count + own + between, rank_of(found)),
    )  # fmt: skip
    return call("transpose", found, axes=order)


def _inside(indices: RelaxExpr, extent: Any, mode: str) -> RelaxExpr:
    """Indices that all lie inside a dimension."""
    n = reshaped(call("arange", start=extent, count=1, dtype="int64"), ())
    wide = cast_to(indices, "int64")
    if mode == "wrap":
        return call("mod", wide, n)
    last = call("subtract", n, scalar(1, "int64"))
    return call("maximum", call("minimum", wide, last), scalar(0, "int64"))


same("gather", "data indices", core="gather_elements", along="axis", required="axis")
alias("gather", "data axis indices")


def _rows(indices: RelaxExpr) -> RelaxExpr:
    """Indices whose first dimension counts the axes, as the core wants them: last."""
    rank = rank_of(indices)
    legal(rank >= 1, "the indices have no dimension; the first counts the axes they name")
    return call("transpose", indices, axes=(*range(1, rank), 0)) if rank > 1 else indices


same("gather_nd", "data indices", forms={"indices": _rows}, idle="index_rank", batch_dims=0,
     index_rank=None, doc="""Elements or slices, each named by a column of indices.

    Shapes  indices [depth, b..., i...]; result [b..., i..., s...]
    """)  # fmt: skip


@relay_op("adv_index")
def adv_index(data: RelaxExpr) -> RelaxExpr:
    """Elements of the first tensor of a tuple, by the others: one tensor of indices an axis."""
    x, *indices = items_of(data)
    return call("gather_nd", x, rows_of(x, indices))


alias("adv_index", "inputs=data")


# ------------------------------------------------------------------------------------- writing


REDUCTIONS = {"update": "none", **{name: name for name in ("add", "mul", "min", "max")}}
"""What becomes of an element and an update: Relay's names, and the core's."""

same("scatter_elements", "data indices updates", forms={"reduction": REDUCTIONS}, axis=0,
     reduction="update")  # fmt: skip


same("scatter_nd", "data indices updates", renamed="mode=reduction", mode="update",
     forms={"indices": _rows, "mode": REDUCTIONS},
     doc="""The data with updates written where columns of indices say.

    Shapes  indices [depth, i...]; updates [i..., s...]
    """)  # fmt: skip


@relay_function("segment_sum")
def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None) -> RelaxExpr:
    """Sums of the slices that have the same segment id; num_segments None: as many as slices."""
    count = value_of(data.checked_type.shape[0]) if num_segments is None else num_segments
    legal(count is not None, "segment_sum: num_segments has to be given beside a symbolic extent")
    rest = tuple(data.checked_type.shape[1:])
    zero = make("zeros", shape=(count, *rest), dtype=data.checked_type.dtype)
    ids = make("expand_dims", segment_ids, axis=0)
    return make("scatter_nd", zero, ids, data, mode="add")


@relay_op("strided_set")
def strided_set(
    data: RelaxExpr, v: RelaxExpr, begin: RelaxExpr, end: RelaxExpr, strides: RelaxExpr
) -> RelaxExpr:
    """The data with v in place of the slice from begin up to end by strides."""
    rank, shape = rank_of(data), extents(data)
    legal(rank_of(v) == rank, f"v has {rank_of(v)} dimensions, the data {rank}")
    legal(None not in shape, "the data's extents have to be known")
    count = extents(begin)[0] or 0
    kept: RelaxExpr | None = None
    hit: RelaxExpr
    for d in range(count):
        b, s = (reshaped(along(cast_to(x, "int64"), 0, d, d + 1), ()) for x in (begin, strides))
        n = scalar(shape[d] or 0, "int64")
        first = call("where", call("less", b, scalar(0, "int64")), call("add", b, n), b)
        far = call("subtract", index_vector(range(shape[d] or 0)), first)
        place = call("floor_divide", far, s)
        width = reshaped(call("arange", start=shape_of(v)[d], count=1, dtype="int64"), ())
        hit = call("equal", call("mod", far, s), scalar(0, "int64"))
        hit = call("logical_and", hit, call("greater_equal", place, scalar(0, "int64")))
        hit = call("logical_and", hit, call("less", place, width))
        v = call("gather", v, place, axis=d, mode="clip")
        hit = reshaped(hit, (shape[d], *(1,) * (rank - d - 1)))
        kept = hit if kept is None else call("logical_and", kept, hit)
    return v if kept is None else call("where", kept, v, data)


@relay_function("strided_set")
def build_strided_set(data: Any, v: Any, begin: Any, end: Any, strides: Any = None) -> RelaxExpr:
    """The data with v in place of a slice; begin, end and strides are numbers or expressions."""
    if strides is None:
        strides = [1] * len(begin)
    given = [x if isinstance(x, RelaxExpr) else index_vector(x) for x in (begin, end, strides)]
    for x, n, name in zip(given, (begin, end, strides), ("begin", "end", "strides"), strict=True):
        legal(rank_of(x) == 1, f"strided_set: {name}={n}; a vector is legal")
    return make("strided_set", data, v, *given)


# ------------------------------------------------------------------------------------- sorting


ENDS = {"is_ascend": {True: False, False: True}}
"""Which end comes first: Relay and the core say it the other way round."""

same("sort", "data", renamed="is_ascend=descending", forms=ENDS, axis=-1, is_ascend=True)
same("argsort", "data", renamed="is_ascend=descending", forms=ENDS, cast="dtype", axis=-1,
     is_ascend=True, dtype="int32",
     doc="The indices that put the elements along an axis in order.")  # fmt: skip


@relay_op("topk", results=lambda made: 2 if made.attrs["ret_type"] == "both" else 1)
def topk(
    data: RelaxExpr,
    *,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:
    """The k first elements along an axis, the largest first (is_ascend: the smallest); k below 1
    is all of them.

    ret_type  "both", "values" or "indices"
    """
    return largest(data, k, axis, ret_type, not is_ascend, dtype)


same("searchsorted", "sorted_sequence values", right=False, dtype="int32")
same("invert_permutation", "data")


@relay_op("unique", results=lambda made: 5 if made.attrs["return_counts"] else 4)
def unique(
    data: RelaxExpr, *, is_sorted: bool = True, return_counts: bool = False
) -> list[RelaxExpr]:
    """The distinct elements of a vector: (values, first indices, inverse, count [1], counts).

    All but the count are as long as the data; what lies behind the count has no meaning. Integers
    are int32.
    """
    made = call("unique", data, sorted=is_sorted)
    values, first, inverse, counts, count = items_of(made)
    out = [values, first, inverse, reshaped(count, (1,)), *([counts] if return_counts else [])]
    return [out[0], *[call("cast", x, dtype="int32") for x in out[1:]]]


@relay_op("argwhere", needs=("condition",))
def argwhere(condition: RelaxExpr) -> RelaxExpr:
    """The indices [count, rank] of the elements that are not 0, int32."""
    found = array_of(condition)
    assert found is not None
    return constant(np.argwhere(found).astype("int32"))


# -------------------------------------------------------------------------------- permutations


@relay_op("unravel_index")
def unravel_index(indices: RelaxExpr, shape: RelaxExpr) -> RelaxExpr:
    """The index in each dimension for places in row-major order: [the dimensions, i...]."""
    legal(rank_of(shape) == 1, f"shape has {rank_of(shape)} dimensions; one is legal")
    legal(dt.is_int(dtype_of(indices)), f"indices are {dtype_of(indices)}; integers are legal")
    if array_of(shape) is not None:
        found = call("unravel_index", indices, shape=sizes(shape))
        return cast_to(found, dtype_of(indices))
    kept = cast_to(shape, dtype_of(indices))
    steps = call("cumprod", kept, axis=0, exclusive=True, reverse=True)
    column = (*shape_of(shape), *(1,) * rank_of(indices))
    far = call("floor_divide", call("expand_dims", indices, axes=(0,)), reshaped(steps, column))
    return call("mod", far, reshaped(kept, column))
