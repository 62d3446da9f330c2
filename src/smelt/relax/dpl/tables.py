"""Pattern tables: for each compiler the patterns of what it can do, by the compiler's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from smelt.ir.errors import TypeMismatch
from smelt.runtime.errors import nearest

from .match import PatternBase

PatternEntry = tuple[str, PatternBase] | tuple[str, PatternBase, Callable[[Any], bool]]
"""Name, pattern, and what has to hold of a match (the function gets the value it computes)."""

_TABLES: dict[str, list[PatternEntry]] = {}


TableMaker = TypeVar("TableMaker", bound=Callable[[], Any])


@overload
def register_pattern_table(compiler: str) -> Callable[[TableMaker], TableMaker]:
    """As a decorator."""


@overload
def register_pattern_table(compiler: str, table: TableMaker) -> TableMaker:
    """The function beside the name."""


def register_pattern_table(compiler: str, table: Any = None) -> Any:
    """Enter the patterns of a compiler, in place of those it has; the function is called at once.

    @register_pattern_table("dnnl")
    def pattern_table():
        return [("dnnl.dense", is_op("matmul")(wildcard(), is_constant()))]
    """

    def enter(fn: TableMaker) -> TableMaker:
        _TABLES[compiler] = check_table(fn(), f"the pattern table of {compiler!r}")
        return fn

    return enter if table is None else enter(table)


def get_pattern_table(compiler: str) -> list[PatternEntry]:
    """The patterns of a compiler."""
    if compiler not in _TABLES:
        hint = nearest(compiler, _TABLES)
        known = ", ".join(sorted(_TABLES)) or "none"
        raise TypeMismatch(f"no pattern table {compiler!r}{hint}; registered: {known}")
    return list(_TABLES[compiler])


def check_table(table: Any, where: str) -> list[PatternEntry]:
    """A pattern table, checked: names, patterns, functions."""
    if not isinstance(table, Sequence) or isinstance(table, str):
        raise TypeMismatch(f"{where}: a list of (name, pattern[, check]) is needed, not {table!r}")
    for n, entry in enumerate(table):
        fits = isinstance(entry, tuple | list) and len(entry) in (2, 3)
        fits = fits and isinstance(entry[0], str) and isinstance(entry[1], PatternBase)
        if not fits or (len(entry) == 3 and not callable(entry[2])):
            raise TypeMismatch(
                f"{where}: entry {n} is {entry!r}; it has to be (name, pattern) or "
                "(name, pattern, check)"
            )
    return [tuple(entry) for entry in table]
