"""Operators under their Relay names."""

from __future__ import annotations

import difflib
from functools import cache

from smelt.ir.errors import Unsupported
from smelt.topi.registry import get_op, ops

from .table import classic_names

__all__ = ["Op", "get", "list_op_names"]


class Op:
    """An operator: `str(op)` and `op.name` are its Relay name."""

    __slots__ = ("name", "source")

    def __init__(self, name: str, source: str) -> None:
        """source: smelt's name of the operator that does the work."""
        self.name, self.source = name, source

    @property
    def description(self) -> str:
        """What it computes."""
        return get_op(self.source).__doc__ or ""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Op({self.name})"


@cache
def _table() -> dict[str, Op]:
    names = classic_names()
    found = {}
    for source in ops():
        for name in names.get(source, (f"smelt.{source}",)):
            found[name] = Op(name, source)
    return found


def get(name: str) -> Op:
    """The operator of this Relay name: one object a name."""
    found = _table().get(name)
    if found is None:
        near = difflib.get_close_matches(name, _table(), 3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise Unsupported(f"relay has no operator {name!r}{hint}")
    return found


def list_op_names() -> list[str]:
    """The Relay names of all operators."""
    return sorted(_table())
