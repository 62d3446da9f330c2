"""Narrow floats for machines without them: arithmetic in a wider type, storage as integers.

bfloat16: 1 sign, 8 exponent, 7 fraction bits: the upper half of a float32.
float8_e5m2: 1, 5, 2: the upper half of a float16. float8_e4m3fn: 1, 4, 3, no infinity; its
largest value is 448 and only two patterns are NaN.
Source of the 8-bit formats: Micikevicius et al., FP8 Formats for Deep Learning (2022).
"""

from __future__ import annotations

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import call, select
from smelt.ir.errors import CompileError
from smelt.ir.expr import (
    Binary,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Select,
    Var,
    cast,
    const,
)
from smelt.ir.walk import rebuild_binary, refold
from smelt.tir.nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    LetStmt,
    PrimFunc,
    Stmt,
    While,
)
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter
from smelt.tir.script_ops import INTRINSICS

__all__ = ["BFLOAT16", "FLOAT8", "legalize_compute", "legalize_storage"]

BFLOAT16 = ("bfloat16",)
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_MOVES = ("if_then_else", "reinterpret", "likely")


# ---------------------------------------------------------------------------------- arithmetic


class _Compute(Rewriter):
    """Computes with wide values; every result is rounded to its own type as before."""

    def __init__(self, narrow: tuple[str, ...], wide: str) -> None:
        super().__init__()
        self.narrow, self.wide = narrow, wide

    def is_narrow(self, e: Expr) -> bool:
        return dt.scalar(e.dtype) in self.narrow

    def widened(self, e: Expr) -> Expr:
        """A narrow value in the wide type, exactly; any other as it is."""
        if not self.is_narrow(e):
            return e
        if isinstance(e, FloatImm):
            return const(float(np.array(e.value, dt.to_numpy(e.type))), self.wide)
        return cast(self.wide, e)

    def visit_expr(self, e: Expr) -> Expr:
        new = super().visit_expr(e)
        match new:
            case Binary(a, b) if self.is_narrow(a):
                made = rebuild_binary(type(new), self.widened(a), self.widened(b))
                return made if isinstance(new, Compare) else cast(dt.scalar(a.dtype), made)
            case Call(kind, op, args) if op in INTRINSICS and op not in _MOVES:
                if not any(self.is_narrow(a) for a in args):
                    return new
                operands = tuple([self.widened(a) for a in args])
                if dt.scalar(kind) not in self.narrow:
                    return Call(kind, op, operands)
                wide = dt.vector(self.wide, dt.lanes(kind))
                return cast(dt.scalar(kind), Call(wide, op, operands))
            case Cast(kind, value) if self.is_narrow(value) and dt.scalar(kind) != self.wide:
                return cast(dt.scalar(kind), self.widened(value))
        return new


def legalize_compute(func: PrimFunc, narrow: tuple[str, ...], wide: str) -> PrimFunc:
    """Arithmetic on narrow floats as arithmetic in a wider type, rounded after every operation.

    Rounding a sum, product or quotient twice gives what rounding it once does, since the wide type
    has more than twice the digits. What only moves values is left alone.
    """
    body = _Compute(narrow, wide).stmt(func.body)
    return func if body is func.body else func.replace(body=body)


# ------------------------------------------------------------------------------------- storage


