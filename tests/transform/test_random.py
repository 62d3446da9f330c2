"""Random graphs: whatever the passes do, results stay."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ir.module import IRModule
from smelt.relax.nodes import RelaxExpr, constant
from smelt.relax.transform import (
    combine_parallel_matmul,
    eliminate_common_subexpr,
    fold_constants,
    recognize_attention,
    recognize_patterns,
    simplify,
    simplify_graph,
)

from .graphs import assert_same, call, module, var

PASSES = (
    fold_constants, simplify, recognize_patterns, eliminate_common_subexpr, recognize_attention,
    combine_parallel_matmul, simplify_graph,
)  # fmt: skip
UNARY = (
    "relu", "tanh", "sigmoid", "negative", "abs", "erf", "identity", "square", "floor",
    "logical_not", "reciprocal", "sqrt",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 6.0, -0.25)


class Maker:
    """Makes a graph: mostly a chain, some values used twice. Hypothesis draws the seed only: what
    it draws one by one is too tame to bring the rules together."""

    def __init__(self, seed: int) -> None:
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.params = [var("x", 1, 4, 5, 6), var("y", 1, 4, 5, 6)]
        self.pool: list[RelaxExpr] = [*self.params]
        steps = [name for name in dir(self) if name.startswith("make_")]
        self.steps = self.random.sample(steps, self.random.randint(2, len(steps)))

    def constant(self, x: RelaxExpr, *, positive: bool = False) -> RelaxExpr:
        full = self.shape(x)
        channel = (full[1], *[1] * (len(full) - 2)) if len(full) > 1 else full
        shape = self.random.choice([(), (1,), full[-1:], channel, channel, full])
        data = self.rng.standard_normal(shape)
        if self.random.random() < 0.5:
            data = np.full(shape, self.random.choice(NUMBERS))
        data = np.abs(data) + 0.5 if positive else data
        return constant(data.astype(np.float32))

    def shape(self, x: RelaxExpr) -> tuple[int, ...]:
        found = x.type.fixed_shape()  # type: ignore[attr-defined]
        assert found is not None
        return tuple(found)

    def weights(self, *shape: int) -> RelaxExpr:
        return constant((self.rng.standard_normal(shape) / 3).astype(np.float32))

    def one(self) -> RelaxExpr:
        x = self.pool[-1] if self.random.random() < 0.8 else self.random.choice(self.pool)
        made: RelaxExpr = getattr(self, self.random.choice(self.steps))(x)
        return made

    def make_unary(self, x: RelaxExpr) -> RelaxExpr:
        name = self.random.choice(UNARY)
        if name == "logical_not":
            return call("cast", call(name, call("cast", x, dtype="bool")), dtype="float32")
        if name in ("reciprocal", "sqrt"):
            x = call("add", call("abs", x), constant(np.array(0.5, np.float32)))
        return call(name, x)

    def make_binary(self, x: RelaxExpr) -> RelaxExpr:
        name = self.random.choice(BINARY)
        if name == "divide":
            return call(name, x, self.constant(x, positive=True))
        same = [x, *[y for y in self.pool if self.shape(y) == self.shape(x)]]
        y = self.random.choice(same) if self.random.random() < 0.5 else self.constant(x)
        return call(name, *([x, y] if self.random.random() < 0.5 else [y, x]))

    def make_clip(self, x: RelaxExpr) -> RelaxExpr:
        low = self.random.choice([None, 0.0, -1.0, 0.5])
        return call("clip", x, min=low, max=self.random.choice([None, 6.0, 1.0]))

    def make_conv(self, x: RelaxExpr) -> RelaxExpr:
        shape = self.shape(x)
        if len(shape) != 4 or min(shape[2:]) < 2:
            return x
        c, p = shape[1], self.random.randint(0, 1)
        groups = self.random.choice([1, c])
        w = self.weights(c, c // groups, 2, 2)
        return call("conv2d", x, w, groups=groups, pads=(p, 0, p, p))

    def make_norm(self, x: RelaxExpr) -> RelaxExpr:
        c = self.shape(x)[1] if len(self.shape(x)) > 1 else 0
        if not c:
            return x
        v = [self.weights(c) for _ in range(3)]
        return call("batch_norm", x, *v, constant(self.rng.random(c).astype(np.float32) + 0.5))

    def make_matmul(self, x: RelaxExpr) -> RelaxExpr:
        n = self.shape(x)[-1]
        return call("matmul", x, self.weights(n, n)) if len(self.shape(x)) > 1 else x

    def make_transpose(self, x: RelaxExpr) -> RelaxExpr:
        rank = len(self.shape(x))
        return call("transpose", x, axes=tuple(self.random.sample(range(rank), rank)))

    def make_reshape(self, x: RelaxExpr) -> RelaxExpr:
        shape = self.shape(x)
        size = int(np.prod(shape))
        rows = (size // shape[-1], shape[-1])
        forms = [rows, (1, *rows), (size,), tuple(reversed(shape))]
        forms += [self.shape(y) for y in self.pool if np.prod(self.shape(y)) == size] * 2
        return call("reshape", x, shape=self.random.choice(forms))

    def make_reshaped_work(self, x: RelaxExpr) -> RelaxExpr:
        """Rows as a matrix, work on them, and back."""
        shape, y = self.shape(x), self.make_reshape(x)
        for _ in range(self.random.randint(1, 3)):
            y = self.random.choice([self.make_unary, self.make_binary, self.make_clip])(y)
        return call("reshape", y, shape=shape)

    def make_two_clips(self, x: RelaxExpr) -> RelaxExpr:
        return self.make_clip(self.make_clip(x))

    def make_two_slices(self, x: RelaxExpr) -> RelaxExpr:
        return self.make_slice(self.make_slice(x))

    def make_block(self, x: RelaxExpr) -> RelaxExpr:
        """Affine work in front of and behind a product."""
        y = self.random.choice([self.make_norm, self.make_binary, self.make_unary])(x)
        y = self.random.choice([self.make_conv, self.make_matmul])(y)
        return self.random.choice([self.make_norm, self.make_binary])(y)

    def make_slice(self, x: RelaxExpr) -> RelaxExpr:
        axis = self.random.randint(0, len(self.shape(x)) - 1)
        n = self.shape(x)[axis]
        begin = self.random.randint(0, n - 1)
        end, step = self.random.randint(begin + 1, n), self.random.randint(1, 2)
        return call("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(step,))

    def make_joined(self, x: RelaxExpr) -> RelaxExpr:
        return call("concat", x, x, axis=len(self.shape(x)) - 1)

    def make_softmax(self, x: RelaxExpr) -> RelaxExpr:
        return call(self.random.choice(["softmax", "log_softmax"]), x, axis=-1)


def graph(seed: int) -> IRModule:
    maker = Maker(seed)
    for _ in range(maker.random.randint(2, 12)):
        maker.pool.append(maker.one())
    results = {maker.pool[-1], maker.random.choice(maker.pool)}
    return module(maker.params, *sorted(results, key=maker.pool.index))


@given(st.integers(0, 1 << 32))
@settings(max_examples=150, deadline=None)
def test_results_stay(seed: int) -> None:
    mod = graph(seed)
    for change in PASSES:
        after = change(mod)
        assert_same(mod, after, tolerance=1e-3)
        assert change(after) is after
