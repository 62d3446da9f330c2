"""Every pass keeps what a program computes; where a form is reached, the pass rests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt.relax.transform.infer_module import infer_types
from smelt.transform import Sequential

from .programs import agree, module, relay

T = relay.transform

PASSES: dict[str, Callable[[], Any]] = {
    "InferType": T.InferType,
    "SimplifyInference": T.SimplifyInference,
    "SimplifyExpr": T.SimplifyExpr,
    "FoldConstant": T.FoldConstant,
    "FoldScaleAxis": lambda: Sequential([T.SimplifyInference(), T.FoldConstant(),
                                         T.FoldScaleAxis(), T.FoldConstant()]),
    "CanonicalizeOps": T.CanonicalizeOps,
    "CanonicalizeCast": T.CanonicalizeCast,
    "DivToMul": T.DivToMul,
    "EliminateCommonSubexpr": T.EliminateCommonSubexpr,
    "FuseOps": lambda: T.FuseOps(3),
    "FuseOps0": lambda: T.FuseOps(0),
    "FuseDefuse": lambda: Sequential([T.FuseOps(2), T.DefuseOps()]),
    "ToANormalForm": T.ToANormalForm,
    "ToBasicBlockNormalForm": T.ToBasicBlockNormalForm,
    "ThereAndBack": lambda: Sequential([T.ToANormalForm(), T.ToGraphNormalForm()]),
    "LambdaLift": T.LambdaLift,
    "Inline": T.Inline,
    "DeadCodeElimination": lambda: Sequential([T.ToANormalForm(), T.DeadCodeElimination(True)]),
    "PartialEvaluate": T.PartialEvaluate,
    "CombineParallelConv2D": lambda: T.CombineParallelConv2D(2),
    "CombineParallelDense": lambda: T.CombineParallelDense(2),
    "CombineParallelDenseRows": lambda: T.CombineParallelDense(2, to_batch=False),
    "ConvertLayout": lambda: T.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}),
    "AlterOpLayout": T.AlterOpLayout,
    "SplitArgs": lambda: T.SplitArgs(2),
    "DynamicToStatic": T.DynamicToStatic,
    "FoldExplicitPadding": T.FoldExplicitPadding,
}  # fmt: skip

ROUGH = {"ToMixedPrecision": lambda: T.ToMixedPrecision(missing_op_mode=2)}


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_results_stay(name: str, seed: int) -> None:
    before = module(seed)
    after = PASSES[name]()(before)
    assert relay.analysis.well_formed(after["main"])
    agree(before, after, seed)


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_types_are_those_that_inference_finds(name: str, seed: int) -> None:
    after = PASSES[name]()(module(seed))
    assert infer_types(after) is after


@pytest.mark.parametrize("name", [n for n in PASSES if n not in (
    "FuseDefuse", "ThereAndBack", "FoldScaleAxis", "CanonicalizeCast")])  # fmt: skip
@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_a_second_time_changes_nothing_more(name: str, seed: int) -> None:
    once = PASSES[name]()(module(seed))
    twice = PASSES[name]()(once)
    same = [len(relay.analysis.list_op_freqs(m)) for m in (once, twice)]
    assert same[0] == same[1]
    assert relay.analysis.list_op_freqs(once) == relay.analysis.list_op_freqs(twice)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_narrow_floats_are_close(seed: int) -> None:
    before = module(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = ROUGH["ToMixedPrecision"]()(before)
    agree(before, after, seed, tolerance=2e-2)


@settings(max_examples=4, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_the_classic_order_of_passes_keeps_results(seed: int) -> None:
    before = module(seed)
    after = Sequential([
        T.RemoveUnusedFunctions(), T.ToBasicBlockNormalForm(), T.Legalize(), T.SimplifyInference(),
        T.EliminateCommonSubexpr(), T.CombineParallelConv2D(3), T.CombineParallelDense(3),
        T.CombineParallelBatchMatmul(3), T.FoldConstant(), T.FoldScaleAxis(), T.SimplifyExpr(),
        T.CanonicalizeCast(), T.CanonicalizeOps(), T.FlattenAtrousConv(), T.InferType(),
        T.AlterOpLayout(), T.FoldConstant(), T.SplitArgs(32), T.FuseOps(), T.InferType(),
        T.Inline(), T.InferType(),
    ])  # fmt: skip
    with smelt.transform.PassContext(opt_level=3):
        agree(before, after(before), seed)
