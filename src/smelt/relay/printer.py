"""Graph programs in the words of Relay.

    fn (%x: Tensor[(1, 3, 8, 8), float32]) -> Tensor[(1, 4, 8, 8), float32] {
      %0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1], ...);
      nn.relu(%0)
    }

Fused functions stand where they are first called; weights are references.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.ir.expr import Expr, IntImm
from smelt.ir.module import TEXTS, IRModule
from smelt.ir.node import Node
from smelt.ir.types import FuncType, TensorType, TupleType, Type
from smelt.relax.nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    dialect_of,
    values,
)
from smelt.relax.printer import same_data
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.topi.registry import Op

from .dialect import RELAY
from .op import name_of

__all__ = ["expression_text", "function_text", "module_text", "type_text"]

_SUFFIX = {"float32": "f", "float64": "f64", "float16": "f16", "int64": "i64", "int32": ""}


def type_text(t: Type) -> str:
    """A type in Relay's words: Tensor[(1, 3), float32]."""
    if isinstance(t, TupleType):
        return f"({', '.join([type_text(i) for i in t.items])}{',' * (len(t.items) == 1)})"
    if isinstance(t, FuncType):
        return f"fn ({', '.join([type_text(a) for a in t.arg_types])}) -> {type_text(t.ret_type)}"
    if not isinstance(t, TensorType):
        return "_"
    extents = [size_text(e) for e in t.shape]
    return f"Tensor[({', '.join(extents)}{',' * (len(extents) == 1)}), {t.dtype}]"


def size_text(e: Expr) -> str:
    """A number, the name of a symbolic size, or an expression over such."""
    return str(e.value) if isinstance(e, IntImm) else script(e).replace("T.", "").strip()


def value_text(value: Any) -> str:
    """An attribute as Relay writes it: lists in brackets, strings in double quotes."""
    if isinstance(value, tuple):
        return f"[{', '.join([value_text(v) for v in value])}]"
    if isinstance(value, Expr):
        return size_text(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:g}f"
    return repr(value)


def function_text(f: Function, scope: Mapping[str, Node] | None = None) -> str:
    """A function: `fn (...) { ... }`. scope: the functions of its module."""
    return "\n".join(_Printer(scope or {}).function(f, "fn ", {}))


def expression_text(e: RelaxExpr, scope: Mapping[str, Node] | None = None) -> str:
    """A value with everything it is computed from."""
    printer = _Printer(scope or {})
    return "\n".join(printer.body(e, {}))


def module_text(mod: IRModule, show_meta_data: bool = True) -> str:
    """All functions of a module but those that stand where they are called.

    show_meta_data  list the constants behind meta[relay.Constant][...]
    """
    printer = _Printer(mod.functions)
    parts = []
    for name, f in mod.functions.items():
        if isinstance(f, PrimFunc):
            parts.append(script(f).rstrip())
        elif isinstance(f, Function) and not f.attrs.get("primitive"):
            parts.append("\n".join(printer.function(f, f"def @{name}", {})))
    if show_meta_data and printer.constants:
        parts.append("\n".join(printer.meta()))
    return "\n\n".join(parts) + "\n"


Names = dict[Node, str]


