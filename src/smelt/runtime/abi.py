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

    @staticmethod
    def of(name: str, *fields: str) -> Struct:
        """A struct from texts, each a kind and the fields of it that stand side by side."""
        kinds = [text.split() for text in fields]
        return Struct(name, {field: kind for kind, *names in kinds for field in names})

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


HOST = Struct.of(
    "smelt_host",
    "pointer pool parallel_for probe_sink probe externals services interrupted",
    "int64 most_bytes most_turns",
)
SERVICES = Struct.of(
    "smelt_services",
    "pointer enter again leave assign release constant scalar segment list item append stack sizes",
)
"""What a program that decides while it runs may ask for."""
SEGMENT = Struct.of(
    "smelt_segment",
    "pointer name entry plan tensors updates",
    "int64 input_count output_count symbol_count extent_count",
)
CONSTANT = Struct.of("smelt_constant", "int64 offset dtype rank", "pointer shape")
PROGRAM = Struct.of(
    "smelt_program",
    "pointer main",
    "int64 segment_count", "pointer segments",
    "int64 constant_count", "pointer constants",
    "int64 text_count", "pointer texts",
)  # fmt: skip
TENSOR = Struct.of("smelt_tensor", "pointer data", "int64 rank", "pointer shape", "int32 dtype")
PROGRAM_CALL = Struct.of(
    "smelt_program_call",
    "pointer host program weights",
    "int64 input_count", "pointer inputs",
    "int64 output_count", "pointer outputs lent",
)  # fmt: skip
PROGRAM_MEMORY = Struct.of("smelt_program_memory", "int64 allocations most_bytes")
VIEW = Struct.of("smelt_pool_view", "pointer pool", "int32 max_threads")
OPERAND = Struct.of("smelt_operand", "pointer memory", "int64 bytes stride copies touched")
BOUND = Struct.of("smelt_bound", "pointer host entry tensors sizes weights workspace")
PROFILE = Struct.of("smelt_profile", "int64 kernel_count", "pointer start nanoseconds calls")
WATCH = Struct.of("smelt_watch", "int64 asked_at", "pointer interrupted")
TRACE = Struct.of("smelt_trace", "int64 room count", "pointer what time")
TENSOR_INFO = Struct.of("smelt_tensor_info", "pointer name", "int32 dtype rank", "pointer shape")
MODEL_INFO = Struct.of(
    "smelt_model_info",
    "int32 abi_version reserved", "uint64 id", "pointer entry plan name features",
    "int64 input_count", "pointer inputs",
    "int64 output_count", "pointer outputs",
    "int64 symbol_count", "pointer symbols",
    "int64 weights_bytes workspace_bytes", "pointer program updates",
    "int64 weights_offset", "pointer lesser",
)  # fmt: skip
FOOTER = Struct.of(
    "footer",
    "char[8] magic",
    "uint32 abi_version flags",
    "uint64 weights_offset weights_bytes metadata_offset metadata_bytes id file_bytes",
)
"""The end of a library's file (native/blob.c)."""
STRUCTS = (
    HOST, SERVICES, SEGMENT, CONSTANT, PROGRAM, TENSOR, PROGRAM_CALL, PROGRAM_MEMORY, VIEW, OPERAND,
    BOUND, PROFILE, WATCH, TRACE, TENSOR_INFO, MODEL_INFO, FOOTER,
)  # fmt: skip
