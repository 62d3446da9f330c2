"""A model with its arguments: what one call owns, and what calls of the same shapes share."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from smelt.runtime.intermediates import read_results
from smelt.runtime.native import Bound, library, most_plans
from smelt.runtime.ndarray import Memory, NDArray, Spares

AnyArray = npt.NDArray[Any]


class Owner(Protocol):
    """What a bound call needs of its executable."""

    name: str

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The model's description."""

    def failure(self, status: int) -> BaseException:
        """What a run that gave a status is to raise."""


class Plan:
    """What calls with the same shapes have in common."""

    __slots__ = ("masks", "outputs", "sizes", "sizes_address", "symbols", "workspace_bytes")

    def __init__(
        self,
        symbols: dict[str, int],
        shapes: list[tuple[int, ...]],
        dtypes: list[np.dtype[Any]],
        masks: list[int],
        workspace_bytes: int,
    ) -> None:
        """masks: per input, the address bits that have to be 0."""
        self.symbols = symbols
        self.sizes = (ctypes.c_int64 * max(1, len(symbols)))(*symbols.values())
        self.sizes_address = ctypes.addressof(self.sizes)
        self.masks = masks
        self.workspace_bytes = workspace_bytes
        self.outputs = [
            (shape, dtype, math.prod(shape) * dtype.itemsize, Spares())
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]


P = TypeVar("P")


class Plans(dict[tuple[Any, ...], P]):
    """What calls have in common, by the types and shapes of their inputs; the oldest goes first."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self._most, self._lock = most_plans(), threading.Lock()

    def of(self, arrays: Sequence[npt.NDArray[Any]], make: Callable[[], P]) -> P:
        """The plan of a call with these inputs, made where it is not known."""
        key = tuple([(a.dtype, a.shape, a.strides) for a in arrays])
        plan = self.get(key)
        if plan is None:
            plan = make()
            with self._lock:
                if len(self) >= self._most:
                    self.pop(next(iter(self)))
                self[key] = plan
        return plan


class Frame:
    """What one running call owns: the argument table, the native call, the workspace."""

    __slots__ = ("bound", "plan", "pointer", "tensors", "workspace")

    def __init__(self, tensor_count: int, host: int, entry: int, weights: int) -> None:
        """host, entry, weights: addresses."""
        self.tensors = (ctypes.c_void_p * max(1, tensor_count))()
        self.bound = Bound(host, entry, ctypes.addressof(self.tensors), None, weights, None)
        self.pointer = ctypes.addressof(self.bound)
        self.plan: Plan | None = None
        self.workspace: Memory | None = None

    def use(self, plan: Plan) -> None:
        """Prepares for calls of this plan; the workspace only grows."""
        have = self.workspace
        if have is None or have.size < plan.workspace_bytes:
            self.plan = None
            self.workspace = have = Memory(plan.workspace_bytes)
        self.bound.workspace = have.address
        self.bound.sizes = plan.sizes_address
        self.plan = plan


class BoundCall:
    """A model with its inputs and outputs fixed: a call reads and writes them in place.

    One thread at a time may call it.
    """

    __slots__ = ("_frame", "_host", "_owner", "_pointer", "_run", "inputs", "outputs")

    def __init__(
        self,
        owner: Owner,
        frame: Frame,
        inputs: tuple[AnyArray | NDArray, ...],
        outputs: tuple[AnyArray | NDArray, ...],
        host: object,
    ) -> None:
        """For `Executable.bind`. host: what the native call refers to."""
        self._host = host
        self._owner = owner  # its code must stay while it can be called
        self._frame = frame
        self._pointer = frame.pointer
        self._run = library().smelt_bound_run
        self.inputs = inputs
        self.outputs = outputs

    def __call__(self) -> None:
        """Runs the model once. Raises RuntimeFailure where it fails."""
        status = self._run(self._pointer)
        if status:
            raise self._owner.failure(status)

    @property
    def symbols(self) -> dict[str, int]:
        """The symbolic sizes of this call."""
        plan = self._frame.plan
        return plan.symbols if plan is not None else {}

    def results_of(self, kernel: int) -> list[AnyArray]:
        """Copies of what a kernel that has just ended gives; kernels count as in the metadata."""
        listed: Any = self._owner.metadata["kernels"][kernel]["results"]
        workspace = self._frame.workspace
        outputs = [np.asarray(o) for o in self.outputs]
        size = 0 if workspace is None else workspace.size
        start = workspace.address if workspace is not None else 0
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
        return read_results(listed, self.symbols, memory, outputs)

    def time(self, number: int) -> float:
        """Runs the model `number` times in one native loop; milliseconds per run."""
        spent = ctypes.c_int64()
        status = library().smelt_bound_time(self._pointer, number, ctypes.byref(spent))
        if status:
            raise self._owner.failure(status)
        return spent.value / number / 1e6
