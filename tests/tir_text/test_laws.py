"""Laws over random programs: texts are faithful, equality is sound, programs are valid."""

from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from smelt.ir.expr import IntImm
from smelt.ir.node import ordered
from smelt.ir.walk import free_vars
from smelt.tir.equal import assert_structural_equal, structural_equal, structural_hash
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc, own_exprs, walk
from smelt.tir.parser import parse, parse_expr
from smelt.tir.printer import script
from smelt.tir.rewrite import loads
from smelt.tir.script_ops import operands
from smelt.tir.verify import verify
from tests.arith.oracle import Box, boxes, defined, integers, points

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


@few
@given(programs())
def test_expressions_are_read_as_they_are_written(func: PrimFunc) -> None:
    for stmt in walk(func.body):
        for e in own_exprs(stmt):
            known = [*free_vars(e), *[load.buffer for load in loads(e)]]
            assert parse_expr(script(e), known) is e


@given(boxes(), st.data())
def test_what_people_read_of_index_arithmetic_is_read_back(box: Box, data: st.DataObject) -> None:
    e = data.draw(st.composite(lambda draw: integers(draw, box, 3))())
    for x in ordered([e], operands):  # numbers alone do not tell their types
        assume(not operands(x) or not all(isinstance(a, IntImm) for a in operands(x)))
        assume(not isinstance(x, IntImm) or x.type == "int64")
    again = parse_expr(str(e), list(box))
    for values in islice(points(box), 20):
        assert defined(again, values) == defined(e, values)
