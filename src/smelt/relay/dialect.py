"""Relay's dialect: its operators, and how Python values become operands of calls of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.ir.types import TensorType, TupleType
from smelt.relax import nodes as relax
from smelt.relax.compose.operands import const, value
from smelt.relax.compose.rows import row_body
from smelt.relax.compose.shapes import known_sizes
from smelt.relax.graph_op import Dialect, GraphOp, Results
from smelt.relax.nodes import RelaxExpr
from smelt.runtime.errors import nearest
from smelt.topi import get_op
from smelt.topi.registry import Op

__all__ = ["FUNCTIONS", "RELAY", "SAME", "SIZED", "alias", "builder", "const",
           "find_builder", "is_call", "known_attribute", "make", "names", "registering",
           "relay_function", "relay_op", "row", "same", "sized", "value", "wrapped"]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

RELAY = Dialect("relay")
relay_op = RELAY.op

SAME: dict[str, Row] = {}
"""Of the core's operators: the operator of Relay that is the same. The way back is by it."""


class Row(NamedTuple):
    """An operator of Relay that is one of the core's.

    name   Relay's name
    names  {the core's attribute: Relay's}, where they differ
    usual  attributes of the core's that Relay's does not have, and their values
    words  {Relay's attribute: {the core's value: Relay's}}
    """

    name: str
    names: Mapping[str, str]
    usual: Mapping[str, Any]
    words: Mapping[str, Mapping[Any, Any]]


