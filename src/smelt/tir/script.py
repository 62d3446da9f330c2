"""The script language's own names: `from smelt.script import tir as T`.

    @T.prim_func
    def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.parallel(16):
            B[i] = A[i] * 2.0

The decorated function never runs: its source is parsed, names from the Python program around it
included. (Sizes that are parameters need `from __future__ import annotations` or quotes.)
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any, overload

from smelt.ir.errors import ParseError
from smelt.ir.text import script

from .nodes import PrimFunc
from .parser import parse, parse_source
from .parser_call import VALUES
from .parser_source import Macro, Source
from .script_ops import CLASSIC_TYPES, is_dtype
from .verify import verify

__all__ = ["Buffer", "FunctionSource", "function_source", "in_class_body", "macro", "parse",
           "prim_func", "script"]  # fmt: skip


class FunctionSource(Source):
    """The text of a Python function, and the names that it sees."""

    env: Mapping[str, Any]

    def aliases(self, usual: str, *modules: str) -> frozenset[str]:
        """The names under which the function sees one of some modules, the usual one included."""
        known = [n for n, v in self.env.items() if isinstance(v, ModuleType)]
        return frozenset([usual, *[n for n in known if self.env[n].__name__ in modules]])


def function_source(function: Callable[..., Any], around: FrameType) -> FunctionSource:
    """The source of a function, for a decorator. around: the frame that the decorator stands in."""
    if not inspect.isfunction(function):
        raise ParseError(
            f"a {type(function).__name__} is decorated as a program; legal: a function with def"
        )
    try:
        lines, first = inspect.getsourcelines(function)
    except OSError as e:
        raise ParseError(
            f"{function.__name__}: its source cannot be found ({e}); use parse(text)"
        ) from None
    text = "".join(lines)
    plain = textwrap.dedent(text)
    indent = len(text) - len(text.lstrip(" ")) if plain != text else 0
    env = dict(function.__globals__)
    if in_class_body(around) and around.f_back is not None:
        env |= around.f_back.f_locals
    env |= around.f_locals
    source = FunctionSource(plain, function.__code__.co_filename, first, indent)
    source.env = {**env, **inspect.getclosurevars(function).nonlocals}
    return source


def in_class_body(frame: FrameType) -> bool:
    """Whether a frame is that of a class's body."""
    return {"__module__", "__qualname__"} <= frame.f_locals.keys()


@overload
def prim_func(function: Callable[..., Any]) -> PrimFunc:
    """As @T.prim_func."""


@overload
def prim_func(
    *, private: bool = False, check_well_formed: bool = True
) -> Callable[[Callable[..., Any]], PrimFunc]:
    """As @T.prim_func(private=True)."""


def prim_func(
    function: Callable[..., Any] | None = None,
    *,
    private: bool = False,
    check_well_formed: bool = True,
) -> PrimFunc | Callable[[Callable[..., Any]], PrimFunc]:
    """The tensor program that a Python function describes.

    private            for functions that only others of their module call
    check_well_formed  whether the rules of tensor programs are checked too (a VerifyError)
    """
    around = sys._getframe(1)

    def read(described: Callable[..., Any]) -> PrimFunc:
        s = function_source(described, around)
        made = parse_source(s, s.env, s.aliases("T", __name__, "smelt.script.tir"))
        return verify(made) if check_well_formed else made

    return read if function is None else read(function)


def macro(described: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """Statements with parameters: a call in a program puts them in its place.

    hygienic  True: a macro sees its parameters and what stands around its definition
    """
    around = sys._getframe(1)
    if not hygienic:
        raise ParseError("T.macro(hygienic=False): a macro sees its parameters only; pass the rest")

    def read(f: Callable[..., Any]) -> Macro:
        s = function_source(f, around)
        return Macro(s, s.aliases("T", __name__, "smelt.script.tir"), s.env)

    return read if described is None else read(described)


class _Annotation:
    """What an annotation evaluates to: nothing of interest, its source counts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: object, **options: object) -> _Annotation:
        return self

    def __getitem__(self, described: object) -> _Annotation:
        return self

    def __repr__(self) -> str:
        return f"T.{self.name}"


Buffer: Any = _Annotation("Buffer")
"""T.Buffer(shape, dtype, scope=..., strides=...): a parameter's type."""


def __getattr__(name: str) -> Any:
    if is_dtype(name) or name in CLASSIC_TYPES:
        return _Annotation(name)
    what = f"T.{name} has a meaning only inside of a function decorated with @T.prim_func"
    if name.startswith("_") or name not in VALUES:
        raise AttributeError(what)
    raise AttributeError(f"{what}; in Python write smelt.tir.{name}")
