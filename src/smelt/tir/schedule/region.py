"""Regions: what a block touches while loops run, and which iterations touch a region."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.arith.affine.sums import digit_pair
from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Box, Facts, least, most
from smelt.tir.regions import refresh_regions
from smelt.tir.rewrite import Rewriter

from .. import nodes

if TYPE_CHECKING:
    from .state import State

Domain = dict[Var, tuple[Expr, Expr]]


def touched(
    state: State, b: nodes.BlockRealize, region: nodes.BufferRegion, loops: Sequence[nodes.For]
) -> Box:
    """The box of a buffer that a block touches while `loops` (outermost first) run."""
    own = Rewriter(b.var_values).region(region)
    return state.facts.box(own.region, region.buffer.shape, loops)


def domain_loops(iters: Iterable[nodes.IterVar]) -> list[nodes.For]:
    """Variables as loops over their domains, for questions about ranges."""
    return [nodes.For(i.var, i.dom.min, i.dom.extent, nodes.no_op()) for i in iters]


# ------------------------------------------------------------------------------------ inverting


def solve(
    facts: Facts, indices: Sequence[Expr], box: Box, variables: Iterable[Var]
) -> tuple[Domain, set[Var]]:
    """The values of block variables for which `indices` may lie in `box`.

    Returns the ranges found, and those variables among them whose range is exact: every value in it
    touches the box and no other does. A variable that is missing may have any value.
    """
    solution = _Solution(facts, set(variables))
    for e, (low, high), precise in _joined(facts, indices, box):
        solution.add(e, low, high, precise)
    return solution.domain, solution.domain.keys() - solution.loose


def inverted(
    facts: Facts, indices: Sequence[Expr], at: Sequence[Expr], iters: Sequence[nodes.IterVar]
) -> dict[Var, Expr]:
    """Those variables that `indices` determine, where the values of `indices` are `at`."""
    domain, _ = solve(facts, indices, [(e, e) for e in at], [i.var for i in iters])
    found = {v: low for v, (low, high) in domain.items() if facts.equal(low, high)}
    return {i.var: i.dom.min for i in iters if is_const(i.dom.extent, 1)} | found


def _joined(
    facts: Facts, indices: Sequence[Expr], box: Box
) -> list[tuple[Expr, tuple[Expr, Expr], bool]]:
    """Indices x // c and x % c become one index x."""
    items = [(e, b, True) for e, b in zip(indices, box, strict=True)]
    while True:
        pair = digit_pair([e for e, _, _ in items], facts.simplify)
        if pair is None:
            return items
        quotient, rest, whole, factor = pair
        (_, (q0, q1), p0), (_, (r0, r1), p1) = items[quotient], items[rest]
        one = facts.equal(q0, q1)
        all_rests = is_const(facts.simplify(r0), 0) and facts.equal(r1, factor - 1)
        low, high = (
            (q0 * factor + r0, q1 * factor + r1)
            if one or all_rests
            else (q0 * factor, q1 * factor + (factor - 1))
        )
        new = (whole, (facts.simplify(low), facts.simplify(high)), (one or all_rests) and p0 and p1)
        items = [x for k, x in enumerate(items) if k not in (quotient, rest)] + [new]


