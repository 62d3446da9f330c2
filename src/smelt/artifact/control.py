"""A program that decides while it runs, in native code.

Each function of the program becomes a tensor program over the host intrinsics: its registers are
slots of the runtime's (native/program.c), an instruction is a call of a service, a branch is a
branch, a function that calls itself at its end is a loop. `description` is what the runtime has to
know of the program: its segments, constants and texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from smelt.ir.build import equal
from smelt.ir.errors import InternalError
from smelt.ir.expr import INDEX, Call, Expr, StringImm, Var, const
from smelt.runtime.abi import CONSTANT, PROGRAM, SEGMENT
from smelt.runtime.dtypes import DTYPE_CODES
from smelt.runtime.metadata import update_numbers
from smelt.runtime.vm_file import tensor_numbers
from smelt.runtime.vm_program import Instruction, Program, VMFunction, registers_of
from smelt.tir import nodes as tir
from smelt.tir.rewrite import replace_buffers

PROGRAM_NAME = "smelt_program_code"
"""The description's symbol."""

_NATIVE_HOST = ("sizes", "list", "append", "stack")
"""Operators of vm_host that are services of the runtime."""
MOST_RANK = 16
"""Dimensions of a value (native/program.c)."""


def python_parts(program: Program) -> list[str]:
    """What of a program has no native form, as texts; nothing: all of it has one."""
    found: dict[str, None] = {}
    if "main" not in program.globals:
        found["a program without main"] = None
    for f in program.functions:
        for i in f.code:
            if i[0] == "InvokeHost" and i[2] not in _NATIVE_HOST:
                found[f"the operator {i[2]}"] = None
            elif i[0] in _PYTHON:
                found[_PYTHON[i[0]]] = None
    if _in_turns(program):
        found["functions that call each other in turns at their ends"] = None
    for c in program.constants:
        if str(c.dtype) not in DTYPE_CODES:
            found["texts"] = None
    for t in (*program.inputs, *program.results):
        if t.kind != "tensor" or t.dtype == "string" or len(t.shape) > MOST_RANK:
            found["texts" if t.dtype == "string" else f"{t.name}, no tensor"] = None
    return list(found)


def _in_turns(program: Program) -> bool:
    """Whether functions call each other at their ends, without end: that must take no stack."""
    calls = [{i[-2] for i in f.code if i[0] in _CALLS} for f in program.functions]
    for n, f in enumerate(program.functions):
        reached = {i[1] for i in f.code if i[0] == "TailInvoke" and i[1] != n}
        before = -1
        while len(reached) > before:
            before = len(reached)
            reached |= {m for r in reached for m in calls[r]}
        if n in reached:
            return True
    return False


_CALLS = ("Invoke", "TailInvoke")
_PYTHON = {
    "AllocADT": "data types",
    "GetTag": "data types",
    "Fatal": "data types",
    **dict.fromkeys(("AllocClosure", "InvokeClosure", "TailClosure"), "functions as values"),
}
"""Instructions of the Python machine alone, and what they are for."""


class Functions:
    """The functions of a program as tensor programs."""

    def __init__(self, program: Program, first: int) -> None:
        """program: one without `python_parts`; first: the number of the first of its sites, which
        are turns of loops and sides of branches, for who listens to a run."""
        self.program, self.first = program, first
        self.texts: dict[str, int] = {}
        self.sites: list[str] = []

    def made(self) -> list[tir.PrimFunc]:
        """All of them."""
        return [_Writer(self, n).function() for n in range(len(self.program.functions))]

    def site(self, name: str) -> int:
        """The number of a new site."""
        self.sites.append(name)
        return self.first + len(self.sites) - 1

    def text(self, text: str) -> int:
        """The number of a text."""
        return self.texts.setdefault(text, len(self.texts))


def function_name(index: int) -> str:
    """The symbol of a function."""
    return f"program.function{index}"


