"""What is known at compile time is computed at compile time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr
from smelt.ir.limits import GROWN, MOST, WORK, worth_computing
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, TupleType
from smelt.relax.interpret import evaluate_op
from smelt.relax.nodes import Call, Constant, RelaxExpr, Tuple, constant
from smelt.topi.registry import Op

from .engine import Graph, Rule, RuleSet, apply_rules
from .rewriting import kind_of


def fold_rule(limit: int) -> Rule:
    """The rule that computes calls of constants with results of at most `limit` bytes."""

    def fold_call(g: Graph, n: Call) -> RelaxExpr | None:
        """op(constants)  =  constant"""
        if not n.args or not all(isinstance(a, Constant) for a in n.args if a is not None):
            return None
        known = [None if a is None else a.data for a in n.args if isinstance(a, Constant | None)]
        size = _bytes(n)
        given = sum([0 if a is None else a.nbytes for a in known])
        if size is None or not worth_computing(size, given, limit) or _work(n) > WORK:
            return None
        assert isinstance(n.op, Op)
        if n.op.meaning is None or any(_symbolic(v) for v in n.attrs.values()):
            return None
        g.grown += max(size - given, 0)
        if g.grown > GROWN:
            return None
        with np.errstate(all="ignore"):
            result = evaluate_op(n.op, known, n.attrs)
        if isinstance(result, tuple):
            return Tuple(tuple([_constant(g, r) for r in result]))
        return _constant(g, result)

    return fold_call


def _constant(g: Graph, array: np.ndarray[Any, Any]) -> Constant:
    return g.one_constant(constant(np.asarray(array, order="C")))


def _bytes(n: Call) -> int | None:
    """Bytes of the results; None where a size is symbolic."""
    total = 0
    for t in n.type.items if isinstance(n.type, TupleType) else (n.type,):
        shape = t.fixed_shape() if isinstance(t, TensorType) else None
        if shape is None:
            return None
        assert isinstance(t, TensorType)
        total += math.prod(shape) * dt.bytes_of(t.dtype)
    return total


def _work(n: Call) -> float:
    """About how many multiplications a product takes: exactly so many for matrices."""
    if kind_of(n) != "contraction":
        return 0
    types = [n.type, *[a.type for a in n.args[:2] if a is not None]]
    shapes = [t.fixed_shape() or () for t in types if isinstance(t, TensorType)]
    return math.sqrt(math.prod([math.prod(s) for s in shapes]))


def _symbolic(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_symbolic(v) for v in value)
    return isinstance(value, Expr)


def _set(fn: Callable[[int], Rule], limit: int) -> RuleSet:
    return RuleSet({"*": (fn(limit),)})


FOLD_RULES = _set(fold_rule, MOST)


def fold_constants(mod: IRModule, *, limit: int = MOST) -> IRModule:
    """Compute at compile time every call whose operands are all constants.

    limit  bytes of the largest result; results much larger than their operands (a constant
           repeated by broadcast_to) stay calls
    """
    return apply_rules(mod, _set(fold_rule, limit))
