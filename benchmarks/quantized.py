"""Times quantized models and products of bytes: `python -m benchmarks.quantized [FOLDER]`.

Models of the zoo, calibrated by onnxruntime's tools (QDQ, uint8 activations, a scale for each
output channel), beside the same in float32 and beside onnxruntime; products of bytes beside what
the processor can do from registers. All run in one process and take turns.
"""

import ctypes
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import smelt
from benchmarks.control import time_rounds
from benchmarks.models import zoo
from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, Pace
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.cli.timing import Call
from smelt.codegen.llvm import ObjectCompiler, link_in_process, resolve
from smelt.target import Target, machine_of

PACE = Pace(4.0)
THREADS = (1, 2)
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "bert_base")
PRODUCTS = {
    f"product_{m}x{k}x{n}": (m, k, n)
    for m, k, n in ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (128, 768, 3072),
                    (128, 3072, 768), (196, 256, 1024))
}  # fmt: skip
CASES = (*MODELS, *PRODUCTS)
QUICK = ("mobilenet_v2", "product_256x256x256")
SIDES = ("smelt", "smelt_f32", "onnxruntime", "onnxruntime_f32")
SAMPLES, RANGES = 4, ("full", "7 bits")
"""Weights of 7 bits are what onnxruntime's tools advise for processors without dot products of
bytes: its kernels saturate there."""


class _Samples:
    """Normal numbers for a model, and its own inputs where these are integers."""

    def __init__(self, feeds: dict[str, Any]) -> None:
        self.feeds, self.left, self.rng = feeds, SAMPLES, np.random.default_rng(0)

    def get_next(self) -> dict[str, Any] | None:
        """The next sample; None behind the last."""
        self.left -= 1
        if self.left < 0:
            return None
        return {
            k: self.rng.normal(size=v.shape).astype(v.dtype) if v.dtype == np.float32 else v
            for k, v in self.feeds.items()
        }


def quantized(source: Path, narrow: bool) -> Path:
    """A model of the zoo as QDQ, beside it; narrow: with weights of 7 bits."""
    made = source.with_name(f"{source.stem}{'_7bits' * narrow}_int8.onnx")
    if not made.exists():
        prepared = source.with_suffix(".prepared")
        feeds = dict(np.load(source.with_suffix(".inputs.npz")))
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared), str(made), _Samples(feeds), quant_format=QuantFormat.QDQ,
            per_channel=True, reduce_range=narrow, activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )  # fmt: skip
        prepared.unlink()
    return made


