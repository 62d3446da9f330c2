"""Namespaces of builders: `relay.nn.conv2d(...)` makes a call of the operator nn.conv2d."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from .dialect import RELAY, builder

__all__ = ["Namespace"]


class Namespace:
    """The builders of all operators whose names start alike."""

    def __init__(self, prefix: str) -> None:
        """prefix: without the dot."""
        self._prefix = prefix
        self._made: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._prefix}.{name}"
        if name not in self._made:
            if full not in RELAY.ops:
                near = difflib.get_close_matches(full, RELAY.ops, 3)
                hint = f"; nearest: {', '.join(near)}" if near else ""
                raise AttributeError(f"relay.{self._prefix} has no operator {name!r}{hint}")
            self._made[name] = builder(RELAY.ops[full])
        return self._made[name]

    def __dir__(self) -> list[str]:
        start = self._prefix + "."
        return [n.removeprefix(start) for n in RELAY if n.startswith(start)]

    def __repr__(self) -> str:
        return f"<operators relay.{self._prefix}>"
