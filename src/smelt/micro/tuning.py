"""Tuning for boards: candidates become programs that serve one kernel, and instructions count."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from smelt.artifact.graph import calls_in, plan_graph
from smelt.artifact.kernel import KernelSpec, Tuned
from smelt.artifact.model import build_kernels, compile_graph, kernel_specs
from smelt.artifact.weights import weights_of
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, TargetError
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.transform import PassContext
from smelt.ir.types import TensorType
from smelt.pipeline import LOWER
from smelt.relax import nodes as relax
from smelt.relax.nodes import RelaxExpr
from smelt.relax.transform.choose_layouts import layout_of
from smelt.relax.updates import given
from smelt.runtime.errors import MicroError
from smelt.runtime.native import cores
from smelt.search.build import BuildJob, BuiltCandidate, scheduled_source
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, Outcome, Runner, judged
from smelt.search.space import Candidate, RuleSpace
from smelt.search.timer import apart, in_turns, pattern
from smelt.search.timing import INSTRUCTIONS, MICROSECONDS, Protocol, Timed
from smelt.target import Target
from smelt.topi.registry import Op

from .board import BOARDS, Board, find_board
from .compile import c_target
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


class BoardSpace(RuleSpace):
    """What the rules may choose for a kernel of a model, which is measured with its constants."""

    def __init__(self, mod: IRModule, place: Place, spec: KernelSpec, name: str) -> None:
        """mod: the model as calls of kernels. Raises CompileError for a kernel that is not whole by
        itself."""
        super().__init__(spec, name)
        self._place, self._mod = place, alone(mod, spec)

    def source(self, candidate: Candidate) -> Any:
        """The program, the decisions, and what a program for the board is made of."""
        return *super().source(candidate), self._mod, self._place


def alone(mod: IRModule, spec: KernelSpec) -> IRModule:
    """A model that is one kernel of another, with its constants; inputs have the numbers of its
    operands. Raises CompileError where there is no such model."""
    options = Options(threads=spec.cores, opt_level=spec.opt_level)
    for call, callee in calls_in(mod["main"], mod.functions):
        if callee is spec.group:
            params: dict[RelaxExpr, relax.Var] = {}
            args = [_operand(a, n, params) for n, a in enumerate(given(call))]
            main = relax.Function(tuple(params.values()), call.replace(args=tuple(args)))
            made = IRModule({"main": main, call.callee: callee}, {"name": "kernel"})
            first = kernel_specs(plan_graph(made), spec.target, options)[0]
            if first is not None and first.symbol == spec.symbol:
                return made
    raise CompileError("a kernel that only copies is not measured by itself")


def _operand(v: RelaxExpr, n: int, params: dict[RelaxExpr, relax.Var]) -> RelaxExpr:
    """An operand of a call, where results of other kernels are parameters that lie in memory as
    these do."""
    if isinstance(v, relax.Constant):
        return v
    if isinstance(v, relax.Call) and isinstance(v.op, Op):  # a view
        return v.replace(args=tuple([_operand(a, n, params) for a in given(v)]))
    kind = relax.tensor_type_of(v)
    order: Sequence[int] = range(kind.rank)
    source, result = (v.value, v.index) if isinstance(v, relax.TupleGetItem) else (v, 0)
    if isinstance(source, relax.Call):
        order = layout_of(source, result, kind.rank)
    stored = TensorType(tuple([kind.shape[d] for d in order]), kind.dtype)
    x = params.setdefault(v, relax.Var(f"x{n}", stored))
    return relax.call("transpose", x, axes=tuple([order.index(d) for d in range(kind.rank)]))


def build_program(job: BuildJob) -> BuiltCandidate:
    """A candidate as a program for a board. Runs in workers.

    Raises ScheduleError for a decision that cannot be applied, CompileError and MicroError for what
    cannot be compiled.
    """
    spec, choice, mod, place = job.source
    found = scheduled_source(replace(job, source=(spec, choice)))
    own = _Chosen(spec.symbol, Tuned(found.trace, found.body))
    options = Options(threads=1, opt_level=spec.opt_level, workers=0, database=own)
    context = PassContext.with_options(options)
    kernels = partial(build_kernels, context=context, lowering=job.steps, text=True, progress=None)
    made = compile_graph(mod, job.target, options, kernels)
    weights, places = weights_of(made.constants(), options, LOWER, by_contents=True)
    model = c_model(made, job.target, weights, places)
    with tempfile.TemporaryDirectory(prefix="smelt-board-") as folder:
        write_program(model, place.board, Path(folder))
        program = build(Path(folder), place.board, place.level, place.flags, place.wanted)
        code = program.read_bytes()
    digest = hashlib.blake2b(model.source.encode(), digest_size=16).hexdigest()
    return BuiltCandidate(code, found.operands(found.plain), (), found.trace, found.body, digest,
                          compared=True)  # fmt: skip


class _Program:
    """A candidate that runs on a board."""

    def __init__(self, built: BuiltCandidate, board: Board, timeout: float) -> None:
        """Start it, and run it once. Raises MicroError."""
        with tempfile.TemporaryDirectory(prefix="smelt-board-") as folder:
            file = Path(folder, "program")
            file.write_bytes(built.object)
            file.chmod(0o700)
            self._session = start_session(file, board, timeout=timeout, run_timeout=timeout)
        self._inputs = []
        for t in self._session.inputs:
            n, size = int(t.name.removeprefix("x")), math.prod(t.shape) * dt.bytes_of(t.dtype)
            data = np.resize(pattern(t.dtype, size, n, built.operands[n].below), size)
            self._inputs.append(data.view(dt.to_numpy(t.dtype)).reshape(t.shape))
        try:
            self.first = self.sample()
        except BaseException:
            self.close()
            raise

    def sample(self) -> float:
        """Seconds of a run by the board's clock. Raises MicroError."""
        self.results = [r.astype(np.float64) for r in self._session.run(*self._inputs)]
        return max(1, self._session.steps()[0].ticks) / self._session.ticks_per_second

    def close(self) -> None:
        """End it."""
        self._session.close()


