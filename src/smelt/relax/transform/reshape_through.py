"""A reshape carried towards the operands of operators that work row by row."""

from __future__ import annotations

from smelt.ir.expr import Expr
from smelt.relax.graph_op import by_element
from smelt.relax.nodes import Call, Constant, RelaxExpr, tensor_type_of

from .engine import GraphRewriter
from .match import is_op, op_name, shape_of


def reshaped(
    g: GraphRewriter, x: RelaxExpr, shape: tuple[Expr, ...], depth: int, root: bool = True
) -> RelaxExpr | None:
    """reshape(x, shape) without a reshape: by undoing those that x was made with; or None.

    root  whether x is what is reshaped: then having the shape already is no gain
    """
    if shape_of(x) == shape:
        return None if root else x
    if is_op(x, "reshape"):
        return x.args[0] if shape_of(x.args[0]) == shape else None
    if depth == 0 or not isinstance(x, Call) or not x.args or not g.single(x):
        return None
    if _any_shape(x):
        return _elements_reshaped(g, x, shape, depth)
    inner, first = _operand_shape(x, shape), x.args[0]
    new = None if inner is None or first is None else reshaped(g, first, inner, depth - 1, False)
    if new is None:
        return None
    axis = {"axis": len(shape) - 1} if "axis" in x.attrs else {}
    return g.call(op_name(x), new, *x.args[1:], **{**x.attrs, **axis})


def _elements_reshaped(
    g: GraphRewriter, x: Call, shape: tuple[Expr, ...], depth: int
) -> RelaxExpr | None:
    """`reshaped` of an operator that works element by element."""
    args: list[RelaxExpr | None] = []
    for a in x.args:
        new = a
        if a is not None and not _row_constant(a, x, shape):
            same = shape_of(a) == shape_of(x)
            new = reshaped(g, a, shape, depth - 1, False) if same else None
            if new is None:
                return None
        args.append(new)
    return g.again(x, *args) if args != list(x.args) else None


def _same_rows(x: RelaxExpr, shape: tuple[Expr, ...]) -> bool:
    """Whether the last dimension stays as it is."""
    old = shape_of(x)
    return bool(old and shape) and old[-1] is shape[-1]


def _any_shape(x: Call) -> bool:
    """Whether an operator works element by element, and no attribute is about dimensions."""
    return by_element(x) and not any(isinstance(v, tuple) for v in x.attrs.values())


def _row_constant(c: RelaxExpr, n: Call, shape: tuple[Expr, ...]) -> bool:
    """Whether an operand broadcasts alike under both shapes: a number, or a constant row."""
    if not shape_of(c):
        return True
    return isinstance(c, Constant) and c.data.ndim == 1 and _same_rows(n, shape)


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
