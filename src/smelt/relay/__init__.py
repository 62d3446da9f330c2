"""The classic face on smelt's graph programs: Relay's names, smelt's one graph IR behind them.

mod, params = relay.frontend.from_onnx(model, {"input": (1, 3, 224, 224)})
with smelt.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm -mcpu=native", params=params)
"""

from __future__ import annotations

from typing import Any as _Any

import smelt.topi  # noqa: F401  (the operators)
from smelt.ir.module import IRModule

from . import adt, analysis, backend, frontend, op, ops, parser, prelude, transform, ty, vm
from .adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    TypeData,
)
from .build_module import build
from .dialect import TupleWrapper, const
from .executor import create_executor
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
from .parser import fromtext, parse, parse_expr
from .printer import astext, meta_table
from .ty import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)

nn, image, vision = op.nn, op.image, op.vision
random, annotation = op.random, op.annotation

__all__ = [
    "Any",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Expr",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "GraphExecutorFactoryModule",
    "IRModule",
    "If",
    "IncompleteType",
    "Let",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeVar",
    "Var",
    "adt",
    "analysis",
    "astext",
    "backend",
    "bind",
    "build",
    "const",
    "create_executor",
    "fromtext",
    "frontend",
    "load_param_dict",
    "meta_table",
    "op",
    "ops",
    "parse",
    "parse_expr",
    "parser",
    "prelude",
    "save_param_dict",
    "scalar_type",
    "transform",
    "ty",
    "var",
    "vm",
]


def __getattr__(name: str) -> _Any:
    """Operators without a namespace: relay.add, relay.reshape, ..."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(op, name)
