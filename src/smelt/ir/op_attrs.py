"""`register_op_attr` of the classic stack: what levels attach to operators by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import Unsupported

HANDLERS: dict[str, Callable[[str, str, Any], object]] = {}
"""By the first part of a key ("target"): called with the operator's name, the rest of the key and
the value. Levels enter theirs."""


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Attach something to an operator; without a value, a decorator.

    attr_key  "target.<compiler>": the value decides whether that compiler takes a call
    level     there for the classic signature: what comes last counts

    Raises Unsupported for other keys: operators with everything they need are made by `smelt.op`.
    """
    kind, _, rest = attr_key.partition(".")
    if kind not in HANDLERS or not rest:
        legal = ", ".join(f"{k}.<name>" for k in HANDLERS) or "none"
        raise Unsupported(
            f"register_op_attr({op_name!r}): no attribute {attr_key!r} can be set; legal: {legal}; "
            "an operator with its type, meaning and gradient is defined by smelt.op"
        )
    handler = HANDLERS[kind]

    def enter(given: Any) -> Any:
        handler(op_name, rest, given)
        return given

    return enter if value is None else enter(value)
