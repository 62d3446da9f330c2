"""Tuning a model: its kernels as tasks, and what was found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from smelt.artifact.arithmetic import flops
from smelt.artifact.graph import plan_graph
from smelt.artifact.kernel import KernelSpec, plain_program
from smelt.artifact.model import kernel_specs
from smelt.codegen.llvm import is_native, resolve
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.pipeline import LOWER, as_target, checked_context, run_graph
from smelt.rules.cpu.analysis import guess
from smelt.search.build import BuildExecutor
from smelt.search.database import Database
from smelt.search.runner import Runner
from smelt.search.space import RuleSpace
from smelt.search.stores import open_database
from smelt.search.tune import Session, Settings, State, Task
from smelt.target import Target


def extract_tasks(
    model: Any,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
) -> list[Task]:
    """The kernels of a model as tasks: equal ones are one, weighted by how often they are called.

    The arguments are those of `compile`. Kernels with the user's own schedule rules are left out.
    Raises what `compile` does.
    """
    context = checked_context("smelt.tune", options)
    resolved = resolve(as_target(target))
    plan = plan_graph(run_graph(import_model(model, shapes), context))
    plain = replace(context.options, database=None)
    own = [s for s in kernel_specs(plan, resolved, plain) if s is not None]
    calls = Counter([s.symbol for s in own])
    unique = {s.symbol: s for s in own if s.prepared is None}
    return [_task(s, calls[symbol]) for symbol, s in unique.items()]


def _task(spec: KernelSpec, calls: int) -> Task:
    name = str(spec.group.attrs.get("name", spec.symbol))
    work = float(guess(flops(plain_program(spec)))) + sum([_elements(v) for v in spec.inputs])
    return Task(partial(RuleSpace, spec, name), name, float(calls), work, spec.cores)


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
    options: Options | None = None,
    settings: Settings | None = None,
    kernel: str | None = None,
    runner: Runner | None = None,
    executor: BuildExecutor | None = None,
    progress: Callable[[State], None] | None = None,
) -> State:
    """Look for faster schedules of a model's kernels by measuring, and keep them in a database:
    `smelt.compile(model, database=...)` uses them. What was found earlier is not measured again.

    model, target, shapes, options  as for `compile`
    trials, minutes  when to stop, at the latest; without either, after five minutes
    settings  more of how to tune; trials and minutes come in
    kernel    the name of the only one to tune
    runner    what measures; None: a process on this machine
    executor  what builds: any of `concurrent.futures`, a dask cluster's; None: smelt's workers
    progress  called with the state after every batch

    Raises what `compile` does, CompileError for a kernel that there is not, and to measure for
    another machine without a runner there.
    """
    resolved = resolve(as_target(target))
    if runner is None and not is_native(resolved):
        raise CompileError(
            f"nothing can be measured here for {resolved}; legal: this machine's CPU, or a runner"
        )
    seconds = None if minutes is None else minutes * 60
    if trials is None and seconds is None and settings is None:
        seconds = 300.0
    given = settings or Settings(trials, seconds)
    given = replace(given, trials=trials or given.trials, seconds=seconds or given.seconds)
    tasks = extract_tasks(model, resolved, shapes=shapes, options=options)
    if kernel is not None:
        tasks = named([kernel], tasks)
    session = Session(tasks, open_database(database), given, LOWER, runner, executor)
    for state in session.run():
        if progress is not None:
            progress(state)
    return session.state


def named(names: Sequence[str], tasks: Sequence[Task]) -> list[Task]:
    """Tasks by name. Raises CompileError for a name there is not."""
    known = {t.name: t for t in tasks}
    for n in names:
        if n not in known:
            raise CompileError(f"the model has no kernel {n!r}; kernels: {', '.join(known)}")
    return [known[n] for n in names]
