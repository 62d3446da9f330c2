"""Tensors made of nothing, or of the shape of another one."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose import create
from smelt.relax.compose.common import (
    array_of,
    cast_to,
    count_of,
    dtype_of,
    filled,
    items_of,
    legal,
    normal_axis,
    number_of,
    rank_of,
    reshaped,
    scalar,
    shape_of,
)
from smelt.relax.compose.shapes import meshed
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import alias, const, make, relay_function, relay_op, same


def tuple_of(shape: Any) -> dict[str, Any] | Any:
    """A shape as a tuple; one number is that of one dimension."""
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


def with_shape(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes with the shape as a tuple."""
    attrs["shape"] = tuple_of(attrs["shape"])
    return attrs


for _name, _value in (("zeros", 0.0), ("ones", 1.0)):
    same(_name, "", core="full", fixed={"value": _value}, prepare=with_shape, required="shape",
         dtype="float32")  # fmt: skip


@relay_op("full", prepare=with_shape)
def full(fill_value: RelaxExpr, *, shape: Any = (), dtype: str = "") -> RelaxExpr:
    """All fill_value, a scalar; dtype "": of its type."""
    return create.full(shape, fill_value, dtype)


@relay_op("zeros_like")
def zeros_like(data: RelaxExpr) -> RelaxExpr:
    """All zero, in the shape and type of a tensor."""
    return filled(data, 0.0)


@relay_op("ones_like")
def ones_like(data: RelaxExpr) -> RelaxExpr:
    """All one, in the shape and type of a tensor."""
    return filled(data, 1.0)


@relay_op("full_like")
def full_like(data: RelaxExpr, fill_value: RelaxExpr) -> RelaxExpr:
    """All fill_value, a scalar, in the shape and type of a tensor."""
    legal(rank_of(fill_value) == 0, f"fill_value has {rank_of(fill_value)} dimensions; 0 are legal")
    return call("broadcast_to", cast_to(fill_value, dtype_of(data)), shape=shape_of(data))


alias("full", "fill_value shape dtype", numbers="dtype")


# ---------------------------------------------------------------------------------- sequences


@relay_op("arange", needs=("begin", "end", "by"))
def arange(
    begin: RelaxExpr | None = None,
    end: RelaxExpr | None = None,
    by: RelaxExpr | None = None,
    *,
    start: Any = 0,
    stop: Any = None,
    step: Any = 1,
    dtype: str = "float32",
) -> RelaxExpr:
    """start, start + step, ... up to stop, which is left out.

    The three are attributes where they are numbers or sizes, else operands.
    """
    if end is not None:
        start, stop, step = number_of(begin), number_of(end), number_of(by)
        legal(None not in (start, stop, step), "start, stop and step have to be one number each")
    return create.arange(start, stop, step, dtype)


@relay_function("arange")
def build_arange(
    start: Any, stop: Any = None, step: Any = None, dtype: str = "float32"
) -> RelaxExpr:
    """start, start + step, ... up to stop; one argument alone is stop. Numbers or scalars."""
    if stop is None:
        start, stop = 0, start
    found = [_plain(v) for v in (start, stop, 1 if step is None else step)]
    if any(isinstance(v, RelaxExpr) for v in found):
        given = [v if isinstance(v, RelaxExpr) else const(v, dtype) for v in found]
        return make("arange", *given, dtype=dtype)
    return make("arange", start=found[0], stop=found[1], step=found[2], dtype=dtype)


def _plain(value: Any) -> Any:
    known = number_of(value) if isinstance(value, RelaxExpr) else None
    return value if known is None else known


@relay_op("meshgrid", results=lambda call: len(items_of(call.args[0] or call)))
def meshgrid(data: RelaxExpr, *, indexing: str = "ij") -> list[RelaxExpr]:
    """Vectors as coordinates of a grid: each repeated over the dimensions of the others."""
    items = items_of(data)
    for n, x in enumerate(items):
        legal(rank_of(x) <= 1, f"tensor {n} has {rank_of(x)} dimensions; 0 or 1 are legal")
    return meshed(items, indexing)


@relay_op("one_hot")
def one_hot(
    indices: RelaxExpr,
    on_value: RelaxExpr,
    off_value: RelaxExpr,
    *,
    depth: Any,
    axis: int = -1,
    dtype: str = "float32",
) -> RelaxExpr:
    """on_value where the place along a new axis is the index, off_value elsewhere."""
    axis = normal_axis(axis, rank_of(indices) + 1)
    on, off = number_of(on_value), number_of(off_value)
    if on is not None and off is not None and _outside(indices):
        return call("one_hot", indices, depth=depth, axis=axis, on_value=on, off_value=off,
                    dtype=dtype)  # fmt: skip
    places = call("arange", start=0, step=1, count=depth, dtype=dtype_of(indices))
    hit = create.hot(indices, places, axis)
    return call("where", hit, cast_to(on_value, dtype), cast_to(off_value, dtype))


def _outside(indices: RelaxExpr) -> bool:
    """Whether no index is negative: the core counts those from the end, Relay leaves them out."""
    known = array_of(indices)
    return dtype_of(indices).startswith("uint") or (known is not None and bool((known >= 0).all()))


alias("one_hot", "indices on_value off_value depth axis dtype", numbers="dtype")


# ------------------------------------------------------------------------------------- shapes


@relay_op("shape_of", "vm.shape_of")
def shape_of_(data: RelaxExpr, *, dtype: str = "int32") -> RelaxExpr:
    """The extents as a vector."""
    return create.size_vector(shape_of(data), dtype)


@relay_op("ndarray_size")
def ndarray_size(data: RelaxExpr, *, dtype: str = "int32") -> RelaxExpr:
    """The number of elements, a scalar."""
    return create.size_scalar(count_of(data), dtype)


# --------------------------------------------------------------------------------- diagonals


def _diagonals(k: Any) -> tuple[int, ...]:
    """The first and the last one; one number is one diagonal."""
    many = tuple(k) if isinstance(k, tuple | list) else (k,)
    return many * 2 if len(many) == 1 else many


same("matrix_set_diag", "data diagonal", forms={"k": _diagonals}, k=0, align="RIGHT_LEFT")


@relay_op("trilu", needs=())
def trilu(data: RelaxExpr, k: RelaxExpr, *, upper: bool = True) -> RelaxExpr:
    """The upper or lower triangle of matrices, zeros elsewhere.

    k  a scalar: the diagonal that still belongs to it, counted to the right
    """
    known = number_of(k)
    if known is not None:
        return call("trilu", data, k=known, upper=upper)
    rows, columns = shape_of(data)[-2:]
    i = reshaped(call("arange", count=rows, dtype="int64"), (rows, 1))
    right = call("subtract", call("arange", count=columns, dtype="int64"), i)
    kept = call("greater_equal" if upper else "less_equal", right, cast_to(k, "int64"))
    return call("where", kept, data, scalar(0, dtype_of(data)))
