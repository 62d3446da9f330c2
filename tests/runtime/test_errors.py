"""The texts of the runtime's errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import runtime
from smelt.runtime import InputError, LoadError, SmeltError
from smelt.runtime.expression import evaluate
from tests.runtime.conftest import Make

F32 = np.float32


class OnGpu:
    """An array on a device of CUDA."""

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("must not be asked")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


X, Y = np.zeros((2, 4), F32), np.zeros((2, 4), F32)
BOTH = "  inputs: x float32[n, 4]; y float32[n, 4]"
EXPECTED = "\n  expected: x float32[n, 4]"

CALLS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((X,), {}, f"add: 1 inputs given, 2 needed\n{BOTH}"),
    ((X, Y, X), {}, f"add: 3 inputs given, 2 needed\n{BOTH}"),
    ((X,), {"z": Y}, f"add: no input is named 'z'\n{BOTH}"),
    ((X, Y), {"x": Y}, "add: input 'x' is given twice, as argument 1 and by name"),
    ((), {"y": Y}, f"add: missing inputs: x float32[n, 4]\n{BOTH}"),
    (
        (X.astype(np.float64), Y),
        {},
        f"add: input 'x': dtype float64 given, float32 needed; x.astype('float32'){EXPECTED}",
    ),
    (
        (X.astype(">f4"), Y),
        {},
        "add: input 'x': dtype >f4 has the other byte order; "
        f"convert it with x.astype(x.dtype.newbyteorder('=')){EXPECTED}",
    ),
    ((X.astype(object), Y), {}, f"add: input 'x': dtype object given, float32 needed{EXPECTED}"),
    (
        ([[1.0]], Y),
        {},
        f"add: input 'x': a list given; arrays are taken: numpy.asarray(x, 'float32'){EXPECTED}",
    ),
    (
        (OnGpu(), Y),
        {},
        "add: input 'x': the OnGpu lies on cuda:0, not in the host's memory; "
        f"copy it there first{EXPECTED}",
    ),
    ((X[0], Y), {}, f"add: input 'x': shape [4] has rank 1, 2 needed{EXPECTED}"),
    (
        (np.zeros((2, 5), F32), Y),
        {},
        f"add: input 'x': shape [2, 5]: dimension 1 is 5, 4 needed{EXPECTED}",
    ),
    (
        (X, np.zeros((3, 4), F32)),
        {},
        "add: input 'y': shape [3, 4]: dimension 0 is 3, but n is 2 by input 'x'\n"
        "  expected: y float32[n, 4]",
    ),
    (
        (np.zeros((2000, 4), F32), np.zeros((2000, 4), F32)),
        {},
        "add: the model does not accept these sizes: n = 2000 "
        f"(sizes that the model does not accept (status 3))\n{BOTH}",
    ),
]


@pytest.mark.parametrize(("args", "named", "text"), CALLS)
def test_calls(make: Make, args: Any, named: Any, text: str) -> None:
    add = make("add")
    with pytest.raises(InputError) as caught:
        add(*args, **named)
    assert str(caught.value) == text


BINDS: list[tuple[Any, Any, str]] = [
    (X, None, f"add: bind: 1 inputs given, 2 needed\n{BOTH}"),
    ({"x": X}, None, f"add: bind: inputs ['y'] are missing or unknown\n{BOTH}"),
    (
        [X[:, ::-1], Y],
        None,
        "add: input 'x': bind works in place and needs a contiguous array; use x.copy()" + EXPECTED,
    ),
    (
        [X, Y],
        np.zeros((3, 4), F32),
        "add: output 'z': shape [3, 4] given, [2, 4] needed\n  expected: z float32[n, 4]",
    ),
    (
        [X, Y],
        np.frombuffer(bytes(32), F32).reshape(2, 4),
        "add: output 'z': the array is read-only\n  expected: z float32[n, 4]",
    ),
]


@pytest.mark.parametrize(("inputs", "outputs", "text"), BINDS)
def test_binds(make: Make, inputs: Any, outputs: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        make("add").bind(inputs, outputs)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"abi": 7}, "add: built for ABI version 7, this runtime has 6; compile the model again"),
        (
            {"features": ["avx10.9", "sse2"], "target": "llvm -mcpu=future"},
            "add: compiled for a CPU with avx10.9, which this CPU lacks\n"
            "  target: llvm -mcpu=future",
        ),
        (
            {"symbols": ["n", "m"]},
            "add: symbol 'm' is no dimension of an input, so no call could give its value",
        ),
        (
            {"outputs": [{"name": "z", "dtype": "float31", "shape": []}]},
            "unknown dtype 'float31'\n  known: bool, int8, int16, int32, int64, uint8, uint16, "
            "uint32, uint64, float16, float32, float64, bfloat16, float8_e4m3fn, "
            "float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn, int4, "
            "uint4, int2, uint2, "
            "complex64, complex128",
        ),
    ],
)
def test_models(make: Make, changes: Any, text: str) -> None:
    features = changes.get("features", [])
    changes["features"] = [f for f in features if f != "sse2" or f in runtime.cpu_features()]
    with pytest.raises(LoadError) as caught:
        make("add", **changes)
    assert str(caught.value) == text


def test_sizes_run_no_code(make: Make) -> None:
    text = "__import__('os').getpid()"
    add = make(
        "add",
        inputs=[
            *make("add").metadata["inputs"][:1],
            {"name": "y", "dtype": "float32", "shape": [text, 4]},
        ],
    )
    with pytest.raises(LoadError) as caught:
        add(X, Y)
    assert str(caught.value) == (
        f"a size in the metadata is not an expression of integers: {text!r}\n"
        "  legal: + - * // %, numbers, symbols, min, max, ceildiv, floordiv, floormod, truncdiv, "
        "truncmod, select"
    )


def test_environment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_NUM_THREADS", "many")
    with pytest.raises(InputError) as caught:
        make("add")
    assert str(caught.value) == (
        "environment variable SMELT_NUM_THREADS='many' is not a number of threads; "
        "legal: 1 or more, or unset for all CPUs of this process"
    )


def test_errors_have_one_base() -> None:
    assert issubclass(InputError, SmeltError)
    with pytest.raises(SmeltError, match=r"^cpu\(1\): the host is one device, cpu\(0\)$"):
        runtime.cpu(1)


def test_quotients_of_sizes_are_those_of_programs() -> None:
    for a in (-7, -6, 0, 5, 7):
        for b in (-3, 2, 3):
            assert evaluate(f"truncdiv({a}, {b})", {}) == int(a / b)
            assert evaluate(f"truncmod({a}, {b})", {}) == a - b * int(a / b)
