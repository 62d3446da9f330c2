"""Tensor expressions: what is computed, without saying how.

A Tensor is a Buffer that knows the operation that makes it, so an access `A[i, k]` is an ordinary
load and a computation becomes a tensor program by replacing tensors with plain buffers.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, maximum, minimum
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, const, convert
from smelt.ir.node import ordered
from smelt.ir.operators import INDICES, Arithmetic
from smelt.tir import nodes as tir
from smelt.tir.rewrite import replace_buffers
from smelt.tir.script_ops import expr_nodes

from .broadcast import at, broadcast_shapes, describe, simple


class Operation:
    """What makes tensors. `outputs` are they; `inputs` the tensors read."""

    name: str
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...] = ()

    def output(self, index: int) -> Tensor:
        """The tensor number `index` that this operation makes."""
        return self.outputs[index]

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors read."""
        return list(self.inputs)


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
        self,
        name: str,
        axis: tuple[tir.IterVar, ...],
        body: tuple[Expr, ...],
        attrs: Mapping[str, Any],
    ) -> None:
        """Find the tensors read and the reduction's axes."""
        self.name, self.axis, self.body, self.attrs = name, axis, body, attrs
        self.reduce_axis: tuple[tir.IterVar, ...] = (
            body[0].axis if isinstance(body[0], tir.Reduce) else ()
        )
        self.inputs = tuple(_inputs(body))


class ExternOp(Operation):
    """Tensors that a statement writes, which no schedule looks into.

    body  made by a function of the input and output buffers
    """

    def __init__(self, name: str, inputs: tuple[Tensor, ...], attrs: Mapping[str, Any]) -> None:
        """Outputs and body are attached by `extern`."""
        self.name, self.inputs, self.attrs = name, inputs, attrs
        self.body: tir.Stmt = tir.seq()


class Tensor(Arithmetic["Tensor"], tir.Buffer):
    """A buffer with the operation that makes it. A + B and the like make elementwise tensors."""

    op: Any = None

    @staticmethod
    def apply(op: str, a: Any, b: Any) -> Tensor:
        """A tensor of `op` on all elements, with numpy's broadcasting; numbers stand for all."""
        shape = broadcast_shapes(**{n: x.shape for n, x in (("a", a), ("b", b)) if _is_tensor(x)})

        def element(*i: Expr) -> Expr:
            return Expr.apply(op, *[at(x, shape, i) if _is_tensor(x) else x for x in (a, b)])

        made: Tensor = compute(shape, element, name="T_" + op.lower())
        return made

    def astype(self, dtype: str) -> Tensor:
        """All elements converted."""
        made: Tensor = compute(self.shape, lambda *i: self[i].astype(dtype), name=self.name)
        return made

    @property
    def value_index(self) -> int:
        """Which of the operation's outputs this is."""
        return [t is self for t in self.op.outputs].index(True)

    @property
    def axis(self) -> tuple[tir.IterVar, ...]:
        """The indices of the operation that makes it."""
        return self.op.axis  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> tir.BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise TypeMismatch(
                f"{self.name} has {len(self.shape)} dimensions, {len(items)} indices given"
            )
        return tir.BufferLoad(self, tuple([_index(i) for i in items]))

    def __call__(self, *indices: Any) -> tir.BufferLoad:
        """A[i, j] written A(i, j)."""
        return self[indices]


def _is_tensor(x: object) -> bool:
    return isinstance(x, Tensor)


def _index(i: Any) -> Expr:
    e = i.var if isinstance(i, tir.IterVar) else convert(i)
    return e if e.dtype == INDEX else e.astype(INDEX)


def _inputs(body: Sequence[Expr]) -> list[Tensor]:
    """The tensors that expressions read."""
    found: dict[Tensor, None] = {}
    for n in [n for e in body for n in expr_nodes(e) if isinstance(n, tir.BufferLoad)]:
        if not isinstance(n.buffer, Tensor):
            raise TypeMismatch(f"a tensor expression reads {n.buffer.name}, which is no tensor")
        found[n.buffer] = None
    return list(found)


