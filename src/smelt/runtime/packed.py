"""Functions by name: what one part of a program registers, another one calls.

@smelt.register_func("my.add")
def add(a, b): ...

smelt.get_global_func("my.add")(1, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.runtime.errors import InputError, nearest

Function = Callable[..., Any]

_FUNCTIONS: dict[str, Function] = {}


def register_func(
    func_name: str | Function, f: Function | None = None, override: bool = False
) -> Any:
    """Enter a function under a name; without `f`, a decorator; on a function, under its own name.

    override  replace what has the name already, which is an error otherwise
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if not isinstance(func_name, str) or not func_name:
        raise InputError(f"register_func: the name is {func_name!r}; a text is legal")

    def enter(function: Function) -> Function:
        if not callable(function):
            raise InputError(
                f"register_func: {func_name!r} is to be a {type(function).__name__}, "
                "which cannot be called"
            )
        if func_name in _FUNCTIONS and not override:
            raise InputError(
                f"register_func: {func_name!r} is registered already; override=True replaces it"
            )
        _FUNCTIONS[func_name] = function
        return function

    return enter if f is None else enter(f)


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """The function of a name. allow_missing: None where there is none."""
    if name in _FUNCTIONS or allow_missing:
        return _FUNCTIONS.get(name)
    raise InputError(
        f"get_global_func: no function {name!r}{nearest(str(name), _FUNCTIONS)}; "
        f"registered: {', '.join(sorted(_FUNCTIONS)) or 'none'}"
    )


def convert(value: Any, span: object = None) -> Any:
    """A Python value as the runtime takes it: the value itself, for nothing is boxed here."""
    return value


def list_global_func_names() -> list[str]:
    """The names of all functions."""
    return sorted(_FUNCTIONS)


def remove_global_func(name: str) -> None:
    """Take a function out."""
    get_global_func(name)
    del _FUNCTIONS[name]
