"""Models of torch as ONNX models, written by torch's own exporters."""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from smelt.ir.errors import ImportFailure

OPSET = 17
"""What the exporter writes; newer ones bring nothing that is needed here."""


@runtime_checkable
class ExportedProgram(Protocol):
    """What torch.export.export gives."""

    graph_signature: Any
    range_constraints: Any


@runtime_checkable
class ONNXProgram(Protocol):
    """What torch.onnx.export gives."""

    model_proto: Any


def as_onnx(model: Any) -> Any:
    """An onnx.ModelProto of what torch.export.export or torch.onnx.export gave; any other model
    as it is.

    Raises ImportFailure where a package is missing, or torch cannot export the program.
    """
    if isinstance(model, ONNXProgram):
        return model.model_proto
    if not isinstance(model, ExportedProgram):
        return model
    try:
        import torch  # noqa: PLC0415  (heavy, optional)

        importlib.import_module("onnxscript")
    except ImportError as e:
        raise ImportFailure(
            f"PyTorch's programs need the package {e.name}: pip install torch onnxscript"
        ) from e
    said = logging.getLogger("torch.onnx")
    level = said.level
    said.setLevel(logging.ERROR)  # it tells which operators of other packages it does not know
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.onnx.export(model, dynamo=True, verbose=False).model_proto
        except Exception as e:
            reason = next(iter(str(e).strip().splitlines()), "")
            raise ImportFailure(f"torch cannot export the program: {type(e).__name__}: {reason}"
                                ) from e  # fmt: skip
        finally:
            said.setLevel(level)


def to_onnx(
    module: Any, inputs: Sequence[tuple[str, Sequence[int], str]], dynamic: Sequence[str] = ()
) -> Any:
    """An onnx.ModelProto of a torch.nn.Module, traced or scripted module, in inference mode, that
    keeps what the module has: BatchNorms stay.

    inputs   name, shape and dtype of each input, in order
    dynamic  inputs whose first extent is a size of its own, named after them
    """
    try:
        import onnx  # noqa: PLC0415  (heavy, optional)
        import torch  # noqa: PLC0415
    except ImportError as e:
        raise ImportFailure(
            f"PyTorch models need the package {e.name}: pip install torch onnx"
        ) from e
    if not isinstance(module, torch.nn.Module):
        raise ImportFailure(
            f"a {type(module).__name__} is no PyTorch model; legal: torch.nn.Module, and what "
            "torch.jit.trace or torch.jit.script gives"
        )
    examples = tuple([_example(torch, *i) for i in inputs])
    file = io.BytesIO()
    module.eval()
    traced = isinstance(module, torch.jit.ScriptModule)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that ONNX does not have
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter speaks of its successor at each use
        try:
            torch.onnx.export(
                module,
                examples,
                file,
                input_names=[name for name, _, _ in inputs],
                opset_version=OPSET,
                do_constant_folding=False,
                training=torch.onnx.TrainingMode.PRESERVE,  # or BatchNorms go into convolutions
                dynamic_axes={name: {0: f"{name}_batch"} for name in dynamic},
                dynamo=False,
            )
        except Exception as e:
            shown = ", ".join([f"{n} {t}{list(s)}" for n, s, t in inputs])
            reason = next(iter(str(e).strip().splitlines()), "")
            hint = "\n  give the torch.nn.Module itself in place of its trace" if traced else ""
            raise ImportFailure(
                f"torch cannot export the model for the inputs {shown}:\n"
                f"  {type(e).__name__}: {reason}{hint}"
            ) from e
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
    return onnx.load_from_string(file.getvalue())


def _example(torch: Any, name: str, shape: Sequence[int], dtype: str) -> Any:
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ImportFailure(
            f"the input {name!r} has the dtype {dtype!r}, which torch does not have"
        )
    extents = [int(e) for e in shape]
    if kind.is_floating_point:
        return torch.rand(extents, dtype=kind)
    return torch.zeros(extents, dtype=kind)
