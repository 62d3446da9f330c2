"""Reading a TFLite file into plain data, and what is wrong with files.

The only file that imports the `tflite` package. A file is a flatbuffer: tables at offsets of each
other, which nothing checks before they are followed. Every access is therefore made in a `_part`,
which turns what Python says of an offset outside of the file into an error that names the part.
"""

from __future__ import annotations

import functools
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from smelt.frontend.common import Graph, Input, ModelNode
from smelt.frontend.common.files import file_bytes
from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.limits import DIMENSIONS
from smelt.ir.node import reachable
from smelt.runtime.foreign import foreign_file, foreign_object

T = TypeVar("T")

IDENTIFIER = b"TFL3"
"""What stands in bytes 4 to 7 of a file."""

CUSTOM = "custom"
"""The domain of operators that are not TFLite's own."""

RESOURCE = "resource"
"""The type of a tensor that is a handle of something: a variable, a table."""

_DTYPES = {
    "FLOAT32": "float32", "FLOAT16": "float16", "FLOAT64": "float64", "BFLOAT16": "bfloat16",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "BOOL": "bool", "INT4": "int8",
    "RESOURCE": RESOURCE,
}  # fmt: skip
"""Our names of element types; numbers of 4 bits get a byte each."""


@dataclass(frozen=True)
class Tensor:
    """What the file says of a tensor: q stands for scale * (q - zero).

    shape   extents as the file has them
    scales  one number, or one for each index of `axis`; none where it is not quantized
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scales: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    zeros: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    axis: int = 0
    variable: bool = False

    @property
    def quantized(self) -> bool:
        """Whether its elements stand for other numbers."""
        return self.scales.size > 0


@dataclass
class ModelFile:
    """A model: its name for messages, its graph, its tensors by name, versions of operators.

    versions  of the operator of each node, by the node's name
    inner     the tensors that an operator uses for itself: the same
    others    the subgraphs behind the first one, which is `graph`
    signed    what signatures call inputs -> the names of these tensors
    variables inputs that stand for variables -> the result that each becomes, its first value
    """

    name: str
    graph: Graph
    tensors: dict[str, Tensor]
    versions: dict[str, int]
    inner: dict[str, tuple[str, ...]]
    others: list[Graph]
    signed: dict[str, str] = field(default_factory=dict)
    variables: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)

    def by_tensor(self, given: Mapping[str, T] | None) -> dict[str, T]:
        """What is given by names of inputs, those of signatures too, by the tensors' names."""
        own = {i.name for i in self.graph.inputs}
        return {n if n in own else self.signed.get(n, n): v for n, v in (given or {}).items()}


def is_tflite(model: object) -> bool:
    """Whether something is a TFLite model: bytes or a file with its identifier."""
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model[4:8]) == IDENTIFIER
    if isinstance(model, str | os.PathLike):
        try:
            with open(model, "rb") as f:
                return f.read(8)[4:] == IDENTIFIER
        except (OSError, ValueError):
            return os.fspath(model).endswith(".tflite")
    return isinstance(model, ModelFile)


def load(model: object, name: str | None = None) -> ModelFile:
    """A model from a path or its bytes; one that was read already, as it is.

    name  stands in messages
    """
    if isinstance(model, ModelFile):
        return model
    if isinstance(model, str | os.PathLike):
        name = name or Path(model).name
        data = file_bytes(model, ".tflite")
    elif isinstance(model, bytes | bytearray | memoryview):
        name, data = name or "<bytes>", bytes(model)
    else:
        what = f"{type(model).__name__}{foreign_object(model)}"
        raise ImportFailure(f"a TFLite model is a path or bytes, not {what}")
    if not data:
        raise ImportFailure(f"{name}: the file is empty")
    if data[4:8] != IDENTIFIER:
        known = foreign_file("", data)
        what = f": {known[0]}; {known[1]}" if known else ""
        raise ImportFailure(f"{name}: not a TFLite model{what}")
    return _Reader(name, data).model()


@functools.cache
def _packages() -> tuple[Any, Any]:
    """What reads the schema's tables, and the options of others' operators."""
    try:
        import tflite  # noqa: PLC0415  (optional)
        from flatbuffers import flexbuffers  # noqa: PLC0415
    except ImportError as e:
        raise ImportFailure(
            f"reading TFLite models needs the {e.name} package: pip install smelt[tflite]"
        ) from e
    return tflite, flexbuffers


