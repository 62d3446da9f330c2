"""NativeExecutable: a model that runs straight through, in one native call."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from smelt.runtime import abi, signals
from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.archive import export
from smelt.runtime.bound import BoundCall, Frame, Plan, Plans
from smelt.runtime.device import Device, cpu
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.evaluator import Timed, timed_runs
from smelt.runtime.executable import Executable, Metadata, Results
from smelt.runtime.expression import evaluate
from smelt.runtime.external import Externals
from smelt.runtime.files import check_library
from smelt.runtime.linking import Linker, header_text
from smelt.runtime.ndarray import Memory, NDArray, wrapped
from smelt.runtime.profiler import Copies, Probe, profiled
from smelt.runtime.report import BenchmarkResult, CallMemory, MemoryInfo, ProfileReport
from smelt.runtime.signature import Signature, TensorInfo

from . import errors, native

AnyArray = npt.NDArray[Any]

_ALIGNMENT = 64
_LONG = 0.005  # seconds of a run within which nobody presses Ctrl-C
_PLAN_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)
)


class NativeExecutable(Executable, Timed):
    """A model that runs straight through, in one native call."""

    triple, lesser = "", ()

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
        self.metadata = cast(Metadata, dict(metadata))
        self.signature = Signature(metadata)
        self.name, self.inputs = self.signature.name, self.signature.inputs
        self.outputs = self.signature.outputs
        self._updates = self.signature.updates
        self._output_names = tuple([o.name for o in self.outputs])
        self.objects = list(objects)
        self._check_target()
        errors.at_least(1, self.name, threads=1 if threads is None else threads)
        native.check_environment()
        self.weights = _aligned(weights)
        self.threads = threads
        self.plan_address = plan_address or None
        self.has_plan = self.plan_address is not None
        self._plan_function = _PLAN_TYPE(plan_address) if plan_address else None
        self._entry = entry_address
        self._keepalive = keepalive
        self._host = native.host_of(threads or 0)
        listed = metadata.get("externals")
        self._externals = Externals(self.name, listed, self.weights) if listed else None
        if self._externals is not None:
            self._host.externals = self._externals.address
        self._user: Callable[[], Any] = _nobody
        self._run = native.library().smelt_bound_run
        self._device = cpu(0)
        self._input_count = len(self.inputs)
        self._plans: Plans[Plan] = Plans()
        self._frames: list[Frame] = []
        # calls of the main thread may be ended by signals, with a host of their own
        self._watched = signals.watched(self._host) if _may_take_long(metadata) else None
        self._watched_frames: list[Frame] = []

    def __copy__(self) -> NativeExecutable:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> Any:
        raise errors.not_picklable(self)

    def save(self, file_name: str, fmt: str = "") -> None:
        """Refused: single objects are not written; see `export_library`."""
        raise errors.not_picklable(self)

    def _check_target(self) -> None:
        if self.metadata.get("abi") != ABI_VERSION:
            raise errors.LoadError(
                f"{self.name}: built for ABI version {self.metadata.get('abi')}, "
                f"this runtime has {ABI_VERSION}; compile the model again"
            )
        native.check_cpu(self.metadata, f"{self.name}: ")

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._device

    @property
    def memory(self) -> MemoryInfo:
        """The bytes it needs besides inputs and outputs."""
        data = self.metadata
        known = data.get("workspace_bytes"), data.get("live_bytes")
        return MemoryInfo(data.get("weights_bytes", 0), *known, self._memory_of)

    def _memory_of(self, *args: Any, **named: Any) -> CallMemory:
        """What a call needs."""
        plan, arrays = self._prepare(self.signature.in_order(args, named))
        updated = set(self._updates.values())
        outputs = sum(size for n, (_, _, size, _) in enumerate(plan.outputs) if n not in updated)
        given, weights = sum(a.nbytes for a in arrays), self.metadata.get("weights_bytes", 0)
        return CallMemory(given, outputs, plan.workspace_bytes, weights)

    def failure(self, status: int) -> BaseException:
        """What a run of this thread that gave a status is to raise."""
        if status == abi.Status.CANCELLED:
            return signals.raised()
        raised = None if self._externals is None else self._externals.raised()
        return raised or errors.RuntimeFailure(
            f"{self.name}: the run failed: {native.status_text(status)}"
        )

    # ---- the classic way in -------------------------------------------------------------------

    entry_name = "default"
    """What `exe["default"]` is called."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """`exe["default"](cpu(0))` is this executable, ready to run on that device.

        `exe["debug_create"]("default", cpu(0))` is the same, for contrib.debug_executor. On the
        `.module` of a GraphModule the names of its methods are functions too: "run", "set_input",
        "get_output".
        """
        if name in ("default", self.name):
            return self._on
        if name == "debug_create":
            return lambda name, device: self[name](device)
        user = self._user()
        if hasattr(type(user), name) and not name.startswith("_") and user is not None:
            found: Callable[..., Any] = getattr(user, name)
            return found
        known = sorted({"default", self.name})
        raise errors.InputError(f"{self.name}: no function {name!r}; functions: {', '.join(known)}")

    get_function = __getitem__

    @property
    def imported_modules(self) -> list[NativeExecutable]:
        """None: an executable holds all of its code."""
        return []

    def _on(self, device: Device) -> NativeExecutable:
        if device != self._device:
            raise errors.InputError(f"{self.name}: it runs on {self._device}, not on {device}")
        return self

    def attached(self, user: Any) -> NativeExecutable:
        """The same executable, as the `.module` of a GraphModule or the like."""
        twin = copy.copy(self)
        twin._user = weakref.ref(user)  # its buffers are to go with it
        return twin

    def get_source(self, fmt: str = "json") -> str:
        """What is known of it as text: "json" (its metadata) or "h" (the C header)."""
        if fmt == "json":
            return json.dumps(self.metadata, indent=2)
        if fmt == "h":
            return header_text(self)
        raise errors.InputError(
            f"{self.name}: no source in the format {fmt!r}; formats: json, h\n"
            "  smelt.stage_text(model, stage) shows what it was compiled from"
        )

    # ---- calling ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the model: arrays in the order of the inputs, by name, or as one dict by name."""
        if named:
            args = self.signature.in_order(args, named)
        # The fast path: numpy arrays of shapes and strides met before. Others are left out of
        # the key, which is then too short to be found.
        plan = self._plans.get(
            tuple([(a.dtype, a.shape, a.strides) for a in args if type(a) is np.ndarray])
        )
        if plan is None or len(args) != self._input_count:
            if len(args) == 1 and type(args[0]) is dict:
                return self(*self.signature.in_order(args, {}))
            plan, args = self._prepare(args)
        if self._updates:
            return self._updated(args, plan)
        frames = self._frames if self._watched is None else self._idle()
        try:
            frame = frames.pop()
        except IndexError:
            frame = self._new_frame(self._host_of(frames))
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
            frames.append(frame)
        if status:
            raise self.failure(status)
        return results[0] if len(results) == 1 else Results(results, self._output_names)

    def _updated(self, args: Sequence[AnyArray], plan: Plan) -> Any:
        """A call that writes to some of its inputs, which are results then."""
        addresses = [a.ctypes.data for a in args]
        self.signature.check_updated(args, addresses)
        sources = self.signature.sources
        held: list[AnyArray] = []
        for n, mask in enumerate(plan.masks):
            if addresses[n] & mask:
                held.append(args[n].copy())
                addresses[n] = held[-1].ctypes.data
        results = []
        for o, (shape, dtype, size, spares) in enumerate(plan.outputs):
            if o in sources:
                results.append(wrapped(args[sources[o]]))
            else:
                results.append(NDArray(shape, dtype, Memory(size, spares), self._device))
            addresses.append(results[-1].address)
        frames = self._idle()
        try:
            frame = frames.pop()
        except IndexError:
            frame = self._new_frame(self._host_of(frames))
        try:
            if frame.plan is not plan:
                frame.use(plan)
            for n, address in enumerate(addresses):
                frame.tensors[n] = address
            status = self._run(frame.pointer)
        finally:
            frames.append(frame)
        if status:
            raise self.failure(status)
        return results[0] if len(results) == 1 else Results(results, self._output_names)

    def _idle(self) -> list[Frame]:
        """Frames that no call uses, for this thread."""
        if self._watched is not None and signals.in_main_thread():
            return self._watched_frames
        return self._frames

    def _host_of(self, frames: list[Frame]) -> native.Host:
        """The host of new frames."""
        if self._watched is not None and frames is self._watched_frames:
            return self._watched
        return self._host

    def _new_frame(self, host: native.Host) -> Frame:
        weights = self.weights.ctypes.data if self.weights is not None else 0
        count = len(self.inputs) + len(self.outputs)
        return Frame(count, ctypes.addressof(host), self._entry, weights)

    def _prepare(self, args: Sequence[Any]) -> tuple[Plan, tuple[AnyArray, ...]]:
        """Checks the arguments; non-contiguous ones are copied."""
        args = self.signature.in_order(args, {})
        arrays = tuple(
            # Not ascontiguousarray, which turns rank 0 into rank 1.
            np.asarray(self.signature.view("input", info, value), order="C")
            if n not in self._updates
            else self.signature.view("input", info, value)
            for n, (info, value) in enumerate(zip(self.inputs, args, strict=True))
        )
        return self._plans.of(arrays, partial(self._make_plan, arrays)), arrays

    def _make_plan(self, arrays: tuple[AnyArray, ...]) -> Plan:
        found = self.signature.bind(arrays)
        symbols = {name: found[name] for name in self.signature.symbols}
        shapes, workspace_bytes = self._evaluate_shapes(symbols)
        dtypes = [numpy_dtype(info.dtype) for info in self.outputs]
        masks = [min(numpy_dtype(info.dtype).itemsize, 8) - 1 for info in self.inputs]
        return Plan(symbols, shapes, dtypes, masks, workspace_bytes)

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
            raise self.signature.misfit(
                "the model does not accept these sizes: "
                f"{self.signature.values(symbols) or 'none'} ({native.status_text(status)})"
            )
        values = iter(extents)
        return [tuple(islice(values, rank)) for rank in ranks], workspace.value

    # ---- bound calls --------------------------------------------------------------------------

    def bind(
        self, inputs: Any, outputs: Any = None, probe: Probe | Copies | None = None
    ) -> BoundCall:
        """Fixes inputs and outputs: calling the result costs no check and no allocation.

        inputs, outputs: an array, a sequence, or a mapping by name; outputs None: new arrays, found
        in `.outputs` of the result. They are used in place, so they must be contiguous.
        probe: what notes the times of the kernels, from `probe`.
        Raises InputError where something does not fit.
        """
        host = self._host if probe is None else probe.host
        given = self._listed(inputs, "input", self.inputs)
        views = self._in_place("input", self.inputs, given)
        self.signature.check_updated(views, [v.ctypes.data for v in views])
        plan = self._plans.of(views, partial(self._make_plan, tuple(views)))
        if outputs is None:
            sources = self.signature.sources
            results: list[Any] = [
                wrapped(views[sources[n]])
                if n in sources
                else NDArray(shape, dtype, Memory(size), self._device)
                for n, (shape, dtype, size, _) in enumerate(plan.outputs)
            ]
        else:
            results = self._listed(outputs, "output", self.outputs)
        targets = self._in_place("output", self.outputs, results)
        for info, target, (shape, *_) in zip(self.outputs, targets, plan.outputs, strict=True):
            if target.shape != shape:
                problem = f"shape {list(target.shape)} given, {list(shape)} needed"
                raise self.signature.wrong("output", info, problem)
        for i, o in self._updates.items():
            if targets[o].ctypes.data != views[i].ctypes.data:
                problem = f"it is the input {self.inputs[i].name!r} updated: give the same array"
                raise self.signature.wrong("output", self.outputs[o], problem)
        frame = self._new_frame(host)
        frame.use(plan)
        for i, view in enumerate([*views, *targets]):
            frame.tensors[i] = view.ctypes.data
        for i, result in enumerate(results, len(views)):
            if isinstance(result, NDArray):
                frame.tensors[i] = result.address  # numpy shows empty arrays elsewhere
        # The views, not the arguments: a DLPack import must stay alive.
        return BoundCall(self, frame, tuple(views), tuple(results), host)

    def _listed(self, values: Any, role: str, infos: Sequence[TensorInfo]) -> list[Any]:
        """One array, a sequence or a mapping, as a list."""
        if isinstance(values, Mapping):
            unknown = set(values) ^ {info.name for info in infos}
            if unknown:
                problem = f"bind: {role}s {sorted(unknown)} are missing or unknown"
                raise self.signature.misfit(problem, role)
            return [values[info.name] for info in infos]
        found = list(values) if isinstance(values, (tuple, list)) else [values]
        if len(found) != len(infos):
            problem = f"bind: {len(found)} {role}s given, {len(infos)} needed"
            raise self.signature.misfit(problem, role)
        return found

    def _in_place(
        self, role: str, infos: Sequence[TensorInfo], values: Sequence[Any]
    ) -> list[AnyArray]:
        """Arrays as numpy sees them, which native code can read or write where they are."""
        views = [self.signature.view(role, i, v) for i, v in zip(infos, values, strict=True)]
        for info, view in zip(infos, views, strict=True):
            if not (view.flags.c_contiguous and view.flags.aligned):
                problem = "bind works in place and needs a contiguous array; use x.copy()"
                raise self.signature.wrong(role, info, problem)
            if role == "output" and not view.flags.writeable:
                raise self.signature.wrong(role, info, "the array is read-only")
        return views

    # ---- measuring ----------------------------------------------------------------------------

    def benchmark(
        self, *args: Any, repeat: int = 10, number: int | None = None, **named: Any
    ) -> BenchmarkResult:
        """Times runs in one native loop, in ms: see Executable."""
        call = self._bound_copy(args, named)
        return timed_runs(call.time, repeat, number)

    def bound_for(self, func_name: str, dev: Device | None) -> Callable[..., BoundCall]:
        """What binds inputs, or gives the call of the GraphModule whose `.module` this is."""
        if func_name not in ("run", "default", self.name):
            raise errors.InputError(f"time_evaluator: no function {func_name!r}; functions: run")
        self._on(self._device if dev is None else dev)
        user = self._user()
        return lambda *args: self._bound_copy(args, {}) if args or user is None else user.bound()

    def probe(self) -> Probe:
        """A host for `bind` that notes the times of the kernels."""
        count, first = len(self.metadata.get("kernels", [])), self.metadata.get("first_kernel", 0)
        return Probe(self._host, count, first)

    def on(self, probe: Probe) -> NativeExecutable:
        """The same executable, whose calls tell a probe of their kernels."""
        twin = copy.copy(self)
        twin._host = probe.watching(self._host)
        twin._watched, twin._frames = None, []
        return twin

    def profile(self, *args: Any, repeat: int = 10, **named: Any) -> ProfileReport:
        """Times each kernel: medians over `repeat` runs."""
        probe = self.probe()
        call = self._bound_copy(args, named, probe)
        return profiled(self.name, self.metadata.get("kernels", []), probe, call, repeat)

    def _bound_copy(
        self, args: tuple[Any, ...], named: Mapping[str, Any], probe: Probe | None = None
    ) -> BoundCall:
        args = self.signature.in_order(args, named)
        _, arrays = self._prepare(args)
        return self.bind([a if a.flags.aligned else a.copy() for a in arrays], None, probe)

    # ---- exporting ----------------------------------------------------------------------------

    def export_library(
        self,
        path: str | os.PathLike[str],
        fcompile: Linker | None = None,
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Writes a library with the model and its constants, for `smelt.load`.

        path: "x.tar" holds objects, linked where they are loaded; "x.so" is a shared library with
        the runtime in it, for C too, and so is what a device or a pipe gets.
        cc: the C compiler to link with (a .tar is then linked already); fcompile: what links or
        packs instead, see smelt.contrib.cc; header: also write the C header beside it.
        Raises ExportError where it cannot be written.
        """
        check_library(path)
        export(self, path, cc=cc, fcompile=fcompile, header=header)


def _may_take_long(metadata: Mapping[str, Any]) -> bool:
    """Whether a run may be worth ending between two kernels, as far as is known of them."""
    seconds = [k.get("seconds") for k in metadata.get("kernels", ())]
    return len(seconds) > 1 and (None in seconds or sum(seconds) > _LONG)


def _nobody() -> None:
    """No GraphModule uses an executable by itself."""


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
