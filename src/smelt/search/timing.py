"""Timing candidates: what happens in the process that runs them.

A candidate is timed in turns with a reference, which is the default schedule: what disturbs the
machine disturbs both, and their ratio is what counts. Caches are as the rest of a model leaves
them. Constants: each call reads another copy, and together the copies are as large as what a model
reads between two calls. All else was written by all threads, a part each.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import exp, log, sqrt
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from smelt.artifact.constants import ConstantCode, ConstantProgram
from smelt.codegen.llvm import link_in_process
from smelt.ir import dtype as dt
from smelt.runtime import native
from smelt.runtime.errors import RuntimeFailure

from .build import BuiltCandidate, Operand

_LINE = 64
_COPIES = 512
"""Copies of constants at most."""
_SAMPLE = 3e-4
"""Seconds of a sample at least: shorter kernels are called several times."""


@dataclass(frozen=True)
class Protocol:
    """How candidates are timed.

    cores     threads that a candidate may use
    cold      bytes that copies of constants take together: what is read between two calls
    rounds    samples of each at most, in turns; least: before it is looked at them
    hopeless  ratio to the reference's time from which on a candidate is given up after `least`
    seconds   of samples, after which no further round begins
    decide    go on until the confidence interval of the ratio says faster or not, up to `rounds`
    """

    cores: int = 1
    cold: int = 1 << 26
    rounds: int = 7
    least: int = 3
    hopeless: float = 1.1
    seconds: float = 0.05
    decide: bool = False


@dataclass(frozen=True)
class Timed:
    """What was found: seconds of runs in turns, and how far the results are apart.

    difference  the largest element's over the largest magnitude; None: not compared
    """

    seconds: tuple[float, ...]
    reference: tuple[float, ...]
    difference: float | None = None

    @property
    def relative(self) -> float:
        """The candidate's time over the reference's: the median of neighbouring samples."""
        return median([a / b for a, b in zip(self.seconds, self.reference, strict=True)])

    def interval(self) -> tuple[float, float]:
        """Bounds of the ratio of times, which were looked at after every round: wider than those of
        one look, so that a confidence of about 95 % is left."""
        return ratio_interval(self.seconds, self.reference, _LOOKS)


_LOOKS = 1.5


def ratio_interval(
    one: Sequence[float], other: Sequence[float], wider: float = 1.0
) -> tuple[float, float]:
    """Bounds of the mean log ratio of paired samples, as ratios: Student's t for 95 %, outliers
    cut. wider: by this factor."""
    logs = sorted([log(a / b) for a, b in zip(one, other, strict=True)])
    cut = len(logs) // 5
    kept = logs[cut : len(logs) - cut]
    if len(kept) < 3:
        return 0.0, float("inf")
    # what was cut would have spread: the winsorized deviation, as for trimmed means
    wide = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = stdev(wide) * (len(logs) - 1) / (len(kept) - 1) / sqrt(len(logs))
    reach = wider * _T95.get(len(kept) - 1, 2.0 if len(kept) < 60 else 1.97) * error
    return exp(fmean(kept) - reach), exp(fmean(kept) + reach)


_T95 = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
        11: 2.20, 12: 2.18, 13: 2.16, 14: 2.14, 15: 2.13, 16: 2.12, 17: 2.11, 18: 2.10,
        19: 2.09, 20: 2.09}  # fmt: skip
"""Student's t for 95 %, two-sided, by degrees of freedom."""


