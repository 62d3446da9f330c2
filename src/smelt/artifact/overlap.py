"""How far the result of a kernel may reach into an operand that nobody needs afterwards.

A program reads and writes in an order that is known. Its result may overlap an operand as long as
no write meets an element that is still to be read:

    address of the operand >= address of the result + distance
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from smelt.codegen.c_helpers import STORED
from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    Ramp,
    Sub,
    Var,
)
from smelt.tir.nodes import (
    ADDRESS,
    Allocate,
    AllocateConst,
    AssertStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    walk,
)
from smelt.tir.rewrite import loads, own_loads
from smelt.tir.script_ops import expressions

from .graph import Place, Storage
from .host import KernelCall

_MANY = 1 << 17
"""Turns of loops that are looked at one by one; of loops in more of them only the ends."""
_FAR = np.int64(1 << 40)
"""Beyond all addresses, also as a product with a stride."""
_INDICES = ("int32", "int64")
Ends = tuple[np.ndarray, np.ndarray]
"""The least and the greatest value of an expression in each turn of the loops around it."""


def overlaps(
    calls: Sequence[KernelCall], programs: Mapping[str, PrimFunc]
) -> dict[tuple[Storage, Storage], int]:
    """Which operands and results may overlap, and their distances in bytes: nobody needs the
    operand any more.

    programs  the lowered kernels by symbol
    """
    found: dict[tuple[Storage, Storage], int] = {}
    known: dict[tuple[str, int], int | None] = {}
    for n, c in enumerate(calls):
        outputs = c.launch.own_outputs
        if c.launch.external or c.launch.updates or len(outputs) != 1:
            continue
        out, at = outputs[0], len(c.places) - 1
        if out.storage.kind != "temporary" or out.storage.first != n:
            continue
        for k, p in enumerate(c.places[:at]):
            once = sum([q.storage is p.storage for q in c.places]) == 1
            if not once or p.storage.kind != "temporary" or p.storage.last != n:
                continue
            buffers = programs[c.symbol].buffers
            if (c.symbol, k) not in known:
                known[c.symbol, k] = distance(programs[c.symbol], buffers[k], buffers[at])
            far = known[c.symbol, k]
            if far is not None:
                found[p.storage, out.storage] = far + _start(out) - _start(p)
    return found


def _start(p: Place) -> int:
    """Where a value begins in its storage, in bytes."""
    offset = value_of(p.view.offset)
    assert offset is not None  # models as C have sizes that are numbers
    return offset * dt.bytes_of(p.storage.dtype)


def distance(func: PrimFunc, operand: Buffer, result: Buffer) -> int | None:
    """The least distance of a flat program's operand from its result, in bytes: negative where the
    operand may begin before it. None: they have to be apart."""
    sizes = [value_of(b.shape[0]) for b in (operand, result) if b.rank == 1]
    kinds = {STORED[b.type] for b in (operand, result)}
    # C compilers take for granted that elements of different types are apart, but for bytes
    if len(kinds) > 1 and not any(dt.bytes_of(b.type) == 1 for b in (operand, result)):
        return None
    given = [e for e in expressions(*walk(func.body)) if getattr(e, "op", "") == ADDRESS]
    heads = [e for s in walk(func.body) if isinstance(s, For) for e in (s.min, s.extent)]
    if any(x.buffer in (operand, result) for e in [*given, *heads] for x in loads(e)):
        return None
    if len(sizes) < 2 or None in sizes:
        return None
    reads, writes = _Order(operand, result).stmt(func.body, {}, 1)
    done = np.maximum.accumulate(writes[0])
    ahead = np.minimum.accumulate(reads[0][::-1])[::-1]
    whole = (sizes[0] or 0) * dt.bytes_of(operand.type)
    return int(max((done - ahead).max(initial=-whole), -whole))


class Moments(NamedTuple):
    """What is read and written, moment by moment, in each turn of the loops around.

    reads   the first byte of the operand that is read (turn, moment); _FAR: none
    writes  the end of the bytes of the result that are written; -_FAR: none
    """

    reads: np.ndarray
    writes: np.ndarray

    def joined(self) -> Moments:
        """As one moment, in which all is read and written in any order."""
        return Moments(self.reads.min(1, keepdims=True), self.writes.max(1, keepdims=True))

    def where(self, mask: np.ndarray) -> Moments:
        """In the turns that there are."""
        chosen = mask[:, None]
        return Moments(np.where(chosen, self.reads, _FAR), np.where(chosen, self.writes, -_FAR))

    def or_else(self, other: Moments) -> Moments:
        """Of either of two branches; the order in each of them is kept."""
        more = other.reads.shape[1] - self.reads.shape[1]
        if more < 0:
            return other.or_else(self)
        ends = ((0, 0), (0, more))
        reads = np.pad(self.reads, ends, constant_values=_FAR)
        writes = np.pad(self.writes, ends, constant_values=-_FAR)
        return Moments(np.minimum(reads, other.reads), np.maximum(writes, other.writes))


def _then(parts: Sequence[Moments]) -> Moments:
    """One after another."""
    return Moments(np.hstack([p.reads for p in parts]), np.hstack([p.writes for p in parts]))


class _Order:
    """In which order a program reads one buffer and writes another one."""

    def __init__(self, operand: Buffer, result: Buffer) -> None:
        self.operand, self.result = operand, result
        self.known: dict[Stmt, tuple[bool, bool]] = {}

    def touches(self, s: Stmt) -> tuple[bool, bool]:
        """Whether a statement reads the operand, and writes the result."""
        if s not in self.known:
            parts = [*walk(s)]
            self.known[s] = (
                any(x.buffer is self.operand for e in expressions(*parts) for x in loads(e)),
                any(isinstance(x, BufferStore) and x.buffer is self.result for x in parts),
            )
        return self.known[s]

    def stmt(self, s: Stmt, env: Mapping[Var, Ends], turns: int) -> Moments:
        """The moments of a statement; env: the variables around it."""
        if not any(self.touches(s)):
            return Moments(np.full((turns, 1), _FAR), np.full((turns, 1), -_FAR))
        before = self.reads(own_loads(s), env, turns)
        match s:
            case Seq(stmts):
                return _then([self.stmt(x, env, turns) for x in stmts])
            case For():
                return self.loop(s, env, turns)
            case IfThenElse(condition, yes, no):
                may, may_not = _answers(condition, env, turns)
                chosen = self.stmt(yes, env, turns).where(may)
                if no is not None:
                    chosen = chosen.or_else(self.stmt(no, env, turns).where(may_not))
                return _then([before, chosen])
            case LetStmt(v, value, body):
                inner = {**env, v: _ends(value, env, turns)}
                return _then([before, self.stmt(body, inner, turns)])
            case Allocate(_, body) | AllocateConst(_, _, body):
                return self.stmt(body, env, turns)
            case BufferStore(buffer, value, indices) if buffer is self.result:
                size = dt.bytes_of(buffer.type)
                end = (_ends(indices[0], env, turns)[1] + 1) * size
                after = Moments(np.full((turns, 1), _FAR), end[:, None])
                both = _then([before, after])
                return both if dt.lanes(value.dtype) == 1 else both.joined()
            case BufferStore() | Evaluate() | AssertStmt():
                return before
        reads, writes = self.touches(s)
        anything = [np.full((turns, 1), 0 if reads else _FAR),
                    np.full((turns, 1), _FAR if writes else -_FAR)]  # fmt: skip
        return Moments(*anything)

    def reads(self, own: Sequence[BufferLoad], env: Mapping[Var, Ends], turns: int) -> Moments:
        """The moment in which a statement evaluates its operands."""
        first = np.full(turns, _FAR)
        for x in own:
            if x.buffer is self.operand:
                low = _ends(x.indices[0], env, turns)[0] * dt.bytes_of(x.buffer.type)
                first = np.minimum(first, np.maximum(low, 0))
        return Moments(first[:, None], np.full((turns, 1), -_FAR))

    def loop(self, s: For, env: Mapping[Var, Ends], turns: int) -> Moments:
        """Of a loop that reads and writes, turn by turn; of others in one moment."""
        low, extent = value_of(s.min), value_of(s.extent)
        if low is None or not extent or extent * turns > _MANY or not all(self.touches(s)):
            begin, count = _ends(s.min, env, turns), _ends(s.extent, env, turns)
            inner = {**env, s.var: (begin[0], begin[1] + count[1] - 1)}
            runs = count[1] > 0
            return self.stmt(s.body, inner, turns).joined().where(runs)
        each = np.tile(np.arange(low, low + extent), turns)
        inner = {v: (np.repeat(a, extent), np.repeat(b, extent)) for v, (a, b) in env.items()}
        inner[s.var] = each, each
        made = self.stmt(s.body, inner, turns * extent)
        return Moments(made.reads.reshape(turns, -1), made.writes.reshape(turns, -1))


def _ends(e: Expr, env: Mapping[Var, Ends], turns: int) -> Ends:
    """The ends of an integer expression in each turn, not necessarily sharp."""
    anything = np.full(turns, -_FAR), np.full(turns, _FAR)
    if dt.scalar(e.dtype) not in _INDICES:  # others wrap around
        return anything
    match e:
        case IntImm(_, value):
            return np.full(turns, value), np.full(turns, value)
        case Var():
            return env.get(e, anything)
        case Ramp(base, stride, lanes):
            (a, b), (c, d) = _ends(base, env, turns), _ends(stride, env, turns)
            return a + np.minimum(c, 0) * (lanes - 1), b + np.maximum(d, 0) * (lanes - 1)
        case Add() | Sub() | Mul() | Min() | Max() | FloorDiv() | FloorMod():
            (a, b), (c, d) = _ends(e.a, env, turns), _ends(e.b, env, turns)
        case _:
            return anything
    match e:
        case Add():
            low, high = a + c, b + d
        case Sub():
            low, high = a - d, b - c
        case Min():
            low, high = np.minimum(a, c), np.minimum(b, d)
        case Max():
            low, high = np.maximum(a, c), np.maximum(b, d)
        case _ if not isinstance(e.b, IntImm) or not 0 < e.b.value < (1 << 20):
            return anything
        case Mul():
            low, high = a * c, b * c
        case FloorDiv():
            low, high = a // c, b // c
        case _:
            same = a // c == b // c
            low, high = np.where(same, a % c, 0), np.where(same, b % c, c - 1)
    return np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)


def _answers(e: Expr, env: Mapping[Var, Ends], turns: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether a condition may hold, and whether it may fail, in each turn."""
    match e:
        case And() | Or():
            (a, not_a), (b, not_b) = (_answers(x, env, turns) for x in (e.a, e.b))
            return (a & b, not_a | not_b) if isinstance(e, And) else (a | b, not_a & not_b)
        case LT() | GE() | LE() | GT():
            less, more = (e.a, e.b) if isinstance(e, LT | GE) else (e.b, e.a)
            (a, b), (c, d) = _ends(less, env, turns), _ends(more, env, turns)
            holds, fails = a < d, b >= c  # of less < more
            return (holds, fails) if isinstance(e, LT | GT) else (fails, holds)
    return np.full(turns, True), np.full(turns, True)
