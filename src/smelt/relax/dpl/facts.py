"""Questions that patterns ask: attributes, types, whether two values of attributes are equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smelt.ir.errors import SmeltError, TypeMismatch
from smelt.ir.expr import Expr, IntImm
from smelt.ir.types import TupleType
from smelt.relax.nodes import Call, Function
from smelt.runtime.errors import nearest

from .graph import op_name, type_of

OpRegistry = Callable[[str], Any] | Mapping[str, Any]
"""Where `is_op` looks names up: a function that raises, or a mapping."""


def looked_up(name: str, registry: OpRegistry) -> str:
    """The name of the operator that a registry has under a name."""
    if not isinstance(registry, Mapping):
        try:
            return op_name(registry(name)) or name
        except (SmeltError, LookupError, ValueError) as e:
            raise TypeMismatch(f"is_op({name!r}): {e}") from e
    if name not in registry:
        raise TypeMismatch(f"is_op({name!r}): no such operator{nearest(name, registry)}")
    return op_name(registry[name]) or name


ABSENT = object()

_OP_PATTERN = {"elementwise": 0, "broadcast": 1, "injective": 2, "reduce": 3, "contraction": 4}
"""Fusion kinds under the numbers of Relay's TOpPattern; others are 8, opaque."""


def attribute(node: Any, name: str, around: Any) -> Any:
    """An attribute of a call, a function or an operator; ABSENT where it has none."""
    if isinstance(node, Call | Function):
        return node.attrs.get(name, ABSENT)
    if op_name(node) is not None:
        own = getattr(node, "get_attr", None)
        if own is not None:
            found = own(name)
            return ABSENT if found is None else found
        if name == "TOpPattern" and isinstance(around, Call):
            return _op_pattern(node, around)
    return ABSENT


def _op_pattern(op: Any, around: Call) -> int:
    """How an operator fuses: a second operand makes an elementwise one a broadcast."""
    types = [type_of(a) for a in around.args]
    flat = [i for t in types for i in (t.items if isinstance(t, TupleType) else (t,))]
    number = _OP_PATTERN.get(op.instance(flat, around.attrs).kind, 8)
    return 1 if number == 0 and len(flat) > 1 else number


def same_value(a: Any, b: Any) -> bool:
    """Whether two attribute values are equal: lists are tuples, numbers are numbers."""
    a, b = _plain(a), _plain(b)
    return a is b if isinstance(a, Expr) or isinstance(b, Expr) else bool(a == b)


def _plain(value: Any) -> Any:
    if isinstance(value, IntImm):
        return value.value
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    return tuple([_plain(v) for v in value]) if isinstance(value, list | tuple) else value
