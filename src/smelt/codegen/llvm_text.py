"""LLVM IR as text from flat tensor programs.

The IR comes out well-formed and nearly optimal, so that LLVM's optimisation pipeline is skipped:
every pure expression is emitted once, in the outermost scope where its variables are known
(loop-invariant code motion and common subexpressions by construction); an address is a chain of
steps, outermost loop first, with the constant last, where it folds into the instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from smelt.ir import dtype as dt
from smelt.ir.errors import InternalError
from smelt.ir.expr import (
    Binary,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Mul,
    Select,
    StringImm,
    Var,
    cast,
)
from smelt.runtime.abi import HOST, SERVICES, Status, Struct
from smelt.target import Target
from smelt.tir import nodes as tir
from smelt.tir.named_calls import NAMED_CALLS
from smelt.tir.script_ops import EXTERN, PREFETCH, locality, place_of

from .llvm_emitter import LoopScope, ModuleText
from .llvm_memory import MemoryOps
from .llvm_turns import is_straight, turns_of, written, written_out
from .llvm_types import float_literal, llvm_type, mem_type

_CHAIN = 80
"""Levels of operations on operations on ... that are emitted by one recursion."""

_EXPANSION = 30
"""Levels of a function that is written out as arithmetic."""


ENTRY = "smelt_entry"
"""The function that smelt.h calls a model's entry."""

REUSE = 64
"""Loaded values remembered at a time: more would not stay in registers anyway."""


def emit_module(
    funcs: Iterable[tir.PrimFunc], target: Target | None = None, entry: bool = False
) -> str:
    """The IR text of a module holding some flat programs, one exported function each.

    target  whose pointers and instructions to count on; None: a 64-bit machine that lacks none
    entry   whether the first one can be called as smelt.h has a model's entry, too: ENTRY
    """
    module = ModuleText(target)
    for n, f in enumerate(funcs):
        FunctionText(module, f.name, f.params).finish(f.body, plain=bool(f.attrs.get("plain")))
        if entry and n == 0:
            kinds = ["ptr" if isinstance(p, tir.Buffer) else llvm_type(p.dtype) for p in f.params]
            module.functions.append(entry_text(f.name, kinds))
    return module.text()


def entry_text(name: str, kinds: Sequence[str]) -> str:
    """ENTRY as a call of a function, whose parameters have these types behind the host:
    pointers are the tensors, integers the sizes, both in order."""
    lines, arguments, count = [], ["ptr %host"], {"tensors": 0, "sizes": 0}
    for n, kind in enumerate(kinds):
        table, item = ("tensors", "ptr") if kind == "ptr" else ("sizes", "i64")
        lines += [f"%at{n} = getelementptr {item}, ptr %{table}, i64 {count[table]}",
                  f"%whole{n} = load {item}, ptr %at{n}"]  # fmt: skip
        count[table] += 1
        narrow = kind not in ("ptr", "i64")
        if narrow:
            lines.append(f"%narrow{n} = trunc i64 %whole{n} to {kind}")
        arguments.append(f"{kind} %{'narrow' if narrow else 'whole'}{n}")
    body = "\n".join(lines)
    return f"""define i32 @{ENTRY}(ptr %host, ptr %tensors, ptr %sizes, ptr %weights, ptr %space) {{
{body}
%status = call i32 @"{name}"({", ".join(arguments)}) noinline
ret i32 %status
}}"""


