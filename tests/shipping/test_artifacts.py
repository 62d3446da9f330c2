"""Making is apart from loading: artifacts for this machine and for others."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt.artifact import artifact as artifacts
from smelt.codegen import llvm
from smelt.ir.errors import CompileError
from smelt.runtime import ExportError, NativeExecutable
from tests.models import conv_nets, transformers
from tests.models.net import floats

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
X = floats("x", 2, 196)


def test_an_artifact_of_this_machine_runs_as_what_compile_gives() -> None:
    model = conv_nets.mlp(2)
    made = smelt.compile_artifact(model)
    assert made.texts
    assert not made.objects
    exe = artifacts.load(made)
    np.testing.assert_array_equal(exe(**X).numpy(), smelt.compile(model)(**X).numpy())


def test_what_is_made_does_not_depend_on_the_machine_that_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = smelt.Options(threads=4, workers=0, cache_dir="")
    made = smelt.compile_artifact(conv_nets.mlp(2), ARM, options=options)
    assert "cortex-a72" in made.metadata["target"]
    assert "neon" in made.metadata["features"]
    asked: list[str] = []

    def other() -> tuple[str, tuple[str, ...]]:
        asked.append("the processor")
        return "generic", ()

    monkeypatch.setattr(llvm, "host_cpu", other)
    again = smelt.compile_artifact(conv_nets.mlp(2), ARM, options=options)
    assert asked  # constants are prepared here
    assert (again.texts, again.metadata) == (made.texts, made.metadata)
    assert again.weights.tobytes() == made.weights.tobytes()


def test_another_machines_code_is_not_loaded() -> None:
    made = smelt.compile_artifact(conv_nets.mlp(2), ARM)
    with pytest.raises(CompileError) as caught:
        artifacts.load(made)
    assert str(caught.value) == (
        "code for aarch64-linux-gnu cannot run on this machine; "
        'smelt.compile_artifact(...).export_library("model.so"), or smelt compile -o model.so, '
        'writes a library for it (of wasm a package, -o FOLDER), smelt.show(..., "asm") prints it'
    )


NETS = {"resnet18": conv_nets.resnet18_small, "bert": transformers.bert_symbolic}


@pytest.mark.parametrize("target", [ARM, "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("name", NETS)
def test_a_whole_model_is_one_object(name: str, target: str, tmp_path: Path) -> None:
    """Code, constants, description and header; only the runtime's and libm's names are open."""
    made = smelt.compile_artifact(NETS[name](1), target)
    file, _ = made.write(tmp_path / "net.o")
    code = file.read_bytes()
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == (183 if target is ARM else 62)
    assert made.weights.tobytes() in code
    assert json.dumps(made.metadata).encode() in code
    rows = subprocess.run(["nm", str(file)], capture_output=True, text=True, check=True).stdout
    names: dict[str, set[str]] = {}
    for row in rows.splitlines():
        kind, symbol = row.split()[-2:]
        names.setdefault(kind, set()).add(symbol.removeprefix(made.name))
    assert names["T"] == {"_entry", "_plan"}
    assert names["R"] == {"_weights", "_metadata"}
    assert names.get("U", set()) <= {"memcpy", "memset", "memmove", "bzero"}
    source = tmp_path / "use.c"
    source.write_text(f'#include "net.h"\nint main(void) {{ return !{made.name}_entry; }}\n')
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-Wall", "-Wextra", "-c", source, "-o", tmp_path / "use.o"],
                   check=True, cwd=tmp_path)  # fmt: skip


def test_an_object_file_has_all_that_a_run_needs(tmp_path: Path) -> None:
    made = smelt.compile_artifact(conv_nets.mlp(2))
    file, _ = made.write(tmp_path / "mlp.o")
    library = tmp_path / "mlp.so"
    subprocess.run(["cc", "-shared", "-o", library, file], check=True)
    code = ctypes.CDLL(str(library))

    def address(name: str) -> int:
        return ctypes.addressof(ctypes.c_char.in_dll(code, f"{made.name}_{name}"))

    metadata = json.loads(ctypes.string_at(address("metadata")))
    size = metadata["weights_bytes"]
    weights = np.frombuffer(ctypes.string_at(address("weights"), size), np.uint8)
    assert address("weights") % 64 == 0
    exe = NativeExecutable(address("entry"), address("plan"), metadata, weights, code)
    np.testing.assert_array_equal(exe(**X).numpy(), smelt.compile(conv_nets.mlp(2))(**X).numpy())


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    made = smelt.compile_artifact(conv_nets.mlp(2), ARM)
    with pytest.raises(ExportError) as caught:
        made.write("mlp.so")
    assert str(caught.value) == (
        "cannot write mlp.so: .so files cannot be written; legal: model.o; "
        "export_library(...) writes libraries"
    )
    with pytest.raises(ExportError, match="nowhere does not exist"):
        made.write(tmp_path / "nowhere" / "mlp.o")
    assert not list(tmp_path.iterdir())
