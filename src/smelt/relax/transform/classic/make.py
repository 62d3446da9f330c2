"""How passes with classic names are made, and errors about those that have no place here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass, PassContext, PassInfo
from smelt.relax.nodes import Function, RelaxExpr
from smelt.runtime.errors import nearest

from ..engine import RuleSet, apply_rules
from ..rewriting import functions_of

GraphPass = Callable[[IRModule], IRModule]


class NoSuchPass(Unsupported, AttributeError):
    """A classic pass that smelt does not have under this name."""


def missing(face: str, name: str, absent: Mapping[str, str], known: list[str]) -> AttributeError:
    """The error for a name that relax.transform or relay.transform does not have."""
    if name in absent:
        return NoSuchPass(f"{face}.transform.{name} has no place here: {absent[name]}")
    near = nearest(name, known)
    if not name[:1].isupper():
        return AttributeError(f"module 'smelt.{face}.transform' has no attribute {name!r}{near}")
    return NoSuchPass(f"{face}.transform has no pass {name!r}{near}; passes: {', '.join(known)}")


class _ClassicPass(Pass):
    """A pass on modules with a classic name."""

    def __init__(self, fn: GraphPass, info: PassInfo, face: str) -> None:
        """face: "relax" or "relay"."""
        super().__init__(fn, info)
        self.face = face

    def apply(self, mod: Any, context: PassContext) -> Any:
        """The function on a module."""
        if not isinstance(mod, IRModule):
            raise TypeMismatch(
                f"{self.face}.transform.{self.info.name} takes an IRModule, not "
                f"{type(mod).__name__}; IRModule.from_expr(function) makes one"
            )
        return self.fn(mod)


def named(name: str, fn: GraphPass, opt_level: int = 0, face: str = "relax") -> Pass:
    """A pass by its classic name."""
    return _ClassicPass(fn, PassInfo(name, opt_level), face)


def ruled(name: str, rules: Mapping[str, Sequence[Callable[..., RelaxExpr | None]]]) -> Pass:
    """A pass that applies rules, by the operator at their root, until none fits."""
    table = RuleSet({op: tuple(many) for op, many in rules.items()})
    return named(name, lambda mod: apply_rules(mod, table))


def as_is(name: str) -> Pass:
    """A pass about something that graphs do not have: the module stays as it is."""
    return named(name, lambda mod: mod)


def checked_name(mod: IRModule, given: Any, who: str) -> str:
    """The name of a graph function of the module."""
    name = str(getattr(given, "name", given))
    if name not in mod or not isinstance(mod[name], Function):
        known = list(functions_of(mod))
        raise TypeMismatch(
            f"relax.transform.{who}: no graph function {name!r}{nearest(name, known)}; functions: "
            f"{', '.join(known) or 'none'}"
        )
    return name


def graph_function(mod: IRModule, given: Any, who: str) -> Function:
    """A graph function of the module by name."""
    found = mod[checked_name(mod, given, who)]
    assert isinstance(found, Function)
    return found
