"""Laws of data movement: moves that do nothing, meet, or can be left to the operator behind.

In the laws s, s1, s2 are shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import SmeltError
from smelt.ir.expr import Expr, convert
from smelt.relax.graph_op import by_element
from smelt.relax.nodes import Call, Constant, RelaxExpr, renewed_call, tensor_type_of
from smelt.relax.views import transpose_axes
from smelt.topi.conv import CONVOLUTIONS

from .engine import GraphRewriter, RuleSet
from .match import dims, dtype_of, given, is_op, op_name, shape_of, type_is
from .reshape_through import reshaped

MOVE_RULES = RuleSet()
rule = MOVE_RULES.rule


def axes_of_transpose(n: Call) -> tuple[int, ...]:
    """The order of dimensions, counted from the front."""
    return transpose_axes(n.attrs, tensor_type_of(n).rank)


# -------------------------------------------------------------------------- reshape, transpose


@rule("reshape", "broadcast_to", "tile", "transpose", "flip", "pad", "strided_slice", "concat",
      "expand_dims", "squeeze")  # fmt: skip
def no_move(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A move that changes neither shape nor order  =  x"""
    x = n.args[0]
    if len(n.args) != 1 or not type_is(x, n):
        return None
    match op_name(n):
        case "transpose":
            same = axes_of_transpose(n) == tuple(range(tensor_type_of(n).rank))
        case "flip":
            same = all(dims(x)[a] == 1 for a in n.attrs["axes"])
        case "pad":
            same = all(value_of(convert(p)) == 0 for p in n.attrs["pads"])
        case "strided_slice":
            same = all(value_of(convert(b)) == 0 for b in n.attrs["begin"])
            same = same and all(s == 1 for s in n.attrs["strides"] or ())
        case _:
            same = True
    return x if same else None


