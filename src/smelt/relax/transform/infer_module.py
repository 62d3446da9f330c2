"""Types of all values of a module: through closures, recursion and algebraic data types.

Operands, results and parameters without a type are unknowns; every use says something of them.
The functions are read over and over until nothing more is learned. A function of several types
(`type_params`, or bound by Let and not tied to operators) gets other unknowns at every use, a
constructor too. A size that differs between two ways to one value is known only when the program
runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from smelt.ir.errors import InternalError, SmeltError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.types import FuncType, IncompleteType, TupleType, Type, TypeVar, tensor_type
from smelt.relax.graph import free_vars, rebuilding
from smelt.relax.host_ops import call_type
from smelt.runtime.errors import nearest
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Op

from .. import adt, nodes
from .rewriting import functions_of
from .unify import Unifier, Unknown, replaced, show, unknowns

_MOST_PASSES = 60
_BOOL = tensor_type((), "bool")


def infer_types(mod: IRModule) -> IRModule:
    """A module whose graph functions have all their types.

    Raises TypeMismatch where types do not fit, or cannot be found; the message shows the
    expression. Matches that ought to be complete and are not are errors too.
    """
    found = _Inference(mod)
    made = {n: found.rebuilt(n, f) for n, f in found.functions.items()}
    changed = {n: f for n, f in made.items() if f is not mod.functions[n]}
    return mod.with_functions(changed) if changed else mod


def short_text(e: Any, depth: int = 2) -> str:
    """An expression in a line, as far as a message needs it: add(x, f(...))."""
    match e:
        case nodes.Var() | nodes.GlobalVar() | adt.Constructor():
            return ("@" if isinstance(e, nodes.GlobalVar) else "") + e.name
        case nodes.Constant():
            return str(e.data.item()) if e.data.size == 1 else f"a constant {show(e.type)}"
        case nodes.Call(op, args):
            name = short_text(op, 0) if isinstance(op, nodes.RelaxExpr) else op.name
            return f"{name}({_listed(args, depth)})"
        case nodes.Tuple(items):
            return f"({_listed(items, depth)})"
        case nodes.TupleGetItem(value, index):
            return f"{short_text(value, depth)}.{index}"
        case nodes.Function(params):
            return f"fn ({', '.join([p.name for p in params])}) {{...}}"
        case nodes.If(condition):
            return f"if ({short_text(condition, depth - 1)}) {{...}} else {{...}}"
        case adt.Match(data):
            return f"match ({short_text(data, depth - 1)}) {{...}}"
        case nodes.Let(var):
            return f"let {var.name} = ..."
    return "()" if e is None else type(e).__name__


def _listed(args: Any, depth: int) -> str:
    return "..." if depth <= 0 and args else ", ".join([short_text(a, depth - 1) for a in args])


class _Inference:
    """The unknowns of one module, and the walk that makes types agree."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.functions = functions_of(mod)
        self.types: dict[Node, Type] = {}
        self.unifier = Unifier()
        self.schemes: dict[nodes.Var, list[Unknown]] = {}
        self.inside: dict[nodes.Var, set[Node]] = {}
        self.stuck: set[Unknown] = set()
        steps = {n: list(_steps(f)) for n, f in self.functions.items()}
        for _ in range(_MOST_PASSES):
            self.unifier.changed = False
            stuck, self.stuck = self.stuck, set()
            for name, f in self.functions.items():
                self.function(name, f, steps[name])
            if not self.unifier.changed and stuck == self.stuck:
                break
        else:
            raise InternalError(f"infer_module: no end after {_MOST_PASSES} passes")
        numbered = [(f"{v.name}_{n}", u) for v, s in self.schemes.items() for n, u in enumerate(s)]
        self.variables = {u: TypeVar(name) for name, u in numbered}
        for name in self.functions:
            self.finish(name, steps[name])

    def function(
        self, name: str, f: nodes.Function, steps: list[tuple[nodes.RelaxExpr, bool]]
    ) -> None:
        """One pass over a function."""
        for node, early in steps:
            try:
                if early:
                    self.enter(node)
                else:
                    self.types[node] = self.one(node)
            except TypeMismatch as e:
                raise TypeMismatch(f"@{name}: {short_text(node)}: {e}{self.shown(node)}") from e
        try:
            result = self.unifier.tensor(self.types[f.body])
            self.unifier.agree(self.unifier.unknown("result", name), result, "result", name)
        except TypeMismatch as e:
            raise TypeMismatch(f"@{name}: the result: {e}") from e

    def shown(self, node: nodes.RelaxExpr) -> str:
        """A call in lines of their own, the callee marked, with the types of its operands."""
        if not isinstance(node, nodes.Call):
            return ""
        text = short_text(node)
        lines = ["", text, "^" * len(text.split("(")[0])]
        names = node.op.operands if isinstance(node.op, Op) and not node.op.variadic else ()
        for n, a in enumerate(node.args):
            if a is not None:
                label = names[n] if n < len(names) else f"operand {n}"
                lines.append(f"{label}: {show(self.unifier.whole(self.types[a]))}")
        return "\n    ".join(lines)

    # ------------------------------------------------------------------------------------ values

    def enter(self, node: nodes.RelaxExpr) -> None:
        """What is known of variables before the rest of a Let or Match is read."""
        if isinstance(node, nodes.Let):
            value = self.unifier.tensor(self.types[node.value])
            self.unifier.agree(self.var(node.var), value, node, "let")
            if isinstance(node.value, nodes.Function):
                self.generalise(node, node.value)
        elif isinstance(node, adt.Match):
            for clause in node.clauses:
                self.pattern(clause.lhs, self.types[node.data])

    def generalise(self, node: nodes.Let, f: nodes.Function) -> None:
        """A function bound by Let is one of several types where nothing else ties them."""
        if node.var not in self.inside:
            self.inside[node.var] = {n for n in postorder(f) if isinstance(n, nodes.RelaxExpr)}
        fixed = {u for v in free_vars(f) for u in unknowns(self.unifier.whole(self.var(v)))}
        fixed |= {u for s in self.stuck for u in unknowns(self.unifier.whole(s))}
        own = dict.fromkeys(unknowns(self.unifier.whole(self.types[f])))
        self.schemes[node.var] = [u for u in own if u not in fixed]

    def pattern(self, p: adt.Pattern, t: Type) -> None:
        """What a pattern says of the value that it is for, and of its variables."""
        match p:
            case adt.PatternVar(var):
                self.unifier.agree(self.var(var), t, p)
            case adt.PatternTuple(patterns):
                whole = TupleType(tuple([self.unifier.unknown(p, n) for n in range(len(patterns))]))
                self.unifier.agree(whole, t, p)
                for inner, part in zip(patterns, whole.items, strict=True):
                    self.pattern(inner, part)
            case adt.PatternConstructor(c, patterns):
                made = self.constructor(c, p)
                self.unifier.agree(made.ret_type, t, p)
                if len(patterns) != len(made.arg_types):
                    raise TypeMismatch(
                        f"{len(patterns)} patterns for the {len(made.arg_types)} fields of {c.name}"
                    )
                for inner, field in zip(patterns, made.arg_types, strict=True):
                    self.pattern(inner, field)

    def var(self, v: nodes.Var) -> Type:
        """The type of a variable."""
        return self.unifier.opened(v.type, v)

    def one(self, node: nodes.RelaxExpr) -> Type:
        """The type of a value whose operands have theirs."""
        match node:
            case nodes.Var():
                return self.var(node)
            case nodes.Constant():
                return node.type
            case nodes.Tuple(items):
                return TupleType(tuple([self.use(node, n, i) for n, i in enumerate(items)]))
            case nodes.TupleGetItem(value, index):
                return self.item(node, self.types[value], index)
            case nodes.Function(params, body):
                args = tuple([self.var(p) for p in params])
                kinds = tuple(node.attrs.get("type_params", ()))
                return FuncType(args, self.types[body], kinds)
            case nodes.GlobalVar():
                return self.signature(node)
            case adt.Constructor():
                return self.constructor(node, node)
            case nodes.Call():
                return self.call(node)
            case nodes.If(condition, yes, no):
                self.unifier.agree(self.types[condition], _BOOL, node, "condition")
                known = [self.unifier.tensor(self.types[side.body]) for side in (yes, no)]
                return self.unifier.agree(*known, node)
            case adt.Match(clauses=clauses):
                made: Type = self.unifier.unknown(node)
                for n, c in enumerate(clauses):
                    self.unifier.agree(made, self.unifier.tensor(self.types[c.rhs]), node, n)
                return made
            case nodes.Let(body=body):
                return self.types[body]
            case nodes.MatchCast():
                return node.type
        raise TypeMismatch(f"a {type(node).__name__} is no value")

    def item(self, node: nodes.TupleGetItem, t: Type, index: int) -> Type:
        whole = self.unifier.head(t)
        if isinstance(whole, TupleType):
            if not 0 <= index < len(whole.items):
                raise TypeMismatch(f"item {index} of a tuple of {len(whole.items)}")
            return whole.items[index]
        if not isinstance(whole, Unknown):
            raise TypeMismatch(f"item {index} of a value that is no tuple, but {show(whole)}")
        self.stuck.add(whole)
        return self.unifier.unknown(node)

    def use(self, consumer: Node, place: Hashable, node: nodes.RelaxExpr) -> Type:
        """The type of an operand; a function of several types is one of one here."""
        t = self.types[node]
        if isinstance(node, nodes.GlobalVar) and isinstance(self.mod[node], PrimFunc):
            raise TypeMismatch(f"@{node.name} is a tensor program, which is no value")
        key = ("use", consumer, place)
        if isinstance(node, nodes.Var) and consumer not in self.inside.get(node, ()):
            t = self.unifier.instance(t, self.schemes.get(node), *key)
        whole = self.unifier.head(t)
        if isinstance(whole, FuncType) and whole.type_params:
            t = self.unifier.instance(whole, whole.type_params, *key, "declared")
        return t

    def signature(self, name: nodes.GlobalVar) -> Type:
        """The type of a function of the module."""
        if name.name not in self.mod:
            known = self.mod.functions
            hint = nearest(name.name, known) or f"; it has {len(known)}"
            raise TypeMismatch(f"the module has no function {name.name!r}{hint}")
        f = self.mod[name]
        if isinstance(f, PrimFunc):
            return IncompleteType()  # calls of it say what they give
        args = tuple([self.var(p) for p in f.params])
        result = self.unifier.unknown("result", name.name)
        return FuncType(args, result, tuple(f.attrs.get("type_params", ())))

    def constructor(self, c: adt.Constructor, use: Node) -> FuncType:
        """A constructor as a function for one use."""
        try:
            data = self.mod.type_data(c.belong_to)
        except KeyError as e:
            raise TypeMismatch(e.args[0]) from None
        whole = data.type_of(data.constructors[adt.constructor_tag(self.mod, c)])
        made = self.unifier.instance(whole, whole.type_params, use)
        assert isinstance(made, FuncType)
        return made

    # ------------------------------------------------------------------------------------- calls

    def call(self, node: nodes.Call) -> Type:
        """The type of a call."""
        given = [None if a is None else self.use(node, n, a) for n, a in enumerate(node.args)]
        if not isinstance(node.op, nodes.RelaxExpr):
            return self.operator(node, given)
        known = isinstance(node.op, nodes.GlobalVar) and self.mod.functions.get(node.op.name)
        if isinstance(known, PrimFunc):
            return node.type
        args = [g for g in given if g is not None]
        if isinstance(node.op, adt.Constructor):
            return self.apply(node, self.constructor(node.op, node), args, fresh=False)
        callee = self.unifier.head(self.use(node, "op", node.op))
        if isinstance(callee, Unknown):
            callee = FuncType(tuple(args), self.unifier.unknown(node))
            self.unifier.agree(self.types[node.op], callee, node, "op")
        if not isinstance(callee, FuncType):
            raise TypeMismatch(f"what is called is no function, but {show(callee)}")
        return self.apply(node, callee, args, isinstance(node.op, nodes.GlobalVar | nodes.Function))

    def apply(self, node: nodes.Call, callee: FuncType, args: list[Type], fresh: bool) -> Type:
        """The result of a function. fresh: sizes of its own are others at every call."""
        if len(args) != len(callee.arg_types):
            raise TypeMismatch(f"{len(args)} operands for {len(callee.arg_types)} parameters")
        sizes: dict[Any, Any] = {}
        for n, (p, a) in enumerate(zip(callee.arg_types, args, strict=True)):
            if fresh and isinstance(self.unifier.head(a), Unknown):
                p = self.unifier.sized(p, {}, True, node, n)
            try:
                self.unifier.agree(p, self.unifier.tensor(a), node, n)
            except TypeMismatch as e:
                raise TypeMismatch(f"operand {n}: {e}") from e
            self.unifier.bound_sizes(p, a, sizes)
        result = self.unifier.head(callee.ret_type)
        if fresh and isinstance(result, Unknown):
            return self.unifier.unknown(node)  # the function's own, once it is known
        made = self.unifier.sized(result, sizes, fresh, node)
        if fresh:
            return self.unifier.agree(self.unifier.unknown(node), made, node, "result")
        return callee.ret_type if made is result else made

    def operator(self, node: nodes.Call, given: list[Type | None]) -> Type:
        """The result of an operator; waits until all operands are known."""
        types = [None if g is None else self.unifier.whole(g) for g in given]
        waiting = [u for t in types if t is not None for u in unknowns(t)]
        if waiting:
            self.stuck.update(waiting)
            return self.unifier.unknown(node)
        try:
            found = call_type(node, types, lambda n: self.unifier.size("host", node, n))
        except TypeMismatch:
            raise
        except SmeltError as e:
            raise TypeMismatch(str(e)) from e
        if nodes.incomplete(node.type):
            return self.unifier.agree(self.unifier.unknown(node), found, node)
        return found

    # --------------------------------------------------------------------------------- the result

    def finish(self, name: str, steps: list[tuple[nodes.RelaxExpr, bool]]) -> None:
        """Everything is known now: Matches are complete, operands of operators have types."""
        for node, _ in steps:
            asked = isinstance(node, adt.Match) and node.complete
            if asked and (cases := adt.unmatched_cases(node, self.mod)):  # type: ignore[arg-type]
                missing = ", ".join(map(_pattern_text, cases[:3]))
                raise TypeMismatch(
                    f"@{name}: {short_text(node)}: no clause for {missing}; add one, or give "
                    "complete=False"
                )
            t = self.unifier.whole(self.types[node])
            left = [u for u in unknowns(t) if u in self.stuck]
            if left:
                raise TypeMismatch(
                    f"@{name}: the type of {short_text(node)} cannot be found: what is known is "
                    f"{show(t)}; give the parameter or variable a type"
                )

    def settled(self, t: Type) -> Type:
        """A type without unknowns: what nothing is said of is the empty tuple."""
        whole = self.unifier.whole(t)
        rest = {u: self.variables.get(u, TupleType(())) for u in unknowns(whole)}
        return replaced(whole, rest) if rest else whole

    def rebuilt(self, name: str, f: nodes.Function) -> nodes.Function:
        """A function with all types filled in."""
        done: dict[Node, Any] = {}
        kinds = {n.value: self.schemes.get(n.var) for n in postorder(f.body)
                 if isinstance(n, nodes.Let)}  # fmt: skip
        for node, new in rebuilding(f, done):
            if isinstance(node, nodes.Var) and nodes.incomplete(node.type):
                new = new.replace(type=self.settled(self.var(node)))
            elif isinstance(node, nodes.Call | nodes.If | adt.Match):
                t = self.settled(self.types[node])
                new = new if t is new.type else new.replace(type=t)
            elif isinstance(new, nodes.Function) and (scheme := kinds.get(node)):
                own = tuple([self.variables[u] for u in scheme])
                declared = tuple(new.attrs.get("type_params", ()))
                new = new.with_attr("type_params", (*declared, *own))
            done[node] = new
        return done[f]  # type: ignore[no-any-return]


