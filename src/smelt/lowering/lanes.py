"""Vector indices as indices of one lane, whose number is a variable like a loop's."""

from __future__ import annotations

from collections.abc import Mapping

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Broadcast, Expr, Ramp, Shuffle, Var, const
from smelt.ir.walk import free_vars
from smelt.tir.interpret_lanes import lane
from smelt.tir.rewrite import loads
from smelt.tir.script_ops import expr_nodes

Domains = dict[Var, tuple[Expr, Expr]]


def every_lane(
    indices: tuple[Expr, ...], domains: Mapping[Var, tuple[Expr, Expr]]
) -> tuple[tuple[Expr, ...], Domains]:
    """The indices of one lane, and the domains of loops with that of the lane's number."""
    lanes = max([dt.lanes(i.dtype) for i in indices], default=1)
    if lanes == 1 or any(_picks(n) for i in indices for n in expr_nodes(i)):
        return indices, dict(domains)
    v = Var("lane")
    return (
        tuple([lane(i, v, {}) for i in indices]),
        {**domains, v: (const(0, INDEX), const(lanes, INDEX))},
    )


def _picks(e: Expr) -> bool:
    """Whether a lane of a vector cannot be told from its number."""
    return isinstance(e, Shuffle) or (isinstance(e, Var) and dt.lanes(e.dtype) > 1)


def in_steps(index: Expr, analyzer: Analyzer) -> Expr:
    """A vector of offsets as a ramp, where its lanes stand at one distance.

    (x // 4) * 4 + x % 4 is x: a box whose rows stand one behind the other is one vector.
    """
    lanes = dt.lanes(index.dtype)
    if lanes == 1 or isinstance(index, Ramp | Broadcast) or loads(index):
        return index
    (one,), domains = every_lane((index,), {})
    if not domains:
        return index
    (v,) = domains
    inside = analyzer.inside(domains)
    parts = inside.linear(inside.simplify(one), [v])
    if parts is None or v in free_vars(parts[1]):
        return index
    base = analyzer.simplify(parts[1])
    return Ramp(base, parts[0][v], lanes) if v in parts[0] else Broadcast(base, lanes)
