"""Models as C that calls CMSIS-NN, compiled with portable code in its place.

Results are this machine's, number for number; of single operators they are TFLite's own.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import smelt
from smelt import relay
from smelt.cli.commands import app
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError, TargetError
from smelt.ir.module import IRModule
from smelt.micro import BOARDS, CSource, compile_c, open_board, with_cmsis_nn
from smelt.micro.cmsis_nn import COMPILER, FOLDER, partition
from smelt.relax.nodes import Function
from smelt.relay.op.contrib import cmsisnn
from tests.byoc import support
from tests.tflite.build import Oracle, Spec, Step, const, model
from tests.tflite.cases import CASES

from .test_boards import need
from .test_c import OPTIONS, TINY, WARNINGS, compiled, numbers, run

INT8 = ("ad_int8", "ic_int8", "kws_int8", "vww_int8", "sww_int8")
CALLS = {
    "conv_2d": "arm_convolve_wrapper_s8|arm_depthwise_conv_wrapper_s8",
    "depthwise_conv_2d": "arm_depthwise_conv_wrapper_s8|arm_convolve_wrapper_s8",
    "fully_connected": "arm_fully_connected_s8",
    "average_pool_2d": "arm_avgpool_s8",
    "max_pool_2d": "arm_max_pool_s8",
    "add": "arm_elementwise_add_s8",
    "mul": "arm_elementwise_mul_s8",
    "softmax": "arm_softmax_s8",
}
"""TFLite's operators, and what the library calls them."""


def parts(mod: IRModule) -> list[Function]:
    return [f for f in mod.functions.values()
            if isinstance(f, Function) and f.attrs.get("Compiler") == COMPILER]  # fmt: skip


def library(made: CSource, folder: Path) -> Path:
    """A model and the portable code, compiled together."""
    made.save(folder / "net.c")
    command = ["gcc", *WARNINGS, "-O1", "-shared", "-fPIC", "-fsanitize=undefined",
               "-fno-sanitize-recover", f"-I{FOLDER}", "net.c", f"{FOLDER}/portable_nn.c",
               "-o", "net.so", "-lm"]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / "net.so"


@pytest.mark.parametrize(("name", "face"), [*[(n, "graph") for n in INT8], ("kws_int8", "relay")])
def test_trained_models(name: str, face: str, tmp_path: Path) -> None:
    """Nothing of them is left to smelt, and bytes are equal."""
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    if face == "relay":
        cut = cmsisnn.partition_for_cmsisnn(*relay.frontend.from_tflite(str(path)))
    else:
        cut = partition(import_model(str(path)))
    made = compile_c(cut, options=OPTIONS)
    assert len(made.kernels) == len(parts(cut)) > 9
    assert all("cmsis_nn" in k for k in made.kernels)
    exe, code = smelt.compile(str(path), options=OPTIONS), library(made, tmp_path)
    for seed in range(2):
        given = numbers(exe, seed)
        wanted = exe(*given).numpy()
        found = [np.full_like(wanted, 77)]
        assert run(made, code, given, found) == 0
        np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize("name", CALLS)
def test_operators_are_tflites(name: str) -> None:
    """Random shapes, borders, scales and activations; here in libraries of this machine."""
    taken = 0
    for seed in range(14):
        case = CASES[f"{name}.int8"](np.random.default_rng(seed))
        cut = partition(import_model(case.model))
        if not parts(cut):
            continue
        taken += 1
        assert re.search(rf"\b({CALLS[name]})\(", compile_c(cut, options=OPTIONS).source)
        wanted = Oracle(case.model, case.reference)(*case.inputs)[0]
        found = smelt.compile(cut, options=OPTIONS)(*case.inputs).numpy()
        np.testing.assert_array_equal(found, wanted, f"{name}, seed {seed}")
    assert taken > 3


IMAGE = (1, 6, 5, 4)


