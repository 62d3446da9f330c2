"""Statements of the interpreter: each becomes Python source.

A line `# 7` before a statement's source leads from an exception back to place 7 of the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import is_const
from smelt.ir.errors import Unsupported
from smelt.ir.expr import Call, Expr, Var

from . import interpret_expr, nodes, threads
from .extern import ExternFunction
from .interpret_lanes import scalarize
from .interpret_math import codec, memory_size
from .script_ops import PREFETCH

_MAX_NESTING = 15  # CPython refuses more than 20 nested loops in one function
_EFFECTS_WITHOUT_MEANING = (PREFETCH, "assume")


class Location(NamedTuple):
    """A statement, and the loops around it: their names and Python expressions."""

    stmt: nodes.Stmt
    loops: tuple[tuple[str, str], ...]


@dataclass
class _Kernel:
    """The kernel that is being translated.

    places    the Python name of the place in each axis
    strict    whether it has barriers of its own
    communal  buffers that the threads of a block have in common
    position  how far a thread is: numbers of loops and their iterations, outermost first
    in_turn   whether one thread at a time does what is being translated
    """

    places: dict[str, str]
    strict: bool
    communal: set[nodes.Buffer]
    collective: set[nodes.BlockRealize]
    position: list[str] = field(default_factory=list)
    in_turn: bool = False


class Compiler(interpret_expr.ExprEmitter):
    """Translates one program, for given sizes, to the source of a Python function.

    origins   the statements that the program's stand for (see `scalarized`)
    sizes     what is known of symbolic sizes
    observed  whether every access is reported
    """

    def __init__(
        self,
        origins: Mapping[nodes.Stmt, nodes.Stmt],
        sizes: Mapping[Var, int],
        observed: bool = False,
    ) -> None:
        """Begin with the floats that Python has no literals for."""
        super().__init__()
        self.origins, self.sizes, self.observed = origins, sizes, observed
        self.var_text.update({v: str(n) for v, n in sizes.items()})
        self.nesting = self.yields = 0
        self.places: list[Location] = []
        self.around: list[tuple[str, str]] = []
        self.buffers: list[nodes.Buffer] = []
        self.constants: dict[nodes.Buffer, np.ndarray[Any, Any]] = {}
        self.given: set[nodes.Buffer] = set()
        self.kernel: _Kernel | None = None
        self.names.update(inf=math.inf, nan=math.nan)

    def mark(self, s: nodes.Stmt) -> None:
        """Begin a statement: its place, and a line in the source that leads to it."""
        origin = self.origins.get(s) if self.origins else s
        if origin is None:
            origin = self.places[-1].stmt if self.places else s
        self.place = len(self.places)
        self.places.append(Location(origin, tuple(self.around)))
        self.emit(f"# {self.place}")

    # -------------------------------------------------------------------------- statements

    def stmt(self, s: nodes.Stmt) -> None:
        """Write the source of one statement."""
        if isinstance(s, nodes.Seq):
            for x in s.stmts:
                self.stmt(x)
            return
        self.mark(s)
        self.memo = {}
        if self.kernel is not None and not isinstance(s, nodes.While):
            self.meet(s)
        match s:
            case nodes.BufferStore():
                self.store(s)
            case nodes.For():
                self.loop(s)
            case nodes.While():
                self.repeat(s)
            case nodes.IfThenElse(condition, yes, no):
                self.branch(condition, yes, no)
            case nodes.LetStmt(var, value, body):
                self.var_text[var] = self.named(value)
                self.stmt(body)
            case nodes.AssertStmt(condition, message):
                self.require(self.value(condition), "assertion failed: {}", repr(message))
            case nodes.Allocate(buffer, body):
                self.allocate(buffer)
                self.stmt(body)
            case nodes.AllocateConst(buffer, data, body):
                self.constants[buffer] = data
                self.allocate(buffer, "constant")
                self.stmt(body)
            case nodes.Evaluate():
                self.effect(s)
            case nodes.BlockRealize():
                self.realize(s)
            case _:
                raise Unsupported(f"the interpreter does not know the statement {type(s).__name__}")

    def store(self, s: nodes.BufferStore) -> None:
        """buffer[indices] = value."""
        if s.value.dtype != self.kept(s.buffer).dtype:
            raise Unsupported(
                f"a value of {s.value.dtype} is stored in {s.buffer.name}, which holds "
                f"{s.buffer.type}"
            )
        value = self.value(s.value)
        own, at = self.element(s.buffer, s.indices)
        coded = codec(own.dtype)
        if coded is not None:
            value = self.called(coded[1], value, name=f"encode_{own.dtype}")
        self.emit(f"{own.name}[{at}] = {value}")
        if self.observed:
            index = self.index_tuple(s.indices)
            self.emit(f"writes({self.place}, {own.name}, {at}, {index})")

    def effect(self, s: nodes.Evaluate) -> None:
        """An intrinsic called for its effect."""
        scope, made = threads.barrier_scope(s), ExternFunction.called_by(s)
        if scope is not None:
            self.barrier(scope)
        elif made is not None:
            self.extern(made, s.value)
        elif getattr(s.value, "op", None) not in _EFFECTS_WITHOUT_MEANING:
            self.emit(self.value(s.value))

    def extern(self, made: ExternFunction, call: Expr) -> None:
        """An external function: what it means, on the memory that it is given."""
        assert isinstance(call, Call)
        for p, a in zip(made.meaning.params, call.args[1:], strict=True):
            if isinstance(p, Var):
                self.var_text[p] = self.named(a)
        given = made.given(call.args[1:])
        for p, (place, *_) in zip(made.meaning.buffers, given, strict=True):
            own, at = self.element(place.buffer, place.indices)
            shape, steps = self.layout(p)
            start = self.keep(at)
            ways = [f"({n} - 1) * {s}" for n, s in zip(shape, steps, strict=True)]
            last, size = " + ".join([start, *ways]), f"len({own.name})"
            message = f"{p.name} of {made.name} ends at {place.buffer.name}'s element {{}} of {{}}"
            self.require(f"{last} < {size}", message, last, size)
            self.storage[p] = interpret_expr.Storage(own.name, own.dtype, shape, steps, start)
        self.stmt(scalarize(made.meaning).body)

    def branch(self, condition: Expr, yes: nodes.Stmt, no: nodes.Stmt | None) -> None:
        """if condition: yes else: no."""
        test = self.value(condition)
        for header, body in ((f"if {test}:", yes), ("else:", no)):
            if body is not None:
                with self.suite() as lines:
                    self.stmt(body)
                self.nest(header, lines)

    def allocate(self, buffer: nodes.Buffer, made: str = "") -> None:
        """A buffer with contents that nobody should rely on, or made by a function of its own."""
        shape, steps = self.layout(buffer)
        if any((interpret_expr.number_in(n) or 0) < 0 for n in steps):
            raise Unsupported(f"{buffer.name} has a negative stride")
        own = interpret_expr.Storage(self.new_name("b"), buffer.type, shape, steps)
        self.storage[buffer] = own
        self.buffers.append(buffer)
        if not made:
            made = "common" if self.kernel and buffer in self.kernel.communal else "new"
        count = self.called(
            memory_size, interpret_expr.tuple_text(shape), interpret_expr.tuple_text(steps)
        )
        self.emit(f"{own.name} = {made}({len(self.buffers) - 1}, {count})")

    def layout(self, buffer: nodes.Buffer) -> tuple[list[str], list[str]]:
        """Extents and strides."""
        shape = [self.size(e) for e in buffer.shape]
        return shape, [self.size(e) for e in buffer.strides] or interpret_expr.dense_steps(shape)

    def size(self, e: Expr) -> str:
        """An extent or stride, as a number where it is known."""
        n = interpret_expr.known_number(e, self.sizes)
        return self.named(e) if n is None else str(n)

    # ------------------------------------------------------------------------------- loops

    @contextmanager
    def inside(self, name: str, text: str) -> Iterator[None]:
        """In the body of a loop, whose variable has the Python expression `text`."""
        self.around.append((name, text))
        self.nesting += 1
        if self.kernel is not None:
            self.kernel.position.append(f"{self.place}, {text}, ")
        yield
        self.around.pop()
        self.nesting -= 1
        if self.kernel is not None:
            self.kernel.position.pop()

    def loop(self, s: nodes.For) -> None:
        """A loop; one of a single iteration is only a name."""
        if s.kind == "thread_binding":
            if self.kernel is None:
                self.launch(s)
            else:
                self.thread_loop(s)
            return
        low = self.named(s.min)
        if is_const(s.extent, 1):
            self.var_text[s.var] = low
            with self.inside(s.var.name, low):
                self.stmt(s.body)
            return
        span = f"{low}, {self.end(s, low)}"
        free = s.kind == "parallel" and self.kernel is None
        over = f"arranged(range({span}))" if free else f"range({span})"
        if self.observed and s.kind in ("parallel", "vectorized"):
            over = f"{'concurrent' if free else 'lanes'}({self.place}, {span})"
        if self.nesting >= _MAX_NESTING:
            self.outlined(s, over)
        else:
            self.plain_loop(s, over)

    def end(self, s: nodes.For, low: str) -> str:
        """Where a loop ends, which its variable has to be able to come to."""
        extent, top = self.value(s.extent), dt.limits(s.var.type)[1] + 1
        a, b = interpret_expr.number_in(low), interpret_expr.number_in(extent)
        if a is not None and b is not None and a + b <= top:
            return str(a + b)
        end = self.keep(f"{low} + {extent}")
        message = f"the loop {s.var.name} over {{}} ... {{}} leaves the values of {s.var.type}"
        self.require(f"{end} <= {top}", message, low, f"{end} - 1")
        return end

    def plain_loop(self, s: nodes.For, over: str) -> None:
        """for i in range(...): body."""
        name = self.new_name("i")
        with self.suite() as lines, self.inside(s.var.name, name):
            self.var_text[s.var] = name
            self.stmt(s.body)
        self.nest(f"for {name} in {over}:", lines)

    def outlined(self, s: nodes.For, over: str) -> None:
        """A loop in a function of its own, where Python allows no deeper nesting."""
        name, nesting, yields = self.new_name("f"), self.nesting, self.yields
        with self.suite() as lines:
            self.nesting = 0
            self.plain_loop(s, over)
            self.nesting = nesting
        self.nest(f"def {name}():", lines)
        self.emit(f"{name}()" if self.yields == yields else f"yield from {name}()")

    def repeat(self, s: nodes.While) -> None:
        """while condition: body."""
        count = self.new_name("n")
        if self.kernel is not None:
            self.emit(f"{count} = 0")
        with self.suite() as lines, self.inside("turn", count):
            if self.kernel is not None:
                self.meet(s)
            self.emit(f"if not {self.value(s.condition)}: break")
            self.stmt(s.body)
            if self.kernel is not None:
                self.emit(f"{count} += 1")
        self.nest("while True:", lines)

    # ----------------------------------------------------------------------------- threads

    def launch(self, s: nodes.For) -> None:
        """A kernel: a function of the places in its axes, called for every thread."""
        axes = threads.thread_axes(s)
        extents = [self.axis(axis, loops) for axis, loops in axes.items()]
        name, nesting, place = self.new_name("kernel"), self.nesting, self.place
        names = {axis: self.new_name("p") for axis in axes}
        storage, around = dict(self.storage), len(self.around)
        with self.suite() as lines:
            self.nesting = 0
            strict = any(threads.barrier_scope(x) is not None for x in nodes.walk(s))
            self.kernel = _Kernel(
                names, strict, threads.communal_buffers(s), set(threads.collective_blocks(s))
            )
            if strict and self.kernel.collective:
                raise Unsupported(
                    "a reduction over threads stands in a kernel that has barriers of its own"
                )
            self.around += names.items()
            for b in self.own_buffers(s):
                self.allocate(b)
            self.thread_loop(s)
            del self.around[around:]
            self.kernel, self.nesting = None, nesting
        self.storage = storage
        self.nest(f"def {name}({', '.join(names.values())}):", lines)
        items = ", ".join([f"({a!r}, {e})" for a, e in zip(axes, extents, strict=True)])
        self.emit(f"launch({place}, {name}, {strict}, [{items}])")

    def axis(self, axis: str, loops: list[nodes.For]) -> str:
        """The extent of an axis, on which all its loops agree."""
        first = self.value(loops[0].extent)
        for other in loops[1:]:
            extent = self.value(other.extent)
            if extent == first:
                continue
            if None not in map(interpret_expr.number_in, (first, extent)):
                raise Unsupported(
                    f"{axis} has the extent {first} in the loop {loops[0].var.name}, and "
                    f"{extent} in the loop {other.var.name}"
                )
            message = f"{axis} has the extent {{}} in one loop, and {{}} in another"
            self.require(f"{first} == {extent}", message, first, extent)
        return first

    def own_buffers(self, s: nodes.For) -> list[nodes.Buffer]:
        """Buffers from outside of a kernel of which each thread, or each block, has its own."""
        used: dict[nodes.Buffer, None] = {}
        for x in nodes.walk(s):
            used.update(dict.fromkeys(sorted(threads.touched_buffers(x), key=lambda b: b.name)))
        own = [b for b in used if threads.is_shared(b) or b.scope.startswith("local")]
        return [b for b in own if b in self.storage and b not in self.given]

    def thread_loop(self, s: nodes.For) -> None:
        """A loop of a kernel: one iteration, the thread's own."""
        assert self.kernel is not None
        if str(s.thread) not in self.kernel.places:
            raise Unsupported(f"the loop {s.var.name} is bound to no axis")
        own = self.kernel.places[str(s.thread)]
        if not is_const(s.min, 0):
            own = self.wrapped(f"({self.value(s.min)} + {own})", s.var.type)
        self.var_text[s.var] = own
        self.stmt(s.body)

    def meet(self, s: nodes.Stmt) -> None:
        """Where threads have memory in common, all do one statement before any does the next.

        Kernels that have barriers are taken at their word instead.
        """
        kernel = self.kernel
        assert kernel is not None
        if not (kernel.strict or kernel.in_turn) and threads.touched_buffers(s) & kernel.communal:
            self.wait()

    def wait(self, in_turn: bool = False) -> None:
        """Let the other threads of the block come as far; then all go on, or one after another."""
        assert self.kernel is not None
        self.yields += 1
        here = "".join(self.kernel.position)
        self.emit(f"yield ({here}{self.place},), {in_turn}")

    def barrier(self, scope: str) -> None:
        """A barrier."""
        if self.kernel is None:
            raise Unsupported("a barrier stands outside of all kernels")
        if scope.split(".")[0] != "shared":
            raise Unsupported(f'a barrier for {scope!r} memory; the interpreter knows "shared"')
        self.wait()

    # ------------------------------------------------------------------------------ blocks

    def realize(self, s: nodes.BlockRealize) -> None:
        """A block for the iteration that the loops around give, where its predicate holds."""
        kernel = self.kernel
        collective = kernel is not None and s in kernel.collective
        if kernel is not None and collective:
            self.wait(in_turn=True)
            kernel.in_turn = True
        test = self.value(s.predicate)
        with self.suite() as lines:
            self.block(s)
        self.nest(f"if {test}:", lines)
        if kernel is not None and collective:
            kernel.in_turn = False

    def block(self, s: nodes.BlockRealize) -> None:
        """Iteration variables, buffers, init where the reduction begins, body."""
        first: list[str] = []
        for it, value in zip(s.block.iter_vars, s.values, strict=True):
            at = self.named(value)
            low, extent = self.named(it.dom.min), self.named(it.dom.extent)
            self.require(
                f"{low} <= {at} < {low} + {extent}",
                f"{it.var.name} = {{}} is outside of its domain, {{}} ... {{}}",
                *(at, low, f"{low} + {extent} - 1"),
            )
            self.var_text[it.var] = at
            if it.kind == "reduce":
                first.append(f"{at} == {low}")
        for b in s.block.alloc_buffers:
            self.allocate(b)
        if s.block.init is not None:
            with self.suite() as lines:
                self.stmt(s.block.init)
            self.nest(f"if {' and '.join(first) or True}:", lines)
        self.stmt(s.block.body)
