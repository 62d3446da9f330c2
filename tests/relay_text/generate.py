"""Random Relay programs: operators, tuples, branches, lets, closures, constants of all types."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from smelt.ir import dtype as dt
from smelt.ir.expr import Var as SizeVar
from smelt.relax.nodes import RelaxExpr, constant

from .face import relay

NAMES = ("x", "y", "x_1", "input.1", "a b", 'q"', "0", "let", "nan", "n")
DTYPES = tuple(d for d in dt.DTYPES if not d.startswith(("float8", "float4")))
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-30, 0.1, -3.0, 65504.0)
UNARY = ("exp", "nn.relu", "negative", "copy", "tanh")
ATTRS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)


def array(draw: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array of values that texts get wrong easily."""
    count = int(np.prod(shape))
    kind = dt.to_numpy(dtype)
    if dtype == "bool":
        values: Any = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    elif dt.is_float(dtype):
        values = [draw(st.sampled_from(SPECIAL) | st.floats(width=32)) for _ in range(count)]
    else:
        values = [draw(st.integers(*dt.limits(dtype))) for _ in range(count)]
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.array(values, "float64" if dt.is_float(dtype) else None)
        return plain.astype(kind).reshape(shape)


class _Programs:
    """Values drawn one by one; `pool` holds those that operands are taken from."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.n = SizeVar(draw(st.sampled_from(["n", "batch", "1st", "min"])), "int64")

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def matrix(self, pool: list[RelaxExpr]) -> Any:
        """A float32 value of shape (n, 4)."""
        return self.pick(pool)

    def step(self, pool: list[RelaxExpr], depth: int) -> Any:
        """One more value of shape (n, 4)."""
        x, y = self.matrix(pool), self.matrix(pool)
        kinds = ["unary", "binary", "scalar", "bias", "moved", "tuple", "split"]
        kinds += ["if", "let", "closure", "recursion"] if depth else []
        match self.pick(kinds):
            case "unary":
                return getattr(relay.op, self.pick(UNARY).split(".")[-1], relay.nn.relu)(x)
            case "binary":
                return relay.op.add(x, y)
            case "scalar":
                c = constant(array(self.draw, "float32", ()))
                return relay.op.multiply(x, c)
            case "bias":
                c = constant(array(self.draw, "float32", (4,)), self.pick(["", "w"]))
                return relay.nn.bias_add(x, c, axis=self.pick([1, -1]))
            case "moved":
                moved = relay.op.transpose(relay.op.transpose(x), axes=(1, 0))
                return relay.op.concatenate(relay.Tuple([moved, y]), axis=1) if depth < 0 else moved
            case "tuple":
                inner = relay.Tuple([x, relay.Tuple([y]), relay.Tuple([])])
                return relay.TupleGetItem(relay.TupleGetItem(inner, 1), 0)
            case "split":
                halves = relay.op.split(x, indices_or_sections=2, axis=1)
                return relay.op.concatenate(relay.Tuple([halves[1], halves[0]]), axis=1)
            case "if":
                flag = relay.const(self.draw(st.booleans()))
                return relay.If(flag, self.block(pool, depth - 1), self.block(pool, depth - 1))
            case "let":
                return self.let(pool, depth - 1)
            case "closure":
                f = self.function(pool, depth - 1)
                return f(x) if self.draw(st.booleans()) else relay.op.add(f(x), f(y))
        return self.recursion(x, pool)

    def block(self, pool: list[RelaxExpr], depth: int) -> Any:
        """A value made of a few more."""
        own = list(pool)
        for _ in range(self.draw(st.integers(1, 3))):
            own.append(self.step(own, depth))
        return own[-1]

    def variable(self, typed: bool = True) -> Any:
        name = self.pick(NAMES)
        return relay.var(name, shape=(self.n, 4)) if typed else relay.var(name)

    def let(self, pool: list[RelaxExpr], depth: int) -> Any:
        v = self.variable()
        value = self.block(pool, depth)
        return relay.Let(v, value, self.block([*pool, v], depth))

    def function(self, pool: list[RelaxExpr], depth: int) -> Any:
        v = self.variable()
        attrs = self.draw(st.dictionaries(st.sampled_from(["Composite", "Inline", "a b"]), ATTRS))
        return relay.Function([v], self.block([*pool, v], depth), attrs=attrs)

    def recursion(self, x: RelaxExpr, pool: list[RelaxExpr]) -> Any:
        """A function that calls itself by the variable of a let."""
        t = x.type
        f, v = relay.var("f", relay.FuncType([t], t)), self.variable()
        again = f(relay.op.exp(v))
        flag = relay.const(False)
        return relay.Let(f, relay.Function([v], relay.If(flag, again, self.block([v], 0))), f(x))


@st.composite
def programs(draw: Any) -> Any:
    """A function whose values share operands across branches, lets and closures."""
    p = _Programs(draw)
    params = [p.variable() for _ in range(draw(st.integers(1, 3)))]
    loose = [relay.var("flag", "bool"), relay.var("t")]
    body = p.block(list(params), 2)
    extra = [constant(array(draw, draw(st.sampled_from(DTYPES)), draw(st.sampled_from(
        [(), (0,), (3,), (2, 2)]
    )))) for _ in range(draw(st.integers(0, 3)))]  # fmt: skip
    whole = relay.Tuple([body, *extra, relay.TupleGetItem(loose[1], 1), loose[0]])
    attrs = draw(st.dictionaries(st.sampled_from(["Compiler", "global_symbol", "1"]), ATTRS))
    return relay.Function([*params, *loose], whole, attrs=attrs)
