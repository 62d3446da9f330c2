"""Templates: functions that schedule a program, with choices left open; tasks: such programs.

@autotvm.template("matmul")
def matmul(n, dtype):
    cfg = autotvm.get_config()
    ...
    return s, [A, B, C]

task = autotvm.task.create("matmul", args=(512, "float32"), target="llvm")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias, overload

from smelt import te
from smelt.artifact.arithmetic import flops
from smelt.codegen.llvm import resolve
from smelt.ir.build import value_of
from smelt.ir.errors import CompileError, ScheduleError, SmeltError
from smelt.ir.expr import Expr, Var
from smelt.pipeline import as_target
from smelt.runtime.errors import unknown
from smelt.target import Target
from smelt.te.tensor import Tensor
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule as TirSchedule

from .contexts import ApplyConfig, DispatchContext, Workload
from .engine import TemplateSpace
from .space import ConfigSpace


class FlopCalculationError(CompileError):
    """Operations of a program that cannot be counted."""


# ------------------------------------------------------------------------------------- arguments


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as numbers, texts and tuples; a tensor is ("TENSOR", shape, dtype)."""
    return tuple(map(_plain, args))


def _plain(x: Any) -> Any:
    if isinstance(x, Tensor):
        return ("TENSOR", tuple(map(_plain, x.shape)), x.type)
    if isinstance(x, list | tuple):
        return tuple(map(_plain, x))
    if isinstance(x, Expr):
        known = value_of(x)
        if known is None and not isinstance(x, Var):
            raise CompileError(f"the argument {x} depends on symbolic sizes; legal: numbers")
        return x.name if isinstance(x, Var) else known
    if x is None or isinstance(x, str | int | float):
        return x
    raise CompileError(
        f"the argument {x!r} is a {type(x).__name__}, which no log can hold; legal: tensors, "
        "numbers, texts, None, and tuples of these"
    )


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """Arguments from their form in logs: tensors become placeholders."""
    return [te.placeholder(a[1], dtype=a[2]) if _is_tensor(a) else a for a in args]


def _is_tensor(a: Any) -> bool:
    return isinstance(a, tuple) and len(a) == 3 and a[0] == "TENSOR"


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> Workload:
    """What tells programs of templates apart."""
    plain = serialize_args(args)
    return plain if task_name is None else (task_name, *plain)


# ----------------------------------------------------------------------------------------- tasks


class Task:
    """A program of a template, and the space of its configs.

    name, args    the template's name, its arguments
    config_space  its knobs
    flop          operations in a run; 0: not known
    """

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        """See `create`, which defines its space, too."""
        self.name, self.args = name, serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.config_space: Any = None
        self.target: Target | None = None
        self.target_host: Target | None = None
        self.flop = 0.0

    @property
    def workload(self) -> Workload:
        """What tells it apart from others."""
        return (self.name, *self.args)

    @property
    def func(self) -> Callable[..., Any]:
        """The template."""
        return template_of(self.name).function

    def instantiate(self, config: Any) -> tuple[Any, list[Any]]:
        """The schedule with a config, and its parameters.

        Raises ScheduleError where the template refuses it, or fails.
        """
        found = template_of(self.name)
        target = self.target or as_target(Target.current())
        with target, ApplyConfig(config):
            try:
                made = found.function(*deserialize_args(self.args))
            except SmeltError as e:
                raise type(e)(f"{self._called()}: {e}") from e
            except Exception as e:  # of the user's code, whatever it is
                raise ScheduleError(f"{self._called()} raised {type(e).__name__}: {e}") from e
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], te.Schedule):
            return made[0], list(made[1])
        raise ScheduleError(
            f"{self._called()} returned a {type(made).__name__}; legal: a schedule and the list of "
            "its parameters: return s, [A, B, C]"
        )

    def _called(self) -> str:
        return f"template {self.name}({', '.join(map(repr, self.args))})"

    def scheduled(self, config: Any) -> TirSchedule:
        """The tensor program with a config, as a schedule with its trace."""
        s, args = self.instantiate(config)
        found: TirSchedule = te.lower_schedule(s, args)
        return found

    def plain(self) -> PrimFunc:
        """The tensor program without a schedule."""
        s, args = self.instantiate(ConfigSpace())
        del s
        return te.create_prim_func(args)

    def open(self, walk: str = "evolve") -> Any:
        """Its space for the engine; walk: see `engine.TemplateSpace`."""
        if self.config_space is None:
            raise CompileError(f"the task {self.name!r} has no space; legal: task.create(...)")
        return TemplateSpace(self.plain(), self.config_space, self.scheduled, resolved(self), walk,
                             self.name)  # fmt: skip

    def __repr__(self) -> str:
        return (f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, "
                f"workload={self.workload})")  # fmt: skip


