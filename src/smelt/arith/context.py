"""What is known about the variables, and the memory of what follows from it.

A Context belongs to one scope of facts. The rules are functions of (context, expression) in the
modules beside this one; they register themselves here by the class they apply to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from smelt.ir.expr import Binary as _Binary
from smelt.ir.expr import Expr, IntImm, Var
from smelt.ir.tables import entering
from smelt.ir.walk import free_vars, rebuild_binary, refold

from .poly import INTS, Order, Poly, atom, constant

Bounds: TypeAlias = tuple[int | None, int | None]
"""Inclusive ends; None where there is none."""

IntegerRule: TypeAlias = Callable[["Context", Any], Poly]
ValueRule: TypeAlias = Callable[["Context", Any], Expr]
_R = TypeVar("_R", bound=Callable[..., Any])

_INTEGER: dict[type, IntegerRule] = {}
_VALUE: dict[type, ValueRule] = {}


_PLAIN: set[IntegerRule] = set()


def integer_rule(*classes: type, plain: bool = False) -> Callable[[_R], _R]:
    """Registers how nodes of these classes become polynomials where they are int32 or int64.

    plain   the rule asks for no proof
    """

    def register(fn: _R) -> _R:
        if plain:
            _PLAIN.add(fn)
        for c in classes:
            _INTEGER[c] = fn
        return fn

    return register


value_rule = entering(_VALUE)
"""Registers how nodes of these classes are simplified where they are of another type."""


class Context:
    """Facts of one scope.

    ranges     constant inclusive bounds of variables (or other atoms)
    symbolic   variables whose inclusive bounds are polynomials, in the order of binding
    values     variables that stand for an expression
    moduli     atom -> (coefficient, base): atom = coefficient * q + base
    facts      polynomials known to be >= 0
    truths     conditions known to be true (True) or false (False)
    pending    choices being simplified: facts that mention them must not start that again
    ends       first and last values of the domains that the context was made for
    """

    def __init__(self, order: Order | None = None) -> None:
        """Nothing is known."""
        self.order = order or Order()
        self.ranges: dict[Expr, Bounds] = {}
        self.symbolic: dict[Expr, tuple[Poly, Poly]] = {}
        self.values: dict[Var, Expr] = {}
        self.moduli: dict[Expr, tuple[int, int]] = {}
        self.facts: list[Poly] = []
        self.truths: dict[Expr, bool] = {}
        self.pending: set[Expr] = set()
        self.ends: dict[Var, tuple[Poly | None, Poly | None]] = {}
        self.forget()

    def forget(self) -> None:
        """Drop what was derived; the facts stay."""
        self.polys: dict[Expr, Poly] = {}
        self.simple: dict[Expr, Expr] = {}
        self.known: dict[Expr, Bounds] = {}
        self.residues: dict[Expr, tuple[int, int]] = {}
        self.proofs: dict[tuple[object, ...], bool] = {}
        self.intervals: dict[Expr, tuple[Expr | None, Expr | None]] = {}
        self.children: dict[object, Context] = {}

    def drop(self, var: Var) -> None:
        """Forget the facts about a variable; what was derived from them has to go too."""
        for table in (self.ranges, self.moduli, self.truths):
            for e in [e for e in table if e is var or (type(e) is not Var and var in free_vars(e))]:
                del table[e]
        self.facts = [f for f in self.facts if not any(var in free_vars(t) for t in f.terms)]
        self.symbolic.pop(var, None)
        self.values.pop(var, None)

    def extended(self) -> Context:
        """A copy of the facts, with an empty memory."""
        new = Context(self.order)
        new.ranges.update(self.ranges)
        new.symbolic.update(self.symbolic)
        new.values.update(self.values)
        new.moduli.update(self.moduli)
        new.facts.extend(self.facts)
        new.truths.update(self.truths)
        new.pending = self.pending
        return new

    def poly(self, e: Expr) -> Poly:
        """The normal form of an int32 or int64 expression."""
        found = self.polys.get(e)
        if found is None:
            rule = _INTEGER.get(type(e), opaque)
            if rule in _PLAIN or not (self.facts or self.symbolic):
                found = rule(self, e)
            else:
                # a proof on the way may meet a fact about e itself: e is then just a term
                self.polys[e] = atom(e)
                try:
                    found = rule(self, e)
                finally:
                    del self.polys[e]
            self.polys[e] = found
        return found

    def build(self, p: Poly, dtype: str) -> Expr:
        """The expression of a polynomial, remembered as simple."""
        e = self.order.build(p, dtype)
        self.polys.setdefault(e, p)
        self.simple.setdefault(e, e)
        return e

    def simplify(self, e: Expr) -> Expr:
        """The simplest form known of any expression."""
        found = self.simple.get(e)
        if found is None:
            if e.dtype in INTS:
                found = self.build(self.poly(e), e.dtype)
            else:
                found = _VALUE.get(type(e), rebuild)(self, e)
                self.simple[found] = found
            self.simple[e] = found
        return found


def rebuild(cx: Context, e: Expr) -> Expr:
    """The node with its children simplified and constants folded."""
    if isinstance(e, _Binary):
        a, b = cx.simplify(e.a), cx.simplify(e.b)
        return e if a is e.a and b is e.b else rebuild_binary(type(e), a, b)
    new = e.with_children(lambda c: cx.simplify(c) if isinstance(c, Expr) else c)
    return e if new is e else refold(new)


def opaque(cx: Context, e: Expr) -> Poly:
    """A term without structure; its parts are simplified."""
    new = rebuild(cx, e)
    if new is e:
        return atom(e)
    if isinstance(new, IntImm):
        return constant(new.value)
    return atom(new) if type(new) is type(e) else cx.poly(new)