@functools.cache
def _names(table: str) -> dict[int, str]:
    """The names that one of the schema's lists of numbers has."""
    found = getattr(_packages()[0], table, None)
    return {v: k for k, v in vars(found).items() if isinstance(v, int)} if found else {}


_BROKEN = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError,
           MemoryError, AssertionError, KeyError)  # fmt: skip
"""What following an offset that leads nowhere ends in."""


class _Reader:
    """Turns tables into plain data."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        self.opcodes: list[tuple[str, str, int]] = []
        self.buffers: Any = None

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Where errors belong that come up inside."""
        try:
            yield
        except _BROKEN:
            size = len(self.data)
            raise ImportFailure(
                f"{self.name}: {what} leads outside of the file ({size} bytes): it is damaged or "
                "cut off"
            ) from None

    def count(self, n: int, what: str) -> int:
        """The length of a vector, which takes at least a byte for each element."""
        if not 0 <= n <= len(self.data):
            size = len(self.data)
            raise ImportFailure(f"{self.name}: {n} {what} in a file of {size} bytes: it is damaged")
        return n

    def model(self) -> ModelFile:
        """The whole model; the first subgraph is what runs."""
        with self.part("the model"):
            root = _packages()[0].Model.GetRootAs(self.data, 0)
            version = root.Version()
            if version != 3:
                raise Unsupported(f"{self.name}: schema version {version}\n  supported: 3")
            for n in range(self.count(root.OperatorCodesLength(), "operator codes")):
                self.opcodes.append(self.opcode(root.OperatorCodes(n)))
            self.buffers = root
            count = self.count(root.SubgraphsLength(), "subgraphs")
        if not count:
            raise ImportFailure(f"{self.name}: the model has no subgraph")
        tensors: dict[str, Tensor] = {}
        versions: dict[str, int] = {}
        inner: dict[str, tuple[str, ...]] = {}
        readers = [_GraphReader(self, root, n, tensors, versions, inner) for n in range(count)]
        graphs = [r.graph() for r in readers]
        self.check_calls(graphs)
        with self.part("a signature"):
            signed = self.signed(root, readers[0].names)
        return ModelFile(self.name, graphs[0], tensors, versions, inner, graphs[1:], signed)

    def signed(self, root: Any, names: list[str]) -> dict[str, str]:
        """What signatures of the first subgraph call its inputs."""
        found: dict[str, str] = {}
        for n in range(self.count(root.SignatureDefsLength(), "signatures")):
            s = root.SignatureDefs(n)
            for k in range(self.count(s.InputsLength(), "inputs of a signature")):
                m = s.Inputs(k)
                if s.SubgraphIndex() == 0 and 0 <= m.TensorIndex() < len(names):
                    found[self.text(m.Name())] = names[m.TensorIndex()]
        return found

    def check_calls(self, graphs: Sequence[Graph]) -> None:
        """ImportFailure where a subgraph runs itself, by way of others or not."""
        calls = [
            {v for s in g.steps for k, v in s.attrs.items() if k.endswith("subgraph_index")}
            for g in graphs
        ]
        for n in range(len(graphs)):
            if n in reachable([n], lambda k: calls[k] if 0 <= k < len(graphs) else ()):
                raise ImportFailure(f"{self.name}: subgraph {n} runs itself")

    def opcode(self, code: Any) -> tuple[str, str, int]:
        """Name, domain and version of an operator."""
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = _names("BuiltinOperator").get(number, f"operator {number}")
        if name == "CUSTOM":
            return self.text(code.CustomCode()) or "?", CUSTOM, code.Version()
        return name, "", code.Version()

    def text(self, given: bytes | None) -> str:
        """A name of the file."""
        return (given or b"").decode("utf-8", "replace")

    def buffer(self, n: int, name: str) -> memoryview | None:
        """The content of a buffer; None where it has none."""
        if not 0 <= n < self.buffers.BuffersLength():
            raise ImportFailure(f"{self.name}: tensor {name!r} lies in buffer {n}; there are "
                                f"{self.buffers.BuffersLength()}")  # fmt: skip
        b = self.buffers.Buffers(n)
        start, size = int(b.Offset()), int(b.Size())
        if start > 1:  # behind the tables, as in files over 2 GB
            if start + size > len(self.data):
                raise ImportFailure(f"{self.name}: tensor {name!r} lies in bytes {start} to "
                                    f"{start + size}; the file has {len(self.data)}")  # fmt: skip
            return memoryview(self.data)[start : start + size]
        if not b.DataLength():
            return None
        return memoryview(b.DataAsNumpy()).cast("B")


