"""Loops over bytes as calls of instructions: the interpreter finds no difference."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.lowering.dot_products import use_dot_products
from smelt.lowering.windows import gather_windows
from smelt.tir.interpret import interpret
from smelt.tir.intrin.products import DSP, HELIUM, Products
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script

SUMS = """@T.prim_func
def sums(x: T.Buffer((256,), "{kind}"), w: T.Buffer((1024,), "int8"), r: T.Buffer((4,), "int32")):
    for j in T.unroll(4):
        r[j] = 0
    for k in range({n}):
        for j in T.unroll(4):
            r[j] = r[j] + T.cast("int32", T.cast("int16", x[k + {start}]) - {zero}) * \\
                T.cast("int32", w[j * {n} + k])
"""
ASIDE = """@T.prim_func
def aside(x: T.Buffer((256,), "int8"), w: T.Buffer((1024,), "int8"), f: T.Buffer((64,), "int32"),
          r: T.Buffer(({n},), "int8")):
    s = T.allocate(({n},), "int32", scope="local")
    for j in T.unroll({n}):
        s[j] = 0
    for k in range(5):
        for j in T.unroll({n}):
            s[j] = s[j] + T.cast("int32", x[k * {n} + j]) * T.cast("int32", w[k * {n} + j])
    for j in T.unroll({n}):
        r[j] = T.cast("int8", T.min(T.max(T.shift_right(
            T.high_product((s[j] + f[j * 4]) * 2, f[j * 4 + 1]){away}
            + f[j * 4 + 2], 0 - f[j * 4 + 3]), {low}), 127){more})
"""
AWAY = " + T.shift_right(T.high_product((s[j] + f[j * 4]) * 2, f[j * 4 + 1]), 31)"
BORDER = """@T.prim_func
def border(x: T.Buffer((7, 16), "int8"), w: T.Buffer((8, 3, 16), "int8"),
           r: T.Buffer((7, 8), "int32")):
    for i in range(7):
        for o in range(2):
            s = T.allocate((4,), "int32", scope="local")
            for j in T.unroll(4):
                s[j] = 0
            for k in range(3):
                for c in range(16):
                    for j in T.unroll(4):
                        s[j] = s[j] + T.cast("int32", w[o * 4 + j, k, c]) * T.cast("int32",
                            T.if_then_else(i + k >= 1 and i + k < 8, x[i + k - 1, c], T.int8(-7)))
            for j in T.unroll(4):
                r[i, o * 4 + j] = s[j]
"""

OWN = """@T.prim_func
def own(x: T.Buffer((9, {c}), "int8"), w: T.Buffer((3, {c}), "int8"),
        r: T.Buffer((9, {c}), "int32")):
    for {places}:
        s = T.allocate((8,), "int32", scope="local")
        for j in T.unroll(8):
            s[j] = 0
        for k in range(3):
            for j in T.unroll(8):
                s[j] = s[j] + T.cast("int32", w[k, {o} * 8 + j]) * T.cast("int32",
                    T.if_then_else(i + k >= 1 and i + k < 10, x[i + k - 1, {o} * 8 + j],
                                   T.int8(-7)))
        for j in T.unroll(8):
            r[i, {o} * 8 + j] = s[j]
"""


def same(before: PrimFunc, after: PrimFunc) -> None:
    """Both programs make the same of random numbers."""
    r = np.random.default_rng(1)
    args = []
    for b in before.buffers:
        limits = np.iinfo(b.type) if b.type != "int32" else np.iinfo("int16")
        args.append(r.integers(limits.min, limits.max + 1, b.fixed_shape()).astype(b.type))
        if b.name == "f":
            args[-1][1::4], args[-1][3::4] = r.integers(1 << 29, 1 << 31, 16), -r.integers(0, 9, 16)
    found = [[a.copy() for a in args] for _ in range(2)]
    for func, own in zip((before, after), found, strict=True):
        interpret(func, *own)
    np.testing.assert_array_equal(found[0][-1], found[1][-1])


@pytest.mark.parametrize("offer", [DSP, HELIUM], ids=["dsp", "mve"])
@pytest.mark.parametrize("zero", [0, -128, 5])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("n", [3, 4, 11, 16, 27, 48, 70])
def test_sums(offer: Products, zero: int, kind: str, n: int) -> None:
    func = parse(SUMS.format(kind=kind, n=n, zero=zero, start=n % 3))
    made = use_dot_products(func, offer)
    assert ("dot" in script(made)) == (n > 3)
    same(func, made)


@pytest.mark.parametrize("offer", [DSP, HELIUM], ids=["dsp", "mve"])
@pytest.mark.parametrize("n", [4, 8, 16])
@pytest.mark.parametrize("low", [-128, -3])
@pytest.mark.parametrize("more", ["", " // 4 + 1"])
@pytest.mark.parametrize("away", ["", AWAY])
def test_sums_side_by_side(offer: Products, n: int, low: int, more: str, away: str) -> None:
    func = parse(ASIDE.format(n=n, low=low, more=more, away=away))
    made = use_dot_products(func, offer)
    used = script(made)
    wide = offer is HELIUM and n == 16 and not more
    assert ("mla16" in used) == wide
    assert ("mla4" in used) != wide
    assert ("settle" in used) == (offer is HELIUM and not more)
    assert ("narrow4" in used) == (offer is HELIUM and bool(more))
    same(func, made)


def test_windows() -> None:
    func = parse(BORDER)
    made = gather_windows(func)
    assert "window" in script(made)
    same(func, made)


@pytest.mark.parametrize(
    ("places", "o", "c"), [("i in range(9)", 0, 8), ("i, o in T.grid(9, 3)", "o", 24)]
)
def test_own_windows(places: str, o: object, c: int) -> None:
    """Channels that are summed up by themselves are read from the image where all of it is inside:
    asked for once for all channels, or, where these are one tile, for each pixel."""
    func = parse(OWN.format(places=places, o=o, c=c))
    made = gather_windows(func)
    straight, gathered = script(made).split("else:", 1)
    assert "window" not in straight
    assert straight.count("if i - 1 >= 0 and 7 - i >= 0:") == 1
    assert "window" in gathered
    same(func, made)
