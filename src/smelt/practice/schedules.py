"""One matrix product, C = A B, and five schedules of it, from naive to packed.

What is computed is the same in all of them; only the order of the work differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from smelt import te

ROWS, COLUMNS = 10, 32
"""The register tile of the packed schedule: 10 rows of two vectors of 16 floats are 20 sums that do
not wait for each other, in the 32 registers of AVX-512, with room for the operands. Machines with
fewer or shorter registers want fewer rows."""


class Scheduled(NamedTuple):
    """A schedule and the parameters of the program that it makes."""

    schedule: te.Schedule
    args: list[te.Tensor]


def matmul(n: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """A, B and C = A B, all n x n, float32."""
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return a, b, c


def naive(n: int) -> Scheduled:
    """The loops as the formula has them: i, j, k."""
    a, b, c = matmul(n)
    return Scheduled(te.create_schedule(c.op), [a, b, c])


def tiled(n: int, tile: int = 32) -> Scheduled:
    """Tiles of the result, each computed from strips of A and B that stay in the cache."""
    a, b, c = matmul(n)
    s = te.create_schedule(c.op)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], tile, tile)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(xo, yo, ko, xi, ki, yi)
    return Scheduled(s, [a, b, c])


def vectorized(n: int, tile: int = 32) -> Scheduled:
    """Tiled, and a whole row of a tile at a time in vector registers."""
    s, args = tiled(n, tile)
    s[args[2]].vectorize(s[args[2]].leaf_iter_vars[-1])
    return Scheduled(s, args)


def parallel(n: int, tile: int = 32) -> Scheduled:
    """Tiled and vectorised, and the rows of tiles shared out to the processors."""
    s, args = vectorized(n, tile)
    s[args[2]].parallel(s[args[2]].leaf_iter_vars[0])
    return Scheduled(s, args)


def packed(n: int, rows: int = ROWS, columns: int = COLUMNS) -> Scheduled:
    """What a fast library does: B packed in strips, a tile of C held in registers over all k.

    rows, columns  the register tile
    """
    a, b, _ = matmul(n)
    k = te.reduce_axis((0, n), name="k")
    strips = -(-n // columns)
    pack = te.compute(
        (strips, n, columns),
        lambda strip, row, column: te.if_then_else(
            strip * columns + column < n, b[row, strip * columns + column], 0.0
        ),
        name="packed",
    )
    c = te.compute(
        (n, n), lambda i, j: te.sum(a[i, k] * pack[j // columns, k, j % columns], axis=k), name="C"
    )
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], rows, columns)
    s[c].unroll(xi)  # so that the tile is read at fixed places: it can be in registers
    s[c].vectorize(yi)
    s[c].parallel(xo)
    s[tile].compute_at(s[c], yo)
    x, y = s[tile].op.axis
    s[tile].reorder(s[tile].op.reduce_axis[0], x, y)
    s[tile].vectorize(y)
    s[tile].unroll(x)
    strip, _, column = pack.op.axis
    s[pack].vectorize(column)
    s[pack].parallel(strip)
    return Scheduled(s, [a, b, c])


ALL: dict[str, Callable[[int], Scheduled]] = {
    "naive": naive,
    "tiled": tiled,
    "tiled, vectorised": vectorized,
    "tiled, vectorised, parallel": parallel,
    "packed": packed,
}
