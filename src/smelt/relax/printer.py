"""Graph programs as text in Python syntax; weights are references by name.

@R.function
def main(x: R.Tensor((n, 784), "float32"), *, w: R.Constant((784, 10), "float32")) -> R.Tensor(...):
    v0 = R.matmul(x, w)
    return v0

Branches are `if` statements, closures nested functions, `y = R.let(v0)` is a name of the program
itself, `cls.f(x)` calls a function of the module. `parser.py` says how operators are told apart
from the builders of Relax.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smelt.ir.errors import Unsupported
from smelt.ir.expr import INDEX, Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, field_key
from smelt.ir.text import data_text, fresh_name, printed, quoted
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type
from smelt.tir.nodes import Buffer
from smelt.tir.printer_expr import ExprPrinter
from smelt.topi.registry import Op

from . import nodes
from .graph import free_vars
from .host_ops import HostOp
from .printer_blocks import BlockTree, TextBlock, is_number

_RESERVED = frozenset({"I", "R", "T", "cls", "float", *keyword.kwlist})
_INDENT = "    "

ALWAYS_WRITTEN: dict[str, tuple[str, ...]] = {
    "argmax": ("axis", "keepdims"),
    "argmin": ("axis", "keepdims"),
    "argsort": ("dtype",),
    "cumprod": ("axis",),
    "cumsum": ("axis",),
    "full": ("value",),
    "topk": ("sorted",),
    "unique": ("sorted",),
}
"""Attributes that the text always shows, so that no call is one of Relax's builder of that name."""


PRINTED_AS = {"mod": "floor_mod"}
"""Operators of the core whose name is another operator's in Relax, and what the text calls them."""


def written_always(op: Op) -> tuple[str, ...]:
    """The attributes of an operator that its text always shows: see ALWAYS_WRITTEN; keepdims."""
    found = ALWAYS_WRITTEN.get(op.name)
    return found if found is not None else ("keepdims",) if "keepdims" in op.attributes else ()


def script(program: IRModule | nodes.Function, name: str = "main") -> str:
    """The text of a module, or of one function under a name."""
    if isinstance(program, nodes.Function):
        return printed(program, fresh_name(name, set(_RESERVED)), {}, {})
    return program.script()


@printed.register
def _(
    f: nodes.Function, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]
) -> str:
    return "\n".join(_Printer(f, names).function(name or "main")) + "\n"


@printed.register
def _(
    e: nodes.RelaxExpr, name: str | None, names: Mapping[str, str], mark: Mapping[Any, str]
) -> str:
    return "\n".join(_Printer(nodes.Function(tuple(free_vars(e)), e), names).statements())


def constant_names(f: nodes.Function) -> dict[str, nodes.Constant]:
    """The constants of a function under the names that its text gives them."""
    printer = _Printer(f, {})
    return {printer.names[c]: c for c in printer.constants}


def value_names(f: nodes.Function) -> list[tuple[str, nodes.RelaxExpr]]:
    """The values of a function's own block in order of evaluation, by the names that they get.

    A Let stands where its variable gets its value.
    """
    printer = _Printer(f, {})
    printer.function("main")
    found: list[tuple[str, nodes.RelaxExpr]] = []
    for node, binding in printer.layout.root.steps:
        line = isinstance(node, nodes.Let) and node in printer.layout.tail
        shown = node.var if line else node  # type: ignore[attr-defined]
        if binding == line and shown in printer.names and node not in printer.named:
            found.append((printer.names[shown], node))
    return found


