"""Arguments and results as messages: plain values as JSON, arrays as bytes behind it.

What has no such form stays where it is, and the other side gets a handle: see `Encoder.held`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from smelt.runtime import Device, NDArray, Results, array
from smelt.runtime.container import ADT
from smelt.runtime.device import device
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.kernel_times import ControlTimes, KernelTime, ProfiledRun
from smelt.runtime.profiler import report
from smelt.runtime.report import BenchmarkResult, ProfileReport, TimeEvaluation
from smelt.runtime.signature import TensorInfo

from .wire import Data, RPCError

_RECORDS = {
    c.__name__: c
    for c in (BenchmarkResult, ControlTimes, KernelTime, ProfiledRun, ProfileReport, TensorInfo,
              TimeEvaluation)
}  # fmt: skip
_MOST_DEPTH = 32


class Encoder:
    """Makes a message of values.

    held  gives what stands for a value that has no form; None: such a value is an error
    data  the arrays' bytes, in order
    """

    def __init__(self, held: Callable[[Any], dict[str, Any]] | None = None) -> None:
        self.held = held
        self.data: list[Data] = []

    def encode(self, value: Any) -> Any:
        """The JSON for a value. Raises RPCError where it has none."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.integer() | np.floating() | np.bool_():
                return value.item()
            case np.dtype():
                return str(value)
            case NDArray():
                return self._array(value.numpy())
            case np.ndarray():
                return self._array(value)
            case Results():
                items = [self.encode(v) for v in value]
                return {"$": "results", "items": items, "names": list(value.names)}
            case bytes() | bytearray():
                self.data.append(bytes(value))
                return {"$": "bytes", "count": len(value)}
            case list():
                return [self.encode(v) for v in value]
            case tuple():
                return {"$": "tuple", "items": [self.encode(v) for v in value]}
            case ADT() if not value.name:  # a tuple of the virtual machine
                return self.encode(value.fields)
            case Mapping() if all(isinstance(k, str) for k in value):
                return {"$": "dict", "items": {k: self.encode(v) for k, v in value.items()}}
            case Device():
                return {"$": "device", "type": value.device_type, "number": value.device_id}
        if is_dataclass(value) and type(value).__name__ in _RECORDS:
            own = {f.name: self.encode(getattr(value, f.name)) for f in fields(value)}
            return {"$": "record", "name": type(value).__name__, "fields": own}
        if self.held is not None:
            return self.held(value)
        try:
            return self._array(np.asarray(value))
        except (TypeError, ValueError):
            raise RPCError(f"a {type(value).__name__} cannot be sent to another machine") from None

    def _array(self, a: np.ndarray) -> Any:
        if a.dtype == object:
            raise RPCError("an array of Python objects cannot be sent to another machine")
        whole = np.ascontiguousarray(a)
        self.data.append(whole.reshape(-1).view(np.uint8).data)
        return {"$": "array", "dtype": str(a.dtype), "shape": list(a.shape)}


class Decoder:
    """Makes values of a message.

    held   gives the value that a handle stands for
    plain  whether arrays are numpy's, over the message's own memory; NDArrays otherwise
    """

    def __init__(
        self, data: bytearray, held: Callable[[Mapping[str, Any]], Any], plain: bool = False
    ) -> None:
        self.held, self.plain, self._data, self._at = held, plain, memoryview(data), 0

    def decode(self, made: Any, depth: int = 0) -> Any:
        """The value of a piece of JSON. Raises RPCError where it is no value."""
        if depth > _MOST_DEPTH:
            raise RPCError("a message of values inside of values inside of values")
        if isinstance(made, list):
            return [self.decode(m, depth + 1) for m in made]
        if not isinstance(made, dict):
            return made
        try:
            return self._tagged(made, depth)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise RPCError(f"a message that holds no value: {e!r}") from None

    def _tagged(self, made: Mapping[str, Any], depth: int) -> Any:
        match made["$"]:
            case "array":
                found = self._array(str(made["dtype"]), made["shape"])
                return found if self.plain else array(found)
            case "bytes":
                return bytes(self._taken(int(made["count"])))
            case "tuple":
                return tuple([self.decode(m, depth + 1) for m in made["items"]])
            case "results":
                items = [self.decode(m, depth + 1) for m in made["items"]]
                return Results(items, [str(n) for n in made["names"]])
            case "dict":
                return {str(k): self.decode(m, depth + 1) for k, m in made["items"].items()}
            case "device":
                return device({1: "cpu"}[int(made["type"])], int(made["number"]))
            case "profile":
                runs = [ProfiledRun(m, tuple(spent), tuple(starts))
                        for m, spent, starts in made["runs"]]  # fmt: skip
                sizes, calls = made["sizes"], made["calls"]
                return report(str(made["model"]), made["kernels"], sizes, calls, runs)
            case "record":
                own = {k: self.decode(m, depth + 1) for k, m in made["fields"].items()}
                return _RECORDS[made["name"]](**own)
        return self.held(made)

    def _array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        kind = numpy_dtype(dtype)
        count = 1
        for n in shape:
            if not isinstance(n, int) or n < 0:
                raise ValueError(f"an extent of {n!r}")
            count *= n
        view = self._taken(count * kind.itemsize)
        return np.frombuffer(view, np.uint8).view(kind).reshape(shape)

    def _taken(self, count: int) -> memoryview:
        if not 0 <= count <= len(self._data) - self._at:
            raise ValueError(f"{count} bytes, and {len(self._data) - self._at} came")
        view = self._data[self._at : self._at + count]
        self._at += count
        return view
