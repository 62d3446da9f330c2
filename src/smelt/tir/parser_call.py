"""T.name(...) as a value: constants, conversions, operators and intrinsics by name."""

from __future__ import annotations

import ast
import functools
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import ceildiv
from smelt.ir.walk import substitute
from smelt.runtime.errors import closest

from .nodes import Buffer, BufferLoad, address_of
from .op import max_value, min_value
from .parser_source import describe
from .script_names import VALUE, Entry, Signature, entries, entry
from .script_ops import EXTERN, INTRINSICS, NAMED_CALLS, Intrinsic, fits, inferred_dtype

if TYPE_CHECKING:
    from .parser_expr import ExprParser

VALUES = entries(VALUE)
"""What T.name(...) means as a value."""

# --------------------------------------------------------------------------- operators, intrinsics


def _operator(
    cls: type[expr.Binary], p: ExprParser, node: ast.Call, a: ast.expr, b: ast.expr
) -> expr.Expr:
    """T.max(a, b), T.FloorDiv(a, b)."""
    if cls in (expr.And, expr.Or):
        return cls(p.condition(a), p.condition(b))
    return cls(*p.pair(a, b))


def _intrinsic(known: Intrinsic, p: ExprParser, node: ast.Call, *args: ast.expr) -> expr.Expr:
    """A pure intrinsic whose type follows from its operands: bare numbers take their type."""
    values = [p.value(a) for a in args]
    kinds = [v.dtype for v in values if isinstance(v, expr.Expr)]
    expected = kinds[0] if kinds else "float32" if known.operands == "float" else None
    exprs = tuple([p.as_expr(a, v, expected) for a, v in zip(args, values, strict=True)])
    for a, e in zip(args, exprs, strict=True):
        if not fits(known, e.dtype):
            what, other = (
                ("floats", "float32") if known.operands == "float" else ("integers", "int32")
            )
            p.fail(a, f"T.{known.name} takes {what}, not {e.dtype}", f'T.cast("{other}", ...)')
    kind = inferred_dtype(known.name, exprs)
    assert kind is not None
    return expr.Call(kind, known.name, exprs)


def _enter_tables() -> None:
    """Every operator and intrinsic of the tables under all of its names."""
    for o in expr.OPERATORS:
        for name in (o.name, *o.others):
            VALUES[name] = Entry(Signature(f"{name}(a, b)"), partial(_operator, o.node))
    operands = ("", "x", "x, y", "x, y, z")
    for i in INTRINSICS.values():
        if i.result != "given" and i.name != "if_then_else":
            for name in (i.name, *i.others):
                s = Signature(f"{name}({operands[i.arity]})")
                VALUES[name] = Entry(s, partial(_intrinsic, i))


_enter_tables()


@entry(VALUE, "if_then_else(condition, true_value, false_value)")
def _if_then_else(
    p: ExprParser, node: ast.Call, c: ast.expr, a: ast.expr, b: ast.expr
) -> expr.Expr:
    test = p.condition(c)
    x, y = p.pair(a, b)
    return expr.Call(x.dtype, "if_then_else", (test, x, y))


@entry(VALUE, "select(condition, a, b)", "Select(condition, a, b)")
def _select(p: ExprParser, node: ast.Call, c: ast.expr, a: ast.expr, b: ast.expr) -> expr.Expr:
    return expr.Select(p.condition(c), *p.pair(a, b))


@entry(VALUE, "Not(x)", "logical_not(x)")
def _not(p: ExprParser, node: ast.Call, x: ast.expr) -> expr.Expr:
    return expr.Not(p.condition(x))


@entry(VALUE, "all(*conditions)", "any(*conditions)")
def _quantifier(p: ExprParser, node: ast.Call, *conditions: ast.expr) -> expr.Expr:
    name = p.script_name(node.func)
    if not conditions:
        p.fail(node, f"T.{name} takes at least one condition")
    joined = expr.And if name == "all" else expr.Or
    return functools.reduce(joined, map(p.condition, conditions))


