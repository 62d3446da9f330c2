"""Products with integers of few bits in blocks: the operator, and the schedules of its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.artifact.constants import preparations
from smelt.codegen.llvm import cpu_features, resolve
from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Var
from smelt.rules.cpu import apply, plan
from smelt.rules.cpu.program import Part, Plan
from smelt.target import Target, machine_of
from smelt.te import create_prim_func
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import get_op

from .build import NARROW, ONE, Array, close, interpreted, run, run_scheduled

ARM = machine_of(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"), cores=2)
PLAIN = machine_of(Target("llvm -mtriple=riscv64-linux-gnu"), cores=1)
MACHINES = {"avx2": NARROW, "avx512": ONE, "arm": ARM, "plain": PLAIN}
AVX2 = {"avx2", "fma"} <= {*cpu_features(resolve(Target("llvm -mcpu=native")))}
OP = get_op("matmul_in_blocks")
CONSTANTS = frozenset({"q", "scale", "zero"})
WEIGHTS = ("int4", "uint4", "int8", "uint8", "int2")


class Case:
    """A call: its operands, and its result by numpy.

    compute  "int8": x is rounded; "bytes": by the algorithm for bytes, too
    zero  whether there are zeros of the integers' type; or "float": of that
    """

    def __init__(
        self, lead: tuple[int, ...], k: int, n: int, block: int, dtype: str = "int4",
        zero: bool | str = False, transpose: bool = False, scale: str = "float32",
        compute: str = "float32", largest: float = 1.0,
    ) -> None:  # fmt: skip
        rng, (low, high) = np.random.default_rng([*lead, k, n, block]), dt.limits(dtype)
        self.block, self.transpose, count = block, transpose, -(-k // block)
        self.compute = "float32" if compute == "float32" else "int8"
        self.in_bytes = compute == "bytes"

        def whole(*shape: int) -> Array:
            return rng.integers(low, high + 1, shape).astype(dt.to_numpy(dtype))

        def turned(a: Array) -> Array:
            return np.ascontiguousarray(a.T) if transpose else a

        self.given: dict[str, Array | None] = {
            "x": (largest * rng.standard_normal((*lead, k))).astype("float32"),
            "q": turned(whole(k, n)),
            "scale": turned(rng.uniform(0.5, 1, (count, n)).astype(scale)),
            "zero": turned(whole(count, n)) if zero else None,
        }
        if zero == "float":
            self.given["zero"] = turned(rng.standard_normal((count, n)).astype("float32"))
        self.types = {"q": dtype, "zero": "float32" if zero == "float" else dtype, "scale": scale}
        assert OP.meaning is not None
        self.expected: Array = OP.meaning(*self.given.values(), **self.attrs)

    @property
    def attrs(self) -> dict[str, Any]:
        return {"block": self.block, "transpose": self.transpose, "compute_dtype": self.compute}

    @property
    def arrays(self) -> list[Array]:
        return [v for v in self.given.values() if v is not None]

    def program(self, rows: Var | None = None, epilogue: bool = False) -> PrimFunc:
        """The kernel; rows: a symbolic number of them. epilogue: 1 is added behind it."""
        operands = [
            None if v is None else te.placeholder(
                v.shape if rows is None or n != "x" else (rows, *v.shape[1:]),
                self.types.get(n, "float32"), name=n,
            )
            for n, v in self.given.items()
        ]  # fmt: skip
        body = OP.bodies[0].fn if self.in_bytes else OP.fn
        y = body(*operands, **self.attrs)
        if epilogue:
            y = te.compute(y.shape, lambda *i: y[i] + 1.0, name="more")
        return create_prim_func([*[x for x in operands if x is not None], y], name="kernel")


CASES = [
    Case((1,), 64, 48, 32),
    Case((2,), 70, 33, 32, "uint4", zero=True),
    Case((7,), 40, 96, 16, "int8"),
    Case((3,), 36, 5, 10, "uint8", zero=True, transpose=True),
    Case((64,), 32, 56, 32, "int4", transpose=True),
    Case((5,), 48, 100, 48, "int8", zero=True),
    Case((2, 3), 32, 24, 128, "int4", scale="float16"),
    Case((), 32, 40, 16, "uint4", zero="float", transpose=True),
    Case((4,), 34, 16, 17, "int2"),
    Case((1,), 128, 7, 1, "int8"),
    Case((3,), 70, 33, 32, zero=True, transpose=True, compute="int8"),
    Case((2,), 64, 16, 16, "int8", compute="int8"),
    Case((1,), 64, 48, 32, compute="bytes"),
    Case((2,), 70, 33, 32, "uint4", zero=True, compute="bytes"),
    Case((9,), 96, 100, 32, transpose=True, compute="bytes"),
    Case((2, 3), 128, 24, 128, scale="float16", compute="bytes"),
    Case((), 40, 40, 20, "uint4", zero="float", transpose=True, compute="bytes"),
    Case((4,), 34, 16, 17, "int2", compute="bytes"),
    Case((2,), 200, 50, 100, "uint2", zero=True, compute="bytes"),
]
NAMES = [
    f"{c.types['q']}-{c.given['x'].shape}-{c.block}-{'bytes' if c.in_bytes else c.compute}"  # type: ignore[union-attr]
    for c in CASES
]
TILED = (2, 4, 5, 14)


@st.composite
def cases(draw: Any) -> Case:
    small = st.integers(1, 5)
    lead = draw(st.sampled_from([(), (draw(small),), (draw(small), draw(small))]))
    k, n = draw(st.integers(1, 40)), draw(st.sampled_from([1, 3, 8, 16, 33, 48, 64]))
    block = draw(st.sampled_from([1, 4, 7, 8, 16, 32]))
    zero = draw(st.sampled_from([False, True, "float"]))
    scale, dtype = draw(st.sampled_from(["float32", "float16"])), draw(st.sampled_from(WEIGHTS))
    compute = draw(st.sampled_from(["float32", "int8", *["bytes"] * (dt.width(dtype) < 8)]))
    largest = draw(st.sampled_from([0.0, 1e-37, 1.0, 1e4]))
    return Case(lead, k, n, block, dtype, zero, draw(st.booleans()), scale, compute, largest)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_the_body_is_what_numpy_says(case: Case) -> None:
    found = np.zeros_like(case.expected)
    interpret(case.program(), *case.arrays, found)
    close(found, case.expected)


def chosen(planned: Plan) -> Part:
    """The part that multiplies in blocks."""
    return next(p for p in planned.parts if p.choices[0].sketch.name == "blocks")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_schedules_keep_the_result(machine: str, case: Case) -> None:
    planned = plan(case.program(epilogue=True), MACHINES[machine], CONSTANTS)
    if not case.in_bytes or MACHINES[machine].arch == "x86":
        assert chosen(planned).site.epilogue is not None
    sch = apply(planned, strict=True).schedule
    close(interpreted(sch, *case.arrays, shape=case.expected.shape), case.expected + 1)


@pytest.mark.skipif(not AVX2, reason="this processor has no avx2")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_machine_code(case: Case) -> None:
    (found,) = run(case.program(), *case.arrays, machine=NARROW, constants=CONSTANTS)
    close(found, case.expected)


@pytest.mark.skipif(not AVX2, reason="this processor has no avx2")
@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("case", [CASES[n] for n in TILED], ids=[NAMES[n] for n in TILED])
def test_every_way_to_tile(case: Case, kept: int) -> None:
    func = case.program()
    planned = plan(func, NARROW, CONSTANTS)
    part, tried = chosen(planned), 0
    scored = next(s for sketch, s in part.scored if sketch.name == "blocks")
    for rank in range(len(scored.order)):
        decision = scored.decision(rank)
        if decision["kept"] != (kept and not case.in_bytes) or decision["tasks"] not in (1, 4):
            continue
        sch = planned.schedule.copy()
        for p in planned.parts:
            p.choices[0].space.build(sch, decision if p is part else p.choices[0].decision)
        close(run_scheduled(func, sch, *case.arrays)[0], case.expected)
        tried += 1
        if tried == 12:
            break
    assert tried


@pytest.mark.skipif(not AVX2, reason="this processor has no avx2")
@pytest.mark.parametrize("compute", ["float32", "bytes"])
@pytest.mark.parametrize("rows", [1, 3, 4, 9, 30])
def test_any_number_of_rows(rows: int, compute: str) -> None:
    case = Case((rows,), 40, 56, 16, "uint4", zero=True, compute=compute)
    func = case.program(Var("m", INDEX))
    (found,) = run(func, *case.arrays, machine=NARROW, constants=CONSTANTS, sizes={"m": rows})
    close(found, case.expected)


@pytest.mark.parametrize("machine", MACHINES)
def test_constants_are_words(machine: str) -> None:
    """Whatever is chosen, in the same panels."""
    layouts = set()
    for rows in (1, 64):
        func = Case((rows,), 64, 96, 32).program()
        sch = apply(plan(func, MACHINES[machine], CONSTANTS), strict=True).schedule
        made = [w.func.buffers[-1] for w in preparations(sch)]
        layouts.add(tuple([(b.type, tuple(map(str, b.shape))) for b in made]))
    ((words, scales),) = layouts
    assert words == ("uint32", ("2", "2", "4", "48"))
    assert scales == ("float32", ("2", "2", "48"))


def test_bytes_are_multiplied_by_instructions_where_the_machine_has_them() -> None:
    case = Case((1,), 2048, 96, 32, compute="bytes")
    text = str(apply(plan(case.program(), NARROW, CONSTANTS), strict=True).schedule.func.script())
    assert "x86.avx2.vpmaddubsw" in text
    assert chosen(plan(case.program(), NARROW, CONSTANTS)).choices[0].decision["vectors"] == 6


def test_few_rows_take_digits_as_they_are_and_many_keep_them() -> None:
    for rows, kept in ((1, 0), (4, 0), (512, 1)):
        planned = plan(Case((rows,), 1024, 480, 32).program(), NARROW, CONSTANTS)
        assert chosen(planned).choices[0].decision["kept"] == kept


def test_weights_of_the_run_have_no_words() -> None:
    case = CASES[1]
    sch = apply(plan(case.program(), NARROW), strict=True).schedule
    assert not preparations(sch)
    close(interpreted(sch, *case.arrays, shape=case.expected.shape), case.expected)


@pytest.mark.parametrize(
    ("shapes", "attrs", "types", "text"),
    [
        ({"q": (63, 8)}, {}, {}, "the last dimension of x has to equal k"),
        ({"scale": (3, 8)}, {}, {}, "in blocks of 32"),
        ({}, {"block": 0}, {}, "block=0; it has to be at least 1"),
        ({}, {"compute_dtype": "int4"}, {}, "compute_dtype='int4'; legal: float32, int8"),
        ({}, {}, {"q": "int32"}, "q='int32'; legal: int2, uint2, int4"),
        ({}, {}, {"x": "float16"}, "x is float16; it has to be float32"),
    ],
)
def test_refused(
    shapes: dict[str, Any], attrs: dict[str, Any], types: dict[str, str], text: str
) -> None:
    shape = {"x": (1, 64), "q": (64, 8), "scale": (2, 8), **shapes}
    dtype = {"x": "float32", "q": "int4", "scale": "float32", **types}
    operands = [te.placeholder(s, dtype[n], name=n) for n, s in shape.items()]
    with pytest.raises(TypeMismatch, match=text):
        OP(*operands, **{"block": 32, **attrs})
