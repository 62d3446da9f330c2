"""Symbolic image sizes, and threads: what is compared, and the tables of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from benchmarks import report, symbolic, threads
from smelt.cli.results import arrays
from tests.models.net import floats


def test_a_network_takes_any_image() -> None:
    proto = symbolic.opened(symbolic.espcn())
    _, static, _ = symbolic.sides("x", 1, 7, 5)
    free = smelt.compile(proto, options=smelt.Options(threads=1))
    fixed = smelt.compile(proto, shapes=static.sizes["shapes"], options=smelt.Options(threads=1))
    x = floats("x", 1, 1, 7, 5)["x"]
    (a,), (b,) = arrays(free(x)), arrays(fixed(x))
    assert a.shape == (1, 1, 21, 15)
    assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max()  # by other algorithms, perhaps


def test_sizes_are_symbolic_on_one_side() -> None:
    free, static, peer = symbolic.sides("x", 3, 7, 5)
    assert free.sizes["shapes"] == {"x": [1, 3, "h", "w"]}
    assert free.sizes["sizes"].keys() == {"h", "w"}
    assert static.sizes["shapes"] == {"x": [1, 3, 7, 5]}
    assert not peer.sizes


def test_what_came_of_a_case_does_not_say_which_it_is() -> None:
    """A case that is measured again replaces what was found before."""
    before = {"rows": [{"model": "a", "threads": 1, "best": "x"}, {"model": "b", "error": "why"}]}
    again = {"rows": [{"model": "a", "threads": 1, "best": "y"}, {"model": "b"}]}
    assert report.merged(before, again) == again


def median(value: float) -> report.Results:
    return {"median_ms": value}


def test_the_table_of_sizes() -> None:
    row = {"network": "n", "size": [4, 6], "foreign_cores": 1.0, "errors": {"onnxruntime": "why"}}
    text = symbolic.section({"rows": [row | {"symbolic": median(3.0), "static": median(2.0)}]})
    assert "| n, 4 x 6 | 3.000 | 2.000 | – | 1.50 ~ | – |" in text
    assert "| n, geometric mean |  |  |  | **1.50** |  |" in text
    assert text.endswith("n, 4 x 6, onnxruntime: why.")


def test_models_are_listed_by_kind(tmp_path: Path) -> None:
    for name in ("a", "b_int8", "resnet18_dynamic", "c"):
        (tmp_path / f"{name}.onnx").touch()
        if name != "c":
            (tmp_path / f"{name}.inputs.npz").touch()
    found = threads.listed(tmp_path)
    assert found[:2] == ["zoo:a", "symbolic:resnet18_dynamic"]
    assert {"light:squeezenet", "real:gru", "symbolic:gru"} <= {*found}
    assert {name.partition(":")[0] for name in found} == {*threads.KINDS}


@pytest.mark.parametrize("model", ["real:gru", "symbolic:gru", "light:squeezenet"])
def test_a_model_and_its_inputs_are_written(model: str) -> None:
    with threads.files(model, None) as (path, inputs):
        inputs_of = onnx.load(path).graph.input
        with np.load(inputs) as content:
            assert {i.name for i in inputs_of} == {*content}
        dims = [d.dim_param for d in inputs_of[0].type.tensor_type.shape.dim]
        assert (dims[0] == "n") == model.startswith("symbolic")
    assert not path.exists()


def times(one: float, two: float, peer: float) -> report.Results:
    found = {"smelt 1": median(one), "smelt 2": median(two), "onnxruntime 2": median(peer)}
    return {**found, "onnxruntime 1": median(4.0), "foreign_cores": 0.0}


def test_the_table_of_threads() -> None:
    """A model of less than a millisecond does not count for the mean."""
    long = {"model": "real:a", "alone": times(4, 2, 1), "busy": times(4, 3, 6), "errors": {}}
    short = {"model": "real:b", "alone": times(0.5, 9, 9), "busy": times(1, 1, 1), "errors": {}}
    failed = {"model": "zoo:c", "alone": {"foreign_cores": 0.0}, "busy": {"foreign_cores": 0.0}}
    text = threads.section({"rows": [long, short, failed | {"errors": {"smelt 1": "why"}}]})
    assert "| real:a | 4.000 | 0.50 | 0.25 | 0.75 | 1.50 | 0.50 |" in text
    assert "**0.50** | **0.25** | **0.75** | **1.50** | **0.50** |" in text
    assert "geometric mean of 1 " in text
    assert "| zoo:c | – | – | – | – | – | – |" in text
    assert text.endswith("zoo:c, smelt 1: why.")


def test_the_page_shows_what_was_measured_before() -> None:
    """Results in the folder may be older than the code that shows them."""
    page = report.page(report.HERE / "results")
    assert page == (report.HERE / "RESULTS.md").read_text(encoding="utf-8")
