"""Passes about parameters: constants in their place, tuples, what depends on weights alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, convert
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.transform import Pass
from smelt.ir.types import TensorType, TupleType, Type
from smelt.relax.compose.common import items_of
from smelt.relax.graph import bind, fixed_values, made_of, rebuilding, transform, uses_of
from smelt.relax.match_cast import specialized
from smelt.relax.shapes import sizes_of_parameters
from smelt.runtime.errors import nearest

from ... import nodes
from ..rewriting import functions_of, map_functions
from .make import checked_name, graph_function, named


def BindParams(func_name: str, params: Mapping[Any, Any]) -> Pass:
    """Parameters of a function become constants; params: arrays by name or by the variable."""

    def run(mod: IRModule) -> IRModule:
        f = graph_function(mod, func_name, "BindParams")
        by_name = {p.name: p for p in f.params}
        bound: dict[Any, Any] = {}
        for key, value in params.items():
            name = str(getattr(key, "name", key))
            if name not in by_name:
                raise TypeMismatch(
                    f"BindParams: {func_name} has no parameter {name!r}"
                    f"{nearest(name, list(by_name))}"
                )
            bound[by_name[name]] = _constant_for(by_name[name], value)
        return mod.with_functions({func_name: bind(f, bound)}) if bound else mod

    return named("BindParams", run)


def _constant_for(p: nodes.Var, value: Any) -> nodes.Constant:
    """A parameter's value, of its type."""
    made = nodes.constant(np.asarray(value, order="C"), p.name)
    t = p.type
    fits = isinstance(t, TensorType) and t.dtype == made.type.dtype and t.rank == made.type.rank
    fixed = t.fixed_shape() if isinstance(t, TensorType) else None
    if not fits or (fixed is not None and fixed != made.data.shape):
        raise TypeMismatch(
            f"BindParams: the value of {p.name} is {made.type.dtype}{list(made.data.shape)}; the "
            f"parameter is {t}"
        )
    return made


def BindSymbolicVars(binding_map: Mapping[Any, Any], func_name: str | None = None) -> Pass:
    """Symbolic sizes become numbers (or other sizes) in one function, or in all of them."""

    def run(mod: IRModule) -> IRModule:
        one = func_name and checked_name(mod, func_name, "BindSymbolicVars")
        made: dict[str, Any] = {}
        met: set[str] = set()
        for n in [one] if one else functions_of(mod):
            shown = sizes_of_parameters(mod[n])
            given = {v: binding_map.get(v, binding_map.get(v.name)) for v in shown}
            sizes = {v: convert(e, INDEX) for v, e in given.items() if e is not None}
            met.update([v.name for v in sizes])
            if sizes:
                made[n] = specialized(mod[n], sizes)
        missing = [k for k in [str(getattr(k, "name", k)) for k in binding_map] if k not in met]
        if missing:
            raise TypeMismatch(f"BindSymbolicVars: no size is named {', '.join(missing)}")
        return mod.with_functions(made) if made else mod

    return named("BindSymbolicVars", run)


# --------------------------------------------------------------------------- fewer and others


Change = tuple[nodes.Function, Callable[[nodes.Call], nodes.RelaxExpr]]
"""What a function becomes, and what calls of it do."""


def _is_call(n: Any, name: str) -> TypeGuard[nodes.Call]:
    """Whether a value is a call of one function of the module."""
    return isinstance(n, nodes.Call) and isinstance(n.op, nodes.GlobalVar) and n.op.name == name


def _private(mod: IRModule) -> list[str]:
    """Functions that only others of the module call, and that are called by name alone."""
    values: set[str] = set()
    functions = functions_of(mod)
    for f in functions.values():
        called = {n.op for n in postorder(f) if isinstance(n, nodes.Call)}
        inside = [n for n in postorder(f) if isinstance(n, nodes.GlobalVar)]
        values.update([n.name for n in inside if n not in called])
    return [n for n, f in functions.items() if f.attrs.get("private") and n not in values]


