"""Scheduled blocks to plain loops: buffers where they are used, no larger than needed."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.build import all_of, equal, is_const
from smelt.ir.errors import InternalError
from smelt.ir.expr import INDEX, Expr, IntImm, const
from smelt.tir import nodes as tir
from smelt.tir.facts import least, most
from smelt.tir.rewrite import Indices, loads, replace_buffers, updated
from smelt.tir.script_ops import stored

from .accesses import accesses, uses
from .carried import carries
from .first_values import start_reductions
from .lanes import every_lane
from .ranges import RangeRewriter, analyzer_for
from .remove import is_assume

ALIGNED = "buffer_dim_align"
"""A block's annotation: [[k, axis, factor, offset], ...] is about the k-th buffer it writes."""


def lower_blocks(func: tir.PrimFunc) -> tir.PrimFunc:
    """The program without blocks: inits explicit, predicates as branches, buffers compacted."""
    func = start_reductions(func)
    body = Realize(analyzer_for(func)).stmt(func.body)
    allocated = allocations(func.body)
    for buffer in allocated:
        body = _descend(body, buffer, analyzer_for(func))
    return with_aligned(func, body)


def with_aligned(func: tir.PrimFunc, body: tir.Stmt) -> tir.PrimFunc:
    """A program with another body, whose buffers have the strides that its blocks ask for."""
    asked: dict[str, list[list[int]]] = {}
    for s in tir.walk(func.body):
        if isinstance(s, tir.Block):
            written = list(dict.fromkeys(r.buffer.name for r in s.writes))
            for k, *ask in s.annotations.get(ALIGNED, ()):
                asked.setdefault(written[k], []).append(ask)
    allocated = [s.buffer for s in tir.walk(body) if isinstance(s, tir.Allocate)] if asked else []
    changes = {b: _padded(b, asked[b.name]) for b in allocated if b.name in asked}
    return func.replace(body=replace_buffers(body, changes))


def _padded(b: tir.Buffer, asked: list[list[int]]) -> tir.Buffer:
    """A buffer in row-major order with gaps: for [axis, factor, offset], the stride of a dimension
    is the next one that leaves the rest `offset` when it is divided by `factor`."""
    strides: list[Expr] = []
    step: Expr = const(1, INDEX)
    for d in reversed(range(b.rank)):
        for axis, factor, offset in asked:
            if axis == d:
                step = step + (offset - step) % factor
        strides.insert(0, step)
        step = step * b.shape[d]
    return b.replace(strides=tuple(strides))


def allocations(body: tir.Stmt) -> list[tir.Buffer]:
    """The buffers that blocks allocate, outside in."""
    blocks = [s for s in tir.walk(body) if isinstance(s, tir.Block)]
    return [b for s in blocks for b in s.alloc_buffers]


def with_init(block: tir.Block) -> tir.Stmt:
    """What a block does: its init where every reduce variable is at its first value, the body."""
    if block.init is None:
        return block.body
    first = [equal(i.var, i.dom.min) for i in block.iter_vars if i.kind == "reduce"]
    init = tir.IfThenElse(all_of(first), block.init) if first else block.init
    return tir.seq(init, block.body)


class Realize(RangeRewriter):
    """Replaces block variables by their values."""

    def visit_BlockRealize(self, s: tir.BlockRealize) -> tir.Stmt:
        """The block's body, under its predicate, behind its init."""
        block = s.block
        for iter_var, value in zip(block.iter_vars, s.values, strict=True):
            self.memo[iter_var.var] = self.analyzer.simplify(self.expr(value))
        body = self.stmt(with_init(block))
        predicate = self.expr(s.predicate)
        return body if is_const(predicate, 1) else tir.IfThenElse(predicate, body)

    def visit_Evaluate(self, s: tir.Evaluate) -> tir.Stmt:
        """What a program says of itself goes."""
        return tir.no_op() if is_assume(s) else self.parts(s)

    def visit_Block(self, s: tir.Block) -> tir.Block:
        """Blocks stand in a BlockRealize only."""
        raise InternalError(f"the block {s.name} stands outside a BlockRealize")


# ------------------------------------------------------------------------------- placement


def _descend(s: tir.Stmt, buffer: tir.Buffer, analyzer: Analyzer) -> tir.Stmt:
    """A buffer allocated around the smallest statement that holds all its uses."""
    if isinstance(s, tir.For) and s.kind not in ("vectorized", "unrolled"):
        analyzer.bind(s.var, s.min, s.extent)
        if not carries(s, buffer, analyzer):
            return s.replace(body=_descend(s.body, buffer, analyzer))
    if isinstance(s, tir.Seq):
        users = [x for x in s.stmts if uses(x, buffer)]
        if len(users) == 1:
            return tir.seq(
                *[_descend(x, buffer, analyzer) if x is users[0] else x for x in s.stmts]
            )
        if not users:
            return s
        first, last = s.stmts.index(users[0]), s.stmts.index(users[-1])
        middle = tir.seq(*s.stmts[first : last + 1])
        return tir.seq(*s.stmts[:first], _allocate(middle, buffer, analyzer), *s.stmts[last + 1 :])
    if (
        isinstance(s, tir.IfThenElse)
        and s.else_body is None
        and isinstance(s.then_body, tir.For | tir.Seq | tir.Allocate)
    ):
        return tir.IfThenElse(s.condition, _descend(s.then_body, buffer, analyzer))
    if isinstance(s, tir.Allocate):
        return s.replace(body=_descend(s.body, buffer, analyzer))
    return _allocate(s, buffer, analyzer) if uses(s, buffer) else s


