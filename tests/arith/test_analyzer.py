"""What the Analyzer makes of the expressions that schedules and lowering write."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from smelt.arith import Analyzer, Answer, ConstIntBound, IntervalSet, ModularSet
from smelt.ir.build import (
    all_of,
    any_of,
    ceildiv,
    equal,
    if_then_else,
    logical_not,
    maximum,
    minimum,
    select,
)
from smelt.ir.expr import (
    EQ,
    Add,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Ramp,
    Var,
    cast,
    const,
    text_of,
)
from smelt.tir.nodes import Buffer, BufferLoad

i, j, k, n, m, x = (Var(name) for name in "ijknmx")


@pytest.fixture
def an() -> Analyzer:
    """i < 64, j < 16, k < 4; n, m >= 1; x < n."""
    analyzer = Analyzer({i: 64, j: 16, k: (0, 4)})
    analyzer.assume_positive(n)
    analyzer.assume_positive(m)
    analyzer.bind(x, 0, n)
    return analyzer


@pytest.mark.parametrize(
    ("e", "text"),
    [
        ((i * 16 + j) // 16, "i"),
        ((i * 16 + j) % 16, "j"),
        ((i * 16 + j) // 4, "i * 4 + j // 4"),
        ((i * 16 + j) // 4 * 4 + (i * 16 + j) % 4, "i * 16 + j"),
        ((i * 16 + j) % 64 // 16 * 16 + j, "i % 4 * 16 + j"),
        (i // 4 % 2 * 4 + i % 4, "i % 8"),
        (i // 2 // 3, "i // 6"),
        (i % 12 % 4, "i % 4"),
        (n // 16 * 16 + n % 16, "n"),
        (n - n // 4 * 4, "n % 4"),
        (n // m * m * k + n % m * k, "k * n"),
        (n // m * (m * k) + n % m * k + m - i, "k * n + m - i"),
        ((n * 4 + 3) // 4, "n"),
        ((i * n + x) // n, "i"),
        ((i * n + x) % n, "x"),
        ((i * (n + 1) + x) // (n + 1), "i"),
        (n * m // m, "n"),
        (((x * 4 + k) * 8 + 7) // 32, "x"),
        ((x * m + m - 1) // m, "x"),
        (minimum(i * 16 + 16, n) - i * 16, "min(n - i * 16, 16)"),
        (minimum(minimum(n, 8), 4), "min(n, 4)"),
        (0 - minimum(3 - n, 0), "max(n - 3, 0)"),
        (n * 2 - minimum(n, 3) * 2, "max(n - 3, 0) * 2"),
        (n - maximum(n, 3), "min(n - 3, 0)"),
        (maximum(i, -1), "i"),
        (i - i, "0"),
        (j + i * 2 + j, "i * 2 + j * 2"),
        (i < 64, "1"),
        (i * 16 + j < 512, "i < 32"),
        (i * 4 < 10, "i < 3"),
        (i // 8 < 3, "i < 24"),
        (0 - i < -3, "i >= 4"),
        (equal(i * 2, 7), "0"),
        (all_of(i < 8, i < 16, i >= 3), "i < 8 and i >= 3"),
        (any_of(i < 8, i >= 8), "1"),
        (all_of(n < 8, n > 7), "0"),
        (logical_not(all_of(i < 8, j > 3)), "i >= 8 or j < 4"),
        (if_then_else(i < 8, minimum(i, 8), 8), "if"),
        (if_then_else(i < 8, minimum(i, 8), i), "i"),
        (select(x < n, i, j), "i"),
    ],
)
def test_simplify(an: Analyzer, e: Expr, text: str) -> None:
    simple = an.simplify(e)
    assert an.simplify(simple) is simple
    if text != "if":
        assert text_of(simple) == text


def test_order_does_not_depend_on_how_it_was_written(an: Analyzer) -> None:
    assert an.simplify(j + n * i + 16 * i) is an.simplify(i * 16 + i * n + j)


def test_floats_are_left_alone(an: Analyzer) -> None:
    f = Var("f", "float32")
    zero = f * 0.0
    assert an.simplify(zero) is zero
    assert an.simplify((f + 1.0) - 1.0) is (f + 1.0) - 1.0
    assert an.prove(f < f) is Answer.UNKNOWN


def test_narrow_integers_may_wrap(an: Analyzer) -> None:
    b = Var("b", "uint8")
    e = (b + const(1, "uint8")) - const(1, "uint8")
    assert an.simplify(e) is e
    assert an.bounds(cast("int32", b)) == (0, 255)


def test_casts_go_inwards_where_the_value_fits(an: Analyzer) -> None:
    s = Var("s", "int32")
    wide = Cast("int64", s + 1)
    assert an.simplify(wide) is wide
    an.bind(s, 0, 100)
    assert text_of(an.simplify(wide - Cast("int64", s))) == "1"


def test_vectors(an: Analyzer) -> None:
    lanes = Ramp(i * 4, const(1), 4)
    assert an.simplify(FloorDiv(lanes, Broadcast(const(4), 4))) is Broadcast(i, 4)
    moved = an.simplify(Mul(Add(lanes, Broadcast(j, 4)), Broadcast(const(2), 4)))
    assert moved is Ramp(an.simplify(i * 8 + j * 2), const(2), 4)
    assert an.simplify(FloorMod(lanes, Broadcast(const(4), 4))) is Ramp(const(0), const(1), 4)


@pytest.mark.parametrize(
    ("c", "answer"),
    [
        (n * 4 >= n, Answer.YES),
        (ceildiv(n, 16) * 16 >= n, Answer.YES),
        (n // 16 * 16 > n, Answer.NO),
        ((x + 1) * m <= n * m, Answer.YES),
        (x * m + m - 1 < n * m, Answer.YES),
        (minimum(n, 16) <= 16, Answer.YES),
        (maximum(n, m) >= n, Answer.YES),
        (n > m, Answer.UNKNOWN),
        (x >= n, Answer.NO),
        (n % 4 < 4, Answer.YES),
        (x % n < n, Answer.YES),
        (EQ(n * 2, const(7)), Answer.NO),
    ],
)
def test_prove(an: Analyzer, c: Expr, answer: Answer) -> None:
    assert an.prove(c) is answer


def test_assume(an: Analyzer) -> None:
    with an.assume(i * 16 + j < 100):
        assert an.can_prove(i < 7)
        assert an.prove(i > 50) is Answer.NO
        assert an.bounds(i * 16 + j) == (0, 99)
    with an.assume(all_of(n <= m, equal(n % 8, 0))):
        assert an.can_prove(n < m + 1)
        assert text_of(an.simplify(n // 8 * 8)) == "n"
    assert an.prove(i < 7) is Answer.UNKNOWN
    with an.assume(all_of(i < minimum(minimum(m, 50), n - j), i >= maximum(5, 9 - j))):
        assert an.can_prove(all_of(i < m, i < 50, i + j < n, i >= 5, i + j >= 9))
        assert an.prove(i < j) is Answer.UNKNOWN
    with an.assume(minimum(i, m) < n):  # one of them is
        assert an.prove(i < n) is Answer.UNKNOWN


def test_binding_again_forgets(an: Analyzer) -> None:
    assert an.can_prove(i < 64)
    an.bind(i, 0, 100)
    assert an.prove(i < 64) is Answer.UNKNOWN
    an.bind(i, j + 1)
    assert text_of(an.simplify(i * 2)) == "j * 2 + 2"


def test_ways_to_bind() -> None:
    class Range(NamedTuple):
        min: Expr
        extent: Expr

    for how in (((2, 5),), (2, 5), (Range(const(2), const(5)),), (IntervalSet.of(2, 6),)):
        an = Analyzer()
        an.bind(i, *how)
        assert an.bounds(i) == (2, 6)
    an = Analyzer()
    an.bind(n, (1, None))
    assert an.bounds(n) == (1, None)
    an.bind(i, 7)
    assert an.bounds(i * 2) == (14, 14)
    an.bind(i, n * 2)
    assert text_of(an.simplify(i + n)) == "n * 3"


def test_binding_anew_forgets_what_was_assumed(an: Analyzer) -> None:
    with an.assume(all_of(i < 5, i + j < 9, equal(i % 2, 0))):
        assert an.can_prove(i + j < 9)
        an.bind(i, 0, 64)
        assert an.prove(i < 5) is Answer.UNKNOWN
        assert an.prove(i + j < 9) is Answer.UNKNOWN
        assert an.modular_set(i) == ModularSet(1, 0)


def test_classic_names(an: Analyzer) -> None:
    assert an.const_int_bound(i * 2 + 1) == ConstIntBound(1, 127)
    assert an.modular_set(i * 6 + 4) == ModularSet(6, 4)
    assert an.modular_set(const(5)) == ModularSet(0, 5)
    assert an.rewrite_simplify(i - i + j) is an.canonical_simplify(j + 0) is j
    with an.constraint_scope(i < 3):
        assert an.const_int_bound(i) == ConstIntBound(0, 2)
    found = an.int_set(i + x)
    assert found.min_value is not None
    assert found.max_value is not None
    assert (text_of(found.min_value), text_of(found.max_value)) == ("0", "n + 62")
    assert an.int_set(Var("f", "float32")).is_everything()


def test_a_variable_does_not_stand_for_itself(an: Analyzer) -> None:
    an.bind(i, j + 1)
    with pytest.raises(ValueError, match=r"j cannot stand for j \+ 1, which depends on it"):
        an.bind(j, i)
    an.bind(j, j + 0)
    assert an.bounds(j) == (0, 15)


def test_likely_conditions(an: Analyzer) -> None:
    def likely(c: Expr) -> Expr:
        return Call("bool", "likely", (c,))

    assert an.prove(likely(i < 64)) is Answer.YES
    assert text_of(an.simplify(likely(i < 64))) == "1"
    with an.assume(likely(i < 8)):
        assert an.bounds(i) == (0, 7)
    chosen = if_then_else(likely(i < 8), minimum(i, 8), maximum(i, 8))
    assert text_of(an.simplify(chosen)) == "i"


@pytest.mark.parametrize(
    ("op", "operand", "text"),
    [
        ("shift_left", 3, "i * 8 + 8"),
        ("shift_right", 2, "(i + 1) // 4"),
        ("bitwise_and", 7, "(i + 1) % 8"),
        ("bitwise_and", 6, "bitwise_and(i + 1, 6)"),
        ("shift_right", -1, "shift_right(i + 1, -1)"),
        ("shift_left", 63, "shift_left(i + 1, 63)"),
    ],
)
def test_bit_operations(an: Analyzer, op: str, operand: int, text: str) -> None:
    assert text_of(an.simplify(Call("int64", op, (i + 1, const(operand))))) == text


def test_equal_symbolic_sizes(an: Analyzer) -> None:
    assert an.can_prove_equal((n + 1) * (n - 1), n * n - 1)
    assert an.can_prove_equal(ceildiv(n * 16, 16), n)
    assert not an.can_prove_equal(n, m)


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (i * 16 + j, "n", "n + 50"),
        (i // 2 + n, "n", "n + 1"),
        ((j - n) % 8, "0", "2"),
        (minimum(i, n), "0", "min(n, 3)"),
        (i * m - 1, "-1", "m * 3 - 1"),
    ],
)
def test_interval(e: Expr, low: str, high: str) -> None:
    an = Analyzer()
    an.assume_positive(n)
    an.assume_positive(m)
    ends = an.interval(e, {i: (0, 4), j: (n, 3)})
    assert ends is not None
    assert (text_of(ends[0]), text_of(ends[1])) == (low, high)


def test_interval_of_dependent_domains(an: Analyzer) -> None:
    ends = an.interval(j, {j: (i * 8, 8), i: (0, n)})
    assert ends is not None
    assert [text_of(e) for e in ends] == ["0", "n * 8 - 1"]


def test_linear(an: Analyzer) -> None:
    form = an.linear(i * n + j * 4 - k + 3, [i, j])
    assert form is not None
    assert {v.name: text_of(c) for v, c in form[0].items()} == {"i": "n", "j": "4"}
    assert text_of(form[1]) == "3 - k"
    assert an.linear(i * j, [i, j]) is None
    assert an.linear(i // 3, [i]) is None


@pytest.mark.parametrize(
    ("c", "low", "high"),
    [
        (i * 3 + 2 < 17, None, "5"),
        (i * 3 >= 17, "6", None),
        (all_of(i >= n, i < n + 4), "n", "n + 4"),
        (i * n < n * m, None, "m"),
        (i // 4 < m, None, "m * 4"),
        (equal(i * 3, n), "(n + 2) // 3", "n // 3 + 1"),
        (maximum(i, j) < n + 16, None, "n + 16"),
        (j < 16, None, None),
    ],
)
def test_solve_bounds(an: Analyzer, c: Expr, low: str | None, high: str | None) -> None:
    solved = an.solve_bounds(c, i)
    assert solved is not None
    assert [None if e is None else text_of(e) for e in solved] == [low, high]


def test_deep_expressions_meet_no_limit() -> None:
    e: Expr = i
    for step in range(10_000):
        e = Add(e, j if step % 2 else k)
    an = Analyzer()
    assert text_of(an.simplify(e)) == "j * 5000 + k * 5000 + i"


def test_a_select_computes_both_branches() -> None:
    """A clamp inside of a load that is not chosen still keeps the load inside its buffer."""
    at = Var("at", "int64")
    b = Buffer("b", (const(8, "int64"),), "float32")
    load = BufferLoad(b, (maximum(at, const(0, "int64")),))
    chosen = select(at >= 0, load, const(0.0, "float32"))
    assert Analyzer().simplify(chosen) is chosen
    branch = Analyzer().simplify(if_then_else(at >= 0, load, const(0.0, "float32")))
    assert isinstance(branch, Call)
    assert branch.args[1] is BufferLoad(b, (at,))


def test_numbers_that_the_type_has_not_are_not_written() -> None:
    big, x = 1 << 40, Var("x", "int64")
    twice = FloorDiv(FloorDiv(x, const(big)), const(big))
    assert Analyzer().simplify(twice) is twice
    once = Analyzer().simplify(FloorDiv(FloorDiv(x, const(1 << 30)), const(1 << 30)))
    assert once is FloorDiv(x, const(1 << 60))
    shifted = Call("int32", "shift_left", (const(4, "int32"), const(29, "int32")))
    assert Analyzer().simplify(shifted) is const(-(1 << 31), "int32")
    assert Analyzer().simplify(Mul(const(-7, "int32"), shifted)) is const(-(1 << 31), "int32")


def test_a_bound_of_a_quotient_is_one_of_what_is_divided() -> None:
    w = Var("w", "int64")
    a = Analyzer()
    a.assume_positive(w)
    with a.assume(equal((w + 7) // 8, 7)):
        assert a.bounds(w) == (49, 56)
        assert a.bounds((w + 3) // 4) == (13, 14)
        assert a.simplify((w + 7) // 8) == 7
    with a.assume((w - 1) // 3 >= 4):
        assert a.bounds(w) == (13, None)
    assert a.bounds(w) == (1, None)
