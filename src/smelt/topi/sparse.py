"""Sparse matrices and tensors.

Compressed rows: `data` holds the elements row by row, `indices` their columns, and row r has the
elements indptr[r] to indptr[r + 1] - 1. Blocks instead of elements: `data` [blocks, rows, columns],
and indices and indptr count blocks. Coordinates: `indices` [n, rank] and `values` [n].
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from smelt.ir.build import equal, maximum, minimum, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import (
    agree,
    describe,
    extents,
    integers_only,
    named,
    number,
    require,
    row_major,
    same_dtype,
    stored,
    take_forms,
    tensor,
    wide,
)
from .gather import scatter_nd
from .program import (
    Cell,
    add_to,
    cleared,
    copied,
    inside,
    let,
    loop,
    loop_nest,
    loops,
    once,
    product,
    program,
    seq,
    sharing,
    store,
    when,
)
from .reference import Array, widened
from .registry import op
from .sets import unravel_index


class _Rows:
    """A matrix in compressed rows, of elements or of blocks.

    block  rows and columns of a block; 1 and 1 where `data` holds elements
    lines  rows of blocks
    rows   of the matrix
    """

    def __init__(self, data: Tensor, indices: Tensor, indptr: Tensor) -> None:
        integers_only(indices=indices, indptr=indptr)
        take_forms("[n]", "[lines]", indices=indices, indptr=indptr)
        require(
            len(data.shape) in (1, 3),
            f"{named(data=data)} has to be [elements] or [blocks, rows, columns]",
        )
        agree(data.shape[0], indices.shape[0], f"{named(data=data, indices=indices)}: dimension 0")
        one = const(1, INDEX)
        self.block = data.shape[1:] if len(data.shape) == 3 else (one, one)
        self.lines = indptr.shape[0] - 1
        self.rows = self.lines * self.block[0]

    def element(self, data: Tensor, e: Expr, row: Expr, column: Expr) -> Expr:
        """An element of block number e."""
        return data[e, row, column] if len(data.shape) == 3 else data[e]

    def each(self, indptr: Tensor, count: Expr, line: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
        """The body for the number of every block in a row of blocks; there are `count` in all."""
        begin = maximum(cast(INDEX, indptr[line]), 0)
        end = minimum(cast(INDEX, indptr[line + 1]), count)
        return loop(maximum(end - begin, 0), lambda j: let(begin + j, body, "e"), "j")


@op
def sparse_dense(x: Tensor, data: Tensor, indices: Tensor, indptr: Tensor) -> Tensor:
    """x times the transpose of a sparse matrix in compressed rows, of elements or of blocks.

    Shapes  x [m, k]; the sparse matrix [n, k]; result [m, n]

    Narrow floats are summed in float32. Columns beyond k count as 0.
    """
    dtype = same_dtype(x=x, data=data)
    require(dtype != "bool", "x and data are bool; the operator is defined for numbers")
    take_forms("[rows, columns]", x=x)
    matrix, total = _Rows(data, indices, indptr), Cell(wide(dtype), "total")
    height, width = matrix.block
    to = wide(dtype)

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            n, m = i

            def block(e: Expr) -> Stmt:
                def term(c: Expr) -> Stmt:
                    def add(k: Expr) -> Stmt:
                        value = cast(to, matrix.element(data, e, n % height, c))
                        return total.set(total.value + value * cast(to, x[m, k]))

                    return inside(cast(INDEX, indices[e]) * width + c, x.shape[1], add, "k")

                return loop(width, term, "c")

            blocks = matrix.each(indptr, data.shape[0], n // height, block)
            return seq(total.set(number(0, to)), blocks, store(result, (m, n), total.value))

        kind = sharing(product([matrix.rows, x.shape[0], const(64, INDEX)]))
        return loop_nest([matrix.rows, x.shape[0]], [total], one, kind, "row")

    operands = [x, data, indices, indptr]
    shape = (x.shape[0], matrix.rows)
    return stored(program([shape], [to], operands, body, "sparse_dense")[0], dtype)


def _blocks(data: Array, indices: Array, indptr: Array) -> Iterator[tuple[int, int, Array]]:
    """Row, column and elements of every block."""
    blocks = data.reshape(-1, 1, 1) if data.ndim == 1 else data
    for line in range(indptr.size - 1):
        for e in range(int(indptr[line]), int(indptr[line + 1])):
            yield line * blocks.shape[1], int(indices[e]) * blocks.shape[2], blocks[e]


def _dense(rows: int, columns: int, data: Array, indices: Array, indptr: Array) -> Array:
    out = np.zeros((rows, columns), data.dtype)
    for r, c, block in _blocks(data, indices, indptr):
        out[r : r + block.shape[0], c : c + block.shape[1]] += block
    return out


@sparse_dense.numpy
def _(x: Array, data: Array, indices: Array, indptr: Array) -> Array:
    """x times the transpose of the whole matrix."""
    rows = (indptr.size - 1) * (1 if data.ndim == 1 else data.shape[1])
    whole = _dense(rows, x.shape[1], widened(data), indices, indptr)
    return np.asarray(widened(x) @ whole.T).astype(x.dtype)


@op
def sparse_add(x: Tensor, data: Tensor, indices: Tensor, indptr: Tensor) -> Tensor:
    """x plus a sparse matrix in compressed rows, of elements or of blocks, of the same shape."""
    dtype = same_dtype(x=x, data=data)
    require(dtype != "bool", "x and data are bool; the operator is defined for numbers")
    take_forms("[rows, columns]", x=x)
    matrix = _Rows(data, indices, indptr)
    rule = named(x=x, indptr=indptr)
    agree(x.shape[0], matrix.rows, f"{rule}: the rows of x are those of the sparse matrix")

    def body(result: Tensor) -> Stmt:
        def line(n: Expr) -> Stmt:
            def block(e: Expr) -> Stmt:
                def one(i: tuple[Expr, ...]) -> Stmt:
                    def add(column: Expr) -> Stmt:
                        at = (n * matrix.block[0] + i[0], column)
                        return add_to(result, at, matrix.element(data, e, i[0], i[1]))

                    column = cast(INDEX, indices[e]) * matrix.block[1] + i[1]
                    return inside(column, x.shape[1], add, "column")

                return loops(matrix.block, one)

            return matrix.each(indptr, data.shape[0], n, block)

        return seq(copied(x, result), loop(matrix.lines, line, "n"))

    return program([x.shape], [dtype], [x, data, indices, indptr], body, "sparse_add")[0]


@sparse_add.numpy
def _(x: Array, data: Array, indices: Array, indptr: Array) -> Array:
    """x plus the whole matrix."""
    return np.asarray(x + _dense(x.shape[0], x.shape[1], data, indices, indptr), x.dtype)


@op
def sparse_transpose(
    data: Tensor, indices: Tensor, indptr: Tensor, *, columns: ExprLike | None = None
) -> tuple[Tensor, ...]:
    """The transpose of a matrix in compressed rows of elements: (data, indices, indptr).

    columns  of the matrix; None: as many as it has rows

    Elements in columns beyond are left out; 0 stands at the end in their place.
    """
    matrix = _Rows(data, indices, indptr)
    require(len(data.shape) == 1, f"{named(data=data)} holds blocks; legal: [elements]")
    count = matrix.rows if columns is None else convert(columns, INDEX)

    def body(values: Tensor, rows: Tensor, begins: Tensor, place: Tensor) -> Stmt:
        def each(line: Expr, act: Callable[[Expr, Expr], Stmt]) -> Stmt:
            """What is done for each element whose column exists."""

            def one(e: Expr) -> Stmt:
                return inside(indices[e], count, lambda c: act(e, c), "column")

            return matrix.each(indptr, data.shape[0], line, one)

        def counted(_: Expr, c: Expr) -> Stmt:
            return add_to(begins, (c + 1,), 1)

        def summed(c: Expr) -> Stmt:
            here = store(place, (c,), cast(INDEX, begins[c]))
            return seq(here, add_to(begins, (c + 1,), begins[c]))

        def moved(line: Expr) -> Callable[[Expr, Expr], Stmt]:
            def one(e: Expr, c: Expr) -> Stmt:
                row = store(rows, (place[c],), cast(rows.dtype, line))
                return seq(store(values, (place[c],), data[e]), row, add_to(place, (c,), 1))

            return one

        first = loop(matrix.lines, lambda n: each(n, counted), "n")
        then = loop(matrix.lines, lambda n: each(n, moved(n)), "n")
        return seq(*cleared(values, rows, begins), first, loop(count, summed, "c"), then)

    shapes = [data.shape, data.shape, (count + 1,), (count,)]
    types = [data.dtype, indices.dtype, indptr.dtype, INDEX]
    return program(shapes, types, [data, indices, indptr], body, "sparse_transpose")[:3]


@sparse_transpose.numpy
def _(
    data: Array, indices: Array, indptr: Array, *, columns: int | None
) -> tuple[Array, Array, Array]:
    """The elements sorted by column."""
    count = indptr.size - 1 if columns is None else columns
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    begins = np.searchsorted(indices[order], np.arange(count + 1))
    return data[order], rows[order].astype(indices.dtype), begins.astype(indptr.dtype)


# ----------------------------------------------------------------------------------- coordinates


@op
def sparse_to_dense(
    indices: Tensor, values: Tensor, *, shape: tuple[ExprLike, ...], default: float = 0.0
) -> Tensor:
    """The tensor of a shape with these values at these places, and `default` elsewhere.

    Shapes  indices [n, rank], [n] (rank 1) or [] (one place); values [n] or [] (one for all)

    The last of several values for one place stays; places outside are left out.
    """
    integers_only(indices=indices)
    sizes, rank = extents(shape), len(indices.shape)
    require(rank <= 2, f"{named(indices=indices)} have to have at most two dimensions")
    require(len(values.shape) <= 1, f"{named(values=values)} have to be [n] or []")
    one = const(1, INDEX)
    n = indices.shape[0] if rank else one
    depth = indices.shape[1] if rank == 2 else one
    known = value_of(depth)
    require(
        known == len(sizes),
        f"{named(indices=indices)} name {known} dimensions, shape {describe(sizes)} has "
        f"{len(sizes)}",
    )
    if values.shape:
        rule = named(indices=indices, values=values)
        agree(n, values.shape[0], f"{rule}: one value for each place")
    places = tensor((n, depth), lambda i, d: indices[(i, d)[:rank]], "places")
    each = tensor((n,), lambda i: values[(i,)[: len(values.shape)]], "values")
    base = tensor(sizes, lambda *i: number(default, values.dtype), "default")
    made: Tensor = scatter_nd(base, places, each)
    return made


@sparse_to_dense.numpy
def _(indices: Array, values: Array, *, shape: Sequence[int], default: float) -> Array:
    """One value after the other."""
    out = np.full(shape, default, values.dtype)
    places = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    for place, value in zip(places, np.broadcast_to(values, len(places)), strict=True):
        out[tuple(place)] = value
    return out


def _filled(operands: Sequence[Tensor], *outs: Tensor) -> Stmt:
    """Elements are counted row by row, rows get room, elements are moved there."""
    (indices, values, default), (places, kept, empty, count, place) = operands, outs
    (n, rank), rows, filled = indices.shape, place.shape[0], Cell(name="filled")

    def each(act: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """What is done for each element whose row exists."""

        def one(i: Expr) -> Stmt:
            return inside(indices[i, 0], rows, lambda r: act(i, r), "row")

        return loop(n, one, "i")

    def begun(r: Expr) -> Stmt:
        """Room for a row; `place` becomes where it begins."""
        at = filled.value
        first = seq(store(places, (at, 0), cast(places.dtype, r)), store(kept, (at,), default[()]))

        def moved_on(size: Expr) -> Stmt:
            return seq(store(place, (r,), at), filled.set(at + size))

        none = equal(place[r], 0)
        room = let(maximum(place[r], 1), moved_on, "size")
        return seq(store(empty, (r,), none), when(none, first), room)

    def moved(i: Expr, r: Expr) -> Stmt:
        index = loop(rank, lambda d: store(places, (place[r], d), indices[i, d]), "d")
        return seq(index, store(kept, (place[r],), values[i]), add_to(place, (r,), 1))

    counted, end = each(lambda _, r: add_to(place, (r,), 1)), store(count, (), filled.value)
    every = [filled.set(0), loop(rows, begun, "r"), each(moved)]
    return once([filled], *cleared(places, kept, place), counted, *every, end)


@op
def sparse_fill_empty_rows(
    indices: Tensor, values: Tensor, default: Tensor, *, shape: tuple[ExprLike, ...]
) -> tuple[Tensor, ...]:
    """Coordinates with an element in every row: (indices, values, empty, count).

    Shapes   indices [n, rank]; values [n]; default []; the results' indices [n + rows, rank],
             values [n + rows], empty [rows] (bool), count []; rows is shape[0]
    shape    of the tensor
    empty    which rows had no element; these have `default` in their first place
    count    how many elements there are (int64), row by row; 0 in the rest

    Elements in rows outside are left out.
    """
    integers_only(indices=indices)
    same_dtype(values=values, default=default)
    sizes = extents(shape)
    form = f"[n, {len(sizes)}]"
    take_forms(form, "[n]", "[]", indices=indices, values=values, default=default)
    rows = sizes[0]
    room = indices.shape[0] + rows
    shapes: list[Sequence[ExprLike]] = [(room, len(sizes)), (room,), (rows,), (), (rows,)]
    types = [indices.dtype, values.dtype, "bool", INDEX, INDEX]
    operands = [indices, values, default]
    body = functools.partial(_filled, operands)
    return program(shapes, types, operands, body, "sparse_fill_empty_rows")[:4]


@sparse_fill_empty_rows.numpy
def _(indices: Array, values: Array, default: Array, *, shape: Sequence[int]) -> tuple[Array, ...]:
    """Row by row."""
    places: list[Array] = []
    kept: list[Array] = []
    empty = np.zeros(shape[0], bool)
    for r in range(shape[0]):
        own = np.flatnonzero(indices[:, 0] == r)
        empty[r] = own.size == 0
        places += [indices[i] for i in own] or [np.array([r] + [0] * (len(shape) - 1))]
        kept += [values[i] for i in own] or [default]
    room = len(values) + shape[0]
    out = np.zeros((room, len(shape)), indices.dtype), np.zeros(room, values.dtype)
    out[0][: len(places)], out[1][: len(kept)] = places, kept
    return *out, empty, np.asarray(len(places), np.int64)


@op
def sparse_reshape(
    indices: Tensor, *, prev_shape: tuple[ExprLike, ...], new_shape: tuple[ExprLike, ...]
) -> Tensor:
    """The coordinates of the same elements in a tensor of another shape.

    Shapes     indices [n, the extents of prev_shape]; result [n, the extents of new_shape]
    new_shape  one extent may be -1: it follows from the others
    """
    integers_only(indices=indices)
    before, after = extents(prev_shape), list(extents(new_shape))
    take_forms(f"[n, {len(before)}]", indices=indices)
    open_ones = [d for d, e in enumerate(after) if value_of(e) == -1]
    require(len(open_ones) <= 1, f"new_shape={describe(after)}: one extent at most may be -1")
    if open_ones:
        rest = product([e for d, e in enumerate(after) if d not in open_ones])
        after[open_ones[0]] = product(before) // rest
    sizes = [value_of(product(before)), value_of(product(after))]
    require(
        None in sizes or sizes[0] == sizes[1],
        f"prev_shape {describe(before)} has {sizes[0]} elements, new_shape {describe(after)} has "
        f"{sizes[1]}",
    )

    def place(i: Expr) -> Expr:
        return row_major(before, [cast(INDEX, indices[i, d]) for d in range(len(before))])

    places = tensor((indices.shape[0],), place, "places")
    digits = unravel_index(places, shape=tuple(after))
    return tensor(
        (indices.shape[0], len(after)),
        lambda i, d: cast(indices.dtype, digits[d, i]), "sparse_reshape",
    )  # fmt: skip


@sparse_reshape.numpy
def _(indices: Array, *, prev_shape: Sequence[int], new_shape: Sequence[int]) -> Array:
    """Through places in row-major order."""
    after = np.zeros(prev_shape, bool).reshape(new_shape).shape
    places = np.ravel_multi_index(tuple(indices.T), tuple(prev_shape))
    return np.stack(np.unravel_index(places, after), 1).astype(indices.dtype)
