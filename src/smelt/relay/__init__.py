"""The classic face on smelt's graph programs: Relay's names, smelt's one graph IR behind them.

mod, params = relay.frontend.from_onnx(model, {"input": (1, 3, 224, 224)})
with smelt.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm -mcpu=native", params=params)
"""

from __future__ import annotations

import smelt.topi  # noqa: F401  (the operators)

from . import analysis, backend, frontend, op, transform
from .build_module import build
from .expr import Call, Constant, Expr, GlobalVar, If, Tuple, TupleGetItem, Var, const, var, view
from .factory import GraphExecutorFactoryModule
from .module import Function, IRModule
from .params import load_param_dict, save_param_dict

__all__ = [
    "Call",
    "Constant",
    "Expr",
    "Function",
    "GlobalVar",
    "GraphExecutorFactoryModule",
    "IRModule",
    "If",
    "Tuple",
    "TupleGetItem",
    "Var",
    "analysis",
    "backend",
    "build",
    "const",
    "frontend",
    "load_param_dict",
    "op",
    "save_param_dict",
    "transform",
    "var",
    "view",
]
