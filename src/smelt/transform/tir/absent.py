"""Classic passes that do not exist here, and what does their work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from smelt.ir.errors import Unsupported

_GPU = "it is for GPUs, and GPU targets come later"
_HOST = "host programs are made by smelt.build and smelt.compile; they call kernels directly"
_BUILD = "smelt.build makes a function that takes arrays; every kernel has one plain C signature"

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(
        ("AnnotateDeviceRegions", "DecorateDeviceScope", "InferFragment", "InjectPTXAsyncCopy",
         "InjectPTXLDG32", "InjectPermutedLayout", "LowerAutoCopy", "LowerDeviceKernelLaunch",
         "LowerDeviceStorageAccessInfo", "LowerThreadAllreduce", "LowerWarpMemory",
         "ManifestSharedMemoryLocalStage", "SplitHostDevice", "TextureFlatten", "ThreadSync",
         "TransformMmaBufferLayout"), _GPU),
    **dict.fromkeys(("CombineContextCall", "LegalizePackedCalls", "LowerTVMBuiltin"), _HOST),
    **dict.fromkeys(("MakePackedAPI", "MakeUnpackedAPI"), _BUILD),
    "CoProcSync": "co-processors with queues of their own are no targets",
    "DefaultGPUSchedule": _GPU + "; smelt.rules.cpu.schedule gives the default schedule for CPUs",
    "InjectCopyIntrin": "Schedule.tensorize replaces a block by an instruction of the target",
    "InstallDebugSpans": "SMELT_DUMP=folder writes every stage, and errors show the program's text",
    "InstrumentProfileIntrinsics": "Executable.profile times every kernel without changing it",
    "LiftAttrScope": "attributes belong to loops, allocations and blocks, not to scopes of code",
    "LowerAsyncDMA": "targets with asynchronous copies come later",
    "LowerCrossThreadReduction": _GPU + "; Schedule.rfactor splits a reduction on CPUs",
    "LowerCustomDatatypes": "there are no custom types; BF16ComputeLegalize and FP8ComputeLegalize "
    "compute with narrow floats",
    "LowerVtcmAlloc": "Hexagon targets come later",
    "MergeSharedMemoryAllocations": _GPU + "; StorageRewrite shares memory between buffers",
    "RemoveWeightLayoutRewriteBlock": "smelt.compile packs constant weights at compile time, as "
    "Schedule.transform_layout says; no block is left behind",
    "StorageFlatten": "FlattenBuffer does it",
    "VerifyVTCMLimit": "Hexagon targets come later",
}  # fmt: skip
"""Why each is not there, or what does its work."""


def absent(name: str) -> Callable[..., NoReturn]:
    """What stands for a pass that is not there: calling it says why."""

    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise Unsupported(f"smelt.tir.transform has no {name}: {ABSENT[name]}")

    refuse.__name__, refuse.__doc__ = name, f"Not here: {ABSENT[name]}."
    return refuse
