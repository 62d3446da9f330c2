"""Small names of the tensor level, used as programs of the classic stack use them."""

import importlib

import numpy as np
import pytest
import tvm
from tvm import arith, te, tir, topi
from tvm.script import tir as T

n, m = tir.Var("n", "int64"), tir.Var("m", "int64")

BY_KEYWORD = [
    ("simplify", lambda a: a.simplify(expr=n - n), 0),
    ("rewrite_simplify", lambda a: a.rewrite_simplify(expr=n * 2 - n), n),
    ("canonical_simplify", lambda a: a.canonical_simplify(expr=n * 2 - n), n),
    ("const_int_bound", lambda a: a.const_int_bound(expr=n).max_value, 7),
    ("modular_set", lambda a: a.modular_set(expr=m * 4 + 1).coeff, 4),
    ("int_set", lambda a: a.int_set(expr=m, dom_map={m: (0, 3)}).max_value, 2),
    ("can_prove", lambda a: a.can_prove(expr=n < 8), True),
    ("can_prove_equal", lambda a: a.can_prove_equal(lhs=n + n, rhs=2 * n), True),
    ("bind", lambda a: a.bind(var=m, expr=n) or a.simplify(m - n), 0),
    ("linear", lambda a: arith.detect_linear_equation(expr=n * 3 + 5, var_list=[n])[1], 5),
    ("clip", lambda a: arith.detect_clip_bound(expr=n < 5, var_list=[n])[1], 4),
    ("deduce", lambda a: arith.deduce_bound(var=n, cond=n < 5, hint_map={}, relax_map={}), None),
    ("iter_map", lambda a: arith.detect_iter_map(indices=[n], input_iters={n: (0, 8)}).errors, ()),
    ("iter_simplify", lambda a: arith.iter_map_simplify(indices=[n], input_iters={n: 8})[0], n),
    ("inequalities", lambda a: arith.solve_linear_inequalities(equations=[n >= 1]), None),
    ("ceildiv", lambda a: tir.ceildiv(lhs=7, rhs=2), 4),
    ("floordiv", lambda a: tir.floordiv(a=-7, b=2), -4),
    ("floormod", lambda a: tir.floormod(a=-7, b=2), 1),
    ("likely", lambda a: tir.likely(cond=n < 1).args[0] is (n < 1), True),
    ("cpu", lambda a: tvm.cpu(dev_id=0), tvm.cpu()),
    ("device", lambda a: tvm.device(dev_type="cuda", dev_id=1), tvm.cuda(dev_id=1)),
    ("array", lambda a: tvm.nd.array(arr=np.arange(3)).numpy().sum(), 3),
    ("from_dlpack", lambda a: tvm.nd.from_dlpack(dltensor=np.arange(3)).numpy().sum(), 3),
    ("copyfrom", lambda a: tvm.nd.empty((2,)).copyfrom(source_array=[1, 2]).numpy().sum(), 3),
    (
        "load_param_dict",
        lambda a: [*tvm.runtime.load_param_dict(param_bytes=tvm.runtime.save_param_dict({}))],
        [],
    ),
    ("from_func", lambda a: tir.IndexMap.from_func(mapping_function=lambda i: i).inputs, None),
    ("undefined_vars", lambda a: tir.analysis.undefined_vars(n + m, defs=[m]), [n]),
]


@pytest.mark.parametrize(("call", "expected"), [c[1:] for c in BY_KEYWORD],
                         ids=[c[0] for c in BY_KEYWORD])  # fmt: skip
def test_parameters_have_their_classic_names(call, expected):
    analyzer = arith.Analyzer({n: (0, 8)})
    found = call(analyzer)
    assert found is not None
    assert expected is None or found is expected or bool(found == expected)


def test_a_program_of_tensors_by_keyword():
    A = te.placeholder((4,), name="A")
    func = te.create_prim_func(ops=[A, te.compute((4,), lambda i: A[i] + 1, name="B")])
    assert tir.analysis.verify_well_formed(obj=func)


# ------------------------------------------------------------------------------- the room `ir`

