"""`@onnx_op`: a converter's signature is the schema of its operator.

    @onnx_op("LeakyRelu", since=1)
    def leaky_relu(g: Build, x: Value, *, alpha: float = 0.01) -> Value: ...

`since` is the first operator set the converter is for, up to the next converter of the same
operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smelt.frontend.common import Value, windows
from smelt.frontend.common.converter import Converter, attribute_set, operand_group
from smelt.topi.registry import get_op

F = TypeVar("F", bound=Callable[..., Any])
Ints = windows.Ints
Floats = tuple[float, ...]
Strs = tuple[str, ...]
Array = np.ndarray

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's operators."""


@attribute_set
class Convolving(windows.Placing, total=False):
    """The attributes of a convolution."""

    group: int
    kernel_shape: Ints


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


_CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


class Same(NamedTuple):
    """An operator that is one of the core's, as `same` was told; attributes with their defaults."""

    name: str
    core: str
    since: int
    domain: str
    names: Mapping[str, str]
    legal: Mapping[str, Collection[Any]]
    attributes: Mapping[str, Any]


ROWS: list[Same] = []
"""Every operator that `same` entered: what writes models reads it the other way round."""


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

    own_attributes = {**dict.fromkeys(required.split(), 0), **attributes}
    ROWS.append(Same(name, target, since, domain, names, legal or {}, own_attributes))
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
