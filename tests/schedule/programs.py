"""Programs of many shapes for the laws: chains, reductions (of tuples too), windows, guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt import te
from smelt.ir.build import all_of, any_of, equal, select
from smelt.tir.nodes import PrimFunc

from .support import chain, conv, matmul, program, softmax

__all__ = ["FIXED", "SYMBOLIC", "argmax", "stencil"]


def argmax(m: Any = 4, n: Any = 11, ties: bool = True) -> PrimFunc:
    """The largest value of each row and where it is first (without `ties`: by order only)."""
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")

    def join(a: Any, b: Any) -> Any:
        keep = any_of(a[1] > b[1], all_of(equal(a[1], b[1]), a[0] < b[0])) if ties else a[1] >= b[1]
        return select(keep, a[0], b[0]), select(keep, a[1], b[1])

    best = te.comm_reducer(join, lambda t, u: (te.const(1 << 40, t), te.min_value(u)), "argmax")
    place, top = te.compute((m,), lambda i: best((k.var + 0, x[i, k]), axis=k), name="best")
    return te.create_prim_func([x, place, top])


def moments(m: Any = 4, n: Any = 9) -> PrimFunc:
    """The sum and the sum of squares of each row, at once; then what depends on both."""
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda t, u: (te.const(0, t), te.const(0, u))
    )
    total, squares = te.compute(
        (m,), lambda i: both((x[i, k], x[i, k] * x[i, k]), axis=k), name="moments"
    )
    y = te.compute((m,), lambda i: squares[i] - total[i] * 0.5, name="Y")
    return te.create_prim_func([x, y])


def stencil(m: Any = 8, n: Any = 6, window: int = 3) -> PrimFunc:
    """Sums over windows of rows that have been made before."""
    x = te.placeholder((m + window - 1, n), name="X")
    b = te.compute((m + window - 1, n), lambda i, j: x[i, j] + 1.0, name="B")

    def rows(i: Any, j: Any) -> Any:
        total = b[i, j]
        for k in range(1, window):
            total = total + b[i + k, j] * float(k)
        return total

    return te.create_prim_func([x, te.compute((m, n), rows, name="C")])


def resized(m: Any = 8, n: Any = 6) -> PrimFunc:
    """Elements at computed indices, then elementwise work."""
    x = te.placeholder((m, n), name="X")
    y = te.compute((m, n), lambda i, j: x[i // 2 + i // 4, (j * 2) % n], name="Y")
    return te.create_prim_func([x, te.compute((m, n), lambda i, j: y[i, j] * 2.0, name="Z")])


def guarded(m: int = 8, n: int = 6) -> PrimFunc:
    """A block that runs for a part of its domain only, and one that uses that part."""
    return program(f"""
B = T.alloc_buffer(({m}, {n}))
for i, j in T.grid({m}, {n}):
    with T.block("B"):
        T.where(i < {m - 2} and i + j < {m})
        v, w = T.axis.remap("SS", [i, j])
        B[v, w] = A[v, w] + 1.0
for i_1, j_1 in T.grid({m}, {n}):
    with T.block("C"):
        T.where(i_1 < {m - 2} and i_1 + j_1 < {m})
        v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
        C[v_1, w_1] = B[v_1, w_1] * 2.0
""")


def triangular(m: int = 6, n: int = 7) -> PrimFunc:
    """A reduction whose guard mixes a result's index with the reduced one, into a parameter."""
    return program(f"""
for i, k in T.grid({m}, {n}):
    with T.block("B"):
        T.where(i + k < {m})
        v, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[v] = 0.0
        B[v] = B[v] + A[v, vk]
""")


def in_place(m: int = 6, n: int = 7) -> PrimFunc:
    """Sums added to what a parameter holds, then used."""
    return program(f"""
for i, k in T.grid({m}, {n}):
    with T.block("B"):
        v, vk = T.axis.remap("SR", [i, k])
        B[v] = B[v] + A[v, vk]
for i_1 in range({m}):
    with T.block("C"):
        v_1 = T.axis.spatial({m}, i_1)
        C[v_1] = B[v_1] * 2.0
""")


FIXED: dict[str, Callable[..., PrimFunc]] = {
    "matmul": matmul,
    "matmul16": lambda m, _, k: matmul(m, 16, k),
    "relu": lambda m, n, k: matmul(m, n, k, relu=True),
    "chain": lambda m, n, _: chain(m, n),
    "softmax": lambda m, n, _: softmax(m, n),
    "conv": lambda m, n, k: conv(1, 1 + m % 3, 3 + n % 4, 3 + k % 4, 1 + m % 5, stride=1 + n % 2),
    "argmax": lambda m, n, _: argmax(m, n),
    "first": lambda m, n, _: argmax(m, n, ties=False),
    "moments": lambda m, n, _: moments(m, n),
    "stencil": lambda m, n, k: stencil(m, n, 2 + k % 2 if isinstance(k, int) else 3),
    "resized": lambda m, n, _: resized(m, n),
    "guarded": lambda m, n, _: guarded(m + 2, n),
    "triangular": lambda m, n, _: triangular(m, n),
    "in_place": lambda m, n, _: in_place(m, n),
}
"""Programs of three extents."""

SYMBOLIC = ("matmul", "relu", "chain", "softmax", "argmax", "moments", "stencil")
"""Those among them whose extents may be symbolic."""
