"""The host program: a tensor program that calls the kernels in order, on places in memory.

smelt_entry(tensors, sizes, weights, workspace)   runs the model
smelt_plan(sizes, extents, workspace_bytes)       evaluates the shapes of the results
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, equal
from smelt.ir.expr import INDEX, Call, Expr, IntImm, StringImm, Var, cast, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.rewrite import substitute_stmt

from .graph import GraphPlan, Launch, Place, Storage
from .memory import MemoryPlan

ENTRY = "smelt_entry"
PLAN = "smelt_plan"


@dataclass(frozen=True)
class KernelCall:
    """A launch with what compiling its kernel told.

    symbol      the kernel's function
    places      memory of its buffers, with packed constants in place of plain ones
    scalars     symbolic sizes it takes, by name
    workspaces  its scratch buffers
    number      where an external function that Python code runs stands in the host's table
    """

    launch: Launch
    symbol: str
    places: Sequence[Place]
    scalars: Sequence[str]
    workspaces: Sequence[Storage] = ()
    number: int | None = None


def array_of(name: str, size: int, dtype: str) -> tir.Buffer:
    """A parameter of the host program: an array of at least one element."""
    return tir.Buffer(name, (const(max(size, 1), INDEX),), dtype)


@dataclass
class Body:
    """One way to run a model: its launches in order, on a workspace.

    when  what sizes are, in others, where this way is taken; none: the general one
    """

    plan: GraphPlan
    calls: Sequence[KernelCall]
    memory: MemoryPlan
    when: Mapping[str, Expr]

    def fits(self, own: Mapping[str, Expr]) -> Expr:
        """Whether this way is taken. own: the general sizes by name."""
        return all_of([equal(own[n], by_names(v, own)) for n, v in self.when.items()])


def entry_program(
    general: Body,
    variants: Sequence[Body],
    places: Mapping[Storage, int],
    name: str = ENTRY,
    number: int = 0,
) -> tir.PrimFunc:
    """The program that runs the model once: the first variant that the sizes fit, or in general.

    places  where each constant stands among the weights
    number  of its first kernel, for a profiler
    """
    plan = general.plan
    tensors = array_of("tensors", len(plan.inputs) + len(plan.outputs), "handle")
    sizes = array_of("sizes", len(plan.symbols), INDEX)
    blob = array_of("weights", 1, "uint8")
    arena = array_of("workspace", 1, "uint8")
    outside = [Var(f"tensor{i}", "handle") for i in range(len(plan.inputs) + len(plan.outputs))]
    own: dict[str, Expr] = {v.name: v for v in plan.symbols}

    def steps(b: Body, first: int) -> tir.Stmt:
        # variants may share their sizes, and a variable has one definition
        stmt = _launches(b, first, outside, places, blob, arena)
        return substitute_stmt(stmt, {v: own[v.name] for v in b.plan.symbols})

    stmt = steps(general, number)
    first = number + len(general.calls) + sum([len(b.calls) for b in variants])
    for b in reversed(variants):
        first -= len(b.calls)
        stmt = tir.IfThenElse(b.fits(own), steps(b, first), stmt)
    stmt = with_read(with_read(stmt, plan.symbols, sizes), outside, tensors)
    return tir.PrimFunc((tensors, sizes, blob, arena), stmt, {"name": name})


def _launches(
    b: Body,
    first: int,
    outside: Sequence[Var],
    places: Mapping[Storage, int],
    blob: tir.Buffer,
    arena: tir.Buffer,
) -> tir.Stmt:
    """The kernel calls of one way; `first` is the number of its first kernel."""

    def base(s: Storage) -> tuple[Expr, Expr]:
        if s.kind == "constant":
            return blob.access_ptr(), const(places[s])
        if s.kind == "temporary":
            return arena.access_ptr(), b.memory.offsets[s]
        return outside[s.index + (len(b.plan.inputs) if s.kind == "output" else 0)], const(0)

    def pointer(p: Place) -> Expr:
        start, offset = base(p.storage)
        offset = offset + p.view.offset * dt.bytes_of(p.storage.dtype)
        return Call("handle", "smelt.tensor_view", (start, offset))

    by_name = {v.name: v for v in b.plan.symbols}
    body: list[tir.Stmt] = []
    for n, c in enumerate(b.calls, first):
        pointers, scalars = [pointer(p) for p in c.places], [by_name[n] for n in c.scalars]
        scratch = [Call("handle", "smelt.tensor_view", base(w)) for w in c.workspaces]
        call = tir.seq(
            _call("smelt.probe", const(n), const(0, "int32")),
            _external(c, [*pointers, *scratch], scalars)
            if c.launch.external
            else _call("smelt.call_kernel", StringImm(c.symbol), *pointers, *scalars, *scratch),
            _call("smelt.probe", const(n), const(1, "int32")),
        )
        body.append(where_not_empty([p.view.shape for p in c.launch.outputs], call))
    return tir.seq(*body)


def _external(c: KernelCall, pointers: Sequence[Expr], sizes: Sequence[Expr]) -> tir.Stmt:
    """The call of an external function: of C code with its operands, what it works in and 64-bit
    sizes, of Python code with arrays of both."""
    wide = [cast(INDEX, s) for s in sizes]
    if c.number is None:
        return _call("smelt.call_packed", StringImm(c.symbol), *pointers, *wide)
    operands = array_of("operands", len(pointers), "handle")
    extents = array_of("extents", len(wide), INDEX)
    stores = [
        tir.BufferStore(array, v, (const(i),))
        for array, values in ((operands, pointers), (extents, wide))
        for i, v in enumerate(values)
    ]
    call = _call("smelt.call_packed", const(c.number), operands.access_ptr(), extents.access_ptr())
    return tir.Allocate(operands, tir.Allocate(extents, tir.seq(*stores, call)))


def where_not_empty(shapes: Sequence[Sequence[Expr]], stmt: tir.Stmt) -> tir.Stmt:
    """A statement that runs where one of some shapes, those of its results, has elements."""
    some = any_of([all_of([e > 0 for e in shape]) for shape in shapes])
    if isinstance(some, IntImm):
        return stmt if some.value else tir.seq()
    return tir.IfThenElse(some, stmt)


def plan_program(
    symbols: Sequence[Var],
    workspace: Expr,
    extents: Sequence[Expr],
    checks: Sequence[tuple[Expr, str]] = (),
    name: str = PLAN,
) -> tir.PrimFunc:
    """The program that evaluates the results' extents and the workspace's size in bytes.

    checks  what has to hold of the sizes, and what to say where it does not
    """
    sizes = array_of("sizes", len(symbols), INDEX)
    out = array_of("extents", len(extents), INDEX)
    total = array_of("workspace_bytes", 1, INDEX)
    body: list[tir.Stmt] = [tir.AssertStmt(condition, text) for condition, text in checks]
    body += [tir.BufferStore(out, e, (const(i),)) for i, e in enumerate(extents)]
    body.append(tir.BufferStore(total, workspace, (const(0),)))
    return tir.PrimFunc(
        (sizes, out, total),
        with_read(tir.seq(*body), symbols, sizes),
        {"name": name, "plain": True},
    )


def with_read(stmt: tir.Stmt, variables: Sequence[Var], table: tir.Buffer) -> tir.Stmt:
    """A statement with sizes, or tensors, read from their array, which has them in this order."""
    for at, v in reversed(list(enumerate(variables))):
        stmt = tir.LetStmt(v, cast(v.type, tir.BufferLoad(table, (const(at),))), stmt)
    return stmt


def by_names(e: Expr, sizes: Mapping[str, Expr]) -> Expr:
    """An expression with values in the places of sizes of these names."""
    return substitute(e, {v: sizes[v.name] for v in free_vars(e)})


def _call(op: str, *args: Expr) -> tir.Stmt:
    return tir.Evaluate(Call("int32", op, tuple(args)))
