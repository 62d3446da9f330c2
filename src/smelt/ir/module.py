"""IRModule: graph functions and tensor programs under global names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import singledispatch
from typing import Any

from smelt.runtime.errors import nearest, unknown

from .node import Node
from .text import Scripted, module_text, printed
from .types import GlobalTypeVar

TEXTS: dict[str, Callable[..., str]] = {}
"""Texts of modules in the words of a dialect, by its name; each dialect enters its own."""


VARIABLES: dict[str, Callable[[str], Any]] = {}
"""How the variable of a function is made from its name; the level of graphs enters its own."""


STANDARD: dict[str, Callable[[Any], object]] = {}
"""What enters the definitions of a standard text into a module; dialects enter theirs."""


class FunctionName(str):
    """The name of a function of a module."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The plain name."""
        return str(self)


@singledispatch
def as_function(expr: Any) -> Node:
    """A function that computes an expression of its free variables; levels register theirs."""
    raise TypeError(f"IRModule.from_expr: a {type(expr).__name__} is no expression of a program")


def global_var(name: str) -> Any:
    """The variable of a function of a module."""
    made = VARIABLES.get("global")
    return FunctionName(name) if made is None else made(name)


def _missing(what: str, name: str, known: Collection[str]) -> KeyError:
    names = ", ".join(known) or "none"
    return KeyError(f"{what} {name!r}{nearest(name, known)}; it has: {names}")


class IRModule(Scripted):
    """Functions by name, of both levels. Passes make new modules; the functions are shared."""

    def __init__(
        self, functions: Mapping[str, Node] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> None:
        """Start from some functions."""
        self.functions: dict[str, Node] = {}
        for name, f in (functions or {}).items():
            self[name] = f
        self.attrs: dict[str, Any] = dict(attrs or {})

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, GlobalTypeVar):
            return self.type_data(name)
        key = name if isinstance(name, str) else name.name
        if key not in self.functions:
            raise _missing("the module has no function", key, self.functions)
        return self.functions[key]

    def __setitem__(self, name: Any, function: Node) -> None:
        if isinstance(name, GlobalTypeVar):
            self.attrs["type_defs"] = {**self.type_definitions, name: function}
            return
        key = name if isinstance(name, str) else name.name
        self.functions[FunctionName(key)] = function

    def __contains__(self, name: object) -> bool:
        return (name if isinstance(name, str) else getattr(name, "name", None)) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    @classmethod
    def from_expr(
        cls,
        expr: Any,
        functions: Mapping[Any, Node] | None = None,
        type_defs: Mapping[Any, Any] | None = None,
    ) -> IRModule:
        """A module whose "main" is a function, or computes an expression of its free variables.

        functions  more functions, by name or GlobalVar
        type_defs  data types, by name or GlobalTypeVar
        """
        made = cls({**(functions or {}), "main": as_function(expr)})
        if type_defs:
            made.attrs["type_defs"] = dict(type_defs)
        return made

    def get_global_vars(self) -> list[Any]:
        """The names of all functions, as variables that can be called."""
        return [global_var(n) for n in self.functions]

    def get_global_var(self, name: str) -> Any:
        """The name of a function as a variable that can be called."""
        if name not in self:
            raise _missing("the module has no function", name, self.functions)
        return global_var(name)

    def import_from_std(self, file_name: str) -> None:
        """Enter a standard text of definitions: "prelude.rly"."""
        if file_name not in STANDARD:
            known = ", ".join(STANDARD) or "none"
            raise KeyError(f"import_from_std: no text {file_name!r}; there are: {known}")
        STANDARD[file_name](self)

    # ------------------------------------------------------------------------------ data types

    @property
    def type_definitions(self) -> dict[GlobalTypeVar, Any]:
        """The data types of the module."""
        found = self.attrs.get("type_defs", {}).items()
        return {GlobalTypeVar(k) if isinstance(k, str) else k: v for k, v in found}

    def type_data(self, name: GlobalTypeVar | str) -> Any:
        """The definition of a data type."""
        known = self.type_definitions
        key = GlobalTypeVar(name) if isinstance(name, str) else name
        if key not in known:
            raise _missing("the module has no data type", key.name, [k.name for k in known])
        return known[key]

    def get_type(self, name: str) -> tuple[Any, ...]:
        """A data type's name and its constructors: `List, cons, nil = mod.get_type("List")`."""
        data = self.type_data(name)
        return (data.header, *data.constructors)

    def get_constructor(self, type_name: GlobalTypeVar | str, name: str) -> Any:
        """A constructor of a data type, by name."""
        data = self.type_data(type_name)
        by_name = {c.name_hint: c for c in data.constructors}
        if name not in by_name:
            said = unknown("constructor", name, by_name)
            raise KeyError(f"the data type {data.header.name} has {said}")
        return by_name[name]

    def astext(self, show_meta_data: bool = True) -> str:
        """The text in the words of the dialect that the program is written in, else the script.

        show_meta_data  list the constants that the text refers to
        """
        return self._text(show_meta_data) or self.script()

    def __str__(self) -> str:
        return self._text(False, header=False) or self.script()

    def _text(self, show_meta_data: bool, header: bool = True) -> str:
        found = [text(self, show_meta_data, header) for text in TEXTS.values()]
        return next(filter(None, found), "")

    def update(self, other: IRModule | Mapping[Any, Node]) -> None:
        """Enter the functions of another module; those of equal names are replaced."""
        functions = other.functions if isinstance(other, IRModule) else other
        for name, f in functions.items():
            self[name] = f

    def update_func(self, var: Any, func: Node) -> None:
        """Enter a function under a name, in place of what has it."""
        self[var] = func

    def functions_items(self) -> list[tuple[Any, Node]]:
        """The functions with their names."""
        return list(self.functions.items())

    def clone(self) -> IRModule:
        """A copy: what is entered into one is not in the other."""
        return IRModule(self.functions, self.attrs)

    def with_functions(self, functions: Mapping[str, Node]) -> IRModule:
        """A copy with some functions added or replaced."""
        return IRModule({**self.functions, **functions}, self.attrs)


@printed.register
def _(m: IRModule, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]) -> str:
    return module_text(m.functions, m.attrs, mark)
