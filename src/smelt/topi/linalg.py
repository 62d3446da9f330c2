"""Matrices: the determinant, and the probabilities that pairs of classes agree on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.ir.build import call, not_equal
from smelt.ir.expr import INDEX, Expr, cast, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import agree, float_only, named, stored, take_form, take_matrices, wide
from .program import Cell, let, loop, loop_nest, product, program, seq, sharing, store, when
from .reference import Array, widened
from .registry import op


class _Elimination:
    """Gauss's elimination of one matrix, whose elements it overwrites.

    pivot, total  cells: the row with the largest element of a column, the product of these
    """

    def __init__(self, work: Tensor, batch: Sequence[Expr], pivot: Cell, total: Cell) -> None:
        self.work, self.batch, self.n = work, tuple(batch), work.shape[-1]
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
        return seq(loop(self.n, swapped, "j"), self.total.set(negative))

    def cleared(self, k: Expr, row: Expr) -> Stmt:
        """A row minus what makes its element in column k 0."""

        def minus(factor: Expr) -> Stmt:
            def one(j: Expr) -> Stmt:
                column = k + 1 + j
                return self.put(row, column, self.at(row, column) - factor * self.at(k, column))

            return loop(self.n - 1 - k, one, "j")

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


@op
def det(x: Tensor) -> Tensor:
    """The determinants of square matrices.

    Shapes  x [..., n, n]; result [...]

    Gauss's elimination, with the largest element of a column as its pivot.
    """
    float_only(x)
    rank = len(x.shape)
    take_matrices(x=x)
    n = agree(x.shape[-2], x.shape[-1], f"{named(x=x)} has to hold square matrices")
    to, outer = wide(x.dtype), x.shape[: rank - 2]
    pivot, total = Cell(INDEX, "pivot"), Cell(to, "total")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (result, work) = ins, outs

        def one(b: tuple[Expr, ...]) -> Stmt:
            matrix = _Elimination(work, b, pivot, total)

            def copied(i: Expr) -> Stmt:
                return loop(n, lambda j: matrix.put(i, j, cast(to, x[(*b, i, j)])), "j")

            return seq(
                loop(n, copied, "i"),
                total.set(1),
                loop(n, matrix.step, "k"),
                store(result, b, total.value),
            )

        kind = sharing(product(outer) * n * n * n)
        return loop_nest(outer, [pivot, total], (ins, outs), one, kind, "matrix")

    return stored(program([outer, x.shape], [to, to], [x], body, "det")[0], x.dtype)


@det.numpy
def _(x: Array) -> Array:
    """numpy's, in float64."""
    return np.asarray(np.linalg.det(widened(x).astype(np.float64))).astype(x.dtype)


SWEEPS = 100
"""Of the iteration over the classes; it gains several digits with each ten."""


class _Coupling:
    """The iteration for one row: p' q p shall become smallest, where the p have the sum 1.

    qp                 q times p
    whole, move, part  cells: p' q p, how much an element moves, a sum
    """

    def __init__(
        self, row: Expr, tensors: Sequence[Tensor], cells: tuple[Cell, Cell, Cell]
    ) -> None:
        self.row, (self.x, self.p, self.q, self.qp) = row, tensors
        self.whole, self.move, self.part = cells
        self.k, self.to = self.p.shape[1], self.p.dtype

    def begun(self, i: Expr) -> Stmt:
        """Row i of q, and equal shares."""
        r = self.row

        def pair(j: Expr) -> Stmt:
            own, other = cast(self.to, self.x[r, j, i]), cast(self.to, self.x[r, i, j])
            negative = convert(0, self.to) - own * other
            both = seq(
                store(self.q, (r, i, j), negative), self.part.set(self.part.value + own * own)
            )
            return when(not_equal(i, j), both)

        return seq(
            self.part.set(0),
            loop(self.k, pair, "j"),
            store(self.q, (r, i, i), self.part.value),
            store(self.p, (r, i), 1 / cast(self.to, self.k)),
        )

    def multiplied(self, i: Expr) -> Stmt:
        """Element i of q p, and what it adds to p' q p."""
        r = self.row

        def add(j: Expr) -> Stmt:
            return self.part.set(self.part.value + self.q[r, i, j] * self.p[r, j])

        return seq(
            self.part.set(0),
            loop(self.k, add, "j"),
            store(self.qp, (r, i), self.part.value),
            self.whole.set(self.whole.value + self.p[r, i] * self.part.value),
        )

    def moved(self, t: Expr) -> Stmt:
        """The best place of element t, and all divided by the new sum."""
        r, step = self.row, self.move.value
        scale, own = 1 + step, self.q[r, t, t]

        def others(j: Expr) -> Stmt:
            return seq(
                store(self.qp, (r, j), (self.qp[r, j] + step * self.q[r, t, j]) / scale),
                store(self.p, (r, j), self.p[r, j] / scale),
            )

        grown = self.whole.value + step * (step * own + 2 * self.qp[r, t])
        return seq(
            self.move.set((self.whole.value - self.qp[r, t]) / own),
            self.whole.set(grown / (scale * scale)),
            store(self.p, (r, t), self.p[r, t] + step),
            loop(self.k, others, "j"),
        )

    def run(self) -> Stmt:
        """All sweeps."""

        def sweep(_: Expr) -> Stmt:
            fresh = seq(self.whole.set(0), loop(self.k, self.multiplied, "i"))
            return seq(fresh, loop(self.k, self.moved, "t"))

        return seq(loop(self.k, self.begun, "i"), loop(SWEEPS, sweep, "sweep"))


@op
def pairwise_coupling(x: Tensor) -> Tensor:
    """Probabilities of classes from those of each one against each other one.

    Shapes  x [rows, classes, classes], of which x[r, i, j] says how likely class i is where it is
            i or j, above 0 for i != j; result [rows, classes]
    Source  T.-F. Wu, C.-J. Lin and R. C. Weng, "Probability estimates for multi-class
            classification by pairwise coupling", 2004, algorithm 2

    p is what makes the sum over all pairs of (x[j, i] p[i] - x[i, j] p[j])^2 smallest.
    """
    float_only(x)
    take_form("[rows, classes, classes]", x=x)
    k = agree(x.shape[1], x.shape[2], f"{named(x=x)} has to hold square matrices")
    to, rows = wide(x.dtype), x.shape[0]
    cells = (Cell(to, "whole"), Cell(to, "move"), Cell(to, "part"))

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        def one(at: tuple[Expr, ...]) -> Stmt:
            return _Coupling(at[0], (*ins, *outs), cells).run()

        kind = sharing(rows * k * k * SWEEPS)
        return loop_nest([rows], cells, (ins, outs), one, kind, "row")

    shapes = [(rows, k), x.shape, (rows, k)]
    return stored(program(shapes, [to] * 3, [x], body, "pairwise_coupling")[0], x.dtype)


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
