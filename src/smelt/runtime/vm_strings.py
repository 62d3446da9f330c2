"""Operators of the virtual machine on tensors of texts, in numpy.

A tensor of texts is an array of objects (str), or of numpy's own text type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import InputError
from smelt.runtime.vm_host import host_op

Array = npt.NDArray[Any]


def _texts(items: Sequence[Any], shape: Sequence[int]) -> Array:
    made = np.empty(len(items), object)
    made[:] = items
    return made.reshape(shape)


def _each(fn: Callable[..., Any], *operands: Array) -> Array:
    """A function of texts on all elements, broadcast."""
    try:
        together = np.broadcast_arrays(*operands)
    except ValueError:
        shapes = " and ".join([str(list(a.shape)) for a in operands])
        raise InputError(f"texts of the shapes {shapes} do not broadcast") from None
    rows = [[str(e) for e in a.ravel().tolist()] for a in together]
    return _texts([fn(*row) for row in zip(*rows, strict=True)], together[0].shape)


@host_op("strings.concat")
def concat(a: Array, b: Array) -> Array:
    """Texts one behind the other."""
    return _each(lambda x, y: x + y, a, b)


@host_op("strings.equal")
def equal(a: Array, b: Array) -> Array:
    """Whether texts are equal."""
    return _each(lambda x, y: x == y, a, b).astype(bool)


@host_op("strings.fullmatch")
def fullmatch(x: Array, *, pattern: str) -> Array:
    """Whether a pattern fits a whole text."""
    return _each(lambda e: _pattern(pattern).fullmatch(e) is not None, x).astype(bool)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as e:
        raise InputError(f"the pattern {pattern!r} is none: {e}") from None


@host_op("strings.split")
def split(x: Array, *, delimiter: str, maxsplit: int) -> tuple[Array, Array]:
    """The parts of texts, filled with empty ones along a new last axis, and how many there are.

    delimiter  "": runs of white space
    maxsplit   -1: no limit
    """
    parts = [str(e).split(delimiter or None, maxsplit) for e in x.ravel().tolist()]
    width = max([len(p) for p in parts], default=0)
    items = [e for p in parts for e in [*p, *[""] * (width - len(p))]]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return _texts(items, (*x.shape, width)), counts


@host_op("strings.normalize")
def normalize(x: Array, *, case: str, stopwords: list[str], sensitive: bool) -> Array:
    """Texts without some words, in upper or lower case; one empty text where none is left.

    case  "LOWER", "UPPER" or "NONE"
    """
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    stop = set(stopwords) if sensitive else {w.lower() for w in stopwords}
    found = [str(e) for e in x.ravel().tolist()]
    kept = [change(e) for e in found if (e if sensitive else e.lower()) not in stop] or [""]
    return _texts(kept, (*([1] * (x.ndim - 1)), len(kept)))


@host_op("strings.lookup")
def lookup(x: Array, *, keys: list[Any], values: list[Any], default: Any, to: str) -> Array:
    """The value of each element's key; keys and values are texts or numbers.

    to  the type of the values; "string" for texts
    """
    table = {_hashed(k): v for k, v in zip(keys, values, strict=True)}
    found = [table.get(_hashed(e), default) for e in x.ravel().tolist()]
    made = _texts(found, x.shape)
    return made if to == "string" else made.astype(numpy_dtype(to))


def _hashed(e: Any) -> Any:
    """A key that is found again: NaN is equal to itself here."""
    return "NaN" if isinstance(e, float) and e != e else (type(e) is str, e)


@host_op("strings.cast")
def cast(x: Array, *, to: str) -> Array:
    """Numbers as texts, texts as numbers."""
    if to == "string":
        return _texts([_shown(e) for e in x.ravel()], x.shape)
    kind = numpy_dtype(to)
    try:
        numbers = [_number(str(e), kind) for e in x.ravel().tolist()]
    except ValueError as e:
        raise InputError(f"a text is no {to}: {e}") from None
    return np.array(numbers, kind).reshape(x.shape)


def _number(text: str, kind: np.dtype[Any]) -> Any:
    if kind.kind == "b":
        return text.strip().lower() in ("1", "true")
    return int(text) if kind.kind in "iu" else float(text)


def _shown(e: Any) -> str:
    """A number as ONNX writes it: integers in full, floats with up to 9 digits."""
    if isinstance(e, np.bool_):
        return str(int(e))
    if not isinstance(e, np.floating):
        return str(e)
    return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(str(e), np.format_float_positional(e))


def _sliced(
    x: Array, axes: list[int], begin: list[int], end: list[int], strides: list[int]
) -> Array:
    index = [slice(None)] * x.ndim
    for a, b, e, s in zip(axes, begin, end, strides, strict=True):
        index[a] = slice(b, e, s)
    return x[tuple(index)]


MOVES: dict[str, Callable[..., Array]] = {
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "concat": lambda *xs, axis: np.concatenate([x.astype(object) for x in xs], axis),
    "expand_dims": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "flip": lambda x, axes: np.flip(x, tuple(axes)),
    "gather": lambda x, at, axis: np.take(x, at, axis),
    "reshape": lambda x, shape: x.reshape(shape),
    "squeeze": lambda x, axes: x.squeeze(tuple(axes)),
    "strided_slice": _sliced,
    "tile": lambda x, repeats: np.tile(x, repeats),
    "transpose": lambda x, axes: x.transpose(axes),
    "where": lambda c, a, b: np.where(c, a.astype(object), b.astype(object)),
}
"""The core's operators that move elements, on texts."""


@host_op("strings.move")
def moved(*operands: Array, move: str, attrs: dict[str, Any]) -> Array:
    """One of MOVES."""
    return np.asarray(MOVES[move](*operands, **attrs))
