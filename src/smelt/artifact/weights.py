"""The blob of a model's constants: each once, as the kernels read them."""

from __future__ import annotations

import ctypes
import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from smelt.codegen.cache import cache_key
from smelt.codegen.llvm import link_in_process
from smelt.codegen.workers import default_pool
from smelt.ir.errors import CompileError, InternalError
from smelt.ir.expr import const
from smelt.ir.options import Options
from smelt.ir.steps import Step
from smelt.lowering.instrument import check_wanted
from smelt.relax.nodes import Function, memory_key
from smelt.relax.updates import starts_of
from smelt.runtime import native

from .artifact import cached
from .constants import ConstantCode, ConstantProgram, this_machine
from .graph import Storage
from .memory import ALIGNMENT, aligned_bytes
from .reader import read

_BUILD = "smelt.artifact.constants:build_constants"


@dataclass(frozen=True)
class _Job:
    """One run of a program.

    sources  the constants
    results  by number: the bytes of memory to write
    """

    program: ConstantProgram
    sources: Sequence[np.ndarray]
    results: dict[int, np.ndarray]


class _Identity:
    """What is equal for constants that are the same.

    by_contents  whether equal contents count, not only the same memory
    """

    def __init__(self, by_contents: bool) -> None:
        self.by_contents = by_contents
        self.digests: dict[Any, bytes] = {}

    def __call__(self, s: Storage) -> tuple[Any, ...]:
        if s.made is not None:
            return (*self.job(s), s.made.result)
        data = _data(s)
        memory = memory_key(data)
        if not self.by_contents:
            return memory
        if memory not in self.digests:
            raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            self.digests[memory] = hashlib.blake2b(raw.data, digest_size=16).digest()
        return (self.digests[memory], data.dtype.str, data.shape)

    def job(self, s: Storage) -> tuple[Any, ...]:
        """What is equal for results of one run of a program."""
        assert s.made is not None
        return (s.made.program.symbol, *map(self, s.made.sources))


class Starts:
    """What inputs of a function begin as that are kept from call to call, and not as zeros."""

    def __init__(self, main: object) -> None:
        """Take the arrays as constants; anything but a function of a graph has none."""
        self.inputs = starts_of(main) if isinstance(main, Function) else {}
        self.storages = [
            Storage("constant", str(a.dtype), const(a.nbytes), data=a) for a in self.inputs.values()
        ]

    def metadata(self, places: Mapping[Storage, int]) -> dict[str, Any]:
        """Inputs with the shapes of these arrays, and where they stand among the weights."""
        pairs = zip(self.inputs.items(), self.storages, strict=True)
        listed = [(i, list(a.shape), places[s]) for (i, a), s in pairs]
        return {"starts": listed} if listed else {}


def weights_of(
    constants: Sequence[Storage], options: Options, steps: Sequence[Step], *, by_contents: bool
) -> tuple[np.ndarray, dict[Storage, int]]:
    """The blob, aligned, and where each constant stands.

    steps        the passes of programs over constants to flat loops
    by_contents  equal contents count as one: graphs of the same model have arrays of their own for
                 constants that were folded
    """
    same = _Identity(by_contents)
    offsets: dict[Storage, int] = {}
    items: dict[Any, tuple[int, Storage]] = {}
    size = 0
    for s in constants:
        key = same(s)
        if key not in items:
            items[key] = size, s
            size += -(-s.fixed_bytes // ALIGNMENT) * ALIGNMENT
        offsets[s] = items[key][0]
    blob = aligned_bytes(size)
    jobs: dict[Any, _Job] = {}
    for at, s in items.values():
        target = blob[at : at + s.fixed_bytes]
        if s.made is None:
            data = _data(s)
            np.copyto(target.view(data.dtype).reshape(data.shape), data)
        else:
            sources = [_data(x) for x in s.made.sources]
            job = jobs.setdefault(same.job(s), _Job(s.made.program, sources, {}))
            job.results[s.made.result] = target
    _run(list(jobs.values()), options, steps)
    return blob, offsets


def _data(s: Storage) -> np.ndarray:
    if s.data is None:
        raise InternalError(f"the constant {s.name} has no data")
    return s.data


def _run(jobs: Sequence[_Job], options: Options, steps: Sequence[Step]) -> None:
    """Compile what some jobs need, each program once, and carry them out on the thread pool."""
    programs = {job.program.symbol: job.program for job in jobs}
    if not programs:
        return
    codes = _compiled(programs, options, steps)
    addresses, alive = link_in_process([c.object for c in codes.values()], programs)
    host = native.host_of(options.threads or 0)
    for job in jobs:
        symbol = job.program.symbol
        _run_one(job, addresses[symbol], codes[symbol].scratch, ctypes.addressof(host))
    del alive  # the code


def _compiled(
    programs: Mapping[str, ConstantProgram], options: Options, steps: Sequence[Step]
) -> dict[str, ConstantCode]:
    """Code by symbol: from the cache, or by the workers."""

    def made(missing: Sequence[str]) -> list[ConstantCode]:
        jobs = [(programs[s], here, options.cores, steps, check_wanted()) for s in missing]
        return default_pool(options.worker_count).map(_BUILD, jobs, missing)

    here = this_machine()
    how = f"{here} {options.cores}"
    keys = {s: cache_key("constants", p.text, how) for s, p in programs.items()}
    return cached(options, keys, made, partial(read, ConstantCode), pickle.dumps)


def _run_one(job: _Job, address: int, scratch: Sequence[int], host: int) -> None:
    sources = [np.require(a, requirements=["C", "A"]) for a in job.sources]
    results = [a for _, a in sorted(job.results.items())]
    arrays = [*sources, *results, *[np.empty(size, np.uint8) for size in scratch]]
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * (1 + len(arrays)))
    status = kind(address)(host, *[a.ctypes.data for a in arrays])
    if status:
        raise CompileError(
            f"preparing constants: {job.program.symbol} gave {native.status_text(status)}"
        )
