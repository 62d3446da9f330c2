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

_NAMES = {
    **dict.fromkeys(
        (
            "Call",
            "Constant",
            "DataflowVar",
            "Expr",
            "Function",
            "GlobalVar",
            "If",
            "MatchCast",
            "PrimValue",
            "ShapeExpr",
            "Tuple",
            "TupleGetItem",
            "Var",
            "const",
            "get_shape_of",
        ),
        "expr",
    ),
    **dict.fromkeys(
        (
            "FuncStructInfo",
            "ObjectStructInfo",
            "PrimStructInfo",
            "ShapeStructInfo",
            "StructInfo",
            "TensorStructInfo",
            "TupleStructInfo",
        ),
        "struct_info",
    ),
    **dict.fromkeys(
        ("ExprMutator", "ExprVisitor", "PyExprMutator", "PyExprVisitor"), "expr_functor"
    ),
    "BlockBuilder": "block_builder",
    "BindingBlock": "bindings",
    "SeqExpr": "bindings",
    "VarBinding": "bindings",
    "resolve_match_cast": "match_cast",
}
"""Relax's names, and the modules of this room that have them; loaded when first used."""

_ABOVE = {
    "VirtualMachine": "smelt.relax_build",
    "build": "smelt.relax_build",
    "get_default_pipeline": "smelt.relax_pipeline",
    "get_pipeline": "smelt.relax_pipeline",
    "register_pipeline": "smelt.relax_pipeline",
}
"""Names of what stands above graphs, and where it is."""

_ROOMS = ("analysis", "bindings", "block_builder", "dpl", "expr", "expr_functor", "frontend", "op",
          "struct_info", "transform", "vm_build")  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    if name in _ABOVE:
        return getattr(importlib.import_module(_ABOVE[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_ROOMS, *_ABOVE})
