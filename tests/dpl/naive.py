"""The meaning of patterns, written down as directly as can be: every way in which one fits."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import smelt.topi  # noqa: F401  (the operators)
from smelt.ir.types import TensorType, tensor_type
from smelt.relax.dpl import (
    AltPattern,
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    NotPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
    dominates,
    has_shape,
    is_constant,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from smelt.relax.nodes import (
    Call,
    Constant,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    constant,
    values,
)
from smelt.topi.registry import Op

Env = dict[DFPattern, Any]
UNARY = ("relu", "tanh", "negative")
BINARY = ("add", "multiply", "subtract", "maximum")


def ways(p: Any, e: Any, env: Env, root: RelaxExpr) -> Iterator[Env]:
    """Every assignment of values to the parts of `p` with which it fits `e`."""
    if p in env:
        if env[p] is e:
            yield env
        return
    env = {**env, p: e}
    match p:
        case WildcardPattern():
            yield env
        case ExprPattern():
            if isinstance(e, Op) and e.name == p.name:
                yield env
        case ConstantPattern():
            if isinstance(e, Constant):
                yield env
        case VarPattern():
            if isinstance(e, Var) and p.name in ("", e.name):
                yield env
        case AltPattern():
            yield from ways(p.left, e, env, root)
            yield from ways(p.right, e, env, root)
        case AndPattern():
            for found in ways(p.left, e, env, root):
                yield from ways(p.right, e, found, root)
        case NotPattern():
            if not any(True for _ in ways(p.reject, e, env, root)):
                yield env
        case AttrPattern():
            if isinstance(e, Call) and all(e.attrs.get(k) == tuple(v) for k, v in p.attrs.items()):
                yield from ways(p.pattern, e, env, root)
        case ShapePattern():
            if isinstance(e, RelaxExpr) and getattr(e.type, "fixed_shape", tuple)() == p.shape:
                yield from ways(p.pattern, e, env, root)
        case DataTypePattern():
            if isinstance(e.type, TensorType) and e.type.dtype == p.dtype:
                yield from ways(p.pattern, e, env, root)
        case TupleGetItemPattern():
            if isinstance(e, TupleGetItem) and p.index in (None, e.index):
                yield from ways(p.tuple, e.value, env, root)
        case TuplePattern():
            if isinstance(e, Tuple) and p.fields is None:
                yield env
            elif isinstance(e, Tuple) and p.fields and len(p.fields) == len(e.items):
                yield from together(list(zip(p.fields, e.items, strict=True)), env, root)
        case CallPattern():
            yield from calls(p, e, env, root)
        case DominatorPattern():
            yield from dominators(p, e, env, root)
        case _:
            raise AssertionError(p)


def together(pairs: list[tuple[Any, Any]], env: Env, root: RelaxExpr) -> Iterator[Env]:
    if not pairs:
        yield env
        return
    (p, e), *rest = pairs
    for found in ways(p, e, env, root):
        yield from together(rest, found, root)


def calls(p: CallPattern, e: Any, env: Env, root: RelaxExpr) -> Iterator[Env]:
    if not isinstance(e, Call):
        return
    if p.args is None:
        yield from ways(p.op, e.op, env, root)
        return
    orders = [e.args]
    if isinstance(e.op, Op) and e.op.commutative:
        orders.append(e.args[::-1])
    for args in orders:
        if len(args) == len(p.args):
            yield from together([(p.op, e.op), *zip(p.args, args, strict=True)], env, root)


def made_from(e: RelaxExpr) -> list[RelaxExpr]:
    match e:
        case Call():
            return [a for a in e.args if a is not None]
        case Tuple(items):
            return list(items)
        case TupleGetItem(value):
            return [value]
    return []


def dominators(p: DominatorPattern, e: Any, env: Env, root: RelaxExpr) -> Iterator[Env]:
    """Written with sets of whole ways, from the parent down and from the child up."""
    nodes = list(values(root))
    users = {n: [u for u in nodes if any(n is o for o in made_from(u))] for n in nodes}

    def all_end(n: RelaxExpr) -> bool:
        return n is e or (n is not root and all(all_end(u) for u in users[n]))

    def fits_up(n: RelaxExpr, d: RelaxExpr) -> bool:
        for o in made_from(n):
            alone = o is d or any(True for _ in ways(p.path, o, {}, root))
            if not alone or not (o is d or fits_up(o, d)):
                return False
        return True

    def above(n: RelaxExpr) -> set[RelaxExpr]:
        return {n}.union(*[above(o) for o in made_from(n)])

    for found in ways(p.child, e, env, root):
        for d in nodes:
            if d is not e and d in above(e) and all_end(d) and fits_up(e, d):
                yield from ways(p.parent, d, found, root)


# --------------------------------------------------------------------------------------- random


def random_graph(rng: random.Random, size: int = 8) -> RelaxExpr:
    """A small graph of few operators, with much sharing."""
    t = tensor_type((2,))
    pool: list[RelaxExpr] = [Var("x", t), Var("y", t), constant(np.ones(2, np.float32))]
    for _ in range(rng.randint(1, size)):
        near = pool[-4:]
        step = rng.random()
        if step < 0.4:
            pool.append(call(rng.choice(UNARY), rng.choice(near)))
        elif step < 0.85:
            pool.append(call(rng.choice(BINARY), rng.choice(near), rng.choice(near)))
        elif step < 0.93:
            pool.append(
                TupleGetItem(Tuple((rng.choice(near), rng.choice(near))), rng.randint(0, 1))
            )
        else:
            pool.append(call("strided_slice", pool[-1], axes=(0,), begin=(0,), end=(2,),
                             strides=(1,)))  # fmt: skip
    return pool[-1]


class Imitator:
    """Patterns like the values of a graph: parts left open, parts changed, objects used twice."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.made: dict[RelaxExpr, DFPattern] = {}

    def of(self, e: RelaxExpr, depth: int) -> DFPattern:
        if e in self.made and self.rng.random() < 0.6:
            return self.made[e]
        found = self.made[e] = self.varied(e, self.plain(e, depth), depth)
        return found

    def varied(self, e: RelaxExpr, p: DFPattern, depth: int) -> DFPattern:
        r = self.rng.random()
        if r < 0.06:
            return p | self.any_of(depth)
        if r < 0.12:
            return self.any_of(depth) | p
        if r < 0.16:
            return p & (wildcard() | is_var())
        if r < 0.20:
            return p & ~self.any_of(depth)
        if r < 0.24:
            return p.has_shape((2,))
        if r < 0.28:
            return p.optional(lambda x: is_op(self.rng.choice(UNARY))(x))
        if r < 0.34 and depth > 1:
            path = is_op("relu")(wildcard()) | is_op("add")(wildcard(), wildcard()) | wildcard()
            return dominates(self.any_of(depth), path.left if r < 0.31 else path, p)
        return p

    def any_of(self, depth: int) -> DFPattern:
        if self.made and self.rng.random() < 0.5:
            return self.rng.choice(list(self.made.values()))
        if self.rng.random() < 0.5:
            return is_op(self.rng.choice(UNARY))(wildcard())
        return self.rng.choice([wildcard(), is_var("x"), is_constant()])

    def plain(self, e: RelaxExpr, depth: int) -> DFPattern:
        if depth == 0 or self.rng.random() < 0.12:
            return wildcard()
        match e:
            case Call(op):
                assert isinstance(op, Op)
                name = op.name if self.rng.random() < 0.9 else self.rng.choice(BINARY)
                if self.rng.random() < 0.05:
                    return is_op(name)(None)
                args = [self.of(a, depth - 1) for a in e.args if a is not None]
                if self.rng.random() < 0.2:
                    args.reverse()
                made: DFPattern = is_op(name)(*args)
                if op.name == "strided_slice":
                    made = made.has_attr({"begin": [self.rng.choice([0, 0, 1])]})
                return made
            case Tuple(items):
                return is_tuple([self.of(i, depth - 1) for i in items])
            case TupleGetItem(value, index):
                return is_tuple_get_item(self.of(value, depth), self.rng.choice([index, None]))
            case Constant():
                return is_constant()
            case Var(name):
                return is_var(self.rng.choice([name, ""]))
        return has_shape((2,))
