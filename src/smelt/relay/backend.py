"""Which form of executable and which runtime `relay.build` is asked for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from smelt.ir.errors import CompileError

__all__ = ["Executor", "Runtime"]

_EXECUTORS = {
    "graph": ("link-params",),
    "aot": (
        "link-params",
        "unpacked-api",
        "interface-api",
        "workspace-byte-alignment",
        "constant-byte-alignment",
    ),
}
_RUNTIMES = {"cpp": ("system-lib",), "crt": ("system-lib",)}


class _Choice:
    """A name with options."""

    known: Mapping[str, tuple[str, ...]]

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """Check the name and the options."""
        kind = type(self).__name__
        if name not in self.known:
            raise CompileError(f"{kind}: no {name!r}; there are: {', '.join(self.known)}")
        for option in options or {}:
            if option not in self.known[name]:
                near = difflib.get_close_matches(option, self.known[name], 3)
                hint = f"; nearest: {', '.join(near)}" if near else ""
                raise CompileError(
                    f"{kind}({name!r}) has no option {option!r}{hint}; "
                    f"options: {', '.join(self.known[name])}"
                )
        self.name, self.options = name, dict(options or {})

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Choice)
            and type(other) is type(self)
            and (self.name, self.options) == (other.name, other.options)
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options})"


class Executor(_Choice):
    """The form of the host program: "graph" or "aot"."""

    known = _EXECUTORS


class Runtime(_Choice):
    """What runs it: "cpp", the hosted runtime, or "crt", the one for microcontrollers."""

    known = _RUNTIMES
