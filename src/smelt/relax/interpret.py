"""The meaning of graph programs: an interpreter in numpy, the oracle of every pass.

    y, = interpret(function, x)

Every operator has a meaning of its own (`Op.numpy`), written from its definition and never through
its tensor expression. Symbolic sizes are bound from the inputs, and every result is
compared with the type that was inferred for it. Functions that call themselves are not limited by
Python's recursion: calls are generators on a list.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Generator, Iterable, Mapping, MutableMapping
from types import GeneratorType
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import InternalError, TypeMismatch, Unsupported
from smelt.ir.expr import Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, map_nodes, postorder
from smelt.ir.types import TensorType, TupleType, Type, tensor_type
from smelt.ir.walk import free_vars, substitute
from smelt.runtime.container import ADT
from smelt.runtime.vm_host import HOST_OPS
from smelt.te.prim_func import create_prim_func
from smelt.tir.interpret import interpret as run_program
from smelt.tir.nodes import PrimFunc
from smelt.topi.reference import Array
from smelt.topi.registry import Op

from . import adt, nodes
from .graph import operands
from .graph_op import GraphOp, of_dialect
from .host_ops import HostOp, sizes_of
from .shapes import bind_sizes, sizes_in

Sizes = dict[SizeVar, Expr]

Evaluation = Generator["Evaluation", Any, Any]
"""Yields evaluations whose results it needs; its own is what it returns."""


def interpret(
    function: nodes.Function, *inputs: Any, module: IRModule | None = None
) -> list[Array]:
    """The results of a graph function.

    inputs  arrays, tuples and ADTs, one per parameter
    module  where calls of other functions and tensor programs look them up
    """
    with np.errstate(all="ignore"):
        result = _driven(_run(_Closure(function, {}, {}), [_as_value(x) for x in inputs], module))
    return list(result) if isinstance(result, tuple) else [result]


def evaluate_op(op: Op, args: Iterable[Array | None], attrs: Mapping[str, Any]) -> Any:
    """One operator in numpy: an array, or a tuple where it has several results."""
    fn = op.meaning
    if fn is None and op.user_defined:
        return _by_definition(op, list(args), attrs)
    if fn is None:
        raise Unsupported(f"{op.name} has no implementation in numpy")
    result = fn(*args, **op.normalize(attrs))
    return result if isinstance(result, tuple) else np.asarray(result)


# ------------------------------------------------------------------------------------ functions


class _Closure:
    """A function with the values of the variables around it."""

    def __init__(self, function: nodes.Function, around: Mapping[Node, Any], sizes: Sizes) -> None:
        self.function, self.around, self.sizes = function, around, sizes


def _driven(steps: Evaluation) -> Any:
    """The result of an evaluation; those that it asks for are run first."""
    stack, value = [steps], None
    while True:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as done:
            stack.pop()
            value = done.value
            if not stack:
                return value


def _as_value(x: Any) -> Any:
    """An input: arrays, tuples of them, values of data types, closures."""
    if isinstance(x, ADT):
        fields = tuple([_as_value(f) for f in x.fields])
        return ADT(x.tag, fields, x.name) if x.name else fields
    if isinstance(x, _Closure | adt.Constructor):
        return x
    return tuple([_as_value(i) for i in x]) if isinstance(x, tuple) else np.asarray(x)


def _type_of(x: Any) -> Type:
    if isinstance(x, tuple):
        return TupleType(tuple([_type_of(i) for i in x]))
    return tensor_type(x.shape, dt.from_numpy(x.dtype))


def _run(closure: Any, inputs: list[Any], module: IRModule | None) -> Evaluation:
    """The result of a function, or of a constructor."""
    if isinstance(closure, adt.Constructor):
        return ADT(_tag(closure, module), inputs, closure.name)
    f = closure.function
    if len(inputs) != len(f.params):
        names = ", ".join([p.name for p in f.params])
        raise TypeMismatch(
            f"the function takes {len(f.params)} inputs ({names}), {len(inputs)} given"
        )
    run = _Run(_bind(f, inputs, closure.sizes), module)
    run.body = f.body
    run.known.update({k: v for k, v in closure.around.items() if isinstance(k, nodes.Var)})
    run.known.update(zip(f.params, inputs, strict=True))
    return (yield run.value(f.body))


def _tag(c: adt.Constructor, module: IRModule | None) -> int:
    if module is None:
        raise TypeMismatch(f"the constructor {c.name} is called, but no module is given")
    return adt.constructor_tag(module, c)


def _by_definition(op: Op, args: list[Array | None], attrs: Mapping[str, Any]) -> Any:
    """A user's own operator has one definition only: its tensor expression, interpreted."""
    types = [None if a is None else _type_of(np.asarray(a)) for a in args]
    made = op.instance(types, op.normalize(attrs))  # type: ignore[arg-type]
    inputs = [t for t in made.inputs if t is not None]
    known = dict(zip(inputs, [np.array(a, order="C") for a in args if a is not None], strict=True))
    outputs = [t for t in dict.fromkeys(made.outputs) if t not in known]
    results = {t: _room(t, {}) for t in outputs}
    if outputs:
        program = create_prim_func([*inputs, *outputs], op.name)
        run_program(program, *known.values(), *results.values())
    found = [known[t] if t in known else results[t] for t in made.outputs]
    return tuple(found) if len(found) > 1 else found[0]


