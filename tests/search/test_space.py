"""The spaces that a search looks at."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt import te
from smelt.choices import default_schedule
from smelt.ir.build import maximum, minimum, select
from smelt.ir.errors import CompileError
from smelt.pipeline import LOWER, lower_program
from smelt.rules.sketch import Decision, Domain
from smelt.search.build import BuildJob, applied, build_candidate
from smelt.search.genes import DomainSpace, TraceSpace
from smelt.search.space import RuleSpace
from smelt.target import machine_of
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace

from .programs import HERE, product, spec

MACHINE = machine_of(HERE, 2)


def by_prediction(prior: Any, features: Any) -> Any:
    return prior


def results(func: PrimFunc, dtype: str = "float32") -> tuple[Any, Any, Any]:
    """What a product's program computes from whole numbers."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (24, 32)).astype(dtype), rng.integers(-4, 5, (32, 40)).astype(dtype)
    c = np.zeros((24, 40), dtype)
    interpret(func, a, b, c)
    return a, b, c


def test_the_default_is_a_point_of_the_space() -> None:
    space = RuleSpace(spec(cores=2))
    made = applied(space.spec, space.default().choice[0])
    assert script(made.func) == script(default_schedule(product()).func)


def test_every_candidate_is_found_by_its_text_and_computes_the_same() -> None:
    space = RuleSpace(spec(cores=2))
    pool = space.pool(np.random.default_rng(0), [], by_prediction)
    assert len(pool) == len(pool.prior) == len(pool.features)
    assert len(pool) == space.size
    rng = np.random.default_rng(1)
    for n in rng.choice(len(pool), 12, replace=False):
        c = pool.candidate(int(n))
        again = space.find(c.text)
        assert again == c
        assert np.exp(pool.prior[n]) == pytest.approx(c.predicted)
        a, b, got = results(applied(space.spec, c.choice[0]).func)
        assert np.array_equal(got, a @ b), c.text


@pytest.mark.parametrize("text", ["", "contraction()", "no(rows=1)", "contraction(rows=1 flat=1)",
                                  "contraction(flat=x rows=1 vectors=1 pack=none order=columns "
                                  "steps=0 prefetch=0 chunks=0)"])  # fmt: skip
def test_texts_that_name_no_candidate(text: Any) -> None:
    assert RuleSpace(spec()).find(text) is None


def test_a_trace_makes_the_same_program() -> None:
    space = RuleSpace(spec())
    c = space.pool(np.random.default_rng(0), [], by_prediction).candidate(5)
    built = build_candidate(BuildJob(space.source(c), HERE, tuple(LOWER), 1))
    sch = Schedule(product())
    Trace.from_text(built.trace).apply_to_schedule(sch)
    assert script(sch.func) == script(applied(space.spec, c.choice[0]).func)


def test_constants_may_be_laid_out_anew() -> None:
    space = RuleSpace(spec(constants=(False, True, False)))
    built = build_candidate(
        BuildJob(space.source(space.default()), HERE, tuple(LOWER), 1, compare=True)
    )
    assert [o.kind for o in built.operands] == ["input", "constant", "output"]
    assert built.made
    assert built.compared


def tiled(decision: Decision) -> Schedule:
    """A product in tiles."""
    sch = Schedule(product())
    i, j, k = sch.get_loops("C")
    i_o, i_i = sch.split(i, [None, decision["rows"]])
    j_o, j_i = sch.split(j, [None, decision["columns"]])
    sch.reorder(i_o, j_o, k, i_i, j_i)
    if decision["kind"] == "vector":
        sch.vectorize(j_i)
    return sch


DOMAINS = (Domain("rows", (1, 2, 4, 8)), Domain("columns", (4, 8, 5)),
           Domain("kind", ("vector", "plain"), ordered=False))  # fmt: skip


def domain_space(
    make: Callable[[Decision], Schedule] = tiled, domains: tuple[Domain, ...] = DOMAINS
) -> DomainSpace:
    return DomainSpace(product(), domains, make, HERE, MACHINE, lower_program)


def test_a_space_of_domains() -> None:
    space = domain_space()
    assert space.size == 24
    assert space.default().text == "rows=1 columns=4 kind=vector"
    rng = np.random.default_rng(0)
    for _ in range(4):
        pool = space.pool(rng, [space.default()], by_prediction)
    texts = [pool.candidate(n).text for n in range(len(pool))]
    assert len(set(texts)) == len(texts) > 12
    assert [c.text for t in texts if (c := space.find(t)) is not None] == texts
    assert space.find("rows=3 columns=4 kind=vector") is None
    a, b, got = results(space.source(pool.candidate(3)).func)
    assert np.array_equal(got, a @ b)


def test_a_space_without_a_valid_point() -> None:
    def refuse(decision: Decision) -> Schedule:
        sch = Schedule(product())
        sch.split("no such loop", [None, 2])
        return sch

    with pytest.raises(CompileError, match="none of 200 points of its space is valid; the first"):
        domain_space(refuse).pool(np.random.default_rng(0), [], by_prediction)
    with pytest.raises(CompileError, match="none of 200 points of its space is valid; the first"):
        domain_space(refuse).default()


def sampled() -> Trace:
    """Designs of a product: tiles at random."""
    sch = Schedule(product(), seed=3)
    i, j, k = sch.get_loops("C")
    i_o, i_i = sch.split(i, sch.sample_perfect_tile(i, 2, 8))
    j_o, j_i = sch.split(j, sch.sample_perfect_tile(j, 2, 16))
    sch.reorder(i_o, j_o, k, i_i, j_i)
    sch.annotate(i_o, "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16], [0.5, 0.5]))
    return sch.trace


def test_a_space_of_traces() -> None:
    space = TraceSpace(product(), [sampled()], HERE, MACHINE, lower_program)
    rng = np.random.default_rng(0)
    for _ in range(3):
        pool = space.pool(rng, [space.default()], by_prediction)
    texts = [pool.candidate(n).text for n in range(len(pool))]
    assert len(set(texts)) == len(texts) > 12
    assert [c.text for t in texts if (c := space.find(t)) is not None] == texts
    for n in range(0, len(pool), 5):
        source = space.source(pool.candidate(n))
        a, b, got = results(source.func)
        assert np.array_equal(got, a @ b)
        sch = Schedule(product())
        Trace.from_text(source.trace).apply_to_schedule(sch)
        assert script(sch.func) == script(source.func)
    assert space.find("design=1 ()") is None
    assert space.find("design=0 (__import__('os'),)") is None


@pytest.mark.parametrize(
    ("index", "below"),
    [
        (lambda i: i, 50),
        (lambda i: maximum(minimum(select(i < 0, i + 50, i), 49), 0), 50),
        (lambda i: i * 2, 0),
        (lambda i: i % 50, 0),
    ],
)
def test_indices_are_bounded_where_they_are_elements(index: Any, below: int) -> None:
    """Operands that are indices get legal ones at random; where elements are more than that, zeros
    are."""
    table = te.placeholder((50, 8), name="T")
    which = te.placeholder((30,), "int64", name="W")
    rows = te.compute((30, 8), lambda i, j: table[index(which[i]), j], name="R")
    func = te.create_prim_func([table, which, rows], "gather")
    space = RuleSpace(spec(func))
    made = build_candidate(
        BuildJob(space.source(space.default()), HERE, tuple(LOWER), 1, compare=True)
    )
    assert [o.below for o in made.operands] == [o.below for o in made.logical] == [0, below, 0]