@entry(VALUE, "Range(begin, end)")
def _range(p: ExprParser, node: ast.Call, *ends: ast.expr) -> tuple[Any, ...]:
    """The domain of an axis."""
    return tuple([p.value(e) for e in ends])


@entry(VALUE, "ceildiv(a, b)")
def _ceildiv(p: ExprParser, node: ast.Call, a: ast.expr, b: ast.expr) -> expr.Expr:
    return ceildiv(*p.pair(a, b))


@entry(VALUE, "q_multiply_shift(x, y, q, s)")
def _q_multiply_shift(p: ExprParser, node: ast.Call, *args: ast.expr) -> expr.Expr:
    """The integer nearest to x * y * 2 ** (s - q), halves upward; formed in int64."""
    bits, shift = p.int_arg(args[2], 1), p.int_arg(args[3], -31)
    x, y = [expr.cast("int64", p.expr(a, "int32")) for a in args[:2]]
    scaled = x * expr.const(1 << max(shift, 0)) * y
    right = bits - min(shift, 0)
    rounded = scaled + expr.const(1 << (right - 1))
    return expr.cast("int32", expr.Call("int64", "shift_right", (rounded, expr.const(right))))


# ------------------------------------------------------------------------ constants, conversions


def typed(p: ExprParser, node: ast.Call, kind: str) -> expr.Expr:
    """T.float16(1.5), T.int32(3), T.float32("inf"); of an expression: the conversion."""
    if len(node.args) != 1 or node.keywords:
        legal = f"T.{kind}(value); n = T.{kind}() declares a size"
        p.fail(node, f"T.{kind} takes one operand", legal)
    value = p.value(node.args[0])
    if isinstance(value, expr.Expr):
        return expr.Cast(kind, value)
    if isinstance(value, str) and dt.is_float(kind):
        return _special(p, node.args[0], kind, value)
    e = p.as_expr(node.args[0], value, dt.scalar(kind))
    if e.dtype != dt.scalar(kind) or isinstance(e, expr.StringImm):
        p.fail(node.args[0], f"expected a number, got {describe(value)}")
    return e if dt.lanes(kind) == 1 else expr.Broadcast(e, dt.lanes(kind))


def _special(p: ExprParser, node: ast.expr, kind: str, text: str) -> expr.Expr:
    """Infinities, and NaNs with their bits."""
    try:
        if text.startswith("nan:"):
            return expr.FloatImm(kind, struct.unpack("<d", bytes.fromhex(text[4:]))[0])
        return expr.FloatImm(kind, float(text))
    except (ValueError, struct.error):
        p.fail(node, f"{text!r} is no number", '"inf", "-inf", "nan"')


@entry(VALUE, "FloatImm(dtype, value)", "IntImm(dtype, value)")
def _constant(p: ExprParser, node: ast.Call, dtype: ast.expr, value: ast.expr) -> expr.Expr:
    """T.FloatImm("float32", 0.1): a double that is not rounded."""
    kind, number = p.dtype_arg(dtype), p.value(value)
    floating = p.script_name(node.func) == "FloatImm"
    if not isinstance(number, int | float) or floating != dt.is_float(kind):
        p.fail(node, f"{describe(number)} is no constant of {kind}")
    return expr.FloatImm(kind, float(number)) if floating else p.number(value, number, kind)


@entry(VALUE, "infinity(dtype)", "inf(dtype)", "nan(dtype)")
def _not_finite(p: ExprParser, node: ast.Call, dtype: ast.expr) -> expr.Expr:
    kind = p.dtype_arg(dtype)
    if not dt.is_float(kind):
        p.fail(dtype, f"{kind} has no infinities", "an element type of floats")
    return expr.FloatImm(kind, float(p.script_name(node.func) or ""))


@entry(VALUE, "max_value(dtype)", "min_value(dtype)")
def _extreme(p: ExprParser, node: ast.Call, dtype: ast.expr) -> expr.Expr:
    kind = p.dtype_arg(dtype)
    return max_value(kind) if p.script_name(node.func) == "max_value" else min_value(kind)


