"""The structs that native code reads: their description against what C compilers make of them."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smelt.runtime import abi, native, native_program, vm_file
from smelt.runtime.compilers import find_compiler
from smelt.runtime.linking import FOOTER
from smelt.runtime.native import source_folder

ZIG = ("arm-freestanding-eabihf", "thumb-freestanding-eabi", "riscv32-freestanding",
       "wasm32-freestanding", "aarch64-freestanding")  # fmt: skip


def assertions(pointer_bytes: int) -> str:
    """C that compiles where every field stands where its description says."""
    footer = re.search(
        r"typedef struct footer \{.*?\} footer;", (source_folder() / "blob.c").read_text(), re.S
    )
    assert footer is not None
    lines = ['#include "smelt.h"', footer[0]]
    for s in abi.STRUCTS:
        lines.append(f"_Static_assert(sizeof({s.name}) == {s.size(pointer_bytes)}, {s.name!r});")
        lines += [
            f"_Static_assert(offsetof({s.name}, {f}) == {s.offset(f, pointer_bytes)}, {f!r});"
            for f in s.fields
        ]
    lines += [f"_Static_assert(SMELT_{s.name} == {s:d}, {s.name!r});" for s in abi.Status]
    lines.append(f'_Static_assert(SMELT_ABI_VERSION == {abi.ABI_VERSION}, "version");')
    return "\n".join(lines).replace("'", '"') + "\n"


def compile_c(command: list[str], text: str, folder: Path) -> str:
    """What the compiler says; "" where it is content."""
    (folder / "layout.c").write_text(text)
    flags = ["-std=c11", "-c", f"-I{source_folder()}", "layout.c", "-o", "layout.o"]
    done = subprocess.run([*command, *flags], cwd=folder, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def test_layouts_of_this_machine(tmp_path: Path) -> None:
    here = ctypes.sizeof(ctypes.c_void_p)
    assert compile_c(find_compiler(None), assertions(here), tmp_path) == ""
    assert "version" in compile_c(
        find_compiler(None), assertions(here).replace(f"== {abi.ABI_VERSION},", "== 99,"), tmp_path
    )


@pytest.mark.micro
@pytest.mark.parametrize("target", ZIG)
def test_layouts_of_other_machines(target: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed (make setup-edge)")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-ffreestanding"]
    assert compile_c(command, assertions(8 if "64" in target else 4), tmp_path) == ""


def test_python_reads_the_same() -> None:
    pairs = (
        (abi.HOST, native.Host), (abi.VIEW, native.PoolView), (abi.BOUND, native.Bound),
        (abi.PROFILE, native.Profile), (abi.MODEL_INFO, native.ModelInfo),
        (abi.TENSOR, native_program._Tensor), (abi.PROGRAM_CALL, native_program._Call),
        (abi.PROGRAM, vm_file._Program), (abi.SEGMENT, vm_file._Segment),
    )  # fmt: skip
    here = ctypes.sizeof(ctypes.c_void_p)
    for described, made in pairs:
        assert ctypes.sizeof(made) == described.size(here)
        for field in described.fields:
            assert getattr(made, field).offset == described.offset(field, here)
    assert FOOTER.size == abi.FOOTER.size(here)
    with pytest.raises(AssertionError, match="smelt_tensor_info has the fields name, dtype, rank"):
        abi.TENSOR_INFO.initializer(name="x")


def test_offsets_follow_the_pointer() -> None:
    fields = [*abi.HOST.fields]
    assert [abi.HOST.offset(f, 8) for f in fields] == [0, 8, 16, 24, 32, 40, 48, 56, 64]
    assert [abi.HOST.offset(f, 4) for f in fields] == [0, 4, 8, 12, 16, 20, 24, 32, 40]
    assert abi.MODEL_INFO.offset("input_count", 4) == 32
    assert abi.MODEL_INFO.offset("output_count", 4) == 48  # behind a gap of four bytes


# ---- features of other processors ----------------------------------------------------------------

SHIMS = {
    "string.h": "int strcmp(const char *, const char *);",
    "unistd.h": "#include <stddef.h>\nlong syscall(long, ...);",
    "sys/auxv.h": "unsigned long getauxval(unsigned long);",
    "sys/prctl.h": "int prctl(int, ...);",
}
MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern int32_t smelt_cpu_has(const char *);
static unsigned long long given[3];
unsigned long getauxval(unsigned long word) { return given[word == 26]; }
long syscall(long number, int64_t *pair, ...) {
    if (number != 258 || pair[0] != 4 || given[2] == 0) return -1;
    pair[1] = (int64_t)given[2];
    return 0;
}
int prctl(int what, ...) { return what == 51 && given[2] != 0 ? (int)given[2] : -1; }
int main(int count, char **words) {
    for (int i = 0; i < 3; i++) given[i] = strtoull(words[1 + i], NULL, 0);
    for (int i = 4; i < count; i++) if (smelt_cpu_has(words[i])) printf("%s ", words[i]);
    return 0;
}
"""


