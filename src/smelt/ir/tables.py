"""Tables of functions that decorators fill, also by importing a package; names of other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

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


def names_above(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of a module for names of modules above it, loaded when first used."""

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        known = ", ".join(homes)
        raise AttributeError(f"module {module!r} has no attribute {name!r}; it has: {known}")

    return find
