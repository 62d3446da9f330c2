"""Rooms of the classic stack that are not there yet: naming one says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Never

from .errors import Unsupported


class AbsentModule(Unsupported, ImportError):
    """A module of the classic stack that smelt does not have; the text says what there is."""


_MICRO = "a project's program is watched by the tools of its board; smelt.micro.Session runs it"

_COMPILERS = ("arm_compute_lib", "bnns", "clml", "coreml", "cublas", "cudnn", "cutlass",
              "ethosn", "libtorch", "mrvl", "tensorrt", "vitis_ai")  # fmt: skip
_BACK_ENDS = ("relay.op.contrib.dnnl has a pattern table; register_pattern_table and "
              "smelt.byoc.register_codegen add one and what compiles its functions")  # fmt: skip

ABSENT_MODULES: Mapping[str, str] = {
    "micro.class_factory": _MICRO,
    "micro.debugger": _MICRO,
    "relay.collage": "MergeComposite, AnnotateTarget, MergeCompilerRegions and PartitionGraph "
    "split a program by patterns",
    "contrib.relay_viz": "smelt.show(model) makes a page that shows a program",
    "contrib.download": "smelt loads nothing from the net; give the path of a file",
    "contrib.pipeline_executor": "a model runs as one program, on as many cores as threads= says",
    **{f"relay.op.contrib.{c}": _BACK_ENDS for c in _COMPILERS},
    "relay.op.contrib.ethosu": "smelt.micro.ethosu.compile_for_ethosu takes a TFLite file, which "
    "Arm's compiler vela reads",
    "contrib.torch": "relay.frontend.from_pytorch imports torch models",
}
"""Name behind `smelt.`: why it is absent and what there is instead."""


def refuse_module(name: str) -> Never:
    """Raise the error of an absent module (or of one inside it)."""
    known = next(k for k in ABSENT_MODULES if name == k or name.startswith(k + "."))
    raise AbsentModule(f"smelt.{known} is not there yet: {ABSENT_MODULES[known]}")


def is_absent(name: str) -> bool:
    """Whether a module, or the one it lies in, is known to be absent."""
    return any(name == k or name.startswith(k + ".") for k in ABSENT_MODULES)