class FunctionText(MemoryOps):
    """One function. Parameters: the host services, then buffers and scalars in order."""

    def finish(self, body: tir.Stmt, plain: bool = False) -> None:
        """Emit the body and put the function into the module; a plain one takes no host."""
        self.stmt(body)
        params = [] if plain else ["ptr %host"]
        for i, p in enumerate(self.params):
            if isinstance(p, tir.Buffer):
                params.append(f"ptr noalias %p{i}")
            else:
                params.append(f"{llvm_type(p.dtype)} %s{i}")
        linkage = "internal " if self.in_task else ""
        text = [
            f'define {linkage}i32 @"{self.name}"({", ".join(params)}) #0 {{',
            "entry:",
            *self.allocas,
            *self.scopes[0].lines,
            "ret i32 0",
            "}",
        ]
        self.module.functions.append("\n".join(text))
        self.module.defined.add(f'@"{self.name}"')

    # ------------------------------------------------------------------------------ values

    def value(self, e: Expr) -> str:
        """The name or literal of an expression's value, emitted where it belongs."""
        if isinstance(e, IntImm):
            return str(e.value) if e.type != "bool" else ("true" if e.value else "false")
        if isinstance(e, Var):
            self.depth(e)
            return self.names[e]
        if isinstance(e, FloatImm):
            return float_literal(e.type, e.value)
        if e not in self.has_load:
            self._long_chain(e)
        if self._has_load(e):
            return self._value_of_load(e)
        depth = self.depth(e)
        known = self.scopes[depth].values
        found = known.get(e)
        if found is None:
            outer, self.at = self.at, depth
            found = known[e] = self.operation(e)
            self.at = outer
        return found

    def _long_chain(self, e: Expr) -> None:
        """Emit a long chain of operations from its inner end, so that Python's stack stays low."""
        links: list[Expr] = []
        levels = 0
        inner: Expr | None = e
        while inner is not None and inner not in self.has_load:
            if levels >= _CHAIN:
                links.append(inner)
                levels = 0
            levels += _EXPANSION if isinstance(inner, Call) and inner.op != "fma" else 1
            inner = _spine(inner)
        for link in reversed(links):
            self.value(link)

    def _value_of_load(self, e: Expr) -> str:
        """A value that depends on memory: cached in the innermost scope until a store."""
        key = (e, self.guard)
        found = self.scope.loads.get(key)
        if found is None:
            before, outer, self.at = self.effects, self.at, -1
            found = self.load(e) if isinstance(e, tir.BufferLoad) else self.operation(e)
            self.at = outer
            if self.effects > before:
                return found  # it has to happen again where it stands again
            known = self.scope.loads
            known[key] = found
            self.remember(key)
            if len(known) > REUSE:
                del known[next(iter(known))]
        return found

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: tir.Stmt) -> None:
        """Emit a statement."""
        match s:
            case tir.Seq(stmts):
                for x in stmts:
                    self.stmt(x)
            case tir.BufferStore():
                self.store(s)
            case tir.For():
                self.loop(s)
            case tir.IfThenElse():
                self.branch(s)
            case tir.Allocate():
                self.allocate(s)
            case tir.AllocateConst(buffer, data, body):
                self.names[buffer], self.depths[buffer] = self.module.constant(data), 0
                self.stmt(body)
            case tir.LetStmt(var, value, body):
                self.names[var], self.depths[var] = self.value(value), len(self.scopes) - 1
                self.stmt(body)
            case tir.Evaluate(value):
                self.evaluate(value)
            case tir.While(condition, body):
                self.while_loop(condition, body)
            case tir.AssertStmt(condition, _):
                self.check(self.value(condition))
            case _:
                raise InternalError(f"{self.name}: no code for the statement {type(s).__name__}")

    def check(self, condition: str, status: str = f"{Status.BAD_SHAPE:d}") -> None:
        """Leave the function with a status where the condition is false; programs assert shapes."""
        good, bad = self.labels(2)
        self.line(f"br i1 {condition}, label %{good}, label %{bad}", f"{bad}:")
        self.line(f"ret i32 {status}", f"{good}:")

    def loop(self, s: tir.For) -> None:
        """A loop; an outermost parallel one becomes a task function."""
        once = isinstance(s.extent, IntImm) and s.extent.value == 1
        if s.kind == "parallel" and not self.in_task and not once:
            self.parallel(s)
            return
        low, extent = self.value(s.min), self.value(s.extent)
        if isinstance(s.min, IntImm) and once:
            self.names[s.var], self.depths[s.var] = low, len(self.scopes) - 1
            self.stmt(s.body)
            return
        name = self.fresh("i")
        self.names[s.var], self.depths[s.var] = name, len(self.scopes)
        scope = self.nested(s.body)
        self._serial(s, scope.lines, [(name, low, 1), *self._steps(s, scope)], extent)
        self._after(s.body)

    def _serial(
        self, s: tir.For, body: list[str], moving: list[tuple[str, str, int]], extent: str
    ) -> None:
        """The blocks of a loop.

        moving  what changes from turn to turn: its name, where it starts, how far it goes; the
                loop's variable first
        """
        kind, registers = llvm_type(s.var.type), self.module.picking_registers
        # Where registers are few, or endless to LLVM (WebAssembly: it puts what belongs to one
        # accumulator side by side, and engines keep that), operands of several turns do not fit.
        crowded = self.module.vector_bytes <= _SCALAR or self.module.arch == "wasm"
        once = 1 if crowded else turns_of(s, body, registers)
        high = self.value(s.min + s.extent)
        sign = "u" if dt.kind(s.var.type) == "uint" else "s"
        pre, head, latch, done = self.labels(4)
        again, (name, _, _) = self.fresh(), moving[0]
        parent = self.scope.lines
        parent += [f"br label %{pre}", f"{pre}:", _OWN_BLOCK]
        if isinstance(s.extent, IntImm) and s.extent.value > 0:
            parent += [f"br label %{head}"]
        else:
            some = self.fresh()
            parent += [
                f"{some} = icmp {sign}gt {kind} {extent}, 0",
                f"br i1 {some}, label %{head}, label %{done}",
            ]
        up = "nuw nsw" if isinstance(s.min, IntImm) and s.min.value >= 0 else f"n{sign}w"
        less = f"{sign}lt"
        if dt.width(s.var.type) < 32:  # the end may be one more than the type holds
            up, less = "", "ne"
        parent += [f"{head}:"]
        parent += [f"{x} = phi {kind} [ {at}, %{pre} ], [ {x}.n, %{latch} ]" for x, at, _ in moving]
        parent += written_out(body, moving, kind, once, registers)
        parent += [f"br label %{latch}", f"{latch}:"]
        parent += [f"{x}.n = add {kind} {x}, {once * size}" for x, _, size in moving[1:]]
        parent += [
            f"{name}.n = add {up} {kind} {name}, {once}",
            f"{again} = icmp {less} {kind} {name}.n, {high}",
            f"br i1 {again}, label %{head}, label %{done}",
            f"{done}:",
        ]

    def _steps(self, s: tir.For, scope: LoopScope) -> list[tuple[str, str, int]]:
        """Multiples of an innermost loop's variable, which move with it instead of being computed:
        their names, where they start, how far they go each time."""
        if not is_straight(scope.lines):
            return []
        found = []
        for e, name in scope.values.items():
            if isinstance(e, Mul) and e.a is s.var and isinstance(e.b, IntImm):
                size = e.b.value
                made = f"{name} = mul {llvm_type(e.dtype)} {self.names[s.var]}, {size}"
                if size not in _SCALES and made in scope.lines:
                    scope.lines.remove(made)
                    found.append((name, self.value(s.min * size), size))
        return found

    def nested(self, body: tir.Stmt) -> LoopScope:
        """What a statement emits in a scope of its own."""
        self.scopes.append(LoopScope())
        self.stmt(body)
        return self.scopes.pop()

    def _after(self, body: tir.Stmt) -> None:
        """Forget loads of what a nested statement wrote."""
        for buffer in written(body):
            self._forget(buffer)

    def branch(self, s: tir.IfThenElse) -> None:
        """A branch; a vector condition masks the stores below it."""
        if dt.lanes(s.condition.dtype) > 1:
            self.masked(s)
            return
        condition = self.value(s.condition)
        yes, no, done = self.labels(3)
        first = self.nested(s.then_body).lines
        second = [] if s.else_body is None else self.nested(s.else_body).lines
        self.scope.lines += [
            f"br i1 {condition}, label %{yes}, label %{no}",
            f"{yes}:",
            *first,
            f"br label %{done}",
            f"{no}:",
            *second,
            f"br label %{done}",
            f"{done}:",
        ]
        self._after(s)

    def masked(self, s: tir.IfThenElse) -> None:
        """Statements under a vector condition: stores are masked, loads guarded."""
        condition = self.value(s.condition)
        lanes = dt.lanes(s.condition.dtype)
        outer = self.mask, self.guard, self.guard_lanes
        for stmt, negated in ((s.then_body, False), (s.else_body, True)):
            if stmt is None:
                continue
            bits = condition
            if negated:
                bits = self.assign(f"xor <{lanes} x i1> {condition}, splat (i1 true)")
            if outer[0] is not None:
                bits = self.assign(f"and <{lanes} x i1> {outer[0]}, {bits}")
            self.mask, self.guard, self.guard_lanes = bits, bits, lanes
            self.stmt(stmt)
            self.mask, self.guard, self.guard_lanes = outer

    def while_loop(self, condition: Expr, body: tir.Stmt) -> None:
        """A loop on a condition that is evaluated before each iteration."""
        head, inside, done = self.labels(3)
        self.line(f"br label %{head}", f"{head}:")
        self.scopes.append(LoopScope())
        test = self.value(condition)
        lines = self.scopes.pop().lines
        self.scope.lines += [*lines, f"br i1 {test}, label %{inside}, label %{done}", f"{inside}:"]
        self.scope.lines += [*self.nested(body).lines, f"br label %{head}", f"{done}:"]
        self._after(body)

    def allocate(self, s: tir.Allocate) -> None:
        """A buffer on the stack, in the entry block; registers where all indices are constants."""
        shape = s.buffer.fixed_shape()
        if shape is None:
            raise InternalError(
                f"{self.name}: the size of {s.buffer.name} is not known at compile time"
            )
        name = self.fresh("a")
        self.allocas.append(
            f"{name} = alloca [{prod(shape)} x {mem_type(s.buffer.type)}], align 64"
        )
        self.names[s.buffer], self.depths[s.buffer] = name, 0
        self.stmt(s.body)

    # ------------------------------------------------------------------------------ parallel

    def parallel(self, s: tir.For) -> None:
        """Outline the body as a task: `host->parallel_for(pool, task, closure, extent)`."""
        params = sorted(_captured(s), key=lambda c: isinstance(c, Var))  # buffers first
        index = Var("task")
        body: tir.Stmt = tir.LetStmt(s.var, s.min + cast(s.var.type, index), s.body)
        name = f"{self.name}.{self.fresh('task')[1:]}"
        FunctionText(self.module, name + ".body", [*params, index], in_task=True).finish(body)
        kinds = ["ptr" if isinstance(p, tir.Buffer) else llvm_type(p.dtype) for p in params]
        fields = ["ptr", *kinds]
        self.module.functions.append(_unpack(name, fields))
        kind = "{ " + ", ".join(fields) + " }"
        closure = self.fresh("c")
        self.allocas.append(f"{closure} = alloca {kind}, align 16")
        held = ["%host", *[self.names[p] for p in params]]
        for i, (field, v) in enumerate(zip(fields, held, strict=True)):
            slot = self.assign(f"getelementptr inbounds {kind}, ptr {closure}, i32 0, i32 {i}")
            self.line(f"store {field} {v}, ptr {slot}")
        pool, run = self.from_host("pool"), self.from_host("parallel_for")
        count = self.value(cast(index.type, s.extent))
        status = self.assign(
            f'call i32 {run}(ptr {pool}, ptr @"{name}", ptr {closure}, i64 {count})'
        )
        self.succeed(status)
        self._after(s.body)

    # ------------------------------------------------------------------------------ effects

    def evaluate(self, e: Expr) -> None:
        """An intrinsic called for its effect."""
        if isinstance(e, IntImm):
            return
        if not isinstance(e, Call):
            raise InternalError(f"{self.name}: an expression without effect is evaluated")
        if e.op == EXTERN:
            self.call_named(e)
        elif e.op in ("smelt.call_kernel", "smelt.call_packed"):
            call = self.call_named if isinstance(e.args[0], StringImm) else self.call_packed
            call(e)
        elif e.op == "smelt.probe":
            self.probe(e)
        elif e.op.removeprefix("smelt.") in SERVICES.fields:
            self.service(e)
        elif e.op in NAMED_CALLS:
            self.named_call(e)
        elif e.op == PREFETCH:
            self.prefetch(e)
        else:
            raise InternalError(f"{self.name}: no code for the intrinsic {e.op}")

    def prefetch(self, e: Call) -> None:
        """Ask for a line of memory, to be read, in all caches from a certain one on."""
        symbol = "@llvm.prefetch.p0"
        self.module.declared[symbol] = f"declare void {symbol}(ptr, i32, i32, i32)"
        place = self.value(e.args[0])
        self.line(f"call void {symbol}(ptr {place}, i32 0, i32 {locality(e)}, i32 1)")

    def from_host(self, field: str) -> str:
        """A field of the host services."""
        return self._field("%host", HOST, field)

    def _field(self, at: str, struct: Struct, field: str) -> str:
        """The pointer in a field of a struct."""
        if offset := struct.offset(field, self.module.pointer_bytes):
            at = self.assign(f"getelementptr inbounds i8, ptr {at}, i64 {offset}")
        return self.assign(f"load ptr, ptr {at}")

    def service(self, e: Call) -> None:
        """Call what the runtime does with values of a program; the run goes first."""
        function = self._field(self.from_host("services"), SERVICES, e.op.removeprefix("smelt."))
        self.succeed(self._called(function, "i32", [("ptr", "%host"), *self._operands(e.args)]))

    def _operands(self, operands: Sequence[Expr]) -> list[tuple[str, str]]:
        """Operands of a call in C; what they point to may be written."""
        found = [(llvm_type(a.dtype), self.value(a)) for a in operands]
        for place in map(place_of, operands):
            if place is not None:
                self._forget(place.buffer)
        return found

    def _called(self, function: str, result: str, args: list[tuple[str, str]]) -> str:
        given = ", ".join([f"{t} {v}" for t, v in args])
        return self.assign(f"call {result} {function}({given})")

    def call_named(self, e: Call) -> None:
        """Call a function by name: a kernel, which gets the host services first, or C code."""
        name, *operands = e.args
        assert isinstance(name, StringImm)
        args = [("ptr", "%host")] if e.op == "smelt.call_kernel" else []
        self.succeed(self.named(f'@"{name.value}"', "i32", [*args, *self._operands(operands)]))

    def call_packed(self, e: Call) -> None:
        """Call a function of the host's table; without a table that is not supported."""
        number, operands, sizes = (self.value(a) for a in e.args)
        table = self.from_host("externals")
        there = self.assign(f"icmp ne ptr {table}, null")
        self.check(there, f"{Status.UNSUPPORTED:d}")
        slot = self.assign(f"getelementptr inbounds ptr, ptr {table}, i64 {number}")
        function = self.assign(f"load ptr, ptr {slot}")
        self.succeed(self.assign(f"call i32 {function}(ptr {operands}, ptr {sizes})"))

    def succeed(self, status: str) -> None:
        """Leave the function with a status unless it is 0."""
        self.check(self.assign(f"icmp eq i32 {status}, 0"), status)

    def probe(self, e: Call) -> None:
        """Tell who listens, if anybody does, that kernel number e.args[0] begins or ends."""
        kernel, end = (self.value(a) for a in e.args)
        hook = self.from_host("probe")
        listens = self.assign(f"icmp ne ptr {hook}, null")
        with self.where(listens):
            sink = self.from_host("probe_sink")
            self.succeed(self.assign(f"call i32 {hook}(ptr {sink}, i64 {kernel}, i32 {end})"))