class _GraphReader:
    """Reads one subgraph; names are unique over all of them."""

    def __init__(
        self, file: _Reader, root: Any, number: int, tensors: dict[str, Tensor],
        versions: dict[str, int], inner: dict[str, tuple[str, ...]],
    ) -> None:  # fmt: skip
        self.file, self.root, self.number = file, root, number
        self.tensors, self.versions, self.inner = tensors, versions, inner
        self.names: list[str] = []
        self.arrays: dict[str, np.ndarray] = {}

    def graph(self) -> Graph:
        """The subgraph as nodes by name."""
        file = self.file
        with file.part(f"subgraph {self.number}"):
            g = self.root.Subgraphs(self.number)
            title = file.text(g.Name())
            tensors = file.count(g.TensorsLength(), "tensors")
            operators = file.count(g.OperatorsLength(), "operators")
        for n in range(tensors):
            with file.part(f"tensor {n}"):
                self.tensor(g.Tensors(n), n)
        with file.part(f"the inputs and outputs of subgraph {self.number}"):
            ins = self.wired(_vector(g, "Inputs"), "the model's inputs")
            outs = self.wired(_vector(g, "Outputs"), "the model's outputs")
        steps = []
        for n in range(operators):
            with file.part(f"operator {n}"):
                steps.append(self.step(g.Operators(n), n))
        # variables keep what they are from call to call: inputs that the caller does not see
        hidden = [n for n in self.names if self.tensors[n].variable and n not in self.arrays]
        own = [n for n in hidden if n not in ins and self.number == 0]
        inputs = [Input(t.name, t.dtype, t.shape) for t in (self.tensors[i] for i in (*ins, *own))]
        return Graph(title, inputs, self.arrays, steps, outs)

    def wired(self, numbers: tuple[int, ...], who: str, optional: bool = False) -> list[str]:
        """The tensors with these numbers, by name; -1 is one that is left out."""
        for n in numbers:
            if not (0 <= n < len(self.names) or (optional and n == -1)):
                raise ImportFailure(f"{self.file.name}: {who}: tensor {n}; there are "
                                    f"{len(self.names)}")  # fmt: skip
        return ["" if n == -1 else self.names[n] for n in numbers]

    def tensor(self, t: Any, number: int) -> None:
        """One tensor, and its array where the file has its content."""
        file = self.file
        name = file.text(t.Name()) or f"tensor_{number}"
        name = name if name not in self.tensors else f"{name}_{self.number}_{number}"
        where = f"{file.name}: tensor {name!r}"
        self.names.append(name)
        shape = _vector(t, "Shape")
        if min(shape, default=0) < 0 or len(shape) > DIMENSIONS:
            raise ImportFailure(f"{where} has the shape {shape}; legal: at most {DIMENSIONS} "
                                "dimensions of 0 or more")  # fmt: skip
        if t.Sparsity() is not None:
            raise Unsupported(f"{where} is sparse\n  supported: dense tensors")
        kind = _names("TensorType").get(t.Type(), str(t.Type()))
        dtype = _DTYPES.get(kind)
        if dtype is None:
            raise Unsupported(f"{where} has the element type {kind}\n"
                              f"  supported: {', '.join(_DTYPES)}")  # fmt: skip
        scales, zeros, axis = self.numbers(t.Quantization(), where, shape)
        self.tensors[name] = Tensor(name, dtype, shape, scales, zeros, axis, t.IsVariable())
        content = file.buffer(t.Buffer(), name)
        if content is not None and dtype != RESOURCE:
            self.arrays[name] = _elements(content, kind, dtype, shape, where)

    def numbers(
        self, q: Any, where: str, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Scales, zero points and their axis."""
        none = np.zeros(0, np.float32), np.zeros(0, np.int64), 0
        if q is None or not q.ScaleLength():
            return none
        scales = np.asarray(q.ScaleAsNumpy(), np.float32)
        zeros = np.asarray(_vector(q, "ZeroPoint") or (0,) * len(scales), np.int64)
        axis = q.QuantizedDimension()
        zeros = np.repeat(zeros, len(scales)) if len(zeros) == 1 else zeros
        several = len(scales) > 1
        if len(zeros) != len(scales) or (
            several and not (0 <= axis < len(shape) and shape[axis] == len(scales))
        ):
            raise ImportFailure(
                f"{where} has {len(scales)} scales and {len(zeros)} zero points along dimension "
                f"{axis} of the shape {shape}"
            )
        if not np.all(np.isfinite(scales)) or np.any(scales < 0):
            wrong = scales[~(np.isfinite(scales) & (scales >= 0))][0]
            raise ImportFailure(f"{where} has the scale {wrong}; it has to be a number above 0")
        # 0 says that a tensor has no scale
        return (scales, zeros, axis) if np.all(scales > 0) else none

    def step(self, op: Any, number: int) -> ModelNode:
        """One operator."""
        file, index = self.file, op.OpcodeIndex()
        if not 0 <= index < len(file.opcodes):
            raise ImportFailure(f"{file.name}: operator {number} has the code {index}; there are "
                                f"{len(file.opcodes)}")  # fmt: skip
        name, domain, version = file.opcodes[index]
        who = f"operator {number} ({name})"
        with file.part(f"{who}"):
            inputs = self.wired(_vector(op, "Inputs"), who, optional=True)
            outputs = self.wired(_vector(op, "Outputs"), who)
            inner = self.wired(_vector(op, "Intermediates"), who)
            attrs = self.custom(op) if domain else self.options(op)
        label = f"{number}" if not self.number else f"{self.number}.{number}"
        self.versions[label], self.inner[label] = version, tuple(inner)
        return ModelNode(label, name, tuple(inputs), tuple(outputs), attrs, domain)

    def options(self, op: Any) -> dict[str, Any]:
        """The operator's options that are not what they are where the file is silent."""
        found: dict[str, Any] = {}
        for which in ("BuiltinOptions", "BuiltinOptions2"):
            kind = _names(which).get(getattr(op, f"{which}Type")(), "NONE")
            table = None if kind == "NONE" else getattr(op, which)()
            if table is not None:
                found |= _fields(getattr(_packages()[0], kind), table)
        return found

    def custom(self, op: Any) -> dict[str, Any]:
        """The attributes of an operator of someone's own, where they are a map of numbers."""
        count = self.file.count(op.CustomOptionsLength(), "bytes of options")
        if not count:
            return {}
        raw = bytearray(op.CustomOptionsAsNumpy().tobytes())
        try:
            given = _packages()[1].Loads(raw)
        except Exception:  # it may be anything
            given = None
        if not isinstance(given, dict):
            return {"custom_options": bytes(raw)}
        return {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}


# -------------------------------------------------------------------------------------- fields


def _vector(table: Any, name: str) -> tuple[int, ...]:
    """A vector of numbers; numpy reads it at once, and refuses one that is longer than the file."""
    found = getattr(table, f"{name}AsNumpy")()
    return () if isinstance(found, int) else tuple(found.tolist())


_APART = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SILENT = struct.pack("<HHi", 4, 4, 4)
"""A table without fields."""


def _fields(kind: Any, table: Any) -> dict[str, Any]:
    """The fields of a table by name, those left out that have their default."""
    given, silent = kind(), kind()
    given.Init(table.Bytes, table.Pos)
    silent.Init(_SILENT, 4)
    names = [n for n, f in vars(kind).items() if callable(f) and n[0].isupper() and n != "Init"]
    found: dict[str, Any] = {}
    for n in names:
        if n.startswith("GetRootAs") or n.endswith(("Length", "AsNumpy", "IsNone", "Identifier")):
            continue
        read: Any
        if f"{n}Length" in names:
            read, default = _vector(given, n) if f"{n}AsNumpy" in names else (), ()
        else:
            read, default = getattr(given, n)(), getattr(silent, n)()
            read = read.decode("utf-8", "replace") if isinstance(read, bytes) else read
        if read != default:
            found[_APART.sub("_", n).lower()] = read
    return found


def _elements(
    content: memoryview, kind: str, dtype: str, shape: tuple[int, ...], where: str
) -> np.ndarray:
    """A buffer as an array; of 4-bit numbers, the first of two is the lower one."""
    count, width = math.prod(shape), 4 if kind == "INT4" else 8 * dt.to_numpy(dtype).itemsize
    need = -(-count * width // 8)
    if len(content) != need:
        raise ImportFailure(f"{where} has {len(content)} bytes, its shape {shape} of {kind} needs "
                            f"{need}")  # fmt: skip
    raw = np.frombuffer(content, np.uint8)
    if kind == "INT4":
        both = np.stack([raw << 4, raw & 0xF0], -1).view(np.int8) >> 4
        return np.asarray(both.reshape(-1)[:count]).reshape(shape)
    if dtype == "bool":
        return np.asarray(raw != 0).reshape(shape)
    return np.asarray(np.require(raw.view(dt.to_numpy(dtype)).reshape(shape), requirements="A"))
