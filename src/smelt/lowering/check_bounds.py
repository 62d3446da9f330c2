"""Checks before accesses: an index outside of its buffer ends the program with an error status."""

from __future__ import annotations

from collections.abc import Iterator

from smelt.arith import Analyzer
from smelt.ir.build import all_of, is_const, logical_not, maximum, minimum
from smelt.ir.errors import CompileError
from smelt.ir.expr import Broadcast, Call, Expr, Ramp, const
from smelt.tir import nodes as tir
from smelt.tir.printer import script
from smelt.tir.script_ops import operands

from .ranges import RangeRewriter, analyzer_for


class _Check(RangeRewriter):
    """Puts the checks of a statement's own expressions in front of it."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.guards: list[Expr] = []

    def before(self, *exprs: Expr) -> list[tir.Stmt]:
        """The checks of expressions that a statement evaluates, in the order of evaluation."""
        found: dict[tuple[Expr | str, ...], tir.Stmt] = {}
        for e in exprs:
            for key, check in self.accesses(e):
                found.setdefault(key, check)
        return list(found.values())

    def accesses(self, e: Expr) -> Iterator[tuple[tuple[Expr | str, ...], tir.Stmt]]:
        """The checks of the loads in an expression, those of their indices first."""
        if isinstance(e, Call) and e.op == tir.ADDRESS:
            return
        if isinstance(e, Call) and e.op == "if_then_else":
            c, a, b = e.args
            yield from self.accesses(c)
            for guard, value in ((c, a), (logical_not(c), b)):
                self.guards.append(guard)
                with self.analyzer.assume(guard):
                    yield from self.accesses(value)
                self.guards.pop()
            return
        for x in operands(e):
            yield from self.accesses(x)
        if isinstance(e, tir.BufferLoad):
            yield from self.inside(e.buffer, e.indices)

    def inside(
        self, b: tir.Buffer, indices: tuple[Expr, ...]
    ) -> Iterator[tuple[tuple[Expr | str, ...], tir.Stmt]]:
        """The checks of one access, where it is not proved to be in bounds."""
        for d, (index, extent) in enumerate(zip(indices, b.shape, strict=True)):
            low, high = _ends(index, b)
            parts = [
                c
                for c in (low >= 0, high < extent)
                if not is_const(c, 1) and not self.analyzer.can_prove(c)
            ]
            if not parts:
                continue
            text = script(tir.BufferLoad(b, indices)).strip()
            place = f"index {d} of {text}" if b.rank > 1 else f"the index of {text}"
            check: tir.Stmt = tir.AssertStmt(
                all_of(parts), f"{place} is not in 0 ... {script(extent).strip()} - 1"
            )
            for guard in reversed(self.guards):
                check = tir.IfThenElse(guard, check)
            yield (b.name, *self.guards, *parts), check

    # -------------------------------------------------------------------------- statements

    def stmt(self, s: tir.Stmt) -> tir.Stmt:
        """A statement behind the checks of what it evaluates first."""
        exprs = (*s.indices, s.value) if isinstance(s, tir.BufferStore) else tir.own_exprs(s)
        return tir.seq(*self.before(*exprs), super().stmt(s))

    def visit_BufferStore(self, s: tir.BufferStore) -> tir.Stmt:
        return tir.seq(*[check for _, check in self.inside(s.buffer, s.indices)], s)

    def visit_While(self, s: tir.While) -> tir.Stmt:
        """The condition is evaluated before each iteration, so its checks stand there as well."""
        return tir.While(s.condition, tir.seq(self.stmt(s.body), *self.before(s.condition)))

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        return tir.IfThenElse(s.condition, *self.branches(s, s.condition))

    def visit_BlockRealize(self, s: tir.BlockRealize) -> tir.Stmt:
        with self.analyzer.assume(s.predicate):
            return super().visit_BlockRealize(s)


def _ends(index: Expr, b: tir.Buffer) -> tuple[Expr, Expr]:
    """The smallest and the largest index of all lanes."""
    match index:
        case Ramp(base, stride, lanes):
            last = base + stride * const(lanes - 1, base.dtype)
            return minimum(base, last), maximum(base, last)
        case Broadcast(value, _):
            return value, value
    if "x" in index.dtype:
        raise CompileError(
            f"InstrumentBoundCheckers: the vector index {script(index).strip()} of {b.name} cannot "
            "be checked; VectorizeLoop(False) gives a program without vectors"
        )
    return index, index


def check_bounds(func: tir.PrimFunc) -> tir.PrimFunc:
    """A program that checks every index which is not proved to be in bounds.

    A failed check ends the program (status 3, as for every failed assertion; the interpreter
    raises).
    """
    return func.replace(body=_Check(analyzer_for(func)).stmt(func.body))
