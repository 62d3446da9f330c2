"""The axes of a stage: how splitting and fusing make axes from axes, and index arithmetic on them.

An axis is an IterVar. That of a computation has the range of its dimension; one that a split or a
fusion has made has the range that it gets where the stage is computed as a whole. A stage that is
computed inside another one may need less: its loops follow from what is needed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from smelt.arith import Analyzer
from smelt.ir.build import ceildiv, value_of
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, const
from smelt.ir.walk import free_vars
from smelt.tir.nodes import IterVar, Range


class ThreadAxis:
    """An axis of a device's threads, to which the axis of a stage can be bound.

    thread_tag  "blockIdx.x", "threadIdx.y", "vthread", ...
    dom         how many threads there are; None: as many as the bound axis has iterations
    """

    __slots__ = ("dom", "thread_tag", "var")

    def __init__(self, dom: Range | None, thread_tag: str, name: str) -> None:
        """See `thread_axis`."""
        self.dom, self.thread_tag, self.var = dom, thread_tag, Var(name)

    def as_expr(self) -> Expr:
        """The variable, so that the axis can stand in an expression."""
        return self.var

    def __repr__(self) -> str:
        return f'thread_axis("{self.thread_tag}")'


def thread_axis(
    dom: Range | tuple[ExprLike, ExprLike] | ExprLike | str | None = None,
    tag: str = "",
    name: str = "",
) -> ThreadAxis:
    """An axis of threads: thread_axis("threadIdx.x") or thread_axis((0, 32), "threadIdx.x").

    dom   a Range, a pair (begin, end), or the number of threads
    name  of its variable; the tag unless given
    """
    label = dom if isinstance(dom, str) else tag
    if not label:
        raise ScheduleError('thread_axis: a tag is needed, e.g. thread_axis("threadIdx.x")')
    extent = None if dom is None or isinstance(dom, str) else Range.of(dom)
    return ThreadAxis(extent, label, name or label)


# ------------------------------------------------------------------------------------- relations


@dataclass(frozen=True, eq=False)
class Relation:
    """A step: the axes that are gone after it, and those that it makes of them."""

    used: tuple[IterVar, ...] = ()
    made: tuple[IterVar, ...] = ()


@dataclass(frozen=True, eq=False)
class Split(Relation):
    """parent = outer * (extent of inner) + inner.

    factor, nparts  what was asked for: the extent of inner or of outer; the other one is None
    exact           neither is made smaller where the parent has fewer iterations
    """

    factor: Expr | None = None
    nparts: Expr | None = None
    exact: bool = False


class Fuse(Relation):
    """fused = outer * (extent of inner) + inner."""


class Singleton(Relation):
    """An axis of one iteration that stands for nothing."""


class Transform(Relation):
    """Other axes in the place of all dimensions of a tensor: those of its new layout."""


@dataclass(frozen=True, eq=False)
class Reorder(Relation):
    """All leaves in their new order."""

    order: tuple[IterVar, ...] = ()


def split_axis(parent: IterVar, factor: Expr | None, nparts: Expr | None, exact: bool) -> Split:
    """A split with its new axes: inner has `factor` iterations, or outer has `nparts`."""
    extent = parent.dom.extent
    if factor is not None:
        inner = factor if exact else clipped(factor, extent)
        outer = _simple(ceildiv(extent, inner))
    else:
        assert nparts is not None
        outer = nparts if exact else clipped(nparts, extent)
        inner = _simple(ceildiv(extent, outer))
    name, kind = parent.var.name, parent.kind
    made = new_axis(f"{name}_outer", outer, kind), new_axis(f"{name}_inner", inner, kind)
    return Split((parent,), made, factor, nparts, exact)


def clipped(count: Expr, extent: Expr) -> Expr:
    """A factor that is no larger than what it divides, as far as both are known."""
    have, most = value_of(count), value_of(extent)
    return extent if have is not None and most is not None and 0 < most < have else count


def fuse_axes(outer: IterVar, inner: IterVar) -> Fuse:
    """A fusion with its new axis, which reduces where one of the two does."""
    kind = "reduce" if "reduce" in (outer.kind, inner.kind) else outer.kind
    total = _simple(outer.dom.extent * inner.dom.extent)
    name = f"{outer.var.name}_{inner.var.name}_fused"
    return Fuse((outer, inner), (new_axis(name, total, kind),))


def singleton() -> Singleton:
    """A step that adds an axis of one iteration."""
    return Singleton((), (new_axis("singleton", const(1, INDEX)),))


def new_axis(name: str, extent: Expr, kind: str = "spatial") -> IterVar:
    """An axis from 0 on."""
    return IterVar(Var(name), Range(const(0, INDEX), extent), kind)


def _simple(e: Expr) -> Expr:
    """An extent simplified; symbolic sizes are at least 0."""
    return Analyzer(dict.fromkeys(free_vars(e), (0, None))).simplify(e)


def among(axis: IterVar, axes: Iterable[IterVar]) -> bool:
    """Whether an axis is one of some."""
    return any(a is axis for a in axes)


def after(leaves: Sequence[IterVar], step: Relation) -> list[IterVar]:
    """The leaves when a step is done: new axes stand where the first one was that it uses."""
    if isinstance(step, Reorder):
        return list(step.order)
    places = [k for k, a in enumerate(leaves) if among(a, step.used)]
    at, rest = min(places, default=0), [a for a in leaves if not among(a, step.used)]
    return [*rest[:at], *step.made, *rest[at:]]


def derived_from(roots: Iterable[IterVar], steps: Sequence[Relation]) -> set[IterVar]:
    """The roots and all axes that steps have made of them."""
    found = set(roots)
    for r in steps:
        if found.intersection(r.used):
            found.update(r.made)
    return found


# -------------------------------------------------------------------------------------- indices


def pass_up(steps: Sequence[Relation], values: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """The values of all axes, from those of the leaves; where `values` lacks some, of fewer."""
    known = dict(values)
    for r in reversed(steps):
        match r:
            case Split((parent,), (outer, inner)) if outer in known and inner in known:
                index = known[outer] * inner.dom.extent + known[inner]
                known[parent] = parent.dom.min + index
            case Fuse((outer, inner), (fused,)) if fused in known:
                width = inner.dom.extent
                known[outer] = outer.dom.min + known[fused] // width
                known[inner] = inner.dom.min + known[fused] % width
    return known


def pass_down(steps: Sequence[Relation], values: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """The values of all axes, from those of the roots."""
    known = dict(values)
    for r in steps:
        match r:
            case Split((parent,), (outer, inner)) if parent in known:
                index = known[parent] - parent.dom.min
                known[outer] = index // inner.dom.extent
                known[inner] = index % inner.dom.extent
            case Fuse((outer, inner), (fused,)) if outer in known and inner in known:
                row = (known[outer] - outer.dom.min) * inner.dom.extent
                known[fused] = row + (known[inner] - inner.dom.min)
            case Singleton(_, (one,)):
                known[one] = const(0, INDEX)
    return known


def bounds(steps: Sequence[Relation], values: Mapping[IterVar, Expr]) -> list[Expr]:
    """The conditions under which the leaves stand for iterations that there are."""
    out = []
    for r in steps:
        match r:
            case Split((parent,), (outer, inner)) if parent in values:
                covered = outer.dom.extent * inner.dom.extent
                if value_of(_simple(covered - parent.dom.extent)) != 0:
                    out.append(values[parent] < parent.dom.min + parent.dom.extent)
    return out
