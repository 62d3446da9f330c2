"""The description of a model as JSON: its form is checked before anything in it is used.

A library's code knows itself what it reads and writes (smelt_model_info). The JSON beside it says
the same for Python, and more: names of kernels, expressions of sizes, functions in Python. It must
have the right form, agree with what the code says, and be the one that the code was linked with.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import C_DTYPES, numpy_dtype
from smelt.runtime.errors import LoadError
from smelt.runtime.native import COMPUTED_DIM, ModelInfo, library
from smelt.runtime.signature import TensorInfo

Form: TypeAlias = "Callable[[Any, str], None] | dict[str, Form] | list[Form]"
"""What a value has to be like; see `_check`."""


# ---- forms -------------------------------------------------------------------------------------


def _refuse(value: Any, at: str, legal: str) -> None:
    raise LoadError(f"{at or 'it'} is {repr(value)[:60]}; legal: {legal}")


def _check(value: Any, form: Form, at: str = "") -> None:
    """Refuses a value of another form by a LoadError that names its place.

    {"a": form, "b?": form}  an object with these entries, of which those with ? may be missing;
                             others, which nobody reads, do not matter
    {"*": form}              an object of such entries
    [form]                   a list of such
    [form, form]             a list of just these
    a function               refuses what is wrong by itself
    """
    if callable(form):
        form(value, at)
    elif isinstance(form, list):
        if type(value) is not list or len(form) not in (1, len(value)):
            _refuse(value, at, "a list" if len(form) == 1 else f"a list of {len(form)}")
        for i, item in enumerate(value):
            _check(item, form[i % len(form)], f"{at}[{i}]")
    elif type(value) is not dict:
        _refuse(value, at, "an object")
    elif "*" in form:
        for key, item in value.items():
            _check(key, _text, at)
            _check(item, form["*"], f"{at}[{key!r}]")
    else:
        for key, entry in form.items():
            name = key.removesuffix("?")
            place = f"{at}.{name}" if at else name
            if name in value:
                _check(value[name], entry, place)
            elif name == key:
                raise LoadError(f"{place} is missing")


def _names(value: Any, at: str) -> None:
    _check(value, [_text], at)
    if len(set(value)) < len(value):
        _refuse(value, at, "a list without repetitions")


def _such(holds: Callable[[Any], bool], legal: str) -> Form:
    """Values for which this holds."""

    def check(value: Any, at: str) -> None:
        if not holds(value):
            _refuse(value, at, legal)

    return check


_text = _such(lambda v: type(v) is str and v == v.encode(errors="replace").decode(), "a text")
_count = _such(lambda v: type(v) is int and 0 <= v < 1 << 63, "a number of 63 bits")
_number = _such(lambda v: type(v) in (int, float) and 0 <= v < 1e300, "a number")
_group = _such(lambda v: type(v) is int and v >= -2, "-2, -1 or a number of items")
_truth = _such(lambda v: type(v) is bool, "true or false")


def _size(value: Any, at: str) -> None:
    _check(value, _text if type(value) is str else _count, at)


def _place(value: Any, at: str) -> None:
    _check(value, [_text] if type(value) is list and value else _count, at)


def _one_of(*legal: str) -> Form:
    return _such(lambda v: type(v) is str and v in legal, ", ".join(legal))


def _maybe(form: Form) -> Form:
    return lambda value, at: None if value is None else _check(value, form, at)


_TENSOR: dict[str, Form] = {"dtype": _one_of(*C_DTYPES), "shape": [_size]}
_NAMED: dict[str, Form] = {**_TENSOR, "name": _text}
_TENSORS: Form = [_TENSOR]
_TEXTS: Form = [_text]
_RESULT: Form = {**_TENSOR, "strides": [_size], "offset": _size, "output": _maybe(_count)}
_KERNEL: Form = {
    "name": _text,
    "results?": [_RESULT],
    **dict.fromkeys(("ops?", "nodes?"), _TEXTS),
    **dict.fromkeys(("flops?", "bytes?"), _maybe(_size)),
    "variant?": {"*": _size},
    **dict.fromkeys(("sketches?", "failed?"), _TEXTS),
    "seconds?": _number,
}
_EXTERNAL: Form = {
    **dict.fromkeys(("symbol", "compiler", "text"), _text),
    "symbols": _names,
    **dict.fromkeys(("inputs", "outputs"), _TENSORS),
    "constants": [{**_NAMED, "shape": [_count], "offset": _count}],
    "module?": _text,
}
_METADATA: dict[str, Form] = {
    **dict.fromkeys(("abi", "weights_bytes?", "weights_offset?", "first_kernel?"), _count),
    **dict.fromkeys(("name", "target?", "content?"), _text),
    **{key: [_NAMED] for key in ("inputs", "outputs")},
    **dict.fromkeys(("symbols?", "features?", "parameters?", "written?"), _names),
    "kernels?": [_KERNEL],
    **dict.fromkeys(("workspace_bytes?", "live_bytes?"), _maybe(_count)),
    "size_ranges?": {"*": [_count, _maybe(_count)]},
    "size_equations?": [[_size, _size, _text, _truth]],
    "size_least?": [[_size, _text]],
    "size_notes?": [_text],
    "variants?": [{"*": _size}],
    "externals?": [_EXTERNAL],
    "kind?": _one_of("program", "vm"),
    **{key: [[_count, _count]] for key in ("updates?", "states?")},
    "starts?": [[_count, [_count], _count]],
}

_VALUE: Form = {
    "name": _text,
    "dtype": _one_of("", "string", *C_DTYPES),
    "shape": [_size],
    "kind": _one_of("tensor", "sequence", "optional", "optional sequence", "data"),
}
_VALUES: Form = [_VALUE]
_INTERFACE: dict[str, Form] = {
    **dict.fromkeys(("inputs", "outputs", "results"), _VALUES),
    "groups": [_group],
}
_DECIDING: dict[str, Form] = {
    **{k: v for k, v in _METADATA.items() if k not in ("inputs", "outputs", "kind?")},
    **_INTERFACE,
    "control": _one_of("native", "python"),
    "python": _TEXTS,
    "sites": _TEXTS,
    "segments": [{**_METADATA, "kernels": [_KERNEL], "first_kernel": _count}],
    "program": {
        "globals": {"*": _count},
        "functions": lambda value, at: None,  # vm_program checks them
        "constants": [[_one_of("string", *C_DTYPES), [_count], _place]],
        "single": _truth,
    },
}
"""What the metadata of a program that decides while it runs are like."""


def parse_interface(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """Inputs, outputs, groups and results of a program."""
    inputs, outputs, results = (
        tuple([TensorInfo(v["name"], v["dtype"], tuple(v["shape"]), v["kind"]) for v in data[role]])
        for role in ("inputs", "outputs", "results")
    )
    return inputs, outputs, tuple(data["groups"]), results


@contextmanager
def open_artifact(path: str | os.PathLike[str], *damages: type[Exception]) -> Iterator[BinaryIO]:
    """A file to read. Where there is none, or something that is no plain file, or something is
    found wrong while it is open, a LoadError says so and names it.

    damages  further errors that a damaged file leads to
    """
    found: tuple[type[Exception], ...] = (LoadError, OSError, ValueError, EOFError, *damages)
    try:
        # Not to wait for somebody at the other end of a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LoadError("it is no regular file")
            yield file
    except found as error:
        if str(error).startswith(_START):  # of a file that this one needs
            raise
        raise LoadError(f"{_START}{path}: {getattr(error, 'strerror', None) or error}") from None


_START = "cannot load "


def parse_json(text: bytes) -> Any:
    """JSON as data; None where it is none, or nested without measure."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def constant_at(
    weights: npt.NDArray[np.uint8] | None, dtype: str, shape: Sequence[int], at: int
) -> npt.NDArray[Any]:
    """An array that stands among a library's constants. Raises LoadError where it does not."""
    kind, room = numpy_dtype(dtype), 0 if weights is None else weights.size
    size = math.prod(shape) * kind.itemsize
    if at + size > room:
        raise LoadError(f"it is damaged: a constant ends at byte {at + size} of {room}")
    raw = np.empty(0, np.uint8) if weights is None else weights[at : at + size]
    view = raw.view(kind).reshape(shape)
    view.flags.writeable = False
    return view


