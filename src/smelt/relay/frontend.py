"""Trained models as Relay modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.frontend.onnx import from_onnx as import_onnx
from smelt.frontend.onnx.classic import check_said, refuse_map, unfrozen
from smelt.frontend.onnx.read import ModelFile, load
from smelt.frontend.tflite.classic import imported
from smelt.frontend.torch import to_onnx
from smelt.ir.errors import Absent, ImportFailure, Unsupported
from smelt.ir.module import IRModule
from smelt.runtime import NDArray, array

from .lift import lift

_OTHERS = {
    "from_tensorflow": "tf2onnx converts saved models",
    "from_tensorflow2": "tf2onnx converts saved models",
    "from_keras": "tf2onnx converts keras models",
    "from_mxnet": "mxnet exports ONNX (mxnet.onnx.export_model)",
    "from_coreml": "onnxmltools converts them",
    "from_caffe": "caffe2onnx converts them",
    "from_caffe2": "torch.onnx exports them",
    "from_darknet": "export the network's weights to ONNX",
    "from_paddle": "paddle2onnx converts them",
    "from_oneflow": "oneflow_onnx converts them",
    "quantize": "read a quantized ONNX model",
}
"""Importers that are not there, and how such models become ONNX."""


def __getattr__(name: str) -> Any:
    if name in _OTHERS:
        raise Absent(f"relay.frontend.{name} is not there yet; from_onnx and from_pytorch are: "
                     f"{_OTHERS[name]}")  # fmt: skip
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[int | str]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module whose function "main" is the model, and its weights.

    model          an onnx.ModelProto, its bytes, or a path
    shape          input name -> extents that replace those of the file: numbers or names
    dtype          there for the classic signature: the file's types count, and others are refused
    opset          the same: the file says it
    freeze_params  True: weights are constants of the function, and the dictionary is empty; False:
                   they are its parameters, which `relay.build(params=...)` binds
    """
    if convert_config:
        raise Unsupported(f"from_onnx: convert_config has no key {next(iter(convert_config))!r}; "
                          "it has none yet")  # fmt: skip
    if export_node_renamed_model_path is not None:
        raise Unsupported("from_onnx: export_node_renamed_model_path cannot be given; "
                          "smelt does not rename nodes")  # fmt: skip
    read = load(model)
    check_said(read, opset, None if dtype == "float32" else dtype, "dtype")
    if freeze_params:
        return lift(import_onnx(read, shape)), {}
    return _opened(model, read, shape)


def _opened(
    model: Any, read: ModelFile, shape: Mapping[str, Sequence[int | str]] | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module with the weights as parameters, and their arrays."""
    proto, arrays = unfrozen(model, read)
    return lift(import_onnx(proto, shape)), {n: array(a) for n, a in arrays.items()}


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[tuple[str, Any]],
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module whose function "main" is a PyTorch model, and its weights.

    script_module  what torch.jit.trace or torch.jit.script gives, or a torch.nn.Module
    input_infos    (name, shape) or (name, (shape, dtype)) of each input, in order
    default_dtype  of the inputs that do not say theirs

    The weights are parameters of "main", which `relay.build(params=...)` binds; BatchNorms stay
    what they are. The last two arguments are there for the classic signature.
    """
    refuse_map(custom_convert_map, "from_pytorch")
    proto = to_onnx(script_module, [_input_info(i, default_dtype) for i in input_infos])
    return _opened(proto, load(proto))


def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[int | str]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
    op_converter: Any = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module whose function "main" is a TFLite model, and its weights, which are constants of
    the function: the dictionary is empty.

    model         a tflite.Model, the file's bytes, or a path
    shape_dict    input name -> extents that replace those of the file: numbers or names
    dtype_dict    there for the classic signature: the file's types count, and others are refused
    op_converter  {"custom.Operator": function}: what nodes of an operator of your own become
    """
    return lift(imported(model, shape_dict, dtype_dict, op_converter)), {}


def _input_info(info: Any, default_dtype: str) -> tuple[str, Sequence[int], str]:
    """Name, shape and dtype from either classic form."""
    match info:
        case (str(name), (tuple() | list() as shape, str(dtype))):
            return name, shape, dtype
        case (str(name), tuple() | list() as shape) if all(isinstance(e, int) for e in shape):
            return name, shape, default_dtype
    raise ImportFailure(
        f"from_pytorch: input_infos has {info!r}; legal: (name, shape) or (name, (shape, dtype))"
    )
