"""Sequences of patterns, and contexts: several patterns matched together with who uses whom.

with PatternContext() as ctx:
    conv = is_op("conv2d")(wildcard(), wildcard())
    conv >> is_op("relu")(wildcard())       # nothing but the relu uses the convolution
found = ctx.match_dfb(function)             # {pattern: value}, or None
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from smelt.ir.errors import TypeMismatch
from smelt.relax.nodes import Call, RelaxExpr
from smelt.runtime.entered import Entered

from .graph import DataflowGraph, op_name, operands
from .match import FAIL, FITS, Alternatives, Goal, Matcher, PatternBase, Question, parts_first


class Edge(NamedTuple):
    """`user` uses `producer`.

    operand  which one it is; -1: any
    only     nothing else uses it
    """

    producer: PatternBase
    user: PatternBase
    operand: int
    only: bool


class Sequenced:
    """What may stand in a sequence: patterns, and sequences of them."""

    def used_by(self, other: PatternBase | PatternSeq, index: int = -1) -> PatternSeq:
        """A sequence: this (its last pattern) is an operand of `other` (of its first one).

        index  which operand; -1: any
        """
        return _joined(self, other, index, only=False)

    def only_used_by(self, other: PatternBase | PatternSeq, index: int = -1) -> PatternSeq:
        """The same, and this has no other user and is no result."""
        return _joined(self, other, index, only=True)

    __xor__ = used_by
    __rshift__ = only_used_by


class PatternSeq(Sequenced):
    """Patterns in a row, each used by the next. Made by `a ^ b` (used by) and `a >> b` (only)."""

    def __init__(self, patterns: Sequence[PatternBase], edges: Sequence[Edge] = ()) -> None:
        """Keep patterns and edges, and tell the context around."""
        self.patterns, self.edges = tuple(patterns), tuple(edges)
        enter(self)

    def dup(self) -> PatternSeq:
        """A sequence of patterns of its own that says the same."""
        copies = {p: p.dup() for p in self.patterns}
        edges = [Edge(copies[p], copies[u], n, only) for p, u, n, only in self.edges]
        return PatternSeq([copies[p] for p in self.patterns], edges)

    def __getitem__(self, index: int) -> PatternBase:
        return self.patterns[index]


def _joined(left: Any, right: Any, index: int, only: bool) -> PatternSeq:
    if not isinstance(right, PatternBase | PatternSeq):
        raise TypeMismatch(f"used_by: {right!r} stands where a pattern or a sequence is needed")
    first, then = (s if isinstance(s, PatternSeq) else PatternSeq([s]) for s in (left, right))
    edge = Edge(first.patterns[-1], then.patterns[0], index, only)
    return PatternSeq([*first.patterns, *then.patterns], [*first.edges, edge, *then.edges])


_CURRENT: ContextVar[PatternContext | None] = ContextVar("pattern_context", default=None)


class PatternContext(Entered):
    """The patterns made in a `with` block, with the edges between them.

    Calls, and the patterns of sequences, have to fit one value each, all of them different.
    """

    def __init__(self, incremental: bool = False) -> None:
        """incremental: start with the patterns and edges of the context around."""
        around = _CURRENT.get() if incremental else None
        self.patterns: dict[PatternBase, None] = dict(around.patterns) if around else {}
        self.edges: dict[Edge, None] = dict(around.edges) if around else {}

    _current = _CURRENT

    @staticmethod
    def current() -> PatternContext | None:
        """The context of the innermost `with` block."""
        return _CURRENT.get()

    def add(self, item: PatternBase | PatternSeq) -> None:
        """A pattern, or those of a sequence with its edges."""
        if isinstance(item, PatternBase):
            self.patterns[item] = None
            return
        self.patterns.update(dict.fromkeys(item.patterns))
        self.edges.update(dict.fromkeys(item.edges))

    def match_dfb(self, block: RelaxExpr) -> dict[PatternBase, RelaxExpr] | None:
        """Values of a function that fit all patterns together: {pattern: value}, or None.

        block  a function, or an expression
        """
        return self.match(DataflowGraph(block), frozenset())

    def match(
        self, graph: DataflowGraph, refused: frozenset[RelaxExpr]
    ) -> dict[PatternBase, RelaxExpr] | None:
        """The same in a graph that is known; what is refused fits no pattern of the context."""
        plan = self._plan()
        m = Matcher(graph)
        steps: list[Goal] = [
            (Question(_placing(p, edges, plan[:n], refused)), None, None)
            for n, (p, edges) in enumerate(plan)
        ]
        whole = _All([p for p, _ in plan])
        closed = m.closed(whole) - {whole, *[p for p, _ in plan]}
        return {p: v[0] for p, v in m.bound.items()} if m.solve(steps, closed) else None

    def _plan(self) -> _Plan:
        """The patterns in an order in which each has an edge to an earlier one, if it has any."""
        inside = {c for p in self.patterns for c in parts_first(p) if c is not p}
        left = sorted(self.patterns, key=lambda p: p in inside)  # wholes before parts
        plan: list[tuple[PatternBase, list[Edge]]] = []
        placed: set[PatternBase] = set()
        while left:
            chosen = next((p for p in left if self._edges(p, placed)), left[0])
            left.remove(chosen)
            placed.add(chosen)
            plan.append((chosen, self._edges(chosen, placed)))
        return plan

    def _edges(self, p: PatternBase, placed: set[PatternBase]) -> list[Edge]:
        """The edges between a pattern and those placed before it."""
        own = [e for e in self.edges if p in (e.user, e.producer)]
        return [e for e in own if (e.producer if e.user is p else e.user) in placed]


_Plan = list[tuple[PatternBase, list[Edge]]]


def enter(pattern: PatternBase | PatternSeq) -> None:
    """A call pattern, or a sequence, is made: the context around, if there is one, wants values."""
    context = _CURRENT.get()
    if context is not None:
        context.add(pattern)


def forget(parts: Sequence[PatternBase]) -> None:
    """These patterns become alternatives: on their own they need no value any more."""
    context = _CURRENT.get()
    if context is not None:
        for part in parts:
            for p in parts_first(part):
                context.patterns.pop(p, None)


class _All(PatternBase):
    """Several patterns, to find out what they share."""

    def __init__(self, patterns: Sequence[PatternBase]) -> None:
        self.patterns = tuple(patterns)


def _placing(
    pattern: PatternBase, edges: list[Edge], earlier: _Plan, refused: frozenset[RelaxExpr]
) -> Callable[[Matcher], Alternatives]:
    """The goal that finds a value for one pattern of a context."""

    def check(node: RelaxExpr, m: Matcher) -> Alternatives:
        taken = [m.bound[p][0] for p, _ in earlier if p in m.bound and p is not pattern]
        if node in refused or any(node is t for t in taken):
            return FAIL
        return FITS if all(_holds(e, m) for e in edges) else FAIL

    def place(m: Matcher) -> Alternatives:
        nodes = _candidates(pattern, edges, m)
        return [
            ((pattern, n, None), (Question(lambda m, n=n: check(n, m)), None, None))  # type: ignore[misc]
            for n in nodes
        ]

    return place


def _candidates(pattern: PatternBase, edges: list[Edge], m: Matcher) -> list[RelaxExpr]:
    if pattern in m.bound:
        return list(m.bound[pattern])
    for e in edges:
        if e.user is pattern and e.producer in m.bound:
            return list(dict.fromkeys(m.graph.users_of(m.bound[e.producer][0])))
        if e.producer is pattern and e.user in m.bound:
            return list(dict.fromkeys(operands(m.bound[e.user][0])))
    roots = pattern.roots()
    if roots is None:
        return m.graph.order
    return [n for n in m.graph.order if isinstance(n, Call) and op_name(n.op) in roots]


def _holds(e: Edge, m: Matcher) -> bool:
    """Whether an edge holds between the values that are bound."""
    producer, user = m.bound[e.producer][0], m.bound[e.user][0]
    if e.operand >= 0:
        given = user.args if isinstance(user, Call) else operands(user)
        if e.operand >= len(given) or given[e.operand] is not producer:
            return False
    users = m.graph.users_of(producer)
    if not any(u is user for u in users):
        return False
    return not e.only or all(u is user for u in users)
