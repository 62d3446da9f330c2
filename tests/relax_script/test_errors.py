"""What is no program: the message, and the place in the text."""

from __future__ import annotations

from typing import Any

import pytest

from smelt import relax, topi
from smelt.ir.errors import CompileError, ParseError, TypeMismatch, Unsupported
from smelt.relax.parser import parse
from smelt.script import relax as R

HEAD = '@R.function\ndef main(x: R.Tensor((n, 4), "float32"), c: R.Tensor((), "bool")):\n'
BAD = {
    "y: R.Tensor((n, 5), 'float32') = R.relu(x)": (
        "3:38: the value is float32[n, 4], the statement says float32[n, 5]",
        "R.relu(x)",
        "",
    ),
    "y: R.Tensor(ndim=3) = R.relu(x)": (
        "3:27: the value is float32[n, 4], the statement says a tensor with 3 dimensions",
        "R.relu(x)",
        "",
    ),
    "y: R.Tensor((m, 4), 'float32') = R.relu(x)": (
        "3:18: the size 'm' is not defined here; sizes: n",
        "m",
        "parameters' shapes and R.match_cast introduce sizes",
    ),
    "y = R.add(x, zz)": ("3:18: 'zz' is not defined here", "zz", ""),
    "y = frob(x)": (
        "3:9: 'frob' is not defined here",
        "frob",
        "R.operator(...), cls.function(...), a nested function",
    ),
    "y = x + n": ("3:13: expected a value or a number", "n", "sizes are attributes, not operands"),
    "y = R.print(x)": (
        "3:9: R.print has a side effect; functions of a graph have none",
        "R.print(x)",
        "",
    ),
    "y = R.call_packed('f', x)": (
        "3:9: R.call_packed may do anything, and a graph has values and no effects",
        "R.call_packed('f', x)",
        "R.call_pure_packed, R.call_dps_packed, R.call_inplace_packed",
    ),
    "R.relu(x)": (
        "3:5: the result has no name, so that nothing can use it",
        "R.relu(x)",
        "y = ...",
    ),
    "y = R.match_cast(x, R.Tensor((n, 5), 'float32'))": (
        "3:25: the value is float32[n, 4], it cannot be float32[n, 5]",
        "R.Tensor((n, 5), 'float32')",
        "",
    ),
    "y = x[0]": ("3:9: only items of tuples can be taken", "x[0]", ""),
    "a, b = x": ("3:12: 2 names for a value of type float32[n, 4]", "x", ""),
    "y = R.shape([n])\n    return y": (
        "4:12: a shape is no value of the program",
        "y",
        "an argument of an operator",
    ),
    "if c:\n        y = x\n    return y": (
        "3:5: the branch has no else",
        "i",
        "else: with a value for the same name",
    ),
    "if c:\n        y = x\n    else:\n        z = x\n    return y": (
        "6:9: the sides of the branch end with different names, y and z",
        "z = x",
        "y = ...",
    ),
    "if c:\n        y = x\n    else:\n        y = R.exp(c)\n    return y": (
        "6:13: exp: ",
        "R.exp(c)",
        None,
    ),
    "if c:\n        y = x\n    else:\n        y = c\n    return y": (
        "6:9: the side gives bool[], the other float32[n, 4]",
        "y = c",
        "",
    ),
    "if c:\n        return x\n    else:\n        y = x": (
        "4:9: expected a value for the result of the branch",
        "return x",
        "y = ...",
    ),
    "with R.dataflow():\n        y = R.relu(x)\n    return y": (
        "3:5: the dataflow block has no R.output(...)",
        "w",
        "",
    ),
    "with R.dataflow():\n        y = R.relu(x)\n        R.output(R.exp(y))": (
        "5:18: expected the name of a value of the block",
        "R.exp(y)",
        "",
    ),
    "with R.dataflow():\n        y = R.relu(x)\n        z = x\n        R.output(z)\n    return y": (
        "7:12: 'y' is no output of its dataflow block",
        "y",
        "R.output(..., y) in the block",
    ),
    "def f(y: R.Tensor((n,), 'float32')):\n        return y\n    return f(x)": (
        "3:5: a function in a function is decorated",
        "d",
        "@R.function, @R.closure",
    ),
    "@R.function\n    def f(y: R.Tensor((n,), 'float32')):\n        return f(y)\n    return f(x)": (
        "4:5: f calls itself, and does not say what it gives",
        "d",
        'def f(...) -> R.Tensor((n, 4), "float32"):',
    ),
    "@R.function\n    def f(y: R.Tensor((3,), 'float32')):\n        return y\n    return f(c)": (
        "6:12: operand 0 is bool[], the function takes float32[3]",
        "f(c)",
        "",
    ),
    "y: R.Shape([n]) = x": (
        "3:8: shapes are known to the compiler and are no values of a program; legal: "
        "R.shape([...]) as an argument of an operator",
        "R.Shape([n])",
        "",
    ),
    "y: R.Tensor((n,), 'float31') = x": (
        "3:23: 'float31' is no element type; known: ",
        "'float31'",
        None,
    ),
    "y: int = x": (
        "3:8: expected a type",
        "int",
        'R.Tensor((...), "float32"), R.Tuple(...), R.Callable((...), ...), R.Object',
    ),
}


