"""Quantized numbers change their scale by fixed-point factors on processors without vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, values
from smelt.relax.transform.rescale_in_integers import as_on_boards

from .test_compute_in_integers import SCALES, model, operators

SUM = "a = DequantizeLinear (x, xs, xz) d = DequantizeLinear (v, vs, vz)"


def largest_difference(m: object, *inputs: np.ndarray) -> int:
    """How many steps the results of the pass are from those in floats, at most."""
    before = from_onnx(m)
    after = as_on_boards(before)
    assert "dequantize" not in operators(after)
    rescaled = [v for v in values(after["main"].body) if isinstance(v, Call)]
    rescaled = [v for v in rescaled if v.callee == "requantize"]
    assert {v.attrs["compute_dtype"] for v in rescaled} == {"int64"}
    wanted, got = (np.asarray(interpret(mod["main"], *inputs)) for mod in (before, after))
    return int(np.abs(got.astype(int) - wanted.astype(int)).max())


@pytest.mark.parametrize(
    "behind", ["z = QuantizeLinear (y, ys, yz)",
               "r = Relu (y) z = QuantizeLinear (r, ys, yz)",
               "r = Clip (y, low, high) z = QuantizeLinear (r, ys, yz)"]
)  # fmt: skip
@pytest.mark.parametrize("zero", [0, 120, 255])
def test_products(behind: str, zero: int) -> None:
    rng = np.random.default_rng(1)
    m = model(
        "a = DequantizeLinear (x, xs, xz) w = DequantizeLinear <axis = 0> (k, ws) "
        f"b = DequantizeLinear <axis = 0> (bias, bs) y = Conv (a, w, b) {behind}",
        "uint8[1, 3, 8, 8] x", "uint8[1, 4, 6, 6] z", low=np.float32(0.5), high=np.float32(6),
        k=rng.integers(-127, 128, (4, 3, 3, 3)).astype("int8"),
        ws=np.array([0.001, 0.002, 0.003, 0.004], "float32"),
        bias=np.array([100, -2000, 300, 4000], "int32"),
        bs=np.array([0.00005, 0.0001, 0.00015, 0.0002], "float32"),
        **SCALES | {"yz": np.uint8(zero), "ys": np.float32(0.03)},
    )  # fmt: skip
    x = rng.integers(0, 256, (1, 3, 8, 8)).astype("uint8")
    assert largest_difference(m, x) <= 1


@given(st.lists(st.floats(0.001, 0.1), min_size=3, max_size=3),
       st.lists(st.integers(0, 255), min_size=3, max_size=3),
       st.sampled_from(["Add", "Sub"]), st.booleans(), st.integers(0, 1000))  # fmt: skip
def test_sums(scales: list[float], zeros: list[int], op: str, relu: bool, seed: int) -> None:
    s, z = (np.array(v, t) for v, t in ((scales, "float32"), (zeros, "uint8")))
    cut = "r = Relu (y) z = QuantizeLinear (r, ys, yz)"
    m = model(
        f"{SUM} y = {op} (a, d) {cut if relu else 'z = QuantizeLinear (y, ys, yz)'}",
        "uint8[4, 8] x, uint8[4, 8] v", "uint8[4, 8] z",
        xs=s[0], xz=z[0], vs=s[1], vz=z[1], ys=s[2], yz=z[2],
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    assert largest_difference(m, *rng.integers(0, 256, (2, 4, 8)).astype("uint8")) <= 1


def test_scales_of_the_run_stay_in_floats() -> None:
    m = model(
        "a = DequantizeLinear (x, xs, xz) y = Relu (a) z = QuantizeLinear (y, s, yz)",
        "uint8[3] x, float s", "uint8[3] z", **SCALES,
    )  # fmt: skip
    mod = as_on_boards(from_onnx(m))
    wide = [v.attrs["compute_dtype"] for v in values(mod["main"].body)
            if isinstance(v, Call) and v.callee == "requantize"]  # fmt: skip
    assert wide == ["float32"]
