"""Reading a model file into plain data, and what is wrong with files.

The only file that imports the `onnx` package. Nothing below it sees a protobuf message.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from smelt.frontend.common import Graph, Input, ModelNode
from smelt.frontend.common.files import file_bytes
from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.limits import DIMENSIONS
from smelt.runtime.foreign import foreign_file, foreign_object

from .wire import without_weights

try:
    import onnx
    from onnx import defs, helper, numpy_helper
except ImportError:  # pragma: no cover
    onnx = None  # type: ignore[assignment]

FIRST_OPSET = 1


@dataclass(frozen=True)
class Reference:
    """An attribute of a function's node that stands for an attribute of the function."""

    name: str


@dataclass
class Body:
    """A function: nodes over formal inputs, with defaults of its attributes."""

    inputs: list[str]
    outputs: list[str]
    steps: list[ModelNode]
    opsets: dict[str, int]
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass
class ModelFile:
    """A model: its name for messages, operator set versions by domain, graph and functions."""

    name: str
    opsets: dict[str, int]
    graph: Graph
    functions: dict[tuple[str, str], Body]


def load(model: object, name: str | None = None) -> ModelFile:
    """A model from a path, its bytes or a ModelProto; one that was read already, as it is.

    name  stands in messages
    """
    if isinstance(model, ModelFile):
        return model
    if onnx is None:
        raise ImportFailure("reading ONNX models needs the onnx package: pip install onnx")
    folder: Path | None = None
    weights: Mapping[int, memoryview] = {}
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        name = name or path.name
        folder = path.parent
        data = file_bytes(model, ".onnx")
        proto, weights = _parse(data, name)
    elif isinstance(model, bytes | bytearray | memoryview):
        name = name or "<bytes>"
        data = bytes(model)
        proto, weights = _parse(data, name)
    elif isinstance(model, onnx.ModelProto):
        name = name or model.graph.name or "<model>"
        proto, data = model, b""
    else:
        raise ImportFailure(
            "an ONNX model is a path, bytes or an onnx.ModelProto, not "
            f"{type(model).__name__}{foreign_object(model)}"
        )
    if not proto.HasField("graph") or not proto.opset_import:
        lack = "graph" if not proto.HasField("graph") else "opset_import"
        raise _no_model(name, data, f" (it has no {lack})")
    return _Reader(name, folder, weights).model(proto)


def _no_model(name: str, data: bytes, reason: str) -> ImportFailure:
    """The error for a file that is no ONNX model: what it is instead, where that can be told."""
    if name.endswith((".so", ".vm", ".tar")):
        return ImportFailure(f"{name}: compiled already; smelt.load takes it, and smelt run")
    if (found := foreign_file(name, data)) is not None:
        return ImportFailure(f"{name}: {found[0]}, not an ONNX model; {found[1]}")
    return ImportFailure(f"{name}: not an ONNX model{reason}")


def _parse(data: bytes, name: str) -> tuple[onnx.ModelProto, Mapping[int, memoryview]]:
    """A model without its large weights, and these by the initializer's position."""
    if not data:
        raise ImportFailure(f"{name}: the file is empty")
    proto = onnx.ModelProto()
    rest, weights = without_weights(data)
    try:
        proto.ParseFromString(rest)
    except Exception:
        size = len(data)
        reason = f", or a truncated one ({size} bytes that do not parse as ModelProto)"
        raise _no_model(name, data, reason) from None
    return proto, weights


def last_opset() -> int:
    """The newest operator set that the installed onnx package describes."""
    return int(defs.onnx_opset_version())


@functools.cache
def _schema(op: str, opset: int, domain: str = "") -> Any:
    """What the onnx package says of an operator; None where an operator set has no such one."""
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def version_of(op: str, opset: int, domain: str = "") -> int | None:
    """The version of an operator that an operator set holds; None where it has no such operator."""
    schema = _schema(op, opset, domain)
    return None if schema is None else int(schema.since_version)


def has_body(op: str, opset: int) -> bool:
    """Whether the onnx package defines an operator by other operators."""
    schema = _schema(op, opset)
    return bool(schema and (schema.has_function or schema.has_context_dependent_function))


