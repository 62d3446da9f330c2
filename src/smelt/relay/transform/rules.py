"""Rules on calls of Relay's operators.

    RULES = Rules()

    @RULES.rule("nn.bias_add")
    def plain_add(g: Graph, n: Call) -> RelaxExpr | None:
        \"\"\"nn.bias_add(x, b)  =  x + expand_dims(b)\"\"\"

A rule sees a call whose operands are in their new form and answers with a value of the same type,
or None. Walks are repeated until nothing changes. Everything that no rule is about stays as the
user wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from smelt.ir.build import value_of
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import TensorType
from smelt.relax.graph import transform, uses_of
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr
from smelt.relax.transform.rewriting import map_functions
from smelt.topi.registry import Op

from ..dialect import RELAY, const

WALKS = 16
"""Walks over a function, at most; two or three are usual."""


class Graph:
    """A function being rewritten: how often its values are used."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self.uses: Counter[Node] = Counter()

    def single(self, x: RelaxExpr | None) -> bool:
        """Whether a value has no second use."""
        return x is not None and self.uses[x] <= 1


Rule = Callable[[Graph, Call], "RelaxExpr | None"]


class Rules:
    """Rules by the name of the operator at their root."""

    def __init__(self) -> None:
        """No rules yet."""
        self.table: dict[str, tuple[Rule, ...]] = {}

    def rule(self, *names: str) -> Callable[[Rule], Rule]:
        """Enter a function as a rule for calls of these operators."""

        def enter(fn: Rule) -> Rule:
            for name in names:
                self.table[name] = (*self.table.get(name, ()), fn)
            return fn

        return enter

    def __call__(self, mod: IRModule) -> IRModule:
        """A module with the rules applied until none fits."""
        return map_functions(mod, self.function)

    def function(self, f: Function) -> Function:
        """One function with the rules applied."""
        for _ in range(WALKS):
            new = self._walk(f)
            if new is f:
                break
            f = new
        return f

    def _walk(self, f: Function) -> Function:
        graph = Graph()
        before = uses_of(f)

        def settle(old: Any, new: Any) -> RelaxExpr | None:
            made = self._first(graph, new) if isinstance(new, Call) else None
            graph.uses[new if made is None else made] += before[old]
            return made

        return transform(f, settle)  # type: ignore[no-any-return]

    def _first(self, graph: Graph, n: Call) -> RelaxExpr | None:
        if not isinstance(n.op, Op) or RELAY.ops.get(n.op.name) is not n.op:
            return None
        for rule in self.table.get(n.op.name, ()):
            new = rule(graph, n)
            if new is not None and new is not n and new.type is n.type:
                return new
        return None


# ------------------------------------------------------------------- questions about values


def is_call(x: Any, *names: str) -> TypeGuard[Call]:
    """Whether a value is a call of one of these operators of Relay."""
    return isinstance(x, Call) and isinstance(x.op, Op) and x.op.name in names and (
        RELAY.ops.get(x.op.name) is x.op
    )  # fmt: skip


def dims(x: RelaxExpr | None) -> tuple[int | None, ...]:
    """A tensor's extents as numbers, None where symbolic; () for what is no tensor."""
    t = getattr(x, "type", None)
    return tuple([value_of(e) for e in t.shape]) if isinstance(t, TensorType) else ()


def rank_of(x: RelaxExpr | None) -> int:
    """A tensor's number of dimensions; -1 for what is no tensor."""
    t = getattr(x, "type", None)
    return len(t.shape) if isinstance(t, TensorType) else -1


def dtype_of(x: RelaxExpr | None) -> str:
    """A tensor's element type; empty for what is no tensor."""
    t = getattr(x, "type", None)
    return t.dtype if isinstance(t, TensorType) else ""


def same_type(x: RelaxExpr | None, y: RelaxExpr | None) -> bool:
    """Whether two values have one known type."""
    return getattr(x, "type", None) is getattr(y, "type", 0)


def constant_of(x: RelaxExpr | None) -> np.ndarray | None:
    """The array of a constant."""
    return np.asarray(x.data) if isinstance(x, Constant) else None


def scalar_of(x: RelaxExpr | None) -> float | None:
    """The one value that all elements of a constant have."""
    if not isinstance(x, Constant) or not x.data.size:
        return None
    first = x.data.reshape(-1)[0]
    return float(first) if x.data.size == 1 or bool(np.all(x.data == first)) else None


def num(value: float, like: RelaxExpr) -> RelaxExpr:
    """A number as a constant of another value's element type."""
    return const(value, dtype_of(like))
