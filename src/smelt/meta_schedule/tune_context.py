"""Tasks: a program, for a target, and where its schedules are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from smelt.artifact.arithmetic import flops
from smelt.artifact.kernel import KernelSpec, plain_program, program_of
from smelt.ir.errors import CompileError, ScheduleError
from smelt.ir.module import IRModule
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.rules.cpu.analysis import guess
from smelt.search.build import applied
from smelt.search.genes import EvolvingSpace, Gene, TraceSpace, frozen, thawed
from smelt.search.record import Record
from smelt.search.space import Candidate, ProgramSpec, RuleSpace, SearchSpace
from smelt.target import Machine, Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule, Trace

from .arg_info import ArgInfo
from .database import Workload
from .search_strategy import EvolutionarySearch, SearchStrategy
from .space_generator import PostOrderApply, SpaceGenerator, traces
from .utils import function_of, machine_for, of_kinds, resolved, threads

_LEGAL = ("'post-order-apply', a function (sch) -> None or schedules, or a SpaceGenerator: "
          "ScheduleFn(f), PostOrderApply(sch_rules=[...])")  # fmt: skip


def generator_of(space: Any) -> SpaceGenerator | None:
    """A generator from what may be given as a space; None: smelt's own rules decide.

    Raises CompileError.
    """
    if space is None or space == "post-order-apply":
        return None
    if callable(space) and not isinstance(space, str | SpaceGenerator):
        return SpaceGenerator.create(space)
    made = of_kinds("space", space, SpaceGenerator, _LEGAL)
    plain = type(made) is PostOrderApply and not made.own_rules and made.f_block_filter is None
    return None if plain else made.clone()


def strategy_of(strategy: Any) -> SearchStrategy:
    """A strategy, or the one of a name. Raises CompileError."""
    if isinstance(strategy, str):
        return SearchStrategy.create(strategy)
    return of_kinds("strategy", strategy or EvolutionarySearch(), SearchStrategy,
                    "'evolutionary', 'replay-trace', 'replay-func'")  # fmt: skip


class TuneContext:
    """A task.

    func       the program; mod: the module with it
    target     for what machine; cores: threads that it runs on
    task_name  for people; seed: of what is drawn
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        *,
        target: Any = None,
        space_generator: Any = None,
        search_strategy: Any = None,
        task_name: str = "main",
        rand_state: int = -1,
        num_threads: int | str = "physical",
        logger: Any = None,
        spec: KernelSpec | None = None,
    ) -> None:
        """spec: the kernel of a model that the program is, as the engine has it. Raises
        CompileError."""
        if spec is not None:
            mod = plain_program(spec, "main")
        if mod is None:
            raise CompileError("TuneContext: give mod, a PrimFunc or an IRModule with one")
        self.func = function_of("TuneContext", mod)
        self.mod = mod if isinstance(mod, IRModule) else IRModule({self.func.name: self.func})
        self.spec = spec
        self.target: Target = resolved(target) if spec is None else spec.target
        self.cores = threads() if spec is None else spec.cores
        self.task_name, self.logger, self.num_threads = task_name, logger, num_threads
        self.seed = max(rand_state, 0)
        self.generator = generator_of(space_generator)
        self.search_strategy = strategy_of(search_strategy)
        if self.generator is not None:
            self.generator.initialize_with_tune_context(self)

    @property
    def space_generator(self) -> SpaceGenerator:
        """What makes its designs."""
        return self.generator or PostOrderApply()

    @cached_property
    def machine(self) -> Machine:
        """What rules know of the machine."""
        return machine_for(self.target)

    @cached_property
    def workload(self) -> Workload:
        """The program as databases know it."""
        return Workload(self.mod, () if self.spec is None else self.spec.constants)

    @property
    def key(self) -> str:
        """What tells the program apart."""
        return self.workload.program.key

    @cached_property
    def args_info(self) -> list[ArgInfo]:
        """What its arguments are; of programs with symbolic shapes nothing is said."""
        try:
            return ArgInfo.from_prim_func(self.func)
        except CompileError:
            return []

    @property
    def work(self) -> float:
        """What a run computes, in operations."""
        return float(guess(flops(self.func))) + 1.0

    def generate_design_space(self) -> list[Schedule]:
        """Its designs."""
        return self.space_generator.generate_design_space(self.mod)

    def space(self) -> SearchSpace:
        """Where the engine looks. Raises CompileError where there is nothing to choose."""
        kernel = self.spec
        if self.generator is None or (kernel is not None and kernel.updates >= 0):
            given = kernel or ProgramSpec(self.func, self.target, self.cores)
            return RuleSpace(given, self.task_name)
        return SampledSpace(self, self.generator)

    # ------------------------------------------------------------------------------ schedules

    def schedule_of(self, space: SearchSpace, candidate: Candidate) -> Schedule:
        """A candidate's schedule. Raises ScheduleError, CompileError."""
        if isinstance(space, EvolvingSpace):
            return space.schedule(candidate.choice)
        assert isinstance(space, RuleSpace)
        return applied(space.spec, candidate.choice[0])

    def replayed(self, record: Record) -> Schedule:
        """What a record says, on the program."""
        body = self.spec is not None and record.body
        sch = Schedule(program_of(self.spec, record.body) if body and self.spec else self.func)
        Trace.from_text(record.trace).apply_to_schedule(sch)
        return sch

    # ------------------------------------------------------------------------------- refused

    def pre_tuning(self, *args: Any, **keywords: Any) -> None:
        """Refused: the engine's session searches."""
        raise CompileError("TuneContext.pre_tuning: the search is the engine's; legal: "
                           "tune_tasks(tasks=[context], task_weights=[1.0], ...)")  # fmt: skip

    generate_measure_candidates = notify_runner_results = post_tuning = pre_tuning

    def clone(self) -> Self:
        """A task of its own for the same program."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.generator = None if self.generator is None else self.generator.clone()
        return made


class SampledSpace(TraceSpace):
    """The designs of a generator; its postprocessors finish each candidate, its mutators change
    decisions."""

    def __init__(self, context: TuneContext, generator: SpaceGenerator) -> None:
        """Raises CompileError for a generator without designs."""
        made: Sequence[Trace] = traces(generator.generate_design_space(context.mod))
        if not made:
            raise CompileError(f"{context.task_name}: the space has no designs; legal: one at "
                               "least, such as the schedule as it was given")  # fmt: skip
        super().__init__(context.func, made, context.target, context.machine,
                         partial(lower, steps=LOWER), context.task_name)  # fmt: skip
        self.workload = context.workload.program
        self.generator, self.replays = generator, context.search_strategy.replays

    def schedule(self, gene: Gene) -> Schedule:
        """The design with these decisions, finished. Raises ScheduleError."""
        sch = super().schedule(gene)
        if self.generator.postprocs:
            sch.enter_postproc()
        for p in self.generator.postprocs:
            if not p.apply(sch):
                raise ScheduleError(f"the postprocessor {type(p).__name__} refuses it")
        return sch

    def mutated(self, gene: Gene, rng: np.random.Generator) -> Gene:
        """One decision made otherwise: by a mutator, or drawn anew."""
        probs = list(self.generator.mutator_probs.items())
        drawn = rng.random()
        for mutator, part in probs:
            drawn -= part
            if drawn < 0 and (found := self._by(mutator, gene, rng)) is not None:
                return found
        return super().mutated(gene, rng)

    def _by(self, mutator: Any, gene: Gene, rng: np.random.Generator) -> Gene | None:
        """A gene whose decisions a mutator has changed; None where it changed none."""
        decisions = iter(gene[1:])
        insts = [i.with_decision(thawed(next(decisions))) if i.kind.is_sampling else i
                 for i in self.designs[gene[0]].insts]  # fmt: skip
        made = mutator.apply(Trace(insts))
        if made is None:
            return None
        found = (gene[0], *[frozen(i.decision) for i in made.insts if i.kind.is_sampling])
        if len(found) != len(gene) or found == gene:
            return None
        return self._settled(found, rng) if None in found else found

    def _child(self, parents: Sequence[Gene], rng: np.random.Generator) -> Gene:
        return self.drawn(rng) if self.replays else super()._child(parents, rng)
