"""The passes of relay.build under a context that names passes or brings instruments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from smelt.ir.errors import Unsupported
from smelt.ir.module import IRModule
from smelt.relax.transform.canonicalize import RULES
from smelt.relax.transform.engine import Rule, RuleSet, apply_rules
from smelt.relax.transform.expand_ops import expand_ops
from smelt.relax.transform.fold_constants import FOLD_RULES
from smelt.relax.transform.fold_scale import FOLD_SCALE_RULES
from smelt.relax.transform.fuse_ops import fuse_ops
from smelt.relax.transform.name_sizes import name_sizes
from smelt.relax.transform.normal_form import inline_functions
from smelt.relax.transform.recognize_attention import ATTENTION_RULES
from smelt.relax.transform.simplify import SIMPLIFY_RULES
from smelt.runtime.errors import nearest
from smelt.transform import Pass, PassContext, PassInfo

from . import canonicalize, layout, parallel, precision, simplify, structure, windows
from .passes import LEVELS, graph_pass

__all__ = ["BUILD_LEVELS", "build_steps"]

BUILD_LEVELS: Mapping[str, int] = {
    "InferType": 0,
    "FuseOps": 0,
    "SimplifyInference": 2,
    "FoldConstant": 2,
    "FoldScaleAxis": 2,
    "SimplifyExpr": 2,
    "CanonicalizeOps": 2,
    "EliminateCommonSubexpr": 2,
    "RemoveUnusedFunctions": 2,
}
"""The opt_level from which relay.build does what a pass is about."""

ON_DEMAND: Mapping[str, Callable[[], Pass]] = {
    "CombineParallelConv2D": parallel.CombineParallelConv2D,
    "CombineParallelDense": parallel.CombineParallelDense,
    "CombineParallelBatchMatmul": parallel.CombineParallelBatchMatmul,
    "FoldExplicitPadding": windows.FoldExplicitPadding,
    "FlattenAtrousConv": windows.FlattenAtrousConv,
    "CanonicalizeCast": canonicalize.CanonicalizeCast,
    "DivToMul": simplify.DivToMul,
    "AlterOpLayout": layout.AlterOpLayout,
    "FastMath": canonicalize.FastMath,
    "ToMixedPrecision": precision.ToMixedPrecision,
    "PartialEvaluate": structure.PartialEvaluate,
    "Inline": structure.Inline,
}
"""Passes that relay.build runs where required_pass names them, in this order."""

_BATCH_NORM = RuleSet({"batch_norm": SIMPLIFY_RULES.table.get("batch_norm", ())})


def build_steps(context: PassContext) -> list[Pass]:
    """The passes of relay.build for a context.

    The rules of the simplifying passes run together until nothing changes; a disabled pass takes
    its rules out.
    """
    for name in (*context.required_pass, *context.disabled_pass):
        if name not in LEVELS:
            raise Unsupported(
                f"PassContext: no pass {name!r}{nearest(name, list(LEVELS))}; "
                f"passes: {', '.join(LEVELS)}"
            )
    off = [n for n in context.required_pass if n not in BUILD_LEVELS and n not in ON_DEMAND]
    if off:
        raise Unsupported(
            f"PassContext: relay.build does not run {off[0]} by itself; apply "
            f"relay.transform.{off[0]} before; required_pass may name: "
            f"{', '.join([*BUILD_LEVELS, *ON_DEMAND])}"
        )
    on = {n for n, level in BUILD_LEVELS.items() if context.enabled(PassInfo(n, level))}
    first = [make() for n, make in ON_DEMAND.items() if n in context.required_pass]
    rules = _rules(on)
    if context.opt_level < BUILD_LEVELS["SimplifyExpr"]:
        wanted = {r for rs in _rule_sets(on).values() for r in rs}
        rules = _only(rules, wanted)
    share = "EliminateCommonSubexpr" in on
    level = context.opt_level if "FuseOps" in on else 0

    def simplified(mod: IRModule) -> IRModule:
        made = apply_rules(expand_ops(name_sizes(inline_functions(mod))), rules, share=share)
        if context.opt_level < 3 or "SimplifyExpr" not in on:
            return made
        return apply_rules(made, ATTENTION_RULES + rules, share=share)

    return [
        structure.InferType(),
        *first,
        graph_pass("SimplifyExpr", simplified),
        graph_pass("FuseOps", lambda mod: fuse_ops(mod, level)),
    ]


def _functions(rules: RuleSet) -> set[Rule]:
    return {f for fns in rules.table.values() for f in fns}


def _rule_sets(names: set[str]) -> dict[str, set[Rule]]:
    """The rules behind some of the simplifying passes."""
    fold, scale, norm = (
        _functions(FOLD_RULES),
        _functions(FOLD_SCALE_RULES),
        _functions(_BATCH_NORM),
    )
    sets = {
        "FoldConstant": fold,
        "FoldScaleAxis": scale,
        "SimplifyInference": norm,
        "SimplifyExpr": _functions(SIMPLIFY_RULES) - fold - scale - norm,
    }
    return {name: rules for name, rules in sets.items() if name in names}


def _rules(on: set[str]) -> RuleSet:
    """All rules of the compiler but those of passes that are off."""
    off = {r for rules in _rule_sets(set(BUILD_LEVELS) - on).values() for r in rules}
    return _only(RULES, _functions(RULES) - off)


def _only(rules: RuleSet, wanted: set[Rule]) -> RuleSet:
    kept = {op: tuple([f for f in fns if f in wanted]) for op, fns in rules.table.items()}
    return RuleSet({op: fns for op, fns in kept.items() if fns})
