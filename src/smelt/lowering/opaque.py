"""From blocks to loops in the classic single steps. `lower_blocks` does them all at once.

lower_init_blocks         inits become branches
plan_buffer_locations     buffers live in the smallest loop body or block that holds all uses
convert_blocks_to_opaque  block variables become loop expressions
compact_buffers           buffers shrink to what is touched
lower_opaque_blocks       blocks go
"""

from __future__ import annotations

from smelt.ir.build import all_of, equal, is_const
from smelt.ir.errors import CompileError
from smelt.ir.expr import const
from smelt.tir import nodes as tir
from smelt.tir.facts import Facts
from smelt.tir.names import unique_name
from smelt.tir.regions import accesses, refresh_regions
from smelt.tir.rewrite import Rewriter, loads, map_stmts

from .accesses import uses
from .blocks import Realize, Shift, allocations, shrunk
from .carried import carries
from .overlap import DOUBLE_BUFFER
from .ranges import RangeRewriter, analyzer_of, sizes_of

# --------------------------------------------------------------------------------------- inits


def lower_init_blocks(func: tir.PrimFunc) -> tir.PrimFunc:
    """with T.init(): S   ->   if every reduce variable is at its first value: S.

    A reduction's own result counts as read from here on: nothing else says that it is one.
    """
    facts = Facts(func)

    def explicit(s: tir.Block) -> tir.Stmt:
        if s.init is None:
            return s
        first = [equal(i.var, i.dom.min) for i in s.iter_vars if i.kind == "reduce"]
        init = tir.IfThenElse(all_of(first), s.init) if first else s.init
        new = s.replace(init=None, body=tir.seq(init, s.body))
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
    return func.replace(body=_Opaque(sizes_of(func)).stmt(func.body))


# ----------------------------------------------------------------------------------- locations


class _Place:
    """Moves one buffer inwards."""

    def __init__(self, func: tir.PrimFunc, buffer: tir.Buffer) -> None:
        self.buffer, self.sizes, self.facts = buffer, sizes_of(func), Facts(func)
        self.names = {s.name for s in tir.walk(func.body) if isinstance(s, tir.Block)}
        self.analyzer = analyzer_of(self.sizes)

    def block(self, s: tir.Block) -> tir.Block:
        """A block that holds all uses, with the buffer in it or deeper."""
        inner = self.deeper(s.body) if s.init is None or not uses(s.init, self.buffer) else None
        if inner is not None:
            return s.replace(body=inner)
        return s.replace(alloc_buffers=(*s.alloc_buffers, self.buffer))

    def deeper(self, s: tir.Stmt) -> tir.Stmt | None:
        """A statement that holds all uses, with the buffer inside it; None: it is used in parts."""
        match s:
            case tir.Seq(stmts):
                users = [x for x in stmts if uses(x, self.buffer)]
                inner = self.deeper(users[0]) if len(users) == 1 else None
                if inner is None:
                    return None
                return tir.seq(*[inner if x is users[0] else x for x in stmts])
            case tir.BlockRealize(values, predicate, block):
                if self.buffer in [x.buffer for e in (*values, predicate) for x in loads(e)]:
                    return None
                return s.replace(block=self.without(self.block(block)))
            case tir.For():
                return self.in_loop(s)
        return None

    def in_loop(self, s: tir.For) -> tir.Stmt | None:
        self.analyzer.bind(s.var, s.min, s.extent)
        if s.kind in ("vectorized", "unrolled"):
            return None
        plain = Realize(self.sizes).stmt(s)
        assert isinstance(plain, tir.For)
        if carries(plain, self.buffer, self.analyzer):
            return None
        inner = self.deeper(s.body)
        if inner is not None:
            return s.replace(body=inner)
        body = s.body
        if isinstance(body, tir.BlockRealize) and not body.block.iter_vars:
            return s.replace(body=body.replace(block=self.block(body.block)))
        name = unique_name(f"{self.buffer.name}_alloc", self.names)
        block = tir.Block(name, (), (), (), body, None, (self.buffer,))
        block = refresh_regions(self.facts, block)
        return s.replace(body=tir.BlockRealize((), const(True), block))

    def without(self, s: tir.Block) -> tir.Block:
        """A block whose regions do not mention the buffer, which lives inside it now."""

        def kept(regions: tuple[tir.BufferRegion, ...]) -> tuple[tir.BufferRegion, ...]:
            return tuple([r for r in regions if r.buffer is not self.buffer])

        return s.replace(reads=kept(s.reads), writes=kept(s.writes))


class _Forget(Rewriter):
    """Takes a buffer out of the block that allocates it, and puts it where it belongs."""

    def __init__(self, place: _Place) -> None:
        super().__init__()
        self.place = place

    def visit_Block(self, s: tir.Block) -> tir.Block:
        if self.place.buffer not in s.alloc_buffers:
            return super().visit_Block(s)
        rest = tuple([b for b in s.alloc_buffers if b is not self.place.buffer])
        return self.place.block(s.replace(alloc_buffers=rest))

    def visit_For(self, s: tir.For) -> tir.Stmt:
        self.place.analyzer.bind(s.var, s.min, s.extent)
        return super().visit_For(s)


def plan_buffer_locations(func: tir.PrimFunc) -> tir.PrimFunc:
    """Intermediate buffers move into the smallest block or loop body that holds all their uses.

    A loop's body that is no block becomes one. A buffer in which the iterations of a loop may hand
    on values stays outside of that loop.
    """
    for buffer in allocations(func.body):
        func = func.replace(body=_Forget(_Place(func, buffer)).stmt(func.body))
    return func


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
    return func.replace(body=_Compact(sizes_of(func)).stmt(func.body))


# --------------------------------------------------------------------------------------- blocks


def lower_opaque_blocks(func: tir.PrimFunc) -> tir.PrimFunc:
    """Blocks become their bodies, buffers allocations, predicates branches.

    A block's annotation "double_buffer_scope": n marks the n-th buffer that it writes.
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

    return func.replace(body=map_stmts(func.body, tir.BlockRealize, plain))