def session(proto: str | bytes, threads: int) -> onnxruntime.InferenceSession:
    """onnxruntime's."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])


def time_model(source: Path, threads: int, narrow: bool, pace: Pace) -> Results:
    """The medians of a model in all of SIDES, and how far results lie apart."""
    feeds = dict(np.load(source.with_suffix(".inputs.npz")))
    calls: list[Call] = []
    results: list[np.ndarray[Any, Any]] = []
    path = quantized(source, narrow)
    for p in (path, source):
        exe = smelt.compile(str(p), threads=threads)
        results.append(np.asarray(exe.run(None, feeds)[0]))
        calls.append(partial(exe.run, None, feeds))
    for p in (path, source):
        peer = session(str(p), threads)
        results.append(np.asarray(peer.run(None, feeds)[0]))
        calls.append(partial(peer.run, None, feeds))
    foreign = Foreign()
    found: Results = dict(zip(SIDES, time_rounds(calls, pace), strict=True))
    largest = float(np.abs(results[3]).max())
    apart = [float(np.abs(r - results[3]).max()) / largest for r in (results[0], results[2])]
    both = float(np.abs(results[0] - results[2]).max()) / largest
    return {**found, "from_f32": apart, "apart": both, "foreign_cores": foreign.cores()}


# ------------------------------------------------------------------------------------- products


def limit_text(target: Target) -> tuple[str, int]:
    """LLVM text of `limit(i64 turns, ptr total)`, and the operations of a turn: sums in registers
    that the widest instruction for bytes adds to, each turn to all of them."""
    machine = machine_of(target)
    chains, lanes = machine.vector_registers * 3 // 4, machine.lanes(4)
    vector, words = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    dot, pairs = "", ""
    if "avx512vnni" in machine.dot or "avxvnni" in machine.dot:
        dot = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    else:
        pairs = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd"}.get(
            lanes, "llvm.x86.avx512.pmaddw.d.512"
        )
    sums = [f"%sum{n}" for n in range(chains)]
    lines = ["define void @limit(i64 %turns, ptr %total) {", "entry:", "br label %loop", "loop:"]
    lines += ["%turn = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    lines += [f"{s} = phi {vector} [ splat (i32 {n}), %entry ], [ {s}.n, %loop ]"
              for n, s in enumerate(sums)]  # fmt: skip
    for s in sums:
        if dot:
            lines += [f"{s}.n = call {vector} @{dot}({vector} {s}, {vector} {s}, {vector} {s})"]
        else:
            lines += [f"{s}.w = bitcast {vector} {s} to {words}"]
            lines += [f"{s}.p = call {vector} @{pairs}({words} {s}.w, {words} splat (i16 3))"]
            lines += [f"{s}.n = add {vector} {s}.p, {s}"]
    lines += ["%next = add i64 %turn, 1", "%more = icmp slt i64 %next, %turns"]
    lines += ["br i1 %more, label %loop, label %end", "end:"]
    last = f"{sums[0]}.n"
    for n, s in enumerate(sums[1:]):
        lines += [f"%all{n} = add {vector} {last}, {s}.n"]
        last = f"%all{n}"
    lines += [f"store {vector} {last}, ptr %total, align 4", "ret void", "}"]
    kind = f"{vector}, {vector}, {vector}" if dot else f"{words}, {words}"
    lines += [f"declare {vector} @{dot or pairs}({kind})"]
    return "\n".join(lines), chains * lanes * (8 if dot else 4)


def limit() -> tuple[Callable[[], object], float]:
    """A call that does as many operations as it can, and how many these are."""
    target = resolve(Target("llvm -mcpu=native"))
    text, each = limit_text(target)
    code = ObjectCompiler(target).object(text, "limit")
    addresses, keep = link_in_process([code], ["limit"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(addresses["limit"])
    total, turns = np.zeros(64, np.int32), 20_000
    return lambda: (run(turns, total.ctypes.data), keep)[0], float(each * turns)


def matrix_product(m: int, k: int, n: int) -> onnx.ModelProto:
    """MatMulInteger of uint8 with a constant int8 matrix."""
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.integers(-127, 128, (k, n)).astype(np.int8), "w")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, (m, k))
    y = helper.make_tensor_value_info("y", TensorProto.INT32, (m, n))
    graph = helper.make_graph([node], "product", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)


def time_product(name: str, pace: Pace) -> Results:
    """Operations a second of a product in both, and of the processor's instruction alone."""
    m, k, n = PRODUCTS[name]
    proto, rng = matrix_product(m, k, n), np.random.default_rng(1)
    x = rng.integers(0, 256, (m, k)).astype(np.uint8)
    exe, peer = smelt.compile(proto, threads=1), session(proto.SerializeToString(), 1)
    most, operations = limit()
    calls: list[Call] = [lambda: exe(x), lambda: peer.run(None, {"x": x}), most]
    foreign = Foreign()
    ours, theirs, alone = (t["median_ms"] for t in time_rounds(calls, pace))
    work = 2.0 * m * k * n
    rates = {"smelt": work / ours, "onnxruntime": work / theirs, "limit": operations / alone}
    return {k: v / 1e6 for k, v in rates.items()} | {"foreign_cores": foreign.cores()}


# ----------------------------------------------------------------------------------- the results


