"""Relax's pipelines: passes for a program to go through, by name.

mod = relax.get_pipeline("zero")(mod)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.transform import Pass, Sequential
from smelt.relax import transform
from smelt.runtime.errors import unknown

RELAX_PIPELINES: dict[str, tuple[str, ...]] = {
    "zero": ("FoldConstant", "FuseOps", "FuseTIR", "LegalizeOps", "AnnotateTIROpPattern"),
    "default": (
        "CanonicalizeBindings",
        "FoldConstant",
        "EliminateCommonSubexpr",
        "DeadCodeElimination",
    ),
    "default_build": (),
}
"""Passes of relax.transform that users apply by the name of a list (relax.get_pipeline).

"zero" makes programs of all operators and groups, "default" cleans up, "default_build" leaves all
to the build.
"""


def _made(name: str) -> Pass:
    """The pass of one of the pipelines that smelt has."""
    return Sequential([getattr(transform, p)() for p in RELAX_PIPELINES[name]], name=name)


_PIPELINES: dict[str, Callable[..., Any]] = {n: partial(_made, n) for n in RELAX_PIPELINES}


def get_pipeline(name: str = "zero", **options: Any) -> Any:
    """A pass by the name of a pipeline; options go to the function that makes it."""
    if name not in _PIPELINES:
        raise CompileError(f"relax.get_pipeline: {unknown('pipeline', name, _PIPELINES)}")
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
