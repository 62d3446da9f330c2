"""What `transform_layout` asks for: tensors of other shapes, and operations that use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.arith import Analyzer, IndexMap
from smelt.ir.expr import Expr
from smelt.ir.walk import free_vars
from smelt.te.tensor import ComputeOp, Operation, Tensor
from smelt.tir.nodes import Buffer
from smelt.tir.rewrite import Indices, Rewriter

from .call import MethodCall
from .rewrite import made, rewritten

if TYPE_CHECKING:
    from .stage import Stage


@dataclass(frozen=True)
class Layout:
    """One change of a tensor's layout: the map of the indices and, of computed ones, its inverse.

    shape   in the new layout
    """

    call: MethodCall
    map: IndexMap
    inverse: IndexMap | None
    shape: tuple[Expr, ...]


def layout_of(
    call: MethodCall,
    function: Callable[..., Any],
    name: str,
    shape: tuple[Expr, ...],
    computed: bool,
) -> Layout:
    """The layout that a function of indices says, of a tensor of that name and shape.

    computed  whether the map back is needed
    """
    sizes = Analyzer()
    for e in shape:
        for v in free_vars(e):
            sizes.assume_positive(v)
    try:
        found = IndexMap.from_func(function, len(shape))
        extents = found.map_shape(shape, sizes)
    except (TypeError, ValueError) as e:
        call.fail(str(e), f"a function of {len(shape)} indices that gives indices")
    if found.axis_separators:
        call.unsupported(
            "no target has memory of several dimensions (textures)",
            "the same map without AXIS_SEPARATOR",
        )
    try:
        inverse = found.inverse(shape, sizes) if computed else None
    except ValueError as e:
        reason = str(e).partition("; legal with padding")[0]
        call.fail(
            f"the elements of {name} need places of their own, without gaps: {reason}",
            "a bijection, such as lambda i, j: (j // 4, i, j % 4) where 4 divides the extent",
        )
    return Layout(call, found, inverse, extents)


def laid_out(stages: Sequence[Stage]) -> tuple[dict[Stage, Operation], dict[Tensor, Tensor]]:
    """The operations of stages on tensors in their final layouts, and these tensors."""
    layouts = {t: x.layouts for x in stages for t in x.op.outputs if x.layouts}
    tensors = {
        t: Tensor(t.name, steps[-1].shape, t.type, t.scope, op=t.op) for t, steps in layouts.items()
    }
    if not tensors:
        return {x: x.op for x in stages}, {}
    out: dict[Stage, Operation] = {}
    for x in stages:
        touched = [t for t in (*x.op.inputs, *x.op.outputs) if t in tensors]
        if touched and isinstance(x.op, ComputeOp):
            out[x] = _operation(x, x.op, layouts, tensors)
        elif touched and x.op.inputs:
            layouts[touched[0]][0].call.fail(
                f"{x.name} is a statement that uses {touched[0].name} as it was",
                "a tensor that only expressions read",
            )
        else:
            out[x] = x.op
    return out, tensors


def _operation(
    stage: Stage,
    op: ComputeOp,
    layouts: Mapping[Tensor, Sequence[Layout]],
    tensors: Mapping[Tensor, Tensor],
) -> Operation:
    """One operation over the axes of its result's layout, reading operands in theirs."""
    analyzer = Analyzer()
    for a in (*op.axis, *op.reduce_axis, *stage.space):
        analyzer.bind(a.var, a.dom.min, a.dom.extent)
    reads = _Reads(layouts, tensors, analyzer)
    body: Sequence[Expr] = [reads.expr(e) for e in op.body]
    at: tuple[Expr, ...] = tuple([a.var for a in stage.space])
    for step in reversed(stage.layouts):
        assert step.inverse is not None
        at = step.inverse.map_indices(at, analyzer)
    values = {a.var: e for a, e in zip(op.axis, at, strict=True)}
    body = [analyzer.simplify(e) for e in rewritten(body, values)] if stage.layouts else body
    outputs = [tensors.get(t, t) for t in op.outputs]
    return made(ComputeOp(op.name, stage.space, tuple(body), op.attrs), outputs)


class _Reads(Rewriter):
    """Reads elements where their tensors' layouts have put them."""

    def __init__(
        self,
        layouts: Mapping[Tensor, Sequence[Layout]],
        tensors: Mapping[Tensor, Tensor],
        analyzer: Analyzer,
    ) -> None:
        super().__init__()
        self.layouts, self.tensors, self.analyzer = layouts, tensors, analyzer

    def access(self, b: Any, indices: Indices) -> tuple[Buffer, Indices]:
        for step in self.layouts.get(b, ()):
            indices = step.map.map_indices(indices, self.analyzer)
        return self.tensors.get(b, b), indices
