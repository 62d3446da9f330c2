"""Vectorised loops become wide loads, stores and arithmetic, also around serial inner loops."""

from __future__ import annotations

from functools import cache

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import is_const
from smelt.ir.errors import CompileError
from smelt.ir.walk import rebuild_binary
from smelt.tir import nodes as tir
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter, loads, renamed, substitute_stmt
from smelt.tir.script_ops import expressions, operands

from .ranges import RangeRewriter, analyzer_for


class _Lanes(Rewriter):
    """Replaces one loop variable by the vector low, low + 1, ..."""

    def __init__(self, var: expr.Var, low: expr.Expr, lanes: int, analyzer: Analyzer) -> None:
        super().__init__()
        self.var, self.low, self.lanes, self.analyzer = var, low, lanes, analyzer
        self.memo[var] = expr.Ramp(low, expr.const(1, expr.INDEX), lanes)
        self.vectors = {var}
        self.wide: dict[tir.Buffer, tir.Buffer] = {}
        self.varies = cache(self._varies)

    def _varies(self, e: expr.Expr) -> bool:
        """Whether the lanes may have different values."""
        own = e in self.vectors or (isinstance(e, tir.BufferLoad) and e.buffer in self.wide)
        return own or any(map(self.varies, operands(e)))

    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        if not self.varies(e):
            return e
        if (
            dt.is_int(e.dtype)
            and dt.lanes(e.dtype) == 1
            and isinstance(e, expr.Binary)
            and not loads(e)
        ):
            linear = self.analyzer.linear(e, [self.var])
            if linear is not None and self.var in linear[0] and not self.varies(linear[1]):
                step = linear[0][self.var]
                base = self.analyzer.simplify(linear[1] + step * self.low)
                return expr.Ramp(base, step, self.lanes)
        if isinstance(e, expr.Binary):
            return rebuild_binary(type(e), self.expr(e.a), self.expr(e.b))
        if isinstance(e, tir.BufferLoad):
            return self.load(e)
        return self.other(e)

    def other(self, e: expr.Expr) -> expr.Expr:
        """Calls, casts and selects with all operands on as many lanes."""
        parts = [self.expr(c) for c in e.children() if isinstance(c, expr.Expr)]
        lanes = max([dt.lanes(p.dtype) for p in parts], default=1)
        if lanes == 1:
            return e
        match e:
            case expr.Call(t, op, args):
                scalar_guard = op == "if_then_else" and dt.lanes(parts[0].dtype) == 1
                wide = [
                    p if scalar_guard and i == 0 else _on_lanes(p, lanes)
                    for i, p in enumerate(parts)
                ]
                assert len(args) == len(wide)
                return expr.Call(dt.vector(t, lanes), op, tuple(wide))
            case expr.Select():
                c, a, b = parts
                return expr.Select(c, _on_lanes(a, lanes), _on_lanes(b, lanes))
            case expr.Cast(t, _):
                return expr.Cast(dt.vector(t, lanes), parts[0])
            case expr.Not():
                return expr.Not(parts[0])
        raise CompileError(f"vectorize: {type(e).__name__} has no vector form")

    def load(self, e: tir.BufferLoad) -> expr.Expr:
        index = self.expr(e.indices[0])
        if e.buffer in self.wide:
            return tir.BufferLoad(self.wide[e.buffer], (self.lane_index(index),))
        return tir.BufferLoad(e.buffer, (index,))

    def lane_index(self, index: expr.Expr) -> expr.Expr:
        """An element of a buffer that got one copy a lane."""
        if dt.lanes(index.dtype) == 1:
            return expr.Ramp(index * self.lanes, expr.const(1, expr.INDEX), self.lanes)
        return index * self.lanes + expr.Ramp(
            expr.const(0, expr.INDEX), expr.const(1, expr.INDEX), self.lanes
        )

    def visit_BufferStore(self, s: tir.BufferStore) -> tir.Stmt:
        index, value = self.expr(s.indices[0]), self.expr(s.value)
        buffer = s.buffer
        if buffer in self.wide:
            buffer, index = self.wide[buffer], self.lane_index(index)
        elif dt.lanes(index.dtype) == 1 and dt.lanes(value.dtype) > 1:
            raise CompileError(
                f"vectorize: all iterations of {self.var.name} store to one element of "
                f"{buffer.name}"
            )
        lanes = dt.lanes(index.dtype)
        return tir.BufferStore(buffer, _on_lanes(value, lanes) if lanes > 1 else value, (index,))

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        c = self.expr(s.condition)
        if isinstance(c, expr.Broadcast):
            c = c.value
        no = None if s.else_body is None else self.stmt(s.else_body)
        return tir.IfThenElse(c, self.stmt(s.then_body), no)

    def visit_AssertStmt(self, s: tir.AssertStmt) -> tir.Stmt:
        self.require_scalar(s.condition, "a check inside the vectorised loop {} depends on it")
        return super().visit_AssertStmt(s)

    def visit_While(self, s: tir.While) -> tir.Stmt:
        self.require_scalar(s.condition, "a while loop's condition depends on {}")
        return super().visit_While(s)

    def require_scalar(self, e: expr.Expr, why: str) -> None:
        """Refuse an expression that differs from lane to lane."""
        if dt.lanes(self.expr(e).dtype) > 1:
            raise CompileError(f"vectorize: {why.format(self.var.name)}")

    def visit_For(self, s: tir.For) -> tir.Stmt:
        low, extent = self.expr(s.min), self.expr(s.extent)
        if dt.lanes(low.dtype) > 1 or dt.lanes(extent.dtype) > 1:
            raise CompileError(f"vectorize: the bounds of {s.var.name} depend on {self.var.name}")
        return s.replace(min=low, extent=extent, body=self.stmt(s.body))

    def visit_LetStmt(self, s: tir.LetStmt) -> tir.Stmt:
        value = self.expr(s.value)
        if dt.lanes(value.dtype) == 1:
            return tir.LetStmt(s.var, value, self.stmt(s.body))
        wide = expr.Var(s.var.name, value.dtype)
        self.memo[s.var] = wide
        self.vectors.add(s.var)
        return tir.LetStmt(wide, value, self.stmt(s.body))

    def visit_Allocate(self, s: tir.Allocate) -> tir.Stmt:
        wide = tir.Buffer(
            s.buffer.name, (s.buffer.shape[0] * self.lanes,), s.buffer.type, s.buffer.scope
        )
        self.wide[s.buffer] = wide
        return tir.Allocate(wide, self.stmt(s.body), s.annotations)


