"""Operator fusion: an anchor with the elementwise work after it, elementwise chains, nothing alone.

Each group becomes a function of the module (attrs: primitive), called from "main" by name; groups
of the same form share one. Operators that may be views (reshape, transpose, ...) stay in "main":
whether they cost anything is decided with the layouts. Groups that a user made by hand, functions
called in place with "Primitive" or "Composite", are kernels as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.text import fresh_name
from smelt.ir.types import TensorType, TupleType
from smelt.relax.graph import Leaders, is_unit, parts_of, users_of
from smelt.relax.graph_op import instance_of, kind_of, needs_values
from smelt.relax.views import VIEW_NAMES
from smelt.topi.registry import Op

from .. import nodes

_LIMIT = 48
"""Operators in one kernel."""
_APART = ("view", "none")
"""What is in no group."""
_EXPENSIVE = frozenset({"contraction", "reduce", "opaque"})
_INLINE_BYTES = 8
"""Constants up to this size are written into the kernel."""


class Groups:
    """Which operators go together. Each group ends in one operator, whose result leaves it.

    values  the function's, operands first
    held    those of them that stand in functions called in place
    """

    def __init__(self, main: nodes.Function, join: bool, views: bool = True) -> None:
        """join: whether groups may be of several; views: what may be a view keeps out of them."""
        self.values = list(nodes.values(main.body))
        self.held = _held(self.values)
        self.order = [v for v in self.values if isinstance(v, nodes.Call) and v not in self.held]
        self.users = users_of(
            [*self.values, main], lambda v: main.results() if v is main else parts_of(v)
        )
        self.kind = {id(c): _kind(c, views) for c in self.order}
        self.position = {id(c): n for n, c in enumerate(self.order)}
        self.leader = Leaders({id(c): id(c) for c in self.order})
        self.size: dict[int, int] = {id(c): 1 for c in self.order}
        self.anchored: dict[int, str] = dict(self.kind)
        if join:
            for c in self.order:
                self.join(c)
        self.members: dict[int, list[nodes.Call]] = {}
        for c in self.order:
            if self.kind[id(c)] not in _APART:
                self.members.setdefault(self.leader.find(id(c)), []).append(c)

    def of(self, v: nodes.RelaxExpr) -> list[nodes.Call]:
        """The group of a value, operands first; nothing where it is in none."""
        apart = self.kind.get(id(v), "none") in _APART
        return [] if apart else self.members[self.leader.find(id(v))]

    def join(self, consumer: nodes.Call) -> None:
        """Let the groups of operands that only this operator uses join it, where kinds allow."""
        kind = self.kind[id(consumer)]
        if kind in _APART:
            return
        taken = self.anchored[self.leader.find(id(consumer))] in _EXPENSIVE
        for arg in reversed(consumer.args):  # what was computed last is the main path
            if not isinstance(arg, nodes.Call) or self.kind.get(id(arg), "none") in _APART:
                continue
            if self.users[arg] != [consumer]:
                continue
            mine, its = self.leader.find(id(consumer)), self.leader.find(id(arg))
            if mine == its or self.size[mine] + self.size[its] > _LIMIT:
                continue
            if not self.allowed(consumer, arg, kind, self.anchored[its], taken):
                continue
            self.leader[its] = mine
            self.size[mine] += self.size[its]
            if self.anchored[its] in _EXPENSIVE:
                self.anchored[mine] = self.anchored[its]
                taken = True

    def allowed(
        self, consumer: nodes.Call, arg: nodes.Call, kind: str, its: str, taken: bool
    ) -> bool:
        """Whether a producer's group may be computed inside its consumer's kernel."""
        if isinstance(arg.type, TupleType):
            return False
        if its in _EXPENSIVE:
            # the work after an anchor: elementwise on exactly the anchor's elements
            fits = kind in ("elementwise", "broadcast") and _same_shape(arg, consumer)
            return not taken and fits and not self.widened(arg, consumer)
        if kind in ("elementwise", "broadcast", "injective"):
            return its != "injective" or kind != "broadcast" or _same_shape(arg, consumer)
        if kind == "reduce":
            return True
        return kind == "opaque" and its in ("elementwise", "broadcast") and _in_rows(arg, consumer)

    def widened(self, arg: nodes.Call, consumer: nodes.Call) -> bool:
        """Whether bytes become wider numbers only for an operator on rows, a reduction, or the work
        after another anchor, which take that work: bytes are what is handed on then."""
        if _width(arg) != 1 or _width(consumer) == 1:
            return False
        last, users = consumer, self.users[consumer]
        while len(users) == 1 and isinstance(user := users[0], nodes.Call):
            kind = self.kind.get(id(user), "none")
            if kind == "opaque":
                return _in_rows(last, user)
            if kind == "reduce":
                return True
            if kind in ("elementwise", "broadcast") and self.is_taken(user, last):
                return True
            if kind not in ("elementwise", "broadcast") or _width(user) == 1:
                return False
            last, users = user, self.users[user]
        return False

    def is_taken(self, user: nodes.Call, arg: nodes.Call) -> bool:
        """Whether an operator belongs to what another operand of it ends, computed after `arg`."""
        at = self.position[id(arg)]
        others = [a for a in user.args if isinstance(a, nodes.Call)]
        return any(self.position.get(id(a), -1) > at and self.is_behind(a) for a in others)

    def is_behind(self, v: nodes.Call) -> bool:
        """Whether a value is an anchor's, or the elementwise work after one."""
        while (kind := self.kind.get(id(v), "none")) in ("elementwise", "broadcast"):
            operands = [a for a in v.args if isinstance(a, nodes.Call)]
            if not operands or self.users[operands[-1]] != [v]:
                return False
            v = operands[-1]
        return kind in _EXPENSIVE


