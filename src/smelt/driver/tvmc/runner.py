"""`tvmc run`: a package on this machine or another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import smelt
from smelt.rpc.client import open_session
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import unknown
from smelt.runtime.evaluator import evaluate_times, wall_clock
from smelt.runtime.report import TimeEvaluation
from smelt.runtime.signature import TensorInfo
from smelt.runtime.typical import random_arrays

from .arguments import FILLS
from .model import TVMCException, TVMCPackage, TVMCResult

Array = npt.NDArray[Any]
Inputs = Mapping[str, Any]


def run_module(
    tvmc_package: TVMCPackage,
    device: str = "cpu",
    hostname: str | None = None,
    port: int = 9090,
    rpc_key: str | None = None,
    inputs: Inputs | None = None,
    fill_mode: str = "random",
    benchmark: bool = False,
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
) -> TVMCResult:
    """Run a package.

    hostname, port  of a tracker, where there is rpc_key, else of a server; None: here
    inputs          by name; the others are made as fill_mode says
    benchmark       time it, too: `repeat` times the mean of `number` runs; end_to_end: copies in
                    and out, and the way to another machine, count
    profile         print the time of every kernel

    Raises TVMCException, LoadError, InputError, RuntimeFailure, RPCError.
    """
    if device != "cpu":
        raise TVMCException(f"--device {device}: packages run on CPUs; legal: cpu, and micro for "
                            "the folder of a project")  # fmt: skip
    if not isinstance(tvmc_package, TVMCPackage):
        raise TVMCException(
            f"tvmc.run takes what tvmc.compile gives, not a {type(tvmc_package).__name__}"
        )
    times: TimeEvaluation | None = None
    with _loaded(Path(tvmc_package.package_path), hostname, port, rpc_key) as exe:
        feeds = make_inputs(exe.inputs, inputs or {}, fill_mode)
        ordered = [feeds[i.name] for i in exe.inputs]
        if profile:
            print(exe.profile(*ordered).table())
        if benchmark and end_to_end:
            whole = wall_clock(lambda: exe.run(None, feeds))
            times = evaluate_times("tvmc run", whole, number, repeat)
        elif benchmark:
            found = exe.benchmark(*ordered, repeat=repeat, number=number)
            times = TimeEvaluation(tuple([ms / 1e3 for ms in found.results]))
        outputs = exe.run(None, feeds)
    return TVMCResult({f"output_{n}": _plain(value) for n, value in enumerate(outputs)}, times)


@contextmanager
def _loaded(path: Path, hostname: str | None, port: int, key: str | None) -> Iterator[Any]:
    """The executable of a package, here or in a session of another machine."""
    if hostname is None:
        if key is not None:
            raise TVMCException(f"--rpc-key {key}: give --rpc-tracker HOST:PORT, too")
        yield smelt.load(path)
        return
    with open_session(hostname, port, key or "") as session:
        for file in (path, path.with_name(path.name + ".weights")):
            if file.exists():
                session.upload(file)
        yield session.load_module(path.name)


def make_inputs(tensors: Sequence[TensorInfo], given: Inputs, fill_mode: str) -> dict[str, Any]:
    """All inputs by name: those given, and the others filled with "zeros", "ones" or "random".

    Raises TVMCException for a name that there is not, and an input that cannot be filled.
    """
    known, left = [t.name for t in tensors], [t for t in tensors if t.name not in given]
    if fill_mode not in FILLS:
        raise TVMCException(f"--fill-mode {fill_mode}: legal: {', '.join(FILLS)}")
    if wrong := [n for n in given if n not in known]:
        raise TVMCException(f"--inputs: the model has {unknown('input', wrong[0], known)}")
    for t in left:
        if t.kind != "tensor" or t.dtype in ("", "string"):
            raise TVMCException(f"--fill-mode: {t} is no tensor of numbers; tvmc.run takes it")
        if not all(isinstance(e, int) for e in t.shape):
            raise TVMCException(f"--fill-mode: the size of {t} is open; give it with --inputs, or "
                                "compile with --input-shapes")  # fmt: skip
    full = [
        np.full([int(e) for e in t.shape], fill_mode == "ones", numpy_dtype(t.dtype)) for t in left
    ]
    arrays = random_arrays(left, {}) if fill_mode == "random" else full
    return {**dict(zip([t.name for t in left], arrays, strict=True)), **given}


def read_inputs(path: str) -> dict[str, Array]:
    """The arrays of a .npz file. Raises TVMCException, OSError."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise
    except Exception:  # numpy has many for files that are none
        raise TVMCException(f"--inputs {path}: no .npz file of numbers, as numpy.savez writes it"
                            ) from None  # fmt: skip


def _plain(value: Any) -> Any:
    """An output as numpy has it; a sequence, or an absent value, as it is."""
    return value if value is None or isinstance(value, list) else np.asarray(value)


def top_text(output: Any, count: int) -> str:
    """The largest elements: a row of their indices, and one of their values."""
    if not isinstance(output, np.ndarray) or output.dtype.hasobject:
        raise TVMCException("--print-top: output_0 is no array of numbers")
    flat = output.reshape(-1)
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
    indices, values = [f"{n:13}" for n in order], [f"{float(flat[n]):13.6g}" for n in order]
    return f"index{''.join(indices)}\nvalue{''.join(values)}"
