"""What CMSIS-NN computes in one call, recognised in graphs of the core's operators.

TFLite's quantized operators become several of the core's: products of integers, constants added, a
requantization, a clip. Here they are read back: one `Part` for each call of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from smelt.frontend.common import Build, ModelNode, Value
from smelt.frontend.tflite import fixed
from smelt.frontend.tflite.ops_softmax import exponentials, radius, scaling, shares
from smelt.ir.build import value_of
from smelt.ir.node import ordered
from smelt.ir.types import TensorType
from smelt.relax.equal import structural_equal
from smelt.relax.folding import folded
from smelt.relax.graph import operands
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Var

Array = np.ndarray[Any, Any]

TO_PIXELS, TO_CHANNELS = (0, 2, 3, 1), (0, 3, 1, 2)
"""From [n, c, h, w] to [n, h, w, c], and back."""


@dataclass(frozen=True)
class Window:
    """A window on an image, in pixels, height first; pads: above, left, below, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Part:
    """A call of the library.

    inputs     the values that it is given
    low, high  what its result is held between
    """

    inputs: tuple[RelaxExpr, ...]
    low: int
    high: int


@dataclass(frozen=True)
class Product(Part):
    """A convolution, or a product of matrices (no window).

    weights  [o, c / groups, h, w] or [o, k]
    bias     int32, of each output; what an offset of the operand makes is not in it
    factors  numbers of 31 bits and powers of two, of each output or of all
    offsets  added to the operand, and to the result
    turned   whether the result has its channels behind the pixels, other than the operand
    """

    weights: Array
    bias: Array
    factors: Sequence[tuple[int, int]]
    offsets: tuple[int, int]
    window: Window | None = None
    groups: int = 1
    turned: bool = False


@dataclass(frozen=True)
class Pool(Part):
    """The mean or the largest of each window."""

    window: Window
    mean: bool


@dataclass(frozen=True)
class Pairs(Part):
    """Sums or products of the elements of two tensors.

    factors  of both operands (sums), and of the result
    offsets  added to both operands, and to the result
    shift    by how many bits sums are finer than their operands; None: a product
    """

    factors: Sequence[tuple[int, int]]
    offsets: tuple[int, int, int]
    shift: int | None


@dataclass(frozen=True)
class Softmax(Part):
    """Softmax of the last dimension; `factor` scales distances from the largest number."""

    factor: tuple[int, int]


# ------------------------------------------------------------------------------------------ reading


def shape_of(v: RelaxExpr) -> tuple[int, ...] | None:
    """The extents of a tensor, where all are numbers."""
    if not isinstance(v.type, TensorType):
        return None
    found = [value_of(e) for e in v.type.shape]
    return None if None in found else tuple([e for e in found if e is not None])


def _dtype(v: RelaxExpr) -> str:
    return v.type.dtype if isinstance(v.type, TensorType) else ""


def _array(v: RelaxExpr | None) -> Array | None:
    """The elements of a value that follows from constants."""
    known = None if v is None else folded(v)
    return np.asarray(known.data) if isinstance(known, Constant) else None


def _number(v: RelaxExpr | None) -> float | None:
    data = _array(v)
    return None if data is None or data.size != 1 else data.reshape(-1)[0].item()


def _call(v: RelaxExpr | None, *names: str) -> Call | None:
    """A value as a call of one of some operators."""
    return v if isinstance(v, Call) and v.callee in names else None


def _arg(c: Call, n: int = 0) -> RelaxExpr:
    """An operand that the operator has to have."""
    found = c.args[n]
    assert found is not None
    return found


@dataclass(frozen=True)
class _Scaled:
    """A requantization: the sums, their factors, the result's zero point.

    axis  along which there are several factors; None: there is one
    """

    sums: RelaxExpr
    factors: tuple[tuple[int, int], ...]
    zero: int
    rounding: str
    axis: int | None


def _scaled(v: RelaxExpr) -> _Scaled | None:
    c = _call(v, "requantize")
    if c is None:
        return None
    sums, scale, zero_in, over, zero = c.args
    scales, own, offset = _array(scale), _number(over), 0 if zero is None else _number(zero)
    plain = zero_in is None or _number(zero_in) == 0
    shape = None if sums is None else shape_of(sums)
    if sums is None or scales is None or own is None or offset is None or shape is None:
        return None
    if not plain or _dtype(sums) != "int32" or c.attrs["compute_dtype"] != "int64":
        return None
    ratios = scales.astype(np.float64).reshape(-1) / own
    axis = c.attrs["axis"] % len(shape) if len(ratios) > 1 else None
    factors = tuple([fixed.factor(float(r)) for r in ratios])
    return _Scaled(sums, factors, int(offset), str(c.attrs["rounding"]), axis)


