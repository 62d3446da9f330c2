"""Operators as the operator sets 1 to 6 had them.

They named the dimension at which a smaller operand begins (`broadcast`, `axis`), and had attributes
that are operands today.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import ops_index, ops_math
from .ops_nn import per_channel
from .ops_shape import pad as pad_2
from .read import dtype_named
from .registry import Ints, onnx_op

# ------------------------------------------------------------------------------------- broadcast


def _placed(g: Build, a: Value, b: Value, broadcast: int, axis: int | None) -> Value:
    """The second operand with its dimensions where they belong in the first."""
    if not broadcast:
        if a.rank != b.rank:
            g.malformed(f"operands of {a.rank} and {b.rank} dimensions without broadcast=1")
        return b
    if axis is None or b.rank == 0:
        return b
    begin = g.axis(axis, a.rank)
    behind = a.rank - begin - b.rank
    if behind < 0:
        g.malformed(f"axis={axis}: {b.rank} dimensions do not fit into {a.rank} from there on")
    return moves.expand_dims(g, b, tuple(range(b.rank, b.rank + behind)))


def _binary(target: str) -> Callable[..., Value]:
    def convert(
        g: Build, a: Value, b: Value, *, axis: int | None = None, broadcast: int = 0
    ) -> Value:
        return g.call(target, a, _placed(g, a, b, broadcast, axis))

    return convert


for _name in ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less"):
    onnx_op(_name)(_binary(ops_math.BINARY[_name]))
onnx_op("Pow")(_binary("power"))


@onnx_op("PRelu")
def prelu(g: Build, x: Value, slope: Value) -> Value:
    """One slope for each channel, or one for all."""
    if slope.rank == 1 and slope.shape[0] != 1 and x.rank > 2:
        slope = per_channel(g, slope, x.rank)
    return g.call("prelu", x, slope)


# ---------------------------------------------------------------- operands that were attributes


@onnx_op("Cast")
def cast(g: Build, x: Value, *, to: str) -> Value:
    """Another element type, named by a text."""
    dtype = dtype_named(to)
    if dtype is None:
        g.unsupported(f"to={to!r}", ", ".join(dt.DTYPES))
    return as_type(g, x, dtype)


@onnx_op("Concat")
def concat(g: Build, first: Value, *rest: Value, axis: int = 1) -> Value:
    """Values one behind the other, along the channels unless an axis is named."""
    return moves.concat(g, (first, *rest), axis)


@onnx_op("Reshape")
def reshape(g: Build, x: Value, *, shape: Ints = ()) -> Value:
    """0 keeps an extent, -1 is what remains."""
    dims = [x.shape[k] if d == 0 and k < x.rank else d for k, d in enumerate(shape)]
    return moves.reshape(g, x, dims)


@onnx_op("Pad")
def pad(g: Build, x: Value, *, mode: str = "constant", paddings: Ints, value: float = 0.0) -> Value:
    """Widths under their first name."""
    return pad_2(g, x, pads=paddings, mode=mode, value=value)


@onnx_op("Tile")
def tile(g: Build, x: Value, tiles: Value, axis: Value) -> Value:
    """Repetition along one dimension."""
    place = g.axis(int(g.number(axis, "axis")), x.rank)
    repeats: list[Any] = [1] * x.rank
    repeats[place] = g.scalar(tiles, "tiles")
    return moves.tile(g, x, repeats)


@onnx_op("TopK")
def topk(g: Build, x: Value, *, axis: int = -1, k: int) -> tuple[Value, ...]:
    """The largest elements and where they are."""
    return ops_index.topk(g, x, g.constant(k, "int64"), axis=axis)