def _steps(f: nodes.Function) -> Iterator[tuple[nodes.RelaxExpr, bool]]:
    """All values of a function, operands first; before the body of a Let and the clauses of a Match
    these themselves once, with True: their variables are then known."""
    seen: set[Node] = set()
    stack: list[tuple[nodes.RelaxExpr, int]] = [(f.body, 0)]
    while stack:
        node, stage = stack.pop()
        if stage:
            yield node, stage == 1
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, 2))
        match node:
            case nodes.Let(var, value, body):
                stack += [(body, 0), (node, 1), (value, 0), (var, 0)]
            case adt.Match(data, clauses):
                stack += [(c.rhs, 0) for c in reversed(clauses)]
                stack += [(node, 1), (data, 0)]
            case _:
                below = [c for c in node.children() if isinstance(c, nodes.RelaxExpr)]
                stack += [(c, 0) for c in reversed(below)]


def _pattern_text(p: adt.Pattern) -> str:
    match p:
        case adt.PatternConstructor(c, patterns):
            inner = ", ".join(map(_pattern_text, patterns))
            return f"{c.name}({inner})" if patterns else c.name
        case adt.PatternTuple(patterns):
            return f"({', '.join(map(_pattern_text, patterns))})"
        case adt.PatternVar(var):
            return str(var.name)
    return "_"
