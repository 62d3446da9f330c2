"""Passes that are wrong on purpose, of several kinds: each is named, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import pipeline, te
from smelt.ir.build import is_const
from smelt.ir.errors import InternalError
from smelt.ir.expr import LT, Add, Expr, IntImm, Mul, Ramp, Sub, const
from smelt.ir.module import IRModule
from smelt.ir.steps import Step
from smelt.ir.transform import PassContext, Sequential
from smelt.lowering.check_passes import CheckInstrument
from smelt.lowering.instrument import Check
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.tir.nodes import (
    Allocate,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Seq,
    Stmt,
    no_op,
    seq,
    walk,
)
from smelt.tir.rewrite import Rewriter, substitute_stmt
from smelt.tir.schedule import Schedule
from tests.schedule.support import matmul

Wrong = Callable[[PrimFunc], PrimFunc]


class _Once(Rewriter):
    """Changes the first statement or expression for which a method finds something to change."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def __call__(self, func: PrimFunc) -> PrimFunc:
        body = self.stmt(func.body)
        assert self.done, "there is nothing to break"
        return func.replace(body=body)


class _OffByOne(_Once):
    """A loop that leaves out its last turn."""

    def visit_For(self, s: For) -> Stmt:
        if not self.done and isinstance(s.extent, IntImm) and s.extent.value > 2:
            self.done = True
            return s.replace(extent=s.extent - 1)
        return super().visit_For(s)


class _DroppedInit(_Once):
    """A reduction that adds to whatever is there."""

    def visit_Block(self, s: Block) -> Block:
        if not self.done and s.init is not None:
            self.done = True
            return s.replace(init=None)
        return super().visit_Block(s)


class _DroppedStart(_Once):
    """The same after blocks are gone: the store of zero."""

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        if not self.done and is_const(s.value, 0):
            self.done = True
            return no_op()
        return super().visit_BufferStore(s)


class _Swapped(_Once):
    """a - b becomes b - a."""

    def visit_expr(self, e: Expr) -> Expr:
        if not self.done and isinstance(e, Sub) and e.dtype == "float32":
            self.done = True
            return Sub(e.b, e.a)
        return super().visit_expr(e)


class _Shifted(_Once):
    """A store one element further on."""

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        if not self.done and s.buffer.name == "C":
            self.done = True
            return s.replace(indices=(*s.indices[:-1], Add(s.indices[-1], const(1))))
        return super().visit_BufferStore(s)


class _Unrolled(_Once):
    """Copies of a body that are all the first one."""

    def visit_For(self, s: For) -> Stmt:
        if not self.done and s.kind == "unrolled" and isinstance(s.extent, IntImm):
            self.done = True
            return seq(*[substitute_stmt(s.body, {s.var: s.min})] * s.extent.value)
        return super().visit_For(s)


class _Parallel(_Once):
    """The loop of a reduction made parallel."""

    def visit_For(self, s: For) -> Stmt:
        if not self.done and s.var.name.startswith("k"):
            self.done = True
            return s.replace(kind="parallel")
        return super().visit_For(s)


class _Hoisted(_Once):
    """A buffer of each parallel turn made one for all."""

    def visit_For(self, s: For) -> Stmt:
        if not self.done and s.kind == "parallel":
            for x in walk(s.body):
                if isinstance(x, Allocate):
                    self.done = True
                    return Allocate(x.buffer, s.replace(body=_without(s.body, x.buffer)))
        return super().visit_For(s)


def _without(s: Stmt, buffer: Buffer) -> Stmt:
    class Without(Rewriter):
        def visit_Allocate(self, s: Allocate) -> Stmt:
            return s.body if s.buffer is buffer else super().visit_Allocate(s)

    return Without().stmt(s)


class _Guard(_Once):
    """x < n becomes x < n + 1: a guard that lets one too many through."""

    def visit_IfThenElse(self, s: IfThenElse) -> Stmt:
        c = s.condition
        if not self.done and isinstance(c, LT) and isinstance(c.b, IntImm):
            self.done = True
            return IfThenElse(LT(c.a, c.b + 1), s.then_body, s.else_body)
        return super().visit_IfThenElse(s)


class _Lanes(_Once):
    """Vectors of every second element."""

    def visit_expr(self, e: Expr) -> Expr:
        if not self.done and isinstance(e, BufferLoad) and isinstance(e.indices[-1], Ramp):
            self.done = True
            r = e.indices[-1]
            wide = Ramp(r.base, Mul(r.stride, const(2)), r.lanes)
            return BufferLoad(e.buffer, (*e.indices[:-1], wide))
        return super().visit_expr(e)


class _Reordered(_Once):
    """The first two statements of a sequence exchanged, one of which needs the other."""

    def visit_Seq(self, s: Seq) -> Stmt:
        if not self.done and any(isinstance(x, BufferStore | For | Allocate) for x in s.stmts[:1]):
            self.done = True
            return Seq((s.stmts[1], s.stmts[0], *s.stmts[2:]))
        return super().visit_Seq(s)


def _product() -> PrimFunc:
    """A tiled matrix product, rows in parallel, tiles in registers, with ragged edges."""
    sch = Schedule(matmul(10, 12, 7))
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    local = sch.cache_write("C", 0, "local")
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(local, j0)
    sch.parallel(i0)
    sch.unroll(i1)
    sch.vectorize(j1)
    return sch.func


