"""BlockBuilder, classes by their Relax names, visitors and mutators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import relax, te, topi
from smelt.ir.types import TensorType
from smelt.relax.expr_functor import PyExprMutator, PyExprVisitor
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call
from smelt.script import parse
from smelt.script import relax as R

TEXT = """\
    @R.function
    def main(
        x: R.Tensor((n, 4), "float32"),
        y: R.Tensor((n, 4), "float32"),
    ) -> R.Tuple(R.Tensor((n, 4), "float32"), R.Tensor((n, 4), "float32")):
        R.func_attr({"num_input": 1})
        v0 = R.add(x, y)
        v1 = R.call_tir(product, (v0, y), R.Tensor((n, 4), "float32"))
        v2 = R.call_tir(relu, (v1,), R.Tensor((n, 4), "float32"))
        v3: R.Tensor((n, 4), "float32") = cls.negate(v2)
        return v2, v3
"""


def built() -> tuple[Any, Any, Any]:
    n = R.Tensor(("n", 4), "float32").as_type().shape[0]
    x = relax.Var("x", relax.TensorStructInfo((n, 4), "float32"))
    y = relax.Var("y", relax.TensorStructInfo((n, 4), "float32"))
    m = relax.Var("m", R.Tensor(("m", 4), "float32"))
    bb = relax.BlockBuilder()
    negate = bb.add_func(relax.Function([m], -m), "negate")

    def product(a: Any, b: Any) -> Any:
        return te.compute(a.shape, lambda i, j: a[i, j] * b[i, j], "product")

    with bb.function("main", [x, y], attrs={"num_input": 1}):
        with bb.dataflow():
            assert bb.current_block_is_dataflow()
            assert relax.BlockBuilder.current() is bb
            total = bb.emit(x + y, "total")
            lv = bb.emit_te(product, total, y)
            gv = bb.emit_output(bb.call_te(topi.relu, lv))
        out = bb.emit(negate(gv))
        bb.emit_func_output(relax.Tuple([gv, out]))
    return bb.finalize(), total, out


def test_a_function_step_by_step() -> None:
    mod, total, out = built()
    assert list(mod.functions) == ["negate", "product", "relu", "main"]
    text = mod.script()
    assert text[text.index("    @R.function\n    def main") :] == TEXT
    relax.assert_structural_equal(parse(text), mod)
    assert relax.analysis.well_formed(mod)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    a, b = interpret(mod["main"], x, x + 1, module=mod)
    want = np.maximum((x + x + 1) * (x + 1), 0)
    np.testing.assert_allclose(a, want, rtol=1e-6)
    np.testing.assert_allclose(b, -want, rtol=1e-6)
    assert total.name == "total"
    assert out.struct_info is mod["main"].params[0].struct_info


def test_the_module_while_it_is_built() -> None:
    mod, *_ = built()
    bb = relax.BlockBuilder(mod)
    negate = mod["negate"]
    assert bb.add_func(negate, "other").name == "negate"
    copy = relax.Function(negate.params, negate.body, attrs={"copy": True})
    added = bb.add_func(copy, "negate")
    assert added.name == "negate_1"
    bb.update_func(added, negate)
    assert bb.get()["negate_1"] is negate
    assert "negate_1" not in mod
    with bb.function("late"):
        x = relax.Var("x", R.Tensor((2,), "float32"))
        assert [bb.get_unique_name("lv") for _ in range(3)] == ["lv", "lv_1", "lv_2"]
        bb.begin_scope()
        assert not bb.current_block_is_dataflow()
        bb.end_scope()
        made = bb.match_cast(x, R.Tensor(("k",), "float32"))
        assert bb.lookup_binding(made) is made
        assert bb.lookup_binding(x) is None
        bb.emit_func_output(made, [x])
    assert isinstance(bb.get()["late"].body, relax.MatchCast)


def test_classes() -> None:
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    assert isinstance(x, relax.Var)
    assert isinstance(x, relax.DataflowVar)
    assert isinstance(x, relax.Expr)
    assert not isinstance(x, relax.Constant)
    call = relax.Call("add", [x, 1.0])
    assert isinstance(call, relax.Call)
    assert isinstance(call.struct_info, relax.TensorStructInfo)
    assert relax.get_shape_of(call) == (2, 3)
    assert relax.ShapeExpr([2, 3]).values[1].value == 3
    pair = relax.Tuple([x, call])
    assert isinstance(pair.struct_info, relax.TupleStructInfo)
    assert relax.TupleGetItem(pair, 1).struct_info is call.struct_info
    f = relax.Function([x], call, ret_struct_info=x.struct_info)
    kind = relax.FuncStructInfo([x.struct_info], x.struct_info)
    assert f.struct_info is kind
    assert relax.Call(f, [x]).struct_info is x.struct_info
    assert isinstance(relax.Var("o").type, relax.ObjectStructInfo)
    assert relax.const(1.0).struct_info is relax.PrimStructInfo("float32")
    c = relax.const(True)
    branch = relax.If(c, x, call)
    assert branch.struct_info is x.struct_info
    assert relax.PrimValue(3).value == 3
    open_ = relax.TensorStructInfo(dtype="int8", ndim=2)
    assert isinstance(open_, TensorType)
    assert open_.rank == 2


def test_bindings_are_a_view() -> None:
    mod, *_ = built()
    body = relax.SeqExpr(mod["main"].body)
    (block,) = body.blocks
    assert [b.var.name_hint for b in block.bindings] == ["v0", "v1", "v2", "v3"]
    assert block.bindings[0].value.callee == "add"
    assert body.body is mod["main"].body
    text = (
        '@R.function\ndef main(x: R.Tensor((2,), "float32")):\n  y = R.let(R.relu(x))\n  return y'
    )
    f: Any = parse(text)
    named = relax.SeqExpr(f.body)
    assert [b.var.name_hint for b in named.blocks[0].bindings] == ["v0", "y"]


def test_visitors_and_mutators() -> None:
    mod, *_ = built()

    @relax.expr_functor.visitor
    class Names(PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def visit_call_(self, call: Any) -> Any:
            super().visit_call_(call)
            self.found.append(call.callee)

        def visit_var_(self, var: Any) -> Any:
            self.found.append(var.name)

    names = Names()
    names.visit_expr(mod["main"])
    assert sorted(names.found) == ["add", "negate", "product", "relu", "x", "y"]

    @relax.expr_functor.mutator
    class Subtract(PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            new = super().visit_call_(call)
            return new.args[0] - new.args[1] if new.callee == "add" else new

    changed = Subtract().visit_expr(mod["main"])
    assert changed.script() == mod["main"].script().replace("R.add", "R.subtract")
    assert Subtract().visit_expr(mod["negate"]) is mod["negate"]


def test_analysis() -> None:
    mod, total, _ = built()
    f = mod["main"]
    a = relax.analysis
    x, y = f.params
    assert sorted(g.name for g in a.all_global_vars(f)) == ["negate", "product", "relu"]
    assert a.all_vars(f) == [x, y]
    assert a.bound_vars(f) == [x, y]
    assert a.free_vars(total) == [x, y]
    users = a.udchain(f)
    assert users[x] == [total]
    assert len(users[y]) == 2
    assert not a.contains_impure_call(f)
    n = x.type.shape[0]
    assert a.tir_vars_in_struct_info(x.type) == [n]
    twice = relax.TensorStructInfo((n * 2,), "float32")
    assert a.definable_tir_vars_in_struct_info(relax.TupleStructInfo([twice, x.type])) == [n]
    assert a.free_symbolic_vars(f) == []
    weights = relax.Function(f.params, relax.Tuple([y + y, x + y]), attrs={"num_input": 1})
    (found,) = a.computable_at_compile_time(weights)
    assert isinstance(found, Call)
    assert found.args == (y, y)
    assert not a.well_formed(relax.Function([x], y))


def test_names_that_nothing_uses() -> None:
    text = """
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = R.let(R.relu(x))
    b = R.let(R.exp(a))
    c = R.let(R.tanh(x))
    return c
