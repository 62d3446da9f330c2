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
from .match import FAIL, FITS, Alternatives, Matcher, PatternBase


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

    kind, described = Tuple, ("fields",)

    def __init__(self, fields: Sequence[base.DFPattern] | None) -> None:
        """fields: None fits a tuple of any values."""
        self.fields = base.as_patterns(fields, "is_tuple: field")
        self.written = "is_tuple(None)" if fields is None else "is_tuple([{fields}])"


class TupleGetItemPattern(base.NodePattern):
    """One value of a tuple that a pattern describes."""

    kind, described = TupleGetItem, ("tuple",)
    written = "is_tuple_get_item({tuple}, {index})"

    def __init__(self, tuple_value: base.DFPattern, index: int | None = None) -> None:
        """index: None fits every index."""
        self.tuple, self.index = base.as_pattern(tuple_value, "is_tuple_get_item"), index

    def part(self, node: Any, name: str) -> Any:
        """The tuple."""
        return node.value

    def expand(self, expr: Any, m: Matcher, around: Any) -> Alternatives:
        """A TupleGetItem."""
        node = m.bindings.get(expr, expr)
        fits = self.index in (None, -1, getattr(node, "index", None))
        return super().expand(node, m, around) if fits else FAIL


class IfPattern(base.NodePattern):
    """A branch. The patterns of the branches describe what they give."""

    kind, described = If, ("cond", "true_branch", "false_branch")

    def __init__(
        self, cond: base.DFPattern, true_branch: base.DFPattern, false_branch: base.DFPattern
    ) -> None:
        """Patterns of the condition and of both results."""
        parts = (cond, true_branch, false_branch)
        self.cond, self.true_branch, self.false_branch = [
            base.as_pattern(p, "is_if") for p in parts
        ]

    def part(self, node: Any, name: str) -> Any:
        """A branch is a function to a pattern of functions."""
        sides = {"true_branch": node.then_branch, "false_branch": node.else_branch}
        whole = name in sides and isinstance(getattr(self, name), FunctionPattern)
        return sides[name] if whole else getattr(node, name)

    def inside(self, bound: Mapping[PatternBase, list[Any]]) -> Iterable[Any]:
        """The node and the functions that its branches are."""
        return [x for v in bound[self] for x in (v, v.then_branch, v.else_branch)]


class LetPattern(base.NodePattern):
    """A Let: variable, value and body."""

    kind, described = Let, ("var", "value", "body")

    def __init__(self, var: base.DFPattern, value: base.DFPattern, body: base.DFPattern) -> None:
        """Patterns of the three."""
        self.var, self.value, self.body = [base.as_pattern(p, "is_let") for p in (var, value, body)]


class FunctionPattern(base.NodePattern):
    """A function: its parameters and its body."""

    kind, described = Function, ("params", "body")
    written = "is_function(..., {body})"

    def __init__(self, params: Sequence[base.DFPattern] | None, body: base.DFPattern) -> None:
        """params: None fits any parameters."""
        self.params = base.as_patterns(params, "is_function: parameter")
        self.body = base.as_pattern(body, "is_function")


# ------------------------------------------------------------------------------ how they are made


wildcard = base.WildcardPattern
"""Anything. A match's wildcards are the inputs of the function that it becomes."""


def is_op(op_name: str, registry: OpRegistry | None = None) -> base.ExprPattern:
    """An operator by name; call it for a call of the operator: is_op("relu")(wildcard()).

    registry  where the name is looked up before the first match: a function that raises, or a
              mapping. What is found may have another name, which counts. None: "relax.nn.relu" is
              the core's operator that the builder relax.op.nn.relu makes a call of; any other
              name is taken as it is
    """
    return base.ExprPattern(op_name, registry) if registry else base.ExprPattern(known_op(op_name))


is_expr = base.ExprPattern
"""A value of the same structure as a given one."""

is_constant = ConstantPattern
"""A constant. It stays inside the function that a match becomes."""

is_const = is_constant


is_var = VarPattern
"""A variable, of a name where one is given."""

is_global_var = GlobalVarPattern
"""A function of the module by name: is_global_var("f")(wildcard()) is a call of it."""

is_tuple = TuplePattern
"""A tuple of values that patterns describe; None: any tuple."""

is_tuple_get_item = TupleGetItemPattern
"""One value of a tuple that a pattern describes; None: whichever."""

is_if = IfPattern
"""A branch: its condition and the results of both sides."""

is_let = LetPattern
"""A Let: variable, value and body."""


def is_call(op: base.DFPattern, args: Sequence[Any] | None = None) -> base.CallPattern:
    """A call of what a pattern describes; args None: on any operands."""
    return base.CallPattern(op, args)


is_function = FunctionPattern
"""A function: parameters (None: any) and body."""


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


dominates = base.DominatorPattern
"""A value of `child` in which all that flows from a value of `parent` ends, through `path`."""

reject = base.NotPattern
"""Whatever a pattern does not fit: ~pattern."""


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
