"""Converters of operators on texts: the virtual machine runs them in numpy."""

from __future__ import annotations

from smelt.frontend.common import Build, Value
from smelt.ir.types import TupleType, tensor_type
from smelt.relax.host_ops import host_call

from .registry import Strs, onnx_op


def _broadcast(g: Build, a: Value, b: Value) -> tuple[object, ...]:
    """The shape of two operands together."""
    return g.call("add", g.shaped(a), g.shaped(b)).shape


@onnx_op("StringConcat", since=20)
def string_concat(g: Build, a: Value, b: Value) -> Value:
    """Texts one behind the other."""
    return g.host("strings.concat", (a, b), "string", _broadcast(g, a, b))


@onnx_op("RegexFullMatch", since=20)
def regex_full_match(g: Build, x: Value, *, pattern: str) -> Value:
    """Whether a pattern fits a whole text."""
    return g.host("strings.fullmatch", (x,), "bool", x.shape, pattern=pattern)


@onnx_op("StringSplit", since=20)
def string_split(
    g: Build, x: Value, *, delimiter: str = "", maxsplit: int = -1
) -> tuple[Value, ...]:
    """The parts of texts, and how many there are."""
    g.walk.decide()
    types = (tensor_type((*x.shape, g.fresh()), "string"), tensor_type(x.shape, "int64"))
    made = host_call(
        "strings.split", x.expr, type=TupleType(types), name=g.step.label, delimiter=delimiter,
        maxsplit=maxsplit,
    )  # fmt: skip
    return g.items(made)


@onnx_op("StringNormalizer", since=10)
def string_normalizer(
    g: Build, x: Value, *, case_change_action: str = "NONE", is_case_sensitive: int = 0,
    locale: str = "", stopwords: Strs = (),
) -> Value:  # fmt: skip
    """Texts without some words, in one case; the locale is Python's."""
    g.one_of("case_change_action", case_change_action, ("LOWER", "UPPER", "NONE"))
    return g.host(
        "strings.normalize", (x,), "string", (*([1] * (x.rank - 1)), None),
        case=case_change_action, stopwords=list(stopwords), sensitive=bool(is_case_sensitive),
    )  # fmt: skip


def text_cast(g: Build, x: Value, dtype: str) -> Value:
    """Numbers as texts, or texts as numbers."""
    return g.host("strings.cast", (x,), dtype, x.shape, to=dtype)


def text_lookup(
    g: Build, x: Value, keys: list[object], values: list[object], default: object, dtype: str
) -> Value:
    """The value of each element's key."""
    return g.host(
        "strings.lookup", (x,), dtype, x.shape, keys=keys, values=values, default=default,
        to=dtype,
    )  # fmt: skip
