"""Models of torch as ONNX models, written by torch's own exporters."""

from __future__ import annotations

import importlib
import io
import logging
import os
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
            lost = _lost_updates(model)
            found = None if lost else torch.onnx.export(model, dynamo=True, verbose=False)
        except Exception as e:
            reason = next(iter(str(e).strip().splitlines()), "")
            raise ImportFailure(f"torch cannot export the program: {type(e).__name__}: {reason}"
                                ) from e  # fmt: skip
        finally:
            said.setLevel(level)
    if found is None:
        raise ImportFailure(
            f"the program writes to {', '.join(lost)}, and ONNX has no such effect: give what it "
            "changes as inputs of forward and return it, then smelt.compile(..., "
            "state={input: output}) keeps and updates it"
        )
    return found.model_proto


def _lost_updates(program: Any) -> list[str]:
    """What a program writes to, where that counts later: its buffers and inputs. Statistics that
    BatchNorm collects, and what nothing reads, do not."""
    kinds = {spec.kind.name for spec in program.graph_signature.input_specs}
    if "BUFFER" not in kinds and not any("_." in str(n.target) for n in program.graph.nodes):
        return []  # no operator in place, no buffers
    plain = program.run_decompositions({})  # without operators in place
    signature, nodes = plain.graph_signature, {n.name: n for n in plain.graph.nodes}
    inputs = {spec.target: nodes[spec.arg.name] for spec in signature.input_specs
              if spec.kind.name == "BUFFER"}  # fmt: skip
    found = [f"its input {name!r}" for name in signature.user_inputs_to_mutate.values()]
    for made, buffer in signature.buffers_to_mutate.items():
        new = nodes[made]
        source = new.args[0] if new.all_input_nodes else new
        statistics = "batch_norm" in str(getattr(source, "target", ""))
        unread = set(inputs[buffer].users) <= {new}
        if len(new.users) > 1 or not (statistics or unread):
            found.append(f"its buffer {buffer!r}")
    return found


def load_program(path: str | os.PathLike[str]) -> Any:
    """What torch.export.save wrote. Raises ImportFailure without torch, or for another file."""
    try:
        import torch  # noqa: PLC0415
    except ImportError as e:
        raise ImportFailure("PyTorch's programs need the package torch: pip install torch") from e
    try:
        return torch.export.load(path)
    except Exception as e:
        reason = next(iter(str(e).strip().splitlines()), "")
        raise ImportFailure(f"{path}: torch cannot read it: {type(e).__name__}: {reason}") from e


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
