"""Runs flat programs through LLVM: text, object, linked into this process, called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from smelt.codegen.llvm import ObjectCompiler, link_in_process, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir import dtype as dt
from smelt.lowering.finish import finish
from smelt.lowering.flatten import flatten_buffers
from smelt.lowering.legalize import legalize_narrow
from smelt.lowering.vectorize import vectorize_loops
from smelt.target import Target
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.parser import parse

Array = np.ndarray[Any, Any]

_TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
_FOR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, _TASK, ctypes.c_void_p, ctypes.c_int64)
_PROBE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
_C = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int8": ctypes.c_int8,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
}


class Host(ctypes.Structure):
    """What a kernel gets first (smelt_host of the runtime)."""

    _fields_ = (
        ("pool", ctypes.c_void_p),
        ("parallel_for", _FOR),
        ("probe_sink", ctypes.c_void_p),
        ("probe", ctypes.c_void_p),
    )


def _serially(pool: int, task: Callable[[int, int], int], closure: int, count: int) -> int:
    """All turns here, the last one first: no result may depend on the order."""
    for i in reversed(range(count)):
        status = task(closure, i)
        if status:
            return int(status)
    return 0


def _in_order(pool: int, task: Callable[[int, int], int], closure: int, count: int) -> int:
    for i in range(count):
        status = task(closure, i)
        if status:
            return int(status)
    return 0


BACKWARDS, FORWARDS = _FOR(_serially), _FOR(_in_order)


@cache
def compiler() -> ObjectCompiler:
    """LLVM for this machine."""
    return ObjectCompiler(resolve(Target("llvm -mcpu=native")))


def flat(func: PrimFunc, fused: bool = False) -> PrimFunc:
    """What the emitter takes: one index a buffer, no vectorised loops; `fused`: with fma."""
    func = vectorize_loops(flatten_buffers(func))
    return finish(func) if fused else func


def run_llvm(
    func: PrimFunc, *args: Any, ordered: bool = False, target: Target | None = None
) -> int:
    """Run a flat program on numpy arrays (in place) and numbers; its status.

    target  of which processor the instructions are; None: this one's
    """
    func = legalize_narrow(func)
    made = compiler() if target is None else ObjectCompiler(target)
    code = made.object(emit_module([func], target), func.name)
    addresses, keep = link_in_process([code], [func.name])
    given: list[Any] = [ctypes.byref(Host(None, FORWARDS if ordered else BACKWARDS, None, None))]
    for p, a in zip(func.params, args, strict=True):
        if isinstance(p, Buffer):
            assert a.flags.c_contiguous
            given.append(ctypes.c_void_p(a.ctypes.data))
        else:
            given.append(_C[p.type](a))
    entry: Any = ctypes.CFUNCTYPE(ctypes.c_int32)(addresses[func.name])
    entry.argtypes = None
    status = int(entry(*given))
    del keep
    return status


def same(found: list[Any], expected: list[Any], what: str = "", signs: bool = True) -> None:
    """Equal bits, but for the payload of NaN and, on demand, the sign of zero.

    min and max of 0.0 and -0.0 may be either one, so random programs do not compare signs.
    """
    for a, b in zip(found, expected, strict=True):
        if not isinstance(b, np.ndarray):
            continue
        if dt.is_float(dt.from_numpy(b.dtype)):
            if signs:
                zero = b == 0
                np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]), what)
            a, b = a.astype("float64"), b.astype("float64")
        np.testing.assert_array_equal(a, b, err_msg=what)


def agree(source: str | PrimFunc, *args: Any, fused: bool = False, signs: bool = True) -> list[Any]:
    """Assert that LLVM and the interpreter do the same; the arguments afterwards."""
    func = flat(parse(source) if isinstance(source, str) else source, fused)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    found = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interpret(func, *[a.reshape(-1) if isinstance(a, np.ndarray) else a for a in expected])
    assert run_llvm(func, *found) == 0
    same(found, expected, str(func.name), signs)
    return found
