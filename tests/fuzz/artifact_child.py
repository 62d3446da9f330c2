"""A process that loads and runs mutated artifacts: `python -m tests.fuzz.artifact_child`."""

from __future__ import annotations

import ctypes
import json
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from smelt.runtime import SmeltError, load_module, register_runtime
from smelt.runtime.linking import FOOTER
from smelt.runtime.native import ModelInfo
from smelt.runtime.program import Module
from smelt.runtime.vm import VirtualMachine, VMExecutable

from .artifact_mutate import mutate_library, mutate_tar

__all__ = ["BACK_END", "Verdict", "external_loader"]

BACK_END = "mine"
SECONDS = 30
Array = np.ndarray[Any, Any]


def external_loader(text: str, constants: Mapping[str, Array]) -> Callable[..., None]:
    """The back end of the sample with an external function."""

    def run(x: Array, b: Array, out: Array) -> None:
        out[...] = x * x * constants["one"] + b

    return run


@dataclass(frozen=True)
class Verdict:
    """What a mutated artifact did: "right", "refused", "free" (an answer of mutated numbers or
    programs), or a failure: "wrong", "raw", "crash", "hang"."""

    seed: int
    kind: str
    message: str


class _EndlessProgram(BaseException):
    """A program of the virtual machine that was mutated and does not end."""


