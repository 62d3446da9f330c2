"""Builders by their Relax names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BUILDERS: dict[str, Callable[..., Any]] = {}


def builder(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the builder of a name, e.g. "nn.relu"."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        BUILDERS[name] = fn
        return fn

    return enter
