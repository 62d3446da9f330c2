"""Shapes and slices as they are written: numbers with a meaning of their own, parts, sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.arith import Analyzer
from smelt.ir.build import minimum, value_of
from smelt.ir.expr import INDEX, Expr, convert

from ..nodes import RelaxExpr, call
from .common import array_of, extents, legal, normal_axis, one_of, rank_of, reshaped, shape_of

FAR = 2**31 - 1
"""From here on an end of a slice means the end of the dimension."""


def known_sizes(given: Any) -> Any:
    """Numbers as a tuple, where they are no expression, or a constant one."""
    known = array_of(given) if isinstance(given, RelaxExpr) else None
    if known is not None:
        return tuple([int(n) for n in known.reshape(-1)])
    if isinstance(given, RelaxExpr):
        return given
    if not isinstance(given, tuple | list):
        return (given,)
    return tuple([_number(n) for n in given])


def _number(given: Any) -> Any:
    """One number, also where it is a constant or a numpy integer."""
    known = array_of(given) if isinstance(given, RelaxExpr) else None
    if known is not None:
        return int(known.reshape(-1)[0])
    return given if isinstance(given, Expr) else int(given)


def new_shape(source: Sequence[Any], newshape: Any, allowzero: bool = False) -> tuple[Any, ...]:
    """The extents that a newshape with Relay's special numbers means."""
    wanted = list(newshape) if isinstance(newshape, tuple | list) else [newshape]
    out: list[Any] = []
    at, i = 0, 0

    def take() -> Any:
        nonlocal at
        legal(
            at < len(source),
            f"newshape={tuple(wanted)} refers to dimension {at} of a tensor of {len(source)}",
        )
        at += 1
        return source[at - 1]

    while i < len(wanted):
        e = wanted[i]
        n = value_of(e)
        legal(n is None or n >= -4, f"newshape={tuple(wanted)}: {n} has no meaning; legal: -4 on")
        if n == 0 and not allowzero:
            out.append(take())
        elif n == -2:
            out += source[at:]
            at = len(source)
        elif n == -3:
            out.append(take() * take())
        elif n == -4:
            legal(i + 2 < len(wanted), f"newshape={tuple(wanted)}: -4 needs two numbers behind it")
            out += _split(take(), wanted[i + 1], wanted[i + 2])
            i += 2
        else:
            out.append(e)
            at += n != -1 or at < len(source)
        i += 1
    return completed(source, out, tuple(wanted))


def _split(whole: Any, a: Any, b: Any) -> list[Any]:
    legal((a, b) != (-1, -1), "newshape: -4 may be followed by -1 once")
    first = whole // b if value_of(a) == -1 else a
    second = whole // a if value_of(b) == -1 else b
    n, x, y = (value_of(v) for v in (whole, first, second))
    fits = n is None or x is None or y is None or n == x * y
    legal(fits, f"newshape: -4 cannot split {n} into {a} and {b}")
    return [first, second]