@contextmanager
def _limit(endless: bool) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _EndlessProgram

    signal.signal(signal.SIGALRM, stop if endless else signal.SIG_DFL)
    # Again and again: what is raised while an object is freed is ignored.
    signal.setitimer(signal.ITIMER_REAL, 5 if endless else SECONDS, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def judge(samples: Path, seed: int, folder: Path) -> Verdict:
    """Mutates one sample as the seed says, loads and runs it."""
    rng = random.Random(seed)
    names = sorted([p.name.removesuffix(".npz") for p in samples.glob("*.npz")])
    weights = [1 if n == "objects.tar" else 6 for n in names]  # each is linked when it is loaded
    name = rng.choices(names, weights)[0]
    *inputs, answer = np.load(samples / f"{name}.npz").values()
    place = folder / str(seed) / name
    place.parent.mkdir()
    data = (samples / name).read_bytes()
    if name.endswith(".tar"):
        free = mutate_tar(data, place, rng)
    else:
        beside = samples / f"{name}.weights"
        free = mutate_library(data, beside.read_bytes() if beside.exists() else None, place, rng)
    label = f"{name} of seed {seed}: "
    try:
        with _limit(name.endswith(".vm")):
            got = _answer(load_module(place), inputs)
    except SmeltError as error:
        return Verdict(seed, "refused", str(error))
    except _EndlessProgram:
        return Verdict(seed, "free", "a program that does not end")
    except Exception:
        return Verdict(seed, "raw", label + traceback.format_exc())
    if got.shape == answer.shape and np.allclose(got, answer, rtol=1e-4, atol=1e-5):
        return Verdict(seed, "right", "")
    return Verdict(seed, "free" if free else "wrong", f"{label}{got!r}"[:300])


def _answer(made: Any, inputs: list[Array]) -> Array:
    if isinstance(made, Module):
        made(*inputs)
        return inputs[-1]
    if isinstance(made, VMExecutable):
        found = VirtualMachine(made).invoke("main", *inputs)
    else:
        found = made(*inputs)
        made.profile(*inputs, repeat=1)
        if not made.outputs:  # a tensor program whose metadata no longer say that it is one
            return inputs[-1]
    return np.asarray(found.numpy()) if hasattr(found, "numpy") else np.empty(0)


# ---- the same from C ----


C_SAMPLES = ("aside.so", "constants.so", "program.so", "sizes.so")


class _Tensor(ctypes.Structure):
    """smelt_tensor of smelt.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("dtype", ctypes.c_int32),
    )


def run_from_c(samples: Path, seed: int, folder: Path) -> Verdict | None:
    """The library of a case as a C program uses it; None where there is none to link with."""
    places = [p for p in (folder / str(seed)).glob("*.so") if p.name in C_SAMPLES and p.is_file()]
    if not places:
        return None
    place = places[0]
    sample = (samples / place.name).read_bytes()
    code = sample[: FOOTER.unpack(sample[-FOOTER.size :])[5]]
    if place.stat().st_size < len(code) - 4096:
        return None  # the system's own loader does not check that the code is whole
    *inputs, answer = np.load(samples / f"{place.name}.npz").values()
    lib = ctypes.CDLL(str(place))
    lib.smelt_model_open.restype = lib.smelt_model_open_with_weights.restype = ctypes.c_void_p
    info = ModelInfo.in_dll(lib, "smelt_model_descriptor")
    model = lib.smelt_model_open(ctypes.byref(info))
    if not model:
        return Verdict(seed, "refused", "")
    rng, handle = random.Random(~seed), ctypes.c_void_p(model)
    out = np.zeros_like(answer)
    outputs = [out] * lib.smelt_model_output_count(handle)
    for wrong in (True, True, False):
        tensors = [_tensor(a) for a in (*inputs, *outputs)]
        if wrong:
            _spoil(rng.choice(tensors), rng)
        table = (_Tensor * len(tensors))(*tensors)
        results = ctypes.byref(table, ctypes.sizeof(_Tensor) * len(inputs))
        extents = (ctypes.c_int64 * 16)()
        lib.smelt_model_output_shapes(handle, table, extents)
        status = lib.smelt_model_run(handle, table, results)
    lib.smelt_model_set_threads(handle, rng.choice([0, 1, -1]))
    lib.smelt_model_input(handle, ctypes.c_int64(rng.randrange(-1, 5)))
    lib.smelt_model_output(handle, ctypes.c_int64(rng.randrange(-1, 5)))
    lib.smelt_model_close(handle)
    other = lib.smelt_model_open_with_weights(
        ctypes.byref(info), ctypes.c_void_p(rng.choice([0, 8]))
    )
    lib.smelt_model_close(ctypes.c_void_p(other))
    got = out if outputs else inputs[-1]
    same = status == 0 and np.allclose(got, answer, rtol=1e-4, atol=1e-5)
    return Verdict(seed, "right" if same else "free", f"{place.name}: status {status}, {got!r}")


def _tensor(a: Array) -> _Tensor:
    code = {"f": 2, "i": 0, "b": 6}[a.dtype.kind]
    shape = (ctypes.c_int64 * max(1, a.ndim))(*a.shape)
    return _Tensor(a.ctypes.data, a.ndim, shape, code << 8 | a.dtype.itemsize * 8)


def _spoil(t: _Tensor, rng: random.Random) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        t.data = None
    elif kind == 1:
        t.rank = rng.choice([0, 1, 3, -1, 1 << 40])
    elif kind == 2:
        t.dtype = rng.choice([0, 1, 520, -1])
    else:
        t.shape = (ctypes.c_int64 * 8)(*[rng.choice([-1, 0, 1, 5, 1 << 62]) for _ in range(8)])


# ---- the process ----


def child(samples: Path, first: int, count: int) -> None:
    """Judges some cases: before each, its seed is printed; then the verdict, as JSON."""
    warnings.simplefilter("ignore")
    register_runtime(BACK_END)(external_loader)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="smelt-fuzz-") as folder:
        for seed in range(first, first + count):
            print(seed, flush=True)
            verdict = judge(samples, seed, Path(folder))
            with _limit(False):
                by_c = run_from_c(samples, seed, Path(folder))
            if by_c is not None and verdict.kind == "right" != by_c.kind:
                verdict = replace(by_c, kind="wrong", message=f"from C: {by_c.message}")
            print(json.dumps([verdict.kind, verdict.message]), flush=True)


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
