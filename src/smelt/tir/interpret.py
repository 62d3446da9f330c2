"""The meaning of tensor programs: an interpreter of every form, slow and exact.

    interpret(func, a, b, c)      # numpy arrays, changed in place

A program is translated once (per shapes) to Python source over plain numbers, then run. Each
element type computes as itself: float32 in float32, integers wrap. Loads and stores are checked
against the shape; buffers begin with NaN or odd numbers, so that reading too early shows.
"""

from __future__ import annotations

import math
import re
import weakref
from array import array
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError, Unsupported
from smelt.ir.expr import Expr, Var

from .interpret_expr import Storage, dense_steps, known_number
from .interpret_lanes import scalarized
from .interpret_math import codec, memory_size
from .interpret_stmt import Compiler
from .interpret_threads import ORDERS, Fault, Machine, Observer, Order
from .nodes import Buffer, PrimFunc
from .printer import script


class InterpretError(SmeltError):
    """A program that does something undefined, such as reading outside of a buffer."""


# ----------------------------------------------------------------------------------- arguments


class _Arguments:
    """The arguments of one call, matched to a program's parameters."""

    def __init__(self, func: PrimFunc, args: tuple[Any, ...]) -> None:
        given = func.params if len(args) == len(func.params) else func.buffers
        if len(args) != len(given):
            raise InterpretError(
                f"{func.name} has {len(func.params)} parameters, {len(args)} arguments given"
            )
        pairs: list[tuple[Var | Buffer, Any]] = list(zip(given, args, strict=True))
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
        return known_number(e, self.sizes)

    def steps(self, b: Buffer) -> tuple[int, ...]:
        """The strides that a parameter states; none where its elements are dense."""
        found = [self.number(e) for e in b.strides]
        for e, n in zip(b.strides, found, strict=True):
            if n is None:
                raise Unsupported(f"the strides of {b.name} are not known: {e}")
            if n < 0:
                raise Unsupported(f"{b.name} has a negative stride")
        return tuple([n for n in found if n is not None])

    def key(self) -> tuple[Any, ...]:
        """What the translation depends on."""
        return tuple(self.sizes.items()), tuple([a.shape for a in self.arrays.values()])


# ------------------------------------------------------------------------------------- running


class _Translation:
    """The Python source of a program for given sizes."""

    def __init__(self, func: PrimFunc, call: _Arguments, observed: bool) -> None:
        try:
            flat, origins = scalarized(func)
        except Unsupported as e:
            raise InterpretError(str(e)) from None
        c = self.compiler = Compiler(origins, call.sizes, observed)
        names = []
        for v in call.others:
            names.append(c.new_name("p"))
            c.var_text[v] = names[-1]
        try:
            for b, a in call.arrays.items():
                names.append(c.new_name("b"))
                shape = a.shape if b.rank == a.ndim else (a.size,)
                sizes = [str(n) for n in shape]
                steps = [str(n) for n in call.steps(b)] or dense_steps(sizes)
                c.storage[b] = Storage(names[-1], b.type, sizes, steps)
            c.given = set(call.arrays)
            with np.errstate(all="ignore"):  # constants are rounded
                c.stmt(flat.body)
        except (Unsupported, RecursionError) as e:
            raise InterpretError(_explained(func, c, str(e), len(c.places) - 1, {})) from None
        lines = "".join([f"    {line}\n" for line in c.suites[0] or ["pass"]])
        self.source = f"def run({', '.join(names)}):\n{lines}"
        self.file = f"<interpret {func.name}>"
        try:
            self.code = compile(self.source, self.file, "exec")
        except (SyntaxError, RecursionError, MemoryError) as e:
            raise InterpretError(f"{func.name}: too deeply nested to be interpreted: {e}") from None

    def place(self, line: int) -> int | None:
        """The place in the program that a line of the source belongs to."""
        lines = self.source.splitlines()
        indent = _indent(lines[line - 1])
        for text in reversed(lines[:line]):
            if text.lstrip().startswith("# ") and _indent(text) <= indent:
                return int(text.split("# ")[1])
        return None

    def fault(self, func: PrimFunc, e: Exception) -> InterpretError:
        """What went wrong, where, and in which iterations of the loops around."""
        place = e.place if isinstance(e, Fault) else None
        values: dict[str, Any] = {}
        trace: TracebackType | None = e.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.file:
                values.update(trace.tb_frame.f_locals)
                if not isinstance(e, Fault) or e.place is None:
                    place = self.place(trace.tb_lineno)
            trace = trace.tb_next
        return InterpretError(_explained(func, self.compiler, str(e), place, values))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _explained(
    func: PrimFunc, c: Compiler, message: str, number: int | None, values: Mapping[str, Any]
) -> str:
    """A message with the program, the place marked, and the iterations of the loops around it."""
    if number is None or number < 0:
        return f"{func.name}: {message}\n{script(func)}"
    place = c.places[number]
    loops = []
    for name, text in place.loops:
        if not any(word not in values for word in re.findall(r"[a-z]\w*", text)):
            loops.append(f"{name} = {eval(text, {}, dict(values))}")
    where = f", where {', '.join(loops)}" if loops else ""
    return f"{func.name}: {message}{where}\n{script(func, {place.stmt: 'here'})}"