def _distance(v: RelaxExpr) -> tuple[RelaxExpr, int] | None:
    """Numbers of 8 bits without their zero point, and the offset that this adds."""
    less = _call(v, "subtract")
    wide = _call(v if less is None else _arg(less), "cast")
    zero = 0 if less is None else _number(less.args[1])
    if wide is None or zero is None or _dtype(wide) != "int32" or _dtype(_arg(wide)) != "int8":
        return None
    return _arg(wide), -int(zero)


# --------------------------------------------------------------------------------------- operators


def _product(v: _Scaled, low: int, high: int) -> Part | None:
    """A convolution or a product of matrices, constants added, requantized."""
    sums: RelaxExpr = v.sums
    added: Array = np.zeros(1, np.int64)
    axes, turned = [v.axis], False
    while (c := _call(sums, "add", "subtract", "transpose")) is not None:
        known = _array(c.args[1]) if c.callee != "transpose" else None
        if c.callee == "transpose" and not turned and c.attrs["axes"] == TO_PIXELS:
            axes, turned = [None if a is None else TO_PIXELS[a] for a in axes], True
        elif known is None or not _fits(known, added, c):
            return None
        else:
            axes += _axes(known, c)
            added = added + known.reshape(-1) * np.int64(1 if c.callee == "add" else -1)
        sums = _arg(c)
    c = _call(sums, "conv2d", "matmul")
    if c is None:
        return None
    x, weights = _arg(c), _array(c.args[1])
    if weights is None or weights.dtype != np.int8 or _dtype(x) != "int8":
        return None
    outputs = weights.shape[0]
    if added.size not in (1, outputs) or len(v.factors) not in (1, outputs):
        return None
    bias = np.broadcast_to(added, (outputs,))
    rest = bias, v.factors, v.zero, low, high
    if v.rounding not in ("up", "twice") or not {None, 1}.issuperset(axes):
        return None
    if c.callee == "matmul":
        return None if turned else _matrices(x, c, weights, *rest)
    found = _convolution(x, c, weights, *rest)
    return None if found is None else replace(found, turned=turned)


def _fits(known: Array, added: Array, c: Call) -> bool:
    """Whether a constant is no larger than the sums, and of as many channels as those before."""
    sizes = {1, known.size, added.size}
    return len(sizes) <= 2 and shape_of(_arg(c)) == shape_of(c)


def _axes(known: Array, c: Call) -> list[int | None]:
    """The dimensions of a sum along which a constant differs."""
    front = len(shape_of(c) or ()) - known.ndim
    return [front + n for n, extent in enumerate(known.shape) if extent > 1]


def _matrices(
    x: RelaxExpr, sums: Call, weights: Array, bias: Array, factors: Any, zero: int, low: int,
    high: int,
) -> Part | None:  # fmt: skip
    shape = shape_of(x)
    turned = sums.attrs["transpose_b"] and not sums.attrs["transpose_a"]
    if shape is None or len(shape) != 2 or not turned or len(factors) != 1:
        return None
    return Product((x,), low, high, weights, _wrapped(bias), factors, (0, zero))


