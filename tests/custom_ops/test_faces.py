"""One function is enough: the operator is there in Relay, in scripts, in patterns, in texts."""

from typing import Any

import numpy as np

import smelt
from smelt import relay, te
from smelt.relax.interpret import interpret
from smelt.relay import dataflow_pattern as dfp
from smelt.script import parse

A = np.linspace(-2, 2, 32).reshape(4, 8).astype("float32")


@smelt.op
def scaled_swish(x: te.Tensor, *, beta: float = 1.0) -> Any:
    """x * sigmoid(beta * x)"""
    return te.compute(x.shape, lambda *i: x[i] / (1 + te.exp(-beta * x[i])), name="scaled_swish")


def swish(x: Any, beta: float) -> Any:
    return x / (1 + np.exp(-beta * x))


def test_relay_builds_fuses_prints_parses_and_matches_it() -> None:
    x = relay.var("x", shape=(4, 8))
    w = relay.const(np.full((3, 8), 0.25, "float32"))
    y = relay.op.scaled_swish(relay.nn.dense(x, w), beta=2.0)
    mod = smelt.IRModule.from_expr(relay.Function([x], y + 1.0))
    assert "scaled_swish(%0, beta=2f)" in str(mod["main"])
    again = relay.parse(mod.astext())
    lib = relay.build(again)
    assert list(lib.function_metadata) == ["fused_matmul_scaled_swish_add"]
    want = swish(A @ np.full((8, 3), 0.25), 2.0) + 1
    assert np.allclose(lib.lib(A), want, atol=1e-6)
    assert np.allclose(interpret(mod["main"], A)[0], want, atol=1e-6)
    assert dfp.is_op("scaled_swish")(dfp.wildcard()).match(y)
    assert relay.analysis.count_ops(mod["main"])["scaled_swish"] == 1


def test_scripts_know_it() -> None:
    main: Any = parse("""
@R.function
def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
    v0 = R.scaled_swish(x, beta=0.5)
    return v0
""")
    assert np.allclose(smelt.compile(main)(A), swish(A, 0.5), atol=1e-6)
    assert "R.scaled_swish(x, beta=0.5)" in main.script()
