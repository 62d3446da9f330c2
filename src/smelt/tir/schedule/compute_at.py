"""Primitives that move a block into the loops of its consumers or producers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from smelt.ir.build import all_of, equal, is_const, product
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.node import Node
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Box
from smelt.tir.nodes import BlockRealize, Buffer, BufferRegion, For, Stmt, seq

from .cache import used_box
from .check import recheck
from .predicate import own_conditions
from .primitive import Base, primitive
from .region import domain_loops, solve, touched
from .require import (
    Kind,
    binds,
    require_finished,
    require_intermediate,
    require_kind,
    require_operands_stay,
)
from .state import State

Bounds = tuple[Expr, Expr]
"""The smallest and the largest value."""
_Comparison = Callable[[Expr, Expr], Expr]


class ComputeAtPrimitives(Base):
    """compute_at and reverse_compute_at."""

    @primitive
    def compute_at(
        self, block: str, loop: str, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Compute, in each iteration of a consumer's loop, just what that iteration needs.

        Before
            B = T.alloc_buffer((4, 6))
            for i in range(4):
                for j in range(6):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
            for i_1 in range(4):
                for j_1 in range(6):
                    with T.block("C"):
                        v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                        C[v_1, w_1] = B[v_1, w_1] * 2.0
        Step    compute_at("B", "i_1")
        After
            B = T.alloc_buffer((4, 6))
            for i_1 in range(4):
                for ax0 in range(6):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i_1, ax0])
                        B[v, w] = A[v, w] + 1.0
                for j_1 in range(6):
                    with T.block("C"):
                        v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                        C[v_1, w_1] = B[v_1, w_1] * 2.0
        Needs   a complete or reduction block that writes no parameter, all of whose consumers stand
                inside the loop, and whose producers stand before or inside it.
        """
        move = _Move(*self._at(block), self.state.loop(loop))
        move.check_consumers()
        move.carry_out(move.needed, preserve_unit_loops, index)

    @primitive
    def reverse_compute_at(
        self, block: str, loop: str, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Use, in each iteration of a producer's loop, what that iteration has made.

        Before
            B = T.alloc_buffer((4, 6))
            for i in range(4):
                for j in range(6):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
            for i_1 in range(4):
                for j_1 in range(6):
                    with T.block("C"):
                        v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                        C[v_1, w_1] = B[v_1, w_1] * 2.0
        Step    reverse_compute_at("C", "i")
        After
            B = T.alloc_buffer((4, 6))
            for i in range(4):
                for j in range(6):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
                for ax0 in range(6):
                    with T.block("C"):
                        v_1, w_1 = T.axis.remap("SS", [i, ax0])
                        C[v_1, w_1] = B[v_1, w_1] * 2.0
        Needs   a complete or reduction block all of whose producers stand before or inside the
                loop; those inside have finished, at each iteration, a box of elements that the
                block reads one to one.
        """
        move = _Move(*self._at(block), self.state.loop(loop))
        move.check_producers()
        move.carry_out(move.made, preserve_unit_loops, index)


class _Domain(NamedTuple):
    """The values of one block variable, and the conditions that keep it inside its own range."""

    low: Expr
    extent: Expr
    conditions: list[tuple[_Comparison, Expr]]


class _Move:
    """A block on its way into a loop."""

    def __init__(self, s: State, b: BlockRealize, target: For) -> None:
        """Check that the two stand in one block, apart, and that the block may go anywhere."""
        self.s, self.b, self.target = s, b, target
        self.name, self.loop = b.block.name, target.var.name
        self.body = list(getattr(target.body, "stmts", (target.body,)))
        self.mark: dict[Node, str] = {target: "loop", b: "block"}
        if s.is_under(b, target):
            s.fail(
                f"{self.name} stands inside {self.loop} already",
                mark=self.mark,
                legal="a loop of another block's nest",
            )
        if s.scope(b) is not s.scope(target):
            s.fail(
                f"{self.name} and {self.loop} stand in different blocks",
                mark=self.mark,
                legal=f"a loop in block {s.scope(b).block.name}",
            )
        require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
        self.producers, self.consumers = s.producers(b), s.consumers(b)

    def carry_out(self, domain: Callable[[], list[_Domain]], keep_unit: bool, index: int) -> None:
        """Take the block from where it is and put it, in loops over a domain, into the loop.

        index  the place in the loop's body: -1 is the last one, -2 the first
        """
        s = self.s
        require_operands_stay(s, self.b, self.target)
        first, last = self._window()
        nest = self._nest(domain(), keep_unit)
        place = {-2: first, -1: last}.get(index, index)
        if not first <= place <= last:
            s.fail(
                f"index {index} would put {self.name} before a producer or behind a consumer",
                mark={self.target: f"{len(self.body)} statements inside"},
                legal=f"{first} to {last}, -1 (last) or -2 (first)",
            )
        behind = place >= len(self.body)
        anchor = self.body[-1 if behind else place]
        s.replace({self.b: None, anchor: lambda old: seq(old, nest) if behind else seq(nest, old)})
        recheck(s, s.realize(self.name))

    def _nest(self, domain: Sequence[_Domain], keep_unit: bool) -> Stmt:
        """Loops over a domain around the block, which stays under the conditions that it had."""
        s, b = self.s, self.b
        guard = own_conditions(s, b)

        def make(offsets: list[Expr]) -> Stmt:
            values, conditions = [], []
            for d, offset in zip(domain, offsets, strict=True):
                values.append(s.facts.simplify(d.low + offset))
                conditions += [holds(values[-1], e) for holds, e in d.conditions]
            at = dict(zip([i.var for i in b.block.iter_vars], values, strict=True))
            conditions += [s.facts.simplify(substitute(c, at)) for c in guard]
            return BlockRealize(tuple(values), all_of(conditions), b.block)

        return s.nest([d.extent for d in domain], make, keep_unit)

    # ----------------------------------------------------------------------------------- needs

    def check_consumers(self) -> None:
        """There are some, all inside the loop; what they read is no parameter."""
        s, b = self.s, self.b
        for w in b.block.writes:
            require_intermediate(s, b, w.buffer, "of which every element must be made")
        if not self.consumers:
            s.fail(
                f"nothing reads what {self.name} writes",
                mark={b: "no consumer"},
                legal="a block with consumers",
            )
        for c in self.consumers:
            if not s.is_under(c, self.target):
                s.fail(
                    f"{c.block.name}, a consumer of {self.name}, stands outside {self.loop}",
                    mark={self.target: "loop", c: "consumer"},
                    legal=f"a loop around every consumer of {self.name}",
                )

    def check_producers(self) -> None:
        """Some stand inside the loop; no block outside of it writes the same buffer."""
        s, target = self.s, self.target
        if not any(s.is_under(p, target) for p in self.producers):
            names = dict.fromkeys(x.var.name for p in self.producers for x in s.loops_above(p))
            s.fail(
                f"no producer of {self.name} stands inside {self.loop}",
                mark={target: "here", self.b: "block"},
                legal=f"one of {', '.join(names)}" if names else "",
            )
        for r in self.b.block.reads:
            writers = s.writers(s.scope(self.b), r.buffer)
            outside = [w for w in writers if not s.is_under(w, target)]
            if outside and len(outside) < len(writers):
                s.fail(
                    f"{outside[0].block.name} writes a part of {r.buffer.name} outside {self.loop}",
                    mark={target: "loop", outside[0]: f"writes {r.buffer.name}"},
                    legal=f"a loop around all blocks that write {r.buffer.name}",
                )

    def _window(self) -> tuple[int, int]:
        """The first and last place in the loop's body where the block may go."""
        s, target, order = self.s, self.target, self.s.index.order
        position = {id(x): k for k, x in enumerate(self.body)}
        first, last = 0, len(self.body)
        self._check_order()
        for p in self.producers:
            if s.is_under(p, target):
                first = max(first, position[id(s.top(p, target))] + 1)
            elif order[p] > order[target]:
                s.fail(
                    f"{p.block.name}, a producer of {self.name}, stands behind {self.loop}",
                    mark={target: "loop", p: "producer"},
                    legal="a loop behind all producers",
                )
        for c in self.consumers:
            if s.is_under(c, target):
                last = min(last, position[id(s.top(c, target))])
            elif order[c] < order[target]:
                s.fail(
                    f"{c.block.name}, a consumer of {self.name}, stands before {self.loop}",
                    mark={target: "loop", c: "consumer"},
                    legal="a loop before all consumers",
                )
        if first > last:
            s.fail(
                f"no place in {self.loop} is behind all producers and before all "
                f"consumers of {self.name}",
                mark={target: "loop"},
                legal="a loop whose statements can be cut in two between them",
            )
        return first, last

    def _check_order(self) -> None:
        """What it must not pass: what changes its operands later, or uses its result before."""
        s, b, target, order = self.s, self.b, self.target, self.s.index.order
        for p in self.producers:
            if order[p] > order[b] and (s.is_under(p, target) or order[p] < order[target]):
                s.fail(
                    f"{p.block.name} changes what {self.name} reads, behind it",
                    mark={b: "block", p: "changes its operand", target: "loop"},
                    legal=f"a loop before {p.block.name}",
                )
        for c in self.consumers:
            if order[c] < order[b] and (s.is_under(c, target) or order[c] > order[target]):
                s.fail(
                    f"{c.block.name} uses what {self.name} overwrites, before it",
                    mark={b: "block", c: "uses the old value", target: "loop"},
                    legal=f"a loop behind {c.block.name}",
                )

    # --------------------------------------------------------------------------------- domains

    def needed(self) -> list[_Domain]:
        """The values of a producer's variables that one iteration of the loop needs."""
        s, b = self.s, self.b
        wanted: dict[Var, Bounds] = {}
        spatial = [i.var for i in b.block.iter_vars if i.kind == "spatial"]
        for w in b.block.writes:
            box = used_box(s, w.buffer, self.consumers, self.target)
            if box is None:
                continue
            found, _ = solve(s.facts, [d.min for d in w.region], box, spatial)
            for v in spatial:
                if v in wanted and v in found:
                    (wanted[v],) = s.facts.union([wanted[v]], [found[v]])
                elif v in found and w is b.block.writes[0]:
                    wanted[v] = found[v]
                else:
                    wanted.pop(v, None)
        return [self._clip(k, wanted.get(i.var)) for k, i in enumerate(b.block.iter_vars)]

    def _whole(self, position: int) -> _Domain:
        """A variable's whole domain; inside another block not all operands of it may be there,
        unless the block runs over its whole domain there already."""
        s, b = self.s, self.b
        i, outer, value = b.block.iter_vars[position], s.scope(b).block, b.values[position]
        if outer.name != "root" and not (
            is_const(b.predicate, 1)
            and any(
                s.facts.equal(x.min, i.dom.min) and s.facts.equal(x.extent, i.dom.extent)
                for x in s.loops_above(b)
                if x.var is value
            )
        ):
            s.cannot_prove(
                f"{i.var.name} of {self.name} runs over its whole range inside block {outer.name}",
                legal="a part that the block around it needs",
            )
        return _Domain(i.dom.min, i.dom.extent, [])

    def _clip(self, position: int, bounds: Bounds | None) -> _Domain:
        """A variable's range in its domain; what is not proved to be inside becomes a condition."""
        facts, dom = self.s.facts, self.b.block.iter_vars[position].dom
        if bounds is None:
            return self._whole(position)
        low, high = bounds
        extent = facts.extent(low, high)
        if any(v.name in self.s.index.loops for v in free_vars(extent)):
            limit = facts.upper(extent)
            if limit is None:
                return self._whole(position)
            extent = const(limit, INDEX)
        if facts.equal(extent, dom.extent) and facts.equal(low, dom.min):
            return _Domain(dom.min, dom.extent, [])
        if facts.prove(extent >= dom.extent):
            return self._whole(position)
        end = facts.simplify(dom.min + dom.extent)
        conditions: list[tuple[_Comparison, Expr]] = []
        if not facts.prove(low >= dom.min):
            conditions.append((operator.ge, dom.min))
        if not facts.prove(low + extent <= end):
            conditions.append((operator.lt, end))
        return _Domain(low, extent, conditions)

    def made(self) -> list[_Domain]:
        """The values of a consumer's variables that read what one iteration of the loop makes."""
        s, b, target = self.s, self.b, self.target
        spatial = [i.var for i in b.block.iter_vars]
        wanted: dict[Var, Bounds] = {}
        for p in [p for p in self.producers if s.is_under(p, target)]:
            require_finished(s, p, [*s.loops_above(target), target])
            for w in p.block.writes:
                indices = self._one_access(w.buffer)
                if indices is None:
                    continue
                box = self._box_made(p, w)
                self._check_all_made(p, w, indices)
                found, exact = solve(s.facts, indices, box, spatial)
                for e, ends, size in zip(indices, box, w.buffer.shape, strict=True):
                    self._check_exact(p, e, ends, size, exact)
                for v, bounds in found.items():
                    if v in exact:
                        self._check_agree(v, wanted.get(v, bounds), bounds)
                        wanted[v] = bounds
        for i in b.block.iter_vars:
            if i.kind != "spatial" and i.var in wanted:
                low, high = wanted[i.var]
                over = f"{i.var.name}, over which {self.name} reduces"
                s.demand(
                    all_of(low <= i.dom.min, high >= i.dom.min + i.dom.extent - 1),
                    f"{self.loop} gives only a part of {over}",
                    f"{self.loop} gives all of {over}",
                    mark={b: f"reduces over {i.var.name}", target: "loop"},
                    legal="a loop whose iteration makes everything that is reduced; "
                    "or rfactor first",
                )
        return [self._clip(k, wanted.get(i.var)) for k, i in enumerate(b.block.iter_vars)]

    def _one_access(self, buffer: Buffer) -> tuple[Expr, ...] | None:
        """The indices at which the block reads a buffer: one set of them."""
        regions = [r for r in self.b.block.reads if r.buffer is buffer]
        if len(regions) > 1:
            self.s.cannot_prove(
                f"{self.name} uses only finished elements of {buffer.name}: it reads "
                f"several at once",
                mark={self.b: f"reads {buffer.name} {len(regions)} times"},
                legal="a block that reads each producer at one place; compute_at moves "
                "the producer instead",
            )
        return tuple([d.min for d in regions[0].region]) if regions else None

    def _box_made(self, p: BlockRealize, w: BufferRegion) -> Box:
        """The elements made in one iteration fill their box: as many iterations as elements."""
        s = self.s
        inner = s.loops_between(p, self.target)
        box = touched(s, p, w, inner)
        runs = product([x.extent for x in inner if binds(p, x.var, "spatial")])
        size = product([s.facts.extent(low, high) for low, high in box])
        if not s.facts.equal(runs, size):
            s.cannot_prove(
                f"what {p.block.name} makes in one iteration of {self.loop} is a box that no "
                "other iteration makes",
                mark={p: "producer", self.target: "loop"},
                legal="a loop between tiles of the producer's dimensions",
            )
        return box

    def _check_all_made(self, p: BlockRealize, w: BufferRegion, indices: Sequence[Expr]) -> None:
        """Every iteration of the consumer reads something that a producer's iteration makes.

        One that reads beyond it, under a condition, would belong to no iteration of the loop.
        """
        facts = self.s.facts
        made = facts.box(w.region, w.buffer.shape, domain_loops(p.block.iter_vars))
        for e, (low, high) in zip(indices, made, strict=True):
            ends = facts.relax(e, domain_loops(self.b.block.iter_vars))
            if ends is None or not (facts.prove(ends[0] >= low) and facts.prove(ends[1] <= high)):
                self.s.cannot_prove(
                    f"{self.name} reads only elements of {w.buffer.name} that {p.block.name} "
                    f"makes: an iteration that does not would be lost in {self.loop}",
                    mark={self.b: "consumer", p: "producer", self.target: "loop"},
                    legal="a consumer whose indices stay inside what is made",
                )

    def _check_exact(
        self, p: BlockRealize, e: Expr, ends: Bounds, size: Expr, exact: set[Var]
    ) -> None:
        """An index of the consumer goes through what is made in a dimension once, or all is."""
        facts = self.s.facts
        whole = facts.prove(ends[0] <= 0) and facts.prove(ends[1] >= size - 1)
        one = facts.equal(*ends) and facts.equal(ends[0], e)
        if not (whole or one or free_vars(e) & {i.var for i in self.b.block.iter_vars} & exact):
            self.s.cannot_prove(
                f"{self.name} reads one to one what {p.block.name} makes in an iteration "
                f"of {self.loop}",
                mark={self.b: "consumer", self.target: "loop"},
                legal="a loop whose iteration makes that dimension whole",
            )

    def _check_agree(self, v: Var, old: Bounds, new: Bounds) -> None:
        if not all(map(self.s.facts.equal, old, new)):
            self.s.demand(
                all_of(equal(old[0], new[0]), equal(old[1], new[1])),
                f"two producers inside {self.loop} make different parts for {v.name}",
                f"two producers inside {self.loop} make the same part for {v.name}",
                mark={self.b: f"variable {v.name}"},
                legal="a loop at which they make the same part",
            )
