"""Models as C: what they compute, compiled by a C compiler with its warnings as errors."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import smelt
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError, TargetError
from smelt.micro import CSource, compile_c
from smelt.relax.transform.rescale_in_integers import as_on_boards
from smelt.runtime import ExportError
from tests.models import control_nets, conv_nets
from tests.models.net import Net, floats

WARNINGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror")
OPTIONS = smelt.Options(threads=1, cache_dir="")
TINY = Path(os.environ.get("SMELT_MODELS", "build/models"))
TRAINED = ("ad_int8", "ic_int8", "kws_int8", "vww_int8", "sww_int8", "kws_f32", "ad_f32", "ic_f32")
Array = np.ndarray[Any, Any]


def compiled(model: CSource, folder: Path, *flags: str) -> Path:
    """A library of a model's C."""
    model.save(folder / "net.c")
    command = ["gcc", *WARNINGS, "-O1", "-shared", "-fPIC", *flags, "net.c", "-o", "net.so", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / "net.so"


def run(model: CSource, library: Path, inputs: Sequence[Array], outputs: Sequence[Array]) -> int:
    """Run it once; results are written into `outputs`. The workspace is checked at its ends."""
    guard = 64
    space = np.full(model.workspace_bytes + 2 * guard, 0xA5, np.uint8)
    start = guard + -(space.ctypes.data + guard) % 8
    run_it = getattr(ctypes.CDLL(str(library)), f"{model.name}_run")
    tables = [(ctypes.c_void_p * max(1, len(a)))(*[x.ctypes.data for x in a])
              for a in (inputs, outputs)]  # fmt: skip
    status = int(run_it(*tables, ctypes.c_void_p(space.ctypes.data + start)))
    assert (space[:start] == 0xA5).all()
    assert (space[start + model.workspace_bytes :] == 0xA5).all()
    return status


def agrees(
    model: Any, given: Sequence[Array], folder: Path, exact: bool = False, stream: bool = True
) -> CSource:
    """Compare what the C computes with the executable of this machine."""
    made = compile_c(model, stream=stream, options=OPTIONS)
    exe = smelt.compile(model, options=OPTIONS)
    wanted = exe(*given)
    several = [w.numpy() for w in (wanted if isinstance(wanted, smelt.Results) else [wanted])]
    found = [np.full_like(w, 77) for w in several]
    assert run(made, compiled(made, folder), given, found) == 0
    for a, b in zip(found, several, strict=True):
        if exact or a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return made


def numbers(exe: Any, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    found = []
    for i in exe.inputs:
        kind = np.dtype(i.dtype)
        whole = kind.kind in "iu"
        value = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, i.shape) if whole else None
        found.append((rng.standard_normal(i.shape) if value is None else value).astype(kind))
    return found


@pytest.mark.parametrize("name", ["dscnn", "mlp"])
def test_networks(name: str, tmp_path: Path) -> None:
    model = getattr(conv_nets, name)(1)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    made = agrees(model, [floats("x", *shape)["x"]], tmp_path)
    assert "malloc" not in made.source
    assert "stdlib" not in made.source


@pytest.mark.parametrize("name", TRAINED)
def test_trained_models(name: str, tmp_path: Path) -> None:
    """Bytes are equal, bit for bit."""
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    exe = smelt.compile(str(path), options=OPTIONS)
    for seed in range(2):
        agrees(str(path), numbers(exe, seed), tmp_path, exact=name.endswith("int8"))


MODELS = {
    "softmax": "net (float[3, 7] x) => (float[3, 7] y) { y = Softmax(x) }",
    "several": "net (float[2, 3] x, float[3, 4] w) => (float[2, 4] y, float[2, 3] z) "
               "{ y = MatMul(x, w) z = Relu(x) }",
    "whole": "net (int64[4] x, int32[4] z) => (int64[4] y, int32[4] v) "
             "{ y = Mul(x, x) v = Neg(z) }",
    "given": "net (float[4] x) => (float[4] y) { y = Identity(x) }",
    "wide": "net (double[3, 3] x) => (double[3] y) { y = ReduceSum<keepdims = 0>(x, axis) }"
            .replace("=> (double[3] y)", "=> (double[3] y) <int64[1] axis = {1}>"),
    "strided": "net (float[1, 3, 9, 9] x) => (float[1, 3, 4, 4] y) "
               "{ y = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(x) }",
    "norm": "net (float[2, 16] x) => (float[2, 16] y) <float[16] s = {" + ", ".join(["0.5"] * 16)
            + "}> { y = LayerNormalization(x, s) }",
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_operators(name: str, tmp_path: Path) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> {MODELS[name]}'
    model = onnx.parser.parse_model(text)
    exe = smelt.compile(model, options=OPTIONS)
    given = [(x % 1000 if x.dtype.kind == "i" else x) for x in numbers(exe)]
    agrees(model, given, tmp_path)


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs"),
    [
        ("y = ArgMax <axis = 1> (x) z = Hardmax (x)", "float[3, 5] x",
         "int64[3, 1] y, float[3, 5] z"),
        ("y = ReduceMean (x) z = ReduceLogSumExp (x)", "float[4, 50] x",
         "float[1, 1] y, float[1, 1] z"),
        ("y = Div (x, b) z = Mod (x, b)", "int8[40] x, int8[40] b", "int8[40] y, int8[40] z"),
        ("y = Div (x, b) z = BitShift <direction = \"LEFT\"> (x, b)", "uint8[9] x, uint8[9] b",
         "uint8[9] y, uint8[9] z"),
        ("y = Cast <to = 10> (x) z = Cast <to = 1> (x)", "int64[9] x", "float16[9] y, float[9] z"),
        ("y = Cast <to = 3> (x) z = Cast <to = 13> (x)", "float[9] x", "int8[9] y, uint64[9] z"),
        ("y = Cast <to = 6> (x) z = Cast <to = 2> (x)", "float16[9] x", "int32[9] y, uint8[9] z"),
    ],
)  # fmt: skip
def test_no_warning_of_optimizers(nodes: str, inputs: str, outputs: str, tmp_path: Path) -> None:
    text = f'<ir_version: 8, opset_import: ["": 17]> net ({inputs}) => ({outputs}) {{ {nodes} }}'
    made = compile_c(onnx.parser.parse_model(text), name="net", options=OPTIONS)
    for level in ("-O0", "-O3"):
        compiled(made, tmp_path, level)


def test_a_sum_takes_the_place_of_its_shortcut(tmp_path: Path) -> None:
    """Two images are alive where without that three would be."""
    net = Net()
    x = net.op("Relu", net.conv_norm(net.input("x", [1, 4, 12, 12]), (4, 8), 3, 1))
    for _ in range(2):
        inner = net.op("Relu", net.conv_norm(x, (8, 8), 3, 1))
        x = net.op("Relu", net.op("Add", net.conv_norm(inner, (8, 8), 3, 1), x))
    model = net.model(net.op("Softmax", net.head(x, 8, 5)))
    made = agrees(model, [floats("x", 1, 4, 12, 12)["x"]], tmp_path, stream=False)
    image = 8 * 12 * 12 * 4
    assert 2 * image <= made.workspace_bytes < 3 * image
    assert re.search(r"const float \*p\d, .*float \*\w+\) {", made.source)


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    """As a program, which reads its input and writes its result."""
    model = conv_nets.dscnn(1)
    made = compile_c(model, options=OPTIONS)
    made.save(tmp_path / "net.c")
    upper = made.name.upper()
    field = re.findall(r"const float \*(\w+);", made.header)
    result = re.findall(r"^    float \*(\w+);", made.header, re.MULTILINE)
    (tmp_path / "main.c").write_text(f"""
#include "net.h"
#include <stdio.h>
static float x[490], y[12];
static union {{ uint8_t bytes[{upper}_WORKSPACE_BYTES]; int64_t wide; }} space;
int main(void) {{
    const struct {made.name}_inputs inputs = {{.{field[0]} = x}};
    const struct {made.name}_outputs outputs = {{.{result[0]} = y}};
    if (fread(x, 4, 490, stdin) != 490) return 2;
    if ({made.name}_run(&inputs, &outputs, &space) != 0) return 3;
    return fwrite(y, 4, 12, stdout) == 12 ? 0 : 4;
}}
""")
    x = floats("x", 1, 1, 49, 10)["x"]
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    build = ["gcc", *WARNINGS, *flags, "main.c", "net.c", "-o", "net", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "net"], input=x.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = smelt.compile(model, options=OPTIONS)(x).numpy()
    found = np.frombuffer(done.stdout, np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"-mcpu=cortex-m9 is not known; .*legal: .*cortex-m4"):
        compile_c(conv_nets.mlp(1), "c -mcpu=cortex-m9 -march=armv7e-m")
    with pytest.raises(TargetError, match='makes no C; legal: "c", "c -mcpu=cortex-m4"'):
        compile_c(conv_nets.mlp(1), "llvm")
    with pytest.raises(TargetError, match="C runs on one core"):
        compile_c(conv_nets.mlp(1), "c -num-cores=2")
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[n, 3] x) => (float[n, 3] y) ' \
           "{ y = Relu(x) }"  # fmt: skip
    with pytest.raises(
        CompileError, match="sizes that are numbers, and the model has n; give the sh"
    ):
        compile_c(onnx.parser.parse_model(text), options=OPTIONS)
    two = text.replace("y = Relu(x)", "z = Softmax(x) y = Softmax(z)")
    with pytest.raises(
        CompileError, match="sizes that are numbers, and the model has n; give the sh"
    ):
        compile_c(onnx.parser.parse_model(two), options=OPTIONS)
    with pytest.raises(CompileError, match="run straight through; found a branch on a value"):
        compile_c(control_nets.branch(24, 8, 3), options=OPTIONS)
    made = compile_c(onnx.parser.parse_model(text), shapes={"x": (2, 3)}, options=OPTIONS)
    with pytest.raises(ExportError, match=r"legal: model\.c"):
        made.save(tmp_path / "net.cc")
    with pytest.raises(ExportError, match="the name stands in an #include"):
        made.save(tmp_path / 'my"net.c')
    assert not list(tmp_path.iterdir())
    made.save(tmp_path / "my-net.c")
    assert '#include "my-net.h"' in (tmp_path / "my-net.c").read_text()


