"""Operators of another name space: dotted names, a tuple as the only operand."""

from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.types import TupleType, tensor_type
from smelt.relax.dpl import dominates, is_constant, is_op, is_tuple, is_tuple_get_item, wildcard
from smelt.relax.nodes import Call, Constant, Function, Tuple, TupleGetItem, call, values
from smelt.relax.transform import (
    annotate_target,
    merge_compiler_regions,
    merge_composite,
    partition_graph,
    register_op_predicate,
)
from smelt.topi import get_op
from smelt.topi.registry import Op
from tests.transform.graphs import const, var

CONV = Op(get_op("conv2d").fn, "nn.conv2d", None)
RELU = Op(get_op("relu").fn, "nn.relu", None)


class Foreign:
    """An operator that is no smelt.topi operator, and knows its own attributes."""

    def __init__(self, name: str, kind: int) -> None:
        self.name, self.kind = name, kind

    def get_attr(self, name: str) -> int | None:
        return self.kind if name == "TOpPattern" else None


def concatenate(*items: Any) -> Call:
    """All of one type, side by side."""
    op: Any = Foreign("concatenate", 2)
    first = items[0].type.fixed_shape()
    t = tensor_type((first[0], sum(i.type.fixed_shape()[1] for i in items), *first[2:]))
    return Call(op, (Tuple(items),), {"axis": 1}, t)


def norm(x: Any) -> Call:
    """Three results."""
    op: Any = Foreign("nn.batch_norm", 8)
    c = tensor_type((x.type.fixed_shape()[1],))
    return Call(op, (x,), {"epsilon": 1e-5}, TupleType((x.type, c, c)))


def network() -> IRModule:
    """Two branches of conv, batch_norm, relu, side by side."""
    x = var("x", 1, 3, 5, 5)
    branches = []
    for _ in range(2):
        y = TupleGetItem(norm(call(CONV, x, const(4, 3, 3, 3))), 0)
        branches.append(call(RELU, y))
    return IRModule({"main": Function((x,), concatenate(*branches))})


def test_names_of_matches() -> None:
    f = network()["main"]
    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    bn = is_tuple_get_item(is_op("nn.batch_norm")(conv), 0)
    g = is_op("nn.relu")(bn).partition(f)
    names = [n.attrs["PartitionedFromPattern"] for n in values(g)
             if isinstance(n, Function) and n is not g]  # fmt: skip
    assert names == ["nn.conv2d_nn.batch_norm_TupleGetItem0_nn.relu_"] * 2
    beside = is_op("concatenate")(is_tuple(None))
    whole = beside.partition(f)
    assert whole.body.op.attrs["PartitionedFromPattern"] == "Tuple_concatenate_"
    assert len(whole.body.args) == 2
    assert beside.has_attr({"axis": 1}).match(f.body)
    injective = wildcard().has_attr({"TOpPattern": 2})(wildcard())
    assert injective.match(f.body)
    assert not wildcard().has_attr({"TOpPattern": 0})(wildcard()).match(f.body)
    relu = is_op("nn.relu")(wildcard())
    assert not dominates(relu, wildcard(), injective).extract_matched_expr(f.body.args[0])
    assert dominates(relu, wildcard(), injective).match(f.body)


def test_partition() -> None:
    for name in ("nn.relu", "concatenate", "nn.batch_norm"):
        register_op_predicate("other", name, lambda n: True)
    table = [("other.conv", is_op("nn.conv2d")(wildcard(), is_constant()))]
    merged = merge_composite(network(), table)
    marked = annotate_target(merged, "other")
    ends = [n for n in values(marked["main"].body) if isinstance(n, Call)
            and getattr(n.op, "name", "") == "annotation.compiler_end"]  # fmt: skip
    assert not [n for n in ends if isinstance(n.type, TupleType)]  # marks stand on tensors
    after = partition_graph(merge_compiler_regions(marked))
    assert list(after) == ["main", "tvmgen_default_other_main_0"]
    f = after["tvmgen_default_other_main_0"]
    assert [p.name for p in f.params] == ["other_0_i0"]
    assert isinstance(f.body.args[0], Tuple)
    assert len([n for n in values(f) if isinstance(n, Constant)]) == 2
    alone = partition_graph(annotate_target(merged, "other", include_non_call_ops=False))
    compilers = [n for n in alone if n != "main"]
    assert len(compilers) == 5  # two composites, two relus, the concatenation
