"""Integer polynomials: the normal form behind every simplification.

A polynomial maps monomials to integer coefficients. A monomial is one expression: an atom (a
variable, a quotient, a load, ...) or a left-nested product of atoms in a fixed order; products are
interned, so equal monomials are the same object.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from smelt.ir.expr import Add, Expr, IntImm, Mul, Sub, Var

INTS: Final = frozenset({"int64", "int32"})
"""The types computed with as mathematical integers: signed overflow does not happen in them."""


class Poly:
    """sum(coefficient * monomial) + const. Never changed after it has been handed out."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Expr, int], const: int) -> None:
        """No coefficient may be 0."""
        self.terms = terms
        self.const = const

    def __repr__(self) -> str:
        return f"Poly({self.terms}, {self.const})"

    def __eq__(self, other: object) -> bool:
        """Whether both have the same value identically."""
        return isinstance(other, Poly) and (self.const, self.terms) == (other.const, other.terms)

    __hash__ = None  # type: ignore[assignment]

    def content(self) -> int:
        """The greatest common divisor of the coefficients; 0 for a constant."""
        return gcd(*self.terms.values())

    def divided(self, by: int) -> Poly:
        """Every coefficient and the constant divided by a number that divides them."""
        return Poly({t: c // by for t, c in self.terms.items()}, self.const // by)

    def single(self) -> Expr | None:
        """The monomial of a polynomial that is just one, with coefficient 1 and no constant."""
        if len(self.terms) == 1 and self.const == 0:
            ((t, c),) = self.terms.items()
            return t if c == 1 else None
        return None


_NO_TERMS: Final[dict[Expr, int]] = {}
ZERO: Final = Poly(_NO_TERMS, 0)


def constant(value: int) -> Poly:
    """A constant polynomial."""
    return Poly(_NO_TERMS, value)


def atom(e: Expr, coefficient: int = 1) -> Poly:
    """A monomial with a coefficient other than 0."""
    return Poly({e: coefficient}, 0)


def add(a: Poly, b: Poly, by: int = 1) -> Poly:
    """a + b * by."""
    if not by:
        return a
    if not b.terms:
        return Poly(a.terms, a.const + b.const * by)
    terms = dict(a.terms)
    for t, c in b.terms.items():
        new = terms.get(t, 0) + c * by
        if new:
            terms[t] = new
        else:
            del terms[t]
    return Poly(terms, a.const + b.const * by)


def subtract(a: Poly, b: Poly) -> Poly:
    """a - b."""
    return add(a, b, -1)


def scale(a: Poly, by: int) -> Poly:
    """a * by."""
    if by == 1:
        return a
    if by == 0:
        return ZERO
    return Poly({t: c * by for t, c in a.terms.items()}, a.const * by)


def factors(monomial: Expr) -> list[Expr]:
    """The atoms of a monomial, with repetition."""
    if type(monomial) is not Mul:
        return [monomial]
    out: list[Expr] = []
    while type(monomial) is Mul:
        out.append(monomial.b)
        monomial = monomial.a
    out.append(monomial)
    out.reverse()
    return out


class Order:
    """A total order of atoms that depends on names and shapes, not on addresses."""

    def __init__(self) -> None:
        """Start without known atoms."""
        self._keys: dict[Expr, tuple[int, str]] = {}
        self._names: dict[str, int] = {}

    def key(self, e: Expr) -> tuple[int, str]:
        """Products first, then by text; variables of one name by first sight."""
        found = self._keys.get(e)
        if found is None:
            text = self._text(e)
            if len(text) > 160:
                text = self._numbered(text[:60])
            found = self._keys[e] = (-len(factors(e)), text)
        return found

    def _numbered(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return f"{name}#{count}" if count else name

    def _text(self, e: Expr) -> str:
        if isinstance(e, Var):
            return self._numbered(e.name)
        if isinstance(e, IntImm):
            return str(e.value)
        parts = [
            self.key(c)[1] if isinstance(c, Expr) else getattr(c, "name", "") for c in e.children()
        ]
        return f"~{type(e).__name__}({','.join(parts)})"

    def product(self, items: list[Expr]) -> Expr:
        """The monomial of these atoms."""
        items.sort(key=self.key)
        result = items[0]
        for x in items[1:]:
            result = Mul(result, x)
        return result

    def times(self, a: Expr, b: Expr) -> Expr:
        """The product of two monomials."""
        for x, y in ((a, b), (b, a)):
            last = x.b if type(x) is Mul else x
            if type(y) is not Mul and self.key(last) <= self.key(y):
                return Mul(x, y)
        return self.product(factors(a) + factors(b))

    def multiply(self, a: Poly, b: Poly) -> Poly:
        """a * b, multiplied out."""
        if not b.terms:
            return scale(a, b.const)
        if not a.terms:
            return scale(b, a.const)
        terms: dict[Expr, int] = {}
        left = [*a.terms.items(), (None, a.const)] if a.const else list(a.terms.items())
        right = [*b.terms.items(), (None, b.const)] if b.const else list(b.terms.items())
        for ta, ca in left:
            for tb, cb in right:
                if ta is not None and tb is not None:
                    t: Expr | None = self.times(ta, tb)
                else:
                    t = ta if tb is None else tb
                if t is not None:
                    terms[t] = terms.get(t, 0) + ca * cb
        return Poly({t: c for t, c in terms.items() if c}, a.const * b.const)

    def sorted_terms(self, p: Poly) -> list[tuple[Expr, int]]:
        """Positive terms first, products before single atoms, large coefficients before small."""
        items = list(p.terms.items())
        if len(items) > 1:
            items.sort(key=lambda tc: (tc[1] < 0, (k := self.key(tc[0]))[0], -abs(tc[1]), k))
        return items

    def build(self, p: Poly, dtype: str) -> Expr:
        """The expression of a polynomial."""
        const, most = p.const, _LARGEST[dtype]
        result: Expr | None = None
        for t, c in self.sorted_terms(p):
            if result is None and c < 0 and 0 < const <= most:
                result, const = IntImm(dtype, const), 0
            if result is None:
                result = _multiple(t, c, dtype)
            elif c > 0:
                result = Add(result, _multiple(t, c, dtype))
            else:
                result = Sub(result, _multiple(t, -c, dtype))
        if result is None:
            return IntImm(dtype, const if abs(const) <= most else _wrapped(const, most))
        while most < abs(const) <= 4 * most:
            step = most if const > 0 else -most
            result, const = Add(result, IntImm(dtype, step)), const - step
        if const:
            result = (Add if const > 0 else Sub)(result, IntImm(dtype, abs(const)))
        return result


_LARGEST: Final = {"int64": (1 << 63) - 1, "int32": (1 << 31) - 1}
"""Larger constants are put together from several: what is not reached must not be unwritable."""


def _wrapped(value: int, most: int) -> int:
    """What a number wraps to in the type whose largest is `most`."""
    return (value + most + 1) % (2 * most + 2) - most - 1


def _multiple(t: Expr, c: int, dtype: str) -> Expr:
    """A monomial times a constant."""
    if c == 1:
        return t
    if abs(c) <= _LARGEST[dtype]:
        return Mul(t, IntImm(dtype, c))
    part = 1 << 30
    high, low = divmod(c, part)
    whole = Mul(_multiple(t, high, dtype), IntImm(dtype, part))
    return Add(whole, _multiple(t, low, dtype)) if low else whole
