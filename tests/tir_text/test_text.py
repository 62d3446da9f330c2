"""Texts of hand-written programs: golden files, round trips, the decorator."""

# ruff: noqa: E501 (programs as texts)
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import pytest

from smelt import tir
from smelt.ir.errors import ParseError
from smelt.ir.expr import Add, Call, Cast, Expr, FloatImm, IntImm, Var, const
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.tir import script as T
from smelt.tir.equal import assert_structural_equal, structural_equal
from smelt.tir.nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    Seq,
    intrinsic,
)
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.verify import verify

Golden = Callable[[str], None]

MATMUL = """\
@T.prim_func
def matmul(A: T.Buffer((128, 64), "float32"), B: T.Buffer((64, n), "float16"), C: T.Buffer((128, n), "float32"), n: T.int64):
    T.func_attr({"op": "matmul"})
    T.block_attr({"tiled": True})
    acc = T.alloc_buffer((8, 16), "float32", scope="local")
    for i_o in T.parallel(16, annotations={"grain": 2}):
        for i_i in range(8):
            for j in T.thread_binding(n, thread="threadIdx.x"):
                for k in range(2, 64):
                    with T.block("C"):
                        vi = T.axis.spatial(128, i_o * 8 + i_i)
                        vj = T.axis.spatial(n, j)
                        vk = T.axis.reduce((2, 64), k)
                        T.where(j < n - 1)
                        T.reads(A[vi, vk], B[vk, vj:vj + 4])
                        T.writes(C[vi, vj])
                        T.block_attr({"scale": 0.5})
                        with T.init():
                            C[vi, vj] = 0.0
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * T.cast("float32", B[vk, vj])
"""

FLAT = """\
@T.prim_func
def flat(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int8", strides=(2,)), m: T.int32, eps: T.float32):
    with T.allocate((16,), "float32", scope="local", annotations={"align": 64}) as tmp:
        tmp[T.ramp(0, 1, 8)] = T.broadcast(eps, 8) * A[T.ramp(8, 1, 8)]
        tmp[T.ramp(8, 1, 8)] = T.shuffle(tmp[T.ramp(0, 1, 8)], T.broadcast(1.5, 8), (0, 8, 1, 9, 2, 10, 3, 11))
    assert m > 0, "m is positive"
    for i in T.unroll(4):
        x: T.float32 = T.exp(-1.0 * A[i])
        if x < 0.5 and not B[i] == 3 or T.isnan(x):
            A[i] = T.if_then_else(i + 1 < 64, A[i + 1], -0.0)
        else:
            while A[i] > x:
                A[i] = T.max(A[i] - 1.0, T.float32("-inf"))
    for i_1 in T.vectorized(8):
        A[i_1] = T.select(A[i_1] < 0.0, 0.0, A[i_1])
    T.smelt.call_kernel("next", m)
    T.evaluate(T.call("handle", "prefetch", m))
"""


@pytest.mark.parametrize("text", [MATMUL, FLAT], ids=["matmul", "flat"])
def test_hand_written_text_comes_back(text: str) -> None:
    func = verify(parse(text))
    assert script(func) == text
    assert_structural_equal(parse(script(func)), func)


def test_copies_take_new_names() -> None:
    a = Buffer("A", (const(4),))

    def loop() -> For:
        i = Var("i")
        return For(i, const(0), const(4), BufferStore(a, const(1.0), (i,)))

    text = script(PrimFunc((a,), Seq((loop(), loop(), loop())), {"name": "f"}))
    assert [line.split()[1] for line in text.splitlines() if "for" in line] == ["i", "i_1", "i_2"]


