"""Rules make designs, postprocessors finish them, mutators change them: all compute the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

import smelt
from smelt import meta_schedule as ms
from smelt import te
from smelt.ir.errors import CompileError
from smelt.meta_schedule import mutator, postproc
from smelt.meta_schedule import schedule_rule as rules
from smelt.meta_schedule.space_generator import PostOrderApply, ScheduleFn, SpaceGeneratorUnion
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import BlockRV, Schedule, Trace

from .programs import check, doubled, matmul_twice, total

MAKERS = {"matmul_twice": matmul_twice, "doubled": doubled, "total": total}
ROOT = "meta_schedule.parallel"


def designs(func: PrimFunc, *given: Any, **others: Any) -> list[Schedule]:
    """What rules make of a program."""
    return PostOrderApply(sch_rules=list(given), **others).generate_design_space(func)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_rules_of_a_cpu_keep_what_a_program_computes(kind: str) -> None:
    found = PostOrderApply().generate_design_space(MAKERS[kind]())
    assert len(found) == {"matmul_twice": 3, "doubled": 1, "total": 3}[kind]
    for sch in found:
        check(sch, kind)
        for p in postproc.Postproc.create("llvm"):
            assert p.apply(sch)
        assert ROOT not in str(sch.func.script())
        assert "T.parallel" in sch.func.script()
        check(sch, kind)


@pytest.mark.parametrize("structure", ["SRS", "SSRSRS", "SSSRRSRS", "RS"])
def test_tiles_follow_their_structure(structure: str) -> None:
    (sch,) = designs(matmul_twice(), rules.MultiLevelTiling(structure))
    spatial, reduce = structure.count("S"), structure.count("R")
    assert len(sch.get_loops("C")) == 2 * spatial + reduce
    check(sch, "matmul_twice")


def test_operands_and_results_are_kept_near() -> None:
    near = rules.ReuseType("must", [3], "global")
    (sch,) = designs(matmul_twice(), rules.MultiLevelTiling("SSRSRS", reuse_read=near))
    assert len(sch.get_producers("C")) == 2
    check(sch, "matmul_twice")
    may = rules.ReuseType("may", [1, 2], "global")
    both = designs(matmul_twice(), rules.MultiLevelTiling("SSRSRS", reuse_write=may))
    assert [len(s.get_loops("D")) for s in both] == [2, 4, 6]
    for sch in both:
        check(sch, "matmul_twice")
    with pytest.raises(CompileError, match="level 9; legal: 1 to 2"):
        rules.MultiLevelTiling("SR", reuse_read=rules.ReuseType("may", [9]))
    with pytest.raises(CompileError, match="req is 'often'"):
        rules.ReuseType("often")


def test_reductions_with_few_results_are_split() -> None:
    found = designs(total(), rules.AddRFactor())
    assert len(found) == 3
    for sch in found[1:]:
        assert "sch.rfactor" in str(sch.trace)
        check(sch, "total")
    assert len(designs(matmul_twice(64), rules.AddRFactor(max_jobs_per_core=1))) == 1


def test_elementwise_blocks_are_inlined() -> None:
    (into,) = designs(doubled(), rules.AutoInline(into_producer=False))
    assert into.get_child_blocks("root") == ["C"]
    check(into, "doubled")
    (back,) = designs(matmul_twice(), rules.AutoInline(into_consumer=False))
    assert "reverse_compute_inline" not in str(back.trace)  # a reduction takes nothing in
    (kept,) = designs(doubled(), rules.AutoInline(), f_block_filter=lambda b: b.name != "B")
    assert "compute_inline(block=b" in str(kept.trace)
    (moved,) = designs(doubled(), rules.RandomComputeLocation())
    assert "sample_compute_location" in str(moved.trace)
    check(moved, "doubled")


def test_a_constant_is_inlined() -> None:
    A = te.placeholder((8,), name="A")
    one = te.compute((1,), lambda i: te.const(3.0, "float32"), name="one")
    B = te.compute((8,), lambda i: A[i] * one[0], name="B")
    (sch,) = designs(te.create_prim_func([A, B]), rules.InlineConstantScalars())
    assert sch.get_child_blocks("root") == ["B"]
    assert "3.0" in sch.func.script()


@ms.derived_object
class SplitOrNot(rules.PyScheduleRule):
    """Two designs at the block C."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """As it is, and split."""
        if block != "C":
            return [sch]
        made = sch.copy()
        made.split(made.get_loops(block)[0], [None, 4])
        return [sch, made]


def test_a_rule_of_ones_own_makes_designs() -> None:
    found = designs(matmul_twice(), SplitOrNot())
    assert [len(s.get_loops("C")) for s in found] == [3, 4]
    two = SpaceGeneratorUnion([PostOrderApply(sch_rules=[SplitOrNot()]), ScheduleFn(lambda s: s)])
    assert len(two.generate_design_space(matmul_twice())) == 3

    class Wrong(rules.PyScheduleRule):
        def apply(self, sch: Schedule, block: BlockRV) -> Any:
            return 3

    with pytest.raises(CompileError, match="the rule Wrong gave 3 at the block C"):
        designs(matmul_twice(), Wrong())
    with pytest.raises(CompileError, match="the function gave 4"):
        ScheduleFn(lambda s: 4).generate_design_space(doubled())


def test_a_block_may_name_its_rule() -> None:
    sch = Schedule(doubled())
    sch.annotate("B", "schedule_rule", "tests.by_four")
    with pytest.raises(CompileError, match=r"'tests\.by_four', which is not registered"):
        designs(sch.func, rules.ApplyCustomRule())

    def by_four(s: Schedule, block: BlockRV) -> Schedule:
        s.split(s.get_loops(block)[0], [None, 4])
        return s

    smelt.register_func("meta_schedule.cpu.tests.by_four", by_four, override=True)
    (made,) = designs(sch.func, rules.ApplyCustomRule())
    assert len(made.get_loops("B")) == 2


@pytest.mark.parametrize("name", ["AutoBind", "CrossThreadReduction", "MultiLevelTilingTensorCore",
                                  "MultiLevelTilingWideVector"])  # fmt: skip
def test_rules_of_other_machines_are_refused_when_they_are_applied(name: str) -> None:
    rule = getattr(rules, name)()
    with pytest.raises(CompileError, match=f"the rule {name} needs .*the target is a CPU"):
        designs(doubled(), rule)


def test_postprocessors_of_other_machines_are_refused() -> None:
    with pytest.raises(CompileError, match="VerifyGPUCode cannot be applied: it is for GPUs"):
        postproc.VerifyGPUCode().apply(Schedule(doubled()))
    with pytest.raises(CompileError, match="RewriteLayout cannot be applied: smelt's own rules"):
        postproc.RewriteLayout().apply(Schedule(doubled()))


def test_notes_become_loops() -> None:
    sch = Schedule(matmul_twice())
    for key, value in ((ROOT, 8), ("meta_schedule.vectorize", 8)):
        sch.annotate("root", key, value)
    assert postproc.RewriteParallelVectorizeUnroll().apply(sch)
    assert postproc.RewriteReductionBlock().apply(sch)
    text = sch.func.script()
    assert "T.parallel" in text
    assert "T.vectorized(8)" in text
    assert "T.init" not in text
    check(sch, "matmul_twice")
    unrolled = Schedule(matmul_twice(4))
    unrolled.annotate("root", "meta_schedule.unroll_explicit", 16)
    assert postproc.RewriteParallelVectorizeUnroll().apply(unrolled)
    assert "T.unroll" in unrolled.func.script()
    check(unrolled, "matmul_twice")


def seeded(m: mutator.Mutator) -> mutator.Mutator:
    """A mutator that draws the same always."""
    m.random = random.Random(3)
    return m


def test_mutators_change_one_decision() -> None:
    (sch,) = designs(matmul_twice(), rules.MultiLevelTiling("SSRSRS"),
                     rules.ParallelizeVectorizeUnroll(4, 16, [0, 16, 64]))  # fmt: skip
    trace = sch.trace.simplified()
    every: list[mutator.Mutator] = [
        mutator.MutateTileSize(), mutator.MutateUnroll(), mutator.MutateParallel()
    ]  # fmt: skip
    for m in every:
        made = seeded(m).apply(trace)
        assert made is not None
        differ = [(a, b) for a, b in zip(trace.insts, made.insts, strict=True) if a != b]
        assert len(differ) == 1
        again = Schedule(matmul_twice())
        made.apply_to_schedule(again)
        check(again, "matmul_twice")
    plain = Trace([])
    for m in mutator.Mutator.create("llvm"):
        assert m.apply(plain) is None
    with pytest.raises(CompileError, match="for GPUs"):
        mutator.MutateThreadBinding().apply(plain)


def test_a_place_to_compute_is_drawn_anew() -> None:
    (sch,) = designs(doubled(), rules.RandomComputeLocation())
    made = mutator.MutateComputeLocation().apply(sch.trace)
    assert made is not None
    again = Schedule(doubled())
    made.apply_to_schedule(again)
    check(again, "doubled")


def test_spaces_use_the_rules_the_mutators_and_the_postprocessors() -> None:
    from_rules = PostOrderApply(
        sch_rules=[rules.MultiLevelTiling("SRS"), rules.ParallelizeVectorizeUnroll()],
        mutator_probs={mutator.MutateTileSize(): 1.0},
    )
    database = ms.tune_tir(matmul_twice(), max_trials_global=8, database="memory", seed=1,
                           num_trials_per_iter=4, space=from_rules)  # fmt: skip
    assert len(database) > 4
    for r in database.get_all_tuning_records():
        assert "sch.enter_postproc()" in str(r.trace)
        assert "sch.parallel(" in str(r.trace)
        check(r.schedule(), "matmul_twice")
