"""Relax's passes by their classic names: made, then called, `FuseOps()(mod)`."""

from .absent import ABSENT
from .algebra import (
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
from .make import NoSuchPass
from .params import (
    BindParams,
    BindSymbolicVars,
    BundleModelParams,
    ExpandTupleArguments,
    LiftTransformParams,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    UpdateParamType,
)
from .structure import (
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

__all__ = [
    "ABSENT", "AdjustMatmulOrder", "AlterOpImpl", "AnnotateTIROpPattern", "AttachGlobalSymbol",
    "BindParams", "BindSymbolicVars", "BundleModelParams", "CanonicalizeBindings",
    "CombineParallelMatmul", "ConvertToDataflow", "DeadCodeElimination",
    "DecomposeOpsForInference", "DecomposeOpsForTraining", "EliminateCommonSubexpr",
    "ExpandMatmulOfSum", "ExpandTupleArguments", "FakeQuantizationToInteger", "FastMath",
    "FoldBatchnormToConv2D",
    "FoldConstant", "FuseOps", "FuseOpsByPattern", "FuseTIR", "FuseTransposeMatmul",
    "InlinePrivateFunctions", "LambdaLift", "LegalizeOps", "LiftTransformParams",
    "MergeCompositeFunctions", "NoSuchPass", "Normalize", "NormalizeGlobalVar",
    "OptimizeLayoutTransform", "RemovePurityChecking", "RemoveRedundantReshape",
    "RemoveUnusedOutputs", "RemoveUnusedParameters", "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul", "RewriteDataflowReshape", "ToMixedPrecision", "ToNonDataflow",
    "TopologicalSort", "UpdateParamType",
]  # fmt: skip
