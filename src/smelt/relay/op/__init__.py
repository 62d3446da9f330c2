"""Operators under their Relay names: `relay.op.get("nn.conv2d")`, `relay.op.nn.conv2d(x, w)`."""

from __future__ import annotations

from typing import Any

from smelt.ir.errors import Absent, SmeltError, Unsupported
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op, ops

from ..dialect import FUNCTIONS, RELAY, builder
from ..names import Namespace
from ..transform.legalize import register_legalize
from ..transform.precision import register_mixed_precision_conversion

__all__ = ["Op", "get", "list_op_names", "register_legalize",
           "register_mixed_precision_conversion"]  # fmt: skip

_FOREIGN = "smelt."
"""In front of the names of operators of the core that Relay does not know."""

_MARK = "annotation."
"""In front of the names of operators of the core that bear the names of Relay's."""

nn, image, vision = Namespace("nn"), Namespace("image"), Namespace("vision")
random, annotation, dyn = Namespace("random"), Namespace("annotation"), Namespace("dyn")


def get(name: str) -> Op:
    """The operator of a Relay name; the core's own are called smelt.gelu, smelt.attention, ...

    Operators that a user defined with `smelt.op` have their own name.
    """
    if name in RELAY.ops:
        return RELAY.ops[name]
    core = ops()
    bare = name.removeprefix(_FOREIGN)
    if bare in core and name in (name_of(core[bare]), _FOREIGN + bare):
        return core[bare]
    hint = nearest(name, [*RELAY.ops, *[_FOREIGN + n for n in core]])
    raise Unsupported(f"relay has no operator {name!r}{hint}")


def is_built_in(op: Op) -> bool:
    """Whether smelt itself defines an operator."""
    return str(op.fn.__module__).startswith("smelt.")


def name_of(op: Op) -> str:
    """The name that `get` finds an operator by."""
    own = RELAY.ops.get(op.name) is op or not is_built_in(op) or op.name.startswith(_MARK)
    return op.name if own else _FOREIGN + op.name


def list_op_names() -> list[str]:
    """The Relay names of all operators."""
    marks = [n for n in ops() if n.startswith(_MARK)]
    return sorted([*RELAY, *marks])


_REGISTER = ("op", "register", "strategy")


def __getattr__(name: str) -> Any:
    if name in _REGISTER or name.startswith("register_"):
        raise Absent(
            f"relay.op.{name} is not there: an operator is defined by smelt.op, with its type, its "
            "meaning and its gradient in one place (docs/operators.md); register_op_attr says "
            "which compiler takes it"
        )
    if not name.startswith("_"):
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        try:
            return builder(get(name))
        except SmeltError as e:
            raise Absent(str(e)) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
