"""What the predicate of a block says of the block's own variables.

A predicate is written over the loops around a block. A primitive that gives the block other loops
needs it over the block's variables instead: those parts that only keep the variables inside their
domains go (the new loops see to that), the others must be carried along.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd, lcm
from typing import NoReturn

from smelt.arith import detect_iter_map, inverse_affine_iter_map
from smelt.ir.build import value_of
from smelt.ir.expr import Compare, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import conjuncts
from smelt.tir.nodes import BlockRealize, For

from .state import State


def conditions(s: State, b: BlockRealize, given: Collection[Expr] = ()) -> list[Expr] | None:
    """The predicate over the block's variables, without what their domains imply.

    given  conditions that are known to hold

    None where it is not known to be a condition on the variables.
    """
    found: list[Expr] = []
    loops = s.loops_above(b)
    for c in conjuncts(b.predicate):
        new = const(True) if c in given else _translated(s, b, loops, c)
        if new is None:
            return None
        if not s.facts.prove(new):
            found.append(new)
    return found


def own_conditions(s: State, b: BlockRealize) -> list[Expr]:
    """The same; refuses a predicate that is not known to be a condition on the variables."""
    found = conditions(s, b)
    if found is None:
        _refuse(s, b)
    return found


def over_variables(s: State, b: BlockRealize, condition: Expr) -> Expr:
    """One condition on loops as one on the block's variables."""
    found = _translated(s, b, s.loops_above(b), condition)
    if found is None:
        _refuse(s, b)
    return found


def _refuse(s: State, b: BlockRealize) -> NoReturn:
    s.cannot_prove(
        f"the guard of {b.block.name} depends on its variables only",
        mark={b: "its guard"},
        legal="a guard that is a condition on the block's variables",
    )


def require_unguarded(s: State, b: BlockRealize, why: str) -> None:
    """Refuse a block that is skipped for some values of its variables.

    why  what would go wrong
    """
    if own_conditions(s, b):
        s.cannot_prove(
            f"{b.block.name} runs for all values of its variables: otherwise {why}",
            mark={b: "its guard"},
            legal="a block that runs for all values of its variables",
        )


def _translated(s: State, b: BlockRealize, loops: Sequence[For], c: Expr) -> Expr | None:
    """A condition on loops as one on the block's variables; None where it is none."""
    around = [x for x in loops if x.var in free_vars(c)]
    if not around:
        return c
    for i, value in b.bindings:
        if isinstance(c, Compare) and c.a is value and not free_vars(c.b) & {x.var for x in loops}:
            return type(c)(i.var, c.b)
    # variables without a range: the condition must not vanish because of the domains
    free = [Var(i.var.name, i.var.type) for i in b.block.iter_vars]
    found = _by_elimination(s, b, loops, c, free) if isinstance(c, Compare) else None
    if found is None:
        found = _by_inversion(s, b, loops, c, free)
    own: dict[Var, Expr] = dict(zip(free, [i.var for i in b.block.iter_vars], strict=True))
    return None if found is None else substitute(found, own)


def _by_elimination(
    s: State, b: BlockRealize, loops: Sequence[For], c: Compare, own: Sequence[Var]
) -> Expr | None:
    """a - b as a sum of multiples of the bindings, found by a loop that only one of them has."""
    variables = [x.var for x in loops]
    rest = s.facts.analyzer.linear(c.a - c.b, variables)
    if rest is None:
        return None
    left = {v: k for v, e in rest[0].items() if (k := value_of(e)) is not None}
    if len(left) < len(rest[0]):
        return None
    forms = [dict(s.facts.linear(value, variables) or ()) for value in b.values]
    pivots = [
        next((v for v, k in f.items() if k and not any(v in g for g in forms if g is not f)), None)
        for f in forms
    ]
    scale = 1
    for f, p in zip(forms, pivots, strict=True):
        if p is not None:
            scale = lcm(scale, abs(f[p]) // gcd(f[p], left.get(p, 0)))
    left = {v: k * scale for v, k in left.items()}
    total = (c.a - c.b) * scale
    for variable, value, f, p in zip(own, b.values, forms, pivots, strict=True):
        times = 0 if p is None else left.get(p, 0) // f[p]
        if times:
            for v, k in f.items():
                left[v] = left.get(v, 0) - times * k
            total = total + times * (variable - value)
    if any(left.values()):
        return None
    new = s.facts.simplify(total)
    if free_vars(new) & set(variables):
        return None
    return s.facts.simplify(type(c)(new, const(0, new.dtype)))


def _by_inversion(
    s: State, b: BlockRealize, loops: Sequence[For], c: Expr, own: Sequence[Var]
) -> Expr | None:
    """The loops in terms of the variables, where the bindings determine them."""
    used = set().union(*[free_vars(v) for v in b.values], free_vars(c))
    domains = {x.var: (x.min, x.extent) for x in loops if x.var in used}
    found = detect_iter_map(b.values, domains, require_bijective=True, analyzer=s.facts.analyzer)
    if not found.indices:
        return None
    back = inverse_affine_iter_map(found.indices, own)
    new = s.facts.simplify(substitute(c, back))
    return None if free_vars(new) & set(domains) else new