class _Printer:
    """The text of functions that share a table of constants."""

    def __init__(self, scope: Mapping[str, Node]) -> None:
        self.scope = scope
        self.constants: dict[Constant, int] = {}

    def meta(self) -> list[str]:
        """The table of constants."""
        lines = ["#[metadata]"]
        for c, i in self.constants.items():
            known = f'  /* "{c.name}" */' if c.name else ""
            lines.append(f"meta[relay.Constant][{i}]: {type_text(c.type)}{known}")
        return lines

    def function(self, f: Function, head: str, names: Names) -> list[str]:
        """The lines of a function; names: those of the values around it."""
        names = {**names, **{p: f"%{p.name}" for p in f.params}}
        params = [f"{names[p]}: {type_text(p.type)}" for p in f.params]
        if f.attrs.get("primitive"):
            params.append("Primitive=1")
        result = type_text(f.body.type)
        body = [f"  {line}" for line in self.body(f.body, names)]
        return [f"{head}({', '.join(params)}) -> {result} {{", *body, "}"]

    def body(self, result: RelaxExpr, names: Names, count: int = 0) -> list[str]:
        """One line a value, the result last and without a name."""
        names = dict(names)
        lines: list[str] = []
        for node in _order(result, names):
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                count = self.called(node.op, names, lines, count)
            made = self.value(node, names, count)
            note = f" /* ty={type_text(_type(node))} */"
            if node is result:
                made[-1] += note
            else:
                names[node] = f"%{count}"
                count += 1
                made[0] = f"{names[node]} = {made[0]}"
                made[-1] += f"{note};"
            lines += made
        return lines or [self.operand(result, names)]

    def called(self, name: GlobalVar, names: Names, lines: list[str], count: int) -> int:
        """A fused function, in front of its first call."""
        f = self.scope.get(name.name)
        if not isinstance(f, Function) or not f.attrs.get("primitive") or f in names:
            return count
        made = self.function(f, "fn ", {})
        names[f] = f"%{count}"
        made[0] = f"{names[f]} = {made[0]}"
        made[-1] += f" /* {name.name} */;"
        lines += made
        return count + 1

    def value(self, node: RelaxExpr, names: Names, count: int) -> list[str]:
        """What stands for a value that is computed."""
        match node:
            case Call(GlobalVar(name), args):
                f = self.scope.get(name)
                callee = names.get(f, f"@{name}") if f is not None else f"@{name}"
                return [f"{callee}({self.operands(args, names)})"]
            case Call(Op() as op, args, attrs):
                given = self.operands(args, names)
                words = [f"{k}={value_text(v)}" for k, v in attrs.items() if not _usual(op, k, v)]
                return [f"{name_of(op)}({', '.join([given, *words] if given else words)})"]
            case Call(callee, args):
                assert isinstance(callee, RelaxExpr)
                return [f"{self.operand(callee, names)}({self.operands(args, names)})"]
            case Tuple(items):
                return [f"({self.operands(items, names)}{',' * (len(items) == 1)})"]
            case TupleGetItem(value, index):
                return [f"{self.operand(value, names)}.{index}"]
            case If(condition, yes, no):
                return [
                    f"if ({self.operand(condition, names)}) {{",
                    *[f"  {line}" for line in self.body(yes.body, names, count)],
                    "} else {",
                    *[f"  {line}" for line in self.body(no.body, names, count)],
                    "}",
                ]
        return [self.operand(node, names)]

    def operands(self, args: tuple[RelaxExpr | None, ...], names: Names) -> str:
        """Operands; those left out at the end are not shown."""
        known = list(args)
        while known and known[-1] is None:
            known.pop()
        return ", ".join(["()" if a is None else self.operand(a, names) for a in known])

    def operand(self, e: RelaxExpr, names: Names) -> str:
        """The name of a value; scalars are written out."""
        if e in names:
            return names[e]
        if isinstance(e, Constant):
            if e.data.ndim == 0:
                return _scalar(e.data)
            index = self.constants.setdefault(e, len(self.constants))
            return f"meta[relay.Constant][{index}]"
        return f"%{e.name}" if isinstance(e, Var) else "\n".join(self.value(e, names, 0))


def _type(e: RelaxExpr) -> Type:
    found: Type = e.type
    return found


def _scalar(data: np.ndarray) -> str:
    value = data.item()
    if isinstance(value, bool):
        return str(value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text + _SUFFIX.get(str(data.dtype), f" /* {data.dtype} */")


def _usual(op: Op, name: str, value: Any) -> bool:
    """Whether an attribute has its default value, and need not be shown."""
    p = op.attributes.get(name)
    return p is not None and same_data(value, p.default)


def _order(result: RelaxExpr, known: Names) -> list[RelaxExpr]:
    """Computed values that have no name yet, operands first; a branch keeps what only it uses."""
    found: list[RelaxExpr] = []
    seen: set[Node] = set()
    stack: list[tuple[RelaxExpr, bool]] = [(result, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found.append(node)
        elif node not in seen and node not in known and not isinstance(node, Constant | Var):
            seen.add(node)
            stack.append((node, True))
            stack += [(c, False) for c in reversed(_operands(node))]
    return found


def _operands(node: RelaxExpr) -> list[RelaxExpr]:
    match node:
        case Call(_, args):
            return [a for a in args if a is not None]
        case Tuple(items):
            return list(items)
        case TupleGetItem(value):
            return [value]
        case If(condition, yes, no):
            inside = set(values(no.body))
            return [condition, *[v for v in values(yes.body) if v in inside]]
    return []


def _own(mod: IRModule) -> bool:
    """Whether some function of a module is written in Relay's operators."""
    return any(isinstance(f, Function) and dialect_of(f) is RELAY for f in mod.functions.values())


def _text(mod: IRModule, show_meta_data: bool = True, only_own: bool = False) -> str:
    return "" if only_own and not _own(mod) else module_text(mod, show_meta_data)


def _expression(e: RelaxExpr) -> str:
    return function_text(e) if isinstance(e, Function) else expression_text(e)


TEXTS["relay"] = _text
RELAY.text = _expression
