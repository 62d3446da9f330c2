"""Graph programs: nodes, text form, verifier, interpreter, passes; and Relax's names for them.

    from smelt import relax
    from smelt.script import relax as R

There is one graph IR: relax.Call, relax.TensorStructInfo, ... are names for its classes.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import compose as compose  # enters its operators
from .equal import assert_structural_equal, structural_equal
from .printer import script

__all__ = ["assert_structural_equal", "script", "structural_equal"]

_HOMES = {
    ".expr": ("Call", "Constant", "DataflowVar", "Expr", "Function", "GlobalVar", "If", "MatchCast",
              "PrimValue", "ShapeExpr", "Tuple", "TupleGetItem", "Var", "const", "get_shape_of"),
    ".struct_info": ("FuncStructInfo", "ObjectStructInfo", "PrimStructInfo", "ShapeStructInfo",
                     "StructInfo", "TensorStructInfo", "TupleStructInfo"),
    ".expr_functor": ("ExprMutator", "ExprVisitor", "PyExprMutator", "PyExprVisitor"),
    ".block_builder": ("BlockBuilder",),
    ".bindings": ("BindingBlock", "SeqExpr", "VarBinding"),
    ".match_cast": ("resolve_match_cast",),
    "smelt.relax_build": ("VirtualMachine", "build"),
    "smelt.relax_pipeline": ("get_default_pipeline", "get_pipeline", "register_pipeline"),
}  # fmt: skip
"""Relax's names by the modules that have them, in this room and above; loaded when first used."""

_NAMES = {name: home for home, names in _HOMES.items() for name in names}

_ROOMS = ("analysis", "bindings", "block_builder", "dpl", "expr", "expr_functor", "frontend", "op",
          "struct_info", "transform", "vm_build")  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name], __name__), name)
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_ROOMS})