A_TENSOR = tvm.ir.TensorType((1, 2), "float32")
AS_PROGRAMS_ASK = [
    ("from one end", lambda: tvm.ir.Range(8).min, 0),
    ("from both ends", lambda: tvm.ir.Range(2, 8).extent, 6),
    ("from_min_extent", lambda: tvm.ir.Range.from_min_extent(2, 8).extent, 8),
    ("range", lambda: isinstance(tvm.ir.Range(0, m), tvm.ir.Range), True),
    ("a loop's range", lambda: isinstance(te.reduce_axis((0, 8)).dom, tvm.ir.Range), True),
    ("tensor type", lambda: isinstance(A_TENSOR, tvm.ir.TensorType), True),
    ("fields", lambda: tvm.ir.TupleType([A_TENSOR]).fields, (A_TENSOR,)),
    ("function", lambda: tvm.ir.FuncType([A_TENSOR], A_TENSOR).ret_type, A_TENSOR),
    ("type variable", lambda: tvm.ir.TypeVar("a").name_hint, "a"),
    ("operator", lambda: isinstance(tvm.relay.op.get("nn.relu"), tvm.ir.Op), True),
    ("global", lambda: tvm.ir.GlobalVar("f").name_hint, "f"),
    ("expression", lambda: isinstance(n + 1, tvm.ir.PrimExpr), True),
    ("node", lambda: isinstance(A_TENSOR, tvm.ir.Node), True),
    ("configs", lambda: tvm.transform.PassContext.list_configs()["tir.HoistExpression"]["type"][:9],
     "a mapping"),
    ("module pass", lambda: isinstance(tvm.transform.module_pass(print, opt_level=1),
                                       tvm.transform.ModulePass), True),
    ("int set", lambda: arith.IntSet.single_point(3).min_value, 3),
    ("set of an interval", lambda: isinstance(arith.Analyzer().int_set(n), arith.IntSet), True),
    ("size", lambda: tir.SizeVar("s", "int64").dtype, "int64"),
    ("remainder", lambda: tir.Mod(n, m), tir.truncmod(n, m)),
    ("power", lambda: tir.pow(tir.const(2.0, "float32"), 3.0).op, "pow"),
    ("nearbyint", lambda: tir.nearbyint(tir.const(2.0, "float32")).op, "round"),
    ("mask", lambda: int(tir.ScheduleDebugMask.VERIFY_SREF_TREE), 1),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "expected"), [c[1:] for c in AS_PROGRAMS_ASK],
                         ids=[c[0] for c in AS_PROGRAMS_ASK])  # fmt: skip
def test_what_small_names_mean(ask, expected):
    assert bool(ask() == expected)


def test_what_the_analyzer_is_told_of_a_variable():
    analyzer = arith.Analyzer()
    analyzer.update(n, arith.ConstIntBound(0, 7))
    assert analyzer.can_prove(n < 8)
    analyzer.update(n, arith.ConstIntBound(0, 7))
    with pytest.raises(ValueError, match=r"n is bound to .*max_value=7.* already.*override=True"):
        analyzer.update(n, arith.ConstIntBound(0, 9))
    analyzer.update(n, arith.ConstIntBound(0, arith.ConstIntBound.POS_INF), override=True)
    assert analyzer.can_prove(n >= 0)
    assert not analyzer.can_prove(n < 8)


PLACES = [
    ("tvm.arith.int_set", "IntSet"),
    ("tvm.arith.iter_affine_map", "IterSumExpr"),
    ("tvm.arith.pattern", "detect_linear_equation"),
    ("tvm.ir.op", "Op"),
    ("tvm.ir.tensor_type", "TensorType"),
    ("tvm.ir.type", "FuncType"),
    ("tvm.te.operation", "compute"),
    ("tvm.te.schedule", "Split"),
    ("tvm.te.tensor_intrin", "decl_tensor_intrin"),
    ("tvm.tir.expr", "IntImm"),
    ("tvm.tir.function", "PrimFunc"),
    ("tvm.tir.generic", "floordiv"),
    ("tvm.tir.stmt", "BufferStore"),
    ("tvm.topi.utils", "get_const_tuple"),
]


