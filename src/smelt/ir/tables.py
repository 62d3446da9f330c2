"""Tables of functions that decorators fill: by hand, and by importing all modules of a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pkgutil import iter_modules
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


def import_modules(package: str, path: Iterable[str], prefix: str = "") -> None:
    """Import every module of a package (its `__name__` and `__path__`) for what it enters.

    prefix  of the names of those that enter something
    """
    for module in iter_modules(path):
        if module.name.startswith(prefix):
            import_module(f"{package}.{module.name}")
