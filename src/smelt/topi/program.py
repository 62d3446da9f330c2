"""Bodies that are statements: what an expression for each element cannot say, such as a sort.

    program([x.shape], [x.dtype], [x], body, "sort")

`body` gets the buffers of the results and returns a statement, written with the functions below.
Such an operator is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.build import all_of, value_of
from smelt.ir.build import product as product
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, cast, const, convert
from smelt.te.tensor import Tensor, extern
from smelt.tir.facts import Facts
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Range,
    Stmt,
)
from smelt.tir.nodes import seq as seq
from smelt.tir.regions import full, refresh_regions
from smelt.tir.rewrite import map_stmts

from .common import digits

VECTOR = 8
"""Elements that are copied at once."""
WORTH_SHARING = 1 << 14
"""Steps from which on a loop is shared out among processors."""


def program(
    shapes: Sequence[Sequence[ExprLike]], dtypes: Sequence[str], inputs: Sequence[Tensor],
    body: Callable[..., Stmt], name: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The results that a statement writes, one for each shape and type.

    body  of the results; blocks that list no regions read all operands and results
    """

    def statement(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        read, written = (tuple([full(t) for t in group]) for group in ((*ins, *outs), outs))

        def touching(b: Block) -> Stmt:
            return b if b.reads or b.writes else b.replace(reads=read, writes=written)

        return map_stmts(body(*outs), Block, touching)

    made = extern([list(s) for s in shapes], inputs, statement, name, list(dtypes))
    return tuple(made)


def store(buffer: Buffer, indices: Sequence[ExprLike], value: ExprLike) -> Stmt:
    """buffer[indices] = value."""
    return BufferStore(
        buffer, convert(value, buffer.dtype), tuple([convert(i, INDEX) for i in indices])
    )


def add_to(buffer: Buffer, indices: Sequence[ExprLike], value: ExprLike) -> Stmt:
    """buffer[indices] += value."""
    at = tuple([convert(i, INDEX) for i in indices])
    return store(buffer, at, BufferLoad(buffer, at) + value)


def loop(
    extent: ExprLike, body: Callable[[Expr], Stmt], name: str = "i", kind: str = "serial"
) -> Stmt:
    """The body for every index below `extent`."""
    v = Var(name)
    return For(v, const(0, INDEX), convert(extent, INDEX), body(v), kind)


def loops(extents: Sequence[ExprLike], body: Callable[[tuple[Expr, ...]], Stmt]) -> Stmt:
    """The body for every point of a box, in row-major order."""
    point = tuple([Var(f"i{d}") for d in range(len(extents))])
    return _nested(point, extents, body(point))


def _nested(
    point: Sequence[Var], extents: Sequence[ExprLike], stmt: Stmt, kind: str = "serial"
) -> Stmt:
    """Loops around a statement, the first one outermost and of a kind."""
    for v, e in reversed(list(zip(point, extents, strict=True))):
        own = kind if v is point[0] else "serial"
        stmt = For(v, const(0, INDEX), convert(e, INDEX), stmt, own)
    return stmt


def rows(shape: Sequence[Expr], one: Callable[[tuple[Expr, ...]], Stmt], outer: int = 0) -> Stmt:
    """The body for every point of a box, several along the last dimension at once where its extent
    is a multiple of a vector.

    outer  how many loops are shared out among processors where that is known to be worth it
    """
    last, work = value_of(shape[-1]) if shape else None, value_of(product(shape))
    kind = "serial" if work is None else sharing(const(work, INDEX))

    def row(i: tuple[Expr, ...]) -> Stmt:
        return loop(VECTOR, lambda j: one((*i[:-1], i[-1] * VECTOR + j)), "lane", "vectorized")

    whole = last is not None and last % VECTOR == 0
    extents: list[ExprLike] = [*shape]
    if whole and last is not None:
        extents[-1] = last // VECTOR
    point = tuple([Var(f"i{d}") for d in range(len(extents))])
    inner = _nested(point[outer:], extents[outer:], (row if whole else one)(point))
    for v, e in reversed(list(zip(point[:outer], extents, strict=False))):
        inner = For(v, const(0, INDEX), convert(e, INDEX), inner, kind)
    return inner


def copied(source: Tensor, target: Tensor) -> Stmt:
    """All elements of one tensor in another of the same shape, converted to its type."""
    return rows(source.shape, lambda i: store(target, i, cast(target.dtype, source[tuple(i)])))


def filled_with(target: Tensor, value: Expr) -> Stmt:
    """One value everywhere."""
    return loops(target.shape, lambda i: store(target, i, value))


def cleared(*tensors: Tensor) -> list[Stmt]:
    """0 everywhere."""
    return [filled_with(t, const(0, t.dtype)) for t in tensors]


def when(condition: ExprLike, then: Stmt, other: Stmt | None = None) -> Stmt:
    """A branch."""
    return IfThenElse(convert(condition), then, other)


def let(value: Expr, body: Callable[[Expr], Stmt], name: str = "v") -> Stmt:
    """The body with a value that is computed once."""
    v = Var(name, value.dtype)
    return LetStmt(v, value, body(v))


def lets(values: Sequence[Expr], body: Callable[[list[Expr]], Stmt]) -> Stmt:
    """The body with values that are each computed once."""
    if not values:
        return body([])
    return let(values[0], lambda first: lets(values[1:], lambda rest: body([first, *rest])))


def inside(index: Expr, extent: ExprLike, act: Callable[[Expr], Stmt], name: str) -> Stmt:
    """What is done with an index, if it is one of a dimension."""
    at = cast(INDEX, index)
    return when(all_of(at >= 0, at < extent), let(at, act, name))


class Cell:
    """A number that a program changes: a buffer of one element."""

    def __init__(self, dtype: str = INDEX, name: str = "cell") -> None:
        """Make the buffer; `iterations` says where it lives."""
        self.buffer = Buffer(name, (const(1, INDEX),), dtype, "local")

    @property
    def value(self) -> Expr:
        """What the cell holds now."""
        return BufferLoad(self.buffer, (const(0, INDEX),))

    def set(self, value: ExprLike) -> Stmt:
        """cell = value."""
        return store(self.buffer, (0,), value)


def loop_nest(
    extents: Sequence[ExprLike], cells: Sequence[Cell], body: Callable[[tuple[Expr, ...]], Stmt],
    kind: str = "serial", name: str = "turn",
) -> Stmt:  # fmt: skip
    """The body for every point of a box, each time with cells of its own.

    kind  of the outermost loop
    """
    sizes = [convert(e, INDEX) for e in extents]
    outer = [Var(f"{name}{d}") for d in range(len(sizes))]
    own = [IterVar(Var(f"v_{v.name}"), Range(const(0, INDEX), e), "spatial")
           for v, e in zip(outer, sizes, strict=True)]  # fmt: skip
    inner = body(tuple([i.var for i in own]))
    block = Block(name, tuple(own), (), (), inner, None, tuple([c.buffer for c in cells]))
    return _nested(outer, sizes, BlockRealize(tuple(outer), const(True), block), kind)


def once(cells: Sequence[Cell], *statements: Stmt) -> Stmt:
    """Statements one after another, with cells."""
    return loop_nest([], cells, lambda _: seq(*statements))


def scratch(shape: Sequence[Expr], dtype: str, name: str) -> Buffer:
    """A buffer that a program keeps to itself; `steps` says where it lives."""
    return Buffer(name, tuple(shape), dtype)


def block(
    name: str, extents: Sequence[ExprLike], body: Callable[..., Stmt], *, iterations: ExprLike = 1,
    start: Callable[..., Stmt] | None = None,
) -> Stmt:  # fmt: skip
    """The body for every point of a box, as a block that the rules can schedule.

    extents  of the box; the body gets a variable for each
    start    what begins a sum: the body then has a further, last variable below `iterations`
    """
    sizes = [convert(e, INDEX) for e in (*extents, *([] if start is None else [iterations]))]
    outer = [Var(f"{name}_{d}") for d in range(len(sizes))]
    kinds = ["spatial"] * len(extents) + ["reduce"] * (start is not None)
    own = [IterVar(Var(f"v_{v.name}"), Range(const(0, INDEX), e), k)
           for v, e, k in zip(outer, sizes, kinds, strict=True)]  # fmt: skip
    point = [i.var for i in own]
    inner = body(*point)
    init = None if start is None else start(*point[: len(extents)])
    made = Block(name, tuple(own), (), (), inner, init)
    made = refresh_regions(Facts(PrimFunc((), made)), made)
    return _nested(outer, sizes, BlockRealize(tuple(outer), const(True), made))


def summed(
    target: Buffer, extents: Sequence[ExprLike], iterations: ExprLike, term: Callable[..., Expr],
    name: str,
) -> Stmt:  # fmt: skip
    """target[point] = the sum of term(*point, k) over k below `iterations`, as a block."""

    def add(*point: Expr) -> Stmt:
        at = point[:-1]
        return store(target, at, BufferLoad(target, at) + term(*point))

    zero = const(0.0, target.dtype)
    return block(
        name, extents, add, iterations=iterations, start=lambda *point: store(target, point, zero)
    )


def steps(
    count: ExprLike, own: Sequence[Buffer], body: Callable[[Expr], Stmt], name: str = "step"
) -> Stmt:
    """The body once for each index, strictly in this order: a recurrence.

    own  buffers that live in one step
    """
    at = Var(name)
    mine = IterVar(Var(f"v_{name}"), Range(const(0, INDEX), convert(count, INDEX)), "opaque")
    inner = Block(name, (mine,), (), (), body(mine.var), None, tuple(own))
    return For(at, const(0, INDEX), convert(count, INDEX), BlockRealize((at,), const(True), inner))


def sharing(work: Expr) -> str:
    """The kind of loop for so many steps."""
    steps = value_of(work)
    return "serial" if steps is not None and steps < WORTH_SHARING else "parallel"


class Lanes:
    """The lanes of a tensor along one axis: every index of the other dimensions is a lane.

    count  of lanes
    size   elements of a lane
    """

    def __init__(self, shape: Sequence[Expr], axis: int) -> None:
        """The tensor's shape, and the axis counted from the front."""
        self.axis, self.shape = axis, tuple(shape)
        self.others = [e for d, e in enumerate(shape) if d != axis]
        self.count, self.size = product(self.others), shape[axis]

    def each(self, cells: Sequence[Cell], body: Callable[[Expr], Stmt], steps: int = 1) -> Stmt:
        """The body for every lane, in parallel where that is worth it.

        steps  how much work an element is
        """
        kind = sharing(self.count * self.size * steps)
        return loop_nest([self.count], cells, lambda i: body(i[0]), kind, "lane")

    def at(self, lane: Expr, place: ExprLike) -> tuple[Expr, ...]:
        """The index in the tensor of an element of a lane."""
        index = digits(lane, self.others)
        index.insert(self.axis, convert(place, INDEX))
        return tuple(index)
