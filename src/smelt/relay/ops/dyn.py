"""dyn.*: operators whose sizes are operands.

The body wants constants there. relay.reshape(x, newshape), relay.zeros(shape), ... make these
operators where a size is an expression (`dialect.sized`); where it turns out to be a constant, or
follows from known shapes, the program is compiled like any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, SIZED, known_attribute
from . import create, image, nn_space, select, sparse, transform  # noqa: F401

SIZED.update({
    "reshape": {1: "newshape"},
    "broadcast_to": {1: "shape"},
    "expand_dims": {1: "axis"},
    "squeeze": {1: "axis"},
    "tile": {1: "reps"},
    "full": {1: "shape"},
    "zeros": {0: "shape"},
    "ones": {0: "shape"},
    "one_hot": {3: "depth"},
    "topk": {1: "k"},
    "strided_slice": {1: "begin", 2: "end", 3: "strides"},
    "sparse_to_dense": {1: "output_shape"},
    "nn.pad": {1: "pad_width"},
    "nn.upsampling": {1: "scale_h", 2: "scale_w"},
    "nn.upsampling3d": {1: "scale_d", 2: "scale_h", 3: "scale_w"},
    "image.resize2d": {1: "size", 2: "roi"},
})  # fmt: skip

_LEFT_OUT = {"strided_slice": ("axes",)}
"""Attributes that the operator has only where its sizes are known."""

_OPTIONAL = ("roi",)


def _enter(name: str, taken: Mapping[int, str]) -> None:
    """The operator dyn.<name>: as the one of known sizes, with some attributes as operands."""
    static = RELAY.get(name)
    own = inspect.signature(static.fn).parameters
    operands = list(static.operands)
    for place, attribute in taken.items():
        operands.insert(place, attribute)

    def body(*args: RelaxExpr | None, **attrs: Any) -> RelaxExpr:
        given = dict(zip(operands, args, strict=False))
        sizes = {a: known_attribute(name, a, given[a]) for a in taken.values() if given.get(a)}
        return call(static, *[given.get(n) for n in static.operands], **attrs, **sizes)

    left_out = (*taken.values(), *_LEFT_OUT.get(name, ()))
    parameters = [
        own[n] if n in static.operands else inspect.Parameter(
            n, inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None if n in _OPTIONAL else inspect.Parameter.empty,
            annotation="RelaxExpr | None" if n in _OPTIONAL else "RelaxExpr",
        )
        for n in operands
    ]  # fmt: skip
    parameters += [own[n] for n in static.attributes if n not in left_out]
    vars(body)["__signature__"] = inspect.Signature(parameters)
    body.__doc__ = f"{name}, with {', '.join(taken.values())} given as tensors."
    RELAY.op(f"dyn.{name}", needs=tuple(taken.values()), results=static.results)(body)


for _name, _taken in SIZED.items():
    _enter(_name, _taken)
