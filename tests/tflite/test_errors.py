"""Files that are damaged, wrong, or ask for what smelt does not do: one error that says where."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.frontend.tflite import from_tflite, read
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.runtime.errors import SmeltError
from tests.tflite.build import Spec, Step, const, model, one
from tests.tflite.test_models import small

GOOD = small(0)
PAIR = [Spec((2, 2)), Spec((2, 2))]


def add(*operands: Any, kind: str = "AddOptions", version: int = 1, **options: Any) -> bytes:
    return one("ADD", operands or PAIR, [Spec((2, 2))], kind, version, **options)


def convolution(x: Spec, **options: Any) -> bytes:
    w = const(np.zeros((1, 1, 1, 2), "float32"))
    y = Spec((1, 4, 4, 1), x.dtype, x.scale)
    return one("CONV_2D", [x, w], [y], "Conv2DOptions", **options)


STEPS = {"StrideH": 1, "StrideW": 1}
ABS = Step("ABS", [0], [1])

FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello, this is no model", "not a TFLite model"),
    "web page": (b"<!DOCTYPE html><html>", "not a TFLite model: a web page; fetch the file itself"),
    "cut": (GOOD[:40], "the model leads outside of the file (40 bytes): it is damaged or cut off"),
    "cut in a tensor": (
        GOOD[:-600],
        f"tensor 0 leads outside of the file ({len(GOOD) - 600} bytes): it is damaged or cut off",
    ),
    "old": (model([Spec((1,))], [], [0], [0], version=2), "schema version 2\n  supported: 3"),
    "operator": (
        one("RFFT2D", [Spec((2, 2))], [Spec((2, 2))]),
        "1 operator not supported\n  RFFT2D: 1 node ('0')",
    ),
    "operator of one's own": (
        model(PAIR, [Step("Mine", [0], [1], custom=b"")], [0], [1]),
        "1 operator not supported\n  custom.Mine: 1 node ('0')\n"
        "  operators of your own: smelt.compile(operators={'custom.Mine': ...})",
    ),
    "version": (
        add(version=99),
        "node '0' (ADD, which makes 't2'): version 99 of the operator\n  supported: 1 to 5",
    ),
    "option": (
        add(kind="SoftmaxOptions", Beta=2.0),
        "node '0' (ADD, which makes 't2'): attribute beta=2.0\n"
        "  supported: fused_activation_function, pot_scale_int16",
    ),
    "activation": (
        add(FusedActivationFunction=4),
        "node '0' (ADD, which makes 't2'): the fused activation TANH\n"
        "  supported: NONE, RELU, RELU_N1_TO_1, RELU6",
    ),
    "operand": (
        model(PAIR, [Step("ABS", [7], [1])], [0], [1]),
        "operator 0 (ABS): tensor 7; there are 2",
    ),
    "missing operand": (
        add(Spec((2, 2)), None),
        "node '0' (ADD, which makes 't1'): the operand 'b' (number 1) is missing",
    ),
    "input": (model(PAIR, [ABS], [9], [1]), "the model's inputs: tensor 9; there are 2"),
    "buffer": (
        add(Spec((2, 2)), Spec((2, 2), data=np.zeros(3, "float32"))),
        "tensor 't1' has 12 bytes, its shape (2, 2) of FLOAT32 needs 16",
    ),
    "scales": (
        model([Spec((2, 2), "int8", [0.1] * 3, 0, 1), Spec((2, 2))], [ABS], [0], [1]),
        "tensor 't0' has 3 scales and 3 zero points along dimension 1 of the shape (2, 2)",
    ),
    "negative scale": (
        model([Spec((2, 2), "int8", -0.5), Spec((2, 2))], [ABS], [0], [1]),
        "tensor 't0' has the scale -0.5; it has to be a number above 0",
    ),
    "element type": (
        model([Spec((2, 2), "complex64"), Spec((2, 2))], [ABS], [0], [1]),
        f"tensor 't0' has the element type COMPLEX64\n  supported: {', '.join(read._DTYPES)}",
    ),
    "result's type": (
        model([Spec((2, 2)), Spec((2, 2), "int32")], [ABS], [0], [1]),
        "node '0' (ABS, which makes 't1'): the file says that 't1' is int32; from these operands "
        "the operator makes float32",
    ),
    "types": (
        convolution(Spec((1, 4, 4, 2), "int8", 0.1), **STEPS),
        "node '0' (CONV_2D, which makes 't2'): products of int8 and float32 as int8\n"
        "  supported: float32; int8, uint8: all quantized; int16, float32 with int8 weights",
    ),
    "width": (
        one("HARD_SWISH", [Spec((2, 2), "int16", 0.1)], [Spec((2, 2), "int16", 0.1)]),
        "node '0' (HARD_SWISH, which makes 't1'): quantized int16 as int16\n"
        "  supported: float32, int8, uint8",
    ),
    "slopes": (
        one("PRELU", [Spec((2, 2), "int16", 0.1)] * 2, [Spec((2, 2), "int16", 0.1)]),
        "node '0' (PRELU, which makes 't2'): slopes of int16 for int16\n  supported: int8",
    ),
    "steps": (
        convolution(Spec((1, 4, 4, 2))),
        "node '0' (CONV_2D, which makes 't2'): strides (0, 0) and dilations (1, 1); both are 1 or "
        "more",
    ),
    "channels": (
        convolution(Spec((1, 4, 4, 3)), **STEPS),
        "node '0' (CONV_2D, which makes 't2'): 3 channels for filters of 2",
    ),
    "scales of operands": (
        one("MAXIMUM", [Spec((2, 2), "int8", s) for s in (0.1, 0.2)], [Spec((2, 2), "int8", 0.1)]),
        "node '0' (MAXIMUM, which makes 't2'): 't0' and 't1' with different scales or zero points\n"
        "  supported: the same ones",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_one_error(name: str) -> None:
    content, text = FILES[name]
    with pytest.raises((ImportFailure, Unsupported)) as e:
        from_tflite(content)
    assert str(e.value) == f"<bytes>: {text}"


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "path": (lambda: from_tflite("no/such.tflite"), "no/such.tflite: no such file"),
    "object": (lambda: from_tflite(3), "a TFLite model is a path or bytes, not int"),
    "compiled": (lambda: smelt.compile("no/such.tflite"), "no/such.tflite: no such file"),
    "dtype": (
        lambda: relay.frontend.from_tflite(GOOD, dtype_dict={"t0": "float32"}),
        "from_tflite: dtype_dict of input 't0': float32 given, int8 in the file",
    ),
    "name": (
        lambda: relay.frontend.from_tflite(GOOD, dtype_dict={"x": "int8"}),
        "from_tflite: dtype_dict: the model has no input 'x'; inputs: t0",
    ),
    "converter": (
        lambda: relay.frontend.from_tflite(GOOD, op_converter=3),
        "from_tflite: op_converter is an int\n"
        "  supported: {'custom.Operator': function}, as operators of smelt.compile",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_one_error(name: str) -> None:
    call, text = CALLS[name]
    with pytest.raises((ImportFailure, Unsupported)) as e:
        call()
    assert str(e.value) == text


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    read._packages.cache_clear()
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(ImportFailure) as e:
        from_tflite(GOOD)
    assert str(e.value) == (
        "reading TFLite models needs the tflite package: pip install smelt[tflite]"
    )
    monkeypatch.undo()
    read._packages.cache_clear()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_errors_of_smelts(seed: int) -> None:
    r = np.random.default_rng(seed)
    good = small(seed)
    for _ in range(100):
        b = bytearray(good)
        for _ in range(int(r.integers(1, 4))):
            at = 4 * int(r.integers(2, len(b) // 4))
            word = int(r.choice([0, 1, 255, 1 << 16, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF]))
            b[at : at + 4] = word.to_bytes(4, "little")
        cut = int(r.integers(8, len(b))) if r.integers(5) == 0 else len(b)
        with contextlib.suppress(SmeltError):  # what is left may be a model
            from_tflite(bytes(b[:cut]))