@rule("expand_dims", "squeeze")
def as_reshape(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """expand_dims, squeeze  =  reshape"""
    return g.call("reshape", n.args[0], shape=shape_of(n))


@rule("reshape", "broadcast_to")
def reshape_reshape(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """reshape(reshape(x, s1), s2)  =  reshape(x, s2)        broadcast_to likewise"""
    (x,) = n.args
    return g.call(n.callee, x.args[0], shape=shape_of(n)) if is_op(x, n.callee) else None


@rule("reshape")
def reshape_cancels(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """reshape(f(reshape(x, s1)), s2)  =  f(x)   where f works row by row and x has shape s2"""
    (x,) = given(n)
    return reshaped(g, x, shape_of(n), 8) if not is_op(x, "reshape") else None


@rule("transpose")
def transpose_transpose(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """transpose(transpose(x, a), b)  =  transpose(x, a[b])"""
    (x,) = n.args
    if not is_op(x, "transpose"):
        return None
    inner = axes_of_transpose(x)
    return g.call("transpose", x.args[0], axes=tuple([inner[a] for a in axes_of_transpose(n)]))


@rule("transpose")
def transpose_of_ones(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """transpose(x, a)  =  reshape(x)   where a moves extents of 1 only"""
    sizes = dims(n.args[0])
    moved = [a for a in axes_of_transpose(n) if sizes[a] != 1]
    return g.call("reshape", n.args[0], shape=shape_of(n)) if moved == sorted(moved) else None


def _runs(old: Sequence[Expr], new: Sequence[Expr]) -> list[list[int]] | None:
    """For each new extent the old dimensions that it is the product of; None if it is none."""
    runs: list[list[int]] = []
    at = 0
    for e in new:
        run: list[int] = []
        total: Expr | None = None
        while at < len(old) and total is not e:
            if total is not None and (value_of(e) or 0) < (value_of(total) or 0):
                return None
            total = old[at] if total is None else total * old[at]
            run.append(at)
            at += 1
        if total is not e:
            return None
        runs.append(run)
    while at < len(old) and runs and value_of(old[at]) == 1:
        runs[-1].append(at)
        at += 1
    return runs if at == len(old) else None


@rule("reshape")
def transpose_between_reshapes(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """reshape(transpose(reshape(x, s1), a), s2)  =  reshape(transpose(x, a'), s2)
    where s1 only joins dimensions of x"""
    (t,) = n.args
    if not is_op(t, "transpose") or not is_op(t.args[0], "reshape") or not g.single(t):
        return None
    inner = t.args[0]
    runs = _runs(shape_of(inner.args[0]), shape_of(inner))
    if runs is None or not g.single(inner):
        return None
    axes = [d for a in axes_of_transpose(t) for d in runs[a]]
    moved = g.call("transpose", inner.args[0], axes=tuple(axes))
    return g.call("reshape", moved, shape=shape_of(n))


@rule("matmul")
def transpose_into_matmul(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """matmul(a, b transposed)  =  matmul(a, b, transpose_b=True); a likewise"""
    operands, attrs = list(n.args), dict(n.attrs)
    for i, name in enumerate(("transpose_a", "transpose_b")):
        x = operands[i]
        if is_op(x, "transpose"):
            axes, rank = axes_of_transpose(x), tensor_type_of(x).rank
            if rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2):
                operands[i], attrs[name] = x.args[0], not attrs[name]
    return g.call("matmul", *operands, **attrs) if attrs != n.attrs else None


# ---------------------------------------------------------------------------------- broadcast


@rule(lambda op: op.variadic or len(op.operands) > 1)
def broadcast_dropped(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """op(broadcast_to(x), y)  =  op(x, y)    op([[k]], y)  =  op(k, y)
    where y has the extents already"""
    for i, x in enumerate(n.args):
        one = isinstance(x, Constant) and x.data.size == 1 and x.data.ndim > 0
        if not one and not is_op(x, "broadcast_to"):
            continue
        small = g.reshaped(x, ()) if isinstance(x, Constant) else x.args[0]  # type: ignore[union-attr]
        if _broadcasts(n, x, small):
            try:
                new = renewed_call(n, *n.args[:i], small, *n.args[i + 1 :])
            except SmeltError:
                continue
            if type_is(new, n) and _broadcasts(new, x, small):
                return g.rewritten(new)
    return None


def _broadcasts(n: Call, x: RelaxExpr | None, small: RelaxExpr | None) -> bool:
    """Whether an operator may have the smaller operand: products repeat all but two dimensions."""
    if is_op(n, "matmul"):
        return shape_of(small)[-2:] == shape_of(x)[-2:]
    return by_element(n)


# ------------------------------------------------------------------------------ slice, concat


def _slices(n: Call) -> dict[int, tuple[int, int, int]] | None:
    """axis -> (begin, end, stride) of a slice with numbers and steps forward."""
    rank, found = tensor_type_of(n).rank, {}
    strides = n.attrs["strides"] or (1,) * len(n.attrs["axes"])
    for a, b, e, s in zip(n.attrs["axes"], n.attrs["begin"], n.attrs["end"], strides, strict=True):
        begin, end = value_of(convert(b)), value_of(convert(e))
        if begin is None or end is None or s < 0:
            return None
        found[a % rank] = (begin, end, s)
    return found


def _slice(
    g: GraphRewriter, x: RelaxExpr | None, cuts: dict[int, tuple[int, int, int]]
) -> RelaxExpr:
    axes = sorted(cuts)
    begin, end, strides = zip(*[cuts[a] for a in axes], strict=True)
    return g.call("strided_slice", x, axes=tuple(axes), begin=begin, end=end, strides=strides)


@rule("strided_slice")
def slice_slice(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A slice of a slice  =  one slice"""
    (x,) = n.args
    if not is_op(x, "strided_slice"):
        return None
    outer, inner = _slices(n), _slices(x)
    if outer is None or inner is None:
        return None
    for a, (b, e, s) in outer.items():
        b0, e0, s0 = inner.get(a, (0, 1 << 62, 1))
        inner[a] = (b0 + b * s0, min(e0, b0 + e * s0), s * s0)
    return _slice(g, x.args[0], inner)


@rule("strided_slice")
def slice_of_concat(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A slice of concat that lies in one part  =  a slice of that part"""
    (x,) = n.args
    cuts = _slices(n)
    if not is_op(x, "concat") or cuts is None:
        return None
    axis = x.attrs["axis"] % tensor_type_of(x).rank
    if axis not in cuts:
        return None
    begin, end, stride = cuts[axis]
    at = 0
    for part in x.args:
        extent = dims(part)[axis]
        if extent is None:
            return None
        if at <= begin and end <= at + extent:
            return _slice(g, part, {**cuts, axis: (begin - at, end - at, stride)})
        at += extent
    return None


@rule("concat")
def concat_concat(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """concat(concat(a, b), c)  =  concat(a, b, c)   along one axis"""
    rank = tensor_type_of(n).rank
    axis = n.attrs["axis"] % rank
    parts: list[RelaxExpr | None] = []
    for x in n.args:
        if is_op(x, "concat") and g.single(x) and x.attrs["axis"] % rank == axis:
            parts += x.args
        elif dims(x)[axis] != 0 or len(n.args) == 1:
            parts.append(x)
    if parts == list(n.args) or not parts:
        return None
    return g.call("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


@rule("flip")
def flip_flip(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """flip(flip(x, a), a)  =  x"""
    (x,) = n.args
    if not is_op(x, "flip"):
        return None
    outer, inner = ({a % tensor_type_of(n).rank for a in m.attrs["axes"]} for m in (n, x))
    return x.args[0] if outer == inner else None


@rule("gather")
def gather_known(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """gather(x, k)  =  reshape(slice k of x)        gather(x, [k, k + 1, ...])  =  a slice of x"""
    x, indices = n.args
    if not isinstance(indices, Constant) or isinstance(x, Constant) or indices.data.ndim > 1:
        return None
    axis = n.attrs["axis"] % tensor_type_of(x).rank
    extent = dims(x)[axis]
    if extent is None or not indices.data.size:
        return None
    at = indices.data.astype(np.int64).reshape(-1)
    at = np.where(at < 0, at + extent, at)
    begin, end = int(at[0]), int(at[-1]) + 1
    if begin < 0 or end > extent or not np.array_equal(at, np.arange(begin, begin + at.size)):
        return None
    part = _slice(g, x, {axis: (begin, end, 1)})
    return g.call("reshape", part, shape=shape_of(n))


# ---------------------------------------------------------------------------------------- pad


def _pads(n: Call) -> list[tuple[int, int]] | None:
    """(before, behind) for every dimension, as numbers."""
    pads = [value_of(convert(p)) for p in n.attrs["pads"]]
    known = [p for p in pads if p is not None]
    half = len(pads) // 2
    return list(zip(known[:half], known[half:], strict=True)) if len(known) == len(pads) else None


@rule(*CONVOLUTIONS)
def pad_into_conv(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(pad(x, v), w, pads=p)  =  conv(x, w, pads=p + the pad, border=v)   where the pad is
    spatial, and p is 0 or has that border; of floats v is 0"""
    y, w = n.args
    if not is_op(y, "pad") or y.attrs["mode"] != "constant":
        return None
    value, own = y.attrs["value"], n.attrs["border"] if any(n.attrs["pads"] or ()) else None
    low, high = dt.limits(dtype_of(y)) if dt.is_int(dtype_of(y)) else (0, 0)
    if own not in (None, value) or not low <= value <= high:
        return None
    pads = _pads(y)
    if pads is None or pads[:2] != [(0, 0)] * 2 or min(map(min, pads)) < 0:
        return None
    rank, found = len(pads) - 2, pads[2:]
    old = n.attrs["pads"] or (0,) * (2 * rank)
    new = [o + p[i // rank] for i, (o, p) in enumerate(zip(old, found * 2, strict=True))]
    attrs: dict[str, Any] = {**n.attrs, "pads": tuple(new), "border": int(value)}
    return g.call(op_name(n), y.args[0], w, **attrs)


@rule("pad")
def pad_pad(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """pad(pad(x, p), q)  =  pad(x, p + q)   with one value, neither cutting"""
    (x,) = n.args
    if not is_op(x, "pad") or n.attrs["mode"] != "constant" or x.attrs["mode"] != "constant":
        return None
    outer, inner = _pads(n), _pads(x)
    fits = outer and inner and n.attrs["value"] == x.attrs["value"]
    if not outer or not inner or not fits or min(map(min, outer + inner)) < 0:
        return None
    both = [(a + c, b + d) for (a, b), (c, d) in zip(outer, inner, strict=True)]
    pads = (*[p[0] for p in both], *[p[1] for p in both])
    return g.call("pad", x.args[0], pads=pads, mode="constant", value=n.attrs["value"])


@rule("mean", "sum", "max", "min", "prod")
def reduce_nothing(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A reduction over extents of 1  =  reshape"""
    (x,) = n.args
    sizes = dims(x)
    axes = range(len(sizes)) if n.attrs["axes"] is None else n.attrs["axes"]
    if not all(sizes[a] == 1 for a in axes):
        return None
    return g.call("reshape", x, shape=shape_of(n))
