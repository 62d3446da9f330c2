"""Matrices: the determinant, and the probabilities that pairs of classes agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import all_of, any_of, call, equal, if_then_else, minimum, not_equal, select
from smelt.ir.expr import INDEX, Expr, cast, convert
from smelt.te.tensor import Tensor, reduce_axis
from smelt.tir.nodes import Stmt

from . import common
from .program import Cell, let, loop, loop_nest, loops, product, program, seq, sharing, store, when
from .reference import Array, widened
from .registry import op


class _Elimination:
    """Gauss's elimination of one matrix of n rows, whose elements it overwrites.

    pivot, total  cells: the row with the largest element of a column, the product of these
    """

    def __init__(self, work: Tensor, batch: Sequence[Expr], pivot: Cell, total: Cell) -> None:
        self.work, self.batch, (self.n, self.columns) = work, tuple(batch), work.shape[-2:]
        self.pivot, self.total = pivot, total

    def at(self, i: Expr, j: Expr) -> Expr:
        """An element as it is now."""
        return self.work[(*self.batch, i, j)]

    def put(self, i: Expr, j: Expr, value: Expr) -> Stmt:
        """Another value for an element."""
        return store(self.work, (*self.batch, i, j), value)

    def exchanged(self, k: Expr) -> Stmt:
        """Row k and the pivot's row in each other's place."""

        def swapped(j: Expr) -> Stmt:
            def both(kept: Expr) -> Stmt:
                up = self.put(k, j, self.at(self.pivot.value, j))
                return seq(up, self.put(self.pivot.value, j, kept))

            return let(self.at(k, j), both)

        negative = convert(0, self.work.dtype) - self.total.value
        return seq(loop(self.columns, swapped, "j"), self.total.set(negative))

    def cleared(self, k: Expr, row: Expr) -> Stmt:
        """A row minus what makes its element in column k 0."""

        def minus(factor: Expr) -> Stmt:
            def one(j: Expr) -> Stmt:
                column = k + 1 + j
                return self.put(row, column, self.at(row, column) - factor * self.at(k, column))

            return loop(self.columns - 1 - k, one, "j")

        return let(self.at(row, k) / self.at(k, k), minus, "factor")

    def step(self, k: Expr) -> Stmt:
        """The pivot of column k, and 0 below it."""
        below = self.n - 1 - k

        def search(i: Expr) -> Stmt:
            row = k + 1 + i
            size, best = call("abs", self.at(row, k)), call("abs", self.at(self.pivot.value, k))
            return when(size > best, self.pivot.set(row))

        regular = not_equal(self.at(k, k), convert(0, self.work.dtype))
        return seq(
            self.pivot.set(k),
            loop(below, search, "i"),
            when(not_equal(self.pivot.value, k), self.exchanged(k)),
            self.total.set(self.total.value * self.at(k, k)),
            when(regular, loop(below, lambda i: self.cleared(k, k + 1 + i), "i")),
        )


def _eliminated(
    x: Tensor, shape: Sequence[Expr], last: Callable[[_Elimination, Tensor], Stmt], name: str
) -> Tensor:
    """What `last` writes to a tensor of a shape when the matrices x [..., n, m] are triangular."""
    (*outer, n, _), to = x.shape, common.wide(x.dtype)
    pivot, total = Cell(INDEX, "pivot"), Cell(to, "total")

    def body(result: Tensor, work: Tensor) -> Stmt:
        def one(b: tuple[Expr, ...]) -> Stmt:
            matrix = _Elimination(work, b, pivot, total)

            def copied(i: tuple[Expr, ...]) -> Stmt:
                return store(work, (*b, *i), cast(to, x[(*b, *i)]))

            return seq(
                loops(x.shape[-2:], copied),
                total.set(1),
                loop(n, matrix.step, "k"),
                last(matrix, result),
            )

        kind = sharing(product(outer) * n * n * n)
        return loop_nest(outer, [pivot, total], one, kind, "matrix")

    return program([shape, x.shape], [to, to], [x], body, name)[0]


@op
def det(x: Tensor) -> Tensor:
    """The determinants of square matrices.

    Shapes  x [..., n, n]; result [...]

    Gauss's elimination, with the largest element of a column as its pivot.
    """
    common.float_only(x)
    common.take_matrices(x=x)
    common.agree(x.shape[-2], x.shape[-1], f"{common.named(x=x)} has to hold square matrices")

    def last(matrix: _Elimination, result: Tensor) -> Stmt:
        return store(result, matrix.batch, matrix.total.value)

    return common.stored(_eliminated(x, x.shape[:-2], last, "det"), x.dtype)


@det.numpy
def _(x: Array) -> Array:
    """numpy's, in float64."""
    return np.asarray(np.linalg.det(widened(x).astype(np.float64))).astype(x.dtype)


