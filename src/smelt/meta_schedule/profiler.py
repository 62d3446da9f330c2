"""Where the time of a session goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Self


class Profiler:
    """Adds up seconds by name, while it is entered.

    with Profiler() as profiler: tune_tir(...)
    print(profiler.table())
    """

    def __init__(self) -> None:
        """Nothing was timed."""
        self._seconds: dict[str, float] = {}
        self._tokens: list[tuple[Token[Profiler | None], float]] = []

    def get(self) -> dict[str, float]:
        """Seconds by name; "Total" is the time inside `with`."""
        return dict(self._seconds)

    def table(self) -> str:
        """The same as text, the longest first."""
        rows = sorted(self._seconds.items(), key=lambda row: -row[1])
        return "\n".join([f"{name:<32}{seconds:10.3f} s" for name, seconds in rows])

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a name."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    @staticmethod
    def current() -> Profiler | None:
        """The one that is entered; None: there is none."""
        return _ENTERED.get()

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Time a part, for the profiler that is entered."""
        with timed(name):
            yield

    def __enter__(self) -> Self:
        self._tokens.append((_ENTERED.set(self), time.perf_counter()))
        return self

    def __exit__(self, *error: object) -> None:
        token, began = self._tokens.pop()
        self.add("Total", time.perf_counter() - began)
        _ENTERED.reset(token)


_ENTERED: ContextVar[Profiler | None] = ContextVar("smelt.meta_schedule.profiler", default=None)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Time a part, for the profiler that is entered."""
    began = time.perf_counter()
    try:
        yield
    finally:
        profiler = _ENTERED.get()
        if profiler is not None:
            profiler.add(name, time.perf_counter() - began)
