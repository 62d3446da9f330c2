"""LSTMs of all forms, call after call beside TFLite's reference kernels: those of whole numbers bit
for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.frontend.tflite import from_tflite
from smelt.ir.errors import ImportFailure, Unsupported
from tests.tflite.build import Array, Oracle, Spec, const, one
from tests.tflite.check import differences

Random = np.random.Generator

FORMS = {
    "": {}, "cifg": {"cifg": True}, "peephole": {"peephole": True},
    "projection": {"projection": True}, "norm": {"norm": True}, "clips": {"clips": True},
    "all": {"peephole": True, "projection": True, "norm": True, "clips": True},
    "cifg all": {"cifg": True, "peephole": True, "projection": True, "norm": True},
}  # fmt: skip


class Maker:
    """A random layer's extents and scales."""

    def __init__(self, r: Random, kind: str, form: dict[str, bool], ranged: bool = False) -> None:
        self.r, self.kind, self.form, self.ranged = r, kind, form, ranged
        self.batch, self.inputs, self.cells = (int(v) for v in r.integers(1, 7, 3))
        self.cells += 2
        self.length = int(r.integers(1, 6))
        projected = form.get("projection")
        self.outputs = int(r.integers(1, 5)) if projected else self.cells
        if kind == "int8" and form.get("peephole"):
            self.outputs = self.cells  # the kernel has the peepholes of so many cells
        self.x, self.h, self.hidden = (self.scale(0.01, 0.03) for _ in range(3))
        self.hidden = self.scale(0.004, 0.008)
        self.power = -int(r.integers(9, 16))
        self.zeros = [int(z) for z in r.integers(-20, 20, 3)]
        if not projected:
            self.h, self.zeros[1] = self.hidden, self.zeros[2]

    def scale(self, low: float, high: float) -> float:
        return float(np.float32(self.r.uniform(low, high)))

    def weights(self, *shape: int, low: float = 0.002, high: float = 0.01) -> Spec:
        """Floats, or whole numbers of 8 bits with a scale."""
        if self.kind == "float32":
            return const(self.r.normal(0, 0.5, shape), "float32")
        numbers = self.r.integers(-127, 128, shape)
        return const(numbers, "int8", scale=self.scale(low, high), zero=0)

    def vector(self, wide: bool) -> Spec:
        """What gates have for each cell: peepholes, norms (16 bits) and biases (32)."""
        if self.kind == "int8":
            if wide:
                return const(self.r.integers(-20000, 20000, self.cells), "int32")
            numbers = self.r.integers(-32767, 32768, self.cells)
            return const(numbers, "int16", scale=self.scale(1e-5, 4e-5), zero=0)
        return const(self.r.normal(0, 0.5, self.cells), "float32")

    def peephole(self) -> Spec:
        return self.weights(self.cells) if self.kind == "hybrid" else self.vector(False)

    def gates(self, make: Any, given: bool = True, count: int = 4) -> list[Spec | None]:
        """An operand of each gate."""
        made = [make() if given else None for _ in range(count)]
        return [None, *made[1:]] if self.form.get("cifg") else made

    def sequence(self, width: int, scale: float, zero: int, variable: bool = False) -> Spec:
        shape = (self.batch, width) if variable else (self.batch, self.length, width)
        if self.kind == "int8":
            return Spec(shape, "int8", scale, zero, variable=variable)
        return Spec(shape, variable=variable)

    def inner(self) -> list[Spec]:
        """The tensors of the operator's own: of normalized gates, and of what is projected."""
        if self.kind != "int8":
            return []
        gates = [Spec((1,), "int16", self.scale(5e-4, 3e-3), 0) for _ in range(4)]
        return [*gates, Spec((1,), "int8", self.hidden, self.zeros[2])]

    def model(self, time_major: bool) -> bytes:
        x = self.sequence(self.inputs, self.x, self.zeros[0])
        if time_major:
            x.shape = (self.length, self.batch, self.inputs)
        weights, states, norms = self.layer()
        y = self.sequence(self.outputs, self.h, self.zeros[1])
        y.shape = (*x.shape[:2], self.outputs)
        return one("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *weights, *states, *norms], [y],
                   "UnidirectionalSequenceLSTMOptions", 3, self.inner(), TimeMajor=time_major,
                   **self.options())  # fmt: skip

    def step(self) -> bytes:
        """One step by the operator LSTM."""
        weights, states, norms = self.layer()
        x, y = self.sequence(self.inputs, self.x, self.zeros[0]), self.sequence(
            self.outputs, self.h, self.zeros[1])  # fmt: skip
        x.shape, y.shape = (self.batch, self.inputs), (self.batch, self.outputs)
        return one("LSTM", [x, *weights, *states, *norms], [y], "LSTMOptions", 1, self.inner(),
                   **self.options())  # fmt: skip

    def both(self, merged: bool) -> bytes:
        """A layer forward and one backward; with the batch first, the kernel merges wrongly."""
        first, second = self.layer(), self.layer()
        sizes = (self.length, self.batch) if merged else (self.batch, self.length)
        x = Spec((*sizes, self.inputs))
        operands = [x, *first[0], *second[0], *first[1], *second[1], *[None] * 9]
        width = self.outputs * (2 if merged else 1)
        results = [Spec((*x.shape[:2], width)) for _ in range(1 if merged else 2)]
        return one("BIDIRECTIONAL_SEQUENCE_LSTM", operands, results,
                   "BidirectionalSequenceLSTMOptions", 3, TimeMajor=merged, MergeOutputs=merged,
                   **self.options())  # fmt: skip

    def options(self) -> dict[str, Any]:
        more = {"CellClip": 0.2, "ProjClip": 0.4} if self.form.get("clips") else {}
        if self.kind == "hybrid":
            more["AsymmetricQuantizeInputs"] = self.ranged
        return {"FusedActivationFunction": 4, **more}

    def layer(self) -> tuple[list[Spec | None], list[Spec], list[Spec | None]]:
        """Weights with peepholes, biases and a projection; states; norms."""
        form, cells, outputs = self.form, self.cells, self.outputs
        bias = const(self.r.integers(-5000, 5000, outputs), "int32")
        if self.kind != "int8":
            bias = const(self.r.normal(0, 0.5, outputs), "float32")
        projection = [self.weights(outputs, cells), bias] if form.get("projection") else [None] * 2
        c = Spec((self.batch, cells), variable=True)
        if self.kind == "int8":
            c = Spec((self.batch, cells), "int16", 2.0**self.power, 0, variable=True)
        norms = self.gates(lambda: self.vector(False), bool(form.get("norm")))
        weights = [
            *self.gates(lambda: self.weights(cells, self.inputs)),
            *self.gates(lambda: self.weights(cells, outputs)),
            *self.gates(self.peephole, bool(form.get("peephole")), 3),
            *self.gates(lambda: self.vector(True)), *projection,
        ]  # fmt: skip
        return weights, [self.sequence(outputs, self.h, self.zeros[1], True), c], norms

    def call(self, time_major: bool) -> Array:
        sizes = (self.length, self.batch) if time_major else (self.batch, self.length)
        shape = (*sizes, self.inputs)
        if self.kind == "int8":
            return self.r.integers(-128, 128, shape).astype("int8")
        return self.r.normal(0, 1, shape).astype("float32")


