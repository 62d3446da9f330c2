"""Modules as classes: `from smelt.script import ir as I`.

@I.ir_module
class Module:
    I.module_attrs({"version": 1})

    @T.prim_func
    def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")): ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, overload

from smelt.ir.errors import ParseError
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.relax.parser import Definitions
from smelt.tir.nodes import PrimFunc
from smelt.tir.script import in_class_body

from .relax import PendingFunction
from .text import check

_ATTRS = "__module_attrs__"


@overload
def ir_module(described: type) -> IRModule:
    """As @I.ir_module."""


@overload
def ir_module(*, check_well_formed: bool = True) -> Callable[[type], IRModule]:
    """As @I.ir_module(check_well_formed=False)."""


def ir_module(
    described: type | None = None, *, check_well_formed: bool = True
) -> IRModule | Callable[[type], IRModule]:
    """The module of the functions in a class, in the class's order.

    check_well_formed  whether the rules of the programs are checked too (a VerifyError)
    """

    def read(cls: type) -> IRModule:
        module = _module(cls)
        return check(module) if check_well_formed else module

    return read if described is None else read(described)


def _module(cls: type) -> IRModule:
    if not isinstance(cls, type):
        raise ParseError(
            f"I.ir_module decorates a {type(cls).__name__}; legal: a class of functions"
        )
    members = {n: v for n, v in vars(cls).items() if not n.startswith("__")}
    pending = {n: v.definition() for n, v in members.items() if isinstance(v, PendingFunction)}
    graphs = Definitions(pending, cls.__name__)
    functions: dict[str, Node] = {}
    for name, member in members.items():
        if isinstance(member, PrimFunc):
            functions[name] = member
        elif isinstance(member, PendingFunction):
            functions[name] = graphs.function(name)
        elif callable(member):
            code = getattr(member, "__code__", None)
            place = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
            raise ParseError(
                f"{place}{name} is neither a tensor program nor a graph function\n"
                "  legal: @T.prim_func, @R.function before it"
            )
    graphs.check(functions)
    return IRModule(functions, vars(cls).get(_ATTRS))


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Attributes of the module whose class this stands in."""
    body = sys._getframe(1)
    if not in_class_body(body):
        raise ParseError("I.module_attrs stands in the body of a class under @I.ir_module")
    body.f_locals.setdefault(_ATTRS, {}).update(attrs)