def parse_levels(text: bytes) -> list[dict[str, Any]]:
    """The metadata of a library or archive: of its forms for several processors, the best first.

    Raises LoadError where they have another form.
    """
    found = parse_json(text)
    levels = found.get("levels") if isinstance(found, dict) and "levels" in found else [found]
    if type(levels) is not list or not levels:
        raise LoadError("its metadata is damaged: levels is no list of descriptions")
    return [_parse_metadata(level) for level in levels]


def weights_end(levels: Sequence[Mapping[str, Any]]) -> int:
    """The bytes of constants of a library: up to where those of its last form end."""
    return int(levels[-1].get("weights_offset", 0) + levels[-1].get("weights_bytes", 0))


def _parse_metadata(found: Any) -> dict[str, Any]:
    try:
        deciding = isinstance(found, dict) and found.get("kind") == "vm"
        _check(found, _DECIDING if deciding else _METADATA)
        for part in (found, *found.get("segments", ())):
            _check_pairs(part)
        if found.get("kind") == "program":
            _check_program(found)
    except LoadError as error:
        raise LoadError(f"its metadata is damaged: {error}") from None
    return dict(found)


def _check_pairs(found: Mapping[str, Any]) -> None:
    """Inputs and outputs that belong together are there, each in one pair."""
    for role in ("updates", "states"):
        for side, values in enumerate(("inputs", "outputs")):
            numbers = [pair[side] for pair in found.get(role, ())]
            if len(set(numbers)) < len(numbers) or max(numbers, default=-1) >= len(found[values]):
                _refuse(numbers, role, f"numbers of {values}, each once")
    shapes = {i: found["inputs"][i]["shape"] for i, _ in found.get("states", ())}
    for i, shape, _ in found.get("starts", ()):
        wanted = shapes.get(i)
        if (
            wanted is None
            or len(shape) != len(wanted)
            or any(type(w) is int and w != n for w, n in zip(wanted, shape, strict=True))
        ):
            _refuse([i, shape], "starts", f"kept inputs with their shapes, {shapes}")


