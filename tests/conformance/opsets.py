"""Older versions of operators, from operator set 7 on: the suite has the newest ones only.

A case of the suite whose node an older version allows, too, is put into a model of that operator
set; where none does, a case is written here. What is right, onnxruntime says, and the reference
evaluator of onnx where onnxruntime has no kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, ModelProto, TypeProto, helper
from onnx.defs import OpSchema, get_all_schemas_with_history
from onnx.reference import ReferenceEvaluator

__all__ = ["OLDEST", "Model", "expected", "older"]

OLDEST = 7
IR_VERSION = 8
UNTESTED = (
    *("If", "Loop", "Scan", "SequenceMap"),  # the operators inside belong to another set, too
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),  # results at random
    *("RandomUniform", "RandomUniformLike"),
)

Array = np.ndarray[Any, Any]


class Model(NamedTuple):
    """A model of one node, and its inputs."""

    name: str
    proto: ModelProto
    inputs: Sequence[Any]


def older(suite: Sequence[tuple[ModelProto, Sequence[Any]]]) -> Iterator[Model]:
    """A model for each version but the newest; `suite` has models with their inputs."""
    alone = [(m, given) for m, given in suite if len(m.graph.node) == 1 and not m.functions]
    for op, versions in sorted(schemas().items()):
        for version in versions[:-1]:
            schema = onnx.defs.get_schema(op, version, "")
            if op in UNTESTED or schema.deprecated:
                continue
            name = f"{op}-{schema.since_version}"
            if name in BY_HAND:
                yield written(name, op, version, *BY_HAND[name])
                continue
            for m, given in alone:
                if m.graph.node[0].op_type == op and allows(schema, m):
                    yield Model(name, retargeted(m, version), given)
                    break


def schemas() -> dict[str, list[int]]:
    """Operator sets that brought a version of each operator; the first is OLDEST or later."""
    found: dict[str, set[int]] = {}
    for s in get_all_schemas_with_history():
        if s.domain == "":
            found.setdefault(s.name, set()).add(max(s.since_version, OLDEST))
    return {op: sorted(versions) for op, versions in found.items()}


def allows(schema: OpSchema, m: ModelProto) -> bool:
    """Whether a version of an operator knows a node's attributes, operands and types."""
    (node,) = m.graph.node
    given = {a.name: a for a in node.attribute}
    known = schema.attributes
    if any(n not in known or str(known[n].type) != kind_text(a) for n, a in given.items()):
        return False
    if node.domain or any(a.required and n not in given for n, a in known.items()):
        return False
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return False
    if not schema.min_output <= len(node.output) <= schema.max_output:
        return False
    types = {v.name: type_text(v.type) for v in (*m.graph.input, *m.graph.output)}
    operands = ((schema.inputs, node.input), (schema.outputs, node.output))
    return all(
        not name or types.get(name) in formal[min(n, len(formal) - 1)].types
        for formal, names in operands
        for n, name in enumerate(names)
    )


def kind_text(a: AttributeProto) -> str:
    """The kind of an attribute as schemas write it: AttrType.INTS."""
    return f"AttrType.{AttributeProto.AttributeType.Name(a.type)}"


def type_text(t: TypeProto) -> str:
    """A type as schemas write it: seq(tensor(float))."""
    match t.WhichOneof("value"):
        case "sequence_type":
            return f"seq({type_text(t.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({type_text(t.optional_type.elem_type)})"
        case _:
            return f"tensor({onnx.TensorProto.DataType.Name(t.tensor_type.elem_type).lower()})"


def retargeted(m: ModelProto, version: int) -> ModelProto:
    """The same model of another operator set."""
    made = ModelProto()
    made.CopyFrom(m)
    made.ir_version = IR_VERSION
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("", version))
    return made


def written(
    name: str,
    op: str,
    version: int,
    inputs: Sequence[Array],
    attrs: dict[str, Any],
    results: int = 1,
) -> Model:
    """A model around one node."""
    names = [f"x{n}" for n in range(len(inputs))]
    node = helper.make_node(op, names, [f"y{n}" for n in range(results)], **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    empty = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], name, infos, empty)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", version)], ir_version=IR_VERSION
    )
    return Model(name, onnx.shape_inference.infer_shapes(made, strict_mode=True), inputs)


def expected(m: ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """What the model has to give."""
    feeds = {i.name: x for i, x in zip(m.graph.input, inputs, strict=True)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            m.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, feeds))
    except Exception:  # its errors have no class in common
        return list(ReferenceEvaluator(m).run(None, feeds))


def ramp(*shape: int) -> Array:
    """Different numbers of both signs, in no order."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % count - count / 3) / 4).astype(np.float32).reshape(shape)


AXES = {"axes": [0, 2], "keepdims": 0}
BY_HAND: dict[str, tuple[Any, ...]] = {
    "Clip-6": ([ramp(3, 4)], {"min": -0.5, "max": 0.75}),
    "DepthToSpace-1": ([ramp(1, 8, 2, 3)], {"blocksize": 2}),
    **{
        f"DequantizeLinear-{version}": (
            [np.arange(6, dtype=np.uint8), np.array(0.5, np.float32), np.array(3, np.uint8)],
            {},
        )
        for version in (10, 13)
    },
    "GridSample-16": (
        [ramp(1, 1, 3, 4), ramp(1, 2, 3, 2)],
        {"mode": "bilinear", "align_corners": 1},
    ),
    "Pad-2": ([ramp(2, 3)], {"pads": [0, 1, 2, -1], "value": 0.5}),
    "Resize-10": ([ramp(1, 1, 2, 3), np.array([1, 1, 2, 3], np.float32)], {"mode": "linear"}),
    "RoiAlign-10": (
        [ramp(1, 2, 6, 6), np.array([[0, 0, 4, 5]], np.float32), np.array([0])],
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
    ),
    "Slice-1": ([ramp(4, 5)], {"axes": [1, 0], "starts": [1, -3], "ends": [99, -1]}),
    "Squeeze-1": ([ramp(1, 3, 1)], {"axes": [2]}),
    "Squeeze-11": ([ramp(1, 3, 1)], {"axes": [-3]}),
    "TopK-1": ([ramp(3, 5)], {"k": 2, "axis": 0}, 2),
    "Unsqueeze-1": ([ramp(3, 2)], {"axes": [0, 2]}),
    "Unsqueeze-11": ([ramp(3, 2)], {"axes": [-1, 0]}),
    "Upsample-7": ([ramp(1, 1, 2, 3)], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    "MaxRoiPool-1": (
        [ramp(1, 1, 6, 6), np.array([[0, 0, 0, 4, 5]], np.float32)],
        {"pooled_shape": [2, 2]},
    ),
    "GlobalLpPool-2": ([ramp(1, 2, 3, 4)], {"p": 3}),
    **{
        f"Reduce{kind}-{version}": ([abs(ramp(2, 3, 4)) + 1], AXES)
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Sum", "SumSquare")
        for version in (1, 11, 13)
    },
}
