"""Search policies: what is measured next. The engine decides; a policy says by which model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.ir.errors import CompileError
from smelt.runtime.errors import unknown
from smelt.search.space import Point, plans_of
from smelt.search.tune import FAILED

from .cost_model import CostModel, XGBModel
from .dag import State
from .log import PathLike, read_log
from .measure import MeasureCallback, MeasureInput, MeasureResult, ProgramMeasurer
from .session import Ledger, Plan, open_session, rounds

if TYPE_CHECKING:
    from .task import SearchTask


class SearchCallback:
    """What a policy is told before it begins."""

    def begin(self, policy: SearchPolicy) -> None:
        """Prepare a policy."""
        raise NotImplementedError


class PreloadMeasuredStates(SearchCallback):
    """Lets a search go on from a log: what is there is not measured again."""

    def __init__(self, filename: PathLike) -> None:
        """filename: the log."""
        self.filename = filename

    def begin(self, policy: SearchPolicy) -> None:
        """Tell the policy what the log has of its task. Raises CompileError, with file and line."""
        for line in read_log(self.filename):
            if line.key == policy.task.workload_key:
                policy.ledger.preload(line)


class PreloadCustomSketchRule(SearchCallback):
    """Refused: rules of one's own are written as smelt's."""

    def __init__(
        self, meet_condition_func: Callable[..., Any], apply_func: Callable[..., Any],
        rule_name: str = "CustomSketchRule",
    ) -> None:  # fmt: skip
        """Raise."""
        raise CompileError(
            f"PreloadCustomSketchRule: {rule_name!r} works on steps of TVM's loop states, which "
            "smelt does not have; legal: a schedule of one's own with smelt.tir.Schedule, or a "
            "template with knobs in smelt.autotvm"
        )


class SearchPolicy:
    """What is measured next, for one task."""

    only = False
    """Whether nothing but the default is measured."""

    def __init__(
        self, task: SearchTask, init_search_callbacks: Sequence[SearchCallback] | None = None,
        verbose: int = 1,
    ) -> None:  # fmt: skip
        """init_search_callbacks: what to know before."""
        self.task, self.verbose = task, verbose
        self.model: CostModel = XGBModel()
        self.seed, self.explored = 0, 0.2
        self.ledger = Ledger()
        for callback in init_search_callbacks or ():
            if not isinstance(callback, SearchCallback):
                raise CompileError(
                    f"init_search_callbacks: {callback!r} is no SearchCallback; legal: "
                    "[PreloadMeasuredStates(log)]"
                )
            callback.begin(self)

    def set_verbose(self, verbose: int) -> None:
        """0: print nothing; 1: a line a round."""
        self.verbose = verbose

    def search(self, options: Any) -> None:
        """Measure as the options say. Raises CompileError where the task cannot be tuned."""
        if not options.num_measure_trials:
            return
        verbose = min(self.verbose, options.verbose)
        self._search(options, options.num_measure_trials, options.measure_callbacks or (), verbose)

    def _search(
        self, options: Any, trials: int, callbacks: Sequence[MeasureCallback], verbose: int
    ) -> list[tuple[MeasureInput, MeasureResult]]:
        """Measure; everything that was."""
        told: list[tuple[MeasureInput, MeasureResult]] = []
        self.ledger.told = [teller(self, self.model, callbacks), lambda i, r: told.append((i, r))]
        plan = Plan(self.model, self.seed, self.explored, self.only,
                    getattr(options, "early_stopping", None))  # fmt: skip
        for line in self.model.known if isinstance(self.model, XGBModel) else ():
            if line.record not in self.ledger.records(line.workload.key):
                self.ledger.preload(line)
        session = open_session([self.task], [1.0], self.ledger, plan, options, trials)
        for _ in rounds(session, verbose):
            pass
        (task,) = session.state.tasks
        if task.status == FAILED:
            raise CompileError(f"{self.task.name} cannot be tuned: {task.note}")
        return told

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure some candidates; what is known already is not measured again."""
        options = _Round(num_measure, measurer)
        told = self._search(options, num_measure, measurer.callbacks, measurer.verbose)
        return [i for i, _ in told], [r for _, r in told]

    def best_state(self) -> State:
        """The best that was measured; the default before that."""
        best = self.ledger.winner(self.task.engine_key)
        if best is not None:
            return self.task.state_of_record(best)
        return self.task.state_of(self.task.space().default())


