"""Classic class names for classes of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Face"]


class Face(type):
    """A classic class name for nodes of the core: calling it makes a node by `make`.

    `isinstance` asks for the core's class, `node`.
    """

    node: type
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """A node made by `make`."""
        return cls.make(*args, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.node) or type.__subclasscheck__(cls, subclass)
