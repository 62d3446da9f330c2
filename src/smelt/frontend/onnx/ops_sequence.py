"""Converters of sequences and optional values, which are dissolved: the graph holds tensors only.

Places in a sequence and lengths have to be known, or to be inputs of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.frontend.common import (
    Build,
    Graph,
    Input,
    Operand,
    SequenceValue,
    Value,
    evaluate,
    moves,
)
from smelt.ir.limits import MOST_ITERATIONS

from .ops_cast import element_type
from .registry import onnx_op


def _items(g: Build, v: Operand) -> list[Value]:
    """The items of a sequence."""
    if not isinstance(v, SequenceValue) or v.items is None:
        g.malformed("a sequence is expected; a tensor or an absent value is given")
    return v.items


def _place(g: Build, at: Value | None, count: int, most: int) -> int:
    """A place in a sequence, counted from the front; the last one where none is given."""
    if at is None:
        return most
    n = int(g.number(at, "position"))
    if not -count <= n <= most:
        g.malformed(f"position {n} of a sequence with {count} items")
    return n + count if n < 0 else n


@onnx_op("SequenceEmpty", since=11)
def sequence_empty(g: Build, *, dtype: int = 1) -> SequenceValue:
    """No items."""
    return SequenceValue([], element_type(g, dtype, "dtype"))


@onnx_op("SequenceConstruct", since=11)
def sequence_construct(g: Build, *items: Value) -> SequenceValue:
    """Tensors in order."""
    return SequenceValue(items)


@onnx_op("SequenceInsert", since=11)
def sequence_insert(
    g: Build, sequence: Operand, tensor: Value, position: Value | None = None
) -> SequenceValue:
    """One item more."""
    items = list(_items(g, sequence))
    items.insert(_place(g, position, len(items), len(items)), tensor)
    return SequenceValue(items)


@onnx_op("SequenceErase", since=11)
def sequence_erase(g: Build, sequence: Operand, position: Value | None = None) -> SequenceValue:
    """One item less."""
    items = list(_items(g, sequence))
    del items[_place(g, position, len(items), len(items) - 1)]
    return SequenceValue(items, sequence.dtype)


@onnx_op("SequenceAt", since=11)
def sequence_at(g: Build, sequence: Operand, position: Value) -> Value:
    """One item."""
    items = _items(g, sequence)
    return items[_place(g, position, len(items), len(items) - 1)]


@onnx_op("SequenceLength", since=11)
def sequence_length(g: Build, sequence: Operand) -> Value:
    """The number of items."""
    return Value.of_array(np.array(len(_items(g, sequence)), np.int64))


@onnx_op("ConcatFromSequence", since=11)
def concat_from_sequence(g: Build, sequence: Operand, *, axis: int, new_axis: int = 0) -> Value:
    """The items one behind the other, or along a new axis."""
    items = _items(g, sequence)
    if not items:
        g.malformed("the sequence has no items")
    if new_axis:
        at = g.axis(axis, items[0].rank + 1)
        return moves.stack(g, items, at)
    return moves.concat(g, items, axis)


@onnx_op("SplitToSequence", since=11)
def split_to_sequence(
    g: Build, x: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1
) -> SequenceValue:
    """Parts of a tensor."""
    axis = g.axis(axis, x.rank)
    extent = g.extent(x, axis, "parts")
    if split is None:
        sizes: Sequence[Any] = range(extent) if extent > MOST_ITERATIONS else (1,) * extent
    elif split.rank == 0:
        part = int(g.number(split, "split"))
        if part < 1:
            g.malformed(f"split={part}; it has to be 1 or more")
        begins = range(0, extent, part)
        sizes = begins if len(begins) > MOST_ITERATIONS else [min(part, extent - b) for b in begins]
    else:
        sizes = g.ints(split, "split")
    if len(sizes) > MOST_ITERATIONS:
        g.unsupported(f"{len(sizes)} parts", f"up to {MOST_ITERATIONS}")
    parts = moves.split(g, x, sizes, axis)
    if split is None and not keepdims:
        parts = tuple([moves.squeeze(g, p, (axis,)) for p in parts])
    return SequenceValue(parts, x.dtype)


@onnx_op("Identity")
def identity(g: Build, x: Operand) -> Operand:
    """The value itself; known elements as a value with a name of its own."""
    if not isinstance(x, Value):
        return x
    return evaluate.either(lambda: evaluate.elementwise("identity", x), lambda: x)


@onnx_op("Optional", since=15)
def optional(g: Build, x: Operand | None = None, *, type: Input | None = None) -> Operand:
    """A value that may be absent."""
    if x is not None:
        return x
    return SequenceValue(None, "" if type is None else type.dtype)


@onnx_op("OptionalHasElement", since=15)
def optional_has_element(g: Build, x: Operand | None = None) -> Value:
    """Whether the value is there."""
    absent = x is None or (isinstance(x, SequenceValue) and x.items is None)
    return Value.of_array(np.array(not absent))


@onnx_op("OptionalGetElement", since=15)
def optional_get_element(g: Build, x: Operand) -> Operand:
    """The value, which has to be there."""
    if isinstance(x, SequenceValue) and x.items is None:
        g.malformed("the optional value is absent")
    return x


@onnx_op("SequenceMap", since=17)
def sequence_map(
    g: Build, sequence: Operand, *more: Operand, body: Graph
) -> tuple[SequenceValue, ...]:
    """A graph applied to each item; tensors among the operands are the same at every iteration."""
    items = _items(g, sequence)
    rows: list[list[Value]] = [[] for _ in body.outputs]
    for n, item in enumerate(items):
        given = [item, *[x if isinstance(x, Value) else _items(g, x)[n] for x in more]]
        for row, r in zip(rows, g.walk.branch(body, given), strict=True):
            if not isinstance(r, Value):
                g.malformed("a result of the graph is a sequence; a tensor is expected")
            row.append(r)
    return tuple([SequenceValue(row) for row in rows])
