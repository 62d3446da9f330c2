"""From a candidate to object code. Runs in workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from smelt.artifact.constants import (
    ConstantCode,
    ConstantProgram,
    Preparation,
    build_constants,
    preparations,
)
from smelt.artifact.group import in_place
from smelt.artifact.kernel import KernelSpec, Tuned, plain_program, replayed
from smelt.codegen.llvm import is_native, object_code
from smelt.codegen.llvm_text import emit_module
from smelt.codegen.workers import WorkerPool, default_pool
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, ScheduleError
from smelt.ir.expr import Cast, Expr, Max, Min, Select
from smelt.ir.steps import Step
from smelt.lowering.lower import lower
from smelt.rules.cpu import Plan
from smelt.rules.cpu.analysis import guess
from smelt.runtime.native import cores
from smelt.target import Target
from smelt.target.processor import needed_features
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, walk
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule

from .genes import ScheduledProgram
from .record import ErrorCode
from .space import Point, ProgramSpec, plans_of

_SYMBOL = "candidate"


@dataclass(frozen=True)
class Operand:
    """A buffer that a candidate is called with; sizes that are symbolic are typical ones.

    kind   "input", "constant", "output" or "scratch"
    below  integers that are indices: what they are less than; 0: they may be none
    """

    kind: str
    dtype: str
    bytes: int
    below: int = 0


@dataclass(frozen=True)
class BuiltCandidate:
    """A candidate as object code, which is called as `smelt_entry` of smelt.h.

    operands  the tensors; sizes: those that are symbolic, in order
    trace     the schedule, replayable; body: as of Record
    digest    equal for candidates that are the same code
    compared  whether its results can be compared with those of others: it has what is needed to run
              on the same values
    logical   the operands of the program without a schedule
    made      what makes constants in the candidate's layout from those
    triple    of the machine it is for; "": this one; features: what it needs of a processor
    """

    object: bytes
    operands: tuple[Operand, ...]
    sizes: tuple[int, ...]
    trace: str
    body: str
    digest: str
    compared: bool = False
    logical: tuple[Operand, ...] = ()
    made: tuple[tuple[ConstantProgram, ConstantCode], ...] = ()
    triple: str = ""
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildJob:
    """What a worker is asked for.

    source   KernelSpec with a Point or a Tuned, ProgramSpec with a Point, or a ScheduledProgram
    steps    the passes to flat loops
    compare  whether what makes constants is compiled, too
    """

    source: Any
    target: Target
    steps: tuple[Step, ...]
    cores: int
    compare: bool = False


def build_candidate(job: BuildJob) -> BuiltCandidate:
    """Schedule, lower and compile a candidate.

    Raises ScheduleError for a decision that cannot be applied, CompileError and InternalError for a
    program that cannot be compiled.
    """
    found = scheduled_source(job)
    flat = lower(found.func.with_attrs(name=_SYMBOL), job.steps)
    text = emit_module([flat], job.target, entry=True)
    made = tuple([(w, build_constants(w, job.target, job.cores, job.steps, entry=True))
                  for w in found.wanted if job.compare])  # fmt: skip
    below = _index_bounds(found.plain)
    digest = hashlib.blake2b(f"{text}\n{found.wanted}".encode(), digest_size=16).hexdigest()
    return BuiltCandidate(
        object_code(job.target, text, _SYMBOL), _operands(flat, found.constants, below),
        _sizes(flat), found.trace, found.body, digest, job.compare,
        _operands(found.plain, found.constants, below), made,
        "" if is_native(job.target) else job.target.mtriple, tuple(needed_features(job.target)),
    )  # fmt: skip


@dataclass(frozen=True)
class ScheduledSource:
    """A source's program with its schedule, and without; what it wants done with constants."""

    func: PrimFunc
    trace: str
    body: str
    plain: PrimFunc
    constants: tuple[bool, ...] = ()
    wanted: tuple[ConstantProgram, ...] = ()


def scheduled_source(job: BuildJob) -> ScheduledSource:
    """What a job is about. Raises ScheduleError for a decision that cannot be applied."""
    if isinstance(job.source, ScheduledProgram):
        given = job.source
        return ScheduledSource(given.func, given.trace, "", given.plain)
    spec, choice = job.source
    if isinstance(spec, ProgramSpec):
        plain, updates = spec.func, -1
    else:
        plain, updates = plain_program(spec), spec.updates
    sch = replayed(spec, choice) if isinstance(choice, Tuned) else applied(spec, choice)
    func = sch.func if updates < 0 else in_place(sch.func, updates)
    wanted = tuple(map(Preparation.program, preparations(sch)))
    return ScheduledSource(func, str(sch.trace), choice.body, plain, spec.constants, wanted)


