"""Symbolic sizes: what `shapes` and files say of them, and what is refused at entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import smelt
from smelt import Size
from smelt.frontend.common.values import larger, simplify, smaller
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError, SmeltError, TypeMismatch
from smelt.ir.expr import INDEX, Var
from smelt.runtime.errors import InputError
from smelt.runtime.native_executable import NativeExecutable

from .models import model, node, random

F32 = np.float32


def add(*shapes: Any) -> Any:
    """z = x + y with these shapes in the file."""
    inputs = {n: (s, F32) for n, s in zip("xy", shapes, strict=True)}
    return model([node("Add", ["x", "y"], ["z"])], inputs, ["z"])


def cache(mask: str) -> Any:
    """A mask over what was seen before and what is new: Concat and Add."""
    nodes = [node("Concat", ["past", "x"], ["k"], axis=1), node("Add", ["k", "mask"])]
    shapes = {"x": ["b", "seq", 4], "past": ["b", "past_len", 4], "mask": ["b", mask, 1]}
    return model(nodes, {n: (s, F32) for n, s in shapes.items()})


def compiled(m: Any, **options: Any) -> Any:
    return smelt.compile(m, options=smelt.Options(threads=1), **options)


def ones(*shape: int) -> Any:
    return np.ones(shape, F32)


def refused(kind: type[SmeltError], text: str, do: Any) -> None:
    with pytest.raises(kind) as caught:
        do()
    assert str(caught.value) == text


# ---------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize("mask", ["past_len + seq", "total"])
def test_an_extent_that_is_a_sum_of_sizes(mask: str) -> None:
    exe = compiled(cache(mask))
    assert exe.inputs[2].shape == ("b", mask, 1)
    x, past, m = random(2, 3, 4), random(2, 5, 4), random(2, 8, 1)
    np.testing.assert_array_equal(exe(x, past, m).numpy(), np.concatenate([past, x], 1) + m)
    says = {
        "past_len + seq": "test: input 'mask': shape [2, 7, 1]: dimension 1 is 7, past_len + seq = "
        "8 needed (b = 2, seq = 3, past_len = 5)\n  expected: mask float32[b, past_len + seq, 1]",
        "total": "test: sizes that do not fit: add_y (add) needs past_len + seq = total or one of "
        "them 1, but these are 8 and 7\n  sizes: b = 2, seq = 3, past_len = 5, total = 7; inputs: "
        "x float32[b, seq, 4]; past float32[b, past_len, 4]; mask float32[b, total, 1]",
    }
    refused(InputError, says[mask], lambda: exe(x, past, m[:, :7]))
    if mask == "total":
        one = m[:, :1]
        np.testing.assert_array_equal(exe(x, past, one).numpy(), np.concatenate([past, x], 1) + one)


def test_a_size_that_stands_in_an_expression_only_is_solved_for() -> None:
    exe = compiled(add([None], [None]), shapes={"x": ("2 * n + 1",), "y": ("2 * n + 1",)})
    assert exe.inputs[0].shape == ("n * 2 + 1",)
    assert exe(ones(7), ones(7)).shape == (7,)
    expected = "\n  expected: x float32[n * 2 + 1]"
    refused(
        InputError,
        "test: input 'x': shape [6]: dimension 0 is 6, no n makes n * 2 + 1 so" + expected,
        lambda: exe(ones(6), ones(6)),
    )
    assert exe(ones(1), ones(1)).shape == (1,)


@pytest.mark.parametrize("names", [("T", "R"), ("select", "min"), ("I", "T")])
def test_sizes_called_as_words_of_the_script(names: tuple[str, str]) -> None:
    a, b = names
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        net (float[{a}, 4] x, float[{b}, 4] y, float[4, {a}] w) => (float[k, {a}] q)
        {{ z = Concat <axis = 0> (x, y) q = MatMul (z, w) }}""")
    exe = smelt.compile(made, threads=1)
    assert exe.outputs[0].shape == (" + ".join(sorted(names)), a)
    x, y, w = (np.ones(s, "float32") for s in ((2, 4), (3, 4), (4, 2)))
    np.testing.assert_array_equal(exe(x, y, w), np.full((5, 2), 4, "float32"))
    text = import_model(made).script()
    assert smelt.script.parse(text).script() == text


