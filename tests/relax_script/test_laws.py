"""Laws: a text is read back as the same program, and the program keeps its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

from smelt import relax
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, Let, Var, call
from smelt.relax.parser import parse
from smelt.relax.printer import constant_names, script
from smelt.relax.verify import verify

from .graphs import functions


def again(f: Function) -> Function:
    arrays = {n: c.data for n, c in constant_names(f).items()}
    made: Function = parse(script(f), arrays)["main"]
    return made


@given(functions())
@settings(max_examples=120, deadline=None)
def test_text_is_faithful(f: Function) -> None:
    g = again(f)
    relax.assert_structural_equal(g, f)
    assert script(g) == script(f)


@given(functions())
@settings(max_examples=40, deadline=None)
def test_the_program_that_is_read_computes_the_same(f: Function) -> None:
    verify(f)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    for c in (True, False):
        for a, b in zip(interpret(f, x, c), interpret(again(f), x, c), strict=True):
            np.testing.assert_array_equal(a, b)


@given(functions())
@settings(max_examples=40, deadline=None)
def test_resolving_casts_keeps_the_meaning(f: Function) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    resolved = relax.resolve_match_cast(IRModule({"main": f}))["main"]
    assert not any(isinstance(p, relax.MatchCast) for p in relax.analysis.parts(resolved))
    verify(resolved)
    for a, b in zip(interpret(f, x, True), interpret(resolved, x, True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_chains_of_ten_thousand_names() -> None:
    x = Var("x", tensor_type((2,)))
    names: list[Any] = [x]
    for _ in range(10_000):
        names.append(Var("y", x.type))
    body: Any = names[-1]
    for var, before in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
        body = Let(var, call("relu", before), body)
    f = Function((x,), body)
    text = script(f)
    assert text.count("\n") == 20_003
    assert script(parse(text)["main"]) == text
