"""Footprints against a run of the program that writes down what every iteration touches."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.build import value_of
from smelt.ir.errors import SmeltError, TypeMismatch
from smelt.ir.expr import Expr, IntImm, Var
from smelt.ir.walk import free_vars, substitute
from smelt.pipeline import lower_program as lower
from smelt.tir.analysis import Footprint, footprint
from smelt.tir.analysis.table import byte_text, count_text
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from tests.lowering.programs import BUILDERS
from tests.schedule.support import conv, matmul
from tests.tir_text.generate import programs

from .observe import Observer, Undecided
from .schedules import random_schedule


def agree(func: PrimFunc, sizes: dict[str, int] | None = None, seed: int = 0) -> Footprint:
    """Assert that nothing exceeds its bound, and that what is called exact is."""
    found, run = footprint(func), Observer(func, sizes, seed)

    def number(e: Expr) -> int:
        values: dict[Var, Expr] = {v: IntImm(v.type, (sizes or {})[v.name]) for v in free_vars(e)}
        known = value_of(substitute(e, values))
        assert known is not None
        return known

    def check(what: str, claim: Expr, exact: bool, truth: int) -> None:
        text = f"{what}: {script(claim)} ({'exact' if exact else 'at most'}), seen {truth}"
        right = number(claim) == truth if exact else number(claim) >= truth
        assert right, f"{text}\n{script(func)}"

    for level in found.levels:
        seen = run.seen.get(level.source)
        if seen is None:
            assert not level.exact_trips or number(level.trips) == 0, script(func)
            continue
        check(f"trips of {level.name}", level.trips, level.exact_trips, seen.trips)
        check(f"work of {level.name}", level.operations, level.exact_operations, seen.operations)
        assert {t.buffer for t in level.touches} >= set(seen.elements)
        for t in level.touches:
            b, where = t.buffer, f"{t.buffer.name} in {level.name}"
            check(f"elements of {where}", t.elements, t.exact, seen.elements[b])
            check(f"reads of {where}", t.reads, t.exact_counts, seen.reads[b])
            check(f"writes of {where}", t.writes, t.exact_counts, seen.writes[b])
            for side, most in zip(t.box, seen.box.get(b, [0] * b.rank), strict=True):
                assert number(side) >= most, f"box of {where}\n{script(func)}"
    return found


def all_exact(found: Footprint) -> bool:
    return all(
        level.exact_trips
        and level.exact_operations
        and all(t.exact and t.exact_counts for t in level.touches)
        for level in found.levels
    )


def tiled(m: Any = 13, n: Any = 19, k: Any = 5) -> PrimFunc:
    """A matrix product in tiles that do not divide it."""
    s = Schedule(matmul(m, n, k))
    i, j, r = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 4])
    j_0, j_1 = s.split(j, [None, 8])
    s.reorder(i_0, j_0, r, i_1, j_1)
    s.vectorize(j_1)
    s.parallel(i_0)
    return s.func


def small(name: str) -> PrimFunc:
    """One of the programs of the lowering tests."""
    sizes = {"matmul": (7, 9, 5), "dense": (7, 9, 5), "conv": (1, 2, 6, 5, 3), "pool": (2, 6, 7)}
    return BUILDERS[name](*sizes.get(name, ()))


@pytest.mark.parametrize("name", ["matmul", "dense", "softmax", "elementwise", "transposed"])
def test_unscheduled_programs_are_exact(name: str) -> None:
    assert all_exact(agree(small(name)))


def test_tiles_that_do_not_divide_are_exact() -> None:
    found = agree(tiled())
    assert all_exact(found)
    a, b, c = found["k"].touches
    assert [value_of(t.elements) for t in (a, b, c)] == [4, 8, 32]
    assert (b.buffer.name, b.box, b.reuse) == ("B", (IntImm("int64", 1), IntImm("int64", 8)), 4.0)
    assert value_of(found["j_0"].bytes) == 4 * (4 * 5 + 5 * 8 + 4 * 8)
    assert value_of(found.total.operations) == 2 * 13 * 19 * 5


def test_symbolic_sizes_stay_in_the_counts() -> None:
    m, n, k = te.size_var("m"), te.size_var("n"), te.size_var("k")
    func = tiled(m, n, k)
    for sizes in ({"m": 9, "n": 17, "k": 3}, {"m": 3, "n": 5, "k": 2}, {"m": 4, "n": 8, "k": 1}):
        assert all_exact(agree(func, sizes))
    level = footprint(func).total
    assert [script(t.elements) for t in level.touches] == ["k * m", "k * n", "m * n"]
    assert script(level.operations) == "k * m * n * 2"
    assert level.intensity is None
    assert str(level.bytes) == "k * m * 4 + k * n * 4 + m * n * 4"


def test_flat_vector_programs_are_followed_through_their_lanes() -> None:
    found = agree(lower(tiled()))
    assert all(level.exact_trips for level in found.levels)
    exact = [t.exact_counts for level in found.levels for t in level.touches]
    assert sum(exact) >= len(exact) * 2 // 3


def test_a_stencil_counts_overlaps_once() -> None:
    found = agree(conv(1, 2, 6, 7, 3))
    rows = found["i_1"]["pad"]
    assert (value_of(rows.elements), value_of(rows.reads), rows.exact) == (
        2 * 3 * 9,
        2 * 7 * 9,
        True,
    )


@pytest.mark.parametrize("name", sorted(BUILDERS))
@pytest.mark.parametrize("flat", [False, True])
def test_every_kind_of_program(name: str, flat: bool) -> None:
    func = small(name)
    agree(lower(func) if flat else func)


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_random_schedules(seed: int) -> None:
    s, sizes = random_schedule(Random(seed))
    for given_sizes in sizes:
        agree(s.func, given_sizes)
    try:
        flat = lower(s.func)
    except SmeltError:
        return  # not every random schedule can be lowered
    for given_sizes in sizes:
        agree(flat, given_sizes)


@given(programs(), st.integers(0, 3))
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_random_programs(func: PrimFunc, seed: int) -> None:
    try:
        agree(func, seed=seed)
    except Undecided:
        reject()


# ---------------------------------------------------------------------------- what is not affine

GATHER = """
@T.prim_func
def gather(A: T.Buffer((9, 4), "int8"), I: T.Buffer((6,), "int64"), B: T.Buffer((6, 4), "int8")):
    for i in range(6):
        for j in range(4):
            B[i, j] = A[I[i], j]
