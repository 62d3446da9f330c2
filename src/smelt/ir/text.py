"""The text form of programs, whatever their level: who prints what, and modules as classes.

Each level registers what prints its nodes (`printed`); a module is a class with a function
for each name. What this file prints `smelt.script.parse` reads back.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np

_INDENT = "    "
_RESERVED = frozenset({"I", "R", "T", "cls", "float", *keyword.kwlist})


@singledispatch
def printed(node: Any, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]) -> str:
    """The text of a node; each level registers its classes.

    name   the name that a function gets; None: its own
    names  what the functions of the module around are called in its text
    mark   nodes to underline, each with a note (where the printer can)
    """
    raise TypeError(f"a {type(node).__name__} has no text form")


def script(node: object, mark: Mapping[Any, str] | None = None) -> str:
    """The text of a module, a function, a statement or an expression.

    mark  nodes to underline with ^^^, each with a note
    """
    return printed(node, None, {}, mark or {})


class Scripted:
    """What has a text form that can be read back."""

    __slots__ = ()

    def script(self) -> str:
        """The text: Python syntax that `smelt.script.parse` reads back."""
        return script(self)

    def show(self) -> None:
        """Print the text."""
        print(self.script(), end="")

    def __str__(self) -> str:
        return self.script()


# --------------------------------------------------------------------------------------- modules


def module_text(
    functions: Mapping[str, Any], attrs: Mapping[str, Any], mark: Mapping[Any, str]
) -> str:
    """The text of a module: a class with a function for each name. mark: as of `script`."""
    taken = set(_RESERVED)
    names = {n: fresh_name(n, taken) for n in functions}
    lines = ["@I.ir_module", "class Module:"]
    if attrs:
        lines += [f"{_INDENT}I.module_attrs({data_text(attrs)})", ""]
    for name, f in functions.items():
        text = printed(f, names[name], names, mark)
        lines += [_INDENT + line if line else "" for line in text.rstrip("\n").split("\n")]
        lines.append("")
    if len(lines) == 2:
        lines += [f"{_INDENT}pass", ""]
    return "\n".join(lines[:-1]) + "\n"


def fresh_name(base: str, taken: set[str]) -> str:
    """An identifier like `base` that is not taken, which it is then: base, base_1, base_2, ..."""
    base = re.sub(r"\W", "_", base, flags=re.ASCII) or "v"
    base = "_" + base if base[0].isdigit() else base
    name = base
    if name in taken:
        low, high = 0, 1  # names are mostly taken in order: look for the end of the row
        while f"{base}_{high}" in taken:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if f"{base}_{middle}" in taken else (low, middle)
        name = f"{base}_{high}"
    taken.add(name)
    return name


# ------------------------------------------------------------------------------------ plain data


def data_text(
    value: Any, other: Callable[[Any], str] | None = None, *, ordered: bool = True
) -> str:
    """Plain data as Python writes it: attributes and annotations.

    other    what prints an expression, or whatever else is no plain data; None: as a text
    ordered  False: dictionaries by their keys instead of by insertion
    """

    def inner(x: Any) -> str:
        return data_text(x, other, ordered=ordered)

    match value:
        case np.generic():
            return inner(value.item())
        case Mapping():
            items: Iterable[tuple[Any, Any]] = value.items()
            items = items if ordered else sorted(items, key=lambda item: str(item[0]))
            return "{" + ", ".join([f"{inner(k)}: {inner(v)}" for k, v in items]) + "}"
        case tuple():
            return "(" + ", ".join(map(inner, value)) + (",)" if len(value) == 1 else ")")
        case list():
            return "[" + ", ".join(map(inner, value)) + "]"
        case str():
            return quoted(value)
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case None | bool() | int() | float():
            return repr(value)
    return quoted(str(value)) if other is None else other(value)


def quoted(value: object) -> str:
    """A text in double quotes where that needs no escapes."""
    text = repr(value)
    plain = text[0] == "'" and '"' not in text and "\\" not in text
    return f'"{text[1:-1]}"' if plain else text
