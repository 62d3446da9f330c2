"""Which form of executable and which runtime `relay.build` is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smelt.ir.errors import CompileError
from smelt.runtime.errors import unknown

Check = Callable[[Any], bool]


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_alignment(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _ALIGNMENTS


_ALIGNMENTS = tuple([1 << n for n in range(7)])
_BOOL = (_is_bool, "True, False")
_ALIGNMENT = (_is_alignment, f"powers of two up to {_ALIGNMENTS[-1]}, in bytes")
_EXECUTORS: dict[str, dict[str, tuple[Check, str]]] = {
    "graph": {"link-params": _BOOL},
    "aot": {
        "link-params": _BOOL,
        "unpacked-api": _BOOL,
        "interface-api": (lambda v: v in ("packed", "c"), "'packed', 'c'"),
        "workspace-byte-alignment": _ALIGNMENT,
        "constant-byte-alignment": _ALIGNMENT,
    },
}
_RUNTIMES: dict[str, dict[str, tuple[Check, str]]] = {
    "cpp": {"system-lib": _BOOL},
    "crt": {"system-lib": _BOOL},
}


@dataclass(init=False)
class _Choice:
    """A name with options."""

    name: str
    options: dict[str, Any]
    known: ClassVar[Mapping[str, Mapping[str, tuple[Check, str]]]]

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """Check the name and the options."""
        kind = type(self).__name__
        if name not in self.known:
            raise CompileError(f"{kind}: no {name!r}; there are: {', '.join(self.known)}")
        for option, value in (options or {}).items():
            if option not in self.known[name]:
                said = unknown("option", option, self.known[name])
                raise CompileError(f"{kind}({name!r}) has {said}")
            fits, legal = self.known[name][option]
            if not fits(value):
                raise CompileError(f"{kind}({name!r}): {option} is {value!r}; legal: {legal}")
        self.name, self.options = name, dict(options or {})

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    def get(self, option: str, default: Any = None) -> Any:
        """The value of an option, or the default where it is not given."""
        return self.options.get(option, default)

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


def check_forms(executor: Executor, runtime: Runtime, kind: str = "llvm") -> None:
    """Refuse what no runtime could run, and what cannot be built yet; kind: of the target.

    The interface of an AOT model belongs to its runtime: "cpp" calls packed functions, "crt" plain
    C functions, or packed ones through the packed interface.
    """
    if executor.name == "aot":
        unpacked = executor.get("unpacked-api", False)
        interface = executor.get("interface-api", "packed")
        given = f"unpacked-api={unpacked}, interface-api={interface!r}"
        if runtime.name == "cpp" and (unpacked or interface != "packed"):
            raise CompileError(
                f"relay.build: Executor('aot') with {given} does not fit Runtime('cpp')\n"
                "  legal: unpacked-api=False with interface-api='packed'"
            )
        if runtime.name == "crt" and not unpacked and interface != "packed":
            raise CompileError(
                f"relay.build: Executor('aot') with {given} does not fit Runtime('crt')\n"
                "  legal: unpacked-api=True, or unpacked-api=False with interface-api='packed'"
            )
    if runtime.name == "crt" and kind != "c":
        raise CompileError(
            f"relay.build: Runtime('crt') runs C, and the target makes {kind} code; legal: "
            "a target such as \"c -mcpu=cortex-m4\", or Runtime('cpp')"
        )
    if kind == "c":
        return
    if runtime.get("system-lib"):
        raise CompileError(
            "relay.build: Runtime('cpp') with system-lib=True: code is linked into libraries; "
            "export_library writes one that a program can link"
        )
