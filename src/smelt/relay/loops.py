"""Loops as functions that call themselves, for the virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.relax.nodes import RelaxExpr, Var, incomplete

from .expr import Function, If, Let, RelayVar, Tuple


def while_loop(
    cond: Callable[..., RelaxExpr], loop_vars: Sequence[Var], loop_bodies: Callable[..., Any]
) -> RelaxExpr:
    """A function of the loop's start values that gives the tuple of its last ones.

    cond         from the loop's values to a scalar bool: whether it goes on
    loop_vars    variables whose names and types the loop's values have
    loop_bodies  from the loop's values to the list of the next ones
    """
    given = list(loop_vars)
    for v in given:
        if not isinstance(v, Var) or incomplete(v.type):
            raise TypeMismatch("while_loop: loop_vars are variables with types: "
                               'relay.var("i", shape=(), dtype="int32")')  # fmt: skip
    fresh = [RelayVar(v.name, v.type) for v in given]
    result = Tuple(fresh)
    me = RelayVar("while_loop", Function(fresh, result).type)
    following = loop_bodies(*fresh)
    if len(following) != len(fresh):
        raise TypeMismatch(
            f"while_loop: loop_bodies gives {len(following)} values, the loop has {len(fresh)}"
        )
    body = If(cond(*fresh), me(*following), result)
    return Let(me, Function(fresh, body), me)  # type: ignore[no-any-return]