def mixed() -> bytes:
    """An operator that the library lacks, on images that it makes and takes."""
    r, image = np.random.default_rng(0), IMAGE
    tensors = [
        Spec(image, "int8", 0.1, 3), const(r.integers(-90, 90, (4, 1, 1, 4)), "int8", scale=0.02),
        Spec(image, "int8", 0.2, -5), Spec(image, "int8", 1 / 256, -128),
        Spec(image, "int8", 0.1, 0), const(r.integers(-90, 90, 4), "int32", scale=0.002),
    ]  # fmt: skip
    place = {"Padding": 1, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    steps = [
        Step("CONV_2D", [0, 1, 5], [2], place, "Conv2DOptions", version=3),
        Step("LOGISTIC", [2], [3], version=2),
        Step("ADD", [3, 3], [4], {}, "AddOptions", version=2),
    ]
    return model(tensors, steps, [0], [4])


def test_what_smelt_keeps_stands_between_parts(tmp_path: Path) -> None:
    content = mixed()
    cut = partition(import_model(content), "one", "cortex-m7")
    assert len(parts(cut)) == 2
    assert all(f.attrs["global_symbol"].startswith("tvmgen_one_cmsis_nn_main_") for f in parts(cut))
    made = compile_c(cut, options=OPTIONS)
    assert len(made.kernels) == 3
    given = np.random.default_rng(2).integers(-128, 128, IMAGE).astype("int8")
    found = [np.zeros(IMAGE, "int8")]
    assert run(made, library(made, tmp_path), [given], found) == 0
    np.testing.assert_array_equal(found[0], Oracle(content)(given)[0])


def test_on_an_emulated_board(tmp_path: Path) -> None:
    """With 32-bit addresses and another compiler."""
    content, board = mixed(), BOARDS["mps2-an386"]
    need(board)
    made = compile_c(content, f"cmsis-nn,{board.target}", options=OPTIONS)
    given = np.random.default_rng(3).integers(-128, 128, IMAGE).astype("int8")
    more = [f"-I{FOLDER}", str(FOLDER / "portable_nn.c")]
    with open_board(made, board, folder=tmp_path, flags=more) as session:
        (found,) = session.run(given)
        assert session.instructions is not None
        assert session.instructions > 1000
    np.testing.assert_array_equal(found, Oracle(content)(given)[0])


def test_the_classic_build() -> None:
    """A partitioned module through relay.build, as programs for microcontrollers were made."""
    mod = cmsisnn.partition_for_cmsisnn(import_model(mixed()), {}, mod_name="mine")
    lib = relay.build(
        mod, target="c -mcpu=cortex-m55", executor=relay.backend.Executor("aot"),
        runtime=relay.backend.Runtime("crt"),
    )  # fmt: skip
    text = lib.get_source("c")  # type: ignore[union-attr]
    assert text.count("arm_convolve_wrapper_s8(") == text.count("arm_elementwise_add_s8(") == 1
    assert "= tvmgen_mine_cmsis_nn_main_0(inputs->" in text


def test_memory_that_calls_work_in() -> None:
    """It depends on the processor, and stands in the workspace."""
    r = np.random.default_rng(1)
    w = const(r.integers(-90, 90, (1, 5, 5, 8)), "int8", scale=0.02)
    tensors = [Spec((1, 9, 9, 8), "int8", 0.1), w, Spec((1, 9, 9, 8), "int8", 0.2)]
    place = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1,
             "DepthMultiplier": 1}  # fmt: skip
    steps = [Step("DEPTHWISE_CONV_2D", [0, 1, -1], [2], place, "DepthwiseConv2DOptions", version=3)]
    content = model(tensors, steps, [0], [2])
    sizes = {cpu: compile_c(partition(import_model(content), mcpu=cpu), options=OPTIONS)
             for cpu in ("", "cortex-m55", "cortex-m4", "cortex-m0")}  # fmt: skip
    helium = 4 * 124 * 25
    assert [s.workspace_bytes for s in sizes.values()] == [helium, helium, 2 * 25 * 8, 0]
    assert f"context = {{workspace, {helium}}}" in sizes[""].source
    assert "context = {0, 0}" in sizes["cortex-m0"].source
    assert sizes["cortex-m4"].memory.steps[0].live == 2 * 25 * 8


def test_what_stays() -> None:
    """Products that are rounded otherwise, and floats."""
    x = relay.var("x", shape=(1, 8), dtype="float32")
    mod = IRModule.from_expr(relay.nn.relu(x))
    assert not parts(cmsisnn.partition_for_cmsisnn(mod))
    case = CASES["conv_2d.uint8"](np.random.default_rng(0))
    assert not parts(partition(import_model(case.model)))


def test_targets(tmp_path: Path) -> None:
    case = CASES["fully_connected.int8"](np.random.default_rng(3))
    made = compile_c(case.model, "cmsis-nn, c -mcpu=cortex-m55", name="my", options=OPTIONS)
    assert "tvmgen_my_cmsis_nn_main_0" in made.kernels
    assert "{(void *)const1, " in made.source or "{(void *)bias, " in made.source
    (tmp_path / "m.tflite").write_bytes(case.model)
    given = ["compile", str(tmp_path / "m.tflite"), "--target", "cmsis-nn,c -mcpu=cortex-m4"]
    done = CliRunner().invoke(app, [*given, "-o", str(tmp_path / "m.c")])
    assert (done.exit_code, "C for cortex-m4" in done.output) == (0, True)
    assert "arm_fully_connected_s8(" in (tmp_path / "m.c").read_text()
    with pytest.raises(TargetError, match=r"llvm.* makes no C; legal"):
        compile_c(case.model, "cmsis-nn,llvm")


def test_what_is_refused() -> None:
    with pytest.raises(CompileError, match="mcpu is 'cortex-a7'; legal: cortex-m52"):
        partition(IRModule({}), mcpu="cortex-a7")
    with pytest.raises(CompileError, match="there is no option 'cpu'; legal: mcpu"):
        cmsisnn.partition_for_cmsisnn(IRModule({}), cpu="cortex-m4")
    with pytest.raises(CompileError, match="is no operator that CMSIS-NN computes in one call"):
        smelt.compile(support.affine(name=COMPILER), options=OPTIONS)


