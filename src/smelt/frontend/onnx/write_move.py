"""Writers of operators that move elements, choose them by index, and make tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.ir.expr import Expr
from smelt.relax.compose.common import cast_to, scalar
from smelt.relax.nodes import RelaxExpr, TupleGetItem, call, tensor_types

from .write_graph import Form, Results, Writer, dtype_of, otherwise, plain, shape_of, written

INT_MIN = -(2**63)


def reshape_to(w: Writer, x: Any, have: Sequence[Any], want: Sequence[Any]) -> str:
    """The elements in another shape: 0 keeps a size, -1 is what remains, else sizes are computed.

    A number 0 is one that only a vector of numbers alone can say.
    """
    want = plain(want)
    numbers = [e for e in want if isinstance(e, int)]
    if len(numbers) == len(want):
        zero = 1 if 0 in numbers else None
        return w.emit("Reshape", x, np.array(want, np.int64), allowzero=zero)  # type: ignore[no-any-return]
    said = [0 if d < len(have) and e is have[d] and isinstance(e, Expr) else e
            for d, e in enumerate(want)]  # fmt: skip
    open_ = [e for e in said if isinstance(e, Expr)]
    if 0 in numbers or len(open_) > 1:
        exact = w.ints(want)  # a size may be 0
        return w.emit("Reshape", x, exact, allowzero=1)  # type: ignore[no-any-return]
    spec = [-1 if isinstance(e, Expr) else e for e in said]
    return w.emit("Reshape", x, np.array(spec, np.int64))  # type: ignore[no-any-return]


@otherwise("reshape")
def reshape(w: Writer, x: RelaxExpr, *, shape: Any) -> Results:
    """Another shape."""
    return reshape_to(w, x, shape_of(x), shape)


@written("transpose")
def transpose(w: Writer, x: RelaxExpr, *, axes: Any) -> Results:
    """Dimensions in another order."""
    rank = len(shape_of(x))
    return w.emit("Transpose", x, perm=None if axes is None else tuple([a % rank for a in axes]))


@written("squeeze")
def squeeze(w: Writer, x: RelaxExpr, *, axes: Any) -> Results:
    """Extents of 1 taken out."""
    shape = shape_of(x)
    places = [d for d, e in enumerate(shape) if isinstance(e, int) and e == 1]
    places = places if axes is None else [a % len(shape) for a in axes]
    return w.emit("Squeeze", x, np.array(places, np.int64)) if places else x


@written("expand_dims")
def expand_dims(w: Writer, x: RelaxExpr, *, axes: Any) -> Results:
    """Extents of 1 put in."""
    rank = len(shape_of(x)) + len(axes)
    return w.emit("Unsqueeze", x, np.array([a % rank for a in axes], np.int64)) if axes else x


@written("concat")
def concat(w: Writer, *xs: RelaxExpr, axis: int) -> Results:
    """One behind the other."""
    return w.emit("Concat", *xs, axis=axis) if len(xs) > 1 else xs[0]


@written("strided_slice")
def strided_slice(
    w: Writer, x: RelaxExpr, *, axes: Any, begin: Any, end: Any, strides: Any
) -> Results:
    """A part."""
    if not axes:
        return x
    steps = None if strides is None or all(s == 1 for s in strides) else w.ints(strides)
    if steps is not None:  # in front of the first element; -1 would be the last one
        back = zip(plain(end), plain(strides), strict=True)
        end = [INT_MIN if isinstance(e, int) and e < 0 and s < 0 else e for e, s in back]
    return w.emit("Slice", x, w.ints(begin), w.ints(end), w.ints(axes), steps)


@written("flip")
def flip(w: Writer, x: RelaxExpr, *, axes: Any) -> Results:
    """From the last element to the first."""
    back = np.full(len(axes), -1, np.int64)
    return w.emit("Slice", x, back, np.full(len(axes), INT_MIN + 1), w.ints(axes), back)


@written("pad")
def pad(w: Writer, x: RelaxExpr, *, pads: Any, mode: str, value: float) -> Results:
    """A border; what stands in it. Negative numbers cut elements off, last of all."""
    below = [min(p, 0) if isinstance(p, int) else 0 for p in plain(pads)]
    if mode != "constant" and any(below):
        wide = call("pad", x, pads=[max(p, 0) if isinstance(p, int) else p for p in plain(pads)],
                    mode=mode)  # fmt: skip
        rank = len(below) // 2
        end = [e + b for e, b in zip(shape_of(wide), below[rank:], strict=True)]
        return call("strided_slice", wide, axes=tuple(range(rank)), end=tuple(end),
                    begin=tuple([-b for b in below[:rank]]))  # fmt: skip
    if mode == "symmetric" or (mode == "wrap" and w.opset < 19):
        return _copied_border(x, plain(pads), mode)
    blank = w.number(value, x) if mode == "constant" and value != 0 else None
    return w.emit("Pad", x, w.ints(pads), blank, mode=mode)


def _copied_border(x: RelaxExpr, pads: tuple[Any, ...], mode: str) -> RelaxExpr:
    """A border of copies, dimension by dimension; no wider than the image."""
    for d, extent in enumerate(shape_of(x)):
        front, back = pads[d], pads[len(pads) // 2 + d]
        if not all(isinstance(e, int) for e in (front, back, extent)):
            raise Unsupported(f"a {mode} border of symbolic size")
        if min(front, back) < 0 or max(front, back) > extent:
            raise Unsupported(f"a {mode} border of {front} and {back} around {extent} elements")

        def part(begin: int, end: int, x: RelaxExpr = x, d: int = d) -> RelaxExpr:
            made = call("strided_slice", x, axes=(d,), begin=(begin,), end=(end,), strides=(1,))
            return call("flip", made, axes=(d,)) if mode == "symmetric" else made

        wrap = mode == "wrap"
        before = [part(extent - front, extent) if wrap else part(0, front)] if front else []
        behind = [part(0, back) if wrap else part(extent - back, extent)] if back else []
        x = call("concat", *before, x, *behind, axis=d) if before or behind else x
    return x


@written("tile")
def tile(w: Writer, x: RelaxExpr, *, repeats: Any) -> Results:
    """Repetition as a whole."""
    rank = max(len(repeats), len(shape_of(x)))
    full = [1] * (rank - len(repeats)) + list(repeats)
    if rank > len(shape_of(x)):
        x = call("reshape", x, shape=(*[1] * (rank - len(shape_of(x))), *shape_of(x)))
    return w.emit("Tile", x, w.ints(full))


@written("broadcast_to")
def broadcast_to(w: Writer, x: RelaxExpr, *, shape: Any) -> Results:
    """Repetition along extents of 1; what an extent is already may stay unsaid."""
    have = (*[None] * (len(shape) - len(shape_of(x))), *shape_of(x))
    said = [1 if e is h and isinstance(e, Expr) else e
            for e, h in zip(plain(shape), have, strict=True)]  # fmt: skip
    return w.emit("Expand", x, w.ints(said))


@written("trilu")
def trilu(w: Writer, x: RelaxExpr, *, k: Any, upper: bool) -> Results:
    """One side of a diagonal."""
    return w.emit("Trilu", x, w.scalar_size(k), upper=int(upper))


@written("dilate")
def dilate(w: Writer, x: RelaxExpr, *, strides: Any, value: float) -> Results:
    """Elements apart: each with numbers behind it, those behind the last cut off."""
    for d, s in enumerate(strides):
        shape = shape_of(x)
        if s == 1:
            continue
        rank = len(shape) + 1
        apart = call("expand_dims", x, axes=(d + 1,))
        behind = tuple([s - 1 if k == rank + d + 1 else 0 for k in range(2 * rank)])
        long = (*shape[:d], shape[d] * s, *shape[d + 1 :])
        x = call("reshape", call("pad", apart, pads=behind, value=value), shape=long)
        end = (shape[d] - 1) * s + 1
        x = call("strided_slice", x, axes=(d,), begin=(0,), end=(end,), strides=(1,))
    return x


@written("searchsorted")
def searchsorted(
    w: Writer, ordered: RelaxExpr, values: RelaxExpr, *, right: bool, dtype: str
) -> Results:
    """How many elements stand in front of a value."""
    rows = call("expand_dims", values, axes=(len(shape_of(values)),))
    if len(shape_of(ordered)) > 1:
        ordered = call("expand_dims", ordered, axes=(len(shape_of(ordered)) - 1,))
    smaller = call("less_equal" if right else "less", ordered, rows)
    return call("sum", call("cast", smaller, dtype=dtype), axes=(-1,), keepdims=False)


@otherwise("space_to_depth", "depth_to_space")
def _blocks(w: Writer, x: RelaxExpr, *, block: int, mode: str) -> Results:
    """CRD order, which ONNX does not have both ways."""
    n, c, h, width = shape_of(x)
    if dtype_of(x) and isinstance(c, int):
        b = block
        apart = call("reshape", x, shape=(n, c, h // b, b, width // b, b))
        order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
        made = call("transpose", apart, axes=order)
        return call("reshape", made, shape=(n, c * b * b, h // b, width // b))
    return None


# --------------------------------------------------------------------------------- by index


def index(w: Writer, x: RelaxExpr) -> Any:
    """Indices in a type that ONNX takes."""
    return x if dtype_of(x) in ("int32", "int64") else cast_to(x, "int64")


@written("gather")
def gather(w: Writer, x: RelaxExpr, indices: RelaxExpr, *, axis: int, mode: str) -> Results:
    """Slices by index."""
    at = index(w, indices)
    if mode != "negative":
        extent = shape_of(x)[axis]
        number = cast_to(at, "int64")
        if mode == "clip":
            last = w.emit("Sub", w.size(extent), np.array([1]))
            last = w.emit("Reshape", last, np.array([], np.int64))
            at = w.emit("Clip", number, np.array(0), last)
        else:
            at = w.emit("Mod", number, w.scalar_size(extent))
    return w.emit("Gather", x, at, axis=axis)


@written("one_hot")
def one_hot(
    w: Writer, indices: RelaxExpr, *, depth: Any, axis: int, on_value: Any, off_value: Any,
    dtype: str,
) -> Results:  # fmt: skip
    """Two values, of float32 or int64 first: onnxruntime has these."""
    kind = "float32" if dt.is_float(dtype) else "int64"
    values = np.array([off_value, on_value], dt.to_numpy(kind))
    made = w.emit("OneHot", cast_to(indices, "int64"), w.ints([depth]), values, axis=axis)
    return made if kind == dtype else w.as_type(made, dtype)


@written("topk")
def topk(w: Writer, x: RelaxExpr, *, k: Any, axis: int, largest: bool, sorted: bool) -> Results:
    """The largest or smallest and their places."""
    return w.emit("TopK", x, w.ints([k]), results=2, axis=axis, largest=int(largest),
                  sorted=int(sorted))  # fmt: skip


def _sorted(w: Writer, x: RelaxExpr, axis: int, descending: bool) -> Any:
    extent = shape_of(x)[axis]
    return w.emit("TopK", x, w.ints([extent]), results=2, axis=axis, largest=int(descending))


@written("sort")
def sort(w: Writer, x: RelaxExpr, *, axis: int, descending: bool) -> Results:
    """All as the largest or smallest."""
    return _sorted(w, x, axis, descending)[0]


@written("argsort")
def argsort(w: Writer, x: RelaxExpr, *, axis: int, descending: bool, dtype: str) -> Results:
    """Their places."""
    places = _sorted(w, x, axis, descending)[1]
    return places if dtype == "int64" else w.as_type(places, dtype)


@written("write_sequence")
def write_sequence(
    w: Writer, x: RelaxExpr, update: RelaxExpr, begins: RelaxExpr, *, axis: int, circular: bool
) -> Results:
    """TensorScatter, which comes with operator set 24."""
    mode = "circular" if circular else "linear"
    return w.emit("TensorScatter", x, update, cast_to(begins, "int64"), axis=axis, mode=mode)


@otherwise("write_sequence")
def write_sequence_steps(
    w: Writer, x: RelaxExpr, update: RelaxExpr, begins: RelaxExpr, *, axis: int, circular: bool
) -> Results:
    """Every element of x, or the one of the run that lies in its place."""
    shape, rank = shape_of(x), len(shape_of(x))
    at, batch = axis % rank, [shape[0], *[1] * (rank - 1)]
    line = [shape[at] if d == at else 1 for d in range(rank)]
    steps = call("arange", start=0, step=1, count=shape[at], dtype="int64")
    first = call("reshape", cast_to(begins, "int64"), shape=tuple(batch))
    place = call("subtract", call("reshape", steps, shape=tuple(line)), first)
    if circular:
        place = call("mod", place, call("arange", start=shape[at], step=1, count=1, dtype="int64"))
    count = call("arange", start=shape_of(update)[at], step=1, count=1, dtype="int64")
    zero = scalar(0, "int64")
    inside = call("logical_and", call("greater_equal", place, zero), call("less", place, count))
    found = call("broadcast_to", call("where", inside, place, zero), shape=shape)
    return call("where", inside, call("gather_elements", update, found, axis=at), x)


@written("sequence_mask")
def sequence_mask(
    w: Writer, x: RelaxExpr, valid_length: RelaxExpr, *, mask_value: float, axis: int
) -> Results:
    """What lies behind a length becomes a number; x is [length, batch, ...] or [batch, ...]."""
    rank, own = len(shape_of(x)), dtype_of(valid_length)
    steps = call("arange", start=0, step=1, count=shape_of(x)[axis], dtype=own)
    one = [1] * (rank - 2)
    length, batch = shape_of(x)[axis], shape_of(x)[1 - axis]
    place = call("reshape", steps, shape=(length, *([1] if axis == 0 else []), *one))
    rows = (batch, *([1] if axis == 1 else []), *one)
    lengths = call("reshape", valid_length, shape=rows)
    inside = call("less", place, lengths)
    return call("where", inside, x, scalar(mask_value, dtype_of(x)))


@written("invert_permutation")
def invert_permutation(w: Writer, x: RelaxExpr) -> Results:
    """The order that undoes an order."""
    return call("argsort", x, axis=0, dtype=dtype_of(x))


@written("diagonal")
def diagonal(w: Writer, x: RelaxExpr, *, axes: Any) -> Results:
    """Elements whose two indices are equal: all others are 0 in a sum along the second."""
    shape, places = shape_of(x), [a % len(shape_of(x)) for a in axes]
    n = shape[places[0]]
    ones = call("cast", call("eye", rows=n, columns=n, dtype="int32"), dtype="bool")
    mask = call("reshape", ones, shape=tuple([n if d in places else 1 for d in range(len(shape))]))
    kept = call("where", mask, x, scalar(0, dtype_of(x)))
    return call("sum", kept, axes=(places[1],), keepdims=False)


# --------------------------------------------------------------------------------- made of nothing


@written("full")
def full(w: Writer, *, shape: Any, value: float, dtype: str) -> Results:
    """One number everywhere."""
    one = np.asarray(value, dt.to_numpy(dtype))
    dims = plain(shape)
    if all(isinstance(e, int) for e in dims) and math.prod(dims) <= 64:
        return w.array(np.full(dims, one, one.dtype))
    return w.emit("Expand", w.array(one), w.ints(shape))


@written("arange")
def arange(w: Writer, *, start: Any, step: Any, count: Any, dtype: str) -> Results:
    """start, start + step, ..."""
    first, by, count = plain((start, step, count))
    if all(isinstance(e, int | float) for e in (first, by, count)) and count <= 4096:
        data = np.asarray(first + by * np.arange(count))
        return w.array(data.astype(dt.to_numpy(dtype)))
    zero, one = np.array(0, np.int64), np.array(1, np.int64)
    made = w.emit("Range", zero, w.scalar_size(count), one)
    whole = dt.is_int(dtype) or all(isinstance(e, int) for e in (first, by))
    kind = "int64" if whole else dtype
    made = made if whole else w.as_type(made, kind)
    for op, e, idle in (("Mul", by, 1), ("Add", first, 0)):
        if isinstance(e, Expr) or e != idle:
            other = w.size(e) if isinstance(e, Expr) else w.number(e, kind)
            made = w.emit(op, made, other)
    return made if kind == dtype else w.as_type(made, dtype)


@written("eye")
def eye(w: Writer, *, rows: Any, columns: Any, k: int, dtype: str) -> Results:
    """Ones on a diagonal."""
    dims = plain((rows, columns))
    if all(isinstance(e, int) for e in dims):
        return w.array(np.eye(dims[0], dims[1], k=k).astype(dt.to_numpy(dtype)))
    blank = w.emit("Expand", w.number(0, dtype), w.ints(dims))
    return w.emit("EyeLike", blank, k=k)


def _dependent(name: str) -> Form:
    return lambda w, *definitions, **attrs: call(name, **attrs)


for _name in ("arange", "full", "eye"):
    written(f"vm.{_name}")(_dependent(_name))


@written("vm.depend")
def depend(w: Writer, x: RelaxExpr, *definitions: RelaxExpr) -> Results:
    """The value itself."""
    return x


@written("sizes")
def sizes(w: Writer, *numbers: RelaxExpr, where: str) -> Results:
    """Nothing: sizes are read where they are used."""
    return ("",) * 64


# ------------------------------------------------------------------------- sizes the data decide


def _count(w: Writer, rows: str) -> str:
    shape = w.emit("Shape", rows)
    return w.emit("Gather", shape, np.array(0, np.int64), axis=0)  # type: ignore[no-any-return]


def _with_room(w: Writer, found: str, index: int, blank: int = 0) -> str:
    """A result of the call that is being written, as long as it says: with numbers behind what
    there is. Where only that is looked at, it stays as it is."""
    c = w.current
    assert c is not None
    items = [u for u in w.users.get(c, ()) if isinstance(u, TupleGetItem)]
    if items and all(w.only_cut(u) for u in items if u.index == index):
        return found
    t = tensor_types(c.type)[index]
    room = w.emit(
        "Sub", w.size(plain(t.shape)[0]), w.emit("Reshape", _count(w, found), np.array([1]))
    )
    begins, rest = np.zeros(t.rank, np.int64), np.zeros(t.rank - 1, np.int64)
    pads = w.emit("Concat", begins, room, rest, axis=0)
    return w.emit("Pad", found, pads, w.number(blank, t.dtype))  # type: ignore[no-any-return]


@written("argwhere")
def argwhere(w: Writer, x: RelaxExpr) -> Results:
    """The positions that are there, and how many they are."""
    found = w.emit("Transpose", w.emit("NonZero", x), perm=(1, 0))
    return _with_room(w, found, 0), _count(w, found)


def _distinct(w: Writer, x: RelaxExpr, sorted: bool, axis: int | None) -> Results:
    """Values, where they come first, which is which, how often they come, and how many they are."""
    values, first, inverse, often = w.emit("Unique", x, results=4, axis=axis, sorted=int(sorted))
    found = [_with_room(w, v, n) for n, v in ((0, values), (1, first), (3, often))]
    return found[0], found[1], inverse, found[2], _count(w, values)


@written("unique")
def unique(w: Writer, x: RelaxExpr, *, sorted: bool) -> Results:
    """The distinct elements of a vector."""
    return _distinct(w, x, sorted, None)


@written("unique_rows")
def unique_rows(w: Writer, x: RelaxExpr, *, sorted: bool) -> Results:
    """The distinct rows of a matrix."""
    return _distinct(w, x, sorted, 0)


@written("all_class_non_max_suppression")
def non_max_suppression(
    w: Writer, boxes: RelaxExpr, scores: RelaxExpr, *, max_output_boxes_per_class: int,
    iou_threshold: float, score_threshold: float | None, center_point_box: bool,
    output_format: str,
) -> Results:  # fmt: skip
    """The boxes that are kept, and how many they are."""
    if output_format != "onnx":
        raise Unsupported(f"output_format={output_format!r}; ONNX has rows of (image, class, box)")
    most = max_output_boxes_per_class
    most = np.iinfo(np.int32).max if most < 0 else most
    least = None if score_threshold is None else np.array([score_threshold], np.float32)
    found = w.emit(
        "NonMaxSuppression", boxes, scores, np.array([most]), np.array([iou_threshold], np.float32),
        least, center_point_box=int(center_point_box),
    )  # fmt: skip
    count = w.emit("Reshape", _count(w, found), np.array([1]))
    return _with_room(w, found, 0, -1), count
