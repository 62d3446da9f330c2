"""The pattern language: what a value of a graph program may look like.

    conv = is_op("conv2d")(wildcard(), is_constant())
    fused = is_op("relu")(is_op("add")(conv, is_constant()))
    fused.match(value)                     # True or False
    fused.partition(function)              # matches become functions, called in place

A pattern object that stands in two places has to fit the same value in both:
`x = wildcard(); is_op("add")(x, x)` fits x + x. Operators that commute fit in either order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import Unsupported
from smelt.ir.types import Type
from smelt.relax.nodes import Constant, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var

from ..op.entry import known_op
from . import base
from .facts import OpRegistry
from .match import FAIL, FITS, Alternatives, Goal, Matcher, PatternBase


class ConstantPattern(base.DFPattern):
    """A constant. It stays inside the function that a match becomes."""

    written = "is_constant()"

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A Constant."""
        return FITS if isinstance(m.bindings.get(expr, expr), Constant) else FAIL

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """The constant."""
        return bound[self]


class VarPattern(base.DFPattern):
    """A variable, of a name where one is given."""

    def __init__(self, name: str = "") -> None:
        """name: "" fits every variable."""
        self.name, self.written = name, "is_var({name!r})" if name else "is_var()"

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A Var."""
        return FITS if isinstance(expr, Var) and self.name in ("", expr.name) else FAIL


class GlobalVarPattern(base.DFPattern):
    """A function of the module, of a name where one is given."""

    written = "is_global_var({name!r})"

    def __init__(self, name: str = "") -> None:
        """name: "" fits every function."""
        self.name = name

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A GlobalVar."""
        return FITS if isinstance(expr, GlobalVar) and self.name in ("", expr.name) else FAIL


# ---------------------------------------------------------------------------------------- nodes


class TuplePattern(base.NodePattern):
    """A tuple of values that patterns describe, or any tuple."""

    def __init__(self, fields: Sequence[base.DFPattern] | None) -> None:
        """fields: None fits a tuple of any values."""
        self.fields, self.written = None, "is_tuple(None)"
        if fields is not None:
            self.fields = tuple(
                [base.as_pattern(f, f"is_tuple: field {n}") for n, f in enumerate(fields)]
            )
            self.written = "is_tuple([{fields}])"

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A Tuple of as many values."""
        node = m.bindings.get(expr, expr)
        if not isinstance(node, Tuple):
            return FAIL
        if self.fields is None:
            return FITS
        if len(self.fields) != len(node.items):
            return FAIL
        return (tuple([(p, v, None) for p, v in zip(self.fields, node.items, strict=True)]),)


class TupleGetItemPattern(base.NodePattern):
    """One value of a tuple that a pattern describes."""

    written = "is_tuple_get_item({tuple}, {index})"

    def __init__(self, tuple_value: base.DFPattern, index: int | None = None) -> None:
        """index: None fits every index."""
        self.tuple, self.index = base.as_pattern(tuple_value, "is_tuple_get_item"), index

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A TupleGetItem."""
        node = m.bindings.get(expr, expr)
        if not isinstance(node, TupleGetItem) or self.index not in (None, -1, node.index):
            return FAIL
        return (((self.tuple, node.value, None),),)


class IfPattern(base.NodePattern):
    """A branch. The patterns of the branches describe what they give."""

    def __init__(
        self, cond: base.DFPattern, true_branch: base.DFPattern, false_branch: base.DFPattern
    ) -> None:
        """Patterns of the condition and of both results."""
        parts = (cond, true_branch, false_branch)
        self.cond, self.true_branch, self.false_branch = [
            base.as_pattern(p, "is_if") for p in parts
        ]

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """An If."""
        node = m.bindings.get(expr, expr)
        if not isinstance(node, If):
            return FAIL
        yes, no = (
            _branch(self.true_branch, node.then_branch),
            _branch(self.false_branch, node.else_branch),
        )
        return (((self.cond, node.condition, None), yes, no),)

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """The node and the functions that its branches are."""
        return [x for v in bound[self] for x in (v, v.then_branch, v.else_branch)]


def _branch(pattern: base.DFPattern, branch: Function) -> Goal:
    return (pattern, branch if isinstance(pattern, FunctionPattern) else branch.body, None)


class LetPattern(base.NodePattern):
    """A Let: variable, value and body."""

    def __init__(self, var: base.DFPattern, value: base.DFPattern, body: base.DFPattern) -> None:
        """Patterns of the three."""
        self.var, self.value, self.body = [base.as_pattern(p, "is_let") for p in (var, value, body)]

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A Let."""
        if not isinstance(expr, Let):
            return FAIL
        parts = ((self.var, expr.var), (self.value, expr.value), (self.body, expr.body))
        return (tuple([(p, v, None) for p, v in parts]),)


class FunctionPattern(base.NodePattern):
    """A function: its parameters and its body."""

    written = "is_function(..., {body})"

    def __init__(self, params: Sequence[base.DFPattern] | None, body: base.DFPattern) -> None:
        """params: None fits any parameters."""
        self.params = None
        if params is not None:
            self.params = tuple([base.as_pattern(p, f"is_function: parameter {n}")
                                 for n, p in enumerate(params)])  # fmt: skip
        self.body = base.as_pattern(body, "is_function")

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A Function of as many parameters."""
        if not isinstance(expr, Function):
            return FAIL
        body: Goal = (self.body, expr.body, None)
        if self.params is None:
            return ((body,),)
        if len(self.params) != len(expr.params):
            return FAIL
        return ((*[(p, v, None) for p, v in zip(self.params, expr.params, strict=True)], body),)


# ------------------------------------------------------------------------------ how they are made


