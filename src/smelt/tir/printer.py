"""Tensor programs as text, in Python's syntax.

    print(script(func))

Names are made unique within a function (copies take i_1, i_2, ...), so that the text can be
parsed again: `parse(script(f))` is structurally equal to `f`.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, IntImm, Var
from smelt.ir.node import Node

from .nodes import (
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Range,
    Seq,
    Stmt,
    While,
    walk,
)
from .printer_expr import ExprPrinter, quoted
from .script_ops import shape_vars

__all__ = ["has_implicit_root", "script"]

_RESERVED = {*keyword.kwlist, "T", "I", "range", "float", "self"}
_LOOPS = {
    "serial": "T.serial",
    "parallel": "T.parallel",
    "vectorized": "T.vectorized",
    "unrolled": "T.unroll",
    "thread_binding": "T.thread_binding",
}


class Line(NamedTuple):
    """One line of text, and the node it begins."""

    depth: int
    text: str
    node: Node | None = None


def script(
    func: PrimFunc | Stmt | Expr, mark: Mapping[Any, str] | None = None, *, canonical: bool = False
) -> str:
    """The text of a program, a statement or an expression.

    mark       nodes to underline with ^^^, each with a note: for the texts of errors
    canonical  names by position instead of the program's own (structurally equal programs
               then have equal texts)
    """
    printer = _Printer(canonical)
    if isinstance(func, PrimFunc):
        lines = list(printer.function(func))
    elif isinstance(func, Stmt):
        printer.collect(func)
        lines = list(printer.body(func, 0))
    else:
        return printer.exprs.text(func)
    return "\n".join(_underlined(lines, mark or {}, printer)) + "\n"


def has_implicit_root(body: Stmt) -> bool:
    """Whether a body is the plain block "root" that the text leaves out."""
    if not isinstance(body, BlockRealize) or body.values or not is_const(body.predicate, 1):
        return False
    b = body.block
    if b.name != "root" or b.iter_vars or b.reads or b.writes or b.init is not None:
        return False
    return bool(b.alloc_buffers) or bool(b.annotations) or _has_block(b.body)


def _has_block(stmt: Stmt) -> bool:
    return any(isinstance(s, BlockRealize) for s in walk(stmt))


def _underlined(lines: list[Line], mark: Mapping[Any, str], printer: _Printer) -> Iterator[str]:
    """The lines, with marks below the statements (or the parts of them) that bear one."""
    open_marks = dict(mark)
    for line in lines:
        indent = "    " * line.depth
        yield (indent + line.text).rstrip()
        for node in list(open_marks):
            place = _place(node, line, printer)
            if place is not None:
                yield indent + " " * place[0] + f"{'^' * place[1]} {open_marks.pop(node)}".rstrip()


def _place(node: Any, line: Line, printer: _Printer) -> tuple[int, int] | None:
    """Where in a line a marked node stands: column and width."""
    if node is line.node or (
        isinstance(node, Block) and isinstance(line.node, BlockRealize) and line.node.block is node
    ):
        return 0, max(1, len(line.text.split(" = ")[0].rstrip(":")))
    if isinstance(node, Expr):
        text = printer.exprs.text(node)
    elif isinstance(node, Buffer) and node in printer.names:
        text = printer.names[node]
    else:
        return None
    found = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", line.text)
    return (found.start(), len(text)) if found else None


class _Printer:
    """Prints one function."""

    def __init__(self, canonical: bool = False) -> None:
        self.canonical = canonical
        self.names: dict[Node, str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.copies: dict[str, int] = {}
        self.exprs = ExprPrinter(self.name)

    # ------------------------------------------------------------------------------- names

    def name(self, node: Var | Buffer) -> str:
        """The name of a variable or buffer, unique in the function."""
        if node not in self.names:
            base = "v" if self.canonical else re.sub(r"\W", "_", node.name) or "v"
            base = "_" + base if base[0].isdigit() else base
            fresh, n = base, self.copies.get(base, 0)
            while fresh in self.taken:
                n += 1
                fresh = f"{base}_{n}"
            self.copies[base] = n
            self.taken.add(fresh)
            self.names[node] = fresh
        return self.names[node]

    def collect(self, body: Stmt) -> None:
        """Name what a statement binds, in the order of the text."""
        for s in walk(body):
            match s:
                case For(var) | LetStmt(var):
                    self.name(var)
                case Allocate(buffer):
                    self.name(buffer)
                case Block():
                    for it in s.iter_vars:
                        self.name(it.var)
                    for b in s.alloc_buffers:
                        self.name(b)

    # --------------------------------------------------------------------------- functions

    def function(self, func: PrimFunc) -> Iterator[Line]:
        for p in func.params:
            self.name(p)
        free = shape_vars(func.params)
        for v in free:
            self.name(v)
        self.collect(func.body)
        usable = func.name.isidentifier() and not keyword.iskeyword(func.name)
        attrs = {k: v for k, v in func.attrs.items() if k != "name" or not usable}
        yield Line(0, "@T.prim_func")
        params = ", ".join([f"{self.name(p)}: {self.annotation(p)}" for p in func.params])
        yield Line(0, f"def {func.name if usable else 'main'}({params}):", func)
        for v in free:
            yield Line(1, f"{self.name(v)} = T.{v.type}()")
        if attrs:
            yield Line(1, f"T.func_attr({self.data(attrs)})")
        root = func.body
        if not has_implicit_root(root):
            explicit = isinstance(root, BlockRealize) and root.block.name == "root"
            if _has_block(root) and not explicit:
                yield Line(1, "T.no_root_block()")
            yield from self.body(root, 1)
            return
        assert isinstance(root, BlockRealize)
        yield from self.block_head(root.block, 1)
        yield from self.body(root.block.body, 1)

    def annotation(self, p: Var | Buffer) -> str:
        return f"T.{p.type}" if isinstance(p, Var) else f"T.Buffer({self.buffer_args(p)})"

    def buffer_args(self, b: Buffer) -> str:
        parts = [self.exprs.tuple_text(b.shape), f'"{b.type}"']
        if b.scope != "global":
            parts.append(f'scope="{b.scope}"')
        if b.strides:
            parts.append(f"strides={self.exprs.tuple_text(b.strides)}")
        return ", ".join(parts)

    # -------------------------------------------------------------------------- statements

    def body(self, stmt: Stmt, depth: int) -> Iterator[Line]:
        """The statements of a suite, `pass` where there are none."""
        todo = _flat(stmt)
        if not todo:
            yield Line(depth, "pass", stmt)
        while todo:
            s, rest = todo[0], todo[1:]
            if not rest and isinstance(s, Allocate):
                yield Line(depth, f"{self.name(s.buffer)} = {self.allocate(s)}", s)
                todo = _flat(s.body) or [Seq(())]
            elif not rest and isinstance(s, LetStmt):
                value = self.exprs.operand(s.value, s.var.type)
                yield Line(depth, f"{self.name(s.var)}: T.{s.var.type} = {value}", s)
                todo = _flat(s.body) or [Seq(())]
            else:
                yield from self.statement(s, depth)
                todo = rest

    def statement(self, s: Stmt, depth: int) -> Iterator[Line]:
        e = self.exprs
        match s:
            case Seq(()):
                yield Line(depth, "pass", s)
            case BufferStore(buffer, value, indices):
                right = e.operand(value, buffer.type)
                yield Line(depth, f"{self.name(buffer)}[{e.indices(indices)}] = {right}", s)
            case Evaluate(value):
                text = e.text(value)
                yield Line(depth, text if text.startswith("T.smelt.") else f"T.evaluate({text})", s)
            case AssertStmt(condition, message):
                yield Line(depth, f"assert {e.text(condition)}, {quoted(message)}", s)
            case For():
                yield Line(depth, f"for {self.name(s.var)} in {self.loop(s)}:", s)
                yield from self.body(s.body, depth + 1)
            case While(condition, body):
                yield Line(depth, f"while {e.text(condition)}:", s)
                yield from self.body(body, depth + 1)
            case IfThenElse(condition, yes, no):
                yield Line(depth, f"if {e.text(condition)}:", s)
                yield from self.body(yes, depth + 1)
                if no is not None:
                    yield Line(depth, "else:")
                    yield from self.body(no, depth + 1)
            case LetStmt(var, value, body):
                given = e.operand(value, var.type)
                yield Line(depth, f'with T.let({given}, "{var.type}") as {self.name(var)}:', s)
                yield from self.body(body, depth + 1)
            case Allocate(buffer, body):
                yield Line(depth, f"with {self.allocate(s)} as {self.name(buffer)}:", s)
                yield from self.body(body, depth + 1)
            case BlockRealize(values, predicate, block):
                yield Line(depth, f'with T.block("{block.name}"):', s)
                yield from self.block(block, values, predicate, depth + 1)
            case Block():
                yield Line(depth, f'with T.block("{s.name}"):', s)
                yield from self.block(
                    s, tuple([i.var for i in s.iter_vars]), IntImm("bool", 1), depth + 1
                )
            case _:
                yield Line(depth, f"# {type(s).__name__}", s)

    def loop(self, s: For) -> str:
        """What a loop runs over."""
        args = self.interval(s.min, s.extent)
        if s.var.type != s.extent.dtype:
            args += f', dtype="{s.var.type}"'
        if s.kind == "thread_binding" or s.thread is not None:
            args += f", thread={s.thread!r}".replace("'", '"')
        if s.annotations:
            args += f", annotations={self.data(s.annotations)}"
        plain = (
            s.kind == "serial"
            and s.var.type == s.extent.dtype
            and not s.annotations
            and s.thread is None
        )
        return f"{'range' if plain else _LOOPS.get(s.kind, 'T.' + s.kind)}({args})"

    def interval(self, low: Expr, extent: Expr) -> str:
        """`extent`, or `low, low + extent` where it does not begin at zero."""
        if isinstance(low, IntImm) and low.value == 0 and low.type == extent.dtype:
            return self.exprs.text(extent)
        return f"{self.exprs.text(low)}, {self.exprs.end_text(low, extent)}"

    def allocate(self, s: Allocate) -> str:
        notes = f", annotations={self.data(s.annotations)}" if s.annotations else ""
        return f"T.allocate({self.buffer_args(s.buffer)}{notes})"

    # ------------------------------------------------------------------------------ blocks

    def block(
        self, b: Block, values: tuple[Expr, ...], predicate: Expr, depth: int
    ) -> Iterator[Line]:
        if len(values) != len(b.iter_vars):
            yield Line(depth, f"# {len(b.iter_vars)} iteration variables, {len(values)} values")
        for it, value in zip(b.iter_vars, values, strict=False):
            dom = self.domain(it.dom)
            yield Line(
                depth,
                f"{self.name(it.var)} = T.axis.{it.kind}({dom}, {self.exprs.text(value)}"
                + (f', dtype="{it.var.type}")' if it.var.type != INDEX else ")"),
                it,
            )
        if not is_const(predicate, 1):
            yield Line(depth, f"T.where({self.exprs.text(predicate)})")
        if b.reads:
            yield Line(depth, f"T.reads({', '.join(map(self.region, b.reads))})")
        if b.writes:
            yield Line(depth, f"T.writes({', '.join(map(self.region, b.writes))})")
        yield from self.block_head(b, depth)
        if b.init is not None:
            yield Line(depth, "with T.init():")
            yield from self.body(b.init, depth + 1)
        yield from self.body(b.body, depth)

    def block_head(self, b: Block, depth: int) -> Iterator[Line]:
        if b.annotations:
            yield Line(depth, f"T.block_attr({self.data(b.annotations)})")
        for buffer in b.alloc_buffers:
            yield Line(
                depth, f"{self.name(buffer)} = T.alloc_buffer({self.buffer_args(buffer)})", buffer
            )

    def domain(self, dom: Range) -> str:
        if isinstance(dom.min, IntImm) and dom.min.value == 0 and dom.min.type == dom.extent.dtype:
            return self.exprs.text(dom.extent)
        return f"({self.interval(dom.min, dom.extent)})"

    def region(self, r: BufferRegion) -> str:
        parts = []
        for d in r.region:
            low = self.exprs.text(d.min)
            single = is_const(d.extent, 1) and d.extent.dtype == INDEX
            parts.append(low if single else f"{low}:{self.exprs.end_text(d.min, d.extent)}")
        return f"{self.name(r.buffer)}[{', '.join(parts) or '()'}]"

    # ----------------------------------------------------------------------------- values

    def data(self, value: Any) -> str:
        """Plain data of attributes and annotations."""
        match value:
            case Expr():
                return (
                    self.exprs.text(value)
                    if not isinstance(value, IntImm)
                    else f"T.{value.type}({value.value})"
                )
            case Mapping():
                items = sorted(value.items()) if self.canonical else value.items()
                return "{" + ", ".join([f"{quoted(k)}: {self.data(v)}" for k, v in items]) + "}"
            case tuple():
                return "(" + ", ".join(map(self.data, value)) + (",)" if len(value) == 1 else ")")
            case list():
                return "[" + ", ".join(map(self.data, value)) + "]"
            case str():
                return quoted(value)
            case float() if not math.isfinite(value):
                return f'float("{value}")'
            case None | bool() | int() | float():
                return repr(value)
        if hasattr(value, "item"):
            return self.data(value.item())
        return quoted(str(value))


def _flat(stmt: Stmt) -> list[Stmt]:
    """The statements of nested sequences."""
    out: list[Stmt] = []
    stack = [stmt]
    while stack:
        s = stack.pop()
        if isinstance(s, Seq):
            stack.extend(reversed(s.stmts))
        else:
            out.append(s)
    return out
