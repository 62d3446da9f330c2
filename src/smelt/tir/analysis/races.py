"""Races, found by running a program: two accesses to one element that nothing puts in order.

    for race in find_races(func, a, b):
        print(race)

The interpreter runs the program once and reports every access. Two of them race where they are of
different iterations of a parallel or vectorized loop, or of different threads that no barrier keeps
apart, and one of them is a store. What is reported did happen; another input may show more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.tir.interpret import interpret
from smelt.tir.interpret_stmt import Location
from smelt.tir.interpret_threads import Observer, Point
from smelt.tir.nodes import Buffer, For, PrimFunc, Stmt
from smelt.tir.printer import script
from smelt.tir.threads import communal_buffers, is_grid_axis, kernels, private_loops

from .examples import example_arguments

_MOST = 20
"""Pairs of statements that are reported; a program with more has one mistake, not many."""


@dataclass(frozen=True)
class Touch:
    """One of two accesses.

    iterations  loops around it that may run at once (or the axes of its thread), and their values
    """

    stmt: Stmt
    writes: bool
    iterations: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        where = ", ".join([f"{name} = {value}" for name, value in self.iterations])
        return f"{where} {'writes' if self.writes else 'reads'} it"


@dataclass(frozen=True)
class Race:
    """Two accesses to the element `index` of a buffer that may happen in either order, or at once.

    between  what runs at once: "the parallel loop i", "the threads of a block", ...
    """

    func: PrimFunc
    buffer: Buffer
    index: tuple[int, ...]
    between: str
    first: Touch
    second: Touch

    def __str__(self) -> str:
        """What, where, and the program with both statements marked."""
        element = f"{self.buffer.name}[{', '.join(map(str, self.index))}]"
        if self.first.stmt is self.second.stmt:
            marks = {self.first.stmt: f"{self.first}; {self.second}"}
        else:
            marks = {self.first.stmt: str(self.first), self.second.stmt: str(self.second)}
        return (
            f"{self.func.name}: a race for {element} between {self.between}: "
            f"{self.first}; {self.second}\n{script(self.func, marks)}"
        )


def find_races(func: PrimFunc, *examples: Any, seed: int = 0) -> list[Race]:
    """The races that show while a program runs; each pair of statements once.

    examples  what `interpret` takes, or shapes (tuples) and sizes (integers) in the order of the
              parameters: arrays are then filled with random numbers. Without any, symbolic sizes
              are 5.
    seed      of the random numbers

    Threads that store the same value by the same statement do not race: statements of a kernel
    that stand outside of the loops of an axis are executed by all of its threads. A buffer of a
    block that only one loop uses is private to each of its iterations, as it will be when lowered.
    """
    arguments = _arguments(func, examples, seed)
    recorder = _Recorder(func)
    with np.errstate(all="ignore"):
        interpret(func, *arguments, observer=recorder)
    return recorder.races


def _arguments(func: PrimFunc, examples: Sequence[Any], seed: int) -> list[Any]:
    if not examples:
        return example_arguments(func, seed=seed)
    if not any(isinstance(e, tuple) for e in examples):
        return list(examples)
    if len(examples) != len(func.params):
        raise TypeMismatch(
            f"{func.name} has {len(func.params)} parameters, {len(examples)} shapes given"
        )
    sizes: dict[str, int] = {}
    shapes: dict[Buffer, tuple[int, ...]] = {}
    for p, e in zip(func.params, examples, strict=True):
        if isinstance(p, Buffer) != isinstance(e, tuple):
            what = "a shape" if isinstance(p, Buffer) else "a number"
            raise TypeMismatch(f"{func.name}: {p.name} takes {what}, {e!r} given")
        if isinstance(p, Buffer):
            shapes[p] = e
        else:
            sizes[p.name] = int(e)
    return example_arguments(func, sizes, shapes, seed=seed)


# ------------------------------------------------------------------------------------- recording

_Path = tuple[tuple[int, Any], ...]
"""Where in the tree of things that may run at once an access stands: (instance, iteration), ..."""


@dataclass
class _Instance:
    """One run of a loop whose iterations may run at once, of a grid, or of a block's threads."""

    place: int
    kind: str
    axes: tuple[str, ...]


