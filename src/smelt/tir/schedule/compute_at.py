"""Primitives that move a block into the loops of its consumers or producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.ir.build import all_of, equal, is_const, product
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Box
from smelt.tir.nodes import BlockRealize, Buffer, BufferRegion, For, Stmt, seq

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


@dataclass
class _Domain:
    """The values of one block variable, and the conditions that keep it inside its own range."""

    low: Expr
    extent: Expr
    conditions: list[tuple[str, Expr]]


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
        (s, b), target = self._at(block), self.state.loop(loop)
        _require_same_scope(s, b, target)
        require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
        _require_intermediate(s, b)
        consumers = s.consumers(b)
        _require_inside(s, consumers, target, b, "consumer")
        require_operands_stay(s, b, target)
        window = _window(s, b, target)
        domain = _needed(s, b, target, consumers)
        nest = _make_nest(s, b, domain, preserve_unit_loops)
        _move(s, b, target, _place(s, b, target, window, index, "-1 (last) or -2 (first)"), nest)

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
                loop;
                those inside have finished, at each iteration, a box of elements that the block
                reads one to one.
        """
        (s, b), target = self._at(block), self.state.loop(loop)
        _require_same_scope(s, b, target)
        require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
        producers = [p for p in s.producers(b) if s.is_under(p, target)]
        if not producers:
            s.fail(
                f"no producer of {b.block.name} stands inside {target.var.name}",
                mark={target: "here", b: "block"},
                legal=_loops_around(s, s.producers(b)),
            )
        _require_all_writers(s, b, target)
        require_operands_stay(s, b, target)
        window = _window(s, b, target)
        domain = _made(s, b, target, producers)
        nest = _make_nest(s, b, domain, preserve_unit_loops)
        _move(s, b, target, _place(s, b, target, window, index, "-1 or -2"), nest)


# ---------------------------------------------------------------------------------------- needs


def _require_same_scope(s: State, b: BlockRealize, target: For) -> None:
    if s.is_under(b, target):
        s.fail(
            f"{b.block.name} stands inside {target.var.name} already",
            mark={target: "loop", b: "block"},
            legal="a loop of another block's nest",
        )
    if s.scope(b) is not s.scope(target):
        s.fail(
            f"{b.block.name} and {target.var.name} stand in different blocks",
            mark={target: "loop", b: "block"},
            legal=f"a loop in block {s.scope(b).block.name}",
        )


def _require_intermediate(s: State, b: BlockRealize) -> None:
    for w in b.block.writes:
        require_intermediate(s, b, w.buffer, "of which every element must be made")
    if not s.consumers(b):
        s.fail(
            f"nothing reads what {b.block.name} writes",
            mark={b: "no consumer"},
            legal="a block with consumers",
        )


def _require_inside(
    s: State, blocks: Sequence[BlockRealize], target: For, b: BlockRealize, role: str
) -> None:
    for c in blocks:
        if not s.is_under(c, target):
            s.fail(
                f"{c.block.name}, a {role} of {b.block.name}, stands outside {target.var.name}",
                mark={target: "loop", c: role},
                legal=f"a loop around every {role} of {b.block.name}",
            )


def _require_all_writers(s: State, b: BlockRealize, target: For) -> None:
    """What one iteration makes is all of it: no block outside the loop writes the same buffer."""
    for r in b.block.reads:
        writers = s.writers(s.scope(b), r.buffer)
        outside = [w for w in writers if not s.is_under(w, target)]
        if outside and len(outside) < len(writers):
            s.fail(
                f"{outside[0].block.name} writes a part of {r.buffer.name} outside "
                f"{target.var.name}",
                mark={target: "loop", outside[0]: f"writes {r.buffer.name}"},
                legal=f"a loop around all blocks that write {r.buffer.name}",
            )


def _loops_around(s: State, blocks: Sequence[BlockRealize]) -> str:
    names = [x.var.name for p in blocks for x in s.loops_above(p)]
    return "one of " + ", ".join(dict.fromkeys(names)) if names else ""


def _statements(target: For) -> list[Stmt]:
    return list(getattr(target.body, "stmts", (target.body,)))


