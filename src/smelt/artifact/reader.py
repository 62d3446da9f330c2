"""Reading what the cache holds: nothing but the data of compiled code is made."""

from __future__ import annotations

import io
import pickle
from typing import TypeVar

from smelt.ir.expr import Expr

from .constants import ConstantCode, ConstantProgram
from .kernel import CompiledKernel

T = TypeVar("T")

_PARTS = (CompiledKernel, ConstantCode, ConstantProgram, Expr)
_ROOMS = tuple([part.__module__ for part in _PARTS])


class Reader(pickle.Unpickler):
    """Makes parts of compiled code."""

    def find_class(self, module: str, name: str) -> type:
        """One of the parts: no class that runs code for its arguments."""
        found = super().find_class(module, name) if module in _ROOMS else None
        if isinstance(found, type) and issubclass(found, _PARTS):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of compiled code")


def read(kind: type[T], data: bytes) -> T | None:
    """A cached thing, or None where the entry is something else: it is then compiled anew."""
    try:
        found = Reader(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, AttributeError, EOFError, LookupError, TypeError, ValueError):
        return None
    return found if isinstance(found, kind) else None