def applied(
    spec: KernelSpec | ProgramSpec, point: Point, known: Sequence[Plan] | None = None
) -> Schedule:
    """A program with these decisions. Raises ScheduleError, CompileError.

    known  what the rules may choose, where that is at hand
    """
    known = plans_of(spec) if known is None else known
    found = next((p for p in known if p.body == point.body), None)
    if found is None or len(found.parts) != len(point.parts):
        raise CompileError(f"the program's rules have no such parts: {point}")
    sch = found.schedule.copy()
    for part, (name, decision) in zip(found.parts, point.parts, strict=True):
        every = part.scored if any(k.name == name for k, _ in part.scored) else part.searched
        space = next((s.space for k, s in every if k.name == name), None)
        if space is None:
            raise CompileError(f"the sketch {name} does not fit {', '.join(part.site.blocks)}")
        space.build(sch, decision)
    return sch


def _index_bounds(plain: PrimFunc) -> dict[int, int]:
    """Of operands whose elements are indices as they are, and of nothing else: by position the
    least extent."""
    found: dict[int, int] = {}
    others: set[int] = set()
    stored = [(s.buffer, s.indices) for s in walk(plain.body) if isinstance(s, BufferStore)]
    for buffer, indices in [*stored, *[(x.buffer, x.indices) for x in loads(plain.body)]]:
        for index, extent in zip(indices, buffer.shape, strict=True):
            read = {x.buffer for x in loads(index)}
            for n, b in enumerate(plain.buffers):
                if b in read:
                    found[n] = min(found.get(n, guess(extent)), guess(extent))
                    others.update([] if _is_element(index, b) else [n])
    return {n: limit for n, limit in found.items() if n not in others}


def _is_element(index: Expr, b: Buffer) -> bool:
    """Whether an index is an element of a buffer, or that and something else where it is negative
    or too large."""
    match index:
        case BufferLoad():
            return index.buffer is b
        case Cast(value=value):
            return _is_element(value, b)
        case Select(true_value=one, false_value=other):
            return _is_element(one, b) or _is_element(other, b)
        case Min(a=one, b=other) | Max(a=one, b=other):
            return _is_element(one, b) or _is_element(other, b)
    return False


def _operands(
    func: PrimFunc, constants: Sequence[bool], below: Mapping[int, int]
) -> tuple[Operand, ...]:
    stored = {s.buffer for s in walk(func.body) if isinstance(s, BufferStore)}
    buffers = func.buffers
    scratch = len(buffers) - int(func.attrs.get("workspaces", 0))
    found = []
    for n, b in enumerate(buffers):
        constant = n < len(constants) and constants[n]
        kind = "constant" if constant else "output" if b in stored else "input"
        size = prod(map(guess, b.shape)) * dt.bytes_of(b.type)
        limit = below.get(n, 0) if kind == "input" else 0
        found.append(Operand("scratch" if n >= scratch else kind, b.type, size, limit))
    return tuple(found)


def _sizes(func: PrimFunc) -> tuple[int, ...]:
    return tuple([guess(p) for p in func.params if not isinstance(p, Buffer)])


# --------------------------------------------------------------------------------------- builders


class BuildFuture(Protocol):
    """What `concurrent.futures` and dask return."""

    def result(self) -> Any:
        """The outcome, or its exception."""


class BuildExecutor(Protocol):
    """A pool that builds: smelt's workers, any of `concurrent.futures`, a dask cluster's."""

    def submit(self, fn: Any, /, *args: Any) -> BuildFuture:
        """Call a function of a module somewhere."""


class LocalExecutor:
    """smelt's own workers on this machine."""

    def __init__(self, workers: int | None = None, pool: WorkerPool | None = None) -> None:
        """workers: how many; None: one a processor."""
        self.pool = pool or default_pool(cores() if workers is None else workers)

    def submit(self, fn: Any, /, *args: Any) -> BuildFuture:
        """Call a function of a module in a worker."""
        return self.pool.submit(f"{fn.__module__}:{fn.__qualname__}", args, "a candidate")


def build_all(
    executor: BuildExecutor,
    jobs: Sequence[BuildJob],
    build: Callable[[BuildJob], BuiltCandidate] = build_candidate,
) -> list[BuiltCandidate | BaseException]:
    """Every job's outcome, in order; what fails is an exception in its place."""
    futures = [executor.submit(build, j) for j in jobs]
    found: list[BuiltCandidate | BaseException] = []
    for f in futures:
        try:
            found.append(f.result())
        except KeyboardInterrupt:
            raise
        except Exception as e:  # whatever a cluster has for it: it costs one candidate
            found.append(e)
    return found


def error_of(e: BaseException) -> tuple[ErrorCode, str]:
    """A failed build as an error code and the first lines of what was said."""
    code = ErrorCode.SCHEDULE if isinstance(e, ScheduleError) else ErrorCode.COMPILE
    return code, "\n".join(str(e).splitlines()[:4]) or type(e).__name__
