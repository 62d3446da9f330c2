"""Primitives that make a loop nest one block, and replace a block by an instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.ir.build import all_of, ceildiv, is_const
from smelt.ir.expr import INDEX, Add, Binary, Expr, Mul, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IterVar,
    PrimFunc,
    Range,
    Seq,
    Stmt,
)
from smelt.tir.rewrite import Rewriter, substitute_stmt

from .facts import conjuncts
from .fresh import freshened
from .handles import BlockRV
from .loops import find
from .primitive import Base, primitive
from .region import accesses
from .state import State

__all__ = ["INTRINSICS", "BlockizePrimitives", "Intrinsic"]

Intrinsic = tuple[PrimFunc, PrimFunc]
"""What an instruction means, and the program that calls it; parameters correspond by place."""

INTRINSICS: dict[str, Intrinsic] = {}
"""Instructions by name; `tensorize` adds those that it is given as pairs."""


class BlockizePrimitives(Base):
    """blockize and tensorize."""

    @primitive
    def blockize(self, target: str) -> BlockRV:
        """Make a loop, with the one block in it, a block of a scope of its own.

        Before
            for i_0, i_1 in T.grid(4, 8):
                with T.block("B"):
                    v = T.axis.spatial(32, i_0 * 8 + i_1)
                    B[v] = A[v] + 1.0
        Step    blockize("i_1")
        After
            for i_0 in range(4):
                with T.block("B_o"):
                    v_o = T.axis.spatial(4, i_0)
                    for i_1 in range(8):
                        with T.block("B"):
                            v = T.axis.spatial(32, v_o * 8 + i_1)
                            B[v] = A[v] + 1.0
        Needs   a perfect nest with one block, whose variables are tiles of the inner loops times
                outer ones.
        """
        s = self.state
        node = find(s, target)
        blocks = s.blocks_in(node)
        if len(blocks) != 1:
            s.fail(
                f"{target} holds {len(blocks)} blocks",
                mark=dict.fromkeys(blocks, "block"),
                legal="a loop around one block",
            )
        b = blocks[0]
        inner = ([node] if isinstance(node, For) else []) + s.loops_between(b, node)
        self._outer = _Outer(s, b, inner)
        s.replace({node: self._outer.realize})
        return BlockRV(self._outer.name)

    @primitive
    def tensorize(self, block_or_loop: str, tensor_intrin: str | Intrinsic) -> None:
        """Replace a tile by an instruction that does the same.

        tensor_intrin  (description, implementation), or the name of a registered pair

        Needs   a loop or block whose statements equal the description, up to the order of the
                operands
                of + and *, with each of its buffers standing for a box of one of the tile's.
        """
        s = self.state
        if isinstance(tensor_intrin, str):
            if tensor_intrin not in INTRINSICS:
                s.fail(
                    f"there is no intrinsic {tensor_intrin!r}",
                    legal=", ".join(INTRINSICS) or "none registered",
                )
            name, (meaning, body) = tensor_intrin, INTRINSICS[tensor_intrin]
        else:
            meaning, body = tensor_intrin
            name = body.name
            INTRINSICS[name] = (meaning, body)
        s.call.args["tensor_intrin"] = name
        node = find(s, block_or_loop)
        outer = s.realize(self.blockize(block_or_loop)) if isinstance(node, For) else node
        match = _Match(s, name)
        match.statement(_inner(meaning.body), outer.block.body)
        stmt = _Place(match.places, dict(zip(body.buffers, meaning.buffers, strict=True))).stmt(
            freshened(s, _inner(body.body))
        )
        block = outer.block.replace(body=stmt)
        reads, writes = accesses(s.facts, block)
        s.replace(
            {
                outer.block: block.replace(
                    reads=reads or outer.block.reads, writes=writes or outer.block.writes
                )
            }
        )


class _Outer:
    """The block around a tile."""

    def __init__(self, s: State, b: BlockRealize, inner: Sequence[For]) -> None:
        """Divide each variable into an outer one and an offset inside the tile."""
        self.state, self.b, self.inner = s, b, inner
        self.name = s.fresh_block(f"{b.block.name}_o")
        self.iters: list[IterVar] = []
        self.values: list[Expr] = []
        self.outside: list[Expr] = []
        inside: list[Expr] = []
        for i, value in zip(b.block.iter_vars, b.values, strict=True):
            inside.append(self._divide(i, value))
        outer_guard, inner_guard = self._guards(inside)
        reduces = any(i.kind == "reduce" for i in self.iters)
        block = b.block.replace(init=None) if reduces else b.block
        stmt: Stmt = BlockRealize(tuple(inside), inner_guard, block)
        for x in reversed(inner):
            stmt = x.replace(body=stmt)
        init = self._init(inside, inner_guard) if reduces and b.block.init is not None else None
        whole = Block(self.name, tuple(self.iters), (), (), stmt, init)
        reads, writes = accesses(s.facts, whole)
        if init is None and b.block.init is not None:
            own = {w.buffer for w in b.block.writes}
            reads = tuple([r for r in reads if r.buffer not in own])
        self.realize = BlockRealize(
            tuple(self.values), outer_guard, whole.replace(reads=reads, writes=writes)
        )

    def _divide(self, i: IterVar, value: Expr) -> Expr:
        s, facts = self.state, self.state.facts
        at_start = substitute(value, {x.var: x.min for x in self.inner})
        base = facts.simplify(at_start)
        offset = facts.simplify(value - base)
        ends = facts.relax(offset, self.inner)
        loose = free_vars(offset) - {x.var for x in self.inner}
        if ends is None or any(v.name in s.index.loops for v in loose):
            s.cannot_prove(
                f"{i.var.name} of {self.b.block.name} is a tile of the inner loops "
                f"times outer ones",
                mark={self.b: f"binding of {i.var.name}"},
                legal="loops as split makes them",
            )
        width = facts.extent(*ends)
        if is_const(width, 1):
            return self._add(i, base, i.dom)
        if facts.equal(base, i.dom.min) and facts.prove(width >= i.dom.extent):
            return facts.simplify(base + offset)
        count = facts.simplify(base // width)
        if not facts.equal(count * width, base):
            s.cannot_prove(
                f"{i.var.name} of {self.b.block.name} begins at a multiple of its "
                f"tile in each iteration",
                mark={self.b: f"binding of {i.var.name}"},
                legal="loops as split makes them",
            )
        outer = self._add(
            i, count, Range(const(0, INDEX), facts.simplify(ceildiv(i.dom.extent, width)))
        )
        return facts.simplify(outer * width + offset)

    def _add(self, i: IterVar, value: Expr, dom: Range) -> Expr:
        v = self.state.new_var(f"{i.var.name}_o", dom.min, dom.extent)
        self.iters.append(IterVar(v, dom, i.kind))
        self.values.append(value)
        for c in (value >= dom.min, value < dom.min + dom.extent):
            if not self.state.facts.prove(c):
                self.outside.append(c)
        return v

    def _guards(self, inside: Sequence[Expr]) -> tuple[Expr, Expr]:
        """The predicate's parts about outer loops, and those about the inner ones."""
        facts = self.state.facts
        ours = {x.var for x in self.inner}
        outer, inner = [], []
        for c in conjuncts(self.b.predicate):
            if not free_vars(c) & ours:
                outer.append(c)
                continue
            for i, value, new in zip(self.b.block.iter_vars, self.b.values, inside, strict=True):
                if facts.simplify(c) is facts.simplify(value < i.dom.min + i.dom.extent):
                    inner.append(new < i.dom.min + i.dom.extent)
                    break
            else:
                self.state.cannot_prove(
                    f"the guard of {self.b.block.name} can be told by its variables",
                    mark={self.b: "its guard"},
                    legal="a guard of the variables' ranges",
                )
        return all_of(list(dict.fromkeys(outer + self.outside))), facts.conjunction(*inner)

    def _init(self, inside: Sequence[Expr], guard: Expr) -> Stmt:
        """The initial values of a whole tile."""
        b, s = self.b, self.state
        pairs = [
            (i, v) for i, v in zip(b.block.iter_vars, inside, strict=True) if i.kind == "spatial"
        ]
        used = set().union(*[free_vars(v) for _, v in pairs]) if pairs else set()
        own: dict[Var, Expr] = {}
        iters = []
        for i, _ in pairs:
            v = s.new_var(f"{i.var.name}_init", i.dom.min, i.dom.extent)
            iters.append(IterVar(v, i.dom))
            own[i.var] = v
        fresh: dict[Var, Expr] = {
            x.var: s.new_var(f"{x.var.name}_init", x.min, x.extent)
            for x in self.inner
            if x.var in used
        }
        assert b.block.init is not None
        kept = [
            c
            for c in conjuncts(guard)
            if not free_vars(c) & ({x.var for x in self.inner} - set(fresh))
        ]
        block = Block(
            s.fresh_block(f"{b.block.name}_init"),
            tuple(iters),
            (),
            (),
            substitute_stmt(b.block.init, own),
        )
        reads, writes = accesses(s.facts, block)
        stmt: Stmt = BlockRealize(
            tuple([substitute(v, fresh) for _, v in pairs]),
            substitute(all_of(kept), fresh),
            block.replace(reads=reads, writes=writes),
        )
        for x in reversed(self.inner):
            own_loop = fresh.get(x.var)
            if isinstance(own_loop, Var):
                stmt = For(own_loop, x.min, x.extent, stmt)
        return stmt


