"""Search tasks: a program, a target, and what is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import smelt
from smelt.artifact.kernel import KernelSpec, plain_program, program_of
from smelt.codegen.llvm import is_native, resolve
from smelt.ir.errors import CompileError
from smelt.ir.options import Options
from smelt.lowering.lower import for_target
from smelt.pipeline import as_target
from smelt.search.build import applied
from smelt.search.record import Record, machine_key
from smelt.search.record import workload_key as program_key
from smelt.search.space import Candidate, Point, ProgramSpec, RuleSpace
from smelt.target import Machine, Target, machine_of
from smelt.te import Tensor
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

from .dag import ComputeDAG, State, parameters
from .log import SOURCE, LogLine, PathLike, best_line, read_log, targets_of
from .measure import LocalBuilder, LocalRunner, MeasureCallback, ProgramBuilder, ProgramRunner
from .policy import SearchPolicy, SketchPolicy
from .workload import Maker, make_workload_key, workload_key_to_tensors


class HardwareParams:
    """What a task assumes of the machine.

    num_cores  threads that a candidate may use; all else follows from the target's words: vectors
               and lines of another width are refused, figures of GPUs mean nothing here
    """

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: str | Target | None = None,
        target_host: str | Target | None = None,
    ) -> None:
        """None: as the target has it."""
        whole = isinstance(num_cores, int) and not isinstance(num_cores, bool)
        if num_cores is not None and (not whole or num_cores < 1):
            raise CompileError(f"HardwareParams: num_cores is {num_cores!r}; legal: 1 or more")
        self.num_cores = num_cores
        self.vector_unit_bytes, self.cache_line_bytes = vector_unit_bytes, cache_line_bytes

    def check(self, machine: Machine) -> None:
        """Raises CompileError where they contradict a machine."""
        for name, value, known, how in (
            ("vector_unit_bytes", self.vector_unit_bytes, machine.vector_bytes, "-mattr, -mcpu"),
            ("cache_line_bytes", self.cache_line_bytes, machine.line_bytes, "-mcpu"),
        ):
            if value is not None and value != known:
                raise CompileError(
                    f"HardwareParams: {name} is {value}; the target's is {known}, which its words "
                    f"say: {how}; leave it out"
                )


@dataclass
class TuningOptions:
    """How to tune.

    num_measure_trials      measurements in all
    early_stopping          measurements of a task without a gain after which it is done; None: none
    num_measures_per_round  candidates that are built together, at most
    verbose                 0: print nothing; 1: a line a round
    builder, runner         "local", or a LocalBuilder, a LocalRunner
    measure_callbacks       told of what was measured: RecordToFile
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: str | ProgramBuilder = "local"
    runner: str | ProgramRunner = "local"
    measure_callbacks: Sequence[MeasureCallback] | None = None

    def __post_init__(self) -> None:
        """Check what is given."""
        for name, least in (("num_measure_trials", 0), ("num_measures_per_round", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise CompileError(f"TuningOptions: {name} is {value!r}; legal: from {least} on")
        self.builder = LocalBuilder() if self.builder == "local" else self.builder
        self.runner = LocalRunner() if self.runner == "local" else self.runner
        for name, kind in (("builder", ProgramBuilder), ("runner", ProgramRunner)):
            if not isinstance(value := getattr(self, name), kind):
                raise CompileError(
                    f"TuningOptions: {name} is {value!r}; legal: 'local', or a Local{name.title()}"
                )
        for callback in self.measure_callbacks or ():
            if not isinstance(callback, MeasureCallback):
                raise CompileError(f"TuningOptions: {callback!r} is no MeasureCallback, such as "
                                   'RecordToFile("tuned.json")')  # fmt: skip


class SearchTask:
    """A program to schedule.

    compute_dag   what it computes; workload_key: its key; target: for what machine
    desc          its name for people
    """

    def __init__(
        self,
        func: str | Maker | None = None,
        args: Sequence[Any] | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: str | Target | None = None,
        target_host: str | Target | None = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: object = None,
        task_inputs: object = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        """From a registered function with arguments, a workload key, or a ComputeDAG.

        Raises CompileError for a workload that is not registered, TargetError.
        """
        if task_inputs:
            raise CompileError(
                "SearchTask: task_inputs is refused: candidates run on numbers of the engine's "
                "(integers are 0); leave it out"
            )
        if func is not None:
            workload_key = make_workload_key(func, args or ())
        if compute_dag is None and workload_key is None:
            raise CompileError("SearchTask: give func and args, workload_key, or compute_dag")
        if compute_dag is None:
            assert workload_key is not None
            compute_dag = ComputeDAG(workload_key_to_tensors(workload_key))
        hardware = hardware_params or HardwareParams()
        self.target_host, self.hardware_params = target_host, hardware
        wanted = target if target is not None else Target.current()
        key = workload_key or compute_dag.workload_key()
        self._begin(key, as_target(wanted), desc, compute_dag)
        self.cores = hardware.num_cores or Options().cores
        hardware.check(self.machine)

    def _begin(self, key: str, target: Target, desc: str, dag: ComputeDAG | None) -> None:
        self.workload_key, self.target, self.desc = key, target, desc
        self.layout_rewrite_option = None
        self.kernel: KernelSpec | None = None
        self._dag = dag

    @classmethod
    def of_kernel(cls, spec: KernelSpec, name: str) -> SearchTask:
        """The task of a kernel of a model."""
        made = cls.__new__(cls)
        dag = ComputeDAG(plain_program(spec, "main"))
        made.target_host, made.hardware_params = None, HardwareParams()
        made._begin(dag.workload_key(), spec.target, name, dag)
        made.kernel, made.cores = spec, spec.cores
        return made

    @classmethod
    def of_line(cls, line: LogLine) -> SearchTask:
        """The task of a line of a log, whose program may be unknown here."""
        made = cls.__new__(cls)
        made.target_host, made.hardware_params = None, HardwareParams()
        made._begin(line.key, Target(line.record.target), line.workload.name, None)
        made.cores = line.cores
        return made

    @property
    def name(self) -> str:
        """For people."""
        return self.desc or self.dag_name

    @cached_property
    def dag_name(self) -> str:
        """The name in the key, or the program's."""
        return self.workload_key.split(",")[0].strip('[]" ')

    @property
    def compute_dag(self) -> ComputeDAG:
        """What it computes. Raises CompileError where a log's workload is not registered here."""
        if self._dag is None:
            self._dag = ComputeDAG(workload_key_to_tensors(self.workload_key))
        return self._dag

    @cached_property
    def resolved(self) -> Target:
        """The target, with this machine's features where it says native."""
        return resolve(self.target)

    @cached_property
    def machine(self) -> Machine:
        """What rules know of it."""
        return machine_of(self.resolved, self.cores)

    @cached_property
    def machine_key(self) -> str:
        """What tells machines apart in records."""
        return machine_key(self.resolved, self.machine)

    @cached_property
    def spec(self) -> KernelSpec | ProgramSpec:
        """What the engine schedules."""
        return self.kernel or ProgramSpec(self.compute_dag.program, self.resolved, self.cores)

    def space(self) -> RuleSpace:
        """Where the engine searches. Raises CompileError where there is nothing to choose."""
        return RuleSpace(self.spec, self.name)

    @property
    def constants(self) -> tuple[bool, ...]:
        """Which of its buffers are known at compile time."""
        return () if self.kernel is None else self.kernel.constants

    @cached_property
    def engine_key(self) -> str:
        """What tells the program apart in databases."""
        return program_key(self.compute_dag.program, self.constants)

    # ----------------------------------------------------------------------------------- states

    def program(self, body: str = "") -> PrimFunc:
        """The program that traces are for, with an algorithm in place of an operator's own."""
        if self.kernel is not None:
            return program_of(self.kernel, body)
        return for_target(self.compute_dag.program, self.resolved)

    def state_of(self, candidate: Candidate) -> State:
        """A candidate of the task's space with its steps. Raises ScheduleError, CompileError."""
        return self.state_of_point(candidate.choice[0], candidate.predicted)

    def state_of_point(self, point: Point, predicted: float = 0.0) -> State:
        """Sketches with their decisions as a state. Raises ScheduleError, CompileError."""
        trace = str(applied(self.spec, point).trace)
        record = Record(
            self.engine_key, self.machine_key, str(self.resolved), trace, point.body, str(point),
            SOURCE, predicted=predicted, version=smelt.__version__,
        )  # fmt: skip
        return State(trace, str(point), point.body, self.program(point.body), record)

    def state_of_record(self, record: Record) -> State:
        """What a record says, on this task's program."""
        program = self.program(record.body)
        return State(record.trace, record.decision, record.body, program, record)

    # ----------------------------------------------------------------------------------- the work

    def tune(
        self,
        tuning_options: TuningOptions,
        search_policy: SearchPolicy | None = None,
        adaptive_training: bool = False,
    ) -> None:
        """Measure candidates; the callbacks of the options keep what was found.

        Raises CompileError for a program in which nothing can be chosen, or another machine's.
        """
        self.check_measurable()
        policy = search_policy or SketchPolicy(self)
        policy.search(tuning_options)

    def check_measurable(self) -> None:
        """Raises CompileError for a target that does not run here."""
        if not is_native(self.resolved):
            raise CompileError(
                f"{self.name}: nothing can be measured here for {self.target}; legal: this "
                'machine\'s CPU, "llvm -mcpu=native"'
            )

    def best_state(self, log_file: PathLike, include_compatible: bool = False) -> State:
        """The best schedule in a log. Raises CompileError where it has none for this task.

        include_compatible  whether one that was found on another machine will do
        """
        lines = [x for x in read_log(log_file) if x.key == self.workload_key]
        fit = [x for x in lines if include_compatible or x.record.machine == self.machine_key]
        best = best_line(fit)
        if best is None:
            why = (f"its records of this task failed: {fit[0].record.message}" if fit else
                   f"its records of this task are for: {targets_of(lines)}" if lines else
                   "it has none of this task")  # fmt: skip
            raise CompileError(
                f"{log_file}: no schedule for {self.name} on {self.resolved} with {self.cores} "
                f"cores: {why}\n  legal: a log of this task that was tuned for this target; "
                "include_compatible=True takes another machine's"
            )
        return self.state_of_record(best.record)

    def apply_best(
        self,
        log_file: PathLike,
        include_compatible: bool = False,
        layout_rewrite_option: object = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """The best schedule in a log, and parameters: for `smelt.lower` and `smelt.build`."""
        made = self.best_state(log_file, include_compatible).schedule
        own = self._dag is not None and self.kernel is None
        return made, self.compute_dag.tensors if own else parameters(made.func)

    def print_best(self, log_file: PathLike, print_mode: str = "schedule") -> str:
        """The steps of the best schedule in a log, as Python text.

        print_mode  "schedule"; "cuda" is refused: there is no such code
        """
        if print_mode != "schedule":
            raise CompileError(
                f"print_best: print_mode is {print_mode!r}; legal: 'schedule'; the code for this "
                "machine: smelt.stage_text, smelt.build(...).get_source()"
            )
        return self.best_state(log_file).trace

    def __repr__(self) -> str:
        return f"SearchTask({self.name}, {self.target.kind.name} {self.target.mcpu})"


def create_task(
    func: str | Maker,
    args: Sequence[Any],
    target: str | Target,
    target_host: str | Target | None = None,
    hardware_params: HardwareParams | None = None,
) -> SearchTask:
    """The older name of `SearchTask(func=..., args=...)`."""
    return SearchTask(func, args, target=target, target_host=target_host,
                      hardware_params=hardware_params)  # fmt: skip


def auto_schedule(
    task: SearchTask,
    search_policy: SearchPolicy | None = None,
    tuning_options: TuningOptions | None = None,
) -> tuple[Schedule, list[Tensor]]:
    """Tune, and give the best schedule that was met; without trials the default one."""
    policy = search_policy or SketchPolicy(task)
    task.check_measurable()
    policy.search(tuning_options or TuningOptions())
    return task.compute_dag.apply_steps_from_state(policy.best_state())
