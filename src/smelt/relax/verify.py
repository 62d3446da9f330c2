"""The rules of graph programs. Passes may rely on them; what breaks one is a VerifyError."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError, TypeMismatch, VerifyError
from smelt.ir.expr import Expr
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType
from smelt.ir.walk import free_vars
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.topi.registry import Op

from . import adt, nodes
from .graph import operands
from .host_ops import is_host_call, needs_run, sizes_of
from .printer import same_data
from .shapes import fits, show_type
from .updates import earlier_readers, late_reader, written_operands


def verify(program: IRModule | nodes.Function) -> None:
    """Raise a VerifyError unless a module, or one function of its own, keeps the rules.

    Parameters have different names and are the only variables used; symbolic sizes come from their
    types; values form no cycle; the type of a call is what inference gives; constants are what
    their types say; calls of tensor programs fit the program's parameters.
    """
    module = program if isinstance(program, IRModule) else IRModule({"main": program})
    for name, f in module.functions.items():
        if isinstance(f, nodes.Function):
            _Verifier(name, module).function(f, set())
        elif not isinstance(f, PrimFunc):
            raise VerifyError(
                f"{name} is a {type(f).__name__}; functions of a module are graph functions "
                "and tensor programs"
            )


class _Verifier:
    """The rules on the functions of one module."""

    def __init__(self, name: str, module: IRModule) -> None:
        self.name, self.module = name, module
        self.seen: dict[Node, list[set[nodes.Var]]] = {}
        self.introduced: set[Any] = set()
        self.earlier: dict[Node, list[nodes.Call]] | None = None

    def fail(self, node: Node | None, message: str) -> NoReturn:
        """Raise a VerifyError at a value."""
        raise VerifyError(f"{self.name}: {_label(node)}{message}")

    def function(self, f: nodes.Function, outer: set[nodes.Var]) -> None:
        """A function, or a branch that sees the parameters around it."""
        names: set[str] = set()
        for p in f.params:
            if p.name in names:
                self.fail(None, f"two parameters are called {p.name!r}")
            names.add(p.name)
        variables = {*f.params, *outer}
        if len(variables) != len(f.params) + len(outer):
            self.fail(None, "a parameter stands twice in the parameters")
        sizes = {v for p in variables for v in free_vars(p.type)}
        found = list(self.below(f.body))
        for node in found:
            if isinstance(node, nodes.MatchCast):
                self.introduced |= free_vars(node.type)
        for node in found:
            self.value(node, variables)
            if tells_sizes(node):
                sizes |= free_vars(node.type)
            if not f.attrs.get("primitive"):  # a fused group is a part of its caller
                self.check_sizes(node, sizes)

    def below(self, root: nodes.RelaxExpr) -> Iterator[nodes.RelaxExpr]:
        """Every value, operands first; a value met below itself lies on a cycle."""
        state: dict[Node, bool] = {}
        stack: list[tuple[nodes.RelaxExpr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                state[node] = True
                yield node
                continue
            if node in state:
                if not state[node]:
                    self.fail(node, "a value depends on itself")
                continue
            if not isinstance(node, nodes.RelaxExpr):
                self.fail(None, f"a {type(node).__name__} stands where a value is needed")
            state[node] = False
            stack.append((node, True))
            # the scope of a Let has more names
            for c in [] if isinstance(node, nodes.Let) else reversed(operands(node)):
                if state.get(c) is False:
                    self.fail(c, "a value depends on itself")
                stack.append((c, False))

    def value(self, node: nodes.RelaxExpr, variables: set[nodes.Var]) -> None:
        """The rules on one value."""
        match node:
            case nodes.Var() if node not in variables:
                self.fail(node, "is no parameter of the function")
            case nodes.Constant():
                self.constant(node)
            case nodes.Call(nodes.GlobalVar() as target):
                self.program_call(node, target)
            case nodes.Call(adt.Constructor() as c):
                self.constructor(node, c)
                if len(node.args) != len(c.inputs):
                    self.fail(node, f"{len(node.args)} values for {len(c.inputs)} fields")
            case adt.Constructor():
                self.constructor(node, node)
            case nodes.GlobalVar() if node.name not in self.module:
                self.fail(node, f"the module has no function {node.name!r}")
            case nodes.Call(nodes.RelaxExpr() as closure):
                self.closure_call(node, closure)
            case nodes.Call():
                self.call(node)
            case adt.Match() if self.fresh(node, variables):
                self.match(node, variables)
            case nodes.Function() if self.fresh(node, variables):
                self.function(node, variables)
            case nodes.Let() if self.fresh(node, variables):
                self.let(node, variables)
            case nodes.If() if self.fresh(node, variables):
                self.branch(node, variables)
            case nodes.TupleGetItem(value, index):
                t = value.type
                whole = isinstance(t, TupleType) and 0 <= index < len(t.items)
                if not whole and not isinstance(t, IncompleteType):
                    self.fail(node, f"item {index} of a value of type {show_type(t)}")

    def fresh(self, node: nodes.RelaxExpr, variables: set[nodes.Var]) -> bool:
        """Whether the inside of a value has not been looked at where as few variables are known."""
        before = self.seen.setdefault(node, [])
        if any(known <= variables for known in before):
            return False
        before.append(set(variables))
        return True

    def check_sizes(self, node: nodes.RelaxExpr, sizes: set[Any]) -> None:
        """Symbolic sizes come from the parameters."""
        sizes = sizes | self.introduced if self.introduced else sizes
        used = free_vars(node.type)
        if isinstance(node, nodes.Call):
            used = used | {*sizes_of(tuple(node.attrs.values()))}
        strange = sorted([v.name for v in used - sizes])
        if strange:
            self.fail(node, f"uses the size {strange[0]}, which no parameter's type mentions")

    def constant(self, node: nodes.Constant) -> None:
        """The array is what the type says."""
        found = dt.from_numpy(node.data.dtype)
        if found != node.type.dtype or node.data.shape != node.type.fixed_shape():
            self.fail(
                node,
                f"the array is {found}{list(node.data.shape)}, the type {show_type(node.type)}",
            )

    def call(self, node: nodes.Call) -> None:
        """Attributes are complete and the type is the inferred one."""
        op = node.op
        assert isinstance(op, Op)
        types = [None if a is None else a.type for a in node.args]
        try:
            full = op.normalize(node.attrs)
            whole = nodes.result_type(op, types, full)
        except SmeltError as e:
            self.fail(node, str(e))
        if not same_data(tuple(full.items()), tuple(node.attrs.items())):
            self.fail(
                node,
                f"the attributes are {dict(node.attrs)}; complete and in order they are {full}",
            )
        if whole is not node.type and not nodes.incomplete(whole):
            self.fail(
                node, f"the type is {show_type(node.type)}, inference gives {show_type(whole)}"
            )

    def closure_call(self, node: nodes.Call, closure: nodes.RelaxExpr) -> None:
        """A closure called: its type is a function's, of as many parameters as operands."""
        t = closure.type
        if isinstance(t, IncompleteType):
            return
        if not isinstance(t, FuncType):
            self.fail(node, f"what is called is no function: its type is {show_type(t)}")
        if len(t.arg_types) != len(node.args):
            self.fail(node, f"{len(node.args)} operands for {len(t.arg_types)} parameters")

    def let(self, node: nodes.Let, variables: set[nodes.Var]) -> None:
        """A chain of names: each may be used below it, and a function in its own value."""
        inner = set(variables)
        rest: nodes.RelaxExpr = node
        while isinstance(rest, nodes.Let):
            inner.add(rest.var)
            if isinstance(rest.value, nodes.Function):
                self.function(rest.value, inner)
            else:
                self.values(rest.value, inner)
            rest = rest.body
        self.values(rest, inner)

    def values(self, root: nodes.RelaxExpr, variables: set[nodes.Var]) -> None:
        """The rules on all values of an expression."""
        for v in self.below(root):
            self.value(v, variables)

    def constructor(self, node: nodes.RelaxExpr, c: adt.Constructor) -> None:
        """The data type is the module's, and has the constructor."""
        try:
            adt.constructor_tag(self.module, c)
        except (KeyError, TypeMismatch) as e:
            self.fail(node, e.args[0])

    def match(self, node: adt.Match, variables: set[nodes.Var]) -> None:
        """Patterns have a part a field, and variables of their own; every value has a clause."""
        for clause in node.clauses:
            own: set[nodes.Var] = set()
            for p in postorder(clause.lhs):
                if isinstance(p, adt.PatternVar):
                    if p.var in own or p.var in variables:
                        self.fail(p.var, "is bound twice")
                    own.add(p.var)
                elif isinstance(p, adt.PatternConstructor):
                    self.constructor(node, p.constructor)
                    if len(p.patterns) != len(p.constructor.inputs):
                        self.fail(
                            node,
                            f"{len(p.patterns)} patterns for the {len(p.constructor.inputs)} "
                            f"fields of {p.constructor.name}",
                        )
            self.values(clause.rhs, variables | own)
        if node.complete and (missing := adt.unmatched_cases(node, self.module)):
            self.fail(node, f"{len(missing)} kinds of values have no clause")

    def branch(self, node: nodes.If, variables: set[nodes.Var]) -> None:
        """Both branches have the type of the whole, the condition is a bool."""
        t = node.condition.type
        known = not nodes.incomplete(t)
        if known and (not isinstance(t, TensorType) or t.dtype != "bool" or t.rank != 0):
            self.fail(node, f"the condition is {show_type(t)}, it has to be bool[]")
        for side in (node.then_branch, node.else_branch):
            found = side.body.type
            known = not nodes.incomplete(found) and not nodes.incomplete(node.type)
            if found is not node.type and known:
                self.fail(
                    node, f"a branch gives {show_type(found)}, the type is {show_type(node.type)}"
                )
            self.function(side, variables)

    def updates(self, node: nodes.Call, written: Sequence[int]) -> None:
        """What a program updates is used by nothing afterwards."""
        try:
            nodes.check_inplace("call_tir_inplace", node, written)
        except TypeMismatch as e:
            self.fail(node, str(e))
        if self.earlier is None:
            self.earlier = earlier_readers(self.module[self.name])
        earlier, readers = self.earlier, self.earlier[node]
        late = late_reader(node, readers, lambda v: [*nodes.below(v), *earlier.get(v, ())])
        for x in written_operands(node):
            if node.args.count(x) > 1:
                self.fail(node, "what it updates in place is another operand, too")
        own = set(written_operands(node))
        again = late or next((r for r in readers if own.intersection(written_operands(r))), None)
        if again is not None:
            self.fail(node, f"what it updates in place is used by {_label(again)}too; give that "
                      "one the result")  # fmt: skip

    # --------------------------------------------------------------------- tensor programs

    def program_call(self, node: nodes.Call, target: nodes.GlobalVar) -> None:
        """The program exists, and its parameters are the operands, then the results."""
        if target.name not in self.module:
            known = ", ".join(self.module.functions) or "none"
            self.fail(node, f"the module has no function {target.name!r}; it has: {known}")
        callee = self.module[target.name]
        results = node.type.items if isinstance(node.type, TupleType) else (node.type,)
        given = [a.type for a in node.args if a is not None]
        if isinstance(callee, nodes.Function):
            if len(given) != len(callee.params):
                self.fail(node, f"{len(given)} operands for {len(callee.params)} parameters")
            return
        buffers = [p for p in callee.params if isinstance(p, Buffer)]
        if written := node.attrs.get(nodes.INPLACE):
            self.updates(node, written)
            results = tuple([t for t, i in zip(results, written, strict=True) if i < 0])
        if len(buffers) != len(given) + len(results):
            self.fail(
                node,
                f"{len(given)} operands and {len(results)} results for the {len(buffers)} buffers "
                f"of {target.name}",
            )
        bound: dict[SizeVar, Expr] = {}
        for b, t in zip(buffers, [*given, *results], strict=True):
            own = TensorType(b.shape, b.type)
            if not isinstance(t, TensorType) or not fits(own, t, bound):
                self.fail(node, f"the buffer {b.name} is {show_type(own)}, {show_type(t)} is given")


def tells_sizes(node: nodes.RelaxExpr) -> bool:
    """Whether a value may have sizes known only at run time."""
    if isinstance(node, nodes.Call):
        return isinstance(node.op, nodes.RelaxExpr) or is_host_call(node) or needs_run(node)
    return isinstance(node, nodes.If | adt.Match)


def _label(node: Node | None) -> str:
    match node:
        case nodes.Call(name=hint):
            return f"call of {node.callee}{f' ({hint!r})' if hint else ''}: "
        case nodes.Var(name):
            return f"the variable {name!r} "
        case nodes.Constant(name=hint):
            return f"constant {hint!r}: "
        case None:
            return ""
    return f"{type(node).__name__}: "
