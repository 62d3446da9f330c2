"""Block programs from tensor expressions, and the interpreter as the judge of what passes do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import te
from smelt.ir import dtype as dt
from smelt.ir.build import call, select, value_of
from smelt.ir.expr import IntImm, Var, const
from smelt.ir.walk import substitute
from smelt.pipeline import LOWER
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.printer import script
from tests.schedule.support import conv, matmul, softmax

Array = np.ndarray[Any, Any]
Build = Callable[..., PrimFunc]


def pool(c: int = 3, h: int = 7, w: int = 9, kernel: int = 3, stride: int = 2) -> PrimFunc:
    """The largest value of every window of a padded image, channels last."""
    x = te.placeholder((h, w, c), name="X")
    oh, ow = (h + 2 - kernel) // stride + 1, (w + 2 - kernel) // stride + 1
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")

    def window(i: Any, j: Any, k: Any) -> Any:
        y, z = i * stride + ry - 1, j * stride + rx - 1
        inside = te.all_of(y >= 0, y < h, z >= 0, z < w)
        return te.max(te.if_then_else(inside, x[y, z, k], float("-inf")), axis=[ry, rx])

    return te.create_prim_func([x, te.compute((oh, ow, c), window, name="P")], "pool")


def argmax(m: Any = 4, n: Any = 11) -> PrimFunc:
    """The largest value of each row and where it is: two buffers, of which one is not asked for."""
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")

    def join(a: Any, b: Any) -> Any:
        better = te.any_of(b[0] > a[0], te.all_of(b[0] == a[0], b[1] < a[1]))
        return select(better, b[0], a[0]), select(better, b[1], a[1])

    def start(t: str, u: str) -> Any:
        return te.min_value(t), const(1 << 40, u)

    best = te.comm_reducer(join, start, name="argmax")
    _, place = te.compute((m,), lambda i: best((x[i, k], k.var + 0), axis=k), name="best")
    out = te.compute((m,), lambda i: place[i] + 1, name="out")
    return te.create_prim_func([x, out], "argmax")


def concat(m: Any = 5, a: Any = 3, b: Any = 6) -> PrimFunc:
    """Two matrices side by side, then something elementwise."""
    x, y = te.placeholder((m, a), name="X"), te.placeholder((m, b), name="Y")
    z = te.compute((m, a + b), lambda i, j: te.if_then_else(j < a, x[i, j], y[i, j - a]), name="Z")
    out = te.compute((m, a + b), lambda i, j: te.maximum(z[i, j] * 0.5, -1.0), name="out")
    return te.create_prim_func([x, y, out], "concat")


def elementwise(m: Any = 6, n: Any = 7) -> PrimFunc:
    """Mixed types: a quotient that rounds down, a conversion, a function."""
    x, y = te.placeholder((m, n), name="X"), te.placeholder((n,), "int32", name="Y")
    q = te.compute((m, n), lambda i, j: (y[j] * 3 - 7) // 4 + y[j] % 3, name="Q")
    out = te.compute(
        (m, n), lambda i, j: call("abs", x[i, j]) + q[i, j].astype("float32"), name="O"
    )
    return te.create_prim_func([x, y, out], "elementwise")


def transposed(m: Any = 6, n: Any = 7) -> PrimFunc:
    """A transposition in the middle of other work."""
    x = te.placeholder((m, n), name="X")
    t = te.compute((n, m), lambda i, j: x[j, i] + 1.0, name="T")
    out = te.compute((n, m), lambda i, j: t[i, j] * t[i, 0], name="O")
    return te.create_prim_func([x, out], "transposed")


def interleaved(m: Any = 3, n: Any = 21) -> PrimFunc:
    """Two rows of which an element each stands in turn, in bytes."""
    x = te.placeholder((2 * m, n), "int8", name="X")
    out = te.compute((m, n, 2), lambda i, j, e: x[i * 2 + e, j], name="O")
    return te.create_prim_func([x, out], "interleaved")


BUILDERS: dict[str, Build] = {
    "matmul": matmul,
    "dense": lambda m, n, k: matmul(m, n, k, relu=True),
    "conv": conv,
    "pool": pool,
    "softmax": softmax,
    "argmax": argmax,
    "concat": concat,
    "elementwise": elementwise,
    "transposed": transposed,
    "interleaved": interleaved,
}


def arrays(func: PrimFunc, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    """Arguments: small integers, so that sums are exact in any order; results begin as 99."""
    rng = np.random.default_rng(seed)
    values = {p: IntImm(p.type, sizes[p.name]) for p in func.params if isinstance(p, Var)}
    out: list[Any] = []
    for p in func.params:
        if isinstance(p, Var):
            out.append(sizes[p.name])
            continue
        shape = [value_of(substitute(e, values)) or 0 for e in p.shape]
        out.append(np.array(rng.integers(-4, 5, shape)).astype(dt.to_numpy(p.type)))
    return out


def result(func: PrimFunc, given: list[Any]) -> list[Array]:
    """What the buffers hold afterwards; workspaces are handed in."""
    mine = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    sizes = {p: IntImm(p.type, int(a)) for p, a in zip(func.params, mine, strict=False)
             if isinstance(p, Var)}  # fmt: skip
    for p in func.params[len(mine) :]:
        assert isinstance(p, Buffer)
        shape = [value_of(substitute(e, sizes)) or 0 for e in p.shape]
        mine.append(np.full(shape, 77).astype(dt.to_numpy(p.type)))
    for n, (p, a) in enumerate(zip(func.params, mine, strict=True)):
        if isinstance(p, Buffer) and p.rank == 1:
            mine[n] = a.reshape(-1)
    with np.errstate(all="ignore"):
        interpret(func, *mine)
    return [a.reshape(-1) for a in mine[: len(given)] if isinstance(a, np.ndarray)]


def close(found: list[Array], expected: list[Array], what: str) -> None:
    """Equal; floats but for the roundings that a fused multiply-add saves."""
    for a, b in zip(found, expected, strict=True):
        if dt.is_float(dt.from_numpy(b.dtype)):
            np.testing.assert_allclose(
                a.astype("float64"), b.astype("float64"), rtol=1e-5, atol=1e-5, err_msg=what
            )
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


def every_pass_keeps_the_result(
    func: PrimFunc, sizes: dict[str, int], original: PrimFunc
) -> PrimFunc:
    """The flat program; asserts that no pass of LOWER changes what comes out."""
    given = arrays(original, sizes)
    expected = result(original, given)
    close(result(func, given), expected, "schedule\n" + script(func))
    for step in LOWER:
        new = step.fn(func)
        if new is not func:
            text = f"{step.file}\n{script(func)}\n->\n{script(new)}"
            close(result(new, given), expected, text)
        func = new
    return func
