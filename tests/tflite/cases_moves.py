"""Random models of one operator each: reductions, and what moves and chooses elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tflite.build import Spec, const
from tests.tflite.cases import (
    QUANTIZED,
    Case,
    Random,
    case,
    data,
    each,
    extents,
    made,
    pick,
    scale_from,
    spec,
)

MOVED = ("float32", "int8", "int32")
WIDE = (*MOVED, "int16")
"""Types of what moves numbers of 16 bits, too."""


# -------------------------------------------------------------------------------------- reductions


def _some(r: Random, rank: int) -> list[int]:
    count = int(r.integers(1, rank + 1))
    axes = r.permutation(rank)[:count].tolist()
    return [a - rank if r.integers(2) else a for a in axes]


def _reduction(op: str, *types: str, shared: bool = False) -> None:
    @case(*each(op.lower(), *types))
    def make(r: Random, dtype: str) -> Case:
        shape = extents(r, int(r.integers(1, 5)), 7)
        axes, keep = _some(r, len(shape)), bool(r.integers(2))
        out = np.sum(np.zeros(shape), axis=tuple(axes), keepdims=keep).shape
        x = spec(r, shape, dtype)
        y = spec(r, out, dtype, x if shared or r.integers(3) == 0 else None)
        if op == "SUM" and y.scale is not None and not shared:
            y.scale = float(np.float32(scale_from(x) * r.uniform(0.3, 40)))
        c = made(r, op, [x, const(axes, "int32")], [y], "ReducerOptions", 2 if shared else 1,
                 KeepDims=keep)  # fmt: skip
        c.reference = op != "SUM"  # that of int8 reads what it has overwritten
        return c


_reduction("MEAN", *QUANTIZED)
_reduction("SUM", *WIDE)
_reduction("REDUCE_MAX", *WIDE, shared=True)
_reduction("REDUCE_MIN", *WIDE, shared=True)
_reduction("REDUCE_PROD", "float32")
_reduction("REDUCE_ANY", "bool")
_reduction("REDUCE_ALL", "bool")


@case("l2_normalization.float32", "l2_normalization.int8")
def _l2(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(2, 5)))
    y = spec(r, shape, dtype)
    if dtype == "int8":
        y.scale, y.zero = 1 / 128, 0
    return made(r, "L2_NORMALIZATION", [spec(r, shape, dtype)], [y], "L2NormOptions", 2)


@case("log_softmax.float32", "log_softmax.int8")
def _log_softmax(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)), 12)
    y = spec(r, shape, dtype)
    if dtype == "int8":
        y.scale, y.zero = 16 / 256, 127
    return made(r, "LOG_SOFTMAX", [spec(r, shape, dtype)], [y], "LogSoftmaxOptions", 2)


@case("local_response_normalization.float32")
def _lrn(r: Random, dtype: str) -> Case:
    shape = extents(r, 4)
    c = made(r, "LOCAL_RESPONSE_NORMALIZATION", [Spec(shape)], [Spec(shape)],
             "LocalResponseNormalizationOptions", Radius=int(r.integers(1, 4)), Bias=1.0,
             Alpha=0.1, Beta=0.7)  # fmt: skip
    c.reference = False  # it leaves out the last channel of each window
    return c


def _place(op: str, kind: str) -> None:
    @case(*each(op.lower(), *MOVED))
    def make(r: Random, dtype: str) -> Case:
        shape = extents(r, int(r.integers(1, 5)))
        axis = int(r.integers(len(shape)))
        out = (*shape[:axis], *shape[axis + 1 :])
        to = pick(r, ("int32", 2), ("int64", 4))
        return made(r, op, [spec(r, shape, dtype), const([axis], "int32")], [Spec(out, to[0])],
                    kind, 2, OutputType=to[1])  # fmt: skip


_place("ARG_MAX", "ArgMaxOptions")
_place("ARG_MIN", "ArgMinOptions")


@case("cumsum.float32", "cumsum.int32")
def _cumsum(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)))
    axis = int(r.integers(len(shape)))
    ways = {"Exclusive": bool(r.integers(2)), "Reverse": bool(r.integers(2))}
    return made(r, "CUMSUM", [Spec(shape, dtype), const(axis, "int32")], [Spec(shape, dtype)],
                "CumsumOptions", **ways)  # fmt: skip


# ------------------------------------------------------------------------------------------ shapes


def _moved(
    r: Random, op: str, x: Spec, others: list[Spec], shape: Any, kind: str = "", version: int = 1,
    **options: Any,
) -> Case:  # fmt: skip
    y = Spec(tuple(int(e) for e in shape), x.dtype, x.scale, x.zero)
    return made(r, op, [x, *others], [y], kind, version, **options)


@case(*each("reshape", *WIDE))
def _reshape(r: Random, dtype: str) -> Case:
    shape = extents(r, 4)
    new = [shape[0] * shape[1], -1]
    out = (new[0], shape[2] * shape[3])
    return _moved(r, "RESHAPE", spec(r, shape, dtype), [const(new, "int32")], out)


@case(*each("transpose", *WIDE))
def _transpose(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    perm = r.permutation(len(shape)).tolist()
    out = [shape[p] for p in perm]
    return _moved(r, "TRANSPOSE", spec(r, shape, dtype), [const(perm, "int32")], out, "", 2)


@case(*each("squeeze", *WIDE))
def _squeeze(r: Random, dtype: str) -> Case:
    x = spec(r, (1, 3, 1, 2), dtype)
    named = bool(r.integers(2))
    return _moved(r, "SQUEEZE", x, [], (3, 1, 2) if named else (3, 2), "SqueezeOptions",
                  SqueezeDims=(0,) if named else ())  # fmt: skip


@case(*each("expand_dims", *WIDE))
def _expand_dims(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    axis = int(r.integers(-4, 4))
    out = np.expand_dims(np.zeros(shape), axis).shape
    return _moved(r, "EXPAND_DIMS", spec(r, shape, dtype), [const([axis], "int32")], out)


@case(*each("concatenation", *QUANTIZED, "int32"))
def _concat(r: Random, dtype: str) -> Case:
    shape, axis = extents(r, int(r.integers(1, 5))), 0
    axis = int(r.integers(len(shape)))
    parts, like = [], None
    for _ in range(int(r.integers(1, 5))):
        own = (*shape[:axis], int(r.integers(1, 5)), *shape[axis + 1 :])
        parts.append(spec(r, own, dtype, like))
        like = like if dtype == "uint8" else parts[0]
    total = sum(p.shape[axis] for p in parts)
    y = spec(r, (*shape[:axis], total, *shape[axis + 1 :]), dtype, like)
    return made(r, "CONCATENATION", parts, [y], "ConcatenationOptions", 2,
                Axis=axis - (len(shape) if r.integers(2) else 0))  # fmt: skip


@case(*each("pack", *WIDE))
def _pack(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)))
    count, axis = int(r.integers(1, 4)), int(r.integers(len(shape) + 1))
    first = spec(r, shape, dtype)
    parts = [spec(r, shape, dtype, first) for _ in range(count)]
    out = (*shape[:axis], count, *shape[axis:])
    return _moved(r, "PACK", parts[0], parts[1:], out, "PackOptions", 2, ValuesCount=count,
                  Axis=axis)  # fmt: skip


@case(*each("unpack", *WIDE))
def _unpack(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)))
    axis = int(r.integers(len(shape)))
    x = spec(r, shape, dtype)
    out = (*shape[:axis], *shape[axis + 1 :])
    results = [spec(r, out, dtype, x) for _ in range(shape[axis])]
    return made(r, "UNPACK", [x], results, "UnpackOptions", 2, Num=shape[axis], Axis=axis)


@case(*each("split", *WIDE))
def _split(r: Random, dtype: str) -> Case:
    shape, count = list(extents(r, int(r.integers(1, 4)))), int(r.integers(1, 4))
    axis = int(r.integers(len(shape)))
    part = shape[axis]
    shape[axis] *= count
    x = spec(r, shape, dtype)
    out = (*shape[:axis], part, *shape[axis + 1 :])
    results = [spec(r, out, dtype, x) for _ in range(count)]
    return made(r, "SPLIT", [const(axis, "int32"), x], results, "SplitOptions", 2, NumSplits=count)


@case(*each("split_v", *WIDE))
def _split_v(r: Random, dtype: str) -> Case:
    sizes = extents(r, int(r.integers(1, 4)))
    x = spec(r, (3, sum(sizes), 2), dtype)
    given = list(sizes)
    if r.integers(2):
        given[int(r.integers(len(given)))] = -1
    results = [spec(r, (3, s, 2), dtype, x) for s in sizes]
    return made(r, "SPLIT_V", [x, const(given, "int32"), const(1, "int32")], results,
                "SplitVOptions", 2, NumSplits=len(sizes))  # fmt: skip


@case(*each("slice", *WIDE))
def _slice(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    begin = [int(r.integers(e)) for e in shape]
    size = [int(r.integers(1, e - b + 1)) for b, e in zip(begin, shape, strict=True)]
    out = list(size)
    if r.integers(2):
        size[0], out[0] = -1, shape[0] - begin[0]
    operands = [const(begin, "int32"), const(size, "int32")]
    return _moved(r, "SLICE", spec(r, shape, dtype), operands, out, "SliceOptions", 2)


@case(*each("strided_slice", *WIDE))
def _strided(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    index: list[Any] = []
    gone = 0
    begin: list[int] = []
    end: list[int] = []
    by: list[int] = []
    masks = {"BeginMask": 0, "EndMask": 0}
    for d, e in enumerate(shape):
        step = int(pick(r, 1, 1, 2, -1, -2))
        if r.integers(5) == 0:
            at = int(r.integers(-e, e))
            begin, end, by = [*begin, at], [*end, at + 1], [*by, 1]
            index.append(at)
            gone |= 1 << d
            continue
        b, n = int(r.integers(-e, e)), int(r.integers(-e - 1, e + 2))
        masked = [bool(r.integers(3) == 0) for _ in range(2)]
        masks["BeginMask"] |= masked[0] << d
        masks["EndMask"] |= masked[1] << d
        index.append(slice(None if masked[0] else b, None if masked[1] else n, step))
        begin, end, by = [*begin, b], [*end, n], [*by, step]
    out = np.zeros(shape)[tuple(index)].shape
    if 0 in out:
        return _strided(r, dtype)
    operands = [const(v, "int32") for v in (begin, end, by)]
    return _moved(r, "STRIDED_SLICE", spec(r, shape, dtype), operands, out, "StridedSliceOptions",
                  2, **masks, ShrinkAxisMask=gone)  # fmt: skip


@case(*each("tile", *WIDE))
def _tile(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)), 4)
    times = extents(r, len(shape), 3)
    out = np.multiply(shape, times)
    return _moved(r, "TILE", spec(r, shape, dtype), [const(times, "int32")], out)


@case(*each("broadcast_to", *WIDE))
def _broadcast(r: Random, dtype: str) -> Case:
    out = extents(r, int(r.integers(1, 5)))
    shape = tuple([1 if r.integers(2) else e for e in out])[int(r.integers(len(out))) :]
    return _moved(r, "BROADCAST_TO", spec(r, shape, dtype), [const(out, "int32")], out, "", 2)


@case(*each("pad", *QUANTIZED))
def _pad(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    pads = r.integers(0, 3, (len(shape), 2)).astype("int32")
    out = np.add(shape, pads.sum(1))
    return _moved(r, "PAD", spec(r, shape, dtype), [const(pads)], out, "", 2)


@case(*each("padv2", *QUANTIZED))
def _pad_v2(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    pads = r.integers(0, 3, (len(shape), 2)).astype("int32")
    x = spec(r, shape, dtype)
    value = spec(r, (1,), dtype, x)
    value.data = data(r, (1,), dtype)
    out = np.add(shape, pads.sum(1))
    return _moved(r, "PADV2", x, [const(pads), value], out, "", 2)


@case(*each("mirror_pad", "float32", "int8", "int16"))
def _mirror(r: Random, dtype: str) -> Case:
    shape, mode = extents(r, int(r.integers(1, 5))), int(r.integers(2))
    pads = np.array([r.integers(0, e + mode, 2) for e in shape], "int32")
    out = np.add(shape, pads.sum(1))
    return _moved(r, "MIRROR_PAD", spec(r, shape, dtype), [const(pads)], out, "MirrorPadOptions",
                  2, Mode=mode)  # fmt: skip


@case(*each("reverse_v2", "float32", "int32", "int16"))
def _reverse(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)))
    axes = [int(r.integers(len(shape)))]
    return _moved(r, "REVERSE_V2", spec(r, shape, dtype), [const(axes, "int32")], shape)


@case(*each("depth_to_space", *MOVED))
def _depth_to_space(r: Random, dtype: str) -> Case:
    n, h, w, c = extents(r, 4, 4)
    b = int(r.integers(1, 4))
    return _moved(r, "DEPTH_TO_SPACE", spec(r, (n, h, w, c * b * b), dtype), [],
                  (n, h * b, w * b, c), "DepthToSpaceOptions", BlockSize=b)  # fmt: skip


@case(*each("space_to_depth", *MOVED))
def _space_to_depth(r: Random, dtype: str) -> Case:
    n, h, w, c = extents(r, 4, 4)
    b = int(r.integers(1, 4))
    return _moved(r, "SPACE_TO_DEPTH", spec(r, (n, h * b, w * b, c), dtype), [],
                  (n, h, w, c * b * b), "SpaceToDepthOptions", BlockSize=b)  # fmt: skip


@case(*each("space_to_batch_nd", *WIDE))
def _space_to_batch(r: Random, dtype: str) -> Case:
    n, h, w, c = extents(r, 4, 4)
    b = extents(r, 2, 3)
    pads = r.integers(0, 3, (2, 2)).astype("int32")
    whole = [e * k for e, k in zip((h, w), b, strict=True)]
    shape = [e - p.sum() for e, p in zip(whole, pads, strict=True)]
    if min(shape) < 1:
        return _space_to_batch(r, dtype)
    x = spec(r, (n, int(shape[0]), int(shape[1]), c), dtype)
    return _moved(r, "SPACE_TO_BATCH_ND", x, [const(b, "int32"), const(pads)],
                  (n * b[0] * b[1], h, w, c))  # fmt: skip


@case(*each("batch_to_space_nd", *WIDE))
def _batch_to_space(r: Random, dtype: str) -> Case:
    n, h, w, c = extents(r, 4, 4)
    b = extents(r, 2, 3)
    crops = r.integers(0, 2, (2, 2)).astype("int32")
    out = [e * k - p.sum() for e, k, p in zip((h, w), b, crops, strict=True)]
    if min(out) < 1:
        return _batch_to_space(r, dtype)
    x = spec(r, (n * b[0] * b[1], h, w, c), dtype)
    return _moved(r, "BATCH_TO_SPACE_ND", x, [const(b, "int32"), const(crops)], (n, *out, c))


def _resize(op: str, kind: str) -> None:
    @case(*each(op.lower(), *QUANTIZED))
    def make(r: Random, dtype: str) -> Case:
        n, h, w, c = extents(r, 4, 8)
        new = extents(r, 2, 12)
        way = int(r.integers(3))
        return _moved(r, op, spec(r, (n, h, w, c), dtype), [const(new, "int32")], (n, *new, c),
                      kind, 3, AlignCorners=way == 1, HalfPixelCenters=way == 2)  # fmt: skip


_resize("RESIZE_BILINEAR", "ResizeBilinearOptions")
_resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")


# ------------------------------------------------------------------------------------------ choice


@case(*each("gather", *WIDE))
def _gather(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)))
    axis, at = int(r.integers(len(shape))), extents(r, int(r.integers(0, 3)), 4)
    where = r.integers(0, shape[axis], at)
    out = np.take(np.zeros(shape), where, axis).shape
    x = spec(r, shape, dtype)
    c = _moved(r, "GATHER", x, [Spec(at, "int32")], out, "GatherOptions", 2, Axis=axis)
    c.inputs[1] = np.asarray(where, "int32")
    return c


@case("gather.batch")
def _gather_batch(r: Random, _: str) -> Case:
    n, k, m = extents(r, 3)
    c = _moved(r, "GATHER", Spec((n, k, 2)), [Spec((n, m), "int32")], (n, m, 2), "GatherOptions", 5,
               Axis=1, BatchDims=1)  # fmt: skip
    c.inputs[1] = r.integers(0, k, (n, m)).astype("int32")
    return c


@case(*each("gather_nd", *WIDE))
def _gather_nd(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    depth, rows = int(r.integers(1, 4)), int(r.integers(1, 5))
    where = np.stack([r.integers(0, e, rows) for e in shape[:depth]], -1).astype("int32")
    c = _moved(r, "GATHER_ND", spec(r, shape, dtype), [Spec((rows, depth), "int32")],
               (rows, *shape[depth:]), "GatherNdOptions", 2)  # fmt: skip
    c.inputs[1] = where
    return c


@case("scatter_nd.float32", "scatter_nd.int32")
def _scatter_nd(r: Random, dtype: str) -> Case:
    rows, extent = extents(r, 2)
    where = r.integers(0, extent, (rows, 1)).astype("int32")
    operands = [const(where), Spec((rows, 3), dtype), const([extent, 3], "int32")]
    return made(r, "SCATTER_ND", operands, [Spec((extent, 3), dtype)], "ScatterNdOptions")


@case(*each("one_hot", "float32", "int8", "int32"))
def _one_hot(r: Random, dtype: str) -> Case:
    shape, depth = extents(r, int(r.integers(1, 3))), int(r.integers(1, 6))
    axis = int(r.integers(-1, len(shape) + 1))
    at = len(shape) if axis == -1 else axis
    values = [const(np.asarray(v, dtype)) for v in (3, -2)]
    operands = [Spec(shape, "int32"), const(depth, "int32"), *values]
    y = Spec((*shape[:at], depth, *shape[at:]), dtype)
    c = made(r, "ONE_HOT", operands, [y], "OneHotOptions", Axis=axis)
    c.inputs[0] = r.integers(-1, depth + 1, shape).astype("int32")
    return c


@case(*each("topk_v2", *WIDE))
def _topk(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)), 9)
    k = int(r.integers(1, shape[-1] + 1))
    x = spec(r, shape, dtype)
    out = (*shape[:-1], k)
    y = spec(r, out, dtype, x)
    return made(r, "TOPK_V2", [x, const(k, "int32")], [y, Spec(out, "int32")], "TopKV2Options", 2)


@case(*each("select_v2", *WIDE))
def _select(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    a = spec(r, shape, dtype)
    b = spec(r, tuple([1 if r.integers(2) else e for e in shape]), dtype, a)
    return made(r, "SELECT_V2", [Spec(shape, "bool"), a, b], [spec(r, shape, dtype, a)],
                "SelectV2Options")  # fmt: skip


@case(*each("select", *WIDE))
def _select_rows(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 4)))
    a = spec(r, shape, dtype)
    condition = shape if r.integers(2) else shape[:1]
    return made(r, "SELECT", [Spec(condition, "bool"), a, spec(r, shape, dtype, a)],
                [spec(r, shape, dtype, a)], "SelectOptions")  # fmt: skip


@case("embedding_lookup.float32", "embedding_lookup.int8")
def _embedding(r: Random, dtype: str) -> Case:
    rows, width, count = extents(r, 3)
    table = const(data(r, (rows, width), dtype))
    if dtype == "int8":
        table.scale, table.zero = 0.03, 0
    c = made(r, "EMBEDDING_LOOKUP", [Spec((count,), "int32"), table], [Spec((count, width))], "",
             3 if dtype == "int8" else 1)  # fmt: skip
    c.inputs[0] = r.integers(0, rows, count).astype("int32")
    return c


@case("cast.float32", "cast.int32", "cast.int8", "cast.bool")
def _cast(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    to = pick(r, "float32", "int32", "int64", "bool")
    return made(r, "CAST", [Spec(shape, dtype)], [Spec(shape, to)], "CastOptions")


@case("fill.float32")
def _fill(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    return made(r, "FILL", [const(shape, "int32"), Spec((), dtype)], [Spec(shape, dtype)])


@case("shape.float32")
def _shape(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    return made(r, "SHAPE", [Spec(shape)], [Spec((3,), "int32")], "ShapeOptions", OutType=2)


@case("dynamic_update_slice.float32")
def _update(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    part = tuple([int(r.integers(1, e + 1)) for e in shape])
    c = made(r, "DYNAMIC_UPDATE_SLICE", [Spec(shape), Spec(part), Spec((3,), "int32")],
             [Spec(shape)], version=1)  # fmt: skip
    c.inputs[2] = r.integers(-1, 6, 3).astype("int32")
    return c


@case("reverse_sequence.float32")
def _reverse_sequence(r: Random, dtype: str) -> Case:
    n, t, c_ = extents(r, 3)
    c = made(r, "REVERSE_SEQUENCE", [Spec((n, t, c_)), Spec((n,), "int32")], [Spec((n, t, c_))],
             "ReverseSequenceOptions", SeqDim=1, BatchDim=0)  # fmt: skip
    c.inputs[1] = r.integers(1, t + 1, n).astype("int32")
    return c


@case("matrix_diag.float32")
def _matrix_diag(r: Random, dtype: str) -> Case:
    n, k = extents(r, 2)
    return made(r, "MATRIX_DIAG", [Spec((n, k))], [Spec((n, k, k))], "MatrixDiagOptions")


@case("conv_3d.float32")
def _conv3d(r: Random, dtype: str) -> Case:
    n, c, o = extents(r, 3, 4)
    size, kernel = [int(r.integers(3, 7)) for _ in range(3)], extents(r, 3, 3)
    steps, padding = extents(r, 3, 2), int(r.integers(2))
    out = [-(-e // s) if padding == 0 else (e - k) // s + 1
           for e, s, k in zip(size, steps, kernel, strict=True)]  # fmt: skip
    w = const(data(r, (*kernel, c, o), "float32"))
    return made(r, "CONV_3D", [Spec((n, *size, c)), w, const(data(r, (o,), "float32"))],
                [Spec((n, *out, o))], "Conv3DOptions", Padding=padding, StrideD=steps[0],
                StrideH=steps[1], StrideW=steps[2])  # fmt: skip
