"""Writers of convolutions, pools and normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.relax.compose.common import cast_to, scalar
from smelt.relax.compose.window import without_border
from smelt.relax.nodes import RelaxExpr, call, constant

from .write_graph import Form, Results, Writer, dtype_of, known, otherwise, shape_of, written
from .write_math import is_call, operand_of

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose")


def placed(rank: int, strides: Any, pads: Any, dilations: Any) -> dict[str, Any]:
    """How a window is placed; what is not given says nothing. Dilations of 1 need no word: some
    pools have none."""
    given = {"strides": tuple(strides) or (1,) * rank, "pads": tuple(pads) or (0,) * (2 * rank)}
    spread = tuple(dilations)
    return {**given, "dilations": spread if any(d != 1 for d in spread) else None}


def _floats(x: RelaxExpr, w: RelaxExpr, out_dtype: str) -> tuple[RelaxExpr, RelaxExpr]:
    """The operands in the type of the sums."""
    own = out_dtype or dtype_of(x)
    if not dt.is_float(own):
        raise Unsupported(f"a convolution of {dtype_of(x)} and {dtype_of(w)} with sums of {own}; "
                          "ONNX has floats, and bytes with sums of int32")  # fmt: skip
    return cast_to(x, own), cast_to(w, own)


def _in_bytes(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and low >= -128 and high <= 127


def centred(x: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr | None]:
    """Bytes and their zero point, of integers that are their distance from it."""
    zero = None
    if is_call(x, "subtract"):
        x, zero = x.args  # type: ignore[assignment]
        while is_call(zero, "reshape", "cast"):
            zero = operand_of(zero)
    inner = operand_of(x) if is_call(x, "cast") else x
    if is_call(inner, "clip") and _in_bytes(inner.attrs["min"], inner.attrs["max"]):
        inner = call("cast", inner, dtype="int8")
    if dtype_of(inner) not in ("int8", "uint8") or (zero is not None and
                                                   len(shape_of(zero)) > 1):  # fmt: skip
        raise Unsupported(f"a convolution of {dtype_of(x)} with sums of integers; ONNX has floats, "
                          "and bytes less zero points")  # fmt: skip
    if zero is not None and dtype_of(zero) != dtype_of(inner):
        data, (low, high) = known(zero), dt.limits(dtype_of(inner))
        if data is None or data.min() < low or data.max() > high:
            raise Unsupported(f"a zero point of {dtype_of(zero)} for {dtype_of(inner)}")
        zero = constant(data.astype(dt.to_numpy(dtype_of(inner))))
    return inner, zero


@written("conv1d", "conv2d", "conv3d")
def conv(
    w: Writer, x: RelaxExpr, k: RelaxExpr, *, strides: Any, pads: Any, dilations: Any, groups: int,
    out_dtype: str, border: int, bias: Any = None,
) -> Results:  # fmt: skip
    """Conv, or ConvInteger of bytes; a border that is not 0 by Pad."""
    if border:
        window = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
        name = f"conv{len(shape_of(x)) - 2}d"
        return without_border(call(name, x, k, **window, out_dtype=out_dtype, border=border))
    where = placed(len(shape_of(x)) - 2, strides, pads, dilations)
    where["group"] = groups
    if all(isinstance(e, int) for e in shape_of(k)[2:]):
        where["kernel_shape"] = shape_of(k)[2:]
    if not dt.is_float(out_dtype or dtype_of(x)):
        if dt.bits(out_dtype or dtype_of(x)) > 32:
            raise Unsupported("a convolution with sums of 64 bits; ONNX has sums of int32")
        (a, za), (b, zb), kind = centred(x), centred(k), out_dtype or dtype_of(x)
        made = w.emit("ConvInteger", a, b, za, zb, **where)
        return made if kind == "int32" else w.as_type(made, kind)
    return w.emit("Conv", *_floats(x, k, out_dtype), bias, **where)


@otherwise("conv1d", "conv2d", "conv3d")
def conv_by_taps(
    w: Writer, x: RelaxExpr, k: RelaxExpr, *, strides: Any, pads: Any, dilations: Any, groups: int,
    out_dtype: str, border: int,
) -> Results:  # fmt: skip
    """Integers, each channel on its own: the sum of the image's parts that meet each weight."""
    taps, shape, rank = known(k), shape_of(x), len(shape_of(x)) - 2
    if taps is None or taps.shape[:2] != (groups, 1) or shape[1] != groups:
        return None
    kind, axes = out_dtype or dtype_of(x), tuple(range(2, rank + 2))
    wide = cast_to(x, kind)
    if any(pads):
        wide = call("pad", wide, pads=(0, 0, *pads[:rank], 0, 0, *pads[rank:]), value=border)
    total: RelaxExpr | None = None
    image = shape_of(wide)[2:]
    span = [(n - 1) * d for n, d in zip(taps.shape[2:], dilations, strict=True)]
    for tap in np.ndindex(*taps.shape[2:]):
        begin = tuple([t * d for t, d in zip(tap, dilations, strict=True)])
        end = tuple([e - s + b for e, s, b in zip(image, span, begin, strict=True)])
        part = call("strided_slice", wide, axes=axes, begin=begin, end=end, strides=tuple(strides))
        weight = taps[(slice(None), 0, *tap)].reshape(groups, *[1] * rank)
        if (weight != 1).any():
            part = call("multiply", part, constant(weight.astype(dt.to_numpy(kind))))
        total = part if total is None else call("add", total, part)
    return total


