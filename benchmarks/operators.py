"""Times single operators beside onnxruntime: `python -m benchmarks.operators`.

What models are made of, in shapes that nobody tuned for; images come and go in NCHW order, as ONNX
has them. `--only` takes names of operators.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, REFERENCE, SMELT, Pace, Side, beside
from benchmarks.real_models import written
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY, ratios
from tests.frontend.models import typed
from tests.models.net import Feeds, Net

THREADS = (1, 2)
PACE = Pace(0.5, 5)
SLOW = 1.1  # of onnxruntime's time, from which on a row is set in bold

Array = np.ndarray[Any, Any]
Case = tuple[str, Sequence[Array], Sequence[Array], Mapping[str, Any]]
"""An operator, its inputs, its constants and its attributes."""


def floats(*shape: int) -> Array:
    """Normal numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def whole(*values: int) -> Array:
    """A constant of integers."""
    return np.array(values, np.int64)


def window(op: str, x: Sequence[int], w: Sequence[int], step: int = 1, **more: Any) -> Case:
    """A convolution of an image by filters, at its own size if it moves by one."""
    rank = len(x) - 2
    pads = [(k - 1) // 2 for k in w[2:]] * 2
    how = {"strides": [step] * rank, "pads": pads, **more}
    return op, [floats(*x)], [floats(*w)], how


def pool(op: str, side: int, kernel: int, step: int, pad: int = 0) -> Case:
    """Pooling of 64 channels."""
    how = {"kernel_shape": [kernel] * 2, "strides": [step] * 2, "pads": [pad] * 4}
    return op, [floats(1, 64, side, side)], [], how


def alone(op: str, *shapes: Sequence[int], **attrs: Any) -> Case:
    """An operator of inputs alone."""
    return op, [floats(*s) for s in shapes], [], attrs


SQUARE, IMAGE = (1000, 1000), (1, 64, 112, 112)
BORDER = whole(0, 0, 3, 3, 0, 0, 3, 3)
TWICE = [np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)]
CASES: dict[str, Case] = {
    "Conv 3x3, 64": window("Conv", (1, 64, 56, 56), (64, 64, 3, 3)),
    "Conv 3x3, 16": window("Conv", (1, 16, 112, 304), (16, 16, 3, 3)),
    "Conv 3x3, 64, 8 images": window("Conv", (8, 64, 28, 28), (64, 64, 3, 3)),
    "Conv 3x3 / 2, 32 to 64": window("Conv", (1, 32, 112, 112), (64, 32, 3, 3), 2),
    "Conv 3x3, dilated": window("Conv", (1, 64, 56, 56), (64, 64, 3, 3), dilations=[2, 2]),
    "Conv 3x3, 32 groups": window("Conv", (1, 128, 28, 28), (128, 4, 3, 3), group=32),
    "Conv 5x5, 32": window("Conv", (1, 32, 64, 64), (32, 32, 5, 5)),
    "Conv 1x1, 512": window("Conv", (1, 512, 7, 7), (512, 512, 1, 1)),
    "Conv 1x1, 8": window("Conv", (1, 8, 256, 256), (8, 8, 1, 1)),
    "Conv 1x7, 128": window("Conv", (1, 128, 17, 17), (128, 128, 1, 7)),
    "Conv 3x3, 3 to 8": window("Conv", (1, 3, 320, 320), (8, 3, 3, 3), 2),
    "Conv 3x3, 16 to 3": window("Conv", (1, 16, 112, 304), (3, 16, 3, 3)),
    "Conv depthwise 3x3": window("Conv", (1, 96, 28, 28), (96, 1, 3, 3), group=96),
    "Conv depthwise 7x7": window("Conv", (1, 96, 56, 56), (96, 1, 7, 7), group=96),
    "Conv 3, 64, lines": window("Conv", (1, 64, 1000), (64, 64, 3)),
    "Conv depthwise 31, lines": window("Conv", (1, 256, 400), (256, 1, 31), group=256),
    "Conv 3x3x3, 16 to 32": window("Conv", (1, 16, 8, 56, 56), (32, 16, 3, 3, 3)),
    "ConvTranspose 4x4 / 2": window("ConvTranspose", (1, 64, 56, 56), (64, 32, 4, 4), 2),
    "ConvTranspose 8 / 4, lines": window("ConvTranspose", (1, 64, 1000), (64, 32, 8), 4),
    "ConvTranspose 2x2x2 / 2": window("ConvTranspose", (1, 16, 16, 16, 16), (16, 8, 2, 2, 2), 2),
    "MaxPool 3x3 / 2": pool("MaxPool", 112, 3, 2, 1),
    "MaxPool 2x2 / 2": pool("MaxPool", 112, 2, 2),
    "MaxPool 5x5": pool("MaxPool", 20, 5, 1, 2),
    "AveragePool 3x3": pool("AveragePool", 56, 3, 1, 1),
    "AveragePool 2x2 / 2": pool("AveragePool", 112, 2, 2),
    "GlobalAveragePool": alone("GlobalAveragePool", (8, 512, 14, 14)),
    "InstanceNormalization": ("InstanceNormalization", [floats(1, 64, 128, 128)],
                              [floats(64), floats(64)], {}),
    "LayerNormalization": ("LayerNormalization", [floats(197, 768)], [floats(768)] * 2,
                           {"axis": -1}),
    "LRN": alone("LRN", (1, 64, 56, 56), size=5),
    "Softmax, 197": alone("Softmax", (12, 197, 197), axis=-1),
    "Softmax, 1000": alone("Softmax", (2000, 1000), axis=-1),
    "Softmax of channels": alone("Softmax", (1, 21, 128, 128), axis=1),
    "LogSoftmax, 1000": alone("LogSoftmax", (2000, 1000), axis=-1),
    "ReduceSum of channels": ("ReduceSum", [floats(8, 64, 56, 56)], [whole(1)], {}),
    "ReduceMean of pixels": ("ReduceMean", [floats(8, 64, 56, 56)], [whole(2, 3)], {}),
    "ReduceMax of rows": ("ReduceMax", [floats(*SQUARE)], [whole(1)], {}),
    "ReduceSum of columns": ("ReduceSum", [floats(*SQUARE)], [whole(0)], {}),
    "ArgMax of channels": alone("ArgMax", (1, 21, 256, 256), axis=1),
    "TopK, 100 of 8400": ("TopK", [floats(1, 80, 8400)], [whole(100)], {"axis": -1}),
    "CumSum": ("CumSum", [floats(256, 4096)], [np.array(1, np.int64)], {}),
    "Transpose to channels last": alone("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    "Transpose of heads": alone("Transpose", (8, 197, 12, 64), perm=[0, 2, 1, 3]),
    "Transpose of a matrix": alone("Transpose", (1024, 1024), perm=[1, 0]),
    "Concat of channels": alone("Concat", (1, 64, 56, 56), (1, 128, 56, 56), axis=1),
    "Concat of columns": alone("Concat", (1000, 64), (1000, 32), axis=1),
    "Gather of rows": ("Gather", [floats(30000, 256), whole(*range(0, 30000, 60))], [], {}),
    "Slice of every second": ("Slice", [floats(*IMAGE)],
                              [whole(0, 0), whole(112, 112), whole(2, 3), whole(2, 2)], {}),
    "Pad, zeros": ("Pad", [floats(*IMAGE)], [BORDER], {}),
    "Pad, reflected": ("Pad", [floats(*IMAGE)], [BORDER], {"mode": "reflect"}),
    "Resize, linear": ("Resize", [floats(1, 64, 56, 56)], TWICE, {"mode": "linear"}),
    "Resize, nearest": ("Resize", [floats(1, 64, 56, 56)], TWICE, {"mode": "nearest"}),
    "DepthToSpace": alone("DepthToSpace", (1, 64, 128, 128), blocksize=2),
    **{op: alone(op, SQUARE) for op in ("Exp", "Tanh", "Sigmoid", "Erf", "Sin", "HardSwish")},
    "Log": ("Log", [1 + np.abs(floats(*SQUARE))], [], {}),
    "Add of a row": alone("Add", SQUARE, (1000,)),
    "Add of a column": alone("Add", SQUARE, (1000, 1)),
    "Mul of channels": alone("Mul", IMAGE, (1, 64, 1, 1)),
    "PRelu": ("PRelu", [floats(*IMAGE)], [floats(64, 1, 1)], {}),
    "MatMul 1 x 4096 x 4096": ("MatMul", [floats(1, 4096)], [floats(4096, 4096)], {}),
    "MatMul 32 x 768 x 3072": ("MatMul", [floats(32, 768)], [floats(768, 3072)], {}),
    "MatMul 5 x 333 x 777": ("MatMul", [floats(5, 333)], [floats(333, 777)], {}),
    "MatMul 512, two inputs": alone("MatMul", (512, 512), (512, 512)),
    "MatMul of heads": alone("MatMul", (12, 197, 64), (12, 64, 197)),
    "MatMul 1 x 4096 x 1024, two inputs": alone("MatMul", (1, 4096), (4096, 1024)),
    "Einsum bhid,bhjd": alone("Einsum", (2, 8, 128, 64), (2, 8, 128, 64),
                              equation="bhid,bhjd->bhij"),
    "GridSample": ("GridSample", [floats(1, 16, 64, 64), np.tanh(floats(1, 64, 64, 2))], [], {}),
    "LSTM, 32 steps": ("LSTM", [floats(32, 1, 128)], [floats(1, 512, 128) / 16] * 2,
                       {"hidden_size": 128}),
    "GRU, 32 steps": ("GRU", [floats(32, 1, 128)], [floats(1, 384, 128) / 16] * 2,
                      {"hidden_size": 128}),
}  # fmt: skip
QUICK = ("AveragePool 3x3", "LogSoftmax, 1000")


def model(case: Case) -> tuple[onnx.ModelProto, Feeds]:
    """A case as a model, and its inputs."""
    op, inputs, constants, attrs = case
    net, feeds = Net(), {f"x{n}": x for n, x in enumerate(inputs)}
    given = [net.input(name, x.shape, x.dtype) for name, x in feeds.items()]
    held = [net.const(c, c.dtype) if c.size else "" for c in constants]
    results = net.ops(op, 2 if op == "TopK" else 1, *given, *held, **attrs)
    return typed(net.model(*results)), feeds


def measure(
    names: Sequence[str] = tuple(CASES), pace: Pace = PACE, say: Callable[[str], object] = print
) -> Results:
    """Some operators, by default all, on one and on two threads."""
    rows = []
    for threads in THREADS:
        sides = [Side(SMELT, threads), Side(REFERENCE, threads, REFERENCE)]
        with beside(sides) as workers:
            for name in names:
                with written("operator", *model(CASES[name])) as (path, inputs):
                    told = workers.load(path, inputs)
                    row: Results = {"operator": name, "threads": threads, **workers.time(pace)}
                if SMELT in row:
                    row |= {"error": told[SMELT]["difference"], **ratios(row, (REFERENCE,))}
                else:
                    row["error"] = workers.failed
                rows.append(row)
                say(f"{name}, {threads}: {row.get('ratio', row['error'])}")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines = []
    for r in sorted(results["rows"], key=lambda r: (r["threads"], -r.get("ratio", 1e9))):
        name = f"{r['operator']}, {r['threads']}"
        if "ratio" not in r:
            lines.append([name, "–", "–", str(r["error"])[:80]])
            continue
        ratio = f"{r['ratio']:.2f}"
        ratio = f"**{ratio}**" if r["ratio"] > SLOW else ratio
        noisy = " ~" if r["foreign_cores"] > NOISY else ""
        lines.append([name, *[f"{1e3 * r[s]['median_ms']:.1f}" for s in (SMELT, REFERENCE)],
                      ratio + noisy])  # fmt: skip
    for t in THREADS:
        found = [r["ratio"] for r in results["rows"] if r["threads"] == t and "ratio" in r]
        mean = f"**{statistics.geometric_mean(found):.2f}**" if found else "–"
        lines.append([f"geometric mean of {len(found)}, {t}", "", "", mean])
    heading = ["operator, threads", "smelt, us", "onnxruntime, us", "ratio"]
    note = (
        "Ratio: smelt's time over onnxruntime's, each in a process of its own; in bold: more than "
        f"{SLOW}. ~: other work disturbed the row. Of onnxruntime the call from Python counts, too."
    )
    return table(heading, lines) + "\n\n" + note


if __name__ == "__main__":
    asked = arguments(__doc__, tuple(CASES))
    chosen = asked.only or (QUICK if asked.quick else tuple(CASES))
    found = measure(chosen, QUICKLY if asked.quick else PACE)
    report("operators", asked, found, section(found))
