"""Weights by name as bytes: the classic format of parameter files.

u64 magic, u64 0, u64 count, count names (u64 length, bytes), u64 count, count arrays
an array: u64 magic, u64 0, i32 device, i32 0, i32 rank, u8 code, u8 bits, u16 lanes,
          i64 extents, i64 bytes, the elements
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from smelt.runtime.errors import InputError, LoadError, system_errors
from smelt.runtime.files import write_file
from smelt.runtime.ndarray import NDArray, array

_FILE = 0xF7E58D4F05049CB7
_ARRAY = 0xDD5E40F096B4A13F
_HEAD = struct.Struct("<QQiiiBBH")
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """The bytes of some named arrays."""
    out = bytearray(struct.pack("<QQQ", _FILE, 0, len(params)))
    for name in params:
        text = name.encode()
        out += struct.pack("<Q", len(text)) + text
    out += struct.pack("<Q", len(params))
    for name, value in params.items():
        data = np.asarray(value)
        if data.dtype.kind not in _CODES:
            raise InputError(f"save_param_dict: {name!r} has dtype {data.dtype}; "
                             "integers, floats and bools are taken")  # fmt: skip
        out += _HEAD.pack(_ARRAY, 0, 1, 0, data.ndim, _CODES[data.dtype.kind],
                          8 * data.itemsize if data.dtype != np.bool_ else 1, 1)  # fmt: skip
        out += struct.pack(f"<{data.ndim}q", *data.shape)
        out += struct.pack("<q", data.nbytes)
        out += data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()
    return out


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The named arrays in some bytes."""
    if not isinstance(param_bytes, bytes | bytearray):
        raise InputError(f"load_param_dict: the parameters are a {type(param_bytes).__name__}; "
                         "give bytes, or a path to load_param_dict_from_file")  # fmt: skip
    reader = _Reader(bytes(param_bytes))
    if reader.take("<Q")[0] != _FILE:
        raise LoadError("load_param_dict: these are no parameters: the first bytes are wrong")
    reader.take("<Q")
    names = [reader.text() for _ in range(reader.take("<Q")[0])]
    count = reader.take("<Q")[0]
    if count != len(names):
        raise LoadError(f"load_param_dict: {len(names)} names, {count} arrays: damaged")
    return {name: reader.array(name) for name in names}


def digest(value: Any) -> str:
    """A text that arrays of equal dtype, shape and elements share: "float32[2, 3] 0f3c..."."""
    data = np.asarray(value)
    return f"{data.dtype}{list(data.shape)} {hashlib.sha256(data.tobytes()).hexdigest()[:32]}"


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the bytes of some named arrays to a file."""
    write_file(path, lambda file: file.write(save_param_dict(params)))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """The named arrays in a file."""
    with system_errors(LoadError, f"load_param_dict_from_file: {path}"):
        data = Path(path).read_bytes()
    return load_param_dict(data)


class _Reader:
    """Reads along some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        """The next bytes."""
        piece = self.data[self.at : self.at + count]
        if count < 0 or len(piece) < count:
            raise LoadError("load_param_dict: the parameters are truncated")
        self.at += count
        return piece

    def take(self, form: str) -> tuple[Any, ...]:
        """The next numbers."""
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def text(self) -> str:
        """The next name."""
        try:
            return self.bytes(self.take("<Q")[0]).decode()
        except UnicodeDecodeError:
            raise LoadError("load_param_dict: a name is damaged") from None

    def array(self, name: str) -> NDArray:
        """The next array."""
        magic, _, _, _, rank, code, bits, lanes = self.take(_HEAD.format)
        if magic != _ARRAY or code not in _KINDS or lanes != 1 or rank < 0:
            raise LoadError(f"load_param_dict: {name!r} is damaged, or of an unknown dtype")
        shape = self.take(f"<{rank}q")
        size = self.take("<q")[0]
        try:
            kind = np.dtype(f"<{_KINDS[code]}{max(1, bits // 8)}")
            if min([0, *shape]) < 0 or size != math.prod(shape) * kind.itemsize:
                raise ValueError
            return array(np.frombuffer(self.bytes(size), kind).reshape(shape))
        except (TypeError, ValueError):
            raise LoadError(
                f"load_param_dict: {name!r} is damaged: {size} bytes for {shape}"
            ) from None
