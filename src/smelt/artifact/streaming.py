"""Which kernels run row by row, so that what is between them never is in memory as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import const
from smelt.tir.names import unique_name
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.printer import script
from smelt.tir.script_ops import READ_BEFORE

from .graph import Launch, Place, Storage
from .host import KernelCall
from .kernel import CompiledKernel
from .overlap import FAR, bytes_of, overlaps
from .placing import Reach
from .rows import Behind, Pace, Rows, Stage, rows_of, stream_program, words_of

_LONGEST = 24
"""Kernels of a stream, at most."""
_WORTH = 0.9
"""Of the memory that kernels one by one need: streams move rows, and have code of their own."""
_MOST_TURNS = 64
"""Of a stream for a row of its result, at most."""
Near = Mapping[tuple[Storage, Storage], Reach]


Paces = tuple[tuple[Pace, int, Sequence[Behind]], ...]
"""Of each kernel of a stream: its pace, how many rows are kept, who reads them."""


class _Reads(NamedTuple):
    """What a kernel reads of another one of a stream.

    of          its number
    begin, end  for each row the first one that it and those after it read, and the end of what it
                and those before it have read, in rows
    stride      how many rows further each row reads, usually
    """

    of: int
    begin: np.ndarray
    end: np.ndarray
    stride: Fraction


@dataclass(frozen=True)
class _Range:
    """Kernels that follow one another: one, or a stream.

    needs   bytes of the workspace meanwhile
    moved   bytes that are moved
    paces   nothing: one kernel
    """

    first: int
    last: int
    needs: int
    moved: int = 0
    paces: Paces = ()


@dataclass
class Streams:
    """The kernels of a model, and what may be streamed.

    calls, kernels  as they are, in order; programs: the lowered ones by symbol
    aligned         bytes that a block takes
    """

    calls: Sequence[KernelCall]
    kernels: Mapping[str, CompiledKernel]
    programs: Mapping[str, PrimFunc]
    aligned: Callable[[int], int]

    def __post_init__(self) -> None:
        own = {c.symbol: c for c in self.calls if _is_plain(c)}
        self.rows = {s: rows_of(self.programs[s], len(c.places) - 1, _read(c))
                     for s, c in own.items()}  # fmt: skip
        found = [s for c in self.calls for s in [*[p.storage for p in c.places], *c.workspaces]]
        self.temporaries = [s for s in dict.fromkeys(found) if s.kind == "temporary"]
        self.near = overlaps(self.calls, self.programs, self.temporaries)

    def chosen(self) -> list[_Range]:
        """All kernels in ranges: of those that need least, those that move least; none is streamed
        where that saves little."""
        count = len(self.calls)
        ranges = [
            [
                r
                for last in range(first, min(first + _LONGEST, count))
                if (r := self.range(first, last)) is not None
            ]
            for first in range(count)
        ]
        least = [0] * count + [0]
        for n in reversed(range(count)):
            least[n] = min(max(r.needs, least[r.last + 1]) for r in ranges[n])
        if least[0] > _WORTH * max(own[0].needs for own in ranges):
            return [own[0] for own in ranges]
        best: list[tuple[int, int, list[_Range]]] = [(0, 0, [])] * (count + 1)
        for n in reversed(range(count)):
            ways = [(r.moved + after[0], r.last - r.first + after[1], [r, *after[2]])
                    for r in ranges[n] if r.needs <= least[0]
                    for after in [best[r.last + 1]]]  # fmt: skip
            best[n] = min(ways, key=lambda way: way[:2], default=(1 << 60, 0, []))
        return best[0][2]

    # ---- one range --------------------------------------------------------------------------

    def range(self, first: int, last: int) -> _Range | None:
        """Some kernels as a range; None where they cannot be streamed."""
        calls = self.calls[first : last + 1]
        result = calls[-1].places[-1].storage if _is_plain(calls[-1]) else None
        if first == last:
            return _Range(first, last, self.needs(first, last, result, 0, self.near))
        found = self.paces(first, last)
        if found is None or result is None:
            return None
        lines, moved = 0, 0
        for c, (pace, kept, _) in zip(calls[:-1], found, strict=False):
            size = self.by_rows(c).size
            lines += self.aligned(size * kept)
            moved += size * (kept - 1) * pace.count
        near = self.reach(calls, result, found)
        return _Range(first, last, self.needs(first, last, result, lines, near), moved, found)

    def by_rows(self, c: KernelCall) -> Rows:
        """A kernel by rows."""
        found = self.rows[c.symbol]
        assert found is not None
        return found

    def paces(self, first: int, last: int) -> Paces | None:
        """The pace of each kernel, and how many rows are kept; None: they are no stream."""
        calls = self.calls[first : last + 1]
        if any(self.rows.get(c.symbol) is None for c in calls):
            return None
        inner = {c.places[-1].storage: n for n, c in enumerate(calls[:-1])}
        for n, c in enumerate(calls[:-1]):
            s, by = c.places[-1].storage, self.by_rows(c)
            whole = all(p.view.offset is const(0) for q in calls for p in q.places
                        if p.storage is s)  # fmt: skip
            if not whole or s.first != first + n or s.last > last or not by.size:
                return None
            if bytes_of(by.func.buffers[len(c.places) - 1]) != s.fixed_bytes:
                return None
        rates = [Fraction(0)] * len(calls)
        rates[-1] = Fraction(1)
        for n in reversed(range(len(calls))):
            for r in self.operands(calls, n, inner):
                rates[r.of] = max(rates[r.of], rates[n] * r.stride)
        fastest = max(rates)
        if min(rates) == 0 or fastest > _MOST_TURNS:
            return None
        every = ceil((self.by_rows(calls[-1]).count - 1) * fastest) + 1
        end = Pace(1 / fastest, Fraction(1), self.by_rows(calls[-1]).count)
        found = [end] * len(calls)
        for n in reversed(range(len(calls) - 1)):
            readers = [(found[m], r) for m in range(n + 1, len(calls))
                       for r in self.operands(calls, m, inner) if r.of == n]  # fmt: skip
            turns = np.arange(min([pace.start for pace, _ in readers]), every)
            wanted = np.zeros(len(turns), int)
            for pace, r in readers:
                there = pace.at(turns)
                rows = np.where(there > 0, r.end[np.maximum(there, 1) - 1], 0)
                wanted = np.maximum(wanted, rows)
            found[n] = Pace.of(rates[n] / fastest, turns, wanted)
        turns = np.arange(min([p.start for p in found]), every)
        return self.kept(calls, inner, found, turns)

    def operands(
        self, calls: Sequence[KernelCall], n: int, inner: Mapping[Storage, int]
    ) -> list[_Reads]:
        """What a kernel of a stream reads of others, in rows."""
        by, found = self.by_rows(calls[n]), []
        for p, b in zip(calls[n].places[:-1], by.func.buffers, strict=False):
            if p.storage in inner and b in by.reads:
                of = inner[p.storage]
                size = self.by_rows(calls[of]).size
                begin, end = by.reads[b]
                steps = np.diff(end, prepend=0 if len(end) == 1 else end[:1])[-len(end) // 2 :]
                stride = Fraction(int(np.median(steps)), size)
                found.append(_Reads(of, begin // size, -(-end // size), stride))
        return found

    def kept(
        self, calls: Sequence[KernelCall], inner: Mapping[Storage, int], found: Sequence[Pace],
        turns: np.ndarray,
    ) -> Paces | None:  # fmt: skip
        """The paces with how many rows are kept of each result."""
        lines, behind = [1] * len(found), [list[Behind]() for _ in found]
        for n, pace in enumerate(found):
            for r in self.operands(calls, n, inner):
                up, down = r.stride.as_integer_ratio()
                reach = int((up * np.arange(len(r.begin)) - down * r.begin).max())
                behind[r.of].append(Behind(pace, up, reach, down))
        for n, pace in enumerate(found[:-1]):
            low = np.array([pace.at(turns - 1), *[b.at(turns) for b in behind[n]]]).min(0)
            lines[n] = int((pace.at(turns) - low).max())
            if lines[n] >= pace.count:
                return None  # it is there as a whole
        lines[-1] = 0
        return tuple(zip(found, lines, behind, strict=True))

    def reach(
        self, calls: Sequence[KernelCall], result: Storage,
        found: Paces,
    ) -> Near:  # fmt: skip
        """How far the result may overlap what a stream reads from outside, at least."""
        last = found[-1][0]
        turns = np.array([ceil(n / last.rate) for n in range(last.count)])
        ahead: dict[Storage, np.ndarray] = {}
        for c, (pace, _, _) in zip(calls, found, strict=True):
            by = self.by_rows(c)
            start = pace.at(turns - 1)
            for p, b in zip(c.places[:-1], by.func.buffers, strict=False):
                if b in by.reads and p.view.offset is const(0):
                    low = np.where(
                        start < pace.count, by.reads[b][0][np.minimum(start, pace.count - 1)], FAR
                    )
                    old = ahead.get(p.storage, low)
                    ahead[p.storage] = np.minimum(old, low)
        done = self.by_rows(calls[-1]).done
        return {(s, result): Reach(self.aligned(int((done - low).max())))
                for s, low in ahead.items()}  # fmt: skip

    def needs(self, first: int, last: int, result: Storage | None, lines: int, near: Near) -> int:
        """Bytes of the workspace that a range needs."""
        size = {s: self.aligned(s.fixed_bytes) for s in self.temporaries
                if s.first <= last and s.last >= first}  # fmt: skip
        scratch = max([sum([size.pop(w) for w in c.workspaces])
                       for c in self.calls[first : last + 1]])  # fmt: skip
        for s in [*size]:
            if first < last and first <= s.first and s.last <= last and s is not result:
                del size[s]
        total = sum(size.values()) + scratch + lines
        if result is None or result not in size:
            return total
        own = size[result]
        saved = [
            size[s] + own - max(size[s], own, min(size[s] + r.far, own + r.back, size[s] + own))
            for (s, to), r in near.items() if to is result and s in size and s.last <= last
        ]  # fmt: skip
        return total - max(saved, default=0)


class _Program:
    """The program of a stream, and its call."""

    def __init__(self) -> None:
        self.params: dict[tuple[Place, str], Buffer] = {}
        self.lines: dict[Storage, Buffer] = {}
        self.scratch: dict[str, Buffer] = {}
        self.stages: list[Stage] = []
        self.words: dict[Buffer, Buffer] = {}
        self.taken: set[str] = set()

    def named(self, b: Buffer, name: str = "") -> Buffer:
        """A buffer of the stream that stands for a kernel's."""
        return b.replace(name=unique_name(name or b.name, self.taken))

    def add(self, c: KernelCall, by: Rows, pace: Pace, kept: int, behind: Sequence[Behind]) -> None:
        """Add a kernel."""
        names: dict[Buffer, Buffer] = {}
        own = by.func.buffers
        for p, b in zip(c.places, own, strict=False):
            if b is own[len(c.places) - 1] and kept:
                count = const(kept * by.size // dt.bytes_of(b.type))
                self.lines[p.storage] = self.named(Buffer(b.name, (count,), b.type), "rows")
            elif p.storage not in self.lines and (p, b.type) not in self.params:
                self.params[p, b.type] = self.named(b)
            names[b] = self.lines.get(p.storage) or self.params[p, b.type]
        for b in own[len(c.places) :]:
            old = self.scratch.get(b.type)
            if old is None or bytes_of(old) < bytes_of(b):
                self.scratch[b.type] = self.named(b, "scratch")
        result = names[own[len(c.places) - 1]]
        self.stages.append(Stage(by, pace, kept, behind, names, result))

    def write(self) -> tuple[PrimFunc, list[Buffer], set[int]]:
        """The program, what it works in, and the numbers of parameters that are the same memory."""
        for s in self.stages:
            s.names.update({b: self.scratch[b.type] for b in s.rows.func.buffers
                            if b not in s.names})  # fmt: skip
        words = self.words = {s.result: w for s in self.stages if (w := words_of(s)) is not None}
        work = [*self.lines.values(), *words.values(), *self.scratch.values()]
        params = [*self.params.values(), *work]
        attrs = {k: v for s in self.stages for k, v in s.rows.func.attrs.items()}
        far = [(s, s.rows.func.attrs.get(READ_BEFORE, ())) for s in self.stages]
        attrs[READ_BEFORE] = tuple([s.names[b].name for s, own in far for b in s.names
                                    if b.name in own])  # fmt: skip
        func = stream_program("stream", self.stages, params, words, attrs)
        same = {n for n, b in enumerate(params) if b in words or b in words.values()}
        return func, work, same


@dataclass(frozen=True)
class Streamed:
    """Calls of kernels, the kernels by symbol, and which of their parameters share memory."""

    calls: list[KernelCall]
    kernels: dict[str, CompiledKernel]
    programs: dict[str, PrimFunc]
    shares: dict[str, set[int]]


def stream_rows(
    calls: Sequence[KernelCall], kernels: Mapping[str, CompiledKernel],
    programs: Mapping[str, PrimFunc], aligned: Callable[[int], int],
) -> Streamed:  # fmt: skip
    """Kernels that run row by row where that needs less memory; the storages' steps are counted
    anew."""
    streams = Streams(calls, kernels, programs, aligned)
    made = Streamed([], dict(kernels), dict(programs), {})
    for r in streams.chosen():
        if r.first == r.last:
            made.calls.append(calls[r.first])
        else:
            _add(made, streams, r)
    steps: dict[Storage, int] = {}
    for n, c in enumerate(made.calls):
        for s in [*[p.storage for p in c.places], *c.workspaces]:
            s.first, s.last = steps.setdefault(s, n), n
    return made


def _add(made: Streamed, streams: Streams, r: _Range) -> None:
    """Add a stream to the calls."""
    calls = streams.calls[r.first : r.last + 1]
    program = _Program()
    for c, paces in zip(calls, r.paces, strict=True):
        program.add(c, streams.by_rows(c), *paces)
    func, work, same = program.write()
    last = calls[-1]
    places = [p for p, _ in program.params if p != last.places[-1]]
    symbol = "k" + hashlib.blake2b(script(func).encode(), digest_size=12).hexdigest()
    storages = {b: Storage("temporary", b.type, const(bytes_of(b)), name=b.name) for b in work}
    storages |= {w: storages[b] for b, w in program.words.items()}
    own = [streams.kernels[c.symbol] for c in calls]
    inputs = [p for c in calls for p in c.launch.inputs if p.storage not in program.lines]
    launch = Launch(last.launch.group, tuple(dict.fromkeys(inputs)), last.launch.outputs,
                    f"rows_of_{len(calls)}_kernels",
                    nodes=tuple([n for c in calls for n in c.launch.nodes]))  # fmt: skip
    made.programs[symbol] = func
    made.kernels[symbol] = replace(
        own[-1], constants=(), workspaces=(), trace="", text=script(func),
        flops=sum([k.flops for k in own[1:]], own[0].flops),
    )  # fmt: skip
    made.shares[symbol] = same
    places.append(last.places[-1])
    made.calls.append(KernelCall(launch, symbol, places, (), [storages[b] for b in work]))


def _read(c: KernelCall) -> list[int]:
    """The numbers of the operands of a call that are no constants."""
    return [n for n, p in enumerate(c.places[:-1]) if p.storage.kind != "constant"]


def _is_plain(c: KernelCall) -> bool:
    """Whether a call makes one result, of sizes that are numbers, from other memory."""
    launch = c.launch
    return not (launch.external or launch.updates or c.scalars) and len(launch.own_outputs) == 1
