"""Nodes made by hand, with the arguments that classic programs give: positions, names, numbers."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import numpy as np
import pytest

from smelt import te
from smelt.ir import assert_structural_equal
from smelt.ir.errors import TypeMismatch, Unsupported, VerifyError
from smelt.tir import nodes
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse

tir: Any = importlib.import_module("smelt.tir")  # as they are at run time, not as they are typed
arith: Any = importlib.import_module("smelt.arith")


def program(body: str) -> PrimFunc:
    return parse(f'@T.prim_func\ndef main(A: T.Buffer((16,), "float32")):\n{body}')


def test_a_loop_in_both_orders() -> None:
    a, i = tir.decl_buffer([16], "float32", "A", offset_factor=1), tir.Var("i", dtype="int32")
    store = tir.BufferStore(a, tir.Add(tir.BufferLoad(a, [i]), 1), [i])
    for kind, number in ("range", 0), ("T.parallel", 1), ("T.vectorized", 2), ("T.unroll", 3):
        wanted = program(f"    for i in {kind}(T.int32(16)):\n        A[i] = A[i] + 1.0\n")
        name = {"range": "serial", "T.unroll": "unrolled"}.get(kind, kind[2:])
        for loop in (
            tir.For(i, 0, 16, number, store),
            tir.For(i, 0, 16, tir.ForKind(name), store, None, {}),
            tir.For(loop_var=i, min=0, extent=16, kind=name, body=store, thread_binding=None),
            tir.For(i, tir.const(0, "int32"), tir.const(16, "int32"), store, name),
        ):
            assert_structural_equal(tir.PrimFunc([a], loop), wanted)
    out = np.zeros(16, "float32")
    interpret(tir.PrimFunc([a], tir.For(i, 0, 16, 0, store)), out)
    assert out.sum() == 16
    bound = tir.For(i, 0, 16, tir.ForKind.THREAD_BINDING, store, te.thread_axis("threadIdx.x"))
    assert (bound.kind, bound.thread_binding) == ("thread_binding", "threadIdx.x")


def test_a_block_in_both_orders() -> None:
    a, v = tir.decl_buffer((16,), name="A"), tir.Var("v")
    i = tir.Var("i")
    store = tir.BufferStore(a, 2.0, [v])
    axis = tir.IterVar((0, 16), v, tir.IterVar.DataPar, "")
    assert axis.iter_type == tir.IterVar.DataPar
    assert tir.IterVar(v, tir.Range.from_min_extent(0, 16), "reduce").iter_type == "reduce"
    region = tir.BufferRegion(a, [tir.Range.from_min_extent(v, 1)])
    made = [
        tir.Block([axis], [], [region], "B", store),
        tir.Block(iter_vars=[axis], reads=[], writes=[region], name_hint="B", body=store),
        tir.Block("B", (axis,), (), (region,), store),
    ]
    wanted = program("""    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            A[v] = 2.0
