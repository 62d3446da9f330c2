"""Running small programs in both ways."""

from __future__ import annotations

from typing import Any

import numpy as np

import smelt
from smelt import relay
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call
from smelt.topi.registry import Op

q = relay.qnn.op
Array = np.ndarray[Any, Any]


def scale(*values: float) -> Any:
    return relay.const(np.array(values if len(values) > 1 else values[0], "float32"))


def zero(*values: int) -> Any:
    return relay.const(np.array(values if len(values) > 1 else values[0], "int32"))


def numbers(
    seed: int, dtype: str, *shape: int, low: int | None = None, high: int | None = None
) -> Array:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    first, last = info.min if low is None else low, info.max if high is None else high
    return rng.integers(first, last, shape, dtype=np.int64, endpoint=True).astype(dtype)


def var(name: str, a: Array) -> Any:
    return relay.var(name, shape=a.shape, dtype=str(a.dtype))


def run(body: Any, given: dict[Any, Array]) -> list[Array]:
    """The results of an expression: the interpreter's, which the compiled program's have to equal.

    given  the parameters and their values
    """
    f = relay.Function(list(given), body)
    want = interpret(f, *given.values())
    made = smelt.compile(smelt.IRModule.from_expr(f))(*given.values())
    got = made if isinstance(made, tuple | list) else [made]
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.numpy().dtype
        np.testing.assert_array_equal(a, b.numpy())
    return want


def equal(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def calls(mod: Any, name: str) -> list[Any]:
    """All calls of an operator in "main"."""
    found: list[Any] = []

    def note(n: Any) -> None:
        if isinstance(n, Call) and isinstance(n.op, Op) and n.op.name == name:
            found.append(n)

    relay.analysis.post_order_visit(mod["main"], note)
    return found


def names(mod: Any) -> set[str]:
    """The operators of "main"."""
    return set(relay.analysis.count_ops(mod["main"]))
