"""blockize: a loop nest, or several blocks, as one block with a scope of its own."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import all_of, ceildiv, is_const
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import conjuncts
from smelt.tir.regions import refresh_regions
from smelt.tir.rewrite import loads, substitute_stmt

from .. import nodes
from .handles import BlockRV
from .injective import require_once
from .layout import Substituted
from .loops import find, sequence
from .predicate import over_variables
from .primitive import Base, primitive
from .region import refreshed
from .renamed import init_nest
from .require import only_block, require_alone
from .state import State


class BlockizePrimitives(Base):
    """blockize and localize."""

    @primitive
    def blockize(self, target: str | Sequence[str], preserve_unit_iters: bool = True) -> BlockRV:
        """Make a loop with the one block in it, or several blocks, a block of a scope of its own.

        target               a loop, a block, or a list of neighbouring blocks
        preserve_unit_iters  False: the new block has no variables of one value

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
                outer ones; or blocks of one scope with nothing but themselves between them.
        """
        s = self.state
        if not isinstance(target, str):
            names = sequence(s, "target", target, "a loop, a block, or a list of blocks")
            if not names:
                s.fail("no block is given", legal="blocks that stand side by side")
            if len(names) > 1:
                return BlockRV(_together(s, [s.realize(n) for n in names], preserve_unit_iters))
            target = BlockRV(names[0])
        node = find(s, target)
        b = only_block(s, node, target)
        inner = [node, *s.loops_between(b, node)] if isinstance(node, nodes.For) else []
        require_alone(s, inner, b)
        outer = _Outer(s, b, inner, preserve_unit_iters)
        s.replace({node: outer.realize})
        return BlockRV(outer.name)

    @primitive
    def localize(self, block: str) -> None:
        """Let the variables of a block inside another one count from where their loops begin.

        Before
            for i_0 in range(4):
                with T.block("B_o"):
                    v_o = T.axis.spatial(4, i_0)
                    for i_1 in range(8):
                        with T.block("B"):
                            v = T.axis.spatial(32, v_o * 8 + i_1)
                            B[v] = A[v] + 1.0
        Step    localize("B")
        After
            for i_0 in range(4):
                with T.block("B_o"):
                    v_o = T.axis.spatial(4, i_0)
                    for i_1 in range(8):
                        with T.block("B"):
                            v = T.axis.spatial(8, i_1)
                            B[v_o * 8 + v] = A[v_o * 8 + v] + 1.0
        Needs   a block inside of another one. Variables whose ends are not known stay as they are.
        """
        s, b = self._at(block)
        if s.scope(b).block.name == "root":
            s.fail(
                f"{b.block.name} stands in no other block", legal="a block inside of another one"
            )
        loops = s.loops_above(b)
        iters: list[nodes.IterVar] = []
        values: list[Expr] = []
        own: dict[Var, Expr] = {}
        for i, value in b.bindings:
            base = s.facts.simplify(substitute(value, {x.var: x.min for x in loops}))
            offset = s.facts.simplify(value - base)
            ends = s.facts.relax(offset, loops)
            if s.facts.equal(base, i.dom.min) or ends is None or not is_const(ends[0], 0):
                iters.append(i)
                values.append(value)
            elif is_const(offset, 0):
                own[i.var] = base
            else:
                domain = nodes.Range(const(0, INDEX), s.facts.extent(*ends))
                iters.append(s.iter_var(i.var.name, domain, i.kind))
                own[i.var] = base + iters[-1].var
                values.append(offset)
        moved = _Localized(s, own).visit_Block(b.block.replace(iter_vars=tuple(iters)))
        s.replace({b: nodes.BlockRealize(tuple(values), b.predicate, refreshed(s, moved))})


class _Localized(Substituted):
    """The same for conditions, too."""

    def visit_expr(self, e: Expr) -> Expr:
        """An expression, simple where it says places or conditions about them."""
        new = super().visit_expr(e)
        plain = e.dtype in ("int64", "bool") and not loads(e)
        return self.facts.simplify(new) if plain else new


def _together(s: State, blocks: Sequence[nodes.BlockRealize], keep_unit: bool) -> str:
    """One block around neighbouring ones; it has a variable for every loop that they depend on."""
    around = [x for x in s.above(blocks[0]) if all(s.is_under(b, x) for b in blocks)]
    parent = [*around, blocks[0]][0]
    if not isinstance(parent, nodes.Seq) or len({s.scope(b) for b in blocks}) > 1:
        s.fail(
            f"{' and '.join(b.block.name for b in blocks)} do not stand side by side",
            mark=dict.fromkeys(blocks, "block"),
            legal="different blocks of one scope",
        )
    holding = [next(x for x in parent.stmts if s.is_under(b, x)) for b in blocks]
    places = sorted({k for k, x in enumerate(parent.stmts) if any(x is h for h in holding)})
    chosen = parent.stmts[places[0] : places[-1] + 1]
    for x in s.blocks_in(nodes.Seq(chosen)):
        if x not in blocks:
            s.fail(
                f"{x.block.name} stands between the given blocks",
                mark={x: "not given", **dict.fromkeys(blocks, "given")},
                legal="neighbouring blocks",
            )
    name = s.fresh_block(f"{blocks[0].block.name}_o")
    iters: list[nodes.IterVar] = []
    values: list[Expr] = []
    own: dict[Var, Expr] = {}
    mentioned = set().union(*[free_vars(x) for x in chosen])
    for loop in s.loops_above(parent):
        if loop.var not in mentioned:
            continue
        if is_const(loop.extent, 1) and not keep_unit:
            own[loop.var] = loop.min
            continue
        dom = nodes.Range(loop.min, loop.extent)
        iters.append(s.iter_var(f"v{loop.var.name}", dom, _kind_of(blocks, loop.var)))
        own[loop.var] = iters[-1].var
        values.append(loop.var)
    body = nodes.seq(*[substitute_stmt(x, own) for x in chosen])
    whole = refresh_regions(s.facts, nodes.Block(name, tuple(iters), (), (), body))
    new = nodes.BlockRealize(tuple(values), const(True), whole)
    s.replace({chosen[0]: new, **dict.fromkeys(chosen[1:])})
    return name


def _kind_of(blocks: Sequence[nodes.BlockRealize], v: Var) -> str:
    """The kind of a variable bound to a loop: what the blocks inside bind to it, if they agree."""
    kinds = {i.kind for b in blocks for i, value in b.bindings if v in free_vars(value)}
    return kinds.pop() if len(kinds) == 1 else "opaque"


class _Outer:
    """The block around a tile."""

    def __init__(
        self, s: State, b: nodes.BlockRealize, inner: Sequence[nodes.For], keep_unit: bool
    ) -> None:
        """Divide each variable into an outer one and an offset inside the tile."""
        self.state, self.b, self.inner, self.keep_unit = s, b, inner, keep_unit
        self.name = s.fresh_block(f"{b.block.name}_o")
        self.iters: list[nodes.IterVar] = []
        self.values: list[Expr] = []
        self.outside: list[Expr] = []
        inside = [self._divide(i, value) for i, value in b.bindings]
        outer_guard, inner_guard = self._guards(inside)
        reduces = any(i.kind == "reduce" for i in self.iters)
        if reduces and b.block.init is not None:
            require_once(s, b, inner, "it would add up twice to one initial value")
        block = b.block.replace(init=None) if reduces else b.block
        stmt = nodes.nested(inner, nodes.BlockRealize(tuple(inside), inner_guard, block))
        init = self._init(inside, inner_guard) if reduces and b.block.init is not None else None
        whole = nodes.Block(self.name, tuple(self.iters), (), (), stmt, init)
        whole = refresh_regions(s.facts, whole)
        if init is None and b.block.init is not None:
            own = {w.buffer for w in b.block.writes}
            whole = whole.replace(reads=tuple([r for r in whole.reads if r.buffer not in own]))
        self.realize = nodes.BlockRealize(tuple(self.values), outer_guard, whole)

    def _divide(self, i: nodes.IterVar, value: Expr) -> Expr:
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
            i, count, nodes.Range(const(0, INDEX), facts.simplify(ceildiv(i.dom.extent, width)))
        )
        return facts.simplify(outer * width + offset)

    def _add(self, i: nodes.IterVar, value: Expr, dom: nodes.Range) -> Expr:
        if is_const(dom.extent, 1) and not self.keep_unit:
            return dom.min
        outer = self.state.iter_var(f"{i.var.name}_o", dom, i.kind)
        self.iters.append(outer)
        self.values.append(value)
        for c in (value >= dom.min, value < dom.min + dom.extent):
            if not self.state.facts.prove(c):
                self.outside.append(c)
        return outer.var

    def _guards(self, inside: Sequence[Expr]) -> tuple[Expr, Expr]:
        """The predicate's parts about outer loops, and those about the inner ones."""
        facts = self.state.facts
        ours = {x.var for x in self.inner}
        outer: list[Expr] = []
        inner: list[Expr] = []
        at = dict(zip([i.var for i in self.b.block.iter_vars], inside, strict=True))
        for c in conjuncts(self.b.predicate):
            if free_vars(c) & ours:
                own = over_variables(self.state, self.b, c)
                inner.append(facts.simplify(substitute(own, at)))
            else:
                outer.append(c)
        return all_of(list(dict.fromkeys(outer + self.outside))), facts.conjunction(*inner)

    def _init(self, inside: Sequence[Expr], guard: Expr) -> nodes.Stmt:
        """The initial values of a whole tile."""
        pairs = list(zip(self.b.block.iter_vars, inside, strict=True))
        plain = [nodes.For(x.var, x.min, x.extent, x.body) for x in self.inner]
        return init_nest(self.state, self.b, plain, pairs, lambda _: conjuncts(guard))[1]
