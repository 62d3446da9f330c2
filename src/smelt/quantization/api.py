"""`smelt.quantize`: the public function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypedDict, Unpack

from smelt.frontend.source import ModelSource, import_floats
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.pipeline import compile
from smelt.target import Target

from .observe import Step
from .run import Quantized, quantize_module
from .samples import Data
from .search import Metric
from .settings import Settings


class SettingValues(TypedDict, total=False):
    """The fields of `Settings` as keywords."""

    method: str
    activations: str
    weights: str
    symmetric: bool
    weight_scale: str
    narrow: bool
    block: int
    bias_correction: bool
    equalize: bool
    smooth: float | None
    fixed: float | None
    keep: tuple[str, ...]
    max_drop: float | None
    metric: Metric | None
    samples: int | None
    compare: bool


def quantize(
    model: ModelSource,
    data: Data | None = None,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
    progress: Step | None = None,
    **settings: Unpack[SettingValues],
) -> Quantized:
    """A trained model in floats as a quantized one, and a report of what that did to it.

    model     as for `smelt.compile`
    data      samples of its inputs: a folder of .npy or .npz files, or one of them; an array, or a
              dict of an array for each input, many samples along the first dimension; or samples
              one by one. Not needed for weights alone (activations="float32" or "dynamic")
    target    the machine that the samples run on
    shapes    as for `smelt.compile`
    options   of the compilations
    progress  called with (stage, done, total) while samples run
    settings  how: see `Settings`

    Raises CompileError for samples that do not fit, values that are NaN or constant, and settings
    that do not exist; Unsupported where nothing can be quantized; what `smelt.compile` does.
    """
    settings["keep"] = tuple(settings.get("keep", ()))
    chosen = Settings(**settings)
    run = partial(compile, target=target, options=options)
    return quantize_module(import_floats(model, shapes), data, chosen, run, progress)