@pytest.mark.parametrize("lines", BAD)
def test_errors_show_the_place(lines: str) -> None:
    message, marked, legal = BAD[lines]
    with pytest.raises(ParseError) as caught:
        parse(f"{HEAD}    {lines}\n")
    row, column = map(int, message.split(":")[:2])
    shown = f"{HEAD}    {lines}".split("\n")[row - 1]
    assert shown[column - 1 :].startswith(marked)
    found = str(caught.value)
    place = f"\n  {shown}\n  {' ' * (column - 1)}{'^' * len(marked)}"
    if legal is None:
        assert found.startswith(f"<script>:{message}")
        assert place in found
    else:
        assert found == f"<script>:{message}{place}" + (f"\n  legal: {legal}" if legal else "")


MODULE = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return CALL

    @R.function
    def other(x: R.Tensor((4,), "float32"), y: R.Tensor((m,), "float32")):
        return cls.third(y)

    @R.function
    def third(x: R.Tensor((m,), "float32")):
        return x
"""
CALLS = {
    "cls.other(x)": "5:16: 1 operands for 2 parameters",
    "cls.other(cls.third(x), R.const(1, 'float32'))": (
        "5:16: operand 1 is float32[], the function takes float32[m]"
    ),
    "cls.lost(x)": "5:16: the module has no function lost",
    "R.call_tir(cls.lost, (x,), R.Tensor((4,), 'float32'))": (
        "5:27: the module has no function lost"
    ),
    "cls.main(x)": "4:5: main calls itself, and does not say what it gives",
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_functions(call: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(MODULE.replace("CALL", call))
    assert str(caught.value).startswith(f"<script>:{CALLS[call]}")
    assert parse(MODULE.replace("CALL", "cls.other(x, x)"))["main"].ret_type is (
        relax.TensorStructInfo((4,), "float32")
    )


def test_decorators() -> None:
    with pytest.raises(ParseError, match=r"functions of a graph have no side effects"):
        parse(HEAD.replace("@R.function", "@R.function(pure=False)") + "    return x\n")
    with pytest.raises(ParseError, match=r"no option 'fast'\n[\s\S]*legal: private, pure"):
        parse(HEAD.replace("@R.function", "@R.function(fast=True)") + "    return x\n")


X = relax.Var("x", R.Tensor((2, 3), "float32"))


def emit_twice(bb: Any) -> None:
    with bb.function("main", [X]):
        bb.emit_func_output(X)
        bb.emit_func_output(X)


def no_result(bb: Any) -> None:
    with bb.function("main", [X]):
        bb.emit(X)


def in_dataflow(bb: Any) -> None:
    with bb.function("main", [X]), bb.dataflow():
        bb.emit_func_output(X)


def in_function(bb: Any) -> None:
    with bb.function("main", [X]), bb.function("g", [X]):
        pass


def gives_back(bb: Any) -> None:
    with bb.function("main", [X]):
        bb.call_te(lambda a: a, X)


def gives_number(bb: Any) -> None:
    with bb.function("main", [X]):
        bb.call_te(topi.relu, X, primfunc_name_hint="f")
        bb.call_te(lambda a: 1, X)


MISUSE: list[tuple[Any, str]] = [
    (lambda bb: bb.emit(X), "BlockBuilder.emit stands inside of `with bb.function(...)`"),
    (emit_twice, "BlockBuilder: 'main' has a result already"),
    (no_result, "BlockBuilder.function: 'main' has no result; call emit_func_output in it"),
    (
        in_dataflow,
        "BlockBuilder.emit_func_output: the dataflow block is not finished; it stands behind the "
        "block",
    ),
    (
        in_function,
        "BlockBuilder.function: 'main' is not finished; functions in a function are "
        "relax.Function values",
    ),
    (gives_back, "BlockBuilder.call_te: te_func gave one of its operands back"),
    (gives_number, "BlockBuilder.call_te: te_func gave int; legal: a te tensor, or a list of them"),
    (
        lambda bb: bb.match_cast(X, R.Tensor((2, 4), "float32")),
        "BlockBuilder.match_cast: the value is float32[2, 3], it cannot be float32[2, 4]",
    ),
    (
        lambda bb: bb.update_func("mein", X),
        "BlockBuilder.update_func: the module has no function 'mein'",
    ),
    (
        lambda bb: relax.Var("x", 3),
        "relax.Var('x'): a type is int 3; legal: relax.TensorStructInfo((2, 3), \"float32\"), "
        'relax.TupleStructInfo(...), R.Tensor((2, 3), "float32")',
    ),
    (
        lambda bb: relax.TensorStructInfo(dtype="float32"),
        "relax.TensorStructInfo: give a shape, or ndim",
    ),
    (
        lambda bb: relax.TensorStructInfo((2,), ndim=2),
        "relax.TensorStructInfo: ndim is 2, the shape has 1 dimensions",
    ),
]


@pytest.mark.parametrize(("act", "message"), MISUSE)
def test_builders_say_what_is_wrong(act: Any, message: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        act(relax.BlockBuilder())
    assert str(caught.value) == message
    assert relax.BlockBuilder.current() is None


def test_what_has_no_place_here() -> None:
    with pytest.raises(Unsupported, match="shapes are known to the compiler"):
        relax.ShapeStructInfo([2, 3])
    with pytest.raises(Unsupported, match="functions of a graph have no side effects"):
        relax.Function([X], X, is_pure=False)
    with pytest.raises(AttributeError, match="has no attribute 'Frob'"):
        relax.Frob  # noqa: B018


def cast(claim: str, rest: str = "") -> Any:
    return parse(
        f"""
