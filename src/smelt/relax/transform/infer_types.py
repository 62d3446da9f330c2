"""Types are found bottom-up, and filled in where they were not known yet.

What is annotated is kept and checked; a parameter without a type takes that of the operand it is
called with. Functions may call themselves and each other: rounds are repeated until no variable
and no function learns anything new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from smelt.ir.errors import SmeltError, TypeMismatch
from smelt.ir.expr import Expr, IntImm, convert
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type
from smelt.ir.walk import substitute
from smelt.relax.nodes import (
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
    incomplete,
    result_type,
)
from smelt.relax.verify import show_type
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Op

__all__ = ["TYPE_RULES", "Inference", "infer_expression", "infer_types"]

ROUNDS = 32
"""Rounds over a module, at most; two are usual where functions call each other."""

UNKNOWN = IncompleteType()


def infer_types(mod: IRModule) -> IRModule:
    """A module in which every value has its type; the same module where nothing was missing.

    Raises a TypeMismatch that names the function, the call, its operands and the rule it breaks.
    """
    work = Inference(mod)
    functions = {n: f for n, f in mod.functions.items() if isinstance(f, Function)}
    work.globals.update({n: f.type for n, f in functions.items() if not incomplete(f.type)})
    for _ in range(ROUNDS):
        before = dict(work.facts), dict(work.globals)
        for name, f in functions.items():
            work.name = f"@{name}"
            work.global_function(name, f)
        if before == (work.facts, work.globals):
            break
    made = {n: work.rebuilt(f) for n, f in functions.items()}
    changed = {n: f for n, f in made.items() if f is not functions[n]}
    return mod.with_functions(changed) if changed else mod


def infer_expression(e: RelaxExpr, mod: IRModule | None = None) -> RelaxExpr:
    """An expression with all types; calls of functions of a module have those of the module."""
    work = Inference(mod or IRModule())
    work.name = "the expression"
    functions = {n: f for n, f in work.module.functions.items() if isinstance(f, Function)}
    work.globals.update({n: f.type for n, f in functions.items() if not incomplete(f.type)})
    for _ in range(ROUNDS):
        before = dict(work.facts), dict(work.globals)
        work.walk(e)
        if before == (work.facts, work.globals):
            break
    found = work.rebuilt(e)
    assert isinstance(found, RelaxExpr)
    return found


class Inference:
    """What is known of a module so far.

    types    of values, in the round that is going on
    facts    of variables that had no type
    globals  of the module's functions
    named    functions behind variables
    """

    def __init__(self, module: IRModule) -> None:
        """Nothing is known yet."""
        self.module = module
        self.name = ""
        self.types: dict[Node, Type] = {}
        self.facts: dict[Var, Type] = {}
        self.globals: dict[str, Type] = {}
        self.named: dict[Node, Function] = {}

    def global_function(self, name: str, f: Function) -> None:
        """One round over a function of the module."""
        self.walk(f)
        self.globals[name] = self.types[f]

    def walk(self, root: Node) -> None:
        """One round over an expression."""
        types = self.types
        named: dict[Node, list[Var]] = {}
        for node in postorder(root):
            if isinstance(node, Let):
                named.setdefault(node.value, []).append(node.var)
                if isinstance(node.value, Function):
                    self.named[node.var] = node.value
        for node in postorder(root):
            if isinstance(node, RelaxExpr):
                kind = type(node)
                rule = TYPE_RULES.get(kind) or _rule_of(kind)
                types[node] = rule(self, node)
                for var in named.get(node, ()):
                    self.learn(var, types[node])

    def of(self, e: Any) -> Type:
        """What is known of a value."""
        if isinstance(e, GlobalVar):
            return self.global_type(e)
        found = self.types.get(e)
        return e.type if found is None else found

    def global_type(self, g: GlobalVar) -> Type:
        """What is known of a function of the module."""
        if g.name in self.globals:
            return self.globals[g.name]
        if g.name not in self.module:
            known = ", ".join(self.module.functions) or "none"
            raise TypeMismatch(
                f"InferType: {self.name}: the module has no function {g.name!r}; it has: {known}"
            )
        f = self.module[g.name]
        return f.type if isinstance(f, Function) else UNKNOWN

    def function_of(self, callee: Any) -> Function | None:
        """The function that is called, where the program shows it."""
        if isinstance(callee, GlobalVar):
            callee = self.module.functions.get(callee.name)
        found = self.named.get(callee, callee)
        return found if isinstance(found, Function) else None

    def learn(self, v: Var, t: Type) -> None:
        """A variable without a type takes one; one that has a type keeps it."""
        if incomplete(v.type) and not incomplete(t):
            self.facts[v] = t

    def fail(self, node: Call, why: str) -> NoReturn:
        """Raise a TypeMismatch at a call."""
        raise TypeMismatch(f"InferType: {self.name}: {why}\n{self.shown(node)}")

    def shown(self, node: Call) -> str:
        """The call as text, marked, and the types of its operands."""
        operands: list[RelaxExpr | None] = []
        lines: list[str] = []
        for i, a in enumerate(node.args):
            if a is None or isinstance(a, Constant):
                operands.append(a)
            else:
                name = a.name if isinstance(a, Var) else str(i)
                operands.append(Var(name, self.of(a)))
            if a is not None:
                lines.append(f"    {_operand_name(node, i)}: {show_type(self.of(a))}")
        text = _text(node, operands)
        head = text.split("(")[0]
        return "\n".join([f"    {text}", f"    {'^' * len(head)}", *lines])

    # ------------------------------------------------------------------------- new nodes

    def rebuilt(self, root: Any) -> Any:
        """An expression with the types that were found."""
        done: dict[Node, Node] = {}
        for node in postorder(root):
            new: Any = node.with_children(lambda c: done.get(c, c))
            if isinstance(node, Var):
                found = self.facts.get(node)
                new = node if found is None else node.replace(type=found)
            elif isinstance(node, Call | If):
                t = self.types.get(node, node.type)
                new = new if new.type is t else new.replace(type=t)
            done[node] = new
        return done[root]


Rule = Callable[[Inference, Any], Type]


def _rule_of(kind: type) -> Rule:
    """The rule of a class of values that is not in the table: its type is its own."""
    return next((r for k, r in TYPE_RULES.items() if issubclass(kind, k)), lambda w, n: n.type)


def _operand_name(node: Call, i: int) -> str:
    names = node.op.operands if isinstance(node.op, Op) and not node.op.variadic else ()
    return names[i] if i < len(names) else f"operand {i}"


def _text(node: Call, operands: list[RelaxExpr | None]) -> str:
    """A call on operands that are variables, in one line."""
    shown = [
        "()" if a is None else f"%{a.name}" if isinstance(a, Var) else show_type(a.type)
        for a in operands
    ]
    callee = node.op
    name = callee.name if isinstance(callee, Op) else f"@{callee.name}" if isinstance(
        callee, GlobalVar) else f"%{callee.name}" if isinstance(callee, Var) else "fn"  # fmt: skip
    return f"{name}({', '.join(shown)})"


# ------------------------------------------------------------------------------------ rules


def _var(w: Inference, v: Var) -> Type:
    return w.facts.get(v, v.type)


def _constant(w: Inference, c: Constant) -> Type:
    return c.type


def _tuple(w: Inference, t: Tuple) -> Type:
    return TupleType(tuple([w.of(i) for i in t.items]))


def _item(w: Inference, node: TupleGetItem) -> Type:
    t = w.of(node.value)
    if isinstance(t, IncompleteType):
        return t
    if not isinstance(t, TupleType) or not 0 <= node.index < len(t.items):
        raise TypeMismatch(
            f"InferType: {w.name}: item {node.index} of a value of type {show_type(t)}"
        )
    return t.items[node.index]


def _function(w: Inference, f: Function) -> Type:
    return FuncType(tuple([w.of(p) for p in f.params]), w.of(f.body))


def _let(w: Inference, node: Let) -> Type:
    return w.of(node.body)


def _if(w: Inference, node: If) -> Type:
    c = w.of(node.condition)
    if not incomplete(c) and not (isinstance(c, TensorType) and c.dtype == "bool" and not c.shape):
        raise TypeMismatch(
            f"InferType: {w.name}: the condition of an if is {show_type(c)}; it has to be bool[]"
        )
    yes, no = w.of(node.then_branch.body), w.of(node.else_branch.body)
    known = [t for t in (yes, no) if not incomplete(t)]
    if len(known) == 2 and yes is not no and not _alike(yes, no):
        raise TypeMismatch(
            f"InferType: {w.name}: the branches of an if have different types: "
            f"{show_type(yes)} and {show_type(no)}"
        )
    return known[0] if known else UNKNOWN


def _call(w: Inference, node: Call) -> Type:
    op = node.op
    if not isinstance(op, Op):
        return _call_of_function(w, node)
    types = [None if a is None else w.of(a) for a in node.args]
    try:
        return result_type(op, types, node.attrs)
    except SmeltError as e:
        w.fail(node, str(e))


def _call_of_function(w: Inference, node: Call) -> Type:
    """A function of the module, a closure, a function in place."""
    callee = node.op
    if isinstance(callee, GlobalVar) and isinstance(w.module.functions.get(callee.name), PrimFunc):
        return node.type
    given = [w.of(a) for a in node.args if a is not None]
    target = w.function_of(callee)
    if target is not None and len(target.params) == len(given):
        for p, g in zip(target.params, given, strict=True):
            w.learn(p, g)
    t = w.of(callee)
    if isinstance(t, IncompleteType):
        return node.type
    if not isinstance(t, FuncType):
        w.fail(node, f"what is called is no function: its type is {show_type(t)}")
    if len(t.arg_types) != len(given):
        w.fail(node, f"{len(given)} operands for {len(t.arg_types)} parameters")
    sizes: dict[SizeVar, Expr] = {}
    for i, (want, have) in enumerate(zip(t.arg_types, given, strict=True)):
        if not _fits(want, have, sizes):
            w.fail(node, f"operand {i} is {show_type(have)}; the function takes {show_type(want)}")
    return _with_sizes(t.ret_type, sizes)


def _alike(a: Type, b: Type) -> bool:
    """Whether two types may be one: symbolic sizes may turn out to be equal."""
    return _fits(a, b, {}) or _fits(b, a, {})


def _fits(want: Type, have: Type, sizes: dict[SizeVar, Expr]) -> bool:
    """Whether a value of a type may be given; `sizes` takes what symbolic extents stand for."""
    if incomplete(want) or incomplete(have) or want is have:
        return True
    match want, have:
        case TensorType(shape, dtype), TensorType(other, given):
            return (
                dtype == given
                and len(shape) == len(other)
                and all(_extent(a, b, sizes) for a, b in zip(shape, other, strict=True))
            )
        case TupleType(items), TupleType(other_items):
            return len(items) == len(other_items) and all(
                _fits(a, b, sizes) for a, b in zip(items, other_items, strict=True)
            )
        case FuncType(args, ret), FuncType(other_args, other_ret):
            return len(args) == len(other_args) and all(
                _fits(a, b, sizes)
                for a, b in zip((*args, ret), (*other_args, other_ret), strict=True)
            )
    return False


def _extent(want: Expr, have: Expr, sizes: dict[SizeVar, Expr]) -> bool:
    if isinstance(want, SizeVar) and want not in sizes:
        sizes[want] = have
        return True
    now = substitute(want, sizes) if sizes else want
    return now is have or not (isinstance(now, IntImm) and isinstance(have, IntImm))


def _with_sizes(t: Type, sizes: Mapping[SizeVar, Expr]) -> Type:
    """A type with sizes in the places of symbolic ones."""
    if not sizes:
        return t
    match t:
        case TensorType(shape, dtype):
            return TensorType(tuple([convert(substitute(e, sizes)) for e in shape]), dtype)
        case TupleType(items):
            return TupleType(tuple([_with_sizes(i, sizes) for i in items]))
        case FuncType(args, ret):
            return FuncType(tuple([_with_sizes(a, sizes) for a in args]), _with_sizes(ret, sizes))
    return t


TYPE_RULES: dict[type, Rule] = {
    Call: _call,
    Constant: _constant,
    Function: _function,
    If: _if,
    Let: _let,
    Tuple: _tuple,
    TupleGetItem: _item,
    Var: _var,
}
"""How the type of a value follows from its parts; other kinds of values may be entered."""
