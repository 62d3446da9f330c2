"""Sequences of different lengths in one tensor, and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.ir.build import all_of, any_of, if_then_else, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, cast
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import (
    agree,
    axis_of,
    integers_only,
    named,
    number,
    one_of,
    require,
    same_dtype,
    take_forms,
    take_matrices,
    tensor,
)
from .program import copied, loops, program, rows, seq, store, when
from .reference import Array
from .registry import op


def _lengths(x: Tensor, lengths: Tensor, axis: int, name: str) -> None:
    """One length for each index of a dimension of x."""
    own = {name: lengths}
    integers_only(**own)
    take_forms("[n]", **own)
    agree(x.shape[axis], lengths.shape[0], f"{named(x=x, **own)}: dimension {axis} of x")


@op
def sequence_mask(
    x: Tensor, valid_length: Tensor, *, mask_value: float = 0.0, axis: int = 0
) -> Tensor:
    """x with `mask_value` from the end of each sequence on.

    Shapes  x [length, batch, ...] with axis 0, or [batch, length, ...] with axis 1;
            valid_length [batch]
    """
    require(axis in (0, 1), f"axis={axis}; legal: 0, 1")
    take_matrices(x=x)
    _lengths(x, valid_length, 1 - axis, "valid_length")

    def body(*i: Expr) -> Expr:
        inside = i[axis] < cast(INDEX, valid_length[i[1 - axis]])
        return select(inside, x[i], number(mask_value, x.dtype))

    return tensor(x.shape, body, "sequence_mask")


@sequence_mask.numpy
def _(x: Array, valid_length: Array, *, mask_value: float, axis: int) -> Array:
    """One sequence after the other."""
    out = x.copy()
    for b, n in enumerate(valid_length):
        end = (slice(max(int(n), 0), None), b)
        out[end if axis == 0 else end[::-1]] = mask_value
    return out


@op
def reverse_sequence(
    x: Tensor, seq_lengths: Tensor, *, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """The first elements of each sequence turned round, the others as they are.

    seq_lengths  how many, one for each index of `batch_axis`; more than there are is all of them
    """
    rank = len(x.shape)
    along, batch = axis_of(seq_axis, rank, "seq_axis"), axis_of(batch_axis, rank, "batch_axis")
    require(along != batch, f"seq_axis={seq_axis} and batch_axis={batch_axis} are one dimension")
    _lengths(x, seq_lengths, batch, "seq_lengths")

    def body(*i: Expr) -> Expr:
        count = minimum(cast(INDEX, seq_lengths[i[batch]]), x.shape[along])
        at = select(i[along] < count, maximum(count - 1 - i[along], 0), i[along])
        return x[(*i[:along], at, *i[along + 1 :])]

    return tensor(x.shape, body, "reverse_sequence")


@reverse_sequence.numpy
def _(x: Array, seq_lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    """One sequence after the other."""
    out = x.copy()
    moved = np.moveaxis(out, (batch_axis, seq_axis), (0, 1))
    for b, n in enumerate(seq_lengths):
        moved[b, :n] = moved[b, :n][::-1].copy()
    return out


@op
def write_sequence(
    x: Tensor, update: Tensor, begins: Tensor, *, axis: int = -2, circular: bool = False
) -> Tensor:
    """x with a run of elements along `axis` replaced, in each batch from a place of its own on.

    Shapes    x [batch, ..., length, ...]; update [batch, ..., count, ...], count at most length;
              begins [batch], integers
    circular  a run that leaves x at the end goes on at its beginning; otherwise that part of it
              is left out
    Source    ONNX TensorScatter-24
    """
    rank = len(x.shape)
    same_dtype(x=x, update=update)
    along = axis_of(axis, rank)
    rule = named(x=x, update=update)
    require(along > 0, f"axis={axis} is the batch dimension")
    require(len(update.shape) == rank, f"{rule} need one rank")
    for d in range(rank):
        if d != along:
            agree(x.shape[d], update.shape[d], f"{rule}: dimension {d}")
    length, count = x.shape[along], update.shape[along]
    room, many = value_of(length), value_of(count)
    require(room is None or many is None or many <= room, f"{rule}: {many} elements for {room}")
    _lengths(x, begins, 0, "begins")

    def body(*i: Expr) -> Expr:
        place = i[along] - cast(INDEX, begins[i[0]])
        place = place % length if circular else place
        inside = all_of(place >= 0, place < count)
        return if_then_else(inside, update[(*i[:along], place, *i[along + 1 :])], x[i])

    return tensor(x.shape, body, "write_sequence")


@write_sequence.updates
def _(x: Tensor, update: Tensor, begins: Tensor, *, axis: int, circular: bool) -> Tensor:
    """Writes the run alone."""
    along = axis_of(axis, len(x.shape))
    length = x.shape[along]

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            place = cast(INDEX, begins[i[0]]) + i[along]
            place = place % length if circular else place
            at = [*i[:along], place, *i[along + 1 :]]
            return when(all_of(place >= 0, place < length), store(result, at, update[i]))

        wide = along < len(x.shape) - 1  # else neighbours have places, and conditions, of their own
        each = rows(update.shape, one, along) if wide else loops(update.shape, one)
        return seq(copied(x, result), each)

    (found,) = program([x.shape], [x.dtype], [x, update, begins], body, "write_sequence")
    return found


@write_sequence.numpy
def _(x: Array, update: Array, begins: Array, *, axis: int, circular: bool) -> Array:
    """One element of one sequence after the other."""
    out = x.copy()
    moved, new = np.moveaxis(out, axis, 1), np.moveaxis(update, axis, 1)
    for b, begin in enumerate(begins):
        for k in range(new.shape[1]):
            at = int(begin) + k
            at = at % moved.shape[1] if circular else at
            if 0 <= at < moved.shape[1]:
                moved[b, at] = new[b, k]
    return out


@op
def diagonal(x: Tensor, *, axes: tuple[int, int]) -> Tensor:
    """The elements whose indices along two dimensions are equal.

    Shapes  x with equal extents along both; result x without dimension axes[1]
    """
    rank = len(x.shape)
    first, second = axis_of(axes[0], rank, "axes[0]"), axis_of(axes[1], rank, "axes[1]")
    require(first != second, f"axes={axes} are one dimension")
    agree(x.shape[first], x.shape[second], f"{named(x=x)}: dimensions {first} and {second}")
    kept = first - (second < first)

    def body(*i: Expr) -> Expr:
        return x[(*i[:second], i[kept], *i[second:])]

    return tensor((*x.shape[:second], *x.shape[second + 1 :]), body, "diagonal")


@diagonal.numpy
def _(x: Array, *, axes: tuple[int, int]) -> Array:
    """Elements with two equal indices."""
    first, second = (a % x.ndim for a in axes)
    return np.moveaxis(np.diagonal(x, 0, first, second), -1, first - (second < first))


ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


@op
def matrix_set_diag(
    x: Tensor, diagonal: Tensor, *, k: tuple[int, int] = (0, 0), align: str = "RIGHT_LEFT"
) -> Tensor:
    """x with the diagonals k[0] to k[1] of its matrices replaced; those above the main one count
    as positive.

    Shapes  x [..., m, n]; diagonal [..., length] for one diagonal, else
            [..., k[1] - k[0] + 1, longest], the topmost diagonal first
    align   where shorter diagonals stand in their row: those above the main one, then those
            below; the main one stands left where either does
    Source  TensorFlow MatrixSetDiagV3
    """
    rank = len(x.shape)
    same_dtype(x=x, diagonal=diagonal)
    take_matrices(x=x)
    one_of(ALIGNMENTS, align=align)
    require(len(k) == 2 and k[0] <= k[1], f"k={k}; it has to be two numbers, the smaller one first")
    low, high = k
    want = rank - 1 if low == high else rank
    rule = f"{named(x=x, diagonal=diagonal)} with k={k}"
    require(len(diagonal.shape) == want, f"{rule}: diagonal needs {want} dimensions")
    for d in range(rank - 2):
        agree(x.shape[d], diagonal.shape[d], f"{rule}: dimension {d}")
    rows, columns = x.shape[-2:]
    longest = _diagonal_length(rows, columns, min(max(0, low), high))
    agree(longest, diagonal.shape[-1], f"{rule}: the longest diagonal")
    if low != high:
        known = value_of(diagonal.shape[-2])
        require(
            known in (None, high - low + 1), f"{rule}: {known} rows for {high - low + 1} diagonals"
        )
    above_left, below_left = (side == "LEFT" for side in align.split("_"))

    def body(*i: Expr) -> Expr:
        *batch, row, column = i
        d = column - row
        left = any_of([d >= 0] if above_left else [], [d <= 0] if below_left else [])
        length = minimum(rows + minimum(d, 0), columns - maximum(d, 0))
        place = column - maximum(d, 0) + select(left, 0, diagonal.shape[-1] - length)
        which = [] if low == high else [high - d]
        inside = all_of(d >= low, d <= high)
        return if_then_else(inside, diagonal[(*batch, *which, place)], x[i])

    return tensor(x.shape, body, "matrix_set_diag")


@matrix_set_diag.numpy
def _(x: Array, diagonal: Array, *, k: Sequence[int], align: str) -> Array:
    """One diagonal after the other."""
    out, (low, high) = x.copy(), k
    above, below = align.split("_")
    for d in range(low, high + 1):
        line = diagonal if low == high else diagonal[..., high - d, :]
        rows = np.arange(max(-d, 0), min(x.shape[-2], x.shape[-1] - d))
        left = (d >= 0 and above == "LEFT") or (d <= 0 and below == "LEFT")
        start = 0 if left else line.shape[-1] - rows.size
        out[..., rows, rows + d] = line[..., start : start + rows.size]
    return out


def _diagonal_length(rows: Expr, columns: Expr, d: int) -> Expr:
    return minimum(rows + min(d, 0), columns - max(d, 0))