# ---------------------------------------------------------------------------------------- sizes


def _bind(function: nodes.Function, inputs: list[Any], around: Sizes) -> Sizes:
    """The symbolic sizes that the inputs' shapes show; other extents have to agree with them."""
    sizes: Sizes = dict(around)
    pairs = zip(function.params, inputs, strict=True)
    tensors = [(p, p.type, x) for p, x in pairs if isinstance(p.type, TensorType)]
    for p, t, x in tensors:
        if x.ndim != t.rank or dt.from_numpy(x.dtype) != t.dtype:
            raise TypeMismatch(
                f"the input {p.name} is {t.dtype} with {t.rank} dimensions; "
                f"{dt.from_numpy(x.dtype)} with {x.ndim} given"
            )
        bind_sizes(t, _type_of(x), sizes)
    for p, t, x in tensors:
        for d, (e, n) in enumerate(zip(t.shape, x.shape, strict=True)):
            if free_vars(e) <= sizes.keys() and _number(e, sizes) != n:
                raise TypeMismatch(
                    f"the input {p.name} has extent {n} in dimension {d}; "
                    f"it has to be {_number(e, sizes)}"
                )
    return sizes


def _number(e: Expr, sizes: Sizes) -> int:
    found = substitute(e, sizes)
    if not isinstance(found, IntImm):
        unknown = ", ".join(sorted([v.name for v in free_vars(found) if isinstance(v, SizeVar)]))
        raise TypeMismatch(f"the inputs do not tell the size {unknown}")
    return found.value


def _room(t: Any, sizes: Sizes) -> Array:
    """Room for a result: of a type, or of a tensor expression."""
    return np.zeros([_number(e, sizes) for e in t.shape], dt.to_numpy(t.dtype))


# --------------------------------------------------------------------------------------- values


