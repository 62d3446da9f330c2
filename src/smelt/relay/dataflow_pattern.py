"""Relay's pattern language: smelt's own, with operators looked up under their Relay names.

conv = is_op("nn.conv2d")(wildcard(), wildcard())
relu = is_op("nn.relu")(is_op("nn.bias_add")(conv, wildcard()))
relu.match(expr), relu.partition(expr), rewrite(MyCallback(), expr)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax import dpl
from smelt.relax.dpl import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DFPatternCallback,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)

from .op import get

__all__ = [
    "AltPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern",
    "DFPatternCallback", "DataTypePattern", "DominatorPattern", "ExprPattern", "FunctionPattern",
    "IfPattern", "LetPattern", "ShapePattern", "TupleGetItemPattern", "TuplePattern",
    "TypePattern", "VarPattern", "WildcardPattern", "dominates", "has_attr", "has_dtype",
    "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_let", "is_op", "is_tuple",
    "is_tuple_get_item", "is_var", "match", "partition", "rewrite", "wildcard",
]  # fmt: skip


def is_op(op_name: str) -> ExprPattern:
    """An operator of Relay by name; an unknown name is an error that lists the nearest ones."""
    get(op_name)
    return dpl.is_op(op_name, get)


def match(pattern: DFPattern, expr: Any) -> bool:
    """Whether a pattern fits an expression."""
    return pattern.match(expr)


def partition(
    pattern: DFPattern,
    expr: Any,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Any], bool] = lambda x: True,
) -> Any:
    """Every match as a function of its own, called in place.

    attrs  attributes for the functions
    check  gets the value that a match computes; False refuses the match
    """
    return dpl.partition(pattern, expr, attrs, check)


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback],
    expr: Any,
    mod: IRModule | None = None,
) -> Any:
    """An expression with every match of the callbacks' patterns replaced, until nothing changes.

    mod  there for the classic signature: types are known without it
    """
    return dpl.rewrite(callbacks, expr)
