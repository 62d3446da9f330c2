"""Constant weights of a few bits stay so, where they are multiplied with floats or rows of them are
looked up.

    matmul(x, dequantize(q))      =  matmul_in_blocks(x, q)
    gather(dequantize(q), i)      =  dequantize(gather(q, i))     rows alone

Else they would be folded: a constant that is dequantized is a constant of float32. What is computed
in integers is none of these products any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.relax.compose.common import (
    array_of,
    dtype_of,
    extents,
    normal_axis,
    rank_of,
    scalar,
    shape_of,
)
from smelt.relax.folding import folded
from smelt.relax.nodes import Call, RelaxExpr, call, constant, values
from smelt.relax.views import transpose_axes
from smelt.topi.blocks import WEIGHTS, WORD
from smelt.topi.reference import Array

from .fake_quantization import CORE
from .rewriting import functions_of, transform_functions


def keep_few_bits(mod: IRModule) -> IRModule:
    """A module whose products with dequantized constants are of the integers."""
    if not any(CORE.dequantizes(v) for f in functions_of(mod).values() for v in values(f.body)):
        return mod
    return transform_functions(mod, lambda old, new: _kept(new))


def _kept(n: Any) -> RelaxExpr | None:
    if not isinstance(n, Call):
        return None
    match n.callee:
        case "matmul":
            return _product(n)
        case "gather":
            return _rows(n)
    return None


@dataclass(frozen=True)
class _Weights:
    """A constant of integers, and what they are dequantized by: of as many dimensions, or numbers.

    dtype  of the integers
    shape  that the dequantized constant is seen in
    """

    dtype: str
    q: Array
    scale: Array
    zero: Array | None
    shape: tuple[int, ...]


def _weights(v: Any) -> _Weights | None:
    """A dequantized constant of a few bits, perhaps in another shape."""
    seen = v
    while isinstance(v, Call) and v.callee == "reshape":
        v = v.args[0]
    if not isinstance(v, Call) or not CORE.dequantizes(v) or v.attrs["out_dtype"] != "float32":
        return None
    given = [a for a in v.args if a is not None]
    dtype, shape = dtype_of(given[0]), extents(seen)
    arrays = [array_of(folded(a)) for a in given]
    if dtype not in WEIGHTS or None in shape or any(a is None for a in arrays):
        return None
    q, scale, zero = [*[a for a in arrays if a is not None], None][:3]
    assert q is not None
    assert scale is not None
    axis = normal_axis(v.attrs["axis"], q.ndim)

    def spread(a: Array) -> Array:
        if a.size == 1:
            return a.reshape((1,) * q.ndim)
        if a.ndim > 1:
            return a.reshape((1,) * (q.ndim - a.ndim) + a.shape)
        return a.reshape([-1 if d == axis else 1 for d in range(q.ndim)])

    move = None if zero is None or not np.any(zero) else spread(zero)
    return _Weights(dtype, q, spread(scale), move, tuple([int(e or 0) for e in shape]))


# ------------------------------------------------------------------------------------ products


def _product(n: Call) -> RelaxExpr | None:
    """matmul(x, dequantize(q))  =  matmul_in_blocks(x, q)"""
    x, w = n.args
    turned = bool(n.attrs["transpose_b"])
    if isinstance(w, Call) and w.callee == "transpose" and rank_of(w) == 2:
        turned ^= transpose_axes(w.attrs, 2) == (1, 0)
        w = w.args[0]
    if n.attrs["transpose_a"] or n.attrs["out_dtype"] or x is None or dtype_of(x) != "float32":
        return None
    found = _weights(w)
    if found is None or len(found.shape) != 2:
        return None
    cut = _in_blocks(found, int(turned))
    if cut is None or cut[0] * dt.width(found.dtype) < WORD:
        return None
    block, scale, zero = cut
    q = constant(found.q.reshape(found.shape))
    return call("matmul_in_blocks", x, q, constant(scale),
                None if zero is None else constant(zero), block=block, transpose=turned,
                name=n.name)  # fmt: skip


def _in_blocks(w: _Weights, along: int) -> tuple[int, Array, Array | None] | None:
    """The size of blocks along a dimension, a scale and a zero for each; None: they lie otherwise.

    Blocks are a dimension of the integers, or neighbours with equal numbers.
    """
    sizes = list(w.q.shape)
    apart = len(sizes) == 3 and sizes[along] * sizes[along + 1] == w.shape[along]
    if not apart and w.q.shape != w.shape:
        return None
    given = [w.scale, *([] if w.zero is None else [w.zero])]
    if apart:
        if any(a.shape[along + 1] != 1 for a in given):
            return None
        found = [a.squeeze(along + 1) for a in given]
        block, count = sizes[along + 1], sizes[along]
    else:
        found, depth = given, sizes[along]
        block = min([_run(a, along) or depth for a in given])
        count = -(-depth // block)
        starts = np.arange(0, depth, block)
        short = [a.take(starts, along) if a.shape[along] > 1 else a for a in found]
        again = [a.repeat(block, along).take(np.arange(depth), along) if a.shape[along] > 1 else a
                 for a in short]  # fmt: skip
        if not all(np.array_equal(a, b) for a, b in zip(found, again, strict=True)):
            return None
        found = short
    whole = [count if d == along else e for d, e in enumerate(w.shape)]
    scale, *zero = [np.ascontiguousarray(np.broadcast_to(a, whole)) for a in found]
    return block, scale, zero[0] if zero else None


def _run(a: Array, along: int) -> int:
    """How many of the first numbers along a dimension are equal; 0: all of them."""
    if a.shape[along] == 1:
        return 0
    first = a.take([0], along)
    other = (a != first).any(axis=1 - along)
    return int(other.argmax())


# ------------------------------------------------------------------------------------- look-ups


def _rows(n: Call) -> RelaxExpr | None:
    """gather(dequantize(q), i)  =  dequantize(gather(q, i))"""
    table, indices = n.args
    if table is None or indices is None or normal_axis(n.attrs["axis"], rank_of(table)) != 0:
        return None
    found = _weights(table)
    if found is None or found.q.shape[0] != found.shape[0] or found.q.shape[0] == 1:
        return None

    def picked(a: Array) -> RelaxExpr:
        if a.shape[0] == 1:
            return constant(a.reshape(a.shape[1:] if a.size > 1 else ()))
        return call("gather", constant(a), indices, axis=0, mode=n.attrs["mode"])

    rows, zero, low = found.q, found.zero, dt.limits(found.dtype)[0]
    if dt.width(found.dtype) == 4 and rows.shape[-1] % 2 == 0:  # two numbers to a byte
        first, second = np.split((rows.astype(np.int16) - low).astype(np.uint8), 2, axis=-1)
        both = picked(first | second << 4)
        parts = [call("bitwise_and", both, scalar(15, "uint8")),
                 call("right_shift", both, scalar(4, "uint8"))]  # fmt: skip
        whole: RelaxExpr = call("concat", *parts, axis=rank_of(both) - 1)
        zero = np.zeros((1,) * rows.ndim, np.int16) if zero is None else zero.astype(np.int16)
        zero = (zero - low).astype(np.uint8)
    else:
        whole = picked(rows)
    move = None if zero is None else picked(zero)
    y = call("dequantize", whole, picked(found.scale), move, axis=-1, out_dtype="float32",
             name=n.name)  # fmt: skip
    return call("reshape", y, shape=shape_of(n))
