"""Other processors under emulation: whole models beside this machine's results, and how many
instructions the inner loops of products take. Parts of `python -m benchmarks.devices`.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from benchmarks import models
from benchmarks.report import Results, table
from smelt.artifact.kernel import scheduled
from smelt.codegen.llvm import resolve
from smelt.ir.options import Options
from smelt.stages import kernels_of
from smelt.target import Target
from tests.devices import cases
from tests.devices.cases import Case, Model, apart, chained
from tests.devices.crossed import MACHINES, Array, Runner
from tests.models.conv_nets import resnet18_small
from tests.models.image_nets import unet
from tests.models.language_nets import FULL, gru, lstm
from tests.models.net import Feeds, Net, floats, words

HERE = Path(__file__).resolve().parent
THREADS = 2


# ---- models ---------------------------------------------------------------------------------


def zoo(name: str) -> Case:
    """One of the zoo, in full size."""
    path = models.zoo(names=(name,)) / f"{name}.onnx"

    def inputs(_: Model) -> Sequence[Feeds]:
        with np.load(path.with_suffix(".inputs.npz")) as found:
            return [{n: found[n] for n in found.files}]

    return Case(lambda: path, inputs)


IDS = words("input_ids", 10000, 1, 64)
LARGE = {
    "MobileNetV2, 224": lambda: zoo("mobilenet_v2"),
    "ResNet-18, 224": lambda: zoo("resnet18"),
    "keywords (DS-CNN), float32": lambda: cases.trained("kws_f32", 1e-5),
    "keywords (DS-CNN), int8": lambda: cases.trained("kws_int8"),
    "CIFAR images (ResNet), int8": lambda: cases.trained("ic_int8"),
    "persons (MobileNet), int8": lambda: cases.trained("vww_int8"),
    "machine sounds, int8": lambda: cases.trained("ad_int8"),
    "BERT, 2 layers, any sizes": lambda: cases.CASES["bert, 2 layers"],
    "LSTM, 2 layers of 512": lambda: Case(
        lambda: lstm(1, **FULL["lstm"]), cases.given(IDS)
    ),
    "GRU, 2 layers of 512": lambda: Case(lambda: gru(1, **FULL["gru"]), cases.given(IDS)),
    "If": lambda: cases.CASES["branch"],
    "Loop": lambda: cases.CASES["loop"],
    "decoder in a Loop": lambda: cases.CASES["decoder in a loop"],
    "ResNet-18, any images": lambda: Case(
        lambda: cases.of_any_size(resnet18_small),
        cases.given(floats("input", 2, 3, 40, 40), floats("input", 1, 3, 56, 48)),
    ),
    "U-Net": lambda: Case(
        lambda: unet(1, image=96, width=16), cases.given(floats("x", 1, 3, 96, 96))
    ),
    "DeepLab (Resize)": lambda: cases.CASES["deeplab"],
    "MobileNet, float16": lambda: cases.CASES["float16"],
    "gated layers, weights of 4 bits": lambda: Case(
        lambda: cases.of_few_bits(512), cases.given(floats("x", 1, 512), floats("x", 7, 512))
    ),
    "GPT-2 with a cache, 3 words": lambda: Case(
        lambda: cases.decoder(256, 4, 4, 64, 1000), cases.turns, state=cases.caches(4)
    ),
}  # fmt: skip
QUICK = ("LSTM, 2 layers of 512", "keywords (DS-CNN), int8")


def run_here(case: Case, model: Model) -> tuple[Sequence[Feeds], cases.Results]:
    """Inputs of each run, and what they give on this machine."""
    feeds, exe = case.inputs(model), smelt.compile(model, threads=THREADS)

    def run(given: Feeds) -> list[Array]:
        return [np.asarray(r) for r in exe.run(None, given)]

    return feeds, chained(case, feeds, run)


def run_there(
    case: Case, model: Model, feeds: Sequence[Feeds], wanted: cases.Results, runner: Runner
) -> Results:
    """How far results lie apart on another machine, and what that took."""
    library = runner.path.parent / "model.so"
    start = time.perf_counter()
    try:
        artifact = smelt.compile_artifact(model, runner.machine.target, threads=THREADS)
        artifact.export_library(library)
        made = time.perf_counter()
        found = chained(case, feeds, lambda given: runner(library, given))
    except (AssertionError, pytest.skip.Exception, smelt.SmeltError) as error:
        # what the emulator said, or that it is known for it
        return {"error": str(error).partition("\n")[0][:200]}
    far = apart(found, wanted)
    return {"apart": far, "good": far <= case.bound, "compile_s": made - start,
            "run_s": time.perf_counter() - made}  # fmt: skip


def model_rows(quick: bool = False) -> list[Results]:
    """Every model on every machine."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        runners = {}
        for name, machine in MACHINES.items():
            place = Path(folder, name)
            place.mkdir()
            runners[name] = Runner(machine, place)
        for name in QUICK if quick else LARGE:
            case = LARGE[name]()
            model = case.make()
            if isinstance(model, Path) and not model.exists():
                print(f"{name}: {model} is missing (SMELT_MODELS)", flush=True)
                continue
            feeds, wanted = run_here(case, model)
            found = {m: run_there(case, model, feeds, wanted, r) for m, r in runners.items()}
            rows.append({"network": name, "bound": case.bound, "found": found})
            said = {m: f.get("apart", f.get("error")) for m, f in found.items()}
            print(f"{name}: {said}", flush=True)
    return rows


