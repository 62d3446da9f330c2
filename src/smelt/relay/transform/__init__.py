"""Relay's passes: each is one of smelt's own graph passes under its classic name.

A pass is made, then called: `relay.transform.FuseOps(fuse_opt_level=2)(mod)`. The result prints
as Relay, so that what a pass did can be seen.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.relax.nodes import Function, dialect_of
from smelt.relax.transform.canonicalize import RULES
from smelt.relax.transform.eliminate_common_subexpr import eliminate_common_subexpr
from smelt.relax.transform.eliminate_dead_code import eliminate_dead_code
from smelt.relax.transform.engine import Rule, RuleSet, apply_rules
from smelt.relax.transform.expand_ops import expand_ops
from smelt.relax.transform.fold_constants import FOLD_RULES, fold_constants
from smelt.relax.transform.fold_scale import FOLD_SCALE_RULES
from smelt.relax.transform.fuse_ops import fuse_ops
from smelt.relax.transform.simplify import SIMPLIFY_RULES, simplify
from smelt.relax.verify import verify
from smelt.transform import Pass, PassContext, PassInfo, Sequential

from ..dialect import RELAY
from ..lift import lift

__all__ = [
    "CanonicalizeOps",
    "DeadCodeElimination",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "FoldScaleAxis",
    "FuseOps",
    "InferType",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyInference",
    "build_steps",
]

GraphPass = Callable[[IRModule], IRModule]

# name: the opt_level at which relay.build runs it
LEVELS: Mapping[str, int] = {
    "InferType": 0,
    "SimplifyInference": 2,
    "FoldConstant": 2,
    "FoldScaleAxis": 2,
    "SimplifyExpr": 2,
    "CanonicalizeOps": 2,
    "EliminateCommonSubexpr": 2,
    "DeadCodeElimination": 2,
    "RemoveUnusedFunctions": 2,
    "FuseOps": 0,
}

_INFERENCE = ("batch_norm",)
_BATCH_NORM = RuleSet({op: SIMPLIFY_RULES.table.get(op, ()) for op in _INFERENCE})


def _pass(name: str, fn: GraphPass) -> Pass:
    def run(mod: Any) -> IRModule:
        if not isinstance(mod, IRModule):
            raise TypeMismatch(
                f"relay.transform.{name} takes an IRModule, not {type(mod).__name__}"
            )
        return fn(mod)

    return Pass(run, PassInfo(name, LEVELS[name]))


def _core_pass(name: str, fn: GraphPass) -> Pass:
    """A pass on the core's operators: Relay's are expanded for it and lifted again after it."""

    def run(mod: IRModule) -> IRModule:
        own = any(
            isinstance(f, Function) and dialect_of(f) is RELAY for f in mod.functions.values()
        )
        return lift(fn(expand_ops(mod))) if own else fn(mod)

    return _pass(name, run)


def InferType() -> Pass:
    """Types are always known here; this checks them and the other rules of graph programs."""

    def check(mod: IRModule) -> IRModule:
        verify(mod)
        return mod

    return _pass("InferType", check)


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Group operators into kernels; 0 makes one of each operator, -1 asks the context."""
    level = PassContext.current().opt_level if fuse_opt_level == -1 else fuse_opt_level
    Options(opt_level=min(level, 3) if isinstance(level, int) else level)
    return _pass("FuseOps", lambda mod: fuse_ops(mod, level))


def FoldConstant(fold_qnn: bool = False) -> Pass:
    """Compute calls whose operands are all constants. fold_qnn is there for the signature."""
    return _core_pass("FoldConstant", fold_constants)


def SimplifyInference() -> Pass:
    """BatchNorm with constant statistics becomes arithmetic, or part of the weights before it."""
    return _core_pass("SimplifyInference", lambda mod: apply_rules(mod, _BATCH_NORM))


def FoldScaleAxis() -> Pass:
    """Scales and shifts per channel become part of constant weights."""
    return _core_pass("FoldScaleAxis", lambda mod: apply_rules(mod, FOLD_SCALE_RULES))


def SimplifyExpr() -> Pass:
    """All algebraic laws: neutral elements, inverse moves, chains of casts, ..."""
    return _core_pass("SimplifyExpr", simplify)


def CanonicalizeOps() -> Pass:
    """Nothing to do: importers write a bias as an addition from the start."""
    return _pass("CanonicalizeOps", lambda mod: mod)


def EliminateCommonSubexpr() -> Pass:
    """Calls that compute the same become one."""
    return _pass("EliminateCommonSubexpr", eliminate_common_subexpr)


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Functions that nothing calls leave. The options are there for the signature."""
    return _pass("DeadCodeElimination", eliminate_dead_code)


def RemoveUnusedFunctions(entry_functions: list[str] | None = None) -> Pass:
    """Functions that the entries do not call leave."""
    entries = entry_functions or ["main"]
    return _pass("RemoveUnusedFunctions", lambda mod: eliminate_dead_code(mod, entries=entries))


# --------------------------------------------------------------------------------------- build


def build_steps(context: PassContext) -> list[Pass]:
    """The passes of relay.build for a context that names passes or brings instruments.

    The rules of the simplifying passes run together until nothing changes; a disabled pass takes
    its rules out.
    """
    for name in (*context.required_pass, *context.disabled_pass):
        if name not in LEVELS:
            near = difflib.get_close_matches(name, LEVELS, 3)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise Unsupported(f"PassContext: no pass {name!r}{hint}; passes: {', '.join(LEVELS)}")
    on = {name for name, level in LEVELS.items() if context.enabled(PassInfo(name, level))}
    rules = _rules(on)
    if context.opt_level < LEVELS["SimplifyExpr"]:
        wanted = {r for rs in _rule_sets(on).values() for r in rs}
        rules = _only(rules, wanted)
    share = "EliminateCommonSubexpr" in on
    level = context.opt_level if "FuseOps" in on else 0
    steps = [_pass("FuseOps", lambda mod: fuse_ops(mod, level))]
    if rules.table:
        steps.insert(0, _pass("SimplifyExpr", lambda mod: apply_rules(mod, rules, share=share)))
    return [_pass("InferType", InferType().fn), *steps]


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
    off = {r for rules in _rule_sets(set(LEVELS) - on).values() for r in rules}
    return _only(RULES, _functions(RULES) - off)


def _only(rules: RuleSet, wanted: set[Rule]) -> RuleSet:
    kept = {op: tuple([f for f in fns if f in wanted]) for op, fns in rules.table.items()}
    return RuleSet({op: fns for op, fns in kept.items() if fns})


# ------------------------------------------------------------------------------- what is absent


class NoSuchPass(Unsupported, AttributeError):
    """A pass of Relay that smelt does not have under this name."""


_ELSEWHERE = {
    "AlterOpLayout": "layouts are chosen by relay.build when memory is planned",
    "ConvertLayout": "layouts are chosen by relay.build when memory is planned",
    "Legalize": "relay.build turns every operator into a tensor program",
    "ToANormalForm": "graphs have one form, values that share operands",
    "ToGraphNormalForm": "graphs have one form, values that share operands",
    "ToBasicBlockNormalForm": "graphs have one form, values that share operands",
}


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    near = difflib.get_close_matches(name, LEVELS, 3)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    reason = f" ({_ELSEWHERE[name]})" if name in _ELSEWHERE else ""
    raise NoSuchPass(f"relay.transform has no pass {name!r}{reason}{hint}; "
                     f"passes: {', '.join(LEVELS)}")  # fmt: skip
