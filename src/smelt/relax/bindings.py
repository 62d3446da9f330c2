"""A function as a list of bindings, for those who think of it so: a view that cannot be changed.

    for block in relax.SeqExpr(func.body).blocks:
        for binding in block.bindings:
            print(binding.var.name_hint, binding.value)

The graph has no bindings: the names are those that the text gives values.
"""

from __future__ import annotations

from typing import NamedTuple

from .graph import free_vars as free
from .nodes import Function, Let, RelaxExpr, Var
from .printer import value_names


class VarBinding(NamedTuple):
    """A name and what it stands for. The operands of the value are values, not their names."""

    var: Var
    value: RelaxExpr


class BindingBlock(NamedTuple):
    """Bindings in order of evaluation."""

    bindings: tuple[VarBinding, ...]


class SeqExpr:
    """The body of a function as blocks of bindings, and the result.

    blocks  one; the sides of branches and the bodies of closures are values in it
    body    the result
    """

    def __init__(self, body: RelaxExpr) -> None:
        """Give the values their names."""
        found = value_names(Function(tuple(free(body)), body))
        named = [(n.var, n.value) if isinstance(n, Let) else (Var(name, n.type), n)
                 for name, n in found]  # fmt: skip
        self.blocks = (BindingBlock(tuple([VarBinding(*both) for both in named])),)
        while isinstance(body, Let):
            body = body.body
        self.body = body
