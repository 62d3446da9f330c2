"""Targets, options, environment variables and cache folders that cannot be."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.codegen import cache as disk
from smelt.ir.errors import CompileError, TargetError
from smelt.runtime import Executable, InputError
from tests.bad_input.conftest import message, tiny


def compile_for(target: Any) -> Executable:
    made: Executable = smelt.compile(tiny(), target, options=smelt.Options(cache_dir=""))
    return made


def test_unknown_kinds() -> None:
    text = message(TargetError, lambda: compile_for("llvmm -mcpu=native"))
    assert text.startswith("unknown target kind 'llvmm'; nearest: llvm; kinds: llvm, c, cuda, ")
    assert message(CompileError, lambda: compile_for("cuda")) == (
        "target kind 'cuda' cannot be compiled yet; today: llvm, e.g. \"llvm -mcpu=native\""
    )
    assert message(TargetError, lambda: compile_for("")) == (
        'the target is empty; e.g. "llvm -mcpu=native"'
    )
    assert message(TargetError, lambda: compile_for(7)) == (
        "a target is a string or a dictionary, not an int"
    )


def test_unknown_cpus() -> None:
    text = message(TargetError, lambda: compile_for("llvm -mcpu=pentium9"))
    assert text.startswith("unknown CPU 'pentium9' for x86_64-")
    assert "; known: native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, " in text


def test_unknown_options_of_a_target() -> None:
    text = message(TargetError, lambda: compile_for("llvm -mcpuu=native"))
    assert text.startswith("target kind 'llvm' has no option 'mcpuu'; nearest: mcpu")
    assert message(TargetError, lambda: compile_for("llvm native")) == (
        "target 'llvm native': 'native' is no option; options start with '-'"
    )
    assert message(TargetError, lambda: compile_for("llvm -num-cores=many")) == (
        "target option 'num-cores' takes an integer, not 'many'"
    )
    text = message(TargetError, lambda: compile_for("llvm -mcpu=native -mattr=+avx1024"))
    assert text.startswith("unknown CPU feature '+avx1024' for x86_64-")


def test_targets_of_other_machines() -> None:
    arm = "llvm -mtriple=aarch64-linux-gnu"
    assert message(CompileError, lambda: compile_for(arm)) == (
        "code for aarch64-linux-gnu cannot run on this machine; "
        'smelt.compile_artifact(...).export_library("model.so"), or smelt compile -o model.so, '
        "writes a library for it (of wasm a package, -o FOLDER), "
        'smelt.show(..., "asm") prints it'
    )
    assert "fadd" in smelt.stage_text(tiny(), "asm", target=arm)
    assert message(TargetError, lambda: compile_for(f"{arm} -mcpu=native")) == (
        "-mcpu=native is this machine's CPU, which is none of aarch64-linux-gnu; name another"
    )
    text = message(TargetError, lambda: smelt.stage_text(tiny(), "asm", target="llvm -mtriple=z80"))
    assert text.startswith("LLVM has no target 'z80'")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"opt_level": 4}, "Options.opt_level is 4; legal: 0 to 3"),
        ({"opt_level": "3"}, "Options.opt_level is '3'; legal: 0 to 3"),
        ({"opt_level": True}, "Options.opt_level is True; legal: 0 to 3"),
        ({"verify": -1}, "Options.verify is -1; legal: 0 to 2"),
        ({"threads": 0}, "Options.threads is 0; legal: a positive integer, or None for all"),
        ({"threads": 1.5}, "Options.threads is 1.5; legal: a positive integer, or None for all"),
        ({"workers": -1}, "Options.workers is -1; legal: 0 or more, or None"),
        (
            {"cache_dir": 3},
            "Options.cache_dir is 3; legal: the path of a folder, '' for no cache, or None",
        ),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    assert message(CompileError, lambda: smelt.Options(**options)) == text


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_NUM_THREADS", "many")
    assert message(InputError, lambda: compile_for(None)) == (
        "environment variable SMELT_NUM_THREADS='many' is not a number of threads; "
        "legal: 1 or more, or unset for all CPUs of this process"
    )
    monkeypatch.delenv("SMELT_NUM_THREADS")
    monkeypatch.setenv("SMELT_CACHE", "maybe")
    assert message(CompileError, lambda: smelt.compile(tiny())) == (
        "environment variable SMELT_CACHE='maybe' is neither 0 nor 1"
    )


def cached(folder: Path) -> Executable:
    made: Executable = smelt.compile(tiny(), options=smelt.Options(cache_dir=str(folder)))
    return made


CURES = "name another one (SMELT_CACHE_DIR), or compile without a cache (SMELT_CACHE=0)"


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    folder = tmp_path / "file" / "cache"
    assert message(CompileError, lambda: cached(folder)) == (
        f"cannot write to the cache folder {folder}: Not a directory\n  {CURES}"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_folder_that_is_not_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        assert message(CompileError, lambda: cached(tmp_path)) == (
            f"cannot write to the cache folder {tmp_path}: Permission denied\n"
            f"  make it writable, {CURES}"
        )
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    ("number", "cure"), [(errno.ENOSPC, "free some space there"), (errno.EROFS, "make it writable")]
)
def test_a_cache_folder_without_room(
    number: int, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(disk, "write_all", fail)
        assert message(CompileError, lambda: cached(tmp_path)) == (
            f"cannot write to the cache folder {tmp_path}: {os.strerror(number)}\n  {cure}, {CURES}"
        )
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(cached(tmp_path)(x, x).numpy(), x + x)


def test_a_dump_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    options = smelt.Options(dump_dir=str(tmp_path / "file" / "dump"))
    assert message(CompileError, lambda: smelt.compile(tiny(), options=options)) == (
        f"cannot write dumps to {tmp_path}/file/dump: Not a directory; name another folder "
        "(dump_dir, SMELT_DUMP)"
    )


def test_unknown_stages_and_kernels() -> None:
    assert message(CompileError, lambda: smelt.stage_text(tiny(), "machine")) == (
        "unknown stage 'machine'; stages: graph, fused, layout, tir, scheduled, lowered, llvm, asm"
    )
    text = message(CompileError, lambda: smelt.stage_text(tiny(), "tir", kernel="conv"))
    assert text == "the model has no kernel 'conv'; kernels: fused_relu_add"
