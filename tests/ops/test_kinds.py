"""What fusion may do with an operator, and the form its tensor expression takes."""

from typing import Any

import numpy as np
import pytest

from smelt.te.tensor import ComputeOp, topological
from smelt.tir.nodes import BufferLoad, Reduce
from smelt.tir.printer import script
from smelt.topi import get_op, ops

from .cases import Case, data

X = data((2, 3, 4, 5))
KINDS: list[tuple[str, Case]] = [
    ("elementwise", Case("relu", X)),
    ("elementwise", Case("gelu", X)),
    ("elementwise", Case("cast", X, dtype="int32")),
    ("elementwise", Case("add", X, X)),
    ("elementwise", Case("where", data((2, 3), "bool"), data((2, 3)), data((2, 3)))),
    ("elementwise", Case("reshape", X, shape=(2, 3, 4, 5))),
    ("broadcast", Case("add", X, data((5,)))),
    ("broadcast", Case("add", X, data((3, 1, 1)))),
    ("broadcast", Case("batch_norm", X, *[data((3,))] * 4)),
    ("broadcast", Case("prelu", X, data((3, 1, 1)))),
    ("broadcast", Case("broadcast_to", data((3, 1)), shape=(2, 3, 4))),
    ("injective", Case("transpose", X, axes=(0, 2, 3, 1))),
    ("injective", Case("reshape", X, shape=(6, 20))),
    ("injective", Case("concat", X, X, axis=1)),
    ("injective", Case("strided_slice", X, axes=(1,), begin=(1,), end=(3,))),
    ("injective", Case("pad", X, pads=(0, 0, 1, 1, 0, 0, 1, 1))),
    ("injective", Case("gather", X, data((2,), "int64", 0, 1))),
    ("injective", Case("resize", X, sizes=(2, 3, 8, 10))),
    ("contraction", Case("matmul", X, data((5, 6)))),
    ("contraction", Case("matmul", X, data((2, 3, 5, 6)))),
    ("contraction", Case("conv2d", X, data((4, 3, 3, 3)), pads=(1, 1, 1, 1))),
    ("contraction", Case("conv2d", X, data((3, 1, 3, 3)), groups=3)),
    ("contraction", Case("conv_transpose", X, data((3, 2, 3, 3)), strides=(2, 2))),
    ("reduce", Case("mean", X, axes=(2, 3))),
    ("reduce", Case("max_pool", X, kernel=(2, 2), pads=(1, 1, 0, 0))),
    ("reduce", Case("avg_pool", X, kernel=(2, 2), pads=(1, 1, 0, 0))),
    ("reduce", Case("argmax", X, axis=1)),
    ("opaque", Case("softmax", X)),
    ("opaque", Case("layer_norm", X, data((5,)), None)),
    ("opaque", Case("attention", X, X, X, None, scale=0.5)),
    ("opaque", Case("topk", X, k=2)),
    ("injective", Case("dilate", X, strides=(1, 1, 2, 2))),
    ("reduce", Case("adaptive_avg_pool", X, size=(3, 2))),
    ("reduce", Case("adaptive_max_pool", X, size=(3, 2))),
    ("contraction", Case("conv_backward_weight", data((2, 6, 3, 4)), X, kernel=(2, 2))),
    ("reduce", Case("dilation2d", X, data((3, 2, 2)), pads=(1, 0, 0, 1))),
    ("opaque", Case("max_pool_grad", data((2, 3, 3, 4)), X, kernel=(2, 2))),
    ("opaque", Case("grid_sample", X, data((2, 3, 3, 2)))),
    ("opaque", Case("roi_align", X, data((4, 5)), size=(2, 2))),
    ("opaque", Case("get_valid_counts", data((2, 3, 6)))),
    (
        "opaque",
        Case(
            "scatter_elements", data((2, 3)), data((2, 3), "int64"), data((2, 3)), reduction="add"
        ),
    ),
    ("opaque", Case("cumsum", X, axis=1)),
    ("opaque", Case("sort", X)),
    ("reduce", Case("lrn", X, size=3)),
]


@pytest.mark.parametrize(("kind", "case"), KINDS, ids=[repr(c) for _, c in KINDS])
def test_kind(kind: str, case: Case) -> None:
    assert case.kind == kind


def stages(case: Case) -> list[ComputeOp]:
    instance = get_op(case.name).instance(case.types, get_op(case.name).normalize(case.attrs))
    return [o for o in topological(instance.outputs) if isinstance(o, ComputeOp)]


def loads(e: Any) -> list[BufferLoad]:
    if isinstance(e, BufferLoad):
        return [e]
    children = e.sources if isinstance(e, Reduce) else e.children()
    return [x for c in children for x in loads(c)]