def measure(
    folder: Path, names: Collection[str] = CASES, quick: bool = False,
    say: Callable[[str], object] = print,
) -> Results:  # fmt: skip
    """Some cases, by default all."""
    rows, products = [], []
    pace = ["quick"] * quick
    for name in names:
        if name in PRODUCTS:
            row = worker("benchmarks.quantized", name, *pace, threads=1)
            products.append({"case": name, **row})
            say(f"{name}: {row}")
            continue
        source = zoo(folder, [name]) / f"{name}.onnx"
        for kind in RANGES[: 1 if quick else None]:
            for threads in THREADS[: 1 if quick else None]:
                given = (str(source), str(threads), kind)
                row = worker("benchmarks.quantized", name, *given, *pace, threads=threads)
                rows.append({"model": name, "weights": kind, "threads": threads, **row})
                say(f"{name} {kind} {threads}: {row.get('error') or row['smelt']['median_ms']}")
    return {"rows": rows, "products": products}


def section(results: Results) -> str:
    """The results as markdown."""
    lines, errors, products = [], [], []
    for r in results["rows"]:
        where = f"{r['model']}, {r['weights']}, {r['threads']}"
        if "smelt" not in r:
            errors.append(f"{where}: {r['error']}.")
            continue
        ms = [r[side]["median_ms"] for side in SIDES]
        noise = " ~" if r["foreign_cores"] > NOISY else ""
        away = [f"{100 * v:.1f} %" for v in (*r["from_f32"], r["apart"])]
        lines.append([where + noise, *(f"{v:.2f}" for v in ms), f"{ms[1] / ms[0]:.2f}",
                      f"{ms[2] / ms[0]:.2f}", *away])  # fmt: skip
    for r in results["products"]:
        if "smelt" not in r:
            errors.append(f"{r['case']}: {r['error']}.")
            continue
        noise = " ~" if r["foreign_cores"] > NOISY else ""
        rates = [r[k] for k in ("smelt", "onnxruntime", "limit")]
        products.append([r["case"].removeprefix("product_") + noise, *(f"{v:.0f}" for v in rates),
                         f"{100 * rates[0] / rates[2]:.0f} %"])  # fmt: skip
    heads = ["model, weights, threads", "int8, ms", "float32, ms", "onnxruntime int8, ms",
             "float32, ms", "float32 / int8", "onnxruntime / smelt", "smelt from float32",
             "onnxruntime from float32", "apart"]  # fmt: skip
    note = (
        "Models of the zoo as QDQ, quantized by onnxruntime's tools on random samples; 7 bits: "
        "with weights between -64 and 64. On processors without dot products of bytes onnxruntime "
        "adds pairs of products in 16 bits, which saturates with larger weights; smelt does not. "
        "Differences are the largest ones, in percent of the largest result; random weights and "
        "samples make them larger than those of trained models. ~: other work disturbed the row."
    )
    more = (
        "Products of uint8 and constant int8 matrices, m x k x n, in billions of operations a "
        "second on one core; a multiply-add counts two. The limit is the processor's instruction "
        "for bytes, or for pairs of words and an addition, from registers alone."
    )
    heads_2 = ["product", "smelt", "onnxruntime", "limit", "share"]
    return "\n\n".join([table(heads, lines), note, table(heads_2, products), more, *errors])


def _work(name: str, given: Sequence[str]) -> Results:
    pace = QUICKLY if "quick" in given else PACE
    if name in PRODUCTS:
        return time_product(name, pace)
    return time_model(Path(given[0]), int(given[1]), given[2] != RANGES[0], pace)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(_work(sys.argv[2], sys.argv[3:]))
    else:
        asked = arguments(__doc__, CASES)
        folder = Path(asked.folder) if asked.folder else Path("build/zoo")
        found = measure(folder, asked.only or (QUICK if asked.quick else CASES), asked.quick)
        report("quantized", asked, found, section(found))