"""
    f: Any = parse(text)
    found: dict[Any, Any] = relax.analysis.get_var2val(f)
    assert {v.name: e.callee for v, e in found.items()} == {"a": "relu", "b": "exp", "c": "tanh"}
    assert list(relax.analysis.name_to_binding(f)) == ["c", "b", "a"]
    left = relax.analysis.remove_all_unused(f)
    assert [v.name for v in relax.analysis.get_var2val(left)] == ["c"]
    assert relax.analysis.remove_all_unused(left) is left


N = R.Tensor(("n",), "float32").as_type().shape[0]
CHECKS = [
    (((2, N), "float32"), ((2, N), "float32"), "PASS"),
    (((2, N), "float32"), ((2, N + 0), "float32"), "PASS"),
    (((2, N), "float32"), ((2, 7), "float32"), "FAIL_L2"),
    (((2, N), "float32"), ((3, N), "float32"), "FAIL_L1"),
    (((N, 2), "float32"), ((N + 1, 2), "float32"), "FAIL_L1"),
    (((2,), "float32"), ((2,), "int32"), "FAIL_L1"),
    (((2,), "float32"), ((2, 1), "float32"), "FAIL_L1"),
]


@pytest.mark.parametrize(("base", "derived", "result"), CHECKS)
def test_struct_info_base_check(base: Any, derived: Any, result: str) -> None:
    a, b = relax.TensorStructInfo(*base), relax.TensorStructInfo(*derived)
    check = relax.analysis.struct_info_base_check
    assert check(a, b).name == result
    assert check(relax.TupleStructInfo([a, a]), relax.TupleStructInfo([a, b])).name == result
    assert check(relax.ObjectStructInfo(), b).name == "PASS"
    assert check(a, relax.ObjectStructInfo()).name == "FAIL_L2"
    assert check(a, relax.TupleStructInfo([a])).name == "FAIL_L0"
