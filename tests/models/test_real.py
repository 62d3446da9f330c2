"""Small versions of models beside the zoo's against onnxruntime, static and with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import smelt
from smelt.cli.results import largest_error
from smelt.frontend.source import import_model
from tests.frontend.models import reference
from tests.models import detector, image_nets, language_nets, signal_nets
from tests.models.compare import TOLERANCE, check, compiled, permuted, run
from tests.models.net import Dim, Feeds, floats, merged, words

Build = Callable[[Dim], onnx.ModelProto]


def image(side: int, name: str = "x") -> Callable[[int], Feeds]:
    return lambda n: floats(name, n, 3, side, side)


def ids(n: int, tokens: int = 9, name: str = "input_ids") -> Feeds:
    return words(name, 50, n, tokens)


def pairs(n: int, tokens: int = 11, target: int = 7) -> Feeds:
    return merged(ids(n, tokens), ids(n, target, "decoder_input_ids"))


def captions(n: int) -> Feeds:
    return merged(floats("pixel_values", n, 3, 24, 24), ids(3, 7))


MODELS: dict[str, tuple[Build, Callable[[int], Feeds]]] = {
    "efficientnet": (image_nets.efficientnet, image(34)),
    "convnext": (image_nets.convnext, image(40)),
    "resnext": (image_nets.resnext, image(34)),
    "deeplab": (image_nets.deeplab, image(33)),
    "unet": (image_nets.unet, image(32)),
    "swin": (image_nets.swin, image(32)),
    "yolo": (detector.yolo, image(64, "images")),
    "wavenet": (signal_nets.wavenet, lambda n: floats("x", n, 1, 64)),
    "audio": (signal_nets.audio, lambda n: floats("x", n, 1, 1000)),
    "r3d": (signal_nets.r3d, lambda n: floats("x", n, 3, 4, 20, 20)),
    "whisper": (signal_nets.whisper, lambda n: floats("mel", n, 10, 24)),
    "lstm": (language_nets.lstm, ids),
    "gru": (language_nets.gru, ids),
    "t5": (language_nets.t5, pairs),
    "clip": (language_nets.clip, captions),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_and_exchanged_channels_are_noticed(name: str, cache: str) -> None:
    build, feeds = MODELS[name]
    model = build(2)
    exe = compiled(model, cache, 2)
    check(exe, model, feeds(2))
    assert largest_error(run(exe, feeds(2)), reference(permuted(model), feeds(2))) > 10 * TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_a_symbolic_batch_is_compiled_once(name: str, cache: str) -> None:
    build, feeds = MODELS[name]
    model = build("n")
    exe = compiled(model, cache)
    for n in (1, 3, 5):
        check(exe, model, feeds(n))


@pytest.mark.parametrize("least", [0.3, 0.9])
def test_a_detector_gives_the_boxes_that_are_left(least: float, cache: str) -> None:
    """As many as the run finds, at the higher bound none."""
    model = detector.yolo("n", suppresses=True, least=least)
    exe = compiled(model, cache)
    for n in (1, 3):
        feeds = image(64, "images")(n)
        (kept, boxes), theirs = run(exe, feeds), reference(model, feeds)
        assert np.array_equal(kept, theirs[0])
        assert (len(kept) > 9) == (least < 0.5)
        np.testing.assert_allclose(boxes, theirs[1], rtol=1e-4, atol=1e-3)


SEQUENCES: dict[str, tuple[onnx.ModelProto, Callable[[int, int], Feeds]]] = {
    "wavenet": (signal_nets.wavenet("n", "samples"), lambda n, t: floats("x", n, 1, t)),
    "lstm": (language_nets.lstm("n", "tokens"), ids),
    "gru": (language_nets.gru("n", "tokens"), ids),
    "t5": (language_nets.t5("n", "tokens", "target"), lambda n, t: pairs(n, t, 1 + t // 2)),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_symbolic_sequence_is_compiled_once(name: str, cache: str) -> None:
    model, feeds = SEQUENCES[name]
    exe = compiled(model, cache)
    for n, tokens in ((1, 1), (2, 19), (3, 40)):
        check(exe, model, feeds(n, tokens))


@pytest.mark.parametrize("name", MODELS)
def test_every_step_of_the_graph_verifies(name: str) -> None:
    for batch in (2, "n"):
        mod = import_model(MODELS[name][0](batch))
        smelt.optimize(mod, smelt.Options(verify=2))
