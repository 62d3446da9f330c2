"""Sums of products of bytes by instructions that take several of them at a time.

    for k in range(64): acc[j] = acc[j] + int32(int16(x[i + k]) - z) * int32(w[l + k])

becomes a loop of 16 calls where they take 4; what is left of a length is a shorter call, or
stays as it was. Rows of a window that follow one another in memory become one loop before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import equal, maximum, minimum, value_of
from smelt.ir.expr import (
    Add,
    Binary,
    Call,
    Cast,
    Expr,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Mul,
    Ramp,
    StringImm,
    Sub,
    Var,
    cast,
    const,
)
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.intrin.products import WIDE, Arithmetic, Products
from smelt.tir.intrin.registry import Instruction
from smelt.tir.rewrite import Rewriter, loads, updated
from smelt.tir.script_ops import READ_BEFORE
from smelt.topi.fixed_point import settle

from .accesses import is_self
from .ranges import RangeRewriter, analyzer_for

_N = 4
"""Sums side by side."""
_TAPS = 4
_COPIES = 24
"""So many copies in a row at most."""


class _Factor(NamedTuple):
    """A byte that is multiplied, and what is taken from it before."""

    load: tir.BufferLoad
    zero: int


class _Update(NamedTuple):
    """acc = acc + (x - zero) * w."""

    store: tir.BufferStore
    old: tir.BufferLoad
    x: _Factor
    w: _Factor


def _factor(e: Expr) -> _Factor | None:
    """int32(x), int32(int16(x) - z)"""
    zero = 0
    e = e.value if isinstance(e, Cast) and e.type == "int32" else e
    if isinstance(e, Add | Sub) and isinstance(e.b, IntImm):
        zero, e = (e.b.value if isinstance(e, Sub) else -e.b.value), e.a
        e = e.value if isinstance(e, Cast) and e.type == "int16" else e
    if not isinstance(e, tir.BufferLoad) or e.buffer.type not in ("int8", "uint8", "int16"):
        return None
    return _Factor(e, zero) if len(e.indices) == 1 else None


def _update(s: tir.Stmt, tile: Var | None = None) -> _Update | None:
    """A statement that adds a product of bytes to one of int32 sums.

    tile  the variable of the outermost loop over sums: where either byte may be the other's factor,
          w is the one that moves with it, since x is widened once for all
    """
    if not isinstance(s, tir.BufferStore) or not isinstance(s.value, Add):
        return None
    old, term = (s.value.a, s.value.b) if is_self(s.value.a, s) else (s.value.b, s.value.a)
    if not is_self(old, s) or not isinstance(term, Mul) or s.buffer.type != "int32":
        return None
    a, b = _factor(term.a), _factor(term.b)
    if a is None or b is None or not isinstance(old, tir.BufferLoad) or len(s.indices) != 1:
        return None
    plain = [f.load.buffer.type in ("int8", "int16") and f.zero == 0 for f in (a, b)]
    if plain[0] and (not plain[1] or tile in free_vars(a.load.indices[0])):
        a, b = b, a
    return _Update(s, old, a, b) if any(plain) and a.load.buffer.type != "int16" else None


def _updates(s: tir.Stmt) -> list[_Update] | None:
    """The updates that a loop's body consists of, below unrolled loops; None if of other things."""
    tile = None
    while isinstance(s, tir.For) and s.kind == "unrolled":
        tile = s.var if tile is None else tile
        s = s.body
    found = [_update(x, tile) for x in (s.stmts if isinstance(s, tir.Seq) else (s,))]
    return None if None in found else [u for u in found if u is not None]


