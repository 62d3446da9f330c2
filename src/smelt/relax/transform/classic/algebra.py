"""Passes that are laws of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass
from smelt.ir.types import Type
from smelt.relax.graph import transform
from smelt.relax.nodes import (
    Call,
    Constant,
    RelaxExpr,
    Var,
    call,
    constant,
    renewed_call,
    tensor_type_of,
)

from ..combine_parallel_matmul import combine_parallel_matmul
from ..engine import GraphRewriter
from ..fake_quantization import fake_quantization_to_integer
from ..fold_scale import PRODUCTS, scale_after_product
from ..match import dims, dtype_of, is_op
from ..rewriting import map_functions
from ..simplify import batch_norm as batch_norm_of_constants
from ..simplify_moves import (
    axes_of_transpose,
    no_move,
    reshape_reshape,
    transpose_into_matmul,
    transpose_transpose,
)
from .make import graph_function, named, ruled
from .params import retyped


def FuseTransposeMatmul() -> Pass:
    """matmul(x, w transposed)  =  matmul(x, w, transpose_b=True)"""
    return ruled("FuseTransposeMatmul", {"matmul": [transpose_into_matmul]})


def CombineParallelMatmul(check: Callable[..., bool] | None = None) -> Pass:
    """matmul(x, w1), matmul(x, w2)  =  parts of matmul(x, [w1 w2]), for constant matrices.

    check  None is legal: products are joined wherever they can be
    """
    if check is not None:
        raise TypeMismatch("CombineParallelMatmul: check is not supported; legal: None")
    return named("CombineParallelMatmul", combine_parallel_matmul)


def FoldBatchnormToConv2D() -> Pass:
    """batch_norm(conv2d(x, w))  =  conv2d(x, w * s) + b, for constant weights and statistics."""
    rules: dict[str, Any] = {"batch_norm": [_batch_norm_of_conv], "multiply": [scale_after_product]}
    return ruled("FoldBatchnormToConv2D", rules)


def _batch_norm_of_conv(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    x = n.args[0]
    if not is_op(x, "conv2d") or not isinstance(x.args[1], Constant) or not g.single(x):
        return None
    return batch_norm_of_constants(g, n)


def RemoveRedundantReshape() -> Pass:
    """Of reshapes in a row the last one stays, and none to the shape that is there."""
    return ruled("RemoveRedundantReshape", {"reshape": [reshape_reshape, no_move]})


def OptimizeLayoutTransform() -> Pass:
    """Transposes in a row become one, and go where they cancel."""
    return ruled("OptimizeLayoutTransform", {"transpose": [transpose_transpose, no_move]})


# ------------------------------------------------------------------------------------ products


def _plain_product(n: RelaxExpr | None) -> bool:
    changes = ("transpose_a", "transpose_b", "out_dtype")
    return is_op(n, "matmul") and not any(n.attrs[a] for a in changes)


def AdjustMatmulOrder() -> Pass:
    """(a b) c  =  a (b c), whichever multiplies less; extents have to be known."""
    return ruled("AdjustMatmulOrder", {"matmul": [_other_order]})


def _matrix(*xs: RelaxExpr | None) -> bool:
    return all(x is not None and tensor_type_of(x).rank == 2 and None not in dims(x) for x in xs)


def _multiplications(a: RelaxExpr | None, b: RelaxExpr | None, c: RelaxExpr | None) -> Any:
    """How many (a b) c takes, and a (b c)."""
    m, k, n, p = (e or 0 for e in (*dims(a), dims(b)[1], dims(c)[1]))
    return m * k * n + m * n * p, k * n * p + m * k * p


def _other_order(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """(a b) c  =  a (b c), and back"""
    for first, y in zip((True, False), n.args, strict=True):
        if not _plain_product(n) or not _plain_product(y) or not isinstance(y, Call):
            continue
        a, b, c = (*y.args, n.args[1]) if first else (n.args[0], *y.args)
        if not g.single(y) or not _matrix(a, b, c):
            continue
        left, right = _multiplications(a, b, c)
        if first and right < left:
            return g.call("matmul", a, g.call("matmul", b, c))
        if not first and left < right:
            return g.call("matmul", g.call("matmul", a, b), c)
    return None


def ExpandMatmulOfSum() -> Pass:
    """x (a + b)  =  x a + x b, for matrices of one shape"""
    return ruled("ExpandMatmulOfSum", {"matmul": [_product_of_sum]})


def _product_of_sum(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    x, y = n.args
    if not _plain_product(n) or not is_op(y, "add") or not g.single(y):
        return None
    a, b = y.args
    if tensor_type_of(a) is not tensor_type_of(b) or tensor_type_of(a).rank < 2:
        return None
    return g.call("add", g.call("matmul", x, a), g.call("matmul", x, b))


def ReorderTakeAfterMatmul() -> Pass:
    """x (columns of w)  =  columns of x w"""
    return ruled("ReorderTakeAfterMatmul", {"matmul": [_columns_of_product]})


def _columns_of_product(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    x, y = n.args
    if not _plain_product(n) or not is_op(y, "gather") or not g.single(y):
        return None
    w, indices = y.args
    fits = y.attrs["axis"] == 1 and tensor_type_of(w).rank == 2 and tensor_type_of(x).rank >= 2
    if not fits or tensor_type_of(indices).rank != 1:
        return None
    whole = g.call("matmul", x, w)
    return g.call("gather", whole, indices, axis=tensor_type_of(x).rank - 1, mode=y.attrs["mode"])


def ReorderPermuteDimsAfterConcat() -> Pass:
    """concat(a transposed, b transposed)  =  concat(a, b) transposed"""
    return ruled("ReorderPermuteDimsAfterConcat", {"concat": [_concat_of_transposed]})


def _concat_of_transposed(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    first = n.args[0]
    if not is_op(first, "transpose") or len(n.args) < 2:
        return None
    axes = axes_of_transpose(first)
    for x in n.args:
        if not is_op(x, "transpose") or not g.single(x) or x.attrs["axes"] != first.attrs["axes"]:
            return None
    inner = [x.args[0] for x in n.args if isinstance(x, Call)]
    axis = axes[n.attrs["axis"] % len(axes)]
    return g.call("transpose", g.call("concat", *inner, axis=axis), axes=axes)


# ------------------------------------------------------------------------------- decomposition


def _vector(x: RelaxExpr | None, v: RelaxExpr | None) -> RelaxExpr:
    """A vector along the channels of [n, c, ...]."""
    shape = tensor_type_of(v).shape
    return call("reshape", v, shape=(*shape, *(1,) * (tensor_type_of(x).rank - 2)))


def _batch_norm_taken_apart(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    x, *vectors = n.args
    scale, bias, mean, var = (_vector(x, v) for v in vectors)
    eps = constant(np.asarray(n.attrs["epsilon"], dt.to_numpy(dtype_of(x))))
    root = g.call("sqrt", g.call("add", var, eps))
    y = g.call("divide", g.call("subtract", x, mean), root)
    return g.call("add", g.call("multiply", y, scale), bias)


def _layer_norm_taken_apart(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    x, scale, *bias = n.args
    rank = tensor_type_of(x).rank
    if n.attrs["axis"] % rank != rank - 1:
        return None
    axes = (rank - 1,)
    far = g.call("subtract", x, g.call("mean", x, axes=axes, keepdims=True))
    var = g.call("mean", g.call("multiply", far, far), axes=axes, keepdims=True)
    eps = constant(np.asarray(n.attrs["epsilon"], dt.to_numpy(dtype_of(x))))
    y = g.call("divide", far, g.call("sqrt", g.call("add", var, eps)))
    y = g.call("multiply", y, scale)
    return g.call("add", y, bias[0]) if bias and bias[0] is not None else y


def _decomposing(name: str, func_name: str | None, rules: dict[str, Sequence[Any]]) -> Pass:
    whole = ruled(name, rules)
    if func_name is None:
        return whole

    def run(mod: IRModule) -> IRModule:
        f = graph_function(mod, func_name, name)
        one = whole.fn(IRModule({func_name: f}))
        return mod.with_functions({func_name: one[func_name]})

    return named(name, run)


def _by_running_statistics(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """batch_norm as arithmetic; one of the batch's own statistics is no inference."""
    mean = n.args[3]
    if is_op(mean, "reshape") and is_op(mean.args[0], "mean"):
        raise Unsupported(
            "DecomposeOpsForInference: a batch_norm computes the statistics of its batch; "
            "relax.op.nn.batch_norm(..., training=False) takes the running ones"
        )
    return _batch_norm_taken_apart(g, n)


