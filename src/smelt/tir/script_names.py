"""The vocabulary of the script language: what T.name means where, and how it is called.

A name may mean something as a value (`T.exp(x)`), as a statement of its own (`T.reads(...)`), as
what a name is bound to (`B = T.alloc_buffer(...)`), behind `with`, or as what a loop runs over. The
parsers enter the meanings with `entry`; where a name is not known, `complaint` says what would be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

from smelt.runtime.errors import closest

from .script_ops import DTYPE_NAMES

VALUE, STATEMENT, BINDING, CONTEXT, LOOP = "value", "statement", "binding", "context", "loop"
"""The places where a name of T may stand."""

_PLACES = {
    VALUE: ("is a value", "{}"),
    STATEMENT: ("is a statement of its own", "{}"),
    BINDING: ("is bound to a name", "x = {}"),
    CONTEXT: ("stands behind with", "with {}:"),
    LOOP: ("is what a loop runs over", "for i in {}:"),
}
_Fail = Callable[[ast.AST, str, str], NoReturn]


class Signature:
    """The parameters of T.name(...), from a text such as "serial(start, stop=, *, annotations=)".

    params      their names; those marked with `=` may be left out
    positional  how many of them may be given without their names: those before `*`
    rest        whether any number of operands may follow
    first       how many stand in front that must be given; -1 where others stand before them
    """

    __slots__ = ("first", "name", "params", "positional", "required", "rest", "text")

    def __init__(self, text: str) -> None:
        """Read the text."""
        self.name, _, inside = text.rstrip(")").partition("(")
        words = [w for w in inside.split(", ") if w]
        named = [w for w in words if not w.startswith("*")]
        self.rest = any(w.startswith("*") and w != "*" for w in words)
        self.params = tuple([w.rstrip("=") for w in named])
        self.required = tuple([w for w in named if not w.endswith("=")])
        self.positional = words.index("*") if "*" in words else len(named)
        plain = self.params[: len(self.required)] == self.required
        self.first = len(self.required) if plain else -1
        self.text = f"T.{self.name}({', '.join([w.rstrip('=') for w in words])})"

    def bind(
        self, node: ast.Call, args: list[ast.expr], fail: _Fail
    ) -> tuple[list[ast.expr], dict[str, ast.expr]]:
        """The arguments of a call: the required ones and the rest in order, others by name."""
        if not node.keywords and (len(args) == self.first or (self.rest and self.first == 0)):
            return args, {}
        spelled = any(k.arg == "dtype" for k in node.keywords)
        first = 1 if spelled and self.params[0] == "dtype" else 0  # classic: it stands last, named
        given = dict(zip(self.params[first : self.positional], args, strict=False))
        more = args[self.positional - first :]
        if more and not self.rest:
            most = "at most " if len(self.required) < self.positional else ""
            counts = f"{most}{self.positional} operands, {len(args)} given"
            fail(node, f"T.{self.name} takes {counts}", self.text)
        for k in node.keywords:
            if k.arg not in self.params:
                fail(k, f"T.{self.name} has no parameter '{k.arg or '**'}'", self.text)
            if k.arg in given:
                fail(k, f"T.{self.name}: {k.arg} is given twice", self.text)
            given[k.arg] = k.value
        missing = [p for p in self.required if p not in given]
        if missing:
            fail(node, f"T.{self.name}: {', '.join(missing)} must be given", self.text)
        required = [given.pop(p) for p in self.required] + more
        return required, {k: v for k, v in given.items() if getattr(v, "value", v) is not None}


class Entry(NamedTuple):
    """What a name of T does at one place.

    run  called with the parser, the syntax node, what belongs to the place, and the arguments
    """

    signature: Signature
    run: Callable[..., Any]


_ENTRIES: dict[str, dict[str, Entry]] = {place: {} for place in _PLACES}
_Run = TypeVar("_Run", bound=Callable[..., Any])


def entry(place: str, *signatures: str) -> Callable[[_Run], _Run]:
    """A function as the meaning of names at a place; several signatures are several names."""

    def enter(run: _Run) -> _Run:
        for text in signatures:
            s = Signature(text)
            _ENTRIES[place][s.name] = Entry(s, run)
        return run

    return enter


def entries(place: str) -> dict[str, Entry]:
    """All names that mean something at a place."""
    return _ENTRIES[place]


_MISSING = {
    "Allocate": "B = T.allocate(shape, dtype)",
    "AllocateConst": "B = T.allocate_const(elements, dtype, shape)",
    "SizeVar": "n = T.int64()",
    "Var": "n = T.int64()",
    "access_ptr": "A[i], A[i:i + 8], T.address_of(A[i])",
    "alloc_local": 'B = T.alloc_buffer(shape, dtype, scope="local")',
    "alloc_shared": 'B = T.alloc_buffer(shape, dtype, scope="shared")',
    "boolean": "T.bool",
    "index_map": "the attribute as text",
    "iter_var": "T.axis.spatial(extent, value) in a block",
    "load": "A[i]",
    "local_var": 'B = T.alloc_buffer((1,), dtype, scope="local")',
    "preflattened_buffer": "A: T.Buffer(shape, dtype) of the shape before",
    "store": "A[i] = value",
    "truediv": "a / b",
    "tvm_access_ptr": "A[i], A[i:i + 8], T.address_of(A[i])",
    "vscale": "a number of lanes",
    "buffer_realize": "B = T.alloc_buffer(shape, dtype)",
    "call_packed": "T.smelt.call_packed in a host program",
    "comm_reducer": "with T.init(): and an update",
    "Else": "if ...: else:",
    "If": "if condition:",
    "macro": "@T.macro before a function outside of programs",
    "prefetch": 'T.evaluate(T.call("handle", "prefetch", ...))',
    "ptr": "T.handle",
    "Ptr": "T.handle",
    "realize": "B = T.alloc_buffer(shape, dtype)",
    "ret": "a store into a buffer",
    "axis.scan": "T.axis.spatial, T.axis.reduce, T.axis.opaque",
    "Then": "if condition:",
    "type_annotation": "x: T.int32 = value",
    "tvm_thread_allreduce": "a reduce axis bound to a threadIdx loop",
}
"""Classic names without a node behind them, and what to write instead."""


def complaint(name: str, place: str) -> tuple[str, str]:
    """What is wrong with a name of T at a place, and what would be legal there."""
    for other, (what, form) in _PLACES.items():
        if other != place and name in _ENTRIES[other]:
            return f"T.{name} {what}", form.format(_ENTRIES[other][name].signature.text)
    if name in _MISSING:
        return f"smelt has no T.{name}", _MISSING[name]
    here = [*_ENTRIES[place], *(DTYPE_NAMES if place == VALUE else ())]
    everywhere = [n for known in _ENTRIES.values() for n in known]
    near = closest(name, here) or closest(name, everywhere)
    if place == VALUE:
        legal = [*[f"T.{n}" for n in near], f'T.call("dtype", "{name}", ...) for other intrinsics']
    else:
        legal = [n if n == "range" else f"T.{n}" for n in near or here]
    return f"there is no T.{name}", ", ".join(legal)
