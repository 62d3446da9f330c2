"""Operators of the core and builders of the same names: neither is taken for the other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from smelt import relax
from smelt.ir.errors import SmeltError
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, RelaxExpr, Var, call
from smelt.relax.op.registry import BUILDERS
from smelt.relax.parser import parse
from smelt.relax.printer import constant_names, script, written_always
from smelt.topi.registry import ops
from tests.relax_op import cases_moves, cases_nn, cases_plain, cases_vision
from tests.relax_op.cases import CASES, Case

FILES = (cases_moves, cases_nn, cases_plain, cases_vision)
"""Imported for the cases that they enter."""

TYPES = {
    "f": ("float32", 'R.Tensor((3, 4), "float32")'),
    "i": ("int64", 'R.Tensor((3, 4), "int64")'),
    "b": ("bool", 'R.Tensor((3, 4), "bool")'),
}
BOTH = sorted(BUILDERS.keys() & ops().keys())


def arrays(kinds: tuple[str, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    made = {
        "f": rng.uniform(-2, 2, (3, 4)).astype("float32"),
        "i": rng.integers(0, 3, (3, 4)),
        "b": rng.integers(0, 2, (3, 4)).astype(bool),
    }
    return [made[k] for k in kinds]


def built(name: str, params: list[Var]) -> Any:
    """What a builder makes of some operands and nothing else; None where it needs more."""
    try:
        made = BUILDERS[name](*params)
    except (SmeltError, TypeError):
        return None
    made = made.astuple() if hasattr(made, "astuple") else made
    return made if isinstance(made, RelaxExpr) else None


@pytest.mark.parametrize("name", BOTH)
def test_operands_alone_are_the_builders(name: str) -> None:
    for kinds in itertools.chain(*[itertools.product("fib", repeat=n) for n in (1, 2, 3)]):
        params = [Var(f"p{n}", tensor_type((3, 4), TYPES[k][0])) for n, k in enumerate(kinds)]
        want = built(name, params)
        if want is None:
            continue
        head = ", ".join([f"p{n}: {TYPES[k][1]}" for n, k in enumerate(kinds)])
        given = ", ".join([p.name for p in params])
        f = parse(f"@R.function\ndef main({head}):\n    return R.{name}({given})\n")["main"]
        data = arrays(kinds)
        for a, b in zip(
            interpret(f, *data), interpret(Function(tuple(params), want), *data), strict=True
        ):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        relax.assert_structural_equal(parse(script(f))["main"], f)


@pytest.mark.parametrize("start", range(0, len(CASES), 60))
def test_what_builders_make_is_read_back(start: int) -> None:
    for c in CASES[start : start + 60]:
        case: Case = c
        f = case.function()
        constants = {n: w.data for n, w in constant_names(f).items()}
        relax.assert_structural_equal(parse(script(f), constants)["main"], f)


def test_reductions_show_what_relax_would_not_guess() -> None:
    reductions = [n for n, o in ops().items() if "keepdims" in o.attributes]
    assert {"sum", "mean", "argmax", "all"} <= set(reductions)
    x = Var("x", tensor_type((3, 4), "float32"))
    for name in reductions:
        assert "keepdims" in written_always(ops()[name])
        if name not in ("all", "any"):
            assert "keepdims=True" in script(Function((x,), call(name, x)))


CLASSIC = {
    "reshape(x, shape=(2, -1))": "R.reshape(x, shape=(2, 6))",
    "reshape(x, R.shape([4, 3]))": "R.reshape(x, shape=(4, 3))",
    "strided_slice(x, axes=[0], begin=[-2], end=[100])": (
        "R.strided_slice(x, axes=(0,), begin=(1,), end=(3,), strides=(1,))"
    ),
    "argmax(x, axis=-1, keepdims=False)": "R.argmax(x, axis=-1, keepdims=False)",
    "cumsum(x, axis=-1)": "R.cumsum(x, axis=-1)",
    "topk(x, k=2)": "R.topk(x, k=2, axis=1, sorted=True)",
    "mod(x, x)": "R.fmod(x, x)",
    "floor_mod(x, x)": "R.floor_mod(x, x)",
    "concat((x, x))": "R.concat(x, x)",
    "concat([x, x], axis=-1)": "R.concat(x, x, axis=1)",
    "scatter_elements(x, i, x, reduction='update')": "R.scatter_elements(x, i, x)",
    "nn.relu(x)": "R.relu(x)",
    "astype(x, 'int8')": 'R.cast(x, dtype="int8")',
}


@pytest.mark.parametrize("written", CLASSIC)
def test_classic_calls(written: str) -> None:
    head = 'x: R.Tensor((3, 4), "float32"), i: R.Tensor((3, 4), "int64")'
    f = parse(f"@R.function\ndef main({head}):\n    return R.{written}\n")["main"]
    assert CLASSIC[written] in script(f)
    relax.assert_structural_equal(parse(script(f))["main"], f)
