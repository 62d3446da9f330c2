"""Times weights of few bits: `python -m benchmarks.weight_only`.

A token of a decoder of the Llama kind, whose weights are more than any cache holds: with weights in
float32, in 4 bits and in 8 bits in blocks of 32 (onnxruntime's MatMulNBits), beside onnxruntime and
beside what the memory gives. All run in one process and take turns.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import smelt
from benchmarks.control import time_rounds
from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, Pace
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.cli.timing import Call
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import Peak
from smelt.target import Target, machine_of

PACE = Pace(6.0)
THREADS = (1, 2)
HIDDEN, INNER, HEADS, WORDS, PAST, BLOCK = 2048, 5504, 16, 16000, 64, 32
LAYERS = 4
ROWS = {"token": 1, "prompt": 64}
CASES = {f"{kind}, {name}": (kind, rows) for name, rows in ROWS.items()
         for kind in ("4 bits", "4 bits in bytes", "8 bits")}  # fmt: skip
LEVELS = {"4 bits": (1, 4), "4 bits in bytes": (4,), "8 bits": (1,)}
"""onnxruntime's accuracy_level: activations in float32, in 8 bits; smelt's is the first one."""

Array = np.ndarray[Any, Any]


def quantized(w: Array, bits: int) -> tuple[Array, Array]:
    """A matrix [k, n] as MatMulNBits has it: packed [n, blocks, bytes], scales [n, blocks]."""
    k, n = w.shape
    blocks = w.T.reshape(n, k // BLOCK, BLOCK)
    middle = 1 << (bits - 1)
    scale = (np.abs(blocks).max(axis=2) / (middle - 1)).astype(np.float32)
    whole = np.rint(blocks / scale[:, :, None]) + middle
    found = np.clip(whole, 0, 2 * middle - 1).astype(np.uint8)
    return (found if bits == 8 else found[:, :, ::2] | found[:, :, 1::2] << 4), scale


class Decoder:
    """The nodes and constants of a model, one after another.

    bits   of the weights; 32: floats
    level  MatMulNBits' accuracy_level
    """

    def __init__(self, bits: int, level: int) -> None:
        self.bits, self.level = bits, level
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)

    def constant(self, value: Array | np.float32) -> str:
        """A constant's name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, op: str, *operands: str, domain: str = "", **attrs: Any) -> str:
        """A node's result."""
        name = f"v{len(self.nodes)}"
        made = helper.make_node(op, operands, [name], name=name, domain=domain, **attrs)
        self.nodes.append(made)
        return name

    def product(self, x: str, k: int, n: int) -> str:
        """x times a matrix of weights."""
        w = (self.rng.standard_normal((k, n), np.float32) / k**0.5).astype(np.float32)
        if self.bits == 32:
            return self("MatMul", x, self.constant(w))
        packed, scale = map(self.constant, quantized(w, self.bits))
        return self("MatMulNBits", x, packed, scale, domain="com.microsoft", K=k, N=n,
                    bits=self.bits, block_size=BLOCK, accuracy_level=self.level)  # fmt: skip

    def normed(self, x: str) -> str:
        """Each row over the root of its mean square."""
        two, least = self.constant(np.float32(2)), self.constant(np.float32(1e-5))
        mean = self("ReduceMean", self("Pow", x, two), self.constant(np.array([-1])))
        return self("Div", x, self("Sqrt", self("Add", mean, least)))

    def attention(self, x: str, rows: int, layer: int) -> str:
        """Rows that look at those before them, which are inputs."""
        depth = HIDDEN // HEADS
        shape = self.constant(np.array([1, rows, HEADS, depth]))
        q, k, v = [self("Transpose", self("Reshape", self.product(x, HIDDEN, HIDDEN), shape),
                        perm=[0, 2, 1, 3]) for _ in range(3)]  # fmt: skip
        keys, seen = [self("Concat", f"{name}{layer}", new, axis=2)
                      for name, new in (("keys", k), ("values", v))]  # fmt: skip
        scale = self.constant(np.float32(depth**-0.5))
        scores = self("MatMul", self("Mul", q, scale), self("Transpose", keys, perm=[0, 1, 3, 2]))
        y = self("Transpose", self("MatMul", self("Softmax", scores), seen), perm=[0, 2, 1, 3])
        flat = self("Reshape", y, self.constant(np.array([1, rows, HIDDEN])))
        return self.product(flat, HIDDEN, HIDDEN)

    def layer(self, x: str, rows: int, layer: int) -> str:
        """Attention, then a gated layer."""
        x = self("Add", x, self.attention(self.normed(x), rows, layer))
        y = self.normed(x)
        gate, up = [self.product(y, HIDDEN, INNER) for _ in range(2)]
        inner = self("Mul", self("Mul", gate, self("Sigmoid", gate)), up)
        return self("Add", x, self.product(inner, INNER, HIDDEN))


