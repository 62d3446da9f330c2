"""All classic names are there: each a pass, or an error that says what replaces it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smelt.tir.transform as tir_transform
from smelt.ir.errors import Unsupported
from smelt.ir.transform import Pass
from smelt.tir.transform import ABSENT

from .support import constructors

NAMES = """
ApplyLayoutTransforms StorageFlatten TextureFlatten InjectCopyIntrin InjectPrefetch CoProcSync
LiftAttrScope LoopPartition VectorizeLoop InjectVirtualThread InjectDoubleBuffer
InjectRollingBuffer StorageRewrite InlinePrivateFunctions PointerValueTypeRewrite UnrollLoop
ReduceBranchingThroughOvercompute RemoveNoOp RemoveAssume RemoveStoreUndef BF16ComputeLegalize
BF16StorageLegalize FP8ComputeLegalize FP8StorageLegalize CommonSubexprElimTIR
RewriteUnsafeSelect Simplify ConvertSSA InstrumentBoundCheckers LowerCustomDatatypes
MakePackedAPI MakeUnpackedAPI AnnotateDeviceRegions SplitHostDevice LowerDeviceKernelLaunch
DecorateDeviceScope SkipAssert ThreadSync LowerThreadAllreduce InferFragment LowerWarpMemory
LowerTVMBuiltin LegalizePackedCalls LowerIntrin LowerDeviceStorageAccessInfo CombineContextCall
NarrowDataType ForceNarrowIndexToInt32 VerifyMemory VerifyVTCMLimit HoistIfThenElse
HoistExpression LowerCrossThreadReduction LowerInitBlock PlanAndUpdateBufferAllocationLocation
ConvertBlocksToOpaque LiftThreadBinding CompactBufferAllocation LowerMatchBuffer
LowerOpaqueBlock FlattenBuffer TransformMmaBufferLayout InjectPermutedLayout UnifyThreadBinding
MergeSharedMemoryAllocations ConvertForLoopsToSerial InjectSoftwarePipeline
ExtractPrimFuncConstants LowerAutoCopy RenormalizeSplitPattern BindTarget AnnotateEntryFunc
Filter InjectPTXAsyncCopy RemoveWeightLayoutRewriteBlock ManifestSharedMemoryLocalStage
InstrumentProfileIntrinsics InstallDebugSpans DefaultGPUSchedule
Apply InjectPTXLDG32 LowerAsyncDMA LowerVtcmAlloc
"""
CLASSIC = NAMES.split()
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Apply": (lambda func: func,),
    "BindTarget": ("llvm",),
    "Filter": (lambda func: True,),
    "NarrowDataType": (32,),
}


def test_there_are_eighty_three() -> None:
    assert len(set(CLASSIC)) == len(CLASSIC) == 83
    real = set(constructors())
    assert real | set(ABSENT) == set(CLASSIC)
    assert not real & set(ABSENT)


@pytest.mark.parametrize("name", CLASSIC)
def test_each_is_a_pass_or_says_what_replaces_it(name: str) -> None:
    make = getattr(tir_transform, name)
    if name not in ABSENT:
        made = make(*ARGUMENTS.get(name, ()))
        assert isinstance(made, Pass)
        assert made.info.name == name
        return
    with pytest.raises(Unsupported) as caught:
        make("any", argument=1)
    assert str(caught.value) == f"smelt.tir.transform has no {name}: {ABSENT[name]}"


def test_another_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(AttributeError) as caught:
        tir_transform.VectoriseLoop  # noqa: B018
    assert str(caught.value) == (
        "smelt.tir.transform has no pass 'VectoriseLoop'; nearest: VectorizeLoop"
    )
    assert not hasattr(tir_transform, "nothing_like_it")


@pytest.mark.parametrize(
    "program",
    [
        "import smelt.tir.transform",
        "import smelt; smelt.tir.transform.Simplify()",
        "import smelt.instrument, smelt.transform; from smelt.tir import transform",
        "from smelt.pipeline import LOWER; import smelt.tir.transform",
    ],
)
def test_it_can_be_imported_first(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_below_imports_the_classic_face() -> None:
    """The part of the import contract that its exception for this folder leaves open."""
    package = Path(tir_transform.__file__).parents[2]
    for room in ("runtime", "ir", "target", "arith", "tir", "te", "topi", "relax", "codegen",
                 "rules", "lowering", "frontend"):  # fmt: skip
        for path in (package / room).rglob("*.py"):
            if path.parent != package / "tir" / "transform":
                assert not [m for m in imported(path) if m.startswith("smelt.tir.transform")], path


def imported(path: Path) -> list[str]:
    """The modules that a file imports by their full names."""
    text = path.read_text()
    found: list[str] = []
    for node in ast.walk(ast.parse(text)) if "transform" in text else ():
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [f"{node.module}.{a.name}" for a in node.names]
    return found
