"""Writers of operators on texts."""

from __future__ import annotations

from typing import Any

from .write_graph import Form, Results, Writer, element_number, forms_of, written

_OPERATORS: dict[str, tuple[str, dict[str, str]]] = {
    "concat": ("StringConcat", {}),
    "equal": ("Equal", {}),
    "fullmatch": ("RegexFullMatch", {"pattern": "pattern"}),
    "split": ("StringSplit", {"delimiter": "delimiter", "maxsplit": "maxsplit"}),
    "normalize": ("StringNormalizer", {"case": "case_change_action", "stopwords": "stopwords",
                                       "sensitive": "is_case_sensitive"}),
}  # fmt: skip
"""The operator of ONNX, and its names of the attributes."""


def _form(name: str, names: dict[str, str]) -> Form:
    def form(w: Writer, *operands: Any, **attrs: Any) -> Results:
        given = {names[n]: int(v) if isinstance(v, bool) else v for n, v in attrs.items()}
        return w.emit(name, *operands, results=2 if name == "StringSplit" else 1,
                      **{n: v for n, v in given.items() if v != []})  # fmt: skip

    return form


for _core, (_name, _names) in _OPERATORS.items():
    written(f"strings.{_core}")(_form(_name, _names))


@written("strings.cast")
def cast(w: Writer, x: Any, *, to: str) -> Results:
    """Numbers as texts, or texts as numbers."""
    return w.emit("Cast", x, to=element_number(to))


@written("strings.move")
def move(w: Writer, *operands: Any, move: str, attrs: Any) -> Results:
    """What moves texts as it moves numbers."""
    given = {n: tuple(v) if isinstance(v, list) else v for n, v in attrs.items()}
    return w.first_of(forms_of(move), operands, given)
