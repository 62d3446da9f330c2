"""Converters of operators that compute element by element, of reductions and of products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from smelt.frontend.common import Build, Value, dynamic, evaluate, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import product
from smelt.ir import dtype as dt

from .registry import Ints, onnx_op, same

_UNARY = {
    **{
        name: name.lower()
        for name in (
            "Abs", "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Relu", "Sin", "Cos", "Tan",
            "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Floor", "Ceil",
            "Round", "Sign", "Reciprocal", "IsNaN", "Softplus", "Softsign", "Mish",
        )
    },
    "Neg": "negative",
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
    "HardSwish": "hard_swish",
}  # fmt: skip

BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",  # of integers toward zero
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    **{name: f"logical_{name.lower()}" for name in ("And", "Or", "Xor")},
    **{f"Bitwise{name}": f"bitwise_{name.lower()}" for name in ("And", "Or", "Xor")},
    "PRelu": "prelu",
}

FOLDED = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


def folded(name: str) -> Callable[..., Value]:
    """The converter of an operator that joins any number of operands."""
    target = FOLDED[name]

    def convert(g: Build, first: Value, *rest: Value) -> Value:
        apply = g.compute if all(x.small for x in (first, *rest)) else g.call
        return reduce(partial(apply, target), rest, first)

    return convert


SAME = {
    **{name: same(name, "x", core=target) for name, target in _UNARY.items()},
    **{name: same(name, "a b", core=target, since=7) for name, target in BINARY.items()},
}
"""The converters of operators that only have operands."""

for _name in FOLDED:
    onnx_op(_name)(folded(_name))


@onnx_op("Mean")
def mean_of(g: Build, first: Value, *rest: Value) -> Value:
    """The mean of several tensors."""
    total = reduce(partial(g.call, "add"), rest, first)
    return g.call("divide", total, 1 + len(rest)) if rest else total


@onnx_op("Pow", since=7)
def power(g: Build, a: Value, b: Value) -> Value:
    """The exponent may have another type than the base."""
    return evaluate.either(
        lambda: evaluate.elementwise("power", a, b),
        lambda: g.call("power", a, as_type(g, b, a.dtype)),
    )


@onnx_op("Mod", since=10)
def mod(g: Build, a: Value, b: Value, *, fmod: int = 0) -> Value:
    """The sign of the divisor, or with fmod=1 that of the dividend."""
    return g.compute("fmod" if fmod else "mod", a, b)


@onnx_op("BitShift", since=11)
def bit_shift(g: Build, a: Value, b: Value, *, direction: str) -> Value:
    """A shift to the LEFT or RIGHT."""
    g.one_of("direction", direction, ("LEFT", "RIGHT"))
    return g.call("left_shift" if direction == "LEFT" else "right_shift", a, b)


same("Where", "c a b", since=9)
same("IsInf", "x", since=10, detect_negative=1, detect_positive=1)

# --------------------------------------------------------------------------------- activations

leaky_relu = same("LeakyRelu", "x", core="leaky_relu", alpha=0.01)
same("ThresholdedRelu", "x", core="thresholded_relu", alpha=1.0)
same("Elu", "x", alpha=1.0)
same("Celu", "x", since=12, alpha=1.0)
same("Selu", "x", alpha=1.6732, gamma=1.0507)
same("Selu", "x", since=6, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)
same("HardSigmoid", "x", core="hard_sigmoid", alpha=0.2, beta=0.5)
same("Gelu", "x", since=20, legal={"approximate": ("none", "tanh")}, approximate="none")


@onnx_op("Swish", since=24)
def swish(g: Build, x: Value, *, alpha: float = 1.0) -> Value:
    """x sigmoid(alpha x)."""
    if alpha == 1.0:
        return g.call("silu", x)
    scaled = g.call("multiply", x, alpha)
    return g.call("multiply", x, g.call("sigmoid", scaled))


@onnx_op("Clip")
def clip(g: Build, x: Value, *, min: float | None = None, max: float | None = None) -> Value:
    """Bounds as attributes."""
    return x if min is None and max is None else g.call("clip", x, min=min, max=max)


@onnx_op("Clip", since=11)
def clip_11(g: Build, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """Bounds as operands; those computed at run time become minimum and maximum."""
    if all(b is None or b.is_array for b in (min, max)):
        low, high = [None if b is None else g.number(b, "bound") for b in (min, max)]
        if low is not None and high is not None and low > high:
            low = high
        return x if low is None and high is None else g.call("clip", x, min=low, max=high)
    for b, op in ((min, "maximum"), (max, "minimum")):
        x = x if b is None else g.call(op, x, b)
    return x


# ---------------------------------------------------------------------------------- reductions

REDUCTIONS = {
    **{f"Reduce{name.capitalize()}": name for name in ("sum", "mean", "max", "min", "prod")},
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceSumSquare": "reduce_sum_square",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
}

_SAME_OF_ONE = ("sum", "mean", "max", "min", "prod", "reduce_log_sum_exp")
"""Reductions that give the element itself where there is nothing to reduce."""


def reduction(
    g: Build, x: Value, axes: Value | None = None, *, axes_: Ints = (), keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Value:  # fmt: skip
    """Axes as an operand, or as an attribute of the same name.

    Over no axes, what a reduction does besides (a square, a logarithm) still happens.
    """
    target = REDUCTIONS[g.step.op]
    given = axes_ if axes is None else g.ints(axes, "axes")
    places = tuple(sorted(g.axes(given, x.rank))) if given else tuple(range(x.rank))
    if noop_with_empty_axes and not given:
        places = ()
    return evaluate.either(
        lambda: evaluate.reduced(target, x, places, bool(keepdims)),
        lambda: _reduced_in_graph(g, target, x, places, bool(keepdims)),
    )


for _name in REDUCTIONS:
    onnx_op(_name)(reduction)


def _reduced_in_graph(g: Build, target: str, x: Value, places: Ints, keepdims: bool) -> Value:
    if not places and target in _SAME_OF_ONE:
        return x
    if target == "reduce_log_sum_exp" and not dt.is_float(x.dtype):
        return _whole_log_sum_exp(g, x, places, keepdims)
    y = g.call(target, x, axes=places, keepdims=keepdims)
    count = product([x.shape[a] for a in places])
    if target != "mean" or (isinstance(count, int) and count):
        return y
    some = g.call("greater", Value.of_sizes(count), 0)
    return g.call("where", some, y, 0)  # as onnxruntime has it


def _whole_log_sum_exp(g: Build, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Of integers, as onnxruntime computes it: powers are cut to integers before they are summed.

    Below the largest element, which counts 1, they are 0.
    """
    largest = g.call("max", x, axes=axes, keepdims=True)
    same = as_type(g, g.call("equal", x, largest), "float64")
    log = g.call("reduce_log_sum", same, axes=axes, keepdims=True)
    y = as_type(g, g.call("add", as_type(g, largest, "float64"), log), x.dtype)
    return y if keepdims else g.call("squeeze", y, axes=axes)


