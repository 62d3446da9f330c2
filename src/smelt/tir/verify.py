"""The rules of tensor programs, checked: `verify(func)` after every pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import VerifyError
from smelt.ir.expr import (
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    TruncDiv,
    Var,
)

from .extern import ExternFunction
from .intrin.registry import Instruction
from .named_calls import NAMED_CALLS, name_of
from .nodes import (
    LOOP_KINDS,
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Reduce,
    Seq,
    Stmt,
    While,
    walk,
)
from .printer import script
from .script_ops import (
    DEVICE_INTRINSICS,
    EXTERN,
    INTRINSICS,
    PREFETCH,
    extern_call,
    locality,
    operands,
    place_of,
    shape_vars,
)
from .script_ops import HOST_INTRINSICS as HOST_INTRINSICS
from .threads import THREAD_AXES
from .verify_blocks import verify_blocks

SCOPES = ("global", "local", "shared", "constant")
"""Kinds of memory; more may follow behind a dot."""
_COMMUTING_TYPES = ("shift_left", "shift_right", "ldexp")


def verify(func: PrimFunc) -> PrimFunc:
    """Check the rules of a tensor program and return it; a VerifyError shows the culprit.

    Every variable and buffer is defined around its use, and once; names of loops, blocks and
    buffers are unique while the program has blocks; types of operands and stores agree; indices
    are as many as dimensions; flat programs vectorize and unroll loops of known extent only; the
    loops of a kernel that name one thread axis have one extent, and barriers stand in kernels; host
    programs call HOST_INTRINSICS and nothing else. What blocks declare covers what they do.
    """
    verifier = _Verifier(func)
    verifier.function()
    if verifier.has_blocks:
        verify_blocks(func, verifier.fail_at)
    return func


class _Verifier:
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.known: set[Var | Buffer] = set()
        self.constants: set[Buffer] = set()
        self.names: dict[tuple[str, str], object] = {}
        self.checked: set[Expr] = set()
        self.has_blocks = False
        self.kernel: dict[str, For] | None = None
        self.at: Any = func

    def fail(self, message: str, why: str = "here") -> NoReturn:
        """Raise a VerifyError with the program marked."""
        self.fail_at(message, {self.at: why})

    def fail_at(self, message: str, marks: Mapping[Any, str]) -> NoReturn:
        """Raise a VerifyError with several places marked."""
        raise VerifyError(f"{self.func.name}: {message}\n{script(self.func, marks)}")

    # --------------------------------------------------------------------------- functions

    def function(self) -> None:
        f = self.func
        self.has_blocks = isinstance(f.body, BlockRealize)
        for p in f.params:
            if p in self.known:
                self.fail(f"the parameter {p.name} stands twice in the signature")
            self.known.add(p)
            self.unique("buffer" if isinstance(p, Buffer) else "variable", p)
        self.known.update(shape_vars(f.params))
        for p in f.buffers:
            self.buffer(p)
        self.stmt(f.body)

    def unique(self, kind: str, node: Any, name: str | None = None) -> None:
        """While a program has blocks, names are handles: each belongs to one thing."""
        space = "block" if kind == "block" else "name"
        key = (space, name or node.name)
        other = self.names.setdefault(key, node)
        if self.has_blocks and other is not node:
            self.fail(
                f"the name {key[1]!r} belongs to two {'blocks' if space == 'block' else 'things'}",
                f"this {kind} is the second one",
            )

    @contextmanager
    def defined(self, *nodes: Var | Buffer) -> Iterator[None]:
        """Names that hold inside; each may be defined once at a time."""
        for n in nodes:
            if n in self.known:
                self.fail(f"{n.name} is defined again where it is defined already")
            self.known.add(n)
        try:
            yield
        finally:
            self.known.difference_update(nodes)
            self.checked.clear()

    def buffer(self, b: Buffer) -> None:
        """A buffer's own parts."""
        if b.scope.split(".")[0] not in SCOPES:
            self.fail(f"{b.name} has scope {b.scope!r}; known: {', '.join(SCOPES)}")
        if dt.lanes(b.type) != 1:
            self.fail(f"{b.name} holds {b.type}; buffers hold scalars")
        if b.strides and len(b.strides) != b.rank:
            self.fail(f"{b.name} has {b.rank} dimensions, but {len(b.strides)} strides")
        for e in (*b.shape, *b.strides):
            self.index(e, f"an extent of {b.name}")

    # -------------------------------------------------------------------------- statements

    def stmt(self, s: Stmt) -> None:
        if isinstance(s, Seq):
            for x in s.stmts:
                self.stmt(x)
            return
        self.at = s
        match s:
            case BufferStore():
                self.store(s)
            case Evaluate(Call(op=op) as value) if op == EXTERN:
                self.extern(s, value)
            case Evaluate(Call(op=op, args=(Call(args=(element,)) as at, *_)) as hint) if (
                op == PREFETCH and place_of(at) is not None and locality(hint) in (1, 2, 3)
            ):
                self.expr(element)
            case Evaluate(value):
                self.expr(value)
            case For():
                self.loop(s)
            case While(condition, body):
                self.condition(condition)
                self.stmt(body)
            case IfThenElse(condition, yes, no):
                self.mask(condition)
                self.stmt(yes)
                if no is not None:
                    self.stmt(no)
            case AssertStmt(condition):
                self.condition(condition)
            case LetStmt(var, value, body):
                self.typed(value, var.type, f"the value of {var.name}")
                with self.defined(var):
                    self.stmt(body)
            case Allocate(buffer, body):
                self.buffer(buffer)
                self.unique("buffer", buffer)
                with self.defined(buffer):
                    self.stmt(body)
            case AllocateConst(buffer, data, body):
                self.buffer(buffer)
                self.unique("buffer", buffer)
                self.elements(buffer, data)
                with self.defined(buffer):
                    self.stmt(body)
            case BlockRealize():
                self.realize(s)
            case _:
                self.fail(f"{type(s).__name__} is not a statement of tensor programs")

    def elements(self, b: Buffer, data: np.ndarray[Any, Any]) -> None:
        """The elements of a buffer that is never written."""
        shape, kind = b.fixed_shape(), dt.to_numpy(b.type)
        if shape != data.shape or kind != data.dtype or b.strides or not data.size:
            wanted = f"{b.type}[{', '.join(map(script, b.shape))}]"
            self.fail(f"{b.name} is {wanted}, dense; its data are {data.dtype}{list(data.shape)}")
        self.constants.add(b)

    def store(self, s: BufferStore) -> None:
        """buffer[indices] = value."""
        if s.buffer in self.constants:
            self.fail(f"{s.buffer.name} holds constants; nothing is stored there")
        self.access(s.buffer, s.indices)
        count = max([dt.lanes(i.dtype) for i in s.indices], default=1)
        self.typed(s.value, dt.vector(s.buffer.type, count), f"the value stored in {s.buffer.name}")

    def loop(self, s: For) -> None:
        """A loop's kind, bounds and variable."""
        if s.kind not in LOOP_KINDS:
            self.fail(f"{s.kind!r} is not a kind of loop; known: {', '.join(LOOP_KINDS)}")
        if (s.kind == "thread_binding") != (s.thread is not None):
            self.fail("a thread_binding loop, and no other, names its thread axis")
        if dt.lanes(s.var.type) != 1 or not dt.is_int(s.var.type):
            self.fail(f"the loop variable {s.var.name} is of type {s.var.type}")
        self.typed(s.min, s.var.type, f"the first value of {s.var.name}")
        self.typed(s.extent, s.var.type, f"the extent of {s.var.name}")
        if (
            not self.has_blocks
            and s.kind in ("vectorized", "unrolled")
            and not isinstance(s.extent, IntImm)
        ):
            self.fail(f"the {s.kind} loop {s.var.name} has no constant extent")
        if s.kind == "vectorized" and (
            calls := [x for x in walk(s.body) if extern_call(x) is not None]
        ):
            self.fail_at(
                "external functions have no vector form", {s: "vectorized", calls[0]: "here"}
            )
        self.unique("loop", s.var)
        outermost = s.thread is not None and self.kernel is None
        if s.thread is not None:
            self.thread_loop(s)
        with self.defined(s.var):
            self.stmt(s.body)
        if outermost:
            self.kernel = None

    def thread_loop(self, s: For) -> None:
        """A loop that is bound to an axis, on whose extent all loops of the kernel agree."""
        if s.thread not in THREAD_AXES:
            self.fail(f"there is no thread axis {s.thread!r}; known: {', '.join(THREAD_AXES)}")
        if self.kernel is None:
            self.kernel = {}
        first = self.kernel.setdefault(s.thread, s)
        a, b = first.extent, s.extent
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a is not b:
            self.fail_at(
                f"loops of one kernel give {s.thread} different extents: {a.value} and {b.value}",
                {first: f"{a.value} here", s: f"{b.value} here"},
            )

    def realize(self, s: BlockRealize) -> None:
        """A block and the values of its iteration variables."""
        b: Block = s.block
        if len(b.iter_vars) != len(s.values):
            self.fail(
                f"the block {b.name} has {len(b.iter_vars)} iteration variables, "
                f"{len(s.values)} values given"
            )
        self.unique("block", b, b.name)
        for it, value in zip(b.iter_vars, s.values, strict=True):
            if it.kind not in ("spatial", "reduce", "opaque"):
                self.fail(f"{it.var.name} is {it.kind!r}; known: spatial, reduce, opaque")
            self.typed(value, it.var.type, f"the value of {it.var.name}")
            self.typed(it.dom.min, it.var.type, f"the domain of {it.var.name}")
            self.typed(it.dom.extent, it.var.type, f"the domain of {it.var.name}")
            self.unique("iteration variable", it.var)
        self.condition(s.predicate)
        with self.defined(*[it.var for it in b.iter_vars]):
            for buffer in b.alloc_buffers:
                self.buffer(buffer)
                self.unique("buffer", buffer)
            with self.defined(*b.alloc_buffers):
                for r in (*b.reads, *b.writes):
                    if len(r.region) != r.buffer.rank:
                        self.fail(
                            f"{r.buffer.name} has {r.buffer.rank} dimensions, a region of it "
                            f"{len(r.region)} ranges"
                        )
                    for d in r.region:
                        self.index(d.min, f"a region of {r.buffer.name}")
                        self.index(d.extent, f"a region of {r.buffer.name}")
                for part in (b.init, b.body):
                    if part is not None:
                        self.stmt(part)

    # ------------------------------------------------------------------------- expressions

    def typed(self, e: Expr, expected: str, what: str) -> None:
        """An expression that must have a type."""
        self.expr(e)
        if e.dtype != expected:
            self.fail(
                f"{what} is of type {e.dtype}, expected {expected}", f"{e.dtype}, not {expected}"
            )

    def condition(self, e: Expr) -> None:
        """An expression that must be a truth value."""
        self.typed(e, "bool", "the condition")

    def mask(self, e: Expr) -> None:
        """A branch's condition; in a flat program it may be a vector, which masks stores."""
        lanes = 1 if self.has_blocks else dt.lanes(e.dtype)
        self.typed(e, dt.vector("bool", lanes), "the condition")

    def index(self, e: Expr, what: str) -> None:
        """An expression that must be an integer."""
        self.expr(e)
        if not dt.is_int(e.dtype):
            self.fail(f"{what} is of type {e.dtype}, expected an integer", f"{e.dtype}")

    def access(self, b: Buffer, indices: tuple[Expr, ...]) -> None:
        """A buffer in use: defined here, with as many indices as dimensions."""
        if b not in self.known:
            self.fail(f"the buffer {b.name} is used where it is neither a parameter nor allocated")
        if len(indices) != b.rank:
            self.fail(f"{b.name} has {b.rank} dimensions, {len(indices)} indices given")
        for i in indices:
            self.index(i, f"an index of {b.name}")

    def expr(self, root: Expr) -> None:
        """Every node of an expression, iteratively."""
        stack = [root]
        while stack:
            e = stack.pop()
            if e in self.checked:
                continue
            self.checked.add(e)
            stack.extend(operands(e))
            self.node(e)

    def node(self, e: Expr) -> None:
        """One node whose operands are checked elsewhere."""
        match e:
            case IntImm(kind, value):
                self.constant(kind, value)
            case Var() if e not in self.known:
                self.fail(f"the variable {e.name} is used where it is not defined")
            case And(a, b) | Or(a, b):
                if dt.kind(a.dtype) != "bool" or a.dtype != b.dtype:
                    self.fail(f"{e.symbol} joins {a.dtype} and {b.dtype}; it takes truth values")
            case Binary(a, b):
                if a.dtype != b.dtype:
                    self.fail(f"{e.symbol} joins {a.dtype} and {b.dtype}; operands have one type")
                if (isinstance(e, TruncDiv) and dt.is_float(a.dtype)) or (
                    isinstance(e, Div) and a.dtype == "bool"
                ):
                    self.fail(f"{e.symbol} does not divide values of {a.dtype}")
            case Not(a) if dt.kind(a.dtype) != "bool":
                self.fail(f"not stands before a value of {a.dtype}")
            case Select(c, a, b):
                self.choice("select", c, a, b)
            case Cast(kind, value) if dt.lanes(kind) != dt.lanes(value.dtype):
                self.fail(f"a conversion of {value.dtype} to {kind}: the lanes differ")
            case Call():
                self.call(e)
            case Ramp(base, stride, lanes):
                if base.dtype != stride.dtype or dt.lanes(base.dtype) != 1 or lanes < 2:
                    self.fail(f"a ramp from {base.dtype} by {stride.dtype} of {lanes} lanes")
            case Broadcast(value, lanes) if dt.lanes(value.dtype) != 1 or lanes < 2:
                self.fail(f"a broadcast of {value.dtype} to {lanes} lanes")
            case Shuffle(a, b, picked):
                total = dt.lanes(a.dtype) + dt.lanes(b.dtype)
                if dt.scalar(a.dtype) != dt.scalar(b.dtype) or not all(
                    0 <= i < total for i in picked
                ):
                    self.fail(f"a shuffle of {a.dtype} and {b.dtype} picks lanes {picked}")
            case BufferLoad(b, indices):
                self.access(b, indices)
            case Reduce():
                self.fail("a reduction stands in a program; only tensor expressions have them")
            case FloatImm(kind) if not dt.is_float(kind):
                self.fail(f"a floating-point constant of type {kind}")

    def extern(self, s: Evaluate, call: Call) -> None:
        """An external function: operands that fit what it means."""
        try:
            made = ExternFunction.called_by(s)
            places = [] if made is None else [g.place for g in made.given(call.args[1:])]
        except VerifyError as error:
            self.fail(str(error))
        for e in [*places, *[a for a in call.args[1:] if a.dtype != "handle"]]:
            self.expr(e)

    def constant(self, kind: str, value: int) -> None:
        """An integer constant that its type can hold."""
        if dt.is_float(kind):
            self.fail(f"the integer constant {value} has the type {kind}")
        low, high = dt.limits(kind)
        if kind != "handle" and not low <= value <= high:
            self.fail(f"{value} is not a value of {kind}")

    def choice(self, name: str, c: Expr, a: Expr, b: Expr) -> None:
        """select and if_then_else."""
        if dt.kind(c.dtype) != "bool" or dt.lanes(c.dtype) not in (1, dt.lanes(a.dtype)):
            self.fail(f"the condition of {name} is of type {c.dtype}, its values of {a.dtype}")
        if a.dtype != b.dtype:
            self.fail(f"{name} chooses between {a.dtype} and {b.dtype}; both have one type")

    def call(self, e: Call) -> None:
        """An intrinsic: known operands, one type among them."""
        if e.op in DEVICE_INTRINSICS:
            if self.kernel is None:
                self.fail(f"{e.op} stands outside of all loops that are bound to threads")
        elif e.op == EXTERN:
            self.fail("T.call_extern stands in an expression; it is a statement")
        elif e.op.startswith("smelt.") and e.op not in HOST_INTRINSICS:
            self.fail(f"{e.op} is not a host intrinsic; known: {', '.join(HOST_INTRINSICS)}")
        if e.op in NAMED_CALLS:
            self.named_call(e)
        if e.op not in INTRINSICS:
            return
        if len(e.args) != INTRINSICS[e.op].arity:
            self.fail(f"{e.op} takes {INTRINSICS[e.op].arity} operands, {len(e.args)} given")
        if e.op == "if_then_else":
            self.choice(e.op, *e.args)
            if e.type != e.args[1].dtype:
                self.fail(f"if_then_else is of type {e.type}, its values of {e.args[1].dtype}")
        elif e.op not in _COMMUTING_TYPES and len({a.dtype for a in e.args}) > 1:
            self.fail(
                f"{e.op} joins {' and '.join([a.dtype for a in e.args])}; operands have one type"
            )
        if any(isinstance(a, StringImm) for a in e.args):
            self.fail(f"{e.op} does not take texts")

    def named_call(self, e: Call) -> None:
        """An instruction or an LLVM intrinsic: a name, then operands of its types."""
        name = name_of(e)
        if not name:
            self.fail(f"the first operand of {e.op} is no text: the name of what is called")
        if e.op != "call_instruction" and not name.startswith("llvm."):
            self.fail(f"{name!r} is not the name of an LLVM intrinsic; they begin with llvm.")
        try:
            instruction = Instruction.called_by(e)
        except VerifyError as error:
            self.fail(str(error))
        wrong = None if instruction is None else instruction.complaint(e.type, e.args[1:])
        if wrong is not None:
            self.fail(wrong)
