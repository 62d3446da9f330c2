"""The matcher: one machine for all patterns, complete, iterative, and linear in practice.

A pattern says which goals have to be met for it to fit a value (`expand`): a list of alternatives,
each a tuple of goals (pattern, value, call around it). The machine works on goals one by one and
comes back to an alternative left where a later goal fails, so that whatever fits is found: both
orders of a commutative operator, each side of `|`.

A pattern object that stands in two places has to fit the same value in both. A part of a pattern
that shares no object with the rest is *closed*: how it fits does not matter outside. Its other
alternatives are dropped as soon as it fits, and its answer for a value is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from smelt.ir.node import ordered
from smelt.relax.graph import Scope, users_of
from smelt.relax.nodes import RelaxExpr

from .graph import DataflowGraph

Goal = tuple["PatternBase", Any, Any]
"""A pattern, the value it has to fit, and the call whose operator that value is (else None)."""

Alternatives = Sequence[tuple[Goal, ...]]

FITS: Alternatives = ((),)
FAIL: Alternatives = ()


class PatternBase:
    """What the machine knows of a pattern."""

    binds: ClassVar[bool] = True
    """Whether the value it fits is kept."""

    def parts(self) -> Iterable[PatternBase]:
        """The patterns it is made of, in the order of its fields."""
        fields = [x for v in vars(self).values() for x in (v if isinstance(v, tuple) else (v,))]
        return [x for x in fields if isinstance(x, PatternBase)]

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """What has to fit for this to fit a value."""
        raise NotImplementedError

    def roots(self) -> frozenset[str] | None:
        """Names of the operators that a value has to be a call of; None: it may be anything."""
        return None

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """The values that belong to a match because of this, rather than being its inputs."""
        return ()

    def dup(self) -> PatternBase:
        """A pattern of its own that says the same."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Look up what the pattern names, once, before the first match."""


class Question(PatternBase):
    """A goal that is a question to a function: it answers with alternatives."""

    binds = False

    def __init__(self, fn: Callable[[Matcher], Alternatives]) -> None:
        """fn: called when all goals before it are met."""
        self.fn = fn

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """Ask."""
        return self.fn(m)


class _Cut:
    """The end of a closed part: it fits, so its alternatives are dropped."""

    __slots__ = ("goal", "height", "mark")

    def __init__(self, goal: Goal, height: int, mark: Any) -> None:
        self.goal, self.height, self.mark = goal, height, mark


