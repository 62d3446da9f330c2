"""Calls that do not fit the model, and odd arrays that do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.runtime import Executable, InputError
from tests.bad_input.conftest import message, tiny
from tests.models.compare import compiled

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
A = np.full((2, 3), 10, np.float32)
INPUTS = "\n  inputs: x float32[2, 3]; a float32[2, 3]"


def refused(exe: Executable, *arrays: Any, **named: Any) -> str:
    return message(InputError, lambda: exe(*arrays, **named))


def test_counts(exe: Executable) -> None:
    assert refused(exe) == "test: 0 inputs given, 2 needed" + INPUTS
    assert refused(exe, X) == "test: 1 inputs given, 2 needed" + INPUTS
    assert refused(exe, X, A, A) == "test: 3 inputs given, 2 needed" + INPUTS


def test_names(exe: Executable) -> None:
    assert refused(exe, X, b=A) == "test: no input is named 'b'" + INPUTS
    assert refused(exe, x=X) == "test: missing inputs: a float32[2, 3]" + INPUTS
    assert refused(exe, X, A, a=A) == ("test: input 'a' is given twice, as argument 2 and by name")


def test_shapes(exe: Executable) -> None:
    assert refused(exe, X[:1], A) == (
        "test: input 'x': shape [1, 3]: dimension 0 is 1, 2 needed\n  expected: x float32[2, 3]"
    )
    assert refused(exe, X, A.reshape(-1)) == (
        "test: input 'a': shape [6] has rank 1, 2 needed\n  expected: a float32[2, 3]"
    )


def test_shapes_of_a_symbolic_model(cache: str) -> None:
    exe = compiled(tiny(batch="n"), cache)
    assert refused(exe, X, A[:1]) == (
        "test: input 'a': shape [1, 3]: dimension 0 is 1, but n is 2 by input 'x'\n"
        "  expected: a float32[n, 3]"
    )


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool", "complex64", "O", "U1"])
def test_dtypes(dtype: str, exe: Executable) -> None:
    x = X.astype(dtype)
    cure = "" if x.dtype.kind in "cOU" else "; x.astype('float32')"
    assert refused(exe, x, A) == (
        f"test: input 'x': dtype {x.dtype} given, float32 needed{cure}\n  expected: x float32[2, 3]"
    )


def test_no_arrays(exe: Executable) -> None:
    assert refused(exe, X.tolist(), A) == (
        "test: input 'x': a list given; arrays are taken: numpy.asarray(x, 'float32')\n"
        "  expected: x float32[2, 3]"
    )
    assert refused(exe, X, None) == (
        "test: input 'a': a NoneType given; arrays are taken: numpy.asarray(x, 'float32')\n"
        "  expected: a float32[2, 3]"
    )


def test_big_endian_arrays_are_refused(exe: Executable) -> None:
    assert refused(exe, X.astype(">f4"), A) == (
        "test: input 'x': dtype >f4 has the other byte order; "
        "convert it with x.astype(x.dtype.newbyteorder('='))\n  expected: x float32[2, 3]"
    )


def test_odd_arrays_are_accepted(exe: Executable) -> None:
    expected = np.maximum(X, 0) + A
    read_only = X.copy()
    read_only.setflags(write=False)
    raw = np.zeros(X.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(X.shape)
    unaligned[...] = X
    wide = np.repeat(X, 2, axis=1)
    odd = [read_only, unaligned, np.asfortranarray(X), wide[:, ::2], X[::-1][::-1]]
    for x in (*odd, np.broadcast_to(X[:1], X.shape)):
        before = x.copy()
        np.testing.assert_array_equal(exe(x, A).numpy(), np.maximum(before, 0) + A)
        np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(exe(a=A, x=X).numpy(), expected)


def test_the_executable_lives_on_after_a_wrong_call(exe: Executable) -> None:
    refused(exe, X)
    refused(exe, X, A.astype(np.int8))
    np.testing.assert_array_equal(exe(X, A).numpy(), np.maximum(X, 0) + A)


def test_binding(exe: Executable) -> None:
    y = np.empty((2, 3), np.float32)
    assert message(InputError, lambda: exe.bind([X, A], y[:1])) == (
        "test: output 'y': shape [1, 3] given, [2, 3] needed\n  expected: y float32[2, 3]"
    )
    assert message(InputError, lambda: exe.bind([X.T.copy().T, A], y)) == (
        "test: input 'x': bind works in place and needs a contiguous array; use x.copy()\n"
        "  expected: x float32[2, 3]"
    )
    y.setflags(write=False)
    assert message(InputError, lambda: exe.bind([X, A], y)) == (
        "test: output 'y': the array is read-only\n  expected: y float32[2, 3]"
    )
    assert message(InputError, lambda: exe.bind({"x": X})) == (
        "test: bind: inputs ['a'] are missing or unknown" + INPUTS
    )
