"""What graph programs consist of, for structural equality (see ir/equal.py).

Values, sizes and parameters correspond by the place where they are first met.
"""

from __future__ import annotations

from collections.abc import Iterable

from smelt.ir.equal import Part, bound, definition, parts, structure
from smelt.ir.equal import assert_structural_equal as assert_structural_equal
from smelt.ir.equal import structural_equal as structural_equal
from smelt.ir.types import FuncType, TypeVar

from .adt import Constructor, Match, PatternVar, TypeData
from .nodes import Call, Constant, Function, If, Let, MatchCast, Tuple, TupleGetItem, Var

definition.register(Var, parts("type", opens=("type",)))
definition.register(TypeVar, parts())
structure.register(FuncType, parts("type_params", "arg_types", "ret_type", binds=("type_params",)))
structure.register(Constructor, parts("name", "belong_to"))
structure.register(PatternVar, parts("var", binds=("var",)))
structure.register(Match, parts("data", "clauses", "complete", once=True))
structure.register(Call, parts("op", "args", "attrs", "type", once=True))
structure.register(Tuple, parts("items", once=True))
structure.register(TupleGetItem, parts("value", "index", once=True))
structure.register(MatchCast, parts("value", "type", opens=("type",), once=True))
structure.register(If, parts("condition", "then_branch", "else_branch", once=True))
structure.register(Let, parts("var", "value", "body", binds=("var",), once=True))
_type_data = parts("header", "type_vars", "constructors", binds=("type_vars",))
_function = parts("params", "body", "attrs", binds=("params",), opens=("body", "attrs"))
_number, _array = parts("type", "data"), parts("type", "data", once=True)


@structure.register
def _(t: TypeData) -> Iterable[Part]:
    inputs = tuple([c.inputs for c in t.constructors])
    return [*_type_data(t), Part("field", ".inputs", inputs)]


@structure.register
def _(f: Function) -> Iterable[Part]:
    return [*bound(".type_params", f.attrs.get("type_params", ())), *_function(f)]


@structure.register
def _(c: Constant) -> Iterable[Part]:
    """A number is the same wherever it stands."""
    return _array(c) if c.data.ndim else _number(c)