def _window(s: State, b: BlockRealize, target: For) -> tuple[int, int]:
    """The first and last place in a loop's body where a block may go."""
    body = _statements(target)
    position = {id(x): k for k, x in enumerate(body)}
    first, last = 0, len(body)
    order = s.index.order
    _require_order(s, b, target)
    for p in s.producers(b):
        if s.is_under(p, target):
            first = max(first, position[id(s.top(p, target))] + 1)
        elif order[p] > order[target]:
            s.fail(
                f"{p.block.name}, a producer of {b.block.name}, stands behind {target.var.name}",
                mark={target: "loop", p: "producer"},
                legal="a loop behind all producers",
            )
    for c in s.consumers(b):
        if s.is_under(c, target):
            last = min(last, position[id(s.top(c, target))])
        elif order[c] < order[target]:
            s.fail(
                f"{c.block.name}, a consumer of {b.block.name}, stands before {target.var.name}",
                mark={target: "loop", c: "consumer"},
                legal="a loop before all consumers",
            )
    if first > last:
        s.fail(
            f"no place in {target.var.name} is behind all producers and before all "
            f"consumers of {b.block.name}",
            mark={target: "loop"},
            legal="a loop whose statements can be cut in two between them",
        )
    return first, last


def _place(
    s: State, b: BlockRealize, target: For, window: tuple[int, int], index: int, ends: str
) -> int:
    """The place in a loop's body that an index means: -1 is the last one, -2 the first."""
    first, last = window
    place = {-2: first, -1: last}.get(index, index)
    if not first <= place <= last:
        s.fail(
            f"index {index} would put {b.block.name} before a producer or behind a consumer",
            mark={target: f"{len(_statements(target))} statements inside"},
            legal=f"{first} to {last}, {ends}",
        )
    return place


def _require_order(s: State, b: BlockRealize, target: For) -> None:
    """What a block must not pass: what changes its operands later, or uses its result before."""
    order = s.index.order
    for p in s.producers(b):
        if order[p] > order[b] and (s.is_under(p, target) or order[p] < order[target]):
            s.fail(
                f"{p.block.name} changes what {b.block.name} reads, behind it",
                mark={b: "block", p: "changes its operand", target: "loop"},
                legal=f"a loop before {p.block.name}",
            )
    for c in s.consumers(b):
        if order[c] < order[b] and (s.is_under(c, target) or order[c] > order[target]):
            s.fail(
                f"{c.block.name} uses what {b.block.name} overwrites, before it",
                mark={b: "block", c: "uses the old value", target: "loop"},
                legal=f"a loop behind {c.block.name}",
            )


# -------------------------------------------------------------------------------------- domains


def _needed(
    s: State, b: BlockRealize, target: For, consumers: Sequence[BlockRealize]
) -> list[_Domain]:
    """The values of a producer's variables that one iteration of `target` needs."""
    wanted: dict[Var, tuple[Expr, Expr]] = {}
    spatial = [i.var for i in b.block.iter_vars if i.kind == "spatial"]
    for w in b.block.writes:
        box = s.facts.hull(
            touched(s, c, r, s.loops_between(c, target))
            for c in consumers
            for r in c.block.reads
            if r.buffer is w.buffer
        )
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
    return [_clip(s, b, k, wanted.get(i.var)) for k, i in enumerate(b.block.iter_vars)]


def _whole(s: State, b: BlockRealize, position: int) -> _Domain:
    """A variable's whole domain; inside another block not all operands of it may be there, unless
    the block runs over its whole domain there already."""
    i, outer = b.block.iter_vars[position], s.scope(b).block
    if outer.name != "root" and not _is_whole(s, b, position):
        s.cannot_prove(
            f"{i.var.name} of {b.block.name} runs over its whole range inside block {outer.name}",
            legal="a part that the block around it needs",
        )
    return _Domain(i.dom.min, i.dom.extent, [])


def _is_whole(s: State, b: BlockRealize, position: int) -> bool:
    """Whether a variable is a loop of its own inside the block around, over its whole domain."""
    value, dom = b.values[position], b.block.iter_vars[position].dom
    loops = [x for x in s.loops_above(b) if x.var is value]
    return is_const(b.predicate, 1) and any(
        s.facts.equal(x.min, dom.min) and s.facts.equal(x.extent, dom.extent) for x in loops
    )


