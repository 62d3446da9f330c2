"""The native form of a program that decides while it runs: a call of it is one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime import abi, signals
from smelt.runtime.bound import Plans
from smelt.runtime.device import cpu
from smelt.runtime.dtypes import DTYPE_CODES, numpy_dtype
from smelt.runtime.ndarray import Memory, NDArray, wrapped
from smelt.runtime.signature import Interface, Signature, TensorInfo

from . import errors, native

AnyArray = npt.NDArray[Any]

_MOST_SIZES = 64  # of a segment, for a message
_WORDS = 4  # of 8 bytes in a smelt_tensor


class _Tensor(ctypes.Structure):
    """smelt_tensor of smelt.h."""

    _fields_ = abi.TENSOR.ctypes()


class _Call(ctypes.Structure):
    """smelt_program_call of smelt.h."""

    _fields_ = abi.PROGRAM_CALL.ctypes()


class _Memory(ctypes.Structure):
    """smelt_program_memory of smelt.h."""

    _fields_ = abi.PROGRAM_MEMORY.ctypes()


class _Plan:
    """What calls with inputs of the same shapes have in common."""

    def __init__(self, arrays: Sequence[AnyArray], codes: Sequence[int]) -> None:
        self.shapes = [(ctypes.c_int64 * max(1, a.ndim))(*a.shape) for a in arrays]
        rows = [
            _Tensor(None, a.ndim, ctypes.addressof(shape), code)
            for a, shape, code in zip(arrays, self.shapes, codes, strict=True)
        ]
        self.inputs = (_Tensor * max(1, len(rows)))(*rows)
        self.masks = [min(a.dtype.itemsize, 8) - 1 for a in arrays]


class _Frame:
    """What one running call owns."""

    def __init__(self, owner: NativeProgram, main: bool) -> None:
        self.host = native.Host.from_buffer_copy(owner.host)
        if main:
            self.host.interrupted = signals.ASK
        count = len(owner.inputs)
        self.plan: _Plan | None = None
        self.inputs = (_Tensor * max(1, count))()
        self.words = (ctypes.c_uint64 * (_WORDS * max(1, count))).from_buffer(self.inputs)
        self.shapes = [(ctypes.c_int64 * max(1, len(o.shape)))() for o in owner.results]
        rows = [_Tensor(None, 0, ctypes.addressof(shape), 0) for shape in self.shapes]
        self.outputs = (_Tensor * max(1, len(rows)))(*rows)
        self.made = (ctypes.c_uint64 * (_WORDS * max(1, len(rows)))).from_buffer(self.outputs)
        self.lent = (ctypes.c_int64 * max(1, count))(
            *[owner.updates.get(n, -1) for n in range(count)]
        )
        self.call = _Call(
            ctypes.addressof(self.host), owner.address, owner.weights, count,
            ctypes.addressof(self.inputs), len(rows), ctypes.addressof(self.outputs),
            ctypes.addressof(self.lent),
        )  # fmt: skip
        self.pointer = ctypes.addressof(self.call)

    def use(self, plan: _Plan) -> None:
        """Prepare for inputs of these shapes."""
        ctypes.memmove(self.inputs, plan.inputs, ctypes.sizeof(self.inputs))
        self.plan = plan


class NativeProgram:
    """A program's main function in native code. Several threads may call it at once.

    host     whose threads it uses
    address  of its smelt_program
    weights  address of the constants
    results  what it gives: element types and ranks, one after another
    segments what its straight parts take, for messages
    """

    def __init__(
        self,
        interface: Interface,
        results: Sequence[TensorInfo],
        address: int,
        weights: int,
        host: native.Host,
        segments: Sequence[Signature],
    ) -> None:
        """For VMExecutable."""
        self._segments = segments
        self.interface, self.inputs, self.results = interface, interface.inputs, tuple(results)
        self.address, self.weights, self.host = address, weights, host
        self.updates = interface.updates
        self._codes = [DTYPE_CODES[i.dtype] for i in self.inputs]
        self._kinds = [(numpy_dtype(o.dtype), len(o.shape)) for o in self.results]
        self._plans: Plans[_Plan] = Plans()
        # calls of the main thread ask for signals, with a host of their own
        self._frames: list[_Frame] = []
        self._main_frames: list[_Frame] = []
        self._run: Callable[[int], int] = native.library().smelt_program_run
        self._device = cpu(0)

    def limit(self, memory: int, turns: int) -> None:
        """Limits of the calls from now on: bytes, turns; 0: none."""
        self.host.most_bytes, self.host.most_turns = memory, turns
        self._frames, self._main_frames = [], []

    def on(self, host: native.Host) -> NativeProgram:
        """The same program with another host."""
        return NativeProgram(
            self.interface, self.results, self.address, self.weights, host, self._segments
        )

    def __call__(self, args: Sequence[Any]) -> list[NDArray]:
        """Run it on the arguments of a call; arrays of shapes met before cost no check."""
        if len(args) == 1 and type(args[0]) is dict:
            args = self.interface.in_order(args, {})
        plan = self._plans.get(
            tuple([(a.dtype, a.shape, a.strides) for a in args if type(a) is np.ndarray])
        )
        if plan is None or len(args) != len(self.inputs):
            given = self.interface.in_order(args, {})
            args = [self._value(n, v) for n, v in enumerate(given)]
            plan = self._plans.of(args, partial(_Plan, args, self._codes))
        if self.updates:
            self.interface.check_updated(args, [a.ctypes.data for a in args])
        main = signals.in_main_thread()
        frames = self._main_frames if main else self._frames
        try:
            frame = frames.pop()
        except IndexError:
            frame = _Frame(self, main)
        try:
            if frame.plan is not plan:
                frame.use(plan)
            words, held = frame.words, args
            for i, mask in enumerate(plan.masks):
                address = args[i].ctypes.data
                if address & mask:
                    held = [*held, args[i].copy()]
                    address = held[-1].ctypes.data
                words[_WORDS * i] = address
            status = self._run(frame.pointer)
            if status:
                raise self._failure(status)
            return self._made(frame, args)
        finally:
            frames.append(frame)

    def _value(self, number: int, value: Any) -> Any:
        """An input as an array, as it is where the run updates it."""
        info = self.inputs[number]
        if number in self.updates:
            return self.interface.fitting("input", info, value)
        return self.interface.value(info, value)

    def used(self) -> tuple[int, int]:
        """How often this thread's last run took memory, and the most bytes that it held."""
        found = _Memory()
        native.library().smelt_program_used(ctypes.addressof(found))
        return found.allocations, found.most_bytes

    def _made(self, frame: _Frame, args: Sequence[AnyArray]) -> list[NDArray]:
        """The results; the memory of one that was updated in place stays its owner's."""
        found = []
        for n, (dtype, rank) in enumerate(self._kinds):
            address, i = frame.made[_WORDS * n], self.interface.sources.get(n, -1)
            if i >= 0 and address == frame.words[_WORDS * i]:
                found.append(wrapped(args[i]))
                continue
            shape = tuple(frame.shapes[n]) if rank else ()
            found.append(NDArray(shape, dtype, Memory.adopted(address), self._device))
        return found

    def _failure(self, status: int) -> BaseException:
        """What a run of this thread that gave a status is to raise."""
        said = native.library().smelt_last_error().decode(errors="replace")
        if status == abi.Status.CANCELLED:
            return signals.raised()
        if (misfit := self._misfit()) is not None:
            return misfit
        name = f"{self.interface.name}: "
        kind = errors.InputError if status in abi.BAD_INPUT else errors.RuntimeFailure
        return kind(said if said.startswith(name) else f"{name}{said}")

    def _misfit(self) -> errors.InputError | None:
        """The error of sizes that a segment does not accept, as the segment itself says it."""
        sizes = (ctypes.c_int64 * _MOST_SIZES)()
        number = native.library().smelt_program_misfit(sizes, _MOST_SIZES)
        if not 0 <= number < len(self._segments):
            return None
        signature = self._segments[number]
        found = signature.misfitting(dict(zip(signature.symbols, sizes, strict=False)))
        return None if found is None else errors.InputError(found)
