"""What passes on graph programs of any dialect share: walks over whole functions.

They enter closures, branches and the values of Lets, and never recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder, reachable
from smelt.ir.types import IncompleteType, Type
from smelt.relax.adt import Match
from smelt.relax.graph import binders, is_foreign, transform
from smelt.relax.nodes import Call, Function, GlobalVar, If, RelaxExpr, Var


def functions_of(mod: IRModule) -> dict[str, Function]:
    """The graph functions of a module."""
    return {n: f for n, f in mod.functions.items() if isinstance(f, Function)}


def map_functions(
    mod: IRModule,
    fn: Callable[[Function], Function],
    which: Callable[[Function], bool] = lambda f: not is_foreign(f),
) -> IRModule:
    """A module with each of its graph functions replaced; the same one where none changed.

    which  tells the functions; those that another compiler gets stay what they are
    """
    made = {n: fn(f) for n, f in functions_of(mod).items() if which(f)}
    changed = {n: f for n, f in made.items() if f is not mod.functions[n]}
    return mod.with_functions(changed) if changed else mod


def transform_functions(mod: IRModule, fn: Callable[[Any, Any], RelaxExpr | None]) -> IRModule:
    """`transform` on the graph functions of a module."""
    return map_functions(mod, lambda f: transform(f, fn))


def names_in(root: Any) -> list[str]:
    """The functions of the module that an expression calls, or has as values."""
    names = [n.name for n in postorder(root) if isinstance(n, GlobalVar)]
    return list(dict.fromkeys(names))


def reached(mod: IRModule, entries: Iterable[str]) -> set[str]:
    """The functions that the entries may call, directly or not, and they themselves."""

    def called(name: str) -> list[str]:
        f = mod.functions.get(name)
        return names_in(f) if isinstance(f, Function) else []

    first = list(entries)
    return {n for n in (*first, *reachable(first, called)) if n in mod}


def inlined(f: Function, callees: Collection[str], mod: IRModule) -> Function:
    """A function with the bodies of some functions of the module in place of calls of them.

    Bodies may call further ones of them; a function that calls itself stays a call.
    """
    known = {n: f for n, f in functions_of(mod).items() if n in callees}
    bodies = {n: f for n, f in known.items() if n not in reached(mod, names_in(f))}

    def put(old: Any, new: Any) -> RelaxExpr | None:
        if not isinstance(new, Call) or not isinstance(new.op, GlobalVar):
            return None
        callee = bodies.get(new.op.name)
        if callee is None:
            return None
        return instantiated(transform(callee, put), new.args)

    return transform(f, put)  # type: ignore[no-any-return]


def instantiated(f: Function, args: Sequence[RelaxExpr | None]) -> RelaxExpr:
    """The body of a function on operands; what it binds itself is bound anew.

    Of a function of several types, inference has to find the types of what is inside.
    """
    kinds = f.attrs.get("type_params", ())
    given: dict[Node, Any] = dict(zip(f.params, args, strict=True))
    for node in postorder(f.body):
        given.update({v: v.replace() for v in binders(node)})
    for v in given.keys() - set(f.params) if kinds else ():
        if mentions(v.type, kinds):  # type: ignore[attr-defined]
            given[v] = v.replace(type=IncompleteType())

    def put(old: Any, new: Any) -> RelaxExpr | None:
        if isinstance(old, Var):
            return given.get(old)
        if kinds and isinstance(new, Call | If | Match) and mentions(new.type, kinds):
            return new.replace(type=IncompleteType())
        return None

    return transform(f.body, put)  # type: ignore[no-any-return]


def mentions(t: Type, kinds: Collection[Any]) -> bool:
    """Whether type variables occur in a type."""
    return any(node in kinds for node in postorder(t))
