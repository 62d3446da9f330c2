"""What a model takes and gives, and the checks of a call against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import accepts, numpy_dtype
from smelt.runtime.errors import InputError, nearest
from smelt.runtime.expression import evaluate
from smelt.runtime.ndarray import NDArray
from smelt.runtime.sizes import ModelSizes

AnyArray = npt.NDArray[Any]

_CPU_DEVICES = (1, 3)  # DLPack: kDLCPU, kDLCUDAHost (pinned host memory)
_DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}


ANY_RANK = ("...",)
"""The shape of what may have any number of dimensions."""


@dataclass(frozen=True)
class TensorInfo:
    """A value as a model declares it: dimensions are numbers, symbols or expressions.

    dtype  the element type, "string" for texts, "" where it is not known
    shape  ("...",) for any rank
    kind   "tensor"; "sequence", "optional", "optional sequence" of such; "data" of a program
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    kind: str = "tensor"

    def __str__(self) -> str:
        """x float32[n, 4]."""
        if self.kind == "data":
            return f"{self.name} data"
        kind = "" if self.kind == "tensor" else f"{self.kind} of "
        return f"{self.name} {kind}{self.dtype}[{', '.join(map(str, self.shape))}]"


def known_shape(name: str, shape: Sequence[Any] | None) -> tuple[int | str, ...]:
    """What the shape of an input is as far as it is known; extents without a name get one."""
    if shape is None:
        return ANY_RANK
    return tuple([
        e if isinstance(e, int) else f"{name}_{n}" if e is None else str(e)
        for n, e in enumerate(shape)
    ])  # fmt: skip


def listing(infos: Sequence[TensorInfo]) -> str:
    """Tensors for a message."""
    return "; ".join(map(str, infos)) or "none"


def _tensors(entries: Any) -> tuple[TensorInfo, ...]:
    infos = tuple(TensorInfo(e["name"], e["dtype"], tuple(e["shape"])) for e in entries)
    for info in infos:
        numpy_dtype(info.dtype)
    return infos


