"""How Relay's passes are made: their names and levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.transform import pass_decorator
from smelt.relax.nodes import Function
from smelt.relax.transform.classic.make import GraphPass, named
from smelt.relax.transform.engine import RuleSet, apply_rules
from smelt.transform import Pass, PassContext

LEVELS: Mapping[str, int] = {
    **dict.fromkeys(
        ("InferType", "SimplifyInference", "SimplifyExpr", "FuseOps", "RemoveUnusedFunctions",
         "ToBasicBlockNormalForm", "ToMixedPrecision", "FakeQuantizationToInteger",
         "DynamicToStatic",
         "FlattenAtrousConv", "FoldExplicitPadding", "SimplifyFCTranspose", "DivToMul", "SplitArgs",
         "ChangeBatch", "DefuseOps", "LambdaLift", "MergeComposite", "AnnotateTarget",
         "MergeCompilerRegions", "PartitionGraph", "FirstOrderGradient",
         "OutlineCompilerFunctionsWithExistingGlobalSymbols", "MarkCompilerFunctionsAsExtern",
         "InlineCompilerFunctionsBoundTo"), 0),
    **dict.fromkeys(
        ("Legalize", "ToANormalForm", "ToGraphNormalForm", "EtaExpand", "Inline",
         "DeadCodeElimination", "PartialEvaluate"), 1),
    "FoldConstant": 2,
    **dict.fromkeys(
        ("AlterOpLayout", "ConvertLayout", "FoldScaleAxis", "BackwardFoldScaleAxis",
         "ForwardFoldScaleAxis", "CanonicalizeOps", "CanonicalizeCast",
         "EliminateCommonSubexpr"), 3),
    **dict.fromkeys(
        ("CombineParallelConv2D", "CombineParallelDense", "CombineParallelBatchMatmul",
         "BatchingOps", "FastMath"), 4),
}  # fmt: skip
"""The lowest opt_level at which a Sequential runs a pass."""


def graph_pass(name: str, fn: GraphPass) -> Pass:
    """A pass by its classic name."""
    return named(name, fn, LEVELS[name], "relay")


def rule_pass(name: str, *sets: RuleSet) -> Pass:
    """A pass that applies rules on Relay's operators, one set after the other."""

    def run(mod: IRModule) -> IRModule:
        for rules in sets:
            mod = apply_rules(mod, rules, whole=True)
        return mod

    return graph_pass(name, run)


class _FunctionPass(Pass):
    """A pass on the graph functions of a module, one after the other."""

    def apply(self, mod: Any, context: PassContext) -> Any:
        """The function on each graph function, with the module and the context."""
        if not isinstance(mod, IRModule):
            raise CompileError(
                f"{self.info.name} is a pass on the functions of a module; "
                f"{type(mod).__name__} is no module"
            )
        made: dict[str, Any] = {}
        for name, f in mod.functions.items():
            if isinstance(f, Function):
                made[name] = self.fn(f, mod, context)
                if not isinstance(made[name], Function):
                    raise CompileError(
                        f"{self.info.name} gave a {type(made[name]).__name__} for @{name}; "
                        "a pass on functions gives a function"
                    )
        return mod.with_functions(made)


function_pass = pass_decorator(
    "function_pass", _FunctionPass, "transform_function", "(func, mod, context) -> func"
)
