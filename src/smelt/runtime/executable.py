"""Executable: a compiled model, whatever it takes to run it, behind one call."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    NotRequired,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    overload,
)

import numpy as np
import numpy.typing as npt

from smelt.runtime.bound import BoundCall
from smelt.runtime.container import ADT, Closure
from smelt.runtime.errors import InputError, unknown
from smelt.runtime.evaluator import timed_runs, wall_clock
from smelt.runtime.ndarray import NDArray
from smelt.runtime.report import BenchmarkResult, MemoryInfo, ProfileReport
from smelt.runtime.signature import TensorInfo, listing

Array: TypeAlias = npt.NDArray[np.generic]


class SupportsDLPack(Protocol):
    """An array of torch, jax or another library in the host's memory."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where it lies."""
        ...


Single: TypeAlias = Array | NDArray | SupportsDLPack | np.generic | float | str
Argument: TypeAlias = Single | Sequence["Argument"] | ADT | Closure | None
"""What an input may be: an array, a number for one without dimensions, a list of arrays for a
sequence, None for an optional value that is absent, data of the virtual machine."""


class ValueInfo(TypedDict):
    """An input or output: see TensorInfo."""

    name: str
    dtype: str
    shape: list[int | str]
    kind: NotRequired[str]


class KernelInfo(TypedDict):
    """A launch of a kernel; flops and bytes are texts where they depend on sizes.

    sketches, seconds  how it is scheduled, and the time that is predicted for that
    failed             choices that could not be built
    results            where its results stand when it ends
    """

    name: str
    results: NotRequired[list[dict[str, object]]]
    symbol: NotRequired[str]
    ops: list[str]
    nodes: NotRequired[list[str]]
    flops: NotRequired[int | str | None]
    bytes: NotRequired[int | str | None]
    compiler: NotRequired[str]
    variant: NotRequired[dict[str, int | str]]
    sketches: NotRequired[list[str]]
    failed: NotRequired[list[str]]
    seconds: NotRequired[float]


def value_info(info: TensorInfo) -> ValueInfo:
    """An input or output for metadata."""
    return {"name": info.name, "dtype": info.dtype, "shape": list(info.shape), "kind": info.kind}


class Metadata(TypedDict):
    """What is known of a model; programs of the virtual machine and Models have less."""

    abi: NotRequired[int]
    name: str
    kind: NotRequired[str]
    target: NotRequired[str]
    features: NotRequired[list[str]]
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    symbols: NotRequired[list[str]]
    kernels: list[KernelInfo]
    weights_bytes: NotRequired[int]
    workspace_bytes: NotRequired[int | None]
    live_bytes: NotRequired[int | None]
    size_ranges: NotRequired[dict[str, list[int | None]]]
    size_equations: NotRequired[list[list[int | str | bool]]]
    size_least: NotRequired[list[list[int | str]]]
    size_notes: NotRequired[list[str]]
    variants: NotRequired[list[dict[str, int | str]]]
    externals: NotRequired[list[dict[str, object]]]
    content: NotRequired[str]
    updates: NotRequired[list[tuple[int, int]]]
    states: NotRequired[list[tuple[int, int]]]
    starts: NotRequired[list[tuple[int, list[int], int]]]
    control: NotRequired[str]
    python: NotRequired[list[str]]
    sites: NotRequired[list[str]]
    first_kernel: NotRequired[int]
    parameters: NotRequired[list[str]]
    written: NotRequired[list[str]]


class NoResult(InputError, AttributeError, IndexError, KeyError):
    """What Results do not have: an element or, as they are no array, an attribute."""

    __str__ = Exception.__str__  # KeyError's shows its message in quotes


class Results(tuple[NDArray, ...]):
    """The results of a model that has not exactly one: a tuple, and by name, `y["logits"]`."""

    names: tuple[str, ...]

    def __new__(cls, values: Sequence[NDArray], names: Sequence[str]) -> Results:
        """As many values as names."""
        made = super().__new__(cls, values)
        made.names = tuple(names)
        return made

    def __getnewargs__(self) -> tuple[tuple[NDArray, ...], tuple[str, ...]]:
        return tuple(self), self.names

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> NDArray: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[NDArray, ...]: ...
    def __getitem__(self, key: SupportsIndex | slice | str) -> NDArray | tuple[NDArray, ...]:
        """A result by position or by name."""
        if isinstance(key, str):
            if key not in self.names:
                raise NoResult(unknown("result", key, self.names))
            key = self.names.index(key)
        try:
            return super().__getitem__(key)
        except IndexError:
            many = f"the model has {len(self)}, numbered from 0"
            raise NoResult(f"no result {key}: {many}; {self._listed()}") from None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in self.names or (hasattr(np.ndarray, name) and not name.startswith("_")):
                raise self._several(f"[{name!r}]" if name in self.names else f"[0].{name}")
            raise AttributeError(f"'Results' object has no attribute {name!r}")

    def as_dict(self) -> dict[str, NDArray]:
        """The results by name."""
        return dict(zip(self.names, self, strict=True))

    def numpy(self) -> NoReturn:
        """Refused: there is not one array."""
        raise self._several("[0].numpy()")

    def _several(self, wanted: str) -> NoResult:
        return NoResult(f"the model has {len(self)} results; take one, by number or name: "
                        f"y{wanted}; {self._listed()}")  # fmt: skip

    def _listed(self) -> str:
        return f"results: {', '.join(self.names) or 'none'}"


