"""What a program computes, and a way to schedule it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smelt import te
from smelt.artifact.arithmetic import flops
from smelt.ir.errors import CompileError
from smelt.rules.cpu.analysis import guess
from smelt.search.record import Record
from smelt.te import Tensor
from smelt.tir.nodes import Block, Buffer, PrimFunc, walk
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace

from .workload import key_of_program, workload_key_to_tensors


@dataclass(frozen=True)
class State:
    """A way to schedule a program.

    trace     the steps: primitives as text, replayable on the program; "": as it is written
    decision  the same in short, for people
    body      the algorithm in place of an operator's own; "": its own
    program   with that algorithm, for the target
    record    what was measured or predicted of it
    """

    trace: str
    decision: str = ""
    body: str = ""
    program: PrimFunc | None = None
    record: Record | None = None

    @property
    def transform_steps(self) -> list[str]:
        """The steps, one primitive each."""
        return self.trace.splitlines()

    @cached_property
    def schedule(self) -> Schedule:
        """The scheduled program. Raises ScheduleError for steps that do not fit."""
        if self.program is None:
            raise CompileError("this state is of a log, and its program is not known; "
                               "auto_scheduler.recover_measure_input finds it")  # fmt: skip
        made = Schedule(self.program)
        if self.trace:
            Trace.from_text(self.trace).apply_to_schedule(made)
        return made

    @property
    def predicted(self) -> float:
        """Seconds by the closed form; 0: there is none."""
        return self.record.predicted if self.record is not None else 0.0

    def __str__(self) -> str:
        if self.program is None:
            return self.trace
        return script(self.schedule.func)


class ComputeDAG:
    """What a program computes, without a schedule."""

    def __init__(self, compute_or_sche: Sequence[Tensor] | str | PrimFunc) -> None:
        """From tensors (placeholders and results in order), a workload key, or a program."""
        given: Any = compute_or_sche
        if isinstance(given, str):
            given = workload_key_to_tensors(given)
        if isinstance(given, PrimFunc):
            self.program = given
            self.tensors = parameters(given)
        elif isinstance(given, list | tuple) and given and _are_tensors(given):
            self.tensors = list(given)
            self.program = te.create_prim_func(self.tensors)
        else:
            raise CompileError(
                f"ComputeDAG: {compute_or_sche!r} is a {type(compute_or_sche).__name__}; legal: a "
                "list of tensors, a workload key"
            )

    @cached_property
    def text(self) -> str:
        """The program as script."""
        return script(self.program)

    @cached_property
    def ops(self) -> list[te.Operation]:
        """The operations, producers first."""
        outputs = [t for t in self.tensors if not isinstance(t.op, te.PlaceholderOp)]
        made = te.topological(outputs)
        inputs = [t.op for t in self.tensors if isinstance(t.op, te.PlaceholderOp)]
        return [*inputs, *[op for op in made if op not in inputs]]

    @property
    def flop_ct(self) -> float:
        """Operations on elements in a run; a multiply-add counts two."""
        return float(guess(flops(self.program)))

    @property
    def is_simple(self) -> bool:
        """Whether nothing is summed up: elementwise work, whose schedules hardly differ."""
        return not any(isinstance(s, Block) and s.init is not None for s in walk(self.program.body))

    def workload_key(self) -> str:
        """A key of the program by what it computes."""
        return key_of_program(self.program, self.text)

    def get_init_state(self) -> State:
        """The program as it is written."""
        return State("", program=self.program)

    @property
    def init_state(self) -> State:
        """The program as it is written."""
        return self.get_init_state()

    def apply_steps_from_state(
        self, state: State, layout_rewrite: object = None
    ) -> tuple[Schedule, list[Tensor]]:
        """A state as a schedule and parameters, for `smelt.lower` and `smelt.build`."""
        if layout_rewrite not in (None, 0, False):
            raise CompileError(
                "apply_steps_from_state: layout_rewrite is refused: tuned models lay their weights "
                "out anew by themselves; leave it out"
            )
        made = self.with_program(state).schedule
        return made, parameters(made.func)

    def with_program(self, state: State) -> State:
        """A state that knows its program."""
        if state.program is not None:
            return state
        return State(state.trace, state.decision, state.body, self.program, state.record)

    def print_python_code_from_state(self, state: State) -> str:
        """The steps as Python text."""
        return state.trace

    def infer_bound_from_state(self, state: State) -> State:
        """The state itself: extents of loops are always known."""
        return self.with_program(state)

    def rewrite_layout_from_state(self, state: State) -> ComputeDAG:
        """Refused: weights of models are laid out by the schedules themselves."""
        raise CompileError(
            "rewrite_layout_from_state: there is no such rewriting; schedules of models lay "
            "constants out anew by themselves (transform_layout)"
        )

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputeDAG) and self.text == other.text


def _are_tensors(given: Sequence[object]) -> bool:
    return all(isinstance(t, Tensor) for t in given)


def parameters(func: PrimFunc) -> list[Tensor]:
    """Placeholders in the form of a program's buffers: what stands for its parameters."""
    return [te.placeholder(b.shape, b.type, b.name) for b in func.params if isinstance(b, Buffer)]
