"""Narrow types for machines without them: arithmetic in a wider type, storage as integers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import call
from smelt.ir.errors import CompileError
from smelt.ir.walk import rebuild_binary, refold
from smelt.tir import nodes as tir
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter
from smelt.tir.script_ops import INTRINSICS, NAMED_CALLS, expressions

from .minifloat import decoded, encoded, odd_single

BFLOAT16 = ("bfloat16",)
FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_WIDE = {
    **dict.fromkeys((*BFLOAT16, *FLOAT8, "float8_e8m0fnu", "float4_e2m1fn"), "float32"),
    **dict.fromkeys(("int4", "int2"), "int8"),
    **dict.fromkeys(("uint4", "uint2"), "uint8"),
}
"""What code generators do not know, and what it is computed with."""
_MOVES = ("if_then_else", "reinterpret", "likely")
_COUNTS = ("popcount", "clz")


# ---------------------------------------------------------------------------------- arithmetic


class _Compute(Rewriter):
    """Computes with wide values; every result is rounded to its own type as before."""

    def __init__(self, wide: Mapping[str, str]) -> None:
        super().__init__()
        self.wide = wide

    def is_narrow(self, e: expr.Expr) -> bool:
        return dt.scalar(e.dtype) in self.wide

    def widened(self, e: expr.Expr) -> expr.Expr:
        """A narrow value in the wide type, exactly; any other as it is."""
        if not self.is_narrow(e):
            return e
        wide = self.wide[dt.scalar(e.dtype)]
        if isinstance(e, expr.FloatImm):
            return expr.const(float(np.array(e.value, dt.to_numpy(e.type))), wide)
        return expr.const(e.value, wide) if isinstance(e, expr.IntImm) else expr.cast(wide, e)

    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        new = super().visit_expr(e)
        match new:
            case expr.Binary(a, b) if self.is_narrow(a):
                made = rebuild_binary(type(new), self.widened(a), self.widened(b))
                return (
                    made if isinstance(new, expr.Compare) else expr.cast(dt.scalar(a.dtype), made)
                )
            case expr.Call(kind, op, args) if op in INTRINSICS and op not in _MOVES:
                if not any(self.is_narrow(a) for a in args):
                    return new
                operands = tuple([self.widened(a) for a in args])
                if op in _COUNTS and dt.is_int(args[0].dtype):
                    return self.counted(kind, op, args[0].dtype, operands[0])
                if dt.scalar(kind) not in self.wide:
                    return expr.Call(kind, op, operands)
                wide = dt.vector(self.wide[dt.scalar(kind)], dt.lanes(kind))
                return expr.cast(dt.scalar(kind), expr.Call(wide, op, operands))
            case expr.Cast(kind, value) if (
                self.is_narrow(value) and dt.scalar(kind) != self.wide[dt.scalar(value.dtype)]
            ):
                return expr.cast(dt.scalar(kind), self.widened(value))
        return new

    def counted(self, kind: str, op: str, source: str, wide: expr.Expr) -> expr.Expr:
        """A count of the bits that an integer narrower than a byte has."""
        mask = (1 << dt.width(source)) - 1
        own = call("bitwise_and", expr.cast("uint8", wide), expr.const(mask, "uint8"))
        count = expr.Call(dt.vector("int32", dt.lanes(source)), op, (own,))
        return expr.cast(
            dt.scalar(kind), count if op == "popcount" else count - 8 + dt.width(source)
        )


class _Once(Rewriter):
    """Rounds a float64 to float16 once, by way of float32, from which processors convert."""

    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        new = super().visit_expr(e)
        match new:
            case expr.Cast(kind, value) if (
                dt.scalar(kind) == "float16" and dt.scalar(value.dtype) == "float64"
            ):
                return expr.cast("float16", odd_single(value))
        return new


def legalize_compute(func: tir.PrimFunc, wide: Mapping[str, str]) -> tir.PrimFunc:
    """Arithmetic on narrow types as arithmetic in wider ones, rounded after every operation.

    wide  by narrow type the one to compute with

    Rounding a sum, product or quotient twice gives what rounding it once does, since the wide type
    has more than twice the digits. What only moves values is left alone.
    """
    return _Compute(wide).program(func)


# ------------------------------------------------------------------------------------- storage


class _Storage(Rewriter):
    """Keeps narrow types as integers of their bits.

    What is rounded gets a name in front of its statement, since its bits are looked at more than
    once.
    """

    def __init__(self, narrow: tuple[str, ...], who: str) -> None:
        super().__init__()
        self.narrow, self.who = narrow, who
        self.vars: dict[expr.Var, expr.Var] = {}
        self.lets: list[tuple[expr.Var, expr.Expr]] | None = None

    def kept(self, dtype: str) -> str:
        """The type that stands for one, with its lanes."""
        if dt.scalar(dtype) not in self.narrow:
            return dtype
        return dt.vector(f"uint{dt.bits(dtype)}", dt.lanes(dtype))

    def other_buffer(self, b: tir.Buffer) -> tir.Buffer:
        return b.replace(type=self.kept(b.type)) if b.type in self.narrow else b

    def var(self, v: expr.Var) -> expr.Var:
        """What stands for a variable from here on."""
        new = v if dt.scalar(v.type) not in self.narrow else expr.Var(v.name, self.kept(v.type))
        self.vars[v] = new
        return new

    def visit_AllocateConst(self, s: tir.AllocateConst) -> tir.Stmt:
        bits = s.data.view(dt.to_numpy(self.kept(s.buffer.type)))
        return super().visit_AllocateConst(s.replace(data=bits))

    # --------------------------------------------------------------------------- expressions

    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        match e:
            case expr.Var():
                return self.vars.get(e, e)
            case expr.FloatImm(kind, value) | expr.IntImm(kind, value) if kind in self.narrow:
                bits = np.array(value, dt.to_numpy(kind)).view(f"uint{dt.bits(kind)}")
                return expr.IntImm(self.kept(kind), int(bits))
            case expr.Cast(kind, value):
                return self.conversion(dt.scalar(kind), dt.scalar(value.dtype), value)
            case expr.Call(kind, "if_then_else", (c, a, b)):
                test = self.expr(c)
                outer, self.lets = self.lets, None  # a value that nobody asks for has no name
                yes, no = self.expr(a), self.expr(b)
                self.lets = outer
                return refold(expr.Call(self.kept(kind), "if_then_else", (test, yes, no)))
            case expr.Call(kind, op, args) if op in _MOVES:
                moved = tuple([self.expr(a) for a in args])
                if op == "reinterpret" and self.kept(kind) == moved[0].dtype:
                    return moved[0]
                return expr.Call(self.kept(kind), op, moved)
            case expr.Call(kind, op, args) if op in NAMED_CALLS:
                given = [_as(a.dtype, self.expr(a)) for a in args]
                return _as(self.kept(kind), expr.Call(kind, op, tuple(given)))
            case tir.BufferLoad() | expr.Select():
                return super().visit_expr(e)
        for part in () if _carries(e) else e.children():
            if isinstance(part, expr.Expr) and dt.scalar(part.dtype) in self.narrow:
                raise CompileError(
                    f"{self.who}: {script(e).strip()} computes with values of {part.dtype}; "
                    f"{self.who.replace('Storage', 'Compute')} comes first"
                )
        return super().visit_expr(e)

    def conversion(self, target: str, source: str, value: expr.Expr) -> expr.Expr:
        """A cast, of which either side may be a narrow float."""
        e = self.expr(value)
        if source in self.narrow:
            e = decoded(e, source)
        if target not in self.narrow:
            return expr.cast(target, e)
        if dt.is_int(target):
            return encoded(expr.cast("int32", e) if dt.is_float(e.dtype) else e, target)
        exact = dt.bits(target) == 16 and dt.bits(e.dtype) >= 32 and dt.scalar(e.dtype) != "float32"
        e = odd_single(expr.cast("float64", e)) if exact else expr.cast("float32", e)
        if self.lets is not None and not isinstance(e, expr.Var):
            name = expr.Var("rounded", e.dtype)
            self.lets.append((name, e))
            e = name
        return encoded(e, target)

    # ---------------------------------------------------------------------------- statements

    def stmt(self, s: tir.Stmt) -> tir.Stmt:
        """A statement, behind the names that its own expressions need."""
        outer, memo = self.lets, self.memo
        self.lets, self.memo = (None if isinstance(s, tir.While | tir.BlockRealize) else []), {}
        made = super().stmt(s)
        made = tir.lets(self.lets or (), made)
        self.lets, self.memo = outer, memo
        return made

    def visit_LetStmt(self, s: tir.LetStmt) -> tir.Stmt:
        value = self.expr(s.value)
        return tir.LetStmt(self.var(s.var), value, self.stmt(s.body))


def _as(dtype: str, e: expr.Expr) -> expr.Expr:
    """The same bits as another type: what instructions take and give keeps its own."""
    return e if e.dtype == dtype else expr.Call(dtype, "reinterpret", (e,))


def _carries(e: expr.Expr) -> bool:
    """Whether a node only moves the values of its operands."""
    return type(e).__name__ in ("Broadcast", "Shuffle", "Ramp")


def legalize_storage(func: tir.PrimFunc, narrow: tuple[str, ...], who: str) -> tir.PrimFunc:
    """Narrow types in buffers and variables as unsigned integers of as many bits.

    Parameters change their type: the caller hands over the same memory as integers.
    """
    storage = _Storage(narrow, who)
    params = [
        storage.buffer(p) if isinstance(p, tir.Buffer) else storage.var(p) for p in func.params
    ]
    return func.replace(params=tuple(params), body=storage.stmt(func.body))


# ------------------------------------------------------------------------------------- pipeline


def legalize_narrow(func: tir.PrimFunc) -> tir.PrimFunc:
    """Types that code generators do not know, as integers of their bits: those of at most 8 bits,
    bfloat16, which LLVM does not select for every number of lanes, and float16 where the target
    lacks conversions."""
    lacking = [t for t in func.attrs.get("lacks", ()) if t == "float16"]
    wide = {**_WIDE, **dict.fromkeys(lacking, "float32")}
    types = {dt.scalar(e.dtype) for e in expressions(*tir.walk(func.body))}
    func = _Once().program(func) if {"float16", "float64"} <= types else func
    if wide.keys().isdisjoint(types):
        return func
    return legalize_storage(legalize_compute(func, wide), tuple(wide), "legalize_narrow")
