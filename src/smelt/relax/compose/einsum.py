"""Einstein's sums as diagonals, transposes, sums and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from smelt.ir.build import value_of

from ..host_ops import call_with_sizes
from ..nodes import RelaxExpr
from .common import extents, legal, rank_of, shape_of

Make = Callable[..., RelaxExpr]
"""What makes a call: (operator, *operands, **attributes)."""


def einsum(items: Sequence[RelaxExpr], equation: str, make: Make = call_with_sizes) -> RelaxExpr:
    """Einstein's sum of tensors: "ij,jk->ik"; of a letter that stands twice, the diagonal.

    Tensors are joined from left to right; a letter goes when nothing later needs it. Extents of 1
    broadcast.
    """
    terms, out = _terms(equation, items)
    parts = [_Term(x, t, make).diagonal() for x, t in zip(items, terms, strict=True)]
    joined = parts[0]
    for n, part in enumerate(parts[1:], 2):
        joined = _joined(joined, part, {*out, *"".join(terms[n:])})
    return joined.summed(out).ordered(out).x


def _terms(equation: str, items: Sequence[RelaxExpr]) -> tuple[list[str], str]:
    """The letters of each tensor and of the result, the dots written out."""
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
    letters = "".join(terms)
    if not arrow:
        once = [c for c in sorted(set(letters)) if letters.count(c) == 1 and c not in dots]
        out = "..." + "".join(once)
    out = out.replace("...", dots)
    sizes: dict[str, int | None] = {}
    for n, (t, x) in enumerate(zip(terms, items, strict=True)):
        legal(
            len(t) == rank_of(x) and t.isalpha() == bool(t),
            f"equation={equation!r}: tensor {n} is {t!r}; one letter for each of its "
            f"{rank_of(x)} dimensions is legal",
        )
        for a, e in zip(t, extents(x), strict=True):
            known = sizes.setdefault(a, e)
            legal(
                e == known or {e, known} & {None, 1} != set(),
                f"equation={equation!r}: {a} is {known} and {e}",
            )
            sizes[a] = known if e in (None, 1) else e
    legal(
        set(out) <= sizes.keys() and len(set(out)) == len(out),
        f"equation={equation!r}: the result {out!r} needs letters of the tensors, each once",
    )
    return terms, out


class _Term:
    """A tensor with a letter for each of its dimensions."""

    def __init__(self, x: RelaxExpr, letters: str, make: Make) -> None:
        self.x, self.letters, self.make = x, letters, make
        self.extents: dict[str, Any] = dict(zip(letters, shape_of(x), strict=False))

    def made(self, op: str, letters: str, **attrs: Any) -> _Term:
        """What an operator makes of the tensor."""
        return _Term(self.make(op, self.x, **attrs), letters, self.make)

    def diagonal(self) -> _Term:
        """The same with different letters only."""
        t = self
        for c in dict.fromkeys(self.letters):
            while t.letters.count(c) > 1:
                last = t.letters.rindex(c)
                rest = t.letters[:last] + t.letters[last + 1 :]
                t = t.made("diagonal", rest, axes=(t.letters.index(c), last))
        return t

    def without(self, gone: Collection[str], op: str, **attrs: Any) -> _Term:
        """The same without some letters, which an operator takes away."""
        axes = tuple([k for k, c in enumerate(self.letters) if c in gone])
        rest = "".join([c for c in self.letters if c not in gone])
        return self.made(op, rest, axes=axes, **attrs) if axes else self

    def summed(self, kept: Collection[str]) -> _Term:
        """The sum over the letters that nothing needs."""
        return self.without([c for c in self.letters if c not in kept], "sum", keepdims=False)

    def ordered(self, want: str) -> _Term:
        """The dimensions in another order."""
        axes = tuple([self.letters.index(c) for c in want])
        return self if want == self.letters else self.made("transpose", want, axes=axes)

    def beside(self, want: str) -> _Term:
        """The same with dimensions of extent 1 for further letters."""
        axes = tuple([k for k, c in enumerate(want) if c not in self.letters])
        x = self.ordered("".join([c for c in want if c in self.letters]))
        return x.made("expand_dims", want, axes=axes) if axes else x

    def narrow(self, other: _Term) -> _Term:
        """The same without extents of 1 that broadcast against another term's."""
        shared = {c: (value_of(e), value_of(other.extents.get(c, 1)))
                  for c, e in self.extents.items()}  # fmt: skip
        return self.without([c for c, (a, b) in shared.items() if a == 1 != b], "squeeze")

    def wide(self, other: _Term, shared: str) -> _Term:
        """The same repeated along letters that both have, where its extents may be 1."""
        shape = tuple([other.extents[c] if c in shared else e for c, e in self.extents.items()])
        same = shape == tuple(self.extents.values())
        return self if same else self.made("broadcast_to", self.letters, shape=shape)

    def matrices(self, batch: str, *groups: str) -> RelaxExpr:
        """The tensor with a dimension for each letter of the batch, and for each group."""
        sizes = [math.prod([self.extents[c] for c in g]) for g in (*batch, *groups)]
        return self.ordered(batch + "".join(groups)).made("reshape", "", shape=tuple(sizes)).x


def _joined(a: _Term, b: _Term, later: set[str]) -> _Term:
    """Two terms as one product of matrices, or of elements where nothing is summed."""
    a, b = a.narrow(b), b.narrow(a)
    a = a.summed({*later, *b.letters})
    b = b.summed({*later, *a.letters})
    both = [c for c in a.letters if c in b.letters]
    batch, inner = ("".join([c for c in both if (c in later) is kept]) for kept in (True, False))
    rows, columns = ("".join([c for c in t.letters if c not in both]) for t in (a, b))
    out = batch + rows + columns
    if not inner:
        return _Term(a.make("multiply", a.beside(out).x, b.beside(out).x), out, a.make)
    a, b = a.wide(b, inner), b.wide(a, inner)
    y = a.make("matmul", a.matrices(batch, rows, inner), b.matrices(batch, inner, columns))
    behind = [t.extents[c] for t, letters in ((a, rows), (b, columns)) for c in letters]
    return _Term(y, "", a.make).made("reshape", out, shape=(*shape_of(y)[: len(batch)], *behind))
