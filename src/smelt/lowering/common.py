"""Expressions that occur more than once get a name where their first common statement begins."""

from __future__ import annotations

from collections import Counter

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, FloatImm, IntImm, StringImm, Var
from smelt.tir import nodes
from smelt.tir.nodes import For, LetStmt, PrimFunc, Stmt, sub_statements, walk
from smelt.tir.rewrite import Rewriter
from smelt.tir.script_ops import expr_nodes, operands, shape_vars

from .safe import is_total, require_flat


def eliminate_common_subexpressions(func: PrimFunc) -> PrimFunc:
    """Bind scalars that are computed more than once.

    What is bound can be computed anywhere (nothing in it loads or can fail). A binding stands
    around the smallest statement that holds all uses.
    """
    require_flat(func, "CommonSubexprElimTIR")
    defined = {p for p in func.params if isinstance(p, Var)} | set(shape_vars(func.params))
    body = _Common().around(func.body, frozenset(defined))
    return func if body is func.body else func.replace(body=body)


class _Common:
    def __init__(self) -> None:
        self.count = 0

    def around(self, s: Stmt, defined: frozenset[Var]) -> Stmt:
        """A statement with what its parts have in common bound around it, and so on inside."""
        shared = _shared(s, defined)
        lets: list[tuple[Var, Expr]] = []
        names = Rewriter()
        for e in shared:
            self.count += 1
            var = Var(f"cse_var_{self.count}", e.dtype)
            lets.append((var, names.visit_expr(e)))
            names.memo[e] = var
        if lets:
            s = names.stmt(s)
            defined = defined | {v for v, _ in lets}
        return nodes.lets(lets, self.inside(s, defined))

    def inside(self, s: Stmt, defined: frozenset[Var]) -> Stmt:
        if isinstance(s, For | LetStmt):
            defined = defined | {s.var}
        parts = {x: self.around(x, defined) for x in sub_statements(s)}
        if all(a is b for a, b in parts.items()):
            return s
        made: Stmt = s.with_children(lambda c: parts.get(c, c))
        return made


def _shared(s: Stmt, defined: frozenset[Var]) -> list[Expr]:
    """What occurs twice in a statement, but not only in one statement inside; operands first."""
    fits = _Fits(defined)
    total: Counter[Expr] = Counter()
    where: dict[Expr, set[int]] = {}
    opened: set[Expr] = set()
    for n, part in enumerate([[s], *(list(walk(x)) for x in sub_statements(s))]):
        for root in [e for x in part for e in _own(x)]:
            inside = list(expr_nodes(root))
            times = Counter({root: 1})
            for e in inside:
                if fits.bindable(e):
                    where.setdefault(e, set()).add(n)
            for e in reversed(inside):
                # once bound, an expression computes its operands once, wherever it is used
                again = fits.bindable(e) and e in opened
                if fits.bindable(e):
                    total[e] += times[e]
                    opened.add(e)
                for c in operands(e):
                    times[c] += 0 if again else 1 if fits.bindable(e) else times[e]
    return [e for e, parts in where.items() if total[e] > 1 and (0 in parts or len(parts) > 1)]


def _own(s: Stmt) -> list[Expr]:
    """A statement's own expressions, each as often as it stands there."""
    return [e for e in nodes.own_exprs(s) if not isinstance(e, Var)]


class _Fits:
    """Which expressions may be bound where some variables are defined."""

    def __init__(self, defined: frozenset[Var]) -> None:
        self.defined = defined
        self.known: dict[Expr, bool] = {}

    def bindable(self, e: Expr) -> bool:
        """Whether it is a scalar worth a name, which can be computed anywhere."""
        return (
            not isinstance(e, Var | IntImm | FloatImm | StringImm)
            and self.computable(e)
            and dt.lanes(e.dtype) == 1
            and dt.kind(e.dtype) != "handle"
        )

    def computable(self, e: Expr) -> bool:
        found = self.known.get(e)
        if found is None:
            for x in expr_nodes(e):
                if x not in self.known:
                    inside = x in self.defined if isinstance(x, Var) else is_total(x)
                    self.known[x] = inside and all(self.known[c] for c in operands(x))
            found = self.known[e]
        return found