def decoder(bits: int, rows: int, layers: int = LAYERS, level: int = 1) -> onnx.ModelProto:
    """Rows of embedded words to scores of the next word, behind some that were seen before."""
    g, x = Decoder(bits, level), "x"
    for n in range(layers):
        x = g.layer(x, rows, n)
    y = g.product(g.normed(x), HIDDEN, WORDS)
    value = helper.make_tensor_value_info
    past = (1, HEADS, PAST, HIDDEN // HEADS)
    names = [f"{name}{n}" for n in range(layers) for name in ("keys", "values")]
    inputs = [value("x", TensorProto.FLOAT, (1, rows, HIDDEN))]
    inputs += [value(name, TensorProto.FLOAT, past) for name in names]
    outputs = [value(y, TensorProto.FLOAT, (1, rows, WORDS))]
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def inputs_of(rows: int, layers: int = LAYERS) -> dict[str, Array]:
    """Random words and what was seen before."""
    rng, past = np.random.default_rng(1), (1, HEADS, PAST, HIDDEN // HEADS)
    found = {"x": rng.standard_normal((1, rows, HIDDEN), np.float32)}
    for n in range(layers):
        found |= {f"{name}{n}": rng.standard_normal(past, np.float32)
                  for name in ("keys", "values")}  # fmt: skip
    return found


def weight_bytes(bits: int, layers: int = LAYERS) -> float:
    """What a token reads of weights, scales in float32 included."""
    numbers = layers * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER) + HIDDEN * WORDS
    return numbers * (4.0 if bits == 32 else bits / 8 + 4 / BLOCK)


def session(proto: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    """onnxruntime's."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def memory(threads: int) -> float:
    """Bytes a second that some threads read."""
    target = resolve(Target("llvm -mcpu=native"))
    machine = machine_of(target)
    size = max([1 << 28, *[4 * c.size for c in machine.caches]])
    return Peak(threads, target, machine).gigabytes(size) * 1e9


def time_case(kind: str, rows: int, threads: int, layers: int, pace: Pace) -> Results:
    """The medians of a case beside float32, in both, and how far results lie apart."""
    bits, feeds = int(kind.split()[0]), inputs_of(rows, layers)
    sides = ["smelt", "smelt_f32", "onnxruntime_f32"]
    calls: list[Call] = []
    results: list[Array] = []
    for b in (bits, 32):
        exe = smelt.compile(decoder(b, rows, layers, LEVELS[kind][0]), threads=threads)
        results.append(np.asarray(exe.run(None, feeds)[0]))
        calls.append(partial(exe.run, None, feeds))
    for b, level in ((32, 1), *[(bits, level) for level in LEVELS[kind]]):
        peer = session(decoder(b, rows, layers, level), threads)
        results.append(np.asarray(peer.run(None, feeds)[0]))
        calls.append(partial(peer.run, None, feeds))
    sides += [f"onnxruntime_{level}" for level in LEVELS[kind]]
    foreign, read = Foreign(), [memory(threads)]
    found: Results = dict(zip(sides, time_rounds(calls, pace), strict=True))
    read.append(memory(threads))
    largest = float(np.abs(results[3]).max())
    apart = [
        float(np.abs(results[n] - results[3]).max()) / largest for n in (0, *range(4, len(sides)))
    ]
    return {**found, "apart": apart, "memory": sum(read) / 2, "foreign_cores": foreign.cores(),
            "bytes": weight_bytes(bits, layers)}  # fmt: skip


def measure(
    names: Collection[str] = tuple(CASES), quick: bool = False,
    say: Callable[[str], object] = print,
) -> Results:  # fmt: skip
    """Some cases, by default all."""
    rows = []
    for name in names:
        for threads in THREADS[-1 if quick else 0 :]:
            given = (name, str(threads), *["quick"] * quick)
            row = worker("benchmarks.weight_only", *given, threads=threads)
            rows.append({"case": name, "threads": threads, **row})
            say(f"{name} {threads}: {row.get('error') or row['smelt']['median_ms']}")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines, errors = [], []
    for r in results["rows"]:
        where = f"{r['case']}, {r['threads']}"
        if "smelt" not in r:
            errors.append(f"{where}: {r['error']}.")
            continue
        ms = {k: v["median_ms"] for k, v in r.items() if isinstance(v, dict)}
        noise, own = " ~" if r["foreign_cores"] > NOISY else "", ms["smelt"]
        rate = r["bytes"] / own / 1e6
        peers = [ms.get(f"onnxruntime_{level}") for level in (1, 4)]
        texts = ["" if v is None else f"{v:.2f}" for v in peers]
        best = min([v for v in peers if v is not None])
        lines.append([where + noise, f"{own:.2f}", f"{ms['smelt_f32']:.2f}",
                      f"{ms['smelt_f32'] / own:.2f}", f"{rate:.1f}",
                      f"{100e9 * rate / r['memory']:.0f} %", *texts,
                      f"{ms['onnxruntime_f32']:.2f}", f"{best / own:.2f}",
                      f"{r['apart'][0]:.0e}"])  # fmt: skip
    heads = ["weights, rows, threads", "smelt, ms", "float32, ms", "float32 / few bits", "GB/s",
             "of memory", "onnxruntime 1, ms", "4, ms", "float32, ms", "best / smelt",
             "apart"]  # fmt: skip
    note = (
        f"A decoder of the Llama kind with {LAYERS} layers, {HIDDEN} and {INNER} wide, and "
        f"{WORDS} words, behind {PAST} tokens: weights in blocks of {BLOCK} with scales in float32 "
        "(MatMulNBits). A token is one row, a prompt 64. GB/s are weights and scales alone, beside "
        "what as many threads read from memory in the same run. onnxruntime with accuracy_level 1 "
        "(activations in float32, as in smelt) and 4 (in 8 bits; so does smelt in rows of bytes). "
        "Apart: the largest difference from onnxruntime's first level in the row, in parts of the "
        "largest result; in bytes, a number that differs in its last bit may be rounded to another "
        "step. ~: other work disturbed the row."
    )
    return "\n\n".join([table(heads, lines), note, *errors])


def _work(name: str, given: Sequence[str]) -> Results:
    quick = "quick" in given
    kind, rows = CASES[name]
    return time_case(kind, rows, int(given[0]), 1 if quick else LAYERS, QUICKLY if quick else PACE)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(_work(sys.argv[2], sys.argv[3:]))
    else:
        asked = arguments(__doc__, tuple(CASES))
        found = measure(asked.only or tuple(CASES)[: 1 if asked.quick else None], asked.quick)
        report("weight_only", asked, found, section(found))
