"""Passes about names, functions and fusion: before, after, and the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax
from smelt.ir.errors import CompileError, TypeMismatch, Unsupported, VerifyError
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import TupleType, tensor_type
from smelt.relax import op
from smelt.relax import transform as passes
from smelt.relax.dpl import is_op, wildcard
from smelt.relax.interpret import interpret
from smelt.relax.nodes import (
    Call,
    Function,
    GlobalVar,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    call_function,
    constant,
)
from smelt.tir.nodes import PrimFunc
from tests.relax_arrays import f32s

from .support import array, calls, inputs, module, same, var


def network() -> IRModule:
    x, w = var("x", 2, 4), var("w", 4, 4)
    h = op.nn.relu(op.add(op.matmul(x, w), 1.0))
    h = op.nn.softmax(op.matmul(op.reshape(h, (2, 4)), w))
    return module([x, w], op.concat([h, op.multiply(h, 2.0)], 1))


def private(params: list[Var], body: Any) -> Function:
    return Function(tuple(params), body, {"private": True})


def test_legalize_ops_makes_programs() -> None:
    before = network()
    after = passes.LegalizeOps()(before)
    assert calls(after)["matmul"] == 2
    programs = {n for n, f in after.functions.items() if isinstance(f, PrimFunc)}
    assert {"matmul", "add", "relu", "softmax", "reshape", "multiply", "concat"} == programs
    assert set(calls(after)) == programs
    same(before, after)
    given = inputs(before)
    want = interpret(before["main"], *given)[0]
    np.testing.assert_allclose(smelt.compile(after)(*given), want, rtol=1e-5, atol=1e-6)


def test_kernels_that_are_fused_already_stay() -> None:
    before = network()
    fused = passes.FuseOps()(before)
    after = passes.LegalizeOps()(fused)
    groups = [n for n, f in fused.functions.items() if f.attrs.get("primitive")]
    assert groups
    assert all(after[n] is fused[n] for n in groups)
    same(before, after)


def test_legalize_ops_asks_the_map_and_skips() -> None:
    before = network()
    own = {"relax.nn.relu": lambda bb, call: op.maximum(call.args[0], 0.0)}
    after = passes.LegalizeOps(own, skip_ops=["relax.matmul"])(before)
    assert calls(after)["maximum"] == 1
    assert "matmul" not in after
    assert isinstance(after["add"], PrimFunc)
    same(before, after)


def test_programs_of_symbolic_sizes_run_compiled() -> None:
    n = SizeVar("n")
    x = var("x", n, 4)
    before = module([x], op.nn.softmax(op.add(x, x)))
    after = passes.LegalizeOps()(before)
    a = array(5, 4)
    want = interpret(before["main"], a)[0]
    np.testing.assert_allclose(smelt.compile(after)(a), want, rtol=1e-5, atol=1e-6)


def test_a_program_that_does_not_fit_its_call_is_refused() -> None:
    x = var("x", 2, 4)
    f = passes.LegalizeOps()(module([x], op.nn.relu(x)))["relu"]
    bad = op.call_tir("relu", [op.concat([x, x])], tensor_type((4, 4)))
    quick = smelt.Options(verify=0)
    with pytest.raises(CompileError, match=r"call_tir of relu: .*float32\[2, 4\].*float32\[4, 4\]"):
        smelt.compile(module([x], bad, relu=f), options=quick)
    many = module([x], op.call_tir("relu", [x, x], x.type), relu=f)
    with pytest.raises(CompileError, match="2 operands and 1 results; the program has 2 buffers"):
        smelt.compile(many, options=quick)
    with pytest.raises(VerifyError, match=r"the buffer p0 is float32\[2, 4\], float32\[4, 4\]"):
        smelt.compile(module([x], bad, relu=f))


def test_zero_pipeline_fuses_and_legalizes() -> None:
    before = network()
    after = relax.get_pipeline("zero")(before)
    kinds = {n: f.attrs["op_pattern"] for n, f in after.functions.items() if n != "main"}
    assert kinds["fused_matmul_add_relu"] == 4
    assert kinds["softmax"] == 8
    assert not {"add", "relu", "multiply"} & set(calls(after))
    given = inputs(before)
    want = interpret(before["main"], *given)[0]
    np.testing.assert_allclose(smelt.compile(after)(*given), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda x, y: op.add(x, x), 0),
        (lambda x, y: op.add(x, y), 1),
        (lambda x, y: op.permute_dims(x), 2),
        (lambda x, y: op.sum(x, 1), 3),
        (lambda x, y: op.matmul(x, x), 4),
        (lambda x, y: op.sort(x), 8),
    ],
)
def test_annotate_tir_op_pattern(make: Any, kind: int) -> None:
    x, y = var("x", 4, 4), var("y", 4)
    made = passes.AnnotateTIROpPattern()(passes.LegalizeOps()(module([x, y], make(x, y))))
    assert [f.attrs["op_pattern"] for f in made.functions.values() if isinstance(f, PrimFunc)] == [
        kind
    ]


def test_canonicalize_fold_share_and_drop() -> None:
    x, v = var("x", 3), var("v", 3)
    e = op.add(op.exp(v), op.exp(v))
    e = op.multiply(e, op.add(constant(f32s([1, 2, 3])), 1.0))
    before = module([x], Let(v, x, e), unused=Function((x,), x, {"private": True}))
    after = relax.get_pipeline("default")(before)
    assert list(after) == ["main"]
    assert not isinstance(after["main"].body, Let)
    assert calls(after) == {"exp": 1, "add": 1, "multiply": 1}
    same(before, after)


def test_dead_code_elimination_keeps_the_entries() -> None:
    x = var("x", 3)
    mod = IRModule({n: Function((x,), op.exp(x)) for n in ("a", "b")})
    assert list(passes.DeadCodeElimination()(mod)) == ["a", "b"]
    assert list(passes.DeadCodeElimination(["b"])(mod)) == ["b"]
    with pytest.raises(TypeMismatch, match="no graph function 'c'"):
        passes.DeadCodeElimination(["c"])(mod)


def test_normalize_global_var_and_attach_global_symbol() -> None:
    x, y = var("x", 3), var("y", 3)
    f = Function((y,), op.exp(y), {"private": True, "global_symbol": "own"})
    before = module([x], call_function(GlobalVar("f"), [x], x.type), f=f)
    after = passes.NormalizeGlobalVar()(before)
    assert list(after) == ["main", "own"]
    same(before, after)
    marked = passes.AttachGlobalSymbol()(before)
    assert marked["main"].attrs["global_symbol"] == "main"
    assert marked["f"].attrs["global_symbol"] == "own"
    twice = module([x], x, f=f, g=f)
    with pytest.raises(CompileError, match="several functions would be named own"):
        passes.NormalizeGlobalVar()(twice)


def test_alter_op_impl() -> None:
    x = var("x", 4)
    before = passes.LegalizeOps()(module([x], op.nn.relu(x)))
    other = passes.LegalizeOps()(module([x], op.abs(x)))["abs"]
    after = passes.AlterOpImpl({"relu": other})(before)
    a = array(4)
    np.testing.assert_allclose(interpret(after["main"], a, module=after)[0], np.abs(a))


# ------------------------------------------------------------------------------------ functions


def test_inline_private_functions() -> None:
    x, y = var("x", 3), var("y", 3)
    before = module(
        [x], call_function(GlobalVar("f"), [op.exp(x)], x.type), f=private([y], op.add(y, 1.0))
    )
    after = passes.InlinePrivateFunctions()(before)
    assert list(after) == ["main"]
    assert calls(after) == {"exp": 1, "add": 1}
    same(before, after)


def test_remove_unused_parameters() -> None:
    x, a, b = var("x", 3), var("a", 3), var("b", 3)
    before = module(
        [x],
        call_function(GlobalVar("f"), [op.exp(x), x], x.type),
        f=private([a, b], op.add(b, 1.0)),
    )
    after = passes.RemoveUnusedParameters()(before)
    assert [p.name for p in after["f"].params] == ["b"]
    assert calls(after) == {"f": 1}
    same(before, after)


def test_remove_unused_outputs() -> None:
    x, a = var("x", 3), var("a", 3)
    f = private([a], Tuple((op.exp(a), op.abs(a), op.add(a, 1.0))))
    called = call_function(GlobalVar("f"), [x], f.ret_type)
    before = module([x], op.add(TupleGetItem(called, 0), TupleGetItem(called, 2)), f=f)
    after = passes.RemoveUnusedOutputs()(before)
    assert calls(after, "f") == {"exp": 1, "add": 1}
    same(before, after)
    whole = module([x], called, f=f)
    assert passes.RemoveUnusedOutputs()(whole) is whole


def test_expand_tuple_arguments() -> None:
    x, y = var("x", 3), var("y", 3)
    pair = Var("pair", TupleType((x.type, y.type)))
    f = private([pair], op.subtract(TupleGetItem(pair, 0), TupleGetItem(pair, 1)))
    before = module([x, y], call_function(GlobalVar("f"), [Tuple((x, y))], x.type), f=f)
    after = passes.ExpandTupleArguments()(before)
    assert [p.name for p in after["f"].params] == ["pair_0", "pair_1"]
    same(before, after)


def test_lambda_lift() -> None:
    x, y = var("x", 3), var("y", 3)
    before = module([x], call_function(Function((y,), op.add(y, x)), [op.exp(x)], x.type))
    after = passes.LambdaLift()(before)
    assert len(after.functions) == 2
    same(before, after)


def test_views_leave_a_module_alone() -> None:
    mod = network()
    for made in (
        passes.ConvertToDataflow(),
        passes.ToNonDataflow(),
        passes.TopologicalSort(),
        passes.RemovePurityChecking(),
        passes.RewriteDataflowReshape(),
    ):
        assert made(mod) is mod


# ----------------------------------------------------------------------------- other compilers


def test_patterns_by_relax_names() -> None:
    pattern = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    before = network()
    after = passes.FuseOpsByPattern([("acc.add_relu", pattern)], annotate_codegen=True)(before)
    found = [f for f in after.functions.values() if f.attrs.get("Codegen") == "acc"]
    assert len(found) == 1
    same(before, after)
    with pytest.raises(CompileError, match="for the compiler 'acc', which has no code generator"):
        passes.RunCodegen()(after)
    assert passes.RunCodegen()(before) is before
    with pytest.raises(TypeMismatch, match=r"nearest: nn\.relu"):
        is_op("relax.nn.rellu")
    with pytest.raises(Unsupported, match="makes no single call"):
        is_op("relax.nn.dropout")


def test_merge_composite_functions() -> None:
    x = var("x", 3)
    before = module([x], op.exp(op.abs(op.sin(x))))
    table = [("acc.exp", is_op("relax.exp")(wildcard())), ("acc.abs", is_op("abs")(wildcard()))]
    after = passes.MergeCompositeFunctions()(passes.FuseOpsByPattern(table)(before))
    owned = [f for f in after.functions.values() if f.attrs.get("Codegen") == "acc"]
    assert len(owned) == 1
    assert calls(after)["sin"] == 1
    same(before, after)


def test_call_is_a_call() -> None:
    made = op.invoke_closure(
        op.make_closure(Function((v := var("v", 2),), op.exp(v)), []), [var("x", 2)]
    )
    assert isinstance(made, Call)
    assert made.type is tensor_type((2,))
