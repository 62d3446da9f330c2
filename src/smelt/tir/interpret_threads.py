"""How the interpreter runs what may run at once: in which order, and threads in lock step.

A thread is a Python generator that stops where it has to wait for the others of its block, and
says how far it is: numbers of statements and of iterations, which compare as the program runs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smelt.ir.errors import SmeltError

from .nodes import Buffer

Order = Literal["forward", "reverse", "random"]
ORDERS = ("forward", "reverse", "random")

Point = tuple[int, ...]
_Stop = tuple[Point, bool]


class Fault(SmeltError):
    """Something undefined happened; `place` says where if the traceback does not."""

    def __init__(self, message: str, place: int | None = None) -> None:
        """What happened."""
        super().__init__(message)
        self.place = place


class Observer:
    """Who is told of every access, and of what runs at once: override what is of interest.

    Places are numbers.
    """

    def begin(self, places: Sequence[Any]) -> None:
        """What the numbers of places stand for."""

    def memory(self, memory: Any, buffer: Buffer, common: bool) -> None:
        """A buffer lives from now on. common: the threads of a block have it in common."""

    def reads(self, place: int, memory: Any, at: int, index: Point) -> None:
        """An element is loaded."""

    def writes(self, place: int, memory: Any, at: int, index: Point) -> None:
        """An element has been stored."""

    def fork(self, place: int) -> None:
        """A loop begins whose iterations may run at once."""

    def iteration(self, value: int) -> None:
        """An iteration of the innermost such loop begins."""

    def join(self) -> None:
        """The loop ends."""

    def kernel(self, place: int, grid: Sequence[str], threads: Sequence[str], strict: bool) -> None:
        """A kernel begins. grid, threads: its axes.

        strict  the threads meet at barriers, which keep accesses to all memory apart
        """

    def block(self, point: Point) -> None:
        """A block of threads of the kernel begins. point: its place in the grid."""

    def phase(self) -> None:
        """The threads have met: what they did before is done."""

    def thread(self, number: int, point: Point) -> None:
        """From now on it is this thread of the block that runs."""

    def leave(self) -> None:
        """The kernel ends."""


class Machine:
    """Runs loops and kernels of one program in an order that may be chosen.

    order  of iterations of parallel loops, blocks of a grid, and threads between barriers
    """

    def __init__(self, order: Order, seed: int, observer: Observer | None = None) -> None:
        """Begin with no memory in common."""
        self.order, self.observer = order, observer or Observer()
        self.random = random.Random(seed)
        self.shared: dict[tuple[int, int], Any] = {}
        self.visits: dict[int, dict[int, int]] = {}
        self.running = 0

    def arranged(self, items: Sequence[Any]) -> Sequence[Any]:
        """Items in the order that was asked for."""
        if self.order == "forward":
            return items
        if self.order == "reverse":
            return items[::-1]
        mixed = list(items)
        self.random.shuffle(mixed)
        return mixed

    def concurrent(self, place: int, low: int, high: int) -> Iterator[int]:
        """The iterations of a parallel loop that is observed."""
        return self.observed(place, self.arranged(range(low, high)))

    def lanes(self, place: int, low: int, high: int) -> Iterator[int]:
        """The iterations of a vectorized loop that is observed."""
        return self.observed(place, range(low, high))

    def observed(self, place: int, iterations: Sequence[int]) -> Iterator[int]:
        """Iterations, of which the observer is told."""
        self.observer.fork(place)
        for i in iterations:
            self.observer.iteration(i)
            yield i
        self.observer.join()

    # ------------------------------------------------------------------------------ kernels

    def launch(
        self, place: int, kernel: Callable[..., Any], strict: bool, axes: Sequence[tuple[str, int]]
    ) -> None:
        """Run a kernel for every thread.

        axes    names and extents, in the order of the kernel's parameters
        strict  all threads stop at the same barriers (otherwise: those that are behind go first)
        """
        grid = [a for a, _ in axes if a.startswith("blockIdx")]
        threads = [a for a, _ in axes if a not in grid]
        extents = dict(axes)
        self.observer.kernel(place, grid, threads, strict)
        for block in self.arranged(_points([extents[a] for a in grid])):
            self.observer.block(block)
            self.shared, self.visits = {}, {}
            crew: list[_Thread] = []
            for number, point in enumerate(_points([extents[a] for a in threads])):
                at = dict(zip([*grid, *threads], [*block, *point], strict=True))
                crew.append(_Thread(number, threads, point, [at[a] for a, _ in axes]))
            self.run_block(kernel, strict, crew)
        self.observer.leave()

    def run_block(self, kernel: Callable[..., Any], strict: bool, crew: list[_Thread]) -> None:
        """Run the threads of one block, phase after phase."""
        self.observer.phase()
        for t in self.arranged(crew):
            self.resume(t)
            t.run = kernel(*t.arguments)
            t.advance()
        while waiting := [t for t in crew if t.stop is not None]:
            if strict:
                self.meet(crew, waiting)
            behind = min(t.position for t in waiting)
            group = [t for t in waiting if t.position == behind]
            in_turn = any(t.stop is not None and t.stop[1] for t in group)
            for n, t in enumerate(group if in_turn else self.arranged(group)):
                if n == 0 or in_turn:
                    self.observer.phase()
                self.resume(t)
                t.advance()

    def meet(self, crew: list[_Thread], waiting: list[_Thread]) -> None:
        """Refuse a barrier that some threads do not come to."""
        first = waiting[0]
        for t in crew:
            if t.stop is None or t.position != first.position:
                does = "ends without it" if t.stop is None else "waits at another one"
                raise Fault(
                    f"the threads of a block do not meet: {first} waits at a barrier, {t} {does}",
                    first.position[-1],
                )

    def resume(self, t: _Thread) -> None:
        """From now on a thread runs."""
        self.running = t.number
        self.observer.thread(t.number, t.point)

    def common(self, which: int, make: Callable[[], Any]) -> Any:
        """Memory that the threads of a block have in common: the first that comes makes it."""
        visits = self.visits.setdefault(self.running, {})
        visits[which] = visits.get(which, 0) + 1
        key = which, visits[which]
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]


@dataclass(eq=False)
class _Thread:
    """One thread of a block, and where it has stopped."""

    number: int
    axes: Sequence[str]
    point: Point
    arguments: list[int]
    run: Iterator[_Stop] | None = None
    stop: _Stop | None = None

    @property
    def position(self) -> Point:
        """How far it is."""
        return self.stop[0] if self.stop is not None else ()

    def advance(self) -> None:
        """Run to the next stop, or to the end."""
        self.stop = None if self.run is None else next(self.run, None)

    def __str__(self) -> str:
        where = ", ".join([f"{a} = {n}" for a, n in zip(self.axes, self.point, strict=True)])
        return f"thread ({where})" if where else "the only thread"


def _points(extents: Sequence[int]) -> list[Point]:
    return list(itertools.product(*[range(n) for n in extents]))
