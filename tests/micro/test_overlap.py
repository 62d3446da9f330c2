"""Results that reach into their operands: how far they may, and where such blocks are placed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.arith import Analyzer
from smelt.artifact.backwards import backwards
from smelt.artifact.overlap import distance
from smelt.artifact.placing import APART, Lifetime, Reach, place
from smelt.ir.build import value_of
from smelt.ir.config import MEMORY_ALGORITHMS
from smelt.ir.expr import Expr, Var, const
from smelt.ir.walk import substitute
from smelt.tir.nodes import BufferStore, For, IfThenElse, PrimFunc, Seq, Stmt
from smelt.tir.parser import parse
from smelt.tir.rewrite import loads
from tests.models.net import Net, floats

from .test_c import agrees

Values = dict[Var, Expr]
Reaches = dict[tuple[int, int], Reach]


def flat(
    body: str, x: int = 8, y: int = 8, types: tuple[str, str] = ("float32", "float32")
) -> PrimFunc:
    """A program on an operand x and a result y of so many elements."""
    made = parse(f"""
@T.prim_func
def f(x: T.Buffer(({x},), "{types[0]}"), w: T.Buffer((64,), "float32"),
      y: T.Buffer(({y},), "{types[1]}")):
    a = T.allocate((4,), "float32", scope="local")
{body}
""")
    assert isinstance(made, PrimFunc)
    return made


def found(body: str, **sizes: Any) -> int | None:
    func = flat(body, **sizes)
    x, _, y = func.buffers
    return distance(func, x, y)


def known(e: Expr, values: Values) -> int:
    value = value_of(Analyzer().simplify(substitute(e, values)))
    assert value is not None
    return value


def accesses(s: Stmt, values: Values, func: PrimFunc) -> Iterator[tuple[str, int]]:
    """The elements of x that are read and those of y that are written, in order."""
    x, _, y = func.buffers
    match s:
        case Seq(stmts):
            for one in stmts:
                yield from accesses(one, values, func)
        case For():
            for i in range(known(s.extent, values)):
                inner = {**values, s.var: const(known(s.min, values) + i)}
                yield from accesses(s.body, inner, func)
        case IfThenElse(condition, yes, no):
            chosen = yes if known(condition, values) else no
            if chosen is not None:
                yield from accesses(chosen, values, func)
        case BufferStore(buffer, value, indices):
            for read in loads(value):
                if read.buffer is x:
                    yield "read", known(read.indices[0], values)
            if buffer is y:
                yield "write", known(indices[0], values)
        case _:
            for part in s.children():
                if isinstance(part, Stmt):
                    yield from accesses(part, values, func)


def needed(func: PrimFunc) -> int:
    """The least distance in elements: by all accesses, one by one."""
    most, end = -10_000, -10_000
    for kind, at in accesses(func.body, {}, func):
        if kind == "write":
            end = max(end, at + 1)
        else:
            most = max(most, end - at)
    return most


@pytest.mark.parametrize(
    ("body", "far"),
    [
        ("    for i in range(8):\n        y[i] = x[i] + w[i]", 0),
        ("    for i in range(4):\n        y[i * 2] = x[i * 2]\n"
         "        y[i * 2 + 1] = x[i * 2 + 1]", 0),
        ("    for i in range(8):\n        y[i] = x[7 - i]", 28),
        ("    for i in range(8):\n        y[i] = x[i] + x[0]", 28),
        ("    for i in range(8):\n        y[i] = w[i]", -32),
        ("    for k in range(2):\n        for i in range(8):\n"
         "            y[i] = x[i] + w[i]", 32),
        ("    for i in range(4):\n        y[i] = x[i * 2] + x[i * 2 + 1]", -4),
        ("    for i in range(4):\n        a[0] = x[i * 2]\n        a[1] = x[i * 2 + 1]\n"
         "        y[i * 2] = a[0]\n        y[i * 2 + 1] = a[1]", 0),
        ("    for i in range(4):\n        for c in range(2):\n"
         "            y[i * 2 + c] = x[i * 2] + x[i * 2 + 1]", 4),
        ("    for i in range(8):\n        if i < 7:\n            y[i] = x[i + 1]\n"
         "        else:\n            y[7] = x[7]", 0),
        ("    for i in range(8):\n        for k in range(T.max(i - 1, 0), T.max(i - 1, 0) + 1):\n"
         "            y[i] = x[k]", 8),
        ("    for i in range(8):\n        y[i] = x[T.cast(\"int32\", w[i])]", 28),
        ("    y[T.ramp(0, 1, 8)] = x[T.ramp(0, 1, 8)]", 32),
    ],
)  # fmt: skip
def test_how_far_a_result_may_reach(body: str, far: int) -> None:
    assert found(body) == far


def test_what_is_not_understood_is_apart() -> None:
    whole = "    for i in range(8):\n        y[i] = "
    assert found(whole + 'T.cast("int32", x[i])', types=("float32", "int32")) is None
    assert found(whole + 'T.cast("int8", x[i])', types=("float32", "int8")) == -3
    assert found(whole + 'T.cast("float32", x[i])', types=("int8", "float32")) == 21
    assert found('    for i in range(T.cast("int32", x[0])):\n        y[i] = x[i]') is None


def windows(seed: int) -> PrimFunc:
    """Elements of y made of windows of x, with a branch, and ends of loops that move."""
    rng = np.random.default_rng(seed)
    a, b, c = (int(n) for n in rng.integers(1, 5, 3))
    back, side = (int(n) for n in rng.integers(0, 4, 2))
    step = int(rng.integers(1, 3))
    width = b * c * step + side
    body = f"""    for i in range({a}):
        for j in range({b}):
            b = T.allocate((1,), "float32", scope="local")
            if {"i >= 1" if seed % 3 else "j < 2"}:
                b[0] = 0.0
                for k in range(T.max({back} - i, 0), {back + 1}):
                    b[0] = b[0] + x[(i + k) * {width} + j * {c * step} + {side}]
                for m in range({c}):
                    y[(i * {b} + j) * {c} + m] = b[0] + x[i * {width} + j * {c * step} + m]
            else:
                for m in range({c}):
                    y[(i * {b} + j) * {c} + m] = x[i * {width} + j * {c * step} + m * {step}]"""
    return flat(body, x=(a + back + 1) * width + 8, y=a * b * c)


@pytest.mark.parametrize("seed", range(30))
def test_it_is_enough(seed: int) -> None:
    """All accesses one by one need no more, and little less."""
    func = windows(seed)
    x, _, y = func.buffers
    far = distance(func, x, y)
    assert far is not None
    assert needed(func) * 4 <= far <= (needed(func) + 4) * 4


@pytest.mark.parametrize("seed", range(30))
def test_backwards_it_is_enough(seed: int) -> None:
    """The same of programs whose loops run backwards: their addresses count from the ends."""
    func = windows(seed)
    x, _, y = func.buffers
    turned = backwards(func, y)
    assert turned is not None
    assert sorted(accesses(turned.body, {}, func)) == sorted(accesses(func.body, {}, func))
    back = distance(turned, x, y, down=True)
    assert back is not None
    most, begin = -10_000, 10_000
    for kind, at in accesses(turned.body, {}, func):
        if kind == "write":
            begin = min(begin, at)
        else:
            most = max(most, at + 1 - begin)
    assert most * 4 <= back <= (most + 4) * 4


@pytest.mark.parametrize(
    "body",
    [
        "    for i in range(8):\n        y[i] = x[i] + y[0]",
        "    for i in range(8):\n        a[0] = a[0] + x[i]\n        y[i] = a[0]",
        "    for i in range(8):\n        w[i] = x[i]\n        y[i] = x[i]",
        "    for k in range(2):\n        for i in range(8):\n            y[i] = x[i + k]",
        '    for i in range(8):\n        y[T.cast("int32", w[i])] = x[i]\n        y[i] = x[i]',
    ],
)
def test_whose_order_may_matter_stays(body: str) -> None:
    func = flat(body)
    assert backwards(func, func.buffers[2]) is None


def legal(blocks: list[Lifetime], near: Reaches, at: tuple[int, ...]) -> bool:
    """Whether blocks are apart, or as near as they may be."""
    for n, a in enumerate(blocks):
        for k, b in enumerate(blocks):
            apart = at[n] + a.size <= at[k] or at[k] + b.size <= at[n]
            close = False
            for one, other in ((n, k), (k, n)):
                far, back = near.get((one, other), (APART, APART))
                close |= at[one] >= at[other] + far or at[other] >= at[one] + back
            if n < k and a.meets(b) and not apart and not close:
                return False
    return min(at, default=0) >= 0


def chain(rng: np.random.Generator, count: int) -> tuple[list[Lifetime], Reaches]:
    """Blocks of which some are made of the one before, and others stay alive longer."""
    blocks: list[Lifetime] = []
    near: Reaches = {}
    for n in range(count):
        last = n + 1 + int(rng.integers(0, 3) == 2)
        blocks.append(Lifetime(int(rng.integers(1, 6)), n, last))
        if n and blocks[n - 1].last == n and rng.integers(3):
            back = int(rng.integers(-2, 5)) if rng.integers(2) else APART
            near[n - 1, n] = Reach(int(rng.integers(-2, 5)), back)
    return blocks, near


@pytest.mark.parametrize("algorithm", MEMORY_ALGORITHMS)
def test_blocks_are_as_near_as_they_may_be(algorithm: str) -> None:
    for seed in range(60):
        blocks, near = chain(np.random.default_rng(seed), 12)
        placed = place(blocks, algorithm, near)
        assert legal(blocks, near, placed.offsets)
        assert placed.total == max(
            at + b.size for at, b in zip(placed.offsets, blocks, strict=True)
        )
        assert placed.live <= placed.total <= place(blocks, algorithm).total + 8


def test_few_blocks_are_placed_as_well_as_any_order_does() -> None:
    """Against all places of four blocks."""
    worse = 0
    for seed in range(40):
        blocks, near = chain(np.random.default_rng(seed), 4)
        placed = place(blocks, near=near)
        room = range(placed.total)
        least = min([
            max(at + b.size for at, b in zip(places, blocks, strict=True))
            for places in np.ndindex(*[len(room)] * 4) if legal(blocks, near, places)
        ])  # fmt: skip
        assert placed.live <= least <= placed.total
        worse += placed.total > least
    assert worse <= 4


def test_an_image_reaches_into_the_next_one(tmp_path: Path) -> None:
    """A convolution of one pixel, and one of nine, which needs a row and a pixel more."""
    net = Net()
    x = net.op("Relu", net.conv_norm(net.input("x", [1, 4, 12, 12]), (4, 8), 3, 1))
    x = net.op("Relu", net.conv_norm(x, (8, 16), 1))
    x = net.op("Relu", net.conv_norm(x, (16, 8), 3, 1))
    model = net.model(net.op("Softmax", net.head(x, 8, 5)))
    made = agrees(model, [floats("x", 1, 4, 12, 12)["x"]], tmp_path)
    assert made.workspace_bytes < 24 * 144 * 4


def test_depthwise_layers_run_backwards(tmp_path: Path) -> None:
    """Two images of one size take turns with little more than one of them."""
    net = Net()
    x = net.op("Relu", net.conv_norm(net.input("x", [1, 4, 12, 12]), (4, 16), 3, 1))
    for _ in range(3):
        x = net.op("Relu", net.conv_norm(x, (16, 16), 3, 1, groups=16))
        x = net.op("Relu", net.conv_norm(x, (16, 16), 1))
    model = net.model(net.op("Softmax", net.head(x, 16, 5)))
    made = agrees(model, [floats("x", 1, 4, 12, 12)["x"]], tmp_path)
    image = 16 * 12 * 12 * 4
    assert image < made.workspace_bytes == made.memory.least < 1.3 * image
