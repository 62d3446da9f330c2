"""Products of bytes in pairs: the instructions, the pass that uses them, what they are fed with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt.ir.expr import Call
from smelt.lowering.dot_products import use_dot_products
from smelt.lowering.guards import tighten_loops
from smelt.lowering.partition import split_interior
from smelt.lowering.simplify import simplify
from smelt.micro import BOARDS, compile_c
from smelt.tir import nodes as tir
from smelt.tir.interpret import interpret
from smelt.tir.intrin import dsp
from smelt.tir.intrin.products import DSP
from smelt.tir.parser import parse
from smelt.tir.script_ops import expressions
from tests.tflite.build import Oracle, Spec, Step, const, model

from .test_boards import compared
from .test_c import OPTIONS, compiled, run

M4 = "c -mcpu=cortex-m4"


def calls(func: tir.PrimFunc) -> list[str]:
    """The instructions that a program calls, by name."""
    every = expressions(*tir.walk(func.body))
    return [str(e.args[0]).strip("'\"") for e in every
            if isinstance(e, Call) and e.op == "call_instruction"]  # fmt: skip


def arrays(func: tir.PrimFunc, seed: int) -> list[np.ndarray[Any, Any]]:
    """Numbers for the parameters of a program."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-128 if b.type[0] == "i" else 0, 127, [int(str(e)) for e in b.shape]).astype(
            b.type
        )
        for b in func.buffers
    ]


