"""Indices in 32 bits: where it is proved that they fit, or everywhere where the user says so."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.errors import CompileError
from smelt.ir.walk import rebuild_binary, refold
from smelt.tir import nodes as tir
from smelt.tir.printer import script
from smelt.tir.rewrite import N
from smelt.tir.script_ops import shape_vars

from .ranges import RangeRewriter, analyzer_for
from .safe import require_flat

NARROW = "int32"
LOW, HIGH = -(1 << 31), (1 << 31) - 1
_KEPT = ("int8", "int16", "int32", "uint8", "uint16", "bool")  # their values are int32s, too
_ARITHMETIC = tuple([o.node for o in expr.OPERATORS if o.level >= expr.SUM and o.fold])


class _Narrow(RangeRewriter):
    """Loop variables, indices and comparisons in 32 bits, where every part of them fits."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.vars: dict[expr.Var, expr.Var] = {}
        self.found: dict[expr.Expr, expr.Expr | None] = {}

    # --------------------------------------------------------------------------- expressions

    def fits(self, e: expr.Expr) -> bool:
        """Whether a 64-bit integer certainly has 32 bits."""
        low, high = self.analyzer.bounds(e)
        return low is not None and high is not None and low >= LOW and high <= HIGH

    def narrow(self, e: expr.Expr) -> expr.Expr | None:
        """An integer in 32 bits; None where it, or a part of it, might not fit."""
        if e not in self.found:
            self.found[e] = self.narrowed(e)
        return self.found[e]

    def narrowed(self, e: expr.Expr) -> expr.Expr | None:
        """`narrow` of an expression that is met for the first time."""
        match e:
            case _ if dt.scalar(e.dtype) == NARROW:
                return self.expr(e)
            case expr.IntImm(_, value):
                return expr.IntImm(NARROW, value) if self.fits(e) else None
            case expr.Var():
                return self.vars.get(e)
            case expr.Cast(_, value) if dt.scalar(value.dtype) in _KEPT:
                return expr.cast(NARROW, self.expr(value))
            case expr.Broadcast(value, lanes):
                one = self.narrow(value)
                return None if one is None else expr.Broadcast(one, lanes)
            case expr.Ramp(base, stride, lanes):
                low, step = self.narrow(base), self.narrow(stride)
                if low is None or step is None or not self.fits(base + stride * (lanes - 1)):
                    return None
                return expr.Ramp(low, step, lanes)
            case expr.Select(c, a, b) | expr.Call(_, "if_then_else", (c, a, b)):
                yes, no = self.narrow(a), self.narrow(b)
                if yes is None or no is None:
                    return None
                if isinstance(e, expr.Select):
                    return refold(expr.Select(self.expr(c), yes, no))
                return refold(expr.Call(yes.dtype, "if_then_else", (self.expr(c), yes, no)))
            case expr.Binary(a, b) if isinstance(e, _ARITHMETIC) and self.fits(e):
                x, y = self.narrow(a), self.narrow(b)
                return None if x is None or y is None else rebuild_binary(type(e), x, y)
        return None

    def index(self, e: expr.Expr) -> expr.Expr:
        """An index, in 32 bits where it fits."""
        made = self.narrow(e)
        return self.expr(e) if made is None else made

    def indices(self, items: tuple[expr.Expr, ...]) -> tuple[expr.Expr, ...]:
        """Several."""
        return tuple([self.index(e) for e in items])

    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        if isinstance(e, tir.BufferLoad):
            return tir.BufferLoad(self.buffer(e.buffer), self.indices(e.indices))
        if isinstance(e, expr.Compare) and e.a.dtype == expr.INDEX:
            a, b = self.narrow(e.a), self.narrow(e.b)
            if a is not None and b is not None:
                return rebuild_binary(type(e), a, b)
        return super().visit_expr(e)

    # ---------------------------------------------------------------------------- statements

    def bind(self, v: expr.Var) -> expr.Var:
        """The variable that stands for one from here on."""
        new = self.vars[v] = expr.Var(v.name, NARROW)
        self.memo[v] = expr.Cast(v.type, new)
        return new

    def loop(self, s: tir.For) -> tir.Stmt:
        low, extent = self.narrow(s.min), self.narrow(s.extent)
        fits = s.var.type == expr.INDEX and self.fits(s.var) and self.fits(s.min + s.extent)
        if low is None or extent is None or not fits:
            return super().loop(s)
        return s.replace(var=self.bind(s.var), min=low, extent=extent, body=self.stmt(s.body))

    def visit_BufferStore(self, s: tir.BufferStore) -> tir.Stmt:
        return tir.BufferStore(self.buffer(s.buffer), self.expr(s.value), self.indices(s.indices))


