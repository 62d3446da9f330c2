"""Vector statements as loops over lanes: what interpreter and C printer do with vectors.

Instructions become what they mean: their operands are stored lane by lane, the program that is
their meaning runs on them. A code generator that has a better way hands in `Direct`.
"""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir import dtype as dt
from smelt.ir.build import truncdiv, truncmod, value_of
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

from . import nodes
from .intrin.inline import Direct, element_of, inlined, innermost_call, known, lanes_buffer
from .named_calls import NAMED_CALLS
from .printer import script
from .rewrite import Rewriter, loads
from .script_ops import expr_nodes, expressions, operands


def lane(e: Expr, index: Expr, vectors: dict[Var, nodes.Buffer]) -> Expr:
    """The value of one lane. `vectors` holds the lanes of vector variables.

    index  a constant, or a loop variable: then shuffles must pick lanes in a regular way
    """
    memo: dict[Expr, Expr] = {}
    for node in expr_nodes(e) if not isinstance(e, Shuffle) else (e,):
        memo[node] = _one(node, index, vectors, memo)
    return memo[e]


def _one(e: Expr, index: Expr, vectors: dict[Var, nodes.Buffer], memo: dict[Expr, Expr]) -> Expr:
    """One lane of one node whose operands have been done."""

    def get(x: Expr) -> Expr:
        return memo[x] if x in memo else lane(x, index, vectors)

    match e:
        case Var():
            return nodes.BufferLoad(vectors[e], (index,)) if e in vectors else e
        case Ramp(base, stride, _):
            return get(base) + get(stride) * cast(base.dtype, index)
        case Broadcast(value, n):
            return get(value) if dt.lanes(value.dtype) in (1, n) else _no(e)
        case Shuffle(a, b, indices):
            at = value_of(index)
            if at is None:
                pattern = _repeats(e)
                if pattern is None:
                    return _no(e)
                start, period = pattern
                return lane(a, start + truncmod(index, period), vectors)
            source, first = indices[at], dt.lanes(a.dtype)
            if source < first:
                return lane(a, const(source, INDEX), vectors)
            return lane(b, const(source - first, INDEX), vectors)
        case Binary() | Not() | Select() | nodes.BufferLoad():
            return e.with_children(lambda c: get(c) if isinstance(c, Expr) else c)
        case Cast(kind, value):
            return Cast(dt.scalar(kind), get(value))
        case Call(kind, "reinterpret", (a,)) if dt.lanes(kind) != dt.lanes(a.dtype):
            own = index if dt.lanes(kind) > 1 else const(0, INDEX)
            whole = dt.bits(kind) * dt.lanes(kind) == dt.bits(a.dtype) * dt.lanes(a.dtype)
            return _regrouped(dt.scalar(kind), a, own, vectors) if whole else _no(e)
        case Call(kind, op, args):
            if any(dt.lanes(a.dtype) not in (1, dt.lanes(kind)) for a in args):
                return _no(e)
            return Call(dt.scalar(kind), op, tuple([get(a) for a in args]))
    return e


def _regrouped(kind: str, a: Expr, index: Expr, vectors: dict[Var, nodes.Buffer]) -> Expr:
    """One lane of a vector's bits as lanes of another size, the first ones lowest."""
    to, of = dt.bits(kind), dt.bits(a.dtype)
    wide, word = f"uint{max(to, of)}", f"uint{to}"

    def bits(x: Expr) -> Expr:
        own = f"uint{of}"
        return cast(wide, x if x.dtype == own else Call(own, "reinterpret", (x,)))

    if to > of:
        count = to // of
        total = bits(lane(a, index * count, vectors))
        for j in range(1, count):
            part = bits(lane(a, index * count + j, vectors))
            upper = Call(wide, "shift_left", (part, const(of * j, wide)))
            total = Call(wide, "bitwise_or", (total, upper))
    else:
        count = of // to
        by = cast(wide, truncmod(index, count) * to)
        whole = bits(lane(a, truncdiv(index, count), vectors))
        total = cast(word, Call(wide, "shift_right", (whole, by)))
    return total if kind == word else Call(kind, "reinterpret", (total,))


def _repeats(e: Shuffle) -> tuple[int, int] | None:
    """(s, p) where a shuffle picks lanes s, ..., s + p - 1 of its first vector, over and over."""
    start, period = e.indices[0], 1
    while period < len(e.indices) and e.indices[period] == start + period:
        period += 1
    regular = all(x == start + i % period for i, x in enumerate(e.indices))
    return (start, period) if regular and start + period <= dt.lanes(e.a.dtype) else None


def _no(e: Expr) -> Expr:
    raise Unsupported(f"{type(e).__name__} {e!r} has no meaning lane by lane")


def _lanes(*exprs: Expr) -> int:
    return max([dt.lanes(e.dtype) for e in exprs], default=1)