def _in_rows(arg: nodes.Call, consumer: nodes.Call) -> bool:
    """Whether an operator on rows (softmax, norms) takes elementwise work: on the first operand."""
    found = instance_of(consumer)
    return found is not None and consumer.args[0] is arg and found.by_row


def _width(c: nodes.Call) -> int:
    """Bytes of an element; 0 of what is no tensor."""
    return dt.bytes_of(c.type.dtype) if isinstance(c.type, TensorType) else 0


def _same_shape(a: nodes.Call, b: nodes.Call) -> bool:
    s, t = a.type, b.type
    return isinstance(s, TensorType) and isinstance(t, TensorType) and s.shape == t.shape


def _kind(c: nodes.Call, views: bool) -> str:
    if not isinstance(c.op, Op):
        return "none"
    if views and c.op.name in VIEW_NAMES:
        return "view"
    if needs_values(c) or any(nodes.incomplete(a.type) for a in c.args if a is not None):
        return "none"
    return kind_of(c)


def _is_written(c: nodes.Constant) -> bool:
    """Whether a constant is written into the kernel."""
    return c.data.nbytes <= _INLINE_BYTES and c.data.size == 1


def _names(calls: Sequence[nodes.Call]) -> tuple[str, ...]:
    """What the model calls them, each once."""
    return tuple(dict.fromkeys([c.name for c in calls if c.name]))


def _held(values: Iterable[nodes.RelaxExpr]) -> set[nodes.RelaxExpr]:
    """What stands in functions called in place that are units already."""
    kept = [v for v in values if isinstance(v, nodes.Function) and is_unit(v)]
    return {v for k in kept for v in nodes.values(k)}


def fuse_ops(mod: IRModule, on: Collection[str] = ("FuseOps",)) -> IRModule:
    """Group the operators of "main"; without "FuseOps" each gets a kernel of its own."""
    main = mod["main"]
    return _Builder(mod, main, Groups(main, "FuseOps" in on)).build()


def outlined(
    group: Sequence[nodes.Call],
    keeps: Callable[[nodes.Constant], bool],
    variable: type[nodes.Var] = nodes.Var,
) -> tuple[nodes.Function, list[nodes.RelaxExpr]]:
    """The function that a group becomes, whose last value is its result, and what it is called on.

    keeps     which constants stay inside
    variable  makes the parameters: a dialect's own class
    """
    inner: dict[Node, nodes.RelaxExpr] = {}
    params: dict[nodes.RelaxExpr, nodes.Var] = {}

    def operand(a: Node) -> Node:
        if a in inner:
            return inner[a]
        if not isinstance(a, nodes.RelaxExpr) or (isinstance(a, nodes.Constant) and keeps(a)):
            return a
        if isinstance(a, nodes.Tuple):
            return a.with_children(operand)
        if a not in params:
            params[a] = variable(f"p{len(params)}", a.type)
        return params[a]

    for c in group:
        inner[c] = c.with_children(operand)
    return nodes.Function(tuple(params.values()), inner[group[-1]]), list(params)