# -------------------------------------------------------------------------------------- matching


def _inner(s: Stmt) -> Stmt:
    """What a function's root block does."""
    return s.block.body if isinstance(s, BlockRealize) and not s.values else s


class _Match:
    """Compares a description with a tile and finds where its buffers lie."""

    def __init__(self, state: State, name: str) -> None:
        """Nothing is known yet."""
        self.state, self.name = state, name
        self.loops: dict[Var, Expr] = {}
        self.places: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]] = {}
        self.inner: set[Var] = set()
        self.meaning: dict[Var, Expr] = {}
        self.values: dict[Var, Expr] = {}

    def refuse(self, why: str, s: Stmt | None = None) -> None:
        """Raise, naming the difference."""
        self.state.fail(
            f"the tile is not what {self.name} does: {why}",
            mark={s: why} if s is not None and s in self.state.index.order else {},
            legal="a tile that equals the description",
        )

    def statement(self, d: Stmt, t: Stmt) -> None:
        """Compare two statements."""
        match d, t:
            case For(), For():
                if not self.state.facts.equal(substitute(d.extent, {}), t.extent):
                    self.refuse(f"the loop {t.var.name} has another extent", t)
                self.loops[d.var] = t.var
                self.inner.add(t.var)
                self.statement(d.body, t.body)
            case BlockRealize(), BlockRealize():
                if not is_const(t.predicate):
                    self.refuse(f"{t.block.name} is guarded", t)
                self._block(d, t)
            case BufferStore(), BufferStore():
                self._access(d.buffer, d.indices, t.buffer, t.indices)
                if not self.expr(d.value, t.value):
                    self.refuse("the stored values differ", t)
            case Seq(a), Seq(b) if len(a) == len(b):
                for x, y in zip(a, b, strict=True):
                    self.statement(x, y)
            case _:
                self.refuse(f"{type(t).__name__} stands where {type(d).__name__} should", t)

    def _block(self, d: BlockRealize, t: BlockRealize) -> None:
        for i, v in zip(d.block.iter_vars, d.values, strict=True):
            self.meaning[i.var] = substitute(v, self.loops)
        for i, v in zip(t.block.iter_vars, t.values, strict=True):
            self.values[i.var] = v
        if (d.block.init is None) != (t.block.init is None):
            self.refuse("only one of them sets initial values", t)
        if d.block.init is not None and t.block.init is not None:
            self.statement(d.block.init, t.block.init)
        self.statement(d.block.body, t.block.body)

    def expr(self, d: Expr, t: Expr) -> bool:
        """Whether two expressions are equal, operands of + and * in any order."""
        if isinstance(d, BufferLoad) and isinstance(t, BufferLoad):
            return self._access(d.buffer, d.indices, t.buffer, t.indices, refuse=False)
        if type(d) is not type(t) or d.dtype != t.dtype:
            return False
        if isinstance(d, Binary) and isinstance(t, Binary):
            saved = dict(self.places)
            if self.expr(d.a, t.a) and self.expr(d.b, t.b):
                return True
            self.places = saved
            return isinstance(d, Add | Mul) and self.expr(d.a, t.b) and self.expr(d.b, t.a)
        if isinstance(d, Var):
            return self.state.facts.equal(substitute(d, self.meaning), substitute(t, self.values))
        below_d = [c for c in d.children() if isinstance(c, Expr)]
        below_t = [c for c in t.children() if isinstance(c, Expr)]
        if not below_d:
            return d is t
        same = len(below_d) == len(below_t) and getattr(d, "op", None) == getattr(t, "op", None)
        return same and all(self.expr(a, b) for a, b in zip(below_d, below_t, strict=True))

    def _access(
        self, d: Buffer, at: Sequence[Expr], t: Buffer, indices: Sequence[Expr], refuse: bool = True
    ) -> bool:
        """Let a description's buffer stand for a box of a tile's buffer."""
        facts = self.state.facts
        skip = len(indices) - len(at)
        good = skip >= 0 and d.dtype == t.dtype
        base: list[Expr] = []
        for k, e in enumerate(indices if good else ()):
            there = substitute(e, self.values)
            if k >= skip:
                there = there - substitute(substitute(at[k - skip], self.meaning), self.loops)
            base.append(facts.simplify(there))
            good = good and not free_vars(base[-1]) & self.inner
        found = self.places.setdefault(d, (t, tuple(base))) if good else (t, ())
        good = (
            good
            and found[0] is t
            and all(facts.equal(a, b) for a, b in zip(found[1], base, strict=True))
        )
        if refuse and not good:
            self.refuse(f"{d.name} does not stand for a box of {t.name}")
        return good


