"""From a TFLite file to commands for Ethos-U, by Arm's compiler vela as a process of its own."""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from smelt.frontend.tflite import load
from smelt.frontend.tflite.read import ModelFile
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.runtime.linking import c_name

from .emit import Block, EthosUTensor
from .model import Estimate, EthosU

ACCELERATORS = (
    "ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256",
    "ethos-u65-512", "ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024",
    "ethos-u85-2048",
)  # fmt: skip
"""The accelerators by name: the last number is of products in one cycle."""

NPU = "ethos-u"
"""The operator that stands in an optimised model for what the processor computes."""


def vela_command() -> list[str]:
    """What starts vela. Raises CompileError where it is not there."""
    if importlib.util.find_spec("ethosu") is not None:
        return [sys.executable, "-m", "ethosu.vela"]
    found = shutil.which("vela")
    if found is None:
        raise CompileError("code for Ethos-U is made by Arm's compiler vela, which is not there: "
                           "pip install 'smelt[ethos-u]'")  # fmt: skip
    return [found]


def compile_for_ethosu(
    path: str | os.PathLike[str],
    accelerator: str = "ethos-u55-128",
    *,
    memory_mode: str | None = None,
    system_config: str | None = None,
    name: str = "",
    timeout: float = 300,
) -> EthosU:
    """A TFLite model of 8 or 16 bits for Ethos-U. It is compiled, and not run.

    memory_mode, system_config  as vela's configuration calls them; None: what vela takes
    name     what C functions and files begin with; "": the file's name
    timeout  seconds that vela may take

    Raises ImportFailure for a file that is no TFLite model, and CompileError where vela is not
    there, fails, or finds nothing in the model that the accelerator computes.
    """
    if accelerator not in ACCELERATORS:
        raise CompileError(f"accelerator is {accelerator!r}; legal: {', '.join(ACCELERATORS)}")
    if not timeout > 0:
        raise CompileError(f"timeout is {timeout!r}; legal: seconds above 0")
    model, vela = load(path), vela_command()
    given = {"accelerator-config": accelerator, "memory-mode": memory_mode,
             "system-config": system_config}  # fmt: skip
    command = [*vela, *[f"--{k}={v}" for k, v in given.items() if v is not None]]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "model.tflite")
        source.write_bytes(Path(path).read_bytes())
        _run([*command, "--output-dir", folder, str(source)], folder, timeout, model.name)
        content = Path(folder, "model_vela.tflite").read_bytes()
        made = load(content, f"what vela made of {model.name}")
        estimate = _estimate(Path(folder))
        npu, cpu = _sides(model, made)
        if not npu:
            raise CompileError(_none(model, accelerator))
        blocks = _blocks(made)
        ends: list[tuple[EthosUTensor, ...]] = [(), ()]
        if not cpu and len(blocks) == 1:
            raw = ["--output-format", "raw", "--output-dir", folder, str(source)]
            _run([*command, *raw], folder, timeout, model.name)
            with np.load(Path(folder, "model_vela.npz")) as data:
                blocks = (_raw_block(data),)
                ends = [_tensors(model, data, kind) for kind in ("input", "output")]
    own = c_name(name or Path(path).stem)
    return EthosU(own, accelerator, content, npu, cpu, blocks, ends[0], ends[1], estimate)


def _run(command: Sequence[str], folder: str, timeout: float, model: str) -> None:
    """Run vela. Raises CompileError with what it said last where it fails."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              timeout=timeout, stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompileError(f"{model}: vela took longer than timeout={timeout:g} seconds") from None
    except OSError as e:
        raise CompileError(f"{model}: vela cannot be started: {command[0]}: {e.strerror}") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        known = [line for line in said if "rror" in line] or said
        raise CompileError(f"{model}: vela failed: {(known or ['it said nothing'])[-1].strip()}")


def _sides(model: ModelFile, made: ModelFile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators of a model that the processor computes, and those that it does not."""
    cpu = tuple([s.op for s in made.graph.steps if s.op != NPU])
    left = list(cpu)
    npu = []
    for s in model.graph.steps:
        if s.op in left:
            left.remove(s.op)
        else:
            npu.append(s.op)
    return (tuple(npu) if len(cpu) < len(made.graph.steps) else ()), cpu


def _none(model: ModelFile, accelerator: str) -> str:
    """Why nothing of a model runs on the processor."""
    floats = sorted({t.dtype for t in model.tensors.values() if dt.is_float(t.dtype)})
    why = f"its tensors are {', '.join(floats)}; " if floats else ""
    return (
        f"{model.name} has no operator that {accelerator} computes: {why}it takes numbers of 8 or "
        "16 bits with scales, as TFLite's converter makes them with full integer quantization"
    )


def _blocks(made: ModelFile) -> tuple[Block, ...]:
    """What an optimised model holds for the processor."""
    blocks = []
    for s in made.graph.steps:
        if s.op == NPU:
            commands, weights, scratch, fast = s.inputs[:4]
            held = made.graph.arrays
            sizes = [int(np.prod(made.tensors[n].shape)) for n in (scratch, fast)]
            blocks.append(Block(held[commands].tobytes(), held[weights].tobytes(), sizes[0],
                                0 if fast == scratch else sizes[1]))  # fmt: skip
    return tuple(blocks)


def _raw_block(data: Mapping[str, np.ndarray]) -> Block:
    """The same, for the driver."""
    commands, weights = [data[f"{n}_data"].tobytes() for n in ("cmd", "weight")]
    return Block(commands, weights, int(data["scratch_size"]), int(data["scratch_fast_size"]))


def _tensors(
    model: ModelFile, data: Mapping[str, np.ndarray], kind: str
) -> tuple[EthosUTensor, ...]:
    """Where the driver's inputs, or outputs, stand."""
    names = [i.name for i in model.graph.inputs] if kind == "input" else model.graph.outputs
    found = []
    for n, name in enumerate(names):
        t = model.tensors[name]
        size = int(np.prod(data[f"{kind}_shape"][n]) * data[f"{kind}_elem_size"][n])
        shape = tuple([max(1, e) for e in t.shape])
        at = [int(data[f"{kind}_{what}"][n]) for what in ("region", "offset")]
        found.append(EthosUTensor(name, t.dtype, shape, size, *at))
    return tuple(found)


def _estimate(folder: Path) -> Estimate:
    """What vela says of a run."""
    [table] = folder.glob("model_summary_*.csv")
    with table.open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    kib = {m: float(row[f"{m}_memory_used"]) * 1024 for m in
           ("sram", "dram", "on_chip_flash", "off_chip_flash")}  # fmt: skip
    flash = kib["dram"] + kib["on_chip_flash"] + kib["off_chip_flash"]
    return Estimate(float(row["inference_time"]), int(row["cycles_total"]), int(row["nn_macs"]),
                    round(kib["sram"]), round(flash))  # fmt: skip
