"""Networks that decide while they run against onnxruntime, on inputs that take different ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.frontend.models import reference
from tests.models import control_nets
from tests.models.compare import check, compiled
from tests.models.control_nets import CONTROL, number, turns
from tests.models.net import Array, Feeds


def way(results: list[Array]) -> list[object]:
    """What a run decided: sizes, and the results that are no floats."""
    return [r.shape if r.dtype.kind == "f" else r.tolist() for r in results]


@pytest.mark.parametrize("name", CONTROL)
def test_a_model_agrees_whatever_it_decides(name: str, cache: str) -> None:
    build, inputs = CONTROL[name]
    model = build()
    exe = compiled(model, cache, 1)
    for feeds in inputs():
        check(exe, model, feeds)


@pytest.mark.parametrize("name", [name for name in CONTROL if not name.startswith("tiny")])
def test_runs_decide_differently(name: str) -> None:
    build, inputs = CONTROL[name]
    model = build()
    ways = [way(reference(model, feeds)) for feeds in inputs()]
    assert any(other != ways[0] for other in ways)


NOTHING: dict[str, Callable[[], Feeds]] = {
    "loop": lambda: number("most", 0, np.int64),
    "decoder": lambda: number("most", 0, np.int64),
    "tiny_loop": lambda: turns(0),
    "nms_tail": lambda: {"scores": np.zeros((1, 8, 400), np.float32)},
    "post_processing": lambda: number("least", 2),
}
"""Inputs, beside others of each model, with which no turn is taken or nothing is found."""


@pytest.mark.parametrize("name", NOTHING)
def test_no_turn_and_no_box(name: str, cache: str) -> None:
    build, inputs = CONTROL[name]
    model = build()
    check(compiled(model, cache, 1), model, inputs()[0] | NOTHING[name]())


@pytest.mark.parametrize("count", [2, 33])
def test_one_branch_after_another(count: int, cache: str) -> None:
    model = control_nets.tiny_if(count)
    exe = compiled(model, cache, 1)
    for feeds in control_nets.tiny_if_inputs():
        check(exe, model, feeds)


def test_ten_thousand_turns(cache: str) -> None:
    model = control_nets.tiny_loop()
    check(compiled(model, cache, 1), model, turns(10_000))
