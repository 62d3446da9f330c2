"""Unrolled accesses as loops again: what differs by constants is one access that runs over them.

A[i * 64], A[i * 64 + 1], A[i * 64 + 8], A[i * 64 + 9]  =  A[i * 64 + a * 8 + b], a and b < 2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, Add, Expr, Sub, Var, const
from smelt.tir.facts import Facts
from smelt.tir.nodes import For, no_op

from .accesses import Access, Work

Offsets = tuple[int, ...]
_ZERO = const(0, INDEX)


def rerolled(facts: Facts, accesses: Iterable[Access]) -> list[Access]:
    """Fewer accesses to the same elements, with loops (`copies`) over those that are alike."""
    groups: dict[Access, dict[Offsets, int]] = {}
    for a in accesses:
        parts = [(None, 0) if i is None else _split(i) for i in a.indices]
        key = replace(a, indices=tuple([base for base, _ in parts]))
        counts = groups.setdefault(key, {})
        offsets = tuple([k for _, k in parts])
        counts[offsets] = counts.get(offsets, 0) + 1
    return [x for key, counts in groups.items() for x in _rolled(facts, key, counts)]


def merged(work: Iterable[Work]) -> list[Work]:
    """The arithmetic of all statements in the same loops and under the same conditions together."""
    totals: dict[Work, int] = {}
    for w in work:
        key = replace(w, operations=0)
        totals[key] = totals.get(key, 0) + w.operations
    return [replace(w, operations=n) for w, n in totals.items()]


def _split(e: Expr) -> tuple[Expr, int]:
    """An index without the constant at its end, and the constant."""
    if isinstance(e, Add | Sub):
        k = value_of(e.b)
        if k is not None:
            return e.a, k if isinstance(e, Add) else -k
    k = value_of(e)
    return (e, 0) if k is None else (_ZERO, k)


def _rolled(facts: Facts, a: Access, counts: dict[Offsets, int]) -> list[Access]:
    """Accesses that differ by offsets: one where these are all points of a grid, else one each."""
    columns = [sorted(set(column)) for column in zip(*counts, strict=True)]
    digits = [_digits(c) for c in columns]
    grid = len(counts) == len(list(product(*columns)))
    if not grid or any(d is None for d in digits):
        return [replace(a, indices=_moved(a, k), times=n) for k, n in counts.items()]
    indices = list(_moved(a, tuple([c[0] for c in columns])))
    copies: list[For] = []
    for d, found in enumerate(digits):
        for step, count in found or ():
            loop = For(Var("copy", INDEX), _ZERO, const(count, INDEX), no_op())
            facts.bind(loop.var, loop.min, loop.extent)
            copies.append(loop)
            moved = indices[d]
            indices[d] = None if moved is None else moved + loop.var * step
    times = sum(counts.values())
    return [replace(a, indices=tuple(indices), copies=tuple(copies), times=times)]


def _moved(a: Access, offsets: Sequence[int]) -> tuple[Expr | None, ...]:
    return tuple([i if i is None else i + k for i, k in zip(a.indices, offsets, strict=True)])


def _digits(offsets: Sequence[int]) -> list[tuple[int, int]] | None:
    """(step, count) of nested loops that run over these sorted offsets; None where none do."""
    if len(offsets) == 1:
        return []
    step, count = offsets[1] - offsets[0], 1
    while count < len(offsets) and offsets[count] - offsets[count - 1] == step:
        count += 1
    starts = offsets[::count]
    if [s + k * step for s in starts for k in range(count)] != list(offsets):
        return None
    outer = _digits(starts)
    return None if outer is None else [*outer, (step, count)]