def DecomposeOpsForInference(func_name: str | None = None) -> Pass:
    """Batch normalisation becomes arithmetic, in one function or in all.

    One that was built with training=True is an error: its running statistics are not in it.
    """
    return _decomposing("DecomposeOpsForInference", func_name,
                        {"batch_norm": [_by_running_statistics]})  # fmt: skip


def DecomposeOpsForTraining(func_name: str | None = None) -> Pass:
    """Normalisations become arithmetic, whose derivatives are simple.

    The builder of batch_norm with training=True has written the batch's statistics out already.
    """
    return _decomposing("DecomposeOpsForTraining", func_name,
                        {"batch_norm": [_batch_norm_taken_apart],
                         "layer_norm": [_layer_norm_taken_apart]})  # fmt: skip


# ----------------------------------------------------------------------------------- precision

FAST = {"exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf"}


def FastMath() -> Pass:
    """exp, tanh and erf of float32 by approximations."""

    def faster(g: GraphRewriter, n: Call) -> RelaxExpr | None:
        return g.call(FAST[n.callee], n.args[0]) if dtype_of(n) == "float32" else None

    return ruled("FastMath", {name: [faster] for name in FAST})


def ToMixedPrecision(
    out_dtype: str = "float32", fp16_input_names: Sequence[str] | None = None
) -> Pass:
    """Products of matrices and convolutions take float16 in place of float32 operands.

    out_dtype         what they add up in and give: "float32" or "float16"
    fp16_input_names  parameters that become float16 themselves

    Everything else computes in the type it did, and so do the results.
    """
    if out_dtype not in ("float32", "float16"):
        raise TypeMismatch(f"ToMixedPrecision: out_dtype={out_dtype!r}; legal: float32, float16")
    names = set(fp16_input_names or ())

    def narrow(x: RelaxExpr | None) -> RelaxExpr:
        assert x is not None
        if isinstance(x, Constant):
            return constant(x.data.numpy().astype("float16"), x.name)  # type: ignore[attr-defined]
        if is_op(x, "cast") and dtype_of(x.args[0]) == "float16":
            return x.args[0]  # type: ignore[return-value]
        return call("cast", x, dtype="float16")

    def replace(old: Any, new: Any) -> RelaxExpr | None:
        if not is_op(new, *PRODUCTS) or dtype_of(new) != "float32":
            return None
        if any(dtype_of(a) != "float32" for a in new.args) or new.attrs["out_dtype"]:
            return None
        made = renewed_call(new, *[narrow(a) for a in new.args], out_dtype=out_dtype)
        return made if out_dtype == "float32" else call("cast", made, dtype="float32")

    def narrowed(p: Var) -> Type | None:
        floats = p.name in names and tensor_type_of(p).dtype == "float32"
        return tensor_type_of(p).replace(dtype="float16") if floats else None

    def run(mod: IRModule) -> IRModule:
        return map_functions(mod, lambda f: transform(retyped(f, narrowed), replace))

    return named("ToMixedPrecision", run)


def FakeQuantizationToInteger(hard_fail: bool = False, use_qat: bool = False) -> Pass:
    """Operators between dequantize and quantize become operators on integers.

    hard_fail  a region that stays in floats is an error, which names the first operator that
               stopped it; else it stays
    use_qat    operators on dequantized numbers whose result is not quantized again become integer
               ones with a dequantize behind them
    """
    return named(
        "FakeQuantizationToInteger",
        lambda mod: fake_quantization_to_integer(mod, hard_fail, use_qat),
    )
