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

GraphPass = Callable[[IRModule], IRModule]


class NoSuchPass(Unsupported, AttributeError):
    """A classic pass that smelt does not have under this name."""


class RelaxPass(Pass):
    """A pass on modules with a classic name."""

    def apply(self, mod: Any, context: PassContext) -> Any:
        """The function on a module."""
        if not isinstance(mod, IRModule):
            raise TypeMismatch(
                f"relax.transform.{self.info.name} takes an IRModule, not {type(mod).__name__}"
            )
        return self.fn(mod)


def named(name: str, fn: GraphPass, opt_level: int = 0) -> Pass:
    """A pass by its classic name."""
    return RelaxPass(fn, PassInfo(name, opt_level))


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
        known = [n for n, f in mod.functions.items() if isinstance(f, Function)]
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
