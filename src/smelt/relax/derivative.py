"""Reverse-mode derivatives of graph values, by a rule for each operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import Unsupported
from smelt.ir.expr import convert
from smelt.ir.types import TensorType
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op

from .nodes import Call, RelaxExpr, TupleGetItem, call, renewed_call, values

__all__ = ["RULES", "derivatives", "with_values"]

Rule = Callable[[Call, RelaxExpr], "Sequence[RelaxExpr | None]"]

RULES: dict[str, Rule] = {}
"""Of each operator: (call, derivative by its result) -> derivatives by its operands."""


def derivatives(y: RelaxExpr, xs: Sequence[RelaxExpr]) -> list[RelaxExpr]:
    """The derivatives of the sum of a tensor's elements by some values that it is made of.

    They have the types of these values; zeros where a value has no part in `y`.
    """
    between = _between(y, xs)
    sums: dict[int, RelaxExpr] = {id(y): filled(y, 1.0)}
    for node in reversed(list(values(y))):
        d = sums.get(id(node))
        if d is None or not isinstance(node, Call) or any(node is x for x in xs):
            continue
        parts = _rule_of(node)(node, d)
        for a, part in zip(node.args, parts, strict=False):
            if a is not None and part is not None and id(a) in between:
                before = sums.get(id(a))
                sums[id(a)] = part if before is None else call("add", before, part)
    return [sums.get(id(x)) or filled(x, 0.0) for x in xs]


def with_values(y: RelaxExpr, given: Mapping[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """A value computed from others in the place of some that it is made of."""
    made: dict[int, RelaxExpr] = {id(old): new for old, new in given.items()}
    for node in values(y):
        if id(node) in made:
            continue
        if isinstance(node, Call):
            args = [None if a is None else made.get(id(a), a) for a in node.args]
            if any(a is not b for a, b in zip(args, node.args, strict=True)):
                made[id(node)] = renewed_call(node, *args)
        elif isinstance(node, TupleGetItem) and id(node.value) in made:
            made[id(node)] = TupleGetItem(made[id(node.value)], node.index)
    return made.get(id(y), y)


def _between(y: RelaxExpr, xs: Sequence[RelaxExpr]) -> set[int]:
    """The float values that are made of one of `xs`, and these."""
    found = {id(x) for x in xs}
    for node in values(y):
        children = node.args if isinstance(node, Call) else ()
        if isinstance(node, TupleGetItem):
            children = (node.value,)
        if any(a is not None and id(a) in found for a in children):
            found.add(id(node))
            if isinstance(node, TupleGetItem):
                raise Unsupported(
                    f"derivative: an operator with several results has no rule\n"
                    f"  supported: {', '.join(sorted(RULES))}"
                )
    return found


def _rule_of(node: Call) -> Rule:
    name = node.op.name if isinstance(node.op, Op) else "a call of a function"
    found = RULES.get(name)
    if found is None:
        raise Unsupported(
            f"derivative: {name} has no rule{nearest(name, RULES)}\n"
            f"  supported: {', '.join(sorted(RULES))}"
        )
    return found


# ------------------------------------------------------------------------------------- helpers


def _type(x: RelaxExpr) -> TensorType:
    assert isinstance(x.type, TensorType)
    return x.type


def filled(x: RelaxExpr, value: float) -> RelaxExpr:
    """A tensor of the type of another one, all of one value."""
    return call("full", shape=_type(x).shape, value=value, dtype=_type(x).dtype)


def _number(x: RelaxExpr, value: float) -> RelaxExpr:
    return call("full", shape=(), value=value, dtype=_type(x).dtype)


def _times(a: RelaxExpr, b: RelaxExpr | float) -> RelaxExpr:
    return call("multiply", a, b if isinstance(b, RelaxExpr) else _number(a, b))


def _over(a: RelaxExpr, b: RelaxExpr | float) -> RelaxExpr:
    return call("divide", a, b if isinstance(b, RelaxExpr) else _number(a, b))


def _minus(a: RelaxExpr) -> RelaxExpr:
    return call("negative", a)


def _masked(keep: RelaxExpr, d: RelaxExpr) -> RelaxExpr:
    return call("where", keep, d, _number(d, 0.0))


def _collapsed(d: RelaxExpr, x: RelaxExpr | None) -> RelaxExpr | None:
    """A derivative summed over what an operand was broadcast along."""
    if x is None or not dt.is_float(_type(x).dtype):
        return None
    have, want = _type(d).shape, _type(x).shape
    lead = len(have) - len(want)
    axes = tuple(
        i
        for i in range(len(have))
        if i < lead or (value_of(want[i - lead]) == 1 and value_of(have[i]) != 1)
    )
    d = call("sum", d, axes=axes, keepdims=False) if axes else d
    return d if _type(d).shape == want else call("reshape", d, shape=want)


def _broadcasting(fn: Callable[[Any, Any, Any, Any], tuple[Any, Any]]) -> Rule:
    def both(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        a, b = n.args
        da, db = fn(a, b, n, d)
        return [_collapsed(da, a), _collapsed(db, b)]

    return both


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a rule for some operators."""

    def enter(fn: Rule) -> Rule:
        for name in names:
            RULES[name] = fn
        return fn

    return enter


