"""Products by a formula, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.relax.compose.common import (
    extents,
    items_of,
    legal,
    rank_of,
    reshaped,
    shape_of,
)
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import make, relay_function, relay_op


@relay_op("einsum")
def einsum(data: RelaxExpr, *, equation: str) -> RelaxExpr:
    """Einstein's sum of a tuple of tensors: "ij,jk->ik". Each tensor has a letter once."""
    items = items_of(data)
    terms, out = _terms(equation, items)
    x, have = items[0], terms[0]
    for n in range(1, len(items)):
        later = "".join(terms[n + 1 :]) + out
        x, have = _pair(x, have, items[n], terms[n], later)
    x, have = _reduced(x, have, out)
    order = tuple([have.index(a) for a in out])
    return x if order == tuple(range(len(order))) else call("transpose", x, axes=order)


@relay_function("einsum")
def build_einsum(data: object, equation: str) -> RelaxExpr:
    """Einstein's sum of tensors."""
    return make("einsum", data, equation=equation)


def _terms(equation: str, items: list[RelaxExpr]) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    legal(
        len(terms) == len(items),
        f"equation={equation!r} names {len(terms)} tensors, {len(items)} are given",
    )
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    dots = ""
    for n, (t, x) in enumerate(zip(terms, items, strict=True)):
        if "..." in t:
            width = rank_of(x) - len(t.replace("...", ""))
            dots = max(dots, "".join(free[:width]), key=len)
            terms[n] = t.replace("...", "".join(free[:width]))
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


# ------------------------------------------------------------------------------------- Fourier


@relay_op("dft", results=2)
def dft(re_data: RelaxExpr, im_data: RelaxExpr, *, inverse: bool = False) -> list[RelaxExpr]:
    """The discrete Fourier transform of the last axis: (real part, imaginary part)."""
    return items_of(call("dft", re_data, im_data, inverse=inverse))


@relay_op("stft")
def stft(
    data: RelaxExpr,
    window: RelaxExpr,
    *,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool,
    onesided: bool,
) -> RelaxExpr:
    """The Fourier transforms of windows of signals: [batch, frequencies, windows, 2].

    win_length  of the window, which stands in the middle of n_fft samples
    """
    width = extents(window)[0]
    legal(
        width in (None, win_length) and win_length <= n_fft,
        f"win_length={win_length}; it has to be the window's {width} and at most n_fft={n_fft}",
    )
    left = (n_fft - win_length) // 2
    shape = (
        call("pad", window, pads=(left, n_fft - win_length - left)) if width != n_fft else window
    )
    return call("stft", data, shape, n_fft=n_fft, hop_length=hop_length, normalized=normalized,
                onesided=onesided)  # fmt: skip


@relay_function("stft")
def build_stft(
    data: object, n_fft: int, hop_length: int, win_length: int, window: object, normalized: bool,
    onesided: bool,
) -> RelaxExpr:  # fmt: skip
    """The Fourier transforms of windows of a signal."""
    return make("stft", data, window, n_fft=n_fft, hop_length=hop_length, win_length=win_length,
                normalized=normalized, onesided=onesided)  # fmt: skip
