"""Operators of a graph as tensor programs of the module, called by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from smelt import te
from smelt.ir.errors import InternalError, TypeMismatch
from smelt.ir.expr import const
from smelt.ir.module import IRModule
from smelt.ir.text import fresh_name
from smelt.relax.graph import function_of, is_closed, transform
from smelt.te import Tensor
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Body, Op

from .. import nodes
from ..graph_op import GraphOp
from .rewriting import functions_of, map_functions

Bodies = Mapping[nodes.Call, Body]
"""By call of an operator: the algorithm that computes it instead of the operator's own."""
OWN: Bodies = {}

Legalization = Callable[[nodes.Call], nodes.RelaxExpr]
"""Gets a call; what stands for it."""


def legalize_ops(
    mod: IRModule, own: Mapping[str, Legalization] | None = None, skip: Collection[str] = ()
) -> IRModule:
    """Every operator becomes a call of a program that computes it; equal operators share one.

    own   by operator name what to put in place of a call instead
    skip  operators that stay
    """
    made = _Programs(mod)

    def replace(old: Any, new: Any) -> nodes.RelaxExpr | None:
        op = new.op if isinstance(new, nodes.Call) else None
        if not isinstance(op, Op) or isinstance(op, GraphOp):
            return None
        if own and op.name in own:
            return own[op.name](new)
        if op.name in skip or nodes.incomplete(new.type):
            return None
        return made.call(new)

    done = map_functions(mod, lambda f: transform(f, replace), lambda f: not is_closed(f))
    return done.with_functions(made.programs) if made.programs else done


def fuse_programs(mod: IRModule) -> IRModule:
    """The groups that fusion has made become programs."""
    groups = {n: f for n, f in functions_of(mod).items() if f.attrs.get("primitive")}
    programs = {name: group_program(f, name) for name, f in groups.items()}
    return mod.with_functions(programs) if programs else mod


class _Programs:
    """The programs of operators, each made once."""

    def __init__(self, mod: IRModule) -> None:
        self.taken = set(mod.functions)
        self.programs: dict[str, PrimFunc] = {}
        self.names: dict[Any, str] = {}

    def call(self, c: nodes.Call) -> nodes.Call:
        """The call of the program that computes an operator."""
        operands = [a for a in c.args if a is not None]
        given = tuple([None if a is None else a.type for a in c.args])
        key = (c.op, given, repr(dict(c.attrs)))
        if key not in self.names:
            name = fresh_name(c.callee, self.taken)
            self.programs[name] = group_program(function_of(c), name)
            self.names[key] = name
        return nodes.call_tir(nodes.GlobalVar(self.names[key]), operands, c.type, c.name)


def group_program(group: nodes.Function, name: str) -> PrimFunc:
    """The program of a function of operators, which says what these are."""
    ops = [v.callee for v in nodes.values(group.body) if isinstance(v, nodes.Call)]
    return dense_program(group, name).with_attrs(operator_name="_".join(ops))


def dense_program(group: nodes.Function, name: str, bodies: Bodies = OWN) -> PrimFunc:
    """The program of a function of operators, on dense buffers.

    bodies  those that take the place of operators' own
    """
    own = [(p.name, nodes.tensor_type_of(p)) for p in group.params]
    params = [te.placeholder(t.shape, t.dtype, name) for name, t in own]
    return te.create_prim_func([*params, *computed(group, params, bodies)], name)


def other_bodies(group: nodes.Function) -> list[Bodies]:
    """The ways to compute a function of operators with another body for one of them."""
    found: list[Bodies] = []
    for v in nodes.values(group.body):
        if isinstance(v, nodes.Call) and isinstance(v.op, Op):
            found += [{v: b} for b in v.op.bodies if b.when(_types(v), v.op.normalize(v.attrs))]
    return found


def update_bodies(group: nodes.Function) -> Bodies:
    """The way to compute a function of one operator as a copy that is changed, if it has one."""
    c = group.body
    if not (isinstance(c, nodes.Call) and isinstance(c.op, Op) and c.op.update):
        return OWN
    return {c: Body("update", c.op.update, lambda types, attrs: True)}


def _types(call: nodes.Call) -> list[Any]:
    return [None if a is None else a.type for a in call.args]


def computed(group: nodes.Function, params: list[Tensor], bodies: Bodies = OWN) -> list[Tensor]:
    """The results of a function of operators as tensor expressions of its parameters."""
    made: dict[int, Any] = {id(p): t for p, t in zip(group.params, params, strict=True)}
    for v in nodes.values(group.body):
        if isinstance(v, nodes.Call):
            made[id(v)] = _apply(v, made, bodies)
        elif isinstance(v, nodes.TupleGetItem):
            made[id(v)] = made[id(v.value)][v.index]
        elif isinstance(v, nodes.Constant):
            made[id(v)] = _scalar(v)
        elif not isinstance(v, nodes.Var):
            raise InternalError(f"a {type(v).__name__} in a fused group")
    body = made[id(group.body)]
    tensors = list(body) if isinstance(body, list | tuple) else [body]
    # a result that is a parameter, or given twice, becomes a copy
    seen = {id(p) for p in params}
    out = []
    for t in tensors:
        if id(t) in seen:
            t = te.compute(t.shape, lambda *i, t=t: t[i], name=t.name + "_copy")
        seen.add(id(t))
        out.append(t)
    return out


def _apply(call: nodes.Call, made: Mapping[int, Any], bodies: Bodies) -> Any:
    if not isinstance(call.op, Op):
        raise TypeMismatch(f"a program is made of operators; {call.callee} is a function")
    args = [None if a is None else made[id(a)] for a in call.args]
    missing = [] if call.op.variadic else call.op.operands[len(args) :]
    if call in bodies:
        attrs = call.op.normalize(call.attrs)
        return bodies[call].fn(*args, *([None] * len(missing)), **attrs)
    return call.op(*args, *([None] * len(missing)), **call.attrs)


def _scalar(c: nodes.Constant) -> Tensor:
    """A one-element constant as a tensor expression that loads nothing."""
    value = const(c.data.reshape(-1)[0].item(), c.type.dtype)
    tensor: Tensor = te.compute(c.type.shape, lambda *i: value, name="c")
    return tensor