class Executable(ABC):
    """A compiled model. `exe(x)` runs it; several threads may do so at once.

    name      the model's name
    inputs    name, element type and shape of each input; extents are numbers, names of sizes, or
              expressions over them
    outputs   the same of each output, in the order of the results
    metadata  what is known of the model: plain data
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    metadata: Metadata

    @property
    @abstractmethod
    def memory(self) -> MemoryInfo:
        """The bytes it needs besides inputs and outputs; None where that is not known before."""

    @abstractmethod
    def __call__(
        self, *args: Argument | Mapping[str, Argument], **named: Argument
    ) -> NDArray | Results:
        """Run the model: values in the order of the inputs, by name, or as one dict by name.

        Gives an NDArray, or `Results` where there is not exactly one. Where a model says so, a
        result is something else: a sequence is a list, an absent optional value None, texts are a
        numpy array. Raises InputError where the values do not fit, RuntimeFailure where the run
        fails; a Model also raises what `smelt.compile` does, where it meets a new form.
        """

    def run(
        self, outputs: Sequence[str] | None, feeds: Mapping[str, Argument] | None = None
    ) -> list[Array]:
        """Run the model as onnxruntime's sessions do: inputs by name, results as numpy arrays.

        outputs  the names of the results wanted, in this order; None: all
        feeds    every input by name

        Raises InputError for a name that the model does not have, and what a call does.
        """
        example = f"exe.run(None, {{{self.inputs[0].name if self.inputs else 'x'!r}: x}})"
        if not isinstance(feeds, Mapping):
            kind = type(feeds).__name__
            raise InputError(f"{self.name}: run: feeds is a {kind}; give a dict: {example}")
        if outputs is not None and not isinstance(outputs, Sequence):
            raise InputError(
                f"{self.name}: run: outputs is a {type(outputs).__name__}; give a list of names, "
                f"or None for all: {example}"
            )
        known = [o.name for o in self.outputs]
        wanted = known if outputs is None else [outputs] if isinstance(outputs, str) else outputs
        for name in wanted:
            if name not in known:
                raise InputError(f"{self.name}: {unknown('output', name, known)}")
        made = self(feeds)
        values = list(made) if isinstance(made, Results) else [made]
        found = dict(zip(known, values, strict=True))
        return [_on_host(found[name]) for name in wanted]

    def bind(
        self,
        inputs: Argument | Mapping[str, Argument],
        outputs: Argument | Mapping[str, Argument] = None,
    ) -> BoundCall:
        """Fix inputs and outputs, so that calling the result needs no checks and no memory.

        inputs, outputs  an array, a sequence, or a mapping by name; they are used in place. outputs
                         None: new arrays, `.outputs` of the result

        Only a NativeExecutable can; others raise InputError.
        """
        raise InputError(
            f"{self.name}: bind: the model decides while it runs, so that its results have no "
            "fixed place; call it instead"
        )

    def benchmark(
        self,
        *args: Argument | Mapping[str, Argument],
        repeat: int = 10,
        number: int | None = None,
        **named: Argument,
    ) -> BenchmarkResult:
        """Time calls in ms: `repeat` times the mean of `number` calls, after one not timed.

        repeat  how many results there are
        number  None: as many as fill some milliseconds

        Raises InputError where either is no whole number from 1, and what a call does.
        """
        return timed_runs(wall_clock(lambda: self(*args, **named)), repeat, number)

    @abstractmethod
    def profile(
        self, *args: Argument | Mapping[str, Argument], repeat: int = 10, **named: Argument
    ) -> ProfileReport:
        """Time each kernel, in ms: medians over `repeat` runs, after one not timed.

        Raises what a call does.
        """

    @abstractmethod
    def export_library(
        self,
        path: str | os.PathLike[str],
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Write the model as one file, which `smelt.load` reads.

        path    ends in .so or .tar, or in .vm where the model decides while it runs
        cc      the C compiler to link with; None: $CC, cc, gcc, clang or ziglang
        header  also write a C header beside it, where the model can be called from C

        Raises ExportError where it cannot be written; a Model raises CompileError.
        """

    def __repr__(self) -> str:
        """Name, inputs and outputs."""
        return f"Executable {self.name}: {listing(self.inputs)} -> {listing(self.outputs)}"


def _on_host(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_host(v) for v in value]
    return value.numpy() if isinstance(value, NDArray) else value
