"""match_cast: the sizes that it introduces, what it checks, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax
from smelt.ir.errors import SmeltError, TypeMismatch, VerifyError
from smelt.ir.module import IRModule
from smelt.relax.interpret import interpret
from smelt.relax.shapes import apart
from smelt.relax.verify import verify
from smelt.script import parse

TEXT = """\
@R.function
def main(x: R.Tensor((n, 4), "float32"), y: R.Tensor((c, 4), "float32")):
    both = R.concat(x, x, axis=0)
    a = R.match_cast(both, R.Tensor((k, 4), "float32"))
    b = R.reshape(R.relu(a), shape=(k * 4,))
    z = R.match_cast(y, R.Tensor((3, 4), "float32"))
    ones = R.full(shape=(k, 2), value=1.0)
    return b, z, ones
"""


def module(text: str) -> IRModule:
    made: Any = parse(text)
    return IRModule({"main": made})


@pytest.fixture(scope="module")
def mod() -> IRModule:
    return module(TEXT)


def inputs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    return x, np.ones((rows, 4), np.float32)


def test_text(mod: IRModule) -> None:
    text = mod["main"].script()
    assert '    k = R.size("k")\n' in text
    assert '    v1 = R.match_cast(v0, R.Tensor((k, 4), "float32"))\n' in text
    relax.assert_structural_equal(parse(text), mod["main"])


def test_meaning(mod: IRModule) -> None:
    x, y = inputs(3)
    b, z, ones = interpret(mod["main"], x, y)
    np.testing.assert_array_equal(b, np.maximum(np.concatenate([x, x]), 0).reshape(-1))
    assert (z == y).all()
    assert ones.shape == (4, 2)
    with pytest.raises(TypeMismatch) as caught:
        interpret(mod["main"], *inputs(2))
    assert str(caught.value) == (
        "match_cast: the value has extent 2 in dimension 0; it has to be 3"
    )


def test_compiled(mod: IRModule) -> None:
    exe = smelt.compile(mod)
    for a, b in zip(exe(*inputs(3)), interpret(mod["main"], *inputs(3)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    with pytest.raises(SmeltError, match=r"input 'y': shape \[2, 4\]: dimension 0 is 2, 3 needed"):
        exe(*inputs(2))


def test_resolved(mod: IRModule) -> None:
    f: Any = relax.resolve_match_cast(mod)["main"]
    x, y = f.params
    assert y.type.fixed_shape() == (3, 4)
    assert apart(f.body.items[2].type.shape[0], x.type.shape[0] * 2) == 0
    assert relax.analysis.well_formed(f)


def test_modules_without_casts_stay() -> None:
    m = module('@R.function\ndef main(x: R.Tensor((n,), "float32")):\n  return x')
    assert relax.resolve_match_cast(m) is m


def test_closures_have_sizes_of_their_own() -> None:
    text = """
@R.function
def main(x: R.Tensor((n,), "float32")):
    y = R.match_cast(R.concat(x, x, axis=0), R.Tensor((k,), "float32"))
    @R.function
    def twice(z: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):
        w: R.Tensor((k,), "float32") = R.add(z, y)
        return w
    return twice(y)
"""
    m = module(text)
    x = np.asarray([1, 2], np.float32)
    want = [2, 4, 2, 4]
    np.testing.assert_array_equal(interpret(m["main"], x)[0], want)
    resolved = relax.resolve_match_cast(m)["main"]
    relax.assert_structural_equal(parse(resolved.script()), resolved)
    np.testing.assert_array_equal(interpret(resolved, x)[0], want)
    np.testing.assert_array_equal(smelt.compile(m)(x).numpy(), want)


def test_the_rules_know_what_casts_introduce() -> None:
    x = relax.Var("x", relax.TensorStructInfo(ndim=1))
    t = relax.TensorStructInfo(ndim=1)
    y = relax.MatchCast(x, t)
    ones = relax.Call("full", [], {"shape": t.shape})
    assert relax.analysis.well_formed(relax.Function([x], relax.Tuple([ones, y])))
    with pytest.raises(VerifyError, match="uses the size s_0, which no parameter's type mentions"):
        verify(relax.Function([x], relax.Tuple([ones, x])))
