"""State: values that an executable keeps from call to call, such as the cache of a language model.

    exe = smelt.compile("decoder.onnx", state={"past": "present"})
    logits = exe(token, position)      # reads and updates exe.state["past"]
    exe.state.reset()                  # another text

A value whose shape stays is updated where it stands, and nothing of it is copied; one that grows is
what the last call gave.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import InputError, LoadError, unknown
from smelt.runtime.executable import Executable, Results
from smelt.runtime.expression import evaluate, names_in
from smelt.runtime.metadata import constant_at
from smelt.runtime.ndarray import NDArray, array, wrapped
from smelt.runtime.params import load_param_dict_from_file, save_param_dict_to_file
from smelt.runtime.report import BenchmarkResult, CallMemory, MemoryInfo, ProfileReport
from smelt.runtime.signature import Interface, TensorInfo, listing

AnyArray = npt.NDArray[Any]


class State(Mapping[str, NDArray]):
    """The values of one sequence of calls, by the names of the inputs that they are.

    They begin as what the model says, or as zeros; extents that only the state has begin as 0. One
    thread at a time may use a state.
    """

    def __init__(
        self, name: str, infos: Sequence[TensorInfo], starts: Mapping[str, AnyArray] | None = None
    ) -> None:
        """Of a model of this name; starts: the values that do not begin as zeros."""
        self._name, self._infos = name, {i.name: i for i in infos}
        self._starts = starts or {}
        self._values: dict[str, NDArray] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> NDArray:
        """The value itself: what is written to it, the next call reads.

        Raises InputError where its shape is not known before the first call.
        """
        info = self._info(name)
        if name not in self._values:
            if name not in self._starts and any(not isinstance(d, int) for d in info.shape):
                raise self._wrong(info, "its shape is not known before the first call")
            self._values[name] = self._first(info, {})
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Take a copy of an array as the value. Raises InputError where it does not fit."""
        info = self._info(name)
        with self.in_use():
            self._values[name] = self._copy(info, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        known = [f"{n} {v.dtype}{list(v.shape)}" for n, v in self._values.items()]
        begins = [str(i) for n, i in self._infos.items() if n not in self._values]
        return f"State of {self._name}: {'; '.join([*known, *begins])}"

    @property
    def nbytes(self) -> int:
        """The bytes of the values so far."""
        return sum(v.nbytes for v in self._values.values())

    def reset(self) -> None:
        """Begin anew, in new memory; arrays that were taken from here keep their values."""
        with self.in_use():
            self._values.clear()

    def clone(self) -> State:
        """A state of its own with equal values."""
        made = State(self._name, list(self._infos.values()), self._starts)
        with self.in_use():
            made._values = {n: array(v) for n, v in self._values.items()}
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the values to a file, whole or not at all. Raises ExportError."""
        with self.in_use():  # bytes for types that files of parameters do not have
            held = {n: _as_stored(v.numpy()) for n, v in self._values.items()}
            save_param_dict_to_file(held, path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take the values that `save` wrote; if one does not fit, all stay as they are.

        Raises LoadError where the file is missing or damaged, InputError where it does not fit.
        """
        found = load_param_dict_from_file(path)
        for name in found:
            if name not in self._infos:
                raise LoadError(f"{path}: {self._name} has {unknown('state', name, self._infos)}")
        with self.in_use():
            self._values = {
                n: self._copy(self._infos[n], _from_stored(v.numpy(), self._infos[n].dtype))
                for n, v in found.items()
            }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps other threads off. Raises InputError where one uses it."""
        if not self._lock.acquire(blocking=False):
            raise InputError(
                f"{self._name}: another thread uses this state; give each thread one of its own: "
                "exe.with_state()"
            )
        try:
            yield
        finally:
            self._lock.release()

    def arrays(self, sizes: Callable[[], Mapping[str, int]]) -> list[AnyArray]:
        """The values for a call, in order; sizes: gives those of the call."""
        missing = [i for n, i in self._infos.items() if n not in self._values]
        known = sizes() if missing else {}
        for info in missing:
            self._values[info.name] = self._first(info, known)
        return [self._values[name].numpy() for name in self._infos]

    def replace(self, values: Mapping[str, NDArray]) -> None:
        """Keep new values, without a copy."""
        self._values.update(values)

    def _first(self, info: TensorInfo, sizes: Mapping[str, int]) -> NDArray:
        """What a value begins as."""
        if info.name in self._starts:
            return array(self._starts[info.name])
        return _zeros(info.dtype, [_extent(d, sizes) for d in info.shape])

    def _info(self, name: str) -> TensorInfo:
        if name not in self._infos:
            raise InputError(f"{self._name} has {unknown('state', name, self._infos)}")
        return self._infos[name]

    def _copy(self, info: TensorInfo, value: Any) -> NDArray:
        return array(Interface(self._name, [info], []).fitting("state", info, value))

    def _wrong(self, info: TensorInfo, problem: str) -> InputError:
        return Interface(self._name, [info], []).wrong("state", info, problem)


def _zeros(dtype: str, shape: Sequence[int]) -> NDArray:
    return wrapped(np.zeros(shape, numpy_dtype(dtype)))  # pages that nobody has touched are free


def _extent(d: int | str, sizes: Mapping[str, int]) -> int:
    own = () if isinstance(d, int) else names_in(d)  # sizes that only the state has are 0
    return evaluate(d, {**dict.fromkeys(own, 0), **sizes})


def _as_stored(value: AnyArray) -> AnyArray:
    return value if value.dtype.kind in "iufb" else value.view(f"u{value.dtype.itemsize}")


def _from_stored(value: AnyArray, dtype: str) -> AnyArray:
    kind = numpy_dtype(dtype)
    fits = kind.kind not in "iufb" and value.dtype == np.dtype(f"u{kind.itemsize}")
    return value.view(kind) if fits else value


class StatefulExecutable(Executable):
    """An executable that keeps some of its inputs: the outputs that they become are not given.

    code   what runs: its inputs have the state's values among them
    state  the values; another `State` of the same model may be put in its place
    """

    def __init__(
        self, code: Executable, pairs: Sequence[tuple[int, int]], state: State | None = None
    ) -> None:
        """pairs: by position, the inputs that are kept, and the outputs that they become."""
        self.code, self._kept = code, dict(pairs)
        self._gone = set(self._kept.values())
        self.name, self.metadata = code.name, code.metadata
        self.inputs = tuple([t for n, t in enumerate(code.inputs) if n not in self._kept])
        self.outputs = tuple([t for n, t in enumerate(code.outputs) if n not in self._gone])
        self.states = tuple([code.inputs[i] for i in self._kept])
        self._interface = Interface(self.name, self.inputs, self.outputs)
        self._names = [o.name for o in self.outputs]
        starts = _starts(code)
        self.state = State(self.name, self.states, starts) if state is None else state

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state":
            known = getattr(value, "_infos", None)
            if not isinstance(value, State) or known != {i.name: i for i in self.states}:
                shown = repr(value) if isinstance(value, State) else f"a {type(value).__name__}"
                raise InputError(
                    f"{self.name}: its state is {listing(self.states)}; {shown} given; legal: "
                    "exe.state.clone(), or the state of the same model"
                )
        super().__setattr__(name, value)

    def with_state(self, state: State | None = None) -> StatefulExecutable:
        """The same code with another state; None: one that begins anew."""
        return StatefulExecutable(self.code, [*self._kept.items()], state)

    @property
    def memory(self) -> MemoryInfo:
        """The bytes it needs besides inputs, outputs and the state (`exe.state.nbytes`)."""
        return replace(self.code.memory, of_call=self._memory_of)

    def _memory_of(self, *args: Any, **named: Any) -> CallMemory:
        """What a call needs; the state as it is now."""
        given = self._interface.in_order(args, named)
        with self.state.in_use():
            values = self._with(given, self.state)
        needed = self.code.memory(*values)
        return replace(needed, inputs=needed.inputs - self.state.nbytes, state=self.state.nbytes)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the model on its inputs and its state, which it updates."""
        given = self._interface.in_order(args, named) if named else args
        state = self.state
        with state.in_use():
            made = self.code(*self._with(given, state))
            results = list(made) if isinstance(made, Results) else [made]
            state.replace({self.code.inputs[i].name: results[o] for i, o in self._kept.items()})
        left = [r for n, r in enumerate(results) if n not in self._gone]
        return left[0] if len(left) == 1 else Results(left, self._names)

    def _with(self, given: Sequence[Any], state: State) -> list[Any]:
        """The inputs of the code."""
        if len(given) != len(self.inputs) or (given and type(given[0]) is dict):
            given = self._interface.in_order(given, {})

        def sizes() -> dict[str, int]:
            found: dict[str, int] = {}
            for info, value in zip(self.inputs, given, strict=True):
                for d, extent in zip(info.shape, getattr(value, "shape", ()), strict=False):
                    if isinstance(d, str):
                        found.setdefault(d, int(extent))
            return found

        own, others = iter(state.arrays(sizes)), iter(given)
        count = len(self.code.inputs)
        return [next(own) if n in self._kept else next(others) for n in range(count)]

    def bind(self, inputs: Any, outputs: Any = None) -> NoReturn:
        """Refused: bound calls ask nobody whether the state is in use, or another one by now."""
        raise InputError(
            f"{self.name}: bind: it has a state; exe.code.bind(...) takes inputs, the state's "
            "arrays among them, and is for one thread"
        )

    def benchmark(
        self, *args: Any, repeat: int = 10, number: int | None = None, **named: Any
    ) -> BenchmarkResult:
        """Time calls in ms, on a copy of the state: see Executable."""
        given = self._interface.in_order(args, named)
        return self.code.benchmark(*self._with(given, self.state.clone()), repeat=repeat,
                                   number=number)  # fmt: skip

    def profile(self, *args: Any, repeat: int = 10, **named: Any) -> ProfileReport:
        """Time each kernel in ms, on a copy of the state: see Executable."""
        given = self._interface.in_order(args, named)
        return self.code.profile(*self._with(given, self.state.clone()), repeat=repeat)

    def export_library(
        self,
        path: str | os.PathLike[str],
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Write the model as one file, without the state's values: see Executable."""
        self.code.export_library(path, cc=cc, header=header)

    def __repr__(self) -> str:
        """Name, inputs, state and outputs."""
        return f"{super().__repr__()}, state: {listing(self.states)}"


def _starts(code: Executable) -> dict[str, AnyArray]:
    """The inputs that begin as one of the model's constants. Raises LoadError where a library does
    not have it."""
    weights = getattr(code, "weights", None)
    listed = [(code.inputs[i], shape, at) for i, shape, at in code.metadata.get("starts", ())]
    return {i.name: constant_at(weights, i.dtype, shape, at) for i, shape, at in listed}


def owning(exe: Executable) -> Executable:
    """An executable with the state that its description declares, if it does."""
    pairs = exe.metadata.get("states")
    return StatefulExecutable(exe, [(i, o) for i, o in pairs]) if pairs else exe
