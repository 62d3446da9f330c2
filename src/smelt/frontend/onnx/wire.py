"""Large weights taken out of a serialized model before it is parsed.

Parsing copies every weight, and reading it off the message copies it once more. The weights of the
graph are found in the bytes instead, and the rest is parsed without them.

A protobuf message is a list of fields: a varint `number << 3 | kind`, then a varint (kind 0), 8
bytes (1), a length and so many bytes (2), or 4 bytes (5). ModelProto.graph is field 7,
GraphProto.initializer 5, TensorProto.raw_data 9 (onnx.proto).
"""

from __future__ import annotations

from collections.abc import Iterator

LEAST = 1 << 12
"""Bytes of a weight that are worth the trouble."""

_WAY = 7, 5, 9
"""The numbers of the fields that lead to a weight: graph, initializer, raw_data."""

_BYTES = 2

Parts = list["bytes | memoryview"]


def without_weights(data: bytes) -> tuple[bytes, dict[int, memoryview]]:
    """A model's bytes without large raw_data of its graph's initializers, and these by position.

    Bytes that are no such message, or have several graphs, come back as they are.
    """
    found: dict[int, memoryview] = {}
    try:
        return b"".join(_without(memoryview(data), _WAY, 0, found)), found
    except (IndexError, ValueError):
        return data, {}


def _without(
    data: memoryview, way: tuple[int, ...], position: int, found: dict[int, memoryview]
) -> Parts:
    """The parts of a message without what lies at the end of the way, which is entered by position.

    position  the message's own among those that are alike
    """
    parts: Parts = []
    count = 0
    for number, kind, begin, inside, end in _fields(data):
        alike = number == way[0] and kind == _BYTES
        if not alike or end - inside < LEAST:
            parts.append(data[begin:end])
        elif len(way) == 1:
            found[position] = data[inside:end]
        else:
            inner = _without(data[inside:end], way[1:], count, found)
            parts += [_head(number, sum(map(len, inner))), *inner]
        count += alike
    if way is _WAY and count != 1:
        raise ValueError("not one graph")
    return parts


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """Number, kind, where the field begins, where its content does, and where both end."""
    at, size = 0, len(data)
    while at < size:
        begin = at
        key, at = _varint(data, at)
        kind = key & 7
        inside = at
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == _BYTES:
            length, inside = _varint(data, at)
            at = inside + length
        elif kind == 5:
            at += 4
        else:
            raise ValueError("a group, or no message")
        if at > size:
            raise ValueError("cut off")
        yield key >> 3, kind, begin, inside, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number without end")


def _head(number: int, length: int) -> bytes:
    """The key and the length of a field of bytes."""
    out = bytearray()
    for value in (number << 3 | _BYTES, length):
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out)
