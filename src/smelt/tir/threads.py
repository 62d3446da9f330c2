"""Threads: what the loops of kind "thread_binding" say about the machine that runs them.

An outermost such loop is a kernel. All loops of a kernel that name the same axis are that one axis:
each thread has one place in it, and takes from every such loop the iteration of its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from smelt.ir.expr import Call, StringImm, Var
from smelt.ir.walk import free_vars

from .nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    Stmt,
    sub_statements,
    walk,
)
from .rewrite import own_loads

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
    found = {load.buffer for load in own_loads(s)}
    return found | {s.buffer} if isinstance(s, BufferStore) else found


def around_uses(body: Stmt) -> dict[Buffer, tuple[Stmt, ...]]:
    """For every buffer that is used: the statements that hold all its uses, outermost first."""
    around: dict[Buffer, tuple[Stmt, ...]] = {}
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(body, ())]
    while stack:
        s, path = stack.pop()
        path = (*path, s)
        for b in touched_buffers(s):
            old = around.get(b, path)
            around[b] = tuple([x for x, y in zip(old, path, strict=False) if x is y])
        stack.extend((x, path) for x in sub_statements(s))
    return around


def private_loops(body: Stmt) -> dict[Buffer, set[Stmt]]:
    """The loops inside a block that hold all uses of one of the block's own buffers.

    Each iteration has such a buffer for itself, as it will be when the program is lowered.
    """
    found: dict[Buffer, set[Stmt]] = {}
    for b, path in around_uses(body).items():
        owner = [isinstance(s, Block) and b in s.alloc_buffers for s in path]
        inside = path[owner.index(True) :] if any(owner) else ()
        found[b] = {s for s in inside if isinstance(s, For) and s.kind in _AT_ONCE}
    return found


_AT_ONCE = ("parallel", "thread_binding")


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
    return [s for s in walk(kernel) if isinstance(s, BlockRealize) and _reduces_over(s, threads)]


def _reduces_over(s: BlockRealize, threads: set[Var]) -> bool:
    return any(it.kind == "reduce" and free_vars(value) & threads for it, value in s.bindings)