class BoardRunner(Runner):
    """Runs candidates on a board, each in a program of its own, and counts instructions where an
    emulator does: one run is enough then. Results are those of the default, or it is an error."""

    name = "board"
    build = staticmethod(build_program)

    def __init__(
        self, board: str | Board, *, level: str = "-O3", flags: Sequence[str] = (),
        wanted: str = "", timeout: float = 10.0,
    ) -> None:  # fmt: skip
        """board, level, flags, wanted  as of `open_board`
        timeout  seconds of one candidate's run

        Raises MicroError where there is no such board, or a tool that it needs is missing.
        """
        self.place = Place(find_board(board), level, tuple(flags), wanted)
        self.timeout = timeout
        needs_tools(self.place.board, wanted)
        self.exact = not self.place.board.is_host
        self.unit = INSTRUCTIONS if self.exact else MICROSECONDS
        self.parallel = cores() if self.exact else 1
        self._lock = Lock()
        self._reference: tuple[str, _Program] | None = None

    def target(self, target: str | Target | None) -> str | Target:
        """What kernels are made for: the board's processor. Raises TargetError for another one."""
        board = self.place.board
        given = board.target if target is None else target
        if c_target(given).mcpu != c_target(board.target).mcpu:
            raise TargetError(f"{given} is not what the board {board.name} runs; legal: "
                              f"{board.target}, or another board: {', '.join(BOARDS)}")  # fmt: skip
        return given

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference; where instructions count, once."""
        assert reference.built is not None
        assert attempt.built is not None
        other = None
        try:
            first = self._started(reference.built)
            same = attempt.built.digest == reference.built.digest
            other = first if same else _Program(attempt.built, self.place.board, self.timeout)
            ones, others = [first.first], [other.first]
            if not self.exact:
                ones, others = in_turns(first.sample, other.sample, protocol)
        except MicroError as e:
            if not self.exact:  # it may be the reference that has ended
                self.close()
            late = "gives no answer" in str(e)
            return Outcome(None, ErrorCode.TIMEOUT if late else ErrorCode.CRASH, str(e))
        finally:
            if other is not None and other is not first:
                other.close()
        timed = Timed(tuple(others), tuple(ones), apart(other.results, first.results))
        return judged(timed, attempt.built)

    def _started(self, built: BuiltCandidate) -> _Program:
        """The reference, which stays there until another one is given, unless one run is enough."""
        with self._lock:
            if self._reference is None or self._reference[0] != built.digest:
                self.close()
                self._reference = built.digest, _Program(built, self.place.board, self.timeout)
                if self.exact:
                    self._reference[1].close()
            return self._reference[1]

    def close(self) -> None:
        """End the reference."""
        if self._reference is not None:
            self._reference[1].close()
            self._reference = None
