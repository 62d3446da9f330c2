"""Results against the suite's, as onnx's own runner compares them, and stricter where it is lax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Mismatch", "check"]

BFLOAT16_RTOL = 2**-6  # two units in the last place; onnx's runner allows them too


class Mismatch(Exception):
    """A result that is not what the suite wants."""


def check(got: Sequence[Any], want: Sequence[Any], rtol: float, atol: float) -> None:
    """Refuse results whose number, types, shapes or values differ."""
    if len(got) != len(want):
        raise Mismatch(f"{len(got)} results, wanted {len(want)}")
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        check_value(g, w, rtol, atol, f"result {n}")


def check_value(got: Any, want: Any, rtol: float, atol: float, where: str) -> None:
    """One result: a tensor, a list of them, or None."""
    if want is None or got is None:
        if got is not want:
            raise Mismatch(f"{where}: {kind(got)}, wanted {kind(want)}")
        return
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            raise Mismatch(f"{where}: {kind(got)}, wanted {kind(want)}")
        for n, (g, w) in enumerate(zip(got, want, strict=True)):
            check_value(g, w, rtol, atol, f"{where}, element {n}")
        return
    if isinstance(got, list | tuple):
        raise Mismatch(f"{where}: {kind(got)}, wanted {kind(want)}")
    check_array(array(got), array(want), rtol, atol, where)


def check_array(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rtol: float, atol: float, where: str
) -> None:
    """One tensor. Strings, integers of few bits and 8-bit floats have to be equal."""
    if got.shape != want.shape:
        raise Mismatch(f"{where}: shape {got.shape}, wanted {want.shape}")
    if text(want):
        if not text(got) or got.tolist() != want.tolist():
            raise Mismatch(f"{where}: {got.tolist()}, wanted {want.tolist()}"[:300])
        return
    if got.dtype != want.dtype:
        raise Mismatch(f"{where}: dtype {got.dtype}, wanted {want.dtype}")
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    if want.dtype.kind not in "biufc":  # of ml_dtypes, which numpy's comparison cannot promote
        got, want = got.astype(np.float32), want.astype(np.float32)
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    except AssertionError:
        raise Mismatch(f"{where}: {difference(got, want, rtol, atol)}") from None


def difference(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rtol: float, atol: float
) -> str:
    """How many elements differ by more than the tolerances, and the one that does so most."""
    a, b = got.astype(np.complex128), want.astype(np.complex128)
    with np.errstate(all="ignore"):
        over = np.where(
            (a == b) | (np.isnan(a) & np.isnan(b)), -1, np.abs(a - b) - atol - rtol * np.abs(b)
        )
    at = np.unravel_index(int(np.argmax(np.nan_to_num(over, nan=np.inf))), over.shape)
    count = np.count_nonzero(~(over <= 0))
    place = tuple(int(i) for i in at)
    return f"{count} of {over.size} elements differ; at {place}: {got[at]}, wanted {want[at]}"


def array(value: Any) -> np.ndarray[Any, Any]:
    """What a result holds, as an array."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def text(a: np.ndarray[Any, Any]) -> bool:
    return a.dtype.kind in "OSU" or a.dtype.kind == "T"


def kind(value: Any) -> str:
    """What a value is, for messages."""
    if value is None:
        return "None"
    if isinstance(value, list | tuple):
        return f"a sequence of {len(value)}"
    a = array(value)
    return f"a tensor {a.dtype}{list(a.shape)}"