class _Round:
    """What a session asks of the options, for one round."""

    def __init__(self, count: int, measurer: ProgramMeasurer) -> None:
        self.num_measures_per_round = count
        self.builder, self.runner = measurer.builder, measurer.runner


def teller(
    policy: SearchPolicy, model: CostModel, callbacks: Sequence[MeasureCallback]
) -> Callable[[MeasureInput, MeasureResult], None]:
    """Tells callbacks, and the model, of a measurement."""

    def tell(inp: MeasureInput, res: MeasureResult) -> None:
        for callback in callbacks:
            callback.callback(policy, [inp], [res])
        model.update([inp], [res])

    return tell


class EmptyPolicy(SearchPolicy):
    """Measures the default schedule, and nothing else."""

    only = True

    def __init__(
        self, task: SearchTask, init_search_callbacks: Sequence[SearchCallback] | None = None
    ) -> None:
        """See SearchPolicy."""
        super().__init__(task, init_search_callbacks)


class SketchPolicy(SearchPolicy):
    """Sketches, and the decisions in them, by what a cost model expects of each."""

    DEFAULT_PARAMS: Mapping[str, float] = {
        "eps_greedy": 0.2,
        "retry_search_one_round_on_empty": 1,
        "sample_init_min_population": 50,
        "sample_init_use_measured_ratio": 0.2,
        "evolutionary_search_population": 2048,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 0.85,
        "cpu_multi_level_tiling_structure": 0,
        "gpu_multi_level_tiling_structure": 0,
        "max_innermost_split_factor": 64,
        "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
    }
    """The classic names; eps_greedy, the part of a round that is drawn at random, is the one that
    means something here: small spaces are scored whole, and need no evolution."""

    def __init__(
        self,
        task: SearchTask,
        program_cost_model: CostModel | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        """program_cost_model: the engine's (XGBModel), RandomModel, or one of the user's."""
        super().__init__(task, init_search_callbacks, verbose)
        model = XGBModel() if program_cost_model is None else program_cost_model
        if not isinstance(model, CostModel):
            raise CompileError(
                f"SketchPolicy: program_cost_model is {model!r}; legal: XGBModel(), RandomModel(), "
                "or a PythonBasedModel of your own"
            )
        for name in params or ():
            if name not in self.DEFAULT_PARAMS:
                said = unknown("parameter", name, self.DEFAULT_PARAMS)
                raise CompileError(f"SketchPolicy: {said}")
        self.model = model
        own = getattr(model, "seed", None)
        self.seed = seed if seed is not None else own if own is not None else 0
        self.explored = float((params or {}).get("eps_greedy", self.DEFAULT_PARAMS["eps_greedy"]))
        self._rng = np.random.default_rng(self.seed)

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Each sketch that fits a part, with its cheapest decision; the other parts by default."""
        found = {}
        for plan in plans_of(self.task.spec):
            first = [p.choices[0] for p in plan.parts if p.choices]
            for at, part in enumerate(plan.parts):
                for choice in part.choices:
                    chosen = [*first[:at], choice, *first[at + 1 :]]
                    point = Point(plan.body, tuple([(c.sketch.name, c.decision) for c in chosen]))
                    found[str(point)] = point
        if print_for_debug:
            print("\n".join(found))
        return [self.task.state_of_point(p) for p in found.values()]

    def sample_initial_population(self) -> list[State]:
        """Some candidates at random."""
        pool = self.task.space().pool(self._rng, [], lambda prior, _: prior)
        rows = self._rng.permutation(len(pool))[:50]
        return [self.task.state_of(pool.candidate(int(n))) for n in rows]

    def evolutionary_search(self, init_populations: Sequence[State], out_size: int) -> list[State]:
        """The candidates of which most is expected, those given among them."""
        pool = self.task.space().pool(self._rng, [], lambda prior, _: prior)
        order = np.argsort(pool.prior, kind="stable")[:out_size]
        states = [*init_populations,
                  *[self.task.state_of(pool.candidate(int(n))) for n in order]]  # fmt: skip
        scores = np.asarray(self.model.predict(self.task, states), float)
        return [states[n] for n in np.argsort(-scores, kind="stable")[:out_size]]
