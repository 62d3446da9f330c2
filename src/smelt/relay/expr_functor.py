"""Walks over expressions for users to derive from; they are those of all graph programs."""

from __future__ import annotations

from smelt.relax.expr_functor import (
    ExprFunctor,
    ExprMutator,
    ExprRewriter,
    ExprVisitor,
    MixedModeMutator,
    MixedModeVisitor,
    TypeMutator,
    TypeVisitor,
)

__all__ = ["ExprFunctor", "ExprMutator", "ExprRewriter", "ExprVisitor", "MixedModeMutator",
           "MixedModeVisitor", "TypeMutator", "TypeVisitor"]  # fmt: skip
