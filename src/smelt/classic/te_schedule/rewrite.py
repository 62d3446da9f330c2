"""Expressions and operations with other variables and tensors in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.ir.expr import Expr, Var
from smelt.te.tensor import Operation, Tensor
from smelt.tir.rewrite import Rewriter


def rewritten(
    body: Sequence[Expr], values: Mapping[Var, Expr], tensors: Mapping[Tensor, Tensor] | None = None
) -> tuple[Expr, ...]:
    """Expressions with other values for variables and other tensors to read."""
    rewrite = Rewriter(values, tensors)
    return tuple([rewrite.expr(e) for e in body])


def made(op: Operation, outputs: Sequence[Tensor]) -> Operation:
    """An operation that makes some tensors."""
    op.outputs = tuple(outputs)
    return op
