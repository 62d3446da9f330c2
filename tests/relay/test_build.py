"""relay.build: what it gives, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.contrib import graph_executor
from smelt.ir.errors import (
    CompileError,
    ImportFailure,
    SmeltError,
    TargetError,
    TypeMismatch,
    Unsupported,
)
from smelt.pipeline import GRAPH, LOWER, VM
from smelt.relax.interpret import interpret
from smelt.runtime import cpu
from smelt.target import Target
from smelt.transform import PassContext, Sequential

from .support import close, says, small

X = np.ones((1, 2, 4, 4), "float32")


def run(lib: Any) -> Any:
    m = graph_executor.GraphModule(lib["default"](cpu(0)))
    m.run(x=X)
    return m.get_output(0).numpy()


@pytest.mark.parametrize(
    ("level", "kernels"),
    [(0, ["conv2d", "batch_norm", "relu"]), (1, ["fused_conv2d_batch_norm_relu", "copy"]),
     (3, ["fused_conv2d_add_relu", "copy"])],
)  # fmt: skip
def test_conv_norm_relu_becomes_one_kernel(level: int, kernels: list[str]) -> None:
    """And the copy that makes its result row-major, where no kernel of its own writes that."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 4, 28, 28))
    w = relay.const(rng.standard_normal((8, 4, 3, 3)).astype("float32"))
    norm = [relay.const(rng.uniform(0.5, 1, 8).astype("float32")) for _ in range(4)]
    y = relay.nn.relu(relay.nn.batch_norm(relay.nn.conv2d(x, w, padding=1), *norm)[0])
    mod = relay.IRModule.from_expr(relay.Function([x], y))
    with PassContext(opt_level=level):
        lib = relay.build(mod)
    assert [*lib.function_metadata] == kernels
    image = rng.standard_normal((1, 4, 28, 28)).astype("float32")
    close(lib.lib(image), interpret(mod["main"], image)[0])


