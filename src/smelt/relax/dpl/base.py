"""Patterns and what they are combined of: calls, alternatives, constraints, domination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from smelt.ir.errors import TypeMismatch
from smelt.ir.node import ordered
from smelt.ir.types import TensorType, Type
from smelt.relax.equal import structural_equal
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Var
from smelt.topi.registry import Op

from .context import Sequenced, enter, forget
from .dominate import dominated, way
from .facts import OpRegistry, attribute, looked_up, same_value
from .graph import DataflowGraph, op_name, type_of
from .match import FAIL, FITS, Alternatives, Goal, Matcher, PatternBase, Question
from .partition import partition

Check = Callable[[Any], bool]


Names = frozenset[str] | None
"""Names of operators; None: any."""


class DFPattern(Sequenced, PatternBase):
    """A pattern. Patterns are made by the functions of smelt.relax.dpl (is_op, wildcard, ...).

    written  how it is written, with its fields in braces
    """

    written: str = ""

    def __call__(
        self, *args: Any, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call of what this pattern fits, on operands that patterns describe.

        args                   one pattern an operand; None: an operand left out. A single None,
                               like varg_default_wildcard, stands for any operands
        add_constraint         whether the PatternContext around wants a value for it
        """
        any_args = varg_default_wildcard or (len(args) == 1 and args[0] is None)
        return CallPattern(self, None if any_args else args, add_constraint)

    def __or__(self, other: DFPattern) -> AltPattern:
        """This or the other, tried in this order."""
        return AltPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        """Both on one value."""
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        """Whatever this does not fit."""
        return NotPattern(self)

    def __add__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return ExprPattern("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """This, with attributes of these values: of a call, an operator or a function."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """This, with exactly this type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """This, as a tensor of this element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """This, as a tensor of this shape; None stands for any extent."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """What the function makes of this, where that fits; else this alone."""
        return AltPattern(option_constructor(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This, with all that flows from a value of `parent` ending here, through `path`."""
        return DominatorPattern(parent, path if path is not None else WildcardPattern(), self)

    def match(self, expr: Any, bindings: Mapping[Any, RelaxExpr] | None = None) -> bool:
        """Whether the pattern fits a value.

        bindings  what variables stand for; patterns look through them
        """
        return self.extract_matched_expr(expr, bindings) is not None

    def extract_matched_expr(
        self, expr: Any, bindings: Mapping[Any, RelaxExpr] | None = None
    ) -> dict[Any, Any] | None:
        """The value that each part of the pattern fits, or None."""
        found = Matcher(lambda: DataflowGraph(expr), bindings).match(self, expr)
        return None if found is None else {p: v[0] for p, v in found.items() if v}

    def partition(
        self, expr: Any, attrs: Mapping[str, Any] | None = None, check: Check = lambda x: True
    ) -> Any:
        """Every match as a function of its own, called in place.

        expr   a function or a value
        attrs  attributes for the functions, beside "PartitionedFromPattern"
        check  gets the value that a match computes; False refuses the match
        """
        return partition(self, expr, attrs, check)

    def dup(self) -> DFPattern:
        """A pattern of its own that says the same: in a second place it may fit another value."""
        copies: dict[PatternBase, PatternBase] = {}

        def copy(value: Any) -> Any:
            if isinstance(value, PatternBase):
                return copies[value]
            return tuple([copy(v) for v in value]) if isinstance(value, tuple) else value

        for p in _parts_of_copies(self):
            made = copies[p] = type(p).__new__(type(p))
            for name, value in vars(p).items():
                setattr(made, name, copy(value))
        return copies[self]  # type: ignore[return-value]

    def of_same(self, ask: Callable[[DFPattern], Names]) -> Names:
        """What patterns that this has for its own value say together; nothing: None."""
        return None

    def roots(self) -> Names:
        """Names of the operators that a value has to be a call of."""
        return self.of_same(lambda p: p.roots())

    def op_names(self) -> Names:
        """Names of the operators that this fits, where it stands for an operator."""
        return self.of_same(lambda p: p.op_names())

    def text(self, depth: int) -> str:
        """The pattern as it is written, so many levels deep."""
        if depth <= 0 and any(True for _ in self.parts()):
            return "..."

        def shown(value: Any) -> Any:
            if isinstance(value, tuple):
                return ", ".join([str(shown(v)) for v in value])
            return value.text(depth - 1) if isinstance(value, DFPattern) else value

        fields = {name: shown(value) for name, value in vars(self).items()}
        return self.written.format_map(fields) if self.written else type(self).__name__

    def __repr__(self) -> str:
        return self.text(5)


def _parts_of_copies(root: PatternBase) -> list[PatternBase]:
    """Everything below a pattern, the path of a dominator included, parts first."""

    def below(p: PatternBase) -> Iterable[PatternBase]:
        return (*p.parts(), p.path) if isinstance(p, DominatorPattern) else p.parts()

    return list(ordered([root], below))


def as_patterns(values: Sequence[Any] | None, where: str) -> tuple[Any, ...] | None:
    """Several patterns, or None: any values."""
    if values is None:
        return None
    return tuple([as_pattern(v, f"{where} {n}") for n, v in enumerate(values)])


def as_pattern(value: Any, where: str) -> DFPattern:
    """A pattern, or a TypeMismatch that says where something else stands."""
    if not isinstance(value, DFPattern):
        raise TypeMismatch(
            f"{where}: {value!r} stands where a pattern is needed; "
            "patterns are made by wildcard(), is_op(name), is_constant(), is_expr(value), ..."
        )
    return value


# --------------------------------------------------------------------------------------- leaves


class WildcardPattern(DFPattern):
    """Anything."""

    written = "wildcard()"

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """It fits."""
        return FITS


class ExprPattern(DFPattern):
    """One operator by name, or a value equal to a given one."""

    def __init__(self, expr: Any, registry: OpRegistry | None = None) -> None:
        """expr: an operator, its name, or a value; registry: where the name is looked up."""
        self.expr, self.registry = expr, registry
        self.name = expr if isinstance(expr, str) else op_name(expr)
        self.written = f"is_expr({type(expr).__name__})" if self.name is None else "is_op({name!r})"

    def prepare(self) -> None:
        """Look the operator's name up, where there is a registry."""
        if self.registry is not None and isinstance(self.expr, str):
            self.name, self.registry = looked_up(self.expr, self.registry), None

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """The same operator, or a value of the same structure."""
        if self.name is not None:
            return FITS if op_name(expr) == self.name else FAIL
        if expr is self.expr:
            return FITS
        same = type(expr) is type(self.expr) and not isinstance(expr, Var | Function)
        return FITS if same and structural_equal(expr, self.expr) else FAIL

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """Constants stay in the function that a match becomes."""
        return [v for v in bound[self] if isinstance(v, Constant)]

    def roots(self) -> Names:
        """No call is an operator."""
        return frozenset() if self.name is not None else None

    def op_names(self) -> Names:
        """The operator's name."""
        return None if self.name is None else frozenset({self.name})


class NodePattern(DFPattern):
    """A pattern of one kind of node: the node belongs to the match.

    kind       the class of the node
    described  its fields that patterns describe; those of the pattern have the same names
    """

    kind: ClassVar[type[RelaxExpr]]
    described: ClassVar[tuple[str, ...]] = ()

    def part(self, node: Any, name: str) -> Any:
        """What a field of the node is for its pattern."""
        return getattr(node, name)

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A node of the kind, of which each part fits; None fits any."""
        node = m.bindings.get(expr, expr)
        if not isinstance(node, self.kind):
            return FAIL
        goals: list[Goal] = []
        for name in self.described:
            wanted, found = getattr(self, name), self.part(node, name)
            if not isinstance(wanted, tuple):
                wanted, found = (wanted,), (found,)
            if len(wanted) != len(found):
                return FAIL
            goals += [(p, v, None) for p, v in zip(wanted, found, strict=True) if p is not None]
        return (tuple(goals),)

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """The node."""
        return bound[self]


class CallPattern(NodePattern):
    """A call of what a pattern fits, on operands that patterns describe."""

    written = "{op}({args})"

    def __init__(
        self, op: DFPattern, args: Sequence[Any] | None, add_constraint: bool = True
    ) -> None:
        """args: one pattern an operand, None for one left out; None altogether: any operands."""
        self.op = as_pattern(op, "CallPattern")
        self.args: tuple[Any, ...] | None = None
        if args is not None:
            named = [(a, f"operand {n} of {op!r}(...)") for n, a in enumerate(args)]
            self.args = tuple([None if a is None else as_pattern(a, name) for a, name in named])
        self._names: Names = self.op.op_names()
        if add_constraint:
            enter(self)

    def prepare(self) -> None:
        """Keep the names of the operators, now that they are looked up."""
        self._names = self.op.op_names()

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """The operator fits, then the operands: in both orders where it commutes."""
        node = m.bindings.get(expr, expr)
        if not isinstance(node, Call):
            return FAIL
        name = op_name(node.op)
        if self._names is not None and name not in self._names:
            return FAIL
        first: Goal = (self.op, node.op, node)
        if self.args is None:
            return ((first,),)
        args = node.args
        while args and args[-1] is None:
            args = args[:-1]
        wanted = self.args
        while wanted and wanted[-1] is None:
            wanted = wanted[:-1]
        if len(args) != len(wanted):
            return FAIL
        orders = [args]
        either = isinstance(node.op, Op) and node.op.commutative and len(args) == 2
        if either and args[0] is not args[1]:
            orders.append((args[1], args[0]))
        found = []
        for given in orders:
            if all((p is None) == (a is None) for p, a in zip(wanted, given, strict=True)):
                goals = [(p, a, None) for p, a in zip(wanted, given, strict=True) if p is not None]
                found.append((first, *goals))
        return found

    def roots(self) -> Names:
        """The names of the operators."""
        return self.op.op_names()


# ---------------------------------------------------------------------------------- combinations


class AltPattern(DFPattern):
    """One pattern or the other, tried in this order."""

    written = "({left} | {right})"

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        """Two patterns; of a context they become alternatives."""
        self.left, self.right = as_pattern(left, "|"), as_pattern(right, "|")
        forget((self.left, self.right))
        enter(self)

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """Either of them."""
        return (((self.left, expr, around),), ((self.right, expr, around),))

    def of_same(self, ask: Callable[[DFPattern], Names]) -> Names:
        """The names of both."""
        a, b = ask(self.left), ask(self.right)
        return None if a is None or b is None else a | b


class AndPattern(DFPattern):
    """Both patterns on one value."""

    written = "({left} & {right})"

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        """Two patterns."""
        self.left, self.right = as_pattern(left, "&"), as_pattern(right, "&")

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """Both of them."""
        return (((self.left, expr, around), (self.right, expr, around)),)

    def of_same(self, ask: Callable[[DFPattern], Names]) -> Names:
        """The names that one of them needs."""
        first = ask(self.left)
        return ask(self.right) if first is None else first


class NotPattern(DFPattern):
    """Whatever a pattern does not fit. Nothing inside it is bound."""

    written = "~{reject}"

    def __init__(self, reject: DFPattern) -> None:
        """The pattern to refuse."""
        self.reject = as_pattern(reject, "~")
        forget((self.reject,))

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """It fits where the other does not, beside what is bound so far."""
        return FAIL if m.holds(self.reject, expr, around) else FITS


class _Constrained(DFPattern):
    """A pattern and a question to the value that it fits."""

    pattern: DFPattern

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """The question first: it is cheap."""
        return (((self.pattern, expr, around),),) if self.holds(expr, m, around) else FAIL

    def holds(self, expr: Any, m: Matcher, around: Any) -> bool:
        """The answer."""
        raise NotImplementedError

    def of_same(self, ask: Callable[[DFPattern], Names]) -> Names:
        """Those of the pattern."""
        return ask(self.pattern)


class AttrPattern(_Constrained):
    """Attributes of a call, of a function, or of an operator ("TOpPattern")."""

    written = "{pattern}.has_attr({attrs})"

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        """attrs: the values wanted; others may have any."""
        if not isinstance(attrs, Mapping):
            raise TypeMismatch(f"has_attr takes a mapping of names to values, not {attrs!r}")
        self.pattern, self.attrs = as_pattern(pattern, "has_attr"), dict(attrs)

    def holds(self, expr: Any, m: Matcher, around: Any) -> bool:
        """Whether all are there and equal."""
        node = m.bindings.get(expr, expr) if isinstance(expr, RelaxExpr) else expr
        return all(same_value(attribute(node, k, around), v) for k, v in self.attrs.items())


class TypePattern(_Constrained):
    """A value of exactly one type."""

    written = "{pattern}.has_type({type})"

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        """ttype: the type."""
        self.pattern, self.type = as_pattern(pattern, "has_type"), ttype

    def holds(self, expr: Any, m: Matcher, around: Any) -> bool:
        """Whether the type is this one."""
        return type_of(expr) is self.type


class DataTypePattern(_Constrained):
    """A tensor of an element type."""

    written = "{pattern}.has_dtype({dtype!r})"

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        """dtype: e.g. "float32"."""
        self.pattern, self.dtype = as_pattern(pattern, "has_dtype"), str(dtype)

    def holds(self, expr: Any, m: Matcher, around: Any) -> bool:
        """Whether it is a tensor of this element type."""
        t = type_of(expr)
        return isinstance(t, TensorType) and t.dtype == self.dtype


class ShapePattern(_Constrained):
    """A tensor of a shape."""

    written = "{pattern}.has_shape({shape})"

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        """shape: extents, symbolic ones too; None stands for any."""
        self.pattern, self.shape = as_pattern(pattern, "has_shape"), tuple(shape)

    def holds(self, expr: Any, m: Matcher, around: Any) -> bool:
        """Whether it is a tensor of this shape."""
        t = type_of(expr)
        if not isinstance(t, TensorType) or len(t.shape) != len(self.shape):
            return False
        pairs = zip(t.shape, self.shape, strict=True)
        return all(w is None or same_value(e, w) for e, w in pairs)


class DominatorPattern(DFPattern):
    """All that flows from a value of `parent` ends in this one, and all between fits `path`.

    The value fits `child`. Going up from its operands every way ends in the parent's value, or goes
    through values that fit `path` (each on its own) until there is nothing above. Going down from
    the parent's value every way ends here. The parent nearest to the child is tried first.
    """

    written = "dominates({parent}, {path}, {child})"

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        """Three patterns."""
        parts = (parent, path, child)
        self.parent, self.path, self.child = [as_pattern(p, "dominates") for p in parts]
        forget((self.path,))

    def parts(self) -> Iterable[PatternBase]:
        """Parent and child: what is between is matched value by value."""
        return (self.parent, self.child)

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """The child, then one of the values whose uses all end in it."""
        return (((self.child, expr, None), (Question(lambda m: self.above(expr, m)), None, None)),)

    def above(self, expr: Any, m: Matcher) -> Alternatives:
        """The parents to try."""

        def then(parent: Any) -> Question:
            return Question(lambda m: self.between(expr, parent, m))

        return [((self.parent, d, None), (then(d), None, None)) for d in dominated(m.graph, expr)]

    def between(self, expr: Any, parent: Any, m: Matcher) -> Alternatives:
        """What lies between fits the path."""
        path = way(m.graph, expr, parent, lambda v: m.fits_alone(self.path, v))
        if path is None:
            return FAIL
        if path and self.path not in m.bound:
            m.bind(self.path, path)
        return FITS

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """What lies between."""
        return bound.get(self.path, ())

    def of_same(self, ask: Callable[[DFPattern], Names]) -> Names:
        """Those of the child."""
        return ask(self.child)