@pytest.mark.parametrize(("place", "name"), PLACES, ids=[p for p, _ in PLACES])
def test_a_place(place, name):
    assert getattr(importlib.import_module(place), name)


# ------------------------------------------------------------------------------------ programs


@T.prim_func
def reduced(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(4):
        for j in T.serial(8):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]


def found_in(func, kind):
    found = []
    tir.stmt_functor.post_order_visit(func.body, lambda s: isinstance(s, kind) and found.append(s))
    return found


def test_fields_under_their_classic_names():
    outer = found_in(reduced, tir.For)[-1]
    assert outer.loop_var is outer.var
    assert outer.kind == tir.ForKind.PARALLEL
    assert found_in(reduced, tir.For)[0].kind == tir.ForKind.SERIAL
    assert [b.name_hint for b in found_in(reduced, tir.Block)] == ["sum", "root"]
    realize = found_in(reduced, tir.BlockRealize)[0]
    assert realize.iter_values == realize.values
    store = found_in(reduced, tir.BufferStore)[0]
    branch = tir.IfThenElse(n < 1, store, None)
    assert branch.then_case is store
    assert branch.else_case is None
    both = tir.SeqStmt([store, branch])
    assert isinstance(both, tir.SeqStmt)
    assert both.seq == (store, branch)
    assert tir.stmt_list(tir.stmt_seq(both, store)) == [store, branch, store]


def test_attributes_of_a_program():
    named = reduced.with_attr("global_symbol", "total")
    assert (named.name, reduced.name) == ("total", "reduced")
    assert named.with_attr({"tir.noalias": True, "x": 1}).attrs["tir.noalias"] is True


def test_functions_of_a_module():
    mod = tvm.IRModule({"main": reduced})
    copy = mod.clone()
    mod.update_func(mod.get_global_var("main"), reduced.with_attr("x", 1))
    assert [(name, "x" in f.attrs) for name, f in mod.functions_items()] == [("main", True)]
    assert "x" not in copy["main"].attrs


def test_a_refused_step_of_a_schedule():
    sch = tir.Schedule(reduced)
    with pytest.raises(tir.ScheduleError, match="has no block 'nowhere'"):
        sch.get_block("nowhere")
    block = sch.get_sref(sch.get_block("sum"))
    assert isinstance(block, tir.StmtSRef)
    assert block.stmt.name_hint == "sum"


def test_operations_of_tensors():
    A, B = te.placeholder((4, 8), name="A"), te.placeholder((4, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    add = tir.comm_reducer(lambda x, y: x + y, lambda t: tir.const(0, t), name="add")
    C = te.compute((4,), lambda i: add(A[i, k] * B[i, k], axis=k), name="C")
    assert C.op.input_tensors == [A, B]
    assert C.axis == C.op.axis
    assert C.op.body[0].source == C.op.body[0].sources
    assert C.op.body[0].value_index == 0


# ---------------------------------------------------------------------------------- topi.utils

OF_SHAPES = [
    ("tuple", lambda u: u.get_const_tuple((tir.const(4), n + 1 - n, n)), (4, 1, n)),
    ("shape", lambda u: u.get_shape(te.placeholder((4, 5)).shape), (4, 5)),
    ("integer", lambda u: u.get_const_int(n * 0 + 3), 3),
    ("equal", lambda u: (u.equal_const_int(n - n, 0), u.equal_const_int(n, 0)), (True, False)),
    ("simplify", lambda u: u.simplify([n - n, 3]), (0, 3)),
    ("factor", lambda u: u.get_max_power2_factor(48), 16),
    ("factor below", lambda u: u.get_max_power2_factor(48, 9), 8),
    ("ceil_div", lambda u: u.ceil_div(7, 2), 4),
]


@pytest.mark.parametrize(("ask", "expected"), [c[1:] for c in OF_SHAPES],
                         ids=[c[0] for c in OF_SHAPES])  # fmt: skip
def test_numbers_of_shapes(ask, expected):
    assert bool(ask(topi.utils) == expected)


def test_what_is_no_number():
    with pytest.raises(tvm.TVMError, match="get_const_int: n is no integer that is known here"):
        topi.utils.get_const_int(n)