class _Storage(Rewriter):
    """Keeps narrow floats as integers of their bits.

    What is rounded gets a name in front of its statement, since its bits are looked at more than
    once.
    """

    def __init__(self, narrow: tuple[str, ...], who: str) -> None:
        super().__init__()
        self.narrow, self.who = narrow, who
        self.buffers: dict[Buffer, Buffer] = {}
        self.vars: dict[Var, Var] = {}
        self.lets: list[tuple[Var, Expr]] | None = None

    def kept(self, dtype: str) -> str:
        """The type that stands for one, with its lanes."""
        if dt.scalar(dtype) not in self.narrow:
            return dtype
        return dt.vector(f"uint{dt.bits(dtype)}", dt.lanes(dtype))

    def buffer(self, b: Buffer) -> Buffer:
        if b.type not in self.narrow:
            return b
        if b not in self.buffers:
            self.buffers[b] = b.replace(type=self.kept(b.type))
        return self.buffers[b]

    def var(self, v: Var) -> Var:
        """What stands for a variable from here on."""
        new = v if dt.scalar(v.type) not in self.narrow else Var(v.name, self.kept(v.type))
        self.vars[v] = new
        return new

    # --------------------------------------------------------------------------- expressions

    def visit_expr(self, e: Expr) -> Expr:
        match e:
            case Var():
                return self.vars.get(e, e)
            case FloatImm(kind, value) if kind in self.narrow:
                bits = np.array(value, dt.to_numpy(kind)).view(f"uint{dt.bits(kind)}")
                return IntImm(self.kept(kind), int(bits))
            case Cast(kind, value):
                return self.conversion(dt.scalar(kind), dt.scalar(value.dtype), value)
            case Call(kind, "if_then_else", (c, a, b)):
                test = self.expr(c)
                outer, self.lets = self.lets, None  # a value that nobody asks for has no name
                yes, no = self.expr(a), self.expr(b)
                self.lets = outer
                return refold(Call(self.kept(kind), "if_then_else", (test, yes, no)))
            case Call(kind, op, args) if op in _MOVES:
                moved = tuple([self.expr(a) for a in args])
                if op == "reinterpret" and self.kept(kind) == moved[0].dtype:
                    return moved[0]
                return Call(self.kept(kind), op, moved)
            case BufferLoad() | Select():
                return super().visit_expr(e)
        for part in () if _carries(e) else e.children():
            if isinstance(part, Expr) and dt.scalar(part.dtype) in self.narrow:
                raise CompileError(
                    f"{self.who}: {script(e).strip()} computes with values of {part.dtype}; "
                    f"{self.who.replace('Storage', 'Compute')} comes first"
                )
        return super().visit_expr(e)

    def conversion(self, target: str, source: str, value: Expr) -> Expr:
        """A cast, of which either side may be a narrow float."""
        e = self.expr(value)
        if source in self.narrow:
            e = _decoded(e, source)
        if target not in self.narrow:
            return cast(target, e)
        e = cast("float32", e)
        if self.lets is not None and not isinstance(e, Var):
            name = Var("rounded", e.dtype)
            self.lets.append((name, e))
            e = name
        return _encoded(e, target)

    # ---------------------------------------------------------------------------- statements

    def stmt(self, s: Stmt) -> Stmt:
        """A statement, behind the names that its own expressions need."""
        outer, memo = self.lets, self.memo
        self.lets, self.memo = (None if isinstance(s, While | BlockRealize) else []), {}
        made = super().stmt(s)
        for name, value in reversed(self.lets or []):
            made = LetStmt(name, value, made)
        self.lets, self.memo = outer, memo
        return made

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        value = self.expr(s.value)
        return LetStmt(self.var(s.var), value, self.stmt(s.body))

    def visit_Allocate(self, s: Allocate) -> Stmt:
        return Allocate(self.buffer(s.buffer), self.stmt(s.body), s.annotations)

    def visit_Block(self, s: Block) -> Stmt:
        new = super().visit_Block(s)
        assert isinstance(new, Block)
        return new.replace(alloc_buffers=tuple([self.buffer(b) for b in s.alloc_buffers]))


def _carries(e: Expr) -> bool:
    """Whether a node only moves the values of its operands."""
    return type(e).__name__ in ("Broadcast", "Shuffle", "Ramp")


def legalize_storage(func: PrimFunc, narrow: tuple[str, ...], who: str) -> PrimFunc:
    """Narrow floats in buffers and variables as unsigned integers of as many bits.

    Parameters change their type: the caller hands over the same memory as integers.
    """
    storage = _Storage(narrow, who)
    params: list[Buffer | Var] = []
    for p in func.params:
        if isinstance(p, Buffer):
            params.append(storage.buffer(p))
        else:
            params.append(storage.var(p))
    return func.replace(params=tuple(params), body=storage.stmt(func.body))


