"""Primitives that change loops: split, fuse, reorder, loops of one iteration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.arith import Answer
from smelt.ir.build import all_of, ceildiv, product, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, cast, const, convert
from smelt.ir.walk import free_vars
from smelt.tir.facts import conjuncts
from smelt.tir.rewrite import Rewriter
from smelt.tir.threads import THREAD_AXES

from .. import nodes
from .check import check_reorder
from .handles import BlockRV, LoopRV
from .primitive import Base, primitive
from .show import show_expr
from .state import State

__all__ = ["THREAD_AXES", "LoopPrimitives", "find", "rebind", "require_plain", "require_serial",
           "sequence"]  # fmt: skip


class Rebind(Rewriter):
    """Gives loop variables other values: in bounds, bindings and guards, never inside blocks."""

    def __init__(self, state: State, values: Mapping[Var, Expr], guard: Expr) -> None:
        super().__init__()
        self.memo.update(dict(values.items()))
        self.facts = state.facts
        self.guard = conjuncts(guard)

    def visit_BlockRealize(self, s: nodes.BlockRealize) -> nodes.Stmt:
        values = tuple(
            [v if (new := self.expr(v)) is v else self.facts.simplify(new) for v in s.values]
        )
        kept = []
        for c in conjuncts(s.predicate):
            new = self.expr(c)
            if new is c or not self.facts.prove(new):
                kept.append(new if new is c else self.facts.simplify(new))
        predicate = all_of(kept + [g for g in self.guard if g not in kept])
        return nodes.BlockRealize(values, predicate, s.block)

    def stmt(self, s: nodes.Stmt) -> nodes.Stmt:
        """A statement; what has an effect stands under the guard."""
        new = super().stmt(s)
        effect = isinstance(s, nodes.BufferStore | nodes.Evaluate | nodes.AssertStmt)
        return self._guarded(new) if effect else new

    def visit_While(self, s: nodes.While) -> nodes.Stmt:
        """The whole of it under the guard: a loop whose body is skipped would not end."""
        guard, self.guard = self.guard, []
        new = super().visit_While(s)
        self.guard = guard
        return self._guarded(new)

    def _guarded(self, s: nodes.Stmt) -> nodes.Stmt:
        return nodes.IfThenElse(all_of(self.guard), s) if self.guard else s


def rebind(
    state: State, s: nodes.Stmt, values: Mapping[Var, Expr], guard: Expr | None = None
) -> nodes.Stmt:
    """A statement with loop variables given other values, its blocks guarded."""
    return Rebind(state, values, const(True) if guard is None else guard).stmt(s)


class LoopPrimitives(Base):
    """split, fuse, reorder, reorder_block_iter_var, add_unit_loop."""

    @primitive
    def split(
        self,
        loop: str,
        factors: Sequence[ExprLike | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Cut a loop into nested loops; one factor may be None: the rest of the extent, rounded up.

        preserve_unit_iters  False: blocks do not mention the loops of extent 1
        disable_predication  no guard where it is not known whether the factors divide the extent:
                             the caller answers for it

        Before
            for i in range(37):
                with T.block("B"):
                    v = T.axis.spatial(37, i)
                    B[v] = A[v] + 1.0
        Step    split("i", [None, 8])
        After
            for i_0, i_1 in T.grid(5, 8):
                with T.block("B"):
                    T.where(i_0 * 8 + i_1 < 37)
                    v = T.axis.spatial(37, i_0 * 8 + i_1)
                    B[v] = A[v] + 1.0
        Needs   factors >= 1, at most one None, together no smaller than the extent; a serial loop
                without annotations. There is no guard where the factors are proved to divide the
                extent.
        """
        s = self.state
        target = s.loop(loop)
        require_plain(s, target)
        extents = _factors(s, target, factors)
        names = [s.new_var(f"{target.var.name}_{k}", 0, e) for k, e in enumerate(extents)]
        index: Expr = const(0, INDEX)
        total: Expr = const(1, INDEX)
        for v, e in zip(names, extents, strict=True):
            unit = value_of(e) == 1 and not preserve_unit_iters
            index = index * e + (const(0, INDEX) if unit else v)
            total = total * e
        guard = _tail_guard(s, target, index, total, disable_predication)
        body = rebind(s, target.body, {target.var: target.min + index}, guard)
        for v, e in reversed(list(zip(names, extents, strict=True))):
            body = nodes.For(v, const(0, INDEX), e, body)
        s.replace({target: body})
        return [LoopRV(v.name) for v in names]

    @primitive
    def fuse(self, *loops: str, preserve_unit_iters: bool = True) -> LoopRV:
        """Make one loop of perfectly nested ones (outermost first).

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    fuse("i", "j")
        After
            for i_j_fused in range(24):
                with T.block("B"):
                    v = T.axis.spatial(4, i_j_fused // 6)
                    w = T.axis.spatial(6, i_j_fused % 6)
                    B[v, w] = A[v, w] + 1.0
        Needs   serial loops, each the only statement in the one before; inner bounds that do not
                depend on outer loops.
        """
        s = self.state
        nest = _perfect_nest(s, loops)
        names = [x.var.name for x in nest]
        total = product([x.extent for x in nest])
        fused = s.new_var("_".join(names) + "_fused", 0, s.facts.simplify(total))
        values: dict[Var, Expr] = {x.var: x.min for x in nest}
        rest: Expr = fused
        kept = [x for x in nest if preserve_unit_iters or value_of(x.extent) != 1]
        for k, x in reversed(list(enumerate(kept))):
            values[x.var] = x.min + (rest % x.extent if k else rest)
            rest = rest // x.extent
        body = rebind(s, nest[-1].body, values)
        s.replace({nest[0]: nodes.For(fused, const(0, INDEX), s.facts.simplify(total), body)})
        return LoopRV(fused.name)

    @primitive
    def reorder(self, *ordered_loops: str) -> None:
        """Put loops of one nest into the given order; the others keep their places.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    reorder("j", "i")
        After
            for j, i in T.grid(6, 4):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Needs   loops of one perfect nest, bounds that do not depend on each other, blocks inside
                whose variables are spatial or reduce.
        """
        s = self.state
        wanted = [s.loop(n) for n in ordered_loops]
        if len(set(wanted)) != len(wanted):
            s.fail(
                "a loop is named twice", mark=dict.fromkeys(wanted, "loop"), legal="each loop once"
            )
        if len(wanted) < 2:
            return
        chain = _chain(s, wanted)
        order = iter(wanted)
        chosen = set(wanted)
        new = [next(order) if x in chosen else x for x in chain]
        if new == chain:
            return
        _check_bounds(s, new)
        check_reorder(s, chain)
        s.replace({chain[0]: nodes.nested(new, chain[-1].body)})

    @primitive
    def reorder_block_iter_var(self, block: str, new_order: Sequence[int]) -> None:
        """Put the variables of a block into another order.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    reorder_block_iter_var("B", [1, 0])
        After
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    w, v = T.axis.remap("SS", [j, i])
                    B[v, w] = A[v, w] + 1.0
        Needs   a permutation of the positions.
        """
        s, b = self._at(block)
        order = [int(k) for k in new_order]
        if sorted(order) != list(range(len(b.values))):
            s.fail(
                f"{order} is not an order of the {len(b.values)} variables of {b.block.name}",
                legal=f"a permutation of {list(range(len(b.values)))}",
            )
        inner = b.block.replace(iter_vars=tuple([b.block.iter_vars[k] for k in order]))
        s.replace({b: nodes.BlockRealize(tuple([b.values[k] for k in order]), b.predicate, inner)})

    @primitive
    def add_unit_loop(self, block_or_loop: str) -> LoopRV:
        """A loop of one iteration around a block or a loop.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    add_unit_loop("B")
        After
            for i in range(4):
                for u in range(1):
                    with T.block("B"):
                        v = T.axis.spatial(4, i)
                        B[v] = A[v] + 1.0
        Needs   nothing.
        """
        s = self.state
        target = find(s, block_or_loop)
        v = s.new_var("u", 0, 1)
        s.replace({target: nodes.For(v, const(0, INDEX), const(1, INDEX), target)})
        return LoopRV(v.name)


