"""Timing candidates: what happens on the machine that runs them.

A candidate is timed in turns with a reference, which is the default schedule: what disturbs the
machine disturbs both, and their ratio is what counts. Caches are as the rest of a model leaves
them. Constants: each call reads another copy, and together the copies are as large as what a model
reads between two calls. All else was written by all threads, a part each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import numpy as np

from smelt.artifact.constants import ConstantCode, ConstantProgram
from smelt.artifact.memory import aligned_bytes
from smelt.codegen.llvm import link_in_process
from smelt.codegen.llvm_text import ENTRY
from smelt.ir import dtype as dt
from smelt.runtime import native

from . import timing
from .build import BuiltCandidate, Operand
from .timing import Timed

_LINE = 64
_COPIES = 512
"""Copies of constants at most."""
_SAMPLE = 3e-4
"""Seconds of a sample at least: shorter kernels are called several times."""


@dataclass(frozen=True)
class Place:
    """Where an operand lies: copies of it, `stride` bytes apart, of which each call takes the next.

    memory   what a machine gives for memory
    touched  as of smelt_operand in smelt.h
    """

    memory: Any
    bytes: int
    stride: int = 0
    copies: int = 1
    touched: int = 0


class Machine(Protocol):
    """Where candidates run: this process, or one on another machine."""

    def memory(self, size: int) -> Any:
        """So many bytes, all zero, where a cache line begins."""

    def fill(self, memory: Any, pattern: Any) -> None:
        """Write some bytes into memory, again and again until it is full."""

    def read(self, memory: Any) -> Any:
        """The bytes in memory."""

    def load(self, code: bytes, built: BuiltCandidate) -> Any:
        """Object code that belongs to a candidate, ready to be called."""

    def time(
        self, entry: Any, places: Sequence[Place], sizes: Sequence[int], turn: int, calls: int,
        threads: int,
    ) -> float:  # fmt: skip
        """Seconds of so many calls; turn: the number of the first, which tells its copies. Raises
        RuntimeFailure."""


class Here:
    """This process."""

    memory = staticmethod(aligned_bytes)

    def fill(self, memory: Any, pattern: Any) -> None:
        """See Machine."""
        memory[:] = np.resize(pattern, memory.size)

    def read(self, memory: Any) -> Any:
        """See Machine."""
        return memory

    def load(self, code: bytes, built: BuiltCandidate) -> Any:
        """See Machine: the address of its entry, and what keeps it there."""
        addresses, alive = link_in_process([code], [ENTRY])
        return addresses[ENTRY], alive

    def time(
        self, entry: Any, places: Sequence[Place], sizes: Sequence[int], turn: int, calls: int,
        threads: int,
    ) -> float:  # fmt: skip
        """See Machine."""
        operands = [
            native.Operand(p.memory.ctypes.data, p.bytes, p.stride, p.copies, p.touched)
            for p in places
        ]
        return native.time_entry(entry[0], operands, sizes, turn, calls, threads)


_TOUCHED = {"scratch": 1, "output": 2, "input": 3}
"""What is read was written last."""


class _Loaded:
    """A candidate on a machine, with memory to run on."""

    def __init__(
        self, built: BuiltCandidate, protocol: timing.Protocol, memory: _Memory, side: int
    ) -> None:
        """side: 0, the reference, or 1: of two in turns the second must not find constants in the
        caches that the first has read."""
        self.built, self.memory, self._machine = built, memory, memory.machine
        self._entry = self._machine.load(built.object, built)
        self._threads = protocol.cores
        self._places = memory.places(built.operands, protocol.cold, side)
        self._turn, self._calls = 0, 1

    def sample(self) -> float:
        """Seconds of a call: the mean of some. Raises RuntimeFailure."""
        spent = self._machine.time(
            self._entry, self._places, self.built.sizes, self._turn, self._calls, self._threads
        )
        self._turn += self._calls
        return spent / self._calls

    def settle(self) -> float:
        """Warm up, and decide how many calls a sample is; seconds of one."""
        self.sample()
        once = min(self.sample(), self.sample())
        self._calls = max(1, min(1000, round(_SAMPLE / max(once, 1e-7))))
        return once

    def results(self) -> list[Any]:
        """What it computes from the logical operands, which are the same for all candidates."""
        memory, made, built = self.memory, dict[int, Any](), self.built
        for program, code in built.made:
            made.update(memory.prepared(built, program, code, self._threads))
        places = [
            Place(made[n] if n in made else memory.logical(n, o), o.bytes)
            for n, o in enumerate(built.operands)
        ]
        self._machine.time(self._entry, places, built.sizes, 0, 1, self._threads)
        return [memory.read(p.memory, o) for p, o in zip(places, built.operands, strict=True)
                if o.kind == "output"]  # fmt: skip


class _Memory:
    """Memory for operands, kept from candidate to candidate: fresh pages would be timed, too."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._arrays: dict[Any, Any] = {}

    def _array(self, *key: Any) -> Any:
        """Memory by position, kind, type, bytes, bound, number of copies, which follow one another,
        and side. It never moves: candidates are called with it."""
        if key not in self._arrays:
            _, _, dtype, size, below, copies, _ = key
            made = self.machine.memory(copies * _padded(size))
            self.machine.fill(
                made, pattern(dtype, copies * _padded(size), len(self._arrays), below)
            )
            self._arrays[key] = made
        return self._arrays[key]

    def places(self, operands: Sequence[Operand], cold: int, side: int) -> list[Place]:
        """Where all operands lie; of the constants there are so many copies that those of both
        sides are `cold` bytes together."""
        each = sum([o.bytes for o in operands if o.kind == "constant"])
        copies = max(1, min(_COPIES, -(-cold // (2 * each)))) if each else 1
        found = []
        for n, o in enumerate(operands):
            own, of = (copies, side) if o.kind == "constant" else (1, 0)
            memory = self._array(n, o.kind, o.dtype, o.bytes, o.below, own, of)
            found.append(Place(memory, o.bytes, _padded(o.bytes), own, _TOUCHED.get(o.kind, 0)))
        return found

    def logical(self, n: int, o: Operand) -> Any:
        """Memory with the data of an operand by its place; scratch is zero."""
        made = self.machine.memory(o.bytes)
        if o.kind != "scratch":
            self.machine.fill(made, pattern(o.dtype, o.bytes, n, o.below))
        return made

    def prepared(
        self, built: BuiltCandidate, program: ConstantProgram, code: ConstantCode, threads: int
    ) -> dict[int, Any]:
        """Constants in the layout of a candidate, by position. Raises RuntimeFailure."""
        machine = self.machine
        entry = machine.load(code.object, built)
        sizes = [built.logical[n].bytes for n in program.reads]
        read = [self.logical(n, built.logical[n]) for n in program.reads]
        sizes += [size for _, size in program.makes] + [*code.scratch]
        memory = [*read, *[machine.memory(size) for size in sizes[len(read) :]]]
        places = [Place(m, size) for m, size in zip(memory, sizes, strict=True)]
        machine.time(entry, places, (), 0, 1, threads)
        made = memory[len(read) :]
        return {n: m for (n, _), m in zip(program.makes, made, strict=False)}

    def read(self, memory: Any, o: Operand) -> Any:
        """What memory holds as numbers that can be compared."""
        found = self.machine.read(memory).view(dt.to_numpy(o.dtype))
        return found if found.dtype == bool else found.astype(np.float64)


def _padded(size: int) -> int:
    return -(-size // _LINE) * _LINE


def pattern(dtype: str, size: int, seed: int, below: int = 0) -> Any:
    """What so many bytes of an operand are filled with, again and again: small numbers; indices
    where `below` bounds them, else zeros where they may be indices."""
    kind = dt.to_numpy(dtype)
    # few: numbers at random take longer than most kernels
    count = max(1, min(-(-size // kind.itemsize), 1 << 16))
    rng = np.random.default_rng(seed)
    if dt.is_float(dtype):
        values = rng.uniform(-1, 1, count).astype(np.float32).astype(kind)
    elif below:
        values = rng.integers(0, below, count).astype(kind)
    elif kind.itemsize == 1 and dtype != "bool":
        values = rng.integers(0, 16, count).astype(kind)
    else:
        values = np.zeros(1, kind)
    return values.view(np.uint8)


class Timer:
    """Times candidates on a machine. The reference stays there until another one is given."""

    def __init__(self, machine: Machine) -> None:
        """machine: where."""
        self._machine = machine
        self._key = ""
        self._reference: tuple[_Loaded, list[Any]] | None = None

    def time(
        self, reference: BuiltCandidate, candidate: BuiltCandidate, protocol: timing.Protocol
    ) -> Timed:
        """Time a candidate in turns with a reference; compare results where both were built for
        that. Raises RuntimeFailure."""
        first, wanted = self._loaded(reference, protocol)
        same = candidate.digest == reference.digest
        other = first if same else _Loaded(candidate, protocol, first.memory, 1)
        compared = reference.compared and candidate.compared and not same
        difference = apart(other.results(), wanted) if compared else None
        if not same:
            other.settle()
        ones, others = in_turns(first.sample, other.sample, protocol)
        return Timed(tuple(others), tuple(ones), difference)

    def _loaded(
        self, built: BuiltCandidate, protocol: timing.Protocol
    ) -> tuple[_Loaded, list[Any]]:
        """A reference, ready, and its results."""
        key = f"{built.digest} {built.compared}"
        if self._reference is None or key != self._key:
            self._reference = None  # of another program: its memory is of other sizes
            loaded = _Loaded(built, protocol, _Memory(self._machine), 0)
            wanted = loaded.results() if built.compared else []
            loaded.settle()
            self._key, self._reference = key, (loaded, wanted)
        return self._reference


# --------------------------------------------------------------------------------- in the process

_timer = Timer(Here())


def ready() -> None:
    """Nothing: whoever has called it knows that this process runs."""


def time_candidate(
    reference: BuiltCandidate, candidate: BuiltCandidate, protocol: timing.Protocol
) -> Timed:
    """Time a candidate in this process; see Timer. Raises RuntimeFailure."""
    return _timer.time(reference, candidate, protocol)


def in_turns(
    one: Callable[[], float], other: Callable[[], float], protocol: timing.Protocol
) -> tuple[list[float], list[float]]:
    """Samples of two programs, as many as a protocol wants."""
    ones: list[float] = []
    others: list[float] = []
    end = time.perf_counter() + protocol.seconds
    while len(ones) < protocol.rounds:
        ones.append(one())
        others.append(other())
        if len(ones) < protocol.least:
            continue
        if protocol.decide:
            low, high = timing.ratio_interval(others, ones, timing.LOOKS)
            if high < 1.0 or low > 1.0 or time.perf_counter() > end:
                break
        elif min(others) > protocol.hopeless * median(ones) or time.perf_counter() > end:
            break
    return ones, others


def errors(a: Any, b: Any) -> Any:
    """|a - b| / max |b| for each element; infinite where nan stands on one side only."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinities may be alike
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    scale = np.abs(y[np.isfinite(y)]).max(initial=0.0) or 1.0
    return np.where(np.isnan(apart), np.inf, apart) / scale


def apart(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest of `errors` of all results."""
    pairs = zip(found, wanted, strict=True)
    return max([float(errors(a, b).max(initial=0.0)) for a, b in pairs], default=0.0)
