"""Products of bytes in groups: every body is exact, instructions sum them where there are any."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt import te
from smelt.artifact import kernel
from smelt.codegen.llvm import ObjectCompiler, cpu_features, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.frontend.onnx import from_onnx
from smelt.ir.instrument import PassTimingInstrument
from smelt.ir.module import IRModule
from smelt.ir.transform import PassContext
from smelt.ir.types import tensor_type
from smelt.pipeline import lower_program as lower
from smelt.relax.interpret import interpret as interpreted_graph
from smelt.relax.nodes import Function, Var, constant
from smelt.relax.nodes import call as calls
from smelt.rules.cpu import apply, plan
from smelt.rules.cpu.program import Plan
from smelt.stages import stage_text
from smelt.target import Machine, Target, machine_of
from smelt.te import create_prim_func
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.topi.registry import Body, get_op

from . import build
from .build import NARROW, NHWC, Array, interpreted, laid_out, run

OPERATORS = ("conv1d", "conv2d", "conv3d", "matmul")
FLOATS = ("winograd2", "winograd4")
BODIES = [(o, b) for o in OPERATORS for b in get_op(o).bodies if b.name not in FLOATS]
NAMES = [f"{o}-{b.name}" for o, b in BODIES]
TARGETS = {
    "vnni": "x86_64-linux-gnu -mcpu=znver5",
    "sapphirerapids": "x86_64-linux-gnu -mcpu=sapphirerapids",
    "znver4": "x86_64-linux-gnu -mcpu=znver4",
    "alderlake": "x86_64-linux-gnu -mcpu=alderlake",
    "sierraforest": "x86_64-linux-gnu -mcpu=sierraforest",
    "arm": "aarch64-linux-gnu -mcpu=cortex-a76",
    "i8mm": "aarch64-linux-gnu -mcpu=neoverse-v1",
    "plain": "riscv64-linux-gnu",
}
MACHINES = {"avx2": NARROW} | {
    name: machine_of(Target(f"llvm -mtriple={words}"), cores=2) for name, words in TARGETS.items()
}
TYPES = st.sampled_from(
    [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")]
)
COLUMNS = (1, 3, 4, 8, 10, 16, 21, 24, 33, 37)
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
        m, k, n = draw(few), draw(st.integers(1, 13)), draw(st.sampled_from(COLUMNS))
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
    groups = draw(st.sampled_from([1, 1, 2, 3])) if not three else 1
    least = 1 if groups == 1 else 2
    c, o = draw(st.integers(least, 9)), max(least, draw(st.sampled_from(COLUMNS)))
    x = extremes(rng, (draw(st.integers(1, 2)), groups * c, *size), a)
    w = extremes(rng, (groups * o, c, *kernel), b)
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    border = draw(st.integers(*map(int, (np.iinfo(a).min, np.iinfo(a).max)))) if any(pads) else 0
    attrs |= {"out_dtype": "int32", "border": border}
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


@pytest.mark.parametrize("machine", ["avx2", "vnni", "alderlake", "arm", "plain"])
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


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("operator", "form", "machine", "x", "w"), [
    ("conv3d", "pairs", "avx2", (1, 2, 1, 1, 6), (10, 2, 1, 1, 3)),  # vectors along the image
    ("matmul", "fours_moved", "alderlake", (3, 1, 5, 4), (2, 4, 10)),  # columns of two matrices
    ("matmul", "pairs", "avx2", (3, 1, 5, 4), (2, 4, 10)),
])  # fmt: skip
def test_what_stands_otherwise_than_in_tiles(
    operator: str, form: str, machine: str, x: tuple[int, ...], w: tuple[int, ...], constant: bool
) -> None:
    rng = np.random.default_rng(0)
    a, b = extremes(rng, x, "uint8"), extremes(rng, w, "int8")
    body = next(v for v in get_op(operator).bodies if v.name == form)
    attrs = get_op(operator).normalize({"out_dtype": "int32"})
    sch = scheduled(program(body, attrs, a, b), MACHINES[machine],
                    frozenset({"w"} if constant else ()))  # fmt: skip
    wanted = expected(operator, attrs, a, b)
    np.testing.assert_array_equal(interpreted(sch, a, b, shape=wanted.shape), wanted)


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
    ("vnni", "fours", "int8", "uint8", "x86.avx512.vpdpbusd"),
    ("vnni", "pairs", "int8", "int8", "x86.avx512.vpmaddwd_s8"),
    ("vnni", "fours_moved", "int8", "int8", "x86.avx512.vpdpbusd"),
    ("vnni", "fours_moved", "uint8", "uint8", "x86.avx512.vpdpbusd"),
    ("alderlake", "fours_moved", "int8", "int8", "x86.avxvnni.vpdpbusd"),
    ("sierraforest", "fours", "int8", "int8", "x86.avxvnniint8.vpdpbssd"),
    ("sierraforest", "fours", "uint8", "uint8", "x86.avxvnniint8.vpdpbuud"),
    ("arm", "fours", "int8", "int8", "arm.neon.sdot"),
    ("arm", "fours", "uint8", "uint8", "arm.neon.udot"),
    ("arm", "fours_moved", "uint8", "int8", "arm.neon.sdot"),
    ("arm", "fours_moved", "int8", "uint8", "arm.neon.udot"),
    ("i8mm", "fours", "uint8", "int8", "arm.neon.usdot"),
    ("i8mm", "fours", "int8", "uint8", "arm.neon.usdot"),
]


def product(
    operator: str, form: str, a: str, b: str, columns: int = 48, groups: int = 1
) -> tuple[PrimFunc, dict[str, Any], Array, Array]:
    """A product by a body, its attributes and operands; a convolution of channels-last images."""
    rng = np.random.default_rng(7)
    body = next(v for v in get_op(operator).bodies if v.name == form)
    if operator == "matmul":
        x, w = extremes(rng, (67, 85), a), extremes(rng, (85, columns), b)
        attrs: dict[str, Any] = {"transpose_a": False, "transpose_b": False}
    else:
        x, w = extremes(rng, (1, 6 * groups, 5, 7), a), extremes(rng, (columns, 6, 3, 3), b)
        attrs = {"strides": (2, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": groups}
    attrs = get_op(operator).normalize({**attrs, "out_dtype": "int32"})
    func = program(body, attrs, x, w)
    if operator == "conv2d":
        func = laid_out(func, dict.fromkeys(("x", "sums", "conv", "moved"), NHWC))
    return func, attrs, x, w


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
    func, *_ = product(operator, form, a, b)
    sch = scheduled(func, MACHINES[machine], frozenset({"w"} if constant else ()))
    assert f'"{instruction}"' in script(sch.func)
    assert str(sch.trace).count("tensorize") == 1
    done = 'precompute(block="offset")' in str(sch.trace)
    assert done == (constant and form == "fours_moved")


SIGNS = {"vpdpbusd": "us", "vpdpbssd": "ss", "vpdpbuud": "uu",
         "usdot": "us", "sdot": "ss", "udot": "uu"}  # fmt: skip
"""Whether the bytes that an instruction takes are signed, by the manuals: the first ones, then the
second."""


def spelled_out(text: str) -> str:
    """LLVM text with dot products of four bytes as functions of plain arithmetic, so that they run
    on any processor."""
    found = re.findall(r"declare (<(\d+) x i32>) (@llvm\.[\w.]+)\(.*\)", text)
    for kind, lanes, name in found:
        count = int(lanes)
        signs = next((v for k, v in SIGNS.items() if f".{k}." in name), None)
        if signs is None:
            continue
        wide = f"<{4 * count} x i32>"
        lines = [f"define internal {kind} @{name[6:]}({kind} %c0, <{4 * count} x i8> %a, "
                 f"<{4 * count} x i8> %b) {{"]  # fmt: skip
        for x, sign in zip("ab", signs, strict=True):
            how = "sext" if sign == "s" else "zext"
            lines.append(f"%w{x} = {how} <{4 * count} x i8> %{x} to {wide}")
        lines.append(f"%p = mul {wide} %wa, %wb")
        for e in range(4):
            places = ", ".join([f"i32 {4 * n + e}" for n in range(count)])
            lines.append(f"%e{e} = shufflevector {wide} %p, {wide} %p, <{count} x i32> <{places}>")
            lines.append(f"%c{e + 1} = add {kind} %c{e}, %e{e}")
        made = "\n".join([*lines, f"ret {kind} %c4", "}"])
        text = re.sub(rf"declare .*{re.escape(name)}\(.*\)", made, text)
        text = text.replace(f"{name}(", f"@{name[6:]}(")
    return re.sub(r"^; needs.*\n", "", text, flags=re.MULTILINE)


FOURS = [u for u in USED if u[1] != "pairs"]


@pytest.mark.parametrize(("machine", "form", "a", "b", "instruction"), FOURS)
@pytest.mark.parametrize(
    ("operator", "constant"), [("matmul", True), ("matmul", False), ("conv2d", True)]
)
def test_operands_have_the_signs_of_the_instruction(
    machine: str, form: str, a: str, b: str, instruction: str, constant: bool, operator: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The code that calls the instruction, run with arithmetic in place of it."""
    func, attrs, x, w = product(operator, form, a, b)
    texts = []

    def emitted(funcs: list[PrimFunc]) -> str:
        texts.append(spelled_out(emit_module(funcs)))
        return texts[-1]

    monkeypatch.setattr(build, "emit_module", emitted)
    known = frozenset({"w"} if constant else ())
    (found,) = run(func, x, w, machine=MACHINES[machine], constants=known)
    assert f"{instruction.split('.')[-1]}." in texts[0]
    np.testing.assert_array_equal(found, expected(operator, attrs, x, w))


