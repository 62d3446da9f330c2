"""What every primitive has in common: it is atomic, recorded, and named in its errors."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from smelt.ir.errors import ScheduleError
from smelt.ir.module import IRModule
from smelt.tir.facts import Facts
from smelt.tir.nodes import BlockRealize, PrimFunc
from smelt.tir.verify import SCOPES, verify

from .handles import BlockRV, LoopRV
from .state import PrimitiveCall, State
from .trace import Trace

_MISSING = object()

F = TypeVar("F", bound=Callable[..., Any])


class Base:
    """The parts of a Schedule that the primitives use: its functions, and the one worked on.

    state   the function worked on
    trace   what has been done
    random  what the sampling primitives draw from
    """

    state: State
    trace: Trace
    random: random.Random
    _module: IRModule | None
    _functions: dict[str, PrimFunc]
    _states: dict[str, State]
    _name: str = ""
    _verify: bool = False
    _render: str = "detail"
    _depth: int = 0
    _removed: tuple[object, ...] = ()

    def _enter(self, name: str) -> None:
        """Work on the function of a name from here on."""
        if name not in self._functions:
            raise ScheduleError(
                f"work_on({name!r}): the module has no such tensor program\n"
                f"  legal: {', '.join(self._functions) or 'none'}"
            )
        if name not in self._states:
            self._states[name] = State(self._functions[name])
            self._states[name].render = self._render
        self.state = self._states[name]
        self._name = name

    def _at(self, block: str) -> tuple[State, BlockRealize]:
        """What is worked on, and the block of a name in it."""
        return self.state, self.state.realize(block)

    def _would_take(self, name: str, *args: object) -> bool:
        """Whether a primitive of that name would take these arguments: tried on a copy."""
        try:
            getattr(self.copy(), name)(*args)  # type: ignore[attr-defined]
        except ScheduleError:
            return False
        return True

    def _enter_function_of(self, args: Iterable[Any]) -> None:
        """Work on the function that the handles among the arguments belong to."""
        owners: dict[str, str] = {}
        for h in _handles(args):
            if any(h is r for r in self._removed):
                raise ScheduleError(
                    f"{h!r} has been removed\n  legal: a handle that get_block or get_loops gives"
                )
            owners.setdefault(h.func or self._name, repr(h))
        if len(owners) > 1:
            parts = " and ".join(f"{h} of {f}" for f, h in owners.items())
            raise ScheduleError(f"{parts} are in different functions\n  legal: handles of one")
        for name in owners:
            if name != self._name:
                self._enter(name)


def _handles(args: Iterable[Any]) -> Iterator[LoopRV | BlockRV]:
    for a in args:
        if isinstance(a, LoopRV | BlockRV):
            yield a
        elif isinstance(a, list | tuple):
            yield from _handles(a)


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
        name_before = self._name
        self._enter_function_of(given.values())
        state = self.state
        before, index, call = state.func, state._index, state.call
        names, blocks, relaid = set(state.names), set(state.block_names), state.relaid
        state.call = PrimitiveCall(name, given)
        self._depth += 1
        try:
            _check_scope(state, given.get("storage_scope", "global"))
            result = fn(self, *args, **kwargs)
            if self._verify and state.func is not before:
                verify(state.func)
        except BaseException:
            state.func, state._index, state.names, state.block_names = before, index, names, blocks
            state.call, state.facts, state.relaid = call, Facts(before), relaid
            self._enter(name_before)
            raise
        finally:
            self._depth -= 1
        for h in _handles(result if isinstance(result, list) else [result]):
            h.func = self._name
        self.trace.record(name, state.call.args, result, self._name)
        if state.func is not before:
            state.history.append((state.call, before))
        return result

    run.is_primitive = True  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _check_scope(s: State, scope: object) -> None:
    if not isinstance(scope, str) or scope.split(".")[0] not in SCOPES:
        s.fail(f"there is no memory {scope!r}", legal=f"{', '.join(SCOPES)}")


def _is_default(value: object, default: object) -> bool:
    plain = type(value) is type(default) and isinstance(value, str | int | float | tuple)
    return value is default or (plain and value == default)