def _difference() -> PrimFunc:
    """(A - row sums) * 2, in two blocks."""
    a = te.placeholder((6, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    total = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="total")
    c = te.compute((6, 9), lambda i, j: (a[i, j] - total[i]) * 2.0, name="C")
    return te.create_prim_func([a, c])


WRONG: dict[str, tuple[Callable[[], PrimFunc], type[_Once], str]] = {
    "off_by_one": (_product, _OffByOne, "lower_blocks"),
    "off_by_one_flat": (_product, _OffByOne, "flatten_buffers"),
    "dropped_init": (_product, _DroppedInit, ""),
    "dropped_start": (_product, _DroppedStart, "lower_blocks"),
    "dropped_start_of_vectors": (_difference, _DroppedStart, "flatten_buffers"),
    "swapped": (_difference, _Swapped, "flatten_buffers"),
    "shifted": (_product, _Shifted, "simplify"),
    "unrolled": (_product, _Unrolled, "vectorize_loops"),
    "parallel_reduction": (_difference, _Parallel, "lower_blocks"),
    "parallel_reduction_flat": (_difference, _Parallel, "flatten_buffers"),
    "shared_tile": (_product, _Hoisted, "flatten_buffers"),
    "guard": (_product, _Guard, "lower_blocks"),
    "lanes": (_product, _Lanes, "vectorize_loops"),
    "reordered": (_difference, _Reordered, "lower_blocks"),
}


def _pipeline(name: str, wrong: type[_Once], after: str) -> tuple[Step, ...]:
    """LOWER with a wrong pass behind the first one of that name."""

    def step(func: PrimFunc) -> PrimFunc:
        return wrong()(func)

    step.__name__ = name
    names = [s.file for s in LOWER]
    at = names.index(after) + 1 if after else 0
    return (*LOWER[:at], Step(step, name, "wrong"), *LOWER[at:])


@pytest.mark.parametrize("case", list(WRONG))
def test_the_wrong_pass_is_named(case: str) -> None:
    make, wrong, after = WRONG[case]
    func = make()
    lower(func, LOWER, Check(func))  # without it nothing is said
    with pytest.raises(InternalError, match=rf"the pass {case} (changed|made)"):
        lower(func, _pipeline(case, wrong, after), Check(func))


@pytest.mark.parametrize("case", ["swapped", "parallel_reduction", "dropped_init"])
def test_the_message(case: str, golden: Callable[[str], None]) -> None:
    make, wrong, after = WRONG[case]
    func = make()
    with pytest.raises(InternalError) as caught:
        lower(func, _pipeline(case, wrong, after), Check(func))
    golden(str(caught.value))


def test_a_program_that_is_built_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """SMELT_CHECK=1 and smelt.build: with right passes it works, with a wrong one it says which."""
    monkeypatch.setenv("SMELT_CHECK", "1")
    options = smelt.Options(workers=0)
    a = np.arange(54, dtype="float32").reshape(6, 9)
    out = np.zeros((6, 9), "float32")
    smelt.build(_difference(), target="llvm -mcpu=native", options=options)["main"](a, out)
    np.testing.assert_allclose(out, (a - a.sum(1, keepdims=True)) * 2)

    monkeypatch.setattr(pipeline, "LOWER", _pipeline("swapped", _Swapped, "flatten_buffers"))
    with pytest.raises(InternalError, match="the pass swapped changed what C holds"):
        smelt.build(_difference(), target="llvm -mcpu=native", options=options)


# ------------------------------------------------------------------------------- user's passes


def _user_pass(name: str, step: Wrong) -> Callable[[Any], Any]:
    def run(mod: IRModule, context: PassContext) -> IRModule:
        funcs = {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
        return mod.with_functions({n: step(f) for n, f in funcs.items()})

    return smelt.transform.module_pass(run, opt_level=0, name=name)  # type: ignore[no-any-return]


def _same(func: PrimFunc) -> PrimFunc:
    return func.with_attrs(seen=True)


@pytest.mark.parametrize("wrong", [_Swapped, _DroppedInit, _OffByOne])
def test_a_wrong_pass_of_the_user_is_named(wrong: type[_Once]) -> None:
    steps = [_user_pass("first", _same), _user_pass("second", wrong()), _user_pass("third", _same)]
    mod = IRModule({"f": _difference()})
    with (
        PassContext(instruments=[CheckInstrument()]),
        pytest.raises(InternalError, match=r"f: the pass second (changed|made)"),
    ):
        Sequential(steps)(mod)
    with PassContext(instruments=[CheckInstrument()]):
        Sequential([steps[0], steps[2]])(mod)


def test_a_pass_that_breaks_a_rule_is_named() -> None:
    def renamed(func: PrimFunc) -> PrimFunc:
        return func.replace(params=func.params[:1])

    with (
        PassContext(instruments=[CheckInstrument()]),
        pytest.raises(InternalError, match=r"(?s)the pass lost made an invalid program.*buffer C"),
    ):
        Sequential([_user_pass("lost", renamed)])(IRModule({"f": _difference()}))
