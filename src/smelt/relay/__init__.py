"""The classic API over smelt's graph programs: Relay's names, smelt's one graph IR behind them.

mod, params = relay.frontend.from_onnx(model, {"input": (1, 3, 224, 224)})
with smelt.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm -mcpu=native", params=params)
"""

from __future__ import annotations

import importlib
from typing import Any as _Any

import smelt.topi  # noqa: F401  (the operators)
from smelt.ir.absent import is_absent, refuse_module
from smelt.ir.module import IRModule
from smelt.runtime.params import load_param_dict, save_param_dict
from smelt.transform import PassContext

from . import (
    adt,
    analysis,
    backend,
    expr,
    expr_functor,
    frontend,
    loops,
    op,
    ops,
    parser,
    prelude,
    qnn,
    scope_builder,
    testing,
    transform,
    ty,
    vm,
)
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
from .build_module import build, optimize
from .dialect import TupleWrapper
from .executor import create_executor
from .expr import bind, const, var
from .expr_functor import (
    ExprFunctor,
    ExprMutator,
    ExprRewriter,
    ExprVisitor,
    MixedModeMutator,
    MixedModeVisitor,
    TypeMutator,
    TypeVisitor,
)
from .factory import GraphExecutorFactoryModule
from .parser import fromtext, parse, parse_expr
from .prelude import Prelude
from .printer import astext, meta_table
from .scope_builder import ScopeBuilder
from .ty import GlobalTypeVar, TypeCall, TypeVar, scalar_type

build_config = PassContext
"""The oldest name of the context of a build."""

# Classes by which nodes are made and recognised; a type checker learns no more than that of them.
Any: _Any = expr.Any
Call: _Any = expr.Call
Constant: _Any = expr.Constant
Expr: _Any = expr.Expr
RelayExpr: _Any = expr.Expr
Function: _Any = expr.Function
GlobalVar: _Any = expr.GlobalVar
If: _Any = expr.If
Let: _Any = expr.Let
Tuple: _Any = expr.Tuple
TupleGetItem: _Any = expr.TupleGetItem
Var: _Any = expr.Var
FuncType: _Any = ty.FuncType
IncompleteType: _Any = ty.IncompleteType
TensorType: _Any = ty.TensorType
TupleType: _Any = ty.TupleType
Type: _Any = ty.Type

nn, image, vision = op.nn, op.image, op.vision
random, annotation, dyn = op.random, op.annotation, op.dyn

__all__ = ["Any", "Call", "Clause", "Constant", "Constructor", "Expr", "ExprFunctor", "ExprMutator",
           "ExprRewriter", "ExprVisitor", "FuncType", "Function", "GlobalTypeVar", "GlobalVar",
           "GraphExecutorFactoryModule", "IRModule", "If", "IncompleteType", "Let", "Match",
           "MixedModeMutator", "MixedModeVisitor", "Pattern", "PatternConstructor", "PatternTuple",
           "PatternVar", "PatternWildcard", "Prelude", "RefCreate", "RefRead", "RefWrite",
           "RelayExpr", "ScopeBuilder", "TensorType", "Tuple", "TupleGetItem", "TupleType",
           "TupleWrapper", "Type", "TypeCall", "TypeData", "TypeMutator", "TypeVar", "TypeVisitor",
           "Var", "adt", "analysis", "astext", "backend", "bind", "build", "build_config", "const",
           "create_executor", "dyn", "expr", "expr_functor", "fromtext", "frontend",
           "load_param_dict", "loops", "meta_table", "op", "ops", "optimize", "parse", "parse_expr",
           "parser", "prelude", "qnn", "quantize", "save_param_dict", "scalar_type",
           "scope_builder", "testing", "transform", "ty", "var", "vm"]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Operators without a namespace: relay.add, relay.reshape, ...; and what few programs need."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "quantize":
        return importlib.import_module(f"{__name__}.quantize")
    if is_absent(f"relay.{name}"):
        refuse_module(f"relay.{name}")
    return getattr(op, name)
