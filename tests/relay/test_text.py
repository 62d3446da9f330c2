"""Relay's words for graph programs: texts and views."""

from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, If, TupleGetItem, Var, call, constant
from smelt.topi.registry import ops

from .support import says, small

MAIN = """\
fn (%x: Tensor[(1, 2, 4, 4), float32]) -> Tensor[(1, 3, 4, 4), float32] {
  %0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3])\
 /* ty=Tensor[(1, 3, 4, 4), float32] */;
  %1 = nn.bias_add(%0, meta[relay.Constant][1], axis=1) /* ty=Tensor[(1, 3, 4, 4), float32] */;
  %2 = nn.relu(%1) /* ty=Tensor[(1, 3, 4, 4), float32] */;
  multiply(%2, 2f) /* ty=Tensor[(1, 3, 4, 4), float32] */
}"""

FUSED = """\
fn (%x: Tensor[(1, 2, 4, 4), float32]) -> Tensor[(1, 3, 4, 4), float32] {
  %0 = fn (%p0: Tensor[(1, 2, 4, 4), float32], %p1: Tensor[(3, 2, 3, 3), float32], \
%p2: Tensor[(3, 1, 1), float32], Primitive=1) -> Tensor[(1, 3, 4, 4), float32] {
    %0 = nn.conv2d(%p0, %p1, padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3])\
 /* ty=Tensor[(1, 3, 4, 4), float32] */;
    %1 = nn.bias_add(%0, %p2, axis=1) /* ty=Tensor[(1, 3, 4, 4), float32] */;
    %2 = nn.relu(%1) /* ty=Tensor[(1, 3, 4, 4), float32] */;
    multiply(%2, 2f) /* ty=Tensor[(1, 3, 4, 4), float32] */
  } /* fused_conv2d_add_relu_multiply */;
  %0(%x, meta[relay.Constant][0], meta[relay.Constant][1])\
 /* ty=Tensor[(1, 3, 4, 4), float32] */
}"""

META = """
#[metadata]
meta[relay.Constant][0]: Tensor[(3, 2, 3, 3), float32]  /* "w" */
meta[relay.Constant][1]: Tensor[(3, 1, 1), float32]  /* "b" */
"""


def test_a_function() -> None:
    assert str(small()["main"]) == MAIN


def test_a_module() -> None:
    mod = small()
    assert str(mod) == MAIN.replace("fn (", "def @main(", 1) + "\n"
    assert mod.astext() == str(mod) + META
    assert mod.astext(show_meta_data=False) == str(mod)


def test_a_fused_function() -> None:
    assert str(relay.transform.FuseOps(2)(small())["main"]) == FUSED


def test_tuples_branches_and_symbolic_sizes() -> None:
    flag = Var("c", tensor_type((), "bool"))
    x = Var("x", tensor_type((SizeVar("n", "int64"), 6)))
    top = call("topk", call("concat", x, x, axis=0), k=2, axis=0)
    value = TupleGetItem(top, 0)
    yes, no = (Function((), call(op, value)) for op in ("exp", "gelu"))
    f = relay.Function((flag, x), If(flag, yes, no, value.type))
    assert str(f) == (
        "fn (%c: Tensor[(), bool], %x: Tensor[(n, 6), float32]) -> Tensor[(2, 6), float32] {\n"
        "  %0 = concatenate((%x, %x), axis=0) /* ty=Tensor[(n + n, 6), float32] */;\n"
        '  %1 = topk(%0, k=2, axis=0, ret_type="both", is_ascend=False, dtype="int64")'
        " /* ty=(Tensor[(2, 6), float32], Tensor[(2, 6), int64]) */;\n"
        "  %2 = %1.0 /* ty=Tensor[(2, 6), float32] */;\n"
        "  if (%c) {\n"
        "    exp(%2) /* ty=Tensor[(2, 6), float32] */\n"
        "  } else {\n"
        '    smelt.gelu(%2, approximate="none") /* ty=Tensor[(2, 6), float32] */\n'
        "  } /* ty=Tensor[(2, 6), float32] */\n"
        "}"
    )


