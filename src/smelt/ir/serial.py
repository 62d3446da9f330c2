"""Modules and expressions as JSON: the text that `astext` gives, in an envelope."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

from .errors import ParseError, Unsupported

_HEAD = "smelt"

FORMATS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], str], Callable[[str], Any]]] = {}
"""By name: whether a format is for a value, its text, and the value of a text. Faces enter
theirs."""


def _formats() -> dict[str, Any]:
    # The dialects that enter theirs lie above this room and may not have been loaded yet.
    importlib.import_module("smelt.relay")
    return FORMATS


def save_json(node: Any) -> str:
    """A module or an expression as JSON, with its constants."""
    for name, (mine, text, _) in _formats().items():
        if mine(node):
            return json.dumps({_HEAD: name, "text": text(node)}, indent=2)
    raise Unsupported(f"save_json: a {type(node).__name__} cannot be written; "
                      "a module of graph functions or an expression can")  # fmt: skip


def load_json(json_str: str) -> Any:
    """What `save_json` wrote."""
    try:
        data = json.loads(json_str)
    except (TypeError, ValueError) as e:
        raise ParseError(f"load_json: this is no JSON: {e}") from None
    if not isinstance(data, dict) or data.get(_HEAD) not in _formats() or "text" not in data:
        raise ParseError(
            "load_json: this was not written by smelt's save_json; models of other tools are read "
            "by smelt.relay.frontend, programs as text by smelt.relay.parse"
        )
    return FORMATS[data[_HEAD]][2](data["text"])
