"""Index arithmetic as Python text: for messages, and for maps that are written down."""

from __future__ import annotations

from smelt.ir.expr import Binary, Call, Cast, Expr, FloatImm, IntImm, Max, Min, Not, StringImm, Var
from smelt.ir.node import postorder

_ATOM = 9
_LEVEL = {"*": 5, "//": 5, "%": 5, "+": 4, "-": 4, "and": 2, "or": 1}


def text_of(e: Expr, level: int = 0) -> str:
    """The text of an expression; in parentheses where it binds less than `level`."""
    done: dict[Expr, tuple[str, int]] = {}
    for part in postorder(e):
        if isinstance(part, Expr):
            done[part] = _text(part, done)
    return _within(done[e], level)


def _within(text: tuple[str, int], level: int) -> str:
    return f"({text[0]})" if text[1] < level else text[0]


def _text(e: Expr, done: dict[Expr, tuple[str, int]]) -> tuple[str, int]:
    """The text of an expression whose operands have theirs, and how strongly it binds."""
    if isinstance(e, Var):
        return e.name, _ATOM
    if isinstance(e, IntImm):
        return str(e.value), _ATOM if e.value >= 0 else 3
    if isinstance(e, Min | Max):
        name = "min" if isinstance(e, Min) else "max"
        return f"{name}({done[e.a][0]}, {done[e.b][0]})", _ATOM
    if isinstance(e, Binary):
        own = _LEVEL.get(e.symbol, 3)
        a, b = _within(done[e.a], own + (own == 3)), _within(done[e.b], own + 1)
        return f"{a} {e.symbol} {b}", own
    if isinstance(e, Not):
        return f"not {_within(done[e.a], 3)}", 2
    if isinstance(e, FloatImm | StringImm):
        return str(e.value), _ATOM
    parts = [done[c][0] for c in e.children() if isinstance(c, Expr)]
    return f"{_name(e)}({', '.join(parts)})", _ATOM


def _name(e: Expr) -> str:
    """What stands before the operands of a call, a conversion, a load or anything else."""
    match e:
        case Call():
            return e.op
        case Cast():
            return e.type
    name = getattr(getattr(e, "buffer", None), "name", None)
    return str(name or type(e).__name__.lower())
