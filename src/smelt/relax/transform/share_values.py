"""Equal values become one node, in the words of any dialect; see `eliminate_common_subexpr`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, RelaxExpr, TupleGetItem

from .engine import SMALL_CONSTANT, key_of_call
from .rewriting import map_functions, transform

__all__ = ["share_values"]


def share_values(mod: IRModule, skip: Callable[[Call], bool] | None = None) -> IRModule:
    """One node for calls with the same operator, operands and attributes.

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
                case Constant(data, t) if data.nbytes <= SMALL_CONSTANT:
                    return nodes.setdefault((t, data.tobytes()), new)
            return None

        return transform(f, one)

    return map_functions(mod, share)
