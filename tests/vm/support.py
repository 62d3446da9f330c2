"""Programs for the tests of the virtual machine, and what compares its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import relay as relay_module
from smelt.ir.module import IRModule
from smelt.relax.verify import verify
from smelt.runtime.container import ADT

INT = "int32"

relay: Any = relay_module
"""Its classes are called like functions, which type checkers do not follow."""


def scalar(name: str) -> Any:
    """A variable that is one int32."""
    return relay.var(name, shape=(), dtype=INT)


def f32(values: Any) -> Any:
    """An array of float32."""
    return np.asarray(values, "float32")


def num(value: int) -> Any:
    """A constant int32."""
    return relay.const(value, INT)


def plain(x: Any) -> Any:
    """A result as Python data: numbers, arrays, lists of fields with the constructor's name."""
    if isinstance(x, ADT):
        return [x.name, *[plain(f) for f in x.fields]] if x.name else [plain(f) for f in x.fields]
    if isinstance(x, list | tuple):
        return [plain(i) for i in x]
    found = np.asarray(x)
    return found.item() if found.ndim == 0 else found


def items(x: Any) -> list[Any]:
    """The items of a list of the prelude, without recursion."""
    found = []
    while x.name == "cons":
        found.append(plain(x[0]))
        x = x[1]
    assert x.name == "nil"
    return found


def both(mod: IRModule, *args: Any, show: Callable[[Any], Any] = plain) -> Any:
    """The result of "main" in the virtual machine, which is that of the interpreter."""
    verify(mod)
    vm = show(relay.create_executor("vm", mod).evaluate()(*args))
    debug = show(relay.create_executor("debug", mod).evaluate()(*args))
    np.testing.assert_equal(vm, debug)
    return vm


def main(params: Any, body: Any, mod: IRModule | None = None) -> IRModule:
    """A module with a main function, from another one."""
    made = IRModule() if mod is None else mod
    made["main"] = relay.Function(params, body)
    return made