@written("conv_transpose")
def conv_transpose(
    w: Writer, x: RelaxExpr, k: RelaxExpr, *, strides: Any, pads: Any, dilations: Any,
    output_padding: Any, groups: int, out_dtype: str, bias: Any = None,
) -> Results:  # fmt: skip
    """ConvTranspose."""
    where = placed(len(shape_of(x)) - 2, strides, pads, dilations)
    extra = tuple(output_padding) if any(output_padding) else None
    return w.emit("ConvTranspose", *_floats(x, k, out_dtype), bias, group=groups,
                  output_padding=extra, **where)  # fmt: skip


@written("add")
def conv_bias(w: Writer, a: RelaxExpr, b: RelaxExpr) -> Results:
    """A convolution and a number for each of its channels."""
    for x, bias in ((a, b), (b, a)):
        if not is_call(x, *CONVOLUTIONS) or not w.used_once(x) or not dt.is_float(dtype_of(x)):
            continue
        shape, own = shape_of(x), shape_of(bias)
        fits = own in ((shape[1], *[1] * (len(shape) - 2)), (1, shape[1], *[1] * (len(shape) - 2)))
        if fits and dtype_of(bias) == dtype_of(x):
            form = conv_transpose if is_call(x, "conv_transpose") else conv
            return w.emit_as(x, form, *x.args, **x.attrs, bias=vector(w, bias))
    return None


def vector(w: Writer, x: RelaxExpr) -> Any:
    """The elements as a vector, as what they were before they were reshaped, where that is one."""
    data = known(x)
    if data is not None:
        return w.array(data.reshape(-1), getattr(x, "name", ""))
    if is_call(x, "reshape", "expand_dims"):
        inner = operand_of(x)
        if len(shape_of(inner)) == 1:
            return inner
    return w.emit("Reshape", x, np.array([-1]))


# ----------------------------------------------------------------------------------------- pools


def _pool(name: str, core: str) -> Form:
    def form(
        w: Writer, x: RelaxExpr, *, kernel: Any, strides: Any, pads: Any, dilations: Any,
        **attrs: Any,
    ) -> Results:  # fmt: skip
        rank = len(kernel)
        wide = [p for p, k in zip(pads, (*kernel, *kernel), strict=False) if p >= k]
        if wide and attrs.get("count_include_pad") is False:
            raise Unsupported(f"pads={tuple(pads)}, as wide as the window {tuple(kernel)}, that do "
                              "not count")  # fmt: skip
        if wide:
            border = 0.0
            if core == "max_pool":
                own = dtype_of(x)
                border = -np.inf if dt.is_float(own) else dt.limits(own)[0]
            around = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
            x = call("pad", x, pads=around, value=border)
            pads = ()
        given = {n: int(v) for n, v in attrs.items()}
        if given.get("p", 1) != attrs.get("p", 1):
            raise Unsupported(f"LpPool with p={attrs['p']}; ONNX has whole numbers")
        where = placed(rank, strides, pads, dilations)
        return w.emit(name, x, kernel_shape=tuple(kernel), **where, **given)

    return form


written("max_pool")(_pool("MaxPool", "max_pool"))
written("avg_pool")(_pool("AveragePool", "avg_pool"))
written("lp_pool")(_pool("LpPool", "lp_pool"))


@written("max_pool_with_indices")
def max_pool_with_indices(
    w: Writer, x: RelaxExpr, *, kernel: Any, strides: Any, pads: Any, dilations: Any,
    column_major: bool,
) -> Results:  # fmt: skip
    """Values and places."""
    where = placed(len(kernel), strides, pads, dilations)
    return w.emit("MaxPool", x, results=2, kernel_shape=tuple(kernel),
                  storage_order=int(column_major), **where)  # fmt: skip


