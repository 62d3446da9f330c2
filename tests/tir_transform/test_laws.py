"""Every pass keeps what the interpreter says of a program, whatever the program is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from smelt.ir.errors import CompileError
from smelt.rules.cpu import schedule
from smelt.tir import transform as t
from smelt.tir.equal import structural_equal
from smelt.tir.interpret import InterpretError
from smelt.tir.nodes import Block, BlockRealize, PrimFunc, walk
from smelt.tir.transform import PrimFuncPass
from smelt.tir.verify import verify
from tests.lowering import programs as kernels
from tests.tir_text.generate import arguments, programs

from .support import MACHINE, constructors, kinds, result, same

LAW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
SIZES: dict[str, tuple[int, ...]] = {
    "matmul": (9, 21, 6),
    "dense": (5, 17, 8),
    "conv": (1, 2, 4, 5, 5),
    "pool": (3, 5, 6),
    "softmax": (5, 13),
    "argmax": (4, 11),
    "concat": (5, 3, 6),
    "elementwise": (6, 7),
    "transposed": (6, 7),
    "interleaved": (3, 21),
}
BLOCKS = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
)
# vectorized loops of random programs do not keep the promise that their turns are independent
PROMISE = {"VectorizeLoop"}
ANY = [
    getattr(t, n)()
    for n in constructors()
    if n not in PROMISE | {"Apply", "BindTarget", "Filter", "NarrowDataType"}
] + [t.NarrowDataType(32), t.HoistIfThenElse("basic"), t.CommonSubexprElimTIR(True, True)]


def lowered(func: PrimFunc) -> PrimFunc:
    """A program after the classic steps from blocks to flat loops."""
    for name in BLOCKS:
        func = verify(getattr(t, name)()(func))
    assert not any(isinstance(s, BlockRealize | Block) for s in walk(func.body))
    return func


def every_pass_keeps_the_result(func: PrimFunc, passes: list[PrimFuncPass], seed: int) -> None:
    """Apply each pass that takes the program."""
    given = arguments(func, seed)
    try:
        result(func, given)
    except InterpretError:
        assume(False)
    taken, refused = 0, []
    for p in passes:
        try:
            new = p(func)
        except CompileError as e:
            refused.append(str(e))
            continue
        if not structural_equal(verify(new), func):
            same(new, func, given, close=p.info.name == "LowerIntrin")
        taken += 1
    assert taken > len(passes) // 3
    assert all("comes first" in text for text in refused), refused


@LAW
@given(programs())
def test_passes_on_random_programs(func: PrimFunc) -> None:
    every_pass_keeps_the_result(func, ANY, 0)


@LAW
@given(programs())
def test_passes_on_flat_random_programs(func: PrimFunc) -> None:
    flat = t.FlattenBuffer()(lowered(func))
    assert all(b.rank == 1 for b in flat.buffers)
    given = arguments(func, 1)
    try:
        same(verify(flat), func, given)
    except InterpretError:
        assume(False)
    every_pass_keeps_the_result(flat, ANY, 1)
    unrolled = t.UnrollLoop()(flat)
    assert "unrolled" not in kinds(unrolled)
    same(verify(unrolled), func, given)


@LAW
@given(programs(flat=True))
def test_a_pass_that_changes_nothing_gives_the_program_itself(func: PrimFunc) -> None:
    for p in (t.ConvertSSA(), t.SkipAssert(), t.RemoveAssume(), t.RemoveNoOp(), t.Simplify()):
        once = p(func)
        twice = p(once)
        assert structural_equal(once, twice), p
        if p.info.name != "Simplify":
            assert twice is once, p


# ------------------------------------------------------------------------------- real kernels


def close(new: PrimFunc, given: list[object], expected: list[np.ndarray], what: str) -> None:
    kernels.close(kernels.result(new, given), expected, what)


@pytest.mark.parametrize("name", list(kernels.BUILDERS))
def test_the_classic_steps_on_scheduled_kernels(name: str) -> None:
    plain = kernels.BUILDERS[name](*SIZES[name])
    given = kernels.arrays(plain, {})
    expected = kernels.result(plain, given)
    func = schedule(plain, MACHINE).func
    for step in BLOCKS:
        func = verify(getattr(t, step)()(func))
        close(func, given, expected, step)
    assert not any(isinstance(s, BlockRealize) for s in walk(func.body))
    rest = (
        t.Simplify(),
        t.ReduceBranchingThroughOvercompute(),
        t.HoistIfThenElse("basic"),
        t.LoopPartition(),
        t.FlattenBuffer(),
        t.VectorizeLoop(),
        t.InjectVirtualThread(),
        t.InjectDoubleBuffer(),
        t.StorageRewrite(),
        t.UnrollLoop(),
        t.RenormalizeSplitPattern(),
        t.Simplify(),
        t.RemoveNoOp(),
        t.RewriteUnsafeSelect(),
        t.HoistIfThenElse(),
        t.CommonSubexprElimTIR(),
        t.NarrowDataType(32),
        t.LowerIntrin(),
    )
    for p in rest:
        func = verify(p(func))
        close(func, given, expected, p.info.name)
    assert kinds(func) <= {"serial", "parallel"}
    assert all(b.rank == 1 for b in func.buffers)


@pytest.mark.parametrize("name", ["matmul", "conv", "softmax"])
def test_every_pass_on_scheduled_kernels(name: str) -> None:
    plain = kernels.BUILDERS[name](*SIZES[name])
    given = kernels.arrays(plain, {})
    expected = kernels.result(plain, given)
    func = schedule(plain, MACHINE).func
    refused = []
    for stage in (func, lowered(func), t.FlattenBuffer()(t.Simplify()(lowered(func)))):
        for p in [*ANY, t.VectorizeLoop(False)]:
            if p.info.name in ("BF16StorageLegalize", "FP8StorageLegalize"):
                continue
            try:
                new = p(stage)
            except CompileError as e:
                refused.append(str(e))
                continue
            if not structural_equal(verify(new), stage):
                close(new, given, expected, p.info.name)
    assert all("comes first" in text for text in refused), refused
