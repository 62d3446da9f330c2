"""Small TFLite models written by the schema's own builder, and TFLite's answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Array = np.ndarray[Any, Any]

TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "uint8": "UINT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "bool": "BOOL", "int4": "INT4", "uint32": "UINT32",
    "string": "STRING", "complex64": "COMPLEX64", "float64": "FLOAT64", "uint16": "UINT16",
    "resource": "RESOURCE",
}  # fmt: skip


@dataclass
class Spec:
    """A tensor: with data it is a constant; scales and zero points along an axis."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    scale: float | Sequence[float] | None = None
    zero: int | Sequence[int] = 0
    axis: int = 0
    data: Array | None = None
    name: str = ""
    signature: tuple[int, ...] | None = None
    variable: bool = False


@dataclass
class Step:
    """An operator; operands, results and what is its own are numbers of tensors, -1: left out."""

    op: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    custom: bytes | None = None
    version: int = 1
    inner: Sequence[int] = ()


def const(data: Any, dtype: str | None = None, **more: Any) -> Spec:
    """A tensor with content."""
    array = np.asarray(data, dtype)
    return Spec(array.shape, str(array.dtype), data=array, **more)


def _ints(b: Any, values: Sequence[int]) -> int:
    return int(b.CreateNumpyVector(np.asarray(values, np.int32)))


def _table(b: Any, kind: str, **fields: Any) -> int:
    """A table of the schema; fields are numbers or offsets by the schema's names."""
    getattr(tflite, f"{kind}Start")(b)
    for name, value in fields.items():
        if value is not None:
            getattr(tflite, f"{kind}Add{name}")(b, value)
    return int(getattr(tflite, f"{kind}End")(b))


def _offsets(b: Any, items: Sequence[int]) -> int:
    b.StartVector(4, len(items), 4)
    for i in reversed(items):
        b.PrependUOffsetTRelative(i)
    return int(b.EndVector())


def _tensor(b: Any, s: Spec, number: int, buffer: int) -> int:
    quantization = None
    if s.scale is not None:
        scales = b.CreateNumpyVector(np.atleast_1d(np.asarray(s.scale, np.float32)))
        zeros = np.broadcast_to(np.asarray(s.zero, np.int64), np.atleast_1d(s.scale).shape)
        zeros = b.CreateNumpyVector(np.ascontiguousarray(zeros))
        quantization = _table(b, "QuantizationParameters", Scale=scales, ZeroPoint=zeros,
                              QuantizedDimension=s.axis)  # fmt: skip
    name = b.CreateString(s.name or f"t{number}")
    signature = None if s.signature is None else _ints(b, s.signature)
    return _table(b, "Tensor", Shape=_ints(b, s.shape), Name=name, Buffer=buffer,
                  Type=getattr(tflite.TensorType, TYPES[s.dtype]), Quantization=quantization,
                  ShapeSignature=signature, IsVariable=s.variable)  # fmt: skip


def _option(b: Any, kind: str, options: dict[str, Any]) -> int:
    fields = dict(options)
    for name, value in options.items():
        if isinstance(value, tuple | list):
            fields[name] = _ints(b, value)
        elif isinstance(value, str):
            fields[name] = b.CreateString(value)
        elif isinstance(value, np.ndarray):
            fields[name] = b.CreateNumpyVector(value)
    return _table(b, kind, **fields)


def _step(b: Any, s: Step, code: int) -> int:
    fields: dict[str, Any] = {
        "OpcodeIndex": code, "Inputs": _ints(b, s.inputs), "Outputs": _ints(b, s.outputs)
    }  # fmt: skip
    if s.inner:
        fields["Intermediates"] = _ints(b, s.inner)
    if s.custom is not None:
        fields["CustomOptions"] = b.CreateByteVector(s.custom)
    if s.kind:
        table = _option(b, s.kind, s.options)
        first = getattr(tflite.BuiltinOptions, s.kind, None)
        if first is not None:
            fields |= {"BuiltinOptionsType": first, "BuiltinOptions": table}
        else:
            second = getattr(tflite.BuiltinOptions2, s.kind)
            fields |= {"BuiltinOptions2Type": second, "BuiltinOptions2": table}
    return _table(b, "Operator", **fields)


