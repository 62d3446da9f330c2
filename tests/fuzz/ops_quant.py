"""How quantised products, attention and sequences are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import EPSILON, Draw, Out, Size, Skip, Value
from .ops_move import an_axis, moved
from .ops_nn import Windows
from .table import draws

__all__: list[str] = []


def _scale(d: Draw) -> Value:
    """A power of two."""
    return d.constant(np.array(2.0 ** d.between(-6, -1), np.float32))


def _zero(d: Draw, kind: str) -> Value:
    return d.scalar(d.between(0, 9), kind)


@draws("QLinearMatMul", weight=0.3)
def _qlinear_matmul(d: Draw, op: str) -> None:
    """Scales are powers of two: halves are rounded to even by both."""
    kind, inner = d.one("uint8", "int8"), d.const(d.between(1, 9))
    a = d.leaf(kind, (*d.shape(d.between(1, 2), 60), inner), 0, 60)
    b = d.leaf(kind, (inner, d.const(d.between(1, 9))), 0, 60)
    operands: list[Value | None] = [a, _scale(d), _zero(d, kind), b, _scale(d), _zero(d, kind)]
    operands += [_scale(d), _zero(d, kind)]
    info = np.iinfo(kind)
    d.emit(op, operands, {}, [Out(kind, (*a.shape[:-1], b.shape[-1]), info.min, info.max, 0, 1)])


@draws("ConvInteger", "QLinearConv", weight=0.3)
def _integer_conv(d: Draw, op: str) -> None:
    kind = "uint8"
    channels = d.between(1, 4)
    batch = d.rng.choice(list(d.symbols)) if d.symbols else d.const(d.between(1, 2))
    x = d.leaf(kind, (batch, *d.sizes(channels, d.between(2, 9), d.between(2, 9))), 0, 60)
    w = Windows(d, x)
    out = d.between(1, 5)
    f = d.leaf(d.one("uint8", "int8") if op == "QLinearConv" else "uint8",
               d.sizes(out, channels, *w.kernel), 0, 60)  # fmt: skip
    shape = (batch, d.const(out), *w.space)
    if op == "ConvInteger":
        zeros = [_zero(d, kind), _zero(d, f.dtype)] if d.chance(0.6) else []
        top = 3600.0 * w.taps * channels
        d.emit(op, [x, f, *zeros], w.attrs, [Out("int32", shape, -top, top, 0, 1)])
        return
    zero = d.scalar(0, f.dtype) if f.dtype == "int8" else _zero(d, f.dtype)
    operands: list[Value | None] = [x, _scale(d), _zero(d, kind), f, _scale(d), zero]
    operands += [_scale(d), _zero(d, kind)]
    if d.chance(0.5):
        operands.append(d.leaf("int32", d.sizes(out), -99, 99, True))
    d.emit(op, operands, w.attrs, [Out(kind, shape, 0, 255, 0, 1)])


@draws("Attention", weight=0.4)
def _attention(d: Draw, op: str) -> None:
    if d.opset < 23:
        raise Skip
    batch, heads = d.shape(1, 4)[0], d.const(d.between(1, 3))
    queries, keys = d.shape(1, 9)[0], d.shape(1, 9)[0]
    width, wide = d.const(d.one(2, 4, 8)), d.const(d.one(2, 4, 8))
    q = d.leaf("float32", (batch, heads, queries, width))
    k = d.leaf("float32", (batch, heads, keys, width))
    v = d.leaf("float32", (batch, heads, keys, wide))
    attrs: dict[str, Any] = {}
    if d.chance(0.3):
        attrs["scale"] = 0.25
    if d.chance(0.3) and queries == keys:
        attrs["is_causal"] = 1
    operands: list[Value | None] = [q, k, v]
    if d.chance(0.3):
        operands.append(d.leaf("float32", (queries, keys)))
    eps = EPSILON["float32"]
    err = 64 * eps * (1 + q.top * k.top * max(width)) * v.top * 2
    d.emit(op, operands, attrs, [Out("float32", (batch, heads, queries, wide), -v.top, v.top, err)])


@draws("RotaryEmbedding", weight=0.2)
def _rotary(d: Draw, op: str) -> None:
    if d.opset < 23:
        raise Skip
    batch, heads, length = d.shape(1, 4)[0], d.const(d.between(1, 3)), d.const(d.between(1, 7))
    half = d.between(1, 4)
    x = d.leaf("float32", (batch, heads, length, d.const(2 * half)))
    table = (batch, length, d.const(half))
    operands: list[Value | None] = [x, d.leaf("float32", table, -1.0, 1.0)]
    operands.append(d.leaf("float32", table, -1.0, 1.0))
    attrs = {"interleaved": 1} if d.chance(0.5) else {}
    err = 8 * EPSILON["float32"] * x.top
    d.emit(op, operands, attrs, [Out("float32", x.shape, -2 * x.top, 2 * x.top, err)])


@draws("Split and join a sequence", weight=0.4)
def _sequences(d: Draw, op: str) -> None:
    """SplitToSequence; then one of its elements, or all of them joined again."""
    if d.opset < 11:
        raise Skip
    x = d.pick(("float32", "int64", "int32"), where=lambda v: v.rank > 0)
    axis = an_axis(d, x.rank)
    extent: Size = x.shape[axis]
    part = d.between(1, 3)
    name = d.fresh("q")
    d.raw("SplitToSequence", [x.name, d.scalar(part, "int64").name], [name], {"axis": axis})
    if d.chance(0.5):
        out = d.checked(moved(x, x.shape))
        d.raw("ConcatFromSequence", [name], [d.add(out).name], {"axis": axis})
        return
    size = Size([min(part, e) for e in extent])
    shape = [size if k == axis % x.rank else s for k, s in enumerate(x.shape)]
    out = d.checked(moved(x, shape))
    d.raw("SequenceAt", [name, d.scalar(0, "int64").name], [d.add(out).name], {})


@draws("A sequence of several", weight=0.3)
def _constructed(d: Draw, op: str) -> None:
    """SequenceConstruct of values of one type; one of them is taken, at a known place."""
    if d.opset < 11:
        raise Skip
    xs = [d.pick("float32") for _ in range(d.between(1, 4))]
    name = d.fresh("q")
    d.raw("SequenceConstruct", [v.name for v in xs], [name], {})
    at = d.between(-len(xs), len(xs) - 1)
    out = d.checked(moved(xs[at], xs[at].shape))
    d.raw("SequenceAt", [name, d.scalar(at, "int64").name], [d.add(out).name], {})
