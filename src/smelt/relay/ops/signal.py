"""Products by a formula, and Fourier transforms."""

from __future__ import annotations

from smelt.relax.compose.common import extents, items_of, legal
from smelt.relax.compose.einsum import einsum as compose_einsum
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import alias, relay_op, same


@relay_op("einsum")
def einsum(data: RelaxExpr, *, equation: str) -> RelaxExpr:
    """Einstein's sum of a tuple of tensors: "ij,jk->ik"."""
    return compose_einsum(items_of(data), equation)


# ------------------------------------------------------------------------------------- Fourier


same("dft", "re_data im_data", results=2, inverse=False)


@relay_op("stft")
def stft(
    data: RelaxExpr,
    window: RelaxExpr,
    *,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool,
    onesided: bool,
) -> RelaxExpr:
    """The Fourier transforms of windows of signals: [batch, frequencies, windows, 2].

    win_length  of the window, which stands in the middle of n_fft samples
    """
    width = extents(window)[0]
    legal(
        width in (None, win_length) and win_length <= n_fft,
        f"win_length={win_length}; it has to be the window's {width} and at most n_fft={n_fft}",
    )
    left = (n_fft - win_length) // 2
    shape = (
        call("pad", window, pads=(left, n_fft - win_length - left)) if width != n_fft else window
    )
    return call("stft", data, shape, n_fft=n_fft, hop_length=hop_length, normalized=normalized,
                onesided=onesided)  # fmt: skip


alias("stft", "data n_fft hop_length win_length window normalized onesided")
