"""Programs of the virtual machine as a part of a library's metadata, and read from there.

    program     its functions, their names and the constants that they load; how main gives results
    segments    the metadata of each segment
    control     "native": main is native code; "python": the machine interprets it

The code of all segments stands in the library, which tells their addresses (smelt_program).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime import abi
from smelt.runtime.dtypes import DTYPE_CODES
from smelt.runtime.errors import LoadError
from smelt.runtime.executable import value_info
from smelt.runtime.metadata import constant_at, dimensions, parse_interface, update_numbers
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.vm import VMExecutable
from smelt.runtime.vm_host import HOST_OPS
from smelt.runtime.vm_program import Program, check, of_json

Weights = npt.NDArray[np.uint8] | None


class _Program(ctypes.Structure):
    """smelt_program of smelt.h."""

    _fields_ = abi.PROGRAM.ctypes()


class _Segment(ctypes.Structure):
    """smelt_segment of smelt.h."""

    _fields_ = abi.SEGMENT.ctypes()


def program_data(program: Program, offsets: Mapping[int, int]) -> dict[str, Any]:
    """A program but for its segments as plain data, as JSON gives it back.

    offsets  where its constants stand among the library's, by number; the others are texts
    """
    constants = [
        [str(c.dtype), list(c.shape), offsets[n]]
        if n in offsets
        else ["string", list(c.shape), [str(t) for t in c.reshape(-1)]]
        for n, c in enumerate(program.constants)
    ]
    return {
        "inputs": [value_info(i) for i in program.inputs],
        "outputs": [value_info(o) for o in program.outputs],
        "results": [value_info(r) for r in program.results],
        "groups": list(program.groups),
        "program": {
            "globals": program.globals,
            "functions": [list(astuple(f)) for f in program.functions],
            "constants": constants,
            "single": program.single,
        },
    }


def read_program(metadata: Mapping[str, Any], weights: Weights) -> Program:
    """The program of a library, without its segments. Raises LoadError where it is damaged."""
    data = metadata["program"]
    inputs, outputs, groups, results = parse_interface(metadata)
    made = Program(
        of_json(data["functions"]), _constants(data["constants"], weights), [],
        dict(data["globals"]), inputs, outputs, groups, results, data["single"],
    )  # fmt: skip
    check(made, [(len(s["inputs"]), len(s["outputs"])) for s in metadata["segments"]])
    unknown = {i[2] for f in made.functions for i in f.code if i[0] == "InvokeHost"}
    if unknown := unknown - set(HOST_OPS):
        raise LoadError(f"the program is damaged: no operator is named {sorted(unknown)[0]!r}")
    return made


def _constants(described: Sequence[Any], weights: Weights) -> list[npt.NDArray[Any]]:
    """The constants, which have to stand among the library's."""
    made = []
    for name, shape, at in described:
        if name == "string" or isinstance(at, list):
            if name != "string" or not isinstance(at, list) or len(at) != math.prod(shape):
                raise LoadError(f"the program is damaged: a constant of type {name}")
            made.append(np.array(at, object).reshape(shape))
            continue
        made.append(constant_at(weights, name, shape, at))
    return made


def tensor_numbers(segment: Mapping[str, Any]) -> list[int]:
    """What a segment takes and gives as the code knows it (smelt_segment.tensors)."""
    found: list[int] = []
    symbols = segment.get("symbols", [])
    for tensor in (*segment["inputs"], *segment["outputs"]):
        dims = dimensions(tensor, symbols)
        found += [DTYPE_CODES[tensor["dtype"]], len(dims), *dims]
    return found


def _check_segments(code: _Program, listed: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """The segments as the code knows them. Raises LoadError where the metadata say other things."""
    if code.segment_count != len(listed):
        raise LoadError(
            f"the program is damaged: its code has {code.segment_count} segments, its description "
            f"{len(listed)}"
        )
    places = list((_Segment * len(listed)).from_address(code.segments)) if listed else []
    first = 0
    for place, segment in zip(places, listed, strict=True):
        said = tensor_numbers(segment)
        counts = [len(segment[r]) for r in ("inputs", "outputs")]
        counts += [len(segment.get("symbols", [])), segment["first_kernel"]]
        becomes = update_numbers(segment)
        width = ctypes.c_int64 * place.input_count
        told = width.from_address(place.updates) if place.updates else ()
        true = [place.input_count, place.output_count, place.symbol_count, first]
        known = (ctypes.c_int64 * len(said)).from_address(place.tensors) if said else ()
        if counts != true or said != list(known) or becomes != list(told):
            raise LoadError("the program is damaged: its code says other things of a segment")
        first += len(segment["kernels"])
    return places


def executable_of(
    program: Program,
    metadata: Mapping[str, Any],
    address: int,
    weights: Weights,
    keepalive: object,
    threads: int | None = None,
    objects: Sequence[bytes] = (),
) -> VMExecutable:
    """A program with the code of its segments.

    address  of the library's smelt_program
    """
    code = _Program.from_address(address)
    listed = metadata["segments"]
    places = _check_segments(code, listed)
    program.segments = [
        NativeExecutable(p.entry, p.plan, m, weights, keepalive, threads)
        for p, m in zip(places, listed, strict=True)
    ]
    whole = address if metadata["control"] == "native" and code.main else None
    return VMExecutable(program, metadata, whole, weights, keepalive, threads, objects)
