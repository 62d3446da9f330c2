"""Tensor programs as text, in Python's syntax.

    print(func.script())

Every variable and buffer has a name of its own in the text (copies take i_1, i_2, ...), and so has
every second loop over one variable. The text can be parsed again: `parse(script(f))` is
structurally equal to `f`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, IntImm, Var, const
from smelt.ir.node import Node
from smelt.ir.text import fresh_name, printed
from smelt.ir.walk import free_vars

from . import nodes
from .printer_expr import ExprPrinter, quoted
from .rewrite import loads
from .script_ops import shape_vars, stored

_RESERVED = frozenset({"T", "float", "range", *keyword.kwlist})


class Line(NamedTuple):
    """One line of text, and the node it begins; or the note of a mark on the line before."""

    depth: int
    text: str
    node: Node | None = None
    note: bool = False

    def __str__(self) -> str:
        return "    " * self.depth + self.text


class Listing(NamedTuple):
    """A function's text line by line, and what it calls variables and buffers."""

    lines: list[Line]
    names: Mapping[Node, str]


def region_text(r: nodes.BufferRegion) -> str:
    """A region, for messages: A[i, 0:8]."""
    return _Printer(None).region(r)


def script(
    func: nodes.PrimFunc | nodes.Stmt | Expr,
    mark: Mapping[Any, str] | None = None,
    *,
    canonical: bool = False,
) -> str:
    """The text of a program, a statement or an expression.

    mark       nodes to underline with ^^^, each with a note: for the texts of errors
    canonical  names by position instead of the program's own (structurally equal programs
               then have equal texts)
    """
    printer = _Printer(mark, canonical)
    if isinstance(func, Expr):
        return printer.exprs.text(func)
    if isinstance(func, nodes.PrimFunc):
        return printer.function(func, None).text()
    printer.body(func, 0)
    return printer.text()


@printed.register(nodes.PrimFunc)
@printed.register(nodes.Stmt)
@printed.register(Expr)
def _(node: Any, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]) -> str:
    if not isinstance(node, nodes.PrimFunc):
        return script(node, mark)
    return _Printer(mark).function(node, name).text()


def listing(func: nodes.PrimFunc, mark: Mapping[Any, str] | None = None) -> Listing:
    """The lines that `script` prints, each with the node that it begins; `mark` as there."""
    printer = _Printer(mark).function(func, None)
    return Listing(printer.lines, printer.names)


def has_implicit_root(body: nodes.Stmt) -> bool:
    """Whether a body is the plain block "root" that the text leaves out."""
    if not isinstance(body, nodes.BlockRealize) or body.values or not is_const(body.predicate, 1):
        return False
    b = body.block
    if b.name != "root" or b.iter_vars or b.reads or b.writes or b.init is not None:
        return False
    return bool(b.alloc_buffers) or bool(b.annotations) or _has_block(b.body)


def _has_block(stmt: nodes.Stmt) -> bool:
    return any(isinstance(s, nodes.BlockRealize) for s in nodes.walk(stmt))


# ----------------------------------------------------------------------------------------- marks


def _needed(node: Any) -> set[Node]:
    """What must have a name in the text before a marked expression can be found there."""
    if not isinstance(node, Expr):
        return set()
    return {*free_vars(node), *[load.buffer for load in loads(node)]}


def _place(node: Any, line: Line, printer: _Printer) -> tuple[int, int] | None:
    """Where in a line a marked node stands: column and width."""
    if node is line.node or node is getattr(line.node, "block", None):
        return 0, max(1, len(line.text.split(" = ")[0].rstrip(":")))
    if isinstance(node, Expr):
        text = printer.exprs.text(node)
    elif isinstance(node, nodes.Buffer) and node in printer.names:
        text = printer.names[node]
    else:
        return None
    found = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", line.text)
    return (found.start(), len(text)) if found else None


# -------------------------------------------------------------------------------------- printing


