"""Padding and dilation become attributes of the operator with the window."""

from __future__ import annotations

import math
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.graph import free_vars
from smelt.relax.nodes import Call, RelaxExpr, renewed_call
from smelt.relax.transform.engine import GraphRewriter, RuleSet
from smelt.relax.transform.match import all_are
from smelt.transform import Pass

from ..dialect import RELAY, is_call, make
from .passes import graph_pass, rule_pass

PADDING_RULES, ATROUS_RULES = RuleSet(dialect=RELAY), RuleSet(dialect=RELAY)
CONVS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
POOLS = tuple([f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)])


def FoldExplicitPadding() -> Pass:
    """nn.pad in front of a convolution or pooling becomes its padding, where it means the same."""
    return rule_pass("FoldExplicitPadding", PADDING_RULES)


@PADDING_RULES.rule(*CONVS, *POOLS)
def folded_padding(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(pad(x), padding=p)  =  conv(x, padding=p + pad)   for padding with what p means"""
    x = n.args[0]
    if not is_call(x, "nn.pad") or x.attrs["pad_mode"] != "constant":
        return None
    layout: str = n.attrs["data_layout" if "data_layout" in n.attrs else "layout"]
    value = x.args[1] if len(x.args) > 1 else None
    fits = _meant(n) == 0.0 if value is None else all_are(value, _meant(n))
    if not fits or any(c.isdigit() for c in layout):
        return None
    pairs = [tuple(p) if isinstance(p, tuple) else (p, p) for p in x.attrs["pad_width"]]
    if any(pairs[layout.index(c)] != (0, 0) for c in "NC") or min(min(p) for p in pairs) < 0:
        return None
    spatial = [pairs[layout.index(c)] for c in "DHW" if c in layout]
    extra = [*[a for a, _ in spatial], *[b for _, b in spatial]]
    if is_call(n, *POOLS) and n.attrs["ceil_mode"]:
        return None
    attrs: dict[str, Any] = {
        "padding": tuple([a + b for a, b in zip(n.attrs["padding"], extra, strict=True)])
    }
    if "count_include_pad" in n.attrs:
        if any(n.attrs["padding"]) and not n.attrs["count_include_pad"]:
            return None
        attrs["count_include_pad"] = True
    return renewed_call(n, x.args[0], *n.args[1:], **attrs)


def _meant(n: Call) -> float:
    """What the padding of an operator stands for."""
    return -math.inf if "max_pool" in n.callee else 0.0


def FlattenAtrousConv() -> Pass:
    """space_to_batch_nd, conv2d, batch_to_space_nd become one conv2d with dilation."""
    return rule_pass("FlattenAtrousConv", ATROUS_RULES)


@ATROUS_RULES.rule("nn.batch_to_space_nd")
def dilated(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """batch_to_space(conv2d(space_to_batch(x, d)), d)  =  conv2d(x, dilation=d)"""
    conv = n.args[0]
    first = conv.args[0] if is_call(conv, "nn.conv2d") else None
    if not isinstance(conv, Call) or not is_call(first, "nn.space_to_batch_nd"):
        return None
    block = tuple(n.attrs["block_shape"])
    layout: str = conv.attrs["data_layout"]
    if tuple(first.attrs["block_shape"]) != block or layout != "NHWC":
        return None
    if first.attrs.get("pad_value", 0.0) != 0.0 or any(conv.attrs["padding"]):
        return None
    if tuple(conv.attrs["strides"]) != (1, 1) or tuple(conv.attrs["dilation"]) != (1, 1):
        return None
    pads, crops = first.attrs["paddings"], n.attrs["crops"]
    left = [p[0] - c[0] for p, c in zip(pads, crops, strict=True)]
    right = [p[1] - c[1] for p, c in zip(pads, crops, strict=True)]
    if min(*left, *right) < 0:
        return None
    return renewed_call(conv, first.args[0], conv.args[1], padding=(*left, *right), dilation=block)


def SimplifyFCTranspose(target_weight_name: list[str]) -> Pass:
    """dense(x, transpose(w))  becomes  dense(x, w.T), for parameters of the names given.

    Each named parameter w becomes one called "w.T" of the transposed shape; the caller hands its
    value in transposed (`relay.analysis.search_fc_transpose` finds the names).
    """
    wanted = tuple(target_weight_name)
    return graph_pass("SimplifyFCTranspose", lambda mod: _turned(mod, wanted))


def _turned(mod: IRModule, names: tuple[str, ...]) -> IRModule:
    main = mod["main"]
    new = {
        p: type(p)(f"{p.name}.T", make("transpose", p).type) for p in main.params if p.name in names
    }
    if not new:
        return mod
    rules = RuleSet(dialect=RELAY)

    @rules.rule("nn.dense")
    def plain(g: GraphRewriter, n: Call) -> RelaxExpr | None:
        """dense(x, transpose(w))  =  dense(x, w.T)"""
        w = n.args[1]
        if not is_call(w, "transpose") or w.args[0] not in new:
            return None
        return renewed_call(n, n.args[0], new[w.args[0]])

    made = GraphRewriter(rules, share=False, whole=True).run(main)
    used = set(free_vars(made.body))
    params = [
        v
        for p in main.params
        for v in ((new[p], p) if p in new else (p,))
        if p not in new or v in used
    ]
    return mod.with_functions({"main": made.replace(params=tuple(params))})