# --------------------------------------------------------------------------------- elementwise

for _name, _both in {
    "add": lambda a, b, y, d: (d, d),
    "subtract": lambda a, b, y, d: (d, _minus(d)),
    "multiply": lambda a, b, y, d: (_times(d, b), _times(d, a)),
    "divide": lambda a, b, y, d: (_over(d, b), _minus(_over(_times(d, y), b))),
    "power": lambda a, b, y, d: (
        _times(_times(d, b), call("power", a, call("subtract", b, _number(b, 1.0)))),
        _times(_times(d, y), call("log", a)),
    ),
    "maximum": lambda a, b, y, d: (
        _masked(call("greater_equal", a, b), d), _masked(call("less", a, b), d)),
    "minimum": lambda a, b, y, d: (
        _masked(call("less_equal", a, b), d), _masked(call("greater", a, b), d)),
}.items():  # fmt: skip
    RULES[_name] = _broadcasting(_both)


def _rest(y: RelaxExpr) -> RelaxExpr:
    return call("subtract", _number(y, 1.0), y)


_UNARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "abs": lambda x, y, d: _times(d, call("sign", x)),
    "cos": lambda x, y, d: _minus(_times(d, call("sin", x))),
    "erf": lambda x, y, d: _times(
        _times(d, 2 / math.sqrt(math.pi)), call("exp", _minus(_times(x, x)))),
    "exp": lambda x, y, d: _times(d, y),
    "identity": lambda x, y, d: d,
    "log": lambda x, y, d: _over(d, x),
    "negative": lambda x, y, d: _minus(d),
    "reciprocal": lambda x, y, d: _minus(_times(d, _times(y, y))),
    "relu": lambda x, y, d: _masked(call("greater", x, _number(x, 0.0)), d),
    "rsqrt": lambda x, y, d: _over(_times(_times(d, y), -0.5), x),
    "sigmoid": lambda x, y, d: _times(d, _times(y, _rest(y))),
    "sin": lambda x, y, d: _times(d, call("cos", x)),
    "softplus": lambda x, y, d: _times(d, call("sigmoid", x)),
    "sqrt": lambda x, y, d: _over(_times(d, 0.5), y),
    "square": lambda x, y, d: _times(_times(d, 2.0), x),
    "tanh": lambda x, y, d: _times(d, _rest(_times(y, y))),
}  # fmt: skip


def _of_one(fn: Callable[[Any, Any, Any], Any]) -> Rule:
    return lambda n, d: [fn(n.args[0], n, d)]


for _name, _one in _UNARY.items():
    RULES[_name] = _of_one(_one)


