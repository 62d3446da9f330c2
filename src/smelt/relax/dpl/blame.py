"""What went wrong in a check function of a pattern, told in terms of the match it looked at."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import SmeltError, TypeMismatch
from smelt.relax.nodes import Call, RelaxExpr, TupleGetItem

from .graph import op_name


def asked(
    check: Callable[..., Any],
    given: Any,
    root: RelaxExpr,
    inside: Sequence[RelaxExpr],
    pattern: str,
) -> bool:
    """What a check function says of what it is given; its own failures name it and what it reached.

    root, inside  the match
    """
    try:
        return bool(check(given))
    except SmeltError:
        raise
    except Exception as e:
        raise TypeMismatch(_told(check, e, _paths(root, inside), pattern)) from e


def _told(check: object, error: Exception, paths: Mapping[Call, str], pattern: str) -> str:
    """How a check function failed, and on what.

    paths  the calls of the match
    """
    who = getattr(check, "__name__", type(check).__name__)
    frames = traceback.extract_tb(error.__traceback__)[1:2]  # the check function's own
    line = frames[0].line if frames else ""
    name = _missing(error)
    text = f"pattern {pattern}: its check function {who} failed"
    text += f" at `{line}`" if line else ""
    text += f": {type(error).__name__}: {error}"
    if name is None:
        return text
    reached = _reached(error, paths)
    if reached is not None:
        text += f"\nwhat it reached is {_call_text(reached, paths)}"
    meant = next(((p, c) for c, p in paths.items() if name in c.attrs), None)
    if meant is not None:
        path, call = meant
        text += f"\n{op_name(call.op)} has {name!r}: {path}.attrs.{name} was probably meant"
    elif reached is not None:
        text += f"; nothing in the match has an attribute {name!r}"
    return text


def _missing(error: Exception) -> str | None:
    """The name of the attribute that was not found."""
    if isinstance(error, AttributeError):
        return error.name
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return None


def _reached(error: Exception, paths: Mapping[Call, str]) -> Call | None:
    """The call whose attributes were asked, or that was asked itself."""
    asked = getattr(error, "obj", None)
    return next((c for c in paths if asked is not None and (c is asked or c.attrs is asked)), None)


def _call_text(call: Call, paths: Mapping[Call, str]) -> str:
    known = ", ".join(call.attrs) or "none"
    return f"{paths[call]}, a call of {op_name(call.op) or 'a function'} (attributes: {known})"


def _paths(root: RelaxExpr, inside: Sequence[RelaxExpr]) -> dict[Call, str]:
    """The calls of a match, each with the way to it as a check function writes it."""
    members = set(inside)
    found: dict[Call, str] = {}
    todo: list[tuple[RelaxExpr, str]] = [(root, "extract")]
    for node, path in todo:
        if isinstance(node, Call) and node not in found:
            found[node] = path
            todo += [(a, f"{path}.args[{n}]") for n, a in enumerate(node.args) if a in members]
        elif isinstance(node, TupleGetItem):
            todo.append((node.value, f"{path}.tuple_value"))
    return found
