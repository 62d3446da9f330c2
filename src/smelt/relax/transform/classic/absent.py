"""Passes of Relax that have no place here, each with what stands for it."""

from __future__ import annotations

from collections.abc import Mapping

_MEMORY = "memory is planned when the program is compiled"
_DEVICE = "a program runs on one device, the target's"
_SHAPES = "shapes are computed by the compiled program when it is entered"
_TUNING = "smelt.meta_schedule tunes: tune_relax, and compile_relax(database, mod, target)"
_GPU = "there are no programs for graphics cards"

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(
        ("StaticPlanBlockMemory", "LowerAllocTensor", "KillAfterLastUse", "AllocateWorkspace",
         "DataflowUseInplaceCalls"), _MEMORY),
    **dict.fromkeys(("UpdateVDevice", "RealizeVDevice"), _DEVICE),
    **dict.fromkeys(("VMShapeLower", "ComputePrimValue"), _SHAPES),
    **dict.fromkeys(
        ("MetaScheduleApplyDatabase", "MetaScheduleTuneTIR", "MetaScheduleTuneIRMod"), _TUNING),
    **dict.fromkeys(("RewriteCUDAGraph", "IPCAllReduceRewrite", "LowerGPUIPCAlloc"), _GPU),
    **dict.fromkeys(
        ("VMBuiltinLower", "LowerRuntimeBuiltin", "CallTIRRewrite"),
        "relax.build lowers calls to native code by itself"),
    **dict.fromkeys(
        ("LazyGetInput", "LazySetOutput", "LazyTransformParams"),
        "operands and results are handed over together; weights are mapped from the file when "
        "they are read"),
    "AttachAttrLayoutFreeBuffers": "constants are packed for the programs that read them",
    "SplitLayoutRewritePreproc": "constants are packed for the programs that read them",
    "SplitCallTIRByPattern": "FuseOpsByPattern gives operators to another compiler before they "
    "are programs",
    "SpecializePrimFuncBasedOnCallSite": "a program gets the sizes of its call when it is compiled",
    "ConvertLayout": "an operator has one layout; relax.op.layout_transform moves a value, and "
    "builders take data_layout. Convolutions choose the order of memory when they are compiled",
    "Gradient": "relay.transform.gradient derives programs of Relay's operators",
}  # fmt: skip
"""Name: what stands for it."""
