"""`relay.create_executor`: one way to run a module, whatever the form of executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.module import IRModule, as_function
from smelt.ir.types import TupleType
from smelt.relax.compose.operands import const
from smelt.relax.graph import bind
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, GlobalVar, RelaxExpr, constant
from smelt.relax.nodes import Var as CoreVar
from smelt.relax.transform.infer_module import infer_types
from smelt.runtime import Device, array, cpu
from smelt.runtime.container import ADT
from smelt.runtime.errors import closest
from smelt.runtime.vm import VirtualMachine

from .backend import Executor as Form
from .build_module import as_module, bind_params, build
from .vm import compile as compile_program

KINDS = ("debug", "graph", "vm", "aot")


class Executor:
    """Makes functions of Python out of functions of a module: `executor.evaluate()(x)`."""

    def __init__(
        self, kind: str, mod: IRModule, target: Any, params: Mapping[str, Any] | None
    ) -> None:
        """For create_executor."""
        self.kind, self.mod, self.target = kind, mod, target
        self.params = dict(params or {})

    def evaluate(self, expr: Any = None, binds: Mapping[CoreVar, Any] | None = None) -> Any:
        """A function of the module as a function of arrays (and named parameters).

        expr   None: "main"; a GlobalVar; a function; another expression without free variables is
               computed at once, one with them becomes a function of these
        binds  values of variables

        The results are NDArrays; tuples come as lists, data of other types as ADTs.
        """
        if expr is None or isinstance(expr, GlobalVar):
            name = "main" if expr is None else expr.name
            made = self.mod[name]
            at_once = False
        else:
            if not isinstance(expr, RelaxExpr):
                raise TypeMismatch(f"evaluate: expr is a {type(expr).__name__}, no expression")
            made = as_function(expr)
            at_once = not isinstance(expr, Function)
        if binds:
            made = bind(made, {v: _constant(x) for v, x in binds.items()})
        assert isinstance(made, Function)
        mod = self.mod.with_functions({"main": made})
        run = self._function(bind_params(mod, self._own(made)))
        names = [p.name for p in made.params if p.name not in self.params]

        def call(*args: Any, **named: Any) -> Any:
            return _listed(run(*_in_order(names, args, named)))

        return call() if at_once and not names else call

    def _own(self, f: Function) -> dict[str, Any]:
        """The parameters of the executor that the function has."""
        names = {p.name for p in f.params}
        return {n: v for n, v in self.params.items() if n in names}

    def _function(self, mod: IRModule) -> Callable[..., Any]:
        if self.kind == "debug":
            typed = infer_types(mod)
            main = typed["main"]

            def run(*args: Any) -> Any:
                found = interpret(main, *[_plain(a) for a in args], module=typed)
                return tuple(found) if isinstance(main.body.type, TupleType) else found[0]

            return run
        if self.kind == "vm":
            machine = VirtualMachine(compile_program(mod, self.target))
            return lambda *args: machine.invoke("main", *args)
        exe = build(mod, self.target, executor=Form(self.kind)).lib
        return lambda *args: exe(*args)


def create_executor(
    kind: str = "debug",
    mod: Any = None,
    device: Device | None = None,
    target: Any = "llvm -mcpu=native",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """What runs functions of a module.

    kind    "debug": the interpreter in numpy, slow, the reference; "graph", "aot": straight
            programs, compiled; "vm": compiled, with branches, recursion, closures, data types
    mod     an IRModule, or a function; None: an empty module
    params  parameters that are fixed, by name
    """
    if kind not in KINDS:
        hint = "".join([f"; nearest: {near!r}" for near in closest(kind, KINDS, 1)])
        raise CompileError(
            f"create_executor: no kind {kind!r}{hint}; kinds: {', '.join(map(repr, KINDS))}"
        )
    if device is not None and device != cpu(0):
        raise CompileError(f"create_executor: programs run on {cpu(0)}, not on {device}")
    mod = IRModule() if mod is None else as_module("create_executor", mod)
    return Executor(kind, mod, target, params)


def _constant(x: Any) -> RelaxExpr:
    return x if isinstance(x, RelaxExpr) else constant(np.asarray(x, order="C"))


def _in_order(names: list[str], args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    left = names[len(args) :]
    if len(args) > len(names) or sorted(named) != sorted(left):
        given = f", {', '.join(named)} by name" if named else ""
        raise TypeMismatch(
            f"the function takes {len(names)} operands: {', '.join(names) or 'none'}; "
            f"{len(args)} given{given}"
        )
    return [*args, *[named[n] for n in left]]


def _plain(x: Any) -> Any:
    """An operand for the interpreter."""
    if isinstance(x, list | tuple):
        return tuple([_plain(i) for i in x])
    if isinstance(x, bool | int | float):
        return const(x).data
    return x if isinstance(x, ADT) else np.asarray(x)


def _listed(x: Any) -> Any:
    """A result as it is handed out. Lists of data may be long: no recursion into fields."""
    if isinstance(x, tuple) or (isinstance(x, ADT) and not x.name):
        return [_listed(i) for i in x]
    return array(x) if isinstance(x, np.ndarray | np.generic) else x
