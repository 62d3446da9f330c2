"""Layers that keep what they have seen: call after call beside TFLite's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.runtime.state import StatefulExecutable
from tests.tflite.build import Array, Oracle, Spec, const, one
from tests.tflite.check import differences

BATCH, LENGTH, INPUTS, HIDDEN = 2, 4, 3, 5


def weights(r: np.random.Generator, *shape: int) -> Spec:
    return const(r.normal(0, 0.5, shape), "float32")


def variable(*shape: int, dtype: str = "float32", scale: float | None = None) -> Spec:
    return Spec(shape, dtype, scale, variable=True)


def agree(model: bytes, calls: list[Array]) -> None:
    oracle, exe = Oracle(model), smelt.compile(model, threads=1)
    for x in calls:
        (expected,), found = oracle(x), np.asarray(exe(x))
        assert not differences(found, expected)
    assert isinstance(exe, StatefulExecutable)
    exe.state.reset()
    assert not differences(np.asarray(exe(calls[0])), Oracle(model)(calls[0])[0])


def sequences(r: np.random.Generator, shape: tuple[int, ...]) -> list[Array]:
    return [r.normal(size=shape).astype("float32") for _ in range(3)]


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_lstm(time_major: bool, peepholes: bool, coupled: bool) -> None:
    r = np.random.default_rng(7)
    shape = (LENGTH, BATCH, INPUTS) if time_major else (BATCH, LENGTH, INPUTS)

    def gates(*sizes: int, given: bool = True, count: int = 4) -> list[Spec | None]:
        made: list[Spec | None] = [weights(r, *sizes) if given else None for _ in range(count)]
        return [None, *made[1:]] if coupled else made

    operands = [
        Spec(shape), *gates(HIDDEN, INPUTS), *gates(HIDDEN, HIDDEN),
        *gates(HIDDEN, given=peepholes, count=3), *gates(HIDDEN), None, None,
        variable(BATCH, HIDDEN), variable(BATCH, HIDDEN), None, None, None, None,
    ]  # fmt: skip
    model = one("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [Spec((*shape[:2], HIDDEN))],
                "UnidirectionalSequenceLSTMOptions", FusedActivationFunction=4,
                TimeMajor=time_major)  # fmt: skip
    agree(model, sequences(r, shape))


@pytest.mark.parametrize("activation", [1, 4])
def test_rnn(activation: int) -> None:
    r = np.random.default_rng(8)
    for op, kind, shape in (("UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions", (BATCH, LENGTH)),
                            ("RNN", "RNNOptions", (BATCH,))):  # fmt: skip
        operands = [Spec((*shape, INPUTS)), weights(r, HIDDEN, INPUTS), weights(r, HIDDEN, HIDDEN),
                    weights(r, HIDDEN), variable(BATCH, HIDDEN)]  # fmt: skip
        model = one(op, operands, [Spec((*shape, HIDDEN))], kind,
                    FusedActivationFunction=activation)  # fmt: skip
        agree(model, sequences(r, (*shape, INPUTS)))


def test_svdf() -> None:
    r = np.random.default_rng(9)
    rank, units, memory = 2, 4, 6
    operands = [
        Spec((BATCH, INPUTS)), weights(r, rank * units, INPUTS), weights(r, rank * units, memory),
        weights(r, units), variable(BATCH, rank * units * memory),
    ]  # fmt: skip
    model = one("SVDF", operands, [Spec((BATCH, units))], "SVDFOptions", Rank=rank,
                FusedActivationFunction=1)  # fmt: skip
    agree(model, sequences(r, (BATCH, INPUTS)) * 3)


@pytest.mark.parametrize("seed", range(5))
def test_quantized_svdf(seed: int) -> None:
    r = np.random.default_rng(seed)
    rank, units, memory, width = 1 + seed % 2, 4, 6, 8
    x, w, t = [float(np.float32(v)) for v in r.uniform(0.005, 0.05, 3)]
    kept = float(np.float32(x * w * r.uniform(0.5, 5)))

    def whole(end: int, *shape: int, dtype: str, scale: float) -> Spec:
        return const(r.integers(1 - end, end, shape), dtype, scale=scale)

    operands: list[Any] = [
        Spec((BATCH, width), "int8", x, 3),
        whole(128, rank * units, width, dtype="int8", scale=w),
        whole(3000, rank * units, memory, dtype="int16", scale=t),
        whole(3000, units, dtype="int32", scale=kept * t),
        variable(BATCH, rank * units * memory, dtype="int16", scale=kept),
    ]
    y = Spec((BATCH, units), "int8", float(np.float32(kept * t * r.uniform(2e5, 2e6))), -7)
    model = one("SVDF", operands, [y], "SVDFOptions", 3, Rank=rank, FusedActivationFunction=1)
    agree(model, [r.integers(-128, 128, (BATCH, width)).astype("int8") for _ in range(9)])


def test_other_inputs_may_be_kept_too() -> None:
    r = np.random.default_rng(5)
    operands = [Spec((1, 3)), weights(r, 3, 3), weights(r, 3, 3), weights(r, 3), variable(1, 3)]
    content = one("RNN", operands, [Spec((1, 3))], "RNNOptions", FusedActivationFunction=4)
    exe = smelt.compile(content, state={"t0": "t5"}, threads=1)
    assert exe.inputs == ()
    assert isinstance(exe, StatefulExecutable)
    exe.state["t0"] = np.ones((1, 3), np.float32)
    oracle, x = Oracle(content), np.ones((1, 3), np.float32)
    for _ in range(3):
        x = oracle(x)[0]
        exe()
        assert not differences(np.asarray(exe.state["t0"]), x)
