"""Primitives about how buffers are held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert

from .. import nodes
from .cache import buffer_at, intermediate_at
from .exchange import Relayout, transform_accesses
from .loops import sequence
from .primitive import Base, primitive
from .region import EXPLICIT, HIDDEN
from .state import State
from .trace_text import expr_text, formula


class BufferPrimitives(Base):
    """storage_align, unsafe_set_dtype, what is said of accesses, enter_postproc."""

    @primitive
    def storage_align(
        self,
        block: str,
        buffer_index: int | str | nodes.Buffer,
        axis: int,
        factor: int,
        offset: int,
    ) -> None:
        """Ask for a stride of `factor * n + offset` elements along a dimension of a written buffer.

        Lowering gives the buffer such strides: elements of a column then lie in different banks.

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
        s, b = self._at(block)
        buffer = intermediate_at(s, b, buffer_index, "how it is held")
        if not -buffer.rank <= axis < buffer.rank or factor < 1:
            s.fail(
                f"{buffer.name} has {buffer.rank} dimensions, axis {axis}, factor {factor} given",
                mark={b: f"writes {buffer.name}"},
                legal="an axis of the buffer, factor >= 1",
            )
        written = list(dict.fromkeys(r.buffer for r in b.block.writes))
        place = [written.index(buffer), axis % buffer.rank]
        old = [x for x in b.block.annotations.get("buffer_dim_align", []) if x[:2] != place]
        notes = {**b.block.annotations, "buffer_dim_align": [*old, [*place, factor, offset]]}
        s.replace({b.block: b.block.replace(annotations=notes)})

    @primitive
    def unsafe_set_dtype(
        self, block: str, buffer_index: int | str | nodes.Buffer, dtype: str
    ) -> None:
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
        s, b = self._at(block)
        buffer = intermediate_at(s, b, buffer_index, "how it is held")
        if dtype not in dt.DTYPES:
            s.fail(
                f"there is no element type {dtype!r}",
                mark={b: f"writes {buffer.name}"},
                legal=", ".join(dt.DTYPES),
            )
        new = buffer.replace(type=dtype)
        transform_accesses(s, buffer, new, _Retyped(buffer, new))

    @primitive
    def annotate_buffer_access(
        self,
        block: str,
        buffer_index: int | str | nodes.Buffer,
        buf_type: str,
        gen_new_ranges: Sequence[Bounds] | Callable[..., Sequence[Bounds]],
    ) -> None:
        """State the region that a block reads or writes, where it cannot be read off the body.

        gen_new_ranges  (low, high) per dimension, high exclusive, or one index; or a function of
                        the block's variables that gives these

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
                    T.block_attr({"explicit_read_region": ["A"]})
                    B[v] = A[v] + 1.0
        Needs   one range per dimension; the caller answers for its truth.
        """
        s, b = self._at(block)
        kind = _access(s, b, buf_type)
        buffer = buffer_at(s, b, kind, buffer_index)
        ranges = _ranges(s, b, gen_new_ranges)
        if len(ranges) != buffer.rank:
            s.fail(
                f"{buffer.name} has {buffer.rank} dimensions, {len(ranges)} ranges given",
                legal="one range per dimension",
            )
        new = nodes.BufferRegion(buffer, tuple(ranges))
        old = b.block.reads if kind == "read" else b.block.writes
        regions = dict.fromkeys(new if r.buffer is buffer else r for r in old)
        _say(s, b.block, EXPLICIT.format(kind), [buffer.name], **{f"{kind}s": tuple(regions)})

    @primitive
    def unsafe_hide_buffer_access(
        self, block: str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Take buffers out of what a block says that it reads or writes.

        Dependences on them are no longer seen: the caller answers for the order of things.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + D[v]
        Step    unsafe_hide_buffer_access("B", "read", [1])
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    T.reads(A[v])
                    T.writes(B[v])
                    T.block_attr({"hidden_read_access": ["D"]})
                    B[v] = A[v] + D[v]
        Needs   positions among the buffers that the block reads or writes.
        """
        s, b = self._at(block)
        kind = _access(s, b, buf_type)
        indices = sequence(s, "buf_index_array", buf_index_array, "a list of positions")
        hidden = [buffer_at(s, b, kind, k) for k in indices]
        old = b.block.reads if kind == "read" else b.block.writes
        regions = tuple([r for r in old if r.buffer not in hidden])
        _say(s, b.block, HIDDEN.format(kind), [x.name for x in hidden], **{f"{kind}s": regions})

    @primitive
    def enter_postproc(self) -> None:
        """Mark where postprocessing begins, at which a trace can be cut off.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    enter_postproc()
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Needs   nothing.
        """


Bounds = tuple[ExprLike, ExprLike] | ExprLike
"""(low, high), high exclusive; or one index."""


def _access(s: State, b: nodes.BlockRealize, buf_type: str) -> str:
    if buf_type not in ("read", "write"):
        s.fail(f"{buf_type!r} is no kind of access", legal="'read' or 'write'")
    return buf_type


def _ranges(
    s: State, b: nodes.BlockRealize, given: Sequence[Bounds] | Callable[..., Sequence[Bounds]]
) -> list[nodes.Range]:
    """Ranges in terms of a block's variables."""
    if callable(given):
        variables = [i.var for i in b.block.iter_vars]
        try:
            items: Sequence[Bounds] = list(given(*variables))
        except TypeError as e:
            s.fail(
                f"the ranges are no function of the {len(variables)} variables of {b.block.name}: "
                f"{e}",
                legal="a function of the block's variables that gives a list",
            )
        names = ", ".join(v.name for v in variables)
        s.call.args["gen_new_ranges"] = formula(f"lambda {names}: [{', '.join(map(_text, items))}]")
    else:
        items = sequence(s, "gen_new_ranges", given, "a list of (low, high), or a function")
    out = []
    for item in items:
        if isinstance(item, tuple | list):
            low, high = (convert(e, INDEX) for e in item)
            out.append(nodes.Range(low, s.facts.simplify(high - low)))
        else:
            out.append(nodes.Range(convert(item, INDEX), const(1, INDEX)))
    return out


def _text(item: Bounds) -> str:
    if isinstance(item, tuple | list):
        return "(" + ", ".join([expr_text(convert(e, INDEX)) for e in item]) + ",)"
    return expr_text(convert(item, INDEX))


def _say(s: State, block: nodes.Block, note: str, names: Sequence[str], **regions: Any) -> None:
    """Give a block other regions, and note of which buffers that has been said."""
    known = [*block.annotations.get(note, []), *names]
    annotations = {**block.annotations, note: list(dict.fromkeys(known))}
    s.replace({block: block.replace(annotations=annotations, **regions)})


class _Retyped(Relayout):
    def __init__(self, old: nodes.Buffer, new: nodes.Buffer) -> None:
        super().__init__(old, new, lambda indices: indices)

    def visit_expr(self, e: Expr) -> Expr:
        new = super().visit_expr(e)
        mine = isinstance(e, nodes.BufferLoad) and e.buffer is self.old
        return cast(self.old.type, new) if mine else new

    def visit_BufferStore(self, s: nodes.BufferStore) -> nodes.Stmt:
        new = super().visit_BufferStore(s)
        assert isinstance(new, nodes.BufferStore)
        return new.replace(value=cast(new.buffer.type, new.value)) if s.buffer is self.old else new
