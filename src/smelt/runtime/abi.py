"""The structs that native code reads, each described once: names and kinds of fields, in order.

`native/smelt.h` declares the same for C; a test compares the two. Every field stands at a multiple
of its size: so do int64s in all ABIs that smelt compiles for (but not on 32-bit x86).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

ABI_VERSION = 6


class Status(IntEnum):
    """What a run may give, or generated code itself: values of enum smelt_status."""

    FAILED = 1
    NO_MEMORY = 2
    BAD_SHAPE = 3
    BAD_DTYPE = 4
    BAD_INDEX = 5
    UNSUPPORTED = 10
    BAD_VALUE = 11
    CANCELLED = 12


BAD_INPUT = (Status.BAD_SHAPE, Status.BAD_DTYPE, Status.BAD_INDEX, Status.BAD_VALUE)
"""What a run gives whose inputs do not fit."""


# kind: its type in ctypes, its letters in the module struct
_KINDS: dict[str, tuple[type[Any], str]] = {
    "pointer": (ctypes.c_void_p, "P"),
    "int32": (ctypes.c_int32, "i"),
    "uint32": (ctypes.c_uint32, "I"),
    "int64": (ctypes.c_int64, "q"),
    "uint64": (ctypes.c_uint64, "Q"),
    "char[8]": (ctypes.c_char * 8, "8s"),
}


@dataclass(frozen=True)
class Struct:
    """A struct by its C name, and the kind of every field; `pointer_bytes` are the target's."""

    name: str
    fields: Mapping[str, str]

    def offset(self, field: str, pointer_bytes: int) -> int:
        """Where a field starts, in bytes."""
        return self._places(pointer_bytes)[list(self.fields).index(field)]

    def size(self, pointer_bytes: int) -> int:
        """The bytes of the struct, a multiple of its widest field."""
        return self._places(pointer_bytes)[-1]

    def _places(self, pointer_bytes: int) -> list[int]:
        places, end, widest = [], 0, 1
        for kind in self.fields.values():
            size = pointer_bytes if kind == "pointer" else ctypes.sizeof(_KINDS[kind][0])
            places.append(-(-end // size) * size)
            end, widest = places[-1] + size, max(widest, size)
        return [*places, -(-end // widest) * widest]

    def ctypes(self, **pointers: type[Any]) -> list[tuple[str, type[Any]]]:
        """The fields for a ctypes.Structure; pointers: what those point to that are followed."""
        return [(n, pointers.get(n, _KINDS[kind][0])) for n, kind in self.fields.items()]

    def packed(self) -> struct.Struct:
        """The struct in a file: little-endian, without gaps."""
        return struct.Struct("<" + "".join([_KINDS[kind][1] for kind in self.fields.values()]))

    def constant(self, **values: object) -> str:
        """A value of the struct in LLVM text: the text of every field, by name."""
        assert [*values] == [*self.fields], f"{self.name} has the fields {', '.join(self.fields)}"
        kinds = ["ptr" if k == "pointer" else f"i{k.lstrip('uint')}" for k in self.fields.values()]
        fields = [f"{k} {v}" for k, v in zip(kinds, values.values(), strict=True)]
        return f"{{ {', '.join(kinds)} }} {{ {', '.join(fields)} }}"

    def initializer(self, **values: object) -> str:
        """A value of the struct in C: the text of every field, by name."""
        assert [*values] == [*self.fields], f"{self.name} has the fields {', '.join(self.fields)}"
        return "{" + ", ".join([f".{name} = {text}" for name, text in values.items()]) + "}"


HOST = Struct(
    "smelt_host",
    {
        **dict.fromkeys(("pool", "parallel_for", "probe_sink", "probe", "externals"), "pointer"),
        **dict.fromkeys(("services", "interrupted"), "pointer"),
        **dict.fromkeys(("most_bytes", "most_turns"), "int64"),
    },
)
SERVICES = Struct(
    "smelt_services",
    dict.fromkeys(
        ("enter", "again", "leave", "assign", "release", "constant", "scalar", "segment", "list",
         "item", "append", "stack", "sizes"), "pointer",
    ),
)  # fmt: skip
"""What a program that decides while it runs may ask for."""
SEGMENT = Struct(
    "smelt_segment",
    {
        **dict.fromkeys(("name", "entry", "plan", "tensors", "updates"), "pointer"),
        **dict.fromkeys(("input_count", "output_count", "symbol_count", "extent_count"), "int64"),
    },
)
CONSTANT = Struct(
    "smelt_constant", {**dict.fromkeys(("offset", "dtype", "rank"), "int64"), "shape": "pointer"}
)
PROGRAM = Struct(
    "smelt_program",
    {
        "main": "pointer",
        "segment_count": "int64",
        "segments": "pointer",
        "constant_count": "int64",
        "constants": "pointer",
        "text_count": "int64",
        "texts": "pointer",
    },
)
TENSOR = Struct(
    "smelt_tensor", {"data": "pointer", "rank": "int64", "shape": "pointer", "dtype": "int32"}
)
PROGRAM_CALL = Struct(
    "smelt_program_call",
    {
        **dict.fromkeys(("host", "program", "weights"), "pointer"),
        "input_count": "int64",
        "inputs": "pointer",
        "output_count": "int64",
        "outputs": "pointer",
        "lent": "pointer",
    },
)
PROGRAM_MEMORY = Struct(
    "smelt_program_memory", dict.fromkeys(("allocations", "most_bytes"), "int64")
)
VIEW = Struct("smelt_pool_view", {"pool": "pointer", "max_threads": "int32"})
OPERAND = Struct(
    "smelt_operand",
    {"memory": "pointer", **dict.fromkeys(("bytes", "stride", "copies", "touched"), "int64")},
)
BOUND = Struct(
    "smelt_bound",
    dict.fromkeys(("host", "entry", "tensors", "sizes", "weights", "workspace"), "pointer"),
)
PROFILE = Struct(
    "smelt_profile",
    {"kernel_count": "int64", **dict.fromkeys(("start", "nanoseconds", "calls"), "pointer")},
)
WATCH = Struct("smelt_watch", {"asked_at": "int64", "interrupted": "pointer"})
TRACE = Struct(
    "smelt_trace", {"room": "int64", "count": "int64", "what": "pointer", "time": "pointer"}
)
TENSOR_INFO = Struct(
    "smelt_tensor_info", {"name": "pointer", "dtype": "int32", "rank": "int32", "shape": "pointer"}
)
MODEL_INFO = Struct(
    "smelt_model_info",
    {
        "abi_version": "int32",
        "reserved": "int32",
        "id": "uint64",
        **dict.fromkeys(("entry", "plan", "name", "features"), "pointer"),
        "input_count": "int64",
        "inputs": "pointer",
        "output_count": "int64",
        "outputs": "pointer",
        "symbol_count": "int64",
        "symbols": "pointer",
        "weights_bytes": "int64",
        "workspace_bytes": "int64",
        "program": "pointer",
        "updates": "pointer",
        "weights_offset": "int64",
        "lesser": "pointer",
    },
)
FOOTER = Struct(
    "footer",
    {
        "magic": "char[8]",
        "abi_version": "uint32",
        "flags": "uint32",
        **dict.fromkeys(("weights_offset", "weights_bytes"), "uint64"),
        **dict.fromkeys(("metadata_offset", "metadata_bytes", "id", "file_bytes"), "uint64"),
    },
)
"""The end of a library's file (native/blob.c)."""
STRUCTS = (
    HOST, SERVICES, SEGMENT, CONSTANT, PROGRAM, TENSOR, PROGRAM_CALL, PROGRAM_MEMORY, VIEW, OPERAND,
    BOUND, PROFILE, WATCH, TRACE, TENSOR_INFO, MODEL_INFO, FOOTER,
)  # fmt: skip
