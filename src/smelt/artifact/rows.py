"""Kernels as loops over rows: what a row of a result needs of an operand, and several kernels as
one program, row by row, in which results between them have a few rows only.

    for turn in ...:
        the rows of the first result that are still needed, moved to the front of its lines
        the next row of it, if it is its turn
        the same of the second kernel, which reads these lines, and so on; the last one's result is
        in memory as a whole
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import ceil, lcm
from typing import NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import equal, maximum, minimum, value_of
from smelt.ir.expr import Expr, Ramp, Var, const
from smelt.ir.walk import free_vars
from smelt.lowering.ranges import analyzer_for
from smelt.lowering.simplify import Simplify
from smelt.tir.nodes import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    flat,
    lets,
    seq,
)
from smelt.tir.rewrite import Rewriter, renamed, substitute_stmt
from smelt.tir.script_ops import PARTS

from .overlap import FAR, Order, bytes_of, in_order

_WORD = 4
"""Bytes that are moved at a time."""
_UNROLLED = 8
"""Words in a turn of the loop that moves them."""


@dataclass(frozen=True)
class Pace:
    """How many rows there are after a turn: rate * turn + ahead, from 0 to count, rounded down.

    rate  at most 1, so that a turn brings one row at most
    """

    rate: Fraction
    ahead: Fraction
    count: int

    @staticmethod
    def of(rate: Fraction, turns: np.ndarray, rows: np.ndarray) -> Pace:
        """The slowest one of a rate that has so many rows, if any, after some turns."""
        up, down = rate.as_integer_ratio()
        ahead = (down * rows - up * turns)[rows > 0].max()
        return Pace(rate, Fraction(int(ahead), down), int(rows[-1]))

    @property
    def start(self) -> int:
        """The turn that brings the first row."""
        return ceil((1 - self.ahead) / self.rate)

    @property
    def _integers(self) -> tuple[int, int, int]:
        """Rate and ahead over one denominator, and this."""
        down = lcm(self.rate.denominator, self.ahead.denominator)
        return int(self.rate * down), int(self.ahead * down), down

    def at(self, turn: np.ndarray) -> np.ndarray:
        """After some turns."""
        up, ahead, down = self._integers
        return np.asarray(np.clip((up * turn + ahead) // down, 0, self.count))

    def after(self, turn: Expr) -> Expr:
        """The same as an expression."""
        up, ahead, down = self._integers
        return minimum(maximum(turn * up + ahead, _int(0)) // down, _int(self.count))


@dataclass(frozen=True)
class Rows:
    """A flat program as a loop over rows of its result, or over pieces of one size.

    size   bytes of a row, of which the last one may have less; 0: a turn may write anything
    reads  for each operand that is read, the first byte that a turn and those after it read, and
           the end of what it and those before it have read
    done   the end of what a turn and those before it have written, in bytes
    """

    func: PrimFunc
    loop: For
    size: int
    reads: Mapping[Buffer, tuple[np.ndarray, np.ndarray]]
    done: np.ndarray

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.done)


def rows_of(func: PrimFunc, at: int, operands: Sequence[int]) -> Rows | None:
    """A program by rows; None where it is no such loop.

    at, operands  the numbers of its result's buffer, and of those whose reads are asked for
    """
    result = func.buffers[at]
    s = _sums_by_rows(func.body, result)
    count = value_of(s.extent) if isinstance(s, For) else None
    if not isinstance(s, For) or s.kind != "serial" or value_of(s.min) != 0 or not count:
        return None
    if not in_order(func, func.buffers):
        return None
    each, reads = np.arange(count), {}
    env = {s.var: (each, each)}

    def spans(operand: Buffer) -> tuple[np.ndarray, ...]:
        up, down = (Order(operand, result, d).stmt(s.body, env, count) for d in (False, True))
        read = up.reads.min(1), bytes_of(operand) - down.reads.min(1)
        return *read, bytes_of(result) - down.writes.max(1), up.writes.max(1)

    for b in [func.buffers[n] for n in operands]:
        first, last, *_ = spans(b)
        if (first < FAR).all():
            reads[b] = (np.minimum.accumulate(first[::-1])[::-1],
                        np.minimum(np.maximum.accumulate(last), bytes_of(b)))  # fmt: skip
        elif (first < FAR).any():
            return None
    again, until, begin, end = spans(result)
    size = int(end[0])
    rows, ends = each * size, np.minimum(each * size + size, bytes_of(result))
    own = np.array_equal(begin, rows) and np.array_equal(end, ends)
    own = own and bool(((again >= rows) & (until <= ends) | (again == FAR)).all())
    return Rows(func, s, size if own else 0, reads, np.maximum.accumulate(end))


def _sums_by_rows(s: Stmt, result: Buffer) -> Stmt:
    """Sums over whole columns of an operand as a loop over its rows, each of which is added to the
    sums so far; others as they are."""
    if not isinstance(s, For) or not isinstance(s.body, Allocate):
        return s
    parts = flat(s.body.body)
    sums = [n for n, x in enumerate(parts) if isinstance(x, For)]
    if len(sums) != 1:
        return s
    first, rows, ends = parts[: sums[0]], parts[sums[0]], parts[sums[0] + 1 :]
    zeros = [x for x in first if isinstance(x, BufferStore) and x.value.constant]
    again = [BufferStore(x.value.buffer, BufferLoad(result, x.indices), x.value.indices)
             for x in ends if isinstance(x, BufferStore) and isinstance(x.value, BufferLoad)
             and x.buffer is result and x.value.buffer is s.body.buffer
             and s.var in free_vars(x.indices[0])]  # fmt: skip
    if len(zeros) < len(first) or len(again) < len(ends) or not isinstance(rows, For):
        return s
    start = IfThenElse(equal(rows.var, rows.min), seq(*first), seq(*again))
    each = seq(start, rows.body, *ends)
    return rows.replace(body=s.replace(body=s.body.replace(body=each)))


class Behind(NamedTuple):
    """The first row that a kernel still reads: (up * its own rows - reach) / down, rounded down."""

    pace: Pace
    up: int
    reach: int
    down: int

    def at(self, turn: np.ndarray) -> np.ndarray:
        """In some turns."""
        rows = (self.pace.at(turn - 1) * self.up - self.reach) // self.down
        return np.asarray(np.maximum(rows, 0))


@dataclass(frozen=True)
class Stage:
    """A kernel of a stream.

    lines   how many rows are kept; 0: all, as of the last kernel
    behind  of those that read its rows
    names   the buffers of the stream that stand for its own
    """

    rows: Rows
    pace: Pace
    lines: int
    behind: Sequence[Behind]
    names: dict[Buffer, Buffer]
    result: Buffer

    def first(self, turn: Expr) -> Expr:
        """The row at the front in a turn: no later than what is under way, which may be a row that
        nobody reads."""
        low = [maximum(b.pace.after(turn - 1) * b.up - b.reach, _int(0)) // b.down
               for b in self.behind]  # fmt: skip
        return reduce(minimum, low, self.pace.after(turn - 1))

    def alone(self, made: Stage) -> bool:
        """Whether the row that is under way is the only one of some lines."""
        same = [Behind(self.pace, 1, 0, 1)]
        return made.lines == 1 and (made is self or [*made.behind] == same)


class _Moved(Rewriter):
    """Accesses of buffers that hold some rows only: elements before the first one are counted."""

    def __init__(self, buffers: Mapping[Buffer, Buffer], before: Mapping[Buffer, Expr]) -> None:
        super().__init__(buffers=buffers)
        self.before = before

    def access(self, b: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        new, less = self.buffer(b), self.before.get(self.buffer(b))
        if less is None:
            return new, indices
        (index,) = indices
        if isinstance(index, Ramp):
            return new, (Ramp(index.base - less, index.stride, index.lanes),)
        return new, (index - less,)


def stream_program(
    name: str, stages: Sequence[Stage], params: Sequence[Buffer],
    words: Mapping[Buffer, Buffer], attrs: Mapping[str, object],
) -> PrimFunc:  # fmt: skip
    """The program of a stream.

    params  its buffers
    words   the buffers that are the same memory as lines of smaller elements
    """
    turn = Var("turn", "int32")
    lines = [s for s in stages if s.lines]
    first = {s.result: Var(f"{s.result.name}_first", "int32") for s in lines}
    parts: list[Stmt] = []
    names = [f"row{n}" for n in range(len(stages))]
    for s, own in zip(stages, names, strict=True):
        if s.lines > 1:
            parts.append(_move(s, turn, first[s.result], words.get(s.result, s.result)))
        loop, start, v = s.rows.loop, s.pace.after(turn - 1), Var(own, "int32")
        there = LetStmt(v, start, substitute_stmt(loop.body, {loop.var: v}))
        row = IfThenElse(start < s.pace.after(turn), there)
        front = {r.result: (v if s.alone(r) else first[r.result])
                 * (r.rows.size // dt.bytes_of(r.result.type)) for r in lines}  # fmt: skip
        parts.append(renamed(_Moved(s.names, front).stmt(row)))
    begin = min([s.pace.start for s in stages])
    last = stages[-1].pace
    turns = ceil((last.count - last.ahead) / last.rate) + 1 - begin
    used = free_vars(seq(*parts))
    firsts = [(v, s.first(turn)) for s in lines if (v := first[s.result]) in used]
    loop = For(turn, _int(begin), _int(turns), lets(firsts, seq(*parts)))
    func = PrimFunc(tuple(params), loop, {**attrs, PARTS: tuple(names), "name": name})
    return func.replace(body=Simplify(analyzer_for(func)).stmt(loop))


def _move(s: Stage, turn: Var, first: Var, words: Buffer) -> Stmt:
    """The rows that are still needed moved to the front of their lines."""
    row = s.rows.size // dt.bytes_of(words.type)
    i, distance = Var("i", "int32"), Var("distance", "int32")
    each = next(n for n in (_UNROLLED, 4, 2, 1) if row % n == 0)
    held = [Var(f"word{n}", words.type) for n in range(each)]
    read = [(v, BufferLoad(words, (i * each + n + distance,))) for n, v in enumerate(held)]
    moved = lets(read, seq(*[BufferStore(words, v, (i * each + n,)) for n, v in enumerate(held)]))
    left = maximum(s.pace.after(turn - 1) - first, _int(0))
    loop = For(i, _int(0), left * (row // each), moved)
    far = (first - s.first(turn - 1)) * row
    return LetStmt(distance, far, IfThenElse(distance > 0, loop))


def words_of(s: Stage) -> Buffer | None:
    """The lines of a stage of small elements as words, where their rows are made of them."""
    if dt.bytes_of(s.result.type) >= _WORD or s.rows.size % _WORD or s.lines < 2:
        return None
    return Buffer(f"{s.result.name}_words", (_int(s.lines * s.rows.size // _WORD),), "int32")


def _int(value: int) -> Expr:
    return const(value, "int32")