def var(name: str = "tindex", dtype: str = INDEX) -> Var:
    """A scalar unknown."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = INDEX) -> Var:
    """A symbolic size, at least 0."""
    return Var(name, dtype)


def _shape(shape: ExprLike | Sequence[ExprLike]) -> tuple[Expr, ...]:
    items = shape if isinstance(shape, list | tuple) else (shape,)
    return tuple([simple(convert(e, INDEX)) for e in items])


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
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor given by a function of its indices; several tensors where it returns a tuple.

    shape          extents
    fcompute       called with one index variable per dimension (or `*i`)
    varargs_names  the names of the variables that `*i` takes
    """
    extents = _shape(shape)
    names = _axis_names(fcompute, len(extents), varargs_names or ())
    domains = [tir.Range(const(0, INDEX), e) for e in extents]
    axis = tuple([tir.IterVar(_index_var(n), d) for n, d in zip(names, domains, strict=True)])
    result = fcompute(*[a.var for a in axis])
    body = tuple([convert(r) for r in (result if isinstance(result, list | tuple) else (result,))])
    _check_reduce(body, name)
    if len(body) == 1 and isinstance(body[0], tir.Reduce) and len(body[0].sources) > 1:
        body = tuple([body[0].replace(index=i) for i in range(len(body[0].sources))])
    op = ComputeOp(name, axis, body, _attrs(attrs, tag))
    _make_outputs(op, [extents] * len(body), [e.dtype for e in body])
    return op.outputs[0] if len(op.outputs) == 1 else op.outputs


def _attrs(attrs: Mapping[str, Any] | None, tag: str) -> dict[str, Any]:
    return {**(attrs or {}), **({"tag": tag} if tag else {})}


def _make_outputs(op: Operation, shapes: Sequence[tuple[Expr, ...]], dtypes: Sequence[str]) -> None:
    """The tensors that an operation makes; several are numbered."""
    names = [op.name] if len(shapes) == 1 else [f"{op.name}_{i}" for i in range(len(shapes))]
    parts = zip(names, shapes, dtypes, strict=True)
    op.outputs = tuple([Tensor(n, s, d, op=op) for n, s, d in parts])


def _index_var(name: str) -> Var:
    """A variable whose comparisons have no truth value while the expression is written."""
    v = Var(name)
    INDICES.add(v)
    return v


def _axis_names(
    fcompute: Callable[..., Any], rank: int, variadic_names: Sequence[str]
) -> list[str]:
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
    rest = rank - len(names)
    if variadic_names and (not variadic or len(variadic_names) != rest):
        raise TypeMismatch(
            f"compute: {len(variadic_names)} varargs_names for {rest if variadic else 0} indices"
        )
    return names + list(variadic_names or [f"i{k}" for k in range(len(names), rank)])


