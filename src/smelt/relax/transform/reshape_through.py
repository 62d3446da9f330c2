"""A reshape carried towards the operands of operators that work row by row."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.expr import Expr
from smelt.relax.graph_op import by_element
from smelt.relax.nodes import Call, Constant, RelaxExpr, tensor_type_of

from .engine import GraphRewriter
from .match import is_op, op_name, shape_of


def reshaped(g: GraphRewriter, x: RelaxExpr, shape: Sequence[Expr], depth: int) -> RelaxExpr | None:
    """reshape(x, shape) without a reshape: by undoing those that x was made with; or None."""
    plan: dict[RelaxExpr, RelaxExpr] = {}
    if not _possible(g, x, tuple(shape), depth, root=True):
        return None
    return _build(g, x, tuple(shape), plan)


def _same_rows(x: RelaxExpr, shape: tuple[Expr, ...]) -> bool:
    """Whether the last dimension stays as it is."""
    old = shape_of(x)
    return bool(old and shape) and old[-1] is shape[-1]


def _any_shape(x: Call) -> bool:
    """Whether an operator works element by element, and no attribute is about dimensions."""
    return by_element(x) and not any(isinstance(v, tuple) for v in x.attrs.values())


def _row_constant(c: RelaxExpr | None, n: Call, shape: tuple[Expr, ...]) -> bool:
    """Whether an operand broadcasts alike under both shapes: a number, or a constant row."""
    if c is None or not shape_of(c):
        return True
    return isinstance(c, Constant) and c.data.ndim == 1 and _same_rows(n, shape)


def _possible(
    g: GraphRewriter, x: RelaxExpr, shape: tuple[Expr, ...], depth: int, root: bool
) -> bool:
    """Whether the reshape ends in reshapes that it undoes, along every path."""
    if shape_of(x) == shape:
        return not root
    if is_op(x, "reshape"):
        return shape_of(x.args[0]) == shape
    if depth == 0 or not isinstance(x, Call) or not x.args or not g.single(x):
        return False
    if _any_shape(x):
        tall = [a for a in x.args if a is not None and not _row_constant(a, x, shape)]
        return bool(tall) and all(
            shape_of(a) == shape_of(x) and _possible(g, a, shape, depth - 1, False) for a in tall
        )
    inner, first = _operand_shape(x, shape), x.args[0]
    return inner is not None and first is not None and _possible(g, first, inner, depth - 1, False)


def _operand_shape(x: Call, shape: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """The shape the first operand of a row operator has to take for the result to have `shape`."""
    first = x.args[0]
    if is_op(x, "matmul"):
        flat = tensor_type_of(x.args[1]).rank == 2 and tensor_type_of(first).rank >= 2
        if flat and not x.attrs["transpose_a"] and len(shape) >= 2 and _same_rows(x, shape):
            return (*shape[:-1], shape_of(first)[-1])
        return None
    rank = tensor_type_of(x).rank
    if is_op(x, "layer_norm", "rms_norm", "softmax", "log_softmax"):
        plain = all(tensor_type_of(a).rank <= 1 for a in x.args[1:] if a is not None)
        if x.attrs["axis"] % rank == rank - 1 and _same_rows(x, shape) and plain:
            return shape
    return None


def _build(
    g: GraphRewriter, x: RelaxExpr, shape: tuple[Expr, ...], done: dict[RelaxExpr, RelaxExpr]
) -> RelaxExpr:
    """What `_possible` found possible."""
    if shape_of(x) == shape:
        return x
    assert isinstance(x, Call)
    assert x.args[0] is not None
    if is_op(x, "reshape"):
        return x.args[0]
    if x in done:
        return done[x]
    if _any_shape(x):
        new = g.again(
            x,
            *[
                a if a is None or _row_constant(a, x, shape) else _build(g, a, shape, done)
                for a in x.args
            ],
        )
    else:
        inner, attrs = _operand_shape(x, shape), dict(x.attrs)
        assert inner is not None
        if "axis" in attrs:
            attrs["axis"] = len(shape) - 1
        new = g.call(op_name(x), _build(g, x.args[0], inner, done), *x.args[1:], **attrs)
    done[x] = new
    return new
