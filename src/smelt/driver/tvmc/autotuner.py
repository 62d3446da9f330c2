"""`tvmc tune`: faster schedules of a model's kernels, kept in a log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from smelt import auto_scheduler, autotvm
from smelt.autotvm import tuner as tuners
from smelt.codegen.llvm import is_native, resolve
from smelt.ir.module import IRModule
from smelt.runtime.files import check_target
from smelt.target import Target
from smelt.transform import PassContext

from . import arguments
from .compiler import Transforms, face_of, transformed
from .model import PathLike, TVMCException, TVMCModel

_PLAIN = {"ga": tuners.GATuner, "gridsearch": tuners.GridSearchTuner, "random": tuners.RandomTuner}


def tune_model(
    tvmc_model: TVMCModel,
    target: str | Target | None = None,
    tuning_records: PathLike | None = None,
    prior_records: PathLike | None = None,
    enable_autoscheduler: bool = False,
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int = 9090,
    trials: int = 10000,
    target_host: str | Target | None = None,
    tuner: str | None = None,
    min_repeat_ms: int = 0,
    early_stopping: int | None = None,
    timeout: float = 10,
    repeat: int = 7,
    number: int = 10,
    parallel: int | None = None,
    hardware_params: auto_scheduler.HardwareParams | None = None,
    include_simple_tasks: bool = False,
    log_estimated_latency: bool = False,
    additional_target_options: arguments.Options | None = None,
    tasks_filter: str = "all",
    **transforms: Unpack[Transforms],
) -> str:
    """Look for faster schedules; gives the log that holds them, for `tvmc.compile`.

    tuning_records  the log, to which measurements are added at once; what it holds is not measured
                    again. None: one that lives as long as the model
    prior_records   a log to go on from instead
    hostname, port  of a tracker, where there is rpc_key, else of a server; None: measure here
    parallel        candidates that are built at a time, and with rpc_key machines that measure

    The others are those of the command. Raises TVMCException, CompileError, RPCError.
    """
    made = arguments.chosen_target(target, target_host, additional_target_options)
    extra = hardware_params, include_simple_tasks, log_estimated_latency
    _check(made, hostname, rpc_key, enable_autoscheduler, tuner, any(extra))
    log = os.fspath(tuning_records or tvmc_model.default_tuning_records_path())
    check_target(log)
    held = log if Path(log).is_file() and Path(log).stat().st_size else None
    face: Any = auto_scheduler if enable_autoscheduler else autotvm
    if others := [p for p in (prior_records, held) if p and face_of(p) is not face]:
        raise TVMCException(
            f"{others[0]}: its records are the other tuner's: --enable-autoscheduler"
        )
    how = {"timeout": timeout, "number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms}
    runner = _runner(face, hostname, port, rpc_key, parallel, how)
    with PassContext(3):
        mod = transformed(tvmc_model.mod, transforms)
        job = _Job(
            mod, tvmc_model.params, made, log, prior_records or held, trials, early_stopping,
            face.LocalBuilder(n_parallel=parallel), runner, tasks_filter,
        )  # fmt: skip
        if enable_autoscheduler:
            _schedule(job, *extra)
        else:
            _tune(job, tuner or "xgb")
    return log


def _runner(
    face: Any, host: str | None, port: int, key: str | None, parallel: int | None,
    how: Mapping[str, Any],
) -> Any:  # fmt: skip
    """What measures; host: None: this machine."""
    if host is None:
        return face.LocalRunner(**how)
    return face.RPCRunner(key or "", host, port, n_parallel=parallel if key and parallel else 1,
                          **how)  # fmt: skip


def _check(
    target: Target, hostname: str | None, key: str | None, scheduler: bool, tuner: str | None,
    extra: bool,
) -> None:  # fmt: skip
    """Refuse options that do not go together."""
    if hostname is None and (key is not None or not is_native(resolve(target))):
        raise TVMCException(f"nothing can be measured here for {key or target}; give --rpc-tracker "
                            "HOST:PORT and --rpc-key KEY")  # fmt: skip
    if scheduler and tuner:
        raise TVMCException(f"--tuner {tuner} is AutoTVM's: leave --enable-autoscheduler out")
    if extra and not scheduler:
        raise TVMCException(
            "AutoScheduler's options belong to --enable-autoscheduler: give it, too"
        )


@dataclass(frozen=True)
class _Job:
    """What both tuners are told; known: a log to go on from."""

    mod: IRModule
    params: Mapping[str, Any]
    target: Target
    log: str
    known: PathLike | None
    trials: int
    early_stopping: int | None
    builder: Any
    runner: Any
    tasks: str


def _tune(job: _Job, tuner: str) -> None:
    """Tune tasks by AutoTVM, one after the other."""
    every = autotvm.task.extract_from_program(job.mod, job.params, job.target)
    tasks = [every[n] for n in filtered(every, job.tasks)]
    history = [] if job.known is None else [*autotvm.record.load_from_file(job.known)]
    option = autotvm.measure_option(job.builder, job.runner)
    for number, task in enumerate(tasks, start=1):
        count = min(max(1, job.trials // len(tasks)), len(task.config_space))
        made = _tuner(tuner)(task)
        made.load_history([p for p in history if str(p[0].target) == str(task.target)])
        shown = autotvm.callback.progress_bar(count, f"[Task {number:2d}/{len(tasks):2d}] ")
        told = [autotvm.callback.log_to_file(job.log), shown]
        made.tune(count, option, job.early_stopping, told)


def _tuner(name: str) -> Callable[[Any], tuners.Tuner]:
    """A tuner by its name on the command line: xgb_rank_knob is XGBTuner(rank, knob)."""
    if name not in arguments.TUNERS:
        raise TVMCException(f"--tuner {name}: legal: {', '.join(arguments.TUNERS)}")
    if name in _PLAIN:
        return _PLAIN[name]
    match = re.fullmatch(r"xgb(_rank_binary|_rank)?(_knob|_itervar|_curve)?", name)
    loss, feature = (match and match[1]) or "_reg", (match and match[2]) or "_itervar"
    loss = loss[1:].replace("_", "-")
    return lambda task: tuners.XGBTuner(task, feature_type=feature[1:], loss_type=loss)


def _schedule(job: _Job, hardware: Any, simple: bool, latency: bool) -> None:
    """Tune tasks together by AutoScheduler."""
    tasks, weights = auto_scheduler.extract_tasks(
        job.mod["main"], job.params, job.target, None, hardware, simple
    )
    if chosen := filtered(tasks, job.tasks):
        told: list[Any] = [auto_scheduler.PrintTableInfo()]
        told += [auto_scheduler.LogEstimatedLatency("total_latency.tsv")] if latency else []
        options = auto_scheduler.TuningOptions(
            job.trials, job.early_stopping, verbose=0, builder=job.builder, runner=job.runner,
            measure_callbacks=[auto_scheduler.RecordToFile(job.log)],
        )  # fmt: skip
        some = [tasks[n] for n in chosen], [weights[n] for n in chosen]
        scheduler = auto_scheduler.TaskScheduler(*some, load_log_file=job.known, callbacks=told)
        scheduler.tune(options)


def filtered(tasks: Sequence[Any], expression: str) -> list[int]:
    """The numbers of the tasks that an expression names; "list" prints all and names none."""
    if expression == "list":
        rows = [f"  {n}. {task!s:.100}" for n, task in enumerate(tasks)]
        print("\n".join(["Available Tasks for tuning:", *rows]))
        return []
    found: list[int] = []
    for part in [f"0-{len(tasks) - 1}"] if expression == "all" else arguments.names(expression):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not numbers or numbers[-1] >= len(tasks):
            raise TVMCException(f"--tasks {expression}: {part!r} names no task; legal: all, list, "
                                f"or numbers up to {len(tasks) - 1}, as in 0,2,5-7")  # fmt: skip
        found += numbers
    return [*dict.fromkeys(found)]
