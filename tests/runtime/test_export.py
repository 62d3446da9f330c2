"""Exported libraries: written, refused, loaded by Python without a compiler, and by C."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.runtime import (
    ExportError,
    InputError,
    LoadError,
    NativeExecutable,
    linking,
    load_module,
    read_metadata,
)
from smelt.runtime.native import ModelInfo
from tests.runtime.conftest import CC, HERE, Make, tensor

ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(scope="session")
def library(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model `add`, exported with its header."""
    path = tmp_path_factory.mktemp("export") / "add.so"
    make("add").export_library(path, header=True)
    return path


def constant(make: Make, value: float) -> NativeExecutable:
    """The model `add` with another constant."""
    add = make("add")
    weights = np.array([value], np.float32)
    return NativeExecutable(
        add._entry, add.plan_address, add.metadata, weights, add, objects=add.objects
    )


def refused(path: Path) -> str:
    """The text of the refusal, with PATH for the path."""
    with pytest.raises(LoadError) as caught:
        load_module(path)
    return str(caught.value).replace(str(path), "PATH")


def test_loaded_in_the_same_process(library: Path) -> None:
    add = load_module(library)
    np.testing.assert_array_equal(add(ROWS, ROWS).numpy(), ROWS * 2 + 100)
    assert add.metadata == read_metadata(library)
    assert [k.calls for k in add.profile(ROWS, ROWS).kernels] == [1, 1]
    assert sorted(p.name for p in library.parent.iterdir()) == ["add.h", "add.so"]


def test_loaded_without_the_compiler(library: Path) -> None:
    program = f"""
import sys, numpy
from smelt.runtime import load_module
x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)
y = load_module({str(library)!r})(x, x)
assert (y.numpy() == x * 2 + 100).all()
rooms = {{m.split(".")[1] for m in sys.modules if m.startswith("smelt.")}}
assert rooms == {{"runtime"}}, rooms
assert not {{"llvmlite", "onnx"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_replaced_library_is_loaded_anew(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "add.so"
    loaded = []
    for value in (1.0, 2.0, 3.0):
        constant(make, value).export_library(path)
        loaded.append(load_module(path))
    for value, add in zip((1.0, 2.0, 3.0), loaded, strict=True):
        np.testing.assert_array_equal(add(ROWS, ROWS).numpy(), ROWS * 2 + np.float32(value))


def test_constants_beside_the_library(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "_SIDECAR_BYTES", 0)
    path = tmp_path / "add.so"
    make("add").export_library(path, header=True)
    aside = tmp_path / "add.so.weights"
    np.testing.assert_array_equal(load_module(path)(ROWS, ROWS).numpy(), ROWS * 2 + 100)
    assert run_c(path, tmp_path) == ["z float32 [2, 4]", "100 102 104 106 108 110 112 114"]
    kept = aside.rename(tmp_path / "kept")
    text = "cannot load PATH: its constants, PATH.weights, are missing"
    assert refused(path) == text
    constant(make, 5).export_library(path)
    os.replace(kept, aside)
    assert refused(path) == "cannot load PATH: PATH.weights belongs to another export"


# ---- refused files ---------------------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.so") == "cannot load PATH: No such file or directory"


def test_other_file(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("hello")
    text = "cannot load PATH: it is not a library written by smelt's export_library"
    assert refused(path) == text


@pytest.mark.parametrize("cut", [1, 1000])
def test_truncated_file(library: Path, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.so"
    path.write_bytes(library.read_bytes()[:-cut])
    assert refused(path) == (
        "cannot load PATH: it is a shared library, but the model at its end is missing\n"
        "  it was not written by smelt's export_library, or was truncated or stripped"
    )


def test_holes(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "hole.so"
    data = library.read_bytes()
    path.write_bytes(data[:5000] + data[6000:])
    assert refused(path) == (
        f"cannot load PATH: it has {len(data) - 1000} bytes, {len(data)} expected; it is damaged"
    )


def changed(library: Path, path: Path, **changes: Any) -> None:
    """A copy of a library with other metadata or ABI version."""
    data = library.read_bytes()
    fields = list(linking.FOOTER.unpack(data[-linking.FOOTER.size :]))
    start, size = fields[5:7]
    fields[1] = changes.pop("abi", fields[1])
    text = json.dumps({**json.loads(data[start : start + size]), **changes}).encode()
    fields[6], fields[7] = len(text), linking.digest_of(text)
    fields[8] = start + len(text) + linking.FOOTER.size
    path.write_bytes(data[:start] + text + linking.FOOTER.pack(*fields))


def resized(library: Path, path: Path, weights: tuple[int, int], **changes: Any) -> None:
    """A copy with another place of the constants, valid checksums, and a code that agrees."""
    data = library.read_bytes()
    old = linking.FOOTER.unpack(data[-linking.FOOTER.size :])[7].to_bytes(8, "little")
    changed(library, path, weights_bytes=weights[1], **changes)
    made = path.read_bytes()
    fields = list(linking.FOOTER.unpack(made[-linking.FOOTER.size :]))
    fields[3:5] = weights
    new = fields[7].to_bytes(8, "little")
    path.write_bytes(made[: -linking.FOOTER.size].replace(old, new) + linking.FOOTER.pack(*fields))


def opened_by_c(path: Path) -> str:
    """What smelt_model_open says of a library's own description."""
    code = ctypes.CDLL(str(path))
    code.smelt_model_open.restype = ctypes.c_void_p
    code.smelt_last_error.restype = ctypes.c_char_p
    model = code.smelt_model_open(ctypes.byref(ModelInfo.in_dll(code, "smelt_model_descriptor")))
    return code.smelt_last_error().decode().replace(str(path), "PATH") if not model else "opened"


