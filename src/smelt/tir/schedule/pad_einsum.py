"""pad_einsum: extents made round, with zeros around the operands."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import all_of, ceildiv, equal, if_then_else
from smelt.ir.expr import INDEX, Add, Expr, Mul, Var, cast, const
from smelt.ir.walk import free_vars
from smelt.tir.regions import full
from smelt.tir.rewrite import Indices, Rewriter

from .. import nodes
from . import require
from .exchange import stored
from .layout import own_loops
from .primitive import Base, primitive
from .region import refreshed
from .state import State, allocating


class EinsumPrimitives(Base):
    """pad_einsum."""

    @primitive
    def pad_einsum(self, block: str, padding: Sequence[int]) -> None:
        """Make the extents of a contraction multiples of numbers, with zeros around its operands.

        padding  a number per variable of the block

        Before
            for i, k in T.grid(5, 7):
                with T.block("C"):
                    v, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[v] = 0.0
                    C[v] = C[v] + A[v, vk] * B[vk]
        Step    pad_einsum("C", [4, 4])
        After
            A_pad = T.alloc_buffer((8, 8))
            B_pad = T.alloc_buffer((8,))
            C_pad = T.alloc_buffer((8,))
            for ax0, ax1 in T.grid(8, 8):
                with T.block("A_pad"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    A_pad[v0, v1] = T.if_then_else(v0 < 5 and v1 < 7, A[v0, v1], 0.0)
            for ax0_1 in range(8):
                with T.block("B_pad"):
                    v0_1 = T.axis.spatial(8, ax0_1)
                    B_pad[v0_1] = T.if_then_else(v0_1 < 7, B[v0_1], 0.0)
            for i, k in T.grid(8, 8):
                with T.block("C"):
                    v, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_pad[v] = 0.0
                    C_pad[v] = C_pad[v] + A_pad[v, vk] * B_pad[vk]
            for ax0_2 in range(5):
                with T.block("C_pad"):
                    v0_2 = T.axis.spatial(5, ax0_2)
                    C[v0_2] = C_pad[v0_2]
        Needs   a reduction block alone in its loops that adds up a product (or a complete one)
                whose
                operands are indexed by its variables; each padded reduce variable indexes a factor.
        """
        s, b = self._at(block)
        require.require_kind(s, b, require.Kind.REDUCTION, require.Kind.COMPLETE)
        require.require_top(s, b)
        if len(padding) != len(b.block.iter_vars) or any(p < 1 for p in padding):
            s.fail(
                f"{list(padding)} are not {len(b.block.iter_vars)} positive numbers",
                legal="a number for each variable of the block",
            )
        _Padding(s, b, padding).carry_out()


class _Padding:
    """One call of pad_einsum."""

    def __init__(self, s: State, b: nodes.BlockRealize, padding: Sequence[int]) -> None:
        """Find the new extents and check that zeros change nothing."""
        self.s, self.b = s, b
        self.nest = own_loops(s, b)
        iters, facts = b.block.iter_vars, s.facts
        self.extents: dict[Var, Expr] = {}
        for i, p in zip(iters, padding, strict=True):
            self.extents[i.var] = facts.simplify(ceildiv(i.dom.extent, p) * p)
        self.grown = {i.var for i in iters if not facts.equal(self.extents[i.var], i.dom.extent)}
        self.swap: dict[nodes.Buffer, nodes.Buffer] = {}
        self.before: list[nodes.Stmt] = []
        self.after: list[nodes.Stmt] = []
        self._check()

    def _check(self) -> None:
        s, b = self.s, self.b
        for r in b.block.reads:
            require.require_producers_apart(s, b, r.buffer)
        for r in b.block.writes:
            require.require_consumers_apart(s, b, r.buffer)
        for i in b.block.iter_vars:
            s.demand(
                equal(i.dom.min, 0),
                f"{i.var.name} does not begin at 0",
                f"{i.var.name} begins at 0",
                legal="a block whose variables begin at 0",
            )
        for r in (*b.block.reads, *b.block.writes):
            for d in r.region:
                if not isinstance(d.min, Var) and free_vars(d.min) & self.grown:
                    s.fail(
                        f"{r.buffer.name} is indexed by more than a variable",
                        legal="operands indexed by the block's variables",
                    )
        for i in b.block.iter_vars:
            indexes = all(any(d.min is i.var for d in w.region) for w in b.block.writes)
            if i.var in self.grown and i.kind == "spatial" and not indexes:
                s.fail(
                    f"{i.var.name} is no index of the result",
                    mark={b: "its store"},
                    legal="a result indexed by all padded spatial variables",
                )
        reduced = {i.var for i in b.block.iter_vars if i.kind == "reduce"} & self.grown
        body = require.require_store(s, b)
        if reduced:
            self._check_sum(body, reduced)

    def _check_sum(self, body: nodes.BufferStore, reduced: set[Var]) -> None:
        """Zeros in the padding of reduce variables must add nothing."""
        s, b = self.s, self.b
        old = nodes.BufferLoad(body.buffer, body.indices)
        if not isinstance(body.value, Add) or old not in (body.value.a, body.value.b):
            s.fail(
                f"{b.block.name} does not add up a product: zeros would change its result",
                mark={b: "its body"},
                legal="C = C + A * B, or padding 1 for the reduce variables",
            )
        term = body.value.b if body.value.a is old else body.value.a
        covered: set[Var] = set()
        for f in _factors(term):
            covered |= set(f.indices) & reduced  # type: ignore[arg-type]
        if reduced - covered:
            name = min(v.name for v in reduced - covered)
            s.cannot_prove(
                f"the added value is zero in the padding of {name}",
                mark={b: "its body"},
                legal="a factor indexed by the reduce variable",
            )

    def carry_out(self) -> None:
        """Change the program."""
        s, b = self.s, self.b
        written = {w.buffer for w in b.block.writes}
        for r in (*b.block.reads, *b.block.writes):
            if r.buffer not in self.swap and {d.min for d in r.region} & self.grown:
                self._pad(r.buffer, [d.min for d in r.region], r.buffer in written)
        iters = tuple(
            [i.replace(dom=nodes.Range(i.dom.min, self.extents[i.var])) for i in b.block.iter_vars]
        )
        for i in iters:
            s.facts.bind(i.var, i.dom.min, i.dom.extent)
        swap = Rewriter(buffers=self.swap)
        block = swap.block_parts(b.block.replace(iter_vars=iters))
        stmt: nodes.Stmt = nodes.BlockRealize(b.values, b.predicate, refreshed(s, block))
        by_loop = {v: self.extents[i.var] for i, v in b.bindings}
        for x in reversed([x for x in s.loops_above(b) if s.is_under(x, self.nest)]):
            s.facts.bind(x.var, x.min, by_loop[x.var])
            stmt = x.replace(extent=by_loop[x.var], body=stmt)
        nest, new = nodes.seq(*self.before, stmt, *self.after), allocating(*self.swap.values())
        s.replace({self.nest: nest, s.scope(b).block: new})

    def _pad(self, buffer: nodes.Buffer, indices: Sequence[Expr], written: bool) -> None:
        """A larger copy of an operand, made before, or of the result, copied back behind."""
        s = self.s
        larger: dict[Expr, Expr] = {v: self.extents[v] for v in self.grown}
        pairs = zip(indices, buffer.shape, strict=True)
        shape = tuple([larger.get(e, size) for e, size in pairs])
        # neighbours of the result stay neighbours of sums, which are vectors in registers
        strides = self._in_order(buffer, shape) if written else ()
        new = nodes.Buffer(s.fresh(f"{buffer.name}_pad"), shape, buffer.type, "global", strides)
        self.swap[buffer] = new

        def copy(point: Indices) -> nodes.BufferStore:
            if written:
                return nodes.BufferStore(buffer, nodes.BufferLoad(new, point), point)
            ends = zip(point, buffer.shape, shape, strict=True)
            inside = all_of([p < e for p, e, f in ends if not s.facts.equal(e, f)])
            zero = cast(buffer.type, const(0, buffer.type))
            value = if_then_else(inside, nodes.BufferLoad(buffer, point), zero)
            return nodes.BufferStore(new, value, point)

        _, nest = stored(s, new.name, full(buffer if written else new).region, copy)
        (self.after if written else self.before).append(nest)

    def _in_order(self, buffer: nodes.Buffer, shape: Indices) -> Indices:
        """Strides of a dense buffer of a shape, its dimensions in the order of another buffer's.

        None where those lie row by row, or where their order cannot be told.
        """
        facts = self.s.facts
        one = const(1, INDEX)
        left = [d for d in range(buffer.rank) if not facts.equal(buffer.shape[d], one)]
        found: dict[int, Expr] = {}
        old: Expr = one
        new: Expr = one
        while left and buffer.strides:
            at = next((d for d in left if facts.equal(buffer.strides[d], old)), None)
            if at is None:
                return ()
            found[at] = facts.simplify(new)
            old, new = facts.simplify(old * buffer.shape[at]), new * shape[at]
            left.remove(at)
        if list(found) == sorted(found, reverse=True):
            return ()
        for d in reversed(range(buffer.rank)):
            if d not in found:  # of one element, unless it was padded: outside of all others
                found[d], new = facts.simplify(new), new * shape[d]
        return tuple([found[d] for d in range(buffer.rank)])


def _factors(e: Expr) -> list[nodes.BufferLoad]:
    """The loads that are factors of a product, casts looked through."""
    if isinstance(e, Mul):
        return _factors(e.a) + _factors(e.b)
    inner = getattr(e, "value", None)
    if isinstance(inner, Expr):
        return _factors(inner)
    return [e] if isinstance(e, nodes.BufferLoad) else []