# -------------------------------------------------------------------------------- conversions


def _as(e: Expr, dtype: str) -> Expr:
    return Call(dt.vector(dtype, dt.lanes(e.dtype)), "reinterpret", (e,))


def _shifted(e: Expr, bits: int, left: bool = False) -> Expr:
    lanes = dt.lanes(e.dtype)
    return call("shift_left" if left else "shift_right", e, const(bits, dt.vector(e.dtype, lanes)))


def _masked(e: Expr, mask: int) -> Expr:
    return call("bitwise_and", e, const(mask, e.dtype))


def _decoded(bits: Expr, kind: str) -> Expr:
    """The float32 that a pattern stands for."""
    if kind == "bfloat16":
        return _as(_shifted(cast("uint32", bits), 16, left=True), "float32")
    word = cast("uint16", bits)
    if kind == "float8_e5m2":
        return cast("float32", _as(_shifted(word, 8, left=True), "float16"))
    sign, rest = _shifted(_masked(word, 0x80), 8, left=True), _masked(word, 0x7F)
    small = _as(call("bitwise_or", sign, _shifted(rest, 7, left=True)), "float16")
    value = cast("float32", small) * const(256.0, dt.vector("float32", dt.lanes(bits.dtype)))
    nan = const(float("nan"), value.dtype)
    return select(rest >= const(0x7F, rest.dtype), nan, value)


def _encoded(e: Expr, kind: str) -> Expr:
    """The pattern of a float32 rounded to nearest, ties to even."""
    bits = _as(e, "uint32")
    if kind == "bfloat16":
        odd = _masked(_shifted(bits, 16), 1)
        rounded = _shifted(bits + const(0x7FFF, bits.dtype) + odd, 16)
        nan = call("bitwise_or", _shifted(_masked(bits, 0x80000000), 16), const(0x7FC0, bits.dtype))
        isnan = Call(dt.vector("bool", dt.lanes(e.dtype)), "isnan", (e,))
        return cast("uint16", select(isnan, nan, rounded))
    return _encoded8(e, bits, kind)


def _encoded8(e: Expr, bits: Expr, kind: str) -> Expr:
    """The pattern of an 8-bit float: the value rounded to a multiple of its last digit's value,
    which a float16 of the format's exponents then holds exactly."""
    fraction, lowest, most, over = (2, -14, 57344.0, 61440.0)
    if kind == "float8_e4m3fn":
        fraction, lowest, most, over = (3, -6, 448.0, 464.0)
    lanes = dt.lanes(e.dtype)

    def single(x: float) -> Expr:
        return const(x, dt.vector("float32", lanes))

    sign = _shifted(_masked(bits, 0x80000000), 24)
    size = Call(e.dtype, "abs", (e,))
    power = _as(_masked(bits, 0x7F800000), "float32")  # the power of two below
    least = single(2.0**lowest)
    step = select(power > least, power, least) * single(2.0**-fraction)
    rounded = Call(e.dtype, "round", (size / step,)) * step
    inside = select(rounded < single(most), rounded, single(most))
    if kind == "float8_e4m3fn":
        low = _shifted(_as(cast("float16", inside * single(2.0**-8)), "uint16"), 7)
        beyond, nan = 0x7F, 0x7F
        too_large = size > single(over)  # half way to 480 goes to the even 448
    else:
        low = _shifted(_as(cast("float16", inside), "uint16"), 8)
        beyond, nan = 0x7C, 0x7E
        too_large = size >= single(over)
    low = cast("uint32", low)
    low = select(too_large, const(beyond, low.dtype), low)
    isnan = Call(dt.vector("bool", lanes), "isnan", (e,))
    low = select(isnan, const(nan, low.dtype), low)
    return cast("uint8", call("bitwise_or", low, sign))