@entry(VALUE, "undef(dtype)")
def _undef(p: ExprParser, node: ast.Call, dtype: ast.expr) -> expr.Expr:
    """A value that does not matter: 0."""
    return expr.const(0, p.dtype_arg(dtype))


@entry(VALUE, "assume(condition)")
def _assume(p: ExprParser, node: ast.Call, condition: ast.expr) -> expr.Expr:
    """T.evaluate(T.assume(n > 0)): the program says so, and nothing checks it."""
    return expr.Call("bool", "assume", (p.condition(condition),))


@entry(VALUE, "cast(dtype, value)", "Cast(dtype, value)")
def _cast(p: ExprParser, node: ast.Call, dtype: ast.expr, value: ast.expr) -> expr.Expr:
    """A conversion; its operands may stand in the other order too."""
    if isinstance(p.value(dtype), expr.Expr):
        dtype, value = value, dtype
    kind, e = p.dtype_arg(dtype), p.expr(value)
    return expr.Cast(dt.vector(kind, dt.lanes(e.dtype)) if dt.lanes(kind) == 1 else kind, e)


@entry(VALUE, "reinterpret(dtype, value)")
def _reinterpret(p: ExprParser, node: ast.Call, dtype: ast.expr, value: ast.expr) -> expr.Expr:
    return expr.Call(p.dtype_arg(dtype), "reinterpret", (p.expr(value),))


# -------------------------------------------------------------------------------------- vectors


@entry(VALUE, "ramp(base, stride, lanes)", "Ramp(base, stride, lanes)")
def _ramp(
    p: ExprParser, node: ast.Call, base: ast.expr, step: ast.expr, lanes: ast.expr
) -> expr.Expr:
    return expr.Ramp(*p.pair(base, step), p.int_arg(lanes, 1))


@entry(VALUE, "broadcast(value, lanes)", "Broadcast(value, lanes)")
def _broadcast(p: ExprParser, node: ast.Call, value: ast.expr, lanes: ast.expr) -> expr.Expr:
    return expr.Broadcast(p.expr(value), p.int_arg(lanes, 1))


@entry(VALUE, "shuffle(a, b, lanes)")
def _shuffle(p: ExprParser, node: ast.Call, a: ast.expr, b: ast.expr, lanes: ast.expr) -> expr.Expr:
    x, y = p.expr(a), p.expr(b)
    return expr.Shuffle(x, y, _picked(p, lanes, x, y))


@entry(VALUE, "Shuffle(vectors, lanes)")
def _shuffle_list(p: ExprParser, node: ast.Call, vectors: ast.expr, lanes: ast.expr) -> expr.Expr:
    given = p.value(vectors)
    if not isinstance(given, tuple | list) or len(given) not in (1, 2):
        p.fail(vectors, "T.Shuffle picks from one or two vectors", "[a], [a, b]")
    exprs = [p.as_expr(vectors, v) for v in given]
    return expr.Shuffle(exprs[0], exprs[-1], _picked(p, lanes, *exprs))


def _picked(p: ExprParser, lanes: ast.expr, *vectors: expr.Expr) -> tuple[int, ...]:
    """Numbers of lanes of vectors laid end to end."""
    given = p.value(lanes)
    items = given if isinstance(given, tuple | list) else ()
    picked = tuple([i.value if isinstance(i, expr.IntImm) else i for i in items])
    total = sum([dt.lanes(v.dtype) for v in vectors])
    if not picked or not all(type(i) is int and 0 <= i < total for i in picked):
        got = f"expected the numbers of lanes, got {describe(given)}"
        p.fail(lanes, got, f"a tuple of numbers from 0 to {total - 1}")
    return picked


@entry(VALUE, "BufferLoad(buffer, indices)")
def _buffer_load(p: ExprParser, node: ast.Call, buffer: ast.expr, indices: ast.expr) -> expr.Expr:
    base, items = p.value(buffer), p.value(indices)
    if not isinstance(base, Buffer) or not isinstance(items, tuple | list):
        p.fail(node, "expected a buffer and a list of indices", "A[i, j]")
    if len(items) != base.rank:
        p.fail(node, f"{base.name} has {base.rank} dimensions, {len(items)} indices given")
    return BufferLoad(base, tuple([p.as_expr(indices, i) for i in items]))


