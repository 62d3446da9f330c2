"""Primitives that stage data in other buffers, and what concerns buffers themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from smelt.ir.build import all_of, is_const, product
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars
from smelt.tir.facts import Box
from smelt.tir.regions import element, full
from smelt.tir.rewrite import Indices, replace_buffers

from .. import nodes
from .check import recheck
from .exchange import replace_buffer, stage
from .handles import BlockRV
from .injective import is_injective
from .predicate import conditions
from .primitive import Base, primitive
from .region import domain_loops, touched
from .require import Kind, binds, require_consumers_apart, require_kind
from .state import State


class CachePrimitives(Base):
    """cache_read, cache_write, set_scope."""

    @primitive
    def cache_read(
        self,
        block: str,
        read_buffer_index: int | str | nodes.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[str] | None = None,
    ) -> BlockRV:
        """Copy a buffer that a block reads, and let its readers use the copy.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    cache_read("B", 0, "local")
        After
            A_local = T.alloc_buffer((4,), scope="local")
            for ax0 in range(4):
                with T.block("A_local"):
                    v0 = T.axis.spatial(4, ax0)
                    A_local[v0] = A[v0]
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A_local[v] + 1.0
        Needs   a buffer that the block reads; readers that stand behind its producers.
        """
        s, b = self._at(block)
        buffer = buffer_at(s, b, "read", read_buffer_index)
        scope = s.scope(b)
        chosen = _chosen(s, buffer, scope, consumer_blocks)
        writers = s.writers(scope, buffer)
        cached = copy_of(s, buffer, storage_scope)
        name = s.fresh_block(cached.name)
        inside, place, behind = _between(s, scope, writers, chosen)
        whole = isinstance(inside, nodes.Block) and inside.name == "root"
        box = None if whole else used_box(s, buffer, chosen, inside)
        nest = copy_nest(s, name, buffer, cached, box)
        swap = partial(replace_buffers, buffers={buffer: cached})
        stage(s, [cached], chosen, swap, nest, place, behind)
        recheck(s, s.realize(name))
        return BlockRV(name)

    @primitive
    def cache_write(
        self,
        block: str,
        write_buffer_index: int | str | nodes.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[str] | None = None,
    ) -> BlockRV:
        """Let a block write another buffer, which a new block copies to the old one.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    cache_write("B", 0, "local")
        After
            B_local = T.alloc_buffer((4,), scope="local")
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B_local[v] = A[v] + 1.0
            for ax0 in range(4):
                with T.block("B_local"):
                    v0 = T.axis.spatial(4, ax0)
                    B[v0] = B_local[v0]
        Needs   a block that is the buffer's only writer; of a parameter only the part that it
                writes is copied, which must be a box without holes.
        """
        s, b = self._at(block)
        buffer = buffer_at(s, b, "write", write_buffer_index)
        scope = s.scope(b)
        require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
        require_consumers_apart(s, b, buffer)
        _require_finished(s, b, scope)
        consumers = _chosen(s, buffer, scope, consumer_blocks) if consumer_blocks else []
        cached = copy_of(s, buffer, storage_scope, buffer.strides)
        name = s.fresh_block(cached.name)
        nest = copy_nest(s, name, cached, buffer, *written_box(s, b, buffer))
        swap = partial(replace_buffers, buffers={buffer: cached})
        stage(s, [cached], (b, *consumers), swap, nest, s.top(b, scope.block), True)
        return BlockRV(name)

    @primitive
    def set_scope(
        self, block: str, buffer_index: int | str | nodes.Buffer, storage_scope: str
    ) -> None:
        """Keep a buffer that a block writes in another kind of memory.

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
        Step    set_scope("B", 0, "local")
        After
            B = T.alloc_buffer((4,), scope="local")
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Needs   an intermediate buffer.
        """
        s, b = self._at(block)
        buffer = intermediate_at(s, b, buffer_index, "where it lives")
        if buffer.scope == storage_scope:
            return
        replace_buffer(s, buffer, buffer.replace(scope=storage_scope))


def _require_finished(s: State, b: nodes.BlockRealize, scope: nodes.BlockRealize) -> None:
    """A reduction over instances of the block around it would lose what the new buffer holds."""
    outer = {i.var for i in scope.block.iter_vars if not is_const(i.dom.extent, 1)}
    for i, value in b.bindings:
        if i.kind == "reduce" and free_vars(value) & outer:
            s.fail(
                f"{b.block.name} is not finished inside block {scope.block.name}, which runs over "
                f"its reduce variable {i.var.name}",
                mark={b: f"reduces over {i.var.name}", scope: "around it"},
                legal="a reduction that one instance of the block around it finishes",
            )


def buffer_at(
    s: State, b: nodes.BlockRealize, kind: str, index: int | str | nodes.Buffer
) -> nodes.Buffer:
    """A buffer that a block reads or writes: by its position among them, by name, or as itself."""
    if isinstance(index, nodes.Buffer):
        index = index.name
    regions = b.block.reads if kind == "read" else b.block.writes
    buffers = list(dict.fromkeys(r.buffer for r in regions))
    found = [x for k, x in enumerate(buffers) if index in (k, x.name)]
    if not found:
        names = ", ".join(f"{k} ({x.name})" for k, x in enumerate(buffers))
        s.fail(f"{b.block.name} has no {kind} buffer {index!r}", legal=names or "none")
    return found[0]


def intermediate_at(
    s: State, b: nodes.BlockRealize, index: int | str | nodes.Buffer, what: str
) -> nodes.Buffer:
    """A buffer that a block writes; refuses a parameter, of which the caller decides something."""
    buffer = buffer_at(s, b, "write", index)
    if buffer in s.func.params:
        s.fail(
            f"{buffer.name} is a parameter; the caller decides {what}",
            mark={b: f"writes {buffer.name}"},
            legal="an intermediate buffer",
        )
    return buffer


def _chosen(
    s: State, buffer: nodes.Buffer, scope: nodes.BlockRealize, names: Sequence[str] | None
) -> list[nodes.BlockRealize]:
    """The readers that get a copy: they only read, behind all writers."""
    chosen = [s.realize(c) for c in names] if names else s.readers(scope, buffer)
    order = s.index.order
    for c in chosen:
        if not any(r.buffer is buffer for r in c.block.reads):
            s.fail(
                f"{c.block.name} does not read {buffer.name}",
                mark={c: "named as a consumer"},
                legal=", ".join(r.block.name for r in s.readers(scope, buffer)),
            )
        if any(w.buffer is buffer for w in c.block.writes):
            s.fail(
                f"{c.block.name} writes {buffer.name} too",
                mark={c: "reads and writes it"},
                legal="blocks that only read it (see cache_inplace)",
            )
        for w in s.writers(scope, buffer):
            if order[w] > order[c]:
                s.fail(
                    f"{w.block.name} writes {buffer.name} behind a reader",
                    mark={w: "writes it", c: "reads it"},
                    legal="readers behind all writers",
                )
    return chosen


def written_box(s: State, b: nodes.BlockRealize, buffer: nodes.Buffer) -> tuple[Box, Box]:
    """What a block writes of a buffer in its scope: a box, and the limits that it is clipped to.

    Refuses where what outlives the scope would be overwritten with elements not written.
    """
    region = next(w for w in b.block.writes if w.buffer is buffer)
    loops = s.loops_above(b)
    box = touched(s, b, region, loops)
    domains = domain_loops(b.block.iter_vars)
    limits = s.facts.box(region.region, buffer.shape, domains)
    outlives = buffer not in s.scope(b).block.alloc_buffers
    if outlives and not _fills(s, b, region, box, limits):
        s.cannot_prove(
            f"{b.block.name} writes every element of a box of {buffer.name}",
            mark={b: f"writes {buffer.name}"},
            legal="a block without a condition, whose loops are dimensions of the parameter",
        )
    return box, limits


def _fills(
    s: State, b: nodes.BlockRealize, region: nodes.BufferRegion, box: Box, limits: Box
) -> bool:
    """Whether a block's iterations write every element of a box inside the limits."""
    guard = conditions(s, b)
    if guard is None or guard:
        return False
    loops = [x for x in s.loops_above(b) if binds(b, x.var, "spatial")]
    runs = product([x.extent for x in loops])
    size = product([s.facts.extent(low, high) for low, high in box])
    own = {i.var for i in b.block.iter_vars}
    alone = [d.min for d in region.region if isinstance(d.min, Var) and d.min in own]
    plain = len(set(alone)) == len(region.region)
    inside = plain or s.facts.contains(limits, box)
    return s.facts.equal(runs, size) and inside and is_injective(s, b, loops)


