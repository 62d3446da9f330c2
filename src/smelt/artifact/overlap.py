"""How far the result of a kernel may reach into an operand that nobody needs afterwards.

A program reads and writes in an order that is known. Its result may overlap an operand as long as
no write meets an element that is still to be read:

    address of the operand >= address of the result + distance

or, of a program whose loops run backwards, the other way round.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from smelt.codegen.c_helpers import STORED
from smelt.ir import dtype as dt
from smelt.ir.build import product, value_of
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
    sub_statements,
    walk,
)
from smelt.tir.rewrite import loads, own_loads
from smelt.tir.script_ops import expressions

from .backwards import backwards
from .graph import Place, Storage, number_of
from .host import KernelCall
from .placing import APART, Reach

_MANY = 1 << 17
"""Turns of loops that are looked at one by one; of loops in more of them only the ends."""
FAR = np.int64(1 << 40)
"""Beyond all addresses, also as a product with a stride."""
_INDICES = ("int32", "int64")
Ends = tuple[np.ndarray, np.ndarray]
"""The least and the greatest value of an expression in each turn of the loops around it."""


def overlaps(
    calls: Sequence[KernelCall], programs: Mapping[str, PrimFunc], planned: Container[Storage]
) -> dict[tuple[Storage, Storage], Reach]:
    """Which operands and results may overlap, and how far: nobody needs the operand any more.

    programs  the lowered kernels by symbol
    planned   what stands in the workspace
    """
    found: dict[tuple[Storage, Storage], Reach] = {}
    known: dict[tuple[str, int], Reach | None] = {}
    for n, c in enumerate(calls):
        outputs = c.launch.own_outputs
        if c.launch.external or c.launch.updates or len(outputs) != 1:
            continue
        out, at = outputs[0], len(c.places) - 1
        if out.storage not in planned or out.storage.first != n:
            continue
        own = [k for k, p in enumerate(c.places[:at]) if p.storage in planned]
        free = [k for k in own if _is_free(c.places[k], c, n)]
        for k in free:
            if (c.symbol, k) not in known:
                known[c.symbol, k] = _reach(programs[c.symbol], k, at, out)
            reach, start = known[c.symbol, k], _start(out) - _start(c.places[k])
            if reach is not None:
                back = reach.back - start if len(free) == 1 else APART
                found[c.places[k].storage, out.storage] = Reach(reach.far + start, back)
    return found


def _is_free(p: Place, c: KernelCall, step: int) -> bool:
    """Whether nobody but one operand of a call needs this memory from a step on."""
    once = sum([q.storage is p.storage for q in c.places]) == 1
    return once and p.storage.last == step


def _reach(func: PrimFunc, operand: int, result: int, out: Place) -> Reach | None:
    """How far two parameters of a program may overlap."""
    x, y = func.buffers[operand], func.buffers[result]
    far = distance(func, x, y)
    if far is None:
        return None
    # elements between those of a result would hide that some are stored twice
    dense = value_of(product(out.view.shape)) == value_of(y.shape[0])
    turned = backwards(func, y) if dense else None
    back = None if turned is None else distance(turned, x, y, down=True)
    return Reach(far, APART if back is None else back)


def _start(p: Place) -> int:
    """Where a value begins in its storage, in bytes."""
    return number_of(p.view.offset) * dt.bytes_of(p.storage.dtype)


def distance(func: PrimFunc, operand: Buffer, result: Buffer, *, down: bool = False) -> int | None:
    """The least distance of a flat program's operand from its result, in bytes: negative where the
    operand may begin before it. None: they have to be apart.

    down  of the result from its operand, where elements are done from the last one on
    """
    sizes = [bytes_of(b) for b in (operand, result)]
    kinds = {STORED[b.type] for b in (operand, result)}
    # C compilers take for granted that elements of different types are apart, but for bytes
    if len(kinds) > 1 and not any(dt.bytes_of(b.type) == 1 for b in (operand, result)):
        return None
    if not in_order(func, (operand, result)):
        return None
    reads, writes = Order(operand, result, down).stmt(func.body, {}, 1)
    done = np.maximum.accumulate(writes[0])
    ahead = np.minimum.accumulate(reads[0][::-1])[::-1]
    far = int(max((done - ahead).max(initial=-sizes[0]), -sizes[0]))
    return far + sizes[0] - sizes[1] if down else far


def in_order(func: PrimFunc, buffers: Sequence[Buffer]) -> bool:
    """Whether all that is read of some buffers are loads in statements, which come in an order."""
    given = [e for e in expressions(*walk(func.body)) if getattr(e, "op", "") == ADDRESS]
    heads = [e for s in walk(func.body) if isinstance(s, For) for e in (s.min, s.extent)]
    return not any(x.buffer in buffers for e in [*given, *heads] for x in loads(e))


def bytes_of(b: Buffer) -> int:
    """The size of a flat buffer."""
    assert b.rank == 1
    return number_of(b.shape[0]) * dt.bytes_of(b.type)


class Moments(NamedTuple):
    """What is read and written, moment by moment, in each turn of the loops around.

    reads   the first byte of the operand that is read (turn, moment); FAR: none
    writes  the end of the bytes of the result that are written; -FAR: none
    """

    reads: np.ndarray
    writes: np.ndarray

    def joined(self) -> Moments:
        """As one moment, in which all is read and written in any order."""
        return Moments(self.reads.min(1, keepdims=True), self.writes.max(1, keepdims=True))

    def where(self, mask: np.ndarray) -> Moments:
        """In the turns that there are."""
        chosen = mask[:, None]
        return Moments(np.where(chosen, self.reads, FAR), np.where(chosen, self.writes, -FAR))

    def or_else(self, other: Moments) -> Moments:
        """Of either of two branches; the order in each of them is kept."""
        more = other.reads.shape[1] - self.reads.shape[1]
        if more < 0:
            return other.or_else(self)
        ends = ((0, 0), (0, more))
        reads = np.pad(self.reads, ends, constant_values=FAR)
        writes = np.pad(self.writes, ends, constant_values=-FAR)
        return Moments(np.minimum(reads, other.reads), np.maximum(writes, other.writes))


def _then(parts: Sequence[Moments]) -> Moments:
    """One after another."""
    return Moments(np.hstack([p.reads for p in parts]), np.hstack([p.writes for p in parts]))


class Order:
    """In which order a program reads one buffer and writes another one."""

    def __init__(self, operand: Buffer, result: Buffer, down: bool) -> None:
        """Forwards, or down: all addresses count from the ends of the buffers."""
        self.operand, self.result, self.down = operand, result, down
        self.known: dict[Stmt, tuple[bool, bool]] = {}

    def touches(self, s: Stmt) -> tuple[bool, bool]:
        """Whether a statement reads the operand, and writes the result."""
        if s not in self.known:
            inner = [self.touches(x) for x in sub_statements(s)]
            self.known[s] = (
                any(reads for reads, _ in inner)
                or any(x.buffer is self.operand for x in own_loads(s)),
                any(writes for _, writes in inner)
                or (isinstance(s, BufferStore) and s.buffer is self.result),
            )
        return self.known[s]

    def stmt(self, s: Stmt, env: Mapping[Var, Ends], turns: int) -> Moments:
        """The moments of a statement; env: the variables around it."""
        if not any(self.touches(s)):
            return Moments(np.full((turns, 1), FAR), np.full((turns, 1), -FAR))
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
                end = self.span(buffer, indices[0], env, turns)[1]
                after = Moments(np.full((turns, 1), FAR), end[:, None])
                both = _then([before, after])
                return both if dt.lanes(value.dtype) == 1 else both.joined()
            case BufferStore() | Evaluate() | AssertStmt():
                return before
        reads, writes = self.touches(s)
        anything = [np.full((turns, 1), 0 if reads else FAR),
                    np.full((turns, 1), FAR if writes else -FAR)]  # fmt: skip
        return Moments(*anything)

    def reads(self, own: Sequence[BufferLoad], env: Mapping[Var, Ends], turns: int) -> Moments:
        """The moment in which a statement evaluates its operands."""
        first = np.full(turns, FAR)
        for x in own:
            if x.buffer is self.operand:
                low = self.span(x.buffer, x.indices[0], env, turns)[0]
                first = np.minimum(first, np.maximum(low, 0))
        return Moments(first[:, None], np.full((turns, 1), -FAR))

    def span(self, b: Buffer, index: Expr, env: Mapping[Var, Ends], turns: int) -> Ends:
        """The first byte of an access, and the end of the last one."""
        low, high = _ends(index, env, turns)
        size = dt.bytes_of(b.type)
        begin, end = low * size, (high + 1) * size
        return (bytes_of(b) - end, bytes_of(b) - begin) if self.down else (begin, end)

    def loop(self, s: For, env: Mapping[Var, Ends], turns: int) -> Moments:
        """Of a loop that reads and writes, turn by turn; of others in one moment."""
        low, extent = value_of(s.min), value_of(s.extent)
        if low is None or not extent or extent * turns > _MANY:
            begin, count = _ends(s.min, env, turns), _ends(s.extent, env, turns)
            inner = {**env, s.var: (begin[0], begin[1] + count[1] - 1)}
            runs = count[1] > 0
            return self.stmt(s.body, inner, turns).joined().where(runs)
        each = np.tile(np.arange(low, low + extent), turns)
        inner = {v: (np.repeat(a, extent), np.repeat(b, extent)) for v, (a, b) in env.items()}
        inner[s.var] = each, each
        made = self.stmt(s.body, inner, turns * extent)
        whole = Moments(made.reads.reshape(turns, -1), made.writes.reshape(turns, -1))
        return whole if all(self.touches(s)) else whole.joined()


def _ends(e: Expr, env: Mapping[Var, Ends], turns: int) -> Ends:
    """The ends of an integer expression in each turn, not necessarily sharp."""
    anything = np.full(turns, -FAR), np.full(turns, FAR)
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
    return np.clip(low, -FAR, FAR), np.clip(high, -FAR, FAR)


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
