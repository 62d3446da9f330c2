"""Passes that have no place here, each with what stands for it."""

from __future__ import annotations

from collections.abc import Mapping

ABSENT: Mapping[str, str] = {
    "AnnotateSpans": "calls have names instead of spans; text errors show the line",
    "CapturePostDfsIndexInSpans": "calls have names instead of spans; "
    "relay.analysis.post_order_visit gives the order",
    "CollagePartition": "MergeComposite, AnnotateTarget, MergeCompilerRegions and PartitionGraph "
    "split a program by patterns",
    "Conv2dToSparse": "weights stay dense; relay.nn.sparse_conv2d is written by hand",
    "Conv2dToSparse2": "weights stay dense; relay.nn.sparse_conv2d is written by hand",
    "Defunctionalization": "closures are called by the virtual machine; LambdaLift and "
    "PartialEvaluate take them away where they are known",
    "DenseToSparse": "weights stay dense; relay.nn.sparse_dense is written by hand",
    "FlexibleShapeDispatch": "one build serves all sizes: declare them with relay.Any()",
    "LazyGradientInit": "derivatives are plain programs; FoldConstant and SimplifyExpr take zeros "
    "away",
    "ManifestLifetimes": "relay.build plans memory when it has fused the operators",
    "PlanDevices": "a program runs on one device, the target's",
    "ToCPS": "programs run on a virtual machine with a stack; ToANormalForm gives every value a "
    "name, which is what other passes want",
    "build_config": "PassContext says how to build",
    "flexible_shape": "one build serves all sizes: declare them with relay.Any()",
    "memory_plan": "relay.build plans memory when it has fused the operators",
    "recast": "ToMixedPrecision changes the types that operators compute in",
    "tag_suffixes": "the names of calls stay as they are, and are no part of what a program means",
}
"""Name: what stands for it."""