def test_a_residual_of_one_pixel_is_no_bias() -> None:
    x = Var("x", tensor_type((1, 3, 1, 1)))
    w = constant(np.ones((3, 3, 1, 1), "float32"))
    total = call("add", call("conv2d", x, w), x)
    assert relay.view(total).op.name == "add"


def test_a_chain_of_ten_thousand_operators_prints() -> None:
    x = Var("x", tensor_type((2,)))
    e: Any = x
    for _ in range(10_000):
        e = call("relu", e)
    f = relay.Function((x,), e)
    assert len(str(f).splitlines()) == 10_002
    assert relay.analysis.count_ops(f) == {"nn.relu": 10_000}


def test_views() -> None:
    f = small()["main"]
    times = relay.view(f.body)
    assert isinstance(times, relay.Call)
    relu, two = times.args
    assert (str(times.op), repr(relu.op), relu.op.source) == ("multiply", "Op(nn.relu)", "relu")
    assert isinstance(two, relay.Constant)
    assert float(two.data) == 2
    conv = relu.args[0].args[0]
    assert conv.attrs.padding == conv.attrs["padding"] == (1, 1, 1, 1)
    assert dict(conv.attrs)["channels"] == 3
    assert conv.attrs.data_layout == "NCHW"
    assert conv.checked_type.fixed_shape() == (1, 3, 4, 4)
    assert conv.args[0] == relay.view(f.params[0])
    assert conv.args[0].name_hint == "x"
    assert str(relay.view(f.params[0])) == "%x"
    with pytest.raises(AttributeError) as caught:
        _ = relu.args[0].attrs.data_layout
    assert str(caught.value) == "nn.bias_add has no attribute 'data_layout'; attributes: axis"


def test_what_is_visited() -> None:
    seen: list[Any] = []
    f = small()["main"]
    relay.analysis.post_order_visit(f, seen.append)
    assert [type(n).__name__ for n in seen] == [
        "Var", "Op", "Op", "Op", "Op", "Constant", "Call", "Constant", "Call", "Call", "Constant",
        "Call", "Function",
    ]  # fmt: skip
    assert len(seen) == len(set(seen))
    fused = relay.transform.FuseOps(2)(small())["main"]
    assert sum(relay.analysis.count_ops(fused).values()) == 4
    with pytest.raises(TypeMismatch) as caught:
        relay.analysis.post_order_visit(small(), seen.append)
    says(caught, 'post_order_visit takes a function, e.g. mod["main"], not a module')


def test_variables() -> None:
    f = small()["main"]
    assert [v.name_hint for v in relay.analysis.all_vars(f)] == ["x"]
    assert relay.analysis.free_vars(f) == []
    assert [v.name_hint for v in relay.analysis.free_vars(relay.view(f.body))] == ["x"]
    assert str(relay.IRModule.from_expr(f.body)["main"]) == MAIN


def test_every_operator_has_a_name() -> None:
    names = relay.op.list_op_names()
    assert {"nn.conv2d", "nn.dense", "add", "smelt.gelu"} <= set(names)
    assert {relay.op.get(n).source for n in names} == set(ops())
    with pytest.raises(Unsupported) as caught:
        relay.op.get("nn.conv2")
    text = "relay has no operator 'nn.conv2'; nearest: nn.conv2d, nn.conv3d, nn.conv1d"
    says(caught, text)


def test_variables_and_constants_are_made() -> None:
    assert relay.var("x", shape=(2, 3), dtype="int8").checked_type == tensor_type((2, 3), "int8")
    assert relay.const(1.5).data.dtype == np.float32
    assert relay.const([1, 2]).data.dtype == np.int32
    assert relay.const(np.arange(2)).data.dtype == np.int64
    with pytest.raises(TypeMismatch) as caught:
        relay.var("x")
    says(caught, "relay.var('x'): give either a type or a shape")