def completed(source: Sequence[Any], out: list[Any], newshape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The extents with the number of elements checked, and with what -1 stands for."""
    open_at = [i for i, e in enumerate(out) if value_of(e) == -1]
    legal(len(open_at) <= 1, f"newshape={newshape}: -1 may stand once")
    have, rest = list(source), []
    for i, e in enumerate(out):
        same = next((n for n, h in enumerate(have) if h is e), None)
        if same is not None:
            del have[same]
        elif i not in open_at:
            rest.append(e)
    a, b = _product(have), _product(rest)
    known = (value_of(a), value_of(b))
    whole = " x ".join([str(value_of(e) or "?") for e in source]) or "1"
    if not open_at:
        legal(
            None in known or known[0] == known[1],
            f"newshape={newshape} has another number of elements than the data, {whole}",
        )
        return tuple(out)
    legal(
        None in known or (known[1] != 0 and known[0] % known[1] == 0),  # type: ignore[operator]
        f"newshape={newshape}: -1 stands for no whole number; the data has {whole} elements",
    )
    out[open_at[0]] = Analyzer().simplify(a // b)
    return tuple(out)


def _product(items: Sequence[Any]) -> Expr:
    total: Expr = convert(1, INDEX)
    for e in items:
        total = e * total
    return total


def collapsed(data: RelaxExpr, shape: tuple[Any, ...]) -> RelaxExpr:
    """Summed over the dimensions that broadcasting from `shape` would have made."""
    lead = rank_of(data) - len(shape)
    legal(lead >= 0, f"shape={shape} has more dimensions than the data, {rank_of(data)}")
    axes = []
    for d, e in enumerate(extents(data)):
        want = 1 if d < lead else value_of(shape[d - lead])
        legal(
            want in (1, e) or None in (want, e),
            f"shape={shape} cannot be broadcast to the data: dimension {d} is {e}",
        )
        if d < lead or (want == 1 and e != 1):
            axes.append(d)
    kept = call("sum", data, axes=tuple(axes), keepdims=True) if axes else data
    return call("squeeze", kept, axes=tuple(range(lead))) if lead else kept


def bounded(extent: Any, begin: Any, end: Any, step: int) -> tuple[Any, Any]:
    """Begin and end of a slice inside a dimension, as the core wants them."""
    known = [value_of(v) for v in (extent, begin, end)]
    if None not in known:
        start, stop, _ = slice(known[1], known[2], step).indices(known[0] or 0)
        return (start, stop) if (stop - start) * step > 0 else (start, start)
    first = extent + begin if known[1] is not None and known[1] < 0 else begin
    if step < 0:
        first = extent - 1 if known[1] is not None and known[1] >= FAR else first
        past = known[2] is not None and known[2] <= -FAR
        last = -1 if past else extent + end if known[2] is not None and known[2] < 0 else end
        return first, last
    if known[2] is not None and known[2] >= FAR:
        return first, extent
    if known[2] is not None and known[2] < 0:
        return first, extent + end
    return first, minimum(end, extent) if known[2] is not None else end


def batch_flattened(data: RelaxExpr) -> RelaxExpr:
    """All dimensions but the first as one."""
    batch, *rest = shape_of(data)
    return reshaped(data, (batch, _product(rest)))


def repeated(x: RelaxExpr, count: int, axis: int) -> RelaxExpr:
    """Each element of an axis several times."""
    at, shape = normal_axis(axis, rank_of(x)), shape_of(x)
    wide = call("expand_dims", x, axes=(at + 1,))
    many = call("broadcast_to", wide, shape=(*shape[: at + 1], count, *shape[at + 1 :]))
    return reshaped(many, (*shape[:at], shape[at] * count, *shape[at + 1 :]))


def tiled(x: RelaxExpr, counts: tuple[Any, ...]) -> RelaxExpr:
    """Repeated along each dimension; the last number belongs to the last dimension."""
    rank = max(len(counts), rank_of(x))
    if rank > rank_of(x):
        x = reshaped(x, (*(1,) * (rank - rank_of(x)), *shape_of(x)))
    return call("tile", x, repeats=(1,) * (rank - len(counts)) + counts)


def meshed(items: Sequence[RelaxExpr], indexing: str) -> list[RelaxExpr]:
    """Vectors as coordinates of a grid: each repeated over the dimensions of the others."""
    one_of("indexing", indexing, "ij", "xy")
    order = list(range(len(items)))
    if indexing == "xy" and len(items) > 1:
        order[:2] = [1, 0]
    shape = tuple([shape_of(items[i])[0] if rank_of(items[i]) else 1 for i in order])
    out: list[RelaxExpr] = []
    for i, x in enumerate(items):
        alone = [n if d == order.index(i) else 1 for d, n in enumerate(shape)]
        out.append(call("broadcast_to", reshaped(x, alone), shape=shape))
    return out