@pytest.mark.parametrize(
    ("place", "by_c", "by_python"),
    [
        ((0, 4), "opened", "opened"),
        ((0, 0), "0 bytes of constants, the model has 4", "weights_bytes: its code says"),
        ((0, 8), "8 bytes of constants, the model has 4", "weights_bytes: its code says"),
        ((1 << 40, 4), "damaged footer", "it is damaged"),
        ((2**64 - 65536, 4), "damaged footer", "it is damaged"),
        ((2**64 - 4, 4), "damaged footer", "it is damaged"),
        ((4, 4), "cannot map 4 bytes: Invalid argument", "mapping its constants: "),
    ],
)
def test_constants_are_where_the_file_says_and_as_many_as_the_code_needs(
    library: Path, tmp_path: Path, place: tuple[int, int], by_c: str, by_python: str
) -> None:
    path = tmp_path / "m.so"
    resized(library, path, place)
    assert by_c in opened_by_c(path)
    if by_python == "opened":
        load_module(path)
    else:
        assert by_python in refused(path)


def test_a_file_cut_after_it_was_linked_against(library: Path, tmp_path: Path) -> None:
    """A program opens the model when its file has lost constants, and its footer with them."""
    path = tmp_path / "m.so"
    data = library.read_bytes()
    start = linking.FOOTER.unpack(data[-linking.FOOTER.size :])[3]
    path.write_bytes(data[: start + 2])
    assert opened_by_c(path) == (
        "PATH: the model's constants are missing at the end of the file (truncated or stripped?)"
    )
    path = tmp_path / "n.so"
    path.write_bytes(data[:start] + data[-linking.FOOTER.size :])
    assert opened_by_c(path).startswith(f"PATH: {start + linking.FOOTER.size} bytes, {len(data)} ")


