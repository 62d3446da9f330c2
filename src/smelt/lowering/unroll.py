"""Unrolling, and copies of statements with variables and buffers of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.arith.poly import INTS
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.expr import Add, Binary, Broadcast, Expr, IntImm, Ramp, Sub, Var, const, numbers_of
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


class _Linear(NamedTuple):
    """rest + constant + the sum of factors times variables; behind `rest` a constant can stand."""

    rest: Expr
    constant: int
    factors: tuple[int, ...]


class _Seen(NamedTuple):
    """An expression of a body that is written out.

    variables  those in it that have a value; a tuple of their values is a key of `made`
    linear     what it is for any numbers, or None where that has to be derived for each
    """

    variables: Sequence[Var]
    linear: _Linear | None
    made: dict[tuple[Expr, ...], Expr]


class _Unroll(Simplify):
    """Writes out unrolled loops; simplifies on the way, since now more is constant.

    Most of what a body computes depends on few of the loops around it, so what an expression
    becomes is remembered under the values of its own variables.
    """

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        super().__init__(sizes)
        self.known: dict[tuple[object, Expr], _Seen] = {}
        self.defines = cache(_defines)
        self.linear = cache(partial(_linear, Analyzer()))

    def expr(self, e: Expr) -> Expr:
        """Simplified where the loops' variables have their present values."""
        if e.constant:
            return e
        if isinstance(e, Var):
            return self.analyzer.simplify(self.values.get(e, e))
        if isinstance(e, Binary) and dt.is_float(e.dtype):
            return self.of_parts(e)
        at = self.analyzer.context, e
        seen = self.known.get(at)
        if seen is None:
            seen = self.known[at] = self.seen(e)
        values = self.values
        key = tuple([values[v] for v in seen.variables])
        found = seen.made.get(key)
        if found is None:
            found = seen.made[key] = self.new(e, seen.linear, key)
        return found

    def seen(self, e: Expr) -> _Seen:
        variables = [v for v in free_vars(e) if v in self.values]
        linear = self.linear(e, *variables) if e.dtype in INTS else None
        if linear is not None and self.analyzer.simplify(linear.rest) is not linear.rest:
            linear = None
        return _Seen(variables, linear, {})

    def new(self, e: Expr, linear: _Linear | None, values: Sequence[Expr]) -> Expr:
        """The same for values that are new: in a linear integer they change only the constant."""
        if e.dtype not in INTS:
            return self.of_parts(e)
        numbers = numbers_of(values)
        if linear is not None and numbers is not None:
            by = linear.constant
            for factor, n in zip(linear.factors, numbers, strict=True):
                by += factor * n
            if abs(by) < _LARGEST:
                return linear.rest + by if by >= 0 else linear.rest - -by
        return super().expr(e)

    def of_parts(self, e: Expr) -> Expr:
        """What is simple where its parts are, but for operations on broadcasts, or simplified."""
        new = self.visit_expr(e)
        if isinstance(new, Binary) and dt.is_float(new.dtype):
            simple = type(new.a) is not Broadcast or type(new.b) is not Broadcast
        else:
            simple = isinstance(new, BufferLoad | Ramp | Broadcast)
        return new if simple else self.analyzer.simplify(new)

    def visit_For(self, s: For) -> Stmt:
        if s.kind != "unrolled":
            self.known.clear()  # the loop's variable may have had, or get, another range or a value
            new = super().visit_For(s)
            self.known.clear()
            return new
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
            self.define(s.var, low + i)
            copies.append(self.stmt(renamed(s.body) if defines else s.body))
        if copies:
            self.define(s.var, None)
        return seq(*copies) if copies else no_op()


def _linear(plain: Analyzer, e: Expr, *variables: Var) -> _Linear | None:
    """An integer as a sum of numbers times variables and what has none of them, if it is one."""
    form = plain.linear(e, variables)
    factors = None if form is None else numbers_of([form[0].get(v, const(0)) for v in variables])
    if form is None or factors is None:
        return None
    rest, constant = form[1], 0
    if isinstance(rest, Add | Sub) and isinstance(rest.b, IntImm):
        constant = rest.b.value if isinstance(rest, Add) else -rest.b.value
        rest = rest.a
    if plain.simplify(rest + 1) is not rest + 1:
        return None
    return _Linear(rest, constant, factors)


def _defines(body: Stmt) -> bool:
    return any(
        isinstance(s, LetStmt | Allocate | AllocateConst)
        or (isinstance(s, For) and s.kind != "unrolled")
        for s in walk(body)
    )


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """Write out the loops of kind "unrolled"."""
    return func.replace(body=_Unroll(sizes_of(func)).stmt(func.body))