def _allocate(s: tir.Stmt, buffer: tir.Buffer, analyzer: Analyzer) -> tir.Stmt:
    """The buffer shrunk to what `s` touches, with indices counted from there."""
    small, low = shrunk(s, buffer, analyzer)
    return tir.Allocate(small, Shift(buffer, small, low, analyzer).stmt(s))


def shrunk(
    s: tir.Stmt, buffer: tir.Buffer, analyzer: Analyzer
) -> tuple[tir.Buffer, tuple[Expr, ...]]:
    """A buffer of what `s` touches of another one, and where in that one it begins."""
    touched = [every_lane(a.indices, a.domains) for a in accesses(s) if a.buffer is buffer]
    stores = [(x, b) for x in tir.walk(s) for b in stored(x)]
    if any(b is buffer and isinstance(x, tir.Evaluate) for x, b in stores):
        return buffer, tuple([const(0, INDEX)] * buffer.rank)  # who has a pointer sees all of it
    changed = {b for _, b in stores}
    low: list[Expr] = []
    shape: list[Expr] = []
    for d, extent in enumerate(buffer.shape):
        found = [analyzer.interval(indices[d], domains) for indices, domains in touched]
        # a bound that data says may be another one at the next access
        bounds = [
            b
            for b in found
            if b is not None and not any(x.buffer in changed for e in b for x in loads(e))
        ]
        if len(bounds) < len(found):
            low.append(const(0, INDEX))
            shape.append(extent)
            continue
        first, last = bounds[0]
        for b in bounds[1:]:
            first = least(first, b[0], analyzer.can_prove)
            last = most(last, b[1], analyzer.can_prove)
        size = analyzer.simplify(last - first + 1)
        # a ragged tile in registers is kept whole: what is behind its edge may be computed, and
        # dropped
        whole = buffer.scope == "local" and isinstance(size, IntImm)
        if not whole and (
            loads(size)
            or (not isinstance(size, IntImm) and isinstance(extent, IntImm))
            or analyzer.can_prove(size >= extent)
        ):
            upper = analyzer.bounds(size)[1]
            if upper is not None and isinstance(extent, IntImm) and upper < extent.value:
                size = const(upper, INDEX)
            else:
                first, size = const(0, INDEX), extent
        low.append(analyzer.simplify(first))
        shape.append(size)
    small = tir.Buffer(
        buffer.name, tuple(shape), buffer.type, buffer.scope, _strides(buffer, shape, analyzer)
    )
    return small, tuple(low)


def _strides(buffer: tir.Buffer, shape: list[Expr], analyzer: Analyzer) -> tuple[Expr, ...]:
    """Dense strides for a smaller buffer whose dimensions keep their order in memory."""
    if not buffer.strides:
        return ()
    rest = list(range(len(shape)))
    strides: list[Expr] = [const(1, INDEX)] * len(shape)
    at: Expr = const(1, INDEX)
    step: Expr = const(1, INDEX)
    while rest:
        found = [
            d
            for d in reversed(rest)
            if analyzer.simplify(buffer.strides[d] - at) is const(0, INDEX)
        ]
        d = found[0] if found else rest[-1]
        rest.remove(d)
        strides[d] = step
        step = analyzer.simplify(step * shape[d])
        at = analyzer.simplify(buffer.strides[d] * buffer.shape[d])
    return tuple(strides)


class Shift(RangeRewriter):
    """Replaces a buffer by a smaller one that starts at `low`."""

    def __init__(
        self, old: tir.Buffer, new: tir.Buffer, low: tuple[Expr, ...], analyzer: Analyzer
    ) -> None:
        super().__init__(analyzer)
        self.old, self.new, self.low = old, new, low

    def moved(self, indices: Indices) -> Indices:
        """Indices counted from the beginning of the smaller buffer."""
        return tuple(
            [self.analyzer.simplify(i - low) for i, low in zip(indices, self.low, strict=True)]
        )

    def access(self, b: tir.Buffer, indices: Indices) -> tuple[tir.Buffer, Indices]:
        """An access of the old buffer becomes one of the new."""
        return (self.new, self.moved(indices)) if b is self.old else (b, indices)


def drop_empty(s: tir.Stmt) -> tir.Stmt:
    """A statement without loops and branches that do nothing."""
    match s:
        case tir.For():
            body = drop_empty(s.body)
            return tir.no_op() if tir.is_no_op(body) else updated(s, body=body)
        case tir.Seq(stmts):
            return tir.without_no_ops(s, map(drop_empty, stmts))
    return s
