"""Graph programs run by the oracle: several calls, tuples, branches, functions of the module."""

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import TupleType, tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import (
    Function,
    GlobalVar,
    If,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    call_tir,
    constant,
)  # fmt: skip
from smelt.te import create_prim_func
from smelt.topi import get_op, ops

from .cases import SIZES, close, data

n, m = SIZES["n"], SIZES["m"]


def test_every_operator_has_an_implementation_in_numpy() -> None:
    own = {name: op for name, op in ops().items() if not op.user_defined}
    for name, op in own.items():
        assert op.__doc__, name
        assert op.meaning is not None, name


def test_a_graph_with_constants_and_several_results() -> None:
    x = Var("x", tensor_type((n, 4)))
    y = call("matmul", x, constant(data((4, 3)), "w"))
    z = call("relu", y)
    found = interpret(Function((x,), Tuple((z, y))), data((2, 4)))
    np.testing.assert_allclose(found[1], data((2, 4)) @ data((4, 3)), rtol=1e-6)
    np.testing.assert_array_equal(found[0], np.maximum(found[1], 0))


def test_one_result_of_several() -> None:
    x = Var("x", tensor_type((5,)))
    best = call("topk", x, k=2)
    assert isinstance(best.type, TupleType)
    (where,) = interpret(Function((x,), TupleGetItem(best, 1)), np.array([3, 9, 1, 7, 5], "f"))
    assert where.tolist() == [1, 3]


def test_attributes_are_evaluated_for_the_sizes_at_hand() -> None:
    x = Var("x", tensor_type((n, m)))
    y = call("reshape", x, shape=(n * m // 2, 2))
    assert interpret(Function((x,), y), data((3, 4)))[0].shape == (6, 2)
    z = Var("z", tensor_type((n, 6)))
    f = Function((z,), call("reshape", z, shape=(n, m, 2)))
    with pytest.raises(TypeMismatch, match="the inputs do not tell the size m"):
        interpret(f, data((3, 6)))


def test_branches_see_what_is_outside() -> None:
    c, x = Var("c", tensor_type((), "bool")), Var("x", tensor_type((3,)))
    y = call("exp", x)
    branch = If(c, Function((), call("relu", y)), Function((), call("negative", y)), y.type)
    f = Function((c, x), branch)
    for truth in (True, False):
        (found,) = interpret(f, np.array(truth), data((3,)))
        want = np.exp(data((3,)))
        np.testing.assert_array_equal(found, want if truth else -want)


def test_functions_of_the_module() -> None:
    x = Var("x", tensor_type((n, 4)))
    program = get_op("relu").instance([x.type], {})  # type: ignore[list-item]
    inputs = [t for t in program.inputs if t is not None]
    func = create_prim_func([*inputs, *program.outputs], "relu")
    y = call_tir(GlobalVar("relu"), [call("negative", x)], x.type)
    module = IRModule({"relu": func, "main": Function((x,), y)})
    (found,) = interpret(module["main"], data((2, 4)), module=module)
    np.testing.assert_array_equal(found, np.maximum(-data((2, 4)), 0))
    with pytest.raises(TypeMismatch, match="relu is called, but no module is given"):
        interpret(module["main"], data((2, 4)))


def test_long_chains_do_not_recurse() -> None:
    x = Var("x", tensor_type((2,)))
    y: RelaxExpr = x
    for _ in range(5000):
        y = call("add", y, constant(np.ones(2, np.float32)))
    (found,) = interpret(Function((x,), y), np.zeros(2, np.float32))
    assert found.tolist() == [5000, 5000]


def test_a_bottleneck_of_a_network() -> None:
    x = Var("x", tensor_type((n, 4, 6, 6)))
    y = call("conv2d", x, constant(data((4, 4, 3, 3))), pads=(1, 1, 1, 1))
    y = call("batch_norm", y, *[constant(data((4,), low=0.5)) for _ in range(4)])
    y = call("relu", call("add", y, x))
    y = call("mean", call("max_pool", y, kernel=(2, 2), strides=(2, 2)), axes=(2, 3))
    y = call("softmax", call("reshape", y, shape=(n, 4)))
    (found,) = interpret(Function((x,), y), data((2, 4, 6, 6)))
    close(found.sum(1), np.ones(2, np.float32))


def test_tuples_can_be_inputs() -> None:
    x = Var("x", TupleType((tensor_type((2,)),)))
    a = data((2,))
    (found,) = interpret(Function((x,), TupleGetItem(x, 0)), (a,))
    close(found, a)