"""
TURNS = """
@T.prim_func
def turns(A: T.Buffer((10,), "float32"), n: T.Buffer((1,), "int32")):
    while n[0] > 0:
        for i in range(10):
            A[i] = A[i] * 0.5
        n[0] = n[0] - 1
"""
CALL = """
@T.prim_func
def host(A: T.Buffer((10,), "uint8"), B: T.Buffer((3,), "uint8")):
    for i in range(3):
        T.smelt.call_kernel("k", T.call("handle", "smelt.address_of", A[i]), B[i])
        B[i] = T.uint8(0)
"""
STRIDED = """
@T.prim_func
def strided(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((3,), "int4")):
    for i in range(8):
        B[i] = A[i * 8] + A[i * 8 + 1]
    for j in range(3):
        C[j] = T.int4(0)
"""
DOT = """
@T.prim_func
def dot(A: T.Buffer((16,), "int8"), C: T.Buffer((4,), "int32")):
    C[T.ramp(0, 1, 4)] = T.call_instruction(
        "int32x4", "arm.neon.sdot", C[T.ramp(0, 1, 4)], A[T.ramp(0, 1, 16)], A[T.ramp(0, 1, 16)]
    )
"""
COMBS = """
@T.prim_func
def combs(A: T.Buffer((8,), "float32"), B: T.Buffer((2, 2), "float32")):
    for i in range(2):
        for j in range(2):
            B[i, j] = A[i * 6 + j] + A[i * 5 + j * 2]
"""
TRIANGLE = """
@T.prim_func
def triangle(A: T.Buffer((9, 9), "float32")):
    for i in range(9):
        for j in range(i + 1):
            A[i, j] = 0.0