def same(before: tir.PrimFunc, after: tir.PrimFunc, seed: int = 0) -> None:
    """Both programs compute the same."""
    given, other = arrays(before, seed), arrays(before, seed)
    interpret(before, *given)
    interpret(after, *other)
    for a, b in zip(given, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("made", [*dsp.DOT.values(), *dsp.PAIR.values(), *dsp.EACH.values(),
                                  *dsp.EACH_WIDE.values()])  # fmt: skip
def test_instructions_say_what_they_need(made: Any) -> None:
    assert made.features == ("dsp",)
    assert "__asm__" in made.c
    assert made.meaning.buffers[-1].type == "int32"


def sums(k: int, tile: int, zero: int, kind: str, start: str = "0", end: str = "") -> tir.PrimFunc:
    """`tile` sums of k products, of an image and rows of weights."""
    factor = f'T.cast("int32", T.cast("int16", x[k]) - {zero})' if zero else 'T.cast("int32", x[k])'
    return parse(f"""
@T.prim_func
def f(x: T.Buffer(({k},), "{kind}"), w: T.Buffer(({tile * k},), "int8"),
      y: T.Buffer(({tile},), "int32")):
    for k in range({start}, {end or k}):
        for j in T.unroll({tile}):
            y[j] = y[j] + {factor} * T.cast("int32", w[j * {k} + k])
""")


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("zero", [0, 5, -128])
@pytest.mark.parametrize(("k", "tile"), [(4, 1), (8, 4), (9, 2), (13, 4), (16, 3), (3, 4)])
def test_sums(k: int, tile: int, zero: int, kind: str) -> None:
    func = sums(k, tile, zero, kind)
    made = use_dot_products(func, DSP)
    same(func, made)
    wanted = {dsp.DOT[kind].name} if k >= 4 else set()
    assert set(calls(made)) == wanted


def test_sums_of_a_part() -> None:
    """What is left of a length that is no multiple of four, wherever it begins."""
    func = sums(24, 4, 3, "int8", "2", "21")
    made = use_dot_products(func, DSP)
    same(func, made)
    assert calls(made)


def test_pairs_of_rows() -> None:
    func = parse("""
@T.prim_func
def f(x: T.Buffer((64,), "int8"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")):
    for k in range(16):
        for j in T.unroll(2):
            for i in T.unroll(2):
                y[j * 2 + i] = y[j * 2 + i] + T.cast("int32", x[i * 16 + k]) * T.cast("int32",
                    w[j * 16 + k])
""")
    made = use_dot_products(func, DSP)
    same(func, made)
    assert set(calls(made)) == {"arm.dsp.pair4_i8"}


@pytest.mark.parametrize(
    ("kind", "step", "wanted"),
    [("int8", 8, ["mla4_u8"]), ("int16", 8, ["mla4_wide_u8"]), ("int16", 7, [])],
)
def test_four_sums_side_by_side(kind: str, step: int, wanted: list[str]) -> None:
    """Factors of 16 bits are taken where they begin at a multiple of 4 bytes."""
    func = parse(f"""
@T.prim_func
def f(x: T.Buffer((96,), "uint8"), w: T.Buffer((72,), "{kind}"), y: T.Buffer((8,), "int32")):
    for k in range(9):
        for j in T.unroll(4):
            y[j] = y[j] + T.cast("int32", T.cast("int16", x[k * 8 + j]) - 128) * T.cast("int32",
                w[k * {step} + j])
""")
    made = use_dot_products(func, DSP)
    same(func, made)
    assert calls(made) == [f"arm.dsp.{n}" for n in wanted]


def test_rows_of_a_window_join() -> None:
    """Three columns of three channels are nine bytes that follow one another."""
    func = parse("""
@T.prim_func
def f(x: T.Buffer((40,), "int8"), w: T.Buffer((27,), "int8"), y: T.Buffer((1,), "int32")):
    for r in range(3):
        for c in range(3):
            for k in range(3):
                y[0] = y[0] + T.cast("int32", x[r * 12 + c * 3 + k]) * T.cast("int32",
                    w[r * 9 + c * 3 + k])
""")
    made = use_dot_products(func, DSP)
    same(func, made)
    assert len(set(calls(made))) == 1


@pytest.mark.parametrize(
    "update",
    [
        'y[0] = y[0] + T.cast("int32", x[k * 2]) * T.cast("int32", w[k])',  # not neighbours
        'y[0] = y[0] + T.cast("int32", x[k]) * 3',  # no second byte
        'y[k] = y[k] + T.cast("int32", x[k]) * T.cast("int32", w[k])',  # a sum each
        'y[0] = T.cast("int32", x[k]) * T.cast("int32", w[k])',  # no sum
    ],
)
def test_other_loops_stay(update: str) -> None:
    func = parse(f"""
@T.prim_func
def f(x: T.Buffer((16,), "int8"), w: T.Buffer((8,), "int8"), y: T.Buffer((8,), "int32")):
    for k in range(8):
        {update}
""")
    made = use_dot_products(func, DSP)
    same(func, made)
    assert not calls(made)


def test_the_interior_asks_for_no_border() -> None:
    func = parse("""
@T.prim_func
def f(x: T.Buffer((6, 7), "int32"), w: T.Buffer((3, 3), "int32"), y: T.Buffer((6, 7), "int32")):
    for h in range(6):
        for v in range(7):
            with T.decl_buffer((1,), "int32", scope="local") as acc:
                acc[0] = 0
                for r in range(3):
                    if h + r >= 1 and h + r < 7:
                        for c in range(3):
                            if v + c >= 1 and v + c < 8:
                                acc[0] = acc[0] + x[h + r - 1, v + c - 1] * w[r, c]
                y[h, v] = acc[0]
""")
    made = split_interior(func)
    same(func, made)
    free = [s for s in tir.walk(made.body) if isinstance(s, tir.For) and not any(
        isinstance(x, tir.IfThenElse) for x in tir.walk(s.body))]  # fmt: skip
    assert any(isinstance(x, tir.For) for s in free for x in tir.walk(s.body)), "no free copy"


@given(
    pairs=st.integers(1, 6), taps=st.integers(1, 5), apart=st.integers(1, 3),
    before=st.integers(0, 6), steps=st.integers(1, 2),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_neighbours_go_together_where_both_have_a_value(
    pairs: int, taps: int, apart: int, before: int, steps: int
) -> None:
    """Windows of two pixels at a time: over borders on either side, wider than the image, too."""
    width, inside = 2 * pairs, f"(v * 2 + r) * {steps} + c * {apart}"
    func = parse(f"""
@T.prim_func
def f(x: T.Buffer(({width * steps},), "int32"), w: T.Buffer(({taps},), "int32"),
      y: T.Buffer(({width},), "int32")):
    for v in range({pairs}):
        with T.decl_buffer((2,), "int32", scope="local") as acc:
            for r in T.unroll(2):
                acc[r] = 0
            for c in range({taps}):
                for r in T.unroll(2):
                    if {inside} >= {before} and {inside} < {before + width * steps}:
                        acc[r] = acc[r] + x[{inside} - {before}] * w[c]
            for r in T.unroll(2):
                y[v * 2 + r] = acc[r]
""")
    same(func, split_interior(func))


def test_at_a_border_most_turns_are_for_both() -> None:
    func = parse("""
@T.prim_func
def f(x: T.Buffer((8,), "int32"), w: T.Buffer((3,), "int32"), y: T.Buffer((8,), "int32")):
    for v in range(4):
        with T.decl_buffer((2,), "int32", scope="local") as acc:
            for r in T.unroll(2):
                acc[r] = 0
            for c in range(3):
                for r in T.unroll(2):
                    if v * 2 + r + c >= 1 and v * 2 + r + c < 9:
                        acc[r] = acc[r] + x[v * 2 + r + c - 1] * w[c]
            for r in T.unroll(2):
                y[v * 2 + r] = acc[r]
""")
    made = simplify(tighten_loops(split_interior(func)))
    same(func, made)
    turns = [int(str(s.extent)) for s in tir.walk(made.body)
             if isinstance(s, tir.For) and s.var.name.startswith("c")]  # fmt: skip
    assert sorted(turns) == [2, 2, 3], "both edges, two taps of three, and the interior"


def test_sums_that_meet_stay_in_their_order() -> None:
    func = parse("""
@T.prim_func
def f(x: T.Buffer((8,), "int32"), y: T.Buffer((2,), "int32")):
    for c in range(3):
        for r in T.unroll(2):
            if r + c >= 1:
                y[r] = y[1 - r] + x[r + c]
""")
    made = split_interior(func)
    same(func, made)
    assert len([s for s in tir.walk(made.body) if isinstance(s, tir.For)]) == 2


# ------------------------------------------------------------------------------- whole networks


def convolution(
    ratio: Any, bias: Any, weight: Any, groups: int, stride: int = 1, zero: int = -7, out: int = 4,
    width: int = 7, apart: int = 1,
) -> bytes:  # fmt: skip
    """A convolution with a bias, whose sums are multiplied by a ratio for each channel."""
    ratio = np.asarray(ratio, np.float64)
    scale_in, scale_out = 0.5, 0.25
    scales = (ratio * scale_out / scale_in).astype(np.float32)
    n, channels = len(ratio), weight.shape[-1]
    tensors = [
        Spec((1, 9, width, channels), "int8", scale_in, zero),
        const(weight, "int8", scale=scales.tolist(), zero=[0] * n, axis=3 if groups > 1 else 0),
        const(bias, "int32", scale=(scales * scale_in).tolist(), zero=[0] * n),
        Spec((1, -(-9 // stride), -(-width // stride), n), "int8", scale_out, out),
    ]
    kind = "DepthwiseConv2DOptions" if groups > 1 else "Conv2DOptions"
    place = {"Padding": 0, "StrideH": stride, "StrideW": stride}
    place |= {"DepthMultiplier": 1} if groups > 1 else {}
    place |= {"DilationHFactor": 1, "DilationWFactor": apart}
    op = "DEPTHWISE_CONV_2D" if groups > 1 else "CONV_2D"
    return model(tensors, [Step(op, [0, 1, 2], [3], place, kind, version=3)], [0], [3])


def checked(content: bytes, folder: Path, seed: int = 0, channels: int = 5, width: int = 7) -> str:
    """Compare the C with TFLite's reference kernels. Gives the source."""
    made = compile_c(content, M4, options=OPTIONS)
    library = compiled(made, folder)
    for k in range(3):
        given = np.random.default_rng([seed, k]).integers(-128, 128, (1, 9, width, channels))
        given = given.astype("int8")
        wanted = Oracle(content)(given)[0]
        found = [np.zeros_like(wanted)]
        assert run(made, library, [given], found) == 0
        np.testing.assert_array_equal(found[0], wanted)
    return made.source


@pytest.mark.parametrize("seed", range(6))
def test_convolutions_are_tflites(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n, channels = int(rng.choice([3, 4, 8])), int(rng.choice([3, 4, 5, 8]))
    h, w = rng.integers(1, 5, 2)
    weight = rng.integers(-127, 128, (n, h, w, channels))
    content = convolution(10.0 ** rng.uniform(-4, -1.2, n), rng.integers(-4000, 4000, n), weight,
                          1, int(rng.integers(1, 3)))  # fmt: skip
    source = checked(content, tmp_path, seed, channels)
    if w * channels >= 4:
        assert "smelt_arm_dsp_" in source


@pytest.mark.parametrize(
    ("width", "taps", "stride", "apart"),
    [(8, 3, 1, 1), (8, 5, 1, 1), (8, 3, 2, 1), (2, 3, 1, 1), (12, 3, 1, 3), (4, 9, 1, 1),
     (16, 2, 1, 1), (8, 7, 2, 1), (10, 3, 1, 4)],
)  # fmt: skip
def test_two_pixels_at_a_time_are_tflites(
    width: int, taps: int, stride: int, apart: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(width * taps)
    weight = rng.integers(-127, 128, (4, 3, taps, 8))
    content = convolution(10.0 ** rng.uniform(-4, -1.2, 4), rng.integers(-4000, 4000, 4), weight,
                          1, stride, width=width, apart=apart)  # fmt: skip
    assert "smelt_arm_dsp_pair4" in checked(content, tmp_path, taps, 8, width)


@pytest.mark.parametrize(("stride", "n"), [(1, 8), (2, 8), (1, 6), (2, 5)])
def test_depthwise_convolutions_are_tflites(stride: int, n: int, tmp_path: Path) -> None:
    """Filters of four channels at a time have 16 bits, and are read by words."""
    rng = np.random.default_rng(stride)
    weight = rng.integers(-127, 128, (1, 3, 3, n))
    content = convolution(10.0 ** rng.uniform(-3, -1, n), rng.integers(-999, 999, n), weight, n,
                          stride)  # fmt: skip
    source = checked(content, tmp_path, stride, n)
    assert ("smelt_arm_dsp_mla4_wide" in source) == ("aligned(4)" in source) == (n % 4 == 0)


@pytest.mark.parametrize(
    ("ratio", "bias", "short"),
    [
        ([0.9, 0.02, 0.5, 0.6], [1, 2, 3, 4], True),  # not shifted at all
        ([1e-9, 3e-10, 0.03, 0.01], [1, -2, 3, 400], True),  # all results are the zero point
        ([0.01] * 4, [1 << 29, 5, 6, 7], False),  # a sum that leaves no room
        ([1.7, 0.1, 0.1, 0.1], [1, 2, 3, 4], False),  # shifted to the left
    ],
)
def test_sums_become_bytes(ratio: Any, bias: Any, short: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weight = rng.integers(-127, 128, (4, 3, 3, 5))
    source = checked(convolution(ratio, bias, weight, 1), tmp_path)
    assert ("smelt_high_product" in source) == short


def test_filters_of_zeros(tmp_path: Path) -> None:
    """What they give is known; their bias may be anything."""
    weight = np.random.default_rng(6).integers(-127, 128, (4, 3, 3, 5))
    weight[1] = 0
    bias = [7, 1 << 30, -9, 100]
    source = checked(convolution([0.01, 3e-9, 0.02, 0.7], bias, weight, 1), tmp_path)
    assert "smelt_high_product" in source


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["mps2-an386", "mps2-an500"])
def test_on_boards(name: str, kind: str) -> None:
    """The instructions themselves."""
    rng = np.random.default_rng(8)
    zero = 121 if kind == "uint8" else -7
    x = smelt.relay.var("x", shape=(1, 6, 5, 8), dtype=kind)
    weight = smelt.relay.const(rng.integers(-99, 99, (3, 3, 8, 8)).astype("int8"))
    other = smelt.relay.const(rng.integers(-99, 99, (3, 3, 8, 1)).astype("int8"))
    last = smelt.relay.const(rng.integers(-99, 99, (1, 1, 8, 4)).astype("int8"))
    scale = smelt.relay.const(np.float32(0.1))

    def number(value: int) -> Any:
        return smelt.relay.const(np.int32(value))

    def conv(value: Any, w: Any, z: int, shape: tuple[int, int], out: str, groups: int = 1) -> Any:
        made = smelt.relay.qnn.op.conv2d(
            value, w, number(z), number(0), scale, scale, (w.data.shape[0], w.data.shape[1]),
            channels=shape[0], groups=groups, padding=(shape[1],) * 4, data_layout="NHWC",
            kernel_layout="HWIO" if groups == 1 else "HWOI", out_dtype="int32",
        )  # fmt: skip
        return smelt.relay.qnn.op.requantize(
            made, smelt.relay.const(np.float32(0.01)), number(0),
            smelt.relay.const(np.float32(1.5)), number(3 if out == "int8" else 120), out_dtype=out,
        )  # fmt: skip

    y = conv(x, weight, zero, (8, 1), kind)
    y = conv(y, other, 3 if kind == "int8" else 120, (8, 1), "int8", groups=8)
    y = conv(y, last, 3, (4, 0), "int8")
    mod = smelt.IRModule.from_expr(smelt.relay.Function([x], y))
    compared(mod, BOARDS[name])


def test_an_edge_of_one_column_is_a_copy_with_numbers(tmp_path: Path) -> None:
    """Its sums have lengths that are known, so that they need no loop of their own."""
    weight = np.random.default_rng(9).integers(-127, 128, (4, 3, 3, 8))
    source = checked(convolution([0.01, 0.02, 0.003, 0.03], [1, 2, 3, 4], weight, 1), tmp_path,
                     channels=8)  # fmt: skip
    assert "smelt_min_int32(8 -" not in source
    assert source.count("if (") >= 3
