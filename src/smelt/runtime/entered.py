"""What holds inside of a `with` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """A variable has this value inside."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class Entered:
    """Its objects are current inside of the `with` blocks that they enter, one in another."""

    _current: ClassVar[ContextVar[Any]]

    def __enter__(self) -> Self:
        vars(self).setdefault("_tokens", []).append(self._current.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        self._current.reset(vars(self)["_tokens"].pop())
