"""Small things that the other modules, and programs of the classic stack, use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from smelt.codegen.llvm import resolve
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.pipeline import as_target
from smelt.runtime.native import cores
from smelt.search.record import workload_key
from smelt.target import Machine, Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.transform import PassContext

Cls = TypeVar("Cls", bound=type)
T = TypeVar("T")

SOURCE = "meta_schedule"
"""What records say that proposed them."""


def derived_object(cls: Cls) -> Cls:
    """A class derived from one of PyScheduleRule, PyRunner and the like: itself, as classes of
    Python are called directly here."""
    return cls


def functions_of(who: str, mod: Any) -> dict[str, PrimFunc]:
    """The tensor programs of a module (or one by itself), by name. Raises CompileError."""
    if isinstance(mod, PrimFunc):
        return {mod.name: mod}
    if not isinstance(mod, IRModule):
        raise CompileError(f"{who}: mod is a {type(mod).__name__}; legal: a PrimFunc, or an "
                           "IRModule of them")  # fmt: skip
    found = {str(n): f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
    if not found:
        raise CompileError(f"{who}: the module has no tensor program; it has: "
                           f"{', '.join(map(str, mod.functions)) or 'nothing'}")  # fmt: skip
    return {n: f if f.name == n else f.with_attrs(name=n) for n, f in found.items()}


def function_of(who: str, mod: Any) -> PrimFunc:
    """The only tensor program, or "main". Raises CompileError."""
    found = functions_of(who, mod)
    if len(found) > 1 and "main" not in found:
        raise CompileError(f"{who}: the module has {len(found)} programs: {', '.join(found)}; "
                           "legal: one, or one that is called main")  # fmt: skip
    return found.get("main") or next(iter(found.values()))


def resolved(target: Any) -> Target:
    """A target (None: the one around, or this machine) with its features known."""
    return resolve(as_target(Target.current() if target is None else target))


def threads() -> int:
    """Threads that programs run on: what the PassContext around says, or all processors."""
    return PassContext.current().options.cores


def machine_for(target: Target) -> Machine:
    """What rules know of a resolved target."""
    return machine_of(target, threads())


def cpu_count(logical: bool = True) -> int:
    """Processors of this machine that this process may use."""
    return cores()


def shash2hex(mod: Any) -> str:
    """What tells programs apart, as text."""
    return workload_key(function_of("shash2hex", mod))


def fork_seed(seed: int | None, n: int) -> list[int]:
    """Some seeds that follow from one; None: from nothing."""
    drawn = np.random.default_rng(None if seed is None or seed < 0 else seed)
    return [int(s) for s in drawn.integers(1, 1 << 30, n)]


def remove_build_dir(artifact_path: str) -> None:
    """Remove the folder that a built artifact stands in."""
    shutil.rmtree(Path(artifact_path).parent, ignore_errors=True)


def print_interactive_table(data: str) -> None:
    """Print a table."""
    print(data)


def of_kinds(who: str, value: Any, kinds: type[T], legal: str) -> T:
    """A value that has to be of a class. Raises CompileError, with what would be legal."""
    if not isinstance(value, kinds):
        raise CompileError(f"{who} is {value!r:.80}; legal: {legal}")
    return value


def chosen(
    who: str, kinds: Mapping[str, type[T] | Callable[..., T]], kind: str, *args: Any, **named: Any
) -> T:
    """What a class method `create` makes of a name. Raises CompileError for an unknown one."""
    if kind not in kinds:
        raise CompileError(f"{who}: no kind {kind!r}; legal: {', '.join(map(repr, kinds))}")
    return kinds[kind](*args, **named)


def work_folder(who: str, work_dir: str | os.PathLike[str] | None) -> Path:
    """The folder of a session's files, made where it is missing. Raises CompileError."""
    if work_dir is None:
        raise CompileError(f'{who}: give work_dir, a folder for the records: work_dir="./tuned"')
    made = Path(work_dir)
    made.mkdir(parents=True, exist_ok=True)
    return made


def workers_of(num_tuning_cores: str | int) -> int | None:
    """Workers that build: "physical", "logical" (all processors), or a number."""
    if num_tuning_cores in ("physical", "logical"):
        return None
    if not isinstance(num_tuning_cores, int) or num_tuning_cores < 1:
        raise CompileError(f"num_tuning_cores is {num_tuning_cores!r}; legal: 'physical', "
                           "'logical', or a number from 1 on")  # fmt: skip
    return num_tuning_cores


def median_of(values: Sequence[float]) -> float:
    """The median of some seconds; infinite where there are none."""
    return float(np.median(values)) if len(values) else float("inf")
