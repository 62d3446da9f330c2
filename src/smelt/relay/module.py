"""`mod["main"]` and `mod` as Relay programs know them: smelt's own, with Relay text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from smelt.ir import module as ir_module
from smelt.ir.errors import TypeMismatch
from smelt.ir.node import Node
from smelt.relax import nodes as relax

from .expr import Expr, unwrap
from .printer import function_text, module_text

__all__ = ["Function", "IRModule"]


class Function(relax.Function):
    """A graph function whose text is Relay's. `params` and `body` are smelt's own nodes.

    Passes take it as the graph function that it is; `relay.view(f.body)` shows the inside in
    Relay's words.
    """

    __extra_slots__: ClassVar[tuple[str, ...]] = ("scope",)
    scope: ClassVar[Any]  # the functions of the module it belongs to

    def __post_init__(self) -> None:
        params = self.params if isinstance(self.params, Sequence) else (self.params,)
        self.params = tuple([unwrap(p) for p in params])  # type: ignore[misc]
        self.body = unwrap(self.body)  # type: ignore[misc]
        self.scope = {}  # type: ignore[misc]
        for p in self.params:
            if not isinstance(p, relax.Var):
                raise TypeMismatch(
                    f"relay.Function: a parameter is a {type(p).__name__}, not a Var"
                )

    @property
    def ret_type(self) -> Any:
        """The type of the result."""
        return self.body.type

    def astext(self, show_meta_data: bool = True) -> str:
        """The text; show_meta_data is there for the classic signature."""
        return function_text(self, self.scope)

    def __str__(self) -> str:
        return function_text(self, self.scope)

    __repr__ = __str__


class IRModule(ir_module.IRModule):
    """smelt's module whose graph functions print as Relay."""

    def __init__(
        self, functions: Mapping[Any, Any] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> None:
        """Start from some functions."""
        super().__init__(None, attrs)
        for name, f in (functions or {}).items():
            self[name] = f

    @classmethod
    def of(cls, mod: ir_module.IRModule) -> IRModule:
        """A module of any pass, seen as Relay."""
        return mod if isinstance(mod, cls) else cls(mod.functions, mod.attrs)

    @classmethod
    def from_expr(cls, expr: Any) -> IRModule:
        """A module whose "main" is a function, or computes a value of its free variables."""
        node = unwrap(expr)
        if not isinstance(node, relax.Function):
            free = [n for n in relax.values(node) if isinstance(n, relax.Var)]
            node = Function(tuple(free), node)
        return cls({"main": node})

    def __setitem__(self, name: Any, function: Any) -> None:
        """Enter a function, by its name or GlobalVar."""
        if isinstance(name, Expr):
            name = name.node
        f = function
        if isinstance(f, relax.Function):
            if not isinstance(f, Function) or f.scope is not self.functions:
                f = Function(f.params, f.body, f.attrs)
            f.scope = self.functions  # type: ignore[misc]
        super().__setitem__(name, f)

    def with_functions(self, functions: Mapping[str, Node]) -> IRModule:
        """A copy with some functions added or replaced."""
        return IRModule({**self.functions, **functions}, self.attrs)

    def plain(self) -> ir_module.IRModule:
        """The same module for the compiler: graph functions without a text of their own."""
        made = {
            name: relax.Function(f.params, f.body, f.attrs) if isinstance(f, Function) else f
            for name, f in self.functions.items()
        }
        return ir_module.IRModule(made, self.attrs)

    def astext(self, show_meta_data: bool = True) -> str:
        """The text of all functions.

        show_meta_data  list the constants that the text refers to
        """
        return module_text(self, show_meta_data)

    def __str__(self) -> str:
        return module_text(self, show_meta_data=False)

    __repr__ = __str__
