"""Relay's passes by their classic names.

A pass is made, then called: `relay.transform.FuseOps(fuse_opt_level=2)(mod)`. The result is a
Relay program again, in which everything that the pass is not about stays as it was written.
"""

from __future__ import annotations

from typing import Any

from smelt.relax.transform.classic.make import missing
from smelt.transform import Pass, PassContext, PassInfo, Sequential, module_pass

from . import precision as mixed_precision
from .absent import ABSENT
from .canonicalize import CanonicalizeCast, CanonicalizeOps, FastMath, SplitArgs
from .fake_quantization_to_integer import FakeQuantizationToInteger
from .gradient import FirstOrderGradient, gradient
from .inference import SimplifyInference
from .layout import AlterOpLayout, ConvertLayout, LayoutConfig
from .legalize import Legalize, register_legalize
from .parallel import (
    BatchingOps,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
)
from .partition import AnnotateTarget, MergeCompilerRegions, MergeComposite, PartitionGraph
from .passes import LEVELS, function_pass
from .precision import ToMixedPrecision
from .scale_axis import BackwardFoldScaleAxis, FoldScaleAxis, ForwardFoldScaleAxis
from .shapes import ChangeBatch, DynamicToStatic
from .simplify import DivToMul, SimplifyExpr
from .structure import (
    DeadCodeElimination,
    DefuseOps,
    EliminateCommonSubexpr,
    EtaExpand,
    FoldConstant,
    FoldConstantExpr,
    FuseOps,
    InferType,
    InferTypeLocal,
    Inline,
    InlineCompilerFunctionsBoundTo,
    LambdaLift,
    MarkCompilerFunctionsAsExtern,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
    PartialEvaluate,
    RemoveUnusedFunctions,
    ToANormalForm,
    ToANormalFormExpr,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
)
from .windows import FlattenAtrousConv, FoldExplicitPadding, SimplifyFCTranspose

__all__ = ["ABSENT", "LEVELS", "AlterOpLayout", "AnnotateTarget", "BackwardFoldScaleAxis",
           "BatchingOps", "CanonicalizeCast", "CanonicalizeOps", "ChangeBatch",
           "CombineParallelBatchMatmul", "CombineParallelConv2D", "CombineParallelDense",
           "ConvertLayout", "DeadCodeElimination", "DefuseOps", "DivToMul", "DynamicToStatic",
           "EliminateCommonSubexpr", "EtaExpand", "FakeQuantizationToInteger", "FastMath",
           "FirstOrderGradient", "FlattenAtrousConv", "FoldConstant", "FoldConstantExpr",
           "FoldExplicitPadding", "FoldScaleAxis", "ForwardFoldScaleAxis", "FuseOps", "InferType",
           "InferTypeLocal", "Inline", "InlineCompilerFunctionsBoundTo", "LambdaLift",
           "LayoutConfig", "Legalize", "MarkCompilerFunctionsAsExtern", "MergeCompilerRegions",
           "MergeComposite", "OutlineCompilerFunctionsWithExistingGlobalSymbols", "PartialEvaluate",
           "PartitionGraph", "Pass", "PassContext", "PassInfo", "RemoveUnusedFunctions",
           "Sequential", "SimplifyExpr", "SimplifyFCTranspose", "SimplifyInference", "SplitArgs",
           "ToANormalForm", "ToANormalFormExpr", "ToBasicBlockNormalForm", "ToGraphNormalForm",
           "ToMixedPrecision", "function_pass", "gradient", "mixed_precision", "module_pass",
           "register_legalize"]  # fmt: skip


def __getattr__(name: str) -> Any:
    known = [n for n in __all__ if n[:1].isupper() and n not in ("ABSENT", "LEVELS")]
    raise missing("relay", name, ABSENT, known)
