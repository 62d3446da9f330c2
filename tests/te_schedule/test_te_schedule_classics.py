"""Classic programs: their lowered texts, and that they compute what they should."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from smelt import te
from smelt.pipeline import lower_program as lower
from smelt.tir.interpret import interpret
from tests.codegen_llvm.build import run_llvm

from .classics import CLASSICS, Classic, fragment, other_layout, packed
from .programs import keeps, text

SIZES = {"n": 5, "m": 7}


@pytest.mark.parametrize("classic", CLASSICS)
def test_lowered(classic: str, golden: Callable[[str], None]) -> None:
    s, args = CLASSICS[classic]()
    golden(text(te.lower_schedule(s, args, classic).func))


# the fragment is too large for the interpreter; the last one's parameter is given in its layout
@pytest.mark.parametrize("classic", [c for c in CLASSICS if c not in ("fragment", "other_layout")])
def test_computes_what_the_plain_program_does(classic: str) -> None:
    s, args = CLASSICS[classic]()
    keeps(s, args, SIZES)


@pytest.mark.parametrize("classic", [fragment, packed])
def test_products_agree_with_numpy(classic: Classic) -> None:
    s, args = classic()
    flat = lower(te.lower_schedule(s, args).func)
    rng = np.random.default_rng(0)
    shapes = [t.fixed_shape() or () for t in args]
    a, b, c = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    spaces = [np.empty(p.fixed_shape() or (), "float32") for p in flat.buffers[3:]]
    assert run_llvm(flat, a, b, c, *spaces) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_a_layout_changes_how_a_parameter_is_given() -> None:
    s, args = other_layout()
    sch = te.lower_schedule(s, args)
    rng = np.random.default_rng(1)
    shapes = ((6, 5), (5, 16), (16,))
    a, b, bias = (rng.integers(-4, 5, shape).astype("float32") for shape in shapes)
    out = np.zeros((6, 16), "float32")
    tiles = np.ascontiguousarray(b.reshape(5, 2, 8).transpose(1, 0, 2))
    interpret(sch.func, a, tiles, bias, out)
    np.testing.assert_array_equal(out, np.maximum(a @ b + bias, 0))


def test_the_fragment_adds_up_in_registers() -> None:
    s, args = fragment()
    flat = text(lower(te.lower_schedule(s, args).func))
    inner = flat.split("for k in range(128):\n")[1].splitlines()[0]
    assert "_acc[" in inner.split(" = ")[0], flat
