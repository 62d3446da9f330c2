"""Layouts: the order of a tensor's dimensions as letters, NCHW16c.

A capital letter is a dimension; a small one behind a number is a part of that dimension of so many
elements: in NCHW16c channel 16 * C + c.
"""

from __future__ import annotations

import math
import re
from typing import Any

from smelt.ir.build import value_of

from ..nodes import RelaxExpr, call
from .common import divisible, legal, rank_of, reshaped, shape_of, to_layout, turned

Dims = list[tuple[str, int]]


def parse_layout(layout: str, what: str) -> Dims:
    """The letters with their numbers of elements; 0 for capital letters."""
    found = re.findall(r"([A-Z])|([0-9]+)([a-z])", layout)
    legal(
        bool(layout) and "".join([a or n + b for a, n, b in found]) == layout,
        f"{what}={layout!r}; capital letters, and numbers in front of small ones, are legal: "
        "NCHW, NHWC, NCHW16c",
    )
    dims = [(a or b, int(n or 0)) for a, n, b in found]
    whole = [a for a, _ in dims if a.isupper()]
    legal(len(set(whole)) == len(whole), f"{what}={layout!r}: a capital letter stands twice")
    for a, _ in dims:
        legal(a.upper() in whole, f"{what}={layout!r}: {a} needs {a.upper()} beside it")
    return dims


def axes_named(dims: Dims, letter: str) -> list[int]:
    """Where a dimension and its parts stand, the dimension first."""
    parts = [i for i, (a, _) in enumerate(dims) if a == letter.lower()]
    return [next(i for i, (a, _) in enumerate(dims) if a == letter), *parts]


def whole_dims(x: RelaxExpr, dims: Dims) -> tuple[RelaxExpr, str]:
    """A tensor with the parts of dimensions joined, and the letters of its dimensions."""
    letters = [a for a, _ in dims if a.isupper()]
    order = [i for a in letters for i in axes_named(dims, a)]
    shape = shape_of(x)
    joined = []
    for a in letters:
        total: Any = 1
        for i in axes_named(dims, a):
            total = shape[i] * total
        joined.append(total)
    if order != list(range(len(dims))):
        x = call("transpose", x, axes=tuple(order))
    return (reshaped(x, joined) if len(joined) != len(dims) else x), "".join(letters)


def in_layout(x: RelaxExpr, letters: str, dims: Dims) -> RelaxExpr:
    """A tensor of whole dimensions with its dimensions cut into parts and ordered."""
    shape, cut, names = shape_of(x), [], []
    for a, extent in zip(letters, shape, strict=True):
        parts = [dims[i][1] for i in axes_named(dims, a)[1:]]
        size = math.prod(parts)
        divisible(f"the extent of dimension {a}", extent, size)
        cut += [extent // size if parts else extent, *parts]
        names += [(a, 0), *[(a.lower(), i) for i in range(len(parts))]]
    if len(cut) != len(shape):
        x = reshaped(x, cut)
    seen: dict[str, int] = {}
    order = []
    for a, _ in dims:
        order.append(names.index((a, seen.get(a, 0))))
        seen[a] = seen.get(a, 0) + 1
    return x if order == list(range(len(order))) else call("transpose", x, axes=tuple(order))


def spread(x: RelaxExpr, layout: str, what: str, want: str) -> RelaxExpr:
    """A tensor in the order `want` of its dimensions, whatever its layout is: NHWC, NCHW16c."""
    dims = parse_layout(layout, what)
    legal(
        rank_of(x) == len(dims),
        f"{what}={layout!r} has {len(dims)} dimensions, the tensor {rank_of(x)}",
    )
    whole, letters = whole_dims(x, dims)
    return turned(whole, to_layout(letters, [want], what), want)


def gathered(y: RelaxExpr, have: str, layout: str, what: str) -> RelaxExpr:
    """The inverse of `spread`."""
    dims = parse_layout(layout, what)
    letters = "".join([a for a, _ in dims if a.isupper()])
    return in_layout(turned(y, have, to_layout(letters, [have], what)), letters, dims)


def relaid(data: RelaxExpr, src_layout: str, dst_layout: str) -> RelaxExpr:
    """A tensor in another layout: NCHW to NHWC, NCHW to NCHW16c, OIHW to OIHW4i16o4i."""
    src, dst = parse_layout(src_layout, "src_layout"), parse_layout(dst_layout, "dst_layout")
    legal(
        len(src) == rank_of(data),
        f"src_layout={src_layout!r} has {len(src)} dimensions, the data {rank_of(data)}",
    )
    have, want = ({a for a, _ in dims if a.isupper()} for dims in (src, dst))
    legal(have == want, f"{src_layout!r} and {dst_layout!r} have different dimensions")
    for (a, n), e in zip(src, shape_of(data), strict=True):
        legal(
            not n or value_of(e) in (None, n),
            f"src_layout={src_layout!r}: dimension {a} of the data has {value_of(e)} elements",
        )
    whole, letters = whole_dims(data, src)
    return in_layout(whole, letters, dst)