def cell(found: Results) -> str:
    """What came of a network on a machine."""
    if "error" in found:
        return "emulator"
    far = found.get("apart")
    text = "" if far is None else f"{far:.0e}" if far else "0"
    return text if found.get("good", True) else f"**{text}**"


def model_section(rows: Sequence[Results]) -> str:
    """The table of models and machines."""
    lines = [[r["network"], *[cell(r["found"].get(m, {})) for m in MACHINES]] for r in rows]
    note = (
        "The largest difference from this machine's results, in parts of the largest element of "
        "its result (0: equal to the last bit). Wanted: 1e-5; float16 2e-3, two steps of its "
        "numbers; models in bytes 0. Libraries with the runtime, run by smelt-run under QEMU; rvv: "
        "code for vectors of 128 bits on a machine with 256, rvv256: for 256. emulator: QEMU 7 "
        "ends with an assertion of its own (issue 1441, mended in QEMU 8)."
    )
    heading = "### Networks on other processors\n\n"
    return heading + table(["network", *MACHINES], lines) + "\n\n" + note


# ---- instructions ---------------------------------------------------------------------------


def product(rows: int, reduce: int, columns: int) -> tuple[onnx.ModelProto, Feeds]:
    """A matrix product in float32 with constant weights."""
    net = Net(1)
    y = net.op("MatMul", net.input("x", (rows, reduce)), net.normal((reduce, columns)))
    return net.model(y), floats("x", rows, reduce)


def product_of_bytes(rows: int, reduce: int, columns: int) -> tuple[onnx.ModelProto, Feeds]:
    """The same of signed bytes, added up in 32 bits."""
    net, random = Net(1), np.random.default_rng(0)
    x = net.input("x", (rows, reduce), np.int8)
    w = net.const(random.integers(-128, 128, (reduce, columns)), np.int8)
    given = {"x": random.integers(-128, 128, (rows, reduce)).astype(np.int8)}
    return net.model(net.op("MatMulInteger", x, w)), given


@dataclass(frozen=True)
class Kernel:
    """A product on a machine.

    adds   products that an instruction adds up
    steps  steps of the reduction that one load of a row's numbers serves
    """

    machine: str
    make: Callable[[int, int, int], tuple[onnx.ModelProto, Feeds]]
    adds: int
    steps: int


