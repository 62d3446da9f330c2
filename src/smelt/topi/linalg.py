"""Matrices: the determinant."""

from __future__ import annotations

from smelt.ir.build import call, not_equal
from smelt.ir.expr import INDEX, Expr, cast, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import agree, describe, float_only, require, stored, wide
from .program import Cell, let, loop, product, program, seq, sharing, store, turns, when
from .registry import op

__all__ = ["det"]


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
