"""Threads: what the loops of kind "thread_binding" say about the machine that runs them.

An outermost such loop is a kernel. All loops of a kernel that name the same axis are that one axis:
each thread has one place in it, and takes from every such loop the iteration of its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from smelt.ir.expr import Call, Expr, StringImm, Var
from smelt.ir.walk import free_vars

from .nodes import Block, BlockRealize, Buffer, BufferStore, Evaluate, For, Stmt, walk
from .rewrite import loads

_INDICES = [f"{index}.{axis}" for index in ("blockIdx", "threadIdx") for axis in "xyz"]
THREAD_AXES = (*_INDICES, "vthread", "vthread.x", "vthread.y", "vthread.z")
"""The axes that loops can be bound to."""

BARRIER = "smelt.storage_sync"
"""The intrinsic at which the threads of a block wait for each other; its operand is a scope."""


def is_grid_axis(axis: str) -> bool:
    """Whether an axis counts blocks of threads (the others count threads of a block)."""
    return axis.startswith("blockIdx")


def is_shared(buffer: Buffer) -> bool:
    """Whether the threads of a block have the buffer in common, and other blocks do not."""
    return buffer.scope.split(".")[0] == "shared"


def is_thread_loop(s: Stmt) -> bool:
    """Whether a statement is a loop bound to an axis of threads."""
    return isinstance(s, For) and s.kind == "thread_binding"


def kernels(body: Stmt) -> Iterator[For]:
    """The outermost thread-bound loops of a program."""
    return (s for s in walk(body, is_thread_loop) if isinstance(s, For) and is_thread_loop(s))


def outside_kernels(body: Stmt) -> Iterator[Stmt]:
    """The statements of a program that no threads run."""
    return (s for s in walk(body, is_thread_loop) if not is_thread_loop(s))


def thread_axes(kernel: For) -> dict[str, list[For]]:
    """The loops of a kernel by the axis they name, outermost first."""
    axes: dict[str, list[For]] = {}
    for s in walk(kernel):
        if isinstance(s, For) and s.kind == "thread_binding":
            axes.setdefault(str(s.thread), []).append(s)
    return axes


def barrier_scope(s: Stmt) -> str | None:
    """What a barrier is about ("shared", ...); None for other statements."""
    if not (isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == BARRIER):
        return None
    scope = s.value.args[0] if s.value.args else StringImm("shared")
    return scope.value if isinstance(scope, StringImm) else str(scope)


def touched_buffers(s: Stmt) -> set[Buffer]:
    """The buffers that a statement itself loads or stores, not those of the statements in it."""
    found = {s.buffer} if isinstance(s, BufferStore) else set()
    for c in s.children():
        if isinstance(c, Expr):
            found.update([load.buffer for load in loads(c)])
    return found


def communal_buffers(kernel: For) -> set[Buffer]:
    """The buffers of a kernel that the threads of a block have in common.

    Shared memory, and what blocks accumulate whose reduction is spread over threads: until a pass
    makes it an exchange between threads, such a reduction runs one thread after another.
    """
    found: set[Buffer] = set()
    for s in walk(kernel):
        found.update([b for b in touched_buffers(s) if is_shared(b)])
    for realize in collective_blocks(kernel):
        for s in walk(realize):
            if isinstance(s, BufferStore):
                found.add(s.buffer)
    return found


def collective_blocks(kernel: For) -> list[BlockRealize]:
    """The blocks of a kernel with a reduction that is spread over the threads of a block."""
    threads = {
        loop.var
        for axis, loops in thread_axes(kernel).items()
        if not is_grid_axis(axis)
        for loop in loops
    }
    found = []
    for s in walk(kernel):
        if isinstance(s, BlockRealize) and _reduces_over(s, s.block, threads):
            found.append(s)
    return found


def _reduces_over(s: BlockRealize, block: Block, threads: set[Var]) -> bool:
    return any(
        it.kind == "reduce" and bool(free_vars(value) & threads)
        for it, value in zip(block.iter_vars, s.values, strict=False)
    )
