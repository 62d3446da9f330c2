"""Converters: functions whose signature is the schema of an operator.

Positional parameters are operands (`= None`: optional, `*xs`: any number), keyword-only parameters
are attributes with their types; one without a default is required. Operands and attributes that
several operators share are declared once: operand_group, attribute_set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.topi.registry import Op

from . import windows
from .build import Build
from .graph import Graph, Input
from .values import Operand, SequenceValue

T = TypeVar("T")

_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "Array": (np.ndarray,),
    "Graph": (Graph,),
    "Input": (Input,),
    "Ints": (tuple,),
    "Floats": (tuple,),
    "Strs": (tuple,),
}


_SETS: dict[str, Any] = {}


def attribute_set(declared: type[T]) -> type[T]:
    """Let a TypedDict stand for its attributes in signatures: `**place: Unpack[Placing]`."""
    _SETS[f"Unpack[{declared.__name__}]"] = declared
    return declared


for _declared in (windows.Sliding, windows.Spaced, windows.Placing):
    attribute_set(_declared)


_GROUPS: dict[type, tuple[str, ...]] = {}


def operand_group(*names: str) -> Callable[[type[T]], type[T]]:
    """Let a NamedTuple stand for several operands: `x: Quantized`.

    names  what they are called, where {} is the parameter's name
    """

    def enter(group: type[T]) -> type[T]:
        _GROUPS[group] = names
        return group

    return enter


def _group(fn: Callable[..., Any], p: inspect.Parameter) -> Any:
    """The group of operands that a parameter of a converter stands for; None: it is one operand."""
    found = getattr(fn, "__globals__", {}).get(str(p.annotation))
    return found if isinstance(found, type) and found in _GROUPS else None


def _grouped(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A converter with groups of operands as a function of the single ones."""
    parameters = list(inspect.signature(fn).parameters.values())[1:]
    groups = [(n, group) for n, p in enumerate(parameters) if (group := _group(fn, p))]
    if not groups:
        return fn

    def convert(g: Any, *operands: Any, **attrs: Any) -> Any:
        given = list(operands)
        for place, group in groups:
            part = slice(place, place + len(_GROUPS[group]))
            given[part] = [group(*given[part])]
        return fn(g, *given, **attrs)

    return convert


class Converter:
    """How nodes of one operator become calls."""

    def __init__(self, fn: Callable[..., Any], op: str, since: int) -> None:
        """Read operands and attributes off the signature."""
        self.fn, self.op, self.since = _grouped(fn), op, since
        self.operands: list[str] = []
        self.required = 0
        self.variadic = False
        self.rest = ""
        self.sequences: set[str] = set()
        self.attributes: dict[str, tuple[str, Any]] = {}
        for p in list(inspect.signature(fn).parameters.values())[1:]:
            if p.kind == p.KEYWORD_ONLY:
                self.attributes[p.name] = (str(p.annotation).removesuffix(" | None"), p.default)
            elif p.kind == p.VAR_POSITIONAL:
                self.variadic = True
                self.rest = p.name
            elif p.kind == p.VAR_KEYWORD and p.annotation in _SETS:
                declared = _SETS[p.annotation]
                self.attributes |= {
                    n: (k.__forward_arg__, p.empty if n in declared.__required_keys__ else None)
                    for n, k in declared.__annotations__.items()
                }
                self.attributes = dict(sorted(self.attributes.items()))
            elif group := _group(fn, p):
                names = [n.format(p.name) for n in _GROUPS[group]]
                self.operands += names
                self.required += len(names)
            else:
                self.operands.append(p.name)
                self.required += p.default is p.empty
            if "Operand" in str(p.annotation):
                self.sequences.add(p.name)

    def is_of_kind(self, attribute: str, value: Any) -> bool:
        """Whether a value has the type that the attribute is declared with."""
        kind = self.attributes[attribute][0]
        return kind not in _KINDS or isinstance(value, _KINDS[kind])


class OperatorConverter(Converter):
    """An operator of the user's own, `@smelt.op`, for nodes of a domain of the user's own."""

    def __init__(self, op: Op) -> None:
        """Operands come in order, attributes by name."""

        def convert(g: Any, *operands: Any, **attrs: Any) -> Any:
            return g.call(op, *operands, **attrs)

        super().__init__(convert, op.name, 1)
        self.operands = list(op.operands)
        self.required = len([n for n in op.operands if n not in op.optional])
        self.variadic = op.variadic
        self.attributes = {n: ("Any", p.default) for n, p in op.attributes.items()}


def custom_converter(name: str, given: Any) -> Converter:
    """What a user maps nodes to, as a converter: an operator, or a function like a converter's.

    Raises TypeMismatch for anything else.
    """
    if isinstance(given, Op):
        return OperatorConverter(given)
    if not callable(given):
        raise TypeMismatch(
            f"operators maps {name!r} to a {type(given).__name__}; legal: an operator of "
            "@smelt.op, or a function (g, *operands, **attributes) of a converter's form"
        )
    return Converter(given, name, 1)


def rename(name: str) -> str:
    """The attribute that a parameter stands for: `to_` is `to`, as Python reserves some names."""
    return name.removesuffix("_")


# ------------------------------------------------------------------------------ against a node


def attributes_of(g: Build, converter: Converter, idle: Collection[str] = ()) -> dict[str, Any]:
    """The node's attributes as keywords of the converter; an idle one says nothing."""
    names = {rename(p): p for p in converter.attributes}
    found: dict[str, Any] = {}
    for name, value in g.step.attrs.items():
        if name not in names:
            if name in idle:
                continue
            shown = "a graph" if isinstance(value, Graph) else repr(value)
            g.unsupported(f"attribute {name}={shown}", ", ".join(names) or "no attributes")
        if not converter.is_of_kind(names[name], value):
            g.malformed(
                f"attribute {name}={value!r} is no {converter.attributes[names[name]][0].lower()}"
            )
        found[names[name]] = value
    for name, p in names.items():
        if p not in found and converter.attributes[p][1] is inspect.Parameter.empty:
            g.malformed(f"the attribute {name!r} is missing")
    return found


def check_operands(g: Build, converter: Converter, operands: Sequence[Operand | None]) -> None:
    """ImportFailure or Unsupported where operands are missing, too many, or no tensors."""
    names = converter.operands
    for k, v in enumerate(operands):
        label = names[k] if k < len(names) else converter.rest
        if isinstance(v, SequenceValue) and label not in converter.sequences:
            what = "an absent optional value" if v.items is None else "a sequence"
            g.malformed(f"the operand {label!r} (number {k}) is {what}; a tensor is expected")
    if len(operands) > len(names) and not converter.variadic:
        used = [n for n in g.step.inputs[len(names) :] if n]
        if used:
            g.unsupported(
                f"operand {used[0]!r} (number {len(names)})", ", ".join(names) or "no operands"
            )
    for k in range(converter.required):
        if k >= len(operands) or operands[k] is None:
            g.malformed(f"the operand {names[k]!r} (number {k}) is missing")
