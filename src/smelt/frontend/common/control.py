"""Branches and loops: decided here where conditions are known, else by the run.

The latter become branches and functions that call themselves: an iteration is one native call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.errors import Unsupported
from smelt.ir.expr import Expr
from smelt.ir.limits import MOST_ITERATIONS
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type, tensor_type
from smelt.relax import nodes as relax
from smelt.relax.host_ops import define_sizes, host_call

from . import moves
from .build import Build
from .graph import Graph
from .values import Operand, SequenceValue, Value

UNROLLED = 8
"""Loops of at most so many iterations are written out, so that all are one native call."""

Iteration = Callable[[Value, "list[Operand]"], "tuple[Value | None, list[Operand], list[Value]]"]
"""One iteration of a loop: number and state -> condition (None: goes on), state, its results."""

Stacking = Sequence[tuple[int, bool]]
"""Of each result of an iteration: the axis along which it is stacked, and whether backward."""


# ------------------------------------------------------------------------------------------- if


def run_branch(
    g: Build, condition: Value, then_branch: Graph, else_branch: Graph,
    given: Sequence[Operand] = (),
) -> tuple[Operand, ...]:  # fmt: skip
    """A branch that is known, or a branch at run time; given: what both take."""
    if condition.known is not None:
        chosen = then_branch if g.number(condition, "cond") else else_branch
        return tuple(g.walk.branch(chosen, given))
    yes, no = g.walk.branch(then_branch, given), g.walk.branch(else_branch, given)
    types: list[Type] = []
    for k, (a, b) in enumerate(zip(yes, no, strict=True)):
        if not isinstance(a, Value) or not isinstance(b, Value):
            return g.needs(condition, "cond")
        if a.rank != b.rank or a.dtype != b.dtype:
            if g.walk.sources(condition.expr):
                return g.needs(condition, "cond")
            g.unsupported(
                f"result {k} is {_shown(a)} in one branch and {_shown(b)} in the other",
                "one rank and element type",
            )
        types.append(_joined(g, a.type, b.type))
    g.walk.decide()
    made = relax.If(_scalar(g, condition).expr, _branch(yes), _branch(no), _tuple(types))
    return g.items(made)


def _branch(values: Sequence[Operand]) -> relax.Function:
    exprs = tuple([v.expr for v in values if isinstance(v, Value)])
    return relax.Function((), exprs[0] if len(exprs) == 1 else relax.Tuple(exprs), {})


def _tuple(types: Sequence[Type]) -> Type:
    return types[0] if len(types) == 1 else TupleType(tuple(types))


def _joined(g: Build, a: TensorType, b: TensorType) -> TensorType:
    """The type of a value that comes from two sides: extents that differ are the run's."""
    return TensorType(
        tuple([x if x is y else g.fresh() for x, y in zip(a.shape, b.shape, strict=True)]), a.dtype
    )


def _shown(v: Value) -> str:
    return f"{v.dtype}({', '.join(map(str, v.shape))})"


def _scalar(g: Build, v: Value) -> Value:
    """A value of one element without dimensions."""
    return v if v.rank == 0 else moves.reshape(g, v, ())


# ---------------------------------------------------------------------------------------- loops


def run_loop(
    g: Build, count: Value | None, go: Value | None, state: Sequence[Operand], iteration: Iteration,
    stacking: Stacking,
) -> list[Operand]:  # fmt: skip
    """The state after a loop, and what its iterations gave, stacked.

    count  the most iterations; None: no limit
    go     whether it begins; None: it does
    """
    sequences = any(isinstance(v, SequenceValue) for v in state)
    known = (count is None or count.is_array) and (go is None or go.known is not None)
    if known and count is not None:
        iterations = g.number(count, "M")
        if iterations <= (MOST_ITERATIONS if sequences else UNROLLED):
            done = _unrolled(g, iterations, go, state, iteration, stacking)
            if done is not None:
                return done
    if sequences:
        if count is not None and count.known is not None and not count.is_array:
            g.unsupported("a loop over sequences with a symbolic number of iterations", "a number")
        if count is not None and count.known is None:
            return g.needs(count, "M")
        if go is not None and go.known is None:
            return g.needs(go, "cond")
        g.unsupported(
            "a loop that carries sequences, with a condition known only at run time",
            f"a known number of iterations, at most {MOST_ITERATIONS}",
        )
    return _recursive(g, count, go, state, iteration, stacking)  # type: ignore[arg-type, return-value]


def _unrolled(
    g: Build, iterations: int, go: Value | None, state: Sequence[Operand], iteration: Iteration,
    stacking: Stacking,
) -> list[Operand] | None:  # fmt: skip
    """The loop written out; None where a condition is not known."""
    given = list(state)
    found: list[list[Value]] = [[] for _ in stacking]
    if go is not None and not g.number(go, "cond"):
        iterations = 0
    for n in range(iterations):
        more, given, results = iteration(g.constant(n, "int64"), given)
        for row, r in zip(found, results, strict=True):
            row.append(r)
        if more is not None:
            if more.known is None:
                return None
            if not g.number(more, "cond"):
                break
    if any(not row for row in found):
        return None  # the shape of an item is known to the loop at run time only
    stacked = []
    for row, (axis, reverse) in zip(found, stacking, strict=True):
        at = axis % (row[0].rank + 1)
        parts = [moves.expand_dims(g, r, (at,)) for r in (row[::-1] if reverse else row)]
        if any(p.shape != parts[0].shape for p in parts):
            g.unsupported("results of iterations with different shapes", "one shape")
        stacked.append(moves.concat(g, parts, at))
    return [*given, *stacked]


