"""Constants laid out as a kernel reads them: dimensions split, reordered and padded."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smelt.ir.errors import InternalError


@dataclass(frozen=True)
class Pack:
    """The physical layout of a constant.

    shape  the physical extents
    parts  per physical dimension (old dimension, divisor, modulus): the old index, divided by a
           nonzero divisor, or its remainder by a nonzero modulus
    """

    shape: tuple[int, ...]
    parts: tuple[tuple[int, int, int], ...]


def pack_of(index_map: str, old: Sequence[int], shape: tuple[int, ...]) -> Pack:
    """The layout behind an index map in text form, e.g. "lambda i, j: (j // 48, i, j % 48)"."""
    tree = ast.parse(index_map.strip(), mode="eval").body
    if not isinstance(tree, ast.Lambda):
        raise InternalError(f"the index map {index_map!r} is no function")
    names = [a.arg for a in tree.args.args]
    items = tree.body.elts if isinstance(tree.body, ast.Tuple | ast.List) else [tree.body]
    return Pack(shape, tuple([_part(e, names, index_map) for e in items]))


def _part(e: ast.expr, names: list[str], text: str) -> tuple[int, int, int]:
    match e:
        case ast.Name(name):
            return names.index(name), 0, 0
        case ast.BinOp(ast.Name(name), ast.FloorDiv(), ast.Constant(int(c))):
            return names.index(name), c, 0
        case ast.BinOp(ast.Name(name), ast.Mod(), ast.Constant(int(c))):
            return names.index(name), 0, c
        case ast.Constant(0):
            return -1, 0, 0
    raise InternalError(f"the index map {text!r} is more than splits of dimensions")


def pack_array(data: np.ndarray, pack: Pack, out: np.ndarray) -> None:
    """Write `data` into `out`, a dense array of the physical shape; the padding is 0."""
    splits: dict[int, int] = {}
    for (dim, divisor, modulus), extent in zip(pack.parts, pack.shape, strict=True):
        if modulus:
            splits[dim] = min(modulus, extent)  # a dimension smaller than its tile has no padding
        elif divisor:
            splits.setdefault(dim, divisor)
    # the logical array with split dimensions opened, as axes named (dimension, part)
    axes: list[tuple[int, str]] = []
    for d in range(data.ndim):
        axes += [(d, "outer"), (d, "inner")] if d in splits else [(d, "whole")]
    wanted = [
        (-1, "unit") if d < 0 else (d, "outer" if v else "inner" if m else "whole")
        for d, v, m in pack.parts
    ]
    missing = [a for a in axes if a not in wanted]
    if missing:
        # a dimension that the map drops has one element
        axes = [a for a in axes if a not in missing]
    extents = dict(zip(wanted, pack.shape, strict=True))
    if all(data.shape[d] % c == 0 for d, c in splits.items()):
        opened = data.reshape([extents[a] for a in axes])
    else:
        padding = [(0, -data.shape[d] % splits.get(d, 1)) for d in range(data.ndim)]
        opened = np.pad(data, padding).reshape([extents[a] for a in axes])
    target = out.reshape(pack.shape)
    order = [axes.index(a) for a in wanted if a != (-1, "unit")]
    np.copyto(
        target.reshape([e for e, a in zip(pack.shape, wanted, strict=True) if a != (-1, "unit")]),
        opened.transpose(order),
    )