def told(macro: str, words: tuple[int, int, int], names: list[str], folder: Path) -> list[str]:
    """The features that cpuinfo.c reports for a machine whose kernel says these words."""
    command = [shutil.which("gcc") or find_compiler(None)[0]]
    for name, text in SHIMS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "main.c").write_text(MAIN)
    undo = ["-U__x86_64__", "-U__i386__", "-U__aarch64__", "-D__linux__", f"-D{macro}"]
    source = str(source_folder() / "cpuinfo.c")
    subprocess.run(
        [*command, "-ffreestanding", *undo, f"-I{folder}", "-c", source, "-o", "cpuinfo.o"],
        cwd=folder, check=True,
    )  # fmt: skip
    subprocess.run([*command, "main.c", "cpuinfo.o", "-o", "told"], cwd=folder, check=True)
    arguments = [*map(hex, words), *names]
    done = subprocess.run([folder / "told", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_features_of_aarch64(tmp_path: Path) -> None:
    names = ["neon", "fullfp16", "dotprod", "sve", "i8mm", "sve2", "cssc", "mops", "amx-int8"]
    said = (1 << 1 | 1 << 10 | 1 << 20, 1 << 13 | 1 << 43, 0)
    assert told("__aarch64__", said, names, tmp_path) == [
        "neon",
        "fullfp16",
        "dotprod",
        "i8mm",
        "mops",
    ]
    said = (1 << 22, 1 << 1 | 1 << 34, 0)
    assert told("__aarch64__", said, names, tmp_path) == ["sve", "sve2", "cssc"]
    lengths = ["sve256b", "sve512b"]
    for said, found in (((0, 0, 0), []), ((1 << 22, 0, 16), []), ((1 << 22, 0, 64), lengths[1:]),
                        ((1 << 22, 0, 1 << 17 | 32), lengths[:1])):  # fmt: skip
        assert told("__aarch64__", said, lengths, tmp_path) == found


def test_features_of_arm(tmp_path: Path) -> None:
    names = ["neon", "vfp4", "fp16", "fp-armv8", "i8mm", "mve", "sve"]
    assert told("__arm__", (1 << 12 | 1 << 16, 0, 0), names, tmp_path) == ["neon", "vfp4", "fp16"]
    assert told("__arm__", (1 << 27, 1 << 4, 0), names, tmp_path) == ["fp-armv8", "i8mm"]


def test_features_of_riscv(tmp_path: Path) -> None:
    names = ["m", "a", "f", "d", "c", "v", "zba", "zfh", "zvfh"]
    letters = sum(1 << (ord(c) - ord("a")) for c in "mafdc")
    assert told("__riscv", (letters, 0, 0), names, tmp_path) == ["m", "a", "f", "d", "c"]
    said = (letters | 1 << 21, 0, 1 << 3 | 1 << 30)
    assert told("__riscv", said, names, tmp_path) == ["m", "a", "f", "d", "c", "v", "zba", "zvfh"]