def _code(b: Any, s: Step) -> int:
    number = getattr(tflite.BuiltinOperator, s.op, tflite.BuiltinOperator.CUSTOM)
    custom = b.CreateString(s.op) if number == tflite.BuiltinOperator.CUSTOM else None
    return _table(b, "OperatorCode", DeprecatedBuiltinCode=min(number, 127), BuiltinCode=number,
                  Version=s.version, CustomCode=custom)  # fmt: skip


Part = tuple[Sequence[Spec], Sequence[Step], Sequence[int], Sequence[int]]
"""A subgraph: tensors, operators, inputs, outputs."""


def model(
    tensors: Sequence[Spec], steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int],
    version: int = 3, others: Sequence[Part] = (), signed: dict[str, int] | None = None,
) -> bytes:  # fmt: skip
    """A model, as a file's bytes.

    others  the subgraphs behind the first one
    signed  what a signature calls inputs -> their numbers
    """
    b = flatbuffers.Builder(1 << 12)
    parts = [(tensors, steps, inputs, outputs), *others]
    contents = [None, *[s.data for p in parts for s in p[0] if s.data is not None]]
    buffers = [
        _table(b, "Buffer", Data=None if d is None else b.CreateByteVector(d.tobytes()))
        for d in contents
    ]
    graphs: list[int] = []
    codes: list[int] = []
    at = 0
    for own, run, ins, outs in parts:
        made = []
        for n, s in enumerate(own):
            at += s.data is not None
            made.append(_tensor(b, s, n, at if s.data is not None else 0))
        operators = [_step(b, s, len(codes) + n) for n, s in enumerate(run)]
        codes += [_code(b, s) for s in run]
        graphs.append(_table(b, "SubGraph", Tensors=_offsets(b, made), Inputs=_ints(b, ins),
                             Outputs=_ints(b, outs), Operators=_offsets(b, operators),
                             Name=b.CreateString("main")))  # fmt: skip
    names = [(b.CreateString(n), k) for n, k in (signed or {}).items()]
    maps = [_table(b, "TensorMap", Name=n, TensorIndex=k) for n, k in names]
    signatures = None
    if signed:
        key = b.CreateString("serving_default")
        made = [_table(b, "SignatureDef", Inputs=_offsets(b, maps), SignatureKey=key)]
        signatures = _offsets(b, made)
    root = _table(b, "Model", Version=version, OperatorCodes=_offsets(b, codes),
                  Subgraphs=_offsets(b, graphs), Buffers=_offsets(b, buffers),
                  SignatureDefs=signatures)  # fmt: skip
    b.Finish(root, b"TFL3")
    return bytes(b.Output())


def one(
    op: str, operands: Sequence[Spec | None], results: Sequence[Spec], kind: str = "",
    version: int = 1, inner: Sequence[Spec] = (), **options: Any,
) -> bytes:  # fmt: skip
    """A model of one operator; operands without data are the model's inputs.

    inner  tensors of the operator's own
    """
    tensors = [o for o in operands if o is not None]
    numbers = iter(range(len(tensors)))
    ins = [-1 if o is None else next(numbers) for o in operands]
    outs = list(range(len(tensors), len(tensors) + len(results)))
    given = [n for n, t in enumerate(tensors) if t.data is None and not t.variable]
    count = len(tensors) + len(results)
    own = range(count, count + len(inner))
    step = Step(op, ins, outs, options, kind, version=version, inner=own)
    return model([*tensors, *results, *inner], [step], given, outs)


class Oracle:
    """TFLite's kernels on a model: the reference ones, or those that it runs by default, with those
    of XNNPACK (delegate) or without."""

    def __init__(self, content: bytes, reference: bool = True, delegate: bool = False) -> None:
        kinds = OpResolverType
        kind = kinds.BUILTIN_REF if reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        kind = kinds.BUILTIN if delegate else kind
        self.it = Interpreter(model_content=content, experimental_op_resolver_type=kind)
        self.it.allocate_tensors()

    def __call__(self, *inputs: Array) -> list[Array]:
        for d, x in zip(self.it.get_input_details(), inputs, strict=True):
            self.it.set_tensor(d["index"], x)
        self.it.invoke()
        return [self.it.get_tensor(d["index"]) for d in self.it.get_output_details()]
