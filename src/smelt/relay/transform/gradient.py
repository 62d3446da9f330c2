"""Reverse-mode derivatives of functions: `gradient`, FirstOrderGradient.

The result is an ordinary Relay program; it can be simplified, fused and built like any other.
"""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.tables import entering
from smelt.ir.types import TensorType
from smelt.relax.derivative import BOTH, ONE, Calculus, Rule
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Tuple, TupleGetItem, Var, values
from smelt.relax.transform.match import dims, dtype_of, rank_of
from smelt.relax.transform.normal_form import dissolved, without_lets
from smelt.relax.transform.rewriting import map_functions
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op
from smelt.transform import Pass

from ..dialect import RELAY, const, is_call, make
from .passes import graph_pass

GRADIENTS: dict[str, Rule] = {}
"""Of each operator: (call, derivative by its result) -> derivatives by its operands."""


def gradient(expr: Any, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """A function's result together with its derivatives by the parameters.

    expr  a Function whose result is one tensor of floats; the derivative is that of the sum of its
          elements
    mode  "higher_order" or "first_order": both give a plain program, which can be derived again

    The result of the new function is (result, (derivative by each parameter, ...)).
    """
    if mode not in ("higher_order", "first_order"):
        raise TypeMismatch(f"gradient: mode={mode!r}; legal: 'higher_order', 'first_order'")
    if not isinstance(expr, Function):
        raise TypeMismatch(
            f"gradient takes a Function, not {type(expr).__name__}; relay.Function(params, body)"
        )
    f = dissolved(without_lets(expr), lambda g: True)
    if not isinstance(f.body.type, TensorType) or None in dims(f.body):
        raise Unsupported("gradient: the result has to be one tensor whose shape is known")
    derivatives = _Reverse(f).run()
    return f.replace(body=Tuple((f.body, Tuple(tuple(derivatives)))))


def FirstOrderGradient() -> Pass:
    """Every function of the module gives its result and the derivatives by its parameters."""
    return graph_pass("FirstOrderGradient", lambda mod: map_functions(mod, gradient))


class _Reverse:
    """One function, walked from its result to its parameters."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.sums: dict[Node, RelaxExpr] = {}
        self.items: dict[Node, dict[int, RelaxExpr]] = {}

    def run(self) -> list[RelaxExpr]:
        """The derivatives by the parameters."""
        self.add(self.f.body, filled(self.f.body, 1.0))
        for node in reversed(list(values(self.f.body))):
            match node:
                case Call():
                    self.call(node)
                case Tuple(items):
                    for i, item in enumerate(items):
                        if i in self.items.get(node, {}):
                            self.add(item, self.items[node][i])
                case TupleGetItem(value, index):
                    if node in self.sums:
                        self.add_item(value, index, self.sums[node])
                case Var() | Constant():
                    pass
                case _:
                    self.refuse(node)
        return [self.sums[p] if p in self.sums else filled(p, 0.0) for p in self.f.params]

    def refuse(self, node: RelaxExpr) -> None:
        """Branches and closures have no rule."""
        if node in self.sums:
            raise Unsupported(
                f"gradient: a {type(node).__name__} has no rule; PartialEvaluate takes closures "
                "and branches on constants away"
            )

    def add(self, x: RelaxExpr | None, d: RelaxExpr | None) -> None:
        """One more use of a value: derivatives add up."""
        if x is None or d is None or not dt.is_float(dtype_of(x) or "int32"):
            return
        before = self.sums.get(x)
        self.sums[x] = d if before is None else make("add", before, d)

    def add_item(self, whole: RelaxExpr, index: int, d: RelaxExpr) -> None:
        """One more use of an item of a tuple."""
        known = self.items.setdefault(whole, {})
        known[index] = make("add", known[index], d) if index in known else d

    def call(self, n: Call) -> None:
        """The derivatives by the operands of a call."""
        if n not in self.sums and n not in self.items:
            return
        if not isinstance(n.op, Op):
            raise Unsupported("gradient: a call of a function has no rule; Inline, PartialEvaluate "
                              "take it away")  # fmt: skip
        rule = GRADIENTS.get(n.op.name)
        if rule is None:
            raise Unsupported(
                f"gradient: {n.op.name} has no rule{nearest(n.op.name, list(GRADIENTS))}; "
                f"rules: {', '.join(sorted(GRADIENTS))}"
            )
        d: Any = self.sums.get(n)
        if d is None:
            known = self.items[n]
            d = Tuple(tuple([
                known[i] if i in known else filled(TupleGetItem(n, i), 0.0)
                for i in range(len(n.type.items))  # type: ignore[attr-defined]
            ]))  # fmt: skip
        for a, part in zip(n.args, rule(n, d), strict=False):
            if isinstance(a, Tuple):
                for item, p in zip(a.items, part.items, strict=True):  # type: ignore[union-attr]
                    self.add(item, p)
            else:
                self.add(a, part)


def filled(x: RelaxExpr, value: float) -> RelaxExpr:
    """A tensor of the type of another one, all of one value."""
    return make("ones" if value else "zeros", shape=dims(x), dtype=dtype_of(x))


def _plain(shape: Any) -> tuple[Any, ...]:
    return tuple([e if value_of(e) is None else value_of(e) for e in shape])


_RELAY = Calculus(
    lambda op, *operands, **attrs: make(
        op, *operands, **{k: _plain(v) if k == "shape" else v for k, v in attrs.items()}
    ),
    lambda like, value: const(value, dtype_of(like)),
    lambda x, axes, keepdims: make("sum", x, axis=axes, keepdims=keepdims),
    lambda x, shape: make("reshape", x, newshape=_plain(shape)),
)
_NAMES = {"identity": "copy", "relu": "nn.relu"}
GRADIENTS.update({name: _RELAY.both(name) for name in BOTH})
GRADIENTS.update({
    _NAMES.get(name, name): _RELAY.one(name) for name in ONE if _NAMES.get(name, name) in RELAY.ops
})  # fmt: skip
GRADIENTS.update({
    "cast": _RELAY.cast, "where": _RELAY.where, "nn.softmax": _RELAY.softmax,
    "nn.log_softmax": _RELAY.log_softmax, "reshape": _RELAY.moved, "expand_dims": _RELAY.moved,
    "squeeze": _RELAY.moved, "nn.batch_flatten": _RELAY.moved, "broadcast_to": _RELAY.broadcast,
    "transpose": _RELAY.transpose, "nn.matmul": _RELAY.matmul, "nn.batch_matmul": _RELAY.matmul,
})  # fmt: skip
rule = entering(GRADIENTS)


@rule("clip")
def _clip(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x = n.args[0]
    low = make("greater_equal", x, n.attrs["a_min"])
    high = make("less_equal", x, n.attrs["a_max"])
    return [_RELAY.do("where", make("logical_and", low, high), d, 0.0)]


def _over(n: Call) -> tuple[int, ...]:
    """The axes of a reduction."""
    rank, axis = rank_of(n.args[0]), n.attrs["axis"]
    many = axis if isinstance(axis, tuple) else range(rank) if axis is None else (axis,)
    axes = tuple([a % rank for a in many])
    return tuple([a for a in range(rank) if a not in axes]) if n.attrs["exclude"] else axes


@rule("sum", "mean")
def _sum(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    whole, count = _RELAY.spread(n, d, _over(n))
    return [whole if is_call(n, "sum") else make("divide", whole, float(count or 1))]


@rule("nn.bias_add")
def _bias_add(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    axis = n.attrs["axis"] % rank_of(n)
    rest = tuple([i for i in range(rank_of(n)) if i != axis])
    return [d, make("sum", d, axis=rest)]


@rule("nn.dense")
def _dense(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x, w = n.args
    rows = make("reshape", x, newshape=(-1, dims(x)[-1]))
    ds = make("reshape", d, newshape=(-1, dims(d)[-1]))
    dx = make("nn.dense", d, make("transpose", w, axes=(1, 0)))
    dw = make("nn.dense", make("transpose", ds, axes=(1, 0)), make("transpose", rows, axes=(1, 0)))
    return [dx, dw]


@rule("nn.conv2d")
def _conv2d(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x, w = n.args
    a = n.attrs
    if (a["data_layout"], a["kernel_layout"], a["out_layout"]) not in _PLAIN_CONV:
        raise Unsupported(
            f"gradient: nn.conv2d with data_layout={a['data_layout']!r}, "
            f"kernel_layout={a['kernel_layout']!r}; legal: NCHW with OIHW (see ConvertLayout)"
        )
    same = {k: a[k] for k in ("strides", "padding", "dilation", "groups")}
    kernel = dims(w)[2:]
    rest = [
        (have or 0) - ((out or 1) - 1) * s + before + behind - step * ((k or 1) - 1) - 1
        for have, out, s, before, behind, step, k in zip(
            dims(x)[2:], dims(d)[2:], a["strides"], a["padding"][:2], a["padding"][2:],
            a["dilation"], kernel, strict=True,
        )
    ]  # fmt: skip
    dx = make("nn.conv2d_transpose", d, w, output_padding=tuple(rest), kernel_layout="IOHW", **same)
    dw = make("nn.conv2d_backward_weight", d, x, kernel_size=kernel, **same)
    return [dx, dw]


_PLAIN_CONV = (("NCHW", "OIHW", ""), ("NCHW", "OIHW", "NCHW"))


@rule("nn.max_pool2d", "nn.avg_pool2d")
def _pool2d(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    op = RELAY.get(f"{n.callee}_grad")
    if any(step != 1 for step in n.attrs["dilation"]):
        raise Unsupported(f"gradient: {n.callee} with dilation={n.attrs['dilation']}; legal: 1")
    return [make(op, d, n.args[0], **{k: v for k, v in n.attrs.items() if k in op.attributes})]


@rule("concatenate")
def _concatenate(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    items = n.args[0].items  # type: ignore[union-attr]
    axis, at, parts = n.attrs["axis"] % rank_of(n), 0, []
    for i in items:
        end = at + (dims(i)[axis] or 0)
        parts.append(make("strided_slice", d, begin=(at,), end=(end,), strides=(1,), axes=(axis,)))
        at = end
    return [Tuple(tuple(parts))]


@rule("split")
def _split(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return [make("concatenate", d, axis=n.attrs["axis"])]


@rule("nn.global_avg_pool2d")
def _global_average(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x, layout = n.args[0], n.attrs["layout"]
    count = (dims(x)[layout.index("H")] or 1) * (dims(x)[layout.index("W")] or 1)
    return [make("divide", make("broadcast_to", d, shape=dims(x)), float(count))]


@rule("zeros", "ones", "full")
def _created(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return []
