"""Closures become functions of the module.

What a closure captures becomes further parameters, in front. A closure that is a value of its own
(an operand, a result) stays one, whose body is a call of the function.
"""

from __future__ import annotations

from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.text import fresh_name
from smelt.relax.graph import free_vars, is_unit, transform
from smelt.relax.nodes import Call, Function, GlobalVar, If, Let, RelaxExpr, Var, call_function

from .normal_form import dissolved
from .rewriting import instantiated


def lambda_lift(mod: IRModule) -> IRModule:
    """Move all closures of a module into functions of it, named lifted, lifted_1, ..."""
    made = IRModule(mod.functions, mod.attrs)
    for name, f in mod.functions.items():
        if isinstance(f, Function):
            new = _Lift(made).function(f)
            if new is not f:
                made[name] = new
    return made if made.functions != mod.functions else mod


class _Lift:
    """The closures of one function, inner ones first."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.names: dict[Node, Let] = {}

    def function(self, f: Function) -> Function:
        """A function without closures inside, and those as functions of the module."""
        lets = [n for n in postorder(f) if isinstance(n, Let)]
        self.names = {n.value: n for n in lets if isinstance(n.value, Function)}
        branches = _branches(f)
        lifted: dict[Var, tuple[str, list[Var]]] = {}

        def lift(old: Any, new: Any) -> RelaxExpr | None:
            if isinstance(new, Call) and new.op in lifted:
                name, captured = lifted[new.op]
                return _called(name, [*captured, *new.args], new.type)
            if not isinstance(old, Function) or old is f or old in branches or is_unit(old):
                return None
            let = self.names.get(old)
            name, captured = self.lift(new, let)
            if let is not None:
                lifted[let.var] = (name, captured)
            return _wrapper(name, captured, new)

        made = transform(f, lift)
        return made if made is f else dissolved(made, _is_wrapper)

    def lift(self, f: Function, let: Let | None) -> tuple[str, list[Var]]:
        """Enter a closure as a function: (its name, what it captures)."""
        captured = [v for v in free_vars(f) if let is None or v is not let.var]
        stem = "lifted" if let is None else f"lifted_{let.var.name}"
        name = fresh_name(stem, set(self.mod))
        inner = tuple([v.replace() for v in captured])
        own = tuple([p.replace() for p in f.params])
        given = dict(zip(captured, inner, strict=True))

        def itself(old: Any, new: Any) -> RelaxExpr | None:
            if isinstance(old, Var):
                return given.get(old)
            if let is not None and isinstance(new, Call) and new.op is let.var:
                return _called(name, [*inner, *new.args], new.type)
            return None

        body = transform(instantiated(f, own), itself)
        if let is not None and any(n is let.var for n in postorder(body)):
            wrapper = _wrapper(name, list(inner), f)
            body = transform(body, lambda old, new: wrapper if old is let.var else None)
        self.mod[name] = Function((*inner, *own), body, f.attrs)
        return name, captured


def _called(name: str, args: list[Any], type: Any) -> Call:
    return call_function(GlobalVar(name), args, type)


def _wrapper(name: str, captured: list[Var], f: Function) -> Function:
    """What stays of a closure: a call of its function."""
    params = tuple([p.replace() for p in f.params])
    return Function(params, _called(name, [*captured, *params], f.body.type), f.attrs)


def _is_wrapper(f: Function) -> bool:
    """Whether a function is a call of another one, which calls of it in place become."""
    return isinstance(f.body, Call) and isinstance(f.body.op, GlobalVar)


def _branches(f: Function) -> set[Node]:
    """The functions that stand for the sides of branches."""
    return {c for n in postorder(f) if isinstance(n, If) for c in n.children()}
