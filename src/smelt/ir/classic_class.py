"""Classic class names for classes of the core."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any


class ClassicClass(type):
    """A classic class name for nodes of the core: calling it makes a node by `make`.

    `isinstance` asks for the core's class, `node`.
    """

    node: type
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """A node made by `make`."""
        return cls.make(*args, **named)

    def __getattr__(cls, name: str) -> Any:
        """What else the core's class has."""
        return getattr(cls.node, name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.node) or type.__subclasscheck__(cls, subclass)


def classic_class(node: type) -> Callable[[Callable[..., Any]], Any]:
    """Make a function the classic class of its name: calling the class calls the function.

    node  what `isinstance` asks for
    """

    def made(make: Callable[..., Any]) -> Any:
        names = {n: getattr(make, n) for n in ("__module__", "__qualname__", "__doc__")}
        own = {"node": node, "make": staticmethod(make), "__signature__": signature(make)}
        return ClassicClass(make.__name__, (), {**names, **own})

    return made