def _check_program(found: Mapping[str, Any]) -> None:
    """The parameters of a tensor program are its arrays and its sizes."""
    arrays = [t["name"] for t in found["inputs"]]
    given, written = found.get("parameters", []), found.get("written", [])
    if len(set(arrays)) < len(arrays) or not set(arrays) <= set(given) <= {
        *arrays,
        *found.get("symbols", []),
    }:
        _refuse(given, "parameters", "the inputs and symbols, once each")
    if "written" not in found:
        raise LoadError("written is missing")
    _check(written, [_text], "written")


# ---- code --------------------------------------------------------------------------------------


def c_tensors(metadata: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The inputs and outputs of a model as its code knows them; none where Python runs a part."""
    if metadata.get("kind") != "vm":
        return {"inputs": metadata["inputs"], "outputs": metadata["outputs"]}
    native = metadata["control"] == "native"
    return {
        "inputs": metadata["inputs"] if native else [],
        "outputs": metadata["results"] if native else [],
    }


def check_code(metadata: Mapping[str, Any], info: ModelInfo) -> None:
    """Refuses metadata that say other things than the code does of what it reads and writes."""
    symbols = metadata.get("symbols", [])
    said: dict[str, Any] = {
        role: [_expected(t, symbols) for t in tensors]
        for role, tensors in c_tensors(metadata).items()
    }
    said["updates"] = update_numbers(metadata)
    said["symbols"] = [_c(s) for s in symbols]
    for place in ("weights_bytes", "weights_offset"):
        said[place] = metadata.get(place, 0)
    said["workspace_bytes"] = metadata.get("workspace_bytes") or 0
    true = {
        "inputs": [_tensor(info.inputs[i]) for i in range(info.input_count)],
        "outputs": [_tensor(info.outputs[i]) for i in range(info.output_count)],
        "updates": [info.updates[i] for i in range(info.input_count)] if info.updates else [],
        "symbols": [info.symbols[i] for i in range(info.symbol_count)],
        "weights_bytes": info.weights_bytes,
        "weights_offset": info.weights_offset,
        "workspace_bytes": info.workspace_bytes,
    }
    for what, value in said.items():
        if value != true[what]:
            raise LoadError(f"its metadata is damaged: {what}: its code says something else")


def _c(text: str) -> bytes:
    """A text as C sees it: up to the first zero."""
    return text.encode().partition(b"\0")[0]


def update_numbers(metadata: Mapping[str, Any]) -> list[int]:
    """For each input the output that it becomes, or -1 (smelt_model_info.updates); all are only
    read: nothing."""
    becomes = dict(metadata.get("updates", ()))
    return [becomes.get(n, -1) for n in range(len(metadata["inputs"]))] if becomes else []


def dimensions(tensor: Mapping[str, Any], symbols: Sequence[str]) -> list[int]:
    """The dimensions of a tensor as smelt_tensor_info has them."""
    return [
        d if type(d) is int else ~symbols.index(d) if d in symbols else COMPUTED_DIM
        for d in tensor["shape"]
    ]


def _expected(tensor: Mapping[str, Any], symbols: Sequence[str]) -> tuple[bytes, bytes, list[int]]:
    return _c(tensor["name"]), tensor["dtype"].encode(), dimensions(tensor, symbols)


def _tensor(info: Any) -> tuple[bytes, bytes, list[int]]:
    return info.name, library().smelt_dtype_name(info.dtype), list(info.shape[: info.rank])
