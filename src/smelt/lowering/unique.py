"""Every variable and every buffer is bound once: a second binding gets an object of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smelt.ir.expr import Expr, Var
from smelt.tir.nodes import Allocate, Block, Buffer, For, LetStmt, PrimFunc, Range, Stmt
from smelt.tir.rewrite import Rewriter
from smelt.tir.script_ops import shape_vars


class _Once(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.bound: set[Var | Buffer] = {*func.params, *shape_vars(func.params)}
        self.vars: dict[Var, Expr] = {}

    @contextmanager
    def scope(self, variables: dict[Var, Var], buffers: dict[Buffer, Buffer]) -> Iterator[None]:
        """What stands for variables and buffers inside; outside it is as before."""
        if not variables and not buffers:
            yield
            return
        before = self.vars, self.buffers, self.memo
        self.vars, self.buffers = {**self.vars, **variables}, {**self.buffers, **buffers}
        self.memo = {}
        self.memo.update(self.vars.items())
        try:
            yield
        finally:
            self.vars, self.buffers, self.memo = before

    def var(self, v: Var) -> Var:
        """The variable itself where it is met for the first time, else a new one."""
        new = Var(v.name, v.type) if v in self.bound else v
        self.bound.add(new)
        return new

    def own(self, b: Buffer) -> Buffer:
        """The buffer itself where it is met for the first time, else a new one."""
        shape, strides = self.exprs(b.shape), self.exprs(b.strides)
        again = b in self.bound or shape is not b.shape or strides is not b.strides
        new = b.replace(shape=shape, strides=strides) if again else b
        self.bound.add(new)
        return new

    def visit_For(self, s: For) -> Stmt:
        low, extent, var = self.expr(s.min), self.expr(s.extent), self.var(s.var)
        with self.scope({} if var is s.var else {s.var: var}, {}):
            body = self.stmt(s.body)
        if low is s.min and extent is s.extent and var is s.var and body is s.body:
            return s
        return s.replace(var=var, min=low, extent=extent, body=body)

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        value, var = self.expr(s.value), self.var(s.var)
        with self.scope({} if var is s.var else {s.var: var}, {}):
            body = self.stmt(s.body)
        same = value is s.value and var is s.var and body is s.body
        return s if same else LetStmt(var, value, body)

    def visit_Allocate(self, s: Allocate) -> Stmt:
        buffer = self.own(s.buffer)
        with self.scope({}, {} if buffer is s.buffer else {s.buffer: buffer}):
            body = self.stmt(s.body)
        same = buffer is s.buffer and body is s.body
        return s if same else Allocate(buffer, body, s.annotations)

    def visit_Block(self, s: Block) -> Block:
        doms = [Range(self.expr(i.dom.min), self.expr(i.dom.extent)) for i in s.iter_vars]
        new = {i.var: self.var(i.var) for i in s.iter_vars}
        iters = tuple(
            [i.replace(var=new[i.var], dom=d) for i, d in zip(s.iter_vars, doms, strict=True)]
        )
        with self.scope({a: b for a, b in new.items() if a is not b}, {}):
            own = {b: self.own(b) for b in s.alloc_buffers}
            with self.scope({}, {a: b for a, b in own.items() if a is not b}):
                made = super().visit_Block(s)
        known = all(v is w for v, w in new.items()) and all(
            d.min is i.dom.min and d.extent is i.dom.extent
            for d, i in zip(doms, s.iter_vars, strict=True)
        )
        return made if known else made.replace(iter_vars=iters)


def bind_once(func: PrimFunc) -> PrimFunc:
    """A program in which no variable and no buffer object is bound in two places."""
    return _Once(func).program(func)