@pytest.mark.parametrize(
    ("machine", "a", "b", "body", "wanted"),
    [
        ("sapphirerapids", "int8", "int8", "fours_moved", r"vpdpbusd\s.*%zmm"),
        ("sapphirerapids", "int8", "uint8", "fours", r"vpdpbusd\s.*%zmm"),
        ("znver4", "int8", "int8", "fours_moved", r"vpdpbusd\s.*%zmm"),
        ("znver4", "uint8", "uint8", "fours_moved", r"vpdpbusd\s.*%zmm"),
        ("alderlake", "int8", "int8", "fours_moved", r"\{vex\}\s+vpdpbusd\s.*%ymm"),
        ("sierraforest", "int8", "int8", "fours", r"vpdpbssd\s.*%ymm"),
        ("arm", "uint8", "int8", "fours_moved", r"sdot\s+v\d+\.4s"),
        ("arm", "int8", "uint8", "fours_moved", r"udot\s+v\d+\.4s"),
        ("i8mm", "int8", "uint8", "fours", r"usdot\s+v\d+\.4s"),
    ],
)
def test_the_cheapest_body_is_the_instruction_of_each_processor(
    machine: str, a: str, b: str, body: str, wanted: str
) -> None:
    plans = {}
    for v in get_op("matmul").bodies:
        func, *_ = product("matmul", v.name, a, b)
        plans[v.name] = plan(func, MACHINES[machine], frozenset({"w"}))
    best = min(plans, key=lambda name: plans[name].seconds)
    assert best == body
    sch = apply(plans[best], strict=True).schedule
    target = resolve(Target(f"llvm -mtriple={TARGETS[machine]}"))
    text = ObjectCompiler(target).assembly(emit_module([lower(sch.func)]))
    assert re.search(wanted, text)