def registered(made: Any) -> None:
    smelt.byoc.register_codegen(support.NAME)(lambda func, symbol, module: made)


def test_other_back_ends_give_c(tmp_path: Path) -> None:
    """With memory of the workspace, which nobody else uses meanwhile."""
    text = support.affine_c(support.SYMBOL).replace("float* out)", "float* out, void *w)")
    text = text.replace("{", "{ for (int k = 0; k < 40; ++k) ((char *)w)[k] = 1;", 1)
    mod, x = support.affine(), np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)
    with support.registered():
        registered(smelt.byoc.CSource(text, workspace=40))
        made, here = compile_c(mod, options=OPTIONS), smelt.compile(mod, options=OPTIONS)
    found = [np.zeros((3, 4), "f4")]
    assert made.kernels[1] == support.SYMBOL
    assert run(made, compiled(made, tmp_path), [x], found) == 0
    support.close(found[0], support.expected(mod, x)[0])
    support.close(here(x).numpy(), support.expected(mod, x)[0])


def test_back_ends_without_c_are_refused() -> None:
    with support.registered():
        registered(smelt.byoc.Json("{}"))
        with pytest.raises(CompileError, match=r"'mine'.* is Json, which Python code runs"):
            compile_c(support.affine(), options=OPTIONS)
        registered(smelt.byoc.CSource(support.affine_c(support.SYMBOL), workspace=-1))
        with pytest.raises(CompileError, match="workspace is -1; legal: bytes, 0 or more"):
            compile_c(support.affine(), options=OPTIONS)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_relays_own_words(layout: str) -> None:
    """Convolutions in both layouts, a bias, a clip; the sums of these are rounded once."""
    r = np.random.default_rng(0)

    def given(value: Any, dtype: str = "float32") -> Any:
        return relay.const(np.array(value, dtype))

    last = layout == "NHWC"
    image, kernel = ((1, 7, 6, 4), (3, 3, 4, 6)) if last else ((1, 4, 7, 6), (6, 4, 3, 3))
    y = relay.qnn.op.conv2d(
        relay.var("x", shape=image, dtype="int8"), given(r.integers(-90, 90, kernel), "int8"),
        given(-3, "int32"), given(0, "int32"), given(0.1), given(0.02), kernel_size=(3, 3),
        channels=6, data_layout=layout, kernel_layout="HWIO" if last else "OIHW",
        padding=(1, 1, 1, 1),
    )  # fmt: skip
    axis = 3 if last else 1
    y = relay.nn.bias_add(y, given(r.integers(-900, 900, 6), "int32"), axis=axis)
    scales = given(r.uniform(0.001, 0.003, 6))
    y = relay.qnn.op.requantize(y, scales, given(0, "int32"), given(0.3), given(4, "int32"),
                                axis=axis, out_dtype="int8")  # fmt: skip
    mod = IRModule.from_expr(relay.clip(y, a_min=-100, a_max=90))
    cut = cmsisnn.partition_for_cmsisnn(mod)
    assert len(parts(cut)) == 1
    assert len(compile_c(cut, options=OPTIONS).kernels) == (1 if last else 3)
    x = r.integers(-128, 128, image).astype("int8")
    found, wanted = [smelt.compile(m, options=OPTIONS)(x).numpy() for m in (cut, mod)]
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert (found != wanted).mean() < 0.02
    assert len(np.unique(found)) > 60


def test_what_is_added_along_the_pixels_stays() -> None:
    r = np.random.default_rng(0)
    image = relay.var("x", shape=(1, 4, 4, 4), dtype="int8")
    w = relay.const(r.integers(-90, 90, (4, 4, 1, 1)).astype("int8"))
    sums = relay.nn.conv2d(image, w, kernel_size=(1, 1), out_dtype="int32")
    one, zero = relay.const(np.float32(1)), relay.const(np.int32(0))
    for shape, taken in (((4, 1, 1), 1), ((4,), 0), ((4, 4, 1), 0)):
        y = relay.add(
            relay.add(sums, relay.const(np.int32(5))),
            relay.const(r.integers(-90, 90, shape).astype("int32")),
        )
        y = relay.qnn.op.requantize(y, relay.const(np.float32(0.01)), zero, one, zero,
                                    out_dtype="int8")  # fmt: skip
        assert len(parts(partition(IRModule.from_expr(y)))) == taken, shape


@pytest.mark.parametrize("target", ["c,cmsis-nn", "cmsis-nn", "cmsis_nn,c -mcpu=cortex-m4"])
def test_targets_that_name_the_library_otherwise(target: str) -> None:
    with pytest.raises(TargetError, match=r': legal: "cmsis-nn,c", "cmsis-nn,c -mcpu=cortex-m55"$'):
        with_cmsis_nn(target)