class _Printer:
    """Prints one function.

    lines  what is printed so far
    marks  the nodes that were not met yet, each with its note and what it needs
    """

    def __init__(self, mark: Mapping[Any, str] | None, canonical: bool = False) -> None:
        self.canonical = canonical
        self.lines: list[Line] = []
        self.marks = {node: (note, _needed(node)) for node, note in (mark or {}).items()}
        self.names: dict[Node, str] = {}
        self.bound: set[Node] = set()
        self.taken: set[str] = set(_RESERVED)
        self.exprs = ExprPrinter(self.name, lambda: fresh_name("e", self.taken))

    # ------------------------------------------------------------------------------- names

    def name(self, node: Var | nodes.Buffer) -> str:
        """The name of a variable or buffer."""
        found = self.names.get(node)
        return self._fresh(node) if found is None else found

    def bind(self, node: Var | nodes.Buffer) -> str:
        """The name of a variable or buffer from here on, where it is bound."""
        if node in self.bound:
            self.exprs.forget()
            return self._fresh(node)
        self.bound.add(node)
        return self.name(node)

    def _fresh(self, node: Var | nodes.Buffer) -> str:
        name = fresh_name("v" if self.canonical else node.name, self.taken)
        self.names[node] = name
        return name

    def line(self, depth: int, text: str, node: Node | None = None) -> None:
        """One line, behind the parts of its expressions that are too deep to stand in it."""
        if self.exprs.pending:
            for name, part in self.exprs.pending:
                self.add(Line(depth, f"{name} = T.meta_var({part})"))
            self.exprs.pending.clear()
            self.exprs.forget()
        self.add(Line(depth, text, node))

    def add(self, line: Line) -> None:
        """A line, with marks below it where it (or a part of it) bears one."""
        self.lines.append(line)
        for node, (note, needed) in list(self.marks.items()) if self.marks else ():
            place = _place(node, line, self) if needed <= self.names.keys() else None
            if place is not None:
                del self.marks[node]
                text = " " * place[0] + f"{'^' * place[1]} {note}".rstrip()
                self.lines.append(Line(line.depth, text, note=True))

    def text(self) -> str:
        """All lines."""
        return "\n".join(map(str, self.lines)) + "\n"

    # --------------------------------------------------------------------------- functions

    def function(self, func: nodes.PrimFunc, name: str | None) -> Self:
        """The lines of a function. name: what it is called in the text; None: as it is."""
        for p in func.params:
            self.bind(p)
        free = shape_vars(func.params)
        for v in free:
            self.bind(v)
        own = func.name
        usable = own.isidentifier() and not keyword.iskeyword(own)
        shown = name if name is not None else own if usable else "main"
        attrs = {k: v for k, v in func.attrs.items() if k not in ("name", "private")}
        attrs = {"name": own, **attrs} if shown != own else attrs
        private = func.attrs.get("private")
        if private is not None and private is not True:
            attrs["private"] = private
        self.line(0, "@T.prim_func(private=True)" if private is True else "@T.prim_func")
        params = ", ".join([f"{self.name(p)}: {self.annotation(p)}" for p in func.params])
        self.line(0, f"def {shown}({params}):", func)
        for v in free:
            self.line(1, f"{self.name(v)} = T.{v.type}()")
        if attrs:
            self.line(1, f"T.func_attr({self.data(attrs)})")
        root = func.body
        if not has_implicit_root(root):
            explicit = isinstance(root, nodes.BlockRealize) and root.block.name == "root"
            if _has_block(root) and not explicit:
                self.line(1, "T.no_root_block()")
            self.body(root, 1)
            return self
        assert isinstance(root, nodes.BlockRealize)
        self.block_head(root.block, 1)
        self.body(root.block.body, 1)
        return self

    def annotation(self, p: Var | nodes.Buffer) -> str:
        """A parameter's type."""
        return (
            f"T.{p.type}" if isinstance(p, Var) else f"T.Buffer({', '.join(self.buffer_args(p))})"
        )

    def buffer_args(self, b: nodes.Buffer) -> list[str]:
        """Shape, element type, and what is out of the ordinary."""
        parts = [self.exprs.tuple_text(b.shape), f'"{b.type}"']
        if b.scope != "global":
            parts.append(f'scope="{b.scope}"')
        if b.strides:
            parts.append(f"strides={self.exprs.tuple_text(b.strides)}")
        if b.axis_separators:
            parts.append(f"axis_separators={list(b.axis_separators)}")
        return parts

    # -------------------------------------------------------------------------- statements

    def body(self, stmt: nodes.Stmt, depth: int) -> None:
        """The statements of a suite, `pass` where there are none."""
        todo = nodes.flat(stmt)
        if not todo:
            self.line(depth, "pass", stmt)
        while todo:
            s, rest = todo[0], todo[1:]
            if not rest and isinstance(s, nodes.Allocate | nodes.AllocateConst):
                text = self.allocate(s)
                self.line(depth, f"{self.bind(s.buffer)} = {text}", s)
                todo = nodes.flat(s.body) or [nodes.Seq(())]
            elif not rest and isinstance(s, nodes.LetStmt):
                value = self.exprs.operand(s.value, s.var.type)
                self.line(depth, f"{self.bind(s.var)}: T.{s.var.type} = {value}", s)
                todo = nodes.flat(s.body) or [nodes.Seq(())]
            else:
                self.statement(s, depth)
                todo = rest

    def suite(
        self, depth: int, head: str, body: nodes.Stmt, node: nodes.Stmt | None = None
    ) -> None:
        """The statements of a suite below what they belong to."""
        self.line(depth, head, node)
        self.body(body, depth + 1)

    def statement(self, s: nodes.Stmt, depth: int) -> None:
        """The lines of one statement."""
        e = self.exprs
        match s:
            case nodes.BufferStore(buffer, value, indices):
                right = e.operand(value, buffer.type)
                self.line(depth, f"{self.name(buffer)}[{e.indices(indices)}] = {right}", s)
            case nodes.For():
                text = self.loop(s)
                self.suite(depth, f"for {self.bind(s.var)} in {text}:", s.body, s)
            case nodes.BlockRealize(values, predicate, block):
                self.line(depth, f"with T.block({quoted(block.name)}):", s)
                self.block(block, values, predicate, depth + 1)
            case nodes.IfThenElse(condition, yes, no):
                self.suite(depth, f"if {e.text(condition)}:", yes, s)
                if no is not None:
                    self.suite(depth, "else:", no)
            case nodes.LetStmt(var, value, body):
                given = e.operand(value, var.type)
                head = f'with T.let({given}, "{var.type}") as {self.bind(var)}:'
                self.suite(depth, head, body, s)
            case nodes.Allocate(buffer) | nodes.AllocateConst(buffer):
                text = self.allocate(s)
                self.suite(depth, f"with {text} as {self.bind(buffer)}:", s.body, s)
            case nodes.Evaluate(value):
                text = e.text(value)
                self.line(depth, text if text.startswith("T.smelt.") else f"T.evaluate({text})", s)
            case nodes.AssertStmt(condition, message):
                self.line(depth, f"assert {e.text(condition)}, {quoted(message)}", s)
            case nodes.While(condition, body):
                self.suite(depth, f"while {e.text(condition)}:", body, s)
            case nodes.Block():
                self.line(depth, f"with T.block({quoted(s.name)}):", s)
                own = tuple([i.var for i in s.iter_vars])
                self.block(s, own, IntImm("bool", 1), depth + 1)
            case nodes.Seq(()):
                self.line(depth, "pass", s)
            case _:
                self.line(depth, f"# {type(s).__name__}", s)

    def loop(self, s: nodes.For) -> str:
        """What a loop runs over."""
        args, options = self.interval(s.min, s.extent), ""
        if s.var.type != s.extent.dtype:
            options += f', dtype="{s.var.type}"'
        if s.kind == "thread_binding" or s.thread is not None:
            options += f", thread={quoted(s.thread)}"
        if s.annotations:
            options += f", annotations={self.data(s.annotations)}"
        if s.kind == "serial" and not options:
            return f"range({args})"
        return f"T.{'unroll' if s.kind == 'unrolled' else s.kind}({args}{options})"

    def interval(self, low: Expr, extent: Expr) -> str:
        """`extent`, or `low, low + extent` where it does not begin at zero."""
        if isinstance(low, IntImm) and low.value == 0 and low.type == extent.dtype:
            return self.exprs.text(extent)
        return f"{self.exprs.text(low)}, {self.exprs.end_text(low, extent)}"

    def allocate(self, s: nodes.Allocate | nodes.AllocateConst) -> str:
        """What a buffer that lives in a suite is bound to."""
        if isinstance(s, nodes.AllocateConst):
            elements = [const(v.item(), s.buffer.type) for v in s.data.flat]
            data = ", ".join([self.exprs.operand(e, s.buffer.type) for e in elements])
            shape, kind, *more = self.buffer_args(s.buffer)
            return f"T.allocate_const({', '.join([f'[{data}]', kind, shape, *more])})"
        notes = f", annotations={self.data(s.annotations)}" if s.annotations else ""
        return f"T.allocate({', '.join(self.buffer_args(s.buffer))}{notes})"

    # ------------------------------------------------------------------------------ blocks

    def block(self, b: nodes.Block, values: tuple[Expr, ...], predicate: Expr, depth: int) -> None:
        """The inside of a block: its head, then its body."""
        if len(values) != len(b.iter_vars):
            self.line(depth, f"# {len(b.iter_vars)} iteration variables, {len(values)} values")
        for it, value in zip(b.iter_vars, values, strict=False):
            args = self.axis(it.dom, value, it.var.type)
            self.line(depth, f"{self.bind(it.var)} = T.axis.{it.kind}({args})", it)
        if not is_const(predicate, 1):
            self.line(depth, f"T.where({self.exprs.text(predicate)})")
        root = b.name == "root" and not b.iter_vars
        reads, writes = (True, True) if root or (b.reads and b.writes) else _touches(b)
        if b.reads or (reads and not root):
            self.line(depth, f"T.reads({', '.join(map(self.region, b.reads))})")
        if b.writes or (writes and not root):
            self.line(depth, f"T.writes({', '.join(map(self.region, b.writes))})")
        self.block_head(b, depth)
        if b.init is not None:
            self.suite(depth, "with T.init():", b.init)
        self.body(b.body, depth)

    def block_head(self, b: nodes.Block, depth: int) -> None:
        """Annotations and buffers of a block."""
        if b.annotations:
            self.line(depth, f"T.block_attr({self.data(b.annotations)})")
        for buffer in b.alloc_buffers:
            args = ", ".join(self.buffer_args(buffer))
            self.line(depth, f"{self.bind(buffer)} = T.alloc_buffer({args})", buffer)

    def axis(self, dom: nodes.Range, value: Expr, kind: str) -> str:
        """Domain, value, and the type where none of the two tells it."""
        e = self.exprs
        extent = e.operand(dom.extent, kind)
        if not (isinstance(dom.min, IntImm) and dom.min.value == 0 and dom.min.type == kind):
            end = e.end_text(dom.min, dom.extent)
            extent = f"({e.operand(dom.min, kind)}, {end})"
        tells = [x for x in (value, dom.extent, dom.min) if not is_const(x)]
        known = tells[0].dtype if tells else INDEX
        return f"{extent}, {e.operand(value, kind)}" + (f', dtype="{kind}"' * (known != kind))

    def region(self, r: nodes.BufferRegion) -> str:
        """A[i, lo:hi]."""
        parts = []
        for d in r.region:
            low = self.exprs.text(d.min)
            single = is_const(d.extent, 1) and d.extent.dtype == INDEX
            parts.append(low if single else f"{low}:{self.exprs.end_text(d.min, d.extent)}")
        return f"{self.name(r.buffer)}[{', '.join(parts) or '()'}]"

    # ----------------------------------------------------------------------------- values

    def data(self, value: Any) -> str:
        """Plain data of attributes and annotations."""
        return self.exprs.data(value, ordered=not self.canonical)


def _touches(block: nodes.Block) -> tuple[bool, bool]:
    """Whether anything in a block reads, and whether anything writes."""
    roots = [root for root in (block.init, block.body) if root is not None]
    inside = [s for root in roots for s in nodes.walk(root)]
    blocks = [s for s in inside if isinstance(s, nodes.Block)]
    writes = any(b.writes for b in blocks) or any(stored(s) for s in inside)
    return any(b.reads for b in blocks) or bool(loads(block)), writes
