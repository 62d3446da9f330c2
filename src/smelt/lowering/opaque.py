"""From blocks to loops in the classic single steps. `lower_blocks` does them all at once.

lower_init_blocks         inits become branches
plan_buffer_locations     buffers live in the smallest loop body or block that holds all uses
convert_blocks_to_opaque  block variables become loop expressions
compact_buffers           buffers shrink to what is touched
lower_opaque_blocks       blocks go
"""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.build import is_const
from smelt.ir.errors import CompileError
from smelt.ir.expr import const
from smelt.tir import nodes as tir
from smelt.tir.facts import Facts
from smelt.tir.names import unique_name
from smelt.tir.regions import accesses, refresh_regions
from smelt.tir.rewrite import Rewriter, map_stmts
from smelt.tir.threads import around_uses

from .accesses import uses
from .blocks import Realize, Shift, allocations, shrunk, with_aligned, with_init
from .carried import carries
from .overlap import DOUBLE_BUFFER
from .ranges import RangeRewriter, analyzer_for

# --------------------------------------------------------------------------------------- inits


def lower_init_blocks(func: tir.PrimFunc) -> tir.PrimFunc:
    """with T.init(): S   ->   if every reduce variable is at its first value: S.

    A reduction's own result counts as read from here on: nothing else says that it is one.
    """
    facts = Facts(func)

    def explicit(s: tir.Block) -> tir.Stmt:
        if s.init is None:
            return s
        new = s.replace(init=None, body=with_init(s))
        declared = {r.buffer for r in new.reads}
        more = [r for r in accesses(facts, new)[0] if r.buffer not in declared]
        return new.replace(reads=(*more, *new.reads))

    body = map_stmts(func.body, tir.Block, explicit)
    return func if body is func.body else func.replace(body=body)


# ------------------------------------------------------------------------------- opaque blocks


class _Opaque(RangeRewriter):
    """Replaces block variables by their values, and leaves the blocks."""

    def visit_BlockRealize(self, s: tir.BlockRealize) -> tir.Stmt:
        for i, value in s.bindings:
            if s.block.init is not None and i.kind == "reduce":
                raise CompileError(
                    f"ConvertBlocksToOpaque: the block {s.block.name} has an init, whose "
                    f"condition needs the variable {i.var.name}; LowerInitBlock comes first"
                )
            self.memo[i.var] = self.analyzer.simplify(self.expr(value))
        predicate = self.expr(s.predicate)
        block = Rewriter.visit_Block(self, s.block.replace(iter_vars=()))
        return tir.BlockRealize((), predicate, block)


def convert_blocks_to_opaque(func: tir.PrimFunc) -> tir.PrimFunc:
    """Blocks without variables: what they stand for is written where they stood."""
    return func.replace(body=_Opaque(analyzer_for(func)).stmt(func.body))


# ----------------------------------------------------------------------------------- locations


def plan_buffer_locations(func: tir.PrimFunc) -> tir.PrimFunc:
    """Intermediate buffers move into the smallest block or loop body that holds all their uses.

    A loop's body that is no block becomes one. A buffer in which the iterations of a loop may hand
    on values stays outside of that loop.
    """
    for buffer in allocations(func.body):
        func = _moved_in(func, buffer)
    return func


def _moved_in(func: tir.PrimFunc, buffer: tir.Buffer) -> tir.PrimFunc:
    """A program with one buffer as far inside as it may be."""
    path = around_uses(func.body).get(buffer, ())
    analyzer = analyzer_for(func)
    owners = [isinstance(s, tir.Block) and buffer in s.alloc_buffers for s in path]
    owner = home = owners.index(True) if any(owners) else len(path)
    for n, s in enumerate(path):
        if isinstance(s, tir.For):
            analyzer.bind(s.var, s.min, s.extent)
        if n > owner and not _may_enter(func, s, buffer, analyzer):
            break
        if n > owner and isinstance(s, tir.For | tir.Block):
            home = n
    if home == owner:
        return func
    below, new = path[home], _allocating(func, path[home], buffer)
    for s in reversed(path[:home]):
        below, new = s, _without(_exchanged(s, below, new), buffer)
    return func.replace(body=new)


def _may_enter(func: tir.PrimFunc, s: tir.Stmt, buffer: tir.Buffer, analyzer: Analyzer) -> bool:
    """Whether a buffer whose uses are all in a statement may live inside of it."""
    if not isinstance(s, tir.For):
        return isinstance(s, tir.Seq | tir.BlockRealize | tir.Block)
    plain = Realize(analyzer_for(func)).stmt(s)
    assert isinstance(plain, tir.For)
    return s.kind not in ("vectorized", "unrolled") and not carries(plain, buffer, analyzer)


