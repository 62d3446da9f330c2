"""Reverse-mode derivatives of graph values, by a rule for each operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import Unsupported
from smelt.ir.expr import convert
from smelt.ir.tables import entering
from smelt.ir.types import TensorType
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op

from .graph import rebuilding
from .nodes import Call, RelaxExpr, TupleGetItem, call, renewed_call, values

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
    done: dict[RelaxExpr, Any] = dict(given)
    for node, new in rebuilding(y, done):
        changed = isinstance(new, Call) and new is not node
        done.setdefault(node, renewed_call(node, *new.args) if changed else new)
    return done[y]  # type: ignore[no-any-return]


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


# ------------------------------------------------------------------------------ in any dialect


def _type(x: RelaxExpr) -> TensorType:
    assert isinstance(x.type, TensorType)
    return x.type


BOTH: dict[str, Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]]] = {
    "add": lambda do, a, b, y, d: (d, d),
    "subtract": lambda do, a, b, y, d: (d, do("negative", d)),
    "multiply": lambda do, a, b, y, d: (do("multiply", d, b), do("multiply", d, a)),
    "divide": lambda do, a, b, y, d: (
        do("divide", d, b), do("negative", do("divide", do("multiply", d, y), b))),
    "power": lambda do, a, b, y, d: (
        do("multiply", do("multiply", d, b), do("power", a, do("subtract", b, 1.0))),
        do("multiply", do("multiply", d, y), do("log", a)),
    ),
    "maximum": lambda do, a, b, y, d: (
        do("where", do("greater_equal", a, b), d, 0.0), do("where", do("less", a, b), d, 0.0)),
    "minimum": lambda do, a, b, y, d: (
        do("where", do("less_equal", a, b), d, 0.0), do("where", do("greater", a, b), d, 0.0)),
}  # fmt: skip
"""Operators that broadcast: (do, operands, result, its derivative) -> those of the operands."""

ONE: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "abs": lambda do, x, y, d: do("multiply", d, do("sign", x)),
    "cos": lambda do, x, y, d: do("negative", do("multiply", d, do("sin", x))),
    "erf": lambda do, x, y, d: do(
        "multiply", do("multiply", d, 2 / math.sqrt(math.pi)),
        do("exp", do("negative", do("multiply", x, x)))),
    "exp": lambda do, x, y, d: do("multiply", d, y),
    "identity": lambda do, x, y, d: d,
    "log": lambda do, x, y, d: do("divide", d, x),
    "negative": lambda do, x, y, d: do("negative", d),
    "reciprocal": lambda do, x, y, d: do("negative", do("multiply", d, do("multiply", y, y))),
    "relu": lambda do, x, y, d: do("where", do("greater", x, 0.0), d, 0.0),
    "rsqrt": lambda do, x, y, d: do("divide", do("multiply", do("multiply", d, y), -0.5), x),
    "sigmoid": lambda do, x, y, d: do("multiply", d, do("multiply", y, do("subtract", 1.0, y))),
    "sin": lambda do, x, y, d: do("multiply", d, do("cos", x)),
    "softplus": lambda do, x, y, d: do("multiply", d, do("sigmoid", x)),
    "sqrt": lambda do, x, y, d: do("divide", do("multiply", d, 0.5), y),
    "square": lambda do, x, y, d: do("multiply", do("multiply", d, 2.0), x),
    "tanh": lambda do, x, y, d: do(
        "multiply", d, do("subtract", 1.0, do("multiply", y, y))),
}  # fmt: skip
"""Operators of one operand: (do, operand, result, its derivative) -> that of the operand."""


class Calculus:
    """Rules for the operators that every dialect has.

    make     a call: make(name, *operands, **attributes)
    number   a number as an operand beside a value: number(like, value)
    total    a sum: total(x, axes, keepdims)
    reshape  a value in another shape, reshape(x, shape)
    """

    def __init__(
        self,
        make: Callable[..., RelaxExpr],
        number: Callable[[RelaxExpr, float], RelaxExpr],
        total: Callable[[RelaxExpr, tuple[int, ...], bool], RelaxExpr],
        reshape: Callable[[RelaxExpr, Sequence[Any]], RelaxExpr],
    ) -> None:
        """Keep a dialect's words."""
        self.make, self.number, self.total, self.reshape = make, number, total, reshape

    def do(self, name: str, *given: Any) -> RelaxExpr:
        """A call; numbers have the element type of the last value."""
        like = next(g for g in reversed(given) if isinstance(g, RelaxExpr))
        return self.make(
            name, *[self.number(like, g) if isinstance(g, float) else g for g in given]
        )

    def collapsed(self, d: RelaxExpr, x: RelaxExpr | None) -> RelaxExpr | None:
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
        d = self.total(d, axes, False) if axes else d
        return d if _type(d).shape == want else self.reshape(d, want)

    def both(self, name: str) -> Rule:
        """The rule of an operator of `BOTH`."""

        def rule(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
            a, b = n.args
            da, db = BOTH[name](self.do, a, b, n, d)
            return [self.collapsed(da, a), self.collapsed(db, b)]

        return rule

    def one(self, name: str) -> Rule:
        """The rule of an operator of `ONE`."""
        return lambda n, d: [ONE[name](self.do, n.args[0], n, d)]

    def where(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """Each side where it was chosen."""
        c, x, y = n.args
        first, second = self.do("where", c, d, 0.0), self.do("where", c, 0.0, d)
        return [None, self.collapsed(first, x), self.collapsed(second, y)]

    def cast(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """In the operand's type, where both are floats."""
        kind = _type(n.args[0]).dtype  # type: ignore[arg-type]
        known = dt.is_float(kind) and dt.is_float(_type(n).dtype)
        return [self.make("cast", d, dtype=kind) if known else None]

    def softmax(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """(d - sum(d y)) y."""
        total = self.total(self.do("multiply", d, n), (n.attrs["axis"],), True)
        return [self.do("multiply", self.do("subtract", d, total), n)]

    def log_softmax(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """d - exp(y) sum(d)."""
        total = self.total(d, (n.attrs["axis"],), True)
        return [self.do("subtract", d, self.do("multiply", self.do("exp", n), total))]

    def moved(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """In the operand's shape."""
        return [self.reshape(d, _type(n.args[0]).shape)]  # type: ignore[arg-type]

    def broadcast(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """Summed over what was repeated."""
        return [self.collapsed(d, n.args[0])]

    def transpose(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """Turned back."""
        rank = len(_type(n).shape)
        axes = [a % rank for a in n.attrs["axes"] or range(rank)[::-1]]
        return [self.make("transpose", d, axes=tuple([axes.index(i) for i in range(rank)]))]

    def spread(self, n: Call, d: RelaxExpr, axes: Sequence[int]) -> tuple[RelaxExpr, int | None]:
        """The derivative of a sum over axes, and how many elements each sum has, where known."""
        shape = _type(n.args[0]).shape  # type: ignore[arg-type]
        kept = tuple([1 if i in axes else e for i, e in enumerate(shape)])
        count: Any = convert(1)
        for a in axes:
            count = count * shape[a]
        return self.make("broadcast_to", self.reshape(d, kept), shape=shape), value_of(count)

    def matmul(self, n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        """Products with the other operand."""
        a, b = n.args
        ta, tb = n.attrs["transpose_a"], n.attrs["transpose_b"]

        def times(p: Any, q: Any, tp: bool, tq: bool) -> RelaxExpr:
            return self.make(n.op, p, q, transpose_a=tp, transpose_b=tq)

        da = times(b, d, tb, True) if ta else times(d, b, False, not tb)
        db = times(d, a, True, ta) if tb else times(a, d, not ta, False)
        return [self.collapsed(da, a), self.collapsed(db, b)]


# ---------------------------------------------------------------------- the core's operators


def filled(x: RelaxExpr, value: float) -> RelaxExpr:
    """A tensor of the type of another one, all of one value."""
    return call("full", shape=_type(x).shape, value=value, dtype=_type(x).dtype)


_CORE = Calculus(
    call,
    lambda like, value: call("full", shape=(), value=value, dtype=_type(like).dtype),
    lambda x, axes, keepdims: call("sum", x, axes=axes, keepdims=keepdims),
    lambda x, shape: call("reshape", x, shape=tuple(shape)),
)
RULES.update({name: _CORE.both(name) for name in BOTH})
RULES.update({name: _CORE.one(name) for name in ONE})
RULES.update({
    "cast": _CORE.cast, "where": _CORE.where, "softmax": _CORE.softmax,
    "log_softmax": _CORE.log_softmax, "reshape": _CORE.moved, "expand_dims": _CORE.moved,
    "squeeze": _CORE.moved, "broadcast_to": _CORE.broadcast, "transpose": _CORE.transpose,
    "matmul": _CORE.matmul,
})  # fmt: skip
_rule = entering(RULES)


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
    rank, axes = len(_type(x).shape), n.attrs["axes"]
    whole, count = _CORE.spread(n, d, [a % rank for a in (range(rank) if axes is None else axes)])
    name = n.op.name if isinstance(n.op, Op) else ""
    if name == "reduce_sum_square":
        return [_CORE.do("multiply", _CORE.do("multiply", whole, 2.0), x)]
    if name == "sum":
        return [whole]
    if count is None:
        raise Unsupported("derivative: a mean over a symbolic size\n  supported: constant sizes")
    return [_CORE.do("divide", whole, float(count))]


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
