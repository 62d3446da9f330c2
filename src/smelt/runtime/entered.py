"""What a `with` block makes the current one of its kind."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, ClassVar, Self


class Entered:
    """Its objects are current inside of the `with` blocks that they enter, one in another."""

    _current: ClassVar[ContextVar[Any]]

    def __enter__(self) -> Self:
        vars(self).setdefault("_tokens", []).append(self._current.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        self._current.reset(vars(self)["_tokens"].pop())
