"""Questions to a schedule: which blocks and loops there are, and what stands behind a handle."""

from __future__ import annotations

from smelt.tir.nodes import Block, BlockRealize, For

from .handles import BlockRV, ExprRV, LoopRV, StmtSRef
from .loops import find
from .primitive import Base, primitive
from .state import PrimitiveCall


class Queries(Base):
    """get_block, get_loops, get_child_blocks, get_producers, ..., get, get_sref, remove_rv."""

    @primitive
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of a name; with `func_name` the next primitives are about that function.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    annotate(sch.get_block("B"), "stage", 1)
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    T.block_attr({"stage": 1})
                    B[v] = A[v] + 1.0
        Needs   a block of that name.
        """
        if func_name is not None:
            self._enter(func_name)
        return BlockRV(self.state.realize(name).block.name)

    @primitive
    def get_loops(self, block: str) -> list[LoopRV]:
        """The loops around a block, outermost first.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    unroll(sch.get_loops("B")[1])
        After
            for i in range(4):
                for j in T.unroll(6):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
        Needs   a block.
        """
        s = self.state
        return [LoopRV(x.var.name) for x in s.loops_above(s.realize(block))]

    @primitive
    def get_child_blocks(self, block_or_loop: str) -> list[BlockRV]:
        """The blocks directly inside a block or a loop, in order.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i)
                    C[v_1] = A[v_1] * 2.0
        Step    annotate(sch.get_child_blocks("i")[1], "second", True)
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i)
                    T.block_attr({"second": True})
                    C[v_1] = A[v_1] * 2.0
        Needs   a loop or a block.
        """
        s = self.state
        target = find(s, block_or_loop)
        inside = target.block if isinstance(target, BlockRealize) else target
        return [BlockRV(b.block.name) for b in s.blocks_in(inside)]

    @primitive
    def get_producers(self, block: str) -> list[BlockRV]:
        """The blocks that write what a block reads.

        Before
            B = T.alloc_buffer((4,))
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Step    compute_inline(sch.get_producers("C")[0])
        After
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = (A[v_1] + 1.0) * 2.0
        Needs   a block.
        """
        s = self.state
        return [BlockRV(b.block.name) for b in s.producers(s.realize(block))]

    @primitive
    def get_consumers(self, block: str) -> list[BlockRV]:
        """The blocks that read what a block writes.

        Before
            B = T.alloc_buffer((4,))
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Step    reverse_compute_inline(sch.get_consumers("B")[0])
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    C[v] = (A[v] + 1.0) * 2.0
        Needs   a block.
        """
        s = self.state
        return [BlockRV(b.block.name) for b in s.consumers(s.realize(block))]

    @primitive
    def get_output_blocks(self, scope_block: str = "root") -> list[BlockRV]:
        """The blocks inside a block that write what outlives the function.

        Before
            B = T.alloc_buffer((4,))
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Step    parallel(sch.get_loops(sch.get_output_blocks("root")[0])[0])
        After
            B = T.alloc_buffer((4,))
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in T.parallel(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Needs   a block with blocks inside.
        """
        s = self.state
        scope = s.realize(scope_block)
        local = {b for f in s.index.blocks.values() for b in f.block.alloc_buffers}
        written = [(b, w.buffer) for b in s.blocks_in(scope.block) for w in b.block.writes]
        return list(dict.fromkeys(BlockRV(b.block.name) for b, w in written if w not in local))

    # ---------------------------------------------------------------------- behind the handles

    def get(self, rand_var_or_sref: str | int | StmtSRef) -> For | Block | int:
        """The loop or block behind a handle, the number behind a sample."""
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, int):
            return int(rand_var_or_sref)
        self._enter_function_of([rand_var_or_sref])
        found = find(self.state, rand_var_or_sref)
        return found.block if isinstance(found, BlockRealize) else found

    def get_sref(self, rand_var_or_stmt: str | Block | For) -> StmtSRef:
        """A read-only view of where a loop or block stands: `.stmt` and `.parent`."""
        if isinstance(rand_var_or_stmt, str):
            found = self.get(rand_var_or_stmt)
            assert not isinstance(found, int)
            return self._sref(found)
        if rand_var_or_stmt not in self.state.index.order:
            self.state.call = PrimitiveCall("get_sref", {})
            self.state.fail(
                "the statement is not part of the program as it is now",
                legal="a handle, or a loop or block of sch.func",
            )
        return self._sref(rand_var_or_stmt)

    def _sref(self, stmt: For | Block) -> StmtSRef:
        name = self._name
        rv = LoopRV(stmt.var.name, name) if isinstance(stmt, For) else BlockRV(stmt.name, name)
        return StmtSRef(rv, self)

    def remove_rv(self, rand_var: LoopRV | BlockRV | ExprRV) -> None:
        """Let a handle be used no more; what it names stays."""
        self.trace.forget(rand_var, self._name)
        self._removed = (*self._removed, rand_var)
