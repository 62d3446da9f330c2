"""What graph programs consist of, for structural equality (see ir/equal.py).

Values, sizes and parameters correspond by the place where they are first met.
"""

from __future__ import annotations

from collections.abc import Iterable

from smelt.ir.equal import Part, bind, definition, field, once, opened, structure
from smelt.ir.equal import assert_structural_equal as assert_structural_equal
from smelt.ir.equal import structural_equal as structural_equal
from smelt.ir.types import FuncType, TypeVar

from .adt import Constructor, Match, PatternVar, TypeData
from .nodes import Call, Constant, Function, If, Let, MatchCast, Tuple, TupleGetItem, Var


@definition.register
def _(v: Var) -> Iterable[Part]:
    return [opened(".type", v.type)]


@definition.register
def _(v: TypeVar) -> Iterable[Part]:
    return []


@structure.register
def _(t: FuncType) -> Iterable[Part]:
    return [
        *[bind(f".type_params[{i}]", v) for i, v in enumerate(t.type_params)],
        field(".arg_types", t.arg_types),
        field(".ret_type", t.ret_type),
    ]


@structure.register
def _(t: TypeData) -> Iterable[Part]:
    return [
        field(".header", t.header),
        *[bind(f".type_vars[{i}]", v) for i, v in enumerate(t.type_vars)],
        field(".constructors", t.constructors),
        field(".inputs", tuple([c.inputs for c in t.constructors])),
    ]


@structure.register
def _(c: Constructor) -> Iterable[Part]:
    return [field(".name", c.name), field(".belong_to", c.belong_to)]


@structure.register
def _(p: PatternVar) -> Iterable[Part]:
    return [bind(".var", p.var)]


@structure.register
def _(m: Match) -> Iterable[Part]:
    return [once(m), *[field("." + n, getattr(m, n)) for n in ("data", "clauses", "complete")]]


@structure.register
def _(f: Function) -> Iterable[Part]:
    return [
        *[bind(f".type_params[{i}]", v) for i, v in enumerate(f.attrs.get("type_params", ()))],
        field(".params.length", len(f.params)),
        *[bind(f".params[{i}]", p) for i, p in enumerate(f.params)],
        opened(".body", f.body),
        opened(".attrs", f.attrs),
    ]


@structure.register
def _(c: Constant) -> Iterable[Part]:
    parts = [field(".type", c.type), field(".data", c.data)]
    return [once(c), *parts] if c.data.ndim else parts  # a number is the same wherever it stands


@structure.register
def _(c: Call) -> Iterable[Part]:
    parts = [field("." + n, getattr(c, n)) for n in ("op", "args", "attrs", "type")]
    return [once(c), *parts]


@structure.register
def _(t: Tuple) -> Iterable[Part]:
    return [once(t), field(".items", t.items)]


@structure.register
def _(t: TupleGetItem) -> Iterable[Part]:
    return [once(t), field(".value", t.value), field(".index", t.index)]


@structure.register
def _(m: MatchCast) -> Iterable[Part]:
    return [once(m), field(".value", m.value), opened(".type", m.type)]


@structure.register
def _(v: If) -> Iterable[Part]:
    names = ("condition", "then_branch", "else_branch")
    return [once(v), *[field("." + n, getattr(v, n)) for n in names]]


@structure.register
def _(v: Let) -> Iterable[Part]:
    return [once(v), bind(".var", v.var), field(".value", v.value), field(".body", v.body)]
