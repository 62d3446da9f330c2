"""Primitives that merge a block into its consumers or into its producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from smelt.ir.build import all_of, is_const, product
from smelt.ir.expr import Expr, Var
from smelt.ir.walk import substitute
from smelt.tir.facts import Facts
from smelt.tir.rewrite import Rewriter, loads
from smelt.tir.script_ops import stored

from .. import nodes
from .injective import injective
from .predicate import own_conditions, require_unguarded
from .primitive import Base, primitive
from .region import domain_loops, inverted, refreshed
from .require import (
    Kind,
    require_intermediate,
    require_kind,
    require_operands_stay,
    require_readers,
    require_store,
)
from .state import Change, State, releasing


class ReplaceLoads(Rewriter):
    """Replaces loads of a buffer; values that are new are simplified."""

    def __init__(
        self, state: State, buffer: nodes.Buffer, value: Callable[[tuple[Expr, ...]], Expr]
    ) -> None:
        super().__init__()
        self.state, self.target, self.value = state, buffer, value

    def visit_Block(self, s: nodes.Block) -> nodes.Block:
        """A block, its regions found anew."""
        return refreshed(self.state, self.block_parts(s))

    def visit_Evaluate(self, s: nodes.Evaluate) -> nodes.Stmt:
        """What is given to an external function stays in memory."""
        if self.target in stored(s):
            self.state.fail(
                f"an external function is given the address of {self.target.name}",
                mark={s: "uses its memory"},
                legal="buffers whose elements are only loaded",
            )
        return super().visit_Evaluate(s)

    def visit_expr(self, e: Expr) -> Expr:
        """An expression with the value in place of loads of the buffer."""
        new = super().visit_expr(e)
        if isinstance(new, nodes.BufferLoad) and new.buffer is self.target:
            return self.value(new.indices)
        return new


class InlinePrimitives(Base):
    """compute_inline and reverse_compute_inline."""

    @primitive
    def compute_inline(self, block: str) -> None:
        """Compute each element where it is used instead of storing it.

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
        Step    compute_inline("B")
        After
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = (A[v_1] + 1.0) * 2.0
        Needs   a complete block that stores one element of an intermediate buffer at indices that
                determine its variables.
        """
        s, b = self._at(block)
        store = require_store(s, b)
        require_kind(s, b, Kind.COMPLETE)
        require_intermediate(s, b, store.buffer, "which must be stored")
        readers = require_readers(s, b, store.buffer)
        _require_operands_kept(s, b, readers)
        bound = {i.var for i in b.block.iter_vars}

        whole = _covers(s, b, store.buffer)
        guard = own_conditions(s, b)

        def value(indices: tuple[Expr, ...]) -> Expr:
            values = _instance(s, b, store.indices, indices)
            needed = [substitute(c, values) for c in guard]
            for i in b.block.iter_vars:
                needed += [] if whole else _inside(i, values)
            s.demand(
                all_of(needed),
                f"elements of {store.buffer.name} are read that {b.block.name} does not make",
                f"only elements of {store.buffer.name} that {b.block.name} makes are read",
                mark={b: f"does not make all of {store.buffer.name}"},
                legal="a block that makes every element that is read",
            )
            new = substitute(store.value, values)
            return new if not bound & set(values) else simplify_indices(s.facts, new)

        changes: dict[nodes.Stmt, Change] = {b: None}
        for c in readers:
            require_operands_stay(s, b, c)
            changes[c.block] = ReplaceLoads(s, store.buffer, value).stmt
        _apply(s, changes, store.buffer)

    @primitive
    def reverse_compute_inline(self, block: str) -> None:
        """Let a producer store what its only consumer would have made of each element.

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
        Step    reverse_compute_inline("C")
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    C[v] = (A[v] + 1.0) * 2.0
        Needs   a complete block with one producer, which is complete too and whose result nothing
                else reads; the indices at which it reads determine all its variables.
        """
        s = self.state
        c = s.realize(block)
        store = require_store(s, c)
        require_kind(s, c, Kind.COMPLETE)
        p = _only_producer(s, c)
        made = require_store(s, p)
        require_kind(s, p, Kind.COMPLETE)
        _require_only_consumer(s, p, c, made.buffer)
        require_unguarded(s, c, f"{p.block.name} would store more elements")
        require_unguarded(s, p, f"{c.block.name} would store fewer elements")
        indices = _read_indices(s, c, made.buffer)
        values = _instance(s, c, indices, made.indices)

        inline = ReplaceLoads(s, made.buffer, lambda _: made.value)
        value = simplify_indices(s.facts, inline.expr(substitute(store.value, values)))
        at = [s.facts.simplify(substitute(e, values)) for e in store.indices]
        block_new = p.block.replace(body=nodes.BufferStore(store.buffer, value, tuple(at)))
        guard = s.facts.conjunction(*[x for i in c.block.iter_vars for x in _inside(i, values)])
        if not is_const(guard) or not _onto(s, p, c, values):
            s.cannot_prove(
                f"{c.block.name} uses every element that {p.block.name} makes",
                mark={c: "consumer", p: "producer"},
                legal="a consumer of all elements",
            )
        _apply(s, {c: None, p.block: refreshed(s, block_new)}, made.buffer)


def _require_only_consumer(
    s: State, p: nodes.BlockRealize, c: nodes.BlockRealize, buffer: nodes.Buffer
) -> None:
    """Nothing but the consumer may need what the producer has stored so far."""
    require_intermediate(s, p, buffer, "which would be lost")
    others = [r for r in require_readers(s, p, buffer) if r is not c]
    if others:
        s.fail(
            f"{others[0].block.name} reads {buffer.name} too",
            mark={others[0]: "another consumer"},
            legal="a block that is its producer's only consumer",
        )


def _covers(s: State, b: nodes.BlockRealize, buffer: nodes.Buffer) -> bool:
    """Whether a block has as many iterations as its buffer elements."""
    return s.facts.equal(product(buffer.shape), _runs(b))


def _runs(b: nodes.BlockRealize) -> Expr:
    """How many iterations a block has."""
    return product([i.dom.extent for i in b.block.iter_vars])


def _onto(
    s: State, p: nodes.BlockRealize, c: nodes.BlockRealize, values: Mapping[Var, Expr]
) -> bool:
    """Whether the producer's iterations give each of the consumer's exactly once."""
    here = [values[i.var] for i in c.block.iter_vars]
    return s.facts.equal(_runs(p), _runs(c)) and injective(s, here, domain_loops(p.block.iter_vars))


def _inside(i: nodes.IterVar, values: Mapping[Var, Expr]) -> list[Expr]:
    return [values[i.var] >= i.dom.min, values[i.var] < i.dom.min + i.dom.extent]


def simplify_indices(facts: Facts, e: Expr) -> Expr:
    """A value with simplified indices and conditions; arithmetic on elements stays as written."""
    return _Indices(facts).expr(e)


class _Indices(Rewriter):
    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts

    def visit_expr(self, e: Expr) -> Expr:
        if e.dtype in ("int64", "bool") and not loads(e):
            return self.facts.simplify(e)
        return super().visit_expr(e)


def _require_operands_kept(
    s: State, b: nodes.BlockRealize, readers: Sequence[nodes.BlockRealize]
) -> None:
    later: set[nodes.Buffer] = {r.buffer for r in b.block.reads}
    order = s.index.order
    last = max(order[r] for r in readers)
    for w in s.producers(b):
        if order[b] < order[w] <= last:
            hit = next(x.buffer.name for x in w.block.writes if x.buffer in later)
            s.fail(
                f"{w.block.name} changes {hit}, which {b.block.name} reads, before the last use",
                mark={w: f"writes {hit}"},
                legal="operands that stay as they are",
            )


def _instance(
    s: State, b: nodes.BlockRealize, indices: Sequence[Expr], at: Sequence[Expr]
) -> dict[Var, Expr]:
    """The values of a block's variables with which `indices` are the indices `at`."""
    variables = [i.var for i in b.block.iter_vars]
    found: dict[Var, Expr] = {}
    for e, a in zip(indices, at, strict=True):
        if isinstance(e, Var) and e in variables:
            found.setdefault(e, a)
    if len(found) < len(variables):
        found = inverted(s.facts, indices, at, b.block.iter_vars) | found
    missing = [v.name for v in variables if v not in found]
    if missing:
        s.cannot_prove(
            f"the indices of an element determine {', '.join(missing)} of {b.block.name}",
            legal="a store at indices that are the block's variables",
        )
    return found


def _only_producer(s: State, c: nodes.BlockRealize) -> nodes.BlockRealize:
    producers = s.producers(c)
    if len(producers) != 1:
        names = ", ".join(p.block.name for p in producers) or "none"
        s.fail(
            f"{c.block.name} has {len(producers)} producers: {names}",
            mark=dict.fromkeys(producers, "producer"),
            legal="a block with one producer",
        )
    return producers[0]


def _read_indices(s: State, c: nodes.BlockRealize, buffer: nodes.Buffer) -> tuple[Expr, ...]:
    found = {e.indices for e in loads(c.block.body) if e.buffer is buffer}
    if len(found) != 1:
        s.fail(
            f"{c.block.name} reads {buffer.name} at {len(found)} places",
            mark={c: "consumer"},
            legal="a block that reads its producer at one place",
        )
    return found.pop()


def _apply(s: State, changes: Mapping[nodes.Stmt, Change], buffer: nodes.Buffer) -> None:
    """Make the changes and drop the buffer in one go."""
    inside = [b for b in nodes.walk(s.func.body) if isinstance(b, nodes.Block)]
    owners = [b for b in inside if buffer in b.alloc_buffers]
    s.replace({**changes, **dict.fromkeys(owners, releasing(buffer))})