def test_a_name_of_the_file_that_looks_like_an_expression() -> None:
    exe = compiled(model([node("Relu", ["x"])], {"x": (["batch.size", "seq-len"], F32)}))
    assert exe.inputs[0].shape == ("batch_size", "seq_len")


def test_an_expression_of_the_file_follows_the_shapes_that_are_given() -> None:
    exe = compiled(cache("past_len + seq"), shapes={"x": ("b", 1, 4)})
    assert exe.inputs[2].shape == ("b", "past_len + 1", 1)


@pytest.mark.parametrize("extent", ["2 ** n", "n +", "f(n)", "1.5", "a.b"])
def test_extents_that_are_none(extent: str) -> None:
    refused(
        TypeMismatch,
        f"test: shapes gives the input 'x' the extent {extent!r}, which is no expression\n"
        "  legal: names, integers, + - * // %, min, max, ceildiv and parentheses",
        lambda: compiled(add([None], [4]), shapes={"x": (extent,)}),
    )


def test_a_size_that_no_extent_tells() -> None:
    with pytest.raises(CompileError, match="symbol 'n' is no dimension of an input, and cannot"):
        compiled(add([None], [None]), shapes={"x": ("n // 2",), "y": ("n // 2",)})


def test_a_convolution_that_keeps_the_size_of_its_image_says_so() -> None:
    m = model([node("Conv", ["x", "w"], pads=[1, 1, 1, 1])], {"x": ([1, 4, "h", "w"], F32)},
              constants={"w": random(8, 4, 3, 3)})  # fmt: skip
    text = smelt.stage_text(m, "scheduled")
    assert "conv: T.Buffer((1, 8, h, w)" in text
    assert "T.vectorized" in text
    assert compiled(m).outputs[0].shape == (1, 8, "h", "w")


# ---------------------------------------------------------------------- sizes that have to be equal


def product(*shapes: Any) -> Any:
    """z = x y with these shapes in the file."""
    inputs = {n: (s, F32) for n, s in zip("xy", shapes, strict=True)}
    return model([node("MatMul", ["x", "y"], ["z"])], inputs, ["z"])


def test_two_sizes_that_have_to_be_equal_become_one() -> None:
    exe = compiled(product([4, "n"], ["m", 4]))
    assert [i.shape for i in exe.inputs] == [(4, "n"), ("n", 4)]
    assert "variants" not in exe.metadata
    assert exe(ones(4, 3), ones(3, 4)).shape == (4, 4)
    for x, y in ((3, 4), (4, 3), (3, 1), (1, 3)):
        refused(
            InputError,
            f"test: input 'y': shape [{y}, 4]: dimension 0 is {y}, but n is {x} by input 'x'\n"
            "  expected: y float32[n, 4]\n  m is n: matmul_z (matmul) needs it",
            lambda x=x, y=y: exe(ones(4, x), ones(y, 4)),
        )


def test_a_size_that_has_to_be_a_number_is_that_number() -> None:
    exe = compiled(product([2, "n"], [4, 2]))
    assert exe(ones(2, 4), ones(4, 2)).shape == (2, 2)
    refused(
        InputError,
        "test: input 'x': shape [2, 1]: dimension 1 is 1, 4 needed\n"
        "  expected: x float32[2, 4]\n  n is 4: matmul_z (matmul) needs it",
        lambda: exe(ones(2, 1), ones(4, 2)),
    )