def find(s: State, name: str) -> nodes.For | nodes.BlockRealize:
    """The loop or block of a name; a plain string that names both is refused."""
    loop, block = s.index.loops.get(name), s.index.blocks.get(name)
    handle = isinstance(name, LoopRV | BlockRV)
    if loop is not None and block is not None and not handle:
        s.fail(f"{name!r} names a loop and a block", legal=f"LoopRV({name!r}) or BlockRV({name!r})")
    if loop is None and block is None and not handle and name not in s.names | s.block_names:
        present = ", ".join([*s.index.loops, *s.index.blocks])
        s.fail(f"{s.func.name} has neither a loop nor a block {name!r}", legal=present)
    is_loop = isinstance(name, LoopRV) if handle else loop is not None
    return s.loop(name) if is_loop else s.realize(name)


def require_serial(s: State, target: nodes.For) -> None:
    """Refuse a loop that runs in a way of its own."""
    if target.kind != "serial":
        s.fail(
            f"{target.var.name} is {target.kind} already",
            mark={target: target.kind},
            legal="a serial loop",
        )


def require_plain(s: State, target: nodes.For) -> None:
    """Refuse a loop of which something would be lost with it: its kind or an annotation."""
    require_serial(s, target)
    if target.annotations:
        s.fail(
            f"the annotations of {target.var.name} would be lost: {', '.join(target.annotations)}",
            mark={target: "annotated"},
            legal="a loop without annotations (see unannotate)",
        )