def function_of(
    step: ModelNode, opset: int, types: Sequence[tuple[str, Sequence[Any] | None] | None]
) -> Body | None:
    """The body that the onnx package gives for an operator defined as a function, or None.

    types  element type and extents (numbers where known) of each operand; None for the extents of
           a sequence
    """
    schema = _schema(step.op, opset, step.domain)
    if schema is None:
        return None
    reader = _Reader("<function>", None)
    if schema.has_function:
        return reader.function(schema.function_body, {step.domain: opset}, _defaults(schema))
    if not schema.has_context_dependent_function:
        return None
    attrs = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
        for k, v in step.attrs.items()
    }
    node = helper.make_node(step.op, step.inputs, step.outputs, domain=step.domain, **attrs)
    protos = [_type_proto(t).SerializeToString() for t in types]
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if not versions:
        return None
    text = schema.get_context_dependent_function_with_opset_version(
        versions[-1], node.SerializeToString(), protos
    )
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return reader.function(body, {step.domain: opset}, _defaults(schema))


def _type_proto(given: tuple[str, Sequence[Any] | None] | None) -> onnx.TypeProto:
    """The type of an operand, as `function_of` has it."""
    if given is None:
        return onnx.TypeProto()
    element = helper.np_dtype_to_tensor_dtype(dt.to_numpy(given[0]))
    if given[1] is None:
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
    extents = [e if isinstance(e, int) else str(e) for e in given[1]]
    return helper.make_tensor_type_proto(element, extents)


def _defaults(schema: Any) -> dict[str, Any]:
    reader = _Reader("<function>", None)
    return {
        n: reader.attribute(a.default_value, n)
        for n, a in schema.attributes.items()
        if a.default_value.name
    }


def dtype_of(element: int) -> str | None:
    """Our name of an element type given by its number, or None where there is none."""
    try:
        return dt.from_numpy(helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, TypeError):
        return None


def dtype_named(text: str) -> str | None:
    """Our name of an element type given as a text ("FLOAT"), or None where there is none."""
    numbers = dict(onnx.TensorProto.DataType.items())
    number = numbers.get(text.upper())
    return None if number is None else dtype_of(number)


_NONE: Mapping[int, memoryview] = {}


