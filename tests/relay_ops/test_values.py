"""Every case through the interpreter, and many of them compiled together."""

from __future__ import annotations

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Tuple

from .cases_moves import CASES as MOVES
from .cases_nn import CASES as NN
from .cases_plain import CASES as PLAIN
from .support import Case

CASES = [*PLAIN, *MOVES, *NN]
TOGETHER = 24


def first_of_each() -> list[Case]:
    """One case of each operator."""
    return list({c.name: c for c in reversed(CASES)}.values())[::-1]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_interpreter_agrees_with_numpy(case: Case) -> None:
    case.check(interpret(case.function(), *case.inputs))


@pytest.mark.parametrize("start", range(0, len(first_of_each()), TOGETHER))
def test_compiled_operators_agree_with_numpy(start: int) -> None:
    cases = first_of_each()[start : start + TOGETHER]
    params, results, counts = [], [], []
    for n, c in enumerate(cases):
        variables = c.variables(f"c{n}_")
        made = c.results(variables)
        params += variables
        results += made
        counts.append(len(made))
    mod = relay.IRModule.from_expr(relay.Function(params, Tuple(tuple(results))))
    found = [x.numpy() for x in smelt.compile(mod)(*[x for c in cases for x in c.inputs])]
    at = 0
    for c, count in zip(cases, counts, strict=True):
        c.check([np.asarray(x) for x in found[at : at + count]])
        at += count
