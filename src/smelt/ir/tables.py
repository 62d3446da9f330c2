"""Tables of functions that decorators fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
F = TypeVar("F")


def entering(table: dict[K, F]) -> Callable[..., Callable[[F], F]]:
    """A decorator that enters a function under some keys: `rule("sum", "mean")`."""

    def rule(*keys: K) -> Callable[[F], F]:
        def enter(fn: F) -> F:
            table.update(dict.fromkeys(keys, fn))
            return fn

        return enter

    return rule
