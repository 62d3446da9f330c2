"""Tensor expressions: `placeholder`, `compute`, `reduce_axis`, reductions, `create_prim_func`."""

from smelt.ir.build import all_of, any_of, if_then_else, maximum, minimum, select
from smelt.ir.expr import const

from .prim_func import create_prim_func
from .tensor import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    Tensor,
    all,
    any,
    comm_reducer,
    compute,
    max,
    max_value,
    min,
    min_value,
    placeholder,
    prod,
    reduce_axis,
    size_var,
    sum,
    topological,
    var,
)

__all__ = [
    "ComputeOp",
    "Operation",
    "PlaceholderOp",
    "Tensor",
    "all",
    "all_of",
    "any",
    "any_of",
    "comm_reducer",
    "compute",
    "const",
    "create_prim_func",
    "if_then_else",
    "max",
    "max_value",
    "maximum",
    "min",
    "min_value",
    "minimum",
    "placeholder",
    "prod",
    "reduce_axis",
    "select",
    "size_var",
    "sum",
    "topological",
    "var",
]