@pytest.mark.parametrize(
    "value", [0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45, 3.4028234663852886e38, 16777217.0]
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_floats_keep_their_bits(value: float, dtype: str) -> None:
    for constant in (FloatImm(dtype, value), const(value, dtype)):
        func = PrimFunc((), Evaluate(Call(dtype, "exp", (constant,))), {"name": "f"})
        again = parse(script(func))
        assert isinstance(again.body, Evaluate)
        assert again.body.value is func.body.value  # type: ignore[attr-defined]


def test_nothing_is_folded() -> None:
    value = Add(Add(IntImm("int64", 1), IntImm("int64", 2)), IntImm("int32", 0))
    func = PrimFunc((), Evaluate(Call("int64", "popcount", (value.a,))), {"name": "f"})
    assert_structural_equal(parse(script(func)), func)


def test_root_blocks_are_implicit_only_where_the_text_tells() -> None:
    a = Buffer("A", (const(4),))
    store = BufferStore(a, const(1.0), (const(0),))
    inner = BlockRealize((), const(True), Block("C", (), (), (), store))
    for body in (
        store,
        inner,
        BlockRealize((), const(True), Block("root", (), (), (), store)),
        BlockRealize((), const(True), Block("root", (), (), (), inner)),
        Seq((store, inner)),
        Seq(()),
    ):
        func = PrimFunc((a,), body, {"name": "f"})
        assert_structural_equal(parse(script(func)), func)


def test_long_chains_of_bindings_and_sums() -> None:
    a = Buffer("A", (const(4),))
    total: Expr = a[0]
    for _ in range(400):
        total = Add(total, a[1])
    body = Seq((BufferStore(a, total, (const(0),)),))
    stmt = LetStmt(Var("x"), const(1), Allocate(Buffer("t", ()), body))
    assert_structural_equal(parse(script(PrimFunc((a,), stmt))), PrimFunc((a,), stmt))


def test_differences_have_a_path(golden: Golden) -> None:
    first, second = parse(MATMUL), parse(MATMUL.replace("0.0", "1.0"))
    assert not structural_equal(first, second)
    with pytest.raises(AssertionError) as caught:
        assert_structural_equal(first, second)
    golden(str(caught.value))


def test_renamed_programs_are_equal() -> None:
    assert structural_equal(
        parse(MATMUL), parse(MATMUL.replace("vj", "column").replace("A", "left"))
    )
    assert not structural_equal(parse(MATMUL), parse(MATMUL.replace("A[vi, vk] *", "A[vk, vi] *")))


SIZE = 8


@T.prim_func
def scale(A: T.Buffer((SIZE * 2, n), "float32"), B: T.Buffer((SIZE * 2, n), "float32"), n: T.int64):  # noqa: F821
    """A decorated function is read, never run."""
    for i, j in T.grid(SIZE * 2, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
            B[vi, vj] += 1.5


def test_decorated_functions_are_programs(golden: Golden) -> None:
    assert isinstance(scale, PrimFunc)
    golden(script(verify(scale)))


def test_host_programs() -> None:
    x = Var("x", "handle")
    body = LetStmt(
        x, Call("handle", "smelt.alloc_storage", (const(64),)), intrinsic("smelt.free_storage", x)
    )
    func = verify(PrimFunc((), body, {"name": "host"}))
    assert_structural_equal(parse(script(func)), func)


@pytest.mark.parametrize("loop", ["T.serial(100, ", "T.serial(2, 102, ", "T.unroll(100, "])
def test_numbers_of_a_loop_are_of_its_variables_type(loop: str) -> None:
    func = parse(
        'def f(A: T.Buffer((102,), "float32")):\n'
        f'    for i in {loop}dtype="int8"):\n        A[T.cast("int64", i)] = 1.0\n'
    )
    assert isinstance(func.body, For)
    assert {func.body.var.dtype, func.body.min.dtype, func.body.extent.dtype} == {"int8"}
    assert_structural_equal(parse(script(verify(func))), func)


def test_suites_in_suites_take_no_more_of_the_stack() -> None:
    depths = []

    def extent() -> int:
        depths.append(len(inspect.stack(0)))
        return 2

    heads = ["with T.block():", "if n > 1:", "with T.let(n + 1) as x:", "while n > 3:"]
    loops = [f"for i{k} in range(extent()):" for k in range(8)]
    lines = [x for pair in zip(loops, heads * 2, strict=True) for x in pair]
    text = "@T.prim_func\ndef f(A: T.Buffer((2,), 'float32'), n: T.int64):\n"
    text += "".join(["    " * (k + 1) + line + "\n" for k, line in enumerate(lines)])
    text += "    " * (len(lines) + 1) + "A[i0] = T.float32(extent())\n"
    again = script(parse(text, env={"extent": extent}))
    assert len(depths) == 9
    assert len(set(depths[:8])) == 1
    assert (again.count("for "), again.count("T.block(")) == (8, 2)


CLASSIC = {
    "assume": (
        "T.evaluate(T.assume(n > 0))\n    T.assume(A[0] >= 0.0)\n    A[0] = 1.0",
        'T.evaluate(T.call("bool", "assume", n > 0))\n'
        '    T.evaluate(T.call("bool", "assume", A[0] >= 0.0))\n    A[0] = 1.0',
    ),
    "undef": ('A[1] = T.undef(dtype="float32")', "A[1] = 0.0"),
    "pragma": (
        'for i in range(8):\n        T.attr(i, "pragma_auto_unroll_max_step", 16)\n        A[i] = 1.0',
        'for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):\n        A[i] = 1.0',
    ),
    "pragma_around": (
        'for i, j in T.grid(8, 2):\n        with T.attr(i, "pragma_auto_unroll_max_step", 16):\n            A[i] = 1.0',
        'for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):\n        for j in range(2):\n            A[i] = 1.0',
    ),
    "double_buffer": (
        'B = T.allocate((8,), "float32", annotations={"x": 1})\n    T.attr(B.data, "double_buffer_scope", 1)\n    B[0] = A[0]',
        'B = T.allocate((8,), "float32", annotations={"x": 1, "double_buffer_scope": 1})\n    B[0] = A[0]',
    ),
    "virtual_thread": (
        't = T.env_thread("vthread.x")\n    T.attr(t, "virtual_thread", 2)\n    A[t] = 1.0',
        'for t in T.thread_binding(2, thread="vthread.x"):\n        A[t] = 1.0',
    ),
}


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_notes_have_our_form(name: str) -> None:
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), n: T.int64):\n    '
    classic, ours = [parse(head + body) for body in CLASSIC[name]]
    assert_structural_equal(classic, ours)
    assert_structural_equal(parse(script(classic)), classic)


