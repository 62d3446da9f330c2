"""Whether the iterations of a loop hand values on to each other in a buffer.

A buffer that is used inside a loop only may live in the loop's body, and so be smaller, where
every iteration writes what it reads. What cannot be proved counts as handed on.
"""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.build import is_const
from smelt.ir.expr import EQ, LE, LT, Binary, Compare, Expr, FloorDiv, IntImm, Var
from smelt.ir.walk import free_vars, substitute
from smelt.tir.nodes import Buffer, For

from .accesses import Access, Domains, accesses
from .lanes import every_lane


def carries(s: For, buffer: Buffer, analyzer: Analyzer) -> bool:
    """Whether an iteration may use what another one has left in the buffer.

    analyzer  knows the loops around; the loop itself is bound in it
    """
    if s.kind == "parallel" or is_const(s.extent, 1):
        return False
    found = [_of_lane(a) for a in accesses(s.body) if a.buffer is buffer]
    stores = [a for a in found if a.store]
    own = buffer.scope == "local"  # an iteration may have registers to itself, wherever it writes
    if not own and not any(s.var in free_vars(i) for a in stores for i in a.indices):
        return True
    before: list[Access] = []
    for a in found:
        if a.store:
            before.append(a)
        elif not any(_covers(w, a, buffer, analyzer) for w in before):
            return True
    return False


def _of_lane(a: Access) -> Access:
    """An access of one lane: the lanes of a vector are like iterations of a loop."""
    indices, domains = every_lane(a.indices, a.domains)
    return a._replace(indices=indices, domains=domains)


def _without(a: Access, loops: Domains) -> Access:
    """An access where the iterations of some of its loops are given."""
    return a._replace(domains={v: d for v, d in a.domains.items() if v not in loops})


def _covers(write: Access, read: Access, buffer: Buffer, analyzer: Analyzer) -> bool:
    """Whether everything that `read` reads has been written by `write` in the same iteration.

    Loops around both have the same iteration as well.
    """
    shared = {v: d for v, d in write.domains.items() if v in read.domains}
    inside = analyzer.inside(shared)
    write, read = _without(write, shared), _without(read, shared)
    for a, b, extent in zip(write.indices, read.indices, buffer.shape, strict=True):
        have, need = inside.interval(a, write.domains), inside.interval(b, read.domains)
        if have is None or need is None:
            return False
        prove = inside.can_prove
        if not prove(have[0] <= need[0]) and not prove(have[0] <= 0):
            return False
        inner = prove(need[1] <= have[1]) or prove(have[1] >= extent - 1)
        if not inner and not _follows(b <= have[1], read, inside):
            return False
    first = _first_turns(write, {**shared, **write.domains}, inside)
    guards = [substitute(g, first) for g in write.guards]
    return all(_holds(g, write, read, inside) for g in guards)


def _first_turns(write: Access, around: Domains, analyzer: Analyzer) -> dict[Var, Expr]:
    """The loops' first values, where it is the start of a sum: the write happens only there.

    It does so for all elements that the loops come to, since its place does not depend on them.
    """
    indices = {v for i in write.indices for v in free_vars(i)}
    first: dict[Var, Expr] = {}
    for g in write.guards:
        inner = free_vars(g) & around.keys()
        if isinstance(g, EQ) and inner and not inner & indices:
            values = {v: around[v][0] for v in inner}
            if analyzer.can_prove(substitute(g, values)):
                first.update(values)
    return first


def _holds(guard: Expr, write: Access, read: Access, analyzer: Analyzer) -> bool:
    """Whether a condition of the write holds for the elements that are read."""
    if analyzer.inside(write.domains).can_prove(guard) or _follows(guard, read, analyzer):
        return True
    return isinstance(guard, Compare) and any(
        _same_limit(guard, a, b, write, read, analyzer)
        for a, b in zip(write.indices, read.indices, strict=True)
    )


def _same_limit(
    guard: Binary, a: Expr, b: Expr, write: Access, read: Access, analyzer: Analyzer
) -> bool:
    """Whether the guard is a limit of the index `a`, which the index `b` keeps as well.

    A condition on vectors is one on their elements: of g < c and a = 16 * g + lane, a < 16 * c.
    """
    own, inside = write.domains, analyzer.inside(write.domains)
    times = _scale(guard.a, a, own, inside)
    rest = inside.simplify(guard.a * times - a)
    if free_vars(guard.b) & own.keys():
        return False
    if free_vars(rest) & own.keys():
        ends = inside.interval(rest, own) if isinstance(guard, LT | LE) else None
        if ends is None:
            return False
        rest = ends[1]
    return _follows(type(guard)(b + rest, guard.b * times), read, analyzer)


def _scale(of: Expr, a: Expr, variables: Domains, analyzer: Analyzer) -> int:
    """How many times as far as an expression an index moves with one of some variables."""
    moved, limited = analyzer.linear(a, variables), analyzer.linear(of, variables)
    if moved is None or limited is None:
        return 1
    for v, step in limited[0].items():
        wide = moved[0].get(v)
        if isinstance(step, IntImm) and isinstance(wide, IntImm) and step.value > 0:
            return max(1, wide.value // step.value)
    return 1


def _follows(condition: Expr, read: Access, analyzer: Analyzer) -> bool:
    """Whether a condition, on what is around both accesses, holds wherever the read happens."""
    if any(condition is g for g in read.guards):
        return True
    if isinstance(condition, LT) and isinstance(condition.b, FloorDiv):
        e, c = condition.b.a, condition.b.b
        if isinstance(c, IntImm) and c.value > 0:  # x < e // c  =  (x + 1) * c <= e
            condition = (condition.a + 1) * c <= e
    inside = analyzer.inside(read.domains)
    if inside.can_prove(condition):
        return True
    for g in read.guards:
        with inside.assume(g):
            if inside.can_prove(condition):
                return True
    return False
