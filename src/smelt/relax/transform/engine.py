"""The engine of the graph passes: rules on calls, applied bottom-up in one walk of the graph.

    RULES = RuleSet()

    @RULES.rule("relu")
    def relu_twice(g: Graph, n: Call) -> RelaxExpr | None:
        \"\"\"relu(relu(x))  =  relu(x)\"\"\"

A rule sees a call whose operands are in their final form and answers with a value of the same
type, or None. The calls it makes (`g.call`) are simplified as they are made, so that one walk
brings nearly everything to rest; walks are repeated until nothing changes. Equal calls become one
node on the way.

`RuleSet(dialect=RELAY)` holds rules on the operators of a dialect; those of others, which may have
the same names, are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import InternalError
from smelt.ir.module import IRModule
from smelt.ir.node import field_key, ordered
from smelt.ir.walk import fixed_point
from smelt.relax.graph import is_foreign, on_parts, operands, parts_of, uses_of
from smelt.topi.registry import Op

from .. import nodes
from ..graph_op import Dialect

SMALL_CONSTANT = 4096
"""Bytes up to which constants are compared by their contents."""

EXACT_ELEMENTS = 1 << 16
"""Elements up to which a folded constant remembers its value before rounding."""

STEPS = 32
"""Rules that may fire at one node before the walk goes on."""

WALKS = 10
"""Walks over the graph, at most; two or three are usual."""


Root: TypeAlias = str | Callable[[Op], bool]
"""The operators that a rule is about: one by name, all ("*"), or those of which something holds."""


class RuleSet:
    """Rules by the operator at their root; sets add."""

    def __init__(
        self, table: Mapping[Any, tuple[Rule, ...]] | None = None, dialect: Dialect | None = None
    ) -> None:
        """Start from rules by root, see Root.

        dialect  whose operators the rules are about; None: the core's
        """
        self.table: dict[Root, tuple[Rule, ...]] = dict(table or {})
        self.dialect = dialect

    def rule(self, *roots: Root) -> Callable[[Rule], Rule]:
        """Enter a function as a rule for calls of these operators."""

        def enter(fn: Rule) -> Rule:
            for root in roots:
                self.table[root] = (*self.table.get(root, ()), fn)
            return fn

        return enter

    def __add__(self, other: RuleSet) -> RuleSet:
        """The rules of both, those of the first ones first."""
        names = [*self.table, *[n for n in other.table if n not in self.table]]
        both = {n: self.table.get(n, ()) + other.table.get(n, ()) for n in names}
        return RuleSet(both, self.dialect)

    def of(self, op: Op) -> tuple[Rule, ...]:
        """The rules to try at a call of this operator."""
        if getattr(op, "dialect", None) is not self.dialect:
            return ()
        fits = [fns for root, fns in self.table.items() if callable(root) and root(op)]
        return self.table.get("*", ()) + sum(fits, ()) + self.table.get(op.name, ())


# ------------------------------------------------------------------------------------- the graph


def _operands(node: nodes.RelaxExpr) -> list[nodes.RelaxExpr]:
    """The values a node is made from, those that its branches return included.

    A Let stays as it is: what is left of them are functions that call themselves.
    """
    if isinstance(node, nodes.Let):
        return []
    return parts_of(node) if isinstance(node, nodes.If) else operands(node)


def order(root: nodes.RelaxExpr) -> Iterator[nodes.RelaxExpr]:
    """Every value below `root` once, operands first; branches are entered."""
    return ordered([root], _operands)


def rebuild(node: nodes.RelaxExpr, done: Mapping[Any, nodes.RelaxExpr]) -> nodes.RelaxExpr:
    """A node on the new forms of its operands; the same node where they are the old ones."""
    if isinstance(node, nodes.Call):  # first, and without its type: most values are
        args = tuple([None if a is None else done[a] for a in node.args])
        op = node.op if isinstance(node.op, Op) else done.get(node.op, node.op)
        same = op is node.op and all(a is b for a, b in zip(args, node.args, strict=True))
        return node if same else node.replace(op=op, args=args)
    new = on_parts(node, done)
    if isinstance(new, nodes.TupleGetItem) and isinstance(new.value, nodes.Tuple):
        return new.value.items[new.index]
    return new


def key_of_call(n: nodes.Call) -> tuple[Any, ...]:
    """What two calls have in common that compute the same."""
    return (n.op, n.args, tuple(map(field_key, n.attrs.values())))


def key_of_constant(c: nodes.Constant) -> tuple[Any, ...]:
    """What equal constants have in common, where they are small or the same memory."""
    small = c.data.nbytes <= SMALL_CONSTANT
    # An array in the key stays alive, so its number is not given away.
    return (c.type, c.data.tobytes() if small else nodes.memory_key(c.data))


class GraphRewriter:
    """A function being rewritten: what rules build with and ask.

    grown  bytes by which computed constants exceed what they were computed from
    """

    def __init__(self, rules: RuleSet, *, share: bool = True, whole: bool = False) -> None:
        """What to do; share and whole as for `apply_rules`."""
        self.rules, self.share, self.whole = rules, share, whole
        self.name = ""
        self.grown = 0
        self._uses: Counter[nodes.RelaxExpr] = Counter()
        self._rest: dict[nodes.RelaxExpr, None] = {}
        self._calls: dict[Any, nodes.RelaxExpr] = {}
        self._constants: dict[Any, nodes.Constant] = {}
        self._exact: dict[nodes.RelaxExpr, np.ndarray[Any, Any]] = {}
        self._by_op: dict[Op, tuple[Rule, ...]] = {}

    # ------------------------------------------------------------------------------- for rules

    def call(self, op: str, *args: nodes.RelaxExpr | None, **attrs: Any) -> nodes.RelaxExpr:
        """An operator applied to values, simplified."""
        return self.rewritten(nodes.call(op, *args, name=self.name, **attrs))

    def again(self, n: nodes.Call, *args: nodes.RelaxExpr | None) -> nodes.RelaxExpr:
        """The same operator with the same attributes on other operands, simplified."""
        return self.rewritten(nodes.call(n.op, *args, name=n.name, **n.attrs))  # type: ignore[arg-type]

    def constant(self, value: Any, dtype: str) -> nodes.Constant:
        """A constant from numbers in float64 (or integers), rounded once."""
        wide = np.asarray(value)
        made = self.one_constant(nodes.constant(wide.astype(dt.to_numpy(dtype), order="C")))
        if wide.dtype == np.float64 and wide.size <= EXACT_ELEMENTS:
            self._exact.setdefault(made, wide)
        return made

    def reshaped(self, c: nodes.Constant, shape: tuple[int, ...]) -> nodes.Constant:
        """A constant under another shape."""
        made = self.one_constant(nodes.constant(c.data.reshape(shape), c.name))
        if c in self._exact:
            self._exact.setdefault(made, self._exact[c].reshape(shape))
        return made

    def exact(self, c: nodes.Constant) -> np.ndarray[Any, Any]:
        """A constant's values in float64, before rounding where this engine computed them."""
        found = self._exact.get(c)
        return c.data.astype(np.float64) if found is None else found

    def single(self, x: nodes.RelaxExpr) -> bool:
        """Whether a value has no second use."""
        return self._uses[x] <= 1

    def only_inside(self, root: nodes.RelaxExpr, *leaves: nodes.RelaxExpr | None) -> bool:
        """Whether all values between `root` and the leaves are used between them only."""
        inside: Counter[nodes.RelaxExpr] = Counter()
        stack, seen = [root], {root}
        while stack:
            for a in _operands(stack.pop()):
                if isinstance(a, nodes.Constant) or any(a is leaf for leaf in leaves):
                    continue
                inside[a] += 1
                if a not in seen:
                    seen.add(a)
                    stack.append(a)
        return all(self._uses[n] <= count for n, count in inside.items())

    # --------------------------------------------------------------------------------- the walk

    def rewritten(self, n: nodes.RelaxExpr) -> nodes.RelaxExpr:
        """A value with rules applied at its root until none fits."""
        for _ in range(STEPS):
            if not isinstance(n, nodes.Call) or not isinstance(n.op, Op) or n in self._rest:
                return n
            new = self._first(n)
            if new is None:
                break
            n = new
        if isinstance(n, nodes.Call) and self.share and isinstance(n.op, Op):
            n = self._calls.setdefault(key_of_call(n), n)
        self._rest[n] = None
        return n

    def _first(self, n: nodes.Call) -> nodes.RelaxExpr | None:
        assert isinstance(n.op, Op)
        rules = self._by_op.get(n.op)
        if rules is None:
            rules = self._by_op[n.op] = self.rules.of(n.op)
        for rule in rules:
            new = rule(self, n)
            if new is not None and new is not n and new.type is n.type:
                return new
        return None

    def one_constant(self, c: nodes.Constant) -> nodes.Constant:
        """The representative of equal constants."""
        if not self.share:
            return c
        return self._constants.setdefault(key_of_constant(c), c)

    def walk(self, f: nodes.Function) -> nodes.Function:
        """One walk over a function."""
        parts = parts_of if self.whole else _operands
        uses = uses_of(f.body, parts)
        self._uses, self._rest, self._calls = Counter(), {}, {}
        if self.share:  # what rules build anew finds the node that is there already
            for node in uses:
                if isinstance(node, nodes.Call):
                    self._calls.setdefault(key_of_call(node), node)
        done: dict[nodes.RelaxExpr, nodes.RelaxExpr] = {}
        for node in ordered([f.body], parts):
            new = done[node] = self._renewed(node, done)
            self._uses[new] += uses[node]
        body = done[f.body]
        return f if body is f.body else f.replace(body=body)

    def _renewed(
        self, node: nodes.RelaxExpr, done: dict[nodes.RelaxExpr, nodes.RelaxExpr]
    ) -> nodes.RelaxExpr:
        if isinstance(node, nodes.Constant):
            return self.one_constant(node)
        new = rebuild(node, done)
        if isinstance(new, nodes.Call):  # first, and by no pattern: most values are
            self.name = new.name
            return self.rewritten(new)
        match new:
            case nodes.TupleGetItem(value, index) if self.share:  # one node for equal items
                return self._calls.setdefault((nodes.TupleGetItem, value, index), new)
            case nodes.If(nodes.Constant(data), yes, no) if not self.whole:
                return yes.body if data else no.body
        return new

    def run(self, f: nodes.Function) -> nodes.Function:
        """Walks over a function until nothing changes."""
        return fixed_point(self.walk, f, WALKS)


Rule = Callable[[GraphRewriter, nodes.Call], "nodes.RelaxExpr | None"]
"""Gets a call whose operands are in their final form; None where it does not apply."""


def apply_rules(
    mod: IRModule, rules: RuleSet, *, share: bool = False, whole: bool = False
) -> IRModule:
    """A module with rules applied to each graph function until none fits.

    External functions, and the composites that they are made of, are somebody else's: they stay.

    share  make equal calls one node on the way
    whole  go into closures, Let and Match, too, and leave what no rule is about as it was written
    """
    changed: dict[str, Any] = {}
    for name, f in mod.functions.items():
        if isinstance(f, nodes.Function) and not is_foreign(f) and not f.attrs.get("Composite"):
            new = GraphRewriter(rules, share=share, whole=whole).run(f)
            _check(name, f, new)
            if new is not f:
                changed[name] = new
    return mod.with_functions(changed) if changed else mod


def _check(name: str, old: nodes.Function, new: nodes.Function) -> None:
    """A pass never changes a function's type."""
    before = [r.type for r in old.results()]
    after = [r.type for r in new.results()]
    if before != after:
        raise InternalError(f"a graph pass changed the results of {name}: {before} to {after}")
