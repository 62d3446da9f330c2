"""Tuned schedules for the kernels of a model that is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from smelt.artifact.kernel import KernelSpec, Tuned, plain_program
from smelt.ir.transform import PassContext
from smelt.target import machine_of

from .database import Database, open_database
from .record import machine_key, workload_key


class Tunings:
    """The winners of a database."""

    def __init__(self, database: Database, confirmed: bool = True) -> None:
        """confirmed: only schedules that have beaten the default for sure; else the fastest."""
        self.database, self.confirmed = database, confirmed

    def tuned(self, spec: KernelSpec) -> Tuned | None:
        """The schedule of a kernel on its machine; None where the default stays."""
        if spec.prepared is not None or spec.opt_level == 0:
            return None
        key = workload_key(plain_program(spec), spec.constants)
        machine = machine_key(spec.target, machine_of(spec.target, spec.cores))
        found = self.database.best(key, machine, self.confirmed)
        return None if found is None else Tuned(found.trace, found.body)


def with_tunings(context: PassContext, who: str, values: Mapping[str, object]) -> PassContext:
    """A context with options of a call, its database opened.

    values  options by name; who: asks, for messages. Raises CompileError for a database that
    cannot be opened.
    """
    options = context.options.updated(who, values)
    given = options.database
    if given is None and (entered := Database.current()) is not None:
        given = Tunings(entered, confirmed=False)  # its user has said so
    if given is not None and not isinstance(given, Tunings):
        given = Tunings(open_database(given))
    if given is options.database and not values:
        return context
    return PassContext.with_options(replace(options, database=given))
