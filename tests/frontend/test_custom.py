"""Operators of users' own domains, and what `survey` says of a model."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import helper

import smelt
from smelt import te
from smelt.frontend.onnx import survey
from smelt.ir.errors import TypeMismatch, Unsupported

from .models import model, node


@smelt.op
def soft_threshold(x: te.Tensor, *, limit: float = 0.5) -> te.Tensor:
    """x without what is within the limit."""
    made: te.Tensor = te.compute(
        x.shape,
        lambda *i: te.maximum(x[i] - limit, 0.0) - te.maximum(-x[i] - limit, 0.0),
        name="soft_threshold",
    )
    return made


def acme(**attrs: Any) -> onnx.ModelProto:
    own = helper.make_node("Shrink", ["x"], ["t"], name="own", domain="com.acme", **attrs)
    m = model([own, node("Exp", ["t"])], {"x": (("n", 4), "float32")})
    m.opset_import.append(helper.make_opsetid("com.acme", 1))
    return m


def test_an_operator_of_ones_own() -> None:
    exe = smelt.compile(acme(limit=1.0), operators={"com.acme.Shrink": soft_threshold})
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    want = np.exp(np.sign(x) * np.maximum(np.abs(x) - 1, 0))
    np.testing.assert_allclose(exe(x).numpy(), want, rtol=1e-5)
    assert len(exe.metadata["kernels"]) == 1


def test_a_converter_of_ones_own() -> None:
    def convert(g: Any, x: Any, *, limit: float = 0.0) -> Any:
        if limit < 0:
            g.unsupported(f"limit={limit}", "0 or more")
        return g.call("relu", g.call("subtract", x, g.constant(limit, x.dtype)))

    exe = smelt.compile(acme(limit=1.0), operators={"com.acme.Shrink": convert})
    x = np.linspace(-3, 3, 4, dtype=np.float32).reshape(1, 4)
    np.testing.assert_allclose(exe(x).numpy(), np.exp(np.maximum(x - 1, 0)), rtol=1e-5)
    with pytest.raises(Unsupported, match=r"node 'own' \(com.acme.Shrink\): limit=-1.0"):
        smelt.compile(acme(limit=-1.0), operators={"com.acme.Shrink": convert})


def test_mistakes() -> None:
    with pytest.raises(Unsupported, match=r"com.acme.Shrink .*: 1 node \('own'\)"):
        smelt.compile(acme())
    with pytest.raises(Unsupported, match=r"attribute size=2\n  supported: limit"):
        smelt.compile(acme(size=2), operators={"com.acme.Shrink": soft_threshold})
    with pytest.raises(TypeMismatch, match=r"operators maps 'com.acme.Shrink' to a int"):
        smelt.compile(acme(), operators={"com.acme.Shrink": cast(Any, 5)})


def test_survey() -> None:
    m = model(
        [
            node("Abs", ["x"], ["a"]),
            node("Cauchy", ["a"], ["b"]),
            node("Relu", ["b"], ["c"]),
            node("ReduceSum", ["a", "k"], ["d"]),
            node("DepthToSpace", ["a"], ["e"], blocksize=2, mode="XYZ"),
        ],
        {"x": ((1, 4, 8, 8), "float32"), "k": ((1,), "int64")},
        ["c", "d", "e"],
    )
    found = survey(m)
    assert not found.works
    assert [(o.operator, o.state) for o in found.operators] == [
        ("Abs-13", "works"),
        ("Cauchy (not in ai.onnx 18)", "not supported"),
        ("DepthToSpace-13", "not supported"),
        ("ReduceSum-13", "needs values"),
        ("Relu-14", "not reached"),
    ]
    assert found.operators[2].reason == "mode='XYZ'\n  supported: DCR, CRD"
    assert survey(acme(), operators={"com.acme.Shrink": soft_threshold}).works
