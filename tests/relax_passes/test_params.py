"""Passes about parameters and weights."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import TupleType
from smelt.relax import op
from smelt.relax import transform as passes
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Constant, Function
from smelt.relax.verify import verify

from .support import array, calls, module, var


def test_bind_params() -> None:
    x, w = var("x", 2, 3), var("w", 3, 3)
    mod, value = module([x, w], op.matmul(x, w)), array(3, 3)
    after = passes.BindParams("main", {"w": value})(mod)
    assert [p.name for p in after["main"].params] == ["x"]
    assert isinstance(after["main"].body.args[1], Constant)
    a = array(2, 3)
    np.testing.assert_allclose(interpret(after["main"], a)[0], a @ value, rtol=1e-6)
    with pytest.raises(TypeMismatch, match="no parameter 'v'"):
        passes.BindParams("main", {"v": value})(mod)
    with pytest.raises(TypeMismatch, match=r"the value of w is float32\[2, 3\]"):
        passes.BindParams("main", {"w": a})(mod)
    with pytest.raises(TypeMismatch, match="no graph function 'man'; nearest: main"):
        passes.BindParams("man", {})(mod)


def test_bind_symbolic_vars() -> None:
    n = SizeVar("n")
    x = var("x", n, 3)
    mod = module([x], op.reshape(op.broadcast_to(op.sum(x, 0), (n, 3)), (n * 3,)))
    after = passes.BindSymbolicVars({"n": 4})(mod)
    verify(after)
    assert after["main"].params[0].type.fixed_shape() == (4, 3)
    assert after["main"].body.type.fixed_shape() == (12,)
    a = array(4, 3)
    np.testing.assert_allclose(
        interpret(after["main"], a)[0], interpret(mod["main"], a)[0], rtol=1e-6
    )
    with pytest.raises(TypeMismatch, match="no size is named m"):
        passes.BindSymbolicVars({"m": 4})(mod)


def weights() -> IRModule:
    x, w, b = var("x", 2, 3), var("w", 4, 3), var("b", 4)
    y = op.add(op.matmul(x, op.permute_dims(w)), op.multiply(b, 2.0))
    f = Function((x, w, b), op.add(y, b), {"num_input": 1})
    return IRModule({"main": f})


def test_lift_transform_params() -> None:
    before = weights()
    after = passes.LiftTransformParams()(before)
    assert list(after) == ["main", "main_transform_params"]
    assert calls(after) == {"matmul": 1, "add": 2}
    assert calls(after, "main_transform_params") == {"transpose": 1, "multiply": 1}
    x, w, b = array(2, 3), array(4, 3), array(4)
    ready = interpret(after["main_transform_params"], w, b)
    np.testing.assert_allclose(
        interpret(after["main"], x, *ready)[0], interpret(before["main"], x, w, b)[0], rtol=1e-5
    )
    with pytest.raises(TypeMismatch, match="shared_transform=True is not supported"):
        passes.LiftTransformParams(shared_transform=True)


def test_bundle_model_params() -> None:
    before = weights()
    after = passes.BundleModelParams("all")(before)
    assert [p.name for p in after["main"].params] == ["x", "all"]
    assert isinstance(after["main"].params[1].type, TupleType)
    x, w, b = array(2, 3), array(4, 3), array(4)
    np.testing.assert_allclose(
        interpret(after["main"], x, (w, b))[0], interpret(before["main"], x, w, b)[0], rtol=1e-6
    )
    strange = IRModule({"main": before["main"].with_attr("num_input", 9)})
    with pytest.raises(TypeMismatch, match="num_input=9 has to say how many of the 3"):
        passes.BundleModelParams()(strange)


def test_update_param_type() -> None:
    x = var("x", 3)
    mod = module([x], op.exp(x))
    half = x.type.replace(dtype="float16")
    after = passes.UpdateParamType(lambda p: half)(mod)
    assert after["main"].params[0].type is half
    assert calls(after) == {"cast": 1, "exp": 1}
    a = array(3).astype("float16")
    np.testing.assert_allclose(
        interpret(after["main"], a)[0], np.exp(a.astype("float32")), rtol=1e-6
    )
    with pytest.raises(TypeMismatch, match="a tensor of the same shape is legal"):
        passes.UpdateParamType(lambda p: var("y", 4).type)(mod)
