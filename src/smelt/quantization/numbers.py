"""Scales and zero points: of activations by their ranges, of weights by themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError

from .ranges import Range
from .statistics import Array

WEIGHT_SCALES = ("channel", "tensor", "power2")
_TINY = float(np.finfo(np.float32).tiny)
_CUTS = np.linspace(0.5, 1.0, 26)
"""The shares of the largest weight that a search tries."""


@dataclass(frozen=True)
class Affine:
    """How one tensor is quantized: q stands for scale * (q - zero)."""

    scale: float
    zero: int
    dtype: str

    @property
    def range(self) -> Range:
        """What the integers cover."""
        low, high = dt.limits(self.dtype)
        return (low - self.zero) * self.scale, (high - self.zero) * self.scale


def affine_of(ends: Range, dtype: str, symmetric: bool, what: str) -> Affine:
    """The scale and the zero point of a range, into which 0 is taken.

    symmetric  the zero point is 0; of uint8, where there are numbers below, 128
    what       what is quantized, for the error where the range is too small to be one
    """
    low, high = dt.limits(dtype)
    least, most = min(ends[0], 0.0), max(ends[1], 0.0)
    if symmetric and (low < 0 or least < 0):
        low, most = low + 1, max(-least, most)
        least = -most
    scale = np.float32((most - least) / (high - low))
    if not scale >= _TINY:
        raise CompileError(
            f"{what} is {_number(ends)} in every sample: its scale would be {scale:g}; legal: "
            "samples that let it vary, or keep its layers in floats (keep)"
        )
    zero = int(np.clip(np.round(low - least / float(scale)), low, high))
    return Affine(float(scale), zero, dtype)


def _number(ends: Range) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"between {ends[0]:g} and {ends[1]:g}"


@dataclass(frozen=True)
class Weights:
    """Quantized weights, symmetric around 0.

    data   the integers
    scale  one number, or one for each index of `axis`
    """

    data: Array
    scale: Array
    axis: int | None

    def floats(self) -> Array:
        """What the integers stand for."""
        shape = [1] * self.data.ndim
        if self.axis is not None:
            shape[self.axis] = -1
        wide: Array = self.data.astype(np.float32) * self.scale.reshape(shape)
        return wide


def quantize_weights(
    w: Array, axis: int | None, bits: int = 8, search: bool = False, least: Array | None = None,
    power2: bool = False,
) -> Weights:  # fmt: skip
    """Weights as integers of some bits, to the nearest, halves to even.

    axis    the dimension each index of which has a scale of its own; None: one scale
    search  take the scale with the least squared error, instead of that of the largest weight
    least   the smallest legal scales, so that biases fit into their integers
    power2  scales are powers of two, the next larger ones
    """
    high = (1 << (bits - 1)) - 1
    rows = w.reshape(1, -1) if axis is None else np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1)
    most = np.abs(rows).max(axis=1, initial=0.0)
    most = np.where(most > 0, most, high).astype(np.float32)
    scale = most / np.float32(high)
    if search:
        scale = _searched(rows, scale, high)
    if least is not None:
        scale = np.maximum(scale, least.astype(np.float32))
    scale = np.maximum(scale, np.float32(_TINY))
    if power2:
        scale = np.exp2(np.ceil(np.log2(scale))).astype(np.float32)
    q = np.clip(np.round(rows / scale[:, None]), -high, high).astype(np.int8)
    if axis is None:
        return Weights(q.reshape(w.shape), scale.reshape(()), None)
    rest = [n for a, n in enumerate(w.shape) if a != axis]
    data = np.moveaxis(q.reshape(w.shape[axis], *rest), 0, axis)
    return Weights(np.ascontiguousarray(data), scale, axis)


def _searched(rows: Array, scale: Array, high: int) -> Array:
    """Of each row the scale with the least squared error."""
    best = np.full(len(rows), np.inf)
    found = scale.copy()
    for cut in _CUTS[::-1]:
        s = (scale * np.float32(cut))[:, None]
        error = np.square(np.clip(np.round(rows / s), -high, high) * s - rows).sum(axis=1)
        better = error < best
        best = np.where(better, error, best)
        found = np.where(better, s[:, 0], found)
    return found.astype(np.float32)


def quantize_blocks(w: Array, axis: int, block: int, bits: int, search: bool) -> Weights:
    """Weights with a scale for each block of an axis, which it divides; two dimensions more are
    not made: data keeps its shape, and scale has one index for each block."""
    apart = np.moveaxis(w, axis, -1)
    lead = apart.shape[:-1]
    count = apart.shape[-1] // block
    flat = quantize_weights(apart.reshape(-1, block), 0, bits, search)
    data = np.moveaxis(flat.data.reshape(*lead, count * block), -1, axis)
    scale = np.moveaxis(flat.scale.reshape(*lead, count), -1, axis)
    return Weights(np.ascontiguousarray(data), np.ascontiguousarray(scale), axis)
