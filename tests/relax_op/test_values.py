"""Every builder against numpy or torch, by the interpreter and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import smelt
from smelt.ir.errors import SmeltError, Unsupported
from smelt.ir.module import IRModule
from smelt.relax import op
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Tuple
from smelt.relax.op.entry import CORE_NAMES
from smelt.relax.verify import verify

from . import cases_moves, cases_nn, cases_plain, cases_vision  # noqa: F401
from .cases import CASES, Case, together

REFUSED = {n for n, b in op.BUILDERS.items() if (b.__doc__ or "").startswith("Refused")}


def single_call(e: object) -> str | None:
    """The operator of an expression that is one call on variables and constants."""
    if isinstance(e, Call) and not any(isinstance(a, Call | Tuple) for a in e.args):
        return e.callee
    return None


def _close(got: object, want: np.ndarray, c: Case) -> None:
    have = np.asarray(got)
    assert have.shape == want.shape, c.name
    assert (have.dtype.kind == "f") == (want.dtype.kind == "f"), c.name
    assert (have.dtype == bool) == (want.dtype == bool), c.name
    np.testing.assert_allclose(have, want, rtol=c.tolerance, atol=c.tolerance, err_msg=c.name)


@pytest.mark.parametrize("c", CASES, ids=[f"{n}-{c.name}" for n, c in enumerate(CASES)])
def test_interpreted_builders_are_right(c: Case) -> None:
    f = c.function()
    verify(IRModule({"main": f}))
    found = interpret(f, *c.inputs)
    wanted = c.results()
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        _close(a, b, c)


@pytest.mark.parametrize("start", range(0, len(CASES), 60))
def test_compiled_builders_are_right(start: int) -> None:
    cases = CASES[start : start + 60]
    f, given = together(cases)
    found = smelt.compile(IRModule({"main": f}))(*given)
    wanted = [(c, r) for c in cases for r in c.results()]
    assert len(found) == len(wanted)
    for got, (c, want) in zip(found, wanted, strict=True):
        _close(got, want, c)


def test_every_builder_has_a_case_or_is_refused() -> None:
    free = {"call_tir", "call_tir_inplace", "call_tir_with_grad", "call_pure_packed",
            "call_dps_packed", "call_inplace_packed", "invoke_closure", "invoke_pure_closure",
            "make_closure"}  # fmt: skip
    tested = {c.name for c in CASES} | {"nn.leaky_relu"}
    assert set(op.BUILDERS) - tested - REFUSED == free


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_builders_say_what_replaces_them(name: str) -> None:
    x = np.zeros((2, 2), "float32")
    with pytest.raises((Unsupported, SmeltError), match=rf"relax\.op\.{name.replace('.', '.')}.*"):
        op.BUILDERS[name](x)


def test_names_for_patterns_are_those_of_the_calls() -> None:
    checked = set()
    for c in CASES:
        if c.name in CORE_NAMES and (made := single_call(c.function().body)) is not None:
            if c.name in ("add", "multiply") and made != CORE_NAMES[c.name]:
                continue
            assert made == CORE_NAMES[c.name], c.name
            checked.add(c.name)
    assert len(checked) > 90
