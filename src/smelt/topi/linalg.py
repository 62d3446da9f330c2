"""Matrices: the determinant, and the probabilities that pairs of classes agree on."""

from __future__ import annotations

from smelt.ir.build import call, not_equal
from smelt.ir.expr import INDEX, Expr, cast, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import agree, describe, float_only, require, stored, wide
from .program import Cell, let, loop, product, program, seq, sharing, store, turns, when
from .registry import op

__all__ = ["det", "pairwise_coupling"]


@op
def det(x: Tensor) -> Tensor:
    """The determinants of square matrices.

    Shapes  x [..., n, n]; result [...]

    Gauss's elimination, with the largest element of a column as its pivot.
    """
    float_only(x)
    rank = len(x.shape)
    require(rank >= 2, f"x {describe(x.shape)} needs at least two dimensions")
    n = agree(x.shape[-2], x.shape[-1], f"x {describe(x.shape)} has to hold square matrices")
    to, outer = wide(x.dtype), x.shape[: rank - 2]
    pivot, total = Cell(INDEX, "pivot"), Cell(to, "total")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (result, work) = ins, outs

        def one(b: tuple[Expr, ...]) -> Stmt:
            def at(i: Expr, j: Expr) -> Expr:
                return work[(*b, i, j)]

            def swapped(k: Expr, j: Expr) -> Stmt:
                return let(
                    at(k, j),
                    lambda kept: seq(
                        store(work, (*b, k, j), at(pivot.value, j)),
                        store(work, (*b, pivot.value, j), kept),
                    ),
                )

            def search(k: Expr, i: Expr) -> Stmt:
                larger = call("abs", at(k + 1 + i, k)) > call("abs", at(pivot.value, k))
                return when(larger, pivot.set(k + 1 + i))

            def eliminated(k: Expr, i: Expr) -> Stmt:
                row = k + 1 + i

                def minus(factor: Expr) -> Stmt:
                    return loop(
                        n - 1 - k,
                        lambda j: store(
                            work, (*b, row, k + 1 + j),
                            at(row, k + 1 + j) - factor * at(k, k + 1 + j),
                        ),
                        "j",
                    )  # fmt: skip

                return let(at(row, k) / at(k, k), minus, "factor")

            def step(k: Expr) -> Stmt:
                exchange = seq(
                    loop(n, lambda j: swapped(k, j), "j"), total.set(convert(0, to) - total.value)
                )
                return seq(
                    pivot.set(k),
                    loop(n - 1 - k, lambda i: search(k, i), "i"),
                    when(not_equal(pivot.value, k), exchange),
                    total.set(total.value * at(k, k)),
                    when(not_equal(at(k, k), convert(0, to)),
                         loop(n - 1 - k, lambda i: eliminated(k, i), "i")),
                )  # fmt: skip

            copy = loop(
                n, lambda i: loop(n, lambda j: store(work, (*b, i, j), cast(to, x[(*b, i, j)])),
                                  "j"), "i",
            )  # fmt: skip
            return seq(copy, total.set(1), loop(n, step, "k"), store(result, b, total.value))

        kind = sharing(product(outer) * n * n * n)
        return turns(outer, [pivot, total], (ins, outs), one, kind, "matrix")

    return stored(program([outer, x.shape], [to, to], [x], body, "det")[0], x.dtype)


SWEEPS = 100
"""Of the iteration over the classes; it gains several digits with each ten."""


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
    require(len(x.shape) == 3, f"x {describe(x.shape)} has to be [rows, classes, classes]")
    k = agree(x.shape[1], x.shape[2], f"x {describe(x.shape)} has to hold square matrices")
    to, rows = wide(x.dtype), x.shape[0]
    whole, move, part = Cell(to, "whole"), Cell(to, "move"), Cell(to, "part")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (p, q, qp) = ins, outs

        def one(at: tuple[Expr, ...]) -> Stmt:
            (r,) = at

            def filled(i: Expr, j: Expr) -> Stmt:
                own, other = cast(to, x[r, j, i]), cast(to, x[r, i, j])
                apart = seq(
                    store(q, (r, i, j), convert(0, to) - own * other),
                    part.set(part.value + own * own),
                )
                return when(not_equal(i, j), apart)

            def row(i: Expr) -> Stmt:
                return seq(
                    part.set(0), loop(k, lambda j: filled(i, j), "j"),
                    store(q, (r, i, i), part.value), store(p, (r, i), 1 / cast(to, k)),
                )  # fmt: skip

            def product_with(i: Expr) -> Stmt:
                add = loop(k, lambda j: part.set(part.value + q[r, i, j] * p[r, j]), "j")
                return seq(
                    part.set(0), add, store(qp, (r, i), part.value),
                    whole.set(whole.value + p[r, i] * part.value),
                )  # fmt: skip

            def moved(t: Expr) -> Stmt:
                scale = 1 + move.value
                grown = move.value * (move.value * q[r, t, t] + 2 * qp[r, t])

                def others(j: Expr) -> Stmt:
                    return seq(
                        store(qp, (r, j), (qp[r, j] + move.value * q[r, t, j]) / scale),
                        store(p, (r, j), p[r, j] / scale),
                    )

                return seq(
                    move.set((whole.value - qp[r, t]) / q[r, t, t]),
                    whole.set((whole.value + grown) / (scale * scale)),
                    store(p, (r, t), p[r, t] + move.value), loop(k, others, "j"),
                )  # fmt: skip

            def sweep(_: Expr) -> Stmt:
                return seq(
                    whole.set(0), loop(k, product_with, "i"), loop(k, moved, "t"),
                )  # fmt: skip

            return seq(loop(k, row, "i"), loop(SWEEPS, sweep, "sweep"))

        kind = sharing(rows * k * k * SWEEPS)
        return turns([rows], [whole, move, part], (ins, outs), one, kind, "row")

    shapes = [(rows, k), x.shape, (rows, k)]
    return stored(program(shapes, [to] * 3, [x], body, "pairwise_coupling")[0], x.dtype)