_CACHE: weakref.WeakKeyDictionary[PrimFunc, dict[Any, _Translation]] = weakref.WeakKeyDictionary()


def _translated(func: PrimFunc, call: _Arguments, observed: bool) -> _Translation:
    """The Python source of a program for the sizes of a call."""
    known = _CACHE.setdefault(func, {})
    key = (observed, call.key())
    if key not in known:
        known[key] = _Translation(func, call, observed)
    return known[key]


def interpret(
    func: PrimFunc,
    *args: Any,
    order: Order = "forward",
    seed: int = 0,
    host: Mapping[str, Callable[..., Any]] | None = None,
    observer: Observer | None = None,
) -> None:
    """Run a program on numpy arrays (in place) and numbers, in the order of its parameters.

    Scalars may be left out altogether where the arrays' shapes tell them.
    order     of the iterations of parallel loops and of threads: "forward", "reverse" or "random"
              (`seed` chooses it); programs with races give other results
    host      what host intrinsics do, by name ("smelt.call_kernel", ...)
    observer  is told of every access, and of what may run at once

    The loops of kernels are bound to threads. Those of a block run in lock step: up to the next
    barrier, or, in a kernel without barriers, statement by statement where they use memory that
    they have in common. Memory of scope "shared" belongs to a block, "local" to a thread.
    """
    if order not in ORDERS:
        raise InterpretError(f"order is {order!r}; legal: {', '.join(ORDERS)}")
    call = _Arguments(func, args)
    made = _translated(func, call, observer is not None)
    c = made.compiler
    machine = Machine(order, seed, observer)
    memories = [_Memory(b, a, call.steps(b)) for b, a in call.arrays.items()]
    machine.observer.begin(c.places)
    for m in memories:
        machine.observer.memory(m.view, m.buffer, False)
    scope = {**c.names, **_runtime(c, machine, host or {})}
    exec(made.code, scope)
    try:
        with np.errstate(all="ignore"):
            scope["run"](*call.others.values(), *[m.view for m in memories])
    except (ArithmeticError, Fault, RecursionError) as e:
        raise made.fault(func, e) from None
    finally:
        for m in memories:
            m.give_back(func)


class _Memory:
    """A parameter's elements as the program sees them, and the array that they came from."""

    def __init__(self, buffer: Buffer, array: np.ndarray[Any, Any], steps: tuple[int, ...]) -> None:
        self.buffer, self.array = buffer, array
        if buffer.strides and array.ndim == buffer.rank:
            flat = np.zeros(memory_size(array.shape, steps), array.dtype)
            spread = [s * flat.itemsize for s in steps]
            self.copy = np.lib.stride_tricks.as_strided(flat, array.shape, spread)
            self.copy[...] = array
        else:
            self.copy = np.ascontiguousarray(array) if array.flags.writeable else array.copy()
            flat = self.copy.reshape(-1)
        self.view = _view(flat, buffer.type)

    def give_back(self, func: PrimFunc) -> None:
        """Put what the program stored in a copy into the caller's array."""
        if self.copy is self.array:
            return
        if self.array.flags.writeable:
            self.array[...] = self.copy.reshape(self.array.shape)
        elif self.copy.tobytes() != self.array.tobytes():
            raise InterpretError(
                f"{func.name} stores in {self.buffer.name}, whose array is read-only"
            )


def _view(flat: np.ndarray[Any, Any], dtype: str) -> memoryview:
    """An array's elements as Python numbers (or as raw bits, for types that Python lacks)."""
    table = codec(dtype)
    raw: Any = flat if table is None else flat.view(table[2])
    return memoryview(raw)


def _poisoned(dtype: str, count: int) -> memoryview:
    """Memory with contents that nobody should rely on."""
    poison = math.nan if dt.is_float(dtype) else min(0x5A, dt.limits(dtype)[1])
    return _view(np.full(max(count, 0), poison, dtype=dt.to_numpy(dtype)), dtype)


def _runtime(
    c: Compiler, machine: Machine, host: Mapping[str, Callable[..., Any]]
) -> dict[str, Any]:
    """The functions that the source calls besides arithmetic."""

    def fail(message: str, *values: Any) -> None:
        raise Fault(message.format(*values))

    def memory(which: int, count: int, common: bool) -> Any:
        b = c.buffers[which]
        data = c.constants.get(b)
        made = _poisoned(b.type, count) if data is None else _view(data.flatten(), b.type)
        machine.observer.memory(made, b, common)
        return made

    def call_host(op: str, *args: Any) -> Any:
        if op not in host:
            raise Fault(f"nobody says what {op} does; pass host={{{op!r}: ...}}")
        return host[op](*args)

    return {
        "R": array("f", [0.0]),  # rounds to float32
        "fail": fail,
        "arranged": machine.arranged,
        "launch": machine.launch,
        "new": lambda which, count: memory(which, count, False),
        "common": lambda which, count: machine.common(which, lambda: memory(which, count, True)),
        "constant": lambda which, count: memory(which, count, True),
        "host": call_host,
        "reads": machine.observer.reads,
        "writes": machine.observer.writes,
        "concurrent": machine.concurrent,
        "lanes": machine.lanes,
    }
