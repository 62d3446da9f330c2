"""Passes over graph programs: functions from a module to a module, one file each.

Relax's passes by their classic names are in `classic`: `relax.transform.FuseOps()(mod)`.
"""

from __future__ import annotations

import importlib
from typing import Any

from smelt.ir.transform import Pass, PassContext, PassInfo, Sequential, module_pass

from .annotate_target import annotate_target, register_op_predicate
from .canonicalize import simplify_graph
from .classic.absent import ABSENT
from .classic.algebra import (
    AdjustMatmulOrder,
    CombineParallelMatmul,
    DecomposeOpsForInference,
    DecomposeOpsForTraining,
    ExpandMatmulOfSum,
    FakeQuantizationToInteger,
    FastMath,
    FoldBatchnormToConv2D,
    FuseTransposeMatmul,
    OptimizeLayoutTransform,
    RemoveRedundantReshape,
    ReorderPermuteDimsAfterConcat,
    ReorderTakeAfterMatmul,
    ToMixedPrecision,
)
from .classic.make import NoSuchPass, missing
from .classic.params import (
    BindParams,
    BindSymbolicVars,
    BundleModelParams,
    ExpandTupleArguments,
    LiftTransformParams,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    UpdateParamType,
)
from .classic.structure import (
    AlterOpImpl,
    AnnotateTIROpPattern,
    AttachGlobalSymbol,
    CanonicalizeBindings,
    ConvertToDataflow,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    FuseOps,
    FuseOpsByPattern,
    FuseTIR,
    InlinePrivateFunctions,
    LambdaLift,
    LegalizeOps,
    MergeCompositeFunctions,
    Normalize,
    NormalizeGlobalVar,
    RemovePurityChecking,
    RewriteDataflowReshape,
    ToNonDataflow,
    TopologicalSort,
)
from .combine_parallel_matmul import combine_parallel_matmul
from .eliminate_common_subexpr import eliminate_common_subexpr
from .eliminate_dead_code import eliminate_dead_code
from .fold_constants import fold_constants
from .fuse_ops_by_pattern import FusionPattern, fuse_ops_by_pattern, merge_composite_functions
from .merge_compiler_regions import merge_compiler_regions
from .merge_composite import merge_composite
from .partition_graph import partition_graph
from .patterns import recognize_patterns
from .recognize_attention import recognize_attention
from .simplify import simplify
from .split_convolutions import split_convolutions

__all__ = [
    "ABSENT", "AdjustMatmulOrder", "AlterOpImpl", "AnnotateTIROpPattern", "AttachGlobalSymbol",
    "BindParams", "BindSymbolicVars", "BundleModelParams", "CanonicalizeBindings",
    "CombineParallelMatmul", "ConvertToDataflow", "DeadCodeElimination",
    "DecomposeOpsForInference", "DecomposeOpsForTraining", "EliminateCommonSubexpr",
    "ExpandMatmulOfSum", "ExpandTupleArguments", "FakeQuantizationToInteger", "FastMath",
    "FoldBatchnormToConv2D",
    "FoldConstant", "FuseOps", "FuseOpsByPattern", "FuseTIR", "FuseTransposeMatmul",
    "FusionPattern", "InlinePrivateFunctions", "LambdaLift", "LegalizeOps", "LiftTransformParams",
    "MergeCompositeFunctions", "NoSuchPass", "Normalize", "NormalizeGlobalVar",
    "OptimizeLayoutTransform", "Pass", "PassContext", "PassInfo", "RemovePurityChecking",
    "RemoveRedundantReshape", "RemoveUnusedOutputs", "RemoveUnusedParameters",
    "ReorderPermuteDimsAfterConcat", "ReorderTakeAfterMatmul", "RewriteDataflowReshape",
    "Sequential", "ToMixedPrecision", "ToNonDataflow", "TopologicalSort", "UpdateParamType",
    "annotate_target", "combine_parallel_matmul", "eliminate_common_subexpr",
    "eliminate_dead_code", "fold_constants", "fuse_ops_by_pattern", "merge_compiler_regions",
    "merge_composite", "merge_composite_functions", "module_pass", "partition_graph",
    "recognize_attention", "recognize_patterns", "register_op_predicate", "simplify",
    "simplify_graph", "split_convolutions",
]  # fmt: skip

_ABOVE = {"RunCodegen": "smelt.relax_build"}
"""Passes that need what stands above graphs, resolved when they are first used."""


def __getattr__(name: str) -> Any:
    if name in _ABOVE:
        return getattr(importlib.import_module(_ABOVE[name]), name)
    known = [
        n for n in (*__all__, *_ABOVE) if n[:1].isupper() and n not in ("ABSENT", "NoSuchPass")
    ]
    raise missing("relax", name, ABSENT, known)