class _Reader:
    """Turns messages into plain data; knows where the file lies, and what was taken out of it."""

    def __init__(
        self, name: str, folder: Path | None, weights: Mapping[int, memoryview] = _NONE
    ) -> None:
        self.name, self.folder, self.weights = name, folder, weights

    def texts(self, *names: Any) -> tuple[str, ...]:
        """Names of a file; protobuf gives bytes for what is no UTF-8."""
        for n in names:
            if not isinstance(n, str):
                raise ImportFailure(f"{self.name}: the name {n!r} is no text in UTF-8")
        return names

    def model(self, proto: onnx.ModelProto) -> ModelFile:
        """The whole model, after the checks that need no graph."""
        opsets = self._opsets(proto.opset_import)
        self.texts(*[n for f in proto.functions for n in (f.domain, f.name)])
        functions = {(_domain(f.domain), f.name): self.function(f, opsets) for f in proto.functions}
        return ModelFile(self.name, opsets, self.graph(proto.graph, self.weights), functions)

    def _opsets(self, imports: Any) -> dict[str, int]:
        opsets = self.versions(imports)
        version = opsets.get("")
        if version is not None and not FIRST_OPSET <= version <= last_opset():
            raise Unsupported(
                f"{self.name}: opset {version}\n  supported: {FIRST_OPSET} to {last_opset()}"
            )
        return opsets

    def versions(self, imports: Any) -> dict[str, int]:
        """Operator set versions by domain, as a model or a function gives them."""
        opsets = {_domain(*self.texts(o.domain)): int(o.version) for o in imports}
        for domain, found in opsets.items():
            if not 0 <= found < 1 << 31:
                raise ImportFailure(
                    f"{self.name}: version {found} of the opset {domain or 'ai.onnx'}; "
                    "legal: 1 or more"
                )
        return opsets

    def graph(self, proto: onnx.GraphProto, weights: Mapping[int, memoryview] = _NONE) -> Graph:
        """A graph or a branch.

        weights  content of initializers that the message lacks, by position
        """
        if proto.sparse_initializer:
            name = proto.sparse_initializer[0].values.name
            raise Unsupported(
                f"{self.name}: initializer {name!r} is sparse\n  supported: dense tensors"
            )
        outputs = self.texts(*[o.name for o in proto.output])
        self.texts(proto.name, *[v.name for v in (*proto.initializer, *proto.input)])
        arrays: dict[str, np.ndarray] = {}
        for n, t in enumerate(proto.initializer):
            if t.name in arrays:
                raise ImportFailure(f"{self.name}: the initializer {t.name!r} is defined twice")
            arrays[t.name] = self.array(t, t.name, weights.get(n))
        inputs = [self.input(i) for i in proto.input if i.name not in arrays]
        return Graph(proto.name, inputs, arrays, [self.step(n) for n in proto.node], list(outputs))

    def function(
        self,
        proto: onnx.FunctionProto,
        outer: Mapping[str, int],
        defaults: Mapping[str, Any] | None = None,
    ) -> Body:
        """A function of the model or of an operator set."""
        opsets = {**outer, **self.versions(proto.opset_import)}
        self.texts(*[a.name for a in proto.attribute_proto])
        own = {a.name: self.attribute(a, proto.name) for a in proto.attribute_proto}
        return Body(
            list(self.texts(*proto.input)),
            list(self.texts(*proto.output)),
            [self.step(n) for n in proto.node],
            opsets,
            {**(defaults or {}), **own},
        )

    def input(self, proto: onnx.ValueInfoProto) -> Input:
        """An input: a tensor, a sequence of tensors or an optional value."""
        return self._typed(proto.name, proto.type, "")

    def _typed(self, name: str, proto: onnx.TypeProto, outer: str) -> Input:
        kind = proto.WhichOneof("value")
        if kind is None:
            return Input(name, "", None, outer)
        if kind == "sequence_type":
            return self._typed(name, proto.sequence_type.elem_type, f"{outer} sequence".strip())
        if kind == "optional_type" and not outer:
            return self._typed(name, proto.optional_type.elem_type, "optional")
        if kind != "tensor_type" or outer.count("sequence") > 1:
            what = {"map_type": "a map", "sparse_tensor_type": "a sparse tensor"}
            raise Unsupported(
                f"{self.name}: input {name!r} is {what.get(kind, f'{outer} {kind}'.strip())}\n"
                "  supported: dense tensors, sequences of them, optional values"
            )
        tensor = proto.tensor_type
        dtype = self.dtype(tensor.elem_type, f"input {name!r}") if tensor.elem_type else ""
        if not tensor.HasField("shape"):
            return Input(name, dtype, None, outer or "tensor")
        shape: list[int | str | None] = []
        for d in tensor.shape.dim:
            if d.WhichOneof("value") == "dim_value":
                if d.dim_value < 0:
                    raise ImportFailure(
                        f"{self.name}: input {name!r} has the extent {d.dim_value} in dimension "
                        f"{len(shape)}; 0 or more is legal, or a name for a size that is not known"
                    )
                shape.append(int(d.dim_value))
            else:
                shape.append(self.texts(d.dim_param)[0] or None)
        return Input(name, dtype, tuple(shape), outer or "tensor")

    def dtype(self, element: int, what: str) -> str:
        """Our name of an element type."""
        found = dtype_of(element)
        if found is not None:
            return found
        known = onnx.TensorProto.DataType.values()
        label = onnx.TensorProto.DataType.Name(element) if element in known else str(element)
        raise Unsupported(
            f"{self.name}: {what} has the element type {label}\n  supported: {', '.join(dt.DTYPES)}"
        )

    def step(self, proto: onnx.NodeProto) -> ModelNode:
        """A node."""
        where = f"node {proto.name or (proto.output[0] if proto.output else proto.op_type)!r}"
        self.texts(proto.name, proto.op_type, proto.domain, *proto.input, *proto.output)
        self.texts(*[n for a in proto.attribute for n in (a.name, a.ref_attr_name)])
        attrs = {a.name: self.attribute(a, where) for a in proto.attribute}
        op, domain = proto.op_type, _domain(proto.domain)
        named = named_by(op, attrs)
        return ModelNode(
            proto.name, op, tuple(proto.input), tuple(proto.output), attrs, domain, named
        )

    def attribute(self, proto: onnx.AttributeProto, where: str) -> Any:
        """An attribute's value."""
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        kinds = onnx.AttributeProto
        match proto.type:
            case kinds.TENSOR:
                return self.array(proto.t, proto.name)
            case kinds.GRAPH:
                return self.graph(proto.g)
            case kinds.STRING:
                return proto.s.decode("utf-8", "replace")
            case kinds.STRINGS:
                return tuple([s.decode("utf-8", "replace") for s in proto.strings])
            case kinds.INT:
                return int(proto.i)
            case kinds.FLOAT:
                return float(proto.f)
            case kinds.INTS:
                return tuple(proto.ints)
            case kinds.FLOATS:
                return tuple(proto.floats)
            case kinds.TYPE_PROTO:
                return self._typed(proto.name, proto.tp, "")
        label = kinds.AttributeType.Name(proto.type)
        raise Unsupported(
            f"{self.name}: {where}: attribute {proto.name!r} is of the kind {label}\n"
            "  supported: numbers, texts, tensors, graphs"
        )

    def array(
        self, proto: onnx.TensorProto, name: str, content: memoryview | None = None
    ) -> np.ndarray:
        """A tensor, where possible a view of the file's bytes or of the mapped data file.

        content  its raw_data, where the message lacks it
        """
        dtype = self.dtype(proto.data_type, f"tensor {name!r}")
        element = dt.to_numpy(dtype)
        shape = tuple(proto.dims)
        if min(shape, default=0) < 0 or len(shape) > DIMENSIONS:
            raise ImportFailure(
                f"{self.name}: tensor {name!r} has the shape {shape}; legal: at most {DIMENSIONS} "
                "dimensions of 0 or more"
            )
        count = math.prod(shape)
        if dtype == "string":
            texts = [s.decode("utf-8", "replace") for s in proto.string_data]
            if len(texts) != count:
                raise ImportFailure(
                    f"{self.name}: tensor {name!r} holds {len(texts)} texts, its shape is {shape}"
                )
            return np.array(texts, np.str_).reshape(shape)
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(proto, name, dtype, shape)
        if content is not None or proto.HasField("raw_data"):
            raw = proto.raw_data if content is None else content
            need = _stored(count, dtype)
            if len(raw) != need:
                raise ImportFailure(
                    f"{self.name}: tensor {name!r} holds {len(raw)} bytes, its shape {shape} "
                    f"of {dtype} needs {need}"
                )
            return _elements(np.frombuffer(raw, np.uint8), dtype, shape)
        try:
            array = numpy_helper.to_array(proto)
        except Exception:
            raise ImportFailure(
                f"{self.name}: tensor {name!r} does not hold the {count} elements of its "
                f"shape {shape}"
            ) from None
        return array.astype(element, copy=False)

    def _external(
        self, proto: onnx.TensorProto, name: str, dtype: str, shape: tuple[int, ...]
    ) -> np.ndarray:
        self.texts(*[t for e in proto.external_data for t in (e.key, e.value)])
        where = {e.key: e.value for e in proto.external_data}
        location = where.get("location", "")
        what = f"{self.name}: tensor {name!r} lies in the external file {location!r}"
        if self.folder is None:
            raise ImportFailure(f"{what}, but the model was not given as a path")
        parts = PurePosixPath(location).parts
        if not parts or ".." in parts or PurePosixPath(location).is_absolute() or "\\" in location:
            raise ImportFailure(f"{what}, which is not below the model's folder")
        path, need = self.folder / location, _stored(math.prod(shape), dtype)
        try:
            offset, length = int(where.get("offset", 0)), int(where.get("length", need))
        except ValueError:
            raise ImportFailure(f"{what}, at an offset or of a length that is no number") from None
        if length != need:
            raise ImportFailure(
                f"{what}, of {length} bytes; its shape {shape} of {dtype} needs {need}"
            )
        try:
            size = path.stat().st_size
        except OSError:
            raise ImportFailure(f"{what}, which does not exist") from None
        if offset < 0 or offset + need > size:
            raise ImportFailure(
                f"{what}, which is too short: {size} bytes, "
                f"bytes {offset} to {offset + need} needed"
            )
        if need == 0:
            return np.zeros(shape, dt.to_numpy(dtype))
        return _elements(np.memmap(path, np.uint8, "r", offset, (need,)), dtype, shape)


def _stored(count: int, dtype: str) -> int:
    """Bytes of so many elements in a file: those of fewer than 8 bits are packed."""
    return -(-count * dt.width(dtype) // 8) if dtype != "bool" else count


def _elements(raw: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """A file's bytes as an array; packed elements, the first ones lowest, get a byte each."""
    width = dt.width(dtype)
    if width < 8 and dtype != "bool":
        places = np.arange(0, 8, width, dtype=np.uint8)
        count = math.prod(shape)
        raw = ((raw[:, None] >> places) & ((1 << width) - 1)).reshape(-1)[:count]
    return raw.view(dt.to_numpy(dtype)).reshape(shape).view(np.ndarray)


def named_by(op: str, attrs: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of the graph that a node names in attributes: Gradient does."""
    given = [attrs.get(k, ()) for k in ("xs", "zs", "y")] if op == "Gradient" else []
    texts = [(v,) if isinstance(v, str) else v for v in given if not isinstance(v, Reference)]
    return tuple([n for v in texts for n in v])


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain
