"""Structural equality of programs of every level: up to the names of variables and buffers.

Each level says what the nodes of its classes consist of (`structure`, `definition`): fields to
compare, and what they bind. One walk over both sides finds the first difference and its path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import singledispatch
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from . import dtype as dt
from .expr import Expr, FloatImm, IntImm, StringImm, Var
from .module import IRModule
from .node import Node, float_key
from .text import data_text, printed, quoted, script


class StructuralDifference(AssertionError, ValueError):
    """What assert_structural_equal raises: the path of the first difference, and both texts."""


# ------------------------------------------------------------------------- what programs consist of


class Part(NamedTuple):
    """One part of a node, in the order in which parts are compared.

    action  "field": a value to compare; "bind": a variable or buffer that is defined here, both
            sides' stand for each other from now on; "open": a value to compare in which variables
            are bound by their first use; "once", the first part: the node's identity counts, one
            that is used twice is not two that are equal
    label   what the part adds to the path, e.g. ".body"
    """

    action: str
    label: str
    value: Any


def bound(label: str, value: Any) -> list[Part]:
    """A variable or buffer, or a tuple of them, that is defined here."""
    if not isinstance(value, tuple | list):
        return [Part("bind", label, value)]
    length = Part("field", label + ".length", len(value))
    return [length, *[Part("bind", f"{label}[{i}]", v) for i, v in enumerate(value)]]


def parts(
    *fields: str, binds: Collection[str] = (), opens: Collection[str] = (), once: bool = False
) -> Callable[[Any], list[Part]]:
    """What a node of some fields consists of, in the order in which they are compared.

    binds  fields that define variables or buffers
    opens  fields in which variables are bound by their first use
    once   whether the node's identity counts
    """

    def parts_of(node: Any) -> list[Part]:
        found = [Part("once", "", node)] if once else []
        for f in fields:
            if f in binds:
                found += bound("." + f, getattr(node, f))
            else:
                found.append(Part("open" if f in opens else "field", "." + f, getattr(node, f)))
        return found

    return parts_of


@singledispatch
def structure(node: Any) -> Iterable[Part]:
    """What a node consists of: its fields, unless its class is registered with something else."""
    return [Part("field", "." + f, getattr(node, f)) for f in node.__match_args__]


@singledispatch
def definition(node: Any) -> Iterable[Part] | None:
    """What has to agree where a variable or buffer is defined; None for other nodes.

    Uses are compared by the place of the definition; bound outside of both programs, they have to
    be the same object.
    """
    return None


@singledispatch
def normal(node: Any) -> Any:
    """What else a node may be written as: nodes of different classes are compared in this form."""
    return node


structure.register(IRModule, parts("functions", "attrs"))
definition.register(Var, parts("dtype"))


# ------------------------------------------------------------------------------------- comparing


class _Path:
    """Where in a program a comparison stands; becomes text only where it is needed.

    nodes  the two nodes there
    """

    __slots__ = ("label", "nodes", "parent")

    def __init__(self, parent: _Path | None, label: str) -> None:
        self.parent, self.label = parent, label
        self.nodes: tuple[Any, Any] | None = None

    def __str__(self) -> str:
        labels: list[str] = []
        at: _Path | None = self
        while at is not None:
            labels.append(at.label)
            at = at.parent
        return "".join(reversed(labels))

    def lines(self) -> tuple[Any, Any]:
        """The innermost nodes with an identity that have a text: what is shown as different."""
        at: _Path | None = self
        while at is not None:
            if at.nodes is not None and not any(_unmarked(n) for n in at.nodes):
                return at.nodes
            at = at.parent
        return None, None


def _unmarked(node: Any) -> bool:
    return getattr(node, "interned", True) or printed.dispatch(type(node)) is _NO_TEXT


_NO_TEXT = printed.dispatch(object)


class _Difference(Exception):
    def __init__(self, path: _Path, a: object, b: object) -> None:
        super().__init__(str(path))
        self.path, self.a, self.b = path, a, b


class _Nothing:
    """Stands for what one side lacks."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()
LEAVES = (IntImm, FloatImm, StringImm)
_LACKING = Part("field", "", _NOTHING)
_Todo = tuple[str, _Path, Any, Any, bool]


