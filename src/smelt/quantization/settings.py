"""How a model is quantized, checked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from smelt.ir.errors import CompileError
from smelt.runtime.errors import nearest

from .numbers import WEIGHT_SCALES
from .ranges import check_method
from .search import Metric

RANGED = ("uint8", "int8")
"""What activations become by ranges that samples have; with others, weights alone are quantized."""
ACTIVATIONS = (*RANGED, "float32", "dynamic")
WEIGHTS = ("int8", "int4")
_BLOCKS = (16, 32, 64, 128, 256)
"""Legal with activations that are rounded: those of ONNX Runtime's operator."""

_OF_SAMPLES = ("method", "equalize", "smooth", "max_drop", "metric", "samples")
"""Settings that mean nothing without samples."""
_OF_ACTIVATIONS = ("symmetric", "fixed", "narrow", "weight_scale")
"""Those that mean nothing where activations stay in floats."""


@dataclass(frozen=True)
class Settings:
    """How a model is quantized.

    method       how ranges of activations are found: "minmax" (all that was seen),
                 "moving-average" of the samples' ends, "percentile" (99.99 % of the numbers),
                 "entropy" (the least information lost), "mse" (the least squared error; scales of
                 weights, too)
    activations  "uint8" (the default), "int8", or "float32": weights alone are quantized;
                 "dynamic": the same, and products with weights of int4 may round what they are
                 multiplied with to 8 bits, block by block, while the model runs
    weights      "int8"; with weights alone also "int4"
    symmetric    zero points of activations are 0; of uint8, where there are numbers below, 128
    weight_scale each output "channel" of weights has a scale of its own, there is one for the whole
                 "tensor", or one that is a power of two: "power2"
    narrow       weights lie between -63 and 63, for runtimes that add two products in 16 bits and
                 saturate (onnxruntime on processors without VNNI); smelt does not need it
    block        with weights alone: so many weights of a column share a scale; all of them where it
                 does not divide the column
    bias_correction  biases make up for what rounded weights take away on average
    equalize     weights of neighbouring layers get like sizes in each channel
    smooth       0 to 1: how much of the size of activations behind a normalisation moves into
                 weights; 0.5 is usual for transformers; None: nothing
    fixed        all activations lie between minus this number and it: no samples are needed
    keep         names of layers that stay in floats
    max_drop     layers stay in floats until results are no worse than this, in percent or in the
                 unit of `metric`
    metric       the results for all samples -> a number, more is better; without it the share of
                 samples whose largest result is the same, or else the distance of the results
    samples      so many samples are used; None: all
    compare      measure the quantized model against the floats, on 64 samples or, with max_drop,
                 all
    """

    method: str = "minmax"
    activations: str = "uint8"
    weights: str = "int8"
    symmetric: bool = False
    weight_scale: str = "channel"
    narrow: bool = False
    block: int = 32
    bias_correction: bool = True
    equalize: bool = False
    smooth: float | None = None
    fixed: float | None = None
    keep: tuple[str, ...] = ()
    max_drop: float | None = None
    metric: Metric | None = None
    samples: int | None = None
    compare: bool = True

    @property
    def alone(self) -> bool:
        """Whether weights alone are quantized."""
        return self.activations not in RANGED

    @property
    def bits(self) -> int:
        """The bits of weights in products of integers."""
        return 7 if self.narrow else 8

    def needing_samples(self) -> list[str]:
        """The settings given that mean nothing without samples."""
        return [n for n in _OF_SAMPLES if getattr(self, n) != getattr(Settings, n)]

    def __post_init__(self) -> None:
        check_method(self.method)
        _one_of("activations", self.activations, ACTIVATIONS)
        _one_of("weights", self.weights, WEIGHTS)
        _one_of("weight_scale", self.weight_scale, WEIGHT_SCALES)
        if self.activations == "dynamic" and (self.weights != "int4" or self.block not in _BLOCKS):
            raise CompileError(
                f"activations='dynamic' with weights={self.weights!r} in blocks of {self.block}; "
                f"legal: weights='int4', block one of {', '.join(map(str, _BLOCKS))}"
            )
        if not self.alone and self.weights != "int8":
            raise CompileError(
                f"weights={self.weights!r} with activations={self.activations!r}: products of "
                "integers take weights of int8; legal: activations='float32', 'dynamic'"
            )
        idle = (*_OF_ACTIVATIONS, *_OF_SAMPLES) if self.alone else ("block",)
        for name in idle:
            value = getattr(self, name)
            if value != getattr(Settings, name) and (name, value) != ("method", "mse"):
                raise CompileError(
                    f"{name}={value!r} means nothing with activations={self.activations!r}"
                )
        if self.block < 2:
            raise CompileError(f"block={self.block}; legal: 2 and more")
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise CompileError(f"smooth={self.smooth}; legal: 0 to 1")
        if self.max_drop is not None and not self.max_drop >= 0:
            raise CompileError(f"max_drop={self.max_drop}; legal: 0 and more")
        if self.samples is not None and self.samples < 1:
            raise CompileError(f"samples={self.samples}; legal: 1 and more")


def _one_of(name: str, value: str, legal: Collection[str]) -> None:
    if value not in legal:
        raise CompileError(f"{name}={value!r}{nearest(value, legal)}; legal: {', '.join(legal)}")
