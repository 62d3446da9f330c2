"""IRModule: graph functions and tensor programs under global names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .node import Node
from .text import Scripted, module_text, printed

__all__ = ["IRModule"]


class IRModule(Scripted):
    """Functions by name, of both levels. Passes make new modules; the functions are shared."""

    def __init__(
        self, functions: Mapping[str, Node] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> None:
        """Start from some functions."""
        self.functions: dict[str, Node] = dict(functions or {})
        self.attrs: dict[str, Any] = dict(attrs or {})

    def __getitem__(self, name: Any) -> Any:
        key = name if isinstance(name, str) else name.name
        if key not in self.functions:
            raise KeyError(
                f"the module has no function {key!r}; it has: {', '.join(self.functions) or 'none'}"
            )
        return self.functions[key]

    def __setitem__(self, name: Any, function: Node) -> None:
        self.functions[name if isinstance(name, str) else name.name] = function

    def __contains__(self, name: object) -> bool:
        return (name if isinstance(name, str) else getattr(name, "name", None)) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def with_functions(self, functions: Mapping[str, Node]) -> IRModule:
        """A copy with some functions added or replaced."""
        return IRModule({**self.functions, **functions}, self.attrs)


@printed.register
def _(m: IRModule, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]) -> str:
    return module_text(m.functions, m.attrs, mark)
