"""A vectorised evaluator of tensor expressions: fast enough for every operator and shape.

It checks what the loop interpreter checks: no load that counts may be out of bounds.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir import expr as ex
from smelt.ir.build import is_const
from smelt.te.prim_func import program_of
from smelt.te.tensor import ComputeOp, ExternOp, Tensor, topological
from smelt.tir.interpret import interpret as run_program
from smelt.tir.nodes import BufferLoad, Reduce

Array = np.ndarray[Any, Any]

BINARY: dict[type, Any] = {
    ex.Add: np.add, ex.Sub: np.subtract, ex.Mul: np.multiply, ex.FloorDiv: np.floor_divide,
    ex.FloorMod: np.mod, ex.TruncMod: np.fmod, ex.Min: np.minimum, ex.Max: np.maximum,
    ex.EQ: np.equal, ex.NE: np.not_equal, ex.LT: np.less, ex.LE: np.less_equal,
    ex.GT: np.greater, ex.GE: np.greater_equal, ex.And: np.logical_and, ex.Or: np.logical_or,
}  # fmt: skip


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)))


def _leading_zeros(x: Array) -> Array:
    width = 8 * np.asarray(x).dtype.itemsize
    return np.asarray(
        np.vectorize(lambda v: width - (int(v) % (1 << width)).bit_length(), otypes=[int])(x)
    )


CALLS: dict[str, Any] = {
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": _erf,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "round": np.rint, "pow": np.power,
    "fma": lambda a, b, c: np.asarray(a, np.float64) * b + c,
    "shift_left": np.left_shift, "shift_right": np.right_shift, "bitwise_not": np.invert,
    "clz": _leading_zeros,
}  # fmt: skip


def evaluate(
    outputs: tuple[Tensor, ...], feeds: dict[Tensor, Array], sizes: dict[Any, int]
) -> list[Array]:
    known: dict[Tensor, Array] = dict(feeds)
    with np.errstate(all="ignore"):
        for op in topological(outputs):
            if isinstance(op, ComputeOp):
                known.update(_compute(op, known, sizes))
            elif isinstance(op, ExternOp):
                known.update(_program(op, known, sizes))
    return [known[t] for t in outputs]


def _program(
    op: ExternOp, known: dict[Tensor, Array], sizes: dict[Any, int]
) -> dict[Tensor, Array]:
    """A statement has one meaning only: that of the interpreter of loops."""
    func = program_of([*op.inputs, *op.outputs], [op], op.name)
    outs = {
        t: np.zeros([int(_eval(e, sizes, known, True)) for e in t.shape], dt.to_numpy(t.dtype))
        for t in op.outputs
    }
    arrays = [np.array(known[t], order="C") for t in op.inputs]
    scalars = [sizes[p] for p in func.params if isinstance(p, ex.Var)]
    run_program(func, *arrays, *outs.values(), *scalars)
    return dict(outs)


def _compute(
    op: ComputeOp, known: dict[Tensor, Array], sizes: dict[Any, int]
) -> dict[Tensor, Array]:
    axes = (*op.axis, *op.reduce_axis)
    env: dict[Any, Any] = {v: np.int64(n) for v, n in sizes.items()}
    extents = [int(_eval(a.dom.extent, env, known, True)) for a in axes]
    for d, (a, n) in enumerate(zip(axes, extents, strict=True)):
        env[a.var] = np.arange(n).reshape([-1 if k == d else 1 for k in range(len(axes))])
    rank = len(op.axis)
    out: dict[Tensor, Array] = {}
    if op.reduce_axis:
        first = op.body[0]
        assert isinstance(first, Reduce)
        values = [np.broadcast_to(_eval(s, env, known, True), extents) for s in first.sources]
        assert is_const(first.condition, 1)
        return dict(zip(op.outputs, _fold(first, values, rank, known), strict=True))
    for t, e in zip(op.outputs, op.body, strict=True):
        value = np.asarray(_eval(e, env, known, True))
        out[t] = np.broadcast_to(value, extents).astype(dt.to_numpy(t.dtype))
    return out


FAST = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _fold(e: Reduce, values: list[Array], rank: int, known: dict[Tensor, Array]) -> list[Array]:
    shape = values[0].shape[rank:]
    if e.combiner.name in FAST and len(values) == 1:
        v = values[0]
        return [FAST[e.combiner.name].reduce(v, axis=tuple(range(rank, v.ndim)), dtype=v.dtype)]
    total = [
        np.full(values[0].shape[:rank], _eval(i, {}, known, True)) for i in e.combiner.identity
    ]
    for place in itertools.product(*map(range, shape)):
        env: dict[Any, Any] = dict(zip(e.combiner.lhs, total, strict=True))
        env.update(
            zip(e.combiner.rhs, [v[(slice(None),) * rank + place] for v in values], strict=True)
        )
        total = [np.asarray(_eval(r, env, known, True)) for r in e.combiner.result]
    return total


def _eval(e: ex.Expr, env: dict[Any, Any], known: dict[Tensor, Array], where: Any) -> Any:
    """The values of `e` at all points; loads are checked where `where` is true."""

    def go(c: ex.Expr) -> Any:
        return _eval(c, env, known, where)

    match e:
        case ex.IntImm() | ex.FloatImm():
            return dt.to_numpy(e.dtype).type(e.value)
        case ex.Var():
            return env[e]
        case BufferLoad(buffer, indices):
            data = known[buffer]  # type: ignore[index]
            index = []
            for i, n in zip(indices, data.shape, strict=True):
                at = go(i)
                bad = where & ((at < 0) | (at >= n))
                assert not np.any(bad), f"{buffer.name}: index {at} of extent {n}"
                index.append(np.clip(at, 0, n - 1))
            if not data.size:  # no point of these reads
                return np.zeros(np.broadcast_shapes(*[np.shape(i) for i in index]), data.dtype)
            return data[tuple(index)]
        case ex.Not(a):
            return np.logical_not(go(a))
        case ex.Select(c, a, b):
            return np.where(go(c), go(a), go(b))
        case ex.Call(_, "if_then_else", (c, a, b)):
            test = go(c)
            left = _eval(a, env, known, where & test)
            return np.where(test, left, _eval(b, env, known, where & np.logical_not(test)))
        case ex.Cast(t, v):
            return np.asarray(go(v)).astype(dt.to_numpy(t))
        case ex.Call(t, "reinterpret", (a,)):
            return np.asarray(go(a)).view(dt.to_numpy(t))
        case ex.Call(t, name, args):
            fn = CALLS.get(name) or getattr(np, name)
            return np.asarray(fn(*[go(a) for a in args])).astype(dt.to_numpy(t))
        case ex.Div() | ex.TruncDiv():
            return _divide(go(e.a), go(e.b), dt.is_float(e.dtype), dt.to_numpy(e.dtype))
        case ex.Binary():
            return BINARY[type(e)](go(e.a), go(e.b))
    raise AssertionError(type(e).__name__)


def _divide(a: Any, b: Any, floats: bool, dtype: Any) -> Any:
    if floats:
        return np.true_divide(a, b).astype(dtype)
    assert np.all(b != 0), "integer division by zero"
    return np.trunc(np.asarray(a, np.longdouble) / np.asarray(b, np.longdouble)).astype(dtype)
