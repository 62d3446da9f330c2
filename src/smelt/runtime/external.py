"""External functions: parts of a model that a user's own Python code runs.

    @smelt.runtime.register_runtime("mybackend")
    def load(text, constants):
        def run(*arrays):               # the inputs, then the outputs, as numpy arrays
            x, y = arrays
            y[...] = ...
        return run

The host program of the model calls them through a table of C functions. An exception reaches the
caller of the model, with a note that names the function.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.abi import Status
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import InputError, LoadError, nearest
from smelt.runtime.expression import evaluate

AnyArray = npt.NDArray[Any]
Run = Callable[..., None]
Loader = Callable[[str, Mapping[str, AnyArray]], Run]

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_loaders: dict[str, Loader] = {}


def register_runtime(name: str) -> Callable[[Loader], Loader]:
    """`@register_runtime("mybackend")`: the function that makes a text run.

    It gets the text that the back end's code generator gave and the constants by name (read-only
    arrays), and returns a function of the inputs and the outputs, which fills the outputs. The
    arrays are row-major; they are gone after the call. The function may be called from several
    threads. A name registered again is replaced.
    """

    def enter(loader: Loader) -> Loader:
        if not callable(loader):
            raise InputError(f"register_runtime({name!r}): a {type(loader).__name__} is given; "
                             "a function (text, constants) is needed")  # fmt: skip
        _loaders[name] = loader
        return loader

    return enter


def registered_runtimes() -> tuple[str, ...]:
    """The names of the back ends whose runtime half is registered in this process."""
    return tuple(sorted(_loaders))


def runtime_of(name: str) -> Loader | None:
    """The runtime half of a back end, where it is registered."""
    return _loaders.get(name)


class Externals:
    """The external functions of one model, loaded, as a table for its host program."""

    def __init__(
        self, model: str, entries: Sequence[Mapping[str, Any]], weights: AnyArray | None
    ) -> None:
        """entries: the metadata's list; LoadError where a back end is not registered."""
        for entry in entries:
            _check(model, entry)
        self._local = threading.local()
        self._functions = [
            _FUNCTION(_ExternalCall(entry, _loaded(model, entry, weights), self._local))
            for entry in entries
        ]
        pointers = [ctypes.cast(f, ctypes.c_void_p).value for f in self._functions]
        self._table = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)

    @property
    def address(self) -> int:
        """Of the table: smelt_host.externals."""
        return ctypes.addressof(self._table)

    def raised(self) -> BaseException | None:
        """What a function raised in this thread since it was last asked."""
        error: BaseException | None = getattr(self._local, "error", None)
        self._local.error = None
        return error


def _check(model: str, entry: Mapping[str, Any]) -> None:
    name = entry["compiler"]
    if name in _loaders:
        return
    home = entry.get("module") or "__main__"
    where = "the program" if home == "__main__" else f"the module {home}"
    raise LoadError(
        f"{model}: the function {entry['symbol']} is run by the back end {name!r}, which is not "
        f"registered in this process{nearest(name, _loaders)}\n"
        f'  import first what calls smelt.runtime.register_runtime("{name}"): where the model was '
        f"compiled, that was {where}\n"
        f"  registered: {', '.join(registered_runtimes()) or 'none'}"
    )


def _loaded(model: str, entry: Mapping[str, Any], weights: AnyArray | None) -> Run:
    """What a back end's runtime half makes of its text."""
    constants = {}
    for c in entry["constants"]:
        dtype, shape = numpy_dtype(c["dtype"]), tuple(c["shape"])
        size = math.prod(shape) * dtype.itemsize
        raw = np.empty(0, np.uint8) if weights is None else weights
        if c["offset"] + size > raw.size:
            raise LoadError(
                f"{model}: the constant {c['name']!r} of {entry['symbol']} ends at byte "
                f"{c['offset'] + size} of the model's {raw.size} bytes of constants; it is damaged"
            )
        view = raw[c["offset"] : c["offset"] + size].view(dtype).reshape(shape)
        view.flags.writeable = False
        constants[c["name"]] = view
    name = entry["compiler"]
    try:
        run = _loaders[name](entry["text"], constants)
    except Exception as error:
        raise LoadError(
            f"{model}: the back end {name!r} cannot load {entry['symbol']}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not callable(run):
        raise LoadError(
            f"{model}: the back end {name!r} gave a {type(run).__name__} for {entry['symbol']}; "
            "a function of its inputs and outputs is needed"
        )
    return run


class _ExternalCall:
    """One external function as the host program calls it: (tensors, sizes) -> status."""

    def __init__(self, entry: Mapping[str, Any], run: Run, local: threading.local) -> None:
        self.symbol, self.compiler = entry["symbol"], entry["compiler"]
        self.run, self.local = run, local
        self.names: list[str] = entry["symbols"]
        inputs, outputs = entry["inputs"], entry["outputs"]
        self.tensors = [
            (numpy_dtype(t["dtype"]), tuple(t["shape"]), i >= len(inputs))
            for i, t in enumerate([*inputs, *outputs])
        ]

    def __call__(self, tensors: int, sizes: int) -> int:
        """Nothing may be raised through native code: the error is kept for the caller."""
        try:
            self.run(*self.arrays(tensors, sizes))
        except BaseException as error:
            error.add_note(
                f"raised by the external function {self.symbol} of the back end {self.compiler!r}"
            )
            self.local.error = error
            return Status.FAILED
        return 0

    def arrays(self, tensors: int, sizes: int) -> list[AnyArray]:
        """The memory of a call as numpy sees it."""
        values = (ctypes.c_int64 * len(self.names)).from_address(sizes) if self.names else ()
        known = dict(zip(self.names, values, strict=True))
        places = (ctypes.c_void_p * len(self.tensors)).from_address(tensors)
        made = []
        for place, (dtype, shape, writeable) in zip(places, self.tensors, strict=True):
            extents = tuple([evaluate(d, known) for d in shape])
            size = math.prod(extents) * dtype.itemsize
            if size == 0:
                made.append(np.empty(extents, dtype))
                continue
            memory = memoryview((ctypes.c_uint8 * size).from_address(place or 0))
            raw = np.frombuffer(memory, np.uint8)
            view = raw.view(dtype).reshape(extents)
            view.flags.writeable = writeable
            made.append(view)
        return made