def test_two_sizes_that_broadcast() -> None:
    exe = compiled(add(["n", 4], ["m", 4]))
    assert [i.shape for i in exe.inputs] == [("n", 4), ("m", 4)]
    assert exe.outputs[0].shape == ("select(m == 1, n, m)", 4)
    for x, y, z in ((3, 3, 3), (3, 1, 3), (1, 3, 3), (1, 1, 1)):
        assert exe(ones(x, 4), ones(y, 4)).shape == (z, 4)
    for x, y in ((3, 4), (4, 3)):
        refused(
            InputError,
            f"test: sizes that do not fit: add_z (add) needs n = m or one of them 1, but these "
            f"are {x} and {y}\n  sizes: n = {x}, m = {y}; inputs: x float32[n, 4]; "
            "y float32[m, 4]",
            lambda x=x, y=y: exe(ones(x, 4), ones(y, 4)),
        )


def test_a_size_that_broadcasts_with_a_number() -> None:
    exe = compiled(add(["n"], [4]))
    assert exe.outputs[0].shape == (4,)
    assert exe(ones(4), ones(4)).shape == exe(ones(1), ones(4)).shape == (4,)
    refused(
        InputError,
        "test: sizes that do not fit: add_z (add) needs n = 4 or one of them 1, but these are 2 "
        "and 4\n  sizes: n = 2; inputs: x float32[n]; y float32[4]",
        lambda: exe(ones(2), ones(4)),
    )


def test_a_size_that_has_to_be_as_large_as_two_that_broadcast() -> None:
    nodes = [node("Add", ["x", "y"], ["s"]), node("MatMul", ["w", "s"], ["z"])]
    inputs: Any = {"x": (["n", 2], F32), "y": (["m", 2], F32), "w": ([2, "k"], F32)}
    exe = compiled(model(nodes, inputs, ["z"]))
    for n, m in ((1, 3), (3, 1), (3, 3), (1, 1)):
        k = max(n, m)
        np.testing.assert_array_equal(exe(ones(n, 2), ones(m, 2), ones(2, k)), [[2 * k] * 2] * 2)
    refused(
        InputError,
        "test: input 'w': shape [2, 1]: dimension 1 is 1, select(m == 1, n, m) = 3 needed "
        "(n = 3, m = 1)\n  expected: w float32[2, select(m == 1, n, m)]\n"
        "  k is select(m == 1, n, m): matmul_z (matmul) needs it",
        lambda: exe(ones(3, 2), ones(1, 2), ones(2, 1)),
    )


def test_equal_sizes_run_the_code_of_one_size() -> None:
    nodes = [node("Add", ["x", "y"], ["s"]), node("MatMul", ["s", "w"], ["p"]),
             node("Add", ["p", "y"], ["z"])]  # fmt: skip

    def kernels(second: str) -> list[Any]:
        inputs: Any = {"x": (["n", 16], F32), "y": ([second, 16], F32)}
        exe = compiled(model(nodes, inputs, ["z"], {"w": random(16, 16)}))
        described = exe.metadata["kernels"]
        assert {"m": "n"} in exe.metadata.get("variants", [{"m": "n"}])
        return [k["symbol"] for k in described if k.get("variant") == {"m": "n"}] or [
            k["symbol"] for k in described
        ]

    assert kernels("m") == kernels("n")


def test_a_size_that_broadcasts_may_be_declared_and_likely() -> None:
    shapes = {"x": (Size("n", likely=(1, 8)), 4), "y": (Size("m", max=9), 4)}
    exe = compiled(add([None, 4], [None, 4]), shapes=shapes)
    assert exe.metadata["variants"] == [{"n": 1}, {"n": 8, "m": 8}, {"m": "n"}]
    for n, m in ((1, 1), (1, 5), (8, 8), (8, 1), (5, 5), (5, 1)):
        x, y = random(n, 4), random(m, 4, seed=1)
        np.testing.assert_array_equal(exe(x, y).numpy(), x + y)
    with pytest.raises(InputError, match="m is out of range: 0 to 9 needed"):
        exe(ones(1, 4), ones(10, 4))