class _Solution:
    """The ranges of some variables, as far as indices that lie between bounds tell them.

    loose  the variables of which indices may ask more than their ranges say
    """

    def __init__(self, facts: Facts, known: set[Var]) -> None:
        self.facts, self.known = facts, known
        self.domain: Domain = {}
        self.loose: set[Var] = set()

    def add(self, e: Expr, low: Expr, high: Expr, precise: bool) -> None:
        """low <= e <= high. precise: every value between is one of e.

        v + rest, where nothing else is looked for: v from low - rest to high - rest
        c * v + rest with 0 <= rest < c: v from low // c to high // c; the rest stays free
        """
        facts, used = self.facts, free_vars(e) & self.known
        terms = facts.linear(e, sorted(used, key=lambda v: v.name))
        v, c = max(terms, key=lambda t: t[1]) if terms else (None, 0)
        if v is None or not precise or len(used) > 1 or c != 1:
            self.loose |= used
        if v is None:
            return
        rest = facts.simplify(substitute(e, {v: const(0, INDEX)}))
        if len(used) == c == 1:
            self.meet(v, low - rest, high - rest)
        elif c > 0 and facts.prove(rest >= 0) and facts.prove(rest < c):
            self.meet(v, low // c, high // c)
            if facts.equal(low, high):
                below = facts.simplify(low % c)
                self.add(rest, below, below, False)

    def meet(self, v: Var, low: Expr, high: Expr) -> None:
        """A variable lies between two more ends; what cannot be compared with them stays."""
        low, high = self.facts.simplify(low), self.facts.simplify(high)
        first, last = self.domain.setdefault(v, (low, high))
        prove = self.facts.prove
        met = most(first, low, prove), least(last, high, prove)
        if met[0] in (first, low) and met[1] in (last, high):
            self.domain[v] = met
        else:
            self.loose.add(v)


def refreshed(state: State, block: nodes.Stmt) -> nodes.Block:
    """A block with its regions read off its body again; what the user said of them stays."""
    assert isinstance(block, nodes.Block)
    new = refresh_regions(state.facts, block)
    if new.init is None and {r.buffer for r in new.reads} & {w.buffer for w in new.writes}:
        inner = _made_inside(state, new)
        new = new.replace(reads=tuple([r for r in new.reads if r.buffer not in inner]))
    if not block.annotations.keys() & _SAID:
        return new
    return new.replace(
        reads=_as_said(block, new.reads, block.reads, "read"),
        writes=_as_said(block, new.writes, block.writes, "write"),
    )


def told_by_body(block: nodes.Block) -> bool:
    """Whether a block has blocks inside, and nothing else whose accesses are not known."""
    found = False
    for s in nodes.walk(block.body, nodes.is_block):
        if isinstance(s, nodes.BlockRealize):
            found = True
        elif isinstance(s, nodes.Evaluate) and not nodes.is_no_op(s):
            return False
    return found


def _made_inside(state: State, outer: nodes.Block) -> set[nodes.Buffer]:
    """The buffers of which a block reads only what a block inside it has made before."""
    written = {w.buffer for w in outer.writes}
    loops = dict(_with_loops(outer.body, ()))
    made: dict[nodes.Buffer, nodes.BlockRealize] = {}
    external: set[nodes.Buffer] = set()
    for b in loops:
        for r in b.block.reads:
            if r.buffer in written and not _covered(state, made.get(r.buffer), b, r, loops):
                external.add(r.buffer)
        for w in b.block.writes:
            if is_const(b.predicate, 1):
                made.setdefault(w.buffer, b)
    return written - external


def _with_loops(
    s: nodes.Stmt, around: tuple[nodes.For, ...]
) -> Iterator[tuple[nodes.BlockRealize, tuple[nodes.For, ...]]]:
    """The blocks directly in a statement, in order, with the loops around them."""
    if isinstance(s, nodes.BlockRealize):
        yield s, around
        return
    inner = (*around, s) if isinstance(s, nodes.For) else around
    for x in nodes.sub_statements(s):
        yield from _with_loops(x, inner)


def _covered(
    state: State,
    first: nodes.BlockRealize | None,
    then: nodes.BlockRealize,
    region: nodes.BufferRegion,
    loops: Mapping[nodes.BlockRealize, tuple[nodes.For, ...]],
) -> bool:
    """Whether a block reads only what another one has written in the same iteration."""
    if first is None or first is then:
        return False
    mine, theirs = loops[then], loops[first]
    shared = [x for x in mine if x in theirs]
    write = next(w for w in first.block.writes if w.buffer is region.buffer)
    need = touched(state, then, region, mine[len(shared) :])
    have = touched(state, first, write, theirs[len(shared) :])
    return state.facts.contains(have, need)


EXPLICIT = "explicit_{}_region"
"""The annotation that names buffers whose region annotate_buffer_access has stated."""

HIDDEN = "hidden_{}_access"
"""The annotation that names buffers which unsafe_hide_buffer_access has hidden."""

_SAID = {key.format(kind) for key in (EXPLICIT, HIDDEN) for kind in ("read", "write")}


def _as_said(
    block: nodes.Block,
    found: Sequence[nodes.BufferRegion],
    before: Sequence[nodes.BufferRegion],
    kind: str,
) -> tuple[nodes.BufferRegion, ...]:
    hidden = block.annotations.get(HIDDEN.format(kind), ())
    stated = block.annotations.get(EXPLICIT.format(kind), ())
    old = {r.buffer.name: r for r in before}
    out: dict[str | nodes.BufferRegion, nodes.BufferRegion] = {}
    for r in found:
        name = r.buffer.name
        if name in hidden:
            continue
        if name in stated and name in old and old[name].buffer.rank == r.buffer.rank:
            out[name] = old[name].replace(buffer=r.buffer)
        else:
            out[r] = r
    return tuple(out.values())
