"""Discrete Fourier transforms: products with tables of cosines and sines."""

from __future__ import annotations

import math

import numpy as np

from smelt.ir.build import call, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .reference import Array
from .registry import op


def _table(name: str, n: Expr, columns: Expr, dtype: str) -> Tensor:
    """cos or sin of 2 pi t k / n for t below n and k below `columns`.

    The angles repeat after n, so that one row is computed, in float64, and the rest is looked up.
    """

    def angle(i: Expr) -> Expr:
        turn = cast("float64", i) * const(2 * math.pi, "float64") / cast("float64", n)
        return cast(dtype, call(name, turn))

    row = common.tensor((n,), angle, f"{name}_row")
    return common.tensor((n, columns), lambda t, k: row[t * k % n], f"{name}_table")


@op
def dft(re: Tensor, im: Tensor, *, inverse: bool = False, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The discrete Fourier transform of complex numbers along `axis`: (real, imaginary parts).

    inverse  with the other sign of the angle, and divided by the extent

    Element k is the sum of (re + i im)[t] exp(-2 pi i t k / n): n * n products.
    """
    common.float_only(re, "re")
    dtype = common.same_dtype(re=re, im=im)
    rule = f"{common.named(re=re, im=im)} have to be of one shape"
    common.agree_in_shape(re.shape, im.shape, rule)
    axis = common.axis_of(axis, len(re.shape))
    n, to = re.shape[axis], common.wide(dtype)
    cosines, sines = _table("cos", n, n, to), _table("sin", n, n, to)

    def summed(x: Tensor, table: Tensor, name: str) -> Tensor:
        t = reduce_axis((0, n), "t")
        return common.sum_over(
            x.shape,
            lambda *i: cast(to, x[(*i[:axis], t.var, *i[axis + 1 :])]) * table[t.var, i[axis]],
            [t], name,
        )  # fmt: skip

    rc, rs = summed(re, cosines, "re_cos"), summed(re, sines, "re_sin")
    ic, ins = summed(im, cosines, "im_cos"), summed(im, sines, "im_sin")

    def joined(a: Tensor, b: Tensor, plus: bool, name: str) -> Tensor:
        def body(*i: Expr) -> Expr:
            total = a[i] + b[i] if plus else a[i] - b[i]
            return cast(dtype, total / cast(to, n) if inverse else total)

        return common.tensor(re.shape, body, name)

    return joined(rc, ins, not inverse, "dft_re"), joined(ic, rs, inverse, "dft_im")


@dft.numpy
def _(re: Array, im: Array, *, inverse: bool, axis: int) -> tuple[Array, Array]:
    """numpy's fast transform."""
    x = re.astype(np.float64) + 1j * im.astype(np.float64)
    y = np.fft.ifft(x, axis=axis) if inverse else np.fft.fft(x, axis=axis)
    return y.real.astype(re.dtype), y.imag.astype(re.dtype)


@op
def stft(
    x: Tensor, window: Tensor, *, n_fft: ExprLike, hop_length: int, normalized: bool = False,
    onesided: bool = True,
) -> Tensor:  # fmt: skip
    """The Fourier transforms of overlapping pieces of real signals.

    Shapes      x [..., length]; window [n_fft]; result [..., frequencies, frames, 2]: real and
                imaginary parts; frames = (length - n_fft) // hop_length + 1, frequencies =
                n_fft // 2 + 1 if onesided else n_fft
    hop_length  samples from the begin of one frame to that of the next
    normalized  divided by the root of n_fft
    """
    common.float_only(x)
    dtype = common.same_dtype(x=x, window=window)
    common.require(len(x.shape) >= 1, "x has no dimension")
    common.take_forms("[n_fft]", window=window)
    n, length, to = convert(n_fft, INDEX), x.shape[-1], common.wide(dtype)
    common.agree(n, window.shape[0], f"{common.named(window=window)} has to have n_fft elements")
    common.at_least(1, hop_length=hop_length)
    room, size = value_of(length), value_of(n)
    common.require(
        room is None or size is None or 1 <= size <= room,
        f"n_fft={size}; {common.named(x=x)} has {room} samples",
    )
    frames, frequencies = (length - n) // hop_length + 1, n // 2 + 1 if onesided else n
    batch = x.shape[:-1]

    def piece(*i: Expr) -> Expr:
        return cast(to, x[(*i[:-2], i[-2] * hop_length + i[-1])]) * cast(to, window[i[-1]])

    pieces = common.tensor((*batch, frames, n), piece, "pieces")

    def part(name: str) -> Tensor:
        table, t = _table(name, n, frequencies, to), reduce_axis((0, n), "t")
        return common.sum_over(
            (*batch, frames, frequencies),
            lambda *i: pieces[(*i[:-1], t.var)] * table[t.var, i[-1]], [t], f"{name}_part",
        )  # fmt: skip

    cosines, sines = part("cos"), part("sin")
    scale = 1 / call("sqrt", cast(to, n)) if normalized else const(1.0, to)

    def body(*i: Expr) -> Expr:
        *lead, k, frame, which = i
        at = (*lead, frame, k)
        value = call("if_then_else", which < 1, cosines[at], -sines[at], dtype=to)
        return cast(dtype, value * scale if normalized else value)

    return common.tensor((*batch, frequencies, frames, const(2, INDEX)), body, "stft")


@stft.numpy
def _(
    x: Array, window: Array, *, n_fft: int, hop_length: int, normalized: bool, onesided: bool
) -> Array:
    """One frame after the other."""
    wide, weights = x.astype(np.float64), window.astype(np.float64)
    starts = range(0, x.shape[-1] - n_fft + 1, hop_length)
    frames = np.stack([wide[..., s : s + n_fft] * weights for s in starts], -1)
    y = np.fft.rfft(frames, axis=-2) if onesided else np.fft.fft(frames, axis=-2)
    y = y / math.sqrt(n_fft) if normalized else y
    return np.stack([y.real, y.imag], -1).astype(x.dtype)