def _convolution(
    x: RelaxExpr, sums: Call, weights: Array, bias: Array, factors: Any, zero: int, low: int,
    high: int,
) -> Product | None:  # fmt: skip
    a, pads, border = sums.attrs, [*sums.attrs["pads"]], sums.attrs["border"]
    own = _call(x, "pad")
    if own is not None and not any(pads):
        wide = own.attrs["pads"]
        if any(wide[n] for n in (0, 1, 4, 5)) or min(wide) < 0 or own.attrs["mode"] != "constant":
            return None
        pads, border, x = [*wide[2:4], *wide[6:8]], int(own.attrs["value"]), _arg(own)
    shape, groups = shape_of(x), a["groups"]
    if shape is None or (groups > 1 and (shape[:2] != (1, groups) or weights.shape[1] != 1)):
        return None  # the library's depthwise convolution takes one image
    # the border stands for 0: what it adds to sums is in the constants
    offset = -int(border) if any(pads) else 0
    alone = bias - offset * weights.reshape(len(weights), -1).sum(1, dtype=np.int64)
    kernel = (weights.shape[2], weights.shape[3])
    window = Window(kernel, a["strides"], (pads[0], pads[1], pads[2], pads[3]), a["dilations"])
    return Product((x,), low, high, weights, _wrapped(alone), factors * (len(bias) // len(factors)),
                   (offset, zero), window, groups)  # fmt: skip


def _wrapped(sums: Array) -> Array:
    """Sums as int32 holds them."""
    return sums.astype(np.int64).astype(np.uint32).view(np.int32)


def _pairs(v: _Scaled, low: int, high: int) -> Part | None:
    """Sums or products of quantized numbers."""
    sums = _call(v.sums, "add", "multiply")
    if sums is None or v.rounding != "twice" or len(v.factors) != 1:
        return None
    is_sum, factors, shifts, given = sums.callee == "add", [], set(), []
    for side in (_arg(sums, 0), _arg(sums, 1)):
        own = _finer(side) if is_sum else (side, (0, 0), 0)
        found = None if own is None else _distance(own[0])
        if own is None or found is None:
            return None
        given.append(found)
        factors.append(own[1])
        shifts.add(own[2])
    (a, offset_a), (b, offset_b) = given
    if len(shifts) != 1 or shape_of(a) is None or shape_of(a) != shape_of(b):
        return None
    return Pairs((a, b), low, high, (*factors, *v.factors), (offset_a, offset_b, v.zero),
                 shifts.pop() if is_sum else None)  # fmt: skip


def _finer(v: RelaxExpr) -> tuple[RelaxExpr, tuple[int, int], int] | None:
    """A distance, its factor, and by how many bits it is moved to the left before."""
    own = _scaled(v)
    if own is None or own.zero or own.rounding != "twice" or len(own.factors) != 1:
        return None
    product = _call(own.sums, "multiply")
    by = None if product is None or _dtype(v) != "int32" else _number(product.args[1])
    if product is None or by is None or by <= 0 or int(by) & (int(by) - 1):
        return None
    return _arg(product), own.factors[0], int(by).bit_length() - 1


def _mean(v: RelaxExpr) -> Part | None:
    """The mean of windows, rounded to the nearest number, halves away from zero."""
    low, high = -128, 127
    if (narrow := _call(v, "cast")) is not None:
        v = _arg(narrow)
    if (held := _call(v, "clip")) is not None:
        low, high, v = int(held.attrs["min"]), int(held.attrs["max"]), _arg(held)
    quotient = _call(v, "divide")
    chosen = None if quotient is None else _call(quotient.args[0], "where")
    if quotient is None or chosen is None:
        return None
    names = ("greater", "add", "subtract")
    three = [_call(a, n) for a, n in zip(chosen.args, names, strict=True)]
    above, up, down = three
    count = _array(quotient.args[1])
    if above is None or up is None or down is None or count is None:
        return None
    halves = [_array(e.args[1]) for e in (up, down)]
    same = _arg(up) is _arg(down) is _arg(above) and _number(above.args[1]) == 0
    if not same or any(h is None or not np.array_equal(h, count // 2) for h in halves):
        return None
    found = _covered(_arg(above))
    if found is None:
        return None
    (x, shape), window = found
    pixels = _pixels(shape, window)
    fits = count.size in (1, pixels.size) and np.all(count.reshape(-1) == pixels.reshape(-1))
    return Pool((x,), low, high, window, True) if fits else None


def _image(x: RelaxExpr) -> tuple[int, ...] | None:
    """The extents of one image, or None: pools of older versions of the library take no more."""
    shape = shape_of(x)
    return shape if shape is not None and len(shape) == 4 and shape[0] == 1 else None


def _covered(v: RelaxExpr) -> tuple[tuple[RelaxExpr, tuple[int, ...]], Window] | None:
    """Sums of all pixels, or of windows: the image that they are sums of, its extents, and which
    pixels."""
    c = _call(v, "sum", "conv2d")
    found = None if c is None else _distance(_arg(c))
    shape = None if found is None else _image(found[0])
    if c is None or found is None or found[1] or shape is None:
        return None
    given, a = (found[0], shape), c.attrs
    if c.callee == "sum":
        whole = sorted(n % 4 for n in a["axes"]) == [2, 3] and a["keepdims"]
        return (given, Window((shape[2], shape[3]))) if whole else None
    ones = _array(c.args[1])
    alone = a["groups"] == shape[1] and tuple(a["dilations"]) == (1, 1) and not a["border"]
    if ones is None or not np.all(ones == 1) or len(ones) != shape[1] or not alone:
        return None
    return given, Window((ones.shape[2], ones.shape[3]), a["strides"], a["pads"])


def _pixels(shape: Sequence[int], w: Window) -> Array:
    """How many pixels of the image each window covers."""
    each = []
    for d in (0, 1):
        size, k, step, before, after = shape[2 + d], w.kernel[d], w.strides[d], *w.pads[d::2]
        starts = np.arange((size + before + after - k) // step + 1) * step - before
        each.append(np.minimum(starts + k, size) - np.maximum(starts, 0))
    return np.asarray(np.multiply.outer(*each))


def _largest(v: RelaxExpr, low: int, high: int) -> Part | None:
    """The largest of each window."""
    c = _call(v, "max_pool")
    if c is None or _image(_arg(c)) is None or tuple(c.attrs["dilations"]) != (1, 1):
        return None
    window = Window(c.attrs["kernel"], c.attrs["strides"], c.attrs["pads"])
    return Pool((_arg(c),), low, high, window, False)


# ----------------------------------------------------------------------------------------- softmax


@lru_cache(maxsize=16)
def _scale_of(table: bytes) -> tuple[int, int] | None:
    """What scales distances so that a table of exponentials comes out, number for number."""
    exps = np.frombuffer(table, np.int64)
    far = np.flatnonzero(exps > 1 << 20).max(initial=0)
    if not 0 < exps[far] < 1 << 31 or not far:
        return None
    number, power = scaling(-float(np.log(exps[far] / 2.0**31)) / float(far))
    for distance in range(2048):
        for n in {number + distance, number - distance}:
            if 1 << 30 <= n < 1 << 31 and np.array_equal(exponentials(n, power), exps):
                return n, power
    return None


def _softmax(v: RelaxExpr) -> Part | None:
    """The same graph as the importer writes for softmax of a row, whatever the scale is."""
    narrow = _call(v, "cast")
    if narrow is None or _call(narrow.args[0], "clip") is None:
        return None
    above = _upward(v)
    found = next((n for n in above if n.callee == "gather"), None)
    most = next((n for n in above if n.callee == "max"), None)
    exps = None if found is None else _array(found.args[0])
    codes = None if most is None else _call(most.args[0], "cast")
    if exps is None or exps.shape != (256,) or codes is None:
        return None
    x = _arg(codes)
    factor = _scale_of(exps.astype(np.int64).tobytes())
    if shape_of(x) is None or factor is None or factor[1] < 0:
        return None
    p = Var("x", x.type)
    g = Build(ModelNode("", "SOFTMAX", (), ()), cast(Any, None))
    want = shares(g, Value(cast(TensorType, x.type), p), exps).expr
    same = structural_equal(Function((p,), want), Function((p,), replaced(v, {x: p})))
    return Softmax((x,), -128, 127, factor) if same else None


def _upward(v: RelaxExpr, most: int = 120) -> list[Call]:
    """The calls that a value is made of, the nearest first."""
    found, seen = [v], {v}
    for n in found:
        if len(found) > most:
            break
        new = [o for o in operands(n) if o not in seen]
        seen.update(new)
        found += new
    return [n for n in found if isinstance(n, Call)]


def replaced(v: RelaxExpr, given: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """A value with others in the places of some that it is made of; nothing below these is seen."""
    done = dict(given)

    def below(n: RelaxExpr) -> list[RelaxExpr]:
        return [] if n in given else operands(n)

    for n in ordered([v], below):
        if n not in done:
            args = [None if a is None else done[a] for a in n.args] if isinstance(n, Call) else []
            done[n] = n.replace(args=tuple(args)) if isinstance(n, Call) else n
    return done[v]


# ---------------------------------------------------------------------------------------- all of it

_SCALED: tuple[Callable[[_Scaled, int, int], Part | None], ...] = (_product, _pairs)


def part_of(v: RelaxExpr) -> Part | None:
    """The call of the library that computes a value; None where there is none."""
    if _dtype(v) != "int8" or shape_of(v) is None:
        return None
    low, high, inner = -128, 127, v
    if (held := _call(v, "clip")) is not None:
        low, high, inner = int(held.attrs["min"]), int(held.attrs["max"]), _arg(held)
    scaled = _scaled(inner)
    tries = [fn(scaled, low, high) for fn in _SCALED] if scaled is not None else []
    found = next((t for t in tries if t is not None), None)
    return found or _largest(inner, low, high) or _mean(v) or _softmax(v)


def softmax_radius(s: Softmax) -> int:
    """The largest distance from the largest number that counts."""
    return radius(s.factor[1])