class Matcher:
    """Patterns against the values of one graph. What was found is kept for the next question.

    bound  the values that each pattern fits, of the last match
    """

    def __init__(
        self,
        graph: DataflowGraph | Callable[[], DataflowGraph],
        bindings: Mapping[Any, RelaxExpr] | None = None,
    ) -> None:
        """graph: the values around, or how to find them where a pattern asks for users.

        bindings  what variables stand for: patterns look through them
        """
        self._graph = graph
        self.bindings = bindings or {}
        self.bound: dict[PatternBase, list[Any]] = {}
        self.trail: Any = None  # what was bound, the last first: (pattern, values, those before)
        self.memo: dict[Goal, tuple[Any, Any] | None] = {}  # the trail before and after, or None
        self._closed: dict[PatternBase, frozenset[PatternBase]] = {}
        self._alone: dict[PatternBase, Matcher] = {}

    @property
    def graph(self) -> DataflowGraph:
        """The values around."""
        if not isinstance(self._graph, DataflowGraph):
            self._graph = self._graph()
        return self._graph

    def match(self, pattern: PatternBase, expr: Any) -> dict[PatternBase, list[Any]] | None:
        """The values that each part of the pattern fits, or None."""
        self.bound, self.trail = {}, None
        return self.bound if self.solve([(pattern, expr, None)], self.closed(pattern)) else None

    def fits_alone(self, pattern: PatternBase, expr: Any) -> bool:
        """Whether a pattern fits, with nothing bound before or after."""
        m = self._alone.get(pattern)
        if m is None:
            m = self._alone[pattern] = Matcher(self._graph, self.bindings)
        return m.match(pattern, expr) is not None

    def closed(self, pattern: PatternBase) -> frozenset[PatternBase]:
        """The parts of a pattern that share no object with the rest of it."""
        found = self._closed.get(pattern)
        if found is None:
            found = self._closed[pattern] = _closed_parts(pattern)
        return found

    def holds(self, pattern: PatternBase, expr: Any, around: Any) -> bool:
        """Whether a pattern fits beside what is bound; nothing more is bound by asking."""
        mark = self.trail
        answer = self.solve([(pattern, expr, around)], frozenset())
        self._undo(mark)
        return answer

    def bind(self, pattern: PatternBase, values: list[Any]) -> None:
        """Keep values for a pattern until the machine comes back to an earlier alternative."""
        self.bound[pattern] = values
        self.trail = (pattern, values, self.trail)

    def _undo(self, mark: Any) -> None:
        while self.trail is not mark:
            del self.bound[self.trail[0]]
            self.trail = self.trail[2]

    def _again(self, before: Any, after: Any) -> None:
        """Bind what was bound between two places of a trail."""
        while after is not before:
            self.bind(after[0], after[1])
            after = after[2]

    def solve(self, goals: Iterable[Goal], closed: frozenset[PatternBase]) -> bool:
        """Meet all goals; what was bound stays bound where they can be met."""
        todo: Any = None
        for goal in reversed(list(goals)):
            todo = (goal, todo)
        choices: list[Any] = []
        while todo is not None:
            goal, rest = todo
            if isinstance(goal, _Cut):
                del choices[goal.height :]
                self.memo[goal.goal] = (goal.mark, self.trail)
                todo = rest
                continue
            alternatives, rest = self._expanded(goal, rest, closed, choices)
            if alternatives:
                if len(alternatives) > 1:
                    choices.append((alternatives, 1, rest, self.trail))
                todo = _push(alternatives[0], rest)
                continue
            todo = self._next(choices)
            if todo is _NOTHING:
                return False
        return True

    def _expanded(
        self, goal: Goal, rest: Any, closed: frozenset[PatternBase], choices: list[Any]
    ) -> tuple[Alternatives, Any]:
        """The alternatives of one goal, and what has to be met after it."""
        pattern, expr, around = goal
        known = self.bound.get(pattern)
        if known is not None:
            return (FITS if known[0] is expr else FAIL), rest
        if pattern in closed:
            if goal in self.memo:
                kept = self.memo[goal]
                self._again(*(kept or (None, None)))
                return (FAIL if kept is None else FITS), rest
            choices.append((None, goal, None, self.trail))
            rest = (_Cut(goal, len(choices) - 1, self.trail), rest)
        if pattern.binds:
            self.bind(pattern, [expr])
        return pattern.expand(expr, self, around), rest

    def _next(self, choices: list[Any]) -> Any:
        """The goals of the last alternative left, or _NOTHING."""
        while choices:
            alternatives, n, rest, mark = choices.pop()
            self._undo(mark)
            if alternatives is None:
                self.memo[n] = None  # a closed part that does not fit
                continue
            if n + 1 < len(alternatives):
                choices.append((alternatives, n + 1, rest, mark))
            return _push(alternatives[n], rest)
        return _NOTHING


_NOTHING = object()


def _push(goals: tuple[Goal, ...], rest: Any) -> Any:
    for goal in reversed(goals):
        rest = (goal, rest)
    return rest


# --------------------------------------------------------------------------------- closed parts


def parts_first(root: PatternBase) -> list[PatternBase]:
    """Every pattern below `root` once, parts before wholes."""
    return list(ordered([root], lambda p: p.parts()))


def _closed_parts(root: PatternBase) -> frozenset[PatternBase]:
    """Patterns with parts, all of whose parts are reached through themselves only.

    On the dominator tree of the pattern: where an edge enters a pattern from a place that does not
    dominate it, everything between that place and the dominator of both is open.
    """
    order = parts_first(root)
    for p in order:
        p.prepare()
    order.reverse()  # wholes before parts: every user of a pattern stands before it
    users = users_of(order, lambda p: p.parts())
    scope = {root: Scope(None)}  # of a pattern: the patterns that it dominates
    for p in order[1:]:
        scope[p] = Scope(functools.reduce(Scope.common, [scope[u] for u in users[p]]))
    shared: set[Scope] = set()
    for p in order[1:]:
        for u in users[p]:
            at: Scope | None = scope[u]
            while at is not None and at is not scope[p].parent:
                shared.add(at)
                at = at.parent
    return frozenset([p for p in order if scope[p] not in shared and any(True for _ in p.parts())])