_SCALAR = 4
"""Bytes of a register of a processor without vectors."""
_SCALES = (1, 2, 4, 8)
"""What an address may multiply an index by."""
_OWN_BLOCK = 'call void asm sideeffect "", ""()'
"""No instruction. LLVM merges empty blocks into the branch before them, where the accumulators of
all loops behind it would start together, in more registers than there are."""


def _spine(e: Expr) -> Expr | None:
    """The operand that is emitted in any case and that a chain goes on with; None for none."""
    match e:
        case Binary(a, b):
            return a if isinstance(a, Binary | Call | Cast | Select) else b
        case Cast(_, value):
            return value
        case Select(condition, _, _):
            return condition
        case Call(_, "fma", (_, _, c)):
            return c
        case Call(_, op, (a, *_)) if op not in NAMED_CALLS and op != tir.ADDRESS:
            return a
    return None


def _captured(s: tir.For) -> list[tir.Buffer | Var]:
    """Buffers and variables that a loop's body uses and does not define, in order of use."""
    found: dict[tir.Buffer | Var, None] = {}
    inner: set[tir.Buffer | Var] = {s.var}
    seen: set[Expr] = set()

    def expr(e: Expr) -> None:
        stack = [e]
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if isinstance(n, Var):
                found[n] = None
            elif isinstance(n, tir.BufferLoad):
                found[n.buffer] = None
                stack.extend(n.indices)
            else:
                stack.extend(c for c in n.children() if isinstance(c, Expr))

    expr(s.min)
    for x in tir.walk(s.body):
        match x:
            case tir.For(own) | tir.LetStmt(own) | tir.Allocate(own) | tir.AllocateConst(own):
                inner.add(own)
            case tir.BufferStore(buffer):
                found[buffer] = None
        for c in x.children():
            if isinstance(c, Expr):
                expr(c)
    return [f for f in found if f not in inner]


def _unpack(name: str, fields: list[str]) -> str:
    """The task function: takes the closure apart; the body's pointers do not alias."""
    kind = "{ " + ", ".join(fields) + " }"
    lines = [f'define internal i32 @"{name}"(ptr %closure, i64 %index) #0 {{', "entry:"]
    for i, f in enumerate(fields):
        lines += [
            f"%q{i} = getelementptr inbounds {kind}, ptr %closure, i32 0, i32 {i}",
            f"%f{i} = load {f}, ptr %q{i}",
        ]
    args = ", ".join(f"{f} %f{i}" for i, f in enumerate(fields))
    lines += [f'%r = call i32 @"{name}.body"({args}, i64 %index)', "ret i32 %r", "}"]
    return "\n".join(lines)
