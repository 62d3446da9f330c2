"""Other machines: cross compilers make libraries and programs for them, qemu runs these."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.runtime.linking import export_runner

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CrossMachine:
    """A machine that the cross compiler of gcc makes code for.

    gnu       what its commands, and its folder of system libraries, are called
    emulator  the command, and the processor that it emulates
    target    of smelt
    """

    gnu: str
    emulator: tuple[str, ...]
    target: str

    @property
    def triple(self) -> str:
        """The target's triple."""
        return self.target.partition("-mtriple=")[2].split()[0]

    def need(self) -> None:
        """Skip the test, naming what is missing; `make setup-edge` installs it."""
        for command in (f"{self.gnu}-gcc", self.emulator[0]):
            if shutil.which(command) is None:
                pytest.skip(f"{command} is missing: make setup-edge")

    def run(self, command: Sequence[str | Path], code: int = 0) -> str:
        """What a program prints; where it fails as it should, what it says of it."""
        done = subprocess.run(
            [*self.emulator, *map(str, command)],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if "decode_save_opc" in done.stderr:
            pytest.skip("this qemu (7.2) cannot run vfcvt at the start of a page")
        assert done.returncode == code, (done.returncode, done.stdout[:500], done.stderr[:2000])
        return done.stderr if code else done.stdout


def _arm(cpu: str, emulated: str = "") -> CrossMachine:
    """A processor of 64 bits."""
    target = f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}"
    return CrossMachine("aarch64-linux-gnu", ("qemu-aarch64", "-cpu", emulated or cpu), target)


def _riscv(vectors: int = 0, more: str = "") -> CrossMachine:
    """One of 64 bits, with vectors of so many bits, if any."""
    length = f",v=true,vlen={vectors},vext_spec=v1.0" if vectors else ""
    features = "+m,+a,+f,+d,+c" + ",+v" * bool(vectors) + more
    return CrossMachine(
        "riscv64-linux-gnu",
        ("qemu-riscv64", "-cpu", f"rv64{length}"),
        f"llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mabi=lp64d -mattr={features}",
    )


CROSS = {
    "aarch64": _arm("cortex-a72"),
    "dotprod": _arm("cortex-a76"),
    "armv7": CrossMachine(
        "arm-linux-gnueabihf",
        ("qemu-arm", "-cpu", "cortex-a15"),
        "llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a15 -mattr=+neon",
    ),
    "riscv64": _riscv(),
    "rvv": _riscv(256),
}
MACHINES = CROSS | {
    "i8mm": _arm("neoverse-n2", "max"),
    "sve": _arm("neoverse-v1", "max,sve256=on"),
    "a64fx": _arm("a64fx"),
    "rvv128": _riscv(128),
    "rvv256": _riscv(256, ",+zvl256b"),
}
"""More of them: processors with SVE, vectors of RISC-V that are shorter than a register, and that
are whole ones."""


class Runner:
    """The program smelt-run for a machine."""

    def __init__(self, machine: CrossMachine, folder: Path) -> None:
        self.machine, self.path = machine, folder / "smelt-run"
        export_runner(self.path, machine.triple)

    def __call__(self, library: Path, inputs: Mapping[str, Array], *flags: str) -> list[Array]:
        """The results of a library, in the order in which it names them."""
        folder = library.parent / "out"
        folder.mkdir(exist_ok=True)
        files = []
        for n, (name, array) in enumerate(inputs.items()):
            np.save(folder / f"input{n}.npy", array)
            files.append(f"{name}={folder / f'input{n}.npy'}")
        said = self.machine.run([self.path, library, *files, "-o", folder, *flags])
        return [np.load(line.removeprefix("written to ")) for line in said.splitlines()
                if line.startswith("written to ")]  # fmt: skip
