"""Tensor expressions: what is computed, without saying how.

A Tensor is a Buffer that knows the operation that makes it, so an access `A[i, k]` is an ordinary
load and a computation becomes a tensor program by replacing tensors with plain buffers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, maximum, minimum
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, const, convert
from smelt.tir.nodes import Buffer, BufferLoad, Combiner, IterVar, Range, Reduce

__all__ = [
    "ComputeOp",
    "Operation",
    "PlaceholderOp",
    "Tensor",
    "all",
    "any",
    "comm_reducer",
    "compute",
    "max",
    "min",
    "placeholder",
    "prod",
    "reduce_axis",
    "size_var",
    "sum",
    "topological",
    "var",
]


class Operation:
    """What makes tensors. `outputs` are they; `inputs` the tensors read."""

    name: str
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...] = ()

    def output(self, index: int) -> Tensor:
        """The tensor number `index` that this operation makes."""
        return self.outputs[index]


class PlaceholderOp(Operation):
    """A tensor that is given from outside."""

    def __init__(self, name: str) -> None:
        """The tensor is attached by `placeholder`."""
        self.name = name


class ComputeOp(Operation):
    """Tensors given element by element.

    axis         spatial IterVars, one per dimension
    reduce_axis  reduction IterVars of the body
    body         one expression per output
    """

    def __init__(
        self, name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...], attrs: Mapping[str, Any]
    ) -> None:
        """Find the tensors read and the reduction's axes."""
        self.name, self.axis, self.body, self.attrs = name, axis, body, attrs
        self.reduce_axis: tuple[IterVar, ...] = body[0].axis if isinstance(body[0], Reduce) else ()
        self.inputs = tuple(_inputs(body))


class Tensor(Buffer):
    """A buffer with the operation that makes it."""

    op: Any = None

    @property
    def value_index(self) -> int:
        """Which of the operation's outputs this is."""
        return [t is self for t in self.op.outputs].index(True)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise TypeMismatch(
                f"{self.name} has {len(self.shape)} dimensions, {len(items)} indices given"
            )
        return BufferLoad(self, tuple([_index(i) for i in items]))

    def __call__(self, *indices: Any) -> BufferLoad:
        """A[i, j] written A(i, j)."""
        return self[indices]


def _index(i: Any) -> Expr:
    e = i.var if isinstance(i, IterVar) else convert(i)
    return e if e.dtype == INDEX else e.astype(INDEX)


def _inputs(body: Sequence[Expr]) -> list[Tensor]:
    found: dict[Tensor, None] = {}
    seen: set[Expr] = set()
    stack: list[Any] = list(reversed(body))
    while stack:
        n = stack.pop()
        if isinstance(n, Expr):
            if n in seen:
                continue
            seen.add(n)
            if isinstance(n, BufferLoad):
                if not isinstance(n.buffer, Tensor):
                    raise TypeMismatch(
                        f"a tensor expression reads {n.buffer.name}, which is no tensor"
                    )
                found[n.buffer] = None
                stack.extend(reversed(n.indices))
                continue
            if isinstance(n, Reduce):
                stack.append(n.condition)
                stack.extend(reversed(n.sources))
                continue
            stack.extend(reversed(list(n.children())))
    return list(found)


def var(name: str = "tindex", dtype: str = INDEX) -> Var:
    """A scalar unknown."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = INDEX) -> Var:
    """A symbolic size, at least 1."""
    return Var(name, dtype)


def _shape(shape: ExprLike | Sequence[ExprLike]) -> tuple[Expr, ...]:
    items = shape if isinstance(shape, list | tuple) else (shape,)
    return tuple([convert(e, INDEX) for e in items])


def placeholder(
    shape: ExprLike | Sequence[ExprLike], dtype: str = "float32", name: str = "placeholder"
) -> Tensor:
    """A tensor that is given from outside."""
    op = PlaceholderOp(name)
    tensor = Tensor(name, _shape(shape), dtype, op=op)
    op.outputs = (tensor,)
    return tensor


def compute(
    shape: ExprLike | Sequence[ExprLike],
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A tensor given by a function of its indices; several tensors where it returns a tuple.

    shape     extents
    fcompute  called with one index variable per dimension (or `*i`)
    """
    extents = _shape(shape)
    names = _axis_names(fcompute, len(extents))
    axis = tuple(
        [IterVar(Var(n), Range(const(0, INDEX), e)) for n, e in zip(names, extents, strict=True)]
    )
    result = fcompute(*[a.var for a in axis])
    body = tuple([convert(r) for r in (result if isinstance(result, list | tuple) else (result,))])
    _check_reduce(body, name)
    if len(body) == 1 and isinstance(body[0], Reduce) and len(body[0].sources) > 1:
        body = tuple([body[0].replace(index=i) for i in range(len(body[0].sources))])
    op = ComputeOp(name, axis, body, {**(attrs or {}), **({"tag": tag} if tag else {})})
    label = [name] if len(body) == 1 else [f"{name}_{i}" for i in range(len(body))]
    op.outputs = tuple(
        [Tensor(n, extents, e.dtype, op=op) for n, e in zip(label, body, strict=True)]
    )
    return op.outputs[0] if len(op.outputs) == 1 else op.outputs


