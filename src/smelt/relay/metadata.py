"""Constants as text: the table behind a Relay program, and what reads it.

    #[metadata]
    {
      "format": 1,
      "relay.Constant": [
        {"dtype": "float32", "shape": [3, 4], "name": "w", "data": "AAAA..."}
      ]
    }

`data` is base64 of the elements in row-major order, little-endian, each as wide as in memory. Text
of an array is written and read in one go each way: time and memory are linear in its bytes. What is
read may come from anywhere: it is plain bytes, whose number has to agree with shape and dtype.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.nodes import Constant, constant

MARK = "#[metadata]"
KIND = "relay.Constant"

_FORMAT = 1
_FIELDS = {"dtype": str, "shape": list, "data": str}
Fail = Callable[[str], NoReturn]


def metadata_text(constants: Sequence[Constant]) -> str:
    """The table of some constants, in the order of their numbers."""
    lines = ",\n".join([f"    {_entry(c)}" for c in constants])
    return f'{MARK}\n{{\n  "format": {_FORMAT},\n  "{KIND}": [\n{lines}\n  ]\n}}\n'


def _entry(c: Constant) -> str:
    data = np.ascontiguousarray(c.data.view(np.ndarray)).reshape(c.data.shape)
    if sys.byteorder == "big":
        data = data.byteswap()
    head = {"dtype": c.type.dtype, "shape": list(data.shape)}
    if c.name:
        head["name"] = c.name
    content = base64.b64encode(data.tobytes())
    return f'{json.dumps(head)[:-1]}, "data": "{content.decode("ascii")}"}}'


def read_metadata(text: str, fail: Fail) -> list[Constant]:
    """The constants of a table.

    fail  raises an error that says where the text comes from
    """
    try:
        table = json.loads(text)
    except ValueError as e:
        fail(f"{MARK} is no JSON: {e}")
    except RecursionError:
        fail(f"{MARK} is nested too deeply")
    if not isinstance(table, dict) or table.get("format") != _FORMAT:
        found = table.get("format") if isinstance(table, dict) else type(table).__name__
        fail(f'{MARK}: "format" is {found!r}; legal: {_FORMAT}')
    entries = table.get(KIND)
    if not isinstance(entries, list):
        fail(f'{MARK}: "{KIND}" is no list')
    return [_constant(e, lambda what, i=i: fail(f"{MARK}: {KIND}[{i}]: {what}"))  # type: ignore[misc]
            for i, e in enumerate(entries)]  # fmt: skip


def _constant(entry: Any, fail: Fail) -> Constant:
    """One entry, checked."""
    if not isinstance(entry, dict):
        fail(f"{type(entry).__name__} instead of an entry with {', '.join(_FIELDS)}")
    for name, kind in _FIELDS.items():
        if not isinstance(entry.get(name), kind):
            fail(f'"{name}" is {entry.get(name)!r}; a {kind.__name__} is legal'[:200])
    kind, shape, name = entry["dtype"], entry["shape"], entry.get("name", "")
    if kind not in dt.DTYPES:
        fail(f"{kind!r} is no element type; known: {', '.join(dt.DTYPES)}")
    if not all(type(e) is int and e >= 0 for e in shape):
        fail(f"the shape {shape} has an extent that is no number from 0 on")
    if not isinstance(name, str):
        fail(f'"name" is {name!r}; a text is legal')
    try:
        content = base64.b64decode(entry["data"], validate=True)
    except (binascii.Error, ValueError) as e:
        fail(f'"data" is no base64: {e}')
    numpy_type = dt.to_numpy(kind)
    wanted = math.prod(shape) * numpy_type.itemsize
    if len(content) != wanted:
        fail(f"{len(content)} bytes; {kind} of shape {shape} has {wanted}")
    try:
        data = np.frombuffer(content, numpy_type).reshape(shape)
    except ValueError as e:
        fail(f"the shape {shape}: {e}")
    if kind == "bool" and data.size and np.frombuffer(content, "u1").max() > 1:
        fail("a byte is neither 0 nor 1, as those of bool are")
    return constant(data.byteswap() if sys.byteorder == "big" else data, name)


def arrays_of(meta: Any, fail: Fail) -> dict[int, Constant]:
    """The constants that a user gives beside a text: {"relay.Constant": [...]}."""
    if not isinstance(meta, Mapping) or not set(meta) <= {KIND}:
        fail(f'meta={_short(meta)}; legal: {{"{KIND}": [array, ...]}}, as relay.meta_table makes')
    given = meta.get(KIND, ())
    if isinstance(given, str) or not isinstance(given, Sequence):
        fail(f'meta["{KIND}"] is {type(given).__name__}; a list of arrays is legal')
    found = {}
    for i, a in enumerate(given):
        if isinstance(a, Constant):
            found[i] = a
            continue
        try:
            found[i] = constant(np.asarray(a))
        except (TypeError, ValueError) as e:
            fail(f'meta["{KIND}"][{i}] is {type(a).__name__}: {e}')
    return found


def _short(value: Any) -> str:
    keys = list(value) if isinstance(value, Mapping) else type(value).__name__
    return f"{keys!r}"[:100]
