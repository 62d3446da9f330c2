"""Computations to schedule, and the check that a schedule keeps what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt import te
from smelt.ir.build import select
from smelt.ir.expr import Var, const
from smelt.pipeline import lower_program as lower
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify
from tests.lowering.programs import arrays, close, result

Args = list[Any]


def matmul(m: Any = 12, n: Any = 10, k: Any = 7) -> Args:
    """C = A B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, c]


def dense(m: Any = 9, n: Any = 12, k: Any = 8) -> Args:
    """max(A B + bias, 0)."""
    a, b, c = matmul(m, n, k)
    bias = te.placeholder((n,), name="bias")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], name="D")
    e = te.compute((m, n), lambda i, j: te.maximum(d[i, j], 0.0), name="E")
    return [a, b, bias, e]


def chain(m: Any = 10, n: Any = 9) -> Args:
    """D = (A + 1) * 2 - 3."""
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] - 3.0, name="D")
    return [a, d]


def diamond(m: Any = 8, n: Any = 7) -> Args:
    """E = (2 B) * (B transposed and back), with B = A + 1."""
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((n, m), lambda j, i: b[i, j] - 3.0, name="D")
    e = te.compute((m, n), lambda i, j: c[i, j] * d[j, i], name="E")
    return [a, e]


def stencil(n: Any = 17) -> Args:
    """The sum of three neighbours of B = 2 A."""
    a = te.placeholder((n + 2,), name="A")
    b = te.compute((n + 2,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    return [a, c]


def conv(c: int = 2, h: int = 4, w: int = 5, o: int = 5, stride: int = 1) -> Args:
    """relu(conv2d(pad(X), W))."""
    x, f = te.placeholder((c, h, w), name="X"), te.placeholder((o, c, 3, 3), name="W")
    pad = te.compute(
        (c, h + 2, w + 2),
        lambda k, i, j: te.if_then_else(
            te.all_of(i >= 1, i < h + 1, j >= 1, j < w + 1), x[k, i - 1, j - 1], 0.0
        ),
        name="pad",
    )
    rc, ry, rx = (
        te.reduce_axis((0, c), "rc"),
        te.reduce_axis((0, 3), "ry"),
        te.reduce_axis((0, 3), "rx"),
    )
    oh, ow = (h - 1) // stride + 1, (w - 1) // stride + 1
    y = te.compute(
        (o, oh, ow),
        lambda k, i, j: te.sum(
            pad[rc, i * stride + ry, j * stride + rx] * f[k, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    out = te.compute((o, oh, ow), lambda k, i, j: te.maximum(y[k, i, j], 0.0), name="relu")
    return [x, f, out]


def softmax(m: Any = 5, n: Any = 9) -> Args:
    """The row-wise softmax in four stages (without exp: any function of x - max will do)."""
    x = te.placeholder((m, n), name="X")
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "k2")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((m, n), lambda i, j: (x[i, j] - top[i]) * 0.5, name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    y = te.compute((m, n), lambda i, j: e[i, j] / (total[i] * total[i] + 0.25), name="Y")
    return [x, y]


def argmax(m: Any = 6, n: Any = 11) -> Args:
    """The largest value of each row and where it is first: a reduction of pairs."""
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")

    def join(a: Any, b: Any) -> Any:
        better = te.any_of(b[0] > a[0], te.all_of(b[0] == a[0], b[1] < a[1]))
        return select(better, b[0], a[0]), select(better, b[1], a[1])

    def start(t: str, u: str) -> Any:
        return te.min_value(t), const(1 << 40, u)

    best = te.comm_reducer(join, start, name="argmax")
    value, place = te.compute((m,), lambda i: best((x[i, k], k.var + 0), axis=k), name="best")
    return [x, value, place]


def pairs(m: Any = 7, n: Any = 6) -> Args:
    """Two results of one operation, used together."""
    x = te.placeholder((m, n), name="X")
    p, q = te.compute((m, n), lambda i, j: (x[i, j] + 1.0, x[i, j] * 3.0), name="P")
    out = te.compute((m, n), lambda i, j: p[i, j] - q[i, j], name="out")
    return [x, out]


def total(m: Any = 5, n: Any = 6, k: Any = 7) -> Args:
    """A sum over two axes of what is positive, from 2 on."""
    x = te.placeholder((m, n, k), name="X")
    r, q = te.reduce_axis((0, n), "r"), te.reduce_axis((1, k), "q")
    y = te.compute(
        (m,), lambda i: te.sum(x[i, r, q], axis=[r, q], where=x[i, r, q] > 0.0, init=2.0), name="T"
    )
    return [x, y]


COMPUTATIONS: dict[str, Callable[..., Args]] = {
    "matmul": matmul,
    "dense": dense,
    "chain": chain,
    "diamond": diamond,
    "stencil": stencil,
    "conv": conv,
    "softmax": softmax,
    "argmax": argmax,
    "pairs": pairs,
    "total": total,
}


def keeps(
    s: te.Schedule, args: Sequence[Any], sizes: dict[str, int] | None = None, name: str = "main"
) -> Schedule:
    """Assert that a schedule's program, lowered too, computes what the plain program does."""
    sch: Schedule = te.lower_schedule(s, args, name)
    verify(sch.func)
    plain = te.create_prim_func(args, name)
    given = arrays(plain, sizes or {})
    expected = result(plain, given)
    close(result(sch.func, given), expected, script(sch.func))
    flat = lower(sch.func)
    close(result(flat, given), expected, f"{script(sch.func)}\n->\n{script(flat)}")
    return sch


def outputs(args: Args) -> list[te.Operation]:
    """The operations of the results among some arguments."""
    made = [a.op for a in args if not isinstance(a, Var)]
    return list(dict.fromkeys(op for op in made if isinstance(op, te.ComputeOp)))


def text(func: PrimFunc) -> str:
    """A program as text."""
    return script(func).rstrip()
