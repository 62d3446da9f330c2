"""What every primitive has in common: it is atomic, recorded, and named in its errors."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from typing import Any, TypeVar

from .state import Call, State
from .trace import Trace

__all__ = ["Base", "primitive"]

_MISSING = object()

F = TypeVar("F", bound=Callable[..., Any])


class Base:
    """The parts of a Schedule that the primitives use."""

    state: State
    trace: Trace
    random: random.Random
    _depth: int = 0


def primitive(fn: F) -> F:
    """Make a method a primitive: recorded in the trace; where it raises, nothing has changed."""
    params = list(inspect.signature(fn).parameters.values())[1:]
    variadic = next((p.name for p in params if p.kind is p.VAR_POSITIONAL), None)
    defaults = {p.name: p.default for p in params}
    plain = [p.name for p in params if p.kind is p.POSITIONAL_OR_KEYWORD]
    name = fn.__name__

    @functools.wraps(fn)
    def run(self: Base, *args: Any, **kwargs: Any) -> Any:
        if self._depth:
            return fn(self, *args, **kwargs)
        given: dict[str, Any] = (
            {"*": args} if variadic and args else dict(zip(plain, args, strict=False))
        )
        given |= {k: kwargs[k] for k in defaults if k in kwargs}
        given = {k: v for k, v in given.items() if not _is_default(v, defaults.get(k, _MISSING))}
        state = self.state
        before, index, call = state.func, state._index, state.call
        names, blocks = set(state.names), set(state.block_names)
        state.call = Call(name, given)
        self._depth += 1
        try:
            result = fn(self, *args, **kwargs)
        except BaseException:
            state.func, state._index, state.names, state.block_names = before, index, names, blocks
            state.call = call
            raise
        finally:
            self._depth -= 1
        self.trace.record(name, state.call.args, result)
        if state.func is not before:
            state.history.append((state.call, before))
        return result

    run.is_primitive = True  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _is_default(value: object, default: object) -> bool:
    return value is default or (
        type(value) is type(default)
        and isinstance(value, str | int | float | tuple)
        and value == default
    )
