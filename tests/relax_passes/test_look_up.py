"""Transcendental functions of a byte are tables."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret
from smelt.relax.transform.compute_in_integers import compute_in_integers
from tests.frontend.models import reference

from .test_compute_in_integers import SCALES, model, operators

GELU = (
    "d = Div (x, root) e = Erf (d) o = Add (e, one) p = Mul (x, o) g = Mul (p, half) "
    "y = QuantizeLinear (g, ys, yz)"
)
IN_STEPS = (
    "d = Div (x, root) dq = QuantizeLinear (d, es, ez) dd = DequantizeLinear (dq, es, ez) "
    "e = Erf (dd) eq = QuantizeLinear (e, es, ez) ed = DequantizeLinear (eq, es, ez) "
    "oq = QuantizeLinear (one, es, ez) od = DequantizeLinear (oq, es, ez) "
    "o = Add (ed, od) p = Mul (x, o) g = Mul (p, half) y = QuantizeLinear (g, ys, yz)"
)
NUMBERS = {
    "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5),
    "es": np.float32(0.03), "ez": np.uint8(128),
}  # fmt: skip
CODES = np.arange(256, dtype="uint8").reshape(2, 128)


def function(text: str, kind: str = "uint8", **given: Any) -> Any:
    """A model of one input of bytes."""
    return model(
        f"x = DequantizeLinear (a, xs, xz) {text}", f"{kind}[n, 128] a", f"{kind}[n, 128] y",
        **{**NUMBERS, **SCALES, "xz": np.uint8(120), **given},
    )  # fmt: skip


def test_gelu_is_a_table() -> None:
    m = function(GELU)
    found = operators(compute_in_integers(from_onnx(m)))
    assert found == ["reinterpret", "cast", "gather"]
    x = (CODES.astype(float) - 120) * 0.05
    exact = x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2
    wanted = np.clip(np.rint(exact / 0.11) + 120, 0, 255)
    exe = smelt.compile(m)
    assert len(exe.metadata["kernels"]) == 1
    np.testing.assert_array_equal(exe(CODES).numpy(), wanted)


@pytest.mark.parametrize(
    "text",
    [
        IN_STEPS,
        "s = Sigmoid (x) m = Mul (s, x) y = QuantizeLinear (m, ys, yz)",
        "t = Tanh (x) y = QuantizeLinear (t, ys, yz)",
        "e = Exp (x) y = QuantizeLinear (e, ys, yz)",
    ],
)
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_tables_are_what_the_operators_give(text: str, kind: str) -> None:
    zeros = {"xz": np.asarray(100, kind), "yz": np.asarray(-7 if kind == "int8" else 120, kind)}
    m = function(text, kind, **zeros)
    mod = from_onnx(m)
    made = compute_in_integers(mod)
    found = operators(made)
    assert (found.count("gather"), {"erf", "exp", "tanh", "sigmoid"} & {*found}) == (1, set())
    a = CODES.view(kind)
    got = smelt.compile(m)(a).numpy()
    np.testing.assert_array_equal(got, interpret(mod["main"], a)[0])
    (peer,) = reference(m, {"a": a}, optimized=False)
    assert np.abs(got.astype(int) - peer.astype(int)).max() <= 1


@pytest.mark.parametrize(
    "text",
    [
        "r = Add (x, one) y = QuantizeLinear (r, ys, yz)",  # vectors are faster
        "e = Exp (x) s = Add (e, other) y = QuantizeLinear (s, ys, yz)",
        "b = DequantizeLinear (c, xs, xz) s = Mul (x, b) e = Exp (s) "
        "y = QuantizeLinear (e, ys, yz)",
        "s = Softmax (x) y = QuantizeLinear (s, ys, yz)",
    ],
)
def test_others_are_computed(text: str) -> None:
    m = model(
        f"x = DequantizeLinear (a, xs, xz) {text}", "uint8[2, 4] a, uint8[2, 4] c", "uint8[2, 4] y",
        other=np.array([1, 2, 3, 4], "float32"), **NUMBERS, **SCALES,
    )  # fmt: skip
    assert "gather" not in operators(compute_in_integers(from_onnx(m)))
    a = np.arange(8, dtype="uint8").reshape(2, 4)
    (peer,) = reference(m, {"a": a, "c": a}, optimized=False)
    got = smelt.compile(m)(a, a).numpy()
    assert np.abs(got.astype(int) - peer.astype(int)).max() <= 1