for _name in ("ArgMax", "ArgMin"):
    same(_name, "x", along="axis", axis=0, keepdims=1, select_last_index=0)


@onnx_op("CumSum", since=11)
@onnx_op("CumProd", since=26)
def cumulative(g: Build, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Running sums and products."""
    place = g.axis(int(g.number(axis, "axis")), x.rank)
    op = g.step.op.lower()
    return g.call(op, x, axis=place, exclusive=bool(exclusive), reverse=bool(reverse))


# ------------------------------------------------------------------------------------ products


@onnx_op("MatMul")
def matmul(g: Build, a: Value, b: Value) -> Value:
    """numpy's matmul: a vector is a row or a column for the moment."""
    return moves.of_matrices(g, a, b, lambda a, b: g.call("matmul", a, b))


@onnx_op("Gemm")
def gemm(
    g: Build, a: Value, b: Value, c: Value | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Value:  # fmt: skip
    """alpha A B + beta C."""
    y = g.call("matmul", a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    y = y if alpha == 1 else g.call("multiply", y, alpha)
    if c is None or beta == 0:
        return y
    c = c if beta == 1 else g.call("multiply", c, beta)
    return g.call("add", y, c)


@onnx_op("Range", since=11)
def range_(g: Build, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Value:
    """start, start + delta, ... below the limit; of narrow floats computed in float32 or wider."""
    g.one_of("stash_type", stash_type, (1,))
    return dynamic.arange(g, start, limit, delta)
