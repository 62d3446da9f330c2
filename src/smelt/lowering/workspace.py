"""Intermediate buffers of a kernel: small ones on the stack, the others handed in by the caller."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.ir.errors import InternalError
from smelt.ir.expr import INDEX, Expr, IntImm, Var, const
from smelt.ir.walk import free_vars
from smelt.tir.nodes import Allocate, Buffer, For, PrimFunc, Stmt, walk

from .accesses import Moved

STACK_BYTES = 48 << 10
"""Larger buffers do not go on the stack (worker threads have small ones)."""


ON_STACK = "stack_bytes"
"""The attribute of a program that says how large a buffer on its stack may be, if less."""


def _is_large(b: Buffer, most: int) -> bool:
    size = b.shape[0]
    return not isinstance(size, IntImm) or size.value * dt.bytes_of(b.type) > most


class _Lift(Moved):
    def __init__(self, scalars: list[Var], most: int) -> None:
        self.most = most
        self.places: dict[Buffer, tuple[Buffer, Expr]] = {}
        super().__init__(self.places)
        self.scalars = set(scalars)
        self.workspaces: list[Buffer] = []
        self.parallel: list[For] = []

    def visit_For(self, s: For) -> Stmt:
        if s.kind != "parallel":
            return super().visit_For(s)
        self.parallel.append(s)
        new = super().visit_For(s)
        self.parallel.pop()
        return new

    def visit_Allocate(self, s: Allocate) -> Stmt:
        if not _is_large(s.buffer, self.most):
            return super().visit_Allocate(s)
        size = s.buffer.shape[0]
        offset: Expr = const(0, INDEX)
        total = size
        for loop in self.parallel:
            offset = offset * loop.extent + (loop.var - loop.min)
            total = total * loop.extent
        unknown = free_vars(total) - self.scalars
        if unknown:
            names = ", ".join(sorted(v.name for v in unknown))
            raise InternalError(
                f"the buffer {s.buffer.name} has a size that depends on {names}: {total}"
            )
        workspace = Buffer(s.buffer.name, (total,), s.buffer.type, "global")
        self.workspaces.append(workspace)
        self.places[s.buffer] = (workspace, offset * size)
        return self.stmt(s.body)


def lift_workspaces(func: PrimFunc) -> PrimFunc:
    """Large intermediate buffers become parameters at the end, counted by attrs["workspaces"]."""
    most = int(func.attrs.get(ON_STACK, STACK_BYTES))
    if not any(isinstance(s, Allocate) and _is_large(s.buffer, most) for s in walk(func.body)):
        return func
    lift = _Lift([p for p in func.params if isinstance(p, Var)], most)
    body = lift.stmt(func.body)
    return func.replace(params=(*func.params, *lift.workspaces), body=body).with_attrs(
        workspaces=len(lift.workspaces)
    )
