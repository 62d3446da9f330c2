"""How gathers, scatters, products and einsums are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .draw import Draw, Out, Size, Skip, Value, broadcast, count, fixed, rounded
from .ops_element import fits, partner_size
from .ops_move import an_axis, moved
from .table import draws

__all__ = ["product_of"]


def _indices(d: Draw, extent: Size, shape: Any, unique_axis: int | None = None) -> Value:
    """Positions on an axis, some of them counted from the end."""
    least = extent.least if d.chance(0.5) else max(min(extent), 1)
    low = -least if d.opset >= 11 and d.chance(0.3) else 0
    kind = d.one("int64", "int64", "int32")
    if unique_axis is None and (d.chance(0.4) or any(not s.fixed for s in shape)):
        top = max(extent)
        return d.leaf(kind, shape, -top if low else 0, top - 1, False, limit=extent)
    sizes = [fixed(s) for s in shape]
    if unique_axis is None:
        if max(extent) == 0 and 0 not in sizes:
            raise Skip  # an element that never exists
        return d.constant(d.numbers.integers(low, max(least, 1), sizes).astype(kind))
    if sizes[unique_axis] > least:
        raise Skip
    keys = d.numbers.random([*sizes[:unique_axis], least, *sizes[unique_axis + 1 :]])
    order = np.argsort(keys, axis=unique_axis)
    found = np.take(order, range(sizes[unique_axis]), axis=unique_axis)
    return d.constant((found + (low if low else 0)).astype(kind))


@draws("Gather", weight=2)
def _gather(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0)
    axis = an_axis(d, x.rank)
    place = axis % x.rank
    at = _indices(d, x.shape[place], d.shape(d.between(0, 2), 5))
    d.emit(
        op,
        [x, at],
        {"axis": axis},
        [moved(x, [*x.shape[:place], *at.shape, *x.shape[place + 1 :]])],
    )


@draws("GatherElements", weight=0.8)
def _gather_elements(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0)
    axis = an_axis(d, x.rank)
    place = axis % x.rank
    shape = [
        d.shape(1, 6)[0]
        if k == place
        else d.const(d.between(1, s[0]))
        if d.chance(0.3) and s.fixed
        else s
        for k, s in enumerate(x.shape)
    ]
    at = _indices(d, x.shape[place], shape)
    d.emit(op, [x, at], {"axis": axis}, [moved(x, shape)])


@draws("GatherND", weight=0.6)
def _gather_nd(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0 and v.static)
    batch = d.between(0, x.rank - 1) if d.opset >= 12 and d.chance(0.3) else 0
    depth = d.between(1, x.rank - batch)
    front = [*x.extents[:batch], *[d.between(1, 5) for _ in range(d.between(0 if batch else 1, 2))]]
    columns = [d.numbers.integers(0, max(e, 1), front) for e in x.extents[batch : batch + depth]]
    at = d.constant(np.stack(columns, -1).astype("int64"))
    shape = [*d.sizes(*front), *x.shape[batch + depth :]]
    d.emit(op, [x, at], {"batch_dims": batch} if batch else {}, [moved(x, shape)])


@draws("ScatterElements", "Scatter", weight=0.6)
def _scatter_elements(d: Draw, op: str) -> None:
    """Places are different unless they are added to."""
    if (op == "Scatter") != (d.opset < 11):
        raise Skip
    x = d.pick(d.types(op), where=lambda v: v.rank > 0 and v.static)
    axis = an_axis(d, x.rank)
    place = axis % x.rank
    reduction = d.one("none", "add", "mul", "max", "min") if d.opset >= 18 else "none"
    extents = [d.between(1, e) if d.chance(0.5) else e for e in x.extents]
    at = _indices(d, x.shape[place], d.sizes(*extents), place if reduction != "add" else None)
    shape = at.shape
    u = d.pick(x.dtype, where=lambda v: v.shape == shape, shape=lambda: shape)
    attrs: dict[str, Any] = {"axis": axis}
    out = _scattered(x, u, reduction, extents[place])
    if reduction != "none":
        attrs["reduction"] = reduction
    d.emit(op, [x, at, u], attrs, [out])


def _scattered(x: Value, u: Value, reduction: str, n: int) -> Out:
    lo, hi, err, step = min(x.lo, u.lo), max(x.hi, u.hi), max(x.err, u.err), min(x.step, u.step)
    if reduction == "add":
        lo, hi = x.lo + min(n * u.lo, 0), x.hi + max(n * u.hi, 0)
        lo, hi, err, step = rounded(x.dtype, lo, hi, x.err + n * u.err, step, n + 2)
    elif reduction == "mul":
        ends = [a * b for a in (x.lo, x.hi) for b in (u.lo, u.hi)] + [x.lo, x.hi]
        err = x.err * max(u.top, 1) + u.err * x.top
        step = x.step * u.step if u.step <= 1 else x.step
        lo, hi, err, step = rounded(x.dtype, min(ends), max(ends), err, step)
    return Out(x.dtype, x.shape, lo, hi, err, step)


@draws("ScatterND", weight=0.6)
def _scatter_nd(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0 and v.static)
    depth = d.between(1, x.rank)
    places = math.prod(x.extents[:depth])
    n = d.between(1, min(places, 6))
    reduction = "none"
    if d.opset >= 16 and d.chance(0.6):
        reduction = d.one("add", "mul", *(("max", "min") if d.opset >= 18 else ()))
    flat = d.numbers.choice(places, n, replace=reduction == "add")
    at = d.constant(np.stack(np.unravel_index(flat, x.extents[:depth]), -1).astype("int64"))
    shape = (d.const(n), *x.shape[depth:])
    u = d.pick(x.dtype, where=lambda v: v.shape == shape, shape=lambda: shape)
    attrs = {"reduction": reduction} if reduction != "none" else {}
    d.emit(op, [x, at, u], attrs, [_scattered(x, u, reduction, n)])


@draws("OneHot", weight=0.4)
def _one_hot(d: Draw, op: str) -> None:
    depth = d.between(1, 7)
    x = d.pick(
        d.types(op) & {"int64", "int32"},
        where=lambda v: v.rank > 0,
        lo=0 if d.opset < 11 else -depth,
        hi=depth - 1,
    )
    axis = d.between(-1, x.rank)
    place = x.rank if axis == -1 else axis
    kind = d.one("float32", "int64", "float32")
    values = d.constant(np.array([d.between(-2, 2), d.between(-2, 2)], kind))
    shape = [*x.shape[:place], d.const(depth), *x.shape[place:]]
    size = d.scalar(depth, d.one("int64", x.dtype))
    d.emit(op, [x, size, values], {"axis": axis}, [Out(kind, shape, values.lo, values.hi, 0, 1)])


# ---------------------------------------------------------------------------------------- products


def product_of(a: Value, b: Value, n: int, ulps: float = 2) -> Any:
    """(lo, hi, err, step) of a sum of n products."""
    top = n * a.top * b.top
    err = n * (a.err * b.top + b.err * a.top + a.err * b.err)
    lo = 0.0 if a.lo >= 0 and b.lo >= 0 else -top
    return rounded(a.dtype, lo, top, err, a.step * b.step, n + ulps)


def columns_of(d: Draw) -> Size:
    """How wide a product is: often narrow, sometimes several tiles."""
    return d.shape(1)[0] if d.chance(0.3) else d.const(d.between(1, 17))


@draws("MatMul", weight=2.5)
def _matmul(d: Draw, op: str) -> None:
    a = d.pick(d.types(op), where=lambda v: v.rank > 0, shape=lambda: d.shape(d.between(1, 4)))
    inner = a.shape[-1]
    rank = d.rng.choice((1, 2, 2, 2, 3, 4))
    front = [partner_size(d, s) for s in a.shape[:-2]][-(rank - 2) :]
    if rank <= 2 or len(front) < rank - 2:
        front = []

    def suits(v: Value) -> bool:
        if not v.rank or v.shape[-2 if v.rank > 1 else 0] != inner:
            return False
        return fits(a.shape[:-2], v.shape[:-2])

    def shape() -> list[Size]:
        return [inner] if rank == 1 else [*front, inner, columns_of(d)]

    b = d.pick(a.dtype, suits, shape)
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    result = [*broadcast(a.shape[:-2], b.shape[:-2]), *rows, *columns]
    d.emit(op, [a, b], {}, [Out(a.dtype, result, *product_of(a, b, max(inner)))])


@draws("Gemm", weight=1.2)
def _gemm(d: Draw, op: str) -> None:
    a = d.pick(d.types(op), where=lambda v: v.rank == 2, shape=lambda: d.shape(2))
    ta, tb = d.between(0, 1), d.between(0, 1)
    rows, inner = a.shape[::-1] if ta else a.shape
    columns = columns_of(d)
    b = d.leaf(a.dtype, (columns, inner) if tb else (inner, columns))
    attrs: dict[str, Any] = {n: 1 for n, on in (("transA", ta), ("transB", tb)) if on}
    lo, hi, err, step = product_of(a, b, max(inner))
    alpha = beta = 1.0
    if d.chance(0.4) and a.is_float:
        alpha = attrs["alpha"] = d.between(1, 8) / 4
    operands: list[Value | None] = [a, b]
    lo, hi, err, step = lo * alpha, hi * alpha, err * alpha, step / 4
    if d.opset < 11 or d.chance(0.6):
        c = d.leaf(
            a.dtype,
            d.rng.choice(
                (
                    (columns,),
                    (d.const(1), columns),
                    (rows, columns),
                    (),
                    (rows, d.const(1)),
                    (partner_size(d, rows), partner_size(d, columns)),
                )
            ),
        )
        operands.append(c)
        if d.chance(0.4) and a.is_float:
            beta = attrs["beta"] = d.between(1, 8) / 4
        lo, hi, err = lo + beta * min(c.lo, 0), hi + beta * max(c.hi, 0), err + beta * c.err
        step = min(step, c.step / 4)
    out = rounded(a.dtype, lo, hi, err, step, 4 * (err > 0 or not step))
    if a.dtype == "float64" and alpha * beta != 1:
        out = (*out[:2], out[2] + 1e-12, 0.0)
    d.emit(op, operands, attrs, [Out(a.dtype, (rows, columns), *out)])


@draws("Einsum", weight=0.8)
def _einsum(d: Draw, op: str) -> None:
    a = d.pick(d.types(op), where=lambda v: 0 < v.rank <= 4)
    letters = d.rng.sample("abcdefgh", 8)
    left = letters[: a.rank]
    size = dict(zip(left, a.shape, strict=True))
    right: list[str] = []
    operands = [a]
    if d.chance(0.8):
        shared = [c for c in left if d.chance(0.5)]
        new = letters[a.rank : a.rank + d.between(0, 2)]
        for c in new:
            size[c] = d.const(d.between(1, 6))
        right = d.rng.sample([*shared, *new], len(shared) + len(new))
        operands.append(d.leaf(a.dtype, [size[c] for c in right]))
    every = list(dict.fromkeys([*left, *right]))
    out = [c for c in every if d.chance(0.6)]
    d.rng.shuffle(out)
    n = count([size[c] for c in every if c not in out])
    equation = ",".join("".join(t) for t in (left, right)[: len(operands)]) + "->" + "".join(out)
    if len(operands) == 1:
        lo, hi = min(n * a.lo, a.lo, 0.0), max(n * a.hi, a.hi, 0.0)
        found = rounded(a.dtype, lo, hi, n * a.err, a.step, n + 2)
    else:
        found = product_of(a, operands[1], n, 8)
    result = Out(a.dtype, [size[c] for c in out], *found)
    d.emit(op, operands, {"equation": equation}, [result])


@draws("MatMulInteger", weight=0.4)
def _matmul_integer(d: Draw, op: str) -> None:
    kinds = ("uint8", "int8")
    a = d.leaf(d.rng.choice(kinds), d.shape(d.between(2, 3)), 0, 100)
    if not all(a.shape[-1]):
        raise Skip  # onnxruntime leaves the result unwritten
    b = d.leaf(d.rng.choice(kinds), (a.shape[-1], d.const(d.between(1, 9))), 0, 100)
    operands: list[Value | None] = [a, b]
    if d.chance(0.6):
        operands += [d.scalar(d.between(0, 9), a.dtype), d.scalar(d.between(0, 9), b.dtype)]
    top = max(a.shape[-1]) * 120.0 * 120.0
    d.emit(op, operands, {}, [Out("int32", (*a.shape[:-1], b.shape[-1]), -top, top, 0, 1)])
