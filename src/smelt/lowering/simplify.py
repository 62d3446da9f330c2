"""Simplification of statements under what their loops and branches say."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.build import is_const
from smelt.ir.expr import And, Broadcast, Expr, IntImm, Var
from smelt.ir.walk import substitute
from smelt.tir import nodes as tir
from smelt.tir.rewrite import updated

from .ranges import RangeRewriter, analyzer_for


class Simplify(RangeRewriter):
    """Rewrites expressions by an Analyzer that knows the ranges of the loops around."""

    def __init__(self, analyzer: Analyzer) -> None:
        """What is known of sizes, or of all that is around."""
        super().__init__(analyzer)
        self.values: dict[Var, Expr] = {}

    def expr(self, e: Expr) -> Expr:
        """Substituted, then simplified."""
        return self.analyzer.simplify(self.plain(e))

    def plain(self, e: Expr) -> Expr:
        """Values for variables."""
        return substitute(e, self.values) if self.values else e

    def define(self, v: Var, value: Expr | None) -> None:
        """Let a variable stand for a value from here on (None: no longer)."""
        if value is None:
            del self.values[v]
        else:
            self.values[v] = value

    def visit_For(self, s: tir.For) -> tir.Stmt:
        """Loops without iterations vanish; those of one iteration become their body."""
        low, extent = self.expr(s.min), self.expr(s.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return tir.no_op()
        if is_const(extent, 1) and s.kind != "thread_binding":
            self.define(s.var, low)
            return self.stmt(s.body)
        self.analyzer.bind(s.var, low, extent)
        body = self.stmt(s.body)
        if tir.is_no_op(body):
            return tir.no_op()
        return updated(s, min=low, extent=extent, body=body)

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        """Decided branches are taken; an undecided condition is a fact inside."""
        c = _decided_lanes(self.expr(s.condition))
        c = c.value if isinstance(c, Broadcast) else c
        if isinstance(c, IntImm):
            if c.value:
                return self.stmt(s.then_body)
            return tir.no_op() if s.else_body is None else self.stmt(s.else_body)
        return tir.without_empty_sides(tir.IfThenElse(c, *self.branches(s, c)))

    def visit_Seq(self, s: tir.Seq) -> tir.Stmt:
        """Statements that do nothing are dropped."""
        return tir.without_no_ops(s, map(self.stmt, s.stmts))

    def visit_LetStmt(self, s: tir.LetStmt) -> tir.Stmt:
        """A binding to a constant or variable is substituted."""
        value = self.expr(s.value)
        if isinstance(value, IntImm | Var):
            self.define(s.var, value)
            return self.stmt(s.body)
        return tir.LetStmt(s.var, value, self.stmt(s.body))

    def visit_Allocate(self, s: tir.Allocate) -> tir.Stmt:
        """A buffer whose user vanished vanishes too."""
        body = self.stmt(s.body)
        return tir.no_op() if tir.is_no_op(body) else tir.Allocate(s.buffer, body, s.annotations)


def simplify(func: tir.PrimFunc) -> tir.PrimFunc:
    """A program with its statements simplified."""
    return Simplify(analyzer_for(func)).program(func)


def _decided_lanes(c: Expr) -> Expr:
    """A condition without those parts that are true, or false, in every lane."""
    if not isinstance(c, And):
        return c
    a, b = _decided_lanes(c.a), _decided_lanes(c.b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Broadcast) and isinstance(one.value, IntImm):
            return other if one.value.value else one
    return c if a is c.a and b is c.b else And(a, b)