def _on_lanes(e: expr.Expr, lanes: int) -> expr.Expr:
    """A vector as it is, a scalar in every lane."""
    return e if dt.lanes(e.dtype) > 1 else expr.Broadcast(e, lanes)


_WIDEST = 64
"""Lanes of the longest vectors: longer ones fill the registers without gain."""
_FEW = 4
"""So many of the longest vectors are written out; more are a loop."""


class _Vectorize(RangeRewriter):
    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        return e

    def loop(self, s: tir.For) -> tir.Stmt:
        if s.kind == "vectorized" and any(_is_vector(x) for x in tir.walk(s.body)):
            s = s.replace(kind="serial")  # the inner loop is the vector
        s = self.parts(s)
        if s.kind != "vectorized":
            return s
        if not isinstance(s.extent, expr.IntImm):
            raise CompileError(
                f"the vectorised loop {s.var.name} has the extent {script(s.extent)}, "
                "not a constant"
            )
        if is_const(s.extent, 1):
            return s.replace(kind="serial")
        return self._pieces(s, s.extent.value)

    def _pieces(self, s: tir.For, extent: int) -> tir.Stmt:
        """The loop as vectors of a power of two lanes each, as machines have them."""
        parts: list[tir.Stmt] = []
        start, many = 0, extent // _WIDEST
        if many > _FEW:
            outer = expr.Var(f"{s.var.name}_o", s.var.type)
            self.analyzer.bind(outer, expr.const(0, outer.type), expr.const(many, outer.type))
            parts.append(
                tir.For(outer, expr.const(0, expr.INDEX), expr.const(many, expr.INDEX),
                    self._lanes(s, s.min + outer * _WIDEST, _WIDEST))
            )  # fmt: skip
            start = many * _WIDEST
        while start < extent:
            lanes = min(_WIDEST, 1 << ((extent - start).bit_length() - 1))
            parts.append(self._lanes(s, s.min + start, lanes, copy=bool(parts)))
            start += lanes
        return tir.seq(*parts)

    def _lanes(self, s: tir.For, low: expr.Expr, lanes: int, copy: bool = False) -> tir.Stmt:
        body = renamed(s.body) if copy else s.body
        if lanes == 1:
            return substitute_stmt(body, {s.var: low})
        return _Lanes(s.var, low, lanes, self.analyzer).stmt(body)


def _is_vector(s: tir.Stmt) -> bool:
    """An inner vector loop, or a statement that has lanes already, such as an instruction's."""
    if isinstance(s, tir.BufferStore | tir.LetStmt | tir.Evaluate):
        return any(dt.lanes(e.dtype) > 1 for e in expressions(s))
    return isinstance(s, tir.For) and s.kind == "vectorized" and not is_const(s.extent, 1)


def vectorize_loops(func: tir.PrimFunc) -> tir.PrimFunc:
    """Replace loops of kind "vectorized" by vector statements."""
    return func.replace(body=_Vectorize(analyzer_for(func)).stmt(func.body))
