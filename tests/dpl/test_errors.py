"""Mistakes in checks and tables, and what is said of them."""

from typing import Any

import pytest

from smelt.ir.errors import TypeMismatch
from smelt.relax.dpl import get_pattern_table, is_constant, is_op, register_pattern_table, wildcard
from smelt.relax.nodes import Function, RelaxExpr, call
from smelt.relax.transform import merge_composite
from tests.transform.graphs import const, module, var


def biased() -> RelaxExpr:
    x, w, b = var("x", 1, 3, 5, 5), const(4, 3, 3, 3), const(4, 1, 1)
    return call("relu", call("add", call("conv2d", x, w), b))


PATTERN = is_op("relu")(is_op("add")(is_op("conv2d")(wildcard(), is_constant()), is_constant()))


def check_conv2d(extract: Any) -> bool:
    """The check of many tutorials: one step short of the convolution."""
    return bool(extract.args[0].attrs["strides"] == (1, 1))


def check_by_attribute(extract: Any) -> bool:
    return bool(extract.args[0].attrs.strides == (1, 1))


def check_elsewhere(extract: Any) -> bool:
    return bool(extract.args[0].attrs.colour)


def check_badly(extract: Any) -> bool:
    return bool(extract.args[7])


def check_well(extract: Any) -> bool:
    return bool(extract.args[0].args[0].attrs["strides"] == (1, 1))


def message(check: Any) -> str:
    mod = module([var("x", 1, 3, 5, 5)], biased())
    with pytest.raises(TypeMismatch) as caught:
        merge_composite(mod, [("acc.conv2d_bias_relu", PATTERN, check)])
    assert caught.value.__cause__ is not None
    return str(caught.value)


def test_one_step_short() -> None:
    meant = "conv2d has 'strides': extract.args[0].args[0].attrs.strides was probably meant"
    assert message(check_by_attribute) == (
        "pattern acc.conv2d_bias_relu: its check function check_by_attribute failed at "
        "`return bool(extract.args[0].attrs.strides == (1, 1))`: AttributeError: add has no "
        "attribute 'strides'; attributes: none\n"
        "what it reached is extract.args[0], a call of add (attributes: none)\n" + meant
    )
    by_key = message(check_conv2d)
    assert "check function check_conv2d failed at `return bool(extract.args[0].attrs[" in by_key
    assert "KeyError: 'strides'" in by_key
    assert by_key.endswith(meant)


def test_other_failures() -> None:
    text = message(check_elsewhere)
    assert text.endswith("; nothing in the match has an attribute 'colour'")
    assert "what it reached is extract.args[0], a call of add" in text
    assert message(check_badly) == (
        "pattern acc.conv2d_bias_relu: its check function check_badly failed at "
        "`return bool(extract.args[7])`: IndexError: tuple index out of range"
    )
    with pytest.raises(TypeMismatch, match=r"pattern is_op\('relu'\)\(is_op\('add'\)"):
        PATTERN.partition(Function((), biased()), check=check_badly)
    mod = module([var("x", 1, 3, 5, 5)], biased())
    assert merge_composite(mod, [("a.b", PATTERN, check_well)]) is not mod


def test_errors_of_smelt_stay_what_they_are() -> None:
    def check(extract: Any) -> bool:
        raise TypeMismatch("as it is")

    with pytest.raises(TypeMismatch, match=r"^as it is$"):
        PATTERN.partition(biased(), check=check)


def test_tables() -> None:
    made = []

    @register_pattern_table("test_table_one")
    def pattern_table() -> list[Any]:
        made.append(1)
        return [("test_table_one.relu", is_op("relu")(wildcard()))]

    assert made == [1]  # at decoration
    assert callable(pattern_table)
    assert [e[0] for e in get_pattern_table("test_table_one")] == ["test_table_one.relu"]
    register_pattern_table("test_table_one", lambda: [("again", wildcard(), bool)])
    assert [e[0] for e in get_pattern_table("test_table_one")] == ["again"]
    with pytest.raises(TypeMismatch) as caught:
        get_pattern_table("test_table_on")
    text = "no pattern table 'test_table_on'; nearest: test_table_one; registered: "
    assert str(caught.value).startswith(text)
    assert "test_table_one" in str(caught.value).split("registered: ")[1]
    with pytest.raises(TypeMismatch) as caught:
        register_pattern_table("bad", lambda: [("a", wildcard(), 3)])
    assert "the pattern table of 'bad': entry 0 is" in str(caught.value)
    with pytest.raises(TypeMismatch, match=r"a list of \(name, pattern\[, check\]\) is needed"):
        register_pattern_table("bad", lambda: None)
