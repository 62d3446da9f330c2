"""The texts of errors: parser, verifier, interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from smelt.ir.errors import ParseError, VerifyError
from smelt.ir.expr import Add, Call, Cast, FloorDiv, Var, const
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Seq,
    Stmt,
)
from smelt.tir.parser import parse
from smelt.tir.verify import verify

Golden = Callable[[str], None]
HEAD = 'def f(A: T.Buffer((4, 8), "float32")):\n'

PARSE = {
    "unknown_name": "    A[0, j] = 1.0",
    "unknown_intrinsic": "    A[0, 0] = T.expp(A[0, 1])",
    "rank": "    A[0] = 1.0",
    "loop": "    for i in enumerate(3):\n        A[0, i] = 1.0",
    "syntax": "    A[0, 0] = = 1.0",
    "statement": "    return A",
    "operand": "    A[0, 0] = A + 1.0",
    "operator": "    A[0, 0] = A[0, 0] ** 2",
    "loop_option": "    for i in T.serial(3, grain=2):\n        A[0, i] = 1.0",
    "dtype": '    A[0, 0] = T.cast("float31", A[0, 0])',
}


@pytest.mark.parametrize("case", list(PARSE))
def test_parser(case: str, golden: Golden) -> None:
    with pytest.raises(ParseError) as caught:
        parse(HEAD + PARSE[case] + "\n", "kernel.py")
    golden(str(caught.value) + "\n")


A = Buffer("A", (const(4), const(8)))
ROW, COLUMN = Var("i"), Var("j")


def _loop(body: Stmt, **options: str) -> For:
    return For(ROW, const(0), const(4), body, **options)  # type: ignore[arg-type]


VERIFY: dict[str, Stmt] = {
    "undefined": _loop(BufferStore(A, const(1.0), (ROW, COLUMN))),
    "rank": _loop(BufferStore(A, const(1.0), (ROW,))),
    "store_type": _loop(BufferStore(A, const(1), (ROW, ROW))),
    "operand_types": BufferStore(
        A, Add(BufferLoad(A, (const(0), const(0))), const(1)), (const(0), const(0))
    ),
    "free_buffer": BufferStore(Buffer("B", (const(1),)), const(1.0), (const(0),)),
    "nested_twice": _loop(_loop(BufferStore(A, const(1.0), (ROW, ROW)))),
    "symbolic_vector_loop": For(
        ROW,
        const(0),
        Cast("int64", BufferLoad(A, (const(0), const(0)))),
        BufferStore(A, const(1.0), (ROW, ROW)),
        "vectorized",
    ),
    "host": Evaluate(Call("int32", "smelt.launch", ())),
    "index_type": BufferStore(A, const(1.0), (const(0), const(1.0))),
    "loop_kind": _loop(BufferStore(A, const(1.0), (ROW, ROW)), kind="tiled"),
}


@pytest.mark.parametrize("case", list(VERIFY))
def test_verifier(case: str, golden: Golden) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(PrimFunc((A,), VERIFY[case], {"name": "f"}))
    golden(str(caught.value))


def test_interpreter_outside(golden: Golden) -> None:
    func = parse(HEAD + "    for i in range(4):\n        A[i, 0] = A[i, i + 5]\n")
    with pytest.raises(InterpretError) as caught:
        interpret(func, np.zeros((4, 8), "float32"))
    golden(str(caught.value))


def test_interpreter_arguments(golden: Golden) -> None:
    func = PrimFunc((A,), Seq(()), {"name": "f"})
    texts = []
    for bad in (np.zeros((4, 8)), np.zeros((4, 7), "float32"), np.zeros((4,), "float32"), 3):
        with pytest.raises(InterpretError) as caught:
            interpret(func, bad)
        texts.append(str(caught.value) + "\n")
    golden("".join(texts))


def test_what_is_not_reached_is_not_computed() -> None:
    """Constants are no exception: a quotient by zero in a branch that is not taken is no error."""
    out = Buffer("out", (const(1),), "int32")
    zero, at = const(0, "int32"), (const(0),)
    bad = BufferStore(out, FloorDiv(const(3, "int32"), zero) * const(2, "int32"), at)
    untaken = IfThenElse(const(False), bad, BufferStore(out, const(7, "int32"), at))
    found = np.zeros(1, "int32")
    interpret(PrimFunc((out,), untaken, {"name": "f"}), found)
    assert found == 7
    with pytest.raises(InterpretError, match="division"):
        interpret(PrimFunc((out,), bad, {"name": "f"}), found)