def _clip(s: State, b: BlockRealize, position: int, bounds: tuple[Expr, Expr] | None) -> _Domain:
    """A variable's range inside its domain; what is not proved to be inside becomes a condition."""
    dom = b.block.iter_vars[position].dom
    if bounds is None:
        return _whole(s, b, position)
    facts = s.facts
    low, high = bounds
    extent = facts.extent(low, high)
    if not is_const(extent) and _has_loops(s, extent):
        limit = facts.upper(extent)
        if limit is None:
            return _whole(s, b, position)
        extent = const(limit, INDEX)
    if facts.equal(extent, dom.extent) and facts.equal(low, dom.min):
        return _Domain(dom.min, dom.extent, [])
    if facts.prove(extent >= dom.extent):
        return _whole(s, b, position)
    conditions: list[tuple[str, Expr]] = []
    if not facts.prove(low >= dom.min):
        conditions.append((">=", dom.min))
    end = facts.simplify(dom.min + dom.extent)
    if not facts.prove(low + extent <= end):
        conditions.append(("<", end))
    return _Domain(low, extent, conditions)


def _has_loops(s: State, e: Expr) -> bool:
    return any(v.name in s.index.loops for v in free_vars(e))


def _made(
    s: State, b: BlockRealize, target: For, producers: Sequence[BlockRealize]
) -> list[_Domain]:
    """The values of a consumer's variables that read what one iteration of `target` makes."""
    spatial = [i.var for i in b.block.iter_vars]
    wanted: dict[Var, tuple[Expr, Expr]] = {}
    around = [*list(s.loops_above(target)), target]
    for p in producers:
        require_finished(s, p, around)
        inner = s.loops_between(p, target)
        for w in p.block.writes:
            indices = _one_access(s, b, w.buffer)
            if indices is None:
                continue
            box = touched(s, p, w, inner)
            _check_box(s, b, p, box, inner, target)
            _check_all_made(s, b, p, w, indices, target)
            found, exact = solve(s.facts, indices, box, spatial)
            for k, e in enumerate(indices):
                _check_exact(s, b, p, e, box[k], w.buffer.shape[k], exact, target)
            for v, bounds in found.items():
                if v in exact:
                    wanted[v] = _agree(s, b, v, wanted.get(v), bounds, target)
    for i in b.block.iter_vars:
        if i.kind != "spatial" and i.var in wanted:
            low, high = wanted[i.var]
            s.demand(
                all_of(low <= i.dom.min, high >= i.dom.min + i.dom.extent - 1),
                f"{target.var.name} gives only a part of {i.var.name}, over which "
                f"{b.block.name} reduces",
                f"{target.var.name} gives all of {i.var.name}, over which {b.block.name} reduces",
                mark={b: f"reduces over {i.var.name}", target: "loop"},
                legal="a loop whose iteration makes everything that is reduced; or rfactor first",
            )
    return [_clip(s, b, k, wanted.get(i.var)) for k, i in enumerate(b.block.iter_vars)]


def _one_access(s: State, b: BlockRealize, buffer: Buffer) -> tuple[Expr, ...] | None:
    """The indices at which a block reads a buffer: one set of them."""
    regions: list[BufferRegion] = [r for r in b.block.reads if r.buffer is buffer]
    if not regions:
        return None
    if len(regions) > 1:
        s.cannot_prove(
            f"{b.block.name} uses only finished elements of {buffer.name}: it reads "
            f"several at once",
            mark={b: f"reads {buffer.name} {len(regions)} times"},
            legal="a block that reads each producer at one place; compute_at moves "
            "the producer instead",
        )
    return tuple([d.min for d in regions[0].region])


