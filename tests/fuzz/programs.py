"""Random tensor programs: what the interpreter says, what LLVM makes of them, and what C does.

A seed gives a program: flat, or of blocks that are lowered; as it is, or with its products and sums
joined where the compiler joins them (then all three round once). Programs are compiled in batches.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from smelt.codegen.c import c_source
from smelt.codegen.llvm import link_in_process
from smelt.codegen.llvm_text import emit_module
from smelt.lowering.blocks import lower_blocks
from smelt.lowering.finish import finish
from smelt.lowering.flatten import flatten_buffers
from smelt.lowering.legalize import legalize_narrow
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.verify import verify
from tests.codegen_c.build import FLAGS
from tests.codegen_llvm.build import FORWARDS, Host, compiler, same
from tests.tir_text.generate import Maker, arguments, program

__all__ = ["Drawn", "draw", "judge", "run"]

BATCH = 25
"""Programs compiled together."""


class Seeded(Maker):
    """A maker that draws from a seed instead of from hypothesis."""

    def __init__(self, seed: int) -> None:
        super().__init__(None, vectors=True)  # type: ignore[arg-type]
        self.random = random.Random(seed)

    def pick(self, items: Any) -> Any:
        return self.random.choice(items)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class Drawn:
    """A program as it was drawn, as it is compiled, and its arguments."""

    def __init__(self, seed: int) -> None:
        maker = Seeded(seed)
        self.seed, self.joined = seed, bool(maker.number(0, 1))
        self.func = program(maker, name=f"random_{seed}")
        verify(self.func)
        self.low = flatten_buffers(lower_blocks(self.func))
        if self.joined:
            self.low = finish(self.low)

    def arguments(self) -> list[Any]:
        return arguments(self.func, self.seed)

    def interpreted(self) -> list[Any]:
        """What comes out: of the program itself, unless its roundings have changed."""
        out = self.arguments()
        flat = [a.reshape(-1) for a in out] if self.joined else out
        with np.errstate(all="ignore"):
            interpret(self.low if self.joined else self.func, *flat)
        return out


def draw(seed: int) -> PrimFunc:
    """The program of a seed."""
    return Drawn(seed).func


def _native(batch: Sequence[Drawn]) -> list[list[Any]]:
    names = [d.low.name for d in batch]
    code = compiler().object(emit_module([legalize_narrow(d.low) for d in batch]), names[0])
    addresses, keep = link_in_process([code], names)
    host = ctypes.byref(Host(None, FORWARDS, None, None))
    found = []
    for d in batch:
        out = d.arguments()
        _call(ctypes.CFUNCTYPE(ctypes.c_int32)(addresses[d.low.name]), [host], out)
        found.append(out)
    del keep
    return found


def _in_c(batch: Sequence[Drawn]) -> list[list[Any]]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file, library = Path(folder, "programs.c"), Path(folder, "programs.so")
        file.write_text(c_source([d.low for d in batch]))
        command = ["gcc", *FLAGS, str(file), "-o", str(library), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        loaded = ctypes.CDLL(str(library))
        for d in batch:
            out = d.arguments()
            _call(getattr(loaded, d.low.name), [], out)
            found.append(out)
    return found


def _call(entry: Any, first: list[Any], arrays: list[Any]) -> None:
    entry.restype, entry.argtypes = ctypes.c_int32, None
    status = entry(*first, *[ctypes.c_void_p(a.ctypes.data) for a in arrays])
    assert status == 0, f"status {status}"


def _agree(found: list[Any], expected: list[Any]) -> bool:
    try:
        same(found, expected, signs=False)
    except AssertionError:
        return False
    return True


def judge(seeds: Sequence[int]) -> dict[int, str]:
    """What is wrong with the programs of some seeds: nothing, where all three agree."""
    wrong: dict[int, str] = {}
    batch = []
    for seed in seeds:
        try:
            batch.append(Drawn(seed))
        except Exception as e:  # the generator promises valid programs: any error is a failure
            wrong[seed] = f"not compiled: {type(e).__name__}: {e}"
    try:
        ways = {"LLVM": _native(batch), "C": _in_c(batch)}
    except Exception as e:
        if len(seeds) == 1:
            return {seeds[0]: f"not compiled: {type(e).__name__}: {e}"}
        return {k: v for s in seeds for k, v in judge([s]).items()}
    for i, d in enumerate(batch):
        try:
            expected = d.interpreted()
            differs = [way for way, found in ways.items() if not _agree(found[i], expected)]
            if differs:
                raise AssertionError(f"{' and '.join(differs)} differ from the interpreter")
        except Exception as e:
            wrong[d.seed] = f"{type(e).__name__}: {e}\n{script(d.func)}"
    return wrong


def run(first: int, count: int, workers: int, found: Path) -> int:
    """Judge `count` programs, write those that fail to the folder `found`; 1 where any did."""
    end = first + count
    batches = [range(s, min(s + BATCH, end)) for s in range(first, end, BATCH)]
    wrong = 0
    columns = TextColumn("{task.completed} programs, {task.fields[wrong]} wrong"), BarColumn()
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        Progress(*columns, TimeRemainingColumn()) as progress,
    ):
        task = progress.add_task("", total=count, wrong=0)
        for batch, failures in zip(batches, pool.map(judge, batches), strict=True):
            for seed, text in failures.items():
                found.mkdir(parents=True, exist_ok=True)
                file = found / f"{seed}.txt"
                file.write_text(text)
                progress.print(f"seed {seed}: {text.splitlines()[0]}: {file}", markup=False)
            wrong += len(failures)
            progress.update(task, advance=len(batch), wrong=wrong)
    return 1 if wrong else 0
