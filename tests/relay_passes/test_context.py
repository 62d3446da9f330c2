"""Names, levels, instruments, decorators; what relay.build does under a context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import CompileError, SmeltError, TypeMismatch, Unsupported
from smelt.pipeline import GRAPH, LOWER
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function
from smelt.transform import PassContext, PassTimingInstrument, Sequential, pass_instrument

from .programs import module, op_names, relay
from .test_arithmetic import const, conv, image
from .test_structure import small

T = relay.transform

# The user-facing constructors of the classic stack, and what lies beside them.
NAMES = """
InferType InferTypeLocal FoldScaleAxis BackwardFoldScaleAxis ForwardFoldScaleAxis
RemoveUnusedFunctions SimplifyInference FastMath CanonicalizeOps CanonicalizeCast
DeadCodeElimination LazyGradientInit FoldConstant FoldConstantExpr FuseOps DefuseOps
CombineParallelConv2D CombineParallelDense CombineParallelBatchMatmul BatchingOps AlterOpLayout
ConvertLayout LayoutConfig Legalize MergeComposite MergeCompilerRegions AnnotateTarget
PartitionGraph ToANormalForm ToANormalFormExpr ToBasicBlockNormalForm ToCPS EtaExpand
ToGraphNormalForm EliminateCommonSubexpr PartialEvaluate LambdaLift DynamicToStatic Inline
gradient FirstOrderGradient Defunctionalization ChangeBatch DenseToSparse Conv2dToSparse
Conv2dToSparse2 SimplifyFCTranspose SimplifyExpr PlanDevices ManifestLifetimes FoldExplicitPadding
AnnotateSpans FakeQuantizationToInteger FlattenAtrousConv ToMixedPrecision SplitArgs
OutlineCompilerFunctionsWithExistingGlobalSymbols MarkCompilerFunctionsAsExtern
CapturePostDfsIndexInSpans InlineCompilerFunctionsBoundTo CollagePartition DivToMul memory_plan
flexible_shape FlexibleShapeDispatch recast tag_suffixes function_pass module_pass build_config
"""

CLASSIC = NAMES.split()

ELSEWHERE = {"FakeQuantizationToInteger"}
"""Passes that other rooms bring."""


@pytest.mark.parametrize("name", [n for n in CLASSIC if n not in ELSEWHERE])
def test_every_classic_name_is_a_pass_or_says_what_replaces_it(name: str) -> None:
    if name not in T.ABSENT:
        assert callable(getattr(T, name))
        return
    with pytest.raises(Unsupported) as caught:
        getattr(T, name)
    assert str(caught.value) == f"relay.transform.{name} has no place here: {T.ABSENT[name]}"
    assert not hasattr(T, name)


def test_an_unknown_pass_names_the_nearest() -> None:
    with pytest.raises(Unsupported, match="no pass 'FuseOp'; nearest: FuseOps, DefuseOps"):
        _ = T.FuseOp
    with pytest.raises(AttributeError, match="no attribute 'gradien'"):
        _ = T.gradien


def test_levels_are_the_classic_ones() -> None:
    for level, names in {
        0: ["SimplifyInference", "FuseOps", "SimplifyExpr", "InferType"],
        1: ["Legalize"],
        2: ["FoldConstant"],
        3: ["AlterOpLayout", "FoldScaleAxis", "CanonicalizeOps", "EliminateCommonSubexpr"],
        4: ["CombineParallelConv2D", "CombineParallelDense", "FastMath"],
    }.items():
        assert {T.LEVELS[n] for n in names} == {level}
    assert T.FoldConstant().info.opt_level == 2
    assert T.FoldConstant().info.name == "FoldConstant"


def test_a_sequence_honours_the_context() -> None:
    x = image()
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.bias_add(conv(x), const(4))))
    steps = Sequential([T.InferType(), T.CanonicalizeOps()])
    with PassContext(opt_level=2):
        assert "add" not in op_names(steps(mod))
    with PassContext(opt_level=3):
        assert "add" in op_names(steps(mod))
    with PassContext(opt_level=0, required_pass=["CanonicalizeOps"]):
        assert "add" in op_names(steps(mod))
    with PassContext(opt_level=3, disabled_pass=["CanonicalizeOps"]):
        assert "add" not in op_names(steps(mod))


def test_instruments_see_relay_modules(tmp_path: Path, capsys: Any) -> None:
    seen: list[str] = []

    @pass_instrument
    class Watch:
        def should_run(self, mod: Any, info: Any) -> bool:
            return bool(info.name != "FoldConstant")

        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(f"before {info.name}")

        def run_after_pass(self, mod: Any, info: Any) -> None:
            seen.append(f"after {info.name}: {'nn.batch_norm' in str(mod)}")

    x = image()
    y = relay.nn.batch_norm(x, const(4), const(4), const(4), const(4, low=0.5))[0]
    mod = smelt.IRModule.from_expr(relay.Function([x], y))
    steps = Sequential([T.InferType(), T.SimplifyInference(), T.FoldConstant()])
    timing = PassTimingInstrument()
    tools = [Watch(), timing, smelt.transform.PrintAfterAll(), smelt.transform.DumpIR(tmp_path)]
    with PassContext(opt_level=3, instruments=tools):
        steps(mod)
        text = timing.render()
    assert seen == [
        "before sequential", "before InferType", "after InferType: True",
        "before SimplifyInference", "after SimplifyInference: False", "after sequential: False",
    ]  # fmt: skip
    assert "SimplifyInference" in text
    assert "FoldConstant" not in text
    printed = capsys.readouterr().out
    assert "nn.batch_norm(%x, meta[relay.Constant][0]" in printed
    dumped = sorted(f.name for f in tmp_path.iterdir())
    assert dumped == ["000_InferType.py", "001_SimplifyInference.py", "002_sequential.py"]
    assert (
        "rsqrt" in (tmp_path / dumped[1]).read_text()
        or "sqrt" in (tmp_path / dumped[1]).read_text()
    )


def test_passes_of_users() -> None:
    def twice(func: Any, mod: Any, context: Any) -> Any:
        assert func in mod.functions.values()
        assert isinstance(context, PassContext)
        return relay.Function(func.params, func.body + func.body)

    doubled = T.function_pass(opt_level=1, name="Twice")(twice)

    @T.function_pass(opt_level=0)
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        def transform_function(self, func: Any, mod: Any, context: Any) -> Any:
            return relay.Function(func.params, func.body * self.by)

    @smelt.transform.module_pass(opt_level=0)
    def count(mod: Any, context: Any) -> Any:
        return smelt.IRModule({**mod.functions, "copy": mod["main"]})

    scaled: Any = Scaled(3.0)
    x = relay.var("x", shape=(2,))
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    made = Sequential([doubled, scaled, count])(mod)
    assert sorted(made) == ["copy", "main"]
    assert doubled.info.name == "Twice"
    np.testing.assert_array_equal(
        interpret(made["main"], np.array([1.0, -1.0], "float32"))[0], [6.0, 0.0]
    )
    with pytest.raises(CompileError, match="gave a int for @main"):
        T.function_pass(lambda f, m, c: 1, opt_level=0)(mod)
    with pytest.raises(CompileError, match="Function is no module"):
        doubled(mod["main"])
    with pytest.raises(TypeMismatch, match="InferType takes an IRModule, not Function"):
        T.InferType()(mod["main"])


def test_required_passes_are_checked() -> None:
    def same(func: Any, mod: Any, context: Any) -> Any:
        return func

    after_types = T.function_pass(same, name="after_types", required=["InferType"])
    with pytest.raises(SmeltError, match="after_types needs InferType before it"):
        Sequential([after_types])(module(1))
    mod = module(1)
    assert Sequential([T.InferType(), after_types])(mod)["main"] is mod["main"]


# -------------------------------------------------------------------------------- relay.build


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_builds_the_same(level: int) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")
    mod = smelt.IRModule.from_expr(small())
    want = interpret(mod["main"], x)[0]
    with PassContext(opt_level=level):
        np.testing.assert_allclose(relay.build(mod).lib(x).numpy(), want, rtol=1e-4)
    with PassContext(opt_level=level, instruments=[PassTimingInstrument()]):
        np.testing.assert_allclose(relay.build(mod).lib(x).numpy(), want, rtol=1e-4)


OPTIONAL = [n for s in GRAPH for n in s.names if not s.must]


@pytest.mark.parametrize("name", OPTIONAL)
def test_every_pass_may_be_off(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")
    mod = smelt.IRModule.from_expr(small())
    with PassContext(opt_level=3, disabled_pass=[name]):
        got = relay.build(mod).lib(x).numpy()
    np.testing.assert_allclose(got, interpret(mod["main"], x)[0], rtol=1e-4)


def test_passes_on_demand() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")
    mod = smelt.IRModule.from_expr(small())
    seen: list[str] = []

    @pass_instrument
    class Names:
        def run_after_pass(self, mod: Any, info: Any) -> None:
            seen.append(info.name)

    wanted = ["FastMath", "AlterOpLayout"]
    with PassContext(opt_level=3, required_pass=wanted, instruments=[Names()]):
        got = relay.build(mod).lib(x).numpy()
    np.testing.assert_allclose(got, interpret(mod["main"], x)[0], rtol=1e-3)
    assert seen[:3] == ["InferType", *wanted]
    assert seen[3 : 3 + len(GRAPH)] == [s.name for s in GRAPH]
    assert set(seen[3 + len(GRAPH) :]) == {s.name for s in LOWER}, "kernels are watched too"


def test_programs_with_names_and_closures_are_built() -> None:
    x = relay.var("x", shape=(2, 8))
    v, p = relay.var("v", shape=(2, 8)), relay.var("p", shape=(2, 8))
    f = Function((p,), relay.tanh(p))
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.Let(v, relay.Call(f, [x]), v * v + x)))
    data = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")
    want = interpret(mod["main"], data)[0]
    for context in (PassContext(opt_level=3), PassContext(disabled_pass=["FoldConstant"])):
        with context:
            np.testing.assert_allclose(relay.build(mod).lib(data).numpy(), want, rtol=1e-4)


def test_names_in_the_context_are_checked() -> None:
    mod = smelt.IRModule.from_expr(small())
    with (
        PassContext(disabled_pass=["FuseOp"]),
        pytest.raises(Unsupported, match=r"relay\.build has no pass 'FuseOp'; nearest: FuseOps"),
    ):
        relay.build(mod)
    with (
        PassContext(required_pass=["ConvertLayout"]),
        pytest.raises(Unsupported, match="does not run ConvertLayout by itself"),
    ):
        relay.build(mod)
