"""Vector statements as loops over lanes: what interpreter and C printer do with vectors."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import Unsupported
from smelt.ir.expr import (
    INDEX,
    Binary,
    Broadcast,
    Call,
    Cast,
    Expr,
    Not,
    Ramp,
    Select,
    Shuffle,
    Var,
    cast,
    const,
)

from .nodes import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
)
from .rewrite import Rewriter
from .script_ops import expr_nodes

__all__ = ["lane", "scalarize"]


def lane(e: Expr, index: Expr, vectors: dict[Var, Buffer]) -> Expr:
    """The value of one lane. `vectors` holds the lanes of vector variables.

    index  a constant, or (where nothing is shuffled) a loop variable
    """
    memo: dict[Expr, Expr] = {}
    for node in expr_nodes(e) if not isinstance(e, Shuffle) else (e,):
        memo[node] = _one(node, index, vectors, memo)
    return memo[e]


def _one(e: Expr, index: Expr, vectors: dict[Var, Buffer], memo: dict[Expr, Expr]) -> Expr:
    """One lane of one node whose operands have been done."""

    def get(x: Expr) -> Expr:
        return memo[x] if x in memo else lane(x, index, vectors)

    match e:
        case Var():
            return BufferLoad(vectors[e], (index,)) if e in vectors else e
        case Ramp(base, stride, _):
            return get(base) + get(stride) * cast(base.dtype, index)
        case Broadcast(value, n):
            return get(value) if dt.lanes(value.dtype) in (1, n) else _no(e)
        case Shuffle(a, b, indices):
            at = value_of(index)
            if at is None:
                return _no(e)
            source, first = indices[at], dt.lanes(a.dtype)
            if source < first:
                return lane(a, const(source, INDEX), vectors)
            return lane(b, const(source - first, INDEX), vectors)
        case Binary(a, b):
            return type(e)(get(a), get(b))
        case Not(a):
            return Not(get(a))
        case Select(c, a, b):
            return Select(get(c), get(a), get(b))
        case Cast(kind, value):
            return Cast(dt.scalar(kind), get(value))
        case Call(kind, op, args):
            if any(dt.lanes(a.dtype) not in (1, dt.lanes(kind)) for a in args):
                return _no(e)
            return Call(dt.scalar(kind), op, tuple([get(a) for a in args]))
        case BufferLoad(buffer, indices):
            return BufferLoad(buffer, tuple([get(i) for i in indices]))
    return e


def _no(e: Expr) -> Expr:
    raise Unsupported(f"{type(e).__name__} {e!r} has no meaning lane by lane")


def _lanes(*exprs: Expr) -> int:
    return max([dt.lanes(e.dtype) for e in exprs], default=1)


def _size(mask: Buffer) -> int:
    return (mask.fixed_shape() or (1,))[0]


class _Scalarize(Rewriter):
    """Replaces every vector statement by loops over its lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors: dict[Var, Buffer] = {}
        self.mask: Buffer | None = None  # the lanes that take part, below a vector condition

    def expr(self, e: Expr) -> Expr:
        if any(
            isinstance(n, Var | Ramp | Broadcast | Shuffle) and _lanes(n) > 1 for n in expr_nodes(e)
        ):
            return _no(e)
        return e

    def each(self, count: int, exprs: tuple[Expr, ...], body: Callable[[Expr], Stmt]) -> Stmt:
        """`body(lane)` for every lane: a loop, or one after another where lanes are shuffled."""
        mask = self.mask

        def turn(at: Expr) -> Stmt:
            return body(at) if mask is None else IfThenElse(mask[at], body(at))

        if any(isinstance(n, Shuffle) for e in exprs for n in expr_nodes(e)):
            return Seq(tuple([turn(const(i, INDEX)) for i in range(count)]))
        var = Var("lane", INDEX)
        return For(var, const(0, INDEX), const(count, INDEX), turn(var))

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        """All lanes of the value are known before the first is stored."""
        count = _lanes(s.value, *s.indices)
        if count == 1 and not any(
            _lanes(n) > 1 for e in (s.value, *s.indices) for n in expr_nodes(e)
        ):
            # below a vector condition, what every lane would store in the same place
            return s if self.mask is None else self.each(_size(self.mask), (), lambda _: s)

        def pick(e: Expr, at: Expr) -> Expr:
            return lane(e, at, self.vectors)

        def target(at: Expr) -> tuple[Expr, ...]:
            return tuple([pick(i, at) for i in s.indices])

        everything = (s.value, *s.indices)
        if not any(
            isinstance(n, BufferLoad) and n.buffer is s.buffer
            for e in everything
            for n in expr_nodes(e)
        ):
            return self.each(
                count, everything, lambda at: BufferStore(s.buffer, pick(s.value, at), target(at))
            )
        whole = Buffer("lanes", (const(count, INDEX),), s.buffer.type, "local")
        return Allocate(
            whole,
            Seq(
                (
                    self.each(
                        count, everything, lambda at: BufferStore(whole, pick(s.value, at), (at,))
                    ),
                    self.each(
                        count, everything, lambda at: BufferStore(s.buffer, whole[at], target(at))
                    ),
                )
            ),
        )

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        """A vector variable is a buffer of its lanes."""
        count = _lanes(s.var)
        if count == 1:
            return super().visit_LetStmt(s)
        own = Buffer(s.var.name, (const(count, INDEX),), dt.scalar(s.var.type), "local")
        fill = self.each(
            count, (s.value,), lambda at: BufferStore(own, lane(s.value, at, self.vectors), (at,))
        )
        self.vectors[s.var] = own
        return Allocate(own, Seq((fill, self.stmt(s.body))))

    def visit_IfThenElse(self, s: IfThenElse) -> Stmt:
        """A vector condition decides for every lane by itself; it is evaluated once."""
        count, outer = _lanes(s.condition), self.mask
        if count == 1:
            return super().visit_IfThenElse(s)
        mask, rest = (Buffer(n, (const(count, INDEX),), "bool", "local") for n in ("mask", "rest"))

        def decide(at: Expr) -> Stmt:
            c = lane(s.condition, at, self.vectors)
            return Seq((BufferStore(mask, c, (at,)), BufferStore(rest, Not(mask[at]), (at,))))

        off = const(False, "bool")
        self.mask = None
        empty = self.each(
            count,
            (),
            lambda at: Seq((BufferStore(mask, off, (at,)), BufferStore(rest, off, (at,)))),
        )
        self.mask = outer
        parts = [empty, self.each(count, (s.condition,), decide)]
        for own, body in ((mask, s.then_body), (rest, s.else_body)):
            if body is not None:
                self.mask = own
                parts.append(self.stmt(body))
        self.mask = outer
        return Allocate(mask, Allocate(rest, Seq(tuple(parts))))

    def visit_Evaluate(self, s: Evaluate) -> Stmt:
        """A vector that is evaluated for nothing."""
        if _lanes(s.value) == 1:
            return s
        return self.each(
            _lanes(s.value), (s.value,), lambda at: Evaluate(lane(s.value, at, self.vectors))
        )


def scalarize(func: PrimFunc) -> PrimFunc:
    """A program without vectors that does the same."""
    return func.replace(body=_Scalarize().stmt(func.body))
