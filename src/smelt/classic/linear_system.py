"""Systems of linear equations and inequalities over the integers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from smelt.arith.analyzer import Analyzer, Domain, as_domain
from smelt.arith.facts import conjuncts, negative_forms
from smelt.arith.poly import INTS, Poly
from smelt.ir.build import equal, maximum, minimum
from smelt.ir.expr import EQ, INDEX, Expr, ExprLike, IntImm, Var, const, convert
from smelt.ir.walk import free_vars, substitute

Ranges = Mapping[Var, tuple[Expr, Expr]]
Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class IntConstraints:
    """What holds of some variables.

    variables  the unknowns
    ranges     (low, extent) of unknowns; may mention those before them in `variables`
    relations  further conditions
    """

    variables: tuple[Var, ...]
    ranges: Ranges
    relations: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class IntConstraintsTransform:
    """The same solutions in terms of other unknowns.

    src, dst    the system as given and as solved
    src_to_dst  the given unknowns in terms of the new ones
    dst_to_src  the new unknowns in terms of the given ones
    """

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: Mapping[Var, Expr]
    dst_to_src: Mapping[Var, Expr]


def _system(
    conditions: ExprLike | Iterable[ExprLike],
    variables: Iterable[Var] | None,
    ranges: Mapping[Var, Domain] | None,
) -> IntConstraints:
    items = [conditions] if isinstance(conditions, Expr | bool) else list(conditions)  # type: ignore[arg-type]
    relations = [c for item in items for c in conjuncts(convert(item))]
    found = sorted({v for c in relations for v in free_vars(c)}, key=lambda v: v.name)
    unknowns = tuple(found if variables is None else variables)
    dtypes = {v.dtype for v in unknowns}
    if len(dtypes) > 1 or not dtypes <= INTS:
        raise ValueError(
            f"the unknowns are {' and '.join(sorted(dtypes))}; legal: all int64, or all int32"
        )
    known: dict[Var, tuple[Expr, Expr]] = {}
    for v, d in (ranges or {}).items():
        low, extent = as_domain(d, v.dtype)
        if extent is None:
            raise ValueError(f"the range of {v.name} has no end; legal: (low, extent)")
        known[v] = (low, extent)
    return IntConstraints(unknowns, known, tuple(relations))


class _Linear(NamedTuple):
    """row * unknowns + rest."""

    row: list[int]
    rest: Expr


def _linear(an: Analyzer, e: Expr, variables: Sequence[Var]) -> _Linear | None:
    """A sum with constant coefficients of the variables; None where it is none."""
    form = an.linear(e, variables)
    if form is None:
        return None
    row = [form[0].get(v, const(0)) for v in variables]
    numbers = [c.value for c in row if isinstance(c, IntImm)]
    return _Linear(numbers, form[1]) if len(numbers) == len(row) else None


def _combined(row: Iterable[int], values: Sequence[Expr], start: Expr) -> Expr:
    """start + the sum of the products."""
    return sum([e * c for c, e in zip(row, values, strict=True) if c], start)


def _kept(an: Analyzer, conditions: Iterable[Expr]) -> tuple[Expr, ...]:
    """Conditions simplified, without those that hold anyway; just false where one never holds."""
    simple = dict.fromkeys(an.simplify(c) for c in conditions)
    if any(isinstance(c, IntImm) and not c.value for c in simple):
        return (const(False),)
    return tuple([c for c in simple if not isinstance(c, IntImm)])


# --------------------------------------------------------------------------------- equations


def solve_linear_equations(
    equations: ExprLike | Iterable[ExprLike],
    variables: Iterable[Var] | None = None,
    ranges: Mapping[Var, Domain] | None = None,
) -> IntConstraintsTransform:
    """All integer solutions of linear equations, in terms of as few new unknowns as there are.

    equations  conjunctions of `a == b`; what is not linear in the unknowns stays a relation
    variables  the unknowns; None: all variables that occur
    ranges     where they lie; carried over to the new unknowns, and to relations

    By the diagonal form U * A * V = D of the matrix of coefficients: x = V * y, D * y = U * b.
    """
    src = _system(equations, variables, ranges)
    plain = Analyzer()
    zero = const(0, src.variables[0].dtype if src.variables else INDEX)
    forms: list[_Linear] = []
    rest: list[Expr] = []
    for c in src.relations:
        form = _linear(plain, c.a - c.b, src.variables) if isinstance(c, EQ) else None
        if form is None:
            rest.append(c)
        else:
            forms.append(form)
    d = _Diagonal([form.row for form in forms], len(src.variables))
    right = [0 - form.rest for form in forms]
    sides = [plain.simplify(_combined(u, right, zero)) for u in d.left]
    rank = len(d.factors)
    solved = list(zip(sides, d.factors, strict=False))
    conditions = [equal(side % abs(factor), 0) for side, factor in solved]
    conditions += [equal(side, 0) for side in sides[rank:]]
    new = tuple([Var(f"n{k}", zero.dtype) for k in range(len(src.variables) - rank)])
    values = [*[plain.simplify(side // factor) for side, factor in solved], *new]
    rows = zip(src.variables, d.right, strict=True)
    back = zip(new, d.right_inverse[rank:], strict=True)
    src_to_dst = {v: plain.simplify(_combined(row, values, zero)) for v, row in rows}
    dst_to_src = {v: plain.simplify(_combined(row, src.variables, zero)) for v, row in back}
    found = _ranges_of(src, dst_to_src)
    inside = Analyzer({**{v: r for v, r in src.ranges.items() if v not in src_to_dst}, **found})
    conditions += [substitute(c, src_to_dst) for c in [*_range_conditions(src), *rest]]
    dst = IntConstraints(new, found, _kept(inside, conditions))
    return IntConstraintsTransform(src, dst, src_to_dst, dst_to_src)


def _ranges_of(src: IntConstraints, made: Mapping[Var, Expr]) -> dict[Var, tuple[Expr, Expr]]:
    """Where new unknowns lie, as far as the ranges of those that they are made of tell."""
    an, plain = Analyzer(src.ranges), Analyzer()
    found: dict[Var, tuple[Expr, Expr]] = {}
    for v, e in made.items():
        ends = an.interval(e, src.ranges)
        if ends is not None and not any(free_vars(x) & set(src.variables) for x in ends):
            found[v] = (ends[0], plain.simplify(ends[1] - ends[0] + 1))
    return found


class _Diagonal:
    """U * A * V = D with U and V invertible over the integers.

    left           U, a row for each equation
    right          V, a row for each unknown; right_inverse is its inverse
    factors        the diagonal of D as far as it is not 0
    """

    def __init__(self, rows: Sequence[Sequence[int]], count: int) -> None:
        self.a: Matrix = np.array(rows, object).reshape(len(rows), count)
        self.left: Matrix = np.eye(len(rows), dtype=object)
        self.right: Matrix = np.eye(count, dtype=object)
        self.right_inverse: Matrix = np.eye(count, dtype=object)
        rank = 0
        while rank < min(len(rows), count) and self._pivot(rank):
            while self._clear(rank):
                pass
            rank += 1
        self.factors = [self.a[k, k] for k in range(rank)]

    def _pivot(self, at: int) -> bool:
        """Puts the smallest entry that is not 0 at (at, at)."""
        entries = [(abs(x), *place) for place, x in np.ndenumerate(self.a[at:, at:]) if x]
        if not entries:
            return False
        _, i, j = min(entries)
        rows, columns = [at, at + i], [at, at + j]
        for m in (self.a, self.left):
            m[rows] = m[rows[::-1]]
        for m in (self.a, self.right):
            m[:, columns] = m[:, columns[::-1]]
        self.right_inverse[columns] = self.right_inverse[columns[::-1]]
        return True

    def _clear(self, at: int) -> bool:
        """Reduces the row and the column of a pivot by it; true where a remainder is left."""
        pivot = self.a[at, at]
        for i in range(at + 1, len(self.a)):
            q = self.a[i, at] // pivot
            for m in (self.a, self.left):
                m[i] -= q * m[at]
        for j in range(at + 1, len(self.right)):
            q = self.a[at, j] // pivot
            for m in (self.a, self.right):
                m[:, j] -= q * m[:, at]
            self.right_inverse[at] += q * self.right_inverse[j]
        left_over = self.a[at + 1 :, at].any() or self.a[at, at + 1 :].any()
        return bool(left_over) and self._pivot(at)


# ------------------------------------------------------------------------------- inequalities


def solve_linear_inequalities(
    equations: ExprLike | Iterable[ExprLike],
    variables: Iterable[Var] | None = None,
    ranges: Mapping[Var, Domain] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """Ranges of unknowns, each in terms of those before it, by elimination of the last one first.

    equations     conjunctions of comparisons; what is not linear in the unknowns stays a relation
    variables     the unknowns, outermost first; None: all variables that occur
    ranges        where they lie
    deskew_range  new unknowns that begin at 0, as an IntConstraintsTransform

    The ranges and relations together are equivalent to what was given. A range may be empty: that
    the eliminated unknown has a value is only required of the rational numbers.
    """
    src = _system(equations, variables, ranges)
    plain = Analyzer()
    below: list[_Linear] = []  # what is <= 0
    rest: list[Expr] = []
    for c in [*src.relations, *_range_conditions(src)]:
        forms = _below_zero(plain, c, src.variables)
        if forms is None:
            rest.append(c)
        else:
            below += forms
    lows: dict[Var, list[Expr]] = {}
    highs: dict[Var, list[Expr]] = {}
    for k in reversed(range(len(src.variables))):
        v = src.variables[k]
        lows[v], highs[v], below = _eliminate(plain, below, k, src.variables)
    outer = {v: r for v, r in src.ranges.items() if v not in src.variables}
    an = Analyzer(outer)
    found: dict[Var, tuple[Expr, Expr]] = {}
    relations = [b.rest <= 0 for b in below]
    for v in src.variables:
        low = _extreme(an, maximum, lows[v])
        high = _extreme(an, minimum, highs[v])
        if low is None or high is None:
            relations += [] if low is None else [v >= low]
            relations += [] if high is None else [v <= high]
        else:
            found[v] = (low, an.simplify(high - low + 1))
            an.bind(v, found[v])
    solved = IntConstraints(src.variables, found, _kept(an, [*relations, *rest]))
    return _deskewed(src, solved) if deskew_range else solved


def _range_conditions(c: IntConstraints) -> list[Expr]:
    out = []
    for v, (low, extent) in c.ranges.items():
        if v in c.variables:
            out += [v >= low, v < low + extent]
    return out


def _below_zero(an: Analyzer, c: Expr, variables: Sequence[Var]) -> list[_Linear] | None:
    """The forms p <= 0 of a comparison; None where it has none that are linear."""
    cx = an.context
    forms = [
        _linear(an, cx.build(Poly(p.terms, p.const + 1), c.a.dtype), variables)  # type: ignore[attr-defined]
        for p in negative_forms(cx, c)
    ]
    found = [form for form in forms if form is not None]
    return found if found and len(found) == len(forms) else None


def _eliminate(
    an: Analyzer, below: Sequence[_Linear], k: int, variables: Sequence[Var]
) -> tuple[list[Expr], list[Expr], list[_Linear]]:
    """Lower and upper ends of unknown k, and what follows for those before it."""
    lows: list[Expr] = []
    highs: list[Expr] = []
    left = [b for b in below if b.row[k] == 0]
    for b in below:
        c = b.row[k]
        if c:
            others = [x if j != k else 0 for j, x in enumerate(b.row)]
            r = _combined(others, variables, b.rest)
            # c*v + r <= 0:  v <= -r // c for c > 0,  v >= ceil(r / -c) for c < 0
            ends, e = (highs, (0 - r) // c) if c > 0 else (lows, (r - c - 1) // -c)
            ends.append(an.simplify(e))
    for low in [b for b in below if b.row[k] < 0]:
        for high in [b for b in below if b.row[k] > 0]:
            x, y = high.row[k], -low.row[k]
            row = [x * p + y * q for p, q in zip(low.row, high.row, strict=True)]
            left.append(_Linear(row, an.simplify(low.rest * x + high.rest * y)))
    return lows, highs, left


def _extreme(an: Analyzer, fold: Callable[[Expr, Expr], Expr], ends: Sequence[Expr]) -> Expr | None:
    return an.simplify(functools.reduce(fold, ends)) if ends else None


def _deskewed(src: IntConstraints, solved: IntConstraints) -> IntConstraintsTransform:
    """Unknowns that begin at 0; one with a single value needs none."""
    plain = Analyzer()
    src_to_dst: dict[Var, Expr] = {}
    dst_to_src: dict[Var, Expr] = {}
    found: dict[Var, tuple[Expr, Expr]] = {}
    new: list[Var] = []
    for v in solved.variables:
        if v not in solved.ranges:
            src_to_dst[v] = dst_to_src[v] = v
            new.append(v)
            continue
        low, extent = (substitute(e, src_to_dst) for e in solved.ranges[v])
        if isinstance(extent, IntImm) and extent.value == 1:
            src_to_dst[v] = plain.simplify(low)
            continue
        fresh = Var(v.name + "_0", v.dtype)
        new.append(fresh)
        found[fresh] = (const(0, v.dtype), plain.simplify(extent))
        src_to_dst[v] = plain.simplify(low + fresh)
        dst_to_src[fresh] = plain.simplify(v - solved.ranges[v][0])
    an = Analyzer(found)
    relations = _kept(an, [substitute(c, src_to_dst) for c in solved.relations])
    return IntConstraintsTransform(
        src, IntConstraints(tuple(new), found, relations), src_to_dst, dst_to_src
    )
