"""Products of one tensor with several constant matrices become one product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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


def _branches(f: Function) -> dict[RelaxExpr, list[_Branch]]:
    """The products of each tensor, where there are several, in the order of the graph."""
    uses = uses_of(f)
    found: dict[RelaxExpr, dict[Call, _Branch]] = {}
    for n in postorder(f.body):
        product = _product(n)
        if product is not None and product.args[0] is not None:
            found.setdefault(product.args[0], {})[product] = _Branch(product, product, None)
        elif is_op(n, "add"):
            _add_bias(n, uses, found)
    return {x: list(group.values()) for x, group in found.items() if len(group) > 1}


def _add_bias(
    n: Call, uses: Counter[RelaxExpr], found: dict[RelaxExpr, dict[Call, _Branch]]
) -> None:
    """Let a branch end behind its bias."""
    y = n.args[0]
    product = _product(y) if y is not None else None
    bias = _bias(n) if product is not None and uses[product] == 1 else None
    if product is not None and bias is not None and product.args[0] is not None:
        found[product.args[0]][product] = _Branch(product, n, bias)


def _groups(branches: Iterable[_Branch]) -> list[list[_Branch]]:
    """Branches of one form: element type, and all with a bias or all without."""
    groups: dict[tuple[object, ...], list[_Branch]] = {}
    for b in branches:
        key = (tensor_type_of(b.product).dtype, b.bias is None)
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
    for branches in _branches(f).values():
        for group in _groups(branches):
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
