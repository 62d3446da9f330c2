"""Derives the coefficients in smelt/tir/math_tables.py: run it with the
arguments 32 64 wide erf.

Fits are weighted least squares on Chebyshev points in 60-digit arithmetic, reweighted after Lawson
until the largest error is nearly least (Rice, The Approximation of Functions, chapter 13).
Coefficients are rounded to the working precision one by one, low orders first, and the others
fitted again after each rounding, so that the rounding of one is made up by the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import mpmath
import numpy as np
from mpmath import mp, mpf

mp.dps = 60

Function = Callable[[mpf], mpf]


def grid(low: mpf, high: mpf, count: int) -> list[mpf]:
    """Chebyshev points of an interval."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mpmath.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def least(rows: list[list[mpf]], goals: list[mpf], weights: list[mpf]) -> list[mpf]:
    """The weighted least-squares solution, by normal equations (60 digits are ample)."""
    size = len(rows[0])
    a, b = mpmath.matrix(size, size), mpmath.matrix(size, 1)
    for row, goal, w in zip(rows, goals, weights, strict=True):
        scaled = [w * r for r in row]
        for i in range(size):
            b[i] += scaled[i] * goal
            for j in range(i, size):
                a[i, j] += scaled[i] * row[j]
    for i in range(size):
        for j in range(i):
            a[i, j] = a[j, i]
    return list(mpmath.lu_solve(a, b))


def minimax(
    f: Function, weight: Function, low: mpf, high: mpf, powers: Sequence[int], rounds: int
) -> list[mpf]:
    """Coefficients c making max |weight(x) * (f(x) - sum c[k] x**powers[k])| nearly least."""
    xs = grid(low, high, 10 * (powers[-1] + 2))
    ws = [abs(weight(x)) for x in xs]
    goals = [w * f(x) for x, w in zip(xs, ws, strict=True)]
    rows = [[w * x**p for p in powers] for x, w in zip(xs, ws, strict=True)]
    lawson = [mpf(1)] * len(xs)
    best: tuple[mpf, list[mpf]] | None = None
    for _ in range(rounds):
        c = least(rows, goals, lawson)
        error = [abs(g - mpmath.fdot(c, row)) for g, row in zip(goals, rows, strict=True)]
        if best is None or max(error) < best[0]:
            best = (max(error), c)
        total = mpmath.fdot(lawson, error)
        lawson = [w * e / total + mpf(10) ** -20 for w, e in zip(lawson, error, strict=True)]
    assert best is not None
    return best[1]


def rounded(value: mpf, bits: int) -> mpf:
    """A number in the working precision."""
    return mpf(float(np.float32(float(value)))) if bits == 24 else mpf(float(value))


def polynomial(
    f: Function, weight: Function, low: float, high: float, terms: int, bits: int
) -> list[mpf]:
    """Rounded minimax coefficients of 1, x, ..., x**(terms - 1)."""
    low, high = mpf(low), mpf(high)
    fixed: list[mpf] = []
    refits = terms if bits == 24 else min(3, terms)
    for k in range(terms):
        if k < refits:

            def rest(x: mpf, known: tuple[mpf, ...] = tuple(fixed)) -> mpf:
                return f(x) - sum(c * x**p for p, c in enumerate(known))

            tail = minimax(rest, weight, low, high, range(k, terms), 30 if bits == 24 else 12)
        fixed.append(rounded(tail[k - min(k, refits - 1)], bits))
    return fixed


def report(
    name: str, f: Function, weight: Function, low: float, high: float, coefficients: list[mpf]
) -> None:
    """Print one table row and the error it leaves."""
    worst = max(
        abs(weight(x) * (f(x) - mpmath.polyval(coefficients[::-1], x)))
        for x in grid(mpf(low), mpf(high), 500)
    )
    print(f"{name} = (  # 2**{float(mpmath.log(worst, 2)):.1f}")
    for c in coefficients:
        print(f"    {float(c)!r},")
    print(")", flush=True)


def series(f: Function, first: Function, power: int) -> Function:
    """(f(x) - first(x)) / x**power away from 0."""
    return lambda x: (f(x) - first(x)) / x**power


