"""Model files with something wrong in them, through `smelt check`: a clear error or the answer.

A file is drawn (a random graph, or one of a few by hand), then changed: bytes of it, or fields of
its messages, whatever they mean.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import typer
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt.cli import commands
from smelt.ir.errors import InternalError
from smelt.runtime.errors import SmeltError

from .generate import generate
from .judge import FAILURES, Verdict, label_of, place_of
from .worker import Worker, quiet

__all__ = ["judge_file", "model_of", "run"]

MEMORY = 12 << 30
"""Bytes of addresses that a process may have; most of them are never touched."""

RESIDENT = 3 << 20
"""KiB that a process may have touched before a file counts as a failure."""

INTEGERS = (0, 1, -1, 2, 3, 5, 8, 64, 255, 4097, 1 << 20, 1 << 31, 1 << 40, 1 << 62, -(1 << 63))
FLOATS = (0.0, -1.0, 0.5, 2.0, 1e-30, 1e38, float("nan"), float("inf"), float("-inf"))
OPERATORS = (
    "Add", "Concat", "Conv", "Expand", "Gather", "Identity", "If", "Loop", "MatMul", "MaxPool",
    "Pad", "Range", "Relu", "Reshape", "Resize", "Shape", "Slice", "Softmax", "Split", "Tile",
    "TopK", "Transpose", "ConstantOfShape", "CumSum", "OneHot", "NonZero", "LSTM", "DFT", "Einsum",
)  # fmt: skip


# ------------------------------------------------------------------------------------ models


def _tensor(name: str, shape: list[int | str], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(nodes: list[Any], shape: list[int | str], result: str, **more: Any) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(v, k) for k, v in more.pop("weights", {}).items()]
    functions = more.pop("functions", [])
    graph = helper.make_graph(nodes, "g", [_tensor("x", shape)],
                              [helper.make_empty_tensor_value_info(result)], weights)  # fmt: skip
    opsets = [helper.make_opsetid("", more.pop("opset", 18)), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def _function() -> onnx.ModelProto:
    """A function that calls another one."""
    node, opsets = helper.make_node, [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    twice = helper.make_function("own", "twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
                                 opsets)  # fmt: skip
    four = helper.make_function(
        "own", "four", ["a"], ["c"],
        [node("twice", ["a"], ["b"], domain="own"), node("twice", ["b"], ["c"], domain="own")],
        opsets,
    )  # fmt: skip
    calls = [node("four", ["x"], ["h"], domain="own"), node("Relu", ["h"], ["y"])]
    return _model(calls, ["n", 3], "y", functions=[twice, four])


def _sequence() -> onnx.ModelProto:
    """A tensor cut, and put together in another order."""
    node = helper.make_node
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("SequenceAt", ["s", "i"], ["a"]),
        node("SequenceInsert", ["s", "a"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    return _model(nodes, [3, 4], "y", weights={"i": np.array(1)})


def _net() -> onnx.ModelProto:
    """A convolution, a norm, a pool, a flattening, a product."""
    node, some = helper.make_node, np.random.default_rng(0)
    weights = {
        "w": some.standard_normal((4, 3, 3, 3)), "s": np.ones(4), "m": some.standard_normal(4),
        "k": some.standard_normal((16, 5)),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c", "s", "m", "m", "s"], ["b"]),
        node("MaxPool", ["b"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "k"], ["y"]),
    ]
    narrow = {k: v.astype(np.float32) for k, v in weights.items()}
    return _model(nodes, [1, 3, 8, 8], "y", weights=narrow)


def _shapes() -> onnx.ModelProto:
    """A reshape to extents that are computed, and constants made from them."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("ConstantOfShape", ["t2"], ["c"], value=numpy_helper.from_array(np.ones(1, "f4"))),
        node("Pad", ["c", "pads"], ["p"]),
        node("MatMul", ["r", "p"], ["y"]),
    ]
    weights = {"zero": [0], "minus": [-1], "t2": [4, 3], "pads": [0, 0, 2, 1]}
    return _model(nodes, [2, 3, 2], "y", weights={k: np.array(v) for k, v in weights.items()})


def _quantised() -> onnx.ModelProto:
    """Between quantise and dequantise."""
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s", "z"], ["v"]),
        node("MatMul", ["d", "v"], ["y"]),
    ]
    weights = {"s": np.float32(0.1), "z": np.uint8(3), "w": np.arange(12, dtype="u1").reshape(4, 3)}
    return _model(nodes, [2, 4], "y", weights=weights, opset=13)


HAND = (_function, _sequence, _net, _shapes, _quantised)


def model_of(seed: int) -> bytes:
    """The file of a seed."""
    r = random.Random(seed)
    proto = r.choice(HAND)() if r.random() < 0.5 else generate(r.randrange(4000)).model()
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        if r.random() < 0.8:
            _mutate(proto, r)
    data = proto.SerializeToString()
    return _bytes(data, r) if r.random() < 0.25 else data


def _bytes(data: bytes, r: random.Random) -> bytes:
    """Some bytes changed, cut out, or written twice."""
    for _ in range(r.choice((1, 1, 2, 5))):
        at = r.randrange(len(data) + 1)
        end = min(len(data), at + r.choice((1, 1, 4, 30)))
        new = r.choice((r.randbytes(end - at), b"", data[at:end] * 2, r.randbytes(3)))
        data = data[:at] + new + data[end:]
    return data