KERNELS = {
    "float32, FMLA of NEON": Kernel("aarch64", product, 4, 4),
    "float32, FMLA of NEON (Cortex-A76)": Kernel("dotprod", product, 4, 4),
    "int8, SDOT": Kernel("dotprod", product_of_bytes, 16, 4),
    "float32, VFMACC of 256 bits": Kernel("rvv256", product, 8, 1),
    "float32, VFMACC of 128 bits": Kernel("rvv128", product, 4, 1),
    "float32, VFMA of 32-bit NEON": Kernel("armv7", product, 4, 1),
}
SIZE = (128, 768, 768)
RUNS = (2, 4)


def counted(runner: Runner, library: Path, feeds: Feeds, plugin: Path) -> float:
    """Instructions of a run: those of some runs less those of fewer, on one thread."""
    ((name, x),) = feeds.items()
    file, out = library.with_name("x.npy"), library.with_name("executed.txt")
    np.save(file, x)
    machine, found = runner.machine, []
    for runs in RUNS:
        count = ["-plugin", plugin, "-d", "plugin", "-D", out]
        program = [runner.path, library, f"{name}={file}", "-n", str(runs), "-t", "1"]
        command = [*machine.emulator, *count, "-L", f"/usr/{machine.gnu}", *program]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        found.append(int(out.read_text()))
    return (found[1] - found[0]) / (RUNS[1] - RUNS[0])


def tile_of(model: onnx.ModelProto, target: str) -> tuple[int, int]:
    """Rows and vectors of the tile that was chosen for the only kernel."""
    options = Options(threads=1)
    (spec,) = kernels_of(model, None, resolve(Target(target)), None, options, "a product").values()
    rows, vectors = re.findall(r"\b(?:rows|vectors)=(\d+)", "; ".join(scheduled(spec).chosen))
    return int(rows), int(vectors)


def instruction_rows(quick: bool = False) -> list[Results]:
    """Every product."""
    rows, size = [], (32, 256, 256) if quick else SIZE
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        plugin = Path(folder, "instructions.so")
        source = HERE / "instructions.c"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", source, "-o", plugin], check=True)
        for name, k in KERNELS.items():
            machine = MACHINES[k.machine]
            model, feeds = k.make(*size)
            library = Path(folder, "model.so")
            smelt.compile_artifact(model, machine.target, threads=1).export_library(library)
            count = counted(Runner(machine, Path(folder)), library, feeds, plugin)
            tile = tile_of(model, machine.target)
            rows.append({"product": name, "rows": tile[0], "vectors": tile[1], "steps": k.steps,
                         "found": float(count / (np.prod(size) / k.adds))})  # fmt: skip
            print(name, rows[-1], flush=True)
    return rows


def ideal(rows: int, vectors: int, steps: int) -> float:
    """Instructions of a multiply-add of a tile, its loads included."""
    return 1 + (vectors + rows / steps) / (rows * vectors)


def instruction_section(rows: Sequence[Results]) -> str:
    """The table of products."""
    lines = []
    for r in rows:
        least = ideal(r["rows"], r["vectors"], r["steps"])
        lines.append([r["product"], f"{r['rows']} x {r['vectors']}", f"{r['found']:.3f}",
                      f"{least:.3f}", f"{r['found'] / least:.2f}"])  # fmt: skip
    heading = ["product", "tile", "instructions a multiply-add", "ideal", "ratio"]
    sizes = " x ".join(map(str, SIZE))
    note = (
        f"Executed instructions of a whole product of {sizes} on one thread, counted by a plugin "
        "of QEMU, over its vector multiply-adds. Ideal: a tile of r rows and v vectors needs r v "
        "multiply-adds, v loads of weights and r numbers of its rows in each step; where an "
        "instruction can multiply by one lane of a vector (64-bit Arm), one load has numbers for "
        "four steps. Nothing else is counted there: no loop, no address, no store. Wanted: 1.25."
    )
    return "### Instructions of inner loops\n\n" + table(heading, lines) + "\n\n" + note
