"""Tuning for boards: kernels are measured in their model, and instructions are counted."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from smelt.artifact.kernel import KernelSpec, Tuned
from smelt.artifact.model import build_kernels, compile_graph
from smelt.artifact.placing import BEST
from smelt.artifact.tight import MemoryOptions
from smelt.artifact.weights import weights_of
from smelt.byoc import compile_externals
from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import TargetError
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.transform import PassContext
from smelt.pipeline import LOWER
from smelt.runtime.errors import MicroError
from smelt.runtime.native import cores
from smelt.search.build import BuildJob, BuiltCandidate, Operand, scheduled_source
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, Outcome, Runner, judged
from smelt.search.space import Candidate, RuleSpace
from smelt.search.timer import apart, in_turns, pattern
from smelt.search.timing import INSTRUCTIONS, MICROSECONDS, Protocol, Timed
from smelt.target import Target

from .board import BOARDS, Board, find_board
from .compile import c_target
from .csource import CSource
from .model_library_format import tensor_bytes
from .program import write_program
from .session import needs_tools, start_session
from .source import c_model
from .toolchain import build


@dataclass(frozen=True)
class Place:
    """What programs are made for, and how: as of `open_board`."""

    board: Board
    level: str = "-O3"
    flags: tuple[str, ...] = ()
    wanted: str = ""


@dataclass(frozen=True)
class _Chosen:
    """A database that has a schedule for one kernel."""

    symbol: str
    schedule: Tuned

    def tuned(self, spec: KernelSpec) -> Tuned | None:
        """The schedule, where it is that kernel."""
        return self.schedule if spec.symbol == self.symbol else None


@dataclass(frozen=True)
class BoardProgram(BuiltCandidate):
    """A candidate as a program for a board: the whole model, with that schedule of one kernel.

    steps      those of the model that are the kernel, where kernels run one by one
    workspace  bytes that the model works in where they run row by row
    """

    steps: tuple[int, ...] = ()
    workspace: int = 0


class BoardSpace(RuleSpace):
    """What the rules may choose for a kernel, which is measured in its model."""

    def __init__(self, mod: IRModule, place: Place, spec: KernelSpec, name: str) -> None:
        """mod: the model as calls of kernels. Raises CompileError for a kernel in which nothing can
        be chosen."""
        super().__init__(spec, name)
        self._place, self._mod = place, mod

    def source(self, candidate: Candidate) -> Any:
        """The kernel, the decisions, the model, and what programs are made for."""
        return *super().source(candidate), self._mod, self._place


def build_program(job: BuildJob) -> BoardProgram:
    """A candidate as a program for a board. Runs in workers.

    Raises ScheduleError for a decision that cannot be applied, CompileError and MicroError for what
    cannot be compiled.
    """
    spec, choice, mod, place = job.source
    found = scheduled_source(replace(job, source=(spec, choice)))
    tuned = Tuned(found.trace, found.body)
    own = _Chosen(spec.symbol, tuned)
    options = Options(threads=1, opt_level=spec.opt_level, workers=0, database=own)
    context = PassContext.with_options(options)
    kernels = partial(build_kernels, context=context, lowering=job.steps, text=True, progress=None)
    externals = compile_externals(mod, job.target, options)
    compiled = partial(compile_graph, mod, job.target, options, kernels, externals)
    made = compiled(memory=MemoryOptions(BEST, stream=False))
    usual = compiled(memory=MemoryOptions(BEST)).memory.total
    weights, places = weights_of(made.constants(), options, LOWER, by_contents=True)
    net = c_model(made, job.target, weights, places)
    digest = hashlib.blake2b(net.source.encode(), digest_size=16).hexdigest()
    symbol = spec.with_schedule(tuned).symbol  # that of a kernel that runs backwards goes on
    steps = tuple([n for n, c in enumerate(made.calls) if c.symbol.startswith(symbol)])
    outputs = [Operand("output", t.dtype, tensor_bytes(t)) for t in net.outputs]
    return BoardProgram(_program(net, place), tuple(outputs), (), found.trace, found.body,
                        digest, True, steps=steps, workspace=value_of(usual) or 0)  # fmt: skip


@lru_cache(maxsize=4)
def _program(net: CSource, place: Place) -> bytes:
    """A model as a program; the last few are known: the defaults of all kernels are one."""
    with tempfile.TemporaryDirectory(prefix="smelt-board-") as name:
        write_program(net, place.board, Path(name))
        made = build(Path(name), place.board, place.level, place.flags, place.wanted)
        return made.read_bytes()


class _Running:
    """A program on a board."""

    def __init__(self, built: BoardProgram, board: Board, timeout: float) -> None:
        """Start it, and run it once. Raises MicroError."""
        with tempfile.TemporaryDirectory(prefix="smelt-board-") as folder:
            file = Path(folder, "program")
            file.write_bytes(built.object)
            file.chmod(0o700)
            self._session = start_session(file, board, timeout=timeout, run_timeout=timeout)
        self._inputs = []
        for n, t in enumerate(self._session.inputs):
            data = pattern(t.dtype, tensor_bytes(t), n).view(dt.to_numpy(t.dtype))
            self._inputs.append(np.resize(data, t.shape))
        self.tick = 1 / self._session.ticks_per_second
        try:
            self.run()
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Run it: its results, and the ticks of its steps. Raises MicroError."""
        self.results = [r.astype(np.float64) for r in self._session.run(*self._inputs)]
        self._ticks = [s.ticks for s in self._session.steps()]

    def seconds(self, steps: Sequence[int], again: bool = False) -> float:
        """Of a kernel, by the board's clock: the mean of its steps. Raises MicroError."""
        if again:
            self.run()
        ticks = sum([self._ticks[n] for n in steps]) / len(steps)
        return max(1.0, ticks) * self.tick

    def close(self) -> None:
        """End it."""
        self._session.close()


