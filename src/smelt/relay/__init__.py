"""The classic face on smelt's graph programs: Relay's names, smelt's one graph IR behind them.

mod, params = relay.frontend.from_onnx(model, {"input": (1, 3, 224, 224)})
with smelt.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm -mcpu=native", params=params)
"""

from __future__ import annotations

from typing import Any as _Any

import smelt.topi  # noqa: F401  (the operators)
from smelt.ir.module import IRModule

from . import analysis, backend, frontend, op, ops, testing, transform, ty
from .build_module import build
from .dialect import TupleWrapper, const
from .expr import (
    Any,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    bind,
    var,
)
from .factory import GraphExecutorFactoryModule
from .params import load_param_dict, save_param_dict
from .ty import FuncType, IncompleteType, TensorType, TupleType, Type, scalar_type

nn, image, vision = op.nn, op.image, op.vision
random, annotation, dyn = op.random, op.annotation, op.dyn

__all__ = [
    "Any",
    "Call",
    "Constant",
    "Expr",
    "FuncType",
    "Function",
    "GlobalVar",
    "GraphExecutorFactoryModule",
    "IRModule",
    "If",
    "IncompleteType",
    "Let",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "Var",
    "analysis",
    "backend",
    "bind",
    "build",
    "const",
    "dyn",
    "frontend",
    "load_param_dict",
    "op",
    "ops",
    "save_param_dict",
    "scalar_type",
    "testing",
    "transform",
    "ty",
    "var",
]


def __getattr__(name: str) -> _Any:
    """Operators without a namespace: relay.add, relay.reshape, ..."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(op, name)
