"""Tuned schedules for the kernels of a model that is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace

from smelt.artifact.kernel import KernelSpec, Tuned, plain_program
from smelt.ir.errors import CompileError, ScheduleError
from smelt.ir.transform import PassContext
from smelt.lowering.lower import for_target
from smelt.runtime.entered import Entered
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule, Trace

from .database import Database
from .record import machine_key, workload_key
from .space import ProgramSpec
from .stores import open_database

_ENTERED: ContextVar[Tunings | None] = ContextVar("smelt.search.tunings", default=None)


class Tunings(Entered):
    """The winners of a database. Around calls that compile, as a context, it is their database.

    confirmed  only schedules that have beaten the default for sure; else the fastest
    flag       the key of a PassContext's config without which the context has no effect
    """

    _current = _ENTERED

    def __init__(self, database: Database, confirmed: bool = True, flag: str = "") -> None:
        self.database, self.confirmed, self.flag = database, confirmed, flag

    def tuned(self, spec: KernelSpec) -> Tuned | None:
        """The schedule of a kernel on its machine; None where the default stays."""
        if spec.prepared is not None or spec.opt_level == 0:
            return None
        return self.best(plain_program(spec), spec.constants, spec.target, spec.cores)

    def best(
        self, func: PrimFunc, constants: Sequence[bool], target: Target, cores: int
    ) -> Tuned | None:
        """A program's schedule on a machine; None: nothing better than the default is known."""
        machine = machine_key(target, machine_of(target, cores))
        found = self.database.best(workload_key(func, constants), machine, self.confirmed)
        return None if found is None else Tuned(found.trace, found.body)

    def schedule(self, spec: ProgramSpec) -> Schedule | None:
        """A program by itself with its schedule; None where the default stays.

        Raises CompileError for one that does not fit the program (any more).
        """
        found = self.best(spec.func, spec.constants, spec.target, spec.cores)
        if found is None or found.body:  # another algorithm than an operator's: models alone
            return None
        sch = Schedule(for_target(spec.func, spec.target))
        try:
            Trace.from_text(found.trace).apply_to_schedule(sch)
        except (CompileError, ScheduleError) as e:
            raise CompileError(
                f"{spec.func.name}: the schedule that the database has does not fit the program "
                f"({str(e).splitlines()[0]}); legal: no database, or one that it is tuned into anew"
            ) from None
        return sch


def known_schedule(context: PassContext, spec: ProgramSpec) -> Schedule | None:
    """A program by itself as the database of a context has it. Raises as Tunings.schedule."""
    database = context.options.database
    return database.schedule(spec) if isinstance(database, Tunings) else None


def with_tunings(context: PassContext, who: str, values: Mapping[str, object]) -> PassContext:
    """A context with options of a call, its database opened.

    values  options by name; who: asks, for messages. Raises CompileError for a database that
    cannot be opened.
    """
    options = context.options.updated(who, values) if values else context.options
    given, entered = options.database, _ENTERED.get()
    if given is None and entered is not None:
        given = entered if not entered.flag or context.setting(entered.flag) else None
    if given is not None and not isinstance(given, Tunings):
        if not isinstance(given, str | os.PathLike | Database):
            raise CompileError(
                f"{who}: database is {given!r}; legal: the path of a file, a URL, or a Database"
            )
        given = Tunings(open_database(given, make=False))
    if given is options.database and not values:
        return context
    return PassContext.with_options(replace(options, database=given))
