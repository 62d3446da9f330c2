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
from smelt.relax.graph import bind, fixed_values, rebuilding, transform, uses_of
from smelt.relax.match_cast import specialized
from smelt.relax.shapes import sizes_of_parameters
from smelt.runtime.errors import nearest

from ... import nodes
from ..rewriting import map_functions
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
        names = [n for n, f in mod.functions.items() if isinstance(f, nodes.Function)]
        names = names if func_name is None else [checked_name(mod, func_name, "BindSymbolicVars")]
        made: dict[str, Any] = {}
        met: set[str] = set()
        for n in names:
            f = mod[n]
            assert isinstance(f, nodes.Function)
            sizes = {}
            for v in sizes_of_parameters(f):
                value = binding_map.get(v, binding_map.get(v.name))
                if value is not None:
                    met.add(v.name)
                    sizes[v] = convert(value, INDEX)
            if sizes:
                made[n] = specialized(f, sizes)
        missing = [str(getattr(k, "name", k)) for k in binding_map]
        missing = [k for k in missing if k not in met]
        if missing:
            raise TypeMismatch(f"BindSymbolicVars: no size is named {', '.join(missing)}")
        return mod.with_functions(made) if made else mod

    return named("BindSymbolicVars", run)


# --------------------------------------------------------------------------- fewer and others


def _called(mod: IRModule, name: str) -> bool:
    """Whether a function is a value, and not only called."""
    for f in mod.functions.values():
        if isinstance(f, nodes.Function):
            calls = {id(n.op) for n in postorder(f) if isinstance(n, nodes.Call)}
            for n in postorder(f):
                if isinstance(n, nodes.GlobalVar) and n.name == name and id(n) not in calls:
                    return True
    return False


def _is_call(n: Any, name: str) -> TypeGuard[nodes.Call]:
    """Whether a value is a call of one function of the module."""
    return isinstance(n, nodes.Call) and isinstance(n.op, nodes.GlobalVar) and n.op.name == name


def _changed(
    mod: IRModule, name: str, new: nodes.Function, at_call: Callable[[nodes.Call], nodes.RelaxExpr]
) -> IRModule:
    """A module with one function replaced, and its calls."""

    def replace(old: Any, node: Any) -> nodes.RelaxExpr | None:
        return at_call(node) if _is_call(node, name) else None

    made = {**mod.functions, name: new}
    return mod.with_functions(
        {n: transform(f, replace) for n, f in made.items() if isinstance(f, nodes.Function)}
    )


def _private(mod: IRModule) -> list[str]:
    """Functions that only others of the module call, and that are called by name alone."""
    return [n for n, f in mod.functions.items() if isinstance(f, nodes.Function)
            and f.attrs.get("private") and not _called(mod, n)]  # fmt: skip


def RemoveUnusedParameters() -> Pass:
    """Parameters of private functions that nothing uses go, from calls too."""

    def run(mod: IRModule) -> IRModule:
        for name in _private(mod):
            f = mod[name]
            uses = uses_of(f.body)
            kept = [n for n, p in enumerate(f.params) if uses[p]]
            if len(kept) < len(f.params):
                new = f.replace(params=tuple([f.params[n] for n in kept]))
                mod = _changed(mod, name, new, partial(_selected, kept))
        return mod

    return named("RemoveUnusedParameters", run)


def RemoveUnusedOutputs() -> Pass:
    """Items of the results of private functions that no call takes go."""

    def run(mod: IRModule) -> IRModule:
        for name in _private(mod):
            f = mod[name]
            if not isinstance(f.body, nodes.Tuple):
                continue
            taken = _taken(mod, name)
            count = len(f.body.items)
            if taken is None or len(taken) == count or not taken:
                continue
            kept = sorted(taken)
            items = [f.body.items[n] for n in kept]
            new = f.replace(body=items[0] if len(items) == 1 else nodes.Tuple(tuple(items)))
            mod = _changed(mod, name, new, partial(_spread, kept, count, new.body.type))
        return mod

    return named("RemoveUnusedOutputs", run)


def _taken(mod: IRModule, name: str) -> set[int] | None:
    """Which items of a function's result are taken; None: it is used as a whole somewhere."""
    taken: set[int] = set()
    for f in mod.functions.values():
        if not isinstance(f, nodes.Function):
            continue
        for n in postorder(f):
            for c in n.children():
                if _is_call(c, name):
                    if not isinstance(n, nodes.TupleGetItem):
                        return None
                    taken.add(n.index)
    return taken


def _selected(kept: list[int], c: nodes.Call) -> nodes.Call:
    """A call with some of its operands."""
    return c.replace(args=tuple([c.args[n] for n in kept]))


