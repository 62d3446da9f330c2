"""Layers with their weights as variables, whose shapes follow from the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from smelt.ir.build import value_of
from smelt.ir.errors import Unsupported
from smelt.relax.graph import free_vars
from smelt.relax.nodes import Function, RelaxExpr, Var

from .. import op
from ..expr import var

T = TypeVar("T")


def chosen(net: str, name: str, value: Any, known: Mapping[Any, T]) -> T:
    """What a table of a network has for an argument."""
    if value not in known:
        raise Unsupported(f"{net}: {name}={value!r}; legal: {', '.join(map(str, known))}")
    return known[value]


def extent(data: RelaxExpr, axis: int) -> int:
    """A known extent."""
    found = value_of(data.checked_type.shape[axis])  # type: ignore[attr-defined]
    assert found is not None
    return found


def variable(name: str, *shape: int, like: RelaxExpr) -> Var:
    """A weight of the data's element type."""
    return var(name, shape=shape, dtype=like.checked_type.dtype)  # type: ignore[attr-defined]


def network(outputs: RelaxExpr) -> Function:
    """The function of all variables of an expression."""
    return Function(tuple(free_vars(outputs)), outputs)


def conv2d(
    data: RelaxExpr, name: str, channels: int, kernel: Any = 3, strides: Any = 1,
    padding: Any = 0, groups: int = 1, layout: str = "NCHW",
) -> RelaxExpr:  # fmt: skip
    """A convolution without a bias. The weight is OIHW, or HWIO where the layout is NHWC."""
    size = tuple(kernel) if isinstance(kernel, tuple | list) else (kernel, kernel)
    inputs = extent(data, layout.index("C")) // groups
    first = layout == "NCHW"
    shape = (channels, inputs, *size) if first else (*size, inputs, channels)
    weight = variable(f"{name}_weight", *shape, like=data)
    return op.nn.conv2d(  # type: ignore[no-any-return]
        data, weight, strides=strides, padding=padding, groups=groups, channels=channels,
        kernel_size=size, data_layout=layout, kernel_layout="OIHW" if first else "HWIO",
    )  # fmt: skip


def batch_norm_infer(data: RelaxExpr, name: str, axis: int = 1, epsilon: float = 1e-5) -> RelaxExpr:
    """The first result of a batch normalisation."""
    count = extent(data, axis)
    four = [
        variable(f"{name}_{part}", count, like=data)
        for part in ("gamma", "beta", "moving_mean", "moving_var")
    ]
    return op.nn.batch_norm(data, *four, axis=axis, epsilon=epsilon)[0]  # type: ignore[no-any-return]


def conv_block(data: RelaxExpr, name: str, channels: int, *given: Any, **named: Any) -> RelaxExpr:
    """A convolution, a batch normalisation, a relu."""
    layout = named.get("layout", "NCHW")
    y = conv2d(data, f"{name}_conv", channels, *given, **named)
    return op.nn.relu(batch_norm_infer(y, f"{name}_bn", layout.index("C")))  # type: ignore[no-any-return]


def dense_add_bias(data: RelaxExpr, name: str, units: int) -> RelaxExpr:
    """A dense layer with a bias."""
    weight = variable(f"{name}_weight", units, extent(data, -1), like=data)
    return op.nn.bias_add(  # type: ignore[no-any-return]
        op.nn.dense(data, weight, units=units), variable(f"{name}_bias", units, like=data), axis=-1
    )


def classifier(data: RelaxExpr, name: str, classes: int) -> RelaxExpr:
    """A dense layer over all of an image, and softmax."""
    return op.nn.softmax(dense_add_bias(op.nn.batch_flatten(data), name, classes))  # type: ignore[no-any-return]