@pytest.mark.parametrize(("machine", "form", "a", "b", "instruction"), USED)
@pytest.mark.parametrize(
    ("operator", "columns"), [("matmul", 10), ("matmul", 21), ("conv2d", 21), ("conv2d", 255)]
)
def test_columns_that_fill_no_vector_are_filled_up(
    machine: str, form: str, a: str, b: str, instruction: str, operator: str, columns: int
) -> None:
    """Of constant weights, and of matrices of the run; filters of the run are summed one by one."""
    func, attrs, x, w = product(operator, form, a, b, columns)
    given = scheduled(func, MACHINES[machine], frozenset())
    assert ("tensorize" in str(given.trace)) == (operator == "matmul")
    sch = scheduled(func, MACHINES[machine], frozenset({"w"}))
    assert str(sch.trace).count("tensorize") == 1
    assert f'"{instruction}"' in script(sch.func)
    if operator == "matmul" and columns < 30:
        wanted = expected(operator, attrs, x, w)
        np.testing.assert_array_equal(interpreted(sch, x, w, shape=wanted.shape), wanted)


@pytest.mark.parametrize(("machine", "form", "a", "b", "instruction"), USED)
@pytest.mark.parametrize("each", [32, 30])
def test_groups_with_several_channels_are_summed_so(
    machine: str, form: str, a: str, b: str, instruction: str, each: int
) -> None:
    """Of any number of output channels: the last vector of a group is filled up with zeros."""
    func, *_ = product("conv2d", form, a, b, columns=3 * each, groups=3)
    sch = scheduled(func, MACHINES[machine], frozenset({"w"}))
    assert str(sch.trace).count("tensorize") == 1
    assert f'"{instruction}"' in script(sch.func)