def _size(mask: nodes.Buffer) -> int:
    return (mask.fixed_shape() or (1,))[0]


class _Scalarize(Rewriter):
    """Replaces every vector statement by loops over its lanes."""

    def __init__(self, direct: Direct | None) -> None:
        super().__init__()
        self.direct = direct
        self.vectors: dict[Var, nodes.Buffer] = {}
        self.mask: nodes.Buffer | None = None  # the lanes that take part, below a vector condition
        self.origins: dict[nodes.Stmt, nodes.Stmt] = {}
        self.at: nodes.Stmt | None = None  # where it has come to, for errors
        self.found: dict[Expr, bool] = {}

    def special(self, root: Expr) -> bool:
        """Whether vectors or instructions stand in an expression."""
        if root not in self.found:
            for e in expr_nodes(root):
                self.found[e] = _is_special(e) or any(self.found[x] for x in operands(e))
        return self.found[root]

    def stmt(self, s: nodes.Stmt) -> nodes.Stmt:
        outer, self.at = self.at, s
        new = super().stmt(s)
        self.at = outer
        self.origins.setdefault(new, s)
        return new

    def expr(self, e: Expr) -> Expr:
        if not self.special(e):
            return e
        if innermost_call(e) is not None:
            raise Unsupported("an instruction stands in a condition or a bound; bind it first")
        return lane(e, const(0, INDEX), self.vectors) if _lanes(e) == 1 else _no(e)

    def each(
        self, count: int, exprs: tuple[Expr, ...], body: Callable[[Expr], nodes.Stmt]
    ) -> nodes.Stmt:
        """`body(lane)` for every lane: a loop, or one after another for irregular shuffles."""
        mask = self.mask

        def one(at: Expr) -> nodes.Stmt:
            return body(at) if mask is None else nodes.IfThenElse(mask[at], body(at))

        shuffles = [n for e in exprs for n in expr_nodes(e) if isinstance(n, Shuffle)]
        if any(_repeats(n) is None for n in shuffles):
            return nodes.Seq(tuple([one(const(i, INDEX)) for i in range(count)]))
        var = Var("lane", INDEX)
        return nodes.For(var, const(0, INDEX), const(count, INDEX), one(var))

    def visit_BufferStore(self, s: nodes.BufferStore) -> nodes.Stmt:
        """What is read of the buffer is known before the first lane is stored."""
        everything = [s.value, *s.indices]
        if not any(self.special(e) for e in everything):
            # below a vector condition, what every lane would store in the same place
            return s if self.mask is None else self.each(_size(self.mask), (), lambda _: s)
        for e in everything:
            call = innermost_call(e)
            if call is not None:
                return self.instruction(call, s)
        own: list[nodes.Buffer] = []
        before: list[nodes.Stmt] = []
        for n, e in enumerate(everything):
            if any(load.buffer is s.buffer for load in loads(e)):
                own.append(lanes_buffer("lanes", e.dtype))
                before.append(self.fill(own[-1], e))
                everything[n] = self.of_lanes(own[-1], e)
        value, *indices = everything

        def store(at: Expr) -> nodes.Stmt:
            target = tuple([lane(i, at, self.vectors) for i in indices])
            return nodes.BufferStore(s.buffer, lane(value, at, self.vectors), target)

        return _allocated(own, *before, self.each(_lanes(*everything), tuple(everything), store))

    def of_lanes(self, own: nodes.Buffer, e: Expr) -> Expr:
        """What stands for an expression whose lanes are in a buffer."""
        if dt.lanes(e.dtype) == 1:
            return own[0]
        made = Var(own.name, e.dtype)
        self.vectors[made] = own
        return made

    def visit_LetStmt(self, s: nodes.LetStmt) -> nodes.Stmt:
        """A vector variable is a buffer of its lanes."""
        call = innermost_call(s.value)
        if call is not None:
            return self.instruction(call, s)
        if _lanes(s.var) == 1:
            return super().visit_LetStmt(s)
        own = lanes_buffer(s.var.name, s.var.type)
        fill = self.fill(own, s.value)
        self.vectors[s.var] = own
        return _allocated([own], fill, self.stmt(s.body))

    def visit_IfThenElse(self, s: nodes.IfThenElse) -> nodes.Stmt:
        """A vector condition decides for every lane by itself; it is evaluated once."""
        count, outer = _lanes(s.condition), self.mask
        if count == 1:
            return super().visit_IfThenElse(s)
        mask, rest = [lanes_buffer(n, dt.vector("bool", count)) for n in ("mask", "rest")]

        def put(at: Expr, yes: Expr, no: Expr) -> nodes.Stmt:
            values = ((mask, yes), (rest, no))
            return nodes.Seq(tuple([nodes.BufferStore(b, v, (at,)) for b, v in values]))

        def decide(at: Expr) -> nodes.Stmt:
            return put(at, lane(s.condition, at, self.vectors), Not(mask[at]))

        off = const(False, "bool")
        self.mask = None
        empty = self.each(count, (), lambda at: put(at, off, off))
        self.mask = outer
        parts = [empty, self.each(count, (s.condition,), decide)]
        for own, body in ((mask, s.then_body), (rest, s.else_body)):
            if body is not None:
                self.mask = own
                parts.append(self.stmt(body))
        self.mask = outer
        return _allocated([mask, rest], *parts)

    def visit_Evaluate(self, s: nodes.Evaluate) -> nodes.Stmt:
        """A vector that is evaluated for nothing."""
        call = innermost_call(s.value)
        if call is not None:
            return self.instruction(call, s)
        if _lanes(s.value) == 1:
            return s
        return self.each(
            _lanes(s.value), (s.value,), lambda at: nodes.Evaluate(lane(s.value, at, self.vectors))
        )

    # --------------------------------------------------------------------------- instructions

    def instruction(
        self, e: Call, s: nodes.BufferStore | nodes.LetStmt | nodes.Evaluate
    ) -> nodes.Stmt:
        """A statement behind one of the instructions that it calls."""
        made = known(e)
        if self.mask is not None:
            raise Unsupported(f"{made.name} stands under a condition on lanes")
        before: list[nodes.Stmt] = []
        places: list[Expr] = []
        own: list[nodes.Buffer] = []
        for p, a in zip(made.operands, e.args[1:], strict=True):
            place = a if isinstance(p, Var) else self.in_memory(a)
            if place is None:
                own.append(lanes_buffer(p.name, a.dtype))
                before.append(self.fill(own[-1], a))
                place = own[-1][0]
            places.append(place)
        if self.direct is not None and isinstance(s, nodes.BufferStore) and s.value is e:
            target = element_of(nodes.BufferLoad(s.buffer, s.indices))
            if target is not None:
                return _allocated(own, *before, self.direct(made, places, target))
        own.append(lanes_buffer("r", e.type))
        if self.direct is not None:
            before.append(self.direct(made, places, own[-1][0]))
        else:
            before.append(inlined(made, places, own[-1]))
        rest = Rewriter()
        rest.memo[e] = self.of_lanes(own[-1], e)
        return _allocated(own, *before, self.stmt(_with_exprs(s, rest)))

    def in_memory(self, a: Expr) -> nodes.BufferLoad | None:
        """Where an operand lies already, if it lies anywhere as an instruction wants it."""
        if isinstance(a, Var) and a in self.vectors:
            return self.vectors[a][0]
        return element_of(a)

    def fill(self, own: nodes.Buffer, a: Expr) -> nodes.Stmt:
        """Every lane of a value into a buffer."""

        def put(at: Expr) -> nodes.Stmt:
            return nodes.BufferStore(own, lane(a, at, self.vectors), (at,))

        return put(const(0, INDEX)) if _size(own) == 1 else self.each(_size(own), (a,), put)


