"""What the printer of C asks of expressions."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smelt.codegen.c_values import Ranges, shared
from smelt.ir.dtype import limits
from smelt.ir.expr import Add, Call, Cast, Expr, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var, const
from smelt.tir.nodes import Buffer, BufferLoad

ROW, COLUMN = Var("i", "int32"), Var("j", "int32")
BYTES, WORDS = Buffer("b", (const(8),), "int8"), Buffer("w", (const(8),), "int32")
LEAVES = [
    ROW, COLUMN, Cast("int32", BufferLoad(BYTES, (ROW,))), BufferLoad(WORDS, (COLUMN,)),
    const(7, "int32"), const(-3, "int32"),
]  # fmt: skip
VALUES = {ROW: (0, 9), COLUMN: (-4, 1000)}


def trees() -> Any:
    def grown(inner: Any) -> Any:
        two = st.tuples(st.sampled_from([Add, Sub, Mul, Min, Max]), inner, inner)
        by = st.tuples(st.sampled_from([FloorDiv, FloorMod]), inner, st.sampled_from([1, 3, 8]))
        return st.one_of(two.map(lambda t: t[0](t[1], t[2])),
                         by.map(lambda t: t[0](t[1], const(t[2], "int32"))))  # fmt: skip

    return st.recursive(st.sampled_from(LEAVES), grown, max_leaves=12)


def value(e: Expr, known: dict[Expr, int]) -> int:
    """What an expression gives where its integers wrap."""
    if e in known:
        return known[e]
    match e:
        case Add(a, b):
            found = value(a, known) + value(b, known)
        case Sub(a, b):
            found = value(a, known) - value(b, known)
        case Mul(a, b):
            found = value(a, known) * value(b, known)
        case Min(a, b):
            found = min(value(a, known), value(b, known))
        case Max(a, b):
            found = max(value(a, known), value(b, known))
        case FloorDiv(a, b):
            found = value(a, known) // value(b, known)
        case FloorMod(a, b):
            found = value(a, known) % value(b, known)
        case _:
            found = int(e)
    return (found + (1 << 31)) % (1 << 32) - (1 << 31)


@given(trees(), st.data())
def test_ranges_hold_every_value(e: Expr, data: Any) -> None:
    ranges = Ranges()
    for v, (low, high) in VALUES.items():
        ranges.enter(v, low, high)
    known: dict[Expr, int] = {v: data.draw(st.integers(*r)) for v, r in VALUES.items()}
    known |= {LEAVES[2]: data.draw(st.integers(*limits("int8"))),
              LEAVES[3]: data.draw(st.integers(*limits("int32")))}  # fmt: skip
    low, high = ranges.of(e)
    assert low <= value(e, known) <= high


def test_another_loop_of_the_same_variable() -> None:
    ranges, e = Ranges(), ROW * const(1 << 20, "int32")
    ranges.enter(ROW, 0, 10)
    assert ranges.fits(e)
    assert ranges.of(e) == (0, 10 << 20)
    ranges.enter(ROW, 0, 10_000)
    assert not ranges.fits(e)
    assert ranges.of(e) == limits("int32")


def test_only_what_is_evaluated_in_any_case_gets_a_name() -> None:
    x = BufferLoad(WORDS, (ROW + COLUMN,))
    sum_, choice = x + const(1, "int32"), const(3, "int32") > ROW
    assert shared([sum_ * sum_]) == [sum_]
    assert shared([Call("int32", "if_then_else", (choice, sum_, sum_ * sum_))]) == []
    found = shared([Call("int32", "if_then_else", (choice, sum_, x)) + sum_])
    assert found == [x, sum_]
    assert shared([ROW + COLUMN, ROW + COLUMN]) == [ROW + COLUMN]