def test_an_equation_that_is_solved_for_no_size_is_checked() -> None:
    exe = compiled(add([None], [None]), shapes={"x": ("2 * a",), "y": ("3 * b",)})
    assert exe(ones(6), ones(6)).shape == (6,)
    refused(
        InputError,
        "test: sizes that do not fit: add_z (add) needs a * 2 = b * 3, but these are 6 and 9\n"
        "  sizes: a = 3, b = 3; inputs: x float32[a * 2]; y float32[b * 3]",
        lambda: exe(ones(6), ones(9)),
    )


def test_a_reshape_checks_the_number_of_elements() -> None:
    m = model([node("Reshape", ["x", "s"])], {"x": (["n", "m"], F32)},
              constants={"s": np.array([-1, 6])})  # fmt: skip
    exe = compiled(m)
    assert exe(ones(3, 4)).shape == (2, 6)
    with pytest.raises(InputError, match=r"reshape_y .reshape. needs .* but these are 15 and 12"):
        exe(ones(3, 5))


def test_a_reshape_to_numbers_fixes_a_size() -> None:
    m = model([node("Reshape", ["x", "s"])], {"x": (["n", 8], F32)},
              constants={"s": np.array([1, 8])})  # fmt: skip
    with pytest.raises(InputError, match="dimension 0 is 2, 1 needed"):
        compiled(m)(ones(2, 8))
    refused(
        CompileError,
        "test: the size n that shapes declares is no size of its own\n"
        "  n is 1: reshape_y (reshape) needs it\n  sizes: none",
        lambda: compiled(m, shapes={"x": (Size("n", likely=(1, 4)), 8)}),
    )


def test_extents_that_never_are_equal() -> None:
    given = {"x": (2, "n"), "y": ("n + 1", 2)}
    with pytest.raises(CompileError, match=r"matmul_z .matmul. needs n and n . 1 to be equal"):
        compiled(product([None, None], [None, None]), shapes=given)
    exe = compiled(add([None], [None]), shapes={"x": ("n",), "y": ("n + 1",)})
    assert exe(ones(1), ones(2)).shape == (2,)
    with pytest.raises(InputError, match=r"needs n = n . 1 or one .* these are 2 and 3"):
        exe(ones(2), ones(3))


# -------------------------------------------------------------------------------------- ranges


def test_a_size_outside_of_its_range_is_refused() -> None:
    exe = compiled(add([None, 4], [1, 4]), shapes={"x": (Size("n", 2, 16), 4)})
    assert exe(ones(2, 4), ones(1, 4)).shape == (2, 4)
    for n in (0, 1, 17):
        refused(
            InputError,
            f"test: input 'x': shape [{n}, 4]: dimension 0 is {n}, n is out of range: "
            "2 to 16 needed\n  expected: x float32[n, 4]",
            lambda n=n: exe(ones(n, 4), ones(1, 4)),
        )


def test_a_size_may_be_0_where_nothing_else_is_said() -> None:
    for n in ("n", Size("n")):
        assert compiled(add(["n", 4], [1, 4]), shapes={"x": (n, 4)})(
            ones(0, 4), ones(1, 4)
        ).shape == (0, 4)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"name": "1n"}, "Size: the name is '1n'; legal: an identifier such as 'n' or 'batch'"),
        ({"min": -1}, "Size n: min is -1; legal: integers from 0"),
        ({"max": 2.5}, "Size n: max is 2.5; legal: integers from 0"),
        ({"likely": (True,)}, "Size n: likely is True; legal: integers from 0"),
        ({"min": 4, "max": 3}, "Size n: max=3 is below min=4"),
        ({"max": 3, "likely": (4,)}, "Size n: the likely value 4 is outside of its range, 0 to 3"),
        (
            {"likely": range(1, 20)},
            "Size n: 19 likely values are given; each is code of its own, 16 are possible",
        ),
    ],
)
def test_sizes_that_make_no_sense(given: dict[str, Any], text: str) -> None:
    refused(CompileError, text, lambda: Size(**{"name": "n", **given}))