@pytest.mark.skipif(not AVX2, reason="this processor has no avx2")
@pytest.mark.parametrize("each", [2, 6, 20, 32])
def test_groups_are_exact_in_machine_code(each: int) -> None:
    func, attrs, x, w = product("conv2d", "pairs", "uint8", "int8", columns=3 * each, groups=3)
    (found,) = run(func, x, w, machine=NARROW, constants=frozenset({"w"}))
    np.testing.assert_array_equal(found, expected("conv2d", attrs, x, w))


@pytest.mark.parametrize(
    ("machine", "columns", "lanes"),
    [("avx2", 4, 4), ("avx2", 5, 8), ("avx2", 12, 8), ("avx2", 24, 8), ("sapphirerapids", 8, 8),
     ("sapphirerapids", 24, 16), ("sapphirerapids", 1000, 16), ("znver4", 24, 8),
     ("znver4", 48, 16), ("arm", 12, 4), ("arm", 10, 4)],
)  # fmt: skip
def test_vectors_hold_the_columns_in_the_least_time(machine: str, columns: int, lanes: int) -> None:
    form = "pairs" if machine == "avx2" else "fours"
    func, *_ = product("matmul", form, "int8" if machine == "arm" else "uint8", "int8", columns)
    sch = scheduled(func, MACHINES[machine], frozenset({"w"}))
    assert re.findall(r'call_instruction\("int32x(\d+)"', script(sch.func)) == [str(lanes)]


def test_other_types_have_one_body() -> None:
    for types, out in (
        (("int16", "int8"), "int32"),
        (("int8", "int8"), "int64"),
        (("float32",) * 2, ""),
    ):
        operands = [te.placeholder((4, 4), t) for t in types]
        attrs = get_op("matmul").normalize({"out_dtype": out})
        assert not any(b.when(operands, attrs) for b in get_op("matmul").bodies)  # type: ignore[arg-type]


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 2), (3, 1)])
def test_groups_of_one_channel_have_one_body(inputs: int, outputs: int) -> None:
    types = [tensor_type((1, 4 * inputs, 5, 5), "uint8"),
             tensor_type((4 * outputs, inputs, 3, 3), "int8")]  # fmt: skip
    attrs = get_op("conv2d").normalize({"groups": 4, "out_dtype": "int32"})
    assert not any(b.when(types, attrs) for b in get_op("conv2d").bodies)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("level", [0, 3])