def _of_private(
    name: str, change: Callable[[IRModule, str, nodes.Function], Change | None]
) -> Pass:
    """A pass on private functions and their calls. change: None where a function stays."""

    def run(mod: IRModule) -> IRModule:
        for n in _private(mod):
            found = change(mod, n, mod[n])
            mod = mod if found is None else _changed(mod, n, *found)
        return mod

    return named(name, run)


def _changed(
    mod: IRModule, name: str, new: nodes.Function, at_call: Callable[[nodes.Call], nodes.RelaxExpr]
) -> IRModule:
    """A module with one function replaced, and its calls."""

    def replace(old: Any, node: Any) -> nodes.RelaxExpr | None:
        return at_call(node) if _is_call(node, name) else None

    whole = mod.with_functions({name: new})
    return map_functions(whole, lambda f: transform(f, replace), lambda f: True)


def RemoveUnusedParameters() -> Pass:
    """Parameters of private functions that nothing uses go, from calls too."""
    return _of_private("RemoveUnusedParameters", _without_parameters)


def _without_parameters(mod: IRModule, name: str, f: nodes.Function) -> Change | None:
    uses = uses_of(f.body)
    kept = [n for n, p in enumerate(f.params) if uses[p]]
    if len(kept) == len(f.params):
        return None
    new = f.replace(params=tuple([f.params[n] for n in kept]))
    return new, lambda c: c.replace(args=tuple([c.args[n] for n in kept]))


def RemoveUnusedOutputs() -> Pass:
    """Items of the results of private functions that no call takes go."""
    return _of_private("RemoveUnusedOutputs", _without_outputs)


def _without_outputs(mod: IRModule, name: str, f: nodes.Function) -> Change | None:
    if not isinstance(f.body, nodes.Tuple):
        return None
    users = [n for g in functions_of(mod).values() for n in postorder(g)
             if any(_is_call(c, name) for c in n.children())]  # fmt: skip
    kept = sorted({n.index for n in users if isinstance(n, nodes.TupleGetItem)})
    count = len(f.body.items)
    whole = not all(isinstance(n, nodes.TupleGetItem) for n in users)
    if whole or len(kept) in (0, count):
        return None
    items = [f.body.items[n] for n in kept]
    new = f.replace(body=items[0] if len(items) == 1 else nodes.Tuple(tuple(items)))
    return new, partial(_spread, kept, count, new.body.type)


def _spread(kept: list[int], count: int, results: Type, c: nodes.Call) -> nodes.RelaxExpr:
    """A call of fewer results, as a tuple in which they have their old places."""
    fewer = c.replace(type=results)
    items: list[nodes.RelaxExpr] = [fewer] * count
    for n, at in enumerate(kept):
        items[at] = fewer if len(kept) == 1 else nodes.TupleGetItem(fewer, n)
    return nodes.Tuple(tuple(items))


def ExpandTupleArguments() -> Pass:
    """Parameters of private functions that are tuples become one parameter an item."""
    return _of_private("ExpandTupleArguments", _expanded)


def _expanded(mod: IRModule, name: str, f: nodes.Function) -> Change | None:
    several = [isinstance(p.type, TupleType) for p in f.params]
    if not any(several):
        return None
    params: list[nodes.Var] = []
    bound: dict[nodes.Var, nodes.RelaxExpr] = {}
    for p in f.params:
        own = [p]
        if isinstance(p.type, TupleType):
            own = [nodes.Var(f"{p.name}_{n}", t) for n, t in enumerate(p.type.items)]
            bound[p] = nodes.Tuple(tuple(own))
        params += own
    body = transform(bind(f.body, bound), lambda old, new: None)

    def spread(c: nodes.Call) -> nodes.RelaxExpr:
        args: list[nodes.RelaxExpr | None] = []
        for a, opened in zip(c.args, several, strict=True):
            args += [a] if a is None or not opened else items_of(a)
        return c.replace(args=tuple(args))

    return f.replace(params=tuple(params), body=body), spread


