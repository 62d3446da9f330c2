"""Files and metadata whose sizes are wrong: nothing outside of what there is is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from smelt.runtime import LoadError, external, params, register_runtime
from smelt.runtime.external import Externals
from smelt.runtime.intermediates import read_results
from tests.runtime.conftest import tensor


@pytest.fixture(autouse=True)
def _back_end() -> Iterator[None]:
    register_runtime("damaged")(lambda text, constants: lambda *arrays: None)
    yield
    external._loaders.pop("damaged")


@pytest.mark.parametrize(("offset", "count"), [(0, 17), (60, 2), (1 << 62, 1), (0, 1 << 60)])
def test_constants_of_external_functions_lie_among_the_models(offset: int, count: int) -> None:
    entry = {
        "symbol": "f",
        "compiler": "damaged",
        "text": "",
        "symbols": [],
        "inputs": [],
        "outputs": [],
        "constants": [{**tensor("w", "float32", count), "offset": offset}],
    }
    with pytest.raises(LoadError) as caught:
        Externals("m", [entry], np.zeros(64, np.uint8))
    assert str(caught.value) == (
        f"m: the constant 'w' of f ends at byte {offset + 4 * count} of the model's 64 bytes of "
        "constants; it is damaged"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 56},
        {"offset": -8},
        {"shape": [20]},
        {"strides": [-1]},
        {"strides": ["n * 100"]},
        {"output": 0, "offset": 4},
        {"output": 5},
    ],
)
def test_results_inside_lie_in_the_workspace(change: dict[str, Any]) -> None:
    result = {
        "dtype": "float32", "shape": [4], "strides": ["n"], "offset": 48, "output": None, **change
    }  # fmt: skip
    memory, output = np.arange(64, dtype=np.uint8), np.zeros(4, np.float32)
    with pytest.raises(LoadError, match=r"^a result is said to lie at the bytes .* of "):
        read_results([result], {"n": 1}, memory, [output])


def test_results_of_the_last_bytes_are_read() -> None:
    memory = np.arange(16, dtype=np.float32)
    result = {"dtype": "float32", "shape": [2, 2], "strides": [2, 1], "offset": 48, "output": None}
    (found,) = read_results([result], {}, memory.view(np.uint8), [])
    assert found.tolist() == [[12, 13], [14, 15]]


def _rewritten(start: int, form: str, *values: Any) -> bytes:
    data = params.save_param_dict({"w": np.zeros((2, 3), np.float32)})
    struct.pack_into(form, data, start, *values)
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        _rewritten(32, "<c", b"\xff"),
        _rewritten(41 + 16 + 8, "<i", 1 << 30),  # rank
        _rewritten(41 + 16 + 13, "<B", 24),  # bits
        _rewritten(41 + 32, "<qq", 1 << 33, 1 << 31),  # a product of 2 ** 64
        _rewritten(41 + 32, "<qq", -2, -3),
        _rewritten(41 + 32, "<qqq", 0, 3, 1 << 62),
    ],
)
def test_parameters_of_wrong_sizes(data: bytes) -> None:
    with pytest.raises(LoadError, match=r"^load_param_dict: "):
        params.load_param_dict(data)