def _substituted(matrix: _Elimination, result: Tensor) -> Stmt:
    """The solution of the equations whose last column is the right side, from the last row on."""
    n, total = matrix.n, matrix.total

    def row(k: Expr) -> Stmt:
        i = n - 1 - k

        def minus(j: Expr) -> Stmt:
            known = result[(*matrix.batch, i + 1 + j)]
            return total.set(total.value - matrix.at(i, i + 1 + j) * known)

        solved = store(result, (*matrix.batch, i), total.value / matrix.at(i, i))
        return seq(total.set(matrix.at(i, n)), loop(k, minus, "j"), solved)

    return loop(n, row, "k")


@op(kind="opaque")
def pairwise_coupling(x: Tensor) -> Tensor:
    """Probabilities of classes from those of each one against each other one.

    Shapes  x [rows, classes, classes], of which x[r, i, j] says how likely class i is where it is
            i or j, above 0 for i != j; result [rows, classes]
    Source  T.-F. Wu, C.-J. Lin and R. C. Weng, "Probability estimates for multi-class
            classification by pairwise coupling", 2004, the equations of its theorem 2

    p is what makes the sum over all pairs of (x[j, i] p[i] - x[i, j] p[j])^2 smallest, where the p
    have the sum 1.
    """
    common.float_only(x)
    common.take_forms("[rows, classes, classes]", x=x)
    rows, k, _ = x.shape
    other = reduce_axis((0, k), "other")

    def pair(r: Expr, i: Expr, j: Expr) -> Expr:
        return cast("float64", x[r, j, i]) * cast("float64", x[r, i, j])

    def square(r: Expr, i: Expr) -> Expr:
        own = cast("float64", x[r, other.var, i])
        return select(equal(other.var, i), 0.0, own * own)

    squares = common.sum_over((rows, k), square, [other], "squares")

    def equation(r: Expr, i: Expr, j: Expr) -> Expr:
        """q p + m = 0 in each of the first rows, the sum of p = 1 in the last one."""
        own = select(equal(i, j), squares[r, minimum(i, k - 1)], -pair(r, i, minimum(j, k - 1)))
        inside = all_of(i < k, j < k)
        edge = any_of(all_of(i < k, equal(j, k)), all_of(equal(i, k), not_equal(j, k)))
        return if_then_else(inside, own, cast("float64", edge))

    system = common.tensor((rows, k + 1, k + 2), equation, "equations")
    found = _eliminated(system, (rows, k + 1), _substituted, "pairwise_coupling")
    return common.tensor((rows, k), lambda r, i: cast(x.dtype, found[r, i]), "coupled")


@pairwise_coupling.numpy
def _(x: Array) -> Array:
    """The solution of the equations that a smallest sum of squares fulfils."""
    out = np.zeros(x.shape[:2], np.float64)
    for r, m in enumerate(x.astype(np.float64)):
        off = m - np.diag(np.diag(m))
        q = np.diag((off**2).sum(0)) - off * off.T
        ones = np.ones((len(m), 1))
        system = np.block([[q, ones], [ones.T, np.zeros((1, 1))]])
        out[r] = np.linalg.solve(system, np.append(np.zeros(len(m)), 1.0))[:-1]
    return out.astype(x.dtype)
