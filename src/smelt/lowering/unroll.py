"""Unrolling, and copies of statements with variables and buffers of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.arith.poly import INTS
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.expr import (
    Add,
    Binary,
    Broadcast,
    Expr,
    IntImm,
    Ramp,
    Sub,
    Var,
    binary,
    const,
    numbers_of,
)
from smelt.ir.walk import free_vars, rebuild_binary
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

from .ranges import analyzer_for
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

    def at(self, values: Sequence[Expr]) -> Expr | None:
        """The sum where the variables are small numbers, else None."""
        by = self.constant
        for factor, v in zip(self.factors, values, strict=True):
            if not isinstance(v, IntImm):
                return None
            by += factor * v.value
        if abs(by) >= _LARGEST:
            return None
        return binary(Add, self.rest, by) if by >= 0 else binary(Sub, self.rest, -by)


Template = Callable[[], Expr]
"""What an expression becomes for the values that its variables have when it is called."""


class _Unroll(Simplify):
    """Writes out unrolled loops; simplifies on the way, since now more is constant.

    Most of what a body computes depends on few of the loops around it, so every expression has a
    template, which remembers what it has become under the values of its own variables.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.templates: dict[tuple[object, Expr], Template] = {}
        self.defines = cache(_defines)
        self.linear = cache(partial(_linear, Analyzer()))

    def expr(self, e: Expr) -> Expr:
        """Simplified where the loops' variables have their present values."""
        return self.template(e)()

    def template(self, e: Expr) -> Template:
        """The one under the present facts."""
        at = self.analyzer.context, e
        found = self.templates.get(at)
        if found is None:
            found = self.templates[at] = self.made(e)
        return found

    def made(self, e: Expr) -> Template:
        if isinstance(e, Binary) and dt.is_float(e.dtype):
            a, b = self.template(e.a), self.template(e.b)
            return lambda: self.joined(type(e), a(), b())
        variables = [v for v in free_vars(e) if v in self.values]
        linear = self.linear(e, *variables) if e.dtype in INTS and variables else None
        if linear is not None and self.analyzer.simplify(linear.rest) is not linear.rest:
            linear = None
        known: dict[tuple[Expr, ...], Expr] = {}

        def template() -> Expr:
            values = tuple([self.values[v] for v in variables])
            found = known.get(values)
            if found is None:
                found = None if linear is None else linear.at(values)
                found = known[values] = self.new(e) if found is None else found
            return found

        return template

    def new(self, e: Expr) -> Expr:
        if e.dtype in INTS or isinstance(e, Var):
            return super().expr(e)
        if isinstance(e, BufferLoad):
            return BufferLoad(e.buffer, tuple([self.expr(i) for i in e.indices]))
        if isinstance(e, Ramp):
            return Ramp(self.expr(e.base), self.expr(e.stride), e.lanes)
        new = self.visit_expr(e)
        return new if isinstance(new, Broadcast) else self.analyzer.simplify(new)

    def joined(self, kind: type[Binary], a: Expr, b: Expr) -> Expr:
        """An operation on floats; simple where its parts are, but for those on broadcasts."""
        new = rebuild_binary(kind, a, b)
        return self.analyzer.simplify(new) if type(a) is type(b) is Broadcast else new

    def visit_For(self, s: For) -> Stmt:
        if s.kind != "unrolled":
            self.templates.clear()  # the variable may have had, or get, another range or a value
            new = super().visit_For(s)
            self.templates.clear()
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
    return func.replace(body=_Unroll(analyzer_for(func)).stmt(func.body))
