"""Executable: a compiled model, ready to be called."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.device import Device, cpu
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import ExportError, InputError, LoadError, RuntimeFailure
from smelt.runtime.expression import evaluate
from smelt.runtime.external import Externals
from smelt.runtime.linking import export_library, write_header
from smelt.runtime.native import (
    ABI_VERSION,
    Bound,
    Host,
    View,
    check_environment,
    library,
    missing_features,
    status_text,
)
from smelt.runtime.ndarray import Memory, NDArray, Spares
from smelt.runtime.profiler import Probe, report
from smelt.runtime.report import BenchmarkResult, MemoryInfo, ProfileReport
from smelt.runtime.signature import Signature, TensorInfo

__all__ = ["BoundCall", "Executable"]

AnyArray = npt.NDArray[Any]

_ALIGNMENT = 64
_MOST_PLANS = 64  # call signatures remembered at once
_PLAN_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)
)


class _Plan:
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
        self.symbols = symbols
        self.sizes = (ctypes.c_int64 * max(1, len(symbols)))(*symbols.values())
        self.sizes_address = ctypes.addressof(self.sizes)
        self.masks = masks
        self.workspace_bytes = workspace_bytes
        self.outputs = [
            (shape, dtype, math.prod(shape) * dtype.itemsize, Spares())
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]


class _Frame:
    """What one running call owns: the argument table, the native call, the workspace."""

    __slots__ = ("bound", "plan", "pointer", "tensors", "workspace")

    def __init__(self, tensor_count: int, host: int, entry: int, weights: int) -> None:
        self.tensors = (ctypes.c_void_p * max(1, tensor_count))()
        self.bound = Bound(host, entry, ctypes.addressof(self.tensors), None, weights, None)
        self.pointer = ctypes.addressof(self.bound)
        self.plan: _Plan | None = None
        self.workspace: Memory | None = None

    def use(self, plan: _Plan) -> None:
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

    __slots__ = ("_frame", "_owner", "_pointer", "_run", "inputs", "outputs")

    def __init__(
        self,
        owner: Executable,
        frame: _Frame,
        inputs: tuple[AnyArray | NDArray, ...],
        outputs: tuple[AnyArray | NDArray, ...],
    ) -> None:
        """For `Executable.bind`."""
        self._owner = owner  # its code must stay while it can be called
        self._frame = frame
        self._pointer = frame.pointer
        self._run = library().smelt_bound_run
        self.inputs = inputs
        self.outputs = outputs

    def __call__(self) -> None:
        """Runs the model once."""
        status = self._run(self._pointer)
        if status:
            raise self._owner.failure(status)

    @property
    def symbols(self) -> dict[str, int]:
        """The symbolic sizes of this call."""
        plan = self._frame.plan
        return plan.symbols if plan is not None else {}

    def time(self, number: int) -> float:
        """Runs the model `number` times in one native loop; milliseconds per run."""
        spent = ctypes.c_int64()
        status = library().smelt_bound_time(self._pointer, number, ctypes.byref(spent))
        if status:
            raise self._owner.failure(status)
        return spent.value / number / 1e6


def _key(arrays: Iterable[AnyArray]) -> tuple[Any, ...]:
    return tuple([(a.dtype, a.shape, a.strides) for a in arrays])


class Executable:
    """A compiled model. `exe(x)` runs it; several threads may do so at once."""

    def __init__(
        self,
        entry_address: int,
        plan_address: int | None,
        metadata: Mapping[str, Any],
        weights: Any = None,
        keepalive: object = None,
        threads: int | None = None,
        objects: Sequence[bytes] = (),
    ) -> None:
        """Takes the two native functions, the description and the constants of a model.

        threads: at most this many, the caller's included; None for all of the process's pool.
        objects: the object files, for export_library.
        """
        self.metadata = dict(metadata)
        self.signature = Signature(metadata)
        self.objects = list(objects)
        self._check_target()
        if threads is not None and threads < 1:
            raise InputError(f"{self.name}: threads={threads}: 1 or more are possible")
        check_environment()
        self.weights = _aligned(weights)
        self.threads = threads
        self.plan_address = plan_address or None
        self._plan_function = _PLAN_TYPE(plan_address) if plan_address else None
        self._entry = entry_address
        self._keepalive = keepalive
        self._host = Host()
        self._view = View()
        library().smelt_host_init(
            ctypes.addressof(self._host), ctypes.addressof(self._view), threads or 0
        )
        listed = metadata.get("externals")
        self._externals = Externals(self.name, listed, self.weights) if listed else None
        if self._externals is not None:
            self._host.externals = self._externals.address
        self._run = library().smelt_bound_run
        self._device = cpu(0)
        self._input_count = len(self.inputs)
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._frames: list[_Frame] = []
        self._lock = threading.Lock()

    def _check_target(self) -> None:
        if self.metadata.get("abi") != ABI_VERSION:
            raise LoadError(
                f"{self.name}: built for ABI version {self.metadata.get('abi')}, "
                f"this runtime has {ABI_VERSION}; compile the model again"
            )
        missing = missing_features(list(self.metadata.get("features", ())))
        if missing:
            raise LoadError(
                f"{self.name}: compiled for a CPU with {', '.join(missing)}, which this CPU lacks\n"
                f"  target: {self.metadata.get('target', 'unknown')}"
            )

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model's name."""
        return self.signature.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, dtype and shape of each input."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, dtype and shape of each output."""
        return self.signature.outputs

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._device

    @property
    def memory(self) -> MemoryInfo:
        """The bytes it needs besides inputs and outputs."""
        data = self.metadata
        return MemoryInfo(
            data.get("weights_bytes", 0), data.get("workspace_bytes"), data.get("live_bytes")
        )

    def __repr__(self) -> str:
        """Name, inputs and outputs."""
        show = self.signature.listing
        return f"Executable {self.name}: {show(self.inputs)} -> {show(self.outputs)}"

    def failure(self, status: int) -> BaseException:
        """What a run of this thread that gave a status is to raise."""
        raised = None if self._externals is None else self._externals.raised()
        return raised or RuntimeFailure(f"{self.name}: the run failed: {status_text(status)}")

    # ---- the classic way in -------------------------------------------------------------------

    def __getitem__(self, name: str) -> Callable[[Device], Executable]:
        """`exe["default"](cpu(0))` is this executable, ready to run on that device."""
        if name not in ("default", self.name):
            known = sorted({"default", self.name})
            raise InputError(f"{self.name}: no function {name!r}; functions: {', '.join(known)}")
        return self._on

    def _on(self, device: Device) -> Executable:
        if device != self._device:
            raise InputError(f"{self.name}: it runs on {self._device}, not on {device}")
        return self

    # ---- calling ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Runs the model: arrays in the order of the inputs or by name.

        Gives an NDArray, or a tuple of them where the model has not exactly one output.
        """
        if named:
            args = self.signature.in_order(args, named)
        # The fast path: numpy arrays of shapes and strides met before. Others are left out of
        # the key, which is then too short to be found.
        plan = self._plans.get(
            tuple([(a.dtype, a.shape, a.strides) for a in args if type(a) is np.ndarray])
        )
        if plan is None or len(args) != self._input_count:
            plan, args = self._prepare(args)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self._new_frame(self._host)
        try:
            if frame.plan is not plan:
                frame.use(plan)
            tensors = frame.tensors
            i = 0
            for mask in plan.masks:
                address = args[i].ctypes.data
                if address & mask:
                    args = _with_copy(args, i)
                    address = args[i].ctypes.data
                tensors[i] = address
                i += 1
            results = []
            for shape, dtype, size, spares in plan.outputs:
                memory = Memory(size, spares)
                tensors[i] = memory.address
                results.append(NDArray(shape, dtype, memory, self._device))
                i += 1
            status = self._run(frame.pointer)
        finally:
            self._frames.append(frame)
        if status:
            raise self.failure(status)
        return results[0] if len(results) == 1 else tuple(results)

    def _new_frame(self, host: Host) -> _Frame:
        weights = self.weights.ctypes.data if self.weights is not None else 0
        count = len(self.inputs) + len(self.outputs)
        return _Frame(count, ctypes.addressof(host), self._entry, weights)

    def _prepare(self, args: Sequence[Any]) -> tuple[_Plan, tuple[AnyArray, ...]]:
        """Checks the arguments; non-contiguous ones are copied."""
        self.signature.check_count(args)
        arrays = tuple(
            # Not ascontiguousarray, which turns rank 0 into rank 1.
            np.asarray(self.signature.view("input", info, value), order="C")
            for info, value in zip(self.inputs, args, strict=True)
        )
        return self._plan_for(arrays), arrays

    def _plan_for(self, arrays: tuple[AnyArray, ...]) -> _Plan:
        key = _key(arrays)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(arrays)
            with self._lock:
                if len(self._plans) >= _MOST_PLANS:
                    self._plans.pop(next(iter(self._plans)))
                self._plans[key] = plan
        return plan

    def _make_plan(self, arrays: tuple[AnyArray, ...]) -> _Plan:
        found = self.signature.bind(arrays)
        symbols = {name: found[name] for name in self.signature.symbols}
        shapes, workspace_bytes = self._evaluate_shapes(symbols)
        dtypes = [numpy_dtype(info.dtype) for info in self.outputs]
        masks = [min(numpy_dtype(info.dtype).itemsize, 8) - 1 for info in self.inputs]
        return _Plan(symbols, shapes, dtypes, masks, workspace_bytes)

    def _evaluate_shapes(self, symbols: dict[str, int]) -> tuple[list[tuple[int, ...]], int]:
        """Output shapes and workspace size: the model's own plan function knows them."""
        if self._plan_function is None:
            shapes = [tuple(evaluate(d, symbols) for d in info.shape) for info in self.outputs]
            return shapes, int(self.metadata.get("workspace_bytes") or 0)
        sizes = (ctypes.c_int64 * max(1, len(symbols)))(*symbols.values())
        ranks = [len(info.shape) for info in self.outputs]
        extents = (ctypes.c_int64 * max(1, sum(ranks)))()
        workspace = ctypes.c_int64()
        status = self._plan_function(
            ctypes.addressof(sizes), ctypes.addressof(extents), ctypes.byref(workspace)
        )
        if status:
            raise InputError(
                f"{self.name}: the model does not accept these sizes: "
                f"{self.signature.values(symbols) or 'none'} ({status_text(status)})\n"
                f"  inputs: {self.signature.listing(self.inputs)}"
            )
        values = list(extents)
        starts = [sum(ranks[:i]) for i in range(len(ranks))]
        shapes = [tuple(values[s : s + r]) for s, r in zip(starts, ranks, strict=True)]
        return shapes, workspace.value

    # ---- bound calls --------------------------------------------------------------------------

    def bind(self, inputs: Any, outputs: Any = None) -> BoundCall:
        """Fixes inputs and outputs: calling the result costs no check and no allocation.

        inputs, outputs: an array, a sequence, or a mapping by name; outputs None: new arrays, found
        in `.outputs` of the result. They are used in place, so they must be contiguous.
        """
        return self._bind(inputs, outputs, self._host)

    def _bind(self, inputs: Any, outputs: Any, host: Host) -> BoundCall:
        given = self._listed(inputs, "input", self.inputs)
        views = [
            self._in_place("input", info, value)
            for info, value in zip(self.inputs, given, strict=True)
        ]
        plan = self._make_plan(tuple(views))
        if outputs is None:
            results: list[Any] = [
                NDArray(shape, dtype, Memory(size), self._device)
                for shape, dtype, size, _ in plan.outputs
            ]
        else:
            results = self._listed(outputs, "output", self.outputs)
        targets = [
            self._in_place("output", info, value)
            for info, value in zip(self.outputs, results, strict=True)
        ]
        for info, target, (shape, *_) in zip(self.outputs, targets, plan.outputs, strict=True):
            if target.shape != shape:
                problem = f"shape {list(target.shape)} given, {list(shape)} needed"
                raise self.signature.wrong("output", info, problem)
        frame = self._new_frame(host)
        frame.use(plan)
        for i, view in enumerate([*views, *targets]):
            frame.tensors[i] = view.ctypes.data
        for i, result in enumerate(results, len(views)):
            if isinstance(result, NDArray):
                frame.tensors[i] = result.address  # numpy shows empty arrays elsewhere
        # The views, not the arguments: a DLPack import must stay alive.
        return BoundCall(self, frame, tuple(views), tuple(results))

    def _listed(self, values: Any, role: str, infos: Sequence[TensorInfo]) -> list[Any]:
        """One array, a sequence or a mapping, as a list."""
        if isinstance(values, Mapping):
            unknown = set(values) ^ {info.name for info in infos}
            if unknown:
                raise InputError(
                    f"{self.name}: bind: {role}s {sorted(unknown)} are missing or unknown\n"
                    f"  {role}s: {self.signature.listing(infos)}"
                )
            return [values[info.name] for info in infos]
        found = list(values) if isinstance(values, (tuple, list)) else [values]
        if len(found) != len(infos):
            raise InputError(
                f"{self.name}: bind: {len(found)} {role}s given, {len(infos)} needed\n"
                f"  {role}s: {self.signature.listing(infos)}"
            )
        return found

    def _in_place(self, role: str, info: TensorInfo, value: Any) -> AnyArray:
        view = self.signature.view(role, info, value)
        if not (view.flags.c_contiguous and view.flags.aligned):
            problem = "bind works in place and needs a contiguous array; use x.copy()"
            raise self.signature.wrong(role, info, problem)
        if role == "output" and not view.flags.writeable:
            raise self.signature.wrong(role, info, "the array is read-only")
        return view

    # ---- measuring ----------------------------------------------------------------------------

    def benchmark(
        self, *args: Any, repeat: int = 10, number: int | None = None, **named: Any
    ) -> BenchmarkResult:
        """Times runs: `repeat` times the mean of `number` runs (None: some milliseconds' worth)."""
        call = self._bound_copy(args, named, self._host)
        call()
        if number is None:
            number = max(1, min(100_000, math.ceil(5.0 / max(1e-6, call.time(3)))))
        if repeat < 1 or number < 1:
            raise InputError(f"benchmark: repeat={repeat}, number={number}: both must be 1 or more")
        return BenchmarkResult(tuple(call.time(number) for _ in range(repeat)), number)

    def profile(self, *args: Any, repeat: int = 10, **named: Any) -> ProfileReport:
        """Times each kernel: medians over `repeat` runs."""
        described = self.metadata.get("kernels", [])
        probe = Probe(self._host, len(described))
        call = self._bound_copy(args, named, probe.host)
        call()
        runs, totals = [], []
        for _ in range(max(1, repeat)):
            probe.clear()
            totals.append(call.time(1))
            runs.append(probe.milliseconds)
        return report(self.name, described, call.symbols, probe.calls, runs, totals)

    def _bound_copy(self, args: tuple[Any, ...], named: Mapping[str, Any], host: Host) -> BoundCall:
        if named:
            args = self.signature.in_order(args, named)
        _, arrays = self._prepare(args)
        return self._bind([a if a.flags.aligned else a.copy() for a in arrays], None, host)

    # ---- exporting ----------------------------------------------------------------------------

    def export_library(
        self,
        path: str | os.PathLike[str],
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Writes a shared library with the model, its constants and the runtime.

        cc: the C compiler to link with; header: also write the C header beside it.
        """
        export_library(self, path, cc=cc)
        if header:
            self.export_header(os.path.splitext(os.fspath(path))[0] + ".h")

    def export_header(self, path: str | os.PathLike[str]) -> None:
        """Writes the C header for the exported library."""
        if not self.objects:
            raise ExportError(f"{self.name}: it was loaded from a library; copy that one's header")
        write_header(self, path)


def _with_copy(args: Sequence[Any], index: int) -> tuple[Any, ...]:
    """The arguments with one of them moved to aligned memory."""
    return (*args[:index], args[index].copy(), *args[index + 1 :])


def _aligned(weights: Any) -> AnyArray | None:
    """The constants as bytes at an aligned address; copied only if they are not."""
    if weights is None:
        return None
    given = weights if isinstance(weights, np.ndarray) else np.frombuffer(weights, np.uint8)
    raw = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    if raw.size == 0:
        return None
    if raw.ctypes.data % _ALIGNMENT == 0:
        return raw
    target = NDArray((raw.size,), np.dtype(np.uint8), Memory(raw.size), cpu(0))
    return target.copyfrom(raw).numpy()
