"""Boards that QEMU emulates: models as C, compiled by zig without a C library, run on them."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.codegen.c_helpers import STORED
from smelt.micro import CSource

HERE = Path(__file__).parent
_TICK = 40
"""Instructions between two ticks of the board's timer."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Board:
    """A board of QEMU's, and the processor in the words of zig and of smelt."""

    name: str
    cpu: str
    target: str


BOARDS = {
    "m4": Board("mps2-an386", "cortex_m4+vfp4d16sp", "c -mcpu=cortex-m4"),
    "m7": Board("mps2-an500", "cortex_m7", "c -mcpu=cortex-m7"),
}


def need_boards() -> None:
    """Skip the test, naming what is missing."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is missing: make setup-edge")
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is missing: make setup-edge")


def main_text(model: CSource, inputs: Sequence[Array], outputs: Sequence[Array]) -> str:
    """A program that runs a model once, and prints the instructions and the results' words."""
    fields = [[t.name for t in tensors] for tensors in (model.inputs, model.outputs)]
    arrays, given = "", []
    for name, values in zip([*fields[0], *fields[1]], [*inputs, *outputs], strict=True):
        kind, data = STORED[str(values.dtype)], ", ".join(map(str, values.reshape(-1).tolist()))
        arrays += f"static {kind} array_{name}[{values.size}] = {{{data}}};\n"
        given.append(f".{name} = array_{name}")
    words = "".join([
        f"    for (uint32_t i = 0; i < sizeof array_{n}; i++)"
        f" put_number((uint32_t)((const uint8_t *)array_{n})[i]);\n" for n in fields[1]
    ])  # fmt: skip
    upper, count = model.name.upper(), len(inputs)
    return f"""#include "net.h"
void put_number(uint32_t value);
uint32_t ticks(void);
{arrays}
static union {{ uint8_t bytes[{upper}_WORKSPACE_BYTES + 1]; int64_t wide; }} space;
int main(void) {{
    const struct {model.name}_inputs inputs = {{{", ".join(given[:count])}}};
    const struct {model.name}_outputs outputs = {{{", ".join(given[count:])}}};
    const uint32_t start = ticks();
    const int32_t status = {model.name}_run(&inputs, &outputs, &space);
    put_number((ticks() - start) & 0xFFFFFFu);
{words}    return status;
}}
"""


def build(
    model: CSource, board: Board, folder: Path, inputs: Sequence[Array], outputs: Sequence[Array],
    level: str = "-O3", more: Sequence[str] = (),
) -> Path:  # fmt: skip
    """The program for a board; more: further arguments of the compiler."""
    model.save(folder / "net.c")
    (folder / "main.c").write_text(main_text(model, inputs, outputs))
    command = [
        sys.executable, "-m", "ziglang", "cc", "-target", "thumb-freestanding-eabihf",
        f"-mcpu={board.cpu}", level, "-std=c11", "-fno-sanitize=all", "-ffunction-sections",
        "-Wall", "-Wextra", "-Werror", "-Wl,--gc-sections", "-isystem", str(HERE / "include"),
        "-T", str(HERE / "board.ld"), str(HERE / "startup.c"), "main.c", "net.c", *more,
        "-o", "net.elf",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / "net.elf"


def run(program: Path, board: Board, outputs: Sequence[Array]) -> int:
    """Run a program; its results are written into `outputs`. Gives the instructions of the run."""
    command = ["qemu-system-arm", "-M", board.name, "-kernel", str(program), "-nographic",
               "-semihosting", "-icount", "shift=0", "-monitor", "none",
               "-serial", "stdio"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stdout[:300], done.stderr[:300])
    count, *words = [int(w, 16) for w in done.stdout.split()]
    data = np.array(words, np.uint8).tobytes()
    for values in outputs:
        values[...] = np.frombuffer(data[: values.nbytes], values.dtype).reshape(values.shape)
        data = data[values.nbytes :]
    assert not data
    return count * _TICK
