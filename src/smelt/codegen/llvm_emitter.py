"""LLVM IR text under construction: a module, and what all parts of a function's emitter share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from smelt.ir.errors import InternalError
from smelt.ir.expr import Call, Expr, Shuffle, Var
from smelt.target import Target, machine_of
from smelt.target.processor import architecture, lacks, pointer_bytes
from smelt.tir import nodes as tir
from smelt.tir.script_ops import place_of

from .llvm_types import llvm_type, mangled

_WIDEST = 64
"""Bytes of a vector register of a processor of which nothing is said."""


class ModuleText:
    """A module under construction: functions, and the intrinsics they declare."""

    def __init__(self, target: Target | None) -> None:
        """An empty module."""
        self.pointer_bytes = 8 if target is None else pointer_bytes(target)
        self.lacks = () if target is None else lacks(target)
        self.arch = "" if target is None else architecture(target)
        self.vector_bytes = _WIDEST if target is None else machine_of(target).vector_bytes
        # of vectors, where instructions multiply by one lane of a vector
        self.picking_registers = 32 if self.arch == "aarch64" else 0
        self.functions: list[str] = []
        self.defined: set[str] = set()  # what need not be declared
        self.declared: dict[str, str] = {}  # by the names that are used
        self.constants: dict[str, str] = {}  # names by what they hold
        self.needs: dict[str, None] = {}  # comments about the processor, see features.py
        self.zeros = 64  # bytes of zeros that loads whose guard fails read

    def constant(self, data: np.ndarray[Any, Any]) -> str:
        """The name of a constant that holds an array's elements."""
        text = "".join([f"\\{b:02X}" for b in data.tobytes()])
        kind = f'private unnamed_addr constant [{data.nbytes} x i8] c"{text}", align 64'
        return self.constants.setdefault(kind, f"@smelt.constant.{len(self.constants)}")

    def text(self) -> str:
        """The whole module."""
        zero = f"@smelt.zero = private constant [{self.zeros} x i8] zeroinitializer, align 64\n"
        head = "".join([f"{line}\n" for line in self.needs])
        zero += "".join([f"{name} = {kind}\n" for kind, name in self.constants.items()])
        outside = [text for name, text in self.declared.items() if name not in self.defined]
        return head + zero + "\n".join(outside) + "\n\n" + "\n".join(self.functions)


Loaded = tuple[Expr, *tuple[object, ...]]
"""A value that depends on memory: an expression, and what else it depends on."""


class LoopScope:
    """Straight-line code under construction, and the values known in it.

    loads    values that depend on memory: an expression, and what else they depend on
    readers  those that read a buffer
    """

    __slots__ = ("lines", "loads", "readers", "values")

    def __init__(self) -> None:
        """An empty scope."""
        self.lines: list[str] = []
        self.values: dict[object, str] = {}
        self.loads: dict[Loaded, str] = {}
        self.readers: dict[tir.Buffer, list[Loaded]] = {}


class Emitter:
    """One function: its lines so far, what is known in each scope, the guards in force."""

    value: Callable[[Expr], str]
    pointer: Callable[[tir.BufferLoad], str]
    repeated_word: Callable[[Shuffle], str | None]

    def __init__(
        self,
        module: ModuleText,
        name: str,
        params: Sequence[tir.Buffer | Var],
        in_task: bool = False,
    ) -> None:
        """Name the parameters; a task's parallel loops are serial, and it is the module's own."""
        self.module, self.name, self.in_task = module, name, in_task
        self.params = tuple(params)
        self.count = 0
        self.allocas: list[str] = []
        self.scopes: list[LoopScope] = [LoopScope()]
        self.at = -1  # the scope that instructions go to
        self.names: dict[Var | tir.Buffer, str] = {}  # of variables, of buffers' pointers
        self.depths: dict[Expr | tir.Buffer, int] = {}
        self.has_load: dict[Expr, bool] = {}
        self.buffers_read: dict[Expr, frozenset[tir.Buffer]] = {}
        self.effects = 0  # calls emitted so far that do something besides computing a value
        self.guard: str | None = None
        self.guard_lanes = 1
        self.mask: str | None = None
        for i, p in enumerate(self.params):
            letter = "p" if isinstance(p, tir.Buffer) else "s"
            self.names[p], self.depths[p] = f"%{letter}{i}", 0

    # ------------------------------------------------------------------------------ lines

    def fresh(self, stem: str = "v") -> str:
        """A new local name."""
        self.count += 1
        return f"%{stem}{self.count}"

    def line(self, *texts: str) -> None:
        """Instructions at the end of the innermost scope."""
        self.scope.lines += texts

    def assign(self, text: str, at: int | None = None) -> str:
        """One instruction, in the scope that is worked on, whose result gets a new name."""
        name = self.fresh()
        self.scopes[self.at if at is None else at].lines.append(f"{name} = {text}")
        return name

    def labels(self, count: int) -> list[str]:
        """New names of basic blocks."""
        return [self.fresh("L")[1:] for _ in range(count)]

    @contextmanager
    def where(self, bit: str) -> Iterator[None]:
        """What is emitted meanwhile runs where a bit is set."""
        yes, after = self.labels(2)
        self.line(f"br i1 {bit}, label %{yes}, label %{after}", f"{yes}:")
        yield
        self.line(f"br label %{after}", f"{after}:")

    @property
    def scope(self) -> LoopScope:
        """The innermost scope."""
        return self.scopes[-1]

    def intrinsic(self, name: str, dtype: str, values: list[str], flags: str = "") -> str:
        """An LLVM intrinsic on operands of one type."""
        t = llvm_type(dtype)
        return self.named(f"@llvm.{name}.{mangled(dtype)}", t, [(t, v) for v in values], flags)

    def named(self, symbol: str, result: str, args: list[tuple[str, str]], flags: str = "") -> str:
        """A call of a function that is declared on the way."""
        kinds = ", ".join([t for t, _ in args])
        self.module.declared[symbol] = f"declare {result} {symbol}({kinds})"
        given = ", ".join([f"{t} {v}" for t, v in args])
        return self.assign(f"call {flags}{result} {symbol}({given})")

    # ------------------------------------------------------------------------------ expressions

    def depth(self, e: Expr) -> int:
        """The outermost scope in which a pure expression can be computed."""
        found = self.depths.get(e)
        if found is None:
            if isinstance(e, Var):
                raise InternalError(
                    f"{self.name}: the variable {e.name} is used where it is not defined"
                )
            if isinstance(e, tir.BufferLoad):  # only its address is taken
                return max([self.depths[e.buffer], *map(self.depth, e.indices)])
            found = max([self.depth(c) for c in e.children() if isinstance(c, Expr)], default=0)
            self.depths[e] = found
        return found

    def _has_load(self, e: Expr) -> bool:
        found = self.has_load.get(e)
        if found is None:
            place = place_of(e)
            parts = (e if place is None else place).children()
            found = self.has_load[e] = (
                isinstance(e, tir.BufferLoad)
                or _has_effect(e)
                or any(self._has_load(c) for c in parts if isinstance(c, Expr))
            )
        return found


def _has_effect(e: Expr) -> bool:
    """Whether a node does something besides computing its value."""
    return isinstance(e, Call) and e.op == "call_llvm_intrin"