class _Run:
    """One evaluation: the sizes, and the values found so far."""

    def __init__(self, sizes: Sizes, module: IRModule | None) -> None:
        self.sizes, self.module = sizes, module
        self.known: MutableMapping[Node, Any] = {}
        self.body: nodes.RelaxExpr | None = None

    def value(self, root: nodes.RelaxExpr) -> Evaluation:
        """The value of an expression; operands are found first, without recursion."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.known:
                stack.pop()
                continue
            missing = [c for c in self.operands(node) if c not in self.known]
            if missing:
                stack.extend(reversed(missing))
                continue
            made = self.one(node)
            self.known[node] = (yield made) if isinstance(made, GeneratorType) else made
            stack.pop()
        return self.known[root]

    def operands(self, node: nodes.RelaxExpr) -> list[nodes.RelaxExpr]:
        """What has to be known before a node is: no branch, no clause, no function's inside."""
        match node:
            case nodes.Call():
                return [*operands(node), *self.casts(node)]
            case nodes.Let(var, value, body):
                if value not in self.known:
                    return [value]
                self.known[var] = self.known[value]
                return [body]
        return operands(node)

    def casts(self, node: nodes.Call) -> list[nodes.RelaxExpr]:
        """The match_casts that introduce the sizes that a call needs, and nobody knows yet."""
        told = sizes_in(node.type) if isinstance(node.op, nodes.GlobalVar) else []
        needed = {*sizes_of(tuple(node.attrs.values())), *told} - self.sizes.keys()
        if not needed or self.body is None:
            return []
        casts = [c for c in postorder(self.body) if isinstance(c, nodes.MatchCast)]
        return [c for c in casts if free_vars(c.type) & needed]

    def cast(self, node: nodes.MatchCast) -> Any:
        """The value itself; its shape tells the sizes that nothing told before."""
        value = self.known[node.value]
        claimed = nodes.Function((nodes.Var("match_cast", node.type),), nodes.Tuple(()))
        try:
            self.sizes.update(_bind(claimed, [value], self.sizes))
        except TypeMismatch as e:
            raise TypeMismatch(
                str(e).replace("the input match_cast", "match_cast: the value")
            ) from e
        return value

    def one(self, node: nodes.RelaxExpr) -> Any:
        """The value of one node whose operands are known, or the evaluation that gives it."""
        match node:
            case nodes.Constant():
                return node.data
            case nodes.Tuple(items):
                return tuple([self.known[i] for i in items])
            case nodes.TupleGetItem(value, index):
                return self.known[value][index]
            case nodes.MatchCast():
                return self.cast(node)
            case nodes.If(condition, yes, no):
                return self.value((yes if bool(self.known[condition]) else no).body)
            case nodes.Call():
                return self.call(node)
            case nodes.Let(body=body):
                return self.known[body]
            case nodes.Function():
                return _Closure(node, self.known, self.sizes)
            case adt.Match():
                return self.match(node)
            case nodes.GlobalVar():
                return _Closure(self.looked_up(node), {}, {})
            case adt.Constructor():
                return node
            case nodes.Var():
                raise TypeMismatch(f"{node.name} is no parameter of the function")
        raise Unsupported(f"a {type(node).__name__} as a value")

    def call(self, node: nodes.Call) -> Any:
        """An operator, or a function of the module."""
        args = [None if a is None else self.known[a] for a in node.args]
        if isinstance(node.op, nodes.GlobalVar):
            return self.function(node, node.op, args)
        if isinstance(node.op, nodes.RelaxExpr):
            return _run(self.known.get(node.op, node.op), args, self.module)
        if isinstance(node.op, HostOp):
            made = HOST_OPS[node.op.name](*args, **node.attrs)
            one = isinstance(node.type, TupleType) and not isinstance(made, tuple)
            return (made,) if one else made
        if of_dialect(node.op):
            assert isinstance(node.op, GraphOp)
            return self.expanded(node, node.op, args)
        attrs = map_nodes(dict(node.attrs), lambda e: _number(e, self.sizes))
        result = evaluate_op(node.op, args, attrs)
        self.check(node, node.op.name, result)
        return result

    def expanded(self, node: nodes.Call, op: GraphOp, args: list[Any]) -> Any:
        """An operator of a dialect: what its body says."""
        run = _Run(self.sizes, self.module)
        types = [None if a is None else a.type for a in node.args]
        if op.needs or any(self.unknown(t) for t in types):
            given: list[Any] = [None if x is None else nodes.Var("x", _type_of(x)) for x in args]
            run.known.update(zip(given, args, strict=True))
            for i in op.needs:
                if i < len(args) and args[i] is not None:
                    given[i] = nodes.constant(args[i])
            return run.value(op.expand(node.replace(args=tuple(given))))
        made = op.instance(types, node.attrs)
        run.known.update(zip(made.params, args, strict=True))
        return run.value(made.body)

    def unknown(self, t: Type | None) -> bool:
        """Whether a type is not known, or has sizes that only the values tell."""
        return t is not None and (nodes.incomplete(t) or not self.sizes.keys() >= set(sizes_in(t)))

    def match(self, node: adt.Match) -> Evaluation:
        """The value of the first clause that fits."""
        for clause in node.clauses:
            bound: dict[Node, Any] = {}
            if self.fits(clause.lhs, self.known[node.data], bound):
                inner = _Run(self.sizes, self.module)
                inner.known = ChainMap(bound, self.known)
                return (yield inner.value(clause.rhs))
        raise TypeMismatch("no clause of a match fits the value")

    def fits(self, p: adt.Pattern, value: Any, bound: dict[Node, Any]) -> bool:
        """Whether a value looks like a pattern; its variables are entered."""
        if isinstance(p, adt.PatternVar):
            bound[p.var] = value
        if not isinstance(p, adt.PatternConstructor | adt.PatternTuple):
            return True
        if isinstance(p, adt.PatternConstructor) and value.tag != _tag(p.constructor, self.module):
            return False
        parts = value if isinstance(p, adt.PatternTuple) else value.fields
        return all(self.fits(i, v, bound) for i, v in zip(p.patterns, parts, strict=True))

    def looked_up(self, name: nodes.GlobalVar) -> Any:
        """A function of the module."""
        if self.module is None:
            raise TypeMismatch(f"{name.name} is called, but no module is given")
        return self.module[name]

    def function(self, node: nodes.Call, name: nodes.GlobalVar, args: list[Any]) -> Any:
        """A function of the module: a graph function, or a tensor program on fresh results."""
        callee = self.looked_up(name)
        if not isinstance(callee, PrimFunc):
            return _run(_Closure(callee, {}, {}), args, self.module)
        given = [np.array(a, order="C") for a in args if a is not None]
        types = nodes.tensor_types(node.type)
        written = node.attrs.get(nodes.INPLACE) or (-1,) * len(types)
        outs = [given[i] if i >= 0 else _room(t, self.sizes)
                for i, t in zip(written, types, strict=True)]  # fmt: skip
        fresh = [o for i, o in zip(written, outs, strict=True) if i < 0]
        run_program(callee, *given, *fresh)
        return tuple(outs) if isinstance(node.type, TupleType) else outs[0]

    def check(self, node: nodes.Call, name: str, result: Any) -> None:
        """The result has the inferred type, as far as the sizes are known."""
        if nodes.incomplete(node.type):
            return
        arrays = result if isinstance(result, tuple) else (result,)
        for t, x in zip(nodes.tensor_types(node.type), arrays, strict=True):
            want = [_number(e, self.sizes) if free_vars(e) <= self.sizes.keys() else None
                    for e in t.shape]  # fmt: skip
            pairs = zip(want, x.shape, strict=False)
            fits = len(want) == x.ndim and all(w in (None, n) for w, n in pairs)
            if not fits or dt.from_numpy(x.dtype) != t.dtype:
                raise InternalError(
                    f"interpret: {name} gave {dt.from_numpy(x.dtype)} {list(x.shape)}, "
                    f"its inferred type is {t.dtype} {want}"
                )