class _Loaded:
    """A candidate in this process, with memory to run on."""

    def __init__(
        self, built: BuiltCandidate, protocol: Protocol, memory: _Memory, side: int
    ) -> None:
        """side: 0, the reference, or 1: of two in turns the second must not find constants in the
        caches that the first has read."""
        self.built, self.memory = built, memory
        addresses, self._alive = link_in_process([built.object], [built.symbol])
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32)(addresses[built.symbol])
        self._call.argtypes = None  # type: ignore[assignment]
        self.host = native.host_of(protocol.cores)
        rotation = memory.places(built.operands, protocol.cold, side)
        self.rotation = [self._arguments(places) for places in rotation]
        self._turn = cycle(self.rotation)
        self.calls = 1
        self._threads = protocol.cores
        self._touched = [
            (place, o.bytes)
            for kind in ("scratch", "output", "input")  # what is read was written last
            for place, o in zip(rotation[0], built.operands, strict=True)
            if o.kind == kind
        ]

    def _arguments(self, addresses: Sequence[int]) -> list[Any]:
        found: list[Any] = [ctypes.c_void_p(a) for a in addresses]
        for at, value in self.built.scalars:
            found.insert(at, ctypes.c_int64(value))
        return [ctypes.byref(self.host), *found]

    def run(self, arguments: Sequence[Any]) -> None:
        """One call. Raises RuntimeFailure."""
        if status := self._call(*arguments):
            raise RuntimeFailure(f"the kernel returned the status {status}")

    def sample(self) -> float:
        """Seconds of a call: the mean of some."""
        spent, call, clock = 0.0, self._call, time.perf_counter
        for arguments in islice(self._turn, self.calls):
            for place, size in self._touched:
                native.touch(self.host, place, size, self._threads)
            start = clock()
            call(*arguments)
            spent += clock() - start
        return spent / self.calls

    def settle(self) -> float:
        """Warm up, and decide how many calls a sample is; seconds of one."""
        self.run(self.rotation[0])
        once = min(self.sample(), self.sample())
        self.calls = max(1, min(1000, round(_SAMPLE / max(once, 1e-7))))
        return once

    def results(self) -> list[Any]:
        """What it computes from the logical operands, which are the same for all candidates."""
        memory, made = self.memory, {}
        for program, code in self.built.made:
            made.update(memory.prepared(self.built.logical, program, code, self.host))
        arrays = []
        for n, o in enumerate(self.built.operands):
            given = made[n] if n in made else memory.logical(n, o)
            arrays.append(given if given is not None else _aligned(o.bytes))
        self.run(self._arguments([a.ctypes.data for a in arrays]))
        return [memory.read(a, o) for a, o in zip(arrays, self.built.operands, strict=True)
                if o.kind == "output"]  # fmt: skip


