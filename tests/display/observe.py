"""The oracle of footprints: runs a program's loops one by one and keeps what every iteration did.

Integers are evaluated; those in memory are drawn at random when they are first read, and anew when
they have been stored to, since a footprint has to hold whatever the data are. What depends on
floats is drawn each time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from smelt.tir.nodes import (
    Allocate,
    AllocateConst,
    AssertStmt,
    BlockRealize,
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
    While,
)
from smelt.tir.script_ops import expr_nodes

Element = tuple[int, ...]

_RULES: dict[type[Expr], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    TruncDiv: lambda a, b: int(a / b),
    TruncMod: lambda a, b: a - b * int(a / b),
    Min: min,
    Max: max,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: a and b,
    Or: lambda a, b: a or b,
}


def wrapper(dtype: str) -> Callable[[int, int], int]:
    """What a number becomes in a type; as a rule for two."""
    if dt.scalar(dtype) == "bool":
        return lambda x, _: int(bool(x))
    low, high = dt.limits(dt.scalar(dtype))
    return lambda x, _: (x - low) % (high - low + 1) + low


class Unknown(Exception):
    """A value that depends on data, or is no number that the oracle can compute."""


class Undecided(Exception):
    """A condition that does not depend on data, but that the oracle cannot compute."""


class Record:
    """What happened in one iteration."""

    def __init__(self) -> None:
        self.elements: dict[Buffer, set[Element]] = {}
        self.reads: Counter[Buffer] = Counter()
        self.writes: Counter[Buffer] = Counter()
        self.operations = 0


class Seen:
    """The most that happened in one iteration of a loop, by buffer."""

    def __init__(self) -> None:
        self.trips = 0
        self.elements: Counter[Buffer] = Counter()
        self.reads: Counter[Buffer] = Counter()
        self.writes: Counter[Buffer] = Counter()
        self.box: dict[Buffer, list[int]] = {}
        self.operations = 0

    def add(self, r: Record) -> None:
        self.trips += 1
        self.operations = max(self.operations, r.operations)
        for b, points in r.elements.items():
            self.elements[b] = max(self.elements[b], len(points))
            sides = [max(c) - min(c) + 1 for c in zip(*points, strict=True)]
            old = self.box.get(b, [0] * len(sides))
            self.box[b] = [max(x, y) for x, y in zip(old, sides, strict=True)]
        for counts, mine in ((r.reads, self.reads), (r.writes, self.writes)):
            for b, n in counts.items():
                mine[b] = max(mine[b], n)


class Observer:
    """Runs a function; `seen[None]` is the whole run, `seen[loop]` one iteration of a loop."""

    def __init__(self, func: PrimFunc, sizes: dict[str, int] | None = None, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.env: dict[Var, Any] = {}
        self.sizes = sizes or {}
        self.open: list[Record] = []
        self.lanes: list[list[bool]] = []
        self.memory: dict[tuple[Buffer, Element], int] = {}
        self.seen: dict[For | While | None, Seen] = {}
        self.iteration(None, lambda: self.stmt(func.body))

    def iteration(self, loop: For | None, run: Callable[[], None]) -> None:
        record = Record()
        self.open.append(record)
        run()
        self.open.pop()
        self.seen.setdefault(loop, Seen()).add(record)

    # ---------------------------------------------------------------------------- statements

    def stmt(self, s: Stmt) -> None:
        match s:
            case Seq(stmts):
                for x in stmts:
                    self.stmt(x)
            case For(var, low, extent, body):
                self.read(low, extent)
                first = self.number(low)
                for i in range(first, first + self.number(extent)):
                    self.env[var] = i
                    self.iteration(s, lambda: self.stmt(body))
            case IfThenElse(condition, yes, no):
                self.read(condition)
                self.branch(condition, yes, no)
            case LetStmt(var, value, body):
                self.read(value)
                try:
                    self.env[var] = self.value(value)
                except Unknown:
                    self.env[var] = value
                self.stmt(body)
            case Allocate(_, body):
                self.stmt(body)
            case AllocateConst(buffer, data, body):
                if not dt.is_float(buffer.type):
                    known = {(buffer, at): int(x) for at, x in np.ndenumerate(data)}
                    self.memory.update(known)
                self.stmt(body)
            case AssertStmt(value) | Evaluate(value):
                self.read(value)
            case BufferStore(buffer, value, indices):
                self.read(*indices, value)
                count = max(dt.lanes(e.dtype) for e in (value, *indices))
                self.touch(buffer, indices, count, write=True)
                self.work(value)
            case BlockRealize():
                self.block(s)

    def branch(self, condition: Expr, yes: Stmt, no: Stmt | None) -> None:
        count = dt.lanes(condition.dtype)
        truth = self.truth(condition)
        if count == 1:
            for side in (yes if truth else no,):
                if side is not None:
                    self.stmt(side)
            return
        for side, mask in ((yes, truth), (no, [not t for t in truth])):
            if side is not None and any(mask):
                self.lanes.append(mask)
                self.stmt(side)
                self.lanes.pop()

    def block(self, s: BlockRealize) -> None:
        self.read(*s.values, s.predicate)
        if not self.truth(s.predicate):
            return
        values = [self.number(v) for v in s.values]
        first = True
        for it, v in zip(s.block.iter_vars, values, strict=True):
            self.env[it.var] = v
            first = first and (it.kind != "reduce" or v == self.number(it.dom.min))
        if s.block.init is not None and first:
            self.stmt(s.block.init)
        self.stmt(s.block.body)

    # --------------------------------------------------------------------------- expressions

    def on(self, count: int) -> list[int]:
        """The lanes that take part."""
        masks = [m for m in self.lanes if len(m) == count]
        return [k for k in range(count) if all(m[k] for m in masks)]

    def touch(self, b: Buffer, indices: tuple[Expr, ...], count: int, write: bool) -> None:
        points = self.points(b, indices, count)
        touched = [points[k] for k in (self.on(count) if count > 1 else [0])]
        for point in touched if write else ():
            self.memory.pop((b, point), None)
        for r in self.open:
            r.elements.setdefault(b, set()).update(touched)
            (r.writes if write else r.reads)[b] += len(touched)

    def points(self, b: Buffer, indices: tuple[Expr, ...], count: int) -> list[Element]:
        """The elements that lanes touch; what data say lies inside of the buffer."""
        columns = []
        for i, e in zip(indices, b.shape, strict=True):
            extent = self.number(e)
            try:
                columns.append([k % extent for k in self.spread(self.value(i), count)])
            except Unknown:
                columns.append([self.random.randrange(extent) for _ in range(count)])
        return [tuple([c[k] for c in columns]) for k in range(count)]

    def read(self, *roots: Expr) -> None:
        """The loads of expressions; equal ones under the same conditions happen once."""
        for root in roots:
            self.walk(root, (), set())

    def walk(self, e: Expr, path: tuple[Any, ...], seen: set[Any]) -> None:
        if (e, path) in seen:
            return
        seen.add((e, path))
        if isinstance(e, Call) and e.op == "if_then_else":
            condition, yes, no = e.args
            self.walk(condition, path, seen)
            truth = self.truth(condition)
            if isinstance(truth, list):
                for side, mask in ((yes, truth), (no, [not t for t in truth])):
                    if any(mask):
                        self.lanes.append(mask)
                        self.walk(side, (*path, condition, side is yes), seen)
                        self.lanes.pop()
                return
            deeper = path if isinstance(condition, IntImm) else (*path, condition, truth)
            self.walk(yes if truth else no, deeper, seen)
            return
        if isinstance(e, BufferLoad):
            self.touch(e.buffer, e.indices, dt.lanes(e.dtype), write=False)
        for c in e.children():
            if isinstance(c, Expr):
                self.walk(c, path, seen)

    def work(self, root: Expr) -> None:
        """Arithmetic on elements."""
        seen: set[Expr] = set()
        stack = [root]
        while stack:
            e = stack.pop()
            if e in seen or isinstance(e, BufferLoad | Compare | And | Or):
                continue
            seen.add(e)
            parts = [c for c in e.children() if isinstance(c, Expr)]
            if isinstance(e, Select) or (isinstance(e, Call) and e.op == "if_then_else"):
                parts = parts[1:]
            elif isinstance(e, Binary | Call):
                count = dt.lanes(e.dtype)
                count = len(self.on(count)) if count > 1 else 1
                fused = isinstance(e, Call) and e.op == "fma"
                for r in self.open:
                    r.operations += 2 * count if fused else count
            stack += parts

    def number(self, e: Expr) -> int:
        found = self.value(e)
        assert isinstance(found, int)
        return found

    def truth(self, e: Expr) -> Any:
        """Whether a condition holds, by lanes; what depends on data may change every time."""
        try:
            found = self.value(e)
        except Unknown:
            if not self.from_data(e):
                raise Undecided from None
            drawn = [self.random.random() < 0.5 for _ in range(dt.lanes(e.dtype))]
            return drawn[0] if len(drawn) == 1 else drawn
        return bool(found) if isinstance(found, int) else [bool(x) for x in found]

    def from_data(self, e: Expr) -> bool:
        """Whether there is a load behind a value."""
        for n in expr_nodes(e):
            known = self.env.get(n) if isinstance(n, Var) else None
            if isinstance(n, BufferLoad) or (isinstance(known, Expr) and self.from_data(known)):
                return True
        return False

    @staticmethod
    def spread(value: Any, count: int) -> list[int]:
        return list(value) if isinstance(value, list) else [value] * count

    def value(self, e: Expr) -> Any:
        """An integer, or a list of lanes."""
        match e:
            case IntImm(_, n):
                return n
            case Var():
                known = self.env.get(e)
                if isinstance(known, Expr):
                    return self.value(known)
                if known is None:
                    return self.sizes[e.name]
                return known
            case Ramp(base, stride, count):
                first, step = self.value(base), self.value(stride)
                return [first + k * step for k in range(count)]
            case Broadcast(x, count):
                return self.spread(self.value(x), count)
            case Not(a):
                return self.each(lambda x, _: not x, self.value(a), 0)
            case Cast(kind, x) if dt.is_int(kind) and dt.is_int(x.dtype):
                return self.value(x)
            case Cast("bool", x) if dt.is_int(x.dtype):
                return self.each(lambda y, _: y != 0, self.value(x), 0)
            case Select(c, yes, no) | Call(op="if_then_else", args=(c, yes, no)):
                return self.value(yes if self.truth(c) else no)
            case And(a, b) | Or(a, b) if dt.lanes(e.dtype) == 1:
                return self.joined(a, b, isinstance(e, Or))
            case Binary(a, b) if type(e) in _RULES and not dt.is_float(a.dtype):
                found = self.each(_RULES[type(e)], self.value(a), self.value(b))
                return found if e.dtype == INDEX else self.each(wrapper(e.dtype), found, 0)
            case BufferLoad(b, indices) if not dt.is_float(b.type):
                points = self.points(b, indices, dt.lanes(e.dtype))
                found = [self.loaded(b, p) for p in points]
                return found if len(found) > 1 else found[0]
        raise Unknown

    def loaded(self, b: Buffer, point: Element) -> int:
        """What stands in memory."""
        most = 1 if b.type == "bool" else 100
        low = -most if dt.is_signed(b.type) else 0
        return self.memory.setdefault((b, point), self.random.randint(low, most))

    def joined(self, a: Expr, b: Expr, decisive: bool) -> int:
        """`a and b`, or `a or b`: one side may decide it without the other."""
        unknown = False
        for side in (a, b):
            try:
                if bool(self.value(side)) is decisive:
                    return int(decisive)
            except Unknown:
                unknown = True
        if unknown:
            raise Unknown
        return int(not decisive)

    def each(self, rule: Callable[[int, int], int], a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return int(rule(a, b))
        count = len(a if isinstance(a, list) else b)
        pairs = zip(self.spread(a, count), self.spread(b, count), strict=True)
        return [int(rule(x, y)) for x, y in pairs]
