"""`@onnx_op`: a converter's signature is the schema of its operator.

    @onnx_op("LeakyRelu", since=1)
    def leaky_relu(g: Build, x: Value, *, alpha: float = 0.01) -> Value: ...

Positional parameters are operands (`= None`: optional, `*xs`: any number), keyword-only parameters
are attributes with their types; one without a default is required. Operands and attributes that
several operators share are declared once: operand_group, attribute_set. `since` is the first
operator set the converter is for, up to the next converter of the same operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smelt.frontend.common import Graph, Input, Value, windows
from smelt.ir.errors import TypeMismatch
from smelt.topi.registry import Op, get_op

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Ints = windows.Ints
Floats = tuple[float, ...]
Strs = tuple[str, ...]
Array = np.ndarray

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's operators."""

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


@attribute_set
class Convolving(windows.Placing, total=False):
    """The attributes of a convolution."""

    group: int
    kernel_shape: Ints


_GROUPS: dict[type, tuple[str, ...]] = {}


def operand_group(*names: str) -> Callable[[type[T]], type[T]]:
    """Let a NamedTuple stand for several operands: `x: Quantized`.

    names  what they are called, where {} is the parameter's name
    """

    def enter(group: type[T]) -> type[T]:
        _GROUPS[group] = names
        return group

    return enter


@operand_group("{}", "{}_scale", "{}_zero")
class Quantized(NamedTuple):
    """A quantized tensor."""

    value: Value
    scale: Value
    zero: Value


@operand_group("{}_scale", "{}_zero")
class Scaling(NamedTuple):
    """How a result is quantized."""

    scale: Value
    zero: Value


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


_CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


def onnx_op(name: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Register a converter for an operator from one version on."""

    def register(fn: F) -> F:
        found = _CONVERTERS.setdefault((domain, name), [])
        found.append(Converter(fn, name, since))
        found.sort(key=lambda c: c.since)
        return fn

    return register


def same(
    name: str, operands: str, /, *, core: str = "", since: int = 1, domain: str = "",
    renamed: str = "", along: str = "", legal: Mapping[str, Collection[Any]] | None = None,
    required: str = "", **attributes: Any,
) -> Callable[..., Value]:  # fmt: skip
    """Enter an operator that is one of the core's, `same("LeakyRelu", "x", alpha=0.01)`; gives the
    converter. Without attributes, known elements are computed at once.

    core        the core's name, where it is another one than ONNX's in small letters
    renamed     attributes with other names: "blocksize=block" where the core calls it block
    along       those that name a dimension of the first operand, counted from either end
    legal       {attribute: the values that it may have, or what the core calls each of them}
    required    whole numbers that have to be given
    attributes  the others, with their defaults
    """
    target = core or name.lower()
    names = dict(pair.split("=") for pair in renamed.split())
    own = get_op(target).attributes
    flags = {n for n, p in own.items() if p.annotation == "bool"}

    def convert(g: Any, *given: Any, **attrs: Any) -> Value:
        if not attributes and not required:
            return g.compute(target, *given)  # type: ignore[no-any-return]
        attrs = {**attributes, **attrs}
        for attribute, values in (legal or {}).items():
            g.one_of(attribute, attrs[attribute], tuple(values))
            if isinstance(values, Mapping):
                attrs[attribute] = values[attrs[attribute]]
        for attribute in along.split():
            attrs[attribute] = g.axis(attrs[attribute], given[0].rank)
        found = {names.get(n, n): v for n, v in attrs.items()}
        found |= {n: bool(v) for n, v in found.items() if n in flags}
        return g.call(target, *given, **found)  # type: ignore[no-any-return]

    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    vars(convert)["__signature__"] = inspect.Signature([
        *[inspect.Parameter(n, kinds[0]) for n in ("g", *operands.split())],
        *[inspect.Parameter(n, kinds[1], annotation="int") for n in required.split()],
        *[inspect.Parameter(n, kinds[1], default=d, annotation=type(d).__name__)
          for n, d in attributes.items()],
    ])  # fmt: skip
    return onnx_op(name, since, domain)(convert)


def converter_of(domain: str, name: str, opset: int) -> Converter | None:
    """The converter for an operator at an operator set version."""
    found = [c for c in _CONVERTERS.get((domain, name), ()) if c.since <= opset]
    return found[-1] if found else None


def rename(name: str) -> str:
    """The attribute that a parameter stands for: `to_` is `to`, as Python reserves some names."""
    return name.removesuffix("_")