def copy_nest(
    s: State,
    name: str,
    source: nodes.Buffer,
    target: nodes.Buffer,
    box: Box | None = None,
    limits: Box | None = None,
    under: Expr | bool = True,
) -> nodes.Stmt:
    """Loops that copy one buffer to another: all of it, or a box as far as it is inside limits.

    under  a condition on the copying
    """
    zero = const(0, INDEX)
    iters = s.iter_vars(full(source).region)
    point: Indices = tuple([i.var for i in iters])
    here, there = (element(b, point) for b in (source, target))
    block = nodes.Block(
        name, iters, (here,), (there,), nodes.BufferStore(target, source[point], point)
    )
    lows: list[Expr] = [zero] * len(iters)
    extents = list(source.shape)
    for k, (low, high) in enumerate(box or ()):
        extent = s.facts.extent(low, high)
        if not s.facts.prove(extent >= source.shape[k]):
            lows[k], extents[k] = low, extent
    ends = limits or [(zero, e - 1) for e in source.shape]

    def make(loops: list[Expr]) -> nodes.Stmt:
        values = [s.facts.simplify(low + x) for low, x in zip(lows, loops, strict=True)]
        inside: list[Expr] = []
        for v, (first, last) in zip(values, ends, strict=True):
            inside += [v >= first, v < s.facts.simplify(last + 1)]
        return nodes.BlockRealize(tuple(values), all_of(s.facts.conjunction(*inside), under), block)

    return s.nest(extents, make)


