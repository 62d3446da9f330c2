"""Trained models as graph programs, by Relax's names.

mod = relax.frontend.onnx.from_onnx(model, keep_params_in_input=True)
mod, params = relax.frontend.detach_params(mod)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.frontend.onnx import from_onnx as import_onnx
from smelt.frontend.onnx.classic import check_said, refuse_map, unfrozen
from smelt.frontend.onnx.read import load
from smelt.frontend.tflite.classic import imported
from smelt.frontend.torch import ExportedProgram, as_onnx, to_onnx
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.module import IRModule
from smelt.relax.nodes import Function, Tuple
from smelt.runtime import NDArray, array


def from_onnx(
    model: Any,
    shape_dict: Mapping[str, Sequence[int | str]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = None,
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """A module whose function "main" is the model.

    model                 an onnx.ModelProto, its bytes, or a path
    shape_dict            input name -> extents that replace those of the file: numbers or names
    dtype_dict, opset     there for the classic signature: what the file says counts, and something
                          else is refused
    keep_params_in_input  False: weights are constants. True: they are the last parameters, and the
                          function's attributes are params (their arrays) and num_input
    sanitize_input_names  there for the classic signature: names stay, and print quoted if need be
    """
    check_said(load(model), opset, dtype_dict, "dtype_dict")
    if not keep_params_in_input:
        return import_onnx(model, shape_dict)
    return _with_params(model, shape_dict)


def _with_params(model: Any, shapes: Mapping[str, Sequence[int | str]] | None = None) -> IRModule:
    """A model with its weights as the last parameters of "main"."""
    proto, arrays = unfrozen(model, load(model))
    mod = import_onnx(proto, shapes)
    main = mod["main"]
    inputs = [p for p in main.params if p.name not in arrays]
    weights = [p for p in main.params if p.name in arrays]
    attrs = {
        **main.attrs,
        "num_input": len(inputs),
        "params": tuple([array(arrays[p.name]) for p in weights]),
    }
    return mod.with_functions({"main": main.replace(params=(*inputs, *weights), attrs=attrs)})


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[NDArray]]]:
    """A module without the attribute params of its functions, and these arrays by function."""
    found: dict[str, list[NDArray]] = {}
    made: dict[str, Any] = {}
    for name, f in mod.functions.items():
        if isinstance(f, Function) and "params" in f.attrs:
            found[str(name)] = list(f.attrs["params"])
            made[name] = f.replace(attrs={k: v for k, v in f.attrs.items() if k != "params"})
    return (mod.with_functions(made) if made else mod), found


# -------------------------------------------------------------------------------------- tflite


def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[int | str]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
    op_converter: Any = None,
) -> IRModule:
    """A module whose function "main" is a TFLite model; weights are constants.

    model         a tflite.Model, the file's bytes, or a path
    shape_dict    input name -> extents that replace those of the file: numbers or names
    dtype_dict    there for the classic signature: the file's types count, and others are refused
    op_converter  {"custom.Operator": function}: what nodes of an operator of your own become
    """
    return imported(model, shape_dict, dtype_dict, op_converter)


# --------------------------------------------------------------------------------------- torch


def from_fx(
    model: Any,
    input_info: Sequence[tuple[Sequence[int], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[Any, Any] | None = None,
) -> IRModule:
    """A module whose function "main" is a torch.fx.GraphModule, or any torch.nn.Module.

    input_info            (shape, dtype) of each input, in order; inputs are named inp_0, inp_1, ...
    keep_params_as_input  weights as the last parameters, as in from_onnx
    unwrap_unit_return_tuple, no_bind_return_tuple
                          there for the classic signature: one result is never a tuple
    """
    refuse_map(custom_convert_map, "from_fx")
    inputs = [(f"inp_{n}", tuple(shape), str(dtype)) for n, (shape, dtype) in enumerate(input_info)]
    proto = to_onnx(model, inputs)
    return _with_params(proto) if keep_params_as_input else import_onnx(proto)


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[Any, Any] | None = None,
    run_ep_decomposition: bool = True,
) -> IRModule:
    """A module whose function "main" is what torch.export.export gave, with its sizes.

    keep_params_as_input  weights as the last parameters, as in from_onnx
    unwrap_unit_return_tuple
                          False: results are a tuple, even a single one
    """
    refuse_map(custom_convert_map, "from_exported_program")
    if not isinstance(exported_program, ExportedProgram):
        raise ImportFailure(
            f"from_exported_program: a {type(exported_program).__name__} is given; "
            "torch.export.export(model, example_inputs) gives what is legal"
        )
    proto = as_onnx(exported_program)
    mod = _with_params(proto) if keep_params_as_input else import_onnx(proto)
    main = mod["main"]
    if unwrap_unit_return_tuple or isinstance(main.body, Tuple):
        return mod
    return mod.with_functions({"main": main.replace(body=Tuple((main.body,)))})


def relax_dynamo(*args: Any, **named: Any) -> Any:
    """Refused: models are exported as a whole."""
    raise Unsupported(
        "relax_dynamo: there is no backend for torch.compile yet; torch.export.export and "
        "from_exported_program take a model as a whole"
    )


def dynamo_capture_subgraphs(*args: Any, **named: Any) -> Any:
    """Refused: models are exported as a whole."""
    raise Unsupported(
        "dynamo_capture_subgraphs: torch.export.export and from_exported_program take a model as a "
        "whole"
    )
