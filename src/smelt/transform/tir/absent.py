"""Classic passes that do not exist here, and what does their work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from smelt.ir.errors import Unsupported

_GPU = "it is for GPUs, and GPU targets come later"
_HOST = "host programs are made by smelt.build and smelt.compile; they call kernels directly"
_BUILD = "smelt.build makes a function that takes arrays; every kernel has one plain C signature"

ABSENT: Mapping[str, str] = {
    "AnnotateDeviceRegions": _GPU,
    "CoProcSync": "co-processors with queues of their own are no targets",
    "CombineContextCall": _HOST,
    "DecorateDeviceScope": _GPU,
    "DefaultGPUSchedule": _GPU + "; smelt.rules.cpu.schedule gives the default schedule for CPUs",
    "InferFragment": _GPU,
    "InjectCopyIntrin": "Schedule.tensorize replaces a block by an instruction of the target",
    "InjectPTXAsyncCopy": _GPU,
    "InjectPTXLDG32": _GPU,
    "InjectPermutedLayout": _GPU,
    "InstallDebugSpans": "SMELT_DUMP=folder writes every stage, and errors show the program's text",
    "InstrumentProfileIntrinsics": "Executable.profile times every kernel without changing it",
    "LegalizePackedCalls": _HOST,
    "LiftAttrScope": "attributes belong to loops, allocations and blocks, not to scopes of code",
    "LowerAsyncDMA": "targets with asynchronous copies come later",
    "LowerAutoCopy": _GPU,
    "LowerCrossThreadReduction": _GPU + "; Schedule.rfactor splits a reduction on CPUs",
    "LowerCustomDatatypes": "there are no custom types; BF16ComputeLegalize and FP8ComputeLegalize "
    "compute with narrow floats",
    "LowerDeviceKernelLaunch": _GPU,
    "LowerDeviceStorageAccessInfo": _GPU,
    "LowerTVMBuiltin": _HOST,
    "LowerThreadAllreduce": _GPU,
    "LowerVtcmAlloc": "Hexagon targets come later",
    "LowerWarpMemory": _GPU,
    "MakePackedAPI": _BUILD,
    "MakeUnpackedAPI": _BUILD,
    "ManifestSharedMemoryLocalStage": _GPU,
    "MergeSharedMemoryAllocations": _GPU + "; StorageRewrite shares memory between buffers",
    "RemoveWeightLayoutRewriteBlock": "smelt.compile packs constant weights at compile time, as "
    "Schedule.transform_layout says; no block is left behind",
    "SplitHostDevice": _GPU,
    "StorageFlatten": "FlattenBuffer does it",
    "TextureFlatten": _GPU,
    "ThreadSync": _GPU,
    "TransformMmaBufferLayout": _GPU,
    "VerifyVTCMLimit": "Hexagon targets come later",
}
"""Why each is not there, or what does its work."""


def absent(name: str) -> Callable[..., NoReturn]:
    """What stands for a pass that is not there: calling it says why."""

    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise Unsupported(f"smelt.tir.transform has no {name}: {ABSENT[name]}")

    refuse.__name__, refuse.__doc__ = name, f"Not here: {ABSENT[name]}."
    return refuse
