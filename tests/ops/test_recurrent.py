"""Recurrent layers: against numpy, row by row, and how their steps are scheduled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import te, topi
from smelt.choices import default_schedule
from smelt.ir.errors import TypeMismatch
from smelt.tir.printer import script
from smelt.topi.recurrent import ACTIVATIONS

from .cases import Array, Case, data
from .compiled import check_all, check_compiled

LENGTH, BATCH, HIDDEN = 5, 3, 6
LENGTHS = np.array([5, 0, 3], np.int32)


def small(*shape: int, dtype: str = "float32") -> Array:
    return data(shape, dtype, -1, 1)


def state(dtype: str = "float32") -> Array:
    return small(BATCH, HIDDEN, dtype=dtype)


def x(gates: int, dtype: str = "float32") -> Array:
    return small(LENGTH, BATCH, gates * HIDDEN, dtype=dtype)


def weights(gates: int, dtype: str = "float32") -> Array:
    return small(HIDDEN, gates * HIDDEN, dtype=dtype)


@pytest.mark.parametrize("reverse", [False, True])
def test_layers(reverse: bool) -> None:
    more: Any = {"reverse": reverse}
    size: Any = {0: {0: "n", 1: "m"}}
    rows: Any = {0: {1: "m"}, 2: {0: "m"}}
    check_all([
        Case("rnn", x(1), weights(1), state(), LENGTHS, **more),
        Case("rnn", x(1, "float64"), weights(1, "float64"), symbolic=size, **more),
        Case("gru", x(3), weights(3), None, small(HIDDEN), state(), LENGTHS, **more),
        Case("gru", x(3), weights(2), weights(1), None, None, LENGTHS, **more),
        Case("gru", x(3), weights(3), symbolic=size, **more),
        Case("lstm", x(4), weights(4), state(), state(), small(3 * HIDDEN), LENGTHS, **more),
        Case("lstm", x(4), weights(4), state(), symbolic=rows, **more),
        Case("lstm", x(4), weights(4), clip=0.4, input_forget=True, **more),
    ], 1e-5)  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    numbers: Any = {"alpha": (0.3,), "beta": (0.7,)}
    check_all([Case("rnn", 2 * x(1), weights(1), activations=(name,), **numbers)], 1e-5)


def test_layers_that_are_shared_among_processors() -> None:
    for hidden, batch in ((256, 1), (192, 5)):
        wide, r = small(3, batch, 4 * hidden), small(hidden, 4 * hidden) / 16
        check_compiled([
            Case("lstm", wide, r),
            Case("gru", wide[..., : 3 * hidden], r[:, : 2 * hidden], r[:, :hidden]),
        ], 1e-4)  # fmt: skip


def test_a_step_is_a_product_in_registers_and_vectors_of_units() -> None:
    given = [te.placeholder(s, "float32", n) for s, n in
             (((7, 2, 256), "x"), ((64, 256), "r"), ((2, 64), "h0"))]  # fmt: skip
    func = te.create_prim_func([*given, *topi.lstm(*given)], "layer")
    made = default_schedule(func, "llvm -mcpu=x86-64-v3", constants=["r"])
    text = script(made.func)
    assert "T.axis.opaque(7, step)" in text
    assert 'T.alloc_buffer((2, 256), "float32", scope="local")' in text
    packed = next(b for b in made.func.buffers if b.name == "r")
    assert len(packed.shape) == 3, "the weights lie in panels"
    cell = text[text.index("for cell_0") :]
    assert "T.vectorized(8)" in cell


TEXTS = [
    (Case("rnn", x(1), weights(1), activations=("tann",)), "rnn: activation 'tann'; legal: relu, "),
    (Case("rnn", x(1), weights(1), activations=("tanh", "tanh")),
     "rnn: activations=('tanh', 'tanh'); 1 are needed"),
    (Case("lstm", x(4), weights(3)), "lstm: r [6, 18] needs 4 columns per row; got 24 and 18"),
    (Case("lstm", x(3), weights(4)), "lstm: x [5, 3, 18] needs 4 columns per hidden unit; got 24"),
    (Case("gru", x(3), weights(3), weights(1)), "gru: r [6, 18] needs 2 columns per row"),
    (Case("gru", x(3), weights(2), weights(1), small(HIDDEN)),
     "gru: bias is for layers without candidate; add it to x"),
    (Case("rnn", x(1), weights(1), small(2, 6)), "rnn: h0 [2, 6] needs one row per row of x"),
    (Case("rnn", x(1), weights(1), clip=-1.0), "rnn: clip=-1.0; legal: numbers from 0"),
    (Case("rnn", x(1, "float16"), weights(1, "float16")),
     "rnn: x is float16; legal: float32, float64; cast narrow floats"),
    (Case("rnn", x(1), weights(1), None, np.ones(3, np.float32)),
     "rnn: lengths is float32; legal: integers"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "text"), TEXTS, ids=[t[:40] for _, t in TEXTS])
def test_errors(case: Case, text: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        case.numpy()
    assert str(caught.value).startswith(text)