@R.function
def main(x: R.Tensor((n, 4), "float32"), y: R.Tensor((m,), "float32")):
    o = R.match_cast(x, {claim})
    {rest or "return o"}
"""
    )


def test_claims_that_cannot_be_checked() -> None:
    x = relax.Var("x", R.Tensor(("n", 4), "float32"))
    n = x.struct_info.shape[0]
    wrong = relax.MatchCast(x, relax.TensorStructInfo((n + 1, 4), "float32"))
    mod = relax.BlockBuilder().get().from_expr(relax.Function([x], wrong))
    with pytest.raises(CompileError) as caught:
        relax.resolve_match_cast(mod)
    assert str(caught.value) == (
        "main: match_cast of a value of type float32[n, 4] to float32[n + 1, 4]: an extent is n, "
        "not n + 1"
    )
    mod = cast('R.Tensor((m * m, 4), "float32")', "return R.reshape(o, shape=(n * 4,)), y")
    x, y = relax.resolve_match_cast(mod)["main"].params
    assert x.type.shape[0] is y.type.shape[0] * y.type.shape[0]
    open_ = cast("R.Tensor((k, 4), 'float32')", "p = R.match_cast(x, R.Tensor((m * m - n * n, 4), "
                 "'float32'))\n    return p")  # fmt: skip
    with pytest.raises(
        CompileError, match=r"is known only when the program runs\n  legal: sizes of"
    ):
        relax.resolve_match_cast(open_)
