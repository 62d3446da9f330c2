"""The law of lifting: what a core program means in Relay's words is what it means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from smelt import relay
from smelt.frontend.source import import_model
from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.graph_op import GraphOp
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function, TupleGetItem, Var, call, constant, values
from smelt.relax.transform.expand_ops import expand_ops
from smelt.relax.verify import verify
from smelt.relay.lift import lift
from smelt.topi.registry import Op
from tests.models.test_networks import NETWORKS
from tests.ops.test_kinds import KINDS
from tests.relax_text.graphs import functions

from .support import Array, floats, ints, same

X = floats(2, 3, 4, 5)
W = floats(3, 3, 2, 2)
C = floats(3, low=0.5)
IDS = np.array([[1, -1], [0, 2]], "int64")
GOOD = constant(np.array([2, 0], "int64"))
PAIRS = np.array([[0, 1], [1, 2], [-1, 0]], "int64")

# (Relay's operators, the core's, operands, attributes): what a call becomes
LIFTED: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("take", "gather", (X, GOOD), {"axis": 2}),
    ("less add where take", "gather", (X, IDS), {"axis": 1}),
    ("take", "gather", (X, IDS), {"axis": -1, "mode": "clip"}),
    ("take", "gather", (X, IDS), {"mode": "wrap"}),
    ("gather", "gather_elements", (X, ints(2, 3, 1, 5, low=-4, high=4, dtype="int64")),
     {"axis": 2}),
    ("transpose gather_nd", "gather_nd", (X, PAIRS), {}),
    ("transpose scatter_nd", "scatter_nd", (X, PAIRS, floats(3, 4, 5)), {"reduction": "add"}),
    ("scatter_elements", "scatter_elements", (X[0, 0], IDS, X[0, 0, :2, :2]), {"axis": 1}),
    ("argmax cast", "argmax", (X,), {"axis": 1, "keepdims": False}),
    ("argmin cast", "argmin", (X,), {"axis": -1}),
    ("topk", "topk", (X,), {"k": 2, "largest": False}),
    ("sort", "sort", (X,), {"axis": 1, "descending": True}),
    ("argsort", "argsort", (X,), {"axis": 1}),
    ("less add where one_hot", "one_hot", (IDS,), {"depth": 4, "on_value": 5.0}),
    ("full", "full", (), {"shape": (2, 3), "value": 2.5}),
    ("arange", "arange", (), {"start": 3, "step": -2, "count": 4}),
    ("trilu", "trilu", (X,), {"k": -1, "upper": False}),
    ("cumsum", "cumsum", (X,), {"axis": 1, "exclusive": True}),
    ("smelt.cumsum", "cumsum", (X,), {"axis": 1, "reverse": True}),
    ("cumprod", "cumprod", (X,), {"axis": 3}),
    ("nn.softmax", "softmax", (X,), {"axis": 1}),
    ("nn.log_softmax", "log_softmax", (X,), {"axis": 1}),
    ("nn.pad", "pad", (X,), {"pads": (0, 0, 1, 2, 0, 0, 0, 1), "value": 2.0}),
    ("nn.pad", "pad", (X,), {"pads": (0, 0, 1, 2, 0, 0, 0, 1), "mode": "edge"}),
    ("nn.mirror_pad", "pad", (X,), {"pads": (0, 0, 1, 2, 0, 0, 0, 1), "mode": "symmetric"}),
    ("smelt.pad", "pad", (X,), {"pads": (0, 0, 1, 2, 0, 0, 0, 1), "mode": "wrap"}),
    ("image.resize2d", "resize", (X,), {"sizes": (2, 3, 8, 5), "mode": "linear"}),
    ("image.resize2d", "resize", (X,), {"sizes": (2, 3, 8, 5), "scales": (1.0, 1.0, 2.0, 1.0)}),
    ("smelt.resize", "resize", (X,), {"sizes": (2, 3, 9, 5), "scales": (1.0, 1.0, 2.4, 1.0)}),
    ("nn.conv2d", "conv2d", (X, W), {"pads": (1, 0, 1, 0), "strides": (2, 1)}),
    ("nn.conv1d", "conv1d", (X[0], floats(2, 4, 3)), {}),
    ("nn.conv2d_transpose", "conv_transpose", (X, W), {"strides": (2, 2)}),
    ("nn.conv1d_transpose", "conv_transpose", (X[0], floats(4, 2, 3)), {"groups": 2}),
    ("nn.max_pool2d", "max_pool", (X,), {"kernel": (2, 2), "pads": (1, 1, 0, 0)}),
    ("nn.avg_pool2d", "avg_pool", (X,), {"kernel": (2, 2), "strides": (2, 2)}),
    ("nn.adaptive_avg_pool2d", "adaptive_avg_pool", (X,), {"size": (3, 2)}),
    ("nn.global_avg_pool2d", "mean", (X,), {"axes": (2, 3)}),
    ("mean", "mean", (X,), {"axes": (1,), "keepdims": False}),
    ("nn.lrn", "lrn", (X,), {"size": 3}),
    ("nn.instance_norm", "instance_norm", (X, C, C), {}),
    ("nn.group_norm", "group_norm", (X, C, C), {"groups": 3}),
    ("nn.batch_norm", "batch_norm", (X, C, C, C, C), {}),
    ("nn.layer_norm", "layer_norm", (X, X[0, 0, 0], X[0, 0, 1]), {}),
    ("smelt.layer_norm", "layer_norm", (X, X[0, 0, 0], None), {}),
    ("reshape nn.prelu", "prelu", (X, C.reshape(3, 1, 1)), {}),
    ("nn.dense", "matmul", (X[0, 0], floats(7, 5)), {"transpose_b": True}),
    ("nn.batch_matmul", "matmul", (X[0], X[1]), {"transpose_b": True}),
    ("nn.matmul", "matmul", (X, floats(5, 3)), {}),
    ("nn.depth_to_space", "depth_to_space", (floats(1, 8, 2, 2),), {"block": 2, "mode": "CRD"}),
    ("nn.space_to_depth", "space_to_depth", (X[:, :, :, :4],), {"block": 2}),
    ("reverse", "flip", (X,), {"axes": (1,)}),
    ("smelt.flip", "flip", (X,), {"axes": (1, 2)}),
    ("strided_slice", "strided_slice", (X,),
     {"axes": (2, 3), "begin": (3, 1), "end": (-1, 4), "strides": (-2, 2)}),
    ("concatenate", "concat", (X, X), {"axis": 1}),
    ("tile", "tile", (X,), {"repeats": (1, 2, 1, 1)}),
    ("clip", "clip", (X,), {"min": -1.0, "max": 1.0}),
    ("smelt.clip", "clip", (X,), {"min": -1.0}),
    ("smelt.round", "round", (X,), {}),
    ("round", "round", (X,), {"mode": "away"}),
    ("isinf", "isinf", (X,), {}),
    ("smelt.gelu", "gelu", (X,), {}),
    ("nn.dilate", "dilate", (X,), {"strides": (1, 1, 2, 2)}),
    ("dft", "dft", (X, X), {}),
    ("smelt.dft", "dft", (X, X), {"axis": 1}),
]  # fmt: skip


def function_of(name: str, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Function:
    """A function of the operands that are arrays; constants stay."""
    args = [
        Var(f"x{n}", tensor_type(x.shape, dt.from_numpy(x.dtype)))
        if isinstance(x, np.ndarray)
        else x
        for n, x in enumerate(operands)
    ]
    made = call(name, *args, **attrs)
    return Function(tuple([a for a in args if isinstance(a, Var)]), made)


def lifted(f: Function) -> Function:
    """The function in Relay's words, checked."""
    mod = lift(IRModule({"main": f}))
    verify(mod)
    found = mod["main"]
    assert isinstance(found, Function)
    return found