def _recursive(
    g: Build, count: Value | None, go: Value | None, state: Sequence[Value], iteration: Iteration,
    stacking: Stacking,
) -> list[Value]:  # fmt: skip
    """The loop as a function that calls itself."""
    g.walk.decide()
    zero, width = g.constant(0, "int64"), len(stacking)
    limit = None if count is None else _scalar(g, g.call("cast", count, dtype="int64"))
    types = [v.type for v in state]
    open_: set[Expr] = set()  # extents that differ from one iteration to the next
    for _ in range(4):
        number = _param("i", tensor_type((), "int64"))
        params = [_param(f"s{n}", t) for n, t in enumerate(types)]
        more, after, results = iteration(number, list(params))
        wider = [
            _agreed(g, n, t, v, open_) for n, (t, v) in enumerate(zip(types, after, strict=True))
        ]
        if types == wider:
            break
        types = wider
    else:
        raise Unsupported(f"{g.where}: the shapes of the loop's values do not settle")
    lists = [relax.Var(f"l{n}", IncompleteType()) for n in range(width)]
    flag = _param("go", tensor_type((), "bool"))
    following = g.call("add", number, 1)
    held = [
        host_call("append", lists[n], r.expr, type=IncompleteType()) for n, r in enumerate(results)
    ]
    result = TupleType((*[_fresh(g, t, open_) for t in types], *[IncompleteType()] * width))
    scalars = (tensor_type((), "int64"), tensor_type((), "bool"))
    taken = (*scalars, *types, *[IncompleteType()] * width)
    loop = relax.Var("loop", FuncType(taken, result))
    again = _called(
        loop,
        [following, _continues(g, following, limit, more), *after],  # type: ignore[list-item]
        held,
        result,
    )
    last = relax.Tuple((*[p.expr for p in params], *lists))
    body = relax.If(flag.expr, relax.Function((), again, {}), relax.Function((), last, {}), result)
    own = [number, flag, *params]
    name = {"name": g.step.label}
    function = relax.Function((*[p.expr for p in own], *lists), body, name)  # type: ignore[arg-type]
    empty = [host_call("list", type=IncompleteType()) for _ in range(width)]
    start = _called(loop, [zero, _continues(g, zero, limit, go), *state], empty, result)
    made = relax.Let(loop, function, start)
    items = [relax.TupleGetItem(made, n) for n in range(len(types) + width)]
    out = [Value(t, define_sizes(i)) for t, i in zip(result.items, items, strict=False)
           if isinstance(t, TensorType)]  # fmt: skip
    for item, r, (axis, reverse) in zip(items[len(types) :], results, stacking, strict=True):
        out.append(_stacked(g, item, r, axis, reverse))
    return out


def _param(name: str, t: TensorType) -> Value:
    return Value(t, define_sizes(relax.Var(name, t)))


def _fresh(g: Build, t: TensorType, open_: set[Expr]) -> TensorType:
    """A type with other sizes for extents that differ from one iteration to the next."""
    return TensorType(tuple([g.fresh() if e in open_ else e for e in t.shape]), t.dtype)


def _agreed(g: Build, n: int, t: TensorType, v: Operand, open_: set[Expr]) -> TensorType:
    """The type of a loop's value at every iteration, given that at one and after it."""
    if not isinstance(v, Value) or v.rank != t.rank or v.dtype != t.dtype:
        what = _shown(v) if isinstance(v, Value) else "a sequence"
        g.unsupported(
            f"the loop's value {n} is {_shown(Value(t))} before an iteration and {what} after it",
            "one rank and element type",
        )
    shape = []
    for a, b in zip(t.shape, v.type.shape, strict=True):
        if a is b or a in open_:
            shape.append(a)
        else:
            shape.append(g.fresh())
            open_.add(shape[-1])
    return TensorType(tuple(shape), t.dtype)


def _continues(g: Build, number: Value, limit: Value | None, go: Value | None) -> Value:
    """Whether an iteration begins."""
    flag = g.constant(True, "bool") if go is None else _scalar(g, go)
    if flag.dtype != "bool":
        flag = g.call("cast", flag, dtype="bool")
    if limit is None:
        return flag
    below = g.call("less", number, limit)
    return below if go is None else g.call("logical_and", below, flag)


def _called(
    loop: relax.Var, values: Sequence[Value], lists: Sequence[relax.RelaxExpr], t: Type
) -> relax.Call:
    args = (*[v.expr for v in values], *lists)
    return relax.Call(loop, args, {}, t, "")


def _stacked(g: Build, items: relax.RelaxExpr, one: Value, axis: int, reverse: bool) -> Value:
    """A list as a tensor."""
    at = axis % (one.rank + 1)
    inner = [e if isinstance(e, int) else g.fresh() for e in one.shape]
    t = tensor_type([*inner[:at], g.fresh(), *inner[at:]], one.dtype)
    shape = [e if isinstance(e, int) else 0 for e in one.shape]
    made = host_call(
        "stack", items, type=t, axis=at, shape=shape, dtype=one.dtype, reverse=reverse,
        name=g.step.label,
    )  # fmt: skip
    return Value(t, define_sizes(made))
