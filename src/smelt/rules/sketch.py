"""Sketches: what a schedule rule is. A tuner searches the same objects that the default comes from.

    Sketch.open(site) ──▶ Space(domains, legal, cost, build)  or  Refusal(reason)

All matching and proving happens in `open`, once; `legal` and `cost` look at arrays of decisions, in
numpy only; `build` applies one decision to a schedule and decides nothing. A site is a block with
the elementwise block behind it, or some blocks that are computed together; the sites of a program
are chosen one by one, since their costs add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from smelt.target import Machine
from smelt.tir.schedule import Schedule

from .cost import Array, Cost, seconds

T = TypeVar("T")
Columns: TypeAlias = Mapping[str, Array]
"""Decisions, a column of values a domain."""

_ENUMERATED = 200_000
"""Spaces up to this size are scored whole."""
_STARTS = 64
"""Descents of a larger space, each from another seeded start."""


@dataclass(frozen=True)
class Site:
    """What a sketch may see: blocks of a program whose elementwise intermediates are inlined.

    schedule   the program; sketches copy it before they try anything
    blocks     the blocks to be scheduled, in order: an anchor and what follows it
    constants  parameters that are known at compile time, so that they may be laid out anew
    warm       whether the constants are near, since the site is run again and again
    """

    schedule: Schedule
    blocks: tuple[str, ...]
    machine: Machine
    constants: frozenset[str] = frozenset()
    warm: bool = False
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def read(self, reader: Callable[[Site], T]) -> T:
        """What a function finds out about the site: once, for all sketches."""
        if reader not in self._known:
            self._known[reader] = reader(self)
        found: T = self._known[reader]
        return found

    @property
    def cold(self) -> frozenset[str]:
        """The parameters that come from memory whatever their size."""
        return frozenset() if self.warm else self.constants

    @property
    def anchor(self) -> str:
        """The first block."""
        return self.blocks[0]

    @property
    def epilogue(self) -> str | None:
        """The block behind the anchor, if there is one."""
        return self.blocks[1] if len(self.blocks) > 1 else None


@dataclass(frozen=True)
class Domain:
    """A decision's name and its values.

    ordered  whether neighbours are alike, so that a search may step from one to the next
    """

    name: str
    values: tuple[int | str, ...]
    ordered: bool = True


@dataclass(frozen=True)
class Decision:
    """One value of each domain."""

    items: tuple[tuple[str, int | str], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return dict(self.items)[name]

    def __str__(self) -> str:
        return " ".join([f"{k}={v}" for k, v in self.items])


@dataclass(frozen=True)
class Refusal:
    """Why a sketch does not fit a site."""

    reason: str


class Space(ABC):
    """A sketch opened on a site: the decisions that are left, their costs, how one is applied."""

    domains: tuple[Domain, ...] = ()
    settles: bool = False
    """Whether no other sketch comes into question: kernels for other sizes read the same constants,
    and all of them have to lay these out alike."""

    def legal(self, columns: Columns) -> Array | bool:
        """Which decisions can be built; all, unless a space says otherwise."""
        return True

    @abstractmethod
    def cost(self, columns: Columns) -> Cost:
        """What decisions cost, in closed form."""

    @abstractmethod
    def build(self, schedule: Schedule, decision: Decision) -> None:
        """Apply a decision."""


class Sketch(Protocol):
    """A way to schedule a site."""

    name: str
    version: int

    def open(self, site: Site) -> Space | Refusal:
        """Match the site; everything that has to be proved is proved here."""


@dataclass(frozen=True)
class Choice:
    """A decision of a sketch's space, and what it is predicted to take."""

    sketch: Sketch
    space: Space
    decision: Decision
    seconds: float

    def __str__(self) -> str:
        return f"{self.sketch.name}({self.decision})"


@dataclass(frozen=True)
class Scored:
    """A space's decisions with their seconds, the best first."""

    space: Space
    columns: Columns
    seconds: Array

    def decision(self, rank: int) -> Decision:
        """The one that stands at a rank."""
        at = int(self.order[rank])
        return Decision(tuple([(d.name, _value(d, self.columns[d.name][at]))
                               for d in self.space.domains]))  # fmt: skip

    def at(self, rank: int) -> float:
        """The seconds of the one that stands at a rank."""
        return float(self.seconds[self.order[rank]])

    def choice(self, sketch: Sketch, rank: int = 0) -> Choice:
        """The one that stands at a rank, as a choice of the space's sketch."""
        return Choice(sketch, self.space, self.decision(rank), self.at(rank))

    @cached_property
    def order(self) -> Array:
        """Positions of legal decisions, the cheapest first; of equals the first in the domains."""
        legal = int(np.isfinite(self.seconds).sum())
        return np.argsort(self.seconds, kind="stable")[:legal]


def _value(domain: Domain, value: Any) -> int | str:
    """A column's entry as the domain has it."""
    return str(value) if isinstance(domain.values[0], str) else int(value)


def score(space: Space, machine: Machine, seed: int = 0) -> Scored:
    """All decisions of a small space with their seconds, those met by descents of a large one."""
    if prod([len(d.values) for d in space.domains]) <= _ENUMERATED:
        return _scored(space, machine, _all(space.domains))
    return _descended(space, machine, np.random.default_rng(seed))


def _scored(space: Space, machine: Machine, columns: Columns) -> Scored:
    count = len(next(iter(columns.values()))) if columns else 1
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = np.broadcast_to(seconds(space.cost(columns), machine), (count,))
    legal = np.broadcast_to(space.legal(columns), (count,))
    return Scored(space, columns, np.where(legal, taken, np.inf))


def _all(domains: Iterable[Domain]) -> Columns:
    """Every combination; the first domain varies slowest."""
    given = list(domains)
    grid = np.meshgrid(*[np.array(d.values) for d in given], indexing="ij")
    return {d.name: g.ravel() for d, g in zip(given, grid, strict=True)}


def _descended(space: Space, machine: Machine, rng: np.random.Generator) -> Scored:
    """Coordinate descent: of each domain in turn the best value, until nothing changes."""
    domains = space.domains
    rows = {d.name: rng.integers(len(d.values), size=_STARTS) for d in domains}
    values = {d.name: np.array(d.values) for d in domains}
    best = np.full(_STARTS, np.inf)
    for _ in range(4 * len(domains)):
        before = best.copy()
        for d in domains:
            every = np.arange(len(d.values))
            tried = {k: np.repeat(v, len(every)) for k, v in rows.items()}
            tried[d.name] = np.tile(every, _STARTS)
            found = _scored(space, machine, {k: values[k][v] for k, v in tried.items()})
            table = found.seconds.reshape(_STARTS, len(every))
            rows[d.name], best = table.argmin(axis=1), table.min(axis=1)
        if np.array_equal(best, before):
            break
    return _scored(space, machine, {k: values[k][v] for k, v in rows.items()})


def best(sketch: Sketch, space: Space, machine: Machine) -> Choice | None:
    """The cheapest decision of a space; None where none is legal."""
    scored = score(space, machine)
    return scored.choice(sketch) if len(scored.order) else None