def _check_box(
    s: State, b: BlockRealize, p: BlockRealize, box: Box, inner: Sequence[For], target: For
) -> None:
    """The elements made in one iteration must fill their box: as many iterations as elements."""
    runs = product([x.extent for x in inner if binds(p, x.var, "spatial")])
    size = product([s.facts.extent(low, high) for low, high in box])
    if not s.facts.equal(runs, size):
        s.cannot_prove(
            f"what {p.block.name} makes in one iteration of {target.var.name} is a box that no "
            "other iteration makes",
            mark={p: "producer", target: "loop"},
            legal="a loop between tiles of the producer's dimensions",
        )


def _check_all_made(
    s: State,
    b: BlockRealize,
    p: BlockRealize,
    w: BufferRegion,
    indices: Sequence[Expr],
    target: For,
) -> None:
    """Every iteration of the consumer reads something that the producer makes in some iteration.

    One that reads beyond it, under a condition, would belong to no iteration of the loop.
    """
    made = s.facts.box(w.region, w.buffer.shape, domain_loops(p.block.iter_vars))
    for e, (low, high) in zip(indices, made, strict=True):
        ends = s.facts.relax(e, domain_loops(b.block.iter_vars))
        if ends is None or not (s.facts.prove(ends[0] >= low) and s.facts.prove(ends[1] <= high)):
            s.cannot_prove(
                f"{b.block.name} reads only elements of {w.buffer.name} that {p.block.name} makes: "
                f"an iteration that does not would be lost in {target.var.name}",
                mark={b: "consumer", p: "producer", target: "loop"},
                legal="a consumer whose indices stay inside what is made",
            )


def _check_exact(
    s: State,
    b: BlockRealize,
    p: BlockRealize,
    e: Expr,
    bounds: tuple[Expr, Expr],
    shape: Expr,
    exact: set[Var],
    target: For,
) -> None:
    whole = s.facts.prove(bounds[0] <= 0) and s.facts.prove(bounds[1] >= shape - 1)
    variables = free_vars(e) & {i.var for i in b.block.iter_vars}
    if (
        whole
        or variables & exact
        or (s.facts.equal(bounds[0], bounds[1]) and s.facts.equal(bounds[0], e))
    ):
        return
    s.cannot_prove(
        f"{b.block.name} reads one to one what {p.block.name} makes in an iteration "
        f"of {target.var.name}",
        mark={b: "consumer", target: "loop"},
        legal="a loop whose iteration makes that dimension whole",
    )


def _agree(
    s: State,
    b: BlockRealize,
    v: Var,
    old: tuple[Expr, Expr] | None,
    new: tuple[Expr, Expr],
    target: For,
) -> tuple[Expr, Expr]:
    if old is not None and not all(map(s.facts.equal, old, new)):
        s.demand(
            all_of(equal(old[0], new[0]), equal(old[1], new[1])),
            f"two producers inside {target.var.name} make different parts for {v.name}",
            f"two producers inside {target.var.name} make the same part for {v.name}",
            mark={b: f"variable {v.name}"},
            legal="a loop at which they make the same part",
        )
    return new


# --------------------------------------------------------------------------------------- moving


def _make_nest(s: State, b: BlockRealize, domain: Sequence[_Domain], keep_unit: bool) -> Stmt:
    """Loops over a domain around a block, which stays under the conditions that it had."""
    guard = own_conditions(s, b)

    def make(offsets: list[Expr]) -> Stmt:
        values, conditions = [], []
        for d, offset in zip(domain, offsets, strict=True):
            value = s.facts.simplify(d.low + offset)
            values.append(value)
            conditions += [value >= e if op == ">=" else value < e for op, e in d.conditions]
        at = dict(zip([i.var for i in b.block.iter_vars], values, strict=True))
        conditions += [s.facts.simplify(substitute(c, at)) for c in guard]
        return BlockRealize(tuple(values), all_of(conditions), b.block)

    return s.nest([d.extent for d in domain], make, keep_unit)


def _move(s: State, b: BlockRealize, target: For, place: int, nest: Stmt) -> None:
    """Take a block from where it is and put its new nest into a loop."""
    body = _statements(target)
    anchor = body[place] if place < len(body) else body[-1]
    after = place >= len(body)

    def insert(old: Stmt) -> Stmt:
        return seq(old, nest) if after else seq(nest, old)

    s.replace({b: None, anchor: insert})
    recheck(s, s.realize(b.block.name))
