"""Converters of Fourier transforms and of what belongs to signals and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.values import simplify
from smelt.ir import dtype as dt

from .ops_cast import element_type
from .registry import Floats, Ints, onnx_op, same

# --------------------------------------------------------------------------- Fourier transforms


def _parts(g: Build, x: Value) -> list[Value]:
    """The real parts, and the imaginary ones where the signal is complex."""
    last = x.rank - 1
    if x.rank < 2 or x.shape[last] not in (1, 2):
        g.malformed(f"a signal of the shape {x.shape}; its last dimension has to be 1 or 2")
    return [
        moves.squeeze(g, moves.along(g, x, last, k, k + 1), (last,))
        for k in range(int(x.shape[last]))
    ]


def _joined(g: Build, *parts: Value) -> Value:
    """Parts of numbers along a new last dimension."""
    return moves.stack(g, parts, parts[0].rank)


def _first(g: Build, x: Value, axis: int, count: Any) -> Value:
    """So many elements along a dimension: the first ones, zeros behind the last one."""
    extent = x.shape[axis]
    if extent == count:
        return x
    if not isinstance(extent, int) or not isinstance(count, int):
        g.unsupported("a length that is not the signal's, of symbolic size", "constant sizes")
    pads = [0] * (2 * x.rank)
    pads[x.rank + axis] = count - extent
    return moves.pad(g, x, pads)


def _mirrored(g: Build, x: Value, axis: int, n: Any, conjugate: bool) -> Value:
    """The whole spectrum of a real signal from its first half."""
    half = _first(g, x, axis, simplify(n // 2 + 1))
    back = moves.along(g, half, axis, 1, simplify((n + 1) // 2))
    back = g.call("flip", back, axes=(axis,))
    return moves.concat(g, (half, g.call("negative", back) if conjugate else back), axis)


def _transformed(
    g: Build, x: Value, length: Value | None, axis: int, inverse: int, onesided: int
) -> Value:
    """The transform along one dimension of [..., 1 or 2]."""
    if axis == x.rank - 1:
        g.malformed(f"axis={axis} is the dimension of real and imaginary parts")
    real, *others = _parts(g, x)
    imaginary = others[0] if others else None
    extent = real.shape[axis]
    back = bool(inverse and onesided)
    n = g.scalar(length, "dft_length") if length is not None else extent
    if length is None and back:
        n = simplify(2 * (extent - 1))
    if back:
        if imaginary is None:
            g.malformed("onesided=1 with inverse=1 needs a complex signal")
        real, imaginary = (
            _mirrored(g, real, axis, n, False),
            _mirrored(g, imaginary, axis, n, True),
        )
    else:
        if onesided and imaginary is not None:
            g.malformed("onesided=1 needs a real signal")
        real = _first(g, real, axis, n)
        imaginary = None if imaginary is None else _first(g, imaginary, axis, n)
    if imaginary is None:
        imaginary = g.call("full", shape=real.shape, value=0.0, dtype=real.dtype)
    re, im = g.calls("dft", real, imaginary, inverse=bool(inverse), axis=axis)
    if back:
        return _joined(g, re)
    if onesided:
        end = simplify(n // 2 + 1)
        re, im = [moves.along(g, p, axis, 0, end) for p in (re, im)]
    return _joined(g, re, im)


@onnx_op("DFT", since=17)
def dft(
    g: Build, x: Value, dft_length: Value | None = None, axis: Value | None = None, *,
    axis_: int | None = None, inverse: int = 0, onesided: int = 0,
) -> Value:  # fmt: skip
    """The axis was an attribute first, with another default."""
    place = (1 if g.opset < 20 else -2) if axis_ is None else axis_
    place = place if axis is None else int(g.number(axis, "axis"))
    return _transformed(g, x, dft_length, g.axis(place, x.rank), inverse, onesided)


@onnx_op("STFT", since=17)
def stft(
    g: Build, signal: Value, frame_step: Value, window: Value | None = None,
    frame_length: Value | None = None, *, onesided: int = 1,
) -> Value:  # fmt: skip
    """Transforms of overlapping pieces; those of a complex signal are put together from two.

    A real signal is [batch, length] or [batch, length, 1].
    """
    real, *imaginary = [signal] if signal.rank == 2 else _parts(g, signal)
    n: Any = real.shape[-1]
    if frame_length is not None:
        n = g.scalar(frame_length, "frame_length")
    elif window is not None:
        n = window.shape[0]
    if window is None:
        window = g.call("full", shape=(n,), value=1.0, dtype=real.dtype)
    if imaginary and onesided:
        g.malformed("onesided=1 needs a real signal")
    hop = int(g.number(frame_step, "frame_step"))

    def spectrum(x: Value) -> Value:
        made = g.call("stft", x, window, n_fft=n, hop_length=hop, onesided=bool(onesided))
        return moves.transpose(
            g, made, (*range(made.rank - 3), *[made.rank - k for k in (2, 3, 1)])
        )

    first = spectrum(real)
    if not imaginary:
        return first
    (a, b), (c, d) = [_parts(g, v) for v in (first, spectrum(*imaginary))]
    return _joined(g, g.call("subtract", a, d), g.call("add", b, c))


@onnx_op("MelWeightMatrix", since=17)
def mel_weights(
    g: Build, num_mel_bins: Value, dft_length: Value, sample_rate: Value, lower_edge_hertz: Value,
    upper_edge_hertz: Value, *, output_datatype: int = 1,
) -> Value:  # fmt: skip
    """Triangles on the mel scale, mel(f) = 2595 log10(1 + f / 700), over the frequencies of a DFT.

    The corners are `bins` + 2 points; the step between them is the range over their number, as
    the operator defines it, so that the last one lies below the upper edge.
    """
    bins, length = (
        int(g.number(num_mel_bins, "num_mel_bins")),
        int(g.number(dft_length, "dft_length")),
    )
    rate = int(g.number(sample_rate, "sample_rate"))
    low, high = [
        2595 * np.log10(1 + float(g.number(v, n)) / 700)
        for v, n in ((lower_edge_hertz, "lower_edge_hertz"), (upper_edge_hertz, "upper_edge_hertz"))
    ]
    if bins < 1 or length < 1 or rate < 1:
        g.malformed(f"num_mel_bins={bins}, dft_length={length}, sample_rate={rate}; each is over 0")
    g.affordable((length // 2 + 1, bins), "weights")
    mels = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    corners = np.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(np.int64)
    weights = np.zeros((length // 2 + 1, bins))
    place = np.arange(length // 2 + 1)
    for k, (begin, top, end) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        rising = (place >= begin) & (place <= top)
        weights[rising, k] = 1.0 if top == begin else (place[rising] - begin) / (top - begin)
        falling = (place >= top) & (place < end)
        weights[falling, k] = (end - place[falling]) / max(end - top, 1)
    return g.constant(weights, element_type(g, output_datatype, "output_datatype"))


# ------------------------------------------------------------------------------------- sequences


same("ReverseSequence", "x lengths", core="reverse_sequence", since=10,
     renamed="time_axis=seq_axis", along="batch_axis time_axis", batch_axis=1,
     time_axis=0)  # fmt: skip
same("Det", "x", since=11)


@onnx_op("TensorScatter", since=24)
def tensor_scatter(
    g: Build, past: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2,
    mode: str = "linear",
) -> Value:  # fmt: skip
    """New elements written into a cache, from a place for each batch."""
    g.one_of("mode", mode, ("linear", "circular"))
    if write_indices is None:
        write_indices = g.call("full", shape=past.shape[:1], value=0, dtype="int64")
    how = {"axis": g.axis(axis, past.rank), "circular": mode == "circular"}
    return g.call("write_sequence", past, update, write_indices, **how)


# --------------------------------------------------------------------------------------- n-grams


@onnx_op("TfIdfVectorizer", since=9)
def tf_idf(
    g: Build, x: Value, *, max_gram_length: int, max_skip_count: int, min_gram_length: int,
    mode: str, ngram_counts: Ints, ngram_indexes: Ints, pool_int64s: Ints = (),
    weights: Floats = (),
) -> Value:  # fmt: skip
    """How often n-grams of integers come, or that they come, weighted."""
    g.one_of("mode", mode, ("TF", "IDF", "TFIDF"))
    if not dt.is_int(x.dtype) or x.rank not in (1, 2):
        g.malformed(f"the operand is {x.dtype} with {x.rank} dimensions; integers [n] or [rows, n]")
    ends = (*ngram_counts[1:], len(pool_int64s))
    runs = [
        (begin, size)
        for size, (first, end) in enumerate(zip(ngram_counts, ends, strict=True), 1)
        for begin in range(first, end, size)
    ]
    if len(runs) != len(ngram_indexes) or (weights and len(weights) != len(runs)):
        g.malformed(
            f"{len(runs)} n-grams, {len(ngram_indexes)} ngram_indexes, {len(weights)} weights"
        )
    used = [k for k, (_, s) in enumerate(runs) if min_gram_length <= s <= max_gram_length]
    if min(ngram_indexes, default=-1) < 0:
        g.malformed(f"ngram_indexes={ngram_indexes}; places are 0 or more, one for each n-gram")
    width = max(ngram_indexes) + 1
    g.affordable((width,), "counts")
    table = np.array([(*runs[k], ngram_indexes[k]) for k in used], np.int64).reshape(-1, 3)
    rows = x if x.rank == 2 else moves.expand_dims(g, x, (0,))
    pool = g.constant(np.array(pool_int64s), x.dtype)
    columns = [g.constant(column) for column in table.T.copy()]
    y = g.call("count_runs", rows, pool, *columns, skips=max_skip_count, width=width)
    if mode == "IDF":
        y = g.call("minimum", y, 1.0)
    if mode != "TF" and weights:
        factor = np.ones(width)
        factor[list(ngram_indexes)] = weights
        y = g.call("multiply", y, g.constant(factor, "float32"))
    return y if x.rank == 2 else moves.squeeze(g, y, (0,))
