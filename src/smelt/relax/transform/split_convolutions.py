"""Convolutions as simpler ones: transposed ones, and those of single pixels that skip some.

A transposed one becomes a plain one per group of phases. Along one dimension result y = q * s + r
of stride s, in phase r, sums

    x[q + e] * w[r + begin - e * s]        for those e at which w has an element,

which is a plain convolution. Neighbouring phases with the same e share one, with a result channel
for each of their rows and columns; their results are then interleaved.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import NamedTuple

import numpy as np

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, RelaxExpr, tensor_type_of
from smelt.topi.conv import CONVOLUTIONS

from .engine import GraphRewriter, RuleSet, apply_rules
from .match import Array, dtype_of, is_float

SPLIT_RULES = RuleSet()
rule = SPLIT_RULES.rule

_MOST = 16
"""Convolutions that one may become."""


class _Axis(NamedTuple):
    """One dimension of a transposed convolution: taps, stride, pixels cut off in front."""

    taps: int
    stride: int
    begin: int

    def reach(self, phase: int) -> tuple[int, int] | None:
        """The first and the last e of a phase; None where it has no taps."""
        last = (phase + self.begin) // self.stride
        first = -((self.taps - 1 - phase - self.begin) // self.stride)
        return (first, last) if first <= last else None

    def shares(self, parts: int) -> bool:
        """Whether `parts` equal runs of phases have one reach each."""
        run = self.stride // parts
        reach = [self.reach(r) for r in range(self.stride)]
        return None not in reach and all(reach[r] == reach[r - r % run] for r in range(len(reach)))


@rule("conv_transpose")
def by_phases(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv_transpose(x, w)  =  interleaved(concat(conv(x, w1), conv(x, w2), ...))"""
    x, w = n.args
    if not isinstance(w, Constant) or not is_float(n) or dtype_of(n) != dtype_of(w):
        return None
    axes, more = _axes(n, w), _more(n)
    if axes is None or more is None:
        return None
    stride, rank = axes[0].stride, len(axes)
    counts = [p for p in range(1, stride + 1) if stride % p == 0]
    parts = next((p for p in counts if all(a.shares(p) for a in axes)), None)
    if parts is None or parts**rank > _MOST:
        return None
    wide = g.exact(w)
    convs = []
    for part in itertools.product(range(parts), repeat=rank):
        reach = [a.reach(p * (stride // parts)) for a, p in zip(axes, part, strict=True)]
        found = [r for r in reach if r is not None]
        before = [-first for first, _ in found]
        after = [rows + last for rows, (_, last) in zip(more, found, strict=True)]
        pads = (*before, *after)
        if min(pads) < 0:
            return None
        filters = _filters(wide, axes, part, parts, found)
        convs.append(g.call(CONVOLUTIONS[rank - 1], x, g.constant(filters, dtype_of(w)), pads=pads))
    y = convs[0] if len(convs) == 1 else g.call("concat", *convs, axis=1)
    return _cut(g, n, _interleaved(g, y, rank, (parts, stride // parts)))


def _interleaved(g: GraphRewriter, y: RelaxExpr, rank: int, blocks: tuple[int, int]) -> RelaxExpr:
    """Pixels out of phases, which are channels: of parts, in each of its rows and columns."""
    if rank == 2:
        for block in blocks:
            y = g.call("depth_to_space", y, block=block) if block > 1 else y
        return y
    images, channels, *sizes = tensor_type_of(y).shape
    stride = prod(blocks)
    if stride == 1:
        return y
    kept = channels // stride**rank
    apart = (images, *[b for b in blocks for _ in range(rank)], kept, *sizes)
    y = g.call("reshape", y, shape=apart)
    each = [d for k in range(rank) for d in (2 * rank + 2 + k, 1 + k, 1 + rank + k)]
    y = g.call("transpose", y, axes=(0, 2 * rank + 1, *each))
    return g.call("reshape", y, shape=(images, kept, *[e * stride for e in sizes]))


@rule("conv2d")
def of_pixels_that_stay(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv2d(x, w, strides)  =  conv2d(x[:, :, ::a, ::b], w)  where w is one pixel: a view"""
    x, w = n.args
    strides, sizes = n.attrs["strides"] or (), tensor_type_of(x).shape[2:]
    window = {value_of(e) for e in tensor_type_of(w).shape[2:]}
    known = None not in [value_of(e) for e in sizes]
    if window != {1} or any(n.attrs["pads"] or ()) or set(strides) <= {1} or not known:
        return None
    left = g.call("strided_slice", x, axes=(2, 3), begin=(0, 0), end=sizes, strides=strides)
    return g.call("conv2d", left, w, **{**n.attrs, "strides": ()})


def _axes(n: Call, w: Constant) -> list[_Axis] | None:
    """The dimensions of images; None for what stays as it is."""
    kernel = w.data.shape[2:]
    rank = len(kernel)
    strides, pads = n.attrs["strides"] or (1,) * rank, n.attrs["pads"] or (0,) * (2 * rank)
    dilated = any(d != 1 for d in n.attrs["dilations"] or ())
    if len(set(strides)) != 1 or n.attrs["groups"] != 1 or dilated:
        return None
    return [_Axis(k, strides[0], b) for k, b in zip(kernel, pads, strict=False)]


def _more(n: Call) -> list[int] | None:
    """How many more rows, and columns, a phase has than the image; None where sizes decide."""
    analyzer, stride = Analyzer(), (n.attrs["strides"] or (1,))[0]
    shapes = tensor_type_of(n.args[0]).shape[2:], tensor_type_of(n).shape[2:]
    pairs = zip(*shapes, strict=True)
    more = [value_of(analyzer.simplify(out - h * stride)) for h, out in pairs]
    return None if None in more else [-(-m // stride) for m in more if m is not None]


def _filters(
    w: Array, axes: list[_Axis], part: tuple[int, ...], parts: int, reach: list[tuple[int, int]]
) -> Array:
    """[phases * o, c, rows, columns]: the elements of w that the phases of a part use."""
    run, rank = axes[0].stride // parts, len(axes)
    size = [last - first + 1 for first, last in reach]
    taps = np.moveaxis(w, (0, 1), (-1, -2))
    made = np.empty((*[run] * rank, *size, *taps.shape[rank:]), w.dtype)
    for rows in itertools.product(range(run), repeat=rank):
        for place in itertools.product(*map(range, size)):
            each = zip(part, rows, axes, reach, place, strict=True)
            t = [p * run + r + a.begin - (e + m) * a.stride for p, r, a, (e, _), m in each]
            made[(*rows, *place)] = taps[tuple(t)]
    made = np.moveaxis(made, range(rank, 2 * rank), range(-rank, 0))
    return made.reshape(-1, *made.shape[rank + 1 :])


def _cut(g: GraphRewriter, n: Call, y: RelaxExpr) -> RelaxExpr:
    """The result without what the last rows and columns have too much."""
    if tensor_type_of(y) is tensor_type_of(n):
        return y
    sizes = tensor_type_of(n).shape[2:]
    axes = tuple(range(2, 2 + len(sizes)))
    return g.call("strided_slice", y, axes=axes, begin=(0,) * len(sizes), end=sizes)


def split_convolutions(mod: IRModule) -> IRModule:
    """Make plain convolutions of transposed ones with constant weights, and of those of single
    pixels that skip some; needs simplified graphs."""
    return apply_rules(mod, SPLIT_RULES, share=True)
