"""Operators of the core that are written as others, or in several ways: onnxruntime computes what
numpy does."""

from __future__ import annotations

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from smelt.ir.module import IRModule
from smelt.ir.types import TupleType
from smelt.relax.nodes import Function, RelaxExpr, Tuple, TupleGetItem, Var
from tests.ops.cases import Case, close, data

from .written import checked, evaluator, runtime


def ints(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


def bools(*shape: int) -> np.ndarray:
    return ints(*shape) > 0


X, IMAGE = data((3, 4, 5)), data((2, 4, 6, 7))
POSITIVE = np.abs(data((3, 5))) + np.float32(0.1)
HALVES = np.array([-2.5, -1.5, -0.5, 0.49999997, 0.5, 1.5, 2.4999998], np.float32)

CASES = [
    # elementwise
    *[Case(op, X) for op in ("silu", "square", "exp2", "trunc", "isfinite", "identity", "mish")],
    *[Case(op, POSITIVE) for op in ("rsqrt", "log2", "log10")],
    *[Case("round", HALVES, mode=mode) for mode in ("even", "up", "away")],
    *[Case(op, ints(40), np.where(ints(40) == 0, 3, ints(40))[::-1].copy())
      for op in ("floor_divide", "mod", "fmod")],
    *[Case(op, data((40,)), data((40,), low=0.3)) for op in ("floor_divide", "mod", "fmod")],
    *[Case(op, ints(30, low=-120, high=120, dtype=t), ints(30, low=-2, high=70, dtype=t))
      for op in ("left_shift", "right_shift") for t in ("int8", "int32", "int64")],
    Case("not_equal", X, X), Case("bitwise_and", bools(5), bools(5)), Case("bitwise_not", ints(9)),
    Case("clz", ints(9)), Case("clz", np.array([0, 1, 7, 8, -1, 2**31 - 1], "int32")),
    Case("clip", ints(9), min=-3.5, max=4.5), Case("clip", X, max=1.0), Case("any", bools(3, 4)),
    Case("all", bools(3, 4), axes=(1,), keepdims=False), Case("prelu", X, data((4, 1))),
    # reductions and order
    *[Case(op, X, axes=(0, 2), keepdims=k) for op in ("sum", "mean", "max", "prod", "reduce_l2",
      "reduce_log_sum_exp") for k in (True, False)],
    Case("reduce_sum_square", X, axes=()), Case("mean", IMAGE, axes=(2, 3)),
    Case("cumsum", ints(3, 4, dtype="int8"), axis=1, exclusive=True, reverse=True),
    Case("sort", X, axis=1, descending=True), Case("argsort", X, axis=-1, dtype="int32"),
    Case("topk", X, k=2, axis=1, largest=False),
    Case("searchsorted", np.sort(data((2, 9))), data((2, 4)), right=True),
    # moves
    Case("flip", X, axes=(0, 2)), Case("transpose", X, axes=(-1, 0, -2)),
    Case("strided_slice", X, axes=(0, 1), begin=(2, 3), end=(-1, 0), strides=(-1, -2)),
    *[Case("pad", X, pads=(1, 0, 2, 0, 2, 1), mode=m, value=1.5)
      for m in ("constant", "edge", "reflect", "symmetric", "wrap")],
    Case("pad", X, pads=(-1, 0, 2, 0, 1, -2), mode="edge"), Case("tile", X, repeats=(2, 1, 3)),
    Case("pad", X, pads=(-1, 0, 2, 0, 1, -2), value=2.0), Case("diagonal", IMAGE[:, :, :4, :4],
      axes=(1, -1)), Case("dilate", X, strides=(1, 3, 2), value=0.5),
    *[Case(op, data((2, 16, 4, 6)), block=2, mode=m)
      for op in ("depth_to_space", "space_to_depth") for m in ("DCR", "CRD")],
    *[Case("gather", X, ints(3, 2, low=-9, high=9), axis=1, mode=m) for m in ("clip", "wrap")],
    Case("gather_elements", X, ints(3, 2, 5, low=-4, high=4, dtype="int16"), axis=1),
    Case("gather_nd", X, ints(2, 2, low=0, high=3, dtype="uint8")),
    Case("one_hot", ints(4, low=0, high=5), depth=5, axis=0, on_value=2, off_value=1,
         dtype="int16"),
    Case("write_sequence", data((2, 3, 5, 4)), data((2, 3, 2, 4)), np.array([1, 4]), circular=True),
    Case("trilu", X, k=1), Case("eye", rows=3, columns=4, k=1), Case("arange", start=2.5, step=-0.5,
      count=5000, dtype="float32"), Case("full", shape=(90, 2), value=3, dtype="int8"),
    # networks
    Case("conv2d", IMAGE, data((6, 2, 3, 2)), groups=2, pads=(1, 0, 2, 1), strides=(2, 1)),
    Case("conv2d", ints(1, 4, 6, 6, dtype="int8"), ints(5, 4, 3, 3, dtype="int8"),
         out_dtype="int32"),
    Case("conv2d", ints(1, 4, 6, 5, low=0, dtype="uint8"), ints(6, 2, 3, 3, dtype="int8"),
         out_dtype="int32", groups=2, pads=(1, 0, 2, 1), strides=(2, 1), border=200),
    Case("conv_transpose", IMAGE, data((4, 3, 3, 3)), strides=(2, 2), output_padding=(1, 0)),
    Case("max_pool", data((1, 2, 6)), kernel=(2,), pads=(2, 0), dilations=(3,)),
    Case("avg_pool", IMAGE, kernel=(3, 2), pads=(1, 0, 1, 1), dilations=(2, 1)),
    *[Case(op, IMAGE, size=s) for op in ("adaptive_avg_pool", "adaptive_max_pool")
      for s in ((1, 1), (3, 7), (4, 3))],
    Case("matmul", data((2, 5, 3)), data((4, 5)), transpose_a=True, transpose_b=True),
    Case("matmul", ints(3, 5, dtype="int8"), ints(4, 5, dtype="int8"), transpose_b=True,
         out_dtype="int32"),
    *[Case("attention", data((2, 3, 4)), data((2, 5, 4)), data((2, 5, 6)), m, scale=0.5)
      for m in (None, data((3, 5)), np.array([True, True, False, True, False]))],
    Case("rms_norm", X, data((5,))), Case("layer_norm", X, data((4, 1)), data((5,)), axis=1),
    Case("group_norm", IMAGE, data((4,)), data((4,)), groups=2), Case("lp_norm", X, axis=1, p=1),
    Case("resize", IMAGE, sizes=(2, 4, 12, 9), mode="linear", coordinate_mode="align_corners"),
    Case("resize", IMAGE, sizes=(2, 4, 12, 21), scales=(1, 1, 2, 3), nearest_mode="floor",
         coordinate_mode="asymmetric"),
]  # fmt: skip


def written(case: Case) -> IRModule:
    value = case._call()
    result: RelaxExpr = value
    if isinstance(value.type, TupleType):
        result = Tuple(tuple([TupleGetItem(value, k) for k in range(len(value.type.items))]))
    return IRModule(
        {"main": Function(tuple([a for a in value.args if isinstance(a, Var)]), result)}
    )


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("opset", [21, 13])
def test_an_operator_computes_what_numpy_does(case: Case, opset: int) -> None:
    if opset < 21 and case.name in ("avg_pool", "bitwise_not", "trilu"):
        pytest.skip("comes with a later operator set")
    made = checked(written(case), opset)
    feeds = dict(zip([i.name for i in made.graph.input], case._given(), strict=True))
    try:
        run = runtime(made)
    except NotImplemented:
        run = evaluator(made)
    for got, want in zip(run(feeds), case.numpy(), strict=True):
        close(np.asarray(got), want, 1e-5)
