"""The operators: one function each. `get_op(name)` finds one by name, and so does `topi.name`."""

from smelt.ir.errors import TypeMismatch
from smelt.ir.tables import import_modules

from .registry import Op, OpInstance, get_op, op, ops

__all__ = ["Op", "OpInstance", "get_op", "op", "ops"]

import_modules(__name__, __path__)
globals().update(ops())  # a name that is a module too (resize) is the operator


def __getattr__(name: str) -> Op:
    try:
        return get_op(name)
    except TypeMismatch as e:
        raise AttributeError(str(e)) from None


def __dir__() -> list[str]:
    return sorted([*__all__, *ops()])
