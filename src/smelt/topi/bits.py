"""Integers as planes of bits, many elements in one word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import call, value_of
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, reduce_axis
from smelt.te.tensor import sum as te_sum

from .common import axis_of, named, one_of, require, tensor
from .reference import Array
from .registry import op

WORDS = ("uint8", "uint16", "uint32", "uint64")


def _bit(value: Expr, place: Expr) -> Expr:
    """One bit of a value, 0 or 1 in its type."""
    return call(
        "bitwise_and", call("shift_right", value, cast(value.dtype, place)), const(1, value.dtype)
    )


def _check(x: Tensor, bits: int, dtype: str, name: str) -> None:
    require(dt.is_int(x.dtype), f"x is {x.dtype}; it has to be integers")
    require(dt.is_int(dtype), f"{name}={dtype!r} has to be a type of integers")
    least = min(dt.width(x.dtype), dt.width(dtype)) if name == "dtype" else dt.width(x.dtype)
    require(1 <= bits <= least, f"bits={bits}; legal: 1 to {least}")


@op
def bitpack(
    x: Tensor, *, bits: int = 1, pack_axis: int = 1, bit_axis: int = 2, pack_type: str = "uint32"
) -> Tensor:
    """The lowest bits of x, one plane each: neighbours along pack_axis in one word, the first of
    them in its highest bit.

    Shapes     result as x with pack_axis divided by the bits of a word, and a new dimension of
               `bits` planes, the lowest first, that stands at bit_axis
    pack_type  uint8, uint16, uint32 or uint64
    """
    rank = len(x.shape)
    one_of(WORDS, pack_type=pack_type)
    _check(x, bits, pack_type, "pack_type")
    pack_axis = axis_of(pack_axis, rank, "pack_axis")
    bit_axis = axis_of(bit_axis, rank + 1, "bit_axis")
    width, extent = dt.bits(pack_type), value_of(x.shape[pack_axis])
    require(
        extent is None or extent % width == 0,
        f"{named(x=x)}: {extent} elements of dimension {pack_axis} do not fill words of "
        f"{width} bits",
    )
    shape = [e // width if d == pack_axis else e for d, e in enumerate(x.shape)]
    shape.insert(bit_axis, const(bits, INDEX))
    k = reduce_axis((0, width), "k")

    def body(*i: Expr) -> Any:
        at = _without(i, bit_axis)
        at[pack_axis] = at[pack_axis] * width + k.var
        one = cast(pack_type, _bit(x[tuple(at)], i[bit_axis]))
        # every element has a bit of its own: the sum is their union
        return te_sum(call("shift_left", one, cast(pack_type, width - 1 - k.var)), [k])

    return tensor(shape, body, "bitpack")


@bitpack.numpy
def _(x: Array, *, bits: int, pack_axis: int, bit_axis: int, pack_type: str) -> Array:
    """numpy's packed bytes, read as words whose first byte is the highest."""
    width, axis = np.dtype(pack_type).itemsize, pack_axis % x.ndim
    last = np.moveaxis(x.astype(np.int64), axis, -1)
    planes = [np.packbits((last >> b & 1).astype(bool), -1).view(f">u{width}") for b in range(bits)]
    return np.stack(
        [np.moveaxis(p.astype(pack_type), -1, axis) for p in planes], bit_axis % (x.ndim + 1)
    )


@op
def bitunpack(x: Tensor, *, pack_axis: int = 1, bit_axis: int = 2, dtype: str = "int32") -> Tensor:
    """The integers that bitpack made words of.

    Shapes  x as the result of bitpack; result as its operand, so that pack_axis is a dimension of
            the result, bit_axis one of x
    """
    rank = len(x.shape)
    require(x.dtype in WORDS, f"x is {x.dtype}; legal: {', '.join(WORDS)}")
    bit_axis = axis_of(bit_axis, rank, "bit_axis")
    pack_axis = axis_of(pack_axis, rank - 1, "pack_axis")
    bits = value_of(x.shape[bit_axis])
    require(bits is not None, f"{named(x=x)}: dimension {bit_axis} has to be known")
    assert bits is not None
    _check(x, bits, dtype, "dtype")
    width = dt.bits(x.dtype)
    shape = _without(x.shape, bit_axis)
    shape[pack_axis] = shape[pack_axis] * width
    b = reduce_axis((0, bits), "b")

    def body(*i: Expr) -> Any:
        at = list(i)
        at[pack_axis] = i[pack_axis] // width
        at.insert(bit_axis, b.var)
        one = cast(dtype, _bit(x[tuple(at)], width - 1 - i[pack_axis] % width))
        return te_sum(call("shift_left", one, cast(dtype, b.var)), [b])

    return tensor(shape, body, "bitunpack")


@bitunpack.numpy
def _(x: Array, *, pack_axis: int, bit_axis: int, dtype: str) -> Array:
    """numpy's digits of bytes, each plane's times its power of two."""
    axis = pack_axis % (x.ndim - 1)
    total = np.zeros((), np.int64)
    for b, plane in enumerate(np.moveaxis(x, bit_axis, 0)):
        words = np.ascontiguousarray(np.moveaxis(plane, axis, -1)).astype(x.dtype.newbyteorder(">"))
        total = total + (np.unpackbits(words.view(np.uint8), -1).astype(np.int64) << b)
    return np.moveaxis(total.astype(dtype), -1, axis)


def _without(items: Sequence[Expr], d: int) -> list[Expr]:
    return [e for n, e in enumerate(items) if n != d]
