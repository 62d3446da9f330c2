"""The meaning of tensor programs: an interpreter of every form, slow and exact.

    interpret(func, a, b, c)      # numpy arrays, changed in place

A program is translated once (per shapes) to Python source over plain numbers, then run. Each
element type computes as itself: float32 in float32, integers wrap. Loads and stores are checked
against the shape; buffers begin with NaN or odd numbers, so that reading too early shows.
"""

from __future__ import annotations

import math
import random
import weakref
from array import array
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import is_const
from smelt.ir.errors import SmeltError, Unsupported
from smelt.ir.expr import Expr, Var

from . import interpret_math
from .interpret_expr import ExprEmitter, Storage
from .interpret_lanes import scalarize
from .interpret_math import codec, wrap_range
from .nodes import (
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
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
from .printer import script

__all__ = ["InterpretError", "interpret", "python_source"]

_MAX_NESTING = 15  # CPython refuses more than 20 nested loops in one function
_EFFECTS_WITHOUT_MEANING = ("prefetch", "storage_sync", "assume", "tvm_storage_sync")


class InterpretError(SmeltError):
    """A program that does something undefined, such as reading outside of a buffer."""


class _Compiler(ExprEmitter):
    """Translates one program, for given sizes, to the source of a Python function."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func = func
        self.nesting = 0
        self.sites: list[tuple[Buffer | None, Stmt]] = []
        self.allocations: list[tuple[int, str]] = []
        self.current: Stmt = func.body
        self.site = self.new_site
        self.names.update(
            {
                n: getattr(interpret_math, n)
                for n in (
                    "divide",
                    "int_divide",
                    "int_remainder",
                    "float_floor_mod",
                    "fmod",
                    "least",
                    "greatest",
                    "float_to_int",
                    "int_to_single",
                )
            },
            inf=math.inf,
            nan=math.nan,
        )

    def new_site(self, buffer: Buffer | None) -> int:
        """A number for a place in the program that can fail."""
        self.sites.append((buffer, self.current))
        return len(self.sites) - 1

    # -------------------------------------------------------------------------- statements

    def stmt(self, s: Stmt) -> None:
        """Write the source of one statement."""
        if not isinstance(s, Seq | Block):
            self.current = s
        self.memo = {}
        match s:
            case Seq(stmts):
                for x in stmts:
                    self.stmt(x)
            case BufferStore():
                self.store(s)
            case For():
                self.loop(s)
            case While(condition, body):
                with self.suite() as frame, self.deeper():
                    self.emit(f"if not {self.value(condition)}: break")
                    self.stmt(body)
                self.nest("while True:", frame)
            case IfThenElse(condition, yes, no):
                self.branch(condition, yes, no)
            case LetStmt(var, value, body):
                level, text = self.level(value), self.value(value)
                if level is None:
                    level, text = len(self.frames) - 1, self.keep(text)
                self.bind(var, text, level, self.bounds.of(value))
                self.stmt(body)
            case AssertStmt(condition, message):
                self.emit(
                    f"if not {self.value(condition)}: refuse({self.new_site(None)}, {message!r})"
                )
            case Allocate(buffer, body):
                self.allocate(buffer)
                self.stmt(body)
            case Evaluate(value):
                if getattr(value, "op", None) not in _EFFECTS_WITHOUT_MEANING:
                    self.emit(self.value(value))
            case BlockRealize():
                self.realize(s)
            case _:
                raise Unsupported(f"the interpreter does not know the statement {type(s).__name__}")

    def store(self, s: BufferStore) -> None:
        """buffer[indices] = value."""
        if s.buffer not in self.storage:
            raise Unsupported(
                f"the buffer {s.buffer.name} is used where it is neither a parameter nor allocated"
            )
        own = self.storage[s.buffer]
        if s.value.dtype != own.dtype:
            raise Unsupported(
                f"a value of {s.value.dtype} is stored in {s.buffer.name}, which holds {own.dtype}"
            )
        value = self.stored(s.value, own.dtype)
        at = self.offset(s.buffer, s.indices)
        if own.coded:
            table = codec(own.dtype)
            assert table is not None
            value = f"{self.helper('encode_' + own.dtype, table[1])}({value})"
        self.emit(f"{own.name}[{at}] = {value}")

    @contextmanager
    def deeper(self) -> Any:
        """One loop deeper."""
        self.nesting += 1
        try:
            yield
        finally:
            self.nesting -= 1

    def loop(self, s: For) -> None:
        """A loop; one of a single iteration is only a name."""
        level = self.level(s.min)
        if is_const(s.extent, 1) and level is not None:
            self.bind(s.var, self.value(s.min), level, self.bounds.of(s.min))
            self.stmt(s.body)
            return
        low, extent = self.value(s.min), self.value(s.extent)
        first, count = self.bounds.of(s.min), self.bounds.of(s.extent)
        interval = (
            None if first is None or count is None else (first[0], first[1] + max(count[1], 1) - 1)
        )
        high = extent if low == "0" else f"{low} + {extent}"
        over = f"shuffled({low}, {high})" if s.kind == "parallel" else f"range({low}, {high})"
        if self.nesting == _MAX_NESTING:
            self.outlined(s, over, interval)
        else:
            self.plain_loop(s, over, interval)

    def plain_loop(self, s: For, over: str, interval: tuple[int, int] | None) -> None:
        """for i in range(...): body."""
        name = self.fresh("i")
        with self.suite() as frame, self.deeper():
            self.bind(s.var, name, len(self.frames) - 1, interval)
            self.stmt(s.body)
        self.nest(f"for {name} in {over}:", frame)

    def outlined(self, s: For, over: str, interval: tuple[int, int] | None) -> None:
        """A loop in a function of its own, where Python allows no deeper nesting."""
        name, nesting = self.fresh("f"), self.nesting
        with self.suite() as frame:
            self.nesting = 0
            self.plain_loop(s, over, interval)
            self.nesting = nesting
        self.nest(f"def {name}():", frame)
        self.emit(f"{name}()")

    def branch(self, condition: Expr, yes: Stmt, no: Stmt | None) -> None:
        """if condition: yes else: no."""
        test = self.value(condition)
        with self.bounds.assuming(condition), self.suite() as then:
            self.stmt(yes)
        with self.bounds.assuming_not(condition), self.suite() as otherwise:
            self.stmt(no if no is not None else Seq(()))
        self.nest(f"if {test}:", then)
        if no is not None:
            self.nest("else:", otherwise)

    def allocate(self, buffer: Buffer) -> None:
        """A buffer with contents that nobody should rely on."""
        shape = []
        for e in buffer.shape:
            interval = self.bounds.of(e)
            if interval is None or interval[0] != interval[1]:
                raise Unsupported(f"the size of {buffer.name} changes while the program runs")
            shape.append(interval[0])
        name = self.fresh("b")
        self.storage[buffer] = Storage(name, tuple(shape), buffer.type)
        self.allocations.append((math.prod(shape), buffer.type))
        self.emit(f"{name} = new({len(self.allocations) - 1})")

    # ------------------------------------------------------------------------------ blocks

    def realize(self, s: BlockRealize) -> None:
        """A block for the iteration that the loops around give."""
        if is_const(s.predicate, 1):
            self.block(s)
            return
        test = self.value(s.predicate)
        with self.bounds.assuming(s.predicate), self.suite() as frame:
            self.block(s)
        self.nest(f"if {test}:", frame)

    def block(self, s: BlockRealize) -> None:
        """Iteration variables, buffers, init where the reduction begins, body."""
        first: list[str] = []
        for it, value in zip(s.block.iter_vars, s.values, strict=True):
            level, text, interval = self.level(value), self.value(value), self.bounds.of(value)
            if level is None:
                level, text = len(self.frames) - 1, self.keep(text)
            low, count = self.bounds.of(it.dom.min), self.bounds.of(it.dom.extent)
            if (
                low is None
                or count is None
                or not self.bounds.inside(value, low[1], low[0] + count[0] - 1)
            ):
                begin, extent = self.value(it.dom.min), self.value(it.dom.extent)
                self.emit(
                    f"if not {begin} <= {text} < {begin} + {extent}: "
                    f"off_domain({self.new_site(None)}, {it.var.name!r}, {text})"
                )
            self.bind(it.var, text, level, interval)
            if it.kind == "reduce" and not (
                low is not None and interval == low and low[0] == low[1]
            ):
                first.append(f"{text} == {self.value(it.dom.min)}")
        for b in s.block.alloc_buffers:
            self.allocate(b)
        if s.block.init is not None:
            if first:
                with self.suite() as frame:
                    self.stmt(s.block.init)
                self.nest(f"if {' and '.join(first)}:", frame)
            else:
                self.stmt(s.block.init)
        self.stmt(s.block.body)


# ----------------------------------------------------------------------------------- arguments


class _Call:
    """The arguments of one call, matched to a program's parameters."""

    def __init__(self, func: PrimFunc, args: tuple[Any, ...]) -> None:
        if len(args) != len(func.params):
            given = [p for p in func.params if isinstance(p, Buffer)]
            if len(args) != len(given):
                raise InterpretError(
                    f"{func.name} has {len(func.params)} parameters, {len(args)} arguments given"
                )
            pairs: list[tuple[Var | Buffer, Any]] = list(zip(given, args, strict=True))
        else:
            pairs = list(zip(func.params, args, strict=True))
        self.sizes: dict[Var, int] = {}
        self.others: dict[Var, Any] = {}
        self.arrays: dict[Buffer, np.ndarray[Any, Any]] = {}
        for p, a in pairs:
            if isinstance(p, Var):
                if dt.kind(p.type) in ("int", "uint", "bool"):
                    self.sizes[p] = int(a)
                else:
                    self.others[p] = a
        for p, a in pairs:
            if isinstance(p, Buffer):
                self.arrays[p] = self.array(p, a)

    def array(self, p: Buffer, a: Any) -> np.ndarray[Any, Any]:
        """An argument as the array of a buffer; binds sizes that are not known yet."""
        if not isinstance(a, np.ndarray) or a.dtype != dt.to_numpy(p.type):
            have = f"an array of {a.dtype}" if isinstance(a, np.ndarray) else type(a).__name__
            raise InterpretError(f"{p.name} is a buffer of {p.type}, the argument {have}")
        shape = a.shape if a.ndim == p.rank or p.rank != 1 else (a.size,)
        if len(shape) != p.rank:
            raise InterpretError(f"{p.name} has {p.rank} dimensions, the argument {a.ndim}")
        for e, n in zip(p.shape, shape, strict=True):
            if isinstance(e, Var) and e not in self.sizes:
                self.sizes[e] = n
        for e, n in zip(p.shape, shape, strict=True):
            expected = self.number(e)
            if expected is not None and expected != n:
                raise InterpretError(
                    f"{p.name} has shape ({', '.join(str(self.number(x)) for x in p.shape)}), "
                    f"the argument {a.shape}"
                )
        return a

    def number(self, e: Expr) -> int | None:
        """The value of a size; None where it is not known."""
        emitter = ExprEmitter()
        for v, n in self.sizes.items():
            emitter.bind(v, str(n), 0, (n, n))
        interval = emitter.bounds.of(e)
        return interval[0] if interval is not None and interval[0] == interval[1] else None

    def key(self) -> tuple[Any, ...]:
        """What the translation depends on."""
        return tuple(self.sizes.items()), tuple([a.shape for a in self.arrays.values()])


# ------------------------------------------------------------------------------------- running

_CACHE: weakref.WeakKeyDictionary[PrimFunc, dict[Any, tuple[str, _Compiler]]] = (
    weakref.WeakKeyDictionary()
)


def _compiled(func: PrimFunc, call: _Call) -> tuple[str, _Compiler]:
    """The Python source of a program for the sizes of a call."""
    known = _CACHE.setdefault(func, {})
    key = call.key()
    if key not in known:
        flat = scalarize(func)
        c = _Compiler(flat)
        for v, n in call.sizes.items():
            c.bind(v, str(n) if n >= 0 else f"({n})", 0, (n, n))
        names = []
        for v in call.others:
            names.append(c.fresh("p"))
            c.bind(v, names[-1], 0, None)
        for b, a in call.arrays.items():
            names.append(c.fresh("b"))
            shape = a.shape if b.rank == a.ndim else (a.size,)
            c.storage[b] = Storage(names[-1], shape, b.type)
        try:
            c.stmt(flat.body)
        except Unsupported as e:
            raise InterpretError(f"{func.name}: {e}\n{script(func, {c.current: 'here'})}") from None
        known[key] = (
            (
                f"def run({', '.join(names)}):\n"
                + "".join([f"    {line}\n" for line in c.frames[0].lines or ["pass"]])
            ),
            c,
        )
    return known[key]


def python_source(func: PrimFunc, *args: Any) -> str:
    """The Python source that `interpret` runs for these arguments (to look at)."""
    return _compiled(func, _Call(func, args))[0]


def interpret(
    func: PrimFunc,
    *args: Any,
    shuffle: bool = False,
    seed: int = 0,
    host: Mapping[str, Callable[..., Any]] | None = None,
) -> None:
    """Run a program on numpy arrays (in place) and numbers, in the order of its parameters.

    Scalars may be left out altogether where the arrays' shapes tell them.
    shuffle  run parallel iterations in a random order, which reveals races; `seed` chooses it
    host     what host intrinsics do, by name ("smelt.call_kernel", ...)
    """
    call = _Call(func, args)
    source, c = _compiled(func, call)
    dense = [np.ascontiguousarray(a) for a in call.arrays.values()]
    views = [_view(a.reshape(-1), b.type) for b, a in zip(call.arrays, dense, strict=True)]
    scope = {**c.names, **_runtime(func, c, shuffle, seed, host or {})}
    scope["R"] = array("f", [0.0]) * max(1, c.slots)
    exec(compile(source, f"<interpret {func.name}>", "exec"), scope)
    try:
        with np.errstate(all="ignore"):
            scope["run"](*call.others.values(), *views)
    except ArithmeticError as e:
        raise InterpretError(f"{func.name}: {e}") from None
    finally:
        for a, d in zip(call.arrays.values(), dense, strict=True):
            if d is not a:
                a[...] = d.reshape(a.shape)


def _view(flat: np.ndarray[Any, Any], dtype: str) -> memoryview:
    """An array's elements as Python numbers (or as raw bits, for types that Python lacks)."""
    table = codec(dtype)
    raw: Any = flat if table is None else flat.view(table[2])
    return memoryview(raw)


def _poison(dtype: str) -> Any:
    return math.nan if dt.is_float(dtype) else min(0x5A, wrap_range(dtype)[1])


def _runtime(
    func: PrimFunc, c: _Compiler, shuffle: bool, seed: int, host: Mapping[str, Callable[..., Any]]
) -> dict[str, Any]:
    """The functions that the source calls besides arithmetic."""
    order = random.Random(seed)

    def where(site: int) -> str:
        return script(c.func, {c.sites[site][1]: "here"})

    def outside(site: int, index: tuple[int, ...]) -> None:
        buffer = c.sites[site][0]
        assert buffer is not None
        shape = c.storage[buffer].shape
        raise InterpretError(
            f"{func.name}: {buffer.name}[{', '.join(map(str, index))}] is outside of its shape "
            f"{shape}\n{where(site)}"
        )

    def off_domain(site: int, name: str, value: int) -> None:
        raise InterpretError(
            f"{func.name}: {name} = {value} is outside of its domain\n{where(site)}"
        )

    def refuse(site: int, message: str) -> None:
        raise InterpretError(f"{func.name}: assertion failed: {message}\n{where(site)}")

    def shuffled(low: int, high: int) -> Any:
        if not shuffle:
            return range(low, high)
        items = list(range(low, high))
        order.shuffle(items)
        return items

    def new(which: int) -> memoryview:
        count, dtype = c.allocations[which]
        return _view(np.full(count, _poison(dtype), dtype=dt.to_numpy(dtype)), dtype)

    def call_host(op: str, *args: Any) -> Any:
        if op not in host:
            raise InterpretError(
                f"{func.name}: nobody says what {op} does; pass host={{{op!r}: ...}}"
            )
        return host[op](*args)

    return {
        "outside": outside,
        "off_domain": off_domain,
        "refuse": refuse,
        "shuffled": shuffled,
        "new": new,
        "host": call_host,
    }
