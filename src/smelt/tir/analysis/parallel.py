"""Whether loops whose iterations may run at once are free of races: shown without running them.

    verify_parallel(func)        # Answer.YES: none; Answer.NO: there is one; Answer.UNKNOWN
    check_races(func)            # raises a VerifyError that shows the race, where there is one

Two iterations race where both touch an element and one of them stores it. Parameters are taken to
be different memory. Loads of elements that a program has given no value are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from smelt.arith import Answer
from smelt.arith.bounds import atom_bounds
from smelt.ir.errors import VerifyError
from smelt.ir.expr import Expr, Var
from smelt.tir.access import Path
from smelt.tir.nodes import AssertStmt, For, PrimFunc, Seq, While, walk
from smelt.tir.printer import script
from smelt.tir.script_ops import shape_vars

from .disjoint import Disjointness
from .enumeration import find_conflict
from .parallel_accesses import Access, Kernel, Loop, ParallelAccesses

_SIZES = (8, 5)
"""Values of symbolic sizes with which races are looked for."""
_LOOKED_AT = 6
"""How many pairs of accesses are looked at that cannot be decided."""
_FEW, _MANY = 3, 200
"""Of more different accesses than the first all are tried together; more than the second are too
many to be compared with each other."""


@dataclass(frozen=True)
class Verdict:
    """What is known of a program's races.

    loop    the loop that the answer is about, where it is not YES
    first   two accesses that race (NO), or of which it is not known whether they do (UNKNOWN)
    iterations   values of the loop's variable in which they race
    sizes   the symbolic sizes for which they do
    """

    func: PrimFunc
    answer: Answer
    loop: Loop | None = None
    first: Access | None = None
    second: Access | None = None
    iterations: tuple[int, int] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """What is known, and the program with the accesses marked."""
        if self.loop is None or self.first is None or self.second is None:
            return f"{self.func.name}: no two iterations of a loop that may run at once race"
        b = self.first.buffer.name
        name = self.loop.var.name
        what = f"{_KINDS[self.loop.kind]} {name}"
        if self.iterations is not None:
            where = ", ".join([f"{n} = {value}" for n, value in self.sizes.items()])
            said = f"{what} race for {b}{', where ' if where else ''}{where}"
            notes = [
                f"{name} = {iteration} {'writes' if a.writes else 'reads'} it"
                for a, iteration in zip((self.first, self.second), self.iterations, strict=True)
            ]
        else:
            said = f"it cannot be shown that {what} do not race for {b}"
            notes = ["writes it" if a.writes else "reads it" for a in (self.first, self.second)]
        if self.first.stmt is self.second.stmt:
            both = notes[0] if len(set(notes)) == 1 else "; ".join(notes)
            marks = {self.first.stmt: both}
        else:
            marks = {self.first.stmt: notes[0], self.second.stmt: notes[1]}
        return f"{self.func.name}: {said}\n{script(self.func, marks)}"


_KINDS = {
    "parallel": "iterations of the parallel loop",
    "vectorized": "iterations of the vectorized loop",
    "grid": "blocks of different",
    "threads": "threads of different",
}


def verify_parallel(func: PrimFunc) -> Answer:
    """Whether a program is free of races.

    YES      different iterations of its parallel and vectorized loops, and its threads between
             barriers, are shown not to touch what another one stores
    NO       two iterations are shown to race
    UNKNOWN  neither: indices that are data, conditions that matter, ...
    """
    return parallel_verdict(func).answer


def check_races(func: PrimFunc) -> None:
    """Refuse a program that is shown to have a race: a VerifyError that shows it."""
    verdict = parallel_verdict(func)
    if verdict.answer is Answer.NO:
        raise VerifyError(str(verdict))


def parallel_verdict(func: PrimFunc) -> Verdict:
    """The answer of `verify_parallel`, and the accesses that it is about."""
    found = ParallelAccesses(func)
    if not found.accesses:
        return Verdict(func, Answer.YES)
    sizes = [p for p in func.params if isinstance(p, Var)] + shape_vars(func.params)
    proof = Disjointness(sizes, found.accesses)
    open_pairs: list[tuple[Loop, Access, Access]] = []
    for loop, buffers in found.levels():
        for b, accesses in buffers.items():
            private = found.is_private(b, loop)
            if private and _writes_first(proof, loop, accesses):
                continue
            groups = _groups(accesses)
            around = {x.var for x in _around(loop, accesses[0])}
            if len(groups) > _FEW and proof.all_disjoint(loop, accesses, around):
                continue
            if len(groups) > _MANY:
                open_pairs.append((loop, accesses[0], accesses[-1]))
            for first, second in _pairs(proof, loop, groups[:_MANY]):
                same = _same(loop, first, second)
                if proof.disjoint(loop, first, second, same):
                    continue
                if len(open_pairs) == _LOOKED_AT:
                    return _unknown(func, open_pairs)
                if proof.moves_on(loop, first, second, same):
                    continue
                verdict = _enumerated(func, proof.sizes, loop, first, second, same)
                if verdict.answer is Answer.NO and not private:
                    return verdict
                if verdict.answer is not Answer.YES:
                    open_pairs.append((loop, first, second))
    return _unknown(func, open_pairs)


def _unknown(func: PrimFunc, open_pairs: Sequence[tuple[Loop, Access, Access]]) -> Verdict:
    if not open_pairs:
        return Verdict(func, Answer.YES)
    return Verdict(func, Answer.UNKNOWN, *open_pairs[0])


def _enumerated(
    func: PrimFunc, sizes: Sequence[Var], loop: Loop, a: Access, b: Access, same: set[Var]
) -> Verdict:
    """The answer for two accesses by looking at all iterations, or at some of them."""
    undecided = Verdict(func, Answer.UNKNOWN, loop, a, b)
    for n in _SIZES:
        tried = dict.fromkeys(sizes, n)
        found = find_conflict(loop, a, b, same, tried)
        if found is None:
            return undecided
        if found.iterations is None:
            if found.exhaustive and not sizes:
                return Verdict(func, Answer.YES)
            continue
        if loop.kind in ("grid", "threads") and not _may_be_no(loop, a, b):
            return undecided
        if loop.kind == "threads" and a.kernel is not None and a.kernel.strict:
            together = same | {x.var for x in _common_loops(a, b)}
            found = find_conflict(loop, a, b, together, tried) or found
        if found.iterations is None or any(isinstance(s, AssertStmt) for s in walk(func.body)):
            return undecided
        said, (x, y) = {v.name: n for v in sizes}, found.iterations
        pair = (a, b) if x <= y else (b, a)
        return Verdict(func, Answer.NO, loop, *pair, (min(x, y), max(x, y)), said)
    return undecided


def _groups(accesses: Sequence[Access]) -> list[list[Access]]:
    """Accesses by the same indices, in the same loops."""
    groups: dict[tuple[object, ...], list[Access]] = {}
    for a in accesses:
        groups.setdefault((a.indices, a.loops), []).append(a)
    return list(groups.values())


def _pairs(
    proof: Disjointness, loop: Loop, groups: Sequence[list[Access]]
) -> Iterator[tuple[Access, Access]]:
    """Pairs with a store that may meet in different iterations.

    What is disjoint whatever the conditions of the accesses are need not be looked at one by one.
    """
    around = {x.var for x in _around(loop, groups[0][0])}
    plain = [replace(mine[0], guards=()) for mine in groups]
    for n, mine in enumerate(groups):
        for k, others in enumerate(groups[n:], n):
            if not any(a.writes for a in (*mine, *others)):
                continue
            if not proof.disjoint(loop, plain[n], plain[k], around):
                yield from _one_by_one(loop, mine, others)


def _one_by_one(
    loop: Loop, mine: Sequence[Access], others: Sequence[Access]
) -> Iterator[tuple[Access, Access]]:
    """Pairs of two lists, which may be one; of equal accesses one stands for all."""
    seen: set[tuple[object, ...]] = set()
    for n, a in enumerate(mine):
        for b in others[n:] if others is mine else others:
            if not (a.writes or b.writes) or _in_order(loop, a, b):
                continue
            key: tuple[object, ...] = a.writes, a.guards, b.writes, b.guards
            if loop.kind == "threads":
                key = *key, a.path, a.stmt, b.path, b.stmt
            if key not in seen:
                seen.add(key)
                yield (a, b) if a.writes else (b, a)


# ------------------------------------------------------------------------------------- threads


def _in_order(loop: Loop, a: Access, b: Access) -> bool:
    """Whether the threads of a block certainly do one access before the other, or it is one."""
    kernel = a.kernel
    if kernel is None or loop.kind not in ("grid", "threads"):
        return False
    one = a.stmt is b.stmt and a.writes and b.writes and a.indices == b.indices
    if one and loop.var.name not in a.bound:
        return True  # along an axis that a statement is not bound to, all store the same value
    if loop.kind == "grid":
        return False
    if a.block is not None and a.block is b.block and a.block in kernel.collective:
        return True
    if kernel.strict:
        return _parted(kernel, a.path, b.path)
    return a.buffer in kernel.communal and a.stmt is not b.stmt


def _same(loop: Loop, a: Access, b: Access) -> set[Var]:
    """The variables that have one value in both accesses: those of the loops around `loop`.

    In a kernel also the loops that hold a barrier: threads are in the same iteration of them.
    """
    same = {x.var for x in _around(loop, a)}
    kernel = a.kernel
    if kernel is None or loop.kind != "threads":
        return same
    common = _common_loops(a, b)
    if not kernel.strict:
        step = a.buffer in kernel.communal and a.stmt is b.stmt
        return same | {x.var for x in common} if step else same
    for x in reversed(common):
        if _meets_in(kernel, a.path, b.path, x):
            return same | {y.var for y in common[: common.index(x) + 1]}
    return same


def _around(loop: Loop, access: Access) -> tuple[Loop, ...]:
    """The loops around `loop`, outermost first."""
    return access.loops[: access.loops.index(loop)]


def _common_loops(a: Access, b: Access) -> list[Loop]:
    """The serial loops around both accesses."""
    return [x for x, y in zip(a.loops, b.loops, strict=False) if x is y and x.kind == "serial"]


def _common(a: Path, b: Path) -> int:
    """How many steps two paths share."""
    count = 0
    for (s, n), (t, m) in zip(a, b, strict=False):
        if s is not t or n != m:
            break
        count += 1
    return count


def _stops(kernel: Kernel, path: Path, depth: int) -> list[int]:
    """Where barriers stand in the sequence that a path goes through at a depth."""
    if depth >= len(path) or not isinstance(path[depth][0], Seq):
        return []
    return [
        p[depth][1]
        for p in kernel.barriers
        if len(p) == depth + 1 and p[:depth] == path[:depth] and p[depth][0] is path[depth][0]
    ]


def _then_stops(kernel: Kernel, path: Path, depths: range) -> bool:
    """Whether a barrier comes after a statement in one of the sequences around it."""
    return any(k > path[n][1] for n in depths for k in _stops(kernel, path, n))


def _stops_first(kernel: Kernel, path: Path, depths: range) -> bool:
    """Whether a barrier comes before a statement in one of the sequences around it."""
    return any(k < path[n][1] for n in depths for k in _stops(kernel, path, n))


def _meets_in(kernel: Kernel, a: Path, b: Path, loop: Loop) -> bool:
    """Whether an iteration of a loop around both accesses certainly holds a barrier."""
    depth = next((n for n, (s, _) in enumerate(a) if s is loop.source), len(a))
    return any(_stops(kernel, a, n) for n in range(depth + 1, _common(a, b) + 1))


def _parted(kernel: Kernel, a: Path, b: Path) -> bool:
    """Whether a barrier stands between two accesses, in an iteration and before the next."""
    n = _common(a, b)
    if n >= len(a) or n >= len(b) or not isinstance(a[n][0], Seq) or a[n][0] is not b[n][0]:
        return False
    if a[n][1] > b[n][1]:
        a, b = b, a
    below_a, below_b = range(n + 1, len(a)), range(n + 1, len(b))
    between = any(a[n][1] < k < b[n][1] for k in _stops(kernel, a, n))
    if not (between or _then_stops(kernel, a, below_a) or _stops_first(kernel, b, below_b)):
        return False
    iterations = [k for k, (s, _) in enumerate(a[:n]) if isinstance(s, For | While)]
    if not iterations:
        return True
    outer = range(iterations[-1] + 1, n + 1)
    return (
        _then_stops(kernel, b, below_b)
        or _stops_first(kernel, a, below_a)
        or _then_stops(kernel, b, outer)
        or _stops_first(kernel, a, outer)
    )


def _may_be_no(loop: Loop, a: Access, b: Access) -> bool:
    """Whether it is a race if two threads touch one element: no barrier is between, and the value
    is not the same for all.
    """
    kernel = a.kernel
    if kernel is None or any(x.writes and loop.var.name not in x.bound for x in (a, b)):
        return False
    if loop.kind == "grid" or a.stmt is b.stmt or not kernel.strict:
        return True
    n = _common(a.path, b.path)
    if n >= len(a.path) or n >= len(b.path):
        return False
    first, last = sorted((a.path[n][1], b.path[n][1]))
    return not any(
        len(p) > n and p[:n] == a.path[:n] and first <= p[n][1] <= last for p in kernel.barriers
    )


# ------------------------------------------------------------------------------- private memory


def _writes_first(proof: Disjointness, loop: Loop, accesses: Sequence[Access]) -> bool:
    """Whether each iteration certainly stores all that it loads, before it does.

    The stores of one statement without conditions fill a box, loop by loop; the loads come later
    and stay inside of it.
    """
    reads = [a for a in accesses if not a.writes]
    writes = [a for a in accesses if a.writes]
    if not writes:
        return False
    outer = {x.var for x in _around(loop, writes[0])} | {loop.var}
    box = _filled(proof, writes[0], outer)
    if box is None:
        return False
    for r in reads:
        if r.stmt is writes[0].stmt or r.indices is None or accesses.index(r) < 1:
            return False
        if accesses.index(r) < accesses.index(writes[0]):
            return False
        for e, (base, low, high) in zip(r.indices, box, strict=True):
            fixed, ((first, last),) = proof.rests([e], [proof.at(r)], outer)
            if fixed != base or first is None or first < low or last is None or last > high:
                return False
    return True


def _filled(
    proof: Disjointness, w: Access, outer: set[Var]
) -> list[tuple[Mapping[Expr, int], int, int]] | None:
    """Per dimension what a statement fills: terms of the loops around, and an interval."""
    if w.indices is None or w.guards:
        return None
    used: set[Expr] = set()
    box: list[tuple[Mapping[Expr, int], int, int]] = []
    for e in w.indices:
        fixed, ((low, high),) = proof.rests([e], [proof.at(w)], outer)
        inner = {t: c for t, c in proof.form(e).terms.items() if t not in fixed}
        reach = 0
        for t, c in sorted(inner.items(), key=lambda item: item[1]):
            first, last = atom_bounds(proof.at(w), t)
            if t in used or not isinstance(t, Var) or first is None or last is None:
                return None
            if not 0 < c <= reach + 1:
                return None
            used.add(t)
            reach += c * (last - first)
        if low is None or high is None:
            return None
        box.append((fixed, low, high))
    return box