@pytest.mark.parametrize("name", ["int", "class", "tanh", "NAN"])
def test_names_of_c(name: str, tmp_path: Path) -> None:
    """Tensors that are called like a keyword, of C++ too, or like a function that kernels use."""
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        net (double[3] x) => (double[3] {name}, double[3] r) {{
        {name} = Sqrt(x)
        r = Exp({name}) }}"""
    made = agrees(onnx.parser.parse_model(text), [np.array([1.0, 2.0, 4.0])], tmp_path)
    done = subprocess.run(["g++", "-fsyntax-only", "-x", "c++", tmp_path / "net.h"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{name}_1;" in made.header


def test_tensors_and_the_macro_between_kernels(tmp_path: Path) -> None:
    made = compile_c(conv_nets.mlp(1), options=OPTIONS, name="net")
    assert [(t.dtype, len(t.shape)) for t in (*made.inputs, *made.outputs)] == [("float32", 2)] * 2
    given, found = [np.ones(made.inputs[0].shape, "f4")], [np.zeros(made.outputs[0].shape, "f4")]
    library = compiled(made, tmp_path, "-DNET_STEP_DONE(step)=(steps|=1u<<(step))",
                       "-include", str(_counter(tmp_path)))  # fmt: skip
    run(made, library, given, found)
    steps = ctypes.c_uint.in_dll(ctypes.CDLL(str(library)), "steps").value
    assert steps == (1 << len(made.kernels)) - 1


@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_quantized_models_are_rescaled_in_integers(activations: str, tmp_path: Path) -> None:
    """Floats are what is quantized first and dequantized last, and what is averaged between."""
    model = conv_nets.dscnn(1)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    samples = [floats("x", *shape, seed=s) for s in range(4)]
    made = smelt.quantize(model, samples, activations=activations).mod
    source = agrees(as_on_boards(import_model(made)), [samples[0]["x"]], tmp_path)
    convolutions = [k for k in source.kernels if "conv2d" in k]
    assert len(convolutions) > 3
    assert all("requantize_sums" in k and "multiply" not in k for k in convolutions)
    with smelt.transform.PassContext(disabled_pass=["RescaleInIntegers"]):
        assert any("multiply" in k for k in compile_c(made, options=OPTIONS).kernels if "conv" in k)
    mixed = pytest.warns(UserWarning, match="multiplies bytes of one kind, and the model's activa")
    with mixed if activations == "uint8" else nullcontext():
        compile_c(made, "c -mcpu=cortex-m55", options=OPTIONS)


def _counter(folder: Path) -> Path:
    (folder / "steps.h").write_text("extern unsigned steps;\nunsigned steps;\n")
    return folder / "steps.h"


def test_floats_are_fused_by_instructions_alone(tmp_path: Path) -> None:
    """The C library's fmaf takes a hundred instructions where the processor has none."""
    said = "cortex-m3 has no unit for floats: float32 is computed by functions, 20 times slower"
    with pytest.warns(UserWarning, match=said):
        compile_c(conv_nets.mlp(1), "c -mcpu=cortex-m3", options=OPTIONS)
    made = compile_c(conv_nets.mlp(1), "c -mcpu=cortex-m4", options=OPTIONS)
    assert "smelt_fma_float32(" in made.source
    assert not re.search(r"(?<!_)fmaf?\(", made.source)