def _check_reduce(body: tuple[Expr, ...], name: str) -> None:
    for e in body:
        if not isinstance(e, tir.Reduce) and any(isinstance(n, tir.Reduce) for n in expr_nodes(e)):
            raise TypeMismatch(
                f"compute {name}: a reduction must be the whole expression; "
                "give it a compute of its own and use that tensor"
            )


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Tensor], list[Tensor]], tir.Stmt],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors that a statement writes: what `compute` cannot say, such as a sort.

    shape     extents of the result, or a list of them for several results
    fcompute  (inputs, outputs) -> the statement that reads and writes them
    dtype     of the results; None: that of the inputs
    """
    several = bool(shape) and isinstance(shape, list | tuple) and isinstance(shape[0], list | tuple)
    shapes = [_shape(s) for s in (shape if several else [shape])]
    types = (
        {t.dtype for t in inputs} if dtype is None else {dtype} if isinstance(dtype, str) else ()
    )
    if len(types) > 1 or (dtype is None and not inputs):
        raise TypeMismatch(f"extern {name}: dtype is needed, the inputs have {sorted(types)}")
    each = list(dtype) if dtype is not None and not types else [*types] * len(shapes)
    if len(each) != len(shapes):
        raise TypeMismatch(f"extern {name}: {len(shapes)} shapes, {len(each)} dtypes")
    op = ExternOp(name, tuple(inputs), _attrs(attrs, tag))
    _make_outputs(op, shapes, each)
    body = fcompute(list(inputs), list(op.outputs))
    if not isinstance(body, tir.Stmt):
        raise TypeMismatch(
            f"extern {name}: the function gave {type(body).__name__}; legal: a statement"
        )
    op.body = body
    return op.outputs if several else op.outputs[0]


def extern_primfunc(inputs: Sequence[Tensor], func: tir.PrimFunc) -> Any:
    """The results of a tensor program as tensors.

    func  takes the inputs' buffers first, then those that it writes
    """
    ins, outs = func.buffers[: len(inputs)], func.buffers[len(inputs) :]
    if len(ins) < len(inputs) or not outs or len(func.params) != len(func.buffers):
        raise TypeMismatch(
            f"extern_primfunc: {func.name} takes {len(func.params)} parameters, "
            f"{len(func.buffers)} of them buffers; legal: {len(inputs)} inputs and at least "
            "one result, all of them buffers"
        )
    for t, b in zip(inputs, ins, strict=True):
        if t.dtype != b.dtype or (t.shape != b.shape and list(t.shape) != list(b.shape)):
            raise TypeMismatch(
                f"extern_primfunc: {func.name} takes {b.name} as {b.dtype}{describe(b.shape)}, "
                f"{t.name} is {t.dtype}{describe(t.shape)}"
            )

    def body(given: list[Tensor], made: list[Tensor]) -> tir.Stmt:
        return replace_buffers(func.body, dict(zip(func.buffers, (*given, *made), strict=True)))

    made = extern([list(b.shape) for b in outs], inputs, body, func.name, [b.dtype for b in outs])
    return made if len(outs) > 1 else made[0]


# ----------------------------------------------------------------------------------- reductions


def reduce_axis(dom: tir.Range | tuple[ExprLike, ExprLike], name: str = "rv") -> tir.IterVar:
    """An index that a reduction runs over, from begin to end (exclusive)."""
    return tir.IterVar(_index_var(name), tir.Range.of(dom), "reduce")


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
        start = () if init is None else init if isinstance(init, list | tuple) else (init,)
        pairs = zip(start, sources if start else (), strict=True)
        first = tuple([convert(v, s.dtype) for v, s in pairs])
        places = range(len(sources))
        outs = tuple([tir.Reduce(combiner, sources, axes, condition, i, first) for i in places])
        return outs if isinstance(expr, list | tuple) else outs[0]

    reduce.__name__ = name
    return reduce


_COMBINERS: dict[tuple[Any, ...], tir.Combiner] = {}


def _combiner(
    name: str, fcombine: Callable[..., Any], fidentity: Callable[..., Any], dtypes: tuple[str, ...]
) -> tir.Combiner:
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
        joined = tuple([convert(r) for r in result])
        starts = tuple([convert(e, d) for e, d in zip(identity, dtypes, strict=True)])
        found = _COMBINERS[key] = tir.Combiner(name, lhs, rhs, joined, starts)
    return found


def min_value(dtype: str) -> Expr:
    """The smallest value of a type (minus infinity for floats)."""
    return const(-math.inf if dt.is_float(dtype) else dt.limits(dtype)[0], dtype)


def max_value(dtype: str) -> Expr:
    """The largest value of a type (infinity for floats)."""
    return const(math.inf if dt.is_float(dtype) else dt.limits(dtype)[1], dtype)


sum = comm_reducer(lambda a, b: a + b, lambda d: const(0, d), name="sum")
prod = comm_reducer(lambda a, b: a * b, lambda d: const(1, d), name="prod")
max = comm_reducer(maximum, min_value, name="max")
min = comm_reducer(minimum, max_value, name="min")
reduce_all = comm_reducer(lambda a, b: all_of(a, b), lambda d: const(True), name="all")
reduce_any = comm_reducer(lambda a, b: any_of(a, b), lambda d: const(False), name="any")


def topological(outputs: Sequence[Tensor]) -> list[Operation]:
    """The operations behind some tensors, producers first."""
    return list(ordered([t.op for t in outputs], lambda op: [t.op for t in op.inputs]))
