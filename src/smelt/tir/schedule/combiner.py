"""What a reduction block does at each step: it joins its results so far with new terms.

    out_k = f_k(out_0, ..., out_n, term_0, ..., term_n)

Sums, products, least and largest values, and tuples of these; tuples of which one side is chosen as
a whole (the largest value and where it stands).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from smelt.ir import expr
from smelt.ir.walk import free_vars, substitute
from smelt.tir.rewrite import Rewriter, loads

from .. import nodes
from .state import State

_ELEMENTWISE = (expr.Add, expr.Mul, expr.Min, expr.Max, expr.And, expr.Or)


@dataclass
class Update:
    """One step of a reduction.

    buffers    the results, all at `point`
    values     the results after the step
    terms      what the step adds, one a result
    starts     the initial values
    condition  the step is left out where it is false
    ordered    whether the terms must be joined in their order (among equals the first one wins)
    """

    buffers: tuple[nodes.Buffer, ...]
    point: tuple[expr.Expr, ...]
    values: tuple[expr.Expr, ...]
    terms: tuple[expr.Expr, ...]
    starts: tuple[expr.Expr, ...]
    condition: expr.Expr
    ordered: bool

    def identities(self) -> list[expr.Expr]:
        """What partial results start from: the initial values, unless they would count twice."""
        out: list[expr.Expr] = []
        for value, start in zip(self.values, self.starts, strict=True):
            if isinstance(value, expr.Add | expr.Mul):
                out.append(expr.const(0 if isinstance(value, expr.Add) else 1, value.dtype))
            else:
                out.append(start)
        return out

    def joined(
        self,
        s: State,
        buffers: Sequence[nodes.Buffer],
        point: tuple[expr.Expr, ...],
        terms: Sequence[expr.Expr],
        own: Mapping[expr.Var, expr.Expr],
    ) -> nodes.Stmt:
        """The step on other results with other terms, `own` put in place of the variables."""
        swap = Rewriter(own)
        swap.memo.update(zip(self.terms, terms, strict=True))
        for old, new in zip(self.buffers, buffers, strict=True):
            swap.memo[nodes.BufferLoad(old, self.point)] = nodes.BufferLoad(new, point)
        results = [swap.expr(v) for v in self.values]
        return nodes.stored_together(buffers, results, point, s.fresh)


# ---------------------------------------------------------------------------------- recognition


def read_update(s: State, b: nodes.BlockRealize) -> Update:
    """The step that a reduction block takes; refuses what is not known to be a reduction."""
    condition: expr.Expr = expr.const(True)
    body = b.block.body
    if isinstance(body, nodes.IfThenElse) and body.else_body is None:
        condition, body = body.condition, body.then_body
    stores, values = _stores(s, b, body)
    buffers, point = tuple([x.buffer for x in stores]), stores[0].indices
    starts = _starts(s, b, buffers)
    olds = [nodes.BufferLoad(x, point) for x in buffers]
    terms = tuple([_term(s, b, v, old) for v, old in zip(values, olds, strict=True)])
    for e in (*terms, condition):
        if any(x in olds for x in loads(e)):
            _refuse(s, b, "a term depends on the result so far")
    ordered = _ordered(s, b, values, olds, terms)
    return Update(buffers, point, values, terms, starts, condition, ordered)


def _refuse(s: State, b: nodes.BlockRealize, why: str) -> NoReturn:
    s.fail(
        f"{b.block.name} is not known to be a reduction: {why}",
        mark={b: "its body"},
        legal="results joined with terms by + * min max and or, or chosen together by a comparison",
    )


def _stores(
    s: State, b: nodes.BlockRealize, body: nodes.Stmt
) -> tuple[list[nodes.BufferStore], tuple[expr.Expr, ...]]:
    """The stores of a step, and their values without the names in between."""
    known: dict[expr.Var, expr.Expr] = {}
    while isinstance(body, nodes.LetStmt):
        known[body.var] = substitute(body.value, known)
        body = body.body
    items = body.stmts if isinstance(body, nodes.Seq) else (body,)
    stores = [x for x in items if isinstance(x, nodes.BufferStore)]
    if not stores or len(stores) < len(items):
        _refuse(s, b, "its body is more than stores of the results")
    seen: set[nodes.Buffer] = set()
    for x in stores:
        if any(e.buffer in seen for e in loads(x.value)):
            _refuse(s, b, "a result is stored before another one is computed from it")
        here = zip(x.indices, stores[0].indices, strict=False)
        if x.buffer in seen or not all(a is b for a, b in here):
            _refuse(s, b, "its results do not lie at the same indices")
        seen.add(x.buffer)
    return stores, tuple([substitute(x.value, known) for x in stores])


def _starts(
    s: State, b: nodes.BlockRealize, buffers: Sequence[nodes.Buffer]
) -> tuple[expr.Expr, ...]:
    init = b.block.init
    items = init.stmts if isinstance(init, nodes.Seq) else () if init is None else (init,)
    found = {x.buffer: x.value for x in items if isinstance(x, nodes.BufferStore)}
    if len(found) < len(items) or set(found) != set(buffers):
        _refuse(s, b, "its initial values are more than one store of each result")
    return tuple([found[x] for x in buffers])


def _term(s: State, b: nodes.BlockRealize, value: expr.Expr, old: nodes.BufferLoad) -> expr.Expr:
    """What is joined with a result."""
    sides: tuple[expr.Expr, expr.Expr] = (value, value)
    if isinstance(value, _ELEMENTWISE):
        sides = (value.a, value.b)
    elif isinstance(value, expr.Select):
        sides = (value.true_value, value.false_value)
    if (sides[0] is old) == (sides[1] is old):
        _refuse(s, b, f"{old.buffer.name} is not joined with a term")
    return sides[1] if sides[0] is old else sides[0]


def _ordered(
    s: State,
    b: nodes.BlockRealize,
    values: Sequence[expr.Expr],
    olds: Sequence[nodes.BufferLoad],
    terms: Sequence[expr.Expr],
) -> bool:
    """Whether equal candidates are told apart by their order; refuses what is no choice."""
    chosen = {k: v for k, v in enumerate(values) if isinstance(v, expr.Select)}
    if not chosen:
        return False
    if len(set(terms)) < len(terms):
        _refuse(s, b, "two of its terms are the same")
    lhs = [expr.Var(f"l{k}", e.dtype) for k, e in enumerate(olds)]
    rhs = [expr.Var(f"r{k}", e.dtype) for k, e in enumerate(terms)]
    named = Rewriter()
    named.memo.update(zip((*terms, *olds), (*rhs, *lhs), strict=True))
    # the condition that chooses, and whether the result so far is kept where it holds
    choices = {(named.expr(v.condition), v.true_value is olds[k]) for k, v in chosen.items()}
    if len(choices) > 1:
        _refuse(s, b, "its results are chosen by different conditions")
    condition, keeps = choices.pop()
    found = _comparison(condition, lhs, rhs)
    if found is None:
        _refuse(s, b, "the condition that chooses is no comparison of the results with the terms")
    key, larger, position = found
    best = expr.Max if larger == keeps else expr.Min
    for k, v in enumerate(values):
        if k not in chosen and not (k == key and isinstance(v, best)):
            _refuse(s, b, f"{olds[k].buffer.name} is not chosen together with the others")
    return position is None or len(values) > 2


def _comparison(
    e: expr.Expr, lhs: Sequence[expr.Var], rhs: Sequence[expr.Var]
) -> tuple[int, bool, int | None] | None:
    """(component compared, whether it holds for a larger result, what decides among equals)."""
    if free_vars(e) - set(lhs) - set(rhs):
        return None
    match e:
        case expr.Or(a, expr.And(expr.EQ(x, y), c)) | expr.Or(expr.And(expr.EQ(x, y), c), a):
            first, second = _sides(a, lhs, rhs), _sides(c, lhs, rhs)
            if first is None or second is None:
                return None
            pair = (lhs[first[0]], rhs[first[0]])
            if not (x is pair[0] and y is pair[1]) and not (x is pair[1] and y is pair[0]):
                return None
            told_apart = isinstance(a, expr.LT | expr.GT) and isinstance(c, expr.LT | expr.GT)
            return (*first, second[0] if told_apart else None)
    found = _sides(e, lhs, rhs)
    return None if found is None else (*found, None)


def _sides(
    e: expr.Expr, lhs: Sequence[expr.Var], rhs: Sequence[expr.Var]
) -> tuple[int, bool] | None:
    """l_k < r_k and its kin: (k, whether it holds for a larger result)."""
    if not isinstance(e, expr.Compare) or not isinstance(e, expr.LT | expr.LE | expr.GT | expr.GE):
        return None
    for k, (x, y) in enumerate(zip(lhs, rhs, strict=True)):
        if e.a is x and e.b is y:
            return k, isinstance(e, expr.GT | expr.GE)
        if e.a is y and e.b is x:
            return k, isinstance(e, expr.LT | expr.LE)
    return None
