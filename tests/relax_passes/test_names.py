"""Every classic pass is there, or says what stands for it."""

from __future__ import annotations

from typing import Any

import pytest

from smelt import relax
from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.transform import Pass

PASSES = [
    "Gradient",
    "ToNonDataflow",
    "TopologicalSort",
    "RemovePurityChecking",
    "DataflowUseInplaceCalls",
    "LambdaLift",
    "LazyGetInput",
    "LazySetOutput",
    "ConvertToDataflow",
    "CallTIRRewrite",
    "Normalize",
    "NormalizeGlobalVar",
    "CanonicalizeBindings",
    "EliminateCommonSubexpr",
    "UpdateVDevice",
    "RealizeVDevice",
    "RewriteDataflowReshape",
    "StaticPlanBlockMemory",
    "LowerAllocTensor",
    "KillAfterLastUse",
    "ComputePrimValue",
    "LowerRuntimeBuiltin",
    "VMBuiltinLower",
    "VMShapeLower",
    "AttachGlobalSymbol",
    "BindParams",
    "BindSymbolicVars",
    "RunCodegen",
    "FoldConstant",
    "ExpandTupleArguments",
    "RemoveUnusedParameters",
    "RemoveUnusedOutputs",
    "InlinePrivateFunctions",
    "AnnotateTIROpPattern",
    "FuseOps",
    "FuseTIR",
    "FuseOpsByPattern",
    "MergeCompositeFunctions",
    "LiftTransformParams",
    "BundleModelParams",
    "LegalizeOps",
    "MetaScheduleApplyDatabase",
    "MetaScheduleTuneTIR",
    "MetaScheduleTuneIRMod",
    "DecomposeOpsForInference",
    "DecomposeOpsForTraining",
    "AlterOpImpl",
    "ConvertLayout",
    "DeadCodeElimination",
    "ToMixedPrecision",
    "FakeQuantizationToInteger",
    "SplitCallTIRByPattern",
    "UpdateParamType",
    "AdjustMatmulOrder",
    "ExpandMatmulOfSum",
    "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul",
    "CombineParallelMatmul",
    "RewriteCUDAGraph",
    "AllocateWorkspace",
    "SpecializePrimFuncBasedOnCallSite",
    "AttachAttrLayoutFreeBuffers",
    "SplitLayoutRewritePreproc",
    "FastMath",
    "FoldBatchnormToConv2D",
    "FuseTransposeMatmul",
    "OptimizeLayoutTransform",
    "RemoveRedundantReshape",
    "LazyTransformParams",
    "IPCAllReduceRewrite",
    "LowerGPUIPCAlloc",
]

NEEDS: dict[str, tuple[Any, ...]] = {
    "BindParams": ("main", {}),
    "BindSymbolicVars": ({},),
    "FuseOpsByPattern": ([],),
    "AlterOpImpl": ({},),
    "UpdateParamType": (lambda p: None,),
}


def test_every_name_is_known() -> None:
    here = set(PASSES) - set(relax.transform.ABSENT)
    assert set(relax.transform.ABSENT) <= set(PASSES)
    for name in here:
        made = getattr(relax.transform, name)(*NEEDS.get(name, ()))
        assert isinstance(made, Pass)
        assert made.info.name == name
    assert len(here) > 40


@pytest.mark.parametrize("name", sorted(relax.transform.ABSENT))
def test_absent_passes_say_what_stands_for_them(name: str) -> None:
    with pytest.raises(relax.transform.NoSuchPass, match=f"{name} has no place here: .*"):
        getattr(relax.transform, name)


def test_unknown_passes_list_the_nearest() -> None:
    with pytest.raises(relax.transform.NoSuchPass, match="nearest: FuseOps"):
        relax.transform.FuseOp  # noqa: B018
    with pytest.raises(CompileError, match="nearest: zero"):
        relax.get_pipeline("zer")
    with pytest.raises(TypeMismatch, match="takes an IRModule, not int"):
        relax.transform.FoldConstant()(3)
