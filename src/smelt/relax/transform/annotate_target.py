"""Which parts of a graph another compiler gets: each operator on its own, marked in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.op_attrs import HANDLERS
from smelt.relax.dpl.blame import asked
from smelt.relax.dpl.graph import op_name
from smelt.relax.graph import is_closed
from smelt.relax.nodes import Call, Function, TupleGetItem

from .regions import Region, adopt_items, mark_regions, read_regions, top_level
from .rewriting import map_functions

OpPredicate = Callable[[Call], bool]

_PREDICATES: dict[str, dict[str, OpPredicate]] = {}


@overload
def register_op_predicate(target: str, op_name: str) -> Callable[[OpPredicate], OpPredicate]:
    """As a decorator."""


@overload
def register_op_predicate(target: str, op_name: str, fn: OpPredicate) -> OpPredicate:
    """The function beside the names."""


def register_op_predicate(target: str, op_name: str, fn: OpPredicate | None = None) -> Any:
    """Enter whether a compiler takes an operator, in place of what was entered before.

    fn  gets the call and answers. As a decorator where it is left out:

        @register_op_predicate("dnnl", "nn.conv2d")
        def conv2d(call):
            return call.attrs["groups"] == 1
    """

    def enter(given: OpPredicate) -> OpPredicate:
        if not callable(given):
            raise TypeMismatch(
                f"register_op_predicate({target!r}, {op_name!r}): {given!r} is no function"
            )
        _PREDICATES.setdefault(target, {})[op_name] = given
        return given

    return enter if fn is None else enter(fn)


HANDLERS["target"] = lambda op_name, target, fn: register_op_predicate(target, op_name, fn)


def annotate_target(
    mod: IRModule, targets: str | Sequence[str], include_non_call_ops: bool = True
) -> IRModule:
    """A module with a mark around every call: of the compiler that takes it, or "default".

    targets               names of compilers; the first one that takes a call gets it. One takes
                          the composites whose names begin with its own ("dnnl.conv2d_relu"), and
                          the operators that its predicates accept
    include_non_call_ops  give the items of a call's tuple to the compiler of the call; without
                          it calls with several results are not given away
    Calls that are marked for a compiler already keep it.
    """
    names = [targets] if isinstance(targets, str) else list(targets)
    if not names or not all(isinstance(t, str) and t for t in names):
        raise TypeMismatch(
            f"AnnotateTarget takes the name of a compiler or a list, not {targets!r}"
        )

    def annotated(f: Function) -> Function:
        plain, regions = read_regions(f)
        order = top_level(plain)
        split = {n.value for n in order if isinstance(n, TupleGetItem)}
        for n in order:
            marked = regions.get(n)
            if isinstance(n, Call) and (marked is None or marked.target == "default"):
                allowed = include_non_call_ops or n not in split
                takers = [t for t in names if allowed and _takes(t, n)]
                regions[n] = Region(takers[0] if takers else "default")
        return mark_regions(plain, adopt_items(order, regions)) if regions else f

    return map_functions(mod, annotated, lambda f: not is_closed(f))


def _takes(target: str, n: Call) -> bool:
    """Whether a compiler takes a call."""
    callee: Any = n.op
    if isinstance(callee, Function):
        return str(callee.attrs.get("Composite", "")).split(".")[0] == target
    name = op_name(callee) or ""
    predicate = _PREDICATES.get(target, {}).get(name)
    return predicate is not None and asked(predicate, n, n, [n], f"{target} of {name}")