@pytest.mark.parametrize(
    ("node", "key"),
    [
        ("A", "double_buffer_scope"),
        ("n", "pragma_auto_unroll_max_step"),
        ("i", "double_buffer_scope"),
    ],
)
def test_notes_that_are_about_something_else_are_refused(node: str, key: str) -> None:
    body = f'for i in range(8):\n        T.attr({node}, "{key}", 1)\n        A[i] = 1.0'
    with pytest.raises(ParseError, match=rf"(?s):3:16: {key} is no note of .*loop around it"):
        parse(f"def main(A: T.Buffer((8,)), n: T.int64):\n    {body}")


def test_classic_let_puts_the_value_in_its_place() -> None:
    x, n = Var("x", "float32"), Var("n", "float32")
    assert tir.Let(x, n + 1.0, x * x) is (n + 1.0) * (n + 1.0)
    assert tir.Let(x, 2, x + n) is const(2.0) + n


def test_what_a_program_assumes_costs_nothing() -> None:
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), n: T.int64):\n'
    loop = "    for i in T.vectorized(8):\n        {}\n        A[i] = A[i] + 1.0"
    plain = lower(parse(head + loop.format("")), LOWER)
    assumed = lower(parse(head + loop.format("T.evaluate(T.assume(A[i] >= 0.0))")), LOWER)
    assert_structural_equal(assumed, plain)


def test_expressions_are_read_alone() -> None:
    n, m, a = Var("n"), Var("m", "int32"), Buffer("A", (const(8),), "float32")
    for text in ("min(n, 4) * 2 + n // 3", "A[n] * 2.0", "select(n == 1, n, 4)", "not n < 3"):
        e = tir.parse_expr(text, [n, a])
        assert (str(e), tir.parse_expr(script(e), {"n": n, "A": a})) == (text, e)
    assert tir.parse_expr("int64(size) + n", {"size": m, "n": n}) is Cast("int64", m) + n
    assert f"{tir.parse_expr('T.exp(A[n:n + 4])', [n, a])}" == "exp(A[ramp(n, 1, 4)])"
    for text, message in {
        "nn + 1": r"<expression>:1:1: 'nn' is not defined here\n.*\n.*\n  legal: n",
        "x + n": r"'x' is not defined here\n.*\n.*\n  legal: n",
        "n + ": "<expression>:1:.*invalid syntax",
        "n = 3": "<expression>:1:1: expected one expression",
        "foo(n)": "there is no T.foo",
        "+".join(["(n"] * 300) + ")" * 300: "too many nested parentheses",
    }.items():
        with pytest.raises(ParseError, match=f"(?s){message}"):
            tir.parse_expr(text, [n])
