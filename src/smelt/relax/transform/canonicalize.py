"""All graph simplifications together."""

from __future__ import annotations

from collections import Counter

from smelt.ir.module import IRModule

from .eliminate_dead_code import eliminate_dead_code
from .engine import apply_rules
from .fold_constants import FOLD_RULES
from .patterns import PATTERN_RULES
from .simplify import SIMPLIFY_RULES

__all__ = ["simplify_graph"]

RULES = FOLD_RULES + PATTERN_RULES + SIMPLIFY_RULES
"""Patterns before simplification: what a pattern is made of is not taken apart first."""


def simplify_graph(mod: IRModule, *, fired: Counter[str] | None = None) -> IRModule:
    """Fold constants, recognise patterns, simplify, share equal calls: until nothing changes.

    fired  counts the applications of each rule, for a report
    """
    return eliminate_dead_code(apply_rules(mod, RULES, share=True, fired=fired))
