"""Unrolling, and copies of statements with variables and buffers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from smelt.arith import Analyzer
from smelt.arith.poly import INTS
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.expr import Add, Binary, Broadcast, Expr, IntImm, Ramp, Sub, Var, const
from smelt.ir.walk import free_vars
from smelt.tir.nodes import (
    Allocate,
    AllocateConst,
    BufferLoad,
    For,
    LetStmt,
    PrimFunc,
    Stmt,
    no_op,
    seq,
    walk,
)
from smelt.tir.printer import script
from smelt.tir.rewrite import renamed

from .ranges import sizes_of
from .simplify import Simplify

_LARGE = 16384
"""Statements after which unrolling is refused as a mistake."""
_LARGEST = 1 << 31
"""Constants from here on are left to the analyzer."""


class _Unroll(Simplify):
    """Writes out unrolled loops; simplifies on the way, since now more is constant.

    Most of what a body computes depends on few of the loops around it, so what an expression
    becomes is remembered under the values of its own variables.
    """

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        super().__init__(sizes)
        self.known: dict[tuple[object, ...], Expr] = {}
        self.variables, self.linear = cache(free_vars), cache(_linear)
        self.defines = cache(_defines)

    def expr(self, e: Expr) -> Expr:
        """Simplified where the loops' variables have their present values."""
        if isinstance(e, IntImm | Var):
            return self.analyzer.simplify(self.plain.expr(e))
        if isinstance(e, Binary) and dt.is_float(e.dtype):
            return self.of_parts(e)
        key = (self.analyzer.context, e, *map(self.values.get, self.variables(e)))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.new(e)
        return found

    def new(self, e: Expr) -> Expr:
        """The same for values that are new: in a linear integer they change only the constant."""
        if e.dtype not in INTS:
            return self.of_parts(e)
        values = {v: self.values[v] for v in self.variables(e) if v in self.values}
        rest, constant, factors = self.linear(e, *values)
        if self.analyzer.simplify(rest) is rest:
            by = sum((c * values[v] for v, c in factors.items()), constant)
            if isinstance(by, IntImm) and abs(by.value) < _LARGEST:
                return rest + by if by.value >= 0 else rest - -by.value
        return self.analyzer.simplify(self.plain.expr(e))

    def of_parts(self, e: Expr) -> Expr:
        """What is simple where its parts are, but for operations on broadcasts, or simplified."""
        new = self.visit_expr(e)
        match new:
            case BufferLoad() | Ramp() | Broadcast():
                return new
            case Binary(_, b) if type(b) is not Broadcast and dt.is_float(new.dtype):
                return new
        return self.analyzer.simplify(new)

    def visit_For(self, s: For) -> Stmt:
        if s.kind != "unrolled":
            self.known.clear()  # the loop's variable may have had another range
            return super().visit_For(s)
        low, extent = self.expr(s.min), self.expr(s.extent)
        if not isinstance(extent, IntImm):
            raise CompileError(
                f"the unrolled loop {s.var.name} has the extent {script(extent)}, not a constant"
            )
        if extent.value > _LARGE:
            raise CompileError(f"the unrolled loop {s.var.name} has {extent.value} turns")
        # what defines variables or buffers is renamed in each copy
        defines = self.defines(s.body)
        copies = []
        for i in range(extent.value):
            self.define(s.var, low + const(i, low.dtype))
            copies.append(self.stmt(renamed(s.body) if defines else s.body))
        if copies:
            self.define(s.var, None)
        return seq(*copies) if copies else no_op()


def _linear(e: Expr, *variables: Var) -> tuple[Expr, Expr, Mapping[Var, Expr]]:
    """Terms behind which a constant stands, the constant, and factors of variables.

    Where there is no such form, all of it is the constant.
    """
    plain, zero = Analyzer(), const(0, e.dtype)
    form = plain.linear(e, variables)
    if form is None:
        return zero, e, {}
    factors, whole = form
    rest = whole.a if isinstance(whole, Add | Sub) and isinstance(whole.b, IntImm) else whole
    constant = plain.simplify(whole - rest)
    return (rest, constant, factors) if plain.simplify(rest + 1) is rest + 1 else (zero, e, {})


def _defines(body: Stmt) -> bool:
    return any(
        isinstance(s, LetStmt | Allocate | AllocateConst)
        or (isinstance(s, For) and s.kind != "unrolled")
        for s in walk(body)
    )


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """Write out the loops of kind "unrolled"."""
    return func.replace(body=_Unroll(sizes_of(func)).stmt(func.body))