def test_a_convolution_is_a_pad_and_one_reduction() -> None:
    w = data((4, 3, 3, 3))
    padded = stages(Case("conv2d", X, w, pads=(1, 1, 1, 1)))
    assert [s.name for s in padded] == ["pad", "conv"]
    assert [a.var.name for a in padded[1].reduce_axis] == ["kh", "kw", "ic"]
    assert [s.name for s in stages(Case("conv2d", X, w))] == ["conv"]


def test_a_depthwise_convolution_has_no_input_channel() -> None:
    (conv,) = stages(Case("conv2d", X, data((3, 1, 3, 3)), groups=3))
    assert [a.var.name for a in conv.reduce_axis] == ["kh", "kw"]
    assert loads(conv.body[0])[0].indices[1] is conv.axis[1].var


def test_the_second_operand_of_matmul_is_read_without_the_batch() -> None:
    (stage,) = stages(Case("matmul", X, data((5, 6)), symbolic={0: {0: "n", 2: "m"}}))
    a, b = loads(stage.body[0])
    *point, j = [v.var for v in stage.axis]
    k = stage.reduce_axis[0].var
    assert a.indices == (*point, k)
    assert b.indices == (k, j)


def test_splitting_a_dimension_leaves_the_others_alone() -> None:
    (stage,) = stages(Case("reshape", data((2, 6, 8)), shape=(2, 6, 2, 4)))
    index = loads(stage.body[0])[0].indices
    assert index[:2] == tuple([v.var for v in stage.axis[:2]])


def test_narrow_floats_are_summed_in_float32() -> None:
    total, narrow = stages(Case("matmul", data((3, 4), "float16"), data((4, 5), "float16")))
    assert (total.outputs[0].dtype, narrow.outputs[0].dtype) == ("float32", "float16")


@pytest.mark.parametrize(
    ("name", "size", "attrs"),
    [
        ("conv2d", "n", {"pads": (1, 1, 1, 1)}),
        ("conv2d", "(n + 1) // 2", {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
        ("conv2d", "n - 2", {}),
        ("pad", "n + 5", {"pads": (0, 0, 2, 0, 0, 0, 3, 0)}),
    ],
)
def test_symbolic_extents_are_simple(name: str, size: str, attrs: dict[str, Any]) -> None:
    operands = [data((1, 4, 9, 8)), *([data((4, 4, 3, 3))] if name == "conv2d" else [])]
    for stage in stages(Case(name, *operands, symbolic={0: {2: "n"}}, **attrs)):
        assert "pad" in stage.name or script(stage.outputs[0].shape[2]).strip() == size


N = data((3,))
BY_ELEMENT = [
    Case("relu", X), Case("cast", X, dtype="int32"), Case("add", X, data((5,))),
    Case("prelu", X, data((3, 1, 1))), Case("where", data((2, 3), "bool"), data((3,)), data(())),
]  # fmt: skip
NOT_BY_ELEMENT = [
    Case("trilu", X), Case("transpose", X), Case("batch_norm", X, N, N, N, N), Case("softmax", X),
    Case("reshape", X, shape=(2, 3, 4, 5)), Case("resize", X, sizes=(2, 3, 4, 5), mode="nearest"),
    Case("depth_to_space", X, block=1), Case("cumsum", X, axis=0),
    Case("matmul", X, data((5, 6))), Case("arange", count=3),
]  # fmt: skip


@pytest.mark.parametrize("case", [*BY_ELEMENT, *NOT_BY_ELEMENT], ids=lambda c: c.name)
def test_what_depends_on_elements_at_one_place_alone(case: Case) -> None:
    found = get_op(case.name).instance(case.types, case.attrs).by_element
    assert found == (case in BY_ELEMENT)


def test_what_is_computed_row_by_row() -> None:
    rows = [Case("softmax", X), Case("softmax", X, axis=1), Case("layer_norm", X, data((5,)), None)]
    other = [Case("attention", X, X, X, None, scale=0.5), Case("instance_norm", X, N, N),
             Case("mean", X, axes=(3,)), Case("topk", X, k=2)]  # fmt: skip
    for c in (*rows, *other):
        assert get_op(c.name).instance(c.types, c.attrs).by_row == (c in rows), c.name


def test_commutative_operators_give_the_same_either_way() -> None:
    found = [op for op in ops().values() if op.commutative]
    assert {"add", "maximum", "logical_xor", "bitwise_and"} <= {op.name for op in found}
    for op in found:
        kind = "bool" if op.name.startswith("logical") else "int32"
        a, b = data((4, 5), kind, 0, 1), data((4, 5), kind, 0, 1)[::-1]
        assert op.meaning is not None
        assert np.array_equal(op.meaning(a, b), op.meaning(b, a)), op.name