def _axis_names(fcompute: Callable[..., Any], rank: int) -> list[str]:
    try:
        params = list(inspect.signature(fcompute).parameters.values())
    except (TypeError, ValueError):
        params = []
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = [p for p in params if p.kind == p.VAR_POSITIONAL]
    if not variadic and params and len(names) != rank:
        raise TypeMismatch(
            f"compute: the shape has {rank} dimensions, the function takes {len(names)} indices"
        )
    return names + [f"i{k}" for k in range(len(names), rank)]


def _check_reduce(body: tuple[Expr, ...], name: str) -> None:
    for e in body:
        if isinstance(e, Reduce):
            continue
        stack: list[Any] = [e]
        while stack:
            n = stack.pop()
            if isinstance(n, Reduce):
                raise TypeMismatch(
                    f"compute {name}: a reduction must be the whole expression; "
                    "give it a compute of its own and use that tensor"
                )
            stack.extend(c for c in n.children() if isinstance(c, Expr))


# ----------------------------------------------------------------------------------- reductions


def reduce_axis(dom: Range | tuple[ExprLike, ExprLike], name: str = "rv") -> IterVar:
    """An index that a reduction runs over, from begin to end (exclusive)."""
    return IterVar(Var(name), Range.of(dom), "reduce")


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction from a combining function and its identity, for tuples too.

    fcombine   (a, b) -> joined value, or two tuples -> tuple
    fidentity  dtype(s) -> start value(s)
    """

    def reduce(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        sources = tuple([convert(e) for e in (expr if isinstance(expr, list | tuple) else (expr,))])
        axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        if not axes:
            raise TypeMismatch(f"{name}: a reduction needs at least one axis")
        combiner = _combiner(name, fcombine, fidentity, tuple([s.dtype for s in sources]))
        condition = const(True) if where is None else convert(where)
        outs = tuple([Reduce(combiner, sources, axes, condition, i) for i in range(len(sources))])
        return outs if isinstance(expr, list | tuple) else outs[0]

    reduce.__name__ = name
    return reduce


_COMBINERS: dict[tuple[Any, ...], Combiner] = {}


def _combiner(
    name: str, fcombine: Callable[..., Any], fidentity: Callable[..., Any], dtypes: tuple[str, ...]
) -> Combiner:
    key = (name, fcombine, fidentity, dtypes)
    found = _COMBINERS.get(key)
    if found is None:
        lhs = tuple([Var(f"x{i}", d) for i, d in enumerate(dtypes)])
        rhs = tuple([Var(f"y{i}", d) for i, d in enumerate(dtypes)])
        if len(dtypes) == 1:
            result: Any = (fcombine(lhs[0], rhs[0]),)
            identity: Any = (fidentity(dtypes[0]),)
        else:
            result, identity = tuple(fcombine(lhs, rhs)), tuple(fidentity(*dtypes))
        found = Combiner(
            name,
            lhs,
            rhs,
            tuple([convert(r) for r in result]),
            tuple([convert(e, d) for e, d in zip(identity, dtypes, strict=True)]),
        )
        _COMBINERS[key] = found
    return found


def min_value(dtype: str) -> Expr:
    """The smallest value of a type (minus infinity for floats)."""
    if dt.is_float(dtype):
        return const(float("-inf"), dtype)
    return const(0 if not dt.is_signed(dtype) else -(1 << dt.bits(dtype) - 1), dtype)


def max_value(dtype: str) -> Expr:
    """The largest value of a type (infinity for floats)."""
    if dt.is_float(dtype):
        return const(float("inf"), dtype)
    bits = dt.bits(dtype)
    return const(
        1 if dtype == "bool" else (1 << (bits - (1 if dt.is_signed(dtype) else 0))) - 1, dtype
    )


sum = comm_reducer(lambda a, b: a + b, lambda d: const(0, d), name="sum")
prod = comm_reducer(lambda a, b: a * b, lambda d: const(1, d), name="prod")
max = comm_reducer(maximum, min_value, name="max")
min = comm_reducer(minimum, max_value, name="min")
all = comm_reducer(lambda a, b: all_of(a, b), lambda d: const(True), name="all")
any = comm_reducer(lambda a, b: any_of(a, b), lambda d: const(False), name="any")


def topological(outputs: Sequence[Tensor]) -> list[Operation]:
    """The operations behind some tensors, producers first."""
    order: list[Operation] = []
    done: set[int] = set()
    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif id(op) not in done:
            done.add(id(op))
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.inputs) if id(t.op) not in done)
    return order