def law(f: Function, *inputs: Array, limit: float = 0) -> Function:
    """interpret(expand_ops(lift(f))) == interpret(f); the lifted function."""
    made = lifted(f)
    back = expand_ops(IRModule({"main": made}))["main"]
    assert not any(isinstance(n, Call) and isinstance(n.op, GraphOp) for n in values(back.body))
    want = interpret(f, *inputs)
    for other in (made, back):
        for ours, theirs in zip(interpret(other, *inputs), want, strict=True):
            same(ours, theirs, limit)
    return made


def names(f: Function) -> str:
    """The operators in order."""
    calls = [n.op for n in values(f.body) if isinstance(n, Call)]
    return " ".join([relay.op.name_of(op) for op in calls if isinstance(op, Op)])


@pytest.mark.parametrize("case", LIFTED, ids=lambda c: f"{c[1]}-{c[0]}")
def test_calls_in_relays_words(case: tuple[str, str, tuple[Any, ...], dict[str, Any]]) -> None:
    want, name, operands, attrs = case
    made = law(function_of(name, operands, attrs), *[x for x in operands if type(x) is np.ndarray])
    assert names(made) == want


@pytest.mark.parametrize("case", [c for _, c in KINDS], ids=str)
def test_the_law_holds_for_calls_of_every_kind(case: Any) -> None:
    f = function_of(case.name, case.operands, case.attrs)
    law(f, *[x for x in case.operands if x is not None])


@pytest.mark.parametrize("name", NETWORKS)
def test_the_law_holds_for_networks(name: str) -> None:
    build, feeds = NETWORKS[name]
    f = import_model(build(2))["main"]
    given = feeds(2)
    law(f, *[given[p.name] for p in f.params])


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_unknown_batch_can_be_lifted(name: str) -> None:
    lifted(import_model(NETWORKS[name][0]("n"))["main"])


@given(functions())
@settings(max_examples=25, deadline=None)
def test_random_graphs_are_lifted_and_expanded(f: Function) -> None:
    back = expand_ops(lift(IRModule({"main": f})))["main"]
    assert not any(isinstance(n, Call) and isinstance(n.op, GraphOp) for n in values(back.body))
    assert back.body.type is f.body.type


def test_a_result_of_several_keeps_its_place() -> None:
    x = Var("x", tensor_type((3, 4)))
    made = law(Function((x,), TupleGetItem(call("topk", x, k=2), 1)), floats(3, 4))
    assert names(made) == "topk"
