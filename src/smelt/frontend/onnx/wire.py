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

_GRAPH, _INITIALIZER, _RAW = 7, 5, 9
_BYTES = 2


def without_weights(data: bytes) -> tuple[bytes, dict[int, memoryview]]:
    """A model's bytes without large raw_data of its graph's initializers, and these by position.

    Bytes that are no such message, or have several graphs, come back as they are.
    """
    try:
        return _model(memoryview(data))
    except (IndexError, ValueError):
        return data, {}


def _model(data: memoryview) -> tuple[bytes, dict[int, memoryview]]:
    fields = list(_fields(data))
    graphs = [f for f in fields if f[0] == _GRAPH]
    if len(graphs) != 1:
        raise ValueError("not one graph")
    found: dict[int, memoryview] = {}
    parts: list[bytes | memoryview] = []
    for number, kind, begin, inside, end in fields:
        if number != _GRAPH or kind != _BYTES:
            parts.append(data[begin:end])
            continue
        graph = _graph(data[inside:end], found)
        parts += [_head(number, sum(map(len, graph))), *graph]
    return b"".join(parts), found


def _graph(data: memoryview, found: dict[int, memoryview]) -> list[bytes | memoryview]:
    """The parts of a graph without its large weights, which are entered by position."""
    parts: list[bytes | memoryview] = []
    position = 0
    for number, kind, begin, inside, end in _fields(data):
        if number != _INITIALIZER or kind != _BYTES:
            parts.append(data[begin:end])
            continue
        if end - inside >= LEAST:
            tensor = _tensor(data[inside:end], position, found)
            parts += [_head(number, sum(map(len, tensor))), *tensor]
        else:
            parts.append(data[begin:end])
        position += 1
    return parts


def _tensor(
    data: memoryview, position: int, found: dict[int, memoryview]
) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = []
    for number, kind, begin, inside, end in _fields(data):
        if number == _RAW and kind == _BYTES and end - inside >= LEAST:
            found[position] = data[inside:end]
        else:
            parts.append(data[begin:end])
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
