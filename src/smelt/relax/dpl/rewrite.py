"""Rewriting by patterns: what matches is replaced by what a function makes of it."""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.relax.equal import structural_equal
from smelt.relax.nodes import Function, RelaxExpr

from .context import PatternContext
from .graph import DataflowGraph, NewForms, transformed
from .match import PatternBase
from .partition import Match, Partitioner

ROUNDS = 100
"""Walks over the graph after which rules are held to undo each other."""

GROWTH = 64
"""How many times larger a graph may become before rules are held to feed themselves."""


class DFPatternCallback:
    """A rule: `pattern`, and in `callback` what a match becomes. Derive from it.

    class Twice(DFPatternCallback):
        def __init__(self):
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("relu")(is_op("relu")(self.x))

        def callback(self, pre, post, node_map):
            return call("relu", node_map[self.x][0])
    """

    pattern: Any = None

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        """require_type: there for the classic signature, types are always known.

        rewrite_once  one walk over the graph, in place of walks until nothing changes
        """
        self.require_type, self.rewrite_once = require_type, rewrite_once

    def rewrite(self, expr: Any) -> Any:
        """An expression or function with every match replaced."""
        return rewrite(self, expr)

    def callback(
        self, pre: RelaxExpr, post: RelaxExpr, node_map: Mapping[PatternBase, list[RelaxExpr]]
    ) -> RelaxExpr:
        """What a match becomes.

        pre       the value that the match computes
        post      the same, with what it is made from already rewritten; returned: no change
        node_map  for each part of the pattern the values it fits, already rewritten
        """
        raise NotImplementedError(f"{type(self).__name__} has no callback(pre, post, node_map)")


def rewrite(callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Any) -> Any:
    """An expression or function with every match of the callbacks' patterns replaced.

    The callbacks take turns until nothing changes; TypeMismatch where that takes 100 rounds, or
    makes a program 64 times as large.
    A match whose inside is used from outside is left alone.
    """
    rules = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for rule in rules:
        if not isinstance(rule, DFPatternCallback) or not isinstance(rule.pattern, PatternBase):
            raise TypeMismatch(
                f"rewrite: {type(rule).__name__} is no DFPatternCallback with a pattern"
            )
    if not isinstance(expr, RelaxExpr):
        raise TypeMismatch(
            f"rewrite takes a function or a value of a graph program, not {type(expr).__name__}"
        )
    limit = GROWTH * (len(DataflowGraph(expr).order) + 100)
    for _ in range(ROUNDS):
        before = expr
        for rule in rules:
            expr = _one_round(rule, expr)
        if expr is before or all(r.rewrite_once for r in rules) or structural_equal(expr, before):
            return expr
        if len(DataflowGraph(expr).order) > limit:
            break
    names = ", ".join([type(r).__name__ for r in rules])
    raise TypeMismatch(
        f"rewrite: {names} would change the program for ever (it stopped after {ROUNDS} rounds, or "
        f"{GROWTH} times the size); a callback that makes what its own pattern matches needs "
        "rewrite_once=True"
    )


def _one_round(rule: DFPatternCallback, expr: RelaxExpr) -> RelaxExpr:
    graph = Partitioner(expr)
    made: dict[RelaxExpr, Match] = {m.root: m for m in graph.matches(rule.pattern, leaves=True)}
    if not made:
        return expr

    def replace(node: RelaxExpr, new: RelaxExpr, done: NewForms) -> RelaxExpr:
        m = made.get(node)
        if m is None:
            return new
        known = ChainMap({node: new}, done)
        found = {p: [known.get(v, v) for v in values] for p, values in m.bound.items()}
        return _value(rule.callback(node, new, found), f"{type(rule).__name__}.callback")

    return transformed(graph.graph, replace)[expr]


def _value(found: Any, who: str) -> RelaxExpr:
    if not isinstance(found, RelaxExpr):
        raise TypeMismatch(
            f"{who} returned {found!r}; it has to return a value of a graph program "
            "(the value it was given, where nothing changes)"
        )
    return found


def rewrite_call(
    pattern: PatternBase, rewriter: Callable[[Any, dict[Any, Any]], Any], func: Function
) -> Function:
    """A function with every call that a pattern fits replaced, in one walk.

    rewriter  (the call, {pattern: value}) -> what stands for it; the call itself: no change.
              Values are already rewritten, so that calls inside each other are all replaced
    Matches may overlap, and their insides may be used elsewhere: nothing is taken away.
    """
    graph = Partitioner(func)
    fitting = set(graph.candidates(pattern))

    def replace(node: RelaxExpr, new: RelaxExpr, done: NewForms) -> RelaxExpr:
        if node not in fitting or node is func:
            return new
        bound = graph.matcher.match(pattern, node)
        if bound is None:
            return new
        known = {**{v: done.get(v, v) for vs in bound.values() for v in vs}, node: new}
        found = {p: known[vs[0]] for p, vs in bound.items() if vs}
        return _value(rewriter(new, found), "the rewriter of rewrite_call")

    return transformed(graph.graph, replace)[func]  # type: ignore[return-value]


def rewrite_bindings(
    ctx: PatternContext, rewriter: Callable[..., Mapping[Any, Any]], func: Function
) -> Function:
    """A function in which what fits a context's patterns together is replaced, until nothing does.

    rewriter  ({pattern: value}) -> {value: what stands for it}; it may take a second parameter,
              the users of each value. Values that it made, and those of a match that it left as
              they are, take no part in further matches
    """
    settled: set[RelaxExpr] = set()
    wants_users = len(inspect.signature(rewriter).parameters) > 1
    while True:
        graph = DataflowGraph(func)
        found = ctx.match(graph, frozenset(settled))
        if found is None:
            return func
        given = rewriter(found, graph.users) if wants_users else rewriter(found)
        changes = {v: _value(new, "the rewriter of rewrite_bindings") for v, new in given.items()}
        known = set(graph.order)
        settled.update([found[p] for p in ctx.patterns if p in found])
        for new in changes.values():
            settled.update([n for n in DataflowGraph(new).order if n not in known])
        done = transformed(graph, lambda node, new, _: changes.get(node, new))  # noqa: B023
        settled.update([done[s] for s in settled if s in done])
        func = done[func]  # type: ignore[assignment]