def _is_special(e: Expr) -> bool:
    """Whether an expression is a vector or an instruction, whatever its operands are."""
    if isinstance(e, Var | Ramp | Broadcast | Shuffle):
        return _lanes(e) > 1
    return isinstance(e, Call) and e.op in NAMED_CALLS


def _with_exprs(s: nodes.BufferStore | nodes.LetStmt | nodes.Evaluate, r: Rewriter) -> nodes.Stmt:
    """A statement with its own expressions rewritten; a binding's body stays."""
    if isinstance(s, nodes.LetStmt):
        return nodes.LetStmt(s.var, r.expr(s.value), s.body)
    return r.stmt(s)


def _allocated(buffers: list[nodes.Buffer], *stmts: nodes.Stmt) -> nodes.Stmt:
    """Statements with local buffers around them."""
    body = nodes.seq(*stmts)
    for b in reversed(buffers):
        body = nodes.Allocate(b, body)
    return body


def scalarize(func: nodes.PrimFunc, direct: Direct | None = None) -> nodes.PrimFunc:
    """A program without vectors that does the same.

    direct  how instructions are written; None: as what they mean
    """
    return scalarized(func, direct)[0]


def scalarized(
    func: nodes.PrimFunc, direct: Direct | None = None
) -> tuple[nodes.PrimFunc, dict[nodes.Stmt, nodes.Stmt]]:
    """A program without vectors, and the statement that each of its statements stands for.

    Loops over lanes are not in the table; it is empty where nothing had to be done.
    """
    if not any(_is_special(e) for e in expressions(*nodes.walk(func.body))):
        return func, {}
    rewriter = _Scalarize(direct)
    try:
        return func.replace(body=rewriter.stmt(func.body)), rewriter.origins
    except Unsupported as e:
        marked = script(func, {} if rewriter.at is None else {rewriter.at: "here"})
        raise Unsupported(f"{func.name}: {e}\n{marked}") from None