class _Writer:
    """Writes one function."""

    def __init__(self, functions: Functions, index: int) -> None:
        self.functions, self.index = functions, index
        self.source: VMFunction = functions.program.functions[index]
        self.count = self.source.registers
        self.slots = tir.Buffer("slots", (const(max(self.count, 1), INDEX),), "handle")
        self.flag = tir.Buffer("flag", (const(1, INDEX),), INDEX)
        self.turn = tir.Buffer("turn", (const(1, INDEX),), INDEX)
        self.caller = tir.Buffer("caller", (const(1, INDEX),), "handle")
        self.args = tir.Buffer("args", (const(1, INDEX),), INDEX)
        self.numbers: list[int] = []
        self.table = tir.Buffer("numbers", (const(1, INDEX),), INDEX)
        self.last, self.beside = _uses(self.source.code)
        self.repeats = any(i[0] == "TailInvoke" and i[1] == index for i in self.source.code)
        self.result = Var("result", INDEX)
        self.branches = 0
        self.turns = functions.site(f"{self.source.name}: turns") if self.repeats else -1

    def function(self) -> tir.PrimFunc:
        """The tensor program: operands and result stand in slots of the caller."""
        f = self.source
        given = len(f.params) + f.captured
        enter = self.call(
            "enter", self.slots.access_ptr(), self.count, self.caller.access_ptr(),
            self.args.access_ptr(), given,
        )  # fmt: skip
        body = tir.seq(*self.block(0, len(f.code)))
        if self.repeats:
            body = tir.seq(_probe(self.turns, 0), body)
            once = tir.BufferStore(self.turn, const(0, INDEX), (const(0, INDEX),))
            more = tir.BufferStore(self.turn, const(1, INDEX), (const(0, INDEX),))
            turning = equal(self.turn[0], const(1, INDEX))
            body = tir.Allocate(self.turn, tir.seq(more, tir.While(turning, tir.seq(once, body))))
        body = tir.Allocate(self.slots, tir.Allocate(self.flag, tir.seq(enter, body)))
        data = np.array(self.numbers or [0], np.int64)
        table = tir.Buffer("numbers", (const(len(data), INDEX),), INDEX)
        body = tir.AllocateConst(table, data, replace_buffers(body, {self.table: table}))
        params = (self.caller, self.args, self.result)
        return tir.PrimFunc(params, body, {"name": function_name(self.index)})

    # ---- parts of calls -------------------------------------------------------------------------

    def call(self, service: str, *args: Any) -> tir.Stmt:
        """A call of a service on numbers and addresses."""
        given = tuple([a if isinstance(a, Expr) else const(int(a), INDEX) for a in args])
        return tir.Evaluate(Call("int32", f"smelt.{service}", given))

    def on_slots(self, service: str, *args: Any) -> tir.Stmt:
        """The same on this function's slots."""
        return self.call(service, self.slots.access_ptr(), *args)

    def listed(self, numbers: Sequence[int]) -> Expr:
        """The address of some numbers among the function's own."""
        at = len(self.numbers)
        self.numbers += [int(n) for n in numbers] or [0]
        return tir.address_of(self.table[at])

    # ---- control --------------------------------------------------------------------------------

    def block(self, at: int, end: int) -> list[tir.Stmt]:
        """The instructions from one place to another, without the jump at their end."""
        made: list[tir.Stmt] = []
        code = self.source.code
        while at < end:
            i = code[at]
            if i[0] == "If":
                made += [self.on_slots("scalar", i[1], tir.address_of(self.flag[0]))]
                made += self.dead(at, i)
                other = i[3]
                after = code[other - 1][1] if code[other - 1][0] == "Goto" else None
                close = end if after is None else min(after, end)
                ends = at + 1, other - (after is not None)
                first, second = self.side(*ends), self.side(other, close)
                if not self.is_condition(at + 1, other):
                    name = f"{self.source.name}: branch {self.branches}"
                    self.branches += 1
                    first = self.counted(f"{name}, {i[2] != 0}", first, *ends)
                    second = self.counted(f"{name}, {i[2] == 0}", second, other, close)
                made.append(
                    tir.IfThenElse(
                        equal(self.flag[0], const(i[2], INDEX)),
                        tir.seq(*first),
                        tir.seq(*second) if second else None,
                    )
                )
                at = close
                continue
            if i[0] == "Goto":
                raise InternalError(f"{self.source.name}: a jump that ends no branch")
            made += [*self.step(i, self.last[at]), *self.dead(at, i)]
            at += 1
        return made

    def is_condition(self, at: int, end: int) -> bool:
        """Whether a branch decides of another turn: its side ends in one."""
        return self.repeats and any(i[0] == "TailInvoke" for i in self.source.code[at:end])

    def counted(self, name: str, side: list[tir.Stmt], at: int, end: int) -> list[tir.Stmt]:
        """A side of a branch, whose time is taken; one that leaves the function is only counted."""
        number = self.functions.site(name)
        leaves = any(i[0] in ("Ret", "TailInvoke") for i in self.source.code[at:end])
        begins, ends = _probe(number, 0), _probe(number, 1)
        return [begins, ends, *side] if leaves else [begins, *side, ends]

    def side(self, at: int, end: int) -> list[tir.Stmt]:
        """One side of a branch, without what only the other side needs."""
        if at >= end:
            return []
        given_up = [self.on_slots("release", r) for r in self.beside.get(at, ())]
        return [*given_up, *self.block(at, end)]

    def dead(self, at: int, i: Instruction) -> list[tir.Stmt]:
        """Gives up what is used for the last time here."""
        if i[0] in ("Ret", "TailInvoke"):
            return []
        written = set(registers_of(i)[1])
        return [self.on_slots("release", r) for r in self.last[at] if r not in written]

    # ---- instructions ---------------------------------------------------------------------------

    def step(self, i: Instruction, last: Sequence[int]) -> list[tir.Stmt]:
        """An instruction that goes on to the next, or ends the function.

        last  what it uses for the last time
        """
        name, *x = i
        match name:
            case "Move":
                return [self.on_slots("assign", x[0], x[1])]
            case "LoadConst":
                return [self.on_slots("constant", x[0], x[1])]
            case "AllocTuple":
                return [self.on_slots("list", x[0], self.listed(x[1]), len(x[1]))]
            case "GetField":
                return [self.on_slots("item", x[0], x[1], x[2])]
            case "InvokeSegment":
                places = self.listed([*_given(x[2], last), *x[0]])
                return [self.on_slots("segment", places, x[1])]
            case "Invoke":
                return [self.invoke(x[1], _given(x[2], last), x[0])]
            case "TailInvoke" if x[0] == self.index:
                again = tir.BufferStore(self.turn, const(1, INDEX), (const(0, INDEX),))
                moved = self.on_slots(
                    "again", self.count, self.listed(x[1]), len(x[1]),
                    self.functions.text(self.source.name),
                )  # fmt: skip
                return [_probe(self.turns, 1), moved, again]
            case "TailInvoke":  # through a slot of its own, which is free where the function ends
                own = x[1][0] if x[1] else 0
                return [self.invoke(x[0], _given(x[1], x[1]), own), self.leave(own)]
            case "Ret":
                return [self.leave(x[0])]
            case "InvokeHost":
                return self.host(x[1], x[2], x[0], x[3])
        raise InternalError(f"{self.source.name}: no native form for {name}")

    def invoke(self, index: int, args: Sequence[int], result: int) -> tir.Stmt:
        """A call of another function of the program; args, result: this function's registers."""
        slots, place = self.slots.access_ptr(), const(result, INDEX)
        given = (StringImm(function_name(index)), slots, self.listed(args), place)
        return tir.Evaluate(Call("int32", "smelt.call_kernel", given))

    def leave(self, register: int) -> tir.Stmt:
        """The end of the function."""
        return self.on_slots("leave", self.count, register, self.caller.access_ptr(), self.result)

    def host(
        self, op: str, attrs: Mapping[str, Any], made: Sequence[int], args: Sequence[int]
    ) -> list[tir.Stmt]:
        """An operator that is a service."""
        if op == "sizes":
            wanted = args[1] if len(args) > 1 else -1
            text = self.functions.text(attrs["where"])
            return [self.on_slots("sizes", self.listed(made), len(made), args[0], wanted, text)]
        if op == "list":
            return [self.on_slots("list", made[0], self.listed(()), 0)]
        if op == "append":
            return [self.on_slots("append", made[0], args[0], args[1])]
        shape = list(attrs["shape"])
        axis = attrs["axis"] % (len(shape) + 1)
        how = [axis, attrs["reverse"], DTYPE_CODES[attrs["dtype"]], len(shape), *shape]
        return [self.on_slots("stack", made[0], args[0], self.listed(how))]