class _Comparison:
    """Walks two programs side by side. Definitions pair variables; uses must agree with them."""

    def __init__(self, weights: bool) -> None:
        self.weights = weights
        self.pairs: dict[Node, Node] = {}
        self.back: dict[Node, Node] = {}
        self.seen: set[tuple[Expr, Expr]] = set()

    def run(self, a: Any, b: Any, free: bool) -> None:
        """Raise _Difference at the first one. free: unbound variables are bound by first use."""
        todo: list[_Todo] = [("field", _Path(None, "<root>"), a, b, free)]
        while todo:
            action, path, x, y, free = todo.pop()
            later = self.one(action, path, x, y, free or action == "open")
            todo += reversed(later)

    def one(self, action: str, path: _Path, x: Any, y: Any, free: bool) -> list[_Todo]:
        """Compare two values but for their parts; those are returned."""
        if action == "bind":
            return self.define(path, x, y, free)
        if _is_defined(x) or _is_defined(y):
            return self.use(path, x, y, free)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            keys = sorted({*x, *y}, key=str)
            parts = [(f"[{quoted(k)}]", x.get(k, _NOTHING), y.get(k, _NOTHING)) for k in keys]
            return [("field", _Path(path, label), p, q, free) for label, p, q in parts]
        if isinstance(x, tuple | list) and type(x) is type(y):
            pairs = enumerate(zip_longest(x, y, fillvalue=_NOTHING))
            return [("field", _Path(path, f"[{i}]"), p, q, free) for i, (p, q) in pairs]
        if isinstance(x, LEAVES) and isinstance(y, Node):
            if x is not y:
                raise _Difference(path, x, y)
            return []
        if isinstance(x, Node | IRModule) and isinstance(y, Node | IRModule):
            return self.node(path, x, y, free)
        if not self.same(x, y):
            raise _Difference(path, x, y)
        return []

    def define(self, path: _Path, x: Any, y: Any, free: bool) -> list[_Todo]:
        """x and y are defined here: from now on they stand for each other."""
        ours, theirs = definition(x), definition(y)
        if ours is None or theirs is None or definition.dispatch(type(x)) is not (
            definition.dispatch(type(y))
        ):  # fmt: skip
            raise _Difference(path, x, y)
        self.back.pop(self.pairs.get(x, y), None)
        self.pairs.pop(self.back.get(y, x), None)
        self.pairs[x], self.back[y] = y, x
        self.seen.clear()
        return _together(path, ours, theirs, free)

    def use(self, path: _Path, x: Any, y: Any, free: bool) -> list[_Todo]:
        """Two uses of what was defined elsewhere: on both sides at the same place."""
        if x not in self.pairs and y not in self.back:
            if free and _is_defined(x) and _is_defined(y):
                return self.define(path, x, y, free)
            if x is y:
                return []
        elif self.pairs.get(x) is y:
            return []
        raise _Difference(path, x, y)

    def node(self, path: _Path, x: Any, y: Any, free: bool) -> list[_Todo]:
        """Two nodes: of one class, and with equal parts."""
        path.nodes = x, y
        rule = structure.dispatch(type(x))
        if type(x) is not type(y) and (rule is _FIELDS or structure.dispatch(type(y)) is not rule):
            p, q = normal(x), normal(y)
            if p is x and q is y:
                raise _Difference(path, x, y)
            return [("field", path, p, q, free)]
        if isinstance(x, Expr):
            if (x, y) in self.seen:
                return []
            self.seen.add((x, y))
        ours, theirs = list(rule(x)), list(rule(y))
        if ours and ours[0].action == "once":
            if x in self.pairs or y in self.back:
                if self.pairs.get(x) is y:
                    return []
                raise _Difference(path, x, y)
            self.pairs[x], self.back[y] = y, x
            del ours[0], theirs[0]
        return _together(path, ours, theirs, free)

    def same(self, x: Any, y: Any) -> bool:
        """Whether plain data agree: of one type, floats by their bits (any NaN is another)."""
        x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
        if type(x) is not type(y):
            return False
        if isinstance(x, float):
            return float_key(x) == float_key(y) or (x != x and y != y)
        if isinstance(x, np.ndarray):
            if x.shape != y.shape or x.dtype != y.dtype:
                return False
            return not self.weights or x is y or _same_elements(x, y)
        return bool(x == y)


def _same_elements(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays of one shape and type agree, floats as `_Comparison.same` says."""
    if not dt.is_float(dt.from_numpy(x.dtype)):
        return bool(np.array_equal(x, y))
    bits = f"u{x.itemsize}"
    equal = x.view(bits) == y.view(bits)
    with np.errstate(invalid="ignore"):  # what ml_dtypes says of a signalling NaN
        return bool(equal.all() or (equal | ((x != x) & (y != y))).all())


_FIELDS = structure.dispatch(object)
_USED = definition.dispatch(object)


def _is_defined(x: object) -> bool:
    """Whether a value is a variable or buffer, whose definition stands elsewhere."""
    return definition.dispatch(type(x)) is not _USED


def _together(path: _Path, ours: Iterable[Part], theirs: Iterable[Part], free: bool) -> list[_Todo]:
    pairs = zip_longest(ours, theirs, fillvalue=_LACKING)
    return [(p.action, _Path(path, p.label or q.label), p.value, q.value, free) for p, q in pairs]


# ------------------------------------------------------------------------------------------ dialect


def structural_equal(
    lhs: object, rhs: object, map_free_vars: bool = False, *, weights: bool = True
) -> bool:
    """Whether two modules, functions, statements or expressions differ at most in names.

    map_free_vars  True: variables bound outside of both correspond by first use; False: they have
                   to be the same object
    weights        False: arrays of one shape and type are equal whatever they hold
    """
    try:
        _Comparison(weights).run(lhs, rhs, map_free_vars)
    except _Difference:
        return False
    return True


def assert_structural_equal(
    lhs: object, rhs: object, map_free_vars: bool = False, *, weights: bool = True
) -> None:
    """Raise a StructuralDifference with the path of the first difference; see structural_equal."""
    try:
        _Comparison(weights).run(lhs, rhs, map_free_vars)
    except _Difference as d:
        lines = [f"{d.path}: {_short(d.a)} != {_short(d.b)}"]
        ours, theirs = d.path.lines()
        for title, whole, part in (("first", lhs, ours), ("second", rhs, theirs)):
            text = _text(whole, {} if part is None else {part: "here"})
            lines += [f"the {title}:", *[f"  {x}".rstrip() for x in text.rstrip("\n").split("\n")]]
        raise StructuralDifference("\n".join(lines)) from None


def _text(value: object, mark: Mapping[Any, str]) -> str:
    try:
        return script(value, mark)
    except TypeError:
        return repr(value)


def _short(value: object) -> str:
    """One side of a difference in a line."""
    if _is_defined(value):
        name, dtype = getattr(value, "name", "?"), getattr(value, "dtype", "")
        return f"{name} ({type(value).__name__} of {dtype})"
    plain = isinstance(value, str | tuple | list | Mapping)
    lines = (data_text(value) if plain else _text(value, {})).strip().split("\n")
    return lines[0][:160] + (" ..." if len(lines) > 1 or len(lines[0]) > 160 else "")