class _Memory:
    """Memory for operands, kept from candidate to candidate: fresh pages would be timed, too."""

    def __init__(self) -> None:
        self._arrays: dict[Any, Any] = {}

    def _array(self, *key: Any) -> Any:
        """Memory by position, kind, type, bytes, bound, number of copies, which follow one another,
        and side. It never moves: loaded candidates point to it."""
        if key not in self._arrays:
            _, _, dtype, size, below, copies, _ = key
            self._arrays[key] = _aligned(copies * _padded(size))
            self._arrays[key][:] = _data(dtype, copies * _padded(size), len(self._arrays), below)
        return self._arrays[key]

    def places(self, operands: Sequence[Operand], cold: int, side: int) -> list[list[int]]:
        """Addresses of all operands, for each copy of the constants: so many that those of both
        sides are `cold` bytes together."""
        each = sum([o.bytes for o in operands if o.kind == "constant"])
        copies = max(1, min(_COPIES, -(-cold // (2 * each)))) if each else 1
        found: list[list[int]] = [[] for _ in range(copies)]
        for n, o in enumerate(operands):
            own, of = (copies, side) if o.kind == "constant" else (1, 0)
            start = self._array(n, o.kind, o.dtype, o.bytes, o.below, own, of).ctypes.data
            for k, places in enumerate(found):
                places.append(start + (k % own) * _padded(o.bytes))
        return found

    def logical(self, n: int, o: Operand) -> Any:
        """A copy of the data of an operand by its place; None for scratch."""
        if o.kind == "scratch":
            return None
        array = _aligned(o.bytes)
        array[:] = _data(o.dtype, o.bytes, n, o.below)
        return array

    def prepared(
        self, logical: Sequence[Operand], program: ConstantProgram, code: ConstantCode, host: Any
    ) -> dict[int, Any]:
        """Constants in the layout of a candidate, by position."""
        addresses, alive = link_in_process([code.object], [program.symbol])
        call = ctypes.CFUNCTYPE(ctypes.c_int32)(addresses[program.symbol])
        call.argtypes = None  # type: ignore[assignment]
        read = [self.logical(n, logical[n]) for n in program.reads]
        made = [_aligned(size) for _, size in program.makes]
        scratch = [_aligned(size) for size in code.scratch]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*read, *made, *scratch)]
        if status := call(ctypes.byref(host), *pointers):
            raise RuntimeFailure(f"the preparation of constants returned the status {status}")
        del alive
        return {n: a for (n, _), a in zip(program.makes, made, strict=True)}

    def read(self, array: Any, o: Operand) -> Any:
        """Bytes as numbers that can be compared."""
        found = array.view(dt.to_numpy(o.dtype))
        return found if found.dtype == bool else found.astype(np.float64)


def _padded(size: int) -> int:
    return -(-size // _LINE) * _LINE


def _aligned(size: int) -> Any:
    """So many bytes, all zero, where a cache line begins."""
    raw = np.zeros(size + _LINE, np.uint8)
    return raw[-raw.ctypes.data % _LINE :][:size]


def _data(dtype: str, size: int, seed: int, below: int = 0) -> Any:
    """Bytes of an operand: small numbers; indices where `below` bounds them, else zeros where they
    may be indices."""
    kind = dt.to_numpy(dtype)
    count = -(-size // kind.itemsize)
    rng = np.random.default_rng(seed)
    if dt.is_float(dtype):
        # a pattern, repeated: numbers at random take longer than most kernels
        few = rng.uniform(-1, 1, min(count, 1 << 16)).astype(np.float32).astype(kind)
        values = np.resize(few, count)
    elif below:
        values = rng.integers(0, below, count).astype(kind)
    elif kind.itemsize == 1 and dtype != "bool":
        values = np.resize(rng.integers(0, 16, min(count, 1 << 16)).astype(kind), count)
    else:
        values = np.zeros(count, kind)
    return values.view(np.uint8)[:size]


# --------------------------------------------------------------------------------- in the process

_memory = _Memory()
_references: dict[str, tuple[_Loaded, list[Any]]] = {}


def ready() -> None:
    """Nothing: whoever has called it knows that this process runs."""


def time_candidate(
    reference: BuiltCandidate, candidate: BuiltCandidate, protocol: Protocol
) -> Timed:
    """Time a candidate in turns with a reference; compare results where both were built for that.

    Raises RuntimeFailure.
    """
    global _memory
    key = f"{reference.digest} {reference.compared}"
    if key not in _references:  # another program: its memory is of other sizes
        _references.clear()
        _memory = _Memory()
        loaded = _Loaded(reference, protocol, _memory, 0)
        _references[key] = loaded, loaded.results() if reference.compared else []
        loaded.settle()
    first, wanted = _references[key]
    same = candidate.digest == reference.digest
    other = first if same else _Loaded(candidate, protocol, _memory, 1)
    compared = reference.compared and candidate.compared and not same
    apart = _apart(other.results(), wanted) if compared else None
    if not same:
        other.settle()
    ones, others = _in_turns(first.sample, other.sample, protocol)
    return Timed(tuple(others), tuple(ones), apart)


def _in_turns(
    one: Callable[[], float], other: Callable[[], float], protocol: Protocol
) -> tuple[list[float], list[float]]:
    ones: list[float] = []
    others: list[float] = []
    end = time.perf_counter() + protocol.seconds
    while len(ones) < protocol.rounds:
        ones.append(one())
        others.append(other())
        if len(ones) < protocol.least:
            continue
        if protocol.decide:
            low, high = ratio_interval(others, ones, _LOOKS)
            if high < 1.0 or low > 1.0 or time.perf_counter() > end:
                break
        elif min(others) > protocol.hopeless * median(ones) or time.perf_counter() > end:
            break
    return ones, others


def _apart(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest difference over the largest magnitude, of all results."""
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        if a.dtype == bool:
            worst = max(worst, float((a != b).any()))
            continue
        with np.errstate(invalid="ignore"):
            difference = np.where(a == b, 0.0, np.abs(a - b))  # infinities may be alike
        difference = np.where(np.isnan(a) & np.isnan(b), 0.0, difference)
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        apart = float(np.max(difference, initial=0.0)) / (float(largest) or 1.0)
        worst = max(worst, float("inf") if np.isnan(apart) else apart)
    return worst


TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 0.1}
"""How far results may be apart that were summed up in another order, or by another algorithm."""


def allowed(operands: Sequence[Operand]) -> float:
    """How far a candidate's results may be from the default's: integers are equal."""
    kinds = [o.dtype for o in operands if o.kind == "output"]
    return max([TOLERANCES.get(k, 0.0) for k in kinds], default=0.0)
