"""Carrying out a classic schedule by the primitives of tensor programs.

The naive program has one block a stage, its loops in the order of the axes. Inline stages go first;
then, consumers before producers, each stage takes its place, where its loops get the extents that
are needed there. It gets its splits, fusions, order and kinds of loops when something is computed
inside it, or else at the end: loops as they come are the easiest to reason about. At last every
reduction sets its initial values before its outermost reduction loop, in loops of the same kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Expr, Var
from smelt.te.prim_func import program_of
from smelt.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from smelt.tir.nodes import BlockRealize, For, IterVar
from smelt.tir.schedule import BlockRV, LoopRV
from smelt.tir.schedule import Schedule as TirSchedule

from .axes import Fuse, Relation, Singleton, Split, after, clipped
from .call import MethodCall, listed
from .layout import laid_out
from .rewrite import made
from .schedule import Schedule
from .stage import Attachment, Stage, Treatment


def lower_schedule(s: Schedule, args: Sequence[Tensor | Var], name: str = "main") -> TirSchedule:
    """The program of a classic schedule, with the trace of primitives that made it.

    args  placeholders and results in the order of the parameters; symbolic sizes that are not
          listed become parameters at the end

    Raises ScheduleError where a step cannot be shown to keep the program's meaning; the message
    names the call that asked for it.
    """
    call = MethodCall("te", "lower_schedule", s, list(args))
    _check_args(call, s, args)
    return _Lowering(s, args, name).schedule


def _check_args(call: MethodCall, s: Schedule, args: Sequence[Any]) -> None:
    """Parameters are tensors and variables; results are stored and among them."""
    for k, a in enumerate(args):
        if not isinstance(a, Tensor | Var):
            call.fail(f"argument {k} is {type(a).__name__}", "tensors and scalar variables")
        if any(a is b for b in args[:k]):
            call.fail(f"{a.name} is given twice")
        if isinstance(a, Tensor) and not isinstance(a.op, PlaceholderOp):
            stage = s[a]
            if stage.attachment.kind == "inline":
                stage.attachment.call.fail(
                    f"{a.name} is a parameter: all of it has to be stored",
                    "leave the tensor out of the parameters, or do not inline it",
                )
    for x in s.output_stages:
        if not any(t is a for t in x.op.outputs for a in args):
            call.fail(f"{x.name} is computed, but no result of it is a parameter")


class _Lowering:
    """One call of `lower_schedule`: the stages, their blocks, and the loops of their axes."""

    def __init__(self, s: Schedule, args: Sequence[Any], name: str) -> None:
        """Carry out everything."""
        ops, tensors = laid_out(s.stages)
        self.stages = [x for x in s.stages if not isinstance(x.op, PlaceholderOp)]
        parts = {x: _parts(x, ops[x]) for x in self.stages}
        everything = [op for x in self.stages for op in parts[x]]
        params = [tensors.get(a, a) if isinstance(a, Tensor) else a for a in args]
        self.schedule = TirSchedule(program_of(params, everything, name))
        blocks = iter(self.schedule.get_child_blocks("root"))
        self.blocks = {x: [next(blocks) for _ in parts[x]] for x in self.stages}
        self.loops: dict[Stage, dict[IterVar, LoopRV]] = {}
        self.nested: set[Stage] = set()
        self.carry_out()

    def carry_out(self) -> None:
        """All steps, in the order in which they can be checked."""
        placed = []
        for x in self.stages:
            if x.attachment.kind == "inline":
                for block in self.blocks[x]:
                    with _named(x.attachment.call):
                        self.schedule.compute_inline(block)
            else:
                placed.append(x)
        for x in reversed(placed):
            self.place(x)
        for x in reversed(placed):
            self.nest(x)
        for x in placed:
            self.roll(x)
        for x in placed:
            self.start(x)
            self.instructions(x)
            self.keep(x)

    # ------------------------------------------------------------------------------- place

    def place(self, x: Stage) -> None:
        """Move a stage to where it is computed, and note its loops."""
        at, (block,) = _attachment(x), self.blocks[x]
        axes = [*x.space, *x.reduce]
        if at.kind == "at":
            with _named(at.call):
                self.schedule.compute_at(block, self.target(at), preserve_unit_loops=True)
        loops = self.schedule.get_loops(block)
        own = loops[len(loops) - len(axes) :]
        self.loops[x] = dict(zip(axes, own, strict=True))

    def target(self, at: Attachment) -> LoopRV:
        """The loop of the axis at which a stage is computed."""
        parent, axis = at.parent, at.axis
        assert parent is not None
        assert axis is not None
        if parent.attachment.kind == "inline":
            at.call.fail(
                f"{parent.name} has no loops: {parent.attachment.call}",
                f"an axis of {listed([u.name for u in parent.schedule.consumers(parent)])}",
            )
        self.nest(parent)
        return self.loops[parent][parent.leaf(at.call, axis)]

    def nest(self, x: Stage) -> None:
        """Give a stage the loops that were asked for, unless it has them."""
        if x not in self.nested:
            self.nested.add(x)
            self.shape(x)
            self.treat(x)

    # ------------------------------------------------------------------------------- axes

    def shape(self, x: Stage) -> None:
        """Split, fuse and reorder; loops change places only where a fusion or the end needs it."""
        loops = self.loops[x]
        nest = list(loops)
        order = [*x.op.axis, *x.op.reduce_axis] if isinstance(x.op, ComputeOp) else []
        for call, step in x.steps:
            with _named(call):
                if isinstance(step, Fuse):
                    nest = self.sorted(loops, nest, order)
                self.step(x, call, step, nest)
            order = after(order, step)
        last = x.steps[-1][0] if x.steps else MethodCall(repr(x), "reorder")
        with _named(last):
            self.sorted(loops, nest, order)

    def step(self, x: Stage, call: MethodCall, step: Relation, nest: list[IterVar]) -> None:
        """One step; `nest` are the axes in the order of the loops as they stand."""
        sch, (block,), loops = self.schedule, self.blocks[x], self.loops[x]
        if isinstance(step, Split):
            new = self.split(call, block, loops.pop(step.used[0]), step)
        elif isinstance(step, Fuse):
            new = [sch.fuse(*[loops.pop(a) for a in step.used])]
        elif isinstance(step, Singleton):
            new = [sch.add_unit_loop(loops[nest[0]] if nest else block)]
        else:
            return
        nest[:] = after(nest, step)
        loops.update(zip(step.made, new, strict=True))

    def split(self, call: MethodCall, block: BlockRV, loop: LoopRV, step: Split) -> list[LoopRV]:
        """Cut a loop of the extent that holds here."""
        sch = self.schedule
        extent, guard = self.extent(loop), self.realize(block).predicate
        asked = step.factor if step.factor is not None else step.nparts
        assert asked is not None
        count: Expr = asked if step.exact else clipped(asked, extent)
        new = sch.split(loop, [None, count] if step.nparts is None else [count, None])
        if step.exact and self.realize(block).predicate is not guard:
            call.fail("a condition is needed for the last part", "a factor that divides the extent")
        return new

    def sorted(
        self, loops: dict[IterVar, LoopRV], nest: list[IterVar], order: list[IterVar]
    ) -> list[IterVar]:
        """Put the loops into the order of the leaves."""
        wanted = [a for a in order if a in loops]
        if wanted != nest:
            self.schedule.reorder(*[loops[a] for a in wanted])
        return wanted

    # ------------------------------------------------------------------------------- kinds

    def treat(self, x: Stage) -> None:
        """Make loops parallel, vectors, ..., and attach what else was said about them."""
        for axis in x.leaf_iter_vars:
            t, loop = x.treatments.get(axis, Treatment()), self.loops[x][axis]
            if t.call is not None:
                with _named(t.call):
                    self.kind(t.call, loop, axis, t)
            for key, (call, value) in t.pragmas.items():
                with _named(call):
                    self.schedule.annotate(loop, key, value)

    def kind(self, call: MethodCall, loop: LoopRV, axis: IterVar, t: Treatment) -> None:
        """The kind of one loop."""
        sch, known = self.schedule, value_of(self.extent(loop))
        if t.kind == "parallel":
            sch.parallel(loop)
        elif t.kind == "vectorized":
            sch.vectorize(loop)
        elif t.kind == "unrolled":
            if known is None:
                call.fail(
                    f"the number of iterations of {axis.var.name} is not known before the "
                    "program runs",
                    "split it by a number first",
                )
            sch.unroll(loop)
        elif t.thread is not None:
            threads = None if t.thread.dom is None else value_of(t.thread.dom.extent)
            if threads is not None and known is not None and threads != known:
                call.fail(f"{axis.var.name} has {known} iterations, there are {threads} threads")
            sch.bind(loop, t.thread.thread_tag)

    def start(self, x: Stage) -> None:
        """Let a reduction set its initial values before its outermost reduction loop.

        Threads that reduce together start and join by themselves.
        """
        over = [a for a in x.leaf_iter_vars if a.kind == "reduce"]
        bound = [a for a in over if x.treatments.get(a, Treatment()).thread is not None]
        if over and not bound:
            with _named(MethodCall(repr(x), "op")):
                self.schedule.decompose_reduction(self.blocks[x][0], self.loops[x][over[0]])

    # ------------------------------------------------------------------------------- the rest

    def roll(self, x: Stage) -> None:
        """Keep what neighbouring iterations share."""
        if x.rolling is not None:
            for k in range(len(x.op.outputs)):
                with _named(x.rolling):
                    self.schedule.rolling_buffer(self.blocks[x][0], k)

    def instructions(self, x: Stage) -> None:
        """Let instructions take the place of loops."""
        for axis in x.leaf_iter_vars:
            asked = x.treatments.get(axis, Treatment()).intrin
            if asked is not None:
                with _named(asked[0]):
                    self.schedule.tensorize(self.loops[x][axis], asked[1])

    def keep(self, x: Stage) -> None:
        """Where and how the results are kept."""
        sch, (block,) = self.schedule, self.blocks[x]
        for k, t in enumerate(x.op.outputs):
            if x.scope not in ("", t.scope):
                with _named(MethodCall(repr(x), "set_scope", x.scope)):
                    sch.set_scope(block, k, x.scope)
            for call, axis, factor, offset in x.aligned:
                with _named(call):
                    sch.storage_align(block, k, axis, factor, offset)
        if x.double is not None:
            with _named(x.double):
                sch.annotate(block, "double_buffer_scope", 0)

    def extent(self, loop: LoopRV) -> Expr:
        """How many iterations a loop has."""
        found = self.schedule.get(loop)
        assert isinstance(found, For)
        return found.extent

    def realize(self, block: BlockRV) -> BlockRealize:
        """A block where it is executed."""
        return self.schedule.state.realize(block)


def _parts(x: Stage, op: Operation) -> list[Operation]:
    """The operations of a stage: one a result where it is inline, so that each can be put in."""
    if x.attachment.kind != "inline" or not isinstance(op, ComputeOp) or len(op.outputs) == 1:
        return [op]
    each = zip(op.outputs, op.body, strict=True)
    return [made(ComputeOp(t.name, op.axis, (e,), op.attrs), [t]) for t, e in each]


def _attachment(x: Stage) -> Attachment:
    """Where a stage is computed: at its own place, or at that of the groups around it."""
    stage: Stage | None = x
    while stage is not None and stage.attachment.kind == "root":
        stage = stage.group
    return x.attachment if stage is None else stage.attachment


@contextmanager
def _named(call: MethodCall) -> Iterator[None]:
    """Errors of primitives as errors of the call that asked for them."""
    try:
        yield
    except ScheduleError as e:
        text = str(e)
        if text.startswith(str(call)):
            raise
        head, mark, reason = text.partition("): ")
        raise ScheduleError(f"{call}: {reason if mark else head}") from e