def near(content: bytes, calls: list[Array], tolerance: float = 1e-5) -> None:
    """The results are TFLite's, call after call."""
    oracle, exe = Oracle(content), smelt.compile(content, threads=1)
    for x in calls:
        made = exe(x)
        found = made if isinstance(made, tuple | list) else [made]
        for y, expected in zip(found, oracle(x), strict=True):
            np.testing.assert_allclose(np.asarray(y), expected, atol=tolerance)


def agree(m: Maker, time_major: bool, tolerance: float = 0.0) -> None:
    content = m.model(time_major)
    oracle, exe = Oracle(content), smelt.compile(content, threads=1)
    for _ in range(3):
        x = m.call(time_major)
        (expected,), found = oracle(x), np.asarray(exe(x))
        if tolerance:
            np.testing.assert_allclose(found, expected, atol=tolerance)
        else:
            assert not differences(found, expected)
    first = m.call(time_major)
    exe.state.reset()  # type: ignore[attr-defined]
    found = np.asarray(exe(first))
    (expected,) = Oracle(content)(first)
    assert tolerance or not differences(found, expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(2))
def test_whole_numbers(form: str, seed: int) -> None:
    agree(Maker(np.random.default_rng(seed), "int8", FORMS[form]), bool(seed % 2))


@pytest.mark.parametrize("form", FORMS)
def test_floats(form: str) -> None:
    agree(Maker(np.random.default_rng(3), "float32", FORMS[form]), False, 1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranged", [False, True])
def test_floats_with_weights_of_8_bits(form: str, ranged: bool) -> None:
    agree(Maker(np.random.default_rng(4), "hybrid", FORMS[form], ranged), True, 1e-5)


@pytest.mark.parametrize("kind", ["int8", "hybrid"])
def test_a_long_sequence_is_a_loop(kind: str) -> None:
    m = Maker(np.random.default_rng(5), kind, {})
    m.length = 20
    agree(m, True, 0 if kind == "int8" else 1e-5)


@pytest.mark.parametrize("form", ["", "cifg", "projection", "norm"])
@pytest.mark.parametrize("kind", ["float32", "hybrid", "int8"])
def test_one_step(form: str, kind: str) -> None:
    m = Maker(np.random.default_rng(6), kind, FORMS[form])
    near(m.step(), [m.call(False)[:, 0] for _ in range(3)], 0 if kind == "int8" else 1e-5)


def test_the_basic_kernel() -> None:
    m = Maker(np.random.default_rng(9), "float32", {})
    cells, batch = m.cells, m.batch
    h, c = (Spec((batch, cells), variable=True) for _ in range(2))
    bias = const(m.r.normal(size=4 * cells), "float32")
    operands = [Spec((batch, m.inputs)), h, m.weights(4 * cells, m.inputs + cells), bias, c]
    widths = (cells, cells, m.inputs + cells, 4 * cells)
    content = one("LSTM", operands, [Spec((batch, n)) for n in widths], "LSTMOptions", 2,
                  FusedActivationFunction=4, KernelType=1)  # fmt: skip
    near(content, [m.call(False)[:, 0] for _ in range(3)])


@pytest.mark.parametrize("form", ["", "cifg", "peephole", "projection", "clips"])
@pytest.mark.parametrize("kind", ["float32", "hybrid"])
@pytest.mark.parametrize("merged", [False, True])
def test_two_directions(form: str, kind: str, merged: bool) -> None:
    m = Maker(np.random.default_rng(7), kind, FORMS[form])
    near(m.both(merged), [m.call(merged) for _ in range(3)], 1e-5 if kind == "float32" else 5e-3)


@pytest.mark.parametrize("merged", [False, True])
def test_an_rnn_in_two_directions(merged: bool) -> None:
    m = Maker(np.random.default_rng(8), "float32", {})

    def layer() -> list[Spec]:
        cells = m.cells
        return [m.weights(cells, m.inputs), m.weights(cells, cells), m.weights(cells),
                Spec((m.batch, cells), variable=True)]  # fmt: skip

    x = m.sequence(m.inputs, 1, 0)
    results = [Spec((*x.shape[:2], m.cells * (1 + merged))) for _ in range(2 - merged)]
    content = one("BIDIRECTIONAL_SEQUENCE_RNN", [x, *layer(), *layer(), None, None, None], results,
                  "BidirectionalSequenceRNNOptions", 1, TimeMajor=False, MergeOutputs=merged,
                  FusedActivationFunction=4)  # fmt: skip
    near(content, [m.call(False) for _ in range(3)])


def wrong(change: Any) -> str:
    """What is said of a layer of whole numbers that is changed."""
    m = Maker(np.random.default_rng(0), "int8", {})
    change(m)
    with pytest.raises((ImportFailure, Unsupported)) as e:
        from_tflite(m.model(False))
    return str(e.value).partition("): ")[2]


def test_what_is_wrong_is_said() -> None:
    def inner(m: Maker) -> None:
        m.inner = list  # type: ignore[method-assign]

    def cells(m: Maker) -> None:
        m.power = -8

    assert wrong(inner) == ("0 tensors of the operator's own\n  supported: 5: gates of 16 bits")
    assert wrong(cells) == (
        "cells in steps of 0.00390625\n  supported: powers of two from 2 ** -15 to 2 ** -9"
    )