# ---------------------------------------------------------------------------------------- calls


@entry(VALUE, "call(dtype, op, *operands)")
def _call(
    p: ExprParser, node: ast.Call, dtype: ast.expr, op: ast.expr, *args: ast.expr
) -> expr.Expr:
    """T.call("float32", "name", ...): any intrinsic."""
    return expr.Call(p.dtype_arg(dtype), p.text_arg(op), tuple([p.expr(a) for a in args]))


@entry(VALUE, "call_intrin(dtype, op, *operands)")
def _call_intrin(
    p: ExprParser, node: ast.Call, dtype: ast.expr, op: ast.expr, *args: ast.expr
) -> expr.Expr:
    """T.call_intrin("float32", "tir.exp", x): an intrinsic of the table, with its type."""
    kind, name = p.dtype_arg(dtype), p.text_arg(op).removeprefix("tir.")
    if name not in INTRINSICS:
        near = closest(name, INTRINSICS) or sorted(INTRINSICS)
        p.fail(op, f"there is no intrinsic {name!r}", ", ".join([f'"tir.{n}"' for n in near]))
    count = INTRINSICS[name].arity
    if len(args) != count:
        p.fail(node, f"{name} takes {count} operands, {len(args)} given")
    return expr.Call(kind, name, tuple([p.expr(a) for a in args]))


@entry(VALUE, *[f"{op}(dtype, name, *operands)" for op in NAMED_CALLS])
def _named_call(
    p: ExprParser, node: ast.Call, dtype: ast.expr, name: ast.expr, *args: ast.expr
) -> expr.Expr:
    """T.call_llvm_pure_intrin("float32x4", "llvm.fma.v4f32", a, b, c) and the like."""
    op, which = p.script_name(node.func) or "", expr.StringImm(p.text_arg(name))
    return expr.Call(p.dtype_arg(dtype), op, (which, *[p.expr(a) for a in args]))


@entry(VALUE, "address_of(element)")
def _address_of(p: ExprParser, node: ast.Call, element: ast.expr) -> expr.Expr:
    """T.address_of(A[i, 0]): where an element is, for functions that take pointers."""
    place = p.value(element)
    if not isinstance(place, BufferLoad):
        p.fail(element, f"expected an element of a buffer, got {describe(place)}", "A[i, 0]")
    return address_of(place)


@entry(VALUE, "call_extern(dtype, name, *operands)")
def _call_extern(
    p: ExprParser, node: ast.Call, dtype: ast.expr, name: ast.expr, *args: ast.expr
) -> expr.Expr:
    """T.call_extern("int32", "scale_row", T.address_of(A[i, 0]), 2.0, n): a declared function."""
    if p.dtype_arg(dtype) != "int32":
        p.fail(dtype, "an external function returns a status", '"int32"')
    return expr.Call("int32", EXTERN, (expr.StringImm(p.text_arg(name)), *map(p.expr, args)))


@entry(VALUE, "tvm_storage_sync(scope)")
def _storage_sync(p: ExprParser, node: ast.Call, scope: ast.expr) -> expr.Expr:
    return expr.Call("int32", "smelt.storage_sync", (expr.StringImm(p.text_arg(scope)),))


@entry(VALUE, "Let(body, where)")
def _let(p: ExprParser, node: ast.Call, body: ast.expr, where: ast.expr) -> expr.Expr:
    """T.Let(x + x, where={x: value}): the body with values in the variables' places."""
    legal = "T.Let(x + x, where={x: value}), where x = T.int32() stands before"
    if not isinstance(where, ast.Dict):
        p.fail(where, "expected the variables' values", legal)
    values: dict[expr.Var, expr.Expr] = {}
    for k, v in zip(where.keys, where.values, strict=True):
        var = None if k is None else p.value(k)
        if not isinstance(var, expr.Var):
            p.fail(k or where, f"expected a variable, got {describe(var)}", legal)
        values[var] = p.expr(v, var.type)
    return substitute(p.expr(body), values)
