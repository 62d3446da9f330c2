"""Relax's pipelines: passes for a program to go through, by name.

mod = relax.get_pipeline("zero")(mod)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.transform import Pass, Sequential
from smelt.runtime.errors import nearest

from .transform import classic

__all__ = ["get_default_pipeline", "get_pipeline", "register_pipeline"]


def zero_pipeline() -> Pass:
    """Every operator, and every group of them that is fused, becomes a program (call_tir)."""
    steps = (classic.FoldConstant(), classic.FuseOps(), classic.FuseTIR(), classic.LegalizeOps(),
             classic.AnnotateTIROpPattern())  # fmt: skip
    return Sequential(steps, name="zero")


def default_pipeline() -> Pass:
    """Names, equal values and unused ones go; what follows from constants is computed."""
    steps = (classic.CanonicalizeBindings(), classic.FoldConstant(),
             classic.EliminateCommonSubexpr(), classic.DeadCodeElimination())  # fmt: skip
    return Sequential(steps, name="default")


def default_build_pipeline() -> Pass:
    """Nothing: relax.build itself simplifies, fuses, schedules and lowers a program."""
    return Sequential((), name="default_build")


_PIPELINES: dict[str, Callable[..., Any]] = {
    "zero": zero_pipeline,
    "default": default_pipeline,
    "default_build": default_build_pipeline,
}


def get_pipeline(name: str = "zero", **options: Any) -> Any:
    """A pass by the name of a pipeline; options go to the function that makes it."""
    if name not in _PIPELINES:
        raise CompileError(
            f"relax.get_pipeline: no pipeline {name!r}{nearest(name, list(_PIPELINES))}; "
            f"pipelines: {', '.join(_PIPELINES)}"
        )
    return _PIPELINES[name](**options)


def get_default_pipeline(target: Any = None) -> Any:
    """The pipeline of relax.build, for any target."""
    return get_pipeline("default_build")


def register_pipeline(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that enters a function giving a pass under a name of its own."""
    if name in _PIPELINES:
        raise CompileError(f"relax.register_pipeline: there is a pipeline {name!r} already")

    def enter(make: Callable[..., Any]) -> Callable[..., Any]:
        _PIPELINES[name] = make
        return make

    return enter