@_rule("cast")
def _cast(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    (x,) = n.args
    assert x is not None
    known = dt.is_float(_type(x).dtype) and dt.is_float(_type(n).dtype)
    return [call("cast", d, dtype=_type(x).dtype) if known else None]


@_rule("where")
def _where(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    c, x, y = n.args
    zero = _number(d, 0.0)
    return [
        None,
        _collapsed(call("where", c, d, zero), x),
        _collapsed(call("where", c, zero, d), y),
    ]


@_rule("softmax")
def _softmax(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    total = call("sum", _times(d, n), axes=(n.attrs["axis"],), keepdims=True)
    return [_times(call("subtract", d, total), n)]


@_rule("log_softmax")
def _log_softmax(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    total = call("sum", d, axes=(n.attrs["axis"],), keepdims=True)
    return [call("subtract", d, _times(call("exp", n), total))]


# ---------------------------------------------------------------------------- shapes and sums


@_rule("reshape", "expand_dims", "squeeze")
def _moved(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return [call("reshape", d, shape=_type(n.args[0]).shape)]  # type: ignore[arg-type]


@_rule("broadcast_to")
def _broadcast(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return [_collapsed(d, n.args[0])]


@_rule("transpose")
def _transpose(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    rank = len(_type(n).shape)
    axes = [a % rank for a in n.attrs["axes"] or range(rank)[::-1]]
    return [call("transpose", d, axes=tuple([axes.index(i) for i in range(rank)]))]


@_rule("concat")
def _concat(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    axis, parts = n.attrs["axis"] % len(_type(n).shape), []
    begin: Any = convert(0)
    for a in n.args:
        assert a is not None
        end = begin + _type(a).shape[axis]
        where: dict[str, Any] = {"axes": (axis,), "begin": (begin,), "end": (end,), "strides": (1,)}
        parts.append(call("strided_slice", d, **where))
        begin = end
    return list(parts)


@_rule("sum", "mean", "reduce_sum_square")
def _sum(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    (x,) = n.args
    assert x is not None
    shape, axes = _type(x).shape, n.attrs["axes"]
    gone = [a % len(shape) for a in (range(len(shape)) if axes is None else axes)]
    kept = tuple([1 if i in gone else e for i, e in enumerate(shape)])
    whole = call("broadcast_to", call("reshape", d, shape=kept), shape=shape)
    name = n.op.name if isinstance(n.op, Op) else ""
    if name == "reduce_sum_square":
        return [_times(_times(whole, 2.0), x)]
    if name == "sum":
        return [whole]
    count: Any = convert(1)
    for a in gone:
        count = count * shape[a]
    known = value_of(count)
    if known is None:
        raise Unsupported("derivative: a mean over a symbolic size\n  supported: constant sizes")
    return [_over(whole, float(known))]


# ------------------------------------------------------------------------------------ products


@_rule("matmul")
def _matmul(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    a, b = n.args
    ta, tb = n.attrs["transpose_a"], n.attrs["transpose_b"]

    def times(p: Any, q: Any, tp: bool, tq: bool) -> RelaxExpr:
        return call("matmul", p, q, transpose_a=tp, transpose_b=tq)

    da = times(b, d, tb, True) if ta else times(d, b, False, not tb)
    db = times(d, a, True, ta) if tb else times(a, d, not ta, False)
    return [_collapsed(da, a), _collapsed(db, b)]


@_rule("conv1d", "conv2d", "conv3d")
def _conv(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x, w = n.args
    assert x is not None
    assert w is not None
    rank = len(_type(x).shape) - 2
    strides, pads, dilations = [
        tuple(n.attrs[k]) or (default,) * size
        for k, default, size in (
            ("strides", 1, rank),
            ("pads", 0, 2 * rank),
            ("dilations", 1, rank),
        )
    ]
    sizes = [
        [value_of(e) for e in _type(t).shape[2:]] for t in (x, n, w)
    ]  # fmt: skip
    if any(e is None for group in sizes for e in group):
        raise Unsupported("derivative: a convolution of symbolic size\n  supported: constant sizes")
    rest = tuple(
        have - ((out - 1) * s + step * (k - 1) + 1 - begin - end)
        for have, out, k, s, begin, end, step in zip(
            *sizes, strides, pads[:rank], pads[rank:], dilations, strict=True
        )
    )
    same = {"strides": strides, "pads": pads, "dilations": dilations, "groups": n.attrs["groups"]}
    dx = call("conv_transpose", d, w, output_padding=rest, **same)
    return [dx, call("conv_backward_weight", d, x, kernel=tuple(sizes[2]), **same)]