def _probe(number: int, end: int) -> tir.Stmt:
    """Tells who listens that something begins or ends."""
    return tir.Evaluate(Call("int32", "smelt.probe", (const(number), const(end, "int32"))))


def _given(registers: Sequence[int], last: Sequence[int]) -> list[int]:
    """The operands of a call: the complement of what is used for the last time, and once."""
    return [~r if r in last and registers.count(r) == 1 else r for r in registers]


def _uses(code: Sequence[Instruction]) -> tuple[list[list[int]], dict[int, list[int]]]:
    """Registers that instructions use for the last time, by position; and those that only the
    other side of a branch uses, by the position where a side begins. Jumps go forward."""
    live: list[set[int]] = [set() for _ in range(len(code) + 1)]
    last: list[list[int]] = [[] for _ in code]
    beside: dict[int, list[int]] = {}
    for at in range(len(code) - 1, -1, -1):
        i = code[at]
        following = {"If": (at + 1, i[-1]), "Goto": (i[-1],), "Ret": (), "TailInvoke": ()}
        sides = following.get(i[0], (at + 1,))
        after = set().union(*[live[n] for n in sides])
        read, written = registers_of(i)
        last[at] = sorted(set(read) - after)
        live[at] = after.difference(written).union(read)
        if i[0] == "If":
            beside.update({n: sorted(after - live[n]) for n in sides})
    return last, beside


