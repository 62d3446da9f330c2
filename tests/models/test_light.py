"""The networks that come with the onnx package against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.cli.results import largest_error
from tests.frontend.models import reference
from tests.models.compare import TOLERANCE, agree, compiled, permuted, run
from tests.models.light import NAMES, feeds_of, light

QUICK = ("inception_v1", "resnet50", "shufflenet", "squeezenet")


def names() -> list[object]:
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]


@pytest.mark.parametrize("name", names())
def test_a_light_network_agrees_and_exchanged_channels_are_noticed(name: str, cache: str) -> None:
    model = light(name)
    feeds = feeds_of(model, seed=2)
    theirs = reference(model, feeds)
    assert np.abs(theirs[0]).max() < 30 * theirs[0].std(), "a saturated result would hide errors"
    ours = run(compiled(model, cache), feeds)
    agree(ours, theirs)
    assert largest_error(ours, reference(permuted(model), feeds)) > 10 * TOLERANCE


def test_there_are_nine() -> None:
    assert len(NAMES) == 9
