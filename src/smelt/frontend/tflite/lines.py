"""Functions of 16-bit numbers as TFLite's reference kernels compute them: straight lines between
results that a table has, on numpy's int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .quantized import whole

Array = np.ndarray[Any, Any]

COUNT = 512
"""How many lines stand for a function."""

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1


def _wrapped(x: Any) -> Array:
    """What is left of numbers in 16 bits."""
    return np.asarray(x, np.int64).astype(np.int16).astype(np.int64)


def lines(
    fn: Callable[[Array], Array], ends: tuple[Any, Any], step: Any, zero: int = 0,
    real: type[Any] = np.float32,
) -> Array:  # fmt: skip
    """The ends of the lines of a function, one after the other.

    ends        what the lowest and the highest 16-bit number stand for
    step, zero  scale and zero point of the results
    real        the type in which the function and its error are computed
    """
    start, end = real(ends[0]), real(ends[1])
    inverse = real(1 << 16) / (real(step) * real(_HIGH - zero) - real(step) * real(_LOW - zero))
    width = (end - start) / real(COUNT)
    at = start + np.arange(COUNT + 1, dtype=real) * width
    with np.errstate(all="ignore"):
        value = fn(at) * inverse
        middle = whole(fn(at[:-1] + width / real(2)) * inverse)
        own = whole(value[:-1])
        off = whole((value[1:] + own) / real(2)) - middle
        bent = own - whole(off / real(2))  # half of the error in the middle of a line
        last = whole(fn(np.array([end])) * inverse)
    found = np.clip([*bent, *last], _LOW, _HIGH)
    return np.asarray(np.where(np.isnan(found), 0, found).astype(np.int64))


def on_lines(x: Any, table: Array) -> Array:
    """Results of 16-bit numbers."""
    x = np.asarray(x, np.int64)
    at, rest = (x >> 7) + COUNT // 2, x & 127
    rise = _wrapped(table[at + 1] - table[at])
    return _wrapped(table[at] + ((rise * rest + 64) >> 7))


# ---------------------------------------------------------------------------- logistic and tanh


def _ends() -> Array:
    """The logistic function of 0, 1 / 24, ..., in 16 bits; each end is moved by half of the error
    in the middle of its line."""
    halves = (1 << 16) / (1 + np.exp(-np.arange(513) / 48))
    off = (halves[:-2:2] + halves[2::2]) / 2 - halves[1::2]
    found = np.floor(halves[:-1:2] - off / 2 + 0.5)
    found[-1] = (1 << 16) - 1
    return found.astype(np.int64)


_LOGISTIC = _ends()


def _logistic(away: Array, bits: int, most: int) -> Array:
    """Of numbers above 0 in steps of 1 / 24 / 2 ** bits, as finely; `most` behind the table."""
    at, rest = np.minimum(away >> bits, 254), away & ((1 << bits) - 1)
    y = (_LOGISTIC[at] << bits) + rest * (_LOGISTIC[at + 1] - _LOGISTIC[at])
    return np.where(away >> bits >= 255, most << bits, y)


def logistic(x: Any) -> Array:
    """1 / (1 + exp(-x)) of numbers in steps of 1 / 12288, in steps of 2 ** -15."""
    x = np.asarray(x, np.int64)
    y = _logistic(np.abs(x), 9, 65534)
    return np.where(x >= 0, y + 512, (1 << 25) - y + 511) >> 10


def tanh(x: Any) -> Array:
    """tanh of numbers in steps of 1 / 12288, in steps of 2 ** -15: 2 logistic(2 x) - 1."""
    x = np.asarray(x, np.int64)
    y = _logistic(np.abs(x), 8, 65535) - (1 << 23)
    return np.where(x >= 0, y + 128, 127 - y) >> 8
