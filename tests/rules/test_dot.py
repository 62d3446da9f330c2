"""Products of bytes in groups: every body is exact, instructions sum them where there are any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.codegen.llvm import cpu_features, resolve
from smelt.ir.types import tensor_type
from smelt.rules.cpu import apply, plan
from smelt.rules.cpu.program import Plan
from smelt.target import Machine, Target, machine_of
from smelt.te import create_prim_func
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.topi.registry import Body, get_op

from .build import NARROW, NHWC, ONE, Array, interpreted, laid_out, run

OPERATORS = ("conv1d", "conv2d", "conv3d", "matmul")
FLOATS = ("winograd2", "winograd4")
BODIES = [(o, b) for o in OPERATORS for b in get_op(o).bodies if b.name not in FLOATS]
NAMES = [f"{o}-{b.name}" for o, b in BODIES]
ARM = machine_of(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"), cores=2)
PLAIN = machine_of(Target("llvm -mtriple=riscv64-linux-gnu"), cores=1)
MACHINES = {"avx2": NARROW, "vnni": ONE, "arm": ARM, "plain": PLAIN}
TYPES = st.sampled_from(
    [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")]
)
AVX2 = {"avx2", "fma"} <= {*cpu_features(resolve(Target("llvm -mcpu=native")))}


def extremes(rng: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """Any bytes, their ends more often than others."""
    ends = np.iinfo(dtype)
    x = rng.integers(ends.min, ends.max + 1, shape)
    at = rng.random(shape)
    return np.where(at < 0.2, ends.min, np.where(at > 0.8, ends.max, x)).astype(dtype)


@st.composite
def cases(draw: Any, operator: str, three: bool = False) -> tuple[dict[str, Any], Array, Array]:
    """Attributes and both operands of a call; three: of a window of 3 x 3 that moves by one."""
    a, b = draw(TYPES)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    few = st.integers(1, 5)
    if operator == "matmul":
        m, k, n = draw(few), draw(st.integers(1, 13)), draw(st.sampled_from([3, 4, 8, 16, 24]))
        turned = draw(st.booleans()), draw(st.booleans())
        batch = draw(st.sampled_from([((), ()), ((2,), ()), ((2,), (2,)), ((3, 1), (2,))]))
        x = extremes(rng, (*batch[0], *((k, m) if turned[0] else (m, k))), a)
        y = extremes(rng, (*batch[1], *((n, k) if turned[1] else (k, n))), b)
        attrs = {"transpose_a": turned[0], "transpose_b": turned[1]}
        return get_op(operator).normalize({**attrs, "out_dtype": "int32"}), x, y
    rank = int(operator[4])
    each = st.integers(1, 1 if three else 2)
    kernel = [3 if three else draw(st.integers(1, 3)) for _ in range(rank)]
    strides = [draw(each) for _ in range(rank)]
    dilations = [draw(each) for _ in range(rank)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    size = [
        max(draw(st.integers(1, 6)), (t - 1) * d + 1 - p - q)
        for t, d, p, q in zip(kernel, dilations, pads[:rank], pads[rank:], strict=True)
    ]
    c, o = draw(st.integers(1, 9)), draw(st.sampled_from([3, 4, 8, 16, 24]))
    x = extremes(rng, (draw(st.integers(1, 2)), c, *size), a)
    w = extremes(rng, (o, c, *kernel), b)
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "out_dtype": "int32"}
    return get_op(operator).normalize(attrs), x, w


def case_of(data: st.DataObject, operator: str, body: Body) -> tuple[dict[str, Any], Array, Array]:
    return data.draw(cases(operator, "winograd" in body.name))


def program(
    body: Body, attrs: dict[str, Any], x: Array, w: Array, epilogue: bool = True
) -> PrimFunc:
    a, b = (te.placeholder(v.shape, str(v.dtype), name=n) for v, n in ((x, "x"), (w, "w")))
    y = body.fn(a, b, **attrs)
    if not epilogue:
        return create_prim_func([a, b, y], name="kernel")
    moved = te.compute(y.shape, lambda *i: y[i] + 3, name="moved")
    return create_prim_func([a, b, moved], name="kernel")


def expected(operator: str, attrs: dict[str, Any], x: Array, w: Array) -> Array:
    meaning = get_op(operator).meaning
    assert meaning is not None
    return np.asarray(meaning(x, w, **attrs) + np.int32(3))


@pytest.mark.parametrize(("operator", "body"), BODIES, ids=NAMES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_bodies_are_exact(operator: str, body: Body, data: st.DataObject) -> None:
    attrs, x, w = case_of(data, operator, body)
    types = [te.placeholder(v.shape, str(v.dtype)) for v in (x, w)]
    assert body.when(types, attrs)  # type: ignore[arg-type]
    wanted = expected(operator, attrs, x, w)
    found = np.zeros_like(wanted)
    interpret(program(body, attrs, x, w), x, w, found)
    np.testing.assert_array_equal(found, wanted)


def scheduled(func: PrimFunc, machine: Machine, known: frozenset[str]) -> Schedule:
    found: Plan = plan(func, machine, known)
    return apply(found, strict=True).schedule


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("operator", "body"), BODIES, ids=NAMES)
@given(data=st.data(), constant=st.booleans())
@settings(max_examples=6, deadline=None)
def test_schedules_are_exact(
    operator: str, body: Body, machine: str, data: st.DataObject, constant: bool
) -> None:
    attrs, x, w = case_of(data, operator, body)
    func = program(body, attrs, x, w)
    sch = scheduled(func, MACHINES[machine], frozenset({"w"} if constant else ()))
    wanted = expected(operator, attrs, x, w)
    np.testing.assert_array_equal(interpreted(sch, x, w, shape=wanted.shape), wanted)


@pytest.mark.skipif(not AVX2, reason="this processor has no avx2")
@pytest.mark.parametrize(("operator", "body"), BODIES, ids=NAMES)
@given(data=st.data(), constant=st.booleans())
@settings(max_examples=6, deadline=None)
def test_machine_code_is_exact(
    operator: str, body: Body, data: st.DataObject, constant: bool
) -> None:
    attrs, x, w = case_of(data, operator, body)
    func = program(body, attrs, x, w)
    known = frozenset({"w"} if constant else ())
    (found,) = run(func, x, w, machine=NARROW, constants=known)
    np.testing.assert_array_equal(found, expected(operator, attrs, x, w))


USED = [
    ("avx2", "pairs", "uint8", "int8", "x86.avx2.vpmaddwd_s8"),
    ("avx2", "pairs", "int8", "uint8", "x86.avx2.vpmaddwd_u8"),
    ("vnni", "fours", "uint8", "int8", "x86.avx512.vpdpbusd"),
    ("vnni", "pairs", "int8", "int8", "x86.avx512.vpmaddwd_s8"),
    ("arm", "fours", "int8", "int8", "arm.neon.sdot"),
    ("arm", "fours", "uint8", "uint8", "arm.neon.udot"),
]


@pytest.mark.parametrize(("machine", "form", "a", "b", "instruction"), USED)
@pytest.mark.parametrize(
    ("operator", "constant"), [("matmul", True), ("matmul", False), ("conv2d", True)]
)
def test_instructions_sum(
    machine: str, form: str, a: str, b: str, instruction: str, constant: bool, operator: str
) -> None:
    """Whatever the last group is filled up with, and however many rows there are. Pairs of an
    operand that is given at run time are not worth laying it out."""
    if form == "pairs" and not constant:
        return
    rng = np.random.default_rng(7)
    body = next(v for v in get_op(operator).bodies if v.name == form)
    if operator == "matmul":
        x, w = extremes(rng, (67, 85), a), extremes(rng, (85, 48), b)
        attrs: dict[str, Any] = {"transpose_a": False, "transpose_b": False}
    else:
        x, w = extremes(rng, (1, 6, 5, 7), a), extremes(rng, (48, 6, 3, 3), b)
        attrs = {"strides": (2, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    attrs = get_op(operator).normalize({**attrs, "out_dtype": "int32"})
    func = program(body, attrs, x, w, epilogue=False)
    if operator == "conv2d":
        func = laid_out(func, {"x": NHWC, "conv": NHWC})
    sch = scheduled(func, MACHINES[machine], frozenset({"w"} if constant else ()))
    assert f'"{instruction}"' in script(sch.func)
    assert str(sch.trace).count("tensorize") == 1


def test_columns_that_fill_no_vector_are_summed_one_by_one() -> None:
    body = next(v for v in get_op("matmul").bodies if v.name == "pairs")
    x, w = np.ones((4, 6), "uint8"), np.ones((6, 7), "int8")
    attrs = get_op("matmul").normalize({"out_dtype": "int32"})
    sch = scheduled(program(body, attrs, x, w), NARROW, frozenset({"w"}))
    assert "tensorize" not in str(sch.trace)


def test_other_types_have_one_body() -> None:
    for types, out in (
        (("int16", "int8"), "int32"),
        (("int8", "int8"), "int64"),
        (("float32",) * 2, ""),
    ):
        operands = [te.placeholder((4, 4), t) for t in types]
        attrs = get_op("matmul").normalize({"out_dtype": out})
        assert not any(b.when(operands, attrs) for b in get_op("matmul").bodies)  # type: ignore[arg-type]


def test_winograd_counts_what_int32_holds() -> None:
    attrs = get_op("conv2d").normalize({"pads": (1, 1, 1, 1), "out_dtype": "int32"})
    body = next(b for b in get_op("conv2d").bodies if b.name == "winograd2_pairs")
    for channels, fits in ((1800, True), (1801, False)):
        types = [
            tensor_type((1, channels, 8, 8), "uint8"),
            tensor_type((8, channels, 3, 3), "int8"),
        ]
        assert body.when(types, attrs) is fits
    x = np.full((1, 1800, 4, 4), 255, "uint8")
    for fill in (-128, 127):
        w = np.full((8, 1800, 3, 3), fill, "int8")
        func = program(body, attrs, x, w)
        (found,) = run(func, x, w, machine=NARROW, constants=frozenset({"w"}))
        np.testing.assert_array_equal(found, expected("conv2d", attrs, x, w))


def test_a_group_is_no_axis_of_other_types() -> None:
    """An axis of four floats is no group of bytes."""
    x, w = te.placeholder((4, 4), name="x"), te.placeholder((4, 8), name="w")
    y = get_op("matmul").fn(x, w, **get_op("matmul").normalize({}))
    sch = scheduled(create_prim_func([x, w, y], "kernel"), NARROW, frozenset({"w"}))
    assert "tensorize" not in str(sch.trace)
