"""How operators are drawn that move elements or look at shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import numpy_type
from .draw import Draw, Out, Shape, Size, Skip, Value, count, fixed, widest
from .table import draws

__all__ = ["moved", "some_axes"]


def moved(x: Value, shape: Any) -> Out:
    """The same elements in another shape."""
    return Out(x.dtype, shape, x.lo, x.hi, x.err, x.step)


def with_zero(x: Value, shape: Any, fill: float = 0.0) -> Out:
    """The same elements, and a filling."""
    step = x.step if x.step and fill % x.step == 0 else 0.0
    return Out(x.dtype, shape, min(x.lo, fill), max(x.hi, fill), x.err, step)


def some_axes(d: Draw, rank: int, least: int = 1, negative: bool = True) -> list[int]:
    """Different axes, some of them counted from the end."""
    if rank < least:
        raise Skip
    axes = d.rng.sample(range(rank), d.between(least, rank))
    if not (negative and d.opset >= 11):
        return sorted(axes)
    return [a - rank if d.chance(0.4) else a for a in sorted(axes)]


def an_axis(d: Draw, rank: int, since: int = 11) -> int:
    if not rank:
        raise Skip
    axis = d.between(0, rank - 1)
    return axis - rank if d.opset >= since and d.chance(0.4) else axis


@draws("Identity", "Dropout", weight=0.4)
def _same(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    d.emit(op, [x], {}, [moved(x, x.shape)])


@draws("Transpose", weight=2.5)
def _transpose(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    perm = d.rng.sample(range(x.rank), x.rank)
    if d.chance(0.2):
        d.emit(op, [x], {}, [moved(x, x.shape[::-1])])
    elif x.rank:
        d.emit(op, [x], {"perm": perm}, [moved(x, [x.shape[p] for p in perm])])
    else:
        raise Skip


def regrouped(d: Draw, shape: Shape) -> list[Size]:
    """Another shape with as many elements: neighbours joined, numbers taken apart."""
    sizes = list(shape)
    for _ in range(d.between(1, 3)):
        kind = d.between(0, 3)
        if kind == 0 and len(sizes) > 1:
            k = d.between(0, len(sizes) - 2)
            sizes[k : k + 2] = [sizes[k] * sizes[k + 1]]
        elif kind == 1 and len(sizes) < 5:
            sizes.insert(d.between(0, len(sizes)), d.const(1))
        elif kind == 2 and len(sizes) < 5 and sizes:
            k = d.between(0, len(sizes) - 1)
            factors = [f for f in (2, 3, 4, 5, 7, 8) if all(s % f == 0 for s in sizes[k])]
            if factors:
                f = d.rng.choice(factors)
                parts = [d.const(f), sizes[k] // f]
                sizes[k : k + 1] = parts if d.chance(0.5) else parts[::-1]
        elif kind == 3:
            ones = [k for k, s in enumerate(sizes) if s.one]
            if ones:
                del sizes[d.rng.choice(ones)]
    return sizes


@draws("Reshape", weight=3)
def _reshape(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    sizes = regrouped(d, x.shape)
    wild = [k for k, s in enumerate(sizes) if not s.fixed]
    numbers = [0 if not s.fixed else s[0] for s in sizes]
    for k in wild:
        if k < x.rank and sizes[k] == x.shape[k] and d.chance(0.5):
            wild = [w for w in wild if w != k]
    if len(wild) > 1:
        raise Skip
    if wild:
        numbers[wild[0]] = -1
    elif sizes and d.chance(0.4):
        numbers[d.between(0, len(sizes) - 1)] = -1
    d.emit(op, [x, d.ints(numbers)], {}, [moved(x, sizes)])


@draws("Flatten", weight=0.6)
def _flatten(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    axis = d.between(-x.rank if d.opset >= 11 else 0, x.rank)
    place = axis + x.rank if axis < 0 else axis
    one = d.const(1)
    sizes = [math.prod(part, start=one) for part in (x.shape[:place], x.shape[place:])]
    d.emit(op, [x], {"axis": axis}, [moved(x, sizes)])


@draws("Squeeze", "Unsqueeze", weight=1.2)
def _ones(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    if op == "Squeeze":
        ones = [k for k, s in enumerate(x.shape) if s.one]
        axes = d.rng.sample(ones, d.between(0, len(ones)))
        if not axes and not x.static:
            raise Skip
        gone = sorted(axes) if axes else ones
        shape = [s for k, s in enumerate(x.shape) if k not in gone]
        rank = x.rank
    else:
        rank = x.rank + d.between(1, 2)
        axes = d.rng.sample(range(rank), rank - x.rank)
        rest = iter(x.shape)
        shape = [d.const(1) if k in axes else next(rest) for k in range(rank)]
    axes = [a - rank if d.opset >= 11 and d.chance(0.3) else a for a in axes]
    if not axes:
        d.emit(op, [x], {}, [moved(x, shape)])
    elif d.opset < 13:
        d.emit(op, [x], {"axes": sorted(axes) if d.opset < 11 else axes}, [moved(x, shape)])
    else:
        d.emit(op, [x, d.ints(axes)], {}, [moved(x, shape)])


@draws("Expand", "Tile")
def _repeat(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    if op == "Tile":
        times = [d.rng.choice((1, 1, 2, 3)) * (not d.chance(0.02)) for _ in x.shape]
        shape = [s * t for s, t in zip(x.shape, times, strict=True)]
        d.emit(op, [x, d.ints(times)], {}, [moved(x, shape)])
        return
    wanted = [
        d.const(d.between(not d.chance(0.1), 6))
        if s.one
        else d.const(1)
        if d.chance(0.3) or not s.fixed
        else s
        for s in x.shape
    ]
    shape = [w if s.one else s for s, w in zip(x.shape, wanted, strict=True)]
    if len(wanted) < 4 and d.chance(0.3):
        wanted.insert(0, d.const(d.between(1, 4)))
        shape.insert(0, wanted[0])
    d.emit(op, [x, d.ints([fixed(w) for w in wanted])], {}, [moved(x, shape)])


@draws("Concat", weight=2.5)
def _concat(d: Draw, op: str) -> None:
    first = d.pick(d.types(op), where=lambda v: v.rank > 0, shape=lambda: d.shape(d.between(1, 4)))
    axis = an_axis(d, first.rank)
    place = axis % first.rank

    def joins(v: Value) -> bool:
        pairs = zip(v.shape, first.shape, strict=False)
        return v.rank == first.rank and all(a == b for k, (a, b) in enumerate(pairs) if k != place)

    def shape() -> list[Size]:
        extent = d.const(d.between(1, 6))
        return [extent if k == place else s for k, s in enumerate(first.shape)]

    xs = [first] + [d.pick(first.dtype, joins, shape) for _ in range(d.between(0, 3))]
    d.rng.shuffle(xs)
    total = xs[0].shape[place]
    for v in xs[1:]:
        total = total + v.shape[place]
    sizes = [total if k == place else s for k, s in enumerate(first.shape)]
    lo, hi = min(v.lo for v in xs), max(v.hi for v in xs)
    out = Out(first.dtype, sizes, lo, hi, max(v.err for v in xs), min(v.step for v in xs))
    d.emit(op, xs, {"axis": axis}, [out])


@draws("Split", weight=1.5)
def _split(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: any(s.fixed and s[0] > 1 for s in v.shape))
    axis = an_axis(d, x.rank)
    place = axis % x.rank
    extent = fixed(x.shape[place])
    parts = d.between(1, min(extent, 4))
    attrs: dict[str, Any] = {"axis": axis}
    operands: list[Value | None] = [x]
    if extent % parts or d.chance(0.6):
        cuts = sorted(d.rng.sample(range(1, extent), parts - 1))
        if cuts and d.chance(0.1):
            cuts[0] = 0
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]
        if d.opset < 13:
            attrs["split"] = sizes
        else:
            operands.append(d.ints(sizes))
    else:
        sizes = [extent // parts] * parts
        if d.opset >= 18:
            attrs["num_outputs"] = parts
    shapes = [[d.const(n) if k == place else s for k, s in enumerate(x.shape)] for n in sizes]
    d.emit(op, operands, attrs, [moved(x, shape) for shape in shapes])


def sliced(extent: int, start: int, end: int, step: int) -> int:
    """How many elements of an axis Slice selects."""
    first, last = [v + extent if v < 0 else v for v in (start, end)]
    if step > 0:
        return len(range(min(max(first, 0), extent), min(max(last, 0), extent), step))
    return len(range(min(max(first, 0), extent - 1), min(max(last, -1), extent - 1), step))


@draws("Slice", weight=3)
def _slice(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0)
    empty = d.chance(0.03)
    axes = d.rng.sample(range(x.rank), d.between(1, x.rank))
    shape, starts, ends, steps = list(x.shape), [], [], []
    for a in axes:
        extent = shape[a]
        least = max(extent.least, 1)
        step = 1 if d.opset < 10 or d.chance(0.5) else d.one(2, 3, -1, -2, -1)
        if empty:
            step, start = 1, d.between(0, least)
            end, empty = start, False
        elif step > 0:
            start = d.between(0, least - 1)
            cut = d.between(0, least - 1 - start)
            end = d.one(extent[0] - cut, *((-cut,) * 2 if cut else (2**31 - 1, 2**62)))
            if not extent.fixed:
                end = -cut if cut else 2**31 - 1
            start = start - extent[0] if extent.fixed and d.chance(0.3) else start
        else:
            last = d.between(0, least - 1)
            start = -1 - last if last or d.chance(0.5) else 2**31 - 1
            end = -(2**31) if d.chance(0.5) else -(2**62)
        shape[a] = Size([sliced(e, start, end, step) for e in extent])
        starts.append(start)
        ends.append(end)
        steps.append(step)
    axes = [a - x.rank if d.opset >= 10 and d.chance(0.3) else a for a in axes]
    out = moved(x, shape)
    if d.opset < 10:
        order = sorted(range(len(axes)), key=lambda k: axes[k])
        attrs = {"axes": axes, "starts": starts, "ends": ends}
        d.emit(op, [x], {n: [v[k] for k in order] for n, v in attrs.items()}, [out])
        return
    small = all(abs(v) < 2**31 for v in (*starts, *ends)) and d.chance(0.3)
    kind = "int32" if small else "int64"
    operands = [x, *[d.ints(v, kind) for v in (starts, ends, axes)]]
    if any(s != 1 for s in steps) or d.chance(0.5):
        operands.append(d.ints(steps, kind))
    d.emit(op, operands, {}, [out])


@draws("Pad", weight=1.5)
def _pad(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0)
    modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if d.opset >= 19 else [])
    mode = d.rng.choice(modes)
    before, after = [], []
    for s in x.shape:
        most = max(s.least - 1, 0) if mode in ("reflect", "wrap") else 3
        before.append(d.between(0, min(most, 3)) if d.chance(0.5) else 0)
        after.append(d.between(0, min(most, 3)) if d.chance(0.5) else 0)
        if mode == "constant" and s.least > 2 and d.chance(0.1):
            before[-1] = -1
    shape = [s + b + a for s, b, a in zip(x.shape, before, after, strict=True)]
    fill = float(d.between(0, 3)) if d.chance(0.5) else 0.0
    out = with_zero(x, shape, fill) if mode == "constant" else moved(x, shape)
    if d.opset < 11:
        attrs = {"pads": [*before, *after], "mode": mode}
        d.emit(op, [x], {**attrs, "value": fill} if fill else attrs, [out])
        return
    operands: list[Value | None] = [x, d.ints([*before, *after])]
    if mode == "constant" and (fill or d.chance(0.3)):
        operands.append(d.constant(np.array(fill, numpy_type(x.dtype))))
    d.emit(op, operands, {"mode": mode} if mode != "constant" or d.chance(0.5) else {}, [out])


@draws("DepthToSpace", "SpaceToDepth", weight=0.5)
def _blocks(d: Draw, op: str) -> None:
    b = d.between(2, 3)

    def fits(v: Value) -> bool:
        if v.rank != 4:
            return False
        n = b * b if op == "DepthToSpace" else b
        places = v.shape[1:2] if op == "DepthToSpace" else v.shape[2:]
        return all(e % n == 0 for s in places for e in s)

    def shape() -> Shape:
        if op == "DepthToSpace":
            return d.sizes(
                d.between(1, 2), d.between(1, 3) * b * b, d.between(1, 5), d.between(1, 5)
            )
        return d.sizes(d.between(1, 2), d.between(1, 4), d.between(1, 4) * b, d.between(1, 4) * b)

    x = d.pick(d.types(op), fits, shape)
    n, c, h, w = x.shape
    attrs: dict[str, Any] = {"blocksize": b}
    if op == "DepthToSpace":
        if d.opset >= 11 and d.chance(0.7):
            attrs["mode"] = d.one("DCR", "CRD")
        result = [n, c // (b * b), h * b, w * b]
    else:
        result = [n, c * (b * b), h // b, w // b]
    d.emit(op, [x], attrs, [moved(x, result)])


@draws("Trilu", weight=0.5)
def _trilu(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank >= 2)
    k = [d.scalar(d.between(-3, 3), "int64")] if d.chance(0.6) else []
    attrs = {"upper": d.between(0, 1)} if d.chance(0.7) else {}
    d.emit(op, [x, *k], attrs, [with_zero(x, x.shape)])


@draws("Shape", "Size", weight=0.5)
def _shape(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    if op == "Size":
        d.emit(op, [x], {}, [Out("int64", (), 0, count(x.shape), 0, 1)])
        return
    attrs, sizes = {}, list(x.shape)
    if d.opset >= 15 and d.chance(0.4) and x.rank:
        start, end = d.between(-x.rank, x.rank - 1), d.between(-x.rank, x.rank)
        attrs, sizes = {"start": start, "end": end}, sizes[slice(start, end)]
    d.emit(op, [x], attrs, [Out("int64", d.sizes(len(sizes)), 0, widest(sizes), 0, 1)])


@draws("ConstantOfShape", weight=0.4)
def _filled(d: Draw, op: str) -> None:
    kind = d.rng.choice(("float32", "int64", "int32", "bool", "float16", "float64"))
    fill = d.between(0, 1) if kind == "bool" else d.between(-3, 3)
    attrs = {"value": np.array([fill], numpy_type(kind))} if d.chance(0.8) else {}
    kind, fill = (kind, fill) if attrs else ("float32", 0)
    found = [v for v in d.values if v.rank and count(v.shape)]
    if found and d.chance(0.5):
        x = d.rng.choice(found)
        out = Out("int64", d.sizes(x.rank), 0, widest(x.shape), 0, 1)
        size, shape = d.emit("Shape", [x], {}, [out])[0], x.shape
    else:
        shape = tuple([d.const(d.between(not d.chance(0.1), 5)) for _ in range(d.between(1, 4))])
        size = d.ints([fixed(s) for s in shape])
    d.emit(op, [size], attrs, [Out(kind, shape, fill, fill, 0, 1)])


@draws("EyeLike", weight=0.3)
def _eye(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank == 2, shape=lambda: d.shape(2))
    attrs = {"k": d.between(-2, 2)} if d.chance(0.6) else {}
    if d.chance(0.5):
        attrs["dtype"] = d.one(1, 6, 7, 11)
    kind = {1: "float32", 6: "int32", 7: "int64", 11: "float64"}.get(attrs.get("dtype", 0), x.dtype)
    d.emit(op, [x], attrs, [Out(kind, x.shape, 0, 1, 0, 1)])


@draws("Range", weight=0.3)
def _range(d: Draw, op: str) -> None:
    start, step, n = d.between(-5, 5), d.one(1, 2, 3, -1, -2), d.between(0, 12)
    kind = d.rng.choice(sorted(d.types(op)))
    ends = [d.scalar(v, kind) for v in (start, start + step * n, step)]
    last = start + step * (n - 1)
    d.emit(op, ends, {}, [Out(kind, d.sizes(n), min(start, last), max(start, last), 0, 1)])