def _adaptive(op: str, whole: str) -> Form:
    def form(w: Writer, x: RelaxExpr, *, size: Any) -> Results:
        image = shape_of(x)[2:]
        if all(s == 1 for s in size):
            return call(whole, x, axes=tuple(range(2, len(image) + 2)), keepdims=True)
        if all(isinstance(e, int) and e % s == 0 for e, s in zip(image, size, strict=True)):
            kernel = tuple([e // s for e, s in zip(image, size, strict=True)])
            return call(op, x, kernel=kernel, strides=kernel)
        fixed = all(isinstance(e, int) for e in image)
        if not fixed or (whole == "mean" and not dt.is_float(dtype_of(x))):
            raise Unsupported(f"{tuple(size)} windows of several sizes on a {dtype_of(x)} image of "
                              f"{tuple(map(str, image))}")  # fmt: skip
        for d, (e, n) in enumerate(zip(image, size, strict=True), 2):
            cuts = [(i * e // n, -(-(i + 1) * e // n)) for i in range(n)]
            parts = [call("strided_slice", x, axes=(d,), begin=(a,), end=(b,)) for a, b in cuts]
            x = call("concat", *[call(whole, p, axes=(d,), keepdims=True) for p in parts], axis=d)
        return x

    return form


written("adaptive_avg_pool")(_adaptive("avg_pool", "mean"))
written("adaptive_max_pool")(_adaptive("max_pool", "max"))


# ------------------------------------------------------------------------------- normalisations


def _along(name: str) -> Form:
    def form(w: Writer, x: RelaxExpr, *, axis: int) -> Results:
        rank = len(shape_of(x))
        at = axis % rank
        if w.opset >= 13 or at == rank - 1:  # before, all dimensions from the axis on together
            return w.emit(name, x, axis=at)
        order = [*[d for d in range(rank) if d != at], at]
        core = "softmax" if name == "Softmax" else "log_softmax"
        turned = call(core, call("transpose", x, axes=tuple(order)), axis=rank - 1)
        return call("transpose", turned, axes=tuple([order.index(d) for d in range(rank)]))

    return form


written("softmax")(_along("Softmax"))
written("log_softmax")(_along("LogSoftmax"))


@written("batch_norm")
def batch_norm(w: Writer, *operands: RelaxExpr, epsilon: float) -> Results:
    """With given statistics."""
    return w.emit("BatchNormalization", *operands, epsilon=epsilon)


def _moments(x: RelaxExpr, axis: int) -> tuple[RelaxExpr, RelaxExpr]:
    axes = tuple(range(axis % len(shape_of(x)), len(shape_of(x))))
    centred = call("subtract", x, call("mean", x, axes=axes, keepdims=True))
    return centred, call("mean", call("multiply", centred, centred), axes=axes, keepdims=True)


def _wide(x: RelaxExpr | None) -> Any:
    """Statistics of narrow floats are computed in float32."""
    narrow = x is not None and dt.width(dtype_of(x)) < 32
    return x if x is None or not narrow else cast_to(x, "float32")


@written("layer_norm")
def layer_norm(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, bias: RelaxExpr | None = None, *, axis: int,
    epsilon: float,
) -> Results:  # fmt: skip
    """LayerNormalization, whose scale has the dimensions that are normalised."""
    return w.emit("LayerNormalization", x, scale, bias, axis=axis, epsilon=epsilon)


@otherwise("layer_norm")
def layer_norm_steps(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, bias: RelaxExpr | None = None, *, axis: int,
    epsilon: float,
) -> Results:  # fmt: skip
    """The same step by step."""
    centred, spread = _moments(_wide(x), axis)
    y = call("divide", centred, call("sqrt", spread + epsilon))
    y = call("multiply", y, _wide(scale))
    return cast_to(y if bias is None else call("add", y, _wide(bias)), dtype_of(x))


@written("rms_norm")
def rms_norm(w: Writer, x: RelaxExpr, scale: RelaxExpr, *, axis: int, epsilon: float) -> Results:
    """RMSNormalization."""
    return w.emit("RMSNormalization", x, scale, axis=axis, epsilon=epsilon)


@otherwise("rms_norm")
def rms_norm_steps(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, *, axis: int, epsilon: float
) -> Results:
    """The same step by step."""
    rank, wide = len(shape_of(x)), _wide(x)
    axes = tuple(range(axis % rank, rank))
    square = call("mean", call("multiply", wide, wide), axes=axes, keepdims=True)
    y = call("divide", wide, call("sqrt", square + epsilon))
    return cast_to(call("multiply", y, _wide(scale)), dtype_of(x))


@written("group_norm")
def group_norm(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, bias: RelaxExpr, *, groups: int, epsilon: float
) -> Results:
    """GroupNormalization, whose scale is one for each channel from operator set 21 on."""
    if w.opset < 21:
        return None
    return w.emit("GroupNormalization", x, scale, bias, num_groups=groups, epsilon=epsilon)


@otherwise("group_norm")
def group_norm_steps(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, bias: RelaxExpr, *, groups: int, epsilon: float
) -> Results:
    """Each group as a channel of its own."""
    shape, own = shape_of(x), dtype_of(x)
    rest: Any = 1
    for e in shape[1:]:
        rest = rest * e
    apart = call("reshape", x, shape=(shape[0], groups, rest // groups))
    one, zero = [constant(np.full(groups, v, dt.to_numpy(own))) for v in (1, 0)]
    made = call("reshape", call("instance_norm", apart, one, zero, epsilon=epsilon), shape=shape)
    channel = (shape[1], *[1] * (len(shape) - 2))
    s, b = [call("reshape", v, shape=channel) for v in (scale, bias)]
    return call("add", call("multiply", made, s), b)


@otherwise("lp_norm")
def lp_norm(w: Writer, x: RelaxExpr, *, axis: int, p: int) -> Results:
    """Divided by the norm, step by step."""
    norm = call(f"reduce_l{p}", x, axes=(axis,), keepdims=True)
    zero = scalar(0, dtype_of(x))
    return call("where", call("equal", norm, zero), zero, call("divide", x, norm))
