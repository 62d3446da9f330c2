"""Conditions and bindings that a loop does not change move out of it.

for i in range(8):              if n > 4:
    A(i)                            for i in range(8): A(i); B(i)
    if n > 4: B(i)      ->      else:
                                    for i in range(8): A(i)
"""

from __future__ import annotations

from smelt.ir.build import all_of, is_const
from smelt.ir.expr import Call, Expr, Select, Var
from smelt.ir.walk import free_vars
from smelt.tir import nodes as tir
from smelt.tir.facts import conjuncts
from smelt.tir.rewrite import Rewriter, renamed
from smelt.tir.script_ops import expressions

from .blocks import drop_empty
from .safe import is_speculable, require_flat

_COPIES = 4
"""Conditions that leave one loop, each of which doubles what is left of its body."""


def hoist(
    func: tir.PrimFunc, *, branches: bool, choices: bool, bindings: bool, anywhere: bool = True
) -> tir.PrimFunc:
    """Move what a loop does not change out of it.

    branches  conditions of if statements
    choices   conditions of if_then_else and select in what is computed
    bindings  values bound at the beginning of a loop's body
    anywhere  also branches beside other statements, which then stand in both copies of the loop

    Nothing moves that may be undefined where the program does not compute it.
    """
    require_flat(func, "hoisting")
    return _Hoist(branches, choices, bindings, anywhere).program(func)


class _Hoist(Rewriter):
    """Works from the innermost loop outwards, so that a condition leaves as many as it can."""

    def __init__(self, branches: bool, choices: bool, bindings: bool, anywhere: bool) -> None:
        super().__init__()
        self.branches, self.choices, self.bindings = branches, choices, bindings
        self.anywhere = anywhere

    def visit_For(self, s: tir.For) -> tir.Stmt:
        new = self.parts(s)
        lets: list[tuple[Var, Expr]] = []
        if self.bindings:
            new, lets = _without_bindings(new)
        return tir.lets(lets, self.versions(new, _COPIES))

    def versions(self, s: tir.For, copies: int) -> tir.Stmt:
        """The loop once for each outcome of the conditions that it does not change."""
        condition = self.invariant(s) if copies else None
        if condition is None:
            return s
        yes = self.version(s, condition, True, copies - 1)
        no = self.version(renamed(s), condition, False, copies - 1)
        return tir.without_empty_sides(tir.IfThenElse(condition, yes, no))

    def version(self, s: tir.Stmt, condition: Expr, value: bool, copies: int) -> tir.Stmt:
        assert isinstance(s, tir.For)
        made = drop_empty(_Decide(condition, value).stmt(s))
        return self.versions(made, copies) if isinstance(made, tir.For) else made

    def invariant(self, s: tir.For) -> Expr | None:
        """A condition of the body that the loop's iterations do not change, or None."""
        # an inner loop's own are outside of it already
        inside = list(tir.walk(s.body, lambda x: isinstance(x, tir.For | tir.While)))
        bound = {s.var, *[x.var for x in inside if isinstance(x, tir.LetStmt)]}
        for x in inside if self.anywhere else inside[:1]:
            found = _choices(x) if self.choices else []
            if self.branches and isinstance(x, tir.IfThenElse):
                found = conjuncts(x.condition) + found
            if leaving := [c for c in found if _leaves(c, bound)]:
                return leaving[0]
        return None


def _leaves(condition: Expr, bound: set[Var]) -> bool:
    return (
        not is_const(condition)
        and condition.dtype == "bool"
        and not free_vars(condition) & bound
        and is_speculable(condition)
    )


def _choices(s: tir.Stmt) -> list[Expr]:
    """The conditions that choose between values in a statement's own expressions."""
    found: list[Expr] = []
    for e in expressions(s):
        match e:
            case Select(c, _, _) | Call(_, "if_then_else", (c, _, _)):
                found += conjuncts(c)
    return found


class _Decide(Rewriter):
    """A statement where one condition is known."""

    def __init__(self, condition: Expr, value: bool) -> None:
        super().__init__()
        self.condition, self.value = condition, value

    def decided(self, e: Expr) -> Expr | None:
        """What is left of a condition that has the known one as a part: None where it is false."""
        parts = conjuncts(e)
        if self.condition not in parts:
            return e
        return all_of([p for p in parts if p is not self.condition]) if self.value else None

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        left = self.decided(s.condition)
        if left is None:
            return tir.no_op() if s.else_body is None else self.stmt(s.else_body)
        if is_const(left, 1):
            return self.stmt(s.then_body)
        return super().visit_IfThenElse(s.replace(condition=left))

    def visit_expr(self, e: Expr) -> Expr:
        match e:
            case Select(c, a, b) | Call(_, "if_then_else", (c, a, b)):
                left = self.decided(c)
                if left is None:
                    return self.expr(b)
                if is_const(left, 1):
                    return self.expr(a)
        return super().visit_expr(e)


def _without_bindings(s: tir.For) -> tuple[tir.For, list[tuple[Var, Expr]]]:
    """A loop without the bindings at its beginning that it does not change, and those."""
    inside: set[Var] = {s.var}
    kept: list[tuple[Var, Expr]] = []
    out: list[tuple[Var, Expr]] = []
    body = s.body
    while isinstance(body, tir.LetStmt):
        stays = bool(free_vars(body.value) & inside) or not is_speculable(body.value)
        (kept if stays else out).append((body.var, body.value))
        inside |= {body.var} if stays else set()
        body = body.body
    return (s.replace(body=tir.lets(kept, body)), out) if out else (s, [])
