"""Calls that compute the same become one, in the words of any dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.graph import transform
from smelt.relax.nodes import Call, Constant, RelaxExpr, TupleGetItem

from .engine import key_of_call, key_of_constant
from .rewriting import map_functions


def eliminate_common_subexpr(mod: IRModule, skip: Callable[[Call], bool] | None = None) -> IRModule:
    """One node for calls with the same operator, operands and attributes.

    Constants are the same if they hold the same array, or small arrays with the same bytes.

    skip  says which calls keep a node of their own

    A value that two scopes share belongs to the innermost scope around both.
    """

    def share(f: Any) -> Any:
        nodes: dict[Any, RelaxExpr] = {}

        def one(old: Any, new: Any) -> RelaxExpr | None:
            match new:
                case Call() if skip is None or not skip(new):
                    return nodes.setdefault(key_of_call(new), new)
                case TupleGetItem(value, index):
                    return nodes.setdefault((TupleGetItem, value, index), new)
                case Constant():
                    return nodes.setdefault(key_of_constant(new), new)
            return None

        return transform(f, one)

    return map_functions(mod, share)