def sequence(s: State, name: str, items: object, what: str) -> list[Any]:
    """An argument that has to be a list."""
    if not isinstance(items, list | tuple):
        s.fail(f"{name} is {items!r}", legal=what)
    return list(items)


def extents_given(
    s: State, factors: Sequence[ExprLike | None], what: str, example: str
) -> list[Expr | None]:
    """The extents that a loop is cut into; at most one is None, which is inferred."""
    items = sequence(s, "factors", factors, f"a list, e.g. {example}")
    if not items or sum(f is None for f in items) > 1:
        s.fail(
            f"at most one {what} may be None, and there must be one at least",
            legal=f"e.g. {example}",
        )
    return [None if f is None else cast(INDEX, convert(f, INDEX)) for f in items]


def _factors(s: State, target: nodes.For, factors: Sequence[ExprLike | None]) -> list[Expr]:
    """The extents of the new loops; None is inferred."""
    given = extents_given(s, factors, "factor", "[None, 8]")
    extents = [g for g in given if g is not None]
    for g in extents:
        s.demand(
            g >= 1,
            f"factor {show_expr(g)} is not positive",
            f"factor {show_expr(g)} is at least 1",
            mark={target: "split here"},
            legal="factors >= 1",
        )
    covered = product(extents)
    if None in given:
        rest = s.facts.simplify(ceildiv(target.extent, covered))
        return [rest if g is None else g for g in given]
    s.demand(
        covered >= target.extent,
        f"factors with product {show_expr(covered)} do not cover the extent "
        f"{show_expr(target.extent)} of {target.var.name}",
        f"the factors cover the extent of {target.var.name}",
        mark={target: f"extent {show_expr(target.extent)}"},
        legal="a product of at least the extent, or one factor None",
    )
    return extents


def _tail_guard(s: State, target: nodes.For, index: Expr, total: Expr, disabled: bool) -> Expr:
    """What keeps the iterations inside the extent of a loop that has been split."""
    if s.facts.equal(total, target.extent) or s.facts.prove(total <= target.extent):
        return const(True)
    if not disabled:
        return s.facts.simplify(index < target.extent)
    if s.facts.answer(total > target.extent) is Answer.YES:
        s.fail(
            f"without a guard {target.var.name} would run beyond its extent, since the factors do "
            "not divide it",
            mark={target: "its extent"},
            legal="factors that divide the extent, or disable_predication=False",
        )
    return const(True)


def _perfect_nest(s: State, names: Sequence[str]) -> list[nodes.For]:
    """Loops that are nested with nothing between them, outermost first."""
    nest = [s.loop(n) for n in names]
    if not nest:
        s.fail("no loop is given", legal="loops of one nest, outermost first")
    for x in nest:
        require_plain(s, x)
    for outer, inner in itertools.pairwise(nest):
        if outer.body is not inner:
            s.fail(
                f"{inner.var.name} is not the only statement in {outer.var.name}",
                mark={outer: "outer", inner: "inner"},
                legal="loops directly inside each other, outermost first",
            )
    _check_bounds(s, nest)
    return nest


def _check_bounds(s: State, nest: Sequence[nodes.For]) -> None:
    seen = {x.var for x in nest}
    for x in nest:
        bad = (free_vars(x.min) | free_vars(x.extent)) & seen
        if bad:
            name = min(v.name for v in bad)
            s.fail(
                f"the bounds of {x.var.name} depend on {name}",
                mark={x: f"depends on {name}"},
                legal="loops whose bounds do not depend on each other",
            )


def _chain(s: State, wanted: Sequence[nodes.For]) -> list[nodes.For]:
    """The nest from the outermost to the innermost of some loops; a perfect one."""
    depth = {x: len(s.above(x)) for x in wanted}
    last = max(wanted, key=lambda x: depth[x])
    chain: list[nodes.For] = [last]
    missing = set(wanted) - {last}
    node: nodes.Stmt = last
    while missing:
        up = s.parent(node)
        if not isinstance(up, nodes.For):
            other = next(x for x in wanted if x in missing)
            block = isinstance(up, nodes.Block | nodes.BlockRealize)
            between = "a block" if block else "other statements"
            s.fail(
                f"{other.var.name} and {last.var.name} are not loops of one nest: {between} "
                f"stand between or beside them",
                mark={other: "this loop", last: "and this one"},
                legal="loops directly inside each other",
            )
        chain.append(up)
        missing.discard(up)
        node = up
    return chain[::-1]
