"""The host program: a tensor program that calls the kernels in order, on places in memory.

smelt_entry(tensors, sizes, weights, workspace)   runs the model
smelt_plan(sizes, extents, workspace_bytes)       evaluates the shapes of the results
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Call, Expr, StringImm, Var, cast, const
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, Evaluate, LetStmt, PrimFunc, Stmt, seq

from .graph import GraphPlan, Launch, Place, Storage
from .memory import MemoryPlan

__all__ = [
    "ENTRY",
    "PLAN",
    "KernelCall",
    "address_of",
    "array_of",
    "entry_program",
    "plan_program",
    "with_sizes",
]

ENTRY = "smelt_entry"
PLAN = "smelt_plan"


class KernelCall:
    """A launch with what compiling its kernel told.

    symbol      the kernel's function
    places      memory of its buffers, with packed constants in place of plain ones
    scalars     symbolic sizes it takes, by name
    workspaces  its scratch buffers
    """

    def __init__(
        self,
        launch: Launch,
        symbol: str,
        places: Sequence[Place],
        scalars: Sequence[str],
        workspaces: Sequence[Storage],
    ) -> None:
        """Put the parts together."""
        self.launch, self.symbol = launch, symbol
        self.places, self.scalars, self.workspaces = (
            tuple(places),
            tuple(scalars),
            tuple(workspaces),
        )


def array_of(name: str, size: int, dtype: str) -> Buffer:
    """A parameter of the host program: an array of at least one element."""
    return Buffer(name, (const(max(size, 1), INDEX),), dtype)


def entry_program(
    plan: GraphPlan, calls: Sequence[KernelCall], memory: MemoryPlan, weights: Mapping[Storage, int]
) -> PrimFunc:
    """The program that runs the model once."""
    tensors = array_of("tensors", len(plan.inputs) + len(plan.outputs), "handle")
    sizes = array_of("sizes", len(plan.symbols), INDEX)
    blob = array_of("weights", 1, "uint8")
    arena = array_of("workspace", 1, "uint8")
    outside = [Var(f"tensor{i}", "handle") for i in range(len(plan.inputs) + len(plan.outputs))]

    def base(s: Storage) -> tuple[Expr, Expr]:
        if s.kind == "constant":
            return address_of(blob), const(weights[s])
        if s.kind == "temporary":
            return address_of(arena), memory.offsets[s]
        return outside[s.index + (len(plan.inputs) if s.kind == "output" else 0)], const(0)

    def pointer(p: Place) -> Expr:
        start, offset = base(p.storage)
        return Call(
            "handle",
            "smelt.tensor_view",
            (start, offset + p.view.offset * dt.bytes_of(p.storage.dtype)),
        )

    by_name = {v.name: v for v in plan.symbols}
    body: list[Stmt] = []
    for n, c in enumerate(calls):
        args: list[Expr] = [StringImm(c.symbol), *[pointer(p) for p in c.places]]
        args += [by_name[name] for name in c.scalars]
        for w in c.workspaces:
            start, offset = base(w)
            args.append(Call("handle", "smelt.tensor_view", (start, offset)))
        body += [
            _call("smelt.probe", const(n), const(0, "int32")),
            _call("smelt.call_kernel", *args),
            _call("smelt.probe", const(n), const(1, "int32")),
        ]
    stmt = seq(*body) if body else Evaluate(const(0))
    for i, v in reversed(list(enumerate(outside))):
        stmt = LetStmt(v, BufferLoad(tensors, (const(i),)), stmt)
    return PrimFunc(
        (tensors, sizes, blob, arena), with_sizes(stmt, plan.symbols, sizes), {"name": ENTRY}
    )


def plan_program(symbols: Sequence[Var], workspace: Expr, extents: Sequence[Expr]) -> PrimFunc:
    """The program that evaluates the results' extents and the workspace's size in bytes."""
    sizes = array_of("sizes", len(symbols), INDEX)
    out = array_of("extents", len(extents), INDEX)
    total = array_of("workspace_bytes", 1, INDEX)
    body = [BufferStore(out, e, (const(i),)) for i, e in enumerate(extents)]
    body.append(BufferStore(total, workspace, (const(0),)))
    return PrimFunc(
        (sizes, out, total),
        with_sizes(seq(*body), symbols, sizes),
        {"name": PLAN, "plain": True},
    )


def with_sizes(stmt: Stmt, symbols: Sequence[Var], sizes: Buffer) -> Stmt:
    """A statement with the symbolic sizes read from their array."""
    for i, v in reversed(list(enumerate(symbols))):
        stmt = LetStmt(v, cast(v.type, BufferLoad(sizes, (const(i),))), stmt)
    return stmt


def address_of(b: Buffer) -> Expr:
    """The address of a buffer's first element."""
    return Call("handle", "smelt.address_of", (BufferLoad(b, (const(0),)),))


def _call(op: str, *args: Expr) -> Stmt:
    return Evaluate(Call("int32", op, tuple(args)))
