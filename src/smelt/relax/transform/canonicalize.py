"""All graph simplifications together."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from smelt.ir.module import IRModule

from .eliminate_dead_code import eliminate_dead_code
from .engine import Rule, RuleSet, apply_rules
from .fold_constants import FOLD_RULES
from .fold_scale import FOLD_SCALE_RULES
from .patterns import PATTERN_RULES
from .simplify import SIMPLIFY_RULES

RULES = FOLD_RULES + PATTERN_RULES + SIMPLIFY_RULES
"""Patterns before simplification: what a pattern is made of is not taken apart first."""

_SETS = {
    "FoldConstant": FOLD_RULES,
    "RecognizePatterns": PATTERN_RULES,
    "FoldScaleAxis": FOLD_SCALE_RULES,
    "SimplifyInference": RuleSet({"batch_norm": SIMPLIFY_RULES.table.get("batch_norm", ())}),
    "SimplifyExpr": SIMPLIFY_RULES,
}
"""The passes behind the rules. A rule of several belongs to the one that stands first."""

_SHARE, _CLEAN = "EliminateCommonSubexpr", "RemoveUnusedFunctions"
SIMPLIFICATIONS = (*_SETS, _SHARE, _CLEAN)
"""What `simplify_graph` does in one go, by the names that a PassContext uses."""


def rules_of(rules: RuleSet, on: Collection[str]) -> RuleSet:
    """Those of some rules whose passes are on."""
    gone = {rule for rule, name in _home().items() if name not in on}
    if not gone:
        return rules
    kept = {op: tuple([f for f in fns if f not in gone]) for op, fns in rules.table.items()}
    return RuleSet({op: fns for op, fns in kept.items() if fns})


@cache
def _home() -> dict[Rule, str]:
    """The pass that each rule belongs to."""
    sets = [(fns, name) for name, r in reversed(_SETS.items()) for fns in r.table.values()]
    return {rule: name for fns, name in sets for rule in fns}


def simplify_graph(mod: IRModule, on: Collection[str] = SIMPLIFICATIONS) -> IRModule:
    """Fold constants, recognise patterns, simplify, share equal calls: until nothing changes.

    on  which of SIMPLIFICATIONS to do
    """
    made = apply_rules(mod, rules_of(RULES, on), share=_SHARE in on)
    return eliminate_dead_code(made) if _CLEAN in on else made