def row(
    name: str, core: str, renamed: str = "", forms: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Row:  # fmt: skip
    """How a call of one of the core's operators is written as one of an operator of Relay, which is
    told as to `same`."""
    names = {theirs: mine for mine, _, theirs in [p.partition("=") for p in renamed.split()]}
    has = RELAY.get(name).attributes
    own = get_op(core).attributes.items()
    usual = {n: p.default for n, p in own if names.get(n, n) not in has}
    words = {n: {v: k for k, v in form.items()} for n, form in (forms or {}).items()
             if isinstance(form, Mapping)}  # fmt: skip
    return Row(name, names, {**usual, **(fixed or {})}, words)


def same(
    name: str, operands: str, /, *, core: str = "", renamed: str = "", images: bool = False,
    forms: Mapping[str, Any] | None = None, fixed: Mapping[str, Any] | None = None,
    results: Results = 1, prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    required: str = "", order: str | None = None, idle: str = "", along: str = "", cast: str = "",
    doc: str = "", **attributes: Any,
) -> None:  # fmt: skip
    """Enter an operator that is one of the core's, and how to go back.

    name        Relay's; several in one text share the row, the first is the one to go back to
    operands    their names
    core        the core's name, where it is another one
    results     how many there are, prepare and order: as of Dialect.op; of images it is "layout"
    required    attributes that have to be given
    attributes  those behind them, with their defaults
    doc         what the operator does, where the core's says it otherwise

    renamed, images, forms, fixed, idle, along and cast are those of row_body.
    """
    op = get_op(core or name)
    body = row_body(op, operands, required, attributes, renamed=renamed, images=images, forms=forms,
                    fixed=fixed, idle=idle, along=along, cast=cast)  # fmt: skip
    body.__doc__ = doc or body.__doc__
    order = "layout" * images if order is None else order
    enter = RELAY.op(*name.split(), results=results, prepare=prepare, order=order)
    enter(body).commutative = op.commutative
    SAME.setdefault(op.name, row(name.split()[0], op.name, renamed, forms, fixed))


SIZED: dict[str, Mapping[int, str]] = {}
"""Of operators whose sizes may be expressions: which operand of dyn.<name> is which attribute."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Builders written by hand, by name: their arguments are not the operands and attributes of the
operator of that name, or there is no such operator."""


def relay_function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the builder `relay.<name>`."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[name] = fn
        return fn

    return enter


def alias(
    name: str, arguments: str, /, of: str = "", numbers: str = "", **defaults: Any
) -> None:  # fmt: skip
    """Enter the builder `relay.<name>`: an operator's own with its arguments in another order.

    arguments  operands and attributes; "x=data" calls x what the operator calls data
    of         the operator, where its name is another
    numbers    the attribute that says the element type of operands that are numbers
    defaults   those that are not the operator's
    """
    op = RELAY.get(of or name)
    own = inspect.signature(op.fn).parameters
    names = {new: old or new for new, _, old in (a.partition("=") for a in arguments.split())}
    signature = inspect.Signature([
        own[old].replace(
            name=new, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults.get(new, own[old].default),
        )
        for new, old in names.items()
    ])  # fmt: skip

    def build(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        operands, attrs = _arguments(op, (), {names[n]: v for n, v in bound.arguments.items()})
        if numbers:
            dtype = attrs[numbers] or None
            operands = [const(v, dtype) if isinstance(v, Number) else v for v in operands]
        return wrapped(sized(op, *operands, **attrs))

    FUNCTIONS[name] = _described(build, name, signature, op)


def registering(where: str, name: str, enter: Callable[[F], Any], given: F | None) -> Any:
    """Enter what a user gives for an operator; a decorator that does it, where nothing is given."""
    if name not in RELAY.ops:
        hint = nearest(name, list(RELAY.ops))
        raise TypeMismatch(f"{where}: relay has no operator {name!r}{hint}")

    def register(fn: F) -> F:
        enter(fn)
        return fn

    return register if given is None else register(given)


def find_builder(name: str) -> Callable[..., Any] | None:
    """The builder of a name: the one written by hand, or the operator's own."""
    return FUNCTIONS.get(name) or (builder(RELAY.ops[name]) if name in RELAY.ops else None)


def names() -> set[str]:
    """The names of all builders."""
    return {*RELAY.ops, *FUNCTIONS}


def make(op: Op | str, *given: Any, **attrs: Any) -> relax.Call:
    """A call of an operator on expressions, and numbers beside them; its type is inferred."""
    found = RELAY.get(op) if isinstance(op, str) else op
    dtype = next(
        (
            g.type.dtype
            for g in given
            if isinstance(g, RelaxExpr) and isinstance(g.type, TensorType)
        ),
        None,
    )
    names = [*found.operands, *[str(i) for i in range(len(given))]]
    operands = [
        None if g is None else value(g, f"{found.name}: the operand {n}", dtype)
        for g, n in zip(given, names, strict=False)
    ]
    return relax.call(found, *operands, **attrs)


RELAY.make = make


def is_call(x: Any, *names: str) -> TypeGuard[relax.Call]:
    """Whether a value is a call of one of these operators of Relay."""
    return isinstance(x, relax.Call) and any(RELAY.ops.get(name) is x.op for name in names)


def sized(op: Op | str, *operands: Any, **attrs: Any) -> relax.Call:
    """A call of an operator; of its dyn form, where attributes that are sizes are expressions."""
    found = RELAY.get(op) if isinstance(op, str) else op
    name, taken = found.name, SIZED.get(found.name, {})
    sizes = {a: _number_or_expression(name, a, attrs[a]) for a in taken.values()
             if attrs.get(a) is not None}  # fmt: skip
    attrs |= sizes
    if not any(isinstance(v, RelaxExpr) for v in sizes.values()):
        return make(found, *operands, **attrs)
    given = list(operands)
    for place, a in taken.items():
        size = attrs.pop(a, found.attributes[a].default)
        if size is None or (isinstance(size, list | tuple) and not size):
            continue
        dtype = "float32" if a.startswith(("scale", "roi")) else "int64"
        given.insert(place, size if isinstance(size, RelaxExpr) else const(size, dtype))
    return make(f"dyn.{name}", *given, **attrs)


_NUMBERS = ("depth", "k", "scale_d", "scale_h", "scale_w")
"""The sizes that are one number. Others are several, but for the axis of expand_dims."""


def _number_or_expression(name: str, attribute: str, given: Any) -> Any:
    """A size in the form that an attribute has, unless an expression computes it."""
    if isinstance(given, relax.Constant):
        return known_attribute(name, attribute, given)
    if attribute in _NUMBERS or attribute in ("pad_width", "roi", "size"):
        return given
    many = known_sizes(given)
    return many[0] if name == "expand_dims" and isinstance(many, tuple) else many


def known_attribute(name: str, attribute: str, given: Any) -> Any:
    """The attribute that a constant operand of dyn.<name> stands for."""
    data = given.data.view(np.ndarray)
    if attribute in _NUMBERS or name == "expand_dims":
        return data.reshape(-1)[0].item()
    if attribute == "pad_width":
        return tuple([tuple(pair) for pair in data.reshape(-1, 2).tolist()])
    return tuple(data.reshape(-1).tolist())


def builder(op: Op) -> Callable[..., Any]:
    """The function that makes calls of an operator, as `relay.nn.conv2d(...)` is used.

    Attributes may be given by position behind the operands, in their declared order. Several
    results come as a TupleWrapper.
    """

    def build(*given: Any, **named: Any) -> Any:
        operands, attrs = _arguments(op, given, named)
        return wrapped(sized(op, *operands, **attrs))

    own = inspect.signature(op.fn)
    if not op.variadic:
        parameters = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in own.parameters.values()]
        own = own.replace(parameters=parameters)
    return _described(build, op.name, own, op)


def _described(
    build: Callable[..., Any], name: str, signature: inspect.Signature, op: Op
) -> Callable[..., Any]:
    """A builder that looks like a function written by hand."""
    vars(build)["__signature__"] = signature
    build.__name__ = build.__qualname__ = name
    build.__doc__ = op.__doc__
    return build


def wrapped(made: relax.Call) -> Any:
    """A call as builders return it: one with several results as a TupleWrapper."""
    if isinstance(made.type, TupleType):
        return TupleWrapper(made, len(made.type.items))
    count = made.op.results if isinstance(made.op, GraphOp) else 1
    count = count if isinstance(count, int) else count(made)
    return TupleWrapper(made, count) if count != 1 else made


def _arguments(
    op: Op, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The operands and the attributes among a builder's arguments."""
    if op.variadic:
        return list(given), named
    count = len(op.operands)
    if len(given) > count + len(op.attributes):
        raise TypeMismatch(
            f"{op.name}: {len(given)} arguments given; it takes "
            f"{', '.join([*op.operands, *op.attributes])}"
        )
    attrs = dict(zip(op.attributes, given[count:], strict=False))
    operands: list[Any] = list(given[:count])
    for name in op.operands[len(operands) :]:
        operands.append(named.pop(name, None))
    while operands and operands[-1] is None:
        operands.pop()
    for name, x in named.items():
        if name in attrs or name in op.operands:
            raise TypeMismatch(f"{op.name}: {name} is given twice")
        attrs[name] = x
    return operands, attrs


class TupleWrapper:
    """A call with several results that can be unpacked: `a, b = relay.split(x, 2)`."""

    def __init__(self, tuple_value: RelaxExpr, size: int) -> None:
        """Keep the value and the number of its items."""
        self.tuple_value, self.size = tuple_value, size

    def astuple(self) -> RelaxExpr:
        """The value itself."""
        return self.tuple_value

    def astext(self) -> str:
        """Its text."""
        return str(self.tuple_value)

    @property
    def checked_type(self) -> Any:
        """Its type."""
        return self.tuple_value.checked_type

    def __getitem__(self, index: int) -> relax.TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"item {index} of a tuple with {self.size} items")
        return relax.TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value}, {self.size})"