class MissingTask(Task):
    """A task of a log whose template is not there: it can be read, not made."""


class TaskTemplate:
    """A template by its name."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """function  gives (schedule, parameters)."""
        self.name, self.function = name, function


Body: TypeAlias = Callable[..., tuple[Any, list[Any]]]
"""What a template is made of: (arguments) -> (schedule, parameters)."""

TEMPLATES: dict[str, TaskTemplate] = {}
"""Templates by name: of two with the same name the later one."""


def template_of(name: str) -> TaskTemplate:
    """A template. Raises CompileError for a name there is not."""
    if name not in TEMPLATES:
        raise CompileError(unknown("template", name, TEMPLATES))
    return TEMPLATES[name]


@overload
def template(task_name: str, func: None = None) -> Callable[[Body], Body]:
    """As a decorator."""


@overload
def template(task_name: str, func: Body) -> Body:
    """Called with the function."""


def template(task_name: str, func: Body | None = None) -> Any:
    """Make a template of a function, under a name that logs know it by.

    Called by itself, the function gets the config that the context around the call has for it.
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        TEMPLATES[task_name] = TaskTemplate(task_name, f)

        @wraps(f)
        def called(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise CompileError(
                    f"template {task_name!r}: {', '.join(kwargs)} given by name; legal: by position"
                )
            workload = args_to_workload(args, task_name)
            with ApplyConfig(DispatchContext.current.query(Target.current(), workload)):
                return f(*args)

        return called

    return decorate if func is None else decorate(func)


def get_config() -> Any:
    """The config of the template that asks; while a task is made, the space to be defined."""
    return DispatchContext.current.query(Target.current(), None)


def create(task_name: str, args: Sequence[Any], target: Any, target_host: Any = None) -> Task:
    """A task: a template with arguments, for a target.

    Raises CompileError for a template there is not, ScheduleError for one that fails.
    """
    template_of(task_name)
    made = Task(task_name, args)
    made.target = as_target(target)
    made.target_host = None if target_host is None else as_target(target_host)
    made.config_space = space = ConfigSpace()
    s, parameters = made.instantiate(space)
    del s
    made.flop = space.flop or _counted(te.create_prim_func(parameters))
    return made


def bound(task: Task, target: Any = None) -> Task:
    """A task of a log with its space, where its template is there; itself otherwise."""
    if task.config_space is not None or task.name not in TEMPLATES:
        return task
    return create(task.name, task.args, target or task.target)


def _counted(func: PrimFunc) -> float:
    found = value_of(flops(func))
    return 0.0 if found is None else float(found)


def compute_flop(sch: Any) -> float:
    """The operations that a schedule's computations have. Raises FlopCalculationError."""
    outputs = [t for op in sch.outputs for t in op.outputs]
    try:
        found = value_of(flops(te.create_prim_func(outputs)))
    except SmeltError as e:
        raise FlopCalculationError(f"compute_flop: {e}") from e
    if not found:
        raise FlopCalculationError("compute_flop: nothing to count; legal: cfg.add_flop(...)")
    return float(found)


def resolved(task: Task) -> Target:
    """The target that a task is measured for, every feature spelled out."""
    if task.target is None:
        raise CompileError(f"the task {task.name!r} has no target; legal: task.create(..., target)")
    return resolve(as_target(task.target))


def attach_code_hash(s: Any) -> Callable[..., Any]:
    """A decorator that does nothing: configs are known by their knobs, not by a template's text."""
    return lambda f: f


__all__ = ["TEMPLATES", "FlopCalculationError", "MissingTask", "Task", "TaskTemplate",
           "args_to_workload", "attach_code_hash", "bound", "compute_flop", "create",
           "deserialize_args", "get_config", "resolved", "serialize_args", "template",
           "template_of"]  # fmt: skip