def copy_of(s: State, b: nodes.Buffer, scope: str, strides: tuple[Expr, ...] = ()) -> nodes.Buffer:
    """A buffer of the same shape in another kind of memory."""
    return nodes.Buffer(s.fresh(f"{b.name}_{scope}"), b.shape, b.type, scope, strides)


def _between(
    s: State,
    scope: nodes.BlockRealize,
    writers: Sequence[nodes.BlockRealize],
    readers: Sequence[nodes.BlockRealize],
) -> tuple[nodes.Stmt, nodes.Stmt, bool]:
    """A place behind the last writer and before the first reader, as far out as possible.

    Returns the statement that holds the place, the neighbour, and whether the place is behind it.
    """
    order = s.index.order
    first = min(readers, key=lambda r: order[r])
    if not writers:
        return scope.block, s.top(first, scope.block), False
    last = max(writers, key=lambda w: order[w])
    inside: nodes.Stmt = scope.block
    while s.top(last, inside) is s.top(first, inside):
        inside = s.top(last, inside)
        if not isinstance(inside, nodes.For):
            s.fail(
                "the writer and the reader stand in one statement that is no loop",
                mark={last: "writes"},
                legal="a writer and readers in different statements of one loop",
            )
        if not all(s.is_under(r, inside) for r in readers):
            s.fail(
                f"not all readers stand inside {inside.var.name}, where {last.block.name} writes",
                mark={last: "writes", inside: "loop"},
                legal="consumer_blocks that stand together",
            )
    return inside, s.top(last, inside), True


def used_box(
    s: State, buffer: nodes.Buffer, readers: Sequence[nodes.BlockRealize], inside: nodes.Stmt
) -> Box | None:
    """What blocks read of a buffer while the loops inside a statement run; None where nothing."""
    reads = [(c, r) for c in readers for r in c.block.reads if r.buffer is buffer]
    return s.facts.hull(touched(s, c, r, s.loops_between(c, inside)) for c, r in reads)
