"""Results beside a reference: how far they are apart, where, and how far they may be."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from smelt.cli.results import Array
from smelt.frontend.common import Graph, ModelNode
from smelt.ir import dtype as dt
from smelt.search.timer import errors

_STEPS = 64
"""Roundings that add up in one layer, at the worst of those that were measured: a sum of some
thousand products in another order."""


@dataclass(frozen=True)
class Difference:
    """An output beside the reference's.

    error      max |a - b| / max |b|; infinite where shapes differ, or nan stands on one side only
    beyond     how many elements are further apart than the tolerance allows
    where      the element that is furthest off, or what else is wrong
    optimised  whether the reference ran with its optimiser
    """

    name: str
    dtype: str
    shape: list[int]
    error: float
    tolerance: float
    beyond: int
    elements: int
    where: str
    optimised: bool = True

    @property
    def passed(self) -> bool:
        """Whether it is near enough."""
        return self.error <= self.tolerance


def compare(
    names: Sequence[str], ours: Sequence[Array], theirs: Sequence[Array], allowed: Sequence[float],
    peer: str = "onnxruntime",
) -> list[Difference]:  # fmt: skip
    """Every output; allowed: the tolerance of each; peer: whose `theirs` are."""
    rows = zip(names, ours, theirs, allowed, strict=True)
    return [_difference(*row, peer) for row in rows]


def _difference(name: str, a: Array, b: Array, tolerance: float, peer: str) -> Difference:
    b = np.asarray(b)
    shape = list(a.shape)
    if a.shape != b.shape:
        where = f"the shape is {shape}, {peer}'s is {list(b.shape)}"
        return Difference(name, str(a.dtype), shape, math.inf, tolerance, a.size, a.size, where)
    if not a.size:
        return Difference(name, str(a.dtype), shape, 0.0, tolerance, 0, 0, "")
    relative = errors(a, b)
    at = np.unravel_index(int(relative.argmax()), a.shape)
    where = (
        f"furthest off at {[int(i) for i in at]}: {a[at]} where {peer} has {b[at]}"
        if a.shape
        else f"{a[()]} where {peer} has {b[()]}"
    )
    beyond = int((relative > tolerance).sum())
    error = float(relative.max())
    return Difference(name, str(a.dtype), shape, error, tolerance, beyond, a.size, where)


def tolerances(model: Graph, outputs: Sequence[Array], given: float | None) -> list[float]:
    """How far each output may be from the reference, relative to its largest element.

    Roundings of the coarsest float type in the model add up, as a random walk does, over the
    layers of the longest path; whole numbers have to be equal. In a quantized model a sum that
    lies between two steps is rounded to either, and these steps add up likewise.

    given  for all, instead
    """
    kinds = {i.dtype for i in model.inputs}
    kinds |= {dt.from_numpy(a.dtype) for a in model.arrays.values()}
    floats = [k for k in kinds | {"float32"} if dt.is_float(k)]
    steps = _STEPS * math.sqrt(_depth(model))
    found = []
    for name, a in zip(model.outputs, outputs, strict=True):
        own = dt.from_numpy(a.dtype)
        exact = not dt.is_float(own)
        unit = 0.0 if exact else max(_unit(k) for k in {own, *floats})
        allowed = max(unit * steps, _step(model, name, a))
        found.append(allowed if given is None else given)
    return found


_QUANTIZES = ("QuantizeLinear", "DynamicQuantizeLinear")


def _rounds(step: ModelNode) -> bool:
    """Whether a node quantizes; where it may round its operand to bytes, it does."""
    if step.op == "MatMulNBits":
        return step.attrs.get("accuracy_level") == 4
    return step.op in _QUANTIZES or step.op.startswith("QLinear")


def _step(model: Graph, name: str, a: Array) -> float:
    """How far rounding to steps brings a result, relative to its largest element: a result that is
    quantized by its own steps, one in floats behind quantized values by those of 8 bits; 0: nothing
    is quantized."""
    depth = _depth(model, _rounds)
    if not a.size or not depth:
        return 0.0
    last = next((s for s in model.steps if name in s.outputs), None)
    most = float(np.abs(a.astype(np.float64)).max()) or 1.0
    step = most / 255
    if a.dtype.kind in "iu":
        step = 1.0 if last is not None and _rounds(last) else 0.0
    elif last is not None and last.op == "DequantizeLinear" and last.inputs[1] in model.arrays:
        step = float(model.arrays[last.inputs[1]].max())
    return 1.001 * step * math.sqrt(depth) / max(most - step, step, 1e-30)


def _unit(kind: str) -> float:
    """The distance from 1 to the next number of a type."""
    return float(ml_dtypes.finfo(dt.to_numpy(kind)).eps)


def _depth(model: Graph, counts: Callable[[ModelNode], bool] = lambda step: True) -> int:
    """The nodes that count on the longest path; nodes stand in the order of the file, operands
    first."""
    deep: dict[str, int] = {}
    for step in model.steps:
        below = counts(step) + max([deep.get(n, 0) for n in step.inputs], default=0)
        deep.update(dict.fromkeys(step.outputs, below))
    return max(deep.values(), default=1)
