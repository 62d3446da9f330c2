"""Every variable and every buffer is bound once: a second binding gets an object of its own."""

from __future__ import annotations

from smelt.ir.expr import Expr, Var
from smelt.tir.nodes import Buffer, PrimFunc, Stmt
from smelt.tir.rewrite import RenameBound
from smelt.tir.script_ops import shape_vars


class _Once(RenameBound):
    """Each variable and buffer is itself where it is met for the first time, else a new one."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.bound: set[Var | Buffer] = {*func.params, *shape_vars(func.params)}

    def new_var(self, v: Var, low: Expr | None = None, extent: Expr | None = None) -> Var:
        new = Var(v.name, v.type) if v in self.bound else v
        self.bound.add(new)
        return new

    def new_buffer(self, b: Buffer) -> Buffer:
        new = b.replace() if b in self.bound else b
        self.bound.add(new)
        return new

    def stmt(self, s: Stmt) -> Stmt:
        """What is bound in a statement stands there only; outside it is as before."""
        before = self.memo, dict(self.buffers)
        self.memo = {k: e for k, e in self.memo.items() if isinstance(k, Var)}
        made = super().stmt(s)
        self.memo, self.buffers = before
        return made


def bind_once(func: PrimFunc) -> PrimFunc:
    """A program in which no variable and no buffer object is bound in two places."""
    return _Once(func).program(func)
