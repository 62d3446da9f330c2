"""Runs printed C and LLVM objects of other processors: zig compiles and links, qemu executes.

A machine's kernels are one program without a C library: the arrays are part of it, and what they
hold after every kernel has run comes out through standard output. So are whole models, which may
have a C library and smelt's runtime besides.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.artifact.artifact import Artifact
from smelt.codegen.c import c_source
from smelt.codegen.c_helpers import STORED
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir import dtype as dt
from smelt.target import Target
from smelt.tir.nodes import PrimFunc

Array = np.ndarray[Any, Any]
HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "native"
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


def _limited(name: str, cpu: str, emulated: str, target: str) -> Machine:
    """A machine of the same kind whose C code, emulator and kernels have other instructions."""
    whole = MACHINES[name]
    emulator = (whole.emulator[0], "-cpu", emulated)
    return replace(whole, cpu=cpu, emulator=emulator, llvm=f"llvm {target}")


_ARM, _RISCV = (
    "-mtriple=aarch64-linux-gnu -mattr=",
    "-mtriple=riscv64-linux-gnu -mabi=lp64d -mattr=",
)
LIMITED = {
    "neon": _limited("aarch64", "generic", "cortex-a53", f"{_ARM}+neon"),
    "dotprod": _limited("aarch64", "generic", "cortex-a76", f"{_ARM}+neon,+dotprod"),
    "i8mm": _limited("aarch64", "generic", "max", f"{_ARM}+neon,+dotprod,+i8mm"),
    "riscv": _limited("riscv64", "baseline_rv64", "rv64", f"{_RISCV}+m,+a,+f,+d,+c"),
    "rvv": _limited("riscv64", "baseline_rv64", MACHINES["riscv64"].emulator[2], f"{_RISCV}{_RV}"),
}
"""Processors that have no more instructions than their kernels may use: another one ends the
program, but for i8mm, whose emulator has all there are."""


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
        if llvm:
            made = place / "kernels.o"
            target = resolve(Target(machine.llvm))
            made.write_bytes(ObjectCompiler(target).object(emit_module(funcs), "kernels"))
        else:
            (place / "kernels.c").write_text(c_source(funcs, Target(machine.c)))
            made = compiled(machine, place / "kernels.c", place)
        (place / "main.c").write_text(_main(kernels, llvm))
        data = _executed(machine, place, made)
    return _results(data, [args for _, args in kernels])


def run_model(
    machine: Machine, artifact: Artifact, inputs: Sequence[Array], runtime: bool = False
) -> list[Array]:
    """The results of a model of fixed shapes on the emulated machine.

    runtime  whether the program has smelt's runtime, and a C library
    """
    need(machine)
    outputs = [np.zeros(t["shape"], t["dtype"]) for t in artifact.metadata["outputs"]]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made, _ = artifact.write(place / "net.o")
        needed = artifact.metadata["features"] if runtime else ()
        (place / "main.c").write_text(_main_of_model(artifact, inputs, outputs, needed))
        data = _executed(machine, place, made, runtime)
    return _results(data, [outputs])[0]


def _executed(machine: Machine, place: Path, made: Path, runtime: bool = False) -> bytes:
    """What a program writes: main.c in a folder, an object, and what is around them."""
    program = place / "program"
    if runtime:
        sources = [place / "main.c", HERE / "process.c", *sorted(NATIVE.glob("*.c"))]
        zig("cc", *_options(machine), "-std=c11", "-static", *sources, made, "-o", program)
    else:
        around = [HERE / machine.runtime, HERE / "host.c", HERE / "memory.c"]
        objects = [compiled(machine, source, place) for source in (place / "main.c", *around)]
        script = ("-T", HERE / machine.script) if machine.script else ()
        zig("ld.lld", *script, made, *objects, "-o", program)
    done = subprocess.run(
        [*machine.emulator, program], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, (done.returncode, done.stdout[:200], done.stderr.decode())
    return done.stdout


def _options(machine: Machine) -> tuple[str | Path, ...]:
    """Options of the C compiler."""
    where = ("-target", machine.triple, f"-mcpu={machine.cpu}", "-I", NATIVE)
    return (*where, "-O2", "-ffp-contract=off")


def compiled(machine: Machine, source: Path, folder: Path, *flags: str) -> Path:
    """The object of a C file (or, with -S, its assembly)."""
    made = folder / f"{source.stem}.{'s' if '-S' in flags else 'o'}"
    flags = flags or ("-c",)
    zig("cc", *_options(machine), *flags, source, "-o", made)
    return made


_START = """#include "smelt.h"
#include <math.h>
void put(const void *data, size_t bytes);
const smelt_host *host(void);
"""


def _main(kernels: Sequence[tuple[PrimFunc, Sequence[Array]]], hosted: bool) -> str:
    """A C program that runs the kernels one after another and writes all arrays."""
    lines, body = [_START], []
    for n, (func, args) in enumerate(kernels):
        kinds = [f"{_kind(a)} *" for a in args]
        before = ["const smelt_host *"] if hosted else []
        lines.append(f"int32_t {func.name}({', '.join([*before, *kinds])});")
        names = [f"a{n}_{k}" for k in range(len(args))]
        lines += [_array(name, a) for name, a in zip(names, args, strict=True)]
        given = ", ".join([*(["host()"] if hosted else []), *names])
        body.append(f"    if ({func.name}({given})) return {n + 1};")
        body += [f"    put({name}, sizeof {name});" for name in names]
    return "\n".join([*lines, "int run(void) {", *body, "    return 0;", "}", ""])


def _main_of_model(
    artifact: Artifact, inputs: Sequence[Array], outputs: Sequence[Array], needed: Sequence[str]
) -> str:
    """A C program that runs a model once and writes its results.

    needed  features that the runtime has to find
    """
    tensors = [f"t{k}" for k in range(len(inputs) + len(outputs))]
    lines = [_START, '#include "net.h"']
    lines += [_array(t, a) for t, a in zip(tensors, (*inputs, *outputs), strict=True)]
    scratch, name = int(artifact.metadata["workspace_bytes"]), artifact.name
    lines.append(f"static _Alignas(64) uint8_t workspace[{max(scratch, 1)}];")
    return "\n".join([
        *lines, "int run(void) {",
        *[f'    if (!smelt_cpu_has("{f}")) return {n};' for n, f in enumerate(needed, 2)],
        f"    void *tensors[] = {{{', '.join(tensors)}}};",
        f"    int status = {name}_entry((void *)host(), tensors, NULL, {name}_weights, workspace);",
        "    if (status) return 1;",
        *[f"    put({t}, sizeof {t});" for t in tensors[len(inputs):]],
        "    return 0;", "}", "",
    ])  # fmt: skip


def _kind(a: Array) -> str:
    return STORED[dt.from_numpy(a.dtype)]


def _array(name: str, a: Array) -> str:
    """The definition of an array in C."""
    values = ", ".join(_literal(v) for v in a.reshape(-1))
    return f"static {_kind(a)} {name}[] = {{{values}}};"


def _literal(value: Any) -> str:
    if isinstance(value, np.floating):
        return float(value).hex() + ("f" if value.dtype == np.float32 else "")
    return f"{int(value)}"


def _results(data: bytes, arrays: Sequence[Sequence[Array]]) -> list[list[Array]]:
    out, at = [], 0
    for args in arrays:
        own = []
        for a in args:
            own.append(np.frombuffer(data, a.dtype, a.size, at).reshape(a.shape))
            at += a.nbytes
        out.append(own)
    assert at == len(data)
    return out
