"""The native library: its functions and structures for ctypes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from smelt.runtime import abi
from smelt.runtime.errors import InputError, LoadError, RuntimeFailure, at_least

COMPUTED_DIM = -(1 << 63)
"""SMELT_COMPUTED_DIM of smelt.h."""
_HERE = Path(__file__).resolve().parent
_LIBRARY = _HERE / "libsmelt_runtime.so"


class Host(ctypes.Structure):
    """smelt_host of smelt.h; `keep` holds what its pointers refer to."""

    keep: object
    _fields_ = abi.HOST.ctypes()


class PoolView(ctypes.Structure):
    """smelt_pool_view of smelt.h."""

    _fields_ = abi.VIEW.ctypes()


class Operand(ctypes.Structure):
    """smelt_operand of smelt.h: where an operand of a candidate lies."""

    _fields_ = abi.OPERAND.ctypes()


class Bound(ctypes.Structure):
    """smelt_bound of smelt.h."""

    _fields_ = abi.BOUND.ctypes()


class Profile(ctypes.Structure):
    """smelt_profile of smelt.h."""

    _fields_ = abi.PROFILE.ctypes()


class _TensorInfo(ctypes.Structure):
    """smelt_tensor_info of smelt.h."""

    _fields_ = abi.TENSOR_INFO.ctypes(name=c_char_p, shape=POINTER(c_int64))


class ModelInfo(ctypes.Structure):
    """smelt_model_info of smelt.h."""

    inputs: Any
    outputs: Any
    symbols: Any
    updates: Any

    _fields_ = abi.MODEL_INFO.ctypes(
        name=c_char_p,
        features=POINTER(c_char_p),
        inputs=POINTER(_TensorInfo),
        outputs=POINTER(_TensorInfo),
        symbols=POINTER(c_char_p),
        updates=POINTER(c_int64),
    )

    def at(self, level: int) -> ModelInfo:
        """The form for a lesser processor. Raises LoadError where there is none."""
        found = self
        for _ in range(level):
            if not found.lesser:
                raise LoadError("its code is for fewer processors than its metadata says")
            found = ModelInfo.from_address(found.lesser)
        return found


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "smelt_bound_run": (c_int32, c_void_p),
    "smelt_bound_time": (c_int32, c_void_p, c_int64, POINTER(c_int64)),
    "smelt_program_run": (c_int32, c_void_p),
    "smelt_program_misfit": (c_int64, c_void_p, c_int64),
    "smelt_program_fail": (None, c_int64),
    "smelt_program_trim": (None,),
    "smelt_program_used": (None, c_void_p),
    "smelt_profile_probe": (c_int32, c_void_p, c_int64, c_int32),
    "smelt_last_error": (c_char_p,),
    "smelt_blocks": (c_int64,),
    "smelt_host_init": (None, c_void_p, c_void_p, c_int32),
    "smelt_entry_time": (c_int32, *[c_void_p] * 3, c_int64, c_void_p, *[c_int64] * 3,
                         POINTER(c_int64)),
    "smelt_pool_default": (c_void_p, c_int32),
    "smelt_pool_threads": (c_int32, c_void_p),
    "smelt_alloc": (c_void_p, c_int64),
    "smelt_free": (None, c_void_p),
    "smelt_cpu_has": (c_int32, c_char_p),
    "smelt_cpu_feature": (c_char_p, c_int64),
    "smelt_cpu_count": (c_int32,),
    "smelt_count_cpus": (c_int32, c_char_p, c_void_p),
    "smelt_status_name": (c_char_p, c_int32),
    "smelt_dtype_name": (c_char_p, c_int32),
}  # fmt: skip
"""By function: the type of its result, and those of its arguments."""


@cache
def library() -> ctypes.CDLL:
    """The loaded library. Its calls release the interpreter lock."""
    if not _LIBRARY.exists():
        raise LoadError(
            f"smelt's native runtime is not built: {_LIBRARY} does not exist\n"
            "  in smelt's source tree, run: pip install ."
        )
    try:
        lib = ctypes.CDLL(str(_LIBRARY))
    except OSError as error:
        raise LoadError(
            f"cannot load smelt's native runtime: {error}\n"
            "  it may be built for another machine; in smelt's source tree, run: pip install ."
        ) from None
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def source_folder() -> Path:
    """Where the C sources of the runtime lie: in the package, or in the source tree."""
    for folder in (_HERE / "native_src", _HERE.parents[2] / "native"):
        if (folder / "smelt.h").exists():
            return folder
    raise LoadError(
        f"the C sources of smelt's runtime are missing: {_HERE / 'native_src'} does not exist\n"
        "  in smelt's source tree, run: pip install ."
    )


def status_text(status: int) -> str:
    """What a status of the C interface means."""
    return f"{library().smelt_status_name(status).decode()} (status {status})"


# ---- CPU ------------------------------------------------------------------------------------


def cpu_features() -> list[str]:
    """The features of this CPU, by their LLVM names."""
    lib = library()
    found = []
    index = 0
    while (name := lib.smelt_cpu_feature(index)) is not None:
        if lib.smelt_cpu_has(name):
            found.append(name.decode())
        index += 1
    return found


def missing_features(needed: list[str]) -> list[str]:
    """Those of the needed features that this CPU lacks."""
    lib = library()
    return [name for name in needed if not lib.smelt_cpu_has(name.encode())]


def check_cpu(metadata: Mapping[str, Any], who: str = "") -> None:
    """Raise a LoadError where this CPU lacks features that a model's code needs."""
    if missing := missing_features(list(metadata.get("features", ()))):
        raise LoadError(
            f"{who}compiled for a CPU with {', '.join(missing)}, which this CPU lacks\n"
            f"  target: {metadata.get('target', 'unknown')}"
        )


