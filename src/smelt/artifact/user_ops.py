"""Groups with operators of the user's own: their programs are made here, in the user's process.

Worker processes cannot import what a script or a notebook defines, so they get the program itself,
and its text is the key of the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from smelt.codegen.c_helpers import extern_source
from smelt.ir.errors import ScheduleError, SmeltError
from smelt.relax.nodes import Call, Function, GlobalVar, values
from smelt.relax.views import View
from smelt.target import Machine
from smelt.tir.analysis import check_races
from smelt.tir.extern import ExternFunction
from smelt.tir.nodes import For, PrimFunc, walk
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify
from smelt.topi.registry import Op

from .constants import Preparation, preparations
from .group import group_to_prim_func


@dataclass(frozen=True)
class Prepared:
    """The program of a group, made before its kernel is built.

    group      stands for the group: parameters, type and name, without the operators
    plain      the program as the operators define it
    scheduled  by the operators' own rules; None: the default rules are to do it
    trace      what those did
    wanted     what they want done with constants
    externs    the external functions that it calls
    """

    group: Function
    plain: PrimFunc
    scheduled: PrimFunc | None = None
    trace: str = ""
    wanted: tuple[Preparation, ...] = ()
    externs: tuple[ExternFunction, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "externs", ExternFunction.used_in(self.scheduled or self.plain))

    @property
    def text(self) -> str:
        """Equal for programs that compute the same in the same way."""
        programs = [script(f) for f in (self.plain, self.scheduled) if f is not None]
        programs += [f"{w.reads} {w.makes} {script(w.func)}" for w in self.wanted]
        return "\n".join([*programs, *[f"{f.flags} {extern_source(f)}" for f in self.externs]])


def user_ops(group: Function) -> list[Op]:
    """The operators of a group that smelt does not bring."""
    ops = [v.op for v in values(group.body) if isinstance(v, Call) and isinstance(v.op, Op)]
    return [o for o in dict.fromkeys(ops) if o.user_defined]


def prepare(
    group: Function,
    inputs: Sequence[View],
    outputs: Sequence[View],
    constants: Sequence[bool],
    machine: Machine,
    *,
    rules: bool = True,
    check: bool = True,
) -> Prepared:
    """The program of a group with operators of the user's own.

    rules  whether the operators' own schedule rules are applied
    check  whether their results are verified
    """
    plain = group_to_prim_func(group, inputs, outputs, "kernel")
    name = GlobalVar(str(group.attrs.get("name", "kernel")))
    call_tir_group = group.replace(body=Call(name, group.params, {}, group.body.type))
    with_rules = [o for o in user_ops(group) if o.rule is not None]
    if not rules or not with_rules:
        return Prepared(call_tir_group, plain)
    sch = Schedule(plain)
    for o in with_rules:
        _apply(o, sch, machine)
    if check:
        verify(sch.func)
        check_races(sch.func)
    known = {b.name for b, c in zip(plain.buffers, constants, strict=False) if c}
    for relaid in sch.state.relaid.values():
        if relaid.given.name not in known:
            raise ScheduleError(
                f"the schedule of {', '.join([o.name for o in with_rules])}: transform_layout of "
                f"{relaid.given.name}, which is no constant: its order in memory is settled"
            )
    return Prepared(call_tir_group, plain, sch.func, str(sch.trace), preparations(sch))


def prepared_program(group: Function, program: PrimFunc) -> Prepared:
    """A program of the module; one that was scheduled by hand keeps its schedule.

    It says so (tir.is_scheduled), or has loops that are parallel, vectorized, unrolled or bound.
    """
    chosen = any(isinstance(s, For) and s.kind != "serial" for s in walk(program.body))
    if not (chosen or program.attrs.get("tir.is_scheduled")):
        return Prepared(group, program)
    return Prepared(group, program, program)


def _apply(o: Op, sch: Schedule, machine: Machine) -> None:
    assert o.rule is not None
    try:
        o.rule(sch, machine)
    except SmeltError as e:
        raise type(e)(f"the schedule of {o.name}: {e}") from e
    except Exception as e:
        raise ScheduleError(f"the schedule of {o.name} failed: {type(e).__name__}: {e}") from e