def form_of(group: nodes.Function) -> str:
    """A text that is equal for groups that compute the same."""
    numbers: dict[int, int] = {id(p): i for i, p in enumerate(group.params)}
    lines = [repr(p.type) for p in group.params]
    for v in nodes.values(group.body):
        if id(v) in numbers:
            continue
        numbers[id(v)] = len(numbers)
        if isinstance(v, nodes.Call):
            args = ["-" if a is None else str(numbers[id(a)]) for a in v.args]
            lines.append(f"{v.op!r} {args} {dict(v.attrs)!r}")
        elif isinstance(v, nodes.Constant):
            lines.append(f"{v.type!r} {v.data.tobytes().hex()}")
        else:
            below = [numbers[id(c)] for c in v.children() if id(c) in numbers]
            lines.append(f"{type(v).__name__} {below}")
    return "\n".join(lines)


class _Builder:
    """Rebuilds "main" as calls of groups."""

    def __init__(self, mod: IRModule, main: nodes.Function, groups: Groups) -> None:
        self.mod, self.main, self.groups = mod, main, groups
        self.new: dict[int, nodes.RelaxExpr] = {}
        self.functions: dict[str, nodes.Function] = {}
        self.by_form: dict[str, nodes.GlobalVar] = {}
        self.taken = {*mod.functions, "main"}

    def build(self) -> IRModule:
        for v in self.groups.values:
            if v in self.groups.held:
                continue
            if isinstance(v, nodes.Call) and isinstance(v.op, nodes.Function):
                self.new[id(v)] = self.outlined(v, v.op, v.op.body)
            elif isinstance(v, nodes.TupleGetItem):
                self.new[id(v)] = self.new[id(v.value)][v.index]
            elif group := self.groups.of(v):
                if group[-1] is v:
                    self.new[id(v)] = self.group(group)
            else:
                self.new[id(v)] = v.with_children(lambda c: self.new.get(id(c), c))
        body = self.new[id(self.main.body)]
        functions = {**self.functions, "main": self.main.replace(body=body)}
        return self.mod.with_functions(functions)

    def outlined(self, v: nodes.Call, f: nodes.Function, body: nodes.RelaxExpr) -> nodes.RelaxExpr:
        """A value of a group that was made by hand: its function becomes one of the module.

        A group that gives a tuple becomes one for each item.
        """
        if isinstance(body, nodes.Tuple):
            return nodes.Tuple(tuple([self.outlined(v, f, i) for i in body.items]))
        given = {p: a for p, a in zip(f.params, v.args, strict=True) if a is not None}
        if isinstance(body, nodes.Var):
            return self.new.get(id(given[body]), given[body])
        inside = list(nodes.values(body))
        params = tuple([p for p in f.params if p in inside])
        calls = [c for c in inside if isinstance(c, nodes.Call)]
        unit = nodes.Function(params, body)
        return self.call(calls, unit, f"{id(body)}", [given[p] for p in params], v.name)

    def group(self, group: Sequence[nodes.Call]) -> nodes.RelaxExpr:
        """A call of the function that a group becomes."""
        f, given = outlined(group, _is_written)
        known = [isinstance(a, nodes.Constant) for a in given]
        form = f"{form_of(f)} {known} {[id(c.op) for c in group]}"
        return self.call(group, f, form, given, group[-1].name)

    def call(
        self,
        calls: Sequence[nodes.Call],
        f: nodes.Function,
        form: str,
        given: Sequence[nodes.RelaxExpr],
        name: str,
    ) -> nodes.Call:
        """A call of a function of some operators; those of one form share one."""
        if form not in self.by_form:
            stem = "_".join(c.callee for c in calls)
            stem = f"fused_{stem}" if len(calls) > 1 else stem
            symbol = fresh_name(stem[:60].rstrip("_"), self.taken)
            self.by_form[form] = nodes.GlobalVar(symbol)
            self.functions[symbol] = f.replace(attrs={"primitive": True, "name": symbol})
        args = tuple([self.new.get(id(a), a) for a in given])
        return nodes.Call(self.by_form[form], args, {}, f.body.type, name, _names(calls))