def _spread(kept: list[int], count: int, results: Type, c: nodes.Call) -> nodes.RelaxExpr:
    """A call of fewer results, as a tuple in which they have their old places."""
    fewer = c.replace(type=results)
    items: list[nodes.RelaxExpr] = [fewer] * count
    for n, at in enumerate(kept):
        items[at] = fewer if len(kept) == 1 else nodes.TupleGetItem(fewer, n)
    return nodes.Tuple(tuple(items))


def ExpandTupleArguments() -> Pass:
    """Parameters of private functions that are tuples become one parameter an item."""

    def run(mod: IRModule) -> IRModule:
        for name in _private(mod):
            f = mod[name]
            if any(isinstance(p.type, TupleType) for p in f.params):
                mod = _expanded(mod, name, f)
        return mod

    return named("ExpandTupleArguments", run)


def _expanded(mod: IRModule, name: str, f: nodes.Function) -> IRModule:
    params: list[nodes.Var] = []
    bound: dict[nodes.Var, nodes.RelaxExpr] = {}
    for p in f.params:
        if isinstance(p.type, TupleType):
            own = [nodes.Var(f"{p.name}_{n}", t) for n, t in enumerate(p.type.items)]
            bound[p] = nodes.Tuple(tuple(own))
            params += own
        else:
            params.append(p)
    body = transform(bind(f.body, bound), lambda old, new: None)

    def spread(c: nodes.Call) -> nodes.RelaxExpr:
        args: list[nodes.RelaxExpr | None] = []
        for a, p in zip(c.args, f.params, strict=True):
            if isinstance(p.type, TupleType) and a is not None:
                items = a.items if isinstance(a, nodes.Tuple) else None
                args += items or [nodes.TupleGetItem(a, n) for n in range(len(p.type.items))]
            else:
                args.append(a)
        return c.replace(args=tuple(args))

    return _changed(mod, name, f.replace(params=tuple(params), body=body), spread)


def UpdateParamType(ftype_mapping: Callable[[nodes.Var], Type | None]) -> Pass:
    """Parameters of other element types; the body sees them converted to what they were.

    ftype_mapping  gets a parameter; its new type, or None where it stays
    """

    def run(mod: IRModule) -> IRModule:
        return map_functions(
            mod, lambda f: _retyped(f, ftype_mapping), lambda f: not f.attrs.get("primitive")
        )

    return named("UpdateParamType", run)


def _retyped(f: nodes.Function, mapping: Callable[[nodes.Var], Type | None]) -> nodes.Function:
    bound: dict[Node, Any] = {}
    params = []
    for p in f.params:
        t = mapping(p)
        if t is None or t is p.type:
            params.append(p)
            continue
        same = isinstance(t, TensorType) and isinstance(p.type, TensorType)
        if not same or t.shape != p.type.shape:  # type: ignore[attr-defined]
            raise TypeMismatch(
                f"UpdateParamType: {p.name} is {p.type}; a tensor of the same shape is legal, not "
                f"{t}"
            )
        new = p.replace(type=t)
        params.append(new)
        bound[p] = nodes.call("cast", new, dtype=p.type.dtype)  # type: ignore[attr-defined]
    body = bind(f.body, bound)  # type: ignore[arg-type]
    return f.replace(params=tuple(params), body=body) if bound else f


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
        items = {w: nodes.TupleGetItem(whole, n) for n, w in enumerate(f.params[at:])}
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
        for name, f in mod.functions.items():
            if isinstance(f, nodes.Function) and "num_input" in f.attrs:
                made[str(name)], made[f"{name}_transform_params"] = _lifted(f)
        return mod.with_functions(made) if made else mod

    return named("LiftTransformParams", run)


def _lifted(f: nodes.Function) -> tuple[nodes.Function, nodes.Function]:
    """A function of prepared weights, and what prepares them."""
    at = _weights(f, "LiftTransformParams")
    weights = f.params[at:]
    free = {*fixed_values(f.body, weights)}
    fixed: set[Node] = set(weights)
    for n in postorder(f.body):
        if n in free and not fixed.isdisjoint(n.children()):
            fixed.add(n)
    prepared: list[nodes.RelaxExpr] = []
    params: dict[nodes.RelaxExpr, nodes.Var] = {}

    def take(e: nodes.RelaxExpr) -> nodes.Var:
        if e not in params:
            params[e] = nodes.Var(f"param{len(params)}", e.type)
            prepared.append(e)
        return params[e]

    done: dict[Node, Any] = {}
    for n, new in rebuilding(f.body, done):
        done[n] = take(n) if n in fixed and not isinstance(n, nodes.Tuple) else new
    used = uses_of(done[f.body])
    kept = [e for e in prepared if used[params[e]]]
    new = f.replace(params=(*f.params[:at], *[params[e] for e in kept]), body=done[f.body])
    return new, nodes.Function(weights, nodes.Tuple(tuple(kept)))
