"""What the schedule tests share: programs, the interpreter as oracle, docstring programs."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from smelt import te
from smelt.artifact.constants import preparations
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule


def matmul(m: Any = 37, n: Any = 51, k: Any = 29, relu: bool = False) -> PrimFunc:
    """C = A B, or max(A B, 0)."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    if not relu:
        return te.create_prim_func([a, b, c])
    d = te.compute((m, n), lambda i, j: te.maximum(c[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, d])


def chain(m: Any = 12, n: Any = 10) -> PrimFunc:
    """D = (A + 1) * 2 - 3, in three blocks."""
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] - 3.0, name="D")
    return te.create_prim_func([a, d])


def softmax(m: Any = 5, n: Any = 13) -> PrimFunc:
    """The row-wise softmax in four blocks (without exp: any function of x - max will do)."""
    x = te.placeholder((m, n), name="X")
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "k2")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((m, n), lambda i, j: (x[i, j] - top[i]) * 0.5, name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    y = te.compute((m, n), lambda i, j: e[i, j] / (total[i] + 0.25), name="Y")
    return te.create_prim_func([x, y])


def conv(
    n: int = 1, c: int = 6, h: int = 9, w: int = 10, o: int = 20, kernel: int = 3, stride: int = 1
) -> PrimFunc:
    """relu(conv2d(pad(X), W) + bias + R)."""
    x, f = te.placeholder((n, c, h, w), name="X"), te.placeholder((o, c, kernel, kernel), name="W")
    oh, ow = (h + 2 - kernel) // stride + 1, (w + 2 - kernel) // stride + 1
    bias, rest = te.placeholder((o,), name="bias"), te.placeholder((n, o, oh, ow), name="R")
    pad = te.compute(
        (n, c, h + 2, w + 2),
        lambda b, k, i, j: te.if_then_else(
            te.all_of(i >= 1, i < h + 1, j >= 1, j < w + 1), x[b, k, i - 1, j - 1], 0.0
        ),
        name="pad",
    )
    rc, ry, rx = (
        te.reduce_axis((0, e), name) for e, name in ((c, "rc"), (kernel, "ry"), (kernel, "rx"))
    )
    y = te.compute(
        (n, o, oh, ow),
        lambda b, k, i, j: te.sum(
            pad[b, rc, i * stride + ry, j * stride + rx] * f[k, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    d = te.compute(y.shape, lambda b, k, i, j: y[b, k, i, j] + bias[k], name="badd")
    e = te.compute(y.shape, lambda b, k, i, j: d[b, k, i, j] + rest[b, k, i, j], name="radd")
    out = te.compute(y.shape, lambda b, k, i, j: te.maximum(e[b, k, i, j], 0.0), name="relu")
    return te.create_prim_func([x, f, bias, rest, out])


def results(
    func: PrimFunc,
    sizes: dict[str, int] | None = None,
    seed: int = 0,
    made: Mapping[int, PrimFunc] | None = None,
) -> list[np.ndarray[Any, Any]]:
    """The buffer parameters after the function has run on small random integers.

    made  programs that make parameters, by their numbers, of those of the first program
    """
    rng = np.random.default_rng(seed)
    sizes = sizes or {}
    arrays: list[np.ndarray[Any, Any]] = []
    args: list[Any] = []
    for p in func.params:
        if isinstance(p, Buffer):
            how = (made or {}).get(len(arrays))
            given = p if how is None else how.buffers[0]
            shape = tuple([extent(e, sizes) for e in given.shape])
            arrays.append(rng.integers(-4, 5, shape).astype(p.dtype))
            if how is not None:
                new = np.zeros([extent(e, sizes) for e in p.shape], p.dtype)
                interpret(how, arrays[-1], new)
                arrays[-1] = new
            args.append(arrays[-1])
        else:
            args.append(sizes[p.name])
    interpret(func, *args, order="random", seed=seed)
    return arrays


def extent(e: Expr, sizes: dict[str, int]) -> int:
    """An extent with the symbolic sizes known."""
    known: dict[Var, Expr] = {v: const(sizes[v.name]) for v in free_vars(e)}
    value = value_of(substitute(e, known))
    assert value is not None
    return value


def run(func: PrimFunc, sizes: dict[str, int] | None = None, seed: int = 0) -> np.ndarray[Any, Any]:
    """The last buffer parameter after the function has run on small random integers."""
    return results(func, sizes, seed)[-1]


def same(sch: Schedule, func: PrimFunc, sizes: dict[str, int] | None = None) -> None:
    """Assert that the scheduled program computes what the first one does; parameters that it wants
    anew are made of those."""
    made = {p.makes[0]: p.func for p in preparations(sch)}
    found = zip(results(sch.func, sizes, made=made), results(func, sizes), strict=True)
    for n, (a, b) in enumerate(found):
        if n not in made:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@functools.cache
def axpy() -> tuple[PrimFunc, PrimFunc]:
    """C[0:8] = C[0:8] + A[0] * B[0:8], described element by element and written with vectors."""
    head = (
        '@T.prim_func\ndef axpy(A: T.Buffer((1,), "float32"), B: T.Buffer((8,), "float32"), '
        'C: T.Buffer((8,), "float32")):\n'
    )
    described = """
    for j in range(8):
        with T.block("axpy"):
            v = T.axis.spatial(8, j)
            C[v] = C[v] + A[0] * B[v]
"""
    every = "T.ramp(0, 1, 8)"
    done = f"    C[{every}] = C[{every}] + T.broadcast(A[0], 8) * B[{every}]\n"
    return parse(head + described), parse(head + done)


# ------------------------------------------------------------------------------------ docstrings


def documented() -> Iterator[tuple[str, str, str, str]]:
    """(primitive, before, step, after) of every primitive whose docstring has them."""
    for name, method in inspect.getmembers(Schedule, inspect.isfunction):
        if getattr(method, "is_primitive", False) and "Before\n" in (method.__doc__ or ""):
            text = inspect.cleandoc(method.__doc__ or "")
            before, rest = text.split("Before\n", 1)[1].split("\nStep ", 1)
            step, rest = rest.split("\nAfter\n", 1)
            after = rest.split("\nNeeds", 1)[0]
            yield name, textwrap.dedent(before), step.strip(), textwrap.dedent(after)


def program(body: str, like: PrimFunc | None = None) -> PrimFunc:
    """A function around statements.

    Arrays that it does not allocate are parameters, as large as used or as those of `like`.
    """
    tree = ast.parse(body)
    shapes: dict[str, tuple[int, ...]] = {}
    _measure(tree.body, {}, shapes)
    for b in like.buffers if like is not None else ():
        shapes[b.name] = b.fixed_shape() or ()
    own = {
        t.id
        for s in tree.body
        if isinstance(s, ast.Assign)
        for t in s.targets
        if isinstance(t, ast.Name)
    }
    params = ", ".join(
        f'{n}: T.Buffer({s}, "float32")' for n, s in sorted(shapes.items()) if n not in own
    )
    return parse(f"@T.prim_func\ndef main({params}):\n{textwrap.indent(body.rstrip(), '    ')}\n")


def _measure(nodes: list[Any], ranges: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> None:
    for s in nodes:
        if type(s) is ast.For:
            target: Any = s.target
            names = [t.id for t in getattr(target, "elts", [target])]
            grid: Any = s.iter
            args = [ast.literal_eval(a) for a in grid.args]
            _measure(s.body, {**ranges, **dict(zip(names, args, strict=True))}, shapes)
        elif isinstance(s, ast.With):
            ranges = dict(ranges)
            _measure(s.body, ranges, shapes)
        elif isinstance(s, ast.Assign) and "T.axis." in ast.unparse(s):
            left: Any = s.targets[0]
            call: Any = s.value
            if call.func.attr == "remap":
                names = [t.id for t in getattr(left, "elts", [left])]
                values = [x.id for x in call.args[1].elts]
                ranges.update({n: ranges[v] for n, v in zip(names, values, strict=True)})
            else:
                ranges[left.id] = ast.literal_eval(call.args[0])
        elif isinstance(s, ast.Assign):
            for n in ast.walk(s):
                if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name):
                    _use(n, ranges, shapes)


def _use(n: Any, ranges: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> None:
    indices = n.slice.elts if isinstance(n.slice, ast.Tuple) else [n.slice]
    used = sorted({x.id for x in ast.walk(n.slice) if isinstance(x, ast.Name)})
    if not ranges.keys() >= set(used) or any(isinstance(i, ast.Slice) for i in indices):
        return  # an index that is data, or a vector; `like` knows the shape
    code = [compile(ast.Expression(i), "", "eval") for i in indices]
    sizes = [
        1
        + max(
            eval(c, {}, dict(zip(used, point, strict=True)))
            for point in itertools.product(*[range(ranges[u]) for u in used])
        )
        for c in code
    ]
    name = n.value.id
    old = shapes.get(name, tuple([0] * len(sizes)))
    shapes[name] = tuple([max(a, b) for a, b in zip(old, sizes, strict=True)])
