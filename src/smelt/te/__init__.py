"""Tensor expressions: `placeholder`, `compute`, `reduce_axis`, reductions, `create_prim_func`.

`create_schedule` makes a classic schedule of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from smelt.arith.index_map import AXIS_SEPARATOR
from smelt.ir.build import all_of, any_of, if_then_else, maximum, minimum, select
from smelt.ir.errors import Absent
from smelt.ir.expr import const
from smelt.tir.op import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    ceildiv,
    cos,
    cosh,
    div,
    erf,
    exp,
    floor,
    floordiv,
    floormod,
    fmod,
    indexdiv,
    indexmod,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)

from .prim_func import create_prim_func
from .tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    Tensor,
    comm_reducer,
    compute,
    extern,
    extern_primfunc,
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

__all__ = ["AXIS_SEPARATOR", "ComputeOp", "ExternOp", "GroupStage", "Operation", "PlaceholderOp",
           "Schedule", "Stage", "Tensor", "ThreadAxis", "abs", "acos", "acosh", "all", "all_of",
           "any", "any_of", "asin", "asinh", "atan", "atanh", "ceil", "ceildiv", "comm_reducer",
           "compute", "const", "cos", "cosh", "create_prim_func", "create_schedule",
           "decl_tensor_intrin", "div", "erf", "exp", "extern", "extern_primfunc", "floor",
           "floordiv", "floormod", "fmod", "if_then_else", "indexdiv", "indexmod", "isinf", "isnan",
           "log", "log1p", "log2", "log10", "lower_schedule", "max", "max_value", "maximum", "min",
           "min_value", "minimum", "placeholder", "power", "prod", "reduce_axis", "round", "rsqrt",
           "select", "sigmoid", "sin", "sinh", "size_var", "sqrt", "sum", "tan", "tanh",
           "thread_axis", "topological", "trunc", "truncdiv", "truncmod", "var"]  # fmt: skip

all = all_of
"""The conjunction of conditions."""
any = any_of
"""The disjunction of conditions."""

_CLASSIC = {
    **dict.fromkeys(("Fuse", "GroupStage", "Schedule", "Singleton", "Split", "Stage", "ThreadAxis",
                     "create_schedule", "lower_schedule", "thread_axis"),
                    "smelt.classic.te_schedule"),
    "TensorIntrin": "smelt.tir.intrin", "decl_tensor_intrin": "smelt.classic.tensor_intrin",
}  # fmt: skip
_MODULES = {
    "schedule": "smelt.classic.te_schedule", "tensor_intrin": "smelt.classic.tensor_intrin",
}  # fmt: skip
"""Names, and modules, that stand in a room above."""
_ABSENT = {
    "scan": "a recurrence: write its loop as a script program (@T.prim_func) and take its result "
    "with te.extern_primfunc(inputs, program)",
    "gradient": "derivatives: smelt compiles trained models; take gradients in the framework that "
    "trains them, and import the graph that results",
    "hybrid": "programs in Python syntax: @T.prim_func of smelt.script.tir is that language",
    "tag_scope": "tags by scope: compute(..., tag=...) gives each operation its own",
}


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise Absent(f"te.{name}: {_ABSENT[name]}")
    if name in _CLASSIC:
        return getattr(import_module(_CLASSIC[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'smelt.te' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSIC, *_MODULES})
