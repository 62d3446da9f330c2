"""Reverse-mode derivatives of graph values, by a rule for each of the core's operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import Unsupported
from smelt.ir.expr import convert
from smelt.ir.tables import entering
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op

from .compose import common
from .compose.common import dtype_of, extents, filled, rank_of, reshaped, shape_of
from .compose.shapes import collapsed
from .compose.window import placed
from .graph import made_of, rebuilding
from .graph_op import of_dialect
from .nodes import Call, RelaxExpr, TupleGetItem, call, renewed_call, values

Rule = Callable[..., "Sequence[RelaxExpr | None]"]

RULES: dict[str, Rule] = {}
"""Of each operator: (call, derivative by its result, *operands) -> derivatives by its operands."""

_rule = entering(RULES)


def derivatives(y: RelaxExpr, xs: Sequence[RelaxExpr], who: str = "derivative") -> list[RelaxExpr]:
    """The derivatives of the sum of a tensor's elements by some values that it is made of.

    They have the types of these values; zeros where a value has no part in `y`.

    who  begins the text of errors
    """
    between, order = made_of(y, xs), list(values(y))
    sums: dict[RelaxExpr | None, RelaxExpr] = {y: filled(y, 1.0)}
    for node in reversed(order):
        if node not in sums or node not in between or any(node is x for x in xs):
            continue
        n, rule = _rule_of(node, who)
        for a, part in zip(n.args, rule(n, sums[node], *n.args), strict=False):
            if a is not None and a in between and part is not None and dt.is_float(dtype_of(a)):
                sums[a] = call("add", sums[a], part) if a in sums else part
    return [sums.get(x) or filled(x, 0.0) for x in xs]


def with_values(y: RelaxExpr, given: Mapping[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """A value computed from others in the place of some that it is made of."""
    done: dict[RelaxExpr, Any] = dict(given)
    for node, new in rebuilding(y, done):
        changed = isinstance(new, Call) and new is not node
        done.setdefault(node, renewed_call(node, *new.args) if changed else new)
    return done[y]  # type: ignore[no-any-return]


def _rule_of(node: RelaxExpr, who: str) -> tuple[Call, Rule]:
    n = node.value if isinstance(node, TupleGetItem) else node
    if not isinstance(n, Call):
        raise Unsupported(
            f"{who}: a {type(n).__name__} has no rule; PartialEvaluate takes closures and branches "
            "on constants away"
        )
    if not isinstance(n.op, Op):
        raise Unsupported(
            f"{who}: a call of a function has no rule; Inline, PartialEvaluate take it away"
        )
    rule = RULES.get(n.op.name)
    if rule is None or n is not node or of_dialect(n.op):
        raise Unsupported(
            f"{who}: {n.op.name} has no rule{nearest(n.op.name, RULES)}; "
            f"rules: {', '.join(sorted(RULES))}"
        )
    return n, rule


# ------------------------------------------------------------------------- element by element


def _do(name: str, *given: Any) -> RelaxExpr:
    """A call; numbers have the element type of the last value."""
    kind = next(dtype_of(g) for g in reversed(given) if isinstance(g, RelaxExpr))
    return call(name, *[common.scalar(g, kind) if isinstance(g, float) else g for g in given])


_BOTH: dict[str, Callable[[Any, Any, Any, Any], tuple[Any, Any]]] = {
    "add": lambda a, b, y, d: (d, d),
    "subtract": lambda a, b, y, d: (d, _do("negative", d)),
    "multiply": lambda a, b, y, d: (_do("multiply", d, b), _do("multiply", d, a)),
    "divide": lambda a, b, y, d: (
        _do("divide", d, b), _do("negative", _do("divide", _do("multiply", d, y), b))),
    "power": lambda a, b, y, d: (
        _do("multiply", _do("multiply", d, b), _do("power", a, _do("subtract", b, 1.0))),
        _do("multiply", _do("multiply", d, y), _do("log", a)),
    ),
    "maximum": lambda a, b, y, d: (
        _do("where", _do("greater_equal", a, b), d, 0.0), _do("where", _do("less", a, b), d, 0.0)),
    "minimum": lambda a, b, y, d: (
        _do("where", _do("less_equal", a, b), d, 0.0), _do("where", _do("greater", a, b), d, 0.0)),
    "prelu": lambda a, b, y, d: (
        _do("where", _do("greater", a, 0.0), d, _do("multiply", d, b)),
        _do("where", _do("greater", a, 0.0), 0.0, _do("multiply", d, a))),
}  # fmt: skip
"""Operators that broadcast: (operands, result, its derivative) -> those of the operands."""

_ONE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "abs": lambda x, y, d: _do("multiply", d, _do("sign", x)),
    "cos": lambda x, y, d: _do("negative", _do("multiply", d, _do("sin", x))),
    "erf": lambda x, y, d: _do(
        "multiply", _do("multiply", d, 2 / math.sqrt(math.pi)),
        _do("exp", _do("negative", _do("multiply", x, x)))),
    "exp": lambda x, y, d: _do("multiply", d, y),
    "identity": lambda x, y, d: d,
    "log": lambda x, y, d: _do("divide", d, x),
    "negative": lambda x, y, d: _do("negative", d),
    "reciprocal": lambda x, y, d: _do("negative", _do("multiply", d, _do("multiply", y, y))),
    "relu": lambda x, y, d: _do("where", _do("greater", x, 0.0), d, 0.0),
    "rsqrt": lambda x, y, d: _do("divide", _do("multiply", _do("multiply", d, y), -0.5), x),
    "sigmoid": lambda x, y, d: _do("multiply", d, _do("multiply", y, _do("subtract", 1.0, y))),
    "sin": lambda x, y, d: _do("multiply", d, _do("cos", x)),
    "softplus": lambda x, y, d: _do("multiply", d, _do("sigmoid", x)),
    "sqrt": lambda x, y, d: _do("divide", _do("multiply", d, 0.5), y),
    "square": lambda x, y, d: _do("multiply", _do("multiply", d, 2.0), x),
    "tanh": lambda x, y, d: _do("multiply", d, _do("subtract", 1.0, _do("multiply", y, y))),
    # with attributes
    "clip": lambda x, y, d: _do("where", _do("equal", x, y), d, 0.0),
    "leaky_relu": lambda x, y, d: _do(
        "where", _do("greater", x, 0.0), d, _do("multiply", d, float(y.attrs["alpha"]))),
    "log_softmax": lambda x, y, d: _do("subtract", d, _do("multiply", _do("exp", y), _total(d, y))),
    "softmax": lambda x, y, d: _do(
        "multiply", _do("subtract", d, _total(_do("multiply", d, y), y)), y),
}  # fmt: skip
"""Operators of one operand: (operand, result, its derivative) -> that of the operand."""


def _total(x: RelaxExpr, along: Call) -> RelaxExpr:
    """The sum along the axis of a call."""
    return call("sum", x, axes=(along.attrs["axis"],), keepdims=True)


def _collapsed(d: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
    """A derivative summed over what an operand was broadcast along."""
    d = collapsed(d, shape_of(x))
    return d if shape_of(d) == shape_of(x) else reshaped(d, shape_of(x))


@_rule(*_BOTH)
def _both(n: Call, d: RelaxExpr, a: Any, b: Any) -> list[RelaxExpr]:
    return [_collapsed(v, x) for v, x in zip(_BOTH[n.callee](a, b, n, d), (a, b), strict=True)]


@_rule(*_ONE)
def _one(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    return [_ONE[n.callee](x, n, d)]


@_rule("where")
def _where(n: Call, d: RelaxExpr, c: Any, x: Any, y: Any) -> list[RelaxExpr | None]:
    return [None, _collapsed(_do("where", c, d, 0.0), x), _collapsed(_do("where", c, 0.0, d), y)]


@_rule("cast")
def _cast(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    return [common.cast_to(d, dtype_of(x))]


# ------------------------------------------------------------------------------- moved elements


@_rule("reshape", "expand_dims", "squeeze")
def _moved(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    return [reshaped(d, shape_of(x))]


@_rule("broadcast_to")
def _broadcast(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    return [_collapsed(d, x)]


@_rule("transpose")
def _transpose(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    rank = rank_of(n)
    axes = [a % rank for a in n.attrs["axes"] or range(rank)[::-1]]
    return [call("transpose", d, axes=tuple([axes.index(i) for i in range(rank)]))]


@_rule("concat")
def _concat(n: Call, d: RelaxExpr, *xs: Any) -> list[RelaxExpr]:
    axis = n.attrs["axis"] % rank_of(n)
    ends = accumulate([shape_of(x)[axis] for x in xs], initial=convert(0))
    return [common.along(d, axis, begin, end) for begin, end in pairwise(ends)]


@_rule("pad")
def _pad(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    mode = n.attrs["mode"]
    if mode != "constant":
        raise Unsupported(f"derivative: a pad with mode={mode!r}\n  supported: 'constant'")
    return [call("pad", d, pads=tuple([0 - p for p in n.attrs["pads"]]))]


@_rule("strided_slice")
def _slice(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    """Zeros around, and between where the slice has steps."""
    a, rank = n.attrs, rank_of(x)
    first, step = [convert(0)] * rank, [1] * rank
    for axis, begin, s in zip(a["axes"], a["begin"], a["strides"] or [1] * rank, strict=False):
        first[axis] = begin + (0 if s > 0 else (shape_of(n)[axis] - 1) * s)
        step[axis] = s
    back = tuple([i for i, s in enumerate(step) if s < 0])
    d = call("flip", d, axes=back) if back else d
    if any(s not in (1, -1) for s in step):
        d = call("dilate", d, strides=tuple([abs(s) for s in step]))
    behind = [e - b - k for e, b, k in zip(shape_of(x), first, shape_of(d), strict=True)]
    return [call("pad", d, pads=(*first, *behind))]


# --------------------------------------------------------------------------- sums and products


@_rule("sum", "mean", "reduce_sum_square")
def _sum(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    axes = common.axes_of(n.attrs["axes"], rank_of(x))
    kept = [1 if i in axes else e for i, e in enumerate(shape_of(x))]
    whole = call("broadcast_to", reshaped(d, kept), shape=shape_of(x))
    if n.callee == "reduce_sum_square":
        return [_do("multiply", _do("multiply", whole, 2.0), x)]
    if n.callee == "sum":
        return [whole]
    count = math.prod([shape_of(x)[a] for a in axes], start=convert(1))
    if value_of(count) is None:
        raise Unsupported("derivative: a mean over a symbolic size\n  supported: constant sizes")
    return [_do("divide", whole, float(value_of(count) or 1))]


@_rule("matmul")
def _matmul(n: Call, d: RelaxExpr, a: Any, b: Any) -> list[RelaxExpr]:
    ta, tb = n.attrs["transpose_a"], n.attrs["transpose_b"]

    def times(p: Any, q: Any, tp: bool, tq: bool) -> RelaxExpr:
        return call("matmul", p, q, transpose_a=tp, transpose_b=tq)

    da = times(b, d, tb, True) if ta else times(d, b, False, not tb)
    p = a
    if rank_of(b) == 2 and rank_of(a) > 2 and not ta:  # one product instead of a sum of many
        p, d = (reshaped(v, (math.prod(shape_of(v)[:-1]), shape_of(v)[-1])) for v in (a, d))
    db = times(d, p, True, ta) if tb else times(p, d, not ta, False)
    return [_collapsed(da, a), _collapsed(db, b)]


@_rule("max_pool", "avg_pool")
def _pool(n: Call, d: RelaxExpr, x: Any) -> list[RelaxExpr]:
    return [call(f"{n.callee}_grad", d, x, **n.attrs)]


@_rule("conv1d", "conv2d", "conv3d")
def _conv(n: Call, d: RelaxExpr, x: Any, w: Any) -> list[RelaxExpr]:
    rank, same = rank_of(x) - 2, {"groups": n.attrs["groups"], **placed(n, rank_of(x) - 2)}
    sizes: Any = [extents(t)[2:] for t in (x, n, w)]
    if any(None in group for group in sizes):
        raise Unsupported("derivative: a convolution of symbolic size\n  supported: constant sizes")
    if n.attrs["border"]:
        border = n.attrs["border"]
        raise Unsupported(f"derivative: a convolution with border={border}\n  supported: 0")
    ends = zip(same["pads"][:rank], same["pads"][rank:], strict=True)
    rest = tuple([
        have - ((out - 1) * s + step * (k - 1) + 1 - begin - end)
        for have, out, k, s, step, (begin, end) in
        zip(*sizes, same["strides"], same["dilations"], ends, strict=True)
    ])  # fmt: skip
    dx = call("conv_transpose", d, w, output_padding=rest, **same)
    return [dx, call("conv_backward_weight", d, x, kernel=sizes[2], **same)]
