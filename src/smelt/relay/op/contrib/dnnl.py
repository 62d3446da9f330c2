"""What oneDNN (DNNL) computes in one call, as patterns: products with bias and an activation.

`partition_for_dnnl` gives such parts of a model to the compiler "dnnl". A code generator of this
name has to be registered (smelt.byoc) before the result can be built; the text can be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.relax.dpl import DFPattern
from smelt.relax.nodes import Call, Function
from smelt.relax.transform import register_op_predicate
from smelt.relax.transform.inline import inline_called
from smelt.transform import PassContext, Sequential

from ... import transform
from ...build_module import bind_params
from ...dataflow_pattern import is_op, wildcard
from .register import register_pattern_table

COMPILER = "dnnl"

PRODUCTS = ("conv1d", "conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "dense")


def _gelu(x: DFPattern) -> DFPattern:
    """x * 0.5 * (1 + erf(x / sqrt 2)), in the order that exporters write."""
    erf = is_op("erf")(is_op("multiply")(x, wildcard()) | is_op("divide")(x, wildcard()))
    half = is_op("add")(is_op("multiply")(erf, wildcard()), wildcard())
    return is_op("multiply")(x, half)


def _swish(x: DFPattern) -> DFPattern:
    return is_op("multiply")(x, is_op("sigmoid")(x))


def _mish(x: DFPattern) -> DFPattern:
    softplus = is_op("log")(is_op("add")(is_op("exp")(x), wildcard()))
    return is_op("multiply")(x, is_op("tanh")(softplus))


ACTIVATIONS: Mapping[str, Callable[[DFPattern], DFPattern]] = {
    "relu": is_op("nn.relu"),
    **{name: is_op(name) for name in ("tanh", "sigmoid", "clip")},
    "gelu": _gelu,
    "swish": _swish,
    "mish": _mish,
}

HEAVY = frozenset(f"nn.{p}" for p in PRODUCTS) | {"nn.batch_matmul"}

PLAIN = (
    "add", "multiply", "tanh", "sigmoid", "clip", "abs", "exp", "log", "sqrt", "round",
    "logsumexp", "concatenate",
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.conv3d_transpose",
    "nn.dense", "nn.batch_matmul", "nn.relu", "nn.leaky_relu", "nn.prelu", "nn.batch_norm",
    "nn.layer_norm", "nn.softmax", "nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d",
    "nn.max_pool3d", "nn.avg_pool3d",
)  # fmt: skip
"""Operators that it computes alone."""


def _product(op: str, bias: bool, activation: str | None) -> DFPattern:
    """One product, with what is done to its result."""
    x: DFPattern = is_op(f"nn.{op}")(wildcard(), wildcard())
    if bias:
        x = is_op("nn.bias_add")(x, wildcard()) | is_op("add")(x, wildcard())
    return x if activation is None else ACTIVATIONS[activation](x)


@register_pattern_table(COMPILER)
def pattern_table() -> list[tuple[str, DFPattern]]:
    """The patterns by name, the larger ones first: dnnl.conv2d_bias_relu, dnnl.dense_gelu, ..."""
    table = []
    for bias in (True, False):
        for activation in (*ACTIVATIONS, None):
            if not bias and activation is None:
                continue
            for op in PRODUCTS:
                parts = [op, *(["bias"] if bias else []), *([activation] if activation else [])]
                table.append((f"{COMPILER}.{'_'.join(parts)}", _product(op, bias, activation)))
    return table


for _name in PLAIN:
    register_op_predicate(COMPILER, _name, lambda call: True)


def partition_for_dnnl(
    mod: IRModule,
    params: Mapping[str, Any] | None = None,
    alter_layout: bool = True,
    prune_subgraphs: bool = True,
) -> IRModule:
    """A model with the parts that the compiler "dnnl" takes as functions of their own.

    params           weights that become constants first
    alter_layout     there for the classic signature: layouts are the compiler's own affair
    prune_subgraphs  leave parts without a product to smelt: they are cheaper where they are
    """
    if params:
        mod = bind_params(mod, params)
    prepare = Sequential(
        [
            transform.CanonicalizeOps(),
            transform.InferType(),
            transform.SimplifyInference(),
            transform.FoldConstant(),
            transform.FoldScaleAxis(),
            transform.FoldConstant(),
            transform.MergeComposite(pattern_table()),
            transform.AnnotateTarget(COMPILER),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
        ]
    )
    with PassContext(opt_level=3):
        made: IRModule = prepare(mod)
    return _pruned(made) if prune_subgraphs else made


def _pruned(mod: IRModule) -> IRModule:
    """A module in which parts without a product are back where they came from."""
    light = [
        name
        for name, f in mod.functions.items()
        if isinstance(f, Function)
        and f.attrs.get("Compiler") == COMPILER
        and not any(isinstance(n, Call) and n.callee in HEAVY for n in postorder(f))
    ]
    return inline_called(mod, light)