def test_no_waiting_for_pipes(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, aside = tmp_path / "m.so", tmp_path / "m.so.weights"
    os.mkfifo(path)
    assert refused(path) == "cannot load PATH: it is no regular file"
    path.unlink()
    monkeypatch.setattr(linking, "_SIDECAR_BYTES", 0)
    make("add").export_library(path)
    aside.unlink()
    os.mkfifo(aside)
    assert refused(path) == "cannot load PATH.weights: it is no regular file"
    assert opened_by_c(path) == "PATH.weights: no regular file"


def test_a_sidecar_of_another_size(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "_SIDECAR_BYTES", 0)
    path, aside = tmp_path / "m.so", tmp_path / "m.so.weights"
    make("add").export_library(path)
    link = tmp_path / "link" / "other.so"
    link.parent.mkdir()
    link.symlink_to(path)  # the constants lie beside the file, wherever links to it are
    np.testing.assert_array_equal(load_module(link)(ROWS, ROWS).numpy(), ROWS * 2 + 100)
    fields = list(linking.FOOTER.unpack(aside.read_bytes()[4:]))
    fields[4], fields[5], fields[8] = 2, 2, 2 + linking.FOOTER.size
    aside.write_bytes(b"12" + linking.FOOTER.pack(*fields))
    assert refused(path) == "cannot load PATH: PATH.weights belongs to another export"
    assert opened_by_c(path) == "PATH.weights: 2 bytes of constants, the model has 4"


def described(library: Path, path: Path, **changes: Any) -> str:
    """How a library with other metadata, to which its code agrees, is refused."""
    resized(library, path, linking.FOOTER.unpack(library.read_bytes()[-64:])[3:5], **changes)
    text = refused(path)
    start = "cannot load PATH: its metadata is damaged: "
    assert text.startswith(start)
    return text[len(start) :]


X = tensor("x", "float32", "n", 4)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": 3}, "name is 3; legal: a text"),
        ({"name": "\ud800"}, "name is '\\ud800'; legal: a text"),
        ({"inputs": [X]}, "inputs: its code says something else"),
        ({"inputs": [X, {**X, "name": "z"}]}, "inputs: its code says something else"),
        ({"inputs": [X, {**X, "name": "y", "dtype": "int32"}]}, "inputs: its code says"),
        ({"inputs": {}}, "inputs is {}; legal: a list"),
        ({"inputs": [X, {"dtype": "float32", "shape": []}]}, "inputs[1].name is missing"),
        ({"outputs": [tensor("z", "float32", "n", 5)]}, "outputs: its code says something else"),
        ({"outputs": [tensor("z", "float32", -1)]}, "outputs[0].shape[0] is -1; legal: a number"),
        ({"outputs": [tensor("z", "float32", True)]}, "outputs[0].shape[0] is True; legal: a num"),
        ({"outputs": [tensor("z", "float32", 2**63)]}, "outputs[0].shape[0] is 92233720368547758"),
        ({"outputs": [tensor("z", "object", 4)]}, "outputs[0].dtype is 'object'; legal: bool, "),
        ({"symbols": ["n", "n"]}, "symbols is ['n', 'n']; legal: a list without repetitions"),
        ({"symbols": []}, "inputs: its code says something else"),
        ({"symbols": [[]]}, "symbols[0] is []; legal: a text"),
        ({"workspace_bytes": 1 << 40}, "workspace_bytes: its code says something else"),
        ({"kernels": [{}]}, "kernels[0].name is missing"),
        ({"features": "avx"}, "features is 'avx'; legal: a list"),
        ({"size_ranges": {"n": [1]}}, "size_ranges['n'] is [1]; legal: a list of 2"),
        ({"externals": [{"symbol": "f"}]}, "externals[0].compiler is missing"),
        ({"kind": "code"}, "kind is 'code'; legal: program"),
        ({"kind": "program", "parameters": ["x"], "written": []}, "parameters is ['x']; legal: "),
    ],
)
def test_metadata_that_lie(
    library: Path, tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    assert described(library, tmp_path / "m.so", **changes).startswith(text)


def test_metadata_of_another_library(library: Path, tmp_path: Path) -> None:
    """Also what the code does not know belongs to it: here, costs of kernels."""
    path = tmp_path / "m.so"
    changed(library, path, kernels=[])
    assert refused(path) == ("cannot load PATH: its code and its constants do not belong together")
    data = library.read_bytes()
    path.write_bytes(data.replace(b'"n * 48"', b'"n * 47"'))
    assert refused(path) == (
        "cannot load PATH: its metadata is damaged: they were written for another library"
    )


SIZES = ["n // 0", "min(n)", "n(3)", "-" * 10_000 + "n", "(" * 300 + "n" + ")" * 300, "n\0", "n.x"]


@pytest.mark.parametrize("size", [*SIZES, "n + " * 10_000 + "n"])
def test_sizes_that_are_none(library: Path, tmp_path: Path, size: str) -> None:
    path = tmp_path / "m.so"
    kernels = [{"name": "shift", "flops": size}, {"name": "sum"}]
    resized(library, path, linking.FOOTER.unpack(library.read_bytes()[-64:])[3:5], kernels=kernels)
    with pytest.raises((LoadError, InputError), match=r"^(a |the )?size "):
        load_module(path).profile(ROWS, ROWS)


def test_other_version(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.so"
    changed(library, path, abi=7)
    assert refused(path) == (
        "cannot load PATH: it has ABI version 7, this runtime has 6; export the model again"
    )


def test_lacking_features(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.so"
    changed(library, path, features=["avx10.9", "amx-moon"], target="llvm -mcpu=future")
    assert refused(path) == (
        "cannot load PATH: compiled for a CPU with avx10.9, amx-moon, which this CPU lacks\n"
        "  target: llvm -mcpu=future"
    )


def test_other_machine(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "mips.so"
    data = bytearray(library.read_bytes())
    data[18:20] = (8).to_bytes(2, "little")
    path.write_bytes(data)
    text = f"cannot load PATH: compiled for ELF machine 8, this machine is {os.uname().machine}"
    assert refused(path) == text


# ---- refused exports -------------------------------------------------------------------------


def test_nothing_to_export(library: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        load_module(library).export_library(tmp_path / "again.so")
    assert str(caught.value) == (
        "add: it has no object files to export; "
        "a model loaded from a library is exported by copying that file"
    )


def test_unwritable_folder(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "none" / "add.so"
    with pytest.raises(ExportError) as caught:
        make("add").export_library(path)
    text = f"cannot write {path}: the folder {path.parent} does not exist"
    assert str(caught.value) == text
    path = tmp_path / "add.so"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ExportError) as caught:
        make("add").export_library(path)
    assert str(caught.value) == f"cannot write {path}: the folder {path.parent} is not writable"


def test_failing_compiler_leaves_the_old_file(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "add.so"
    path.write_text("old")
    with pytest.raises(ExportError) as caught:
        make("add").export_library(path, cc="sh -c 'echo no such option >&2; exit 1'")
    assert str(caught.value) == (
        "the C compiler failed: sh -c 'echo no such option >&2; exit 1'\n  no such option"
    )
    with pytest.raises(ExportError) as caught:
        make("add").export_library(path, cc="/nowhere/cc")
    assert str(caught.value) == (
        "the C compiler cannot be run: /nowhere/cc: No such file or directory"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["add.so"]
    assert path.read_text() == "old"


def test_full_disk(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(linking, "_write_library", full)
    path = tmp_path / "add.so"
    with pytest.raises(ExportError) as caught:
        make("add").export_library(path)
    assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert list(tmp_path.iterdir()) == []


# ---- C programs ------------------------------------------------------------------------------


def run_c(library: Path, folder: Path) -> list[str]:
    """Compiles user.c against the exported model and gives the lines it prints."""
    program = folder / "user"
    command = [CC or "cc", "-Wall", "-Wextra", "-Werror", f"-I{library.parent}"]
    command += [str(HERE / "user.c"), str(library), "-lpthread", "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_c_program(library: Path, tmp_path: Path) -> None:
    expected = ["z float32 [2, 4]", "100 102 104 106 108 110 112 114"]
    assert run_c(library, tmp_path) == expected


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_header_is_cxx(library: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.cc"
    source.write_text('#include "add.h"\nint main() { return add_open() == 0; }\n')
    command = ["c++", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{library.parent}"]
    subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


NAMES = [
    ('x"); system("exit 1"); //', "*/ int evil = *; /*", '??/"; int evil = ?; //'),
    ("line\nbreak\r", "back\\", "\N{GRINNING FACE} gr\u00f6\u00dfe"),
    ("int", "", "%s%n"),
    ("smelt_model", "a*", "/"),
    ("shm", "a\0b", "\\\n*/ int evil = *; /*"),
    ("n" * 300, "\u202e", "}; #include <none.h>"),
]


@pytest.mark.parametrize("names", NAMES)
def test_names_are_data(make: Make, tmp_path: Path, names: tuple[str, str, str]) -> None:
    """Nothing that a name holds is C: the library is what it is with plain names."""
    model, x, size = names
    inputs = [tensor(x, "float32", size, 4), tensor(x + "y", "float32", size, 4)]
    outputs = [tensor(size, "float32", size, 4)]
    add = make("add", name=model, inputs=inputs, outputs=outputs, symbols=[size], kernels=[])
    path = tmp_path / "m.so"
    add.export_library(path, header=True)
    loaded = load_module(path)
    np.testing.assert_array_equal(loaded(ROWS, ROWS).numpy(), ROWS * 2 + 100)
    assert (loaded.name, loaded.inputs[0].name, loaded.signature.symbols) == (model, x, (size,))
    start = linking.c_name(model)
    (tmp_path / "user.c").write_text(
        "#include <semaphore.h>\n#include <sys/mman.h>\n"
        f'#include "m.h"\nint main(void) {{ return {start}_open() == 0; }}\n'
    )
    flags = ["-D_GNU_SOURCE", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [CC or "cc", *flags, "user.c", "m.so", "-Wl,-rpath,.", "-o", "user"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./user"], cwd=tmp_path, check=True)


def test_several_models_share_one_pool(make: Make, tmp_path: Path) -> None:
    """Three runtimes in one process: the package's and those of two exported models."""
    for name in ("add", "sum"):
        make(name).export_library(tmp_path / f"{name}.so")
    program = f"""
import ctypes, numpy
from smelt.runtime import load_module, native
libraries = [ctypes.CDLL(p) for p in ({str(tmp_path / "sum.so")!r}, {str(tmp_path / "add.so")!r})]
libraries.append(native.library())
pools = set()
for library in reversed(libraries):
    library.smelt_pool_default.restype = ctypes.c_void_p
    pools.add(library.smelt_pool_default(0))
assert len(pools) == 1, pools
x = numpy.arange(100)
assert int(load_module({str(tmp_path / "sum.so")!r})(x)) == 4950
"""
    subprocess.run([sys.executable, "-c", program], check=True)
