"""Primitives about how buffers are held."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, cast
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Range,
    Stmt,
)
from smelt.tir.rewrite import Rewriter

from .cache import buffer_at
from .layout import transform_accesses
from .primitive import Base, primitive
from .state import State

__all__ = ["BufferPrimitives"]


class BufferPrimitives(Base):
    """storage_align, unsafe_set_dtype, annotate_buffer_access."""

    @primitive
    def storage_align(
        self, block: str, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Ask for a stride of `factor * n + offset` elements along a dimension of a written buffer.

        Before
            B = T.alloc_buffer((4, 6))
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    storage_align("B", 0, 0, 8, 1)
        After
            B = T.alloc_buffer((4, 6))
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    T.block_attr({"buffer_dim_align": [[0, 0, 8, 1]]})
                    B[v, w] = A[v, w] + 1.0
        Needs   an intermediate buffer, a positive factor.
        """
        s = self.state
        b = s.realize(block)
        buffer = _intermediate(s, b, buffer_index)
        if not -buffer.rank <= axis < buffer.rank or factor < 1:
            s.fail(
                f"{buffer.name} has {buffer.rank} dimensions, axis {axis}, factor {factor} given",
                mark={b: f"writes {buffer.name}"},
                legal="an axis of the buffer, factor >= 1",
            )
        old = [
            x
            for x in b.block.annotations.get("buffer_dim_align", [])
            if x[:2] != [buffer_index, axis]
        ]
        notes = {
            **b.block.annotations,
            "buffer_dim_align": [*old, [buffer_index, axis % buffer.rank, factor, offset]],
        }
        s.replace({b.block: b.block.replace(annotations=notes)})

    @primitive
    def unsafe_set_dtype(self, block: str, buffer_index: int, dtype: str) -> None:
        """Hold an intermediate buffer in another element type: results may change by rounding.

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
        Step    unsafe_set_dtype("B", 0, "float16")
        After
            B = T.alloc_buffer((4,), "float16")
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = T.cast("float16", A[v] + 1.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = T.cast("float32", B[v_1]) * 2.0
        Needs   an intermediate buffer. The one primitive that does not keep results.
        """
        s = self.state
        b = s.realize(block)
        buffer = _intermediate(s, b, buffer_index)
        if dtype not in dt.DTYPES:
            s.fail(f"there is no element type {dtype!r}", legal=", ".join(dt.DTYPES))
        new = buffer.replace(type=dtype)
        transform_accesses(s, buffer, new, _Retyped(buffer, new))

    @primitive
    def annotate_buffer_access(
        self, block: str, buffer_index: int, buf_type: str, region: Sequence[tuple[int, int]]
    ) -> None:
        """State the region that a block reads or writes, where it cannot be read off the body.

        region  (low, high) per dimension, high exclusive

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    annotate_buffer_access("B", 0, "read", [(0, 4)])
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    T.reads(A[0:4])
                    T.writes(B[v])
                    T.block_attr({"explicit_read_region": [0]})
                    B[v] = A[v] + 1.0
        Needs   one range per dimension; the caller answers for its truth.
        """
        s = self.state
        b = s.realize(block)
        buffer = buffer_at(s, b, buf_type, buffer_index)
        if len(region) != buffer.rank:
            s.fail(
                f"{buffer.name} has {buffer.rank} dimensions, {len(region)} ranges given",
                mark={b: "this block"},
                legal="one range per dimension",
            )
        new = BufferRegion(buffer, tuple([Range.of((low, high)) for low, high in region]))
        old = b.block.reads if buf_type == "read" else b.block.writes
        first = next(k for k, r in enumerate(old) if r.buffer is buffer)
        regions = tuple(
            [
                new if k == first else r
                for k, r in enumerate(old)
                if k == first or r.buffer is not buffer
            ]
        )
        key = f"explicit_{buf_type}_region"
        notes = {**b.block.annotations, key: [*b.block.annotations.get(key, []), buffer_index]}
        changed = b.block.replace(annotations=notes)
        changed = (
            changed.replace(reads=regions)
            if buf_type == "read"
            else changed.replace(writes=regions)
        )
        s.replace({b.block: changed})


class _Retyped(Rewriter):
    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__()
        self.old, self.new = old, new

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad) and e.buffer is self.old:
            return cast(self.old.type, BufferLoad(self.new, self.exprs(e.indices)))
        return super().visit_expr(e)

    def visit_Block(self, s: Block) -> Stmt:
        return s.replace(body=self.stmt(s.body), init=None if s.init is None else self.stmt(s.init))

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        value, indices = self.expr(s.value), self.exprs(s.indices)
        if s.buffer is self.old:
            return BufferStore(self.new, cast(self.new.type, value), indices)
        return BufferStore(s.buffer, value, indices)


def _intermediate(s: State, b: BlockRealize, index: int) -> Buffer:
    buffer = buffer_at(s, b, "write", index)
    if buffer in s.func.params:
        s.fail(
            f"{buffer.name} is a parameter; the caller decides how it is held",
            mark={b: f"writes {buffer.name}"},
            legal="an intermediate buffer",
        )
    return buffer