# ---- the description -----------------------------------------------------------------------------


class SegmentCode(NamedTuple):
    """A compiled segment: its name for messages, the symbols of its functions, its metadata."""

    name: str
    entry: str
    plan: str
    data: Mapping[str, Any]


@dataclass
class _Data:
    """LLVM text of constants under construction."""

    lines: list[str] = field(default_factory=list)

    def add(self, kind: str, items: Sequence[str]) -> str:
        """The symbol of an array of items, each with its type."""
        if not items:
            return "null"
        name = f"@smelt.data{len(self.lines)}"
        array = f"[{len(items)} x {kind}] [{', '.join(items)}]"
        self.lines.append(f"{name} = private constant {array}")
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """An array of 64-bit numbers."""
        return self.add("i64", [f"i64 {v}" for v in values])

    def text(self, text: str) -> str:
        """A text with a zero at its end."""
        return self.add("i8", [f"i8 {b}" for b in (*text.encode(), 0)])


def description(
    program: Program,
    segments: Sequence[SegmentCode],
    offsets: Mapping[int, int],
    texts: Sequence[str],
    native: bool,
) -> str:
    """The program's description as LLVM text.

    offsets  where the program's constants stand among the model's, by number
    native   whether its functions are there; else the Python machine has them
    """
    data = _Data()
    rows = [
        SEGMENT.constant(
            name=data.text(s.name),
            entry=f'@"{s.entry}"',
            plan=f'@"{s.plan}"',
            tensors=data.numbers(tensor_numbers(s.data)),
            updates=data.numbers(update_numbers(s.data)),
            input_count=len(s.data["inputs"]),
            output_count=len(s.data["outputs"]),
            symbol_count=len(s.data["symbols"]),
            extent_count=sum(len(t["shape"]) for t in s.data["outputs"]),
        )
        for s in segments
    ]
    constants = [
        CONSTANT.constant(
            offset=offsets.get(n, 0),
            dtype=DTYPE_CODES.get(str(c.dtype), 0),
            rank=c.ndim,
            shape=data.numbers(c.shape),
        )
        for n, c in enumerate(program.constants)
    ]
    whole = PROGRAM.constant(
        main=f'@"{function_name(program.globals["main"])}"' if native else "null",
        segment_count=len(rows),
        segments=data.add(*_array(rows)),
        constant_count=len(constants),
        constants=data.add(*_array(constants)),
        text_count=len(texts),
        texts=data.add("ptr", [f"ptr {data.text(t)}" for t in texts]),
    )
    return "\n".join([*data.lines, f"@{PROGRAM_NAME} = constant {whole}\n"])


def _array(rows: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Structs of one type: the type, and the rows with it."""
    kind = rows[0].partition("}")[0] + "}" if rows else "ptr"
    return kind, rows
