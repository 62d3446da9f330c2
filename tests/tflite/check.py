"""Cases against TFLite's reference kernels."""

from __future__ import annotations

import numpy as np

import smelt
from smelt.frontend.tflite import from_tflite
from smelt.ir.module import IRModule
from smelt.relax.interpret import interpret
from tests.tflite.build import Array, Oracle
from tests.tflite.cases import Case

TOLERANCE = 1e-5


def differences(found: Array, expected: Array, least: float = 1.0, slack: int = 0) -> str:
    """Where a result differs: in any bit of whole numbers, by more than 1e-5 of floats.

    least  what is compared with at least: sums may cancel each other
    slack  by how much whole numbers may differ
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{found.shape} for {expected.dtype}{expected.shape}"
    if expected.dtype.kind == "f":
        scale = np.max(np.abs(expected), initial=least)
        bad = np.abs(found - expected) > TOLERANCE * scale
        bad |= np.isnan(found) != np.isnan(expected)
    elif slack:
        bad = np.abs(found.astype(np.int64) - expected) > slack
    else:
        bad = found != expected
    if not bad.any():
        return ""
    at = tuple(np.argwhere(bad)[0])
    return f"{bad.sum()} of {bad.size}: {found[at]} for {expected[at]} at {list(map(int, at))}"


def interpreted(mod: IRModule, *inputs: Array) -> list[Array]:
    """What the module means."""
    return [np.asarray(y) for y in interpret(mod["main"], *inputs)]


def compiled(mod: IRModule, *inputs: Array) -> list[Array]:
    """What its native code gives."""
    found = smelt.compile(mod, threads=1)(*inputs)
    return [np.asarray(y) for y in (found if isinstance(found, tuple | list) else [found])]


def mistakes(c: Case, native: bool = False) -> str:
    """How a case differs from TFLite; "": it does not."""
    expected = Oracle(c.model, c.reference)(*c.inputs)
    mod = from_tflite(c.model)
    found = interpreted(mod, *c.inputs)
    floats = [np.max(np.abs(x), initial=1.0) for x in c.inputs if x.dtype.kind == "f"]
    least = float(max(floats, default=1.0))
    texts = [differences(a, b, least, c.slack) for a, b in zip(found, expected, strict=True)]
    if native and not any(texts):
        made = compiled(mod, *c.inputs)
        texts = [differences(a, b, least, c.slack) for a, b in zip(made, expected, strict=True)]
        texts = ["compiled: " + t for t in texts if t]
    return "; ".join([t for t in texts if t])