class _Place(Rewriter):
    """Puts an implementation's accesses where the tile's buffers lie."""

    def __init__(
        self,
        places: Mapping[Buffer, tuple[Buffer, tuple[Expr, ...]]],
        names: Mapping[Buffer, Buffer],
    ) -> None:
        super().__init__()
        self.places = {b: places[m] for b, m in names.items() if m in places}

    def _at(self, b: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        if b not in self.places:
            return b, indices
        target, base = self.places[b]
        skip = len(base) - len(indices)
        return target, tuple(
            [e + indices[k - skip] if k >= skip else e for k, e in enumerate(base)]
        )

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad):
            return BufferLoad(*self._at(e.buffer, self.exprs(e.indices)))
        return super().visit_expr(e)

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        buffer, indices = self._at(s.buffer, self.exprs(s.indices))
        return BufferStore(buffer, self.expr(s.value), indices)

    def visit_Block(self, s: Block) -> Stmt:
        init = None if s.init is None else self.stmt(s.init)
        regions = []
        for items in (s.reads, s.writes):
            moved = []
            for r in items:
                buffer, low = self._at(r.buffer, tuple([self.expr(d.min) for d in r.region]))
                skip = len(low) - len(r.region)
                sizes = [const(1, INDEX)] * skip + [d.extent for d in r.region]
                moved.append(
                    r.replace(
                        buffer=buffer,
                        region=tuple([Range(a, e) for a, e in zip(low, sizes, strict=True)]),
                    )
                )
            regions.append(tuple(moved))
        return s.replace(body=self.stmt(s.body), init=init, reads=regions[0], writes=regions[1])