def UpdateParamType(ftype_mapping: Callable[[nodes.Var], Type | None]) -> Pass:
    """Parameters of other element types; the body sees them converted to what they were.

    ftype_mapping  gets a parameter; its new type, or None where it stays
    """

    def run(mod: IRModule) -> IRModule:
        return map_functions(
            mod, lambda f: retyped(f, ftype_mapping), lambda f: not f.attrs.get("primitive")
        )

    return named("UpdateParamType", run)


def retyped(f: nodes.Function, mapping: Callable[[nodes.Var], Type | None]) -> nodes.Function:
    """A function with other parameters; its body sees them as they were."""
    bound: dict[nodes.Var, nodes.Call] = {}
    for p in f.params:
        t = mapping(p)
        if t is None or t is p.type:
            continue
        same = isinstance(t, TensorType) and isinstance(p.type, TensorType)
        if not same or t.shape != p.type.shape:  # type: ignore[attr-defined]
            raise TypeMismatch(
                f"UpdateParamType: {p.name} is {p.type}; a tensor of the same shape is legal, not "
                f"{t}"
            )
        bound[p] = nodes.call("cast", p.replace(type=t), dtype=p.type.dtype)  # type: ignore[attr-defined]
    params = tuple([bound[p].args[0] if p in bound else p for p in f.params])
    return f.replace(params=params, body=bind(f.body, bound)) if bound else f


# ------------------------------------------------------------------------------- weights


def _weights(f: nodes.Function, who: str) -> int:
    """Where the weights begin among the parameters."""
    count = f.attrs.get("num_input")
    if not isinstance(count, int) or not 0 <= count <= len(f.params):
        raise TypeMismatch(
            f"{who}: the attribute num_input={count!r} has to say how many of the "
            f"{len(f.params)} parameters are inputs; the others are weights"
        )
    return count


def BundleModelParams(param_tuple_name: str | None = None) -> Pass:
    """The weights of functions with the attribute num_input become one parameter, a tuple."""

    def bundled(f: nodes.Function) -> nodes.Function:
        at = _weights(f, "BundleModelParams")
        types = TupleType(tuple([w.type for w in f.params[at:]]))
        whole = nodes.Var(param_tuple_name or "model_params", types)
        items = dict(zip(f.params[at:], items_of(whole), strict=True))
        return f.replace(params=(*f.params[:at], whole), body=bind(f.body, items))

    def run(mod: IRModule) -> IRModule:
        return map_functions(mod, bundled, lambda f: "num_input" in f.attrs)

    return named("BundleModelParams", run)


def LiftTransformParams(shared_transform: bool = False) -> Pass:
    """What depends on weights alone moves into a function `<name>_transform_params`.

    Its parameters are the weights (those behind the attribute num_input) and its results what the
    function takes in their place, in order; shared_transform=True is not supported.
    """
    if shared_transform:
        raise TypeMismatch("LiftTransformParams: shared_transform=True is not supported; False")

    def run(mod: IRModule) -> IRModule:
        made: dict[str, Any] = {}
        for name, f in functions_of(mod).items():
            if "num_input" in f.attrs:
                made[str(name)], made[f"{name}_transform_params"] = _lifted(f)
        return mod.with_functions(made) if made else mod

    return named("LiftTransformParams", run)


def _lifted(f: nodes.Function) -> tuple[nodes.Function, nodes.Function]:
    """A function of prepared weights, and what prepares them."""
    at = _weights(f, "LiftTransformParams")
    weights = f.params[at:]
    fixed = made_of(f.body, weights).intersection([*weights, *fixed_values(f.body, weights)])
    params: dict[nodes.RelaxExpr, nodes.Var] = {}
    done: dict[Node, Any] = {}
    for n, new in rebuilding(f.body, done):
        if n in fixed and not isinstance(n, nodes.Tuple):
            new = params[n] = nodes.Var(f"param{len(params)}", n.type)
        done[n] = new
    used = uses_of(done[f.body])
    kept = [e for e, p in params.items() if used[p]]
    new = f.replace(params=(*f.params[:at], *[params[e] for e in kept]), body=done[f.body])
    return new, nodes.Function(weights, nodes.Tuple(tuple(kept)))
