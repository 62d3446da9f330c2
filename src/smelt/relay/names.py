"""Namespaces of builders: `relay.nn.conv2d(...)` makes a call of the operator nn.conv2d."""

from __future__ import annotations

from typing import Any

from smelt.ir.errors import Absent
from smelt.runtime.errors import nearest

from .dialect import find_builder, names


class Namespace:
    """The builders of all operators whose names start alike."""

    def __init__(self, prefix: str) -> None:
        """prefix: without the dot."""
        self._prefix = prefix
        self._made: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._prefix}.{name}"
        if name not in self._made:
            found: Any = find_builder(full)
            if found is None and any(n.startswith(full + ".") for n in names()):
                found = Namespace(full)
            if found is None:
                own = [f"{self._prefix}.{n}" for n in dir(self)]
                raise Absent(f"relay.{self._prefix} has no operator {name!r}{nearest(full, own)}")
            self._made[name] = found
        return self._made[name]

    def __dir__(self) -> list[str]:
        start = self._prefix + "."
        return sorted([n.removeprefix(start) for n in names() if n.startswith(start)])

    def __repr__(self) -> str:
        return f"<operators relay.{self._prefix}>"
