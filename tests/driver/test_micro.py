"""`tvmc micro`: from a model to a program on an emulated board, in commands."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from smelt.micro import compile_c, read_model_library_format
from tests.micro.test_c import OPTIONS
from tests.micro.test_cmsis_nn import mixed

from .conftest import Array, Command

C = '-f mlf --target "c -mcpu=cortex-m4" --runtime crt --executor aot --executor-aot-unpacked-api 1'


def test_from_a_model_to_a_board(tvmc: Command, image: Array, expected: Array) -> None:
    for program in ("qemu-system-arm",):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: make setup-edge")
    if not (shutil.which("arm-none-eabi-gcc") or importlib.util.find_spec("ziglang")):
        pytest.skip("arm-none-eabi-gcc and ziglang are missing: make setup-edge")
    assert tvmc(f"compile net.onnx {C} -o net.tar") == ""
    assert read_model_library_format("net.tar").name == "tvmgen_default"
    assert tvmc("micro create-project board net.tar qemu --project-option board=mps2-an386") == ""
    assert tvmc("micro build board qemu") == ""
    assert tvmc("micro flash board qemu") == ""
    shown = tvmc("run board --device micro -i image.npz -o y.npz --print-top 2")
    assert f"{expected.argmax()} " in shown
    with np.load("y.npz") as found:
        np.testing.assert_allclose(found["output_0"], expected, rtol=1e-4, atol=1e-4)


def test_the_graph_executor(tvmc: Command, image: Array, expected: Array) -> None:
    """The graph is in the archive, and the project reads it when it runs."""
    options = '-f mlf --target "c -mcpu=cortex-m4" --runtime crt --executor graph'
    assert tvmc(f"compile net.onnx {options} --executor-graph-link-params 1 -o net.tar") == ""
    assert '"func_name"' in read_model_library_format("net.tar").graph
    assert tvmc("micro create-project project net.tar host") == ""
    assert tvmc("micro build project host") == ""
    tvmc("run project --device micro -i image.npz -o y.npz")
    with np.load("y.npz") as found:
        np.testing.assert_allclose(found["output_0"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("words", ['"cmsis-nn,c -mcpu=cortex-m4"',
                                   "cmsis-nn,c --target-cmsis-nn-mcpu cortex-m4",
                                   '"cmsis-nn, c" --target-c-mcpu cortex-m4'])  # fmt: skip
def test_cmsis_nn(words: str, tvmc: Command) -> None:
    """What `smelt compile` makes of the same target."""
    content = mixed()
    Path("mixed.tflite").write_bytes(content)
    tvmc(f"compile mixed.tflite -f mlf --target {words} -o net.tar")
    found = read_model_library_format("net.tar")
    own = compile_c(content, "cmsis-nn,c -mcpu=cortex-m4", name="tvmgen_default", options=OPTIONS)
    assert found.source.count("arm_convolve_wrapper_s8(") == 1
    assert found.source.count("arm_elementwise_add_s8(") == 1
    assert found.kernels == own.kernels
    assert (found.workspace_bytes, found.constant_bytes) == (own.workspace_bytes,
                                                            own.constant_bytes)  # fmt: skip


def test_options_are_listed(tvmc: Command) -> None:
    shown = tvmc("micro create nothing nothing.tar zephyr --list-options").splitlines()
    assert shown[0] == "verbose=bool (False): Say which commands run."
    assert shown[2].startswith("board=str (nucleo_l4r5zi): The board. {nucleo_l4r5zi, ")
    tvmc(f"compile net.onnx {C} -o net.tar")
    tvmc("micro create project net.tar arduino --project-option board=mega verbose=1")
    listed = tvmc("micro flash project arduino --list-options")
    assert "board=str (mega): The board. {mega}" in listed
    assert "port=str: The serial port" in listed


def test_a_project_is_replaced_where_all_goes_well(tvmc: Command) -> None:
    tvmc(f"compile net.onnx {C} -o net.tar")
    tvmc("micro create project net.tar host")
    assert "project is there already" in tvmc("micro create project net.tar cmake", code=1)
    assert "cannot read" in tvmc("micro create -f project no.tar cmake", code=1)
    assert not Path("project/CMakeLists.txt").exists()
    tvmc("micro create -f project net.tar cmake")
    assert Path("project/CMakeLists.txt").exists()
    assert not list(Path().glob(".project*"))
    assert "is a project of cmake, not of host" in tvmc("micro build project host", code=1)
