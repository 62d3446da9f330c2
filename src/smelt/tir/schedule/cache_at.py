"""Primitives that stage, around one block or in one loop, just what is used there."""

from __future__ import annotations

from functools import partial

from smelt.tir.nodes import Buffer, For, Stmt, seq
from smelt.tir.rewrite import replace_buffers

from .blockize import BlockizePrimitives
from .cache import CachePrimitives, buffer_at, copy_nest, copy_of
from .check import recheck
from .compute_at import ComputeAtPrimitives
from .handles import BlockRV
from .primitive import primitive
from .region import touched
from .require import require_around
from .state import Change, allocating


class CacheAtPrimitives(CachePrimitives, ComputeAtPrimitives, BlockizePrimitives):
    """cache_inplace, read_at, write_at."""

    @primitive
    def cache_inplace(
        self, block: str, read_buffer_index: int | str | Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Let a block work on a copy of a buffer that it reads and writes, copied back behind it.

        Gives the copying blocks, the one in front first.

        Before
            for i, k in T.grid(4, 8):
                with T.block("B"):
                    v, vk = T.axis.remap("SR", [i, k])
                    B[v] = B[v] + A[v, vk]
        Step    cache_inplace("B", "B", "local")
        After
            B_local = T.alloc_buffer((4,), scope="local")
            for i, k in T.grid(4, 8):
                for ax0 in range(1):
                    with T.block("B_local"):
                        v0 = T.axis.spatial(4, i)
                        B_local[v0] = B[v0]
                with T.block("B"):
                    v, vk = T.axis.remap("SR", [i, k])
                    B_local[v] = B_local[v] + A[v, vk]
                for ax0_1 in range(1):
                    with T.block("B_local_1"):
                        v0_1 = T.axis.spatial(4, i)
                        B[v0_1] = B_local[v0_1]
        Needs   a buffer that the block both reads and writes.
        """
        s, b = self._at(block)
        buffer = buffer_at(s, b, "read", read_buffer_index)
        reads = [r for r in b.block.reads if r.buffer is buffer]
        writes = [r for r in b.block.writes if r.buffer is buffer]
        if not writes:
            s.fail(
                f"{b.block.name} does not write {buffer.name}",
                mark={b: f"reads {buffer.name}"},
                legal="a buffer that the block reads and writes",
            )
        box = s.facts.hull(touched(s, b, r, []) for r in (*reads, *writes))
        back = s.facts.hull(touched(s, b, r, []) for r in writes)
        cached = copy_of(s, buffer, storage_scope)
        names = [s.fresh_block(cached.name), s.fresh_block(cached.name)]
        before = copy_nest(s, names[0], buffer, cached, box, under=b.predicate)
        behind = copy_nest(s, names[1], cached, buffer, back, under=b.predicate)
        swap, scope = partial(replace_buffers, buffers={buffer: cached}), s.scope(b).block
        changes: dict[Stmt, Change] = {b.block: swap, scope: allocating(cached)}
        s.replace({**changes, b: lambda x: seq(before, x, behind)})
        for name in names:
            recheck(s, s.realize(name))
        return [BlockRV(n) for n in names]

    @primitive
    def read_at(
        self, loop: str, block: str, read_buffer_index: int | str | Buffer, storage_scope: str
    ) -> BlockRV:
        """Copy, in each iteration of a loop, what the blocks inside it read of a buffer.

        The copy is one block.

        Before
            for i in range(4):
                for j in range(8):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
        Step    read_at("i", "B", 0, "shared")
        After
            A_shared = T.alloc_buffer((4, 8), scope="shared")
            for i in range(4):
                with T.block("A_shared_o"):
                    v0_o = T.axis.spatial(4, i)
                    for ax0, ax1 in T.grid(1, 8):
                        with T.block("A_shared"):
                            v0 = T.axis.spatial(4, v0_o)
                            v1 = T.axis.spatial(8, ax1)
                            A_shared[v0, v1] = A[v0, v1]
                for j in range(8):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A_shared[v, w] + 1.0
        Needs   what cache_read and compute_at need of the blocks inside the loop.
        """
        (s, b), target = self._at(block), self.state.loop(loop)
        require_around(s, target, b)
        buffer = buffer_at(s, b, "read", read_buffer_index)
        readers = [r.block.name for r in s.readers(s.scope(b), buffer) if s.is_under(r, target)]
        copy = self.cache_read(block, read_buffer_index, storage_scope, readers)
        self.compute_at(copy, loop, preserve_unit_loops=True)
        return self._one_copy(copy, target)

    @primitive
    def write_at(
        self, loop: str, block: str, write_buffer_index: int | str | Buffer, storage_scope: str
    ) -> BlockRV:
        """Let a block write a copy, and copy back, in each iteration of a loop, what it has made.

        The copy is one block.

        Before
            for i in range(4):
                for j in range(8):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
        Step    write_at("i", "B", 0, "shared")
        After
            B_shared = T.alloc_buffer((4, 8), scope="shared")
            for i in range(4):
                for j in range(8):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B_shared[v, w] = A[v, w] + 1.0
                with T.block("B_shared_o"):
                    v0_o = T.axis.spatial(4, i)
                    for ax0, ax1 in T.grid(1, 8):
                        with T.block("B_shared"):
                            v0 = T.axis.spatial(4, v0_o)
                            v1 = T.axis.spatial(8, ax1)
                            B[v0, v1] = B_shared[v0, v1]
        Needs   what cache_write and reverse_compute_at need of a block inside the loop.
        """
        s = self.state
        target = s.loop(loop)
        require_around(s, target, s.realize(block))
        copy = self.cache_write(block, write_buffer_index, storage_scope)
        self.reverse_compute_at(copy, loop, preserve_unit_loops=True)
        return self._one_copy(copy, target)

    def _one_copy(self, copy: BlockRV, target: For) -> BlockRV:
        """The loops of a copy inside a loop as one block."""
        s = self.state
        loops = [x.var.name for x in s.loops_above(s.realize(copy))]
        inner = loops[loops.index(target.var.name) + 1 :]
        return self.blockize(inner[0] if inner else copy)
