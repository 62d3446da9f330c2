"""Primitives about layouts: of buffers, and of the iterations of a block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.build import all_of, is_const, logical_not, value_of
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import INDEX, Expr, ExprLike, FloorMod, IntImm, Var, const, convert
from smelt.ir.walk import substitute
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IterVar,
    Range,
    Stmt,
    no_op,
    seq,
    walk,
)
from smelt.tir.rewrite import Rewriter, substitute_stmt

from .cache import buffer_at
from .check import (
    injective,
)
from .primitive import Base, primitive
from .region import accesses, solve
from .state import Change, State
from .trace import Formula, expr_text

__all__ = ["LayoutPrimitives", "own_loops", "transform_accesses"]

IndexFunction = Callable[..., Any]


class LayoutPrimitives(Base):
    """transform_layout and transform_block_layout."""

    @primitive
    def transform_layout(
        self,
        block: str,
        buffer: tuple[str, int] | str,
        index_map: IndexFunction,
        pad_value: ExprLike | str | None = None,
    ) -> None:
        """Store a buffer, a parameter too, in another physical order.

        buffer     ("read", i), ("write", i), or the buffer's name
        index_map  from the old indices to the new ones
        pad_value  what the padding holds where the new shape has more elements: written behind
                   the buffer's writer, and promised of a parameter that is only read; "undef"
                   where nobody looks at it

        Before
            for i in range(16):
                with T.block("B"):
                    v = T.axis.spatial(16, i)
                    B[v] = A[v] + 1.0
        Step    transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))
        After
            for i in range(16):
                with T.block("B"):
                    v = T.axis.spatial(16, i)
                    B[v // 4, v % 4] = A[v] + 1.0
        Needs   a map that gives different elements different places, shown by mixed-radix
                reasoning.
        """
        s = self.state
        b = s.realize(block)
        if isinstance(pad_value, str) and pad_value != "undef":
            s.fail(f'pad_value is {pad_value!r}; legal: a number, an expression, "undef"')
        old = named_buffer(s, b, buffer)
        variables, results = _mapped(s, index_map, old.shape)
        s.call.args["index_map"] = _text(variables, results)
        if old.strides:
            s.fail(
                f"{old.name} has strides; only dense buffers have a layout to transform",
                mark={b: "this block"},
            )
        shape = _image(
            s, variables, results, old.shape, f"buffer {old.name}", padded=pad_value is not None
        )
        new = Buffer(old.name, shape, old.type, old.scope)
        padded = not s.facts.equal(_product(shape), _product(old.shape))

        def at(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
            values = dict(zip(variables, indices, strict=True))
            return tuple([s.facts.simplify(substitute(r, values)) for r in results])

        writers = s.writers(s.scope(b), old)
        transform_accesses(s, old, new, Relayout(old, new, at))
        if padded and writers and pad_value is not None and not isinstance(pad_value, str):
            last = max((s.realize(w.block.name) for w in writers), key=lambda w: s.index.order[w])
            _fill_padding(s, last, old, new, variables, convert(pad_value, old.type), results)

    @primitive
    def transform_block_layout(self, block: str, index_map: IndexFunction) -> None:
        """Let a block, and the loops around it, run over other variables.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    transform_block_layout("B", lambda i, j: (i * 6 + j,))
        After
            for ax0 in range(24):
                with T.block("B"):
                    v0 = T.axis.spatial(24, ax0)
                    B[v0 // 6, v0 % 6] = A[v0 // 6, v0 % 6] + 1.0
        Needs   a block alone in its loops, each of which is one of its variables; an index map
                that can
                be inverted and covers its image, without mixing spatial and reduce variables.
        """
        s = self.state
        b = s.realize(block)
        outer = own_loops(s, b)
        extents = [i.dom.extent for i in b.block.iter_vars]
        variables, results = _mapped(s, index_map, extents)
        s.call.args["index_map"] = _text(variables, results)
        shape = _image(s, variables, results, extents, f"block {b.block.name}")
        if not s.facts.equal(_product(shape), _product(extents)):
            s.fail(
                "the index map leaves gaps: it gives more iterations than there are",
                mark={b: "this block"},
                legal="a map onto as many values",
            )
        to_own: dict[Var, Expr] = {
            x: i.var for x, i in zip(variables, b.block.iter_vars, strict=True)
        }
        own = [substitute(r, to_own) for r in results]
        kinds = [_one_kind(s, b, e) for e in own]
        new = [
            IterVar(s.new_var(f"v{k}", 0, e), Range(const(0, INDEX), e), kind)
            for k, (e, kind) in enumerate(zip(shape, kinds, strict=True))
        ]
        values = _inverted(s, b, own, new)
        inner = b.block.replace(
            iter_vars=tuple(new),
            body=substitute_stmt(b.block.body, values),
            init=None if b.block.init is None else substitute_stmt(b.block.init, values),
        )
        reads, writes = accesses(s.facts, inner)
        inner = inner.replace(reads=reads, writes=writes)
        nest = s.nest(
            [f"ax{k}" for k in range(len(new))],
            shape,
            lambda loops: BlockRealize(tuple(loops), const(True), inner),
        )
        s.replace({outer: nest})


# ------------------------------------------------------------------------------------ index maps


def _mapped(
    s: State, index_map: IndexFunction, extents: Sequence[Expr]
) -> tuple[list[Var], list[Expr]]:
    """Fresh variables over the extents and the map's results on them."""
    if not extents:
        s.fail(
            "there are no indices to map", legal="a block with variables, a buffer with dimensions"
        )
    names = _parameter_names(index_map, len(extents))
    variables = []
    for name, extent in zip(names, extents, strict=True):
        v = Var(name)
        s.facts.bind(v, const(0, INDEX), extent)
        variables.append(v)
    try:
        out = index_map(*variables)
    except TypeError as e:
        raise ScheduleError(
            f"{s.call.name}: the index map does not take {len(extents)} indices: {e}"
        ) from None
    items = out if isinstance(out, list | tuple) else (out,)
    return variables, [convert(e, INDEX) for e in items]


def _parameter_names(index_map: IndexFunction, rank: int) -> list[str]:
    try:
        params = inspect.signature(index_map).parameters.values()
    except (TypeError, ValueError):
        params = ()  # type: ignore[assignment]
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names if len(names) == rank else [f"i{k}" for k in range(rank)]


def _text(variables: Sequence[Var], results: Sequence[Expr]) -> Formula:
    items = ", ".join(expr_text(r) for r in results)
    return Formula(f"lambda {', '.join(v.name for v in variables)}: ({items},)")


def _image(
    s: State,
    variables: Sequence[Var],
    results: Sequence[Expr],
    extents: Sequence[Expr],
    what: str,
    padded: bool = False,
) -> tuple[Expr, ...]:
    """The shape of the results; refuses a map that sends two elements to one place.

    padded  a remainder's dimension has the whole divisor's extent, however few elements there are
    """
    loops = [For(v, const(0, INDEX), e, no_op()) for v, e in zip(variables, extents, strict=True)]
    if not injective(s, results, loops):
        s.cannot_prove(
            f"the index map gives different elements of {what} different places",
            legal="sums of digits, quotients and remainders, e.g. lambda i, j: (i // 8, j, i % 8)",
        )
    shape = []
    for r in results:
        ends = s.facts.relax(r, loops)
        if ends is None or not s.facts.prove(ends[0] >= 0):
            s.cannot_prove(f"the index map of {what} is never negative", legal="indices >= 0")
        whole = (
            padded and isinstance(r, FloorMod) and isinstance(r.a, Var) and isinstance(r.b, IntImm)
        )
        shape.append(r.b if whole else s.facts.simplify(ends[1] + 1))  # type: ignore[attr-defined]
    return tuple(shape)


def _product(items: Sequence[Expr]) -> Expr:
    out: Expr = const(1, INDEX)
    for e in items:
        out = out * e
    return out


def _inverted(
    s: State, b: BlockRealize, own: Sequence[Expr], new: Sequence[IterVar]
) -> dict[Var, Expr]:
    """A block's variables in terms of the new ones that are functions of them."""
    variables = [i.var for i in b.block.iter_vars]
    domain, _ = solve(s.facts, own, [(i.var, i.var) for i in new], variables)
    for i in b.block.iter_vars:
        if i.var not in domain and is_const(i.dom.extent, 1):
            domain[i.var] = (i.dom.min, i.dom.min)
        if i.var not in domain or not s.facts.equal(*domain[i.var]):
            s.cannot_prove(
                "the index map can be inverted", mark={b: f"{i.var.name} is not determined"}
            )
    return {v: domain[v][0] for v in variables}


def _one_kind(s: State, b: BlockRealize, e: Expr) -> str:
    kinds = {i.kind for i in b.block.iter_vars if i.var in variables_of(e)}
    if len(kinds) > 1:
        s.fail(
            f"the index map mixes {' and '.join(sorted(kinds))} variables of {b.block.name}",
            mark={b: "this block"},
            legal="results over variables of one kind each",
        )
    return kinds.pop() if kinds else "spatial"


def variables_of(e: Expr) -> set[Var]:
    """The variables in an expression."""
    out, stack = set(), [e]
    while stack:
        n = stack.pop()
        if isinstance(n, Var):
            out.add(n)
        stack.extend(c for c in n.children() if isinstance(c, Expr))
    return out


# --------------------------------------------------------------------------------------- buffers


def named_buffer(s: State, b: BlockRealize, buffer: tuple[str, int] | str) -> Buffer:
    """A buffer given by kind and position or by name."""
    if not isinstance(buffer, str):
        kind, index = buffer
        if kind not in ("read", "write"):
            s.fail(f"{kind!r} is no kind of access", legal='("read", i), ("write", i) or a name')
        return buffer_at(s, b, kind, index)
    found = {r.buffer.name: r.buffer for r in (*b.block.reads, *b.block.writes)}
    if buffer not in found:
        s.fail(
            f"{b.block.name} does not use {buffer!r}",
            mark={b: "this block"},
            legal=", ".join(found),
        )
    return found[buffer]


class Relayout(Rewriter):
    """Moves every access of a buffer to new indices of a new one."""

    def __init__(
        self, old: Buffer, new: Buffer, at: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]
    ) -> None:
        super().__init__()
        self.old, self.new, self.at = old, new, at

    def visit_expr(self, e: Expr) -> Expr:
        new = super().visit_expr(e)
        if isinstance(new, BufferLoad) and new.buffer is self.old:
            return BufferLoad(self.new, self.at(new.indices))
        return new

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        indices, value = self.exprs(s.indices), self.expr(s.value)
        if s.buffer is self.old:
            return BufferStore(self.new, value, self.at(indices))
        return BufferStore(s.buffer, value, indices)

    def visit_Block(self, s: Block) -> Stmt:
        return s.replace(body=self.stmt(s.body), init=None if s.init is None else self.stmt(s.init))


def refreshed(s: State, block: Stmt) -> Block:
    """A block with its regions read off its body again."""
    assert isinstance(block, Block)
    reads, writes = accesses(s.facts, block)
    return block.replace(reads=reads, writes=writes)


def transform_accesses(s: State, old: Buffer, new: Buffer, rewriter: Rewriter) -> None:
    """Let every block use a new buffer in the place of an old one, as a rewriter says."""
    changes: dict[Stmt, Change] = {}
    for b in walk(s.func.body):
        if not isinstance(b, Block):
            continue
        if any(r.buffer is old for r in (*b.reads, *b.writes)) and not is_outer(b):
            changes[b] = refreshed(s, rewriter.stmt(b))
        elif is_outer(b) and b.name != "root":
            changes[b] = lambda x: refreshed(s, _realloc(x, old, new))
        elif old in b.alloc_buffers:
            changes[b] = lambda x: _realloc(x, old, new)
    s.replace(changes)
    if old in s.func.params:
        s.set_func(s.func.replace(params=tuple([new if p is old else p for p in s.func.params])))


def is_outer(b: Block) -> bool:
    """Whether a block has blocks inside."""
    return any(isinstance(x, BlockRealize) for x in walk(b.body))


def _realloc(b: Stmt, old: Buffer, new: Buffer) -> Block:
    assert isinstance(b, Block)
    return b.replace(alloc_buffers=tuple([new if x is old else x for x in b.alloc_buffers]))


def _fill_padding(
    s: State,
    writer: BlockRealize,
    old: Buffer,
    new: Buffer,
    variables: Sequence[Var],
    value: Expr,
    results: Sequence[Expr],
) -> None:
    """Write the padding behind the nest that writes the buffer."""
    zero, one = const(0, INDEX), const(1, INDEX)
    iters = [IterVar(s.new_var(f"v{k}", 0, e), Range(zero, e)) for k, e in enumerate(new.shape)]
    domain, _ = solve(s.facts, results, [(i.var, i.var) for i in iters], variables)
    inside = []
    for v, extent in zip(variables, old.shape, strict=True):
        if v not in domain or not s.facts.equal(*domain[v]):
            s.cannot_prove(
                f"the index map of {old.name} can be inverted, to find its padding",
                mark={writer: f"writes {old.name}"},
                legal="no pad_value",
            )
        inside.append(domain[v][0] < extent)
    point: tuple[Expr, ...] = tuple([i.var for i in iters])
    region = BufferRegion(new, tuple([Range(p, one) for p in point]))
    name = s.fresh_block(f"{old.name}_padding")
    block = Block(name, tuple(iters), (), (region,), BufferStore(new, value, point))

    def make(loops: list[Expr]) -> Stmt:
        outside = logical_not(all_of([s.facts.simplify(c) for c in inside if not s.facts.prove(c)]))
        at = {i.var: x for i, x in zip(iters, loops, strict=True)}
        return BlockRealize(tuple(loops), substitute(outside, at), block)

    nest = s.nest([f"ax{k}" for k in range(len(iters))], new.shape, make)
    place = s.top(writer, s.scope(writer).block)
    s.replace({place: lambda x: seq(x, nest)})


def own_loops(s: State, b: BlockRealize) -> Stmt:
    """The outermost statement of a block's own nest: loops that are its variables, one by one."""
    loops = s.loops_above(b)
    wanted = list(b.values)
    node: Stmt = b
    for x in reversed(loops):
        if x.body is not node or x.var not in wanted:
            break
        wanted.remove(x.var)
        node = x
    rest = [v for v in wanted if value_of(v) is None]
    around = {x.var: x for x in loops}
    for i, v in zip(b.block.iter_vars, b.values, strict=True):
        loop = around.get(v) if isinstance(v, Var) else None
        low, extent = (v, const(1, INDEX)) if loop is None else (loop.min, loop.extent)
        if not (s.facts.equal(low, i.dom.min) and s.facts.equal(extent, i.dom.extent)):
            rest.append(v)
    if rest or not is_const(b.predicate):
        s.fail(
            f"{b.block.name} does not stand alone in loops that are its variables one by one",
            mark={b: "this block"},
            legal="a block as te makes it, before its loops are changed",
        )
    return node
