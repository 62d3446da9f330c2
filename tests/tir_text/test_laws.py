"""Laws over random programs: texts are faithful, equality is sound, programs are valid."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from smelt.tir.equal import assert_structural_equal, structural_equal, structural_hash
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.verify import verify

from .generate import arguments, programs

few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@few
@given(programs())
def test_text_is_faithful(func: PrimFunc) -> None:
    text = script(func)
    again = parse(text)
    assert_structural_equal(again, func)
    assert script(again) == text
    assert structural_hash(again) == structural_hash(func)


@few
@given(programs())
def test_generated_programs_are_valid_and_run(func: PrimFunc) -> None:
    verify(func)
    interpret(func, *arguments(func))


@few
@given(programs())
def test_the_text_means_the_same(func: PrimFunc) -> None:
    ours, theirs = arguments(func, 1), arguments(func, 1)
    interpret(func, *ours)
    interpret(parse(script(func)), *theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@few
@given(programs(), programs())
def test_equality_agrees_with_canonical_text(f: PrimFunc, g: PrimFunc) -> None:
    assert structural_equal(f, g) == (script(f, canonical=True) == script(g, canonical=True))
