"""Builders by their Relax names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

BUILDERS: dict[str, Callable[..., Any]] = {}

Build = TypeVar("Build", bound=Callable[..., Any])


def builder(name: str) -> Callable[[Build], Build]:
    """Enter a function as the builder `relax.op.<name>`: "add", "nn.relu"."""

    def enter(fn: Build) -> Build:
        if name in BUILDERS:
            raise ValueError(f"relax.op has a builder {name!r} already")
        BUILDERS[name] = fn
        return fn

    return enter
