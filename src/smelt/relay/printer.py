"""Graph programs in the words of Relay; `relay.parse` reads them back.

    def @main(%x: Tensor[(1, 3, 8, 8), float32]) -> Tensor[(1, 4, 8, 8), float32] {
      %0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1]) /* ty=... */;
      nn.relu(%0) /* ty=... */
    }

A value that is computed has a line, and is written once however often it is used. Constants are
references into a table, which stands behind the program as `#[metadata]` where it is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import TEXTS, IRModule
from smelt.ir.node import postorder
from smelt.ir.types import IncompleteType, Type
from smelt.relax.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    TypeData,
)
from smelt.relax.graph import LEAVES
from smelt.relax.nodes import (
    CONSTANTS,
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    dialect_of,
)
from smelt.relax.printer import same_data
from smelt.relax.printer_blocks import TextBlock
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.topi.registry import Op

from .dialect import RELAY
from .metadata import metadata_text
from .op import name_of
from .printer_scopes import BlockTree
from .printer_words import (
    ANY,
    Words,
    identifier,
    scalar_text,
    size_text,
    sizes_of,
    type_text,
    value_text,
)

__all__ = ["VERSION", "astext", "expression_text", "function_text", "meta_table", "module_text",
           "size_text", "type_text", "value_text"]  # fmt: skip

VERSION = '#[version = "0.0.5"]'

_LINE = object()
"""Where a line begins."""

Piece = str | TextBlock | object


def astext(program: RelaxExpr | IRModule, show_meta_data: bool = True) -> str:
    """The whole text of an expression, a function or a module.

    show_meta_data  the constants behind meta[relay.Constant][...], so that `relay.parse` needs
                    nothing else; their bytes take 4/3 of their size
    """
    if isinstance(program, IRModule):
        return module_text(program, show_meta_data)
    printer = _Printer([program])
    text = f"{VERSION}\n{printer.unit(program)}\n"
    return text + (printer.meta() if show_meta_data else "")


def expression_text(e: RelaxExpr) -> str:
    """A value with everything it is computed from; of a function, the function."""
    return _Printer([e]).unit(e)


function_text = expression_text


def module_text(mod: IRModule, show_meta_data: bool = True, header: bool = True) -> str:
    """All of a module. header: the line with the version of the text; else as of `astext`."""
    printer = _Printer([f for f in mod.functions.values() if isinstance(f, RelaxExpr)])
    head = f"{VERSION}\n" if header else ""
    attrs = {k: v for k, v in mod.attrs.items() if k != "type_defs"}
    if attrs:
        head += f"#[attributes = {printer.words.value(attrs, '()')}]\n"
    parts = [printer.definition(d) for d in mod.type_definitions.values()]
    for name, f in mod.functions.items():
        if isinstance(f, Function):
            parts.append(printer.unit(f, name))
        else:
            parts.append(script(f).rstrip() if isinstance(f, PrimFunc) else str(f))
    text = head + "\n\n".join(parts) + "\n" * bool(parts)
    return text + (printer.meta() if show_meta_data else "")


def meta_table(program: RelaxExpr | IRModule) -> dict[str, list[np.ndarray]]:
    """The constants that a text without its metadata refers to, as `relay.parse(meta=)` takes them.

    They are the program's own arrays, not copies.
    """
    parts = list(program.functions.values()) if isinstance(program, IRModule) else [program]
    printer = _Printer(found := [p for p in parts if isinstance(p, RelaxExpr)])
    for part in found:
        printer.unit(part)
    return {"relay.Constant": [c.data.view(np.ndarray) for c in printer.constants]}


class _Printer:
    """The text of programs that share a table of constants and the names of sizes."""

    def __init__(self, programs: Iterable[RelaxExpr]) -> None:
        self.words = Words(_anonymous(programs), self.reference)
        self.constants: dict[Constant, int] = {}
        self.names: dict[Var, str] = {}
        self.layout: BlockTree

    def meta(self) -> str:
        """The table of constants; nothing where there is none."""
        return "\n" + metadata_text(list(self.constants)) if self.constants else ""

    def definition(self, d: TypeData) -> str:
        """A data type."""
        self.words.new_scope()
        head = f"type {d.header.name}"
        if d.type_vars:
            head += f"[{', '.join([self.words.type(v) for v in d.type_vars])}]"
        if not d.constructors:
            return f"extern {head}"
        lines = []
        for c in d.constructors:
            fields = ", ".join([self.words.type(t) for t in c.inputs])
            lines.append(f"  {c.name}({fields})," if fields else f"  {c.name},")
        return "\n".join([head + " {", *lines, "}"])

    def unit(self, e: RelaxExpr, name: str | None = None) -> str:
        """An expression, or a function of a module by its name."""
        self.layout = BlockTree(e)
        self.words.new_scope()
        self.names = _names(self.layout.variables)
        lines = [f"free_var {self.typed(v)};\n" for v in self.layout.free]
        if name is None:
            return "".join(lines) + self.text(self.block(self.layout.root))
        assert isinstance(e, Function)
        own = self.function(e, f"def @{identifier(name, dotted=True)}")
        return "".join(lines) + self.text(own)

    def text(self, pieces: Iterator[Piece]) -> str:
        """Pieces put together, those of the blocks inside indented."""
        out: list[str] = []
        stack = [pieces]
        while stack:
            piece = next(stack[-1], None)
            if piece is None:
                stack.pop()
            elif isinstance(piece, str):
                out.append(piece)
            elif piece is _LINE:
                out.append("\n" + "  " * (len(stack) - 1))
            else:
                stack.append(self.block(piece) if isinstance(piece, TextBlock) else piece)  # type: ignore[arg-type]
        return "".join(out).removeprefix("\n")

    # ------------------------------------------------------------------------------ values

    def block(self, block: TextBlock) -> Iterator[Piece]:
        """The lines of a block: its values, then the result."""
        for node, named in block.steps:
            yield _LINE
            if isinstance(node, Let) and named:
                yield f"let {self.typed(node.var)} = "
                yield from self.worded(node.value)
            else:
                yield f"%{self.layout.number[node]} = "
                yield from self.value(node)
            yield ";"
        yield _LINE
        yield from self.worded(block.result)

    def worded(self, e: RelaxExpr) -> Iterator[Piece]:
        """A value by its name where it has one, else what it is."""
        if isinstance(e, LEAVES) or e in self.layout.number:
            yield self.operand(e)
        else:
            yield from self.value(e)

    def value(self, node: RelaxExpr) -> Iterator[Piece]:
        """What stands for a value that is computed, and its type behind it."""
        match node:
            case Function():
                yield from self.function(node, "fn ")
                return
            case Let():
                yield "{"
                yield from (self.layout.blocks[node][0], _LINE, "}")
                return
            case If(condition):
                yes, no = self.layout.blocks[node]
                yield f"if ({self.operand(condition)}) {{"
                yield from (yes, _LINE, "} else {", no, _LINE, "}")
            case Match(data, _, complete):
                yield f"match{'' if complete else '?'} ({self.operand(data)}) {{"
                yield from (self.clauses(node), _LINE, "}")
            case Tuple(items):
                yield f"({self.operands(items)}{',' * (len(items) == 1)})"
            case TupleGetItem(value, index):
                yield f"{self.operand(value)}.{index}"
            case Call():
                yield self.call(node)
            case _:
                yield f"<{type(node).__name__}>"
        yield self.note(node)

    def note(self, node: RelaxExpr) -> str:
        """The type as a comment; nothing where it is not known."""
        t: Type = node.type
        return "" if isinstance(t, IncompleteType) else f" /* ty={self.words.type(t)} */"

    def function(self, f: Function, head: str) -> Iterator[Piece]:
        """A function from its head on."""
        attrs = dict(f.attrs)
        variables = attrs.pop("type_params", ())
        if variables:
            head = f"{head.rstrip()}[{', '.join([self.words.type(v) for v in variables])}]"
        params = [self.typed(p) for p in f.params]
        params += [f"{identifier(k)}={self.words.value(v, '()')}"
                   for k, v in attrs.items()]  # fmt: skip
        result: Type = f.body.type
        known = "" if isinstance(result, IncompleteType) else f" -> {self.words.type(result)}"
        yield f"{head}({', '.join(params)}){known} {{"
        yield from (self.layout.blocks[f][0], _LINE, "}")

    def typed(self, v: Var) -> str:
        """A variable where it is bound."""
        known = "" if isinstance(v.type, IncompleteType) else f": {self.words.type(v.type)}"
        return f"{self.names[v]}{known}"

    def call(self, node: Call) -> str:
        """An operator or a function applied."""
        op, attrs = node.op, node.attrs
        if isinstance(op, Op):
            words = [self.operand(a) for a in node.args]
            words += [
                f"{k}={self.words.value(v)}" for k, v in attrs.items() if not _usual(op, k, v)
            ]
            return f"{name_of(op)}({', '.join(words)})"
        if isinstance(op, Constructor) and not node.args:
            return op.name
        words = [self.operand(a) for a in node.args]
        words += [f"{k}={self.words.value(v)}" for k, v in attrs.items()]
        return f"{self.operand(op)}({', '.join(words)})"

    def operands(self, args: Iterable[RelaxExpr | None]) -> str:
        """Operands with commas between them."""
        return ", ".join([self.operand(a) for a in args])

    def operand(self, e: RelaxExpr | None) -> str:
        """The name of a value, or a constant; an operand left out is None."""
        match e:
            case None:
                return "None"
            case Var():
                return self.names[e]
            case GlobalVar(name):
                return f"@{identifier(name, dotted=True)}"
            case Constructor(name):
                return name
            case Constant():
                return self.constant(e)
        return f"%{self.layout.number[e]}"

    def constant(self, c: Constant) -> str:
        """Numbers as such, arrays as references."""
        text = scalar_text(c.data) if c.data.ndim == 0 else None
        return self.reference(c) if text is None else text

    def reference(self, c: Constant) -> str:
        """A constant by its number in the table."""
        index = self.constants.setdefault(c, len(self.constants))
        return f"meta[relay.Constant][{index}] /* ty={self.words.type(c.type)} */"

    def clauses(self, node: Match) -> Iterator[Piece]:
        """The cases of a Match."""
        for clause, block in zip(node.clauses, self.layout.blocks[node], strict=True):
            yield from (_LINE, f"{self.pattern(clause.lhs)} => {{", block, _LINE, "},")

    def pattern(self, p: Pattern) -> str:
        """What a clause of Match is for."""
        match p:
            case PatternVar(var):
                return self.typed(var)
            case PatternTuple(patterns):
                inside = ", ".join(map(self.pattern, patterns))
                return f"({inside}{',' * (len(patterns) == 1)})"
            case PatternConstructor(constructor, patterns):
                inside = ", ".join(map(self.pattern, patterns))
                return f"{constructor.name}({inside})" if patterns else constructor.name
        return "_"


# ----------------------------------------------------------------------------------- parts


def _names(variables: Iterable[Var]) -> dict[Var, str]:
    """A name for each variable, unique in one text."""
    names: dict[Var, str] = {}
    taken: set[str] = set()
    count: Counter[str] = Counter()
    for v in variables:
        name = v.name
        while name in taken:
            count[v.name] += 1
            name = f"{v.name}_{count[v.name]}"
        taken.add(name)
        names[v] = f"%{identifier(name)}"
    return names


def _anonymous(programs: Iterable[RelaxExpr]) -> list[SizeVar]:
    """Extents that one place only mentions, and are not known before the program runs."""
    count: Counter[SizeVar] = Counter()
    for program in programs:
        for node in postorder(program):
            match node:
                case Var():
                    count.update(sizes_of(node.type))
                case Call(Op(), _, attrs):
                    for _ in range(2):
                        count.update(sizes_of(attrs))
                case Call():
                    for _ in range(2):
                        count.update(sizes_of(node.type))
    return [v for v, n in count.items() if n == 1 and v.name == ANY]


def _usual(op: Op, name: str, value: Any) -> bool:
    """Whether an attribute has its default value, and need not be shown."""
    p = op.attributes.get(name)
    return p is not None and same_data(value, p.default)


# ------------------------------------------------------------------------------------- dialect


def _own(mod: IRModule) -> bool:
    """Whether some function of a module is written in Relay's operators."""
    return bool(mod.type_definitions) or any(
        isinstance(f, Function) and dialect_of(f) is RELAY for f in mod.functions.values()
    )


def _text(mod: IRModule, show_meta_data: bool, header: bool) -> str:
    return module_text(mod, show_meta_data, header) if _own(mod) else ""


TEXTS["relay"] = _text
RELAY.text, RELAY.astext = expression_text, astext
CONSTANTS.append(RELAY)