class Interface:
    """The inputs and outputs of a model, and how the arguments of a call become its inputs."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        updates: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Of a model of this name.

        updates  the inputs that a run may write to, and the output that each becomes
        """
        self.updates = dict(updates)
        self.sources = {o: i for i, o in self.updates.items()}
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        self._positions = {info.name: i for i, info in enumerate(self.inputs)}

    # ---- arguments --------------------------------------------------------------------------

    def in_order(self, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional and named arguments, or a dict of them, in the order of the inputs."""
        whole = given[0] if len(given) == 1 and type(given[0]) is dict and not named else named
        if whole and len(whole) == len(self.inputs) and (whole is not named or not given):
            try:  # the common case: just the inputs, each once
                return tuple([whole[name] for name in self._positions])
            except KeyError:
                pass
        if any(isinstance(value, Mapping) for value in given):
            if len(given) > 1:
                raise self.misfit("a dict is given beside other arguments; give all inputs in it")
            if twice := [name for name in given[0] if name in named]:
                raise InputError(
                    f"{self.name}: input {twice[0]!r} is given twice, in a dict and by name"
                )
            named = {**given[0], **named}
            given = []
        if len(given) > len(self.inputs):
            raise self._wrong_count(given)
        values: list[Any] = [*given, *[None] * (len(self.inputs) - len(given))]
        for name, value in named.items():
            position = self._positions.get(name)
            if position is None:
                near = nearest(name, self._positions)
                raise self.misfit(f"no input is named {name!r}{near}")
            if position < len(given):
                raise InputError(
                    f"{self.name}: input {name!r} is given twice, "
                    f"as argument {position + 1} and by name"
                )
            values[position] = value
        missing = [
            info
            for info in self.inputs[len(given) :]
            if info.name not in named and not info.kind.startswith("optional")
        ]
        if missing and not named:
            raise self._wrong_count(given)
        if missing:
            raise self.misfit(f"missing inputs: {listing(missing)}")
        return tuple(values)

    def _wrong_count(self, given: Sequence[Any]) -> InputError:
        lists = len(given) == 1 and isinstance(given[0], list | tuple)
        hint = f"; a {type(given[0]).__name__} counts as one: exe(*inputs)" if lists else ""
        return self.misfit(f"{len(given)} inputs given, {len(self.inputs)} needed{hint}")

    def misfit(self, problem: str, role: str = "input") -> InputError:
        """The error for the values of a call together."""
        infos = self.inputs if role == "input" else self.outputs
        return InputError(f"{self.name}: {problem}\n  {role}s: {listing(infos)}")

    def wrong(self, role: str, info: TensorInfo, problem: str) -> InputError:
        """The error for one tensor of a call."""
        return InputError(f"{self.name}: {role} {info.name!r}: {problem}\n  expected: {info}")

    def value(self, info: TensorInfo, value: Any) -> Any:
        """An input as arrays, a list of them, None, or data; what the model fixes is checked."""
        if value is None:
            if not info.kind.startswith("optional"):
                raise self.wrong("input", info, f"None given; a {info.kind} is needed")
            return None
        if info.kind == "data":
            return value
        if "sequence" not in info.kind:
            return self._tensor(info, value)
        if not isinstance(value, list | tuple):
            kind = type(value).__name__
            raise self.wrong("input", info, f"a {kind} given; a list of arrays is needed")
        return [self._tensor(info, v) for v in value]

    def _tensor(self, info: TensorInfo, value: Any) -> AnyArray:
        return np.asarray(self.fitting("input", info, value), order="C")

    def fitting(self, role: str, info: TensorInfo, value: Any) -> AnyArray:
        """An array as numpy sees it, of the right dtype and, as far as that is known, shape."""
        found = self.view(role, info, value)
        if info.kind == "tensor" and info.shape != ANY_RANK:
            fits = len(info.shape) == found.ndim and all(
                not isinstance(w, int) or w == n
                for w, n in zip(info.shape, found.shape, strict=True)
            )
            if not fits:
                raise self.wrong(role, info, f"shape {list(found.shape)} given")
        return found

    def view(self, role: str, info: TensorInfo, value: Any) -> AnyArray:
        """An argument as numpy sees it, of the right dtype; nothing is copied."""
        if info.dtype == "string":
            found = np.asarray(value)
            if found.dtype.kind not in "OSU":
                raise self.wrong(role, info, f"dtype {found.dtype} given, texts needed")
            return found
        found = self._as_numpy(role, info, value)
        if not found.dtype.isnative:
            cure = "convert it with x.astype(x.dtype.newbyteorder('='))"
            problem = f"dtype {found.dtype.str} has the other byte order; {cure}"
            raise self.wrong(role, info, problem)
        if info.dtype and not accepts(info.dtype, found.dtype):
            cast = f"; x.astype({info.dtype!r})" if found.dtype.kind in "biuf" else ""
            raise self.wrong(role, info, f"dtype {found.dtype} given, {info.dtype} needed{cast}")
        return found

    def _as_numpy(self, role: str, info: TensorInfo, value: Any) -> AnyArray:
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, NDArray):
            return value.numpy()
        kind = type(value).__name__
        if isinstance(value, bool | int | float) and info.shape == () and info.dtype:
            made = np.asarray(value).astype(numpy_dtype(info.dtype))
            if made == value or value != value:
                return made
            raise self.wrong(role, info, f"{value!r} given, which no {info.dtype} is")
        if hasattr(value, "__dlpack_device__"):
            device, index = value.__dlpack_device__()
            if device not in _CPU_DEVICES:
                where = f"{_DEVICES.get(int(device), f'DLPack device {int(device)}')}:{int(index)}"
                how = ": x.cpu()" if hasattr(value, "cpu") else " first"
                problem = (
                    f"the {kind} lies on {where}, not in the host's memory; copy it there{how}"
                )
                raise self.wrong(role, info, problem)
            try:
                return np.from_dlpack(value)
            except (BufferError, RuntimeError, TypeError) as error:
                if not hasattr(value, "__array__"):
                    raise self.wrong(role, info, f"the {kind} cannot be read: {error}") from None
        if hasattr(value, "__array__"):
            try:
                return np.asarray(value)
            except Exception as error:  # whatever the other library raises is the answer
                raise self.wrong(role, info, f"the {kind} cannot be read: {error}") from None
        raise self.wrong(
            role, info, f"a {kind} given; arrays are taken: numpy.asarray(x, {info.dtype!r})"
        )

    def check_updated(self, views: Sequence[AnyArray], addresses: Sequence[int]) -> None:
        """Raises InputError where an input that a run writes to cannot be, or is another one too.

        views  the inputs as numpy sees them, which stand at these addresses
        """
        for i in self.updates:
            flags = views[i].flags
            if not flags.carray or not flags.aligned:  # carray: row-major and writeable
                problem = "the array is read-only"
                if flags.writeable:
                    problem = "which needs a contiguous array; use x.copy()"
                raise self.wrong("input", self.inputs[i], f"a run updates it, {problem}")
        places = sorted(
            [(at, views[n].nbytes, n) for n, at in enumerate(addresses) if views[n].size]
        )
        for (start, size, n), (after, _, m) in pairwise(places):
            if start + size > after and (n in self.updates or m in self.updates):
                i, other = (n, m) if n in self.updates else (m, n)
                problem = f"a run updates it, and input {self.inputs[other].name!r} is its memory"
                raise self.wrong("input", self.inputs[i], problem)


class Signature(Interface):
    """The inputs, outputs and symbols of a model of native code."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """Reads a model's metadata."""
        inputs, outputs = (_tensors(metadata[role]) for role in ("inputs", "outputs"))
        super().__init__(metadata["name"], inputs, outputs, metadata.get("updates", ()))
        self.sizes = ModelSizes(self.name, metadata, [info.shape for info in self.inputs])
        self.symbols = self.sizes.symbols

    # ---- shapes -----------------------------------------------------------------------------

    def bind(self, arrays: Sequence[AnyArray]) -> dict[str, int]:
        """The value of every symbol, from the inputs' shapes, all of which are checked."""
        sizes: dict[str, int] = {}
        source: dict[str, str] = {}
        for info, given in zip(self.inputs, arrays, strict=True):
            if given.ndim != len(info.shape):
                ranks = f"has rank {given.ndim}, {len(info.shape)} needed"
                raise self.wrong("input", info, f"shape {list(given.shape)} {ranks}")
            for axis, (want, have) in enumerate(zip(info.shape, given.shape, strict=True)):
                if isinstance(want, int) and want != have:
                    raise self._wrong_size(info, given, axis, f"{want} needed")
                if want not in self.symbols or not isinstance(want, str):
                    continue
                if (needed := self.sizes.outside(want, have)) is not None:
                    raise self._wrong_size(info, given, axis, f"{want} is out of range: {needed}")
                if sizes.setdefault(want, have) != have:
                    said = f"but {want} is {sizes[want]} by input {source[want]!r}"
                    raise self._wrong_size(info, given, axis, said)
                source.setdefault(want, info.name)
        for name, extent in self.sizes.solved:
            self._solve(name, extent, arrays, sizes)
        if (text := self.misfitting(sizes)) is not None:
            raise InputError(text)
        self._check_expressions(arrays, sizes)
        return sizes

    def misfitting(self, sizes: Mapping[str, int]) -> str | None:
        """Which sizes do not fit each other, if some do not."""
        broken = self.sizes.broken(sizes)
        if broken is None:
            return None
        return (
            f"{self.name}: sizes that do not fit: {broken}\n"
            f"  sizes: {self.values(sizes)}; inputs: {listing(self.inputs)}"
        )

    def _wrong_size(self, info: TensorInfo, given: AnyArray, axis: int, problem: str) -> InputError:
        """The error for one extent of an input."""
        notes = "".join([f"\n  {note}" for note in self.sizes.notes[:3]])
        where = f"dimension {axis} is {given.shape[axis]}"
        error = self.wrong("input", info, f"shape {list(given.shape)}: {where}, {problem}")
        return InputError(f"{error}{notes}") if notes else error

    def _solve(
        self, name: str, extent: str, arrays: Sequence[AnyArray], sizes: dict[str, int]
    ) -> None:
        """A size that stands in an expression only."""
        for info, given in zip(self.inputs, arrays, strict=True):
            if extent not in info.shape or name in sizes:
                continue
            axis = info.shape.index(extent)
            value = self.sizes.solve(name, extent, given.shape[axis], sizes)
            if value is None:
                known = f" ({self.values(sizes)})" if sizes else ""
                raise self._wrong_size(info, given, axis, f"no {name} makes {extent} so{known}")
            sizes[name] = value

    def _check_expressions(self, arrays: Sequence[AnyArray], sizes: dict[str, int]) -> None:
        for info, given in zip(self.inputs, arrays, strict=True):
            for axis, (want, have) in enumerate(zip(info.shape, given.shape, strict=True)):
                if isinstance(want, int) or want in sizes:
                    continue
                value = evaluate(want, sizes)
                if value != have:
                    said = f"{want} = {value} needed ({self.values(sizes)})"
                    raise self._wrong_size(info, given, axis, said)

    def values(self, sizes: Mapping[str, int]) -> str:
        """Symbols for a message."""
        return ", ".join(f"{name} = {value}" for name, value in sizes.items())
