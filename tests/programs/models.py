"""A small network, as its users build one, and what it computes."""

import numpy as np
import tvm
from tvm import relay

RNG = np.random.default_rng(7)
WEIGHTS = {
    "w1": RNG.standard_normal((16, 8)).astype("float32"),
    "b1": RNG.standard_normal(16).astype("float32"),
    "w2": RNG.standard_normal((4, 16)).astype("float32"),
}
X = RNG.standard_normal((2, 8)).astype("float32")


def network():
    """softmax(dense(relu(dense(x) + b1)))."""
    x = relay.var("x", shape=(2, 8), dtype="float32")
    w1, w2 = relay.var("w1", shape=(16, 8)), relay.var("w2", shape=(4, 16))
    b1 = relay.var("b1", shape=(16,))
    hidden = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w1), b1))
    body = relay.nn.softmax(relay.nn.dense(hidden, w2))
    return tvm.IRModule.from_expr(relay.Function([x, w1, b1, w2], body))


def expected(x=X):
    """The same in numpy."""
    hidden = np.maximum(x @ WEIGHTS["w1"].T + WEIGHTS["b1"], 0)
    scores = np.exp(hidden @ WEIGHTS["w2"].T)
    return scores / scores.sum(axis=-1, keepdims=True)


def close(ours, theirs, limit=1e-5):
    """Whether arrays agree in shape and, up to rounding, in values."""
    tvm.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit)
