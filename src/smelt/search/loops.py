"""What a lowered program's loops do, roughly and fast: for schedules that have no closed form.

Every access is a sum of steps, one for each loop around it; from these follow how many lines of
memory a loop touches, which of them are still near, and what a body keeps busy. `footprint` counts
the same exactly, which takes thirty times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, gcd, prod

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import EQ, INDEX, Call, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.rules.cost import Cost, page_cycles, seconds, shares
from smelt.rules.cpu.analysis import guess
from smelt.rules.cpu.nest import TOGETHER
from smelt.target import Cache, Machine
from smelt.tir.analysis.accesses import Access, Accesses
from smelt.tir.analysis.reroll import rerolled
from smelt.tir.facts import Facts, conjuncts
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc, Stmt
from smelt.tir.script_ops import INTRINSICS, expr_nodes

_HEAVY = 0.75
"""Cycles of a vector for each unit of an intrinsic's cost."""
_TURN, _ENTRY = 1.0, 4.0
"""Cycles of an iteration of a loop, and to enter and leave it."""
_STREAM, _SCATTERED = 2, 4.0
"""Lines in a row that a processor foresees; how much longer others take from the third cache on."""
_WRITTEN = 2.0
"""A line that is written is read and written back."""
_WRITTEN_OUT = 16
"""A loop of fewer iterations over an array of registers is written out by LLVM."""

Nest = tuple[For, ...]
Step = tuple[float, int]
"""Elements from one iteration to the next, and how many iterations there are."""


class _Walk(Accesses):
    """Also what intrinsics take beyond one operation."""

    def __init__(self, func: PrimFunc) -> None:
        self.heavy: list[tuple[Nest, int, float]] = []
        super().__init__(func)

    def stmt(self, s: Stmt) -> None:
        super().stmt(s)
        if isinstance(s, BufferStore):
            for e in expr_nodes(s.value):
                known = INTRINSICS.get(e.op) if isinstance(e, Call) else None
                if known is not None and known.cost > 1:
                    self.heavy.append((self.nest, dt.lanes(e.dtype), float(known.cost)))


