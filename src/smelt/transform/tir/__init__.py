"""The passes on tensor programs under their classic names.

    mod = smelt.tir.transform.Simplify()(mod)

A pass takes an IRModule, or a PrimFunc, and gives the same. smelt.lower runs smelt's own pipeline;
`lowering_steps` is what a PassContext makes of it. A name whose work is done elsewhere says where
when it is called.
"""

from __future__ import annotations

from typing import Any

from smelt.ir.steps import Step, check_names
from smelt.ir.transform import PassContext
from smelt.lowering.lower import lowering_steps as all_steps
from smelt.pipeline import GRAPH, LOWER, VM
from smelt.runtime.errors import nearest

from .absent import ABSENT, absent
from .blocks import (
    ApplyLayoutTransforms,
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    FlattenBuffer,
    InjectRollingBuffer,
    LowerInitBlock,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    PlanAndUpdateBufferAllocationLocation,
)
from .function_pass import Apply, Filter, PrimFuncPass, prim_func_pass
from .functions import (
    AnnotateEntryFunc,
    BindTarget,
    ExtractPrimFuncConstants,
    InlinePrivateFunctions,
    VerifyMemory,
)
from .loops import (
    ConvertForLoopsToSerial,
    HoistedConditionals,
    HoistedLetBindings,
    HoistExpression,
    HoistIfThenElse,
    InjectDoubleBuffer,
    InjectPrefetch,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    LiftThreadBinding,
    LoopPartition,
    ReduceBranchingThroughOvercompute,
    UnifyThreadBinding,
    UnrollLoop,
    VectorizeLoop,
)
from .values import (
    BF16ComputeLegalize,
    BF16StorageLegalize,
    CommonSubexprElimTIR,
    ConvertSSA,
    ForceNarrowIndexToInt32,
    FP8ComputeLegalize,
    FP8StorageLegalize,
    InstrumentBoundCheckers,
    LowerIntrin,
    NarrowDataType,
    PointerValueTypeRewrite,
    RemoveAssume,
    RemoveNoOp,
    RemoveStoreUndef,
    RenormalizeSplitPattern,
    RewriteUnsafeSelect,
    Simplify,
    SkipAssert,
    StorageRewrite,
)

__all__ = ["ABSENT", "AnnotateEntryFunc", "Apply", "ApplyLayoutTransforms", "BF16ComputeLegalize",
           "BF16StorageLegalize", "BindTarget", "CommonSubexprElimTIR", "CompactBufferAllocation",
           "ConvertBlocksToOpaque", "ConvertForLoopsToSerial", "ConvertSSA",
           "ExtractPrimFuncConstants", "FP8ComputeLegalize", "FP8StorageLegalize", "Filter",
           "FlattenBuffer", "ForceNarrowIndexToInt32", "HoistExpression", "HoistIfThenElse",
           "HoistedConditionals", "HoistedLetBindings", "InjectDoubleBuffer", "InjectPrefetch",
           "InjectRollingBuffer", "InjectSoftwarePipeline", "InjectVirtualThread",
           "InlinePrivateFunctions",
           "InstrumentBoundCheckers", "LiftThreadBinding", "LoopPartition", "LowerInitBlock",
           "LowerIntrin", "LowerMatchBuffer", "LowerOpaqueBlock", "NarrowDataType",
           "PlanAndUpdateBufferAllocationLocation", "PointerValueTypeRewrite", "PrimFuncPass",
           "ReduceBranchingThroughOvercompute", "RemoveAssume", "RemoveNoOp", "RemoveStoreUndef",
           "RenormalizeSplitPattern", "RewriteUnsafeSelect", "Simplify", "SkipAssert", "Step",
           "StorageRewrite", "UnifyThreadBinding", "UnrollLoop", "VectorizeLoop", "VerifyMemory",
           "lowering_steps", "prim_func_pass"]  # fmt: skip


def lowering_steps(context: PassContext) -> tuple[Step, ...]:
    """The passes of smelt.lower under a context, in order."""
    check_names(context, (GRAPH, VM, LOWER), "smelt.lower")
    return all_steps(context, LOWER)


def __getattr__(name: str) -> Any:
    if name in ABSENT:
        return absent(name)
    known = [n for n in (*__all__, *ABSENT) if n[0].isupper() and n.isidentifier()]
    raise AttributeError(f"smelt.tir.transform has no pass {name!r}{nearest(name, known)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *ABSENT})