def test_a_border_is_what_lies_around_the_image(groups: int, level: int) -> None:
    """A convolution with a border, and one of an image that has it already."""
    rng = np.random.default_rng(groups)
    x = extremes(rng, (2, 6, 7, 6), "int8")
    w = constant(extremes(rng, (12, 6 // groups, 3, 2), "int8"))
    window: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "groups": groups}
    window["out_dtype"] = "int32"
    around: dict[str, Any] = {"pads": (1, 2, 0, 3), "border": -77}
    image = np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 3)), constant_values=-77)
    given, whole = (Var("x", tensor_type(v.shape, "int8")) for v in (x, image))
    wanted = interpreted_graph(Function((whole,), calls("conv2d", whole, w, **window)), image)[0]
    func = Function((given,), calls("conv2d", given, w, **window, **around))
    np.testing.assert_array_equal(interpreted_graph(func, x)[0], wanted)
    exe = smelt.compile(IRModule({"main": func}), opt_level=level, threads=1)
    np.testing.assert_array_equal(exe(x).numpy(), wanted)


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


def test_sums_of_columns_that_fill_no_vector_stay_in_registers() -> None:
    """Images have their channels last. Where a vector's elements were no neighbours, they would be
    stored one by one at each step of the sum."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 21]>
    net (uint8[1, 24, 32, 32] a) => (uint8[1, c, 32, 32] z) <float s = {0.1}, uint8 zp = {7}> {
        x = DequantizeLinear (a, s, zp) v = DequantizeLinear <axis = 0> (w, ws)
        y = Conv <pads = [1, 1, 1, 1]> (x, v) z = QuantizeLinear (y, s, zp)
    }""")
    rng = np.random.default_rng(3)
    w, scales = extremes(rng, (12, 24, 3, 3), "int8"), np.full(12, 0.02, np.float32)
    for name, v in (("w", w), ("ws", scales)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(v, name))
    text = stage_text(model, "lowered", target="llvm -mcpu=znver3")
    names = "|".join({*re.findall(r"(\w+) = T.allocate\(.*scope=\"local\"\)", text)})
    steps = re.findall(rf"\b(?:{names})\[T\.ramp\(\d+, (\d+), \d+\)\]", text)
    assert len(steps) > 8
    assert {*steps} == {"1"}


def test_a_model_has_the_offsets_beside_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution of int8 with a border and a bias, by moved numbers, here without an instruction
    for them."""

    def moved(spec: kernel.KernelSpec, plain: PrimFunc | None = None) -> list[Plan]:
        found = plans(spec, plain)
        return [p for p in found if p.body == "fours_moved"] or found

    plans = kernel.plans
    monkeypatch.setattr(kernel, "plans", moved)
    rng = np.random.default_rng(3)
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 21]>
    net (int8[1, 6, 9, 8] x) => (int32[1, 20, a, b] y) {
        sums = ConvInteger <pads = [1, 0, 2, 1]> (x, w) y = Add (sums, bias)
    }""")
    constants = extremes(rng, (20, 6, 3, 3), "int8"), rng.integers(-9, 9, (20, 1, 1), np.int32)
    for name, v in zip(("w", "bias"), constants, strict=True):
        model.graph.initializer.append(onnx.numpy_helper.from_array(v, name))
    x = extremes(rng, (1, 6, 9, 8), "int8")
    with PassContext(opt_level=3, instruments=[PassTimingInstrument()]):  # in this process
        exe = smelt.compile(model)
    (found,) = [k for k in exe.metadata["kernels"] if "conv" in k["name"]]
    assert found["sketches"][0] == "fours_moved"
    np.testing.assert_array_equal(exe(x).numpy(), interpreted_graph(from_onnx(model)["main"], x)[0])
