"""The time of one scheduled program, called by itself on memory of its own."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from smelt.codegen.llvm_text import emit_module
from smelt.codegen.peak import linked
from smelt.ir import dtype as dt
from smelt.rules.cpu.analysis import guess
from smelt.runtime import native
from smelt.runtime.errors import RuntimeFailure
from smelt.target import Target
from smelt.tir.nodes import Buffer, PrimFunc

from .memory import aligned_bytes

_CALLS = 5


def timer(flat: PrimFunc, target: Target, threads: int) -> Callable[[float], float]:
    """A lowered program as a function that runs it on this machine for so many seconds, and returns
    those of its fastest call, all that it reads still near.

    Symbolic sizes are what the rules take them for. Raises CompileError, RuntimeFailure.
    """
    address, alive = linked(target, emit_module([flat], target), flat.name)
    call = ctypes.CFUNCTYPE(ctypes.c_int32)(address)
    call.argtypes = None  # type: ignore[assignment]
    held = [_memory(p) for p in flat.buffers]
    places = iter(held)
    args: list[Any] = [ctypes.byref(native.host_of(threads))]
    for p in flat.params:
        if isinstance(p, Buffer):
            args.append(ctypes.c_void_p(next(places).ctypes.data))
        else:
            args.append(ctypes.c_int64(guess(p)))

    def run(seconds: float, _kept: Any = (alive, held)) -> float:
        found: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(found) < _CALLS:
            start = time.perf_counter()
            status = call(*args)
            found.append(time.perf_counter() - start)
            if status:
                raise RuntimeFailure(f"{flat.name}: the kernel returned the status {status}")
        return min(found)

    return run


def _memory(b: Buffer) -> np.ndarray[Any, Any]:
    """Aligned memory of a flat buffer: small values, and zeros where they may be indices."""
    count, dtype = prod(map(guess, b.shape)), dt.to_numpy(b.type)
    found = aligned_bytes(count * dtype.itemsize).view(dtype)
    if dt.is_float(b.type):
        found[:] = np.linspace(0.5, 1.0, count, dtype="float32").astype(dtype)
    return found