def test_declarations_that_do_not_fit_each_other() -> None:
    two = add([None, None], [None, None])
    a, b = Size("a", likely=(1, 2, 3, 4, 5)), Size("b", likely=(1, 2, 3, 4))
    refused(
        CompileError,
        "test: likely sizes make 20 variants (5 of a times 4 of b); 16 are possible: a variant is "
        "code of its own",
        lambda: compiled(two, shapes={"x": (a, b), "y": ("a", "b")}),
    )
    with pytest.raises(CompileError, match="shapes declares the size a twice"):
        compiled(two, shapes={"x": (Size("a", max=5), 4), "y": (Size("a", max=6), 4)})


def test_a_program_that_decides_has_no_ranges() -> None:
    branches = [
        helper.make_graph(
            [node(op, ["x"], ["r"])], op, [], [helper.make_empty_tensor_value_info("r")]
        )
        for op in ("Relu", "Neg")
    ]
    m = model(
        [node("If", ["c"], then_branch=branches[0], else_branch=branches[1])],
        {"c": ([], np.bool_), "x": (["n"], F32)},
    )
    with pytest.raises(CompileError, match=r"declares Size.name='n', .*, and the model decides"):
        compiled(m, shapes={"x": (Size("n", max=4),)})


@pytest.mark.parametrize("rest", ["", "r = GlobalAveragePool (y)", "r = If (b) <%s>"])
def test_sizes_that_leave_less_than_nothing(rest: str) -> None:
    result = "r" if rest else "y"
    branch = "g () => (float[1, 1, k] r) { r = %s (y) }"
    rest %= (f"then_branch = {branch % 'Neg'}, else_branch = {branch % 'Abs'}",) * ("%" in rest)
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        net (float[1, 1, n] x, float[1, 1, 3] w, bool b) => (float[1, 1, m] {result})
        {{ y = Conv (x, w) {rest} }}""")
    exe, w = smelt.compile(made, threads=1), np.ones((1, 1, 3), "float32")
    for n in (3, 2):
        given = np.ones((1, 1, n), "float32"), w, np.asarray(True)
        shape = (1, 1, 1 if "Pool" in rest else n - 2)
        assert np.asarray(exe(*given)).shape == shape
    with pytest.raises(
        smelt.runtime.InputError,
        match=r"y \(conv1d\) would have a result whose extent n - 2 is -1\n  sizes: n = 1",
    ):
        exe(np.ones((1, 1, 1), "float32"), w, np.asarray(True))


def test_native_code_refuses_a_negative_extent() -> None:
    made = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        net (float[1, 1, n] x, float[1, 1, 3] w) => (float[1, 1, 1] r)
        { y = Conv (x, w) r = GlobalAveragePool (y) }""")
    exe = smelt.compile(made, threads=1)
    assert isinstance(exe, NativeExecutable)
    exe.signature.sizes.least.clear()  # what Python checks first
    with pytest.raises(InputError, match="does not accept these sizes: n = 1"):
        exe(np.ones((1, 1, 1), "float32"), np.ones((1, 1, 3), "float32"))


def test_sizes_and_conditions_are_compared_as_far_as_they_are_known() -> None:
    n, m = Var("n", INDEX), Var("m", INDEX)
    assert (smaller(n + 1, n), larger(0, n)) == (n, n)
    assert (smaller(7, 3), larger(n * 2 - n * 2, -4)) == (3, 0)
    assert (simplify(n + 1 > n), simplify(m + n < n)) == (True, False)
    assert not isinstance(simplify(n > m), bool)
    assert not isinstance(smaller(n, m), int)