class _UseDotProducts(RangeRewriter):
    """Loops over bytes, from the inside.

    together  the buffers whose sums are in one register
    windows   the names of buffers whose channels are summed up side by side
    """

    def __init__(self, analyzer: Analyzer, offer: Products) -> None:
        super().__init__(analyzer)
        self.offer, self.together, self.windows = offer, set[tir.Buffer](), set[str]()
        self.wide: tir.Buffer | None = None

    def visit_Allocate(self, s: tir.Allocate) -> tir.Stmt:
        """Sums in one register start there, too."""
        if self.offer.wide is not None and value_of(s.buffer.shape[0]) == WIDE:
            self.wide = s.buffer
            body = self.stmt(s.body)
            self.wide = None
            if all(dt.lanes(i.dtype) == WIDE for i in _places(body, s.buffer)):
                return updated(s, body=body)
        body = self.stmt(s.body)
        if s.buffer in self.together and self.offer.zeros is not None:
            body = _Zeros(s.buffer, self.offer.zeros).stmt(body)
        return updated(s, body=body)

    def loop(self, s: tir.For) -> tir.Stmt:
        s = self.joined(s)
        if s.kind == "unrolled" and value_of(s.extent) == WIDE and self.wide is not None:
            made = self.each(s) or self.settled(s) or self.zeros(s)
            return super().loop(s) if made is None else made
        if s.kind == "unrolled" and (value_of(s.extent) or 1) % _N == 0:
            parts = [self.each(p) or self.settled(p) or self.computed(p) for p in _parts(s)]
            several = [p for p in parts if p is not None]
            if len(several) == len(parts):
                return tir.seq(*several)
            return self.four(super().loop(s))
        copied = self.copied(s)
        if copied is not None:
            return copied
        updates = _updates(s.body) if s.kind == "serial" else None
        if not updates or not all(self.runs_along(u, s.var) for u in updates):
            return self.in_turns(super().loop(s))
        every = [self.offer.lengths(u.x.load.buffer.type, u.x.zero) for u in updates]
        lengths = [n for n in every[0] if all(n in e for e in every)]
        whole = max(lengths)
        if (value_of(s.extent) or whole) < min(whole, _N):
            return s
        return self.summed(s, updates, lengths)

    # ------------------------------------------------------------------- rows that join

    def joined(self, s: tir.For) -> tir.For:
        """Two loops as one, where a step of the outer one goes on where the inner one ends."""
        inner = s.body
        if s.kind != "serial" or not isinstance(inner, tir.For) or inner.kind != "serial":
            return s
        inner = self.joined(inner)
        count, updates = value_of(inner.extent), _updates(inner.body)
        if count is None or value_of(inner.min) != 0 or not updates:
            return updated(s, body=inner)
        both = s.var, inner.var
        for u in updates:
            if free_vars(u.store.indices[0]) & {*both}:
                return updated(s, body=inner)
            for at in (u.x.load.indices[0], u.w.load.indices[0]):
                outer_step, step = self.steps(at, both)
                if step is None or step == 0 or outer_step != count * step:
                    return updated(s, body=inner)
        one = Var(inner.var.name, s.var.type)
        size = const(count, s.var.type)
        whole = {s.var: one // size, inner.var: one % size}
        self.analyzer.bind(one, s.min * size, s.extent * size)
        body = _Substituted(whole, self.analyzer).stmt(inner.body)
        return tir.For(one, s.min * size, s.extent * size, body)

    def steps(self, at: Expr, variables: Sequence[Var]) -> list[int | None]:
        """How far an index moves with each of some variables; None where that is no number."""
        found = self.analyzer.linear(at, variables)
        if found is None or free_vars(found[1]) & {*variables}:
            return [None for _ in variables]
        return [value_of(found[0][v]) if v in found[0] else 0 for v in variables]

    # ----------------------------------------------------------------------- instructions

    def runs_along(self, u: _Update, v: Var) -> bool:
        """Whether both bytes move by one with a variable, and the sum does not."""
        if u.w.load.buffer.type == "int16":
            return False
        places = u.store.indices[0], u.x.load.indices[0], u.w.load.indices[0]
        return [self.steps(at, (v,))[0] for at in places] == [0, 1, 1]

    def summed(self, s: tir.For, updates: Sequence[_Update], lengths: Sequence[int]) -> tir.Stmt:
        """As many steps of a loop at a time as an instruction takes, then the others."""
        whole, count = max(lengths), value_of(s.extent)
        size = const(whole, s.var.type)
        blocks = self.analyzer.simplify(s.extent // size)
        v = Var(s.var.name, s.var.type)
        called = {u.store: u for u in updates}
        body = self.called(s.body, called, {s.var: s.min + v * size}, whole)
        main: tir.Stmt = tir.For(v, const(0, v.type), blocks, body)
        if value_of(blocks) == 1:
            main = self.called(s.body, called, {s.var: s.min}, whole)
        else:
            main = self.in_turns(main)
        rest = self.analyzer.simplify(s.extent - blocks * size)
        start = self.analyzer.simplify(s.min + blocks * size)
        if value_of(rest) == 0:
            return main
        if count is not None and count % whole in lengths:
            tail = self.called(s.body, called, {s.var: start}, count % whole)
            return tir.seq(main, tail) if count > whole else tail
        return tir.seq(main, tir.For(s.var, start, rest, s.body))

    def in_turns(self, s: tir.Stmt) -> tir.Stmt:
        """A loop over calls in fewer turns; over a few taps of a window in one."""
        if not isinstance(s, tir.For) or s.kind != "serial" or value_of(s.min) != 0:
            return s
        count = value_of(s.extent) or 1
        inner = [x for x in tir.walk(s.body) if isinstance(x, tir.For) and x.kind != "unrolled"]
        stores = [x for x in tir.walk(s.body) if isinstance(x, tir.BufferStore)]
        sums = [x for x in stores if _calls(x, self.offer.sums)]
        taps = [x for x in stores if _calls(x, self.offer.taps)]
        most = count if taps and count <= _TAPS else self.offer.turns
        turns = max([n for n in range(1, most + 1) if count % n == 0])
        apart = any(s.var in free_vars(i) for x in stores for i in x.indices)
        if turns == 1 or inner or apart or not [*sums, *taps]:
            return s
        if turns == count:  # no loop is left, so that the one around it may follow
            return s.replace(kind="unrolled")
        v, turn = s.var, Var(s.var.name, s.var.type)
        body = _Substituted({v: v * turns + turn}, self.analyzer).stmt(s.body)
        body = tir.For(turn, const(0, v.type), const(turns, v.type), body, "unrolled")
        return s.replace(extent=const(count // turns, v.type), body=body)

    def called(
        self, s: tir.Stmt, updates: dict[tir.BufferStore, _Update], first: dict[Var, Expr], n: int
    ) -> tir.Stmt:
        """Updates below unrolled loops as calls that take n steps from the first on."""
        if isinstance(s, tir.Seq):
            return tir.seq(*[self.called(x, updates, first, n) for x in s.stmts])
        if isinstance(s, tir.For):
            u = updates.get(s.body) if isinstance(s.body, tir.BufferStore) else None
            if u is not None and value_of(s.extent) == 2 and self.pairs(u, s.var):
                return self.paired(u, s, first)
            return updated(s, body=self.called(s.body, updates, first, n))
        assert isinstance(s, tir.BufferStore)
        u = updates[s]
        made = self.offer.lengths(u.x.load.buffer.type, u.x.zero)[n]
        zero = [const(u.x.zero, "int32")] * (len(made.operands) - 3)
        x, w = [self.vector(f.load, first, n) for f in (u.x, u.w)]
        return tir.BufferStore(s.buffer, made(u.old, x, w, *zero), s.indices)

    def four(self, s: tir.Stmt) -> tir.Stmt:
        """A loop over four sums with one x, whose other bytes follow one another, as a call."""
        made = self.offer.four
        if made is None or not isinstance(s, tir.For) or value_of(s.extent) != _N:
            return s
        store, whole = s.body, max(self.offer.plain)
        if not isinstance(store, tir.BufferStore) or not isinstance(store.value, Call):
            return s
        if store.value.args[0] != StringImm(self.offer.plain[whole].name):
            return s
        old, *pair = store.value.args[1:]
        moved = [e for e in pair if s.var in free_vars(e)]
        fixed = [e for e in pair if e not in moved]
        if len(moved) != 1 or not all(isinstance(e, tir.BufferLoad) for e in (old, *moved)):
            return s
        (x,), (w,) = fixed, moved
        assert isinstance(old, tir.BufferLoad)
        assert isinstance(w, tir.BufferLoad)
        at = w.indices[0]
        assert isinstance(at, Ramp)
        if [self.steps(e, (s.var,))[0] for e in (store.indices[0], at.base)] != [1, whole]:
            return s
        first = {s.var: s.min}
        sums = self.vector(old, first, _N)
        every = self.vector(tir.BufferLoad(w.buffer, (at.base,)), first, _N * whole)
        return tir.BufferStore(store.buffer, made(sums, x, every), sums.indices)

    def some(self, f: _Factor, first: dict[Var, Expr]) -> Expr:
        """Four bytes, where some variables begin."""
        return self.vector(f.load, first, _N)

    def vector(self, x: tir.BufferLoad, first: dict[Var, Expr], lanes: int) -> tir.BufferLoad:
        """Elements that follow one another."""
        at = self.analyzer.simplify(substitute(x.indices[0], first))
        if lanes == 1:
            return tir.BufferLoad(x.buffer, (at,))
        return tir.BufferLoad(x.buffer, (Ramp(at, const(1, at.dtype), lanes),))

    def pairs(self, u: _Update, v: Var) -> bool:
        """Whether a loop is over two neighbouring sums with one w."""
        steps = [self.steps(x.indices[0], (v,))[0] for x in (u.old, u.w.load)]
        return u.x.load.buffer.type in self.offer.pairs and steps == [1, 0]

    def paired(self, u: _Update, s: tir.For, first: dict[Var, Expr]) -> tir.Stmt:
        """A loop over two sums as a call."""
        start, second = {**first, s.var: s.min}, {**first, s.var: s.min + 1}
        sums = self.vector(u.old, start, 2)
        made = self.offer.pairs[u.x.load.buffer.type](
            sums, self.some(u.x, start), self.some(u.x, second), self.some(u.w, start), u.x.zero
        )
        return tir.BufferStore(u.store.buffer, made, sums.indices)

    def each(self, s: tir.For) -> tir.Stmt | None:
        """Four sums side by side, each of its own bytes."""
        u = _update(s.body)
        if u is None:
            return None
        places = u.store.indices[0], u.x.load.indices[0], u.w.load.indices[0]
        if [self.steps(at, (s.var,))[0] for at in places] != [1, 1, 1]:
            return None
        first = {s.var: s.min}
        if u.w.load.buffer.type == "int16":
            return self.each_wide(u, first)
        if u.store.buffer is self.wide and self.offer.wide is not None:
            if u.x.zero or u.x.load.buffer.type != "int8":
                return None
            sums, x, w = [self.vector(e, first, WIDE) for e in (u.old, u.x.load, u.w.load)]
            return tir.BufferStore(self.wide, self.offer.wide.each(sums, x, w), sums.indices)
        sums = self.vector(u.old, first, _N)
        self.together.add(u.store.buffer)
        made = self.offer.each[u.x.load.buffer.type](
            sums, self.some(u.x, first), self.some(u.w, first), u.x.zero
        )
        return tir.BufferStore(u.store.buffer, made, sums.indices)

    def each_wide(self, u: _Update, first: dict[Var, Expr]) -> tir.Stmt | None:
        """The same with factors of 16 bits that begin at a multiple of 4 bytes."""
        w = self.vector(u.w.load, first, 1)
        if self.offer.wide_b is None or not self.analyzer.can_prove(equal(w.indices[0] % 2, 0)):
            return None
        self.windows.add(u.x.load.buffer.name)
        sums, x = self.vector(u.old, first, _N), self.some(u.x, first)
        made = self.offer.wide_b[u.x.load.buffer.type](sums, x, self.some(u.w, first), u.x.zero)
        return tir.BufferStore(u.store.buffer, made, sums.indices)

    def copied(self, s: tir.For) -> tir.Stmt | None:
        """Bytes that are copied."""
        store, count = s.body, value_of(s.extent)
        if not self.offer.copies or count is None or not isinstance(store, tir.BufferStore):
            return None
        value = store.value
        if not isinstance(value, tir.BufferLoad) or value.dtype != "int8":
            return None
        if [self.steps(x.indices[0], (s.var,))[0] for x in (store, value)] != [1, 1]:
            return None
        whole, parts, to = max(self.offer.copies), [], tir.BufferLoad(store.buffer, store.indices)
        if count > _COPIES * whole:
            return None
        for start in range(0, count, whole):
            n, first = min(whole, count - start), {s.var: s.min + start}
            made = self.offer.copies[n](self.vector(value, first, n))
            parts.append(tir.BufferStore(store.buffer, made, self.vector(to, first, n).indices))
        return tir.seq(*parts)

    def settled(self, s: tir.For) -> tir.Stmt | None:
        """What `requantize_sums` makes of sums side by side."""
        store = s.body
        found = _settled(store) if self.offer.settled else None
        if found is None or not isinstance(store, tir.BufferStore):
            return None
        sums, factors, low, high = found
        places = store.indices[0], sums.indices[0], factors.indices[0]
        if [self.steps(at, (s.var,))[0] for at in places] != [1, 1, 4]:
            return None
        base = tir.BufferLoad(factors.buffer, (factors.indices[0] - 3,))
        simple = self.analyzer.simplify
        for away in (1, 0):
            if simple(store.value) == simple(_requantized(sums, base, low, high, away)):
                break
        else:
            return None
        first, n = {s.var: s.min}, _N
        made = self.offer.settled[sums.buffer in self.together]
        if sums.buffer is self.wide and self.offer.wide is not None:
            made, n = self.offer.wide.settled, WIDE
        given = self.vector(sums, first, n), self.vector(base, first, 4 * n)
        at = self.vector(tir.BufferLoad(store.buffer, store.indices), first, n).indices
        return tir.BufferStore(store.buffer, made(*given, low, high, away), at)

    def computed(self, s: tir.For) -> tir.Stmt | None:
        """What else becomes bytes of numbers side by side."""
        store, offer = s.body, self.offer.lanes
        if offer is None or not isinstance(store, tir.BufferStore) or store.buffer.type != "int8":
            return None
        if not isinstance(store.value, Cast) or self.steps(store.indices[0], (s.var,)) != [1]:
            return None
        made = _Lanes(self, s, offer).of(store.value.value)
        at = self.vector(tir.BufferLoad(store.buffer, store.indices), {s.var: s.min}, _N).indices
        return None if made is None else tir.BufferStore(store.buffer, offer.narrow(made), at)

    def zeros(self, s: tir.For) -> tir.Stmt | None:
        """Sums in several registers that begin."""
        if self.wide is None or self.offer.wide is None:
            return None
        new = _Zeros(self.wide, self.offer.wide.zeros, WIDE).stmt(s)
        return None if new is s else new


class _Lanes:
    """An int32 that a loop computes in each of its steps, as calls for all of them."""

    def __init__(self, whole: _UseDotProducts, s: tir.For, offer: Arithmetic) -> None:
        self.whole, self.s, self.offer = whole, s, offer
        self.of = cache(self._of)

    def _of(self, e: Expr) -> Expr | None:
        match e:
            case IntImm("int32", n):
                return self.offer.same(n)
            case FloorDiv(a, IntImm(_, n)) if n > 0 and n & n - 1 == 0:
                return self.both("shift_right", a, const(n.bit_length() - 1, "int32"))
            case Call(_, name, (a, b)):
                return self.both(name, a, b)
            case Binary():
                return self.both(type(e).__name__, e.a, e.b)
            case Cast("int32", tir.BufferLoad() as x) if x.dtype in self.offer.wider:
                return self.load(x, {1: self.offer.wider[x.dtype]})
            case tir.BufferLoad() if e.dtype == "int32":
                return self.load(e, {1: None, 4: self.offer.column})
        return None

    def both(self, name: str, a: Expr, b: Expr) -> Expr | None:
        """Two values and what is made of them."""
        made, x, y = self.offer.binary.get(name), self.of(a), self.of(b)
        return made(x, y) if made is not None and x is not None and y is not None else None

    def load(self, x: tir.BufferLoad, known: Mapping[int, Instruction | None]) -> Expr | None:
        """Elements by how far they are from one another."""
        step = self.whole.steps(x.indices[0], (self.s.var,))[0]
        if step is None or step not in known:
            return None
        made, first = known[step], {self.s.var: self.s.min}
        read = self.whole.vector(x, first, _N if step == 1 else 3 * step + 1)
        return read if made is None else made(read)


def _calls(s: tir.BufferStore, names: Collection[str]) -> bool:
    """Whether a statement is a call of one of some instructions."""
    match s.value:
        case Call(_, "call_instruction", (StringImm(name), *_)):
            return name in names
    return False


def _places(s: tir.Stmt, buffer: tir.Buffer) -> list[Expr]:
    """Where a statement reads and writes a buffer."""
    stores = [x for x in tir.walk(s) if isinstance(x, tir.BufferStore)]
    read = [x for e in stores for x in loads(e) if x.buffer is buffer]
    written = [e.indices[0] for e in stores if e.buffer is buffer]
    return [*written, *[x.indices[0] for x in read]]


def _parts(s: tir.For, count: int = _N) -> list[tir.For]:
    """A loop as several of as many steps as there are sums side by side."""
    starts = range(0, value_of(s.extent) or 0, count)
    return [s.replace(min=s.min + n, extent=const(count, s.var.type)) for n in starts]


def _settled(s: tir.Stmt) -> tuple[tir.BufferLoad, tir.BufferLoad, int, int] | None:
    """The sum, its shift and the limits of what may be a requantized sum."""
    if not isinstance(s, tir.BufferStore):
        return None
    match s.value:
        case Cast("int8", Min(Max(Call(_, "shift_right", (total, by)), IntImm() as low),
                              IntImm() as high)):  # fmt: skip
            f = next(iter(loads(by)), None)  # the shift, or nothing minus it
            sums = {x for x in loads(total) if f is not None and x.buffer is not f.buffer}
            if f is not None and len(sums) == 1 and len(f.indices) == 1:
                return sums.pop(), f, low.value, high.value
    return None


def _requantized(sums: Expr, base: tir.BufferLoad, low: int, high: int, away: int) -> Expr:
    """See topi's `requantize_sums`."""
    columns = [tir.BufferLoad(base.buffer, (base.indices[0] + n,)) for n in range(4)]
    settled = settle(sums, *columns, away=bool(away), halved=True)
    return cast("int8", minimum(maximum(settled, const(low, "int32")), const(high, "int32")))


class _Zeros(Rewriter):
    """Loops that put zeros into a buffer, as calls."""

    def __init__(self, sums: tir.Buffer, made: Instruction, count: int = _N) -> None:
        super().__init__()
        self.sums, self.made, self.count = sums, made, count

    def visit_For(self, s: tir.For) -> tir.Stmt:
        """A loop over all of the buffer."""
        b, count = s.body, value_of(s.extent) or 1
        if not isinstance(b, tir.BufferStore) or b.buffer is not self.sums or count % self.count:
            return super().visit_For(s)
        if b.indices == (s.var,) and value_of(b.value) == 0:
            one = const(1, s.var.type)
            parts = [Ramp(p.min, one, self.count) for p in _parts(s, self.count)]
            return tir.seq(*[tir.BufferStore(b.buffer, self.made(), (p,)) for p in parts])
        return super().visit_For(s)


class _Substituted(RangeRewriter):
    """Values for variables, simplified."""

    def __init__(self, values: dict[Var, Expr], analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.values = values

    def expr(self, e: Expr) -> Expr:
        return self.analyzer.simplify(substitute(e, self.values))


def use_dot_products(func: tir.PrimFunc, offer: Products) -> tir.PrimFunc:
    """Sums of products of bytes, by the instructions that a processor offers."""
    uses = _UseDotProducts(analyzer_for(func), offer)
    new = func.replace(body=uses.stmt(func.body))
    return new.with_attrs(**{READ_BEFORE: tuple(sorted(uses.windows))}) if uses.windows else new
