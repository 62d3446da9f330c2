"""The meaning of graph programs: an interpreter in numpy, the oracle of every pass.

    y, = interpret(function, x)

Every operator has an implementation of its own in `numpy_ops*.py`, written from its definition and
never through tensor expressions. Symbolic sizes are bound from the inputs, and every result is
compared with the type that was inferred for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import InternalError, TypeMismatch, Unsupported
from smelt.ir.expr import Expr, IntImm, const
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import TensorType, TupleType, Type, tensor_type
from smelt.ir.walk import free_vars, substitute
from smelt.te.prim_func import create_prim_func
from smelt.tir.interpret import interpret as run_program
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Op

from . import numpy_ops_move, numpy_ops_nn
from .nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
)  # fmt: skip
from .numpy_ops import NUMPY_OPS, Array

__all__ = ["evaluate_op", "interpret"]

ROOMS = (numpy_ops_move, numpy_ops_nn)
"""Imported for the operators that they enter into NUMPY_OPS."""

Sizes = dict[SizeVar, Expr]


def interpret(function: Function, *inputs: Any, module: IRModule | None = None) -> list[Array]:
    """The results of a graph function.

    inputs  arrays, one per parameter
    module  where calls of other functions and tensor programs look them up
    """
    arrays = [np.asarray(x) for x in inputs]
    if len(arrays) != len(function.params):
        names = ", ".join([p.name for p in function.params])
        raise TypeMismatch(
            f"the function takes {len(function.params)} inputs ({names}), {len(arrays)} given"
        )
    run = _Run(_bind(function, arrays), module)
    for p, x in zip(function.params, arrays, strict=True):
        run.known[p] = x
    with np.errstate(all="ignore"):
        result = run.value(function.body)
    return list(result) if isinstance(result, tuple) else [result]


def evaluate_op(op: Op, args: Iterable[Array | None], attrs: Mapping[str, Any]) -> Any:
    """One operator in numpy: an array, or a tuple where it has several results."""
    fn = NUMPY_OPS.get(op.name)
    if fn is None and op.custom:
        return _by_definition(op, list(args), attrs)
    if fn is None:
        raise Unsupported(f"{op.name} has no implementation in numpy")
    result = fn(*args, **op.normalize(attrs))
    return result if isinstance(result, tuple) else np.asarray(result)


def _by_definition(op: Op, args: list[Array | None], attrs: Mapping[str, Any]) -> Any:
    """A user's own operator has one definition only: its tensor expression, interpreted."""
    types = [
        None if a is None else tensor_type(a.shape, dt.from_numpy(np.asarray(a).dtype))
        for a in args
    ]
    made = op.instance(types, op.normalize(attrs))
    inputs = [t for t in made.inputs if t is not None]
    known = dict(zip(inputs, [np.array(a, order="C") for a in args if a is not None], strict=True))
    outputs = [t for t in dict.fromkeys(made.outputs) if t not in known]
    results = {
        t: np.zeros([_number(e, {}) for e in t.shape], dt.to_numpy(t.dtype)) for t in outputs
    }
    if outputs:
        program = create_prim_func([*inputs, *outputs], op.name)
        run_program(program, *known.values(), *results.values())
    found = [known[t] if t in known else results[t] for t in made.outputs]
    return tuple(found) if len(found) > 1 else found[0]


# ---------------------------------------------------------------------------------------- sizes


def _bind(function: Function, arrays: list[Array]) -> Sizes:
    """The symbolic sizes that the inputs' shapes show; other extents have to agree with them."""
    sizes: Sizes = {}
    types = [p.type for p in function.params]
    for p, t, x in zip(function.params, types, arrays, strict=True):
        if not isinstance(t, TensorType):
            raise Unsupported(f"the input {p.name} is a tuple")
        if x.ndim != t.rank or dt.from_numpy(x.dtype) != t.dtype:
            raise TypeMismatch(
                f"the input {p.name} is {t.dtype} with {t.rank} dimensions; "
                f"{dt.from_numpy(x.dtype)} with {x.ndim} given"
            )
        for e, n in zip(t.shape, x.shape, strict=True):
            if isinstance(e, SizeVar):
                sizes.setdefault(e, const(n))
    for p, t, x in zip(function.params, types, arrays, strict=True):
        assert isinstance(t, TensorType)
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