@dataclass(frozen=True, eq=False)
class Move:
    """An access, as the steps that it makes.

    steps      for each loop of the nest, outermost first
    copies     of unrolled accesses that are alike
    lanes      a vector's
    times      how often each element is accessed in an iteration
    """

    buffer: Buffer
    nest: Nest
    write: bool
    steps: tuple[Step, ...]
    copies: tuple[Step, ...]
    lanes: Step
    times: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return dt.bytes_of(self.buffer.type)

    def inner(self, depth: int) -> list[Step]:
        """The steps of one iteration of the loop at a depth; 0: of the whole program."""
        return [*self.steps[depth:], *self.copies, self.lanes]

    @property
    def step(self) -> float:
        """That of the innermost loop."""
        return self.steps[-1][0] if self.steps else 0.0

    def pages(self, machine: Machine) -> float:
        """Cycles of an iteration of the innermost loop to find pages."""
        steps = [(n, int(abs(s) * self.size)) for s, n in self.steps[-1:] if s]
        return page_cycles(steps, machine) * prod([n for _, n in self.copies]) / TOGETHER

    def instructions(self, lanes: int) -> float:
        """Loads or stores of an iteration."""
        step, width = self.lanes
        vectors = 1 if step == 0 else -(-width // lanes) if step == 1 else width
        return float(vectors * prod([n for _, n in self.copies]))


class Loops:
    """A lowered program's loops, accesses and arithmetic."""

    def __init__(self, flat: PrimFunc, machine: Machine) -> None:
        """Walk the program once."""
        walk = _Walk(flat)
        self.machine, self.lanes = machine, set(walk.lanes.values())
        self.extents = {x: max(1, guess(x.extent)) for n in walk.loops for x in n.nest}
        self.kinds = {
            n.nest[-1]: n.source.kind if isinstance(n.source, For) else "while" for n in walk.loops
        }
        self.nests = [n.nest for n in walk.loops]
        self.moves = [self._move(walk.facts, a) for a in rerolled(walk.facts, walk.accesses)]
        self.bodies: dict[Nest, _Body] = {}
        for m in self.moves:
            self._body(m.nest).moves.append(m)
        for w in walk.work:
            body, width = self._split(w.nest)
            found = self._body(body)
            found.share = max(found.share, self._share(w.guards))
            found.add(float(w.operations), width, self._share(w.guards), machine)
        for nest, width, cost in walk.heavy:
            vectors = -(-width // machine.lanes(4))
            self._body(self._split(nest)[0]).heavy += cost * _HEAVY * vectors

    # ------------------------------------------------------------------------------ what is read

    def _split(self, nest: Nest) -> tuple[Nest, int]:
        """The loops without that of lanes, and how many lanes."""
        if nest and nest[-1] in self.lanes:
            return nest[:-1], guess(nest[-1].extent)
        return nest, 1

    def _body(self, nest: Nest) -> _Body:
        return self.bodies.setdefault(nest, _Body(nest))

    def _share(self, guards: Iterable[Expr]) -> float:
        """In which part of the iterations conditions hold: equations in one of a loop's."""
        extents = {x.var: n for x, n in self.extents.items()}
        equal = [c for g in guards for c in conjuncts(g) if isinstance(c, EQ)]
        return 1.0 / prod([extents.get(v, 1) for v in {v for c in equal for v in free_vars(c)}])

    def _move(self, facts: Facts, a: Access) -> Move:
        nest, width = self._split(a.nest)
        loops = (*a.nest, *a.copies)
        found = _steps(facts, a, loops)
        extents = [guess(x.extent) for x in loops]
        steps = tuple(zip(found, extents, strict=True))
        depth, own = len(nest), len(a.nest)
        lanes = steps[depth] if own > depth else (0.0, width)
        return Move(a.buffer, nest, a.write, steps[:depth], steps[own:], lanes, a.times)

    # ------------------------------------------------------------------------------ what it takes

    def trips(self, nest: Nest) -> float:
        """How often a body in these loops runs."""
        return prod([float(self.extents[x]) for x in nest])

    @cached_property
    def _touched(self) -> dict[Nest, float]:
        """Bytes that one iteration of a loop needs in the first cache, conflicts included."""
        found: dict[Nest, float] = {}
        near = self.machine.cache(1)
        for m in self._different:
            for depth in range(len(m.nest) + 1):
                size = _lines(m, depth, self.machine.line_bytes, near)
                found[m.nest[:depth]] = found.get(m.nest[:depth], 0.0) + size
        return found

    @cached_property
    def _different(self) -> list[Move]:
        """One access of those that meet the same elements; one that writes, if any does."""
        found: dict[object, Move] = {}
        for m in self.moves:
            key = m.buffer, m.nest, m.steps, m.lanes
            if key not in found or m.write:
                found[key] = m
        return list(found.values())

    def _traffic(self, stage: For | None) -> tuple[float, ...]:
        """Bytes from beyond each cache: where an iteration of a loop fits, what all iterations
        touch that follow each other comes once."""
        line = self.machine.line_bytes
        inside = [m for m in self._different if _stage(m.nest) is stage]
        total = []
        for n, size in enumerate(shares(self.machine)):
            moved = 0.0
            for m in inside:
                depth = next((d for d in range(len(m.nest) + 1)
                              if self._touched[m.nest[:d]] <= size), len(m.nest) + 1)  # fmt: skip
                if depth == 0 and n > 0:
                    continue  # it is still there from the run before
                around = max(0, depth - 1)
                new = _lines(m, around, line) * self.trips(m.nest[:around])
                alone = n > 0 and _stretch(m, depth, line) < _STREAM * line
                moved += new * (_WRITTEN if m.write else 1.0) * (_SCATTERED if alone else 1.0)
            total.append(moved)
        return tuple(total)

    @cached_property
    def stages(self) -> list[Cost]:
        """The closed form of each outermost loop: one follows the other."""
        order = dict.fromkeys([*[_stage(n) for n in self.nests], *map(_stage, self.bodies)])
        return [self._cost(stage) for stage in order]

    def _cost(self, stage: For | None) -> Cost:
        cycles = 0.0
        for nest, body in self.bodies.items():
            if _stage(nest) is stage:
                cycles += body.cycles(self.machine) * self.trips(nest)
        inside = [n for n in self.nests if _stage(n) is stage]
        for nest in inside:
            if self.kinds[nest[-1]] != "parallel":
                cycles += self.trips(nest) * _TURN + self.trips(nest[:-1]) * _ENTRY
        tasks, launches = self._tasks(inside)
        return Cost(cycles, self._traffic(stage), tasks, launches)

    @cached_property
    def cost(self) -> Cost:
        """All stages in one; tasks are those of the stage that takes longest."""
        longest = max(self.stages, key=lambda c: float(c.cycles), default=Cost(0.0))
        traffic = [sum(level) for level in zip(*[c.traffic for c in self.stages], strict=True)]
        launches = sum([float(c.launches) for c in self.stages])
        cycles = sum([float(c.cycles) for c in self.stages])
        return Cost(cycles, tuple(traffic), longest.tasks, launches)

    def _tasks(self, nests: Sequence[Nest]) -> tuple[float, float]:
        """Those of the loop that divides most of the work, and how often such loops start."""
        tasks, launches, most = 1.0, 0.0, 0.0
        for nest in nests:
            if self.kinds[nest[-1]] != "parallel":
                continue
            around = [x for x in nest[:-1] if self.kinds[x] == "parallel"]
            if not around:
                launches += self.trips(nest[:-1])
            work = max([self.trips(b) for b in self.bodies if b[: len(nest)] == nest], default=0.0)
            if work >= most:
                most = work
                tasks = prod([float(self.extents[x]) for x in (*around, nest[-1])])
        return tasks, max(1.0, launches)

    # ------------------------------------------------------------------------------ what is seen

    @property
    def totals(self) -> list[float]:
        """Of the whole program: runs of bodies, operations, the widest vector, the most copies,
        tasks, launches, loops, bodies."""
        runs = [self.trips(n) for n in self.bodies]
        work = [b.operations * self.trips(n) for n, b in self.bodies.items()]
        copies = [prod([n for _, n in m.copies]) for m in self.moves]
        widths = [m.lanes[1] for m in self.moves]
        tasks, launches = float(self.cost.tasks), float(self.cost.launches)
        return [sum(runs), sum(work), max(widths, default=1), max(copies, default=1),
                tasks, launches, len(self.nests), len(self.bodies)]  # fmt: skip

    def access_numbers(self, most: int) -> list[list[float]]:
        """Of the accesses that run most often: runs, steps of the innermost loop and of lanes in
        bytes, bytes touched in all and by the innermost loop, reuse, whether it writes."""
        found = []
        order = sorted(self._different, key=lambda m: -self.trips(m.nest) * m.instructions(1))
        for m in order[:most]:
            runs = self.trips(m.nest) * m.instructions(1)
            whole = _lines(m, 0, m.size)
            inner = _lines(m, max(0, len(m.nest) - 1), self.machine.line_bytes)
            found.append([runs, abs(m.step) * m.size, abs(m.lanes[0]) * m.size, whole, inner,
                          runs * m.size / max(1.0, whole), float(m.write)])  # fmt: skip
        return found

    def levels(self, most: int) -> tuple[list[float], list[float]]:
        """Trips and bytes touched of the loops around the body that runs most often, innermost
        first."""
        nest = max(self.bodies, key=lambda n: (self.trips(n), len(n)), default=())
        prefixes = [nest[:d] for d in range(len(nest), 0, -1)][:most]
        return [self.trips(p) for p in prefixes], [self._touched.get(p, 0.0) for p in prefixes]


ACCESS_NUMBERS = 7
"""Numbers of `Loops.access_numbers` for each access."""


class _Body:
    """What runs in one iteration of a nest, but for the loops in it."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.moves: list[Move] = []
        self.operations = self.vectors = self.heavy = self.share = 0.0

    def add(self, operations: float, width: int, share: float, machine: Machine) -> None:
        """Arithmetic on vectors of so many lanes, in a share of the iterations."""
        self.operations += operations * width * share
        self.vectors += operations * -(-width // machine.lanes(4)) * share

    def cycles(self, machine: Machine) -> float:
        """Cycles of an iteration: of the busiest unit, or the chain of sums. What is not written
        as vectors stays scalar."""
        moved = [m for m in self.moves if not (m.nest and m.step == 0) and not _kept(m, machine)]
        lanes = machine.lanes(max([m.size for m in self.moves], default=4))
        each = 2.0 if machine.fma else 1.0  # a multiply-add counts two operations
        busy = max(
            self.vectors / (each * machine.multiply_adds),
            sum([m.instructions(lanes) for m in moved if not m.write]) / machine.loads,
            sum([m.instructions(lanes) for m in moved if m.write]) / machine.stores,
            self._chain(machine),
        )
        return busy + self.heavy + sum([m.pages(machine) for m in moved])

    def _chain(self, machine: Machine) -> float:
        """Cycles until the next value can be added to the same sum."""
        read = {(m.buffer, m.steps) for m in self.moves if not m.write}
        sums = [m.times for m in self.moves
                if m.write and m.nest and m.step == 0 and (m.buffer, m.steps) in read]  # fmt: skip
        return float(machine.latency * max(sums, default=0))


def _kept(m: Move, machine: Machine) -> bool:
    """Whether it is a register: a small local array whose places are known when it is compiled."""
    if m.buffer.scope != "local":
        return False
    size = prod(map(guess, m.buffer.shape)) * m.size
    turning = [n for step, n in m.steps if step != 0]
    fits = size <= machine.vector_registers * machine.vector_bytes
    return fits and all(n < _WRITTEN_OUT for n in turning)


def _lines(m: Move, depth: int, line: int, cache: Cache | None = None) -> float:
    """Bytes of the lines that an access touches in one iteration of the loop at a depth.

    cache  where these have to find a place: what they keep others from, by steps that meet the
           same places again and again, counts likewise
    """
    lines, stretch, crowded = 1.0, float(m.size), 1.0
    for step, count in _runs(m, depth):
        if step * m.size < line:
            stretch = max(stretch, step * m.size * count)
            continue
        lines *= count
        if cache is not None and count > 1:
            places = cache.way // gcd(int(step * m.size), cache.way) * max(line, stretch)
            crowded = max(crowded, cache.way / max(1.0, places))
    whole = ceil(prod(map(guess, m.buffer.shape)) * m.size / line) * line
    return min(lines * ceil(stretch / line) * line, float(whole)) * crowded


def _runs(m: Move, depth: int) -> list[tuple[float, float]]:
    """Distances of the elements that an access meets in one iteration of the loop at a depth, and
    how many there are of each; loops that touch or overlap are one."""
    runs: list[tuple[float, float]] = []
    for step, count in sorted([(abs(s), n) for s, n in m.inner(depth) if s and n > 1]):
        if runs and step <= runs[-1][0] * runs[-1][1]:  # they touch or overlap
            first, have = runs[-1]
            runs[-1] = first, min(have * count, have + step / first * (count - 1))
        else:
            runs.append((step, float(count)))
    return runs


def _stretch(m: Move, depth: int, line: int) -> float:
    """Bytes that follow each other without a gap of a line."""
    found = float(m.size)
    for step, count in _runs(m, depth):
        if step * m.size <= max(line, found):
            found = max(found, step * m.size * count)
    return found


def _steps(facts: Facts, a: Access, loops: Sequence[For]) -> list[float]:
    """Elements from an iteration of each loop to the next; where that changes, on average."""
    offset, far = const(0, INDEX), 1
    for index, extent in zip(reversed(a.indices), reversed(a.buffer.shape), strict=True):
        if index is None:  # it depends on data: every iteration meets another line
            return [float(64 if x is a.nest[-1] else 0) for x in loops] if a.nest else []
        offset, far = offset + index * far, far * guess(extent)
    variables = [x.var for x in loops]
    linear = facts.analyzer.linear(offset, variables)
    factors, rest = ({}, offset) if linear is None else linear
    left, found = free_vars(rest), []
    for x in loops:
        step = float(guess(factors[x.var])) if x.var in factors else 0.0
        found.append(step + (_probed(rest, x, variables) if x.var in left else 0.0))
    return found


def _probed(e: Expr, loop: For, variables: Sequence[Var]) -> float:
    """How far one step of a loop moves what is no sum of multiples: the first, or the average."""
    zero: dict[Var, Expr] = dict.fromkeys(variables, const(0, INDEX))

    def at(k: int) -> int:
        found = value_of(substitute(e, {**zero, loop.var: const(k, INDEX)}))
        return guess(substitute(e, {**zero, loop.var: const(k, INDEX)})) if found is None else found

    count = guess(loop.extent)
    if count < 2:
        return 0.0
    first = at(1) - at(0)
    return float(first) if first else (at(count - 1) - at(0)) / (count - 1)


def loop_seconds(flat: PrimFunc | Loops, machine: Machine) -> float:
    """Roughly what a lowered program takes on all cores."""
    found = flat if isinstance(flat, Loops) else Loops(flat, machine)
    return float(sum([seconds(c, machine) for c in found.stages]))


def _stage(nest: Nest) -> For | None:
    """The outermost loop; None for what stands outside of all."""
    return nest[0] if nest else None