def wildcard() -> base.WildcardPattern:
    """Anything. A match's wildcards are the inputs of the function that it becomes."""
    return base.WildcardPattern()


def is_op(op_name: str, registry: OpRegistry | None = None) -> base.ExprPattern:
    """An operator by name; call it for a call of the operator: is_op("relu")(wildcard()).

    registry  where the name is looked up before the first match: a function that raises, or a
              mapping. What is found may have another name, which counts. None: "relax.nn.relu" is
              the core's operator that the builder relax.op.nn.relu makes a call of; any other
              name is taken as it is
    """
    return base.ExprPattern(op_name, registry) if registry else base.ExprPattern(known_op(op_name))


def is_expr(expr: Any) -> base.ExprPattern:
    """A value of the same structure as a given one."""
    return base.ExprPattern(expr)


def is_constant() -> ConstantPattern:
    """A constant. It stays inside the function that a match becomes."""
    return ConstantPattern()


is_const = is_constant


def is_var(name: str = "") -> VarPattern:
    """A variable, of a name where one is given."""
    return VarPattern(name)


def is_global_var(name: str = "") -> GlobalVarPattern:
    """A function of the module by name: is_global_var("f")(wildcard()) is a call of it."""
    return GlobalVarPattern(name)


def is_tuple(fields: Sequence[base.DFPattern] | None) -> TuplePattern:
    """A tuple of values that patterns describe; None: any tuple."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: base.DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """One value of a tuple that a pattern describes; None: whichever."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(
    cond: base.DFPattern, true_branch: base.DFPattern, false_branch: base.DFPattern
) -> IfPattern:
    """A branch: its condition and the results of both sides."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: base.DFPattern, value: base.DFPattern, body: base.DFPattern) -> LetPattern:
    """A Let: variable, value and body."""
    return LetPattern(var, value, body)


def is_call(op: base.DFPattern, args: Sequence[Any] | None = None) -> base.CallPattern:
    """A call of what a pattern describes; args None: on any operands."""
    return base.CallPattern(op, args)


def is_function(params: Sequence[base.DFPattern] | None, body: base.DFPattern) -> FunctionPattern:
    """A function: parameters (None: any) and body."""
    return FunctionPattern(params, body)


def is_call_tir(
    func_name: str,
    args: Sequence[base.DFPattern] | TuplePattern | None = None,
    tir_vars: base.DFPattern | None = None,
) -> base.CallPattern:
    """A call of a tensor program of the module by name; args None: on any operands."""
    if tir_vars is not None:
        raise Unsupported(
            f"is_call_tir({func_name!r}): tir_vars; sizes of a tensor program follow from its "
            "operands here, there is no tuple of them to match"
        )
    given = args.fields if isinstance(args, TuplePattern) else args
    return base.CallPattern(GlobalVarPattern(func_name), given)


def has_attr(attrs: Mapping[str, Any], pattern: base.DFPattern | None = None) -> base.AttrPattern:
    """A value (that a pattern describes) with attributes of these values."""
    return base.AttrPattern(pattern or base.WildcardPattern(), attrs)


def has_type(ttype: Type, pattern: base.DFPattern | None = None) -> base.TypePattern:
    """A value (that a pattern describes) of exactly this type."""
    return base.TypePattern(pattern or base.WildcardPattern(), ttype)


def has_dtype(dtype: str, pattern: base.DFPattern | None = None) -> base.DataTypePattern:
    """A tensor (that a pattern describes) of this element type."""
    return base.DataTypePattern(pattern or base.WildcardPattern(), dtype)


def has_shape(shape: Sequence[Any], pattern: base.DFPattern | None = None) -> base.ShapePattern:
    """A tensor (that a pattern describes) of this shape; None stands for any extent."""
    return base.ShapePattern(pattern or base.WildcardPattern(), shape)


def dominates(
    parent: base.DFPattern, path: base.DFPattern, child: base.DFPattern
) -> base.DominatorPattern:
    """A value of `child` in which all that flows from a value of `parent` ends, through `path`."""
    return base.DominatorPattern(parent, path, child)


def reject(pattern: base.DFPattern) -> base.NotPattern:
    """Whatever a pattern does not fit: ~pattern."""
    return base.NotPattern(pattern)


def make_fused_bias_activation_pattern(
    op_name: str,
    with_bias: bool = False,
    activation: str | None = None,
    registry: OpRegistry | None = None,
    bias_op: str = "add",
) -> base.CallPattern:
    """An operator on two operands, with an addition after it and an activation after that.

    activation  the name of the operator; None: no activation
    bias_op     the operator that adds the bias
    """
    out = is_op(op_name, registry)(wildcard(), wildcard())
    if with_bias:
        out = is_op(bias_op, registry)(out, wildcard())
    return is_op(activation, registry)(out) if activation else out


def make_residual_block_pattern(
    node_output: base.DFPattern | tuple[base.DFPattern, Mapping[str, base.DFPattern]],
    binary_op: str = "add",
    activation: str | None = None,
    registry: OpRegistry | None = None,
) -> tuple[base.DFPattern, dict[str, base.DFPattern]]:
    """A value joined with another one that goes around it, with an activation after that.

    node_output  what computes the value, with named parts where there are any
    binary_op    the operator that joins both, in either order
    Returns the pattern and the named parts, "residual" being the value that goes around.
    """
    out, named = node_output if isinstance(node_output, tuple) else (node_output, {})
    residual = wildcard()
    join = is_op(binary_op, registry)
    pattern: base.DFPattern = join(out, residual) | join(residual, out)
    if activation is not None:
        pattern = is_op(activation, registry)(pattern)
    return pattern, {**named, "residual": residual}
