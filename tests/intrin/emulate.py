"""Runs printed C and LLVM objects of other processors: zig compiles and links, qemu executes.

A machine's kernels are one program without a C library: the arrays are part of it, and what they
hold after every kernel has run comes out through standard output.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.codegen.c import c_source
from smelt.codegen.c_helpers import STORED
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir import dtype as dt
from smelt.target import Target
from smelt.tir.nodes import PrimFunc

Array = np.ndarray[Any, Any]
HERE = Path(__file__).parent
CACHE = Path(tempfile.gettempdir()) / f"smelt-test-zig-{os.getuid()}"


@dataclass(frozen=True)
class Machine:
    """A processor and its emulator.

    triple, cpu  as zig names them
    runtime      the C file that starts the program
    c, llvm      targets of the two code generators
    """

    name: str
    triple: str
    cpu: str
    emulator: tuple[str, ...]
    runtime: str
    c: str
    llvm: str
    script: str = ""


def _board(name: str) -> tuple[str, ...]:
    quiet = "-display none -serial none -monitor none -semihosting-config enable=on,target=native"
    return ("qemu-system-arm", "-M", name, *quiet.split(), "-kernel")


_RV = "+m,+a,+f,+d,+c,+v"
MACHINES = {
    m.name: m
    for m in (
        Machine(
            "aarch64",
            "aarch64-linux-musl",
            "generic+neon+dotprod+i8mm",
            ("qemu-aarch64",),
            "linux.c",
            "c -march=armv8.2-a+dotprod+i8mm",
            "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic -mattr=+neon,+dotprod,+i8mm",
        ),
        Machine(
            "riscv64",
            "riscv64-linux-musl",
            "baseline_rv64+v",
            ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"),
            "linux.c",
            "c -march=rv64gcv",
            f"llvm -mtriple=riscv64-unknown-linux-gnu -mcpu=generic-rv64 -mabi=lp64d -mattr={_RV}",
        ),
        Machine(
            "cortex-m4",
            "thumb-linux-musleabihf",
            "cortex_m4+vfp4d16sp",
            _board("mps2-an386"),
            "cortex_m.c",
            "arm/cortex-m4",
            "llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4",
            "cortex_m.ld",
        ),
        Machine(
            "cortex-m55",
            "thumb-linux-musleabihf",
            "cortex_m55+mve_fp",
            _board("mps3-an547"),
            "cortex_m.c",
            "arm/cortex-m55",
            "llvm -mtriple=thumbv8.1m.main-none-eabihf -mcpu=cortex-m55",
            "cortex_m.ld",
        ),
    )
}


def need(machine: Machine) -> None:
    """Skip the test, naming what is missing; `make setup-edge` installs it."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the package ziglang is missing: make setup-edge")
    if shutil.which(machine.emulator[0]) is None:
        pytest.skip(f"{machine.emulator[0]} is missing: make setup-edge")


def zig(*args: str | Path) -> None:
    """Run one of zig's tools; its messages are the failure."""
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(CACHE)},
    )
    assert done.returncode == 0, done.stderr


def run(
    machine: Machine, kernels: Sequence[tuple[PrimFunc, Sequence[Array]]], llvm: bool = False
) -> list[list[Array]]:
    """The arguments of every kernel (a flat program) after it has run on the emulated machine.

    llvm  whether LLVM makes the object; else the printed C is compiled
    """
    need(machine)
    funcs = [f for f, _ in kernels]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        objects = []
        if llvm:
            target = resolve(Target(machine.llvm))
            objects.append(place / "kernels.o")
            objects[0].write_bytes(ObjectCompiler(target).object(emit_module(funcs), "kernels"))
        else:
            (place / "kernels.c").write_text(c_source(funcs, Target(machine.c)))
            objects.append(compiled(machine, place / "kernels.c", place))
        (place / "main.c").write_text(_main(kernels, llvm))
        for source in (place / "main.c", HERE / machine.runtime, HERE / "memory.c"):
            objects.append(compiled(machine, source, place))
        script = ("-T", HERE / machine.script) if machine.script else ()
        zig("ld.lld", *script, *objects, "-o", place / "program")
        done = subprocess.run(
            [*machine.emulator, place / "program"], capture_output=True, check=False, timeout=60
        )
    assert done.returncode == 0, (done.returncode, done.stdout[:200], done.stderr.decode())
    return _results(done.stdout, kernels)


def compiled(machine: Machine, source: Path, folder: Path, *flags: str) -> Path:
    """The object of a C file (or, with -S, its assembly)."""
    made = folder / f"{source.stem}.{'s' if '-S' in flags else 'o'}"
    flags = flags or ("-c",)
    options = ("-target", machine.triple, f"-mcpu={machine.cpu}", "-O2", "-ffp-contract=off")
    zig("cc", *options, *flags, source, "-o", made)
    return made


def _main(kernels: Sequence[tuple[PrimFunc, Sequence[Array]]], host: bool) -> str:
    """A C program that runs the kernels one after another and writes all arrays."""
    lines = ["#include <math.h>", "#include <stddef.h>", "#include <stdint.h>"]
    lines += ["void put(const void *data, size_t bytes);"]
    body = []
    for n, (func, args) in enumerate(kernels):
        kinds = [f"{STORED[dt.from_numpy(a.dtype)]} *" for a in args]
        before = ["void *"] if host else []
        lines.append(f"int32_t {func.name}({', '.join([*before, *kinds])});")
        names = []
        for k, a in enumerate(args):
            names.append(f"a{n}_{k}")
            values = ", ".join(_literal(v) for v in a.reshape(-1))
            lines.append(f"static {kinds[k][:-2]} {names[-1]}[] = {{{values}}};")
        given = ", ".join([*(["NULL"] if host else []), *names])
        body.append(f"    if ({func.name}({given})) return {n + 1};")
        body += [f"    put({name}, sizeof {name});" for name in names]
    return "\n".join([*lines, "int run(void) {", *body, "    return 0;", "}", ""])


def _literal(value: Any) -> str:
    if isinstance(value, np.floating):
        return float(value).hex() + ("f" if value.dtype == np.float32 else "")
    return f"{int(value)}"


def _results(data: bytes, kernels: Sequence[tuple[PrimFunc, Sequence[Array]]]) -> list[list[Array]]:
    out, at = [], 0
    for _, args in kernels:
        own = []
        for a in args:
            own.append(np.frombuffer(data, a.dtype, a.size, at).reshape(a.shape))
            at += a.nbytes
        out.append(own)
    assert at == len(data)
    return out