"""


def test_an_index_read_from_data_may_be_any() -> None:
    found = agree(parse(GATHER))
    rows = found["i"]["A"]
    assert ([value_of(e) for e in rows.box], value_of(rows.elements)) == ([9, 4], 36)
    assert not rows.exact
    assert (value_of(rows.reads), rows.exact_counts) == (4, True)
    assert found["i"]["B"].exact


def test_a_while_loop_turns_an_unknown_number_of_times() -> None:
    found = footprint(parse(TURNS))
    assert [(level.kind, script(level.trips)) for level in found.levels] == [
        ("function", "1"), ("while", "turns"), ("serial", "turns * 10"),
    ]  # fmt: skip
    total = found.total["A"]
    assert (value_of(total.elements), script(total.reads)) == (10, "turns * 10")
    assert found.levels[1]["A"].reuse == 2.0
    assert total.reuse is None


def test_what_a_call_does_with_a_buffer_is_not_known() -> None:
    found = footprint(parse(CALL))
    a, b = found.total.touches
    assert (a.opaque, value_of(a.elements), value_of(a.accesses), a.exact) == (True, 10, 0, False)
    assert a.reuse is None
    assert (b.opaque, value_of(b.elements), value_of(b.writes)) == (True, 3, 3)
    assert "10 B ?" in str(found)


def test_distinct_elements_are_counted_not_the_box() -> None:
    found = agree(parse(STRIDED))
    a, _, c = found.total.touches
    assert ([value_of(e) for e in a.box], value_of(a.elements), a.exact) == ([58], 16, True)
    assert value_of(c.bytes) == 3  # elements of four bits take a byte each


def test_an_instruction_counts_what_it_means() -> None:
    total = footprint(parse(DOT)).total
    assert value_of(total.operations) == 2 * 4 * 4  # four sums of four products
    assert [value_of(t.accesses) for t in total.touches] == [16, 8]


def test_equal_numbers_of_other_elements_are_not_the_same_elements() -> None:
    found = agree(parse(COMBS))
    a = found.total["A"]
    assert (value_of(a.elements), a.exact) == (8, False)  # six are touched


def test_what_depends_on_an_outer_loop_counts_as_its_most() -> None:
    found = agree(parse(TRIANGLE))
    assert value_of(found["i"]["A"].elements) == 9
    assert value_of(found.total["A"].writes) == 81
    assert not found.total["A"].exact_counts


def test_registers_are_no_memory() -> None:
    s = Schedule(matmul(4, 4, 4))
    s.cache_write("C", 0, "local")
    level = footprint(s.func).total
    sizes = {t.name: (t.buffer.scope, value_of(t.bytes)) for t in level.touches}
    assert sizes["C_local"] == ("local", 64)
    assert value_of(level.bytes) == 3 * 64


# ----------------------------------------------------------------------------------- text, errors


def test_the_table() -> None:
    assert str(footprint(tiled())) == TABLE
    assert str(footprint(parse(TRIANGLE))) == TRIANGLE_TABLE


TABLE = """\
main: 2,470 operations, 1.59 KiB of memory, 1.52 operations a byte
different bytes that one iteration touches; xN: loads and stores per element
one iteration of        trips  operations          A          B          C    memory
(all)                       1       2,470  260 B x19  380 B x13  988 B x11  1.59 KiB
i_0 parallel                4         760   80 B x19   380 B x4  304 B x11     764 B
  j_0                      12         320    80 B x8   160 B x4  128 B x11     368 B
    k                      60          64    16 B x8    32 B x4   128 B x3     176 B
      i_1                 240          16     4 B x8    32 B x1    32 B x3      68 B
        j_1 vectorized  1,920           2     4 B x1     4 B x1     4 B x3      12 B"""
TRIANGLE_TABLE = """\
triangle: 0 operations, <=324 B of memory
different bytes that one iteration touches; xN: loads and stores per element; <=: at most
one iteration of  trips  operations           A   memory
(all)                 1           0  <=324 B x1  <=324 B
i                     9           0   <=36 B x1   <=36 B
  j                <=81           0      4 B x1      4 B"""


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1 << 20, "1.00 MiB"),
        (10 * 1024 + 512, "10.5 KiB"),
        (999 << 20, "999 MiB"),
        (5 << 60, "5120 PiB"),
    ],
)
def test_bytes_as_text(size: int, text: str) -> None:
    assert byte_text(size) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999_999, "999,999"), (10**6, "1.00 M"), (1_234_567, "1.23 M"),
     (999_600_000, "1.00 G"), (5 * 10**18, "5000 P")],
)  # fmt: skip
def test_counts_as_text(count: int, text: str) -> None:
    assert count_text(count) == text


def test_errors() -> None:
    found = footprint(matmul(3, 4, 5))
    with pytest.raises(TypeMismatch) as wrong:
        footprint(42)  # type: ignore[arg-type]
    assert str(wrong.value) == "footprint takes one tensor program (a PrimFunc), got int"
    with pytest.raises(KeyError) as loop:
        found["z"]
    assert loop.value.args == ("main has no loop 'z'; it has: i, j, k",)
    with pytest.raises(KeyError) as buffer:
        found["k"]["z"]
    assert buffer.value.args == ("k touches no buffer 'z'; it touches: A, B, C",)


def test_what_conditions_exclude_touches_nothing() -> None:
    found = footprint(parse(EXCLUDED))
    (level,) = [x for x in found.levels if x.name == "j"]
    assert [t.elements.value for t in level.touches] == [0, 0]  # type: ignore[attr-defined]


EXCLUDED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        for j in range(4):
            if i < 1:
                if i >= 1:
                    B[j] = A[j]
"""
