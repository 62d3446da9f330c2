"""Mistakes: exit code 1, one message that begins with Error, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.bad_input.conftest import tiny

from .conftest import typed

MISTAKES = {
    "no_file": "compile nothing.onnx",
    "no_format": "compile notes.txt",
    "absent_format": "compile notes.txt --model-format keras",
    "no_option": "compile good.onnx --targt llvm",
    "micro": "micro",
    "micro_project": "micro build project qemu --force",
    "micro_option": "micro create project model.tar qemu --project-option board",
    "micro_board": "micro create project model.tar qemu --project-option board=mps2-an38",
    "micro_template": "micro create project notes.txt template",
    "micro_run": "run project --device micro",
    "micro_time": "run project --device micro --print-time",
    "config": "--config options.json compile good.onnx",
    "two_targets": "compile good.onnx --target tensorrt,llvm",
    "ethos_u": "compile good.onnx -f mlf --target ethos-u,cmsis-nn,c",
    "cmsis_so": "compile good.onnx --target cmsis-nn,c",
    "cmsis_tune": "tune good.onnx -o log.json --target cmsis-nn,c",
    "unknown_target": "compile good.onnx --target sparc",
    "gpu": "compile good.onnx --target cuda",
    "other_kind": "compile good.onnx --target llvm --target-c-mcpu cortex-m55",
    "other_executor": "compile good.onnx --executor-aot-interface-api c",
    "executor_value": "compile good.onnx --executor aot --executor-aot-constant-byte-alignment 3",
    "vm_options": "compile good.onnx --executor vm --executor-graph-link-params 1",
    "crt": "compile good.onnx --runtime crt",
    "mlf": "compile good.onnx -f mlf",
    "mlf_ending": "compile good.onnx -f mlf --target c -o good.zip",
    "mlf_vm": "compile good.onnx -f mlf --target c --executor vm",
    "c": "compile good.onnx --target c",
    "ending": "compile good.onnx -o good.zip",
    "objects": "compile good.onnx -f tar -o good.so",
    "no_compiler": "compile good.onnx --cross-compiler no-such-gcc",
    "dump_code": "compile good.onnx --dump-code ptx",
    "dump_offloads": "compile good.onnx --dump-offloads -",
    "pools": "compile good.onnx --workspace-pools sram",
    "pass_config_value": "compile good.onnx --pass-config tir.disable_vectorize=perhaps",
    "pass_config_form": "compile good.onnx --pass-config tir.disable_vectorize",
    "shapes": "compile good.onnx --input-shapes x=[1,4]",
    "shapes_extent": "compile good.onnx --input-shapes x:[1,-4]",
    "shapes_name": "compile good.onnx --input-shapes data:[1,4]",
    "layout_ops": "compile good.onnx --desired-layout-ops nn.conv2d",
    "layouts": "compile good.onnx --desired-layout NHWC NCHW",
    "layout_op": "compile good.onnx --desired-layout NHWC --desired-layout-ops nn.dens",
    "mixed_precision": "compile good.onnx --mixed-precision-calculation-type bfloat16",
    "mixed_precision_ops": "compile good.onnx --mixed-precision --mixed-precision-ops nn.dense",
    "no_records": "compile good.onnx --tuning-records nothing.json",
    "empty_records": "compile good.onnx --tuning-records empty.json",
    "foreign_records": "compile good.onnx --tuning-records notes.txt",
    "no_package": "run nothing.tar",
    "no_library": "run good.onnx",
    "damaged": "run damaged.tar",
    "device": "run good.onnx --device vulkan",
    "inputs": "run damaged.tar -i notes.txt",
    "repeat": "run damaged.tar --repeat 10",
    "print_top": "run damaged.tar --print-top 0",
    "number": "run damaged.tar --print-time --number -2",
    "trials": "tune good.onnx -o log.json --trials all",
    "key": "run damaged.tar --rpc-key board",
    "no_output": "tune good.onnx",
    "tasks": "tune good.onnx -o log.json --tasks 0,1-7",
    "tasks_words": "tune good.onnx -o log.json --tasks first",
    "scheduler_options": "tune good.onnx -o log.json --num-cores 4",
    "scheduler_tuner": "tune good.onnx -o log.json --enable-autoscheduler --tuner ga",
    "gpu_options": "tune good.onnx -o log.json --warp-size 32",
    "log_folder": "tune good.onnx -o nowhere/log.json",
}

LONG = {
    "compile good.onnx --pass-config tir.disable_vectorise=1": (
        "PassContext has no config 'tir.disable_vectorise'; nearest: tir.disable_vectorize, "
    ),
    "compile good.onnx --disabled-pass FuseOps,FuseOp": (
        "PassContext: relay.build has no pass 'FuseOp'; nearest: FuseOps, DefuseOps; passes: "
    ),
    "compile good.onnx --print-ir-after FuseOp": (
        "--print-ir-after FuseOp: no such pass; nearest: FuseOps, DefuseOps; legal: InferType, "
    ),
    "compile good.onnx -O 4": "argument -O/--opt-level: invalid choice: 4 (choose from ",
    "micro create project model.tar quemu": "argument TEMPLATE: invalid choice: 'quemu' (choose ",
    "build good.onnx": "argument {compile,run,tune,micro}: invalid choice: 'build' (choose from ",
    "tune good.onnx -o log.json --tuner annealing": (
        "argument --tuner: invalid choice: 'annealing' (choose from "
    ),
}
"""Mistakes whose messages end with all that is legal."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(tiny(), "good.onnx")
    Path("notes.txt").write_text("nothing to see\n")
    Path("empty.json").touch()
    Path("damaged.tar").write_bytes(b"\0" * 1024)
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(
    name: str, here: Path, golden: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(p.name for p in here.iterdir())
    assert typed(MISTAKES[name]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert "Traceback" not in err
    golden(f"tvmc {MISTAKES[name]}\n{err.rstrip()}")
    assert sorted(p.name for p in here.iterdir()) == before


@pytest.mark.parametrize("words", LONG)
def test_long_messages(words: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"Error: {LONG[words]}")
    assert err.count("\n") == 1
