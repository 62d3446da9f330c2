"""Calls that compute the same become one."""

from __future__ import annotations

from smelt.ir.module import IRModule

from .engine import RuleSet, apply_rules

__all__ = ["eliminate_common_subexpr"]


def eliminate_common_subexpr(mod: IRModule) -> IRModule:
    """One node for calls with the same operator, operands and attributes.

    Constants are the same if they hold the same array, or small arrays with the same bytes.
    """
    return apply_rules(mod, RuleSet(), share=True)