def narrow_indices(func: tir.PrimFunc, bits: int) -> tir.PrimFunc:
    """Loops and indices that certainly fit compute in `bits` bits: 32, or 64 as before.

    A size that is known at run time only has 64 bits, and so has what depends on it.
    """
    require_flat(func, "NarrowDataType")
    if bits not in (32, 64):
        raise CompileError(f"NarrowDataType: target_bits is {bits!r}; legal: 32 or 64")
    return func if bits == 64 else func.replace(body=_Narrow(analyzer_for(func)).stmt(func.body))


# ---------------------------------------------------------------------------------- by force


class _Force(_Narrow):
    """All indices in 32 bits, blocks and parameters included; what certainly does not fit is
    refused."""

    def __init__(self, func: tir.PrimFunc) -> None:
        super().__init__(analyzer_for(func))
        self.name = func.name

    def fits(self, e: expr.Expr) -> bool:
        low, high = self.analyzer.bounds(e)
        if (low is not None and low > HIGH) or (high is not None and high < LOW):
            raise CompileError(
                f"ForceNarrowIndexToInt32: {script(e).strip()} in {self.name} does not fit in 32 "
                f"bits: it is {'at least' if high != low else 'always'} {low if low else high}"
            )
        return True

    def narrowed(self, e: expr.Expr) -> expr.Expr:
        made = super().narrowed(e)
        return expr.cast(NARROW, self.expr(e)) if made is None else made

    def scalar(self, v: expr.Var) -> expr.Var:
        """A parameter or a size."""
        return self.bind(v) if v.type == expr.INDEX else v

    def other_buffer(self, b: tir.Buffer) -> tir.Buffer:
        return b.replace(shape=self.indices(b.shape), strides=self.indices(b.strides))

    def visit_BlockRealize(self, s: tir.BlockRealize) -> tir.Stmt:
        values = self.indices(s.values)
        predicate, block = self.expr(s.predicate), self.stmt(s.block)
        assert isinstance(block, tir.Block)
        return tir.BlockRealize(values, predicate, block)

    def iter_var(self, i: tir.IterVar) -> tir.IterVar:
        self.analyzer.bind(i.var, i.dom.min, i.dom.extent)
        return i.replace(dom=self.parts(i.dom), var=self.scalar(i.var))

    def parts(self, s: N) -> N:
        """The ends of the intervals of block variables and regions are indices."""
        return s.with_children(self.index) if isinstance(s, tir.Range) else super().parts(s)


def force_int32_indices(func: tir.PrimFunc) -> tir.PrimFunc:
    """All loops, indices, extents and sizes in 32 bits, which the caller promises to be enough.

    Elements of 64 bits stay what they are; scalar parameters become 32-bit ones.
    """
    force = _Force(func)
    for v in shape_vars(func.params):
        force.scalar(v)
    scalars = {p: force.scalar(p) for p in func.params if isinstance(p, expr.Var)}
    params = tuple(
        [force.buffer(p) if isinstance(p, tir.Buffer) else scalars[p] for p in func.params]
    )
    return func.replace(params=params, body=force.stmt(func.body))
