"""Tuned schedules of programs by themselves, where they are built."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import CompileError
from smelt.search.build import applied
from smelt.search.database import MemoryDatabase
from smelt.search.lookup import Tunings
from smelt.search.record import Record, machine_key
from smelt.search.space import RuleSpace
from smelt.tir.printer import script

from .programs import HERE, product, spec


def known(**changes: Any) -> tuple[MemoryDatabase, Record]:
    """A database with a winner that is not the default."""
    space = RuleSpace(spec(cores=1))
    pool = space.pool(np.random.default_rng(0), [], lambda prior, features: prior)
    other = max([pool.candidate(n) for n in range(50)], key=lambda c: c.predicted)
    trace = str(applied(space.spec, other.choice[0]).trace)
    made = Record(space.workload.key, machine_key(HERE, space.machine), str(HERE), trace,
                  decision=other.text, seconds=(1e-6,), relative=0.5, confirmed=True)  # fmt: skip
    made = replace(made, **changes)
    database = MemoryDatabase()
    database.put(space.workload, [made])
    return database, made


def test_a_program_gets_the_schedule_of_the_database() -> None:
    database, record = known()
    given = smelt.Options(threads=1, database=database)
    made = smelt.default_schedule(product(), options=given)
    assert str(made.trace) == record.trace
    assert record.trace != str(smelt.default_schedule(product()).trace)
    with Tunings(database):
        inside = smelt.default_schedule(product(), options=smelt.Options(threads=1))
    assert script(inside.func) == script(made.func)
    other = smelt.default_schedule(product(24, 40, 33), options=given)
    assert str(other.trace) == str(
        smelt.default_schedule(product(24, 40, 33), options=smelt.Options(threads=1)).trace
    )


@pytest.mark.parametrize("scheduled", [False, True])
def test_build_takes_it_for_programs_without_a_schedule(
    scheduled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = known()
    one = smelt.Options(threads=1)
    func = smelt.default_schedule(product(), options=one).func if scheduled else product()
    built = []
    monkeypatch.setattr("smelt.pipeline.build_program", lambda funcs, *_: built.append(funcs))
    smelt.build(func, threads=1, database=database)
    (found,) = built[0].values()
    best = smelt.default_schedule(product(), options=replace(one, database=database)).func
    assert script(found) == script(func if scheduled else best)
    monkeypatch.undo()
    a, b = np.ones((24, 32), np.float32), np.ones((32, 40), np.float32)
    c = np.zeros((24, 40), np.float32)
    smelt.build(func, threads=1, database=database)["product"](a, b, c)
    assert (c == 32).all()


def test_a_schedule_that_fits_no_more_is_an_error() -> None:
    database, _ = known(trace='b = get_block("nobody")')
    for call in (smelt.default_schedule, smelt.build):
        with pytest.raises(CompileError, match="product: the schedule that the database has"):
            call(product(), options=smelt.Options(threads=1, database=database))
