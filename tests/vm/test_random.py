"""Programs made at random, of shared values, branches, closures, tuples and calls."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from .support import both, main, num, relay, scalar

LOOP = relay.GlobalVar("loop")


class Maker:
    """Makes expressions of int32 scalars; values made before are used again."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = random.Random(seed), 0

    def one(self, pool: list[Any], depth: int) -> Any:
        """An expression of the values in the pool, and new ones, which enter it."""
        kinds = (self.arithmetic, self.branch, self.item, self.closure, self.choice, self.call)
        if depth == 0 or self.random.random() < 0.2:
            return self.random.choice([*pool, num(self.random.randint(-3, 3))])
        made = self.random.choice((self.arithmetic, *kinds))(pool, depth - 1)
        pool.append(made)
        return made

    def arithmetic(self, pool: list[Any], depth: int) -> Any:
        op = self.random.choice([relay.add, relay.subtract, relay.multiply])
        return op(self.one(pool, depth), self.one(pool, depth))

    def branch(self, pool: list[Any], depth: int) -> Any:
        condition = relay.less(self.one(pool, depth), self.one(pool, depth))
        return relay.If(condition, self.one([*pool], depth), self.one([*pool], depth))

    def item(self, pool: list[Any], depth: int) -> Any:
        pairs = [relay.Tuple([self.one(pool, depth), self.one(pool, depth)]) for _ in range(2)]
        whole = relay.If(relay.less(self.one(pool, depth), num(0)), *pairs)
        return relay.TupleGetItem(whole, self.random.randint(0, 1))

    def function(self, pool: list[Any], depth: int) -> Any:
        self.count += 1
        x = scalar(f"x{self.count}")
        return relay.Function([x], self.one([*pool, x], depth))

    def closure(self, pool: list[Any], depth: int) -> Any:
        g, f = relay.Var("g"), self.function(pool, depth)
        return relay.Let(g, f, relay.add(g(self.one(pool, depth)), g(self.one(pool, depth))))

    def choice(self, pool: list[Any], depth: int) -> Any:
        sides = [self.function(pool, depth) for _ in range(2)]
        return relay.If(relay.less(self.one(pool, depth), num(1)), *sides)(self.one(pool, depth))

    def call(self, pool: list[Any], depth: int) -> Any:
        return LOOP(relay.minimum(self.one(pool, depth), num(5)), self.one(pool, depth))


@pytest.mark.parametrize("seed", range(8))
def test_the_machine_computes_what_the_interpreter_does(seed: int) -> None:
    n, acc, x, y = (scalar(name) for name in ("n", "acc", "x", "y"))
    again = LOOP(relay.subtract(n, num(1)), relay.add(acc, relay.multiply(n, num(2))))
    mod = main([x, y], Maker(seed).one([x, y], 5))
    mod[LOOP] = relay.Function([n, acc], relay.If(relay.less(n, num(1)), acc, again))
    for given in ((1, 2), (-4, 3)):
        both(mod, *map(np.int32, given))