def _mutate(proto: onnx.ModelProto, r: random.Random) -> None:
    """One field of one message changed."""
    graphs, messages = [], []
    stack: list[Any] = [proto]
    while stack:
        m = stack.pop()
        messages.append(m)
        graphs += [m] if isinstance(m, onnx.GraphProto) else []
        for field, value in m.ListFields():
            if field.type == field.TYPE_MESSAGE:
                stack += list(value) if _many(field) else [value]
    names = [n for g in graphs for node in g.node for n in [*node.input, *node.output]] or [""]
    for _ in range(20):
        m = r.choice(messages)
        fields = [f for f, _ in m.ListFields()]
        if fields and _changed(m, r.choice(fields), names, r):
            return


def _many(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _changed(m: Any, field: Any, names: list[str], r: random.Random) -> bool:
    """Change a field that has a value; whether it could be done."""
    value = getattr(m, field.name)
    if not _many(field):
        if field.type == field.TYPE_MESSAGE:
            m.ClearField(field.name)
            return True
        return _set(lambda v: setattr(m, field.name, v), field, value, names, r)
    at, how = r.randrange(len(value)), r.random()
    if how < 0.25:
        del value[at]
    elif how < 0.4:
        if field.type == field.TYPE_MESSAGE:
            value.add().CopyFrom(value[at])
        else:
            value.append(value[at])
    elif field.type == field.TYPE_MESSAGE:
        kept = list(value)
        r.shuffle(kept)
        del value[:]
        value.extend(kept)
    else:
        return _set(lambda v: value.__setitem__(at, v), field, value[at], names, r)
    return True


def _set(
    put: Callable[[Any], None], field: Any, old: Any, names: list[str], r: random.Random
) -> bool:
    """Another value of the same kind; what the field cannot hold is not done."""
    new: Any
    if field.cpp_type == field.CPPTYPE_STRING:
        texts = [*names, "", r.choice(OPERATORS), "n", "\x00", "../x"]
        new = r.choice(texts) if isinstance(old, str) else r.choice((b"", old[:-1], old * 2, b"x"))
    elif field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        new = r.choice(FLOATS)
    elif field.cpp_type == field.CPPTYPE_ENUM:
        new = r.randrange(20)
    else:
        new = r.choice((*INTEGERS, old + 1, old - 1, -old))
    try:
        put(new)
    except (ValueError, TypeError):
        return False
    return True


# ----------------------------------------------------------------------------------- verdicts


def judge_file(path: str, tell: Callable[[str], None] = lambda stage: None) -> Verdict:
    """What `smelt check` says of a file."""
    compiled = smelt.compile

    def compile_(*args: Any, **options: Any) -> Any:
        made = compiled(*args, **options)
        tell("oracle")  # what follows takes what time and memory the file asks for
        return made

    with _patched(smelt, "compile", compile_):
        tell("smelt")
        try:
            commands.app(["check", path, "--tolerance", "0.02"], standalone_mode=False)
        except typer.Exit as e:
            code = e.exit_code
        except Exception as e:
            return _of_error(e)
        else:
            code = 0
    return Verdict("differs" if code else "ok")


class _patched:
    """An attribute with another value for a while."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self.owner, self.name, self.value = owner, name, value

    def __enter__(self) -> None:
        self.old = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.value)

    def __exit__(self, *caught: object) -> None:
        setattr(self.owner, self.name, self.old)


def _of_error(e: Exception) -> Verdict:
    if isinstance(e, SmeltError) and not isinstance(e, InternalError):
        return Verdict("refused", str(e), label_of(str(e)))
    if isinstance(e, MemoryError):
        return Verdict("refused", "out of memory")
    text = f"{type(e).__name__}: {e}{place_of(e)}"
    return Verdict("error", text + "\n" + traceback.format_exc(), label_of(text))


def serve(connection: Connection) -> None:
    """A process that judges the files of seeds."""
    quiet()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        with tempfile.TemporaryDirectory() as folder:
            while True:
                _, seed = connection.recv()
                path = Path(folder, "model.onnx")
                path.write_bytes(model_of(seed))
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                verdict = judge_file(str(path), lambda stage: connection.send(("stage", stage)))
                used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                if used > max(before, RESIDENT) and verdict.kind not in ("ok", "differs"):
                    verdict = Verdict("error", f"{used >> 10} MiB used: {verdict.message}")
                connection.send(("answer", (verdict, [])))
    except EOFError:
        return


def run(first: int, count: int, workers: int, found: Path) -> int:
    """Judge the files of `count` seeds; those that fail are written to the folder `found`."""
    kinds: Counter[str] = Counter()
    failures: list[str] = []
    left = iter(range(first, first + count))
    lock = threading.Lock()

    def work() -> None:
        worker = Worker(serve)
        while True:
            with lock:
                seed = next(left, None)
            if seed is None:
                break
            verdict, _ = worker.judge("seed", seed)
            with lock:
                kinds[verdict.kind] += 1
                if verdict.kind in FAILURES:
                    failures.append(f"  seed {seed}: {verdict.kind}: {verdict.message}")
                    print(f"\n{failures[-1]}")
                    found.mkdir(parents=True, exist_ok=True)
                    (found / f"{seed}.onnx").write_bytes(model_of(seed))
        worker.stop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        time.sleep(1)
        print(f"\r{kinds.total()} files: {dict(kinds)}", end="", flush=True)
    print()
    return 1 if failures else 0