@dataclass
class _Mark:
    """An access that has happened; of a store also the value."""

    path: _Path
    place: int
    writes: bool = False
    value: Any = None


@dataclass
class _Cell:
    """The last accesses to an element: enough of them to meet every later one that races.

    writers  the last store, and the equal ones of other threads
    readers  loads since then: two of different iterations at most, for a store races with one of
             them if it races with any
    """

    writers: list[_Mark] = field(default_factory=list)
    readers: list[_Mark] = field(default_factory=list)


@dataclass
class _Memory:
    """A buffer while it lives."""

    memory: Any
    buffer: Buffer
    common: bool
    cells: defaultdict[int, _Cell] = field(default_factory=lambda: defaultdict(_Cell))


class _Recorder(Observer):
    """Observes a program run (see `Observer`)."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.private = private_loops(func.body)
        self.communal = {b for k in kernels(func.body) for b in communal_buffers(k)}
        self.places: Sequence[Location] = ()
        self.races: list[Race] = []
        self.known: set[tuple[object, ...]] = set()
        self.memories: dict[int, _Memory] = {}
        self.instances: list[_Instance] = []
        self.outer: list[tuple[int, Any]] = []
        self.inner: list[tuple[int, Any]] = []
        self.inners: dict[int, list[tuple[int, Any]]] = {}
        self.in_kernel = self.strict = False
        self.grid = self.crew = self.meeting = self.site = 0
        self.block_at: Point = ()
        self.thread_at: Point = ()
        self.axes: tuple[str, ...] = ()
        self.plain: _Path = ()
        self.phased: _Path = ()

    def begin(self, places: Sequence[Location]) -> None:
        """Learn what the numbers of places stand for."""
        self.places = places

    def memory(self, memory: Any, buffer: Buffer, common: bool) -> None:
        """A buffer lives from now on; what had its place in memory before is gone."""
        common = common or buffer in self.communal
        self.memories[id(memory)] = _Memory(memory, buffer, common)

    # ------------------------------------------------------------------- what runs at once

    def instance(self, place: int, kind: str, axes: Sequence[str] = ()) -> int:
        self.instances.append(_Instance(place, kind, tuple(axes)))
        return len(self.instances) - 1

    def moved(self) -> None:
        """Another iteration or thread runs from now on."""
        self.plain = self.phased = tuple(self.outer)
        if self.in_kernel:
            block = (*self.outer, (self.grid, self.block_at))
            self.phased = (*block, (self.meeting, self.thread_at), *self.inner)
            self.plain = (*block, (self.crew, self.thread_at), *self.inner)
            if self.strict:
                self.plain = self.phased

    def fork(self, place: int) -> None:
        """A loop begins whose iterations may run at once."""
        s = self.places[place].stmt
        number = self.instance(place, s.kind if isinstance(s, For) else "parallel")
        (self.inner if self.in_kernel else self.outer).append((number, None))

    def iteration(self, value: int) -> None:
        """An iteration of the innermost loop begins."""
        nest = self.inner if self.in_kernel else self.outer
        nest[-1] = nest[-1][0], value
        self.moved()

    def join(self) -> None:
        """The innermost loop ends."""
        (self.inner if self.in_kernel else self.outer).pop()
        self.moved()

    def kernel(self, place: int, grid: Sequence[str], threads: Sequence[str], strict: bool) -> None:
        """A kernel begins."""
        self.site, self.axes, self.strict = place, tuple(threads), strict
        self.grid = self.instance(place, "grid", grid)
        self.in_kernel = True

    def block(self, point: Point) -> None:
        """A block of threads begins."""
        self.crew = self.instance(self.site, "threads", self.axes)
        self.block_at, self.inners = point, {}

    def phase(self) -> None:
        """The threads have met."""
        self.meeting = self.instance(self.site, "threads", self.axes)

    def thread(self, number: int, point: Point) -> None:
        """A thread runs from now on."""
        self.inner = self.inners.setdefault(number, [])
        self.thread_at = point
        self.moved()

    def leave(self) -> None:
        """The kernel ends."""
        self.in_kernel = False
        self.moved()

    # --------------------------------------------------------------------------- accesses

    def conflict(self, a: _Path, b: _Path) -> int | None:
        """The instance whose iterations two accesses belong to; None where they are in order."""
        for x, y in zip(a, b, strict=False):
            if x != y:
                return x[0] if x[0] == y[0] else None
        return None

    def reads(self, place: int, memory: Any, at: int, index: Point) -> None:
        """An element is loaded."""
        own = self.memories[id(memory)]
        cell = own.cells[at]
        path = self.phased if own.common else self.plain
        between = None
        for w in cell.writers:
            between = self.conflict(w.path, path)
            if between is None:
                break
        if between is not None:
            self.report(own, index, between, cell.writers[-1], _Mark(path, place))
        if any(r.path == path for r in cell.readers):
            return
        cell.readers = [r for r in cell.readers if self.conflict(r.path, path) is not None]
        if len(cell.readers) < 2:
            cell.readers.append(_Mark(path, place))

    def writes(self, place: int, memory: Any, at: int, index: Point) -> None:
        """An element has been stored."""
        own = self.memories[id(memory)]
        cell = own.cells[at]
        mark = _Mark(self.phased if own.common else self.plain, place, True, memory[at])
        together: list[_Mark] = []
        for w in cell.writers:
            between = self.conflict(w.path, mark.path)
            if between is None:
                continue
            if self.agree(between, w, mark):
                together.append(w)
            elif not self.is_private(own.buffer, between):
                self.report(own, index, between, w, mark)
        cell.writers = [*together, mark]
        if together:
            return  # whoever has loaded the element has met this value
        for r in cell.readers:
            between = self.conflict(r.path, mark.path)
            if between is not None and not self.is_private(own.buffer, between):
                self.report(own, index, between, r, mark)
        cell.readers = []

    def agree(self, between: int, a: _Mark, b: _Mark) -> bool:
        """Whether two threads of a grid store the same value by the same statement."""
        same = a.value == b.value or (a.value != a.value and b.value != b.value)
        return self.instances[between].kind in ("grid", "threads") and a.place == b.place and same

    def is_private(self, buffer: Buffer, between: int) -> bool:
        """Whether each iteration has the buffer for itself, once the program is lowered."""
        found = self.instances[between]
        loops = self.private.get(buffer, set())
        if found.kind in ("grid", "threads"):
            axes = [x.thread for x in loops if isinstance(x, For) and x.thread]
            return any(is_grid_axis(a) == (found.kind == "grid") for a in axes)
        return self.places[found.place].stmt in loops

    def report(self, own: _Memory, index: Point, between: int, a: _Mark, b: _Mark) -> None:
        """Remember a race, unless the same two statements have been met before."""
        first, second = self.places[a.place].stmt, self.places[b.place].stmt
        key = own.buffer, frozenset([first, second])
        if key in self.known or len(self.races) == _MOST:
            return
        self.known.add(key)
        one = Touch(first, a.writes, self.iterations(a.path))
        two = Touch(second, b.writes, self.iterations(b.path))
        self.races.append(Race(self.func, own.buffer, index, self.named(between), one, two))

    def iterations(self, path: _Path) -> tuple[tuple[str, int], ...]:
        """The values of what runs at once around an access."""
        out: list[tuple[str, int]] = []
        for number, value in path:
            found = self.instances[number]
            if found.kind in ("grid", "threads"):
                out += zip(found.axes, value, strict=True)
            else:
                out.append((self.loop_name(found), value))
        return tuple(out)

    def loop_name(self, found: _Instance) -> str:
        s = self.places[found.place].stmt
        return s.var.name if isinstance(s, For) else "lane"

    def named(self, between: int) -> str:
        """What runs at once, in words."""
        found = self.instances[between]
        if found.kind == "grid":
            return "the blocks of a grid"
        if found.kind == "threads":
            return "the threads of a block"
        return f"iterations of the {found.kind} loop {self.loop_name(found)}"
