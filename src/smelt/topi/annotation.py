"""Marks in a graph: where the part begins and ends that another compiler gets."""

from __future__ import annotations

from smelt.te.tensor import Tensor

from .common import tensor
from .reference import rounded
from .registry import op


@op(name="annotation.compiler_begin", numpy=rounded(lambda x, compiler: x))
def compiler_begin(x: Tensor, *, compiler: str) -> Tensor:
    """x itself, on its way into a part of the graph that is meant for `compiler`."""
    return tensor(x.shape, lambda *i: x[i], "compiler_begin")


@op(name="annotation.compiler_end", numpy=rounded(lambda x, compiler: x))
def compiler_end(x: Tensor, *, compiler: str) -> Tensor:
    """x itself, on its way out of a part of the graph that is meant for `compiler`."""
    return tensor(x.shape, lambda *i: x[i], "compiler_end")
