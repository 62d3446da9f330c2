"""Products of one tensor with several constant matrices become one product."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.relax.graph import transform, uses_of
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, call, constant, tensor_type_of

from .match import constant_operand, dims, is_op
from .rewriting import map_functions


class _Branch:
    """matmul(x, w), or matmul(x, w) + b with a bias along the last dimension.

    root  the value that a slice of the joint product will stand for
    """

    def __init__(self, product: Call, root: Call, bias: Constant | None) -> None:
        self.product, self.root, self.bias = product, root, bias

    @property
    def columns(self) -> int:
        """The extent of the result's last dimension."""
        return dims(self.root)[-1] or 0


def _product(n: object) -> Call | None:
    """A product of some tensor with a constant matrix."""
    if not is_op(n, "matmul") or n.attrs["transpose_a"] or n.attrs["out_dtype"]:
        return None
    x, w = n.args
    if not isinstance(w, Constant) or isinstance(x, Constant):
        return None
    plain = w.data.ndim == 2 and tensor_type_of(x).rank >= 2
    return n if plain else None


def _bias(n: Call) -> Constant | None:
    """The constant vector that a value adds to a product."""
    found = constant_operand(n)
    if found is None or found[1].data.ndim != 1 or found[1].data.size != dims(n)[-1]:
        return None
    return found[1]


def _groups(f: Function) -> list[list[_Branch]]:
    """The products of one tensor that are of one form, in the order of the graph.

    Of one element type, and all with a bias behind them or all without.
    """
    uses = uses_of(f)
    found: dict[Call, _Branch] = {}
    for n in postorder(f.body):
        behind = n.args[0] if is_op(n, "add") else None
        product, end = _product(n), _product(behind)
        if product is not None:
            found[product] = _Branch(product, product, None)
        elif end is not None and is_op(n, "add") and uses[end] == 1 and (bias := _bias(n)):
            found[end] = _Branch(end, n, bias)
    groups: dict[tuple[object, ...], list[_Branch]] = {}
    for b in found.values():
        key = (b.product.args[0], tensor_type_of(b.product).dtype, b.bias is None)
        groups.setdefault(key, []).append(b)
    return [g for g in groups.values() if len(g) > 1]


def _weights(product: Call) -> np.ndarray:
    w = product.args[1]
    assert isinstance(w, Constant)
    return w.data.T if product.attrs["transpose_b"] else w.data


def _joint(x: RelaxExpr, group: list[_Branch]) -> Call:
    """The product with all matrices side by side, and the joint bias."""
    w = constant(np.concatenate([_weights(b.product) for b in group], axis=1))
    y = call("matmul", x, w, name=group[0].product.name)
    if group[0].bias is None:
        return y
    bias = constant(np.concatenate([b.bias.data for b in group if b.bias is not None]))
    return call("add", y, bias, name=group[0].root.name)


def _function(f: Function) -> Function:
    """Slices of the joint products in the place of the branches' results."""
    places: dict[RelaxExpr, tuple[list[_Branch], int]] = {}
    for group in _groups(f):
        starts = np.cumsum([0] + [b.columns for b in group])
        places.update({b.root: (group, int(at)) for b, at in zip(group, starts, strict=False)})
    if not places:
        return f
    joint: dict[Call, Call] = {}

    def replace(old: Any, new: Any) -> RelaxExpr | None:
        if old not in places:
            return None
        group, at = places[old]
        first = group[0].product
        if first not in joint:
            product = new if group[0].bias is None else new.args[0]
            joint[first] = _joint(product.args[0], group)
        y = joint[first]
        last = tensor_type_of(y).rank - 1
        end = at + (dims(old)[-1] or 0)
        return call("strided_slice", y, axes=(last,), begin=(at,), end=(end,), strides=(1,))

    return transform(f, replace)  # type: ignore[no-any-return]


def combine_parallel_matmul(mod: IRModule) -> IRModule:
    """matmul(x, w1), matmul(x, w2)  =  slices of matmul(x, [w1 w2]), for constant matrices.

    Worth it where a product alone is too small to fill the machine, as q, k, v of attention;
    biases are joined as well. An optional pass.
    """
    return map_functions(mod, _function)