class _Printer:
    """Prints one function."""

    def __init__(self, f: nodes.Function, names: Mapping[str, str]) -> None:
        self.f, self.globals = f, names
        self.names: dict[Node, str] = {}
        self.taken = set(_RESERVED)
        self.layout = BlockTree(f)
        self.constants = self.layout.constants
        self.named = {let.value for let in self.layout.named}
        self.count = 0
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
        match t:
            case TensorType():
                return f"R.Tensor({self.tensor(t)})"
            case TupleType(items):
                return f"R.Tuple({', '.join([self.type(i) for i in items])})"
            case IncompleteType():
                return "R.Object"
            case FuncType(arg_types, ret_type, ()):
                args = ", ".join([self.type(a) for a in arg_types])
                comma = "," * (len(arg_types) == 1)
                return f"R.Callable(({args}{comma}), {self.type(ret_type)})"
        raise Unsupported(f"a {type(t).__name__} has no text form; astext() has Relay's")

    def tensor(self, t: TensorType) -> str:
        """Shape and element type."""
        return f'{self.data(t.shape)}, "{t.dtype}"'

    def data(self, value: Any) -> str:
        """Attributes and shapes."""
        return data_text(value, self.datum)

    def datum(self, value: Any) -> str:
        """What stands among plain data: an expression over sizes, a constant by its name."""
        if isinstance(value, nodes.Constant) and value in self.names:
            return self.names[value]
        if isinstance(value, IntImm) and value.type == INDEX:
            return str(value.value)
        if not isinstance(value, Expr):
            raise Unsupported(f"the attribute value {value!r} has no text form")
        return self.sizes.text(value)

    # ----------------------------------------------------------------------------- function

    def function(self, name: str) -> list[str]:
        """The lines of the function."""
        body = list(self.block(self.layout.root))
        params = [self.parameter(p, "Tensor") for p in self.f.params]
        if self.constants:
            params += ["*", *[self.parameter(c, "Constant") for c in self.constants]]
        head = f"def {name}("
        result = f") -> {self.type(self.f.body.type)}:"
        line = head + ", ".join(params) + result
        private = self.f.attrs.get("private") is True
        lines = ["@R.function(private=True)" if private else "@R.function"]
        if len(line) <= 100:
            lines.append(line)
        else:
            lines += [head, *[f"{_INDENT}{p}," for p in params], result]
        free = self.free_sizes()
        lines += [f"{_INDENT}{self.names[v]} = R.size({quoted(v.name)})" for v in free]
        attrs = {k: v for k, v in self.f.attrs.items() if not (k == "private" and private)}
        if attrs:
            lines.append(f"{_INDENT}R.func_attr({self.data(attrs)})")
        return lines + [_INDENT + s for s in body]

    def statements(self) -> list[str]:
        """The lines of a function's body; before them what they read, with its types."""
        body = list(self.block(self.layout.root))
        read = [self.parameter(p, "Tensor") for p in self.f.params]
        read += [self.parameter(c, "Constant") for c in self.constants]
        return [*read, *body[:-1], body[-1].removeprefix("return ")]

    def closure(self, f: nodes.Function, name: str, decorator: str) -> Iterator[str]:
        """The lines of a function in a function; sizes and constants are those of the outermost."""
        for p in f.params:
            self.names[p] = fresh_name(p.name, self.taken)
        params = ", ".join([self.parameter(p, "Tensor") for p in f.params])
        body = list(self.block(self.layout.inner[f][0]))
        yield f"@R.{decorator}"
        yield f"def {name}({params}) -> {self.type(f.body.type)}:"
        if f.attrs:
            yield f"{_INDENT}R.func_attr({self.data(f.attrs)})"
        yield from [_INDENT + s for s in body]

    def free_sizes(self) -> list[SizeVar]:
        """Sizes that no parameter's shape shows by itself, and those whose name had to change."""
        shown = {e for p in self.f.params if isinstance(p.type, TensorType) for e in p.type.shape}
        sizes = [v for v in self.names if isinstance(v, SizeVar)]
        return [v for v in sizes if v not in shown or self.names[v] != v.name]

    def parameter(self, p: nodes.Var | nodes.Constant, kind: str) -> str:
        """A parameter or a constant with its type; its own name where that is no identifier."""
        if isinstance(p.type, TensorType):
            own = "" if p.name == self.names[p] else f", name={quoted(p.name)}"
            text = f"R.{kind}({self.tensor(p.type)}{own if kind == 'Tensor' or p.name else ''})"
        else:
            text = self.type(p.type)
        return f"{self.names[p]}: {text}"

    # --------------------------------------------------------------------------- statements

    def block(self, block: TextBlock, target: str | None = None) -> Iterator[str]:
        """The statements of a block. target: what its result is called; None: it is returned."""
        last = block.result
        for n, (node, binding) in enumerate(block.steps):
            if isinstance(node, nodes.Let) and (binding or node in self.layout.tail):
                if binding:
                    yield from self.binding(node)
                continue
            if node in self.named:
                continue
            if node is last and target is None and isinstance(node, nodes.Tuple) and node.items:
                continue
            ends = node is last and target is not None and n == len(block.steps) - 1
            if ends and self.layout.uses[node] == 1 and not isinstance(node, nodes.Function):
                assert target is not None
                self.names[node] = target
            yield from self.step(node)
        if target is None:
            whole = isinstance(last, nodes.Tuple) and last.items and last not in self.names
            yield f"return {self.items(last) if whole else self.name(last)}"  # type: ignore[arg-type]
        elif self.names.get(last) != target:
            yield f"{target} = {self.name(last)}"

    def fresh(self, node: Node, letter: str = "v") -> str:
        """The name of a value: the one that it has, else the next one."""
        if node not in self.names:
            self.names[node] = fresh_name(f"{letter}{self.count}", self.taken)
            self.count += 1
        return self.names[node]

    def binding(self, let: nodes.Let) -> Iterator[str]:
        """A variable gets its value, which is known; or it is declared, and R.let follows."""
        name = self.names[let.var] = fresh_name(let.var.name, self.taken)
        own = "" if name == let.var.name else f", name={quoted(let.var.name)}"
        if let not in self.layout.tail:
            yield f"{name} = R.var({self.type(let.var.type)}{own})"
        elif let in self.layout.named:
            assert isinstance(let.value, nodes.Function)
            decorator = f"function(name={quoted(let.var.name)})" if own else "function"
            yield from self.closure(let.value, name, decorator)
        else:
            same = let.var.type is let.value.type
            note = "" if same else f": {self.type(let.var.type)}"
            yield f"{name}{note} = R.let({self.name(let.value)}{own})"

    def step(self, node: nodes.RelaxExpr) -> Iterator[str]:
        """The statement of a value."""
        if isinstance(node, nodes.Function):
            yield from self.closure(node, self.fresh(node, "f"), "closure")
            return
        name = self.fresh(node)
        if isinstance(node, nodes.If):
            yield from self.branch(node, name)
            return
        note = f": {self.type(node.type)}" if self.needs_type(node) else ""
        yield f"{name}{note} = {self.value(node)}"

    def needs_type(self, node: nodes.RelaxExpr) -> bool:
        """Whether the text does not tell the type of a call by itself."""
        if not isinstance(node, nodes.Call):
            return False
        if isinstance(node.op, Op):
            open_ = any(a is not None and nodes.incomplete(a.type) for a in node.args)
            return open_ and not nodes.incomplete(node.type)
        if isinstance(node.op, nodes.GlobalVar):
            return isinstance(node.attrs, nodes.CallAttrs)
        given = [a for a in node.args if a is not None]
        return nodes.call_function(node.op, given).type is not node.type

    def branch(self, node: nodes.If, name: str) -> Iterator[str]:
        """if: ... else: ...; both sides end with the name of the result."""
        yes, no = self.layout.inner[node]
        if node.then_branch.body.type is not node.type:
            yield f"{name}: {self.type(node.type)}"
        yield f"if {self.name(node.condition)}:"
        yield from [_INDENT + s for s in self.block(yes, name)]
        yield "else:"
        yield from [_INDENT + s for s in self.block(no, name)]

    # ------------------------------------------------------------------------------- values

    def name(self, node: nodes.RelaxExpr) -> str:
        """What stands for a value that has its statement already."""
        if isinstance(node, nodes.GlobalVar):
            return f"cls.{self.globals.get(node.name, node.name)}"
        if isinstance(node, nodes.Constant) and is_number(node):
            return f'R.const({self.data(node.data.item())}, "{node.type.dtype}")'
        if node not in self.names and isinstance(node, nodes.Var):
            raise Unsupported(f"the variable {node.name!r} is bound nowhere, so it has no text")
        return self.names[node]

    def items(self, t: nodes.Tuple) -> str:
        """A tuple of names."""
        names = [self.name(i) for i in t.items]
        return ", ".join(names) + ("," if len(names) == 1 else "")

    def value(self, node: nodes.RelaxExpr) -> str:
        """The right side of one statement."""
        match node:
            case nodes.Call(op, args):
                given = ["None" if a is None else self.name(a) for a in args]
                if isinstance(op, HostOp) and op.name == "packed":
                    return self.packed(node, given)
                if isinstance(op, Op):
                    name = PRINTED_AS.get(op.name, op.name)
                    return f"R.{name}({', '.join([*given, *self.attributes(op, node.attrs)])})"
                if isinstance(op, nodes.GlobalVar) and not isinstance(node.attrs, nodes.CallAttrs):
                    operands = f"({', '.join(given)}{',' * (len(given) == 1)})"
                    parts = [self.globals.get(op.name, op.name), operands, self.type(node.type)]
                    if nodes.INPLACE in node.attrs:
                        parts.insert(2, self.data(node.attrs[nodes.INPLACE]))
                        return f"R.call_tir_inplace({', '.join(parts)})"
                    parts += [f"{k}={self.data(v)}" for k, v in node.attrs.items()]
                    return f"R.call_tir({', '.join(parts)})"
                if node.attrs:
                    raise Unsupported("attributes of a call of a function have no text form")
                return f"{self.name(op)}({', '.join(given)})"
            case nodes.Tuple():
                return f"({self.items(node)})"
            case nodes.TupleGetItem(value, index):
                return f"{self.name(value)}[{index}]"
            case nodes.MatchCast(value):
                return f"R.match_cast({self.name(value)}, {self.type(node.type)})"
            case nodes.Let(var, value, body):
                return f"R.let({self.name(var)}, {self.name(value)}, {self.name(body)})"
        raise Unsupported(f"a {type(node).__name__} has no text form")

    def packed(self, node: nodes.Call, given: Sequence[str]) -> str:
        """A call of a registered function."""
        func, t = self.data(node.attrs["func"]), self.type(node.type)
        if node.attrs["fresh"]:
            operands = f"({', '.join(given)}{',' * (len(given) == 1)})"
            return f"R.call_dps_packed({func}, {operands}, out_sinfo={t})"
        operands = ", ".join([func, *given])
        if node.attrs["inplace"]:
            indices = self.data(tuple(node.attrs["inplace"]))
            return f"R.call_inplace_packed({operands}, inplace_indices={indices}, sinfo_args={t})"
        return f"R.call_pure_packed({operands}, sinfo_args={t})"

    def attributes(self, op: Op, attrs: Mapping[str, Any]) -> list[str]:
        """Attributes that differ from their defaults, and those that are always written."""
        always = written_always(op)
        usual = {n: p.default for n, p in op.attributes.items() if n not in always}
        shown = [n for n, v in attrs.items() if n not in usual or not same_data(v, usual[n])]
        return [f"{n}={self.data(attrs[n])}" for n in shown]


def same_data(a: Any, b: Any) -> bool:
    """Whether two attribute values are the same, their types included."""
    return bool(field_key(a) == field_key(b))