""")
    for block in made:
        loop = tir.For(i, 0, 16, 0, tir.BlockRealize([i], True, block))
        root = tir.BlockRealize([], True, tir.Block([], [], [], "root", loop))
        assert_structural_equal(tir.PrimFunc([a], root), wanted)


def test_programs_by_their_handles() -> None:
    a, h = tir.decl_buffer((4,), name="A"), tir.Var("a", "handle")
    func = tir.PrimFunc([h], tir.BufferStore(a, 1, [0]), None, {h: a}, {"global_symbol": "f"})
    assert func.script() == ('@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    A[0] = 1.0\n')
    with pytest.raises(TypeMismatch, match="ret_type is 'int32'"):
        tir.PrimFunc([a], tir.Evaluate(0), "int32")


def test_expressions_take_numbers_and_names() -> None:
    i, x = tir.Var("i", "int32"), tir.Var("x", "float32")
    assert tir.Add(i, 1) is i + 1
    assert tir.Select(i < 3, x, 0).false_value is tir.const(0, "float32")
    assert tir.Select(i < 3, 1, 2).dtype == "int64"
    assert tir.Ramp(base=i, stride=1, lanes=4).dtype == "int32x4"
    assert tir.Call("float32", "tir.exp", [x]) is tir.exp(x)
    assert tir.Cast(dtype="float32", value=i) is i.astype("float32")
    assert tir.IntImm(dtype="int8", value=3) is tir.const(3, "int8")
    assert tir.SizeVar("n", dtype="int32").dtype == "int32"
    branch = tir.IfThenElse(condition=i < 3, then_case=tir.Evaluate(0), else_case=None)
    assert branch.else_case is None
    assert tir.AssertStmt(i < 3, tir.StringImm("small")).message == "small"


def test_node_classes_of_both_doors_are_one() -> None:
    loop = tir.For(tir.Var("i"), 0, 4, 0, tir.Evaluate(0))
    assert type(loop) is nodes.For
    assert isinstance(loop, tir.For)
    assert issubclass(nodes.For, tir.For)
    assert not isinstance(loop, tir.While)
    assert type(pickle.loads(pickle.dumps(loop))) is nodes.For
    match loop:
        case tir.For(var, extent=extent):
            assert (var.name, extent.value) == ("i", 4)
        case _:
            raise AssertionError("no loop")


def test_intervals_of_numbers() -> None:
    i, n = tir.Var("i", "int32"), tir.Var("n", "int32")
    found = arith.Analyzer().int_set(i * 2 + 1, {i: arith.IntervalSet(0, 3)})
    assert (found.min_value.value, found.max_value.value) == (1, 7)
    bound = arith.deduce_bound(i, i + 1 < n, {n: arith.IntervalSet(0, 10)}, {})
    assert bound.max_value is n - 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda i: tir.For(i, 0, 4, 0, 0), r"tir.For: body is 0, no Stmt; legal: tir.For\(var"),
        (lambda i: tir.For(i, 0, 4, 7, tir.Evaluate(0)), "kind is 7, no str"),
        (lambda i: tir.IterVar("v", (0, 4), 0), "dom is 'v', no Range; legal: tir.IterVar"),
        (lambda i: tir.While(True, [tir.Evaluate(0)]), "body is .*, no Stmt"),
        (lambda i: tir.BufferLoad(i, [0]), "buffer is .*, no Buffer"),
        (lambda i: tir.Add(i, "1"), "b is '1', no Expr"),
        (lambda i: tir.Add(i, 1, 2), r"tir.Add: legal: tir.Add\(a, b\)"),
        (lambda i: tir.Add(i), "missing a required argument: 'b'"),
        (lambda i: tir.decl_buffer((4,), data=i), "data is .*legal: data=None"),
        (lambda i: tir.decl_buffer((4,), buffer_type="auto_broadcast"), "'auto_broadcast'"),
    ],
)  # fmt: skip
def test_what_fits_no_field_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TypeMismatch, match=f"(?s){message}"):
        make(tir.Var("i"))


def test_a_state_in_which_statements_are_replaced() -> None:
    func = program(
        '    for i in range(16):\n        with T.block("a"):\n'
        "            v = T.axis.spatial(16, i)\n            A[v] = T.float32(1)\n"
    )
    state = tir.ScheduleState(func, debug_mask="all")
    loop = state.mod["main"].body.block.body
    sref = state.get_sref(loop)
    assert sref.stmt is loop
    state.replace(sref, loop.replace(kind="parallel"))
    assert state.mod["main"].body.block.body.kind == "parallel"
    with pytest.raises(VerifyError, match="is not a kind of loop"):
        state.replace(
            state.get_sref(state.mod["main"].body.block.body), loop.replace(kind="sideways")
        )
    assert state.mod["main"].body.block.body.kind == "parallel"
    block = state.mod["main"].body.block.body.body.block
    state.replace(state.get_sref(block), block.replace(annotations={"note": 1}))
    assert state.mod["main"].body.block.body.body.block.annotations == {"note": 1}


def test_names_that_stand_alone() -> None:
    assert tir.schedule.BlockRV() == tir.schedule.LoopRV() == ""
    values = [1, "a", {"b": 2.0}]
    assert importlib.import_module("smelt.runtime").convert(values) is values
    with pytest.raises(Unsupported, match="observer"):
        tir.trace(["a"])