def test_the_graph_is_told_as_json() -> None:
    lib = relay.build(small())
    graph = json.loads(lib.get_graph_json())
    nodes = graph["nodes"]
    assert [n["name"] for n in nodes] == ["x", "p0", "p1", *lib.function_metadata]
    assert graph["arg_nodes"] == [0, 1, 2]
    # the convolution, which writes channels last, and the copy that makes the result row-major
    assert nodes[3]["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert nodes[4]["inputs"] == [[3, 0, 0]]
    assert nodes[4]["attrs"]["func_name"] == lib.lib.metadata["kernels"][-1]["name"] == "copy"
    assert graph["heads"] == [[4, 0, 0]]
    image = [1, 3, 4, 4]
    assert graph["attrs"]["shape"][1] == [[1, 2, 4, 4], [3, 2, 3, 3], [3, 1, 1], image, image]
    assert graph["attrs"]["storage_id"][1] == [0, 1, 2, 3, 4]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    params = lib.get_params()
    assert {n: p.shape for n, p in params.items()} == {"p0": (3, 2, 3, 3), "p1": (3, 1, 1)}
    shown, module, again = lib
    assert json.loads(shown) == graph
    assert module is lib.get_lib() is lib.lib
    assert again.keys() == params.keys()


def test_a_module_may_have_a_name(tmp_path: Path) -> None:
    lib = relay.build(small(), mod_name="net")
    assert lib["net"](cpu(0)) is lib["default"](cpu(0))
    with pytest.raises(SmeltError) as caught:
        lib["nett"]
    says(caught, "net: no function 'nett'; functions: default, net")


def test_the_target_of_the_block_counts() -> None:
    with Target("llvm -mcpu=x86-64-v2"):
        lib = relay.build(small())
    assert lib.target == Target("llvm -mcpu=x86-64-v2")
    assert Target.current() is None
    assert relay.build(small(), target={"cpu": "llvm"}).target == Target("llvm")


def test_options_come_with_the_context() -> None:
    with PassContext(config={"smelt.threads": 1}) as context:
        assert PassContext.current() is context
        assert context.options.threads == 1
        assert context.options.opt_level == 2
        lib = relay.build(small())
    assert lib.lib.threads == 1
    assert PassContext.current().opt_level == 3


def test_instruments_see_the_passes() -> None:
    class Watch:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def enter_pass_ctx(self) -> None:
            self.seen.append("enter")

        def run_before_pass(self, mod: Any, info: Any) -> None:
            self.seen.append(info.name)

        def exit_pass_ctx(self) -> None:
            self.seen.append("exit")

    watch = Watch()
    with PassContext(opt_level=3, instruments=[watch]):
        made = run(relay.build(small()))
    graph = [s.name for s in GRAPH]
    assert watch.seen[: len(graph) + 1] == ["enter", *graph]
    assert set(watch.seen[len(graph) + 1 : -1]) == {s.name for s in LOWER}, "those of kernels too"
    assert watch.seen[-1] == "exit"
    close(made, run(relay.build(small())))


def test_a_sequence_follows_the_context() -> None:
    passes = Sequential([relay.transform.FoldConstant(), relay.transform.FuseOps(2)])
    with PassContext(opt_level=3, disabled_pass=["FuseOps"]):
        assert "Primitive" not in str(passes(small())["main"])
    with PassContext(opt_level=3):
        assert "Primitive" in str(passes(small())["main"])


@pytest.mark.parametrize(
    "made",
    [
        relay.transform.InferType,
        relay.transform.FoldConstant,
        relay.transform.SimplifyInference,
        relay.transform.FoldScaleAxis,
        relay.transform.SimplifyExpr,
        relay.transform.CanonicalizeOps,
        relay.transform.EliminateCommonSubexpr,
        relay.transform.DeadCodeElimination,
        relay.transform.RemoveUnusedFunctions,
    ],
)
def test_a_pass_gives_a_relay_module(made: Callable[[], Any]) -> None:
    mod = made()(small())
    assert isinstance(mod, relay.IRModule)
    assert "nn.conv2d" in str(mod["main"])


def test_required_passes_run_at_any_level() -> None:
    with PassContext(opt_level=0, required_pass=["FoldScaleAxis"]):
        lib = relay.build(small())
    close(run(lib), run(relay.build(small())))


ROWS = [n for s in (*GRAPH, *VM, *LOWER) for n in (*s.names, *s.also)]
PASSES = ", ".join(dict.fromkeys([*ROWS, *relay.transform.LEVELS]))


def build_disabled() -> Any:
    with PassContext(disabled_pass=["FuseOp"]):
        return relay.build(small())


ERRORS: list[tuple[Callable[[], Any], type[SmeltError], str]] = [
    (
        lambda: relay.build(small(), target="cuda"),
        CompileError,
        "target kind 'cuda' cannot be compiled yet; today: llvm, e.g. \"llvm -mcpu=native\"",
    ),
    (
        lambda: relay.build(small(), target=["llvm", "llvm"]),
        CompileError,
        "relay.build: 2 targets given; a model is compiled for one today",
    ),
    (
        lambda: relay.build(small(), target="llvm -mpcu=native"),
        TargetError,
        "target kind 'llvm' has no option 'mpcu'; nearest: mfpu, mcpu; options: "
        + ", ".join(Target("llvm").kind.options),
    ),
    (
        lambda: relay.build(
            small(), executor=relay.backend.Executor("aot", {"unpacked-api": True})
        ),
        CompileError,
        "relay.build: Executor('aot') with unpacked-api=True, interface-api='packed' does not fit "
        "Runtime('cpp')\n  legal: unpacked-api=False with interface-api='packed'",
    ),
    (
        lambda: relay.build(small(), runtime="crt"),
        CompileError,
        "relay.build: Runtime('crt') runs C, and the target makes llvm code; legal: a target "
        "such as \"c -mcpu=cortex-m4\", or Runtime('cpp')",
    ),
    (
        lambda: relay.backend.Executor("graph", {"link-param": True}),
        CompileError,
        "Executor('graph') has no option 'link-param'; nearest: link-params; options: link-params",
    ),
    (lambda: relay.backend.Runtime("c++"), CompileError, "Runtime: no 'c++'; there are: cpp, crt"),
    (
        lambda: relay.build(small(), workspace_memory_pools=object()),
        CompileError,
        "relay.build: a object is given as memory pools; legal: WorkspaceMemoryPools([...]) "
        "or ConstantMemoryPools",
    ),
    (
        lambda: relay.build("model.onnx"),
        TypeMismatch,
        "relay.build: ir_mod is a str; give an IRModule, e.g. from relay.frontend.from_onnx",
    ),
    (
        lambda: relay.build(relay.IRModule({"f": small()["main"]})),
        CompileError,
        'relay.build: the module has no function "main"; it has: f',
    ),
    (
        lambda: relay.build(small(), params={"X": X}),
        TypeMismatch,
        "params: \"main\" has no parameter 'X'; nearest: x; parameters: x",
    ),
    (
        lambda: relay.build(small(), params={"x": X.astype("float64")}),
        TypeMismatch,
        "params['x'] is float64[1, 2, 4, 4]; the parameter is Tensor[(1, 2, 4, 4), float32]",
    ),
    (
        build_disabled,
        Unsupported,
        "PassContext: relay.build has no pass 'FuseOp'; nearest: FuseOps, DefuseOps; "
        f"passes: {PASSES}",
    ),
    (lambda: PassContext(opt_level=4), CompileError, "Options.opt_level is 4; legal: 0 to 3"),
    (
        lambda: PassContext(config={"smelt.thread": 1}),
        CompileError,
        "PassContext has no config 'smelt.thread'; nearest: smelt.threads, "
        "smelt.workers; configs: ",
    ),
    (
        lambda: PassContext(disabled_pass="FuseOps"),
        CompileError,
        "PassContext: disabled_pass is a list of names, e.g. ['FuseOps']",
    ),
    (
        lambda: relay.transform.ToCPS(),
        Unsupported,
        f"relay.transform.ToCPS has no place here: {relay.transform.ABSENT['ToCPS']}",
    ),
    (
        lambda: relay.transform.FuseOps()(3),
        TypeMismatch,
        "relay.transform.FuseOps takes an IRModule, not int; "
        "IRModule.from_expr(function) makes one",
    ),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS, ids=[t[2][:40] for t in ERRORS])
def test_errors(fn: Callable[[], Any], kind: type[SmeltError], text: str) -> None:
    with pytest.raises(kind) as caught:
        fn()
    found = str(caught.value)
    assert found == text or (text.endswith("configs: ") and found.startswith(text))


def test_a_pass_that_is_absent_is_no_attribute() -> None:
    assert not hasattr(relay.transform, "ToCPS")
    assert hasattr(relay.transform, "FuseOps")


def test_exporting_what_cannot_be_exported(tmp_path: Path) -> None:
    lib = relay.build(small())
    with pytest.raises(SmeltError) as caught:
        lib.export_library("m.zip")
    says(caught, "cannot write m.zip: .zip files cannot be written; "
                 "legal: a shared library, e.g. model.so, or model.tar")  # fmt: skip
    with pytest.raises(SmeltError) as caught:
        lib.export_library(tmp_path / "m.so", addons=["other"])
    says(caught, "export_library: addons cannot be given; a library holds one model")
    with pytest.raises(SmeltError) as caught:
        lib.export_library(tmp_path / "m.so", lambda output, files, options: None)
    assert str(caught.value).endswith("wrote no file library.so")


def test_importing_what_cannot_be_imported(model: Any) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"opset": 11}, "from_onnx: opset=11 given, but the model is of opset 18; "
                        "convert it with onnx.version_converter"),
        ({"dtype": "float16"}, "from_onnx: dtype of input 'input': float16 given, "
                               "float32 in the file"),
        ({"dtype": {"data": "float32"}}, "from_onnx: dtype: the model has no input 'data'; "
                                         "inputs: input"),
    ]  # fmt: skip
    for options, text in cases:
        with pytest.raises(ImportFailure) as caught:
            relay.frontend.from_onnx(model, **options)
        says(caught, text)
    with pytest.raises(Unsupported) as refused:
        relay.frontend.from_onnx(model, convert_config={"use_nt_batch_matmul": True})
    says(refused, "from_onnx: convert_config has no key 'use_nt_batch_matmul'; it has none yet")