def _plain(value: Any, sizes: Sizes) -> Any:
    """An attribute with its expressions evaluated."""
    if isinstance(value, Expr):
        return _number(value, sizes)
    if isinstance(value, tuple):
        return tuple([_plain(v, sizes) for v in value])
    return value


# --------------------------------------------------------------------------------------- values


class _Run:
    """One evaluation: the sizes, and the values found so far."""

    def __init__(self, sizes: Sizes, module: IRModule | None) -> None:
        self.sizes, self.module = sizes, module
        self.known: dict[Node, Any] = {}

    def value(self, root: RelaxExpr) -> Any:
        """The value of an expression; operands are found first, without recursion."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.known:
                stack.pop()
                continue
            missing = [c for c in _operands(node) if c not in self.known]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.known[node] = self.one(node)
            stack.pop()
        return self.known[root]

    def one(self, node: RelaxExpr) -> Any:
        """The value of one node whose operands are known."""
        match node:
            case Constant():
                return node.data
            case Tuple(items):
                return tuple([self.known[i] for i in items])
            case TupleGetItem(value, index):
                return self.known[value][index]
            case If(condition, yes, no):
                return self.value((yes if bool(self.known[condition]) else no).body)
            case Call():
                return self.call(node)
            case Var():
                raise TypeMismatch(f"{node.name} is no parameter of the function")
        raise Unsupported(f"a {type(node).__name__} as a value")

    def call(self, node: Call) -> Any:
        """An operator, or a function of the module."""
        args = [None if a is None else self.known[a] for a in node.args]
        if isinstance(node.op, GlobalVar):
            return self.function(node, node.op, args)
        attrs = {k: _plain(v, self.sizes) for k, v in node.attrs.items()}
        result = evaluate_op(node.op, args, attrs)
        self.check(node, node.op.name, result)
        return result

    def function(self, node: Call, name: GlobalVar, args: list[Any]) -> Any:
        """A function of the module: a graph function, or a tensor program on fresh results."""
        if self.module is None:
            raise TypeMismatch(f"{name.name} is called, but no module is given")
        callee = self.module[name]
        if not isinstance(callee, PrimFunc):
            results = interpret(callee, *args, module=self.module)
            return tuple(results) if isinstance(callee.body, Tuple) else results[0]
        types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
        outs = [self.empty(t) for t in types]
        given = [np.array(a, order="C") for a in args if a is not None]
        run_program(callee, *given, *outs)
        return tuple(outs) if isinstance(node.type, TupleType) else outs[0]

    def empty(self, t: Type) -> Array:
        """Room for a result."""
        assert isinstance(t, TensorType)
        return np.zeros([_number(e, self.sizes) for e in t.shape], dt.to_numpy(t.dtype))

    def check(self, node: Call, name: str, result: Any) -> None:
        """The result has the inferred type, as far as the sizes are known."""
        types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
        arrays = result if isinstance(result, tuple) else (result,)
        for t, x in zip(types, arrays, strict=True):
            assert isinstance(t, TensorType)
            known = [free_vars(e) <= self.sizes.keys() for e in t.shape]
            want = [_number(e, self.sizes) if k else None
                    for e, k in zip(t.shape, known, strict=True)]  # fmt: skip
            fits = len(want) == x.ndim and all(
                w in (None, n) for w, n in zip(want, x.shape, strict=True)
            )
            if not fits or dt.from_numpy(x.dtype) != t.dtype:
                raise InternalError(
                    f"interpret: {name} gave {dt.from_numpy(x.dtype)} {list(x.shape)}, "
                    f"its inferred type is {t.dtype} {want}"
                )


def _operands(node: RelaxExpr) -> list[RelaxExpr]:
    """What has to be known before a node is evaluated: of an If only the condition."""
    match node:
        case If(condition):
            return [condition]
        case Call():
            return [a for a in node.args if a is not None]
        case Tuple(items):
            return list(items)
        case TupleGetItem(value):
            return [value]
    return []