class BoardRunner(Runner):
    """Runs candidates on a board, each in a program of its own, and counts instructions where an
    emulator does: one run is enough then. Results are those of the default, or it is an error."""

    build = staticmethod(build_program)

    def __init__(
        self, board: str | Board, *, level: str = "-O3", flags: Sequence[str] = (),
        wanted: str = "", timeout: float = 10.0, workspace: int = 0,
    ) -> None:  # fmt: skip
        """board, level, flags, wanted  as of `open_board`
        timeout    seconds of one candidate's run
        workspace  bytes that the model may work in, where that is more than it does by default

        Raises MicroError where there is no such board, or a tool that it needs is missing.
        """
        self.place = Place(find_board(board), level, tuple(flags), wanted)
        self.timeout, self.workspace = timeout, workspace
        needs_tools(self.place.board, wanted)
        self.exact = not self.place.board.is_host
        self.unit = INSTRUCTIONS if self.exact else MICROSECONDS
        self.parallel = cores() if self.exact else 1
        self._lock = Lock()
        self._reference: tuple[str, _Running] | None = None

    def target(self, target: str | Target | None) -> str | Target:
        """What kernels are made for: the board's processor. Raises TargetError for another one."""
        board = self.place.board
        given = board.target if target is None else target
        if c_target(given).mcpu != c_target(board.target).mcpu:
            raise TargetError(f"{given} is not what the board {board.name} runs; legal: "
                              f"{board.target}, or another board: {', '.join(BOARDS)}")  # fmt: skip
        return given

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference; where instructions count, once. What needs
        more memory than the reference is refused."""
        default, built, other = reference.built, attempt.built, None
        assert isinstance(default, BoardProgram)
        assert isinstance(built, BoardProgram)
        if built.workspace > (most := max(self.workspace, default.workspace)):
            said = f"the model needs {built.workspace:,} bytes to work in then; legal: {most:,}"
            return Outcome(None, ErrorCode.SCHEDULE, said)
        try:
            first = self._started(default)
            same = built.digest == default.digest
            other = first if same else _Running(built, self.place.board, self.timeout)
            ones, others = [first.seconds(default.steps)], [other.seconds(built.steps)]
            if 0 < ones[0] - others[0] <= first.tick:  # where in a tick it began
                others = ones
            if not self.exact:
                ones, others = in_turns(partial(first.seconds, default.steps, True),
                                        partial(other.seconds, built.steps, True),
                                        protocol)  # fmt: skip
        except MicroError as e:
            if not self.exact:  # it may be the reference that has ended
                self.close()
            late = "gives no answer" in str(e)
            return Outcome(None, ErrorCode.TIMEOUT if late else ErrorCode.CRASH, str(e))
        finally:
            if other is not None and other is not first:
                other.close()
        timed = Timed(tuple(others), tuple(ones), apart(other.results, first.results))
        return judged(timed, built)

    def _started(self, built: BoardProgram) -> _Running:
        """The reference, which stays there until another one is given, unless one run is enough."""
        with self._lock:
            if self._reference is None or self._reference[0] != built.digest:
                self.close()
                self._reference = built.digest, _Running(built, self.place.board, self.timeout)
                if self.exact:
                    self._reference[1].close()
            return self._reference[1]

    def close(self) -> None:
        """End the reference."""
        if self._reference is not None:
            self._reference[1].close()
            self._reference = None