def _exchanged(s: tir.Stmt, old: tir.Stmt, new: tir.Stmt) -> tir.Stmt:
    made: tir.Stmt = s.with_children(lambda c: new if c is old else c)
    return made


def _allocating(func: tir.PrimFunc, s: tir.Stmt, buffer: tir.Buffer) -> tir.Stmt:
    """A block that allocates a buffer, or a loop whose body is such a block."""
    if isinstance(s, tir.Block):
        return _without(s, buffer).replace(alloc_buffers=(*s.alloc_buffers, buffer))
    assert isinstance(s, tir.For)
    names = {x.name for x in tir.walk(func.body) if isinstance(x, tir.Block)}
    name = unique_name(f"{buffer.name}_alloc", names)
    block = tir.Block(name, (), (), (), s.body, None, (buffer,))
    whole = refresh_regions(Facts(func), block)
    return s.replace(body=tir.BlockRealize((), const(True), whole))


def _without(s: tir.Stmt, buffer: tir.Buffer) -> tir.Stmt:
    """A block that does not mention a buffer, which lives inside it now; others as they are."""
    if not isinstance(s, tir.Block):
        return s

    def kept(regions: tuple[tir.BufferRegion, ...]) -> tuple[tir.BufferRegion, ...]:
        return tuple([r for r in regions if r.buffer is not buffer])

    others = tuple([b for b in s.alloc_buffers if b is not buffer])
    return s.replace(reads=kept(s.reads), writes=kept(s.writes), alloc_buffers=others)


# ----------------------------------------------------------------------------------- compaction


class _ShiftBlocks(Shift):
    """The accesses of blocks' signatures move, too."""

    def region(self, r: tir.BufferRegion) -> tir.BufferRegion:
        new = super().region(r)
        if new.buffer is not self.old:
            return new
        lows = self.moved(tuple([d.min for d in new.region]))
        ranges = [tir.Range(low, d.extent) for low, d in zip(lows, new.region, strict=True)]
        return tir.BufferRegion(self.new, tuple(ranges))


class _Compact(RangeRewriter):
    def visit_BlockRealize(self, s: tir.BlockRealize) -> tir.Stmt:
        if s.values:
            raise CompileError(
                f"CompactBufferAllocation: the block {s.block.name} has variables; "
                "ConvertBlocksToOpaque comes first"
            )
        return super().visit_BlockRealize(s)

    def visit_Block(self, s: tir.Block) -> tir.Block:
        new = super().visit_Block(s)
        body: tir.Stmt = new.body if new.init is None else tir.seq(new.init, new.body)
        allocated: list[tir.Buffer] = []
        for b in new.alloc_buffers:
            if not uses(body, b):
                continue
            small, low = shrunk(body, b, self.analyzer)
            body = _ShiftBlocks(b, small, low, self.analyzer).stmt(body)
            allocated.append(small)
        return new.replace(init=None, body=body, alloc_buffers=tuple(allocated))


def compact_buffers(func: tir.PrimFunc) -> tir.PrimFunc:
    """The buffers of opaque blocks shrink to what is touched of them; unused ones go."""
    return func.replace(body=_Compact(analyzer_for(func)).stmt(func.body))


# --------------------------------------------------------------------------------------- blocks


def lower_opaque_blocks(func: tir.PrimFunc) -> tir.PrimFunc:
    """Blocks become their bodies, buffers allocations, predicates branches.

    A block's annotation "double_buffer_scope": n marks the n-th buffer that it writes;
    "buffer_dim_align" says how the strides of buffers are padded.
    """
    marked = [
        s.writes[s.annotations[DOUBLE_BUFFER]].buffer
        for s in tir.walk(func.body)
        if isinstance(s, tir.Block) and s.annotations.get(DOUBLE_BUFFER, -1) in range(len(s.writes))
    ]

    def plain(s: tir.BlockRealize) -> tir.Stmt:
        block, body = s.block, s.block.body
        if s.values or block.init is not None:
            raise CompileError(
                f"LowerOpaqueBlock: the block {block.name} has "
                + ("variables; ConvertBlocksToOpaque" if s.values else "an init; LowerInitBlock")
                + " comes first"
            )
        for b in reversed(block.alloc_buffers):
            body = tir.Allocate(b, body, {DOUBLE_BUFFER: 1} if b in marked else {})
        return body if is_const(s.predicate, 1) else tir.IfThenElse(s.predicate, body)

    return with_aligned(func, map_stmts(func.body, tir.BlockRealize, plain))
