"""Tuning a model: its kernels as tasks, and what was found."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from smelt.artifact.arithmetic import flops
from smelt.artifact.artifact import Artifact
from smelt.artifact.graph import GraphPlan, plan_graph
from smelt.artifact.kernel import KernelSpec, plain_program
from smelt.artifact.model import kernel_specs
from smelt.codegen.llvm import is_native, resolve
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.sizes import Extent, plain_shapes
from smelt.ir.steps import Step
from smelt.micro.compile import OWN_PASSES, c_target, check_sizes, fused_for_c, lowering_for
from smelt.micro.tuning import BoardRunner, BoardSpace
from smelt.pipeline import LOWER, as_target, checked_context, compile, compile_artifact, fuse
from smelt.relax.updates import Kept, declare_states
from smelt.rules.cpu.analysis import guess
from smelt.runtime.errors import SmeltError
from smelt.runtime.executable import Executable
from smelt.runtime.report import ProfileReport
from smelt.runtime.typical import likely_sizes, random_arrays, typical_sizes
from smelt.search.build import BuildExecutor
from smelt.search.database import Database, MemoryDatabase
from smelt.search.runner import Runner
from smelt.search.space import RuleSpace, SearchSpace
from smelt.search.stores import open_database
from smelt.search.tune import Session, Settings, State, Task
from smelt.target import Target

Opened = Callable[[KernelSpec, str], SearchSpace]
"""What makes the space of a kernel with a name."""


def extract_tasks(
    model: Any,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    state: Mapping[str, Kept] | None = None,
    options: Options | None = None,
) -> list[Task]:
    """The kernels of a model as tasks: equal ones are one, weighted by how often they are called.

    Sizes that are likely make tasks of their own, named after them. The arguments are those of
    `compile`. Kernels with the user's own schedule rules are left out. Raises what `compile` does.
    """
    resolved = resolve(as_target(target))
    context = checked_context("smelt.tune", options, resolved)
    plain, sizes = plain_shapes(shapes)
    imported = declare_states(import_model(model, plain), state)
    mod, declared = fuse(imported, context, None, sizes)
    graphs = {"": mod, **{_named(v.texts): v.mod for v in declared.variants}}
    found: dict[str, Task] = {}
    for sizes_text, graph in graphs.items():
        for symbol, task in _tasks(graph, resolved, context.options, sizes_text).items():
            found.setdefault(symbol, task)
    return [*found.values()]


def board_tasks(
    model: Any, target: str | Target | None, runner: BoardRunner, *,
    shapes: Mapping[str, Sequence[Extent]] | None = None, options: Options | None = None,
) -> list[Task]:  # fmt: skip
    """The same for a board: kernels as `compile_c` makes them. Raises what it does."""
    context = checked_context("smelt.tune", options, others=OWN_PASSES)
    words = runner.target(target)
    one, mod, declared = fused_for_c(model, words, context, shapes)
    check_sizes(plan_graph(mod), declared)
    space = partial(BoardSpace, mod, runner.place)
    return [*_tasks(mod, c_target(words), one.options, "", space).values()]


def _named(sizes: Mapping[str, int | str]) -> str:
    return f" ({', '.join([f'{n}={v}' for n, v in sizes.items()])})"


def _tasks(
    mod: IRModule, target: Target, options: Options, suffix: str, space: Opened = RuleSpace
) -> dict[str, Task]:
    """The kernels of a graph after GRAPH by symbol; suffix: of their names."""
    plan = plan_graph(mod)
    own = [s for s in kernel_specs(plan, target, replace(options, database=None)) if s is not None]
    calls, cold = Counter([s.symbol for s in own]), _constant_bytes(plan)
    unique = {s.symbol: s for s in own if s.prepared is None}
    return {k: _task(s, calls[k], cold, suffix, space) for k, s in unique.items()}


def _constant_bytes(plan: GraphPlan) -> int:
    """What a run reads of constants."""
    places = [x for launch in plan.launches for x in launch.inputs]
    constants = {id(x.storage): x.storage for x in places if x.storage.kind == "constant"}
    return sum([guess(s.bytes) for s in constants.values()])


def _task(spec: KernelSpec, calls: int, cold: int, suffix: str, space: Opened) -> Task:
    name = str(spec.group.attrs.get("name", spec.symbol)) + suffix
    work = float(guess(flops(plain_program(spec)))) + sum([_elements(v) for v in spec.inputs])
    return Task(partial(space, spec, name), name, float(calls), work, spec.cores, cold=cold)


def _elements(view: Any) -> float:
    count = 1.0
    for e in view.shape:
        count *= guess(e)
    return count


def tune(
    model: Any,
    database: str | os.PathLike[str] | Database,
    target: str | Target | None = None,
    *,
    trials: int | None = None,
    minutes: float | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    state: Mapping[str, Kept] | None = None,
    options: Options | None = None,
    settings: Settings | None = None,
    kernel: str | None = None,
    runner: Runner | None = None,
    executor: BuildExecutor | None = None,
    progress: Callable[[State], None] | None = None,
) -> State:
    """Look for faster schedules of a model's kernels by measuring, and keep them in a database:
    `smelt.compile(model, database=...)` uses them. What was found earlier is not measured again.

    model, target, shapes, state, options  as for `compile`
    trials, minutes  when to stop, at the latest; without either, after five minutes
    settings  more of how to tune; trials and minutes come in
    kernel    the name of the only one to tune
    runner    what measures; None: a process on this machine; smelt.micro.BoardRunner: a board, for
              which kernels are made as `compile_c` does
    executor  what builds: any of `concurrent.futures`, a dask cluster's; None: smelt's workers
    progress  called with the state after every batch

    Raises what `compile` does, CompileError for a kernel that there is not, and to measure for
    another machine without a runner there.
    """
    tasks, steps = _extracted(model, target, shapes, state, options, runner)
    seconds = None if minutes is None else minutes * 60
    if trials is None and seconds is None and settings is None:
        seconds = 300.0
    given = settings or Settings(trials, seconds)
    given = replace(given, trials=trials or given.trials, seconds=seconds or given.seconds)
    whole = runner is None or runner.whole
    if given.seconds is not None and whole:  # what is left is for the model as a whole
        given = replace(given, seconds=max(0.85 * given.seconds, given.seconds - _LEFT))
    if kernel is not None:
        tasks = named([kernel], tasks)
    kept = open_database(database)
    session = Session(tasks, kept, given, steps, runner, executor)
    for so_far in session.run():
        if progress is not None:
            progress(so_far)

    def made(how: Callable[..., Any], found: Database) -> Any:
        chosen = replace(options or Options(), database=found)
        return how(model, target, shapes=shapes, state=state, options=chosen)

    if runner is None:
        refute_slow(session, partial(made, compile))
    elif whole:
        _refute_there(session, runner, partial(made, compile_artifact))
    if whole and progress is not None:
        progress(session.state)
    return session.state


def _extracted(
    model: Any, target: str | Target | None, shapes: Mapping[str, Sequence[Extent]] | None,
    state: Mapping[str, Kept] | None, options: Options | None, runner: Runner | None,
) -> tuple[list[Task], Sequence[Step]]:  # fmt: skip
    """The tasks of a model, and the passes to flat loops."""
    if isinstance(runner, BoardRunner):
        if state:
            raise CompileError("C source keeps nothing from call to call; state: leave it out")
        tasks = board_tasks(model, target, runner, shapes=shapes, options=options)
        return tasks, tuple(lowering_for(c_target(runner.target(target))))
    resolved = resolve(as_target(target))
    if runner is None and not is_native(resolved):
        raise CompileError(
            f"nothing can be measured here for {resolved}; legal: this machine's CPU, or a runner"
        )
    return extract_tasks(model, resolved, shapes=shapes, state=state, options=options), LOWER


_LEFT = 20.0
"""Seconds of a long session in which winners are looked at in the model."""
_TURNS, _SECONDS = 15, 4.0
"""Runs of both models, in turns; seconds after which there are no more, but for five."""
_WORTH = 0.99


def refute_slow(session: Session, compiled: Callable[[Database], Executable]) -> None:
    """Take winners back that are no faster where they are used: in the model other kernels have
    left other pieces of their operands in other caches. If it is no faster as a whole, all of them.

    compiled  the model with the schedules of a database
    """
    state, default = session.state, compiled(MemoryDatabase())
    sizes = [s for s in likely_sizes(default) if not typical_sizes(default, s)]
    told = [i.kind == "tensor" and i.dtype not in ("", "string") for i in default.inputs]
    if not sizes or not all(told):
        state.message += "; not looked at in the model, whose inputs have no sizes"
        return
    while won := {t.name: t for t in state.tasks if t.winner is not None}:
        tuned = compiled(session.database)
        ratios: dict[str, float] = {}
        runs = np.zeros(2)
        for known in sizes:
            found, both = compared(default, tuned, known)
            suffix = _named(known) if known else ""
            ratios |= {name + suffix: ratio for name, ratio in found.items()}
            runs += both
        state.model = float(runs[0]), float(runs[1])
        slow = {n: t for n, t in won.items() if ratios.get(n, 0.0) > _WORTH}
        if not slow and runs[1] > _WORTH * runs[0]:
            slow = won
        if not slow:
            return
        for n, t in slow.items():
            session.refute(t, ratios.get(n, 1.0))
    state.model = None


def _refute_there(
    session: Session, runner: Runner, compiled: Callable[[Database], Artifact]
) -> None:
    """The same where the runner measures. A machine that is lost then loses nothing of what was
    found."""
    try:
        with runner.models() as put:
            refute_slow(session, lambda found: put(compiled(found)))
    except SmeltError as e:
        session.state.message += f"; not looked at in the model: {str(e).splitlines()[0]}"


def compared(
    default: Executable, tuned: Executable, sizes: Mapping[str, int]
) -> tuple[dict[str, float], tuple[float, float]]:
    """Two models in turns: by kernel the tuned one's time over the other's, seconds of both."""
    inputs = random_arrays(default.inputs, sizes)
    end = time.monotonic() + _SECONDS
    reports: list[list[ProfileReport]] = []
    while len(reports) < _TURNS and (len(reports) < 5 or time.monotonic() < end):
        reports.append([exe.profile(*inputs, repeat=2) for exe in (default, tuned)])
    pairs = [
        ({k.name: k.milliseconds for k in a.kernels}, {k.name: k.milliseconds for k in b.kernels})
        for a, b in reports
    ]
    ratios = {
        name: median([b[name] / max(a[name], 1e-9) for a, b in pairs])
        for name in {*pairs[0][0]} & {*pairs[0][1]}
    }
    totals = [median([r[n].total for r in reports]) / 1e3 for n in (0, 1)]
    return ratios, (totals[0], totals[1])


def named(names: Sequence[str], tasks: Sequence[Task]) -> list[Task]:
    """Tasks by name. Raises CompileError for a name there is not."""
    known = {t.name: t for t in tasks}
    for n in names:
        if n not in known:
            raise CompileError(f"the model has no kernel {n!r}; kernels: {', '.join(known)}")
    return [known[n] for n in names]
