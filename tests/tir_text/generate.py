"""Random tensor programs for hypothesis: `programs()` gives valid ones that can also be run.

@given(programs())
def test_something(func): interpret(func, *arguments(func, seed=0))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloatImm,
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
    Shuffle,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const,
)
from smelt.tir.nodes import (
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Range,
    Stmt,
    seq,
)

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "bool",
)
INTEGERS = tuple([d for d in DTYPES if d != "bool" and not dt.is_float(d)])
INTS = ("int32", "int64")
KINDS = ("serial", "serial", "parallel", "vectorized", "unrolled")
TRUE = const(True)


def arguments(func: PrimFunc, seed: int = 0, size: int = 5) -> list[Any]:
    """Random arrays (and sizes) for the parameters of a generated program."""
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for p in func.params:
        if isinstance(p, Var):
            out.append(size)
            continue
        shape = [e.value if isinstance(e, IntImm) else size for e in p.shape]
        if p.type == "bool":
            out.append(np.array(rng.integers(0, 2, shape)).astype(bool))
        elif dt.is_float(p.type):
            out.append(np.array(rng.integers(-64, 64, shape) / 16).astype(dt.to_numpy(p.type)))
        else:
            low = 0 if not dt.is_signed(p.type) else -100
            out.append(np.array(rng.integers(low, 100, shape)).astype(dt.to_numpy(p.type)))
    return out


class Maker:
    """Draws one program. Names are unique; indices are in bounds by construction."""

    def __init__(self, draw: st.DrawFn, vectors: bool) -> None:
        self.draw, self.vectors = draw, vectors
        self.count = 0
        self.buffers: list[Buffer] = []
        self.tables: list[Buffer] = []
        self.vars: list[tuple[Var, int]] = []
        self.lets: list[Var] = []
        self.in_index = False

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(items))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def buffer(self, stem: str, scope: str = "global", dtype: str | None = None) -> Buffer:
        shape = tuple([const(self.number(1, 6)) for _ in range(self.number(0, 3))])
        return Buffer(self.name(stem), shape, dtype or self.pick(DTYPES), scope)

    # ------------------------------------------------------------------------- expressions

    def constant(self, dtype: str) -> Expr:
        if dtype == "bool":
            return const(bool(self.number(0, 1)))
        if dt.is_float(dtype):
            return FloatImm(dtype, self.pick([0.0, -0.0, 1.0, 0.5, -2.25, 3.0, 0.0625]))
        return IntImm(dtype, self.number(0 if not dt.is_signed(dtype) else -9, 9))

    def index(self, extent: Expr) -> Expr:
        """An integer in 0 ... extent - 1."""
        n = extent.value if isinstance(extent, IntImm) else 1
        fits = [v for v, e in self.vars if e <= n]
        if fits and self.number(0, 2):
            return _index(self.pick(fits))
        if self.vars and self.number(0, 1):
            v, _ = self.pick(self.vars)
            return FloorMod(
                Add(Mul(_index(v), const(self.number(2, 3))), const(self.number(0, 3))), const(n)
            )
        tables = [*self.buffers, *self.tables]
        loadable = [b for b in tables if b.type in INTEGERS and not self.in_index]
        if loadable and self.number(0, 4) == 0:
            self.in_index = True
            loaded = self.load(self.pick(loadable).type)
            self.in_index = False
            return _index(FloorMod(loaded, IntImm(loaded.dtype, n)))
        return const(self.number(0, n - 1))

    def load(self, dtype: str) -> Expr:
        usable = [b for b in (*self.buffers, *self.tables) if b.type == dtype]
        if not usable:
            return self.constant(dtype)
        b = self.pick(usable)
        return BufferLoad(b, tuple([self.index(e) for e in b.shape]))

    def expr(self, dtype: str, depth: int = 3) -> Expr:
        """A value of a type."""
        choice = self.number(0, 9) if depth else self.number(0, 1)
        lets = [v for v in self.lets if v.type == dtype]
        if choice == 0:
            return self.constant(dtype)
        if choice == 1:
            return self.pick(lets) if lets and self.number(0, 1) else self.load(dtype)
        if choice == 2:
            return self.cast(dtype, depth)
        if choice == 3:
            return Select(
                self.expr("bool", depth - 1),
                self.expr(dtype, depth - 1),
                self.expr(dtype, depth - 1),
            )
        if choice == 4:
            return Call(
                dtype,
                "if_then_else",
                (
                    self.expr("bool", depth - 1),
                    self.expr(dtype, depth - 1),
                    self.expr(dtype, depth - 1),
                ),
            )
        if dtype == "bool":
            return self.truth(depth)
        if choice == 5 and dt.is_float(dtype):
            return Call(
                dtype, self.pick(["floor", "ceil", "abs", "trunc"]), (self.expr(dtype, depth - 1),)
            )
        if choice == 5:
            return self.quotient(dtype, depth)
        if choice == 6 and not dt.is_float(dtype):
            return self.bits(dtype, depth)
        cls: type[Binary] = self.pick([Add, Sub, Mul, Min, Max, Add, Mul])
        second = self.constant(dtype) if cls is Mul and dtype in INTS else None
        return cls(self.expr(dtype, depth - 1), second or self.expr(dtype, depth - 1))

    def kept(self, dtype: str, depth: int = 3) -> Expr:
        """A value to be stored: int32 and int64 stay small, their overflow has no meaning."""
        value = self.expr(dtype, depth)
        return FloorMod(value, IntImm(dtype, 101)) if dtype in INTS else value

    def quotient(self, dtype: str, depth: int) -> Expr:
        """A quotient or remainder of integers: by a number, or by a value where it is positive."""
        divide: type[Binary] = self.pick([FloorDiv, FloorMod, TruncDiv, TruncMod])
        x = self.expr(dtype, depth - 1)
        if self.number(0, 2):
            return divide(x, IntImm(dtype, self.number(1, 7)))
        by = self.load(dtype)
        safe = GT(by, IntImm(dtype, 0))
        return Call(dtype, "if_then_else", (safe, divide(x, by), self.constant(dtype)))

    def bits(self, dtype: str, depth: int) -> Expr:
        """Bits moved or joined."""
        x = self.expr(dtype, depth - 1)
        op = self.pick(["shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor"])
        if op.startswith("shift"):
            most = 3 if dtype in INTS and op == "shift_left" else dt.bits(dtype) - 1
            return Call(dtype, op, (x, IntImm(dtype, self.number(0, most))))
        return Call(dtype, op, (x, self.expr(dtype, depth - 1)))

    def cast(self, dtype: str, depth: int) -> Expr:
        """A conversion that is defined for every value."""
        sources: tuple[str, ...] = ("int8", "uint8", "int16", "bool")
        sources += ("int32", "float16") if dt.is_float(dtype) else ()
        sources += INTEGERS if dtype not in (*INTS, "float16") else ()
        source = self.pick([s for s in sources if s != dtype])
        return Cast(dtype, self.expr(source, depth - 1))

    def truth(self, depth: int) -> Expr:
        kind = self.pick(["float32", "int32", "int64"])
        if self.number(0, 1):
            compare: type[Binary] = self.pick([LT, EQ, NE, GE])
            return compare(self.expr(kind, depth - 1), self.expr(kind, depth - 1))
        if self.number(0, 3) == 0:
            return Not(self.expr("bool", depth - 1))
        join: type[Binary] = self.pick([And, Or])
        return join(self.expr("bool", depth - 1), self.expr("bool", depth - 1))

    # -------------------------------------------------------------------------- statements

    def store(self) -> Stmt:
        b = self.pick(self.buffers)
        if (
            self.vectors
            and b.rank
            and self.number(0, 2) == 0
            and _size(b.shape[-1]) >= 2
            and b.type != "bool"
        ):
            return self.vector_store(b)
        return BufferStore(b, self.kept(b.type), tuple([self.index(e) for e in b.shape]))

    def vector_store(self, b: Buffer) -> Stmt:
        lanes = 2 if _size(b.shape[-1]) < 4 else 4
        head = tuple([self.index(e) for e in b.shape[:-1]])
        where = Ramp(const(_size(b.shape[-1]) - lanes), const(1), lanes)
        value: Expr = Broadcast(self.expr(b.type, 1), lanes)
        if self.number(0, 1):
            own = BufferLoad(b, (*head, where))
            value = self.pick([Add, Max, Mul])(own, value)
            if self.number(0, 1):
                value = Shuffle(
                    value, own, tuple([self.number(0, 2 * lanes - 1) for _ in range(lanes)])
                )
        if b.type in INTS:
            value = FloorMod(value, Broadcast(IntImm(b.type, 101), lanes))
        return BufferStore(b, value, (*head, where))

    def body(self, depth: int) -> Stmt:
        return seq(*[self.stmt(depth) for _ in range(self.number(1, 2))])

    def stmt(self, depth: int) -> Stmt:
        choice = self.number(0, 7) if depth else 0
        if choice <= 2:
            return self.store()
        if choice <= 4:
            dtype = self.pick([INDEX, INDEX, "int32", "int8"])
            var, low, extent = Var(self.name("i"), dtype), self.pick([0, 0, 2]), self.number(1, 4)
            self.vars.append((var, low + extent))
            body = self.body(depth - 1)
            self.vars.pop()
            return For(
                var,
                const(low, dtype),
                const(extent, dtype),
                body,
                self.pick(KINDS),
                None,
                self.pick([{}, {}, {"a": 1}]),
            )
        if choice == 5:
            no = self.body(depth - 1) if self.number(0, 1) else None
            return IfThenElse(self.expr("bool", 2), self.body(depth - 1), no)
        if choice == 6:
            dtype = self.pick(["float32", "int32", "int8", "uint8", INDEX])
            var = Var(self.name("x"), dtype)
            value = self.kept(dtype, 2)
            self.lets.append(var)
            body = self.body(depth - 1)
            self.lets.pop()
            return LetStmt(var, value, body)
        if self.number(0, 1):
            return self.table(depth)
        b = self.buffer("tmp", "local")
        start = _filled(b, self.constant(b.type), self.name)
        self.buffers.append(b)
        body = self.body(depth - 1)
        self.buffers.remove(b)
        return Allocate(b, seq(start, body, AssertStmt(TRUE, "fine")))

    def table(self, depth: int) -> Stmt:
        """Constants, and statements that may load them."""
        b = self.buffer("table")
        shape = [_size(e) for e in b.shape]
        elements = [self.constant(b.type) for _ in range(math.prod(shape))]
        data = np.array([e.value for e in elements], dt.to_numpy(b.type))  # type: ignore[attr-defined]
        self.tables.append(b)
        body = self.body(depth - 1)
        self.tables.pop()
        return AllocateConst(b, data.reshape(shape), body)

    def block(self, b: Buffer) -> Stmt:
        """A spatial block over a buffer, with a reduction now and then."""
        loops = [Var(self.name("i")) for _ in b.shape]
        iters = [IterVar(Var(self.name("v")), Range(const(0), e)) for e in b.shape]
        point = tuple([it.var for it in iters])
        extents = [_size(e) for e in b.shape]
        init = None
        if self.number(0, 1):
            init = BufferStore(b, self.constant(b.type), point)
            loops.append(Var(self.name("k")))
            extents.append(self.number(1, 3))
            iters.append(
                IterVar(Var(self.name("v")), Range(const(0), const(extents[-1])), "reduce")
            )
        self.vars += [(it.var, n) for it, n in zip(iters, extents, strict=True)]
        body = BufferStore(b, self.kept(b.type), point)
        del self.vars[len(self.vars) - len(iters) :]
        one = const(1)
        block = Block(
            self.name("block"),
            tuple(iters),
            (),
            (BufferRegion(b, tuple([Range(p, one) for p in point])),),
            body,
            init,
            (),
            self.pick([{}, {"note": (1, "two", 3.5, None)}]),
        )
        guard = TRUE if init is not None or not loops else self.pick([TRUE, LT(loops[0], const(5))])
        stmt: Stmt = BlockRealize(tuple(loops), guard, block)
        for v, n in reversed(list(zip(loops, extents, strict=True))):
            stmt = For(v, const(0), const(n), stmt)
        return stmt


def _index(value: Expr) -> Expr:
    return value if value.dtype == INDEX else Cast(INDEX, value)


def _size(e: Expr) -> int:
    assert isinstance(e, IntImm)
    return e.value


def _filled(b: Buffer, value: Expr, name: Any) -> Stmt:
    """Loops that give every element of a buffer a value."""
    loops = [Var(name("f")) for _ in b.shape]
    stmt: Stmt = BufferStore(b, value, tuple(loops))
    for v, e in reversed(list(zip(loops, b.shape, strict=True))):
        stmt = For(v, const(0), e, stmt)
    return stmt


@st.composite
def programs(draw: st.DrawFn, *, flat: bool | None = None, vectors: bool = True) -> PrimFunc:
    """A valid program; `flat` asks for one with (False) or without (True) blocks."""
    return program(Maker(draw, vectors), flat)


def program(m: Maker, flat: bool | None = None, name: str = "random") -> PrimFunc:
    """The program that a maker draws."""
    m.buffers = [m.buffer(s) for s in ("A", "B", "C")]
    params = tuple(m.buffers)
    flat = bool(m.number(0, 1)) if flat is None else flat
    if flat:
        return PrimFunc(params, m.body(3), {"name": name})
    own = m.buffer("D", "local")
    fill = _block_fill(m, own)
    m.buffers.append(own)
    body = seq(fill, *[m.block(m.pick(m.buffers)) for _ in range(m.number(1, 3))])
    root = Block("root", (), (), (), body, None, (own,), {})
    return PrimFunc(params, BlockRealize((), TRUE, root), {"name": name, "kind": 3})


def _block_fill(m: Maker, b: Buffer) -> Stmt:
    """A block that gives every element a value."""
    loops = [Var(m.name("i")) for _ in b.shape]
    iters = tuple([IterVar(Var(m.name("v")), Range(const(0), e)) for e in b.shape])
    store = BufferStore(b, m.constant(b.type), tuple([it.var for it in iters]))
    stmt: Stmt = BlockRealize(tuple(loops), TRUE, Block(m.name("block"), iters, (), (), store))
    for v, e in reversed(list(zip(loops, b.shape, strict=True))):
        stmt = For(v, const(0), e, stmt)
    return stmt
