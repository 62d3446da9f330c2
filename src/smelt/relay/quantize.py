"""`relay.quantize`: the classic calls of calibration; smelt's quantizer does the work.

with relay.quantize.qconfig(calibrate_mode="kl_divergence", weight_scale="max"):
    mod = relay.quantize.quantize(mod, params, dataset)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.module import IRModule
from smelt.pipeline import compile
from smelt.quantization import Settings, prepare, quantize_module
from smelt.quantization.points import layers_of
from smelt.relax.graph import bind
from smelt.relax.nodes import Function, constant
from smelt.runtime.entered import holding
from smelt.runtime.errors import nearest

from .lift import lift

__all__ = ["QAnnotateKind", "QConfig", "current_qconfig", "kind2str", "prerequisite_optimize",
           "qconfig", "quantize"]  # fmt: skip

_METHODS = {"kl_divergence": "entropy", "percentile": "percentile"}
_SCALES = {"power2": "power2", "max": "tensor"}


class QAnnotateKind:
    """What a tensor is for the layer that reads it."""

    IDENTITY = 0
    INPUT = 1
    WEIGHT = 2
    ACTIVATION = 3


_KINDS = {QAnnotateKind.INPUT: "input", QAnnotateKind.WEIGHT: "weight",
          QAnnotateKind.ACTIVATION: "activation", QAnnotateKind.IDENTITY: "identity"}  # fmt: skip


def kind2str(kind: int) -> str:
    """The name of a kind."""
    if kind not in _KINDS:
        raise CompileError(f"kind2str: {kind!r} is no kind; legal: {', '.join(map(str, _KINDS))}")
    return _KINDS[kind]


@dataclass(frozen=True)
class QConfig:
    """How `quantize` works.

    calibrate_mode   "global_scale": every activation lies within +- global_scale, no samples are
                     needed; "kl_divergence" or "percentile" of the samples
    weight_scale     "power2", or "max": what the largest weight of a layer says
    skip_dense_layer  products of matrices stay in floats
    skip_conv_layers  so do these convolutions, counted from 0

    The other fields have one legal value each, their default: sums are in int32, and what is
    between layers is rounded as QuantizeLinear does it.
    """

    nbit_input: int = 8
    nbit_weight: int = 8
    nbit_activation: int = 32
    dtype_input: str = "int8"
    dtype_weight: str = "int8"
    dtype_activation: str = "int32"
    calibrate_mode: str = "global_scale"
    global_scale: float = 8.0
    weight_scale: str = "power2"
    skip_dense_layer: bool = True
    skip_conv_layers: tuple[int, ...] | list[int] | None = (0,)
    do_simulation: bool = False
    round_for_shift: bool = True
    debug_enabled_ops: list[str] | None = None
    rounding: str = "UPWARD"
    calibrate_chunk_by: int = -1
    partition_conversions: str = "disabled"

    def __post_init__(self) -> None:
        legal: dict[str, tuple[Any, ...]] = {
            "dtype_input": ("int8", "uint8"),
            "calibrate_mode": ("global_scale", *_METHODS),
            "weight_scale": tuple(_SCALES),
            "skip_dense_layer": (True, False),
        }
        for f in fields(self):
            choices, value = legal.get(f.name, (f.default,)), getattr(self, f.name)
            if value not in choices and f.name not in ("global_scale", "skip_conv_layers"):
                shown = ", ".join(map(repr, choices))
                raise Unsupported(f"qconfig: {f.name}={value!r}; legal: {shown}")
        if not self.global_scale > 0:
            raise CompileError(f"qconfig: global_scale={self.global_scale}; legal: more than 0")

    def get_nbit_by_kind(self, kind: int) -> int:
        """The bits of a kind of tensor."""
        return int(getattr(self, f"nbit_{kind2str(kind)}"))

    def get_dtype_by_kind(self, kind: int) -> str:
        """The element type of a kind of tensor."""
        return str(getattr(self, f"dtype_{kind2str(kind)}"))


_USUAL = QConfig()
_current: ContextVar[QConfig] = ContextVar("qconfig", default=_USUAL)


def current_qconfig() -> QConfig:
    """What `quantize` would do here."""
    return _current.get()


def qconfig(**given: Any) -> AbstractContextManager[QConfig]:
    """`quantize` works as these fields of `QConfig` say inside."""
    known = [f.name for f in fields(QConfig)]
    for name in given:
        if name not in known:
            raise CompileError(
                f"qconfig: there is no {name!r}{nearest(name, known)}; legal: {', '.join(known)}"
            )
    return holding(_current, replace(QConfig(), **given))


def prerequisite_optimize(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """A module as `quantize` works on it: parameters bound, constants folded, BatchNorm in the
    weights."""
    return lift(_prepared(mod, params))


def _prepared(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    main = mod.functions.get("main")
    if not isinstance(main, Function):
        raise CompileError("relay.quantize: there is no graph function 'main'")
    names = {p.name: p for p in main.params}
    for name in params or {}:
        if name not in names:
            raise CompileError(
                f"relay.quantize: params has {name!r}, which is no parameter of main"
                f"{nearest(name, names)}"
            )
    bound = {names[n]: constant(np.asarray(_array(a)), n) for n, a in (params or {}).items()}
    return prepare(mod.with_functions({"main": bind(main, bound)}))


def _array(a: Any) -> Any:
    return a.numpy() if hasattr(a, "numpy") else a


def quantize(
    mod: IRModule,
    params: Mapping[str, Any] | None = None,
    dataset: Iterable[Mapping[str, Any]] | None = None,
) -> IRModule:
    """A module whose layers are between qnn.quantize and qnn.dequantize, as `qconfig` says.

    dataset  samples: dicts of an array for each input; the modes that look at samples need it

    The compiler makes integers of what is between them, or `FakeQuantizationToInteger` does, where
    it can be looked at.
    """
    q = current_qconfig()
    prepared = _prepared(mod, params)
    main = prepared["main"]
    assert isinstance(main, Function)
    settings = Settings(
        method=_METHODS.get(q.calibrate_mode, "minmax"),
        activations=q.dtype_input,
        symmetric=q.dtype_input == "int8",
        weight_scale=_SCALES[q.weight_scale],
        fixed=q.global_scale if q.calibrate_mode == "global_scale" else None,
        keep=_skipped(main, q),
        compare=False,
    )
    samples: list[dict[str, Any]] | None = None
    if settings.fixed is None:
        if dataset is None:
            raise CompileError(
                f"relay.quantize: calibrate_mode={q.calibrate_mode!r} needs samples: "
                "quantize(mod, params, dataset)"
            )
        samples = [{n: np.asarray(_array(a)) for n, a in s.items()} for s in dataset]
    return lift(quantize_module(prepared, samples, settings, compile).mod)


def _skipped(main: Function, q: QConfig) -> tuple[str, ...]:
    """The names of the layers that stay in floats."""
    layers = layers_of(main)
    convolutions = [n for n, v in layers.items() if v.call.callee != "matmul"]
    kept = [convolutions[i] for i in q.skip_conv_layers or () if i < len(convolutions)]
    if q.skip_dense_layer:
        kept += [n for n in layers if n not in convolutions]
    return tuple(kept)
