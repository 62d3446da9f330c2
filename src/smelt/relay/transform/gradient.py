"""Reverse-mode derivatives of functions: `gradient`, FirstOrderGradient.

The result is an ordinary Relay program; it can be simplified, fused and built like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import TensorType
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Tuple, TupleGetItem, Var, values
from smelt.relax.transform.normal_form import dissolved, without_lets
from smelt.relax.transform.rewriting import map_functions
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op
from smelt.transform import Pass

from ..dialect import RELAY, make
from .passes import graph_pass
from .rules import dims, dtype_of, is_call, rank_of

__all__ = ["GRADIENTS", "FirstOrderGradient", "gradient"]

Gradient = Callable[[Call, RelaxExpr], "list[RelaxExpr | None]"]

GRADIENTS: dict[str, Gradient] = {}
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


def collapsed(d: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
    """A derivative summed over what an operand was broadcast along."""
    have, want = dims(d), dims(x)
    lead = len(have) - len(want)
    axes = [i for i in range(len(have)) if i < lead or (want[i - lead] == 1 and have[i] != 1)]
    if axes:
        d = make("sum", d, axis=tuple(axes), keepdims=False)
    return d if dims(d) == want else make("reshape", d, newshape=want)


def rule(*names: str) -> Callable[[Gradient], Gradient]:
    """Enter a rule for some operators."""

    def enter(fn: Gradient) -> Gradient:
        for name in names:
            GRADIENTS[name] = fn
        return fn

    return enter


def _broadcasting(fn: Callable[[Any, Any, Any, Any], tuple[Any, Any]]) -> Gradient:
    def both(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
        a, b = n.args
        da, db = fn(a, b, n, d)
        return [collapsed(da, a), None if db is None else collapsed(db, b)]  # type: ignore[arg-type]

    return both


def _masked(keep: Any, d: Any) -> Any:
    return make("where", keep, d, filled(d, 0.0))


for _name, _fn in {
    "add": lambda a, b, y, d: (d, d),
    "subtract": lambda a, b, y, d: (d, make("negative", d)),
    "multiply": lambda a, b, y, d: (d * b, d * a),
    "divide": lambda a, b, y, d: (d / b, make("negative", d * y / b)),
    "power": lambda a, b, y, d: (
        d * b * make("power", a, b - 1.0), d * y * make("log", a)),
    "maximum": lambda a, b, y, d: (
        _masked(make("greater_equal", a, b), d), _masked(make("less", a, b), d)),
    "minimum": lambda a, b, y, d: (
        _masked(make("less_equal", a, b), d), _masked(make("greater", a, b), d)),
}.items():  # fmt: skip
    GRADIENTS[_name] = _broadcasting(_fn)

_UNARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "negative": lambda x, y, d: make("negative", d),
    "exp": lambda x, y, d: d * y,
    "log": lambda x, y, d: d / x,
    "sqrt": lambda x, y, d: d * 0.5 / y,
    "rsqrt": lambda x, y, d: d * -0.5 * y / x,
    "tanh": lambda x, y, d: d * (1.0 - y * y),
    "sigmoid": lambda x, y, d: d * y * (1.0 - y),
    "sin": lambda x, y, d: d * make("cos", x),
    "cos": lambda x, y, d: make("negative", d * make("sin", x)),
    "abs": lambda x, y, d: d * make("sign", x),
    "copy": lambda x, y, d: d,
    "nn.relu": lambda x, y, d: _masked(make("greater", x, 0.0), d),
}


def _of_one(fn: Callable[[Any, Any, Any], Any]) -> Gradient:
    return lambda n, d: [fn(n.args[0], n, d)]


for _name, _one in _UNARY.items():
    GRADIENTS[_name] = _of_one(_one)


@rule("erf")
def _erf(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x: Any = n.args[0]
    return [d * (make("exp", make("negative", x * x)) * 1.1283791670955126)]


@rule("cast")
def _cast(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return [make("cast", d, dtype=dtype_of(n.args[0]))]


@rule("clip")
def _clip(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x = n.args[0]
    low = make("greater_equal", x, n.attrs["a_min"])
    high = make("less_equal", x, n.attrs["a_max"])
    return [_masked(make("logical_and", low, high), d)]


@rule("where")
def _where(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    c, x, y = n.args
    zero = filled(d, 0.0)
    first, second = make("where", c, d, zero), make("where", c, zero, d)
    return [None, collapsed(first, x), collapsed(second, y)]  # type: ignore[arg-type]


@rule("reshape", "expand_dims", "squeeze", "nn.batch_flatten")
def _moved(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return [make("reshape", d, newshape=dims(n.args[0]))]


@rule("broadcast_to")
def _broadcast(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    return [collapsed(d, n.args[0])]  # type: ignore[arg-type]


@rule("transpose")
def _transpose(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    rank = rank_of(n)
    axes = n.attrs["axes"]
    order = list(range(rank))[::-1] if axes is None else [a % rank for a in axes]
    return [make("transpose", d, axes=tuple([order.index(i) for i in range(rank)]))]


def _over(n: Call) -> tuple[int, ...]:
    """The axes of a reduction."""
    rank, axis = rank_of(n.args[0]), n.attrs["axis"]
    many = axis if isinstance(axis, tuple) else range(rank) if axis is None else (axis,)
    axes = tuple([a % rank for a in many])
    return tuple([a for a in range(rank) if a not in axes]) if n.attrs["exclude"] else axes


@rule("sum", "mean")
def _sum(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    x = n.args[0]
    axes = _over(n)
    kept = tuple([1 if i in axes else e for i, e in enumerate(dims(x))])
    whole = make("broadcast_to", make("reshape", d, newshape=kept), shape=dims(x))
    if is_call(n, "sum"):
        return [whole]
    count = 1
    for a in axes:
        count *= dims(x)[a] or 1
    return [make("divide", whole, float(count))]


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


@rule("nn.matmul", "nn.batch_matmul")
def _matmul(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    a, b = n.args
    ta, tb = n.attrs["transpose_a"], n.attrs["transpose_b"]

    def times(p: Any, q: Any, tp: bool, tq: bool) -> RelaxExpr:
        return make(n.op, p, q, transpose_a=tp, transpose_b=tq)  # type: ignore[arg-type]

    da = times(b, d, tb, True) if ta else times(d, b, False, not tb)
    db = times(d, a, True, ta) if tb else times(a, d, not ta, False)
    return [collapsed(da, a), collapsed(db, b)]  # type: ignore[arg-type]


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
    op = RELAY.get(f"{n.op.name}_grad")  # type: ignore[union-attr]
    if any(step != 1 for step in n.attrs["dilation"]):
        raise Unsupported(
            f"gradient: {n.op.name} with dilation={n.attrs['dilation']}; legal: 1"  # type: ignore[union-attr]
        )
    return [make(op, d, n.args[0], **{k: v for k, v in n.attrs.items() if k in op.attributes})]


@rule("nn.softmax")
def _softmax(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    y: Any = n
    weighted = make("sum", d * y, axis=n.attrs["axis"], keepdims=True)
    return [(d - weighted) * y]


@rule("nn.log_softmax")
def _log_softmax(n: Call, d: RelaxExpr) -> list[RelaxExpr | None]:
    total = make("sum", d, axis=n.attrs["axis"], keepdims=True)
    return [d - make("exp", n) * total]


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