def tables(bits: int, terms: dict[str, int]) -> None:
    """All polynomial tables of one format."""
    ln2 = mp.log(2)
    root = mpmath.sqrt
    exp_q = series(mpmath.exp, lambda x: 1 + x, 2)

    def asin_q(z: mpf) -> mpf:
        return (mpmath.asin(root(z)) / root(z) - 1) / z

    def atan_q(z: mpf) -> mpf:
        return (mpmath.atan(root(z)) / root(z) - 1) / z

    def sinh_q(z: mpf) -> mpf:
        return (mpmath.sinh(root(z)) / root(z) - 1) / z

    def sin_q(z: mpf) -> mpf:
        return (mpmath.sin(root(z)) / root(z) - 1) / z

    def cos_q(z: mpf) -> mpf:
        return (mpmath.cos(root(z)) - 1 + z / 2) / z**2

    log_q = series(mpmath.log1p, lambda x: x - x * x / 2, 3)
    quarter = mp.pi**2 / 16 * mpf("1.001")
    rows: dict[str, tuple[Function, Function, mpf, mpf]] = {
        "EXP": (exp_q, lambda x: x * x / mpmath.exp(x), -ln2 * mpf("1.001"), ln2 * mpf("1.001")),
        "EXPM1": (
            exp_q,
            lambda x: x * x / mpmath.expm1(x),
            -ln2 / 2 * mpf("1.001"),
            ln2 / 2 * mpf("1.001"),
        ),
        "EXP2": (lambda x: (2**x - 1) / x, lambda x: x / 2**x, mpf(-1), mpf(1)),
        "LOG": (log_q, lambda x: x**3 / mpmath.log1p(x), root(mpf("0.5")) - 1, root(mpf(2)) - 1),
        "ASIN": (asin_q, lambda z: z / (1 + z * asin_q(z)), mpf(0), mpf("0.25")),
        "ATAN": (atan_q, lambda z: z / (1 + z * atan_q(z)), mpf(0), mpf(1)),
        "SINH": (sinh_q, lambda z: z / (1 + z * sinh_q(z)), mpf(0), mpf(1)),
        "SIN": (sin_q, lambda z: z / (1 + z * sin_q(z)), mpf(0), quarter),
        "COS": (cos_q, lambda z: z**2 / (1 - z / 2 + z**2 * cos_q(z)), mpf(0), quarter),
    }
    for name, (f, w, low, high) in rows.items():
        if name in terms:
            report(name, f, w, low, high, polynomial(f, w, low, high, terms[name], bits))


def wide_tables() -> None:
    """What pow computes in float64: log2((1 + s) / (1 - s)) / s by s**2, and 2**x."""
    edge = ((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2

    def log2_over_s(z: mpf) -> mpf:
        s = mpmath.sqrt(z)
        return mpmath.log((1 + s) / (1 - s), 2) / s

    for name, f, low, high, terms in (
        ("POW_LOG2", log2_over_s, mpf(0), edge, 5),
        ("POW_EXP2", lambda x: mpf(2) ** x, mpf("-0.5"), mpf("0.5"), 8),
    ):

        def weight(x: mpf, f: Function = f) -> mpf:
            return 1 / f(x)

        report(name, f, weight, low, high, polynomial(f, weight, low, high, terms, 53))


def erf_tables() -> None:
    """erf(x) / x - 1 by x**2 below 1, and erfc(x)**(1/8) by x up to where erf rounds to 1."""

    def near(z: mpf) -> mpf:
        x = mpmath.sqrt(z)
        return mpmath.erf(x) / x - 1

    def near_weight(z: mpf) -> mpf:
        return 1 / (1 + near(z))

    def far(x: mpf) -> mpf:
        return mpmath.erfc(x) ** mpf("0.125")

    def far_weight(x: mpf) -> mpf:
        return 8 * far(x) ** 7 / mpmath.erf(x)

    for name, f, weight, low, high, terms in (
        ("ERF_NEAR", near, near_weight, mpf(10) ** -12, mpf(1), 7),
        ("ERF_FAR", far, far_weight, mpf(1), mpf("3.93"), 8),
    ):
        report(name, f, weight, low, high, polynomial(f, weight, low, high, terms, 24))


if __name__ == "__main__":
    if "32" in sys.argv:
        tables(
            24,
            {
                "EXP": 6,
                "EXPM1": 5,
                "EXP2": 7,
                "LOG": 9,
                "ASIN": 5,
                "ATAN": 9,
                "SINH": 4,
                "SIN": 3,
                "COS": 3,
            },
        )
    if "64" in sys.argv:
        tables(
            53, {"EXP": 12, "EXPM1": 10, "EXP2": 13, "LOG": 19, "ASIN": 12, "ATAN": 20, "SINH": 8}
        )
    if "wide" in sys.argv:
        wide_tables()
    if "erf" in sys.argv:
        erf_tables()