# ---- threads --------------------------------------------------------------------------------


def check_environment() -> int | None:
    """What SMELT_NUM_THREADS says, if anything; refuses what means nothing."""
    text = os.environ.get("SMELT_NUM_THREADS", "")
    return _number_in("SMELT_NUM_THREADS", text, "threads", "all CPUs of this process")


def most_plans() -> int:
    """How many shapes of inputs an executable remembers: SMELT_MAX_CACHED_PLANS, or 64."""
    text = os.environ.get("SMELT_MAX_CACHED_PLANS", "")
    return _number_in("SMELT_MAX_CACHED_PLANS", text, "plans", "64") or 64


def _number_in(variable: str, text: str, what: str, otherwise: str) -> int | None:
    """What an environment variable says, if anything; refuses what is no number of such things."""
    if text and not (text.isdecimal() and int(text) > 0):
        raise InputError(
            f"environment variable {variable}={text!r} is not a number of {what}; "
            f"legal: 1 or more, or unset for {otherwise}"
        )
    return int(text) if text else None


def cores() -> int:
    """How many cores this process may use now: its affinity's, at most its cgroups' quota."""
    return int(library().smelt_cpu_count())


def host_of(threads: int) -> Host:
    """A host whose parallel loops run on the pool of this process, on so many threads at most; 0:
    on all."""
    host, view = Host(), PoolView()
    host.keep = view
    library().smelt_host_init(ctypes.addressof(host), ctypes.addressof(view), threads)
    return host


def time_entry(
    entry: int, operands: Sequence[Operand], sizes: Sequence[int], turn: int, calls: int,
    threads: int,
) -> float:  # fmt: skip
    """Seconds of so many calls of the smelt_entry at an address, on so many threads; see smelt.h.

    Raises RuntimeFailure.
    """
    host = host_of(threads)
    rows = (Operand * len(operands))(*operands)
    values = (c_int64 * len(sizes))(*sizes)
    spent = c_int64()
    status = library().smelt_entry_time(
        entry, ctypes.addressof(host), rows, len(operands), values, turn, calls, threads, spent
    )
    if status:
        raise RuntimeFailure(f"the kernel returned the status {status}")
    return spent.value * 1e-9


Tell: TypeAlias = Callable[[int | None, int, int], int]
_TELL = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int32)


def listening(host: Host, probe: str | Tell, sink: ctypes.Structure, *kept: object) -> Host:
    """A host like another one that tells a probe of kernels.

    probe  the name of one of the runtime's, or a function; kept: what the sink refers to
    """
    made = Host.from_buffer_copy(host)
    tell = getattr(library(), probe) if isinstance(probe, str) else _TELL(probe)
    made.probe = ctypes.cast(tell, c_void_p)
    made.probe_sink = ctypes.addressof(sink)
    made.keep = sink, kept, host, tell
    return made


def num_threads() -> int:
    """How many threads a model may use in this process, the caller's included."""
    check_environment()
    lib = library()
    return int(lib.smelt_pool_threads(lib.smelt_pool_default(0)))


def set_num_threads(count: int) -> None:
    """Sets the number of threads; only before the first executable is made."""
    at_least(1, "set_num_threads", count=count)
    lib = library()
    have = int(lib.smelt_pool_threads(lib.smelt_pool_default(count)))
    if have != min(count, cores()):
        raise RuntimeFailure(
            f"set_num_threads({count}): the thread pool of this process exists and has "
            f"{have} threads\n"
            "  call it before the first executable is made, set SMELT_NUM_THREADS before the "
            "program starts,\n  or give an executable its own limit with threads=..."
        )
