"""Graph programs as text in Python syntax; weights are references by name.

@R.function
def main(x: R.Tensor((n, 784), "float32"), *, w: R.Constant((784, 10), "float32")) -> R.Tensor(...):
    v0 = R.matmul(x, w)
    return v0
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Mapping
from typing import Any

from smelt.ir.errors import Unsupported
from smelt.ir.expr import INDEX, Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.text import data_text, fresh_name, printed, quoted
from smelt.ir.types import TensorType, TupleType, Type
from smelt.tir.nodes import Buffer
from smelt.tir.printer_expr import ExprPrinter
from smelt.topi.registry import Op

from .nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
)

__all__ = ["constant_names", "order", "script"]

_RESERVED = frozenset({"I", "R", "T", "cls", "float", *keyword.kwlist})
_INDENT = "    "


def script(program: IRModule | Function, name: str = "main") -> str:
    """The text of a module, or of one function under a name."""
    if isinstance(program, Function):
        return printed(program, fresh_name(name, set(_RESERVED)), {}, {})
    return program.script()


@printed.register
def _(f: Function, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]) -> str:
    return "\n".join(_Printer(f, names).function(name or "main")) + "\n"


def constant_names(f: Function) -> dict[str, Constant]:
    """The constants of a function under the names that its text gives them."""
    printer = _Printer(f, {})
    return {printer.names[c]: c for c in printer.constants}


def order(f: Function) -> tuple[list[RelaxExpr], list[Constant]]:
    """Calls, tuples and branches in order of evaluation, and the constants in order of use."""
    steps: list[RelaxExpr] = []
    constants: list[Constant] = []
    seen: set[Node] = set()
    stack: list[tuple[RelaxExpr, bool]] = [(f.body, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            steps.append(node)
        elif node not in seen:
            seen.add(node)
            if isinstance(node, Constant):
                constants.append(node)
            elif not isinstance(node, Var):
                stack.append((node, True))
                stack += [(c, False) for c in reversed(operands(node))]
    return steps, constants


def operands(node: RelaxExpr) -> list[RelaxExpr]:
    """What a value is computed from. Branches of an If count with what they use from around."""
    match node:
        case Call():
            return [a for a in node.args if a is not None]
        case Tuple(items):
            return list(items)
        case TupleGetItem(value):
            return [value]
        case If(condition):
            return [condition]
    return []


class _Printer:
    """Prints one function."""

    def __init__(self, f: Function, names: Mapping[str, str]) -> None:
        self.f, self.globals = f, names
        self.names: dict[Node, str] = {}
        self.taken = set(_RESERVED)
        self.steps, self.constants = order(f)
        for p in f.params:
            self.names[p] = fresh_name(p.name, self.taken)
        self.sizes = ExprPrinter(self.size_name)
        for p in f.params:
            self.type(p.type)
        for k, c in enumerate(self.constants):
            self.names[c] = fresh_name(f"w{k}", self.taken)

    def size_name(self, v: SizeVar | Buffer) -> str:
        """The name of a symbolic size."""
        if v not in self.names:
            self.names[v] = fresh_name(v.name, self.taken)
        return self.names[v]

    # ------------------------------------------------------------------------------- types

    def type(self, t: Type) -> str:
        """A type."""
        if isinstance(t, TupleType):
            return f"R.Tuple({', '.join([self.type(i) for i in t.items])})"
        assert isinstance(t, TensorType)
        return f"R.Tensor({self.tensor(t)})"

    def tensor(self, t: TensorType) -> str:
        """Shape and element type."""
        return f'{self.data(t.shape)}, "{t.dtype}"'

    def data(self, value: Any) -> str:
        """Attributes and shapes."""
        return _data(value, self.sizes)

    # ----------------------------------------------------------------------------- function

    def function(self, name: str) -> list[str]:
        """The lines of the function."""
        body = list(self.body())
        params = [self.parameter(p, "Tensor") for p in self.f.params]
        if self.constants:
            params += ["*", *[self.parameter(c, "Constant") for c in self.constants]]
        head = f"def {name}("
        result = f") -> {self.type(self.f.body.type)}:"
        line = head + ", ".join(params) + result
        lines = ["@R.function"]
        if len(line) <= 100:
            lines.append(line)
        else:
            lines += [
                head,
                *[f"{_INDENT}{p}," if p != "*" else f"{_INDENT}*," for p in params],
                result,
            ]
        free = self.free_sizes()
        lines += [f"{_INDENT}{self.names[v]} = R.size({quoted(v.name)})" for v in free]
        if self.f.attrs:
            lines.append(f"{_INDENT}R.func_attr({self.data(self.f.attrs)})")
        return lines + [_INDENT + s for s in body]

    def free_sizes(self) -> list[SizeVar]:
        """Sizes that no parameter's shape shows by itself, and those whose name had to change."""
        shown = {e for p in self.f.params if isinstance(p.type, TensorType) for e in p.type.shape}
        sizes = [v for v in self.names if isinstance(v, SizeVar)]
        return [v for v in sizes if v not in shown or self.names[v] != v.name]

    def parameter(self, p: Var | Constant, kind: str) -> str:
        """A parameter or a constant with its type; its own name where that is no identifier."""
        if isinstance(p.type, TupleType):
            text = self.type(p.type)
        else:
            assert isinstance(p.type, TensorType)
            own = "" if p.name == self.names[p] else f", name={quoted(p.name)}"
            text = f"R.{kind}({self.tensor(p.type)}{own if kind == 'Tensor' or p.name else ''})"
        return f"{self.names[p]}: {text}"

    def body(self) -> Iterator[str]:
        """The statements."""
        count = 0
        last = self.f.body
        for node in self.steps:
            if node is last and isinstance(node, Tuple) and node.items:
                continue
            self.names[node] = fresh_name(f"v{count}", self.taken)
            count += 1
            yield f"{self.names[node]} = {self.value(node)}"
        if isinstance(last, Tuple) and last.items:
            yield f"return {self.items(last)}"
        else:
            yield f"return {self.names[last]}"

    def items(self, t: Tuple) -> str:
        """A tuple of names."""
        names = [self.names[i] for i in t.items]
        return ", ".join(names) + ("," if len(names) == 1 else "")

    def value(self, node: RelaxExpr) -> str:
        """The right side of one statement."""
        match node:
            case Call(Op() | GlobalVar() as op, args):
                given = [("None" if a is None else self.names[a]) for a in args]
                if isinstance(op, GlobalVar):
                    tuple_text = f"({', '.join(given)}{',' * (len(given) == 1)})"
                    target = self.globals.get(op.name, op.name)
                    return f"R.call_tir({target}, {tuple_text}, {self.type(node.type)})"
                return f"R.{op.name}({', '.join([*given, *self.attributes(op, node.attrs)])})"
            case Tuple():
                return f"({self.items(node)})"
            case TupleGetItem(value, index):
                return f"{self.names[value]}[{index}]"
        raise Unsupported(f"a {type(node).__name__} has no text form")

    def attributes(self, op: Op, attrs: Mapping[str, Any]) -> list[str]:
        """Attributes that differ from their defaults."""
        out = []
        for name, value in attrs.items():
            p = op.attributes.get(name)
            if p is None or not same_data(value, p.default):
                out.append(f"{name}={self.data(value)}")
        return out


def same_data(a: Any, b: Any) -> bool:
    """Whether two attribute values are the same, their types included."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same_data(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Expr) or isinstance(b, Expr):
        return a is b
    if isinstance(a, float) and isinstance(b, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def _data(value: Any, sizes: ExprPrinter | None) -> str:
    """Plain data, with expressions over sizes in it."""

    def other(x: Any) -> str:
        if isinstance(x, IntImm) and x.type == INDEX:
            return str(x.value)
        if not isinstance(x, Expr):
            raise Unsupported(f"the attribute value {x!r} has no text form")
        assert sizes is not None
        return sizes.text(x)

    return data_text(value, other)
