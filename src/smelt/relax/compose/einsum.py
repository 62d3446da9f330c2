"""Einstein's sums as transposes, matrix products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..nodes import RelaxExpr, call
from .common import extents, legal, rank_of, reshaped, shape_of


def einsum(items: Sequence[RelaxExpr], equation: str) -> RelaxExpr:
    """Einstein's sum of tensors: "ij,jk->ik". Each tensor has a letter once."""
    terms, out = _terms(equation, items)
    x, have = items[0], terms[0]
    for n in range(1, len(items)):
        later = "".join(terms[n + 1 :]) + out
        x, have = _pair(x, have, items[n], terms[n], later)
    x, have = _reduced(x, have, out)
    order = tuple([have.index(a) for a in out])
    return x if order == tuple(range(len(order))) else call("transpose", x, axes=order)


def _terms(equation: str, items: Sequence[RelaxExpr]) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    legal(
        len(terms) == len(items),
        f"equation={equation!r} names {len(terms)} tensors, {len(items)} are given",
    )
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    pairs = list(zip(terms, items, strict=True))
    widths = [rank_of(x) - len(t.replace("...", "")) if "..." in t else 0 for t, x in pairs]
    dots = "".join(free[: max(0, *widths)])
    for n, (t, width) in enumerate(zip(terms, widths, strict=True)):
        terms[n] = t.replace("...", dots[len(dots) - width :] if width > 0 else "")
    if not arrow:
        letters = "".join(terms)
        out = "..." + "".join(sorted([c for c in set(letters) if letters.count(c) == 1]))
        out = "..." + "".join([c for c in out if c not in dots and c != "."])
    out = out.replace("...", dots)
    sizes: dict[str, int | None] = {}
    for n, (t, x) in enumerate(zip(terms, items, strict=True)):
        legal(
            len(t) == rank_of(x) and len(set(t)) == len(t) and t.isalpha() == bool(t),
            f"equation={equation!r}: tensor {n} is {t!r}; one letter for each of its "
            f"{rank_of(x)} dimensions, each once, is legal",
        )
        for a, e in zip(t, extents(x), strict=True):
            known = sizes.setdefault(a, e)
            legal(
                e == known or None in (e, known), f"equation={equation!r}: {a} is {known} and {e}"
            )
    legal(
        set(out) <= sizes.keys() and len(set(out)) == len(out),
        f"equation={equation!r}: the result {out!r} needs letters of the tensors, each once",
    )
    return terms, out


def _reduced(x: RelaxExpr, have: str, wanted: str) -> tuple[RelaxExpr, str]:
    """Summed over the letters that nothing needs any more."""
    gone = tuple([i for i, a in enumerate(have) if a not in wanted])
    kept = "".join([a for a in have if a in wanted])
    return (call("sum", x, axes=gone, keepdims=False) if gone else x), kept


def _pair(a: RelaxExpr, la: str, b: RelaxExpr, lb: str, later: str) -> tuple[RelaxExpr, str]:
    """The product of two tensors, summed over the letters that only they have: one matmul."""
    a, la = _reduced(a, la, lb + later)
    b, lb = _reduced(b, lb, la + later)
    batch = [c for c in la if c in lb and c in later]
    inner = [c for c in la if c in lb and c not in later]
    rows = [c for c in la if c not in lb]
    columns = [c for c in lb if c not in la]
    size = {**dict(zip(la, shape_of(a), strict=True)), **dict(zip(lb, shape_of(b), strict=True))}

    def matrix(x: RelaxExpr, letters: str, *groups: list[str]) -> RelaxExpr:
        order = tuple([letters.index(c) for g in groups for c in g])
        shape = [[size[c] for c in g] for g in groups]
        return reshaped(call("transpose", x, axes=order),
                        (*shape[0], *[_times(s) for s in shape[1:]]))  # fmt: skip

    y = call("matmul", matrix(a, la, batch, rows, inner), matrix(b, lb, batch, inner, columns))
    made = [*batch, *rows, *columns]
    return reshaped(y, [size[c] for c in made]), "".join(made)


def _times(items: Sequence[Any]) -> Any:
    total: Any = 1
    for e in items:
        total = e * total
    return total
