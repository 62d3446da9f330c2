"""A call of a stage's method as the user wrote it: what errors begin with."""

from __future__ import annotations

from typing import Any, NoReturn

from smelt.ir.errors import ScheduleError, Unsupported
from smelt.ir.expr import Expr
from smelt.te.tensor import Operation
from smelt.tir.nodes import Buffer, IterVar


class MethodCall:
    """A method of something with its arguments; its text is made only where it is shown."""

    __slots__ = ("args", "name", "options", "owner")

    def __init__(self, owner: str, name: str, *args: Any, **options: Any) -> None:
        """owner: text before the dot; options that are None or False are not shown."""
        self.owner, self.name, self.args = owner, name, args
        self.options = {k: v for k, v in options.items() if v is not None and v is not False}

    def __str__(self) -> str:
        items = [_text(a) for a in self.args] + [f"{k}={_text(v)}" for k, v in self.options.items()]
        return f"{self.owner}.{self.name}({', '.join(items)})"

    def fail(self, what: str, legal: str = "") -> NoReturn:
        """Raise a ScheduleError about this call."""
        raise ScheduleError(f"{self}: {what}" + (f"\n  legal: {legal}" if legal else ""))

    def unsupported(self, what: str, instead: str) -> NoReturn:
        """Raise the error for what this compiler does not do, and say what does it."""
        raise Unsupported(f"{self}: {what}\n  instead: {instead}")


def _text(v: Any) -> str:
    if isinstance(v, IterVar):
        return v.var.name
    if isinstance(v, Buffer | Operation):
        return v.name
    if isinstance(v, Expr):
        return str(v)
    if isinstance(v, list | tuple):
        return "[" + ", ".join(map(_text, v)) + "]"
    if isinstance(v, str | int | float):
        return repr(v)
    if callable(v):
        return getattr(v, "__name__", "function").replace("<lambda>", "lambda")
    return repr(v)


def listed(items: Any) -> str:
    """Names as a list in a sentence: a, b and c."""
    names = [i if isinstance(i, str) else _text(i) for i in items]
    return " and ".join(([", ".join(names[:-1])] if len(names) > 1 else []) + names[-1:])
