"""A stage: how one operation is computed. It says so only; `lower_schedule` carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, FloatImm, IntImm, StringImm, Var, convert
from smelt.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from smelt.tir.nodes import IterVar
from smelt.tir.schedule.loops import THREAD_AXES
from smelt.tir.script_ops import PREFETCH

from .axes import (
    Relation,
    Reorder,
    ThreadAxis,
    Transform,
    after,
    among,
    fuse_axes,
    new_axis,
    singleton,
    split_axis,
)
from .call import MethodCall, listed
from .layout import Layout, layout_of

if TYPE_CHECKING:
    from .schedule import Schedule

SCOPES = ("global", "local", "shared")
"""Where a tensor can be kept; a part behind a dot, as in "shared.dyn", is for the target."""

PRAGMAS = (
    "auto_unroll_max_step", "auto_unroll_max_depth", "auto_unroll_max_extent", "unroll_explicit",
    "loop_partition_hint", "parallel_launch_point", "parallel_stride_pattern",
    "parallel_barrier_when_finish",
)  # fmt: skip
"""Advice about a loop, kept as the annotation pragma_<name>; it never changes results."""


@dataclass(frozen=True)
class Attachment:
    """Where a stage is computed: at the root, inline, or in each iteration of another's axis."""

    kind: str
    call: MethodCall
    parent: Stage | None = None
    axis: IterVar | None = None


@dataclass
class Treatment:
    """What is to be done with a leaf: the kind of its loop, annotations, an instruction."""

    kind: str = "serial"
    thread: ThreadAxis | None = None
    call: MethodCall | None = None
    pragmas: dict[str, tuple[MethodCall, Any]] = field(default_factory=dict)
    intrin: tuple[MethodCall, Any] | None = None


class Stage:
    """How one operation is computed: its axes, their order and kinds, and where.

    op              the operation as it is now; `origin_op` as the schedule was made
    scope           where the result is kept; "" is global memory
    leaf_iter_vars  the axes that become loops, outermost first
    """

    def __init__(self, schedule: Schedule, op: Operation | None, name: str) -> None:
        """The stage in its plain form: at the root, loops in the order of the axes."""
        self.schedule, self.name = schedule, name
        self.group: Stage | None = None
        self.scope = ""
        self.attachment = Attachment("root", MethodCall(f"s[{name}]", "compute_root"))
        self.treatments: dict[IterVar, Treatment] = {}
        self.aligned: list[tuple[MethodCall, int, int, int]] = []
        self.double: MethodCall | None = None
        self.rolling: MethodCall | None = None
        self._op = self._origin = op
        self.reset()

    def reset(self) -> None:
        """Forget what has been said about the axes of earlier operations."""
        op = self._op
        self.space: tuple[IterVar, ...] = op.axis if isinstance(op, ComputeOp) else ()
        self.reduce: tuple[IterVar, ...] = op.reduce_axis if isinstance(op, ComputeOp) else ()
        self.steps: list[tuple[MethodCall, Relation]] = []
        self.layouts: list[Layout] = []
        self.leaf_iter_vars: list[IterVar] = [*self.space, *self.reduce]

    # ------------------------------------------------------------------------------- queries

    @property
    def op(self) -> Any:
        """The operation as it is computed now."""
        return self._op

    @property
    def origin_op(self) -> Any:
        """The operation as it was when the schedule was made."""
        return self._origin

    def become(self, op: Operation) -> None:
        """Compute the same tensors by another operation from now on."""
        self._op = op

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """The axes of the operation and all that have been made of them."""
        op = self._op
        roots = (*op.axis, *op.reduce_axis) if isinstance(op, ComputeOp) else ()
        return [*roots, *[a for _, r in self.steps for a in r.made]]

    @property
    def relations(self) -> list[Relation]:
        """How axes were made of each other, in order."""
        return [r for _, r in self.steps if not isinstance(r, Reorder)]

    @property
    def is_output(self) -> bool:
        """Whether the schedule is there to compute this."""
        return self in self.schedule.output_stages

    def __repr__(self) -> str:
        return f"s[{self.name}]"

    # ------------------------------------------------------------------------------- axes

    def split(
        self,
        parent: IterVar,
        factor: ExprLike | None = None,
        nparts: ExprLike | None = None,
        disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        """Cut an axis in two, (outer, inner): inner has `factor` iterations, or outer `nparts`.

        disable_predication  the caller promises that nothing is left over; a split that would need
                             a condition for the rest is refused
        """
        options = {"factor": factor, "nparts": nparts, "disable_predication": disable_predication}
        call = self._call("split", parent, **options)
        return self._split(call, parent, factor, nparts, disable_predication)

    def fuse(self, *axes: IterVar) -> IterVar:
        """Make one axis of neighbouring ones; of none: an axis of one iteration, outermost."""
        call = self._call("fuse", *axes)
        if not axes:
            return self._take(call, singleton())[0]
        fused = self.leaf(call, axes[0])
        for axis in axes[1:]:
            fused = self._fuse(call, fused, axis)
        return fused

    def reorder(self, *axes: IterVar) -> None:
        """Put axes into an order; those that are not named keep their places."""
        call = self._call("reorder", *axes)
        self._reorder(call, axes)

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: ExprLike, y_factor: ExprLike
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Cut two axes into tiles: (x_outer, y_outer, x_inner, y_inner), in this order."""
        call = self._call("tile", x_parent, y_parent, x_factor, y_factor)
        x_outer, x_inner = self._split(call, x_parent, x_factor, None, False)
        y_outer, y_inner = self._split(call, y_parent, y_factor, None, False)
        self._reorder(call, (x_outer, y_outer, x_inner, y_inner))
        return x_outer, y_outer, x_inner, y_inner

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
        """Keep the result in another order: the axes become those of the new layout.

        mapping_function  from the indices of an element to its place in the new layout

        Returns the new axes; None for a placeholder, of which only the layout changes.
        """
        call = self._call("transform_layout", mapping_function)
        shape = self.layouts[-1].shape if self.layouts else self.op.outputs[0].shape
        computed = isinstance(self.op, ComputeOp)
        if not computed and not isinstance(self.op, PlaceholderOp):
            call.fail(f"{self.name} is written by a statement, not by an expression")
        for axis in self.space:
            self._plain_leaf(call, axis)
        layout = layout_of(call, mapping_function, self.name, shape, computed)
        self.layouts.append(layout)
        if not computed:
            return None
        new = tuple([new_axis(f"axis{k}", e) for k, e in enumerate(layout.shape)])
        self.space = self._take(call, Transform(self.space, new))
        return list(new)

    # ------------------------------------------------------------------------------- kinds

    def vectorize(self, var: IterVar) -> None:
        """Run the iterations of an axis as the lanes of vectors."""
        self._treat(self._call("vectorize", var), var, "vectorized")

    def parallel(self, var: IterVar) -> None:
        """Run the iterations of an axis on several threads."""
        self._treat(self._call("parallel", var), var, "parallel")

    def unroll(self, var: IterVar) -> None:
        """Write out the iterations of an axis one after another."""
        self._treat(self._call("unroll", var), var, "unrolled")

    def bind(self, ivar: IterVar, thread_ivar: ThreadAxis) -> None:
        """Give each iteration of an axis to a thread of a device."""
        call = self._call("bind", ivar, thread_ivar)
        if not isinstance(thread_ivar, ThreadAxis):
            call.fail("an axis is bound to a thread axis", 'te.thread_axis("threadIdx.x")')
        if thread_ivar.thread_tag not in THREAD_AXES:
            call.fail(f"there is no thread axis {thread_ivar.thread_tag!r}", ", ".join(THREAD_AXES))
        self._treat(call, ivar, "thread_binding", thread_ivar)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Give advice about the loop of an axis; it stands there as annotation pragma_<type>."""
        call = self._call("pragma", var, pragma_type, pragma_value=pragma_value)
        axis = self.leaf(call, var)
        if pragma_type in ("import_c", "import_llvm"):
            call.unsupported(
                "foreign code cannot be linked into a kernel",
                "te.extern, or tensorize with an instruction whose body is a tensor program",
            )
        if pragma_type not in PRAGMAS:
            call.fail(f"there is no advice {pragma_type!r}", ", ".join(PRAGMAS))
        value = 1 if pragma_value is None else _plain(call, pragma_value)
        self._treatment(axis).pragmas[f"pragma_{pragma_type}"] = call, value

    def tensorize(self, var: IterVar, tensor_intrin: Any) -> None:
        """Let an instruction do what the loop of an axis and those inside it do.

        tensor_intrin  what tir.Schedule.tensorize takes: a name, or (description, implementation)
        """
        call = self._call("tensorize", var)
        self._treatment(self.leaf(call, var)).intrin = call, tensor_intrin

    # ------------------------------------------------------------------------------- place

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute, in each iteration of an axis of a consumer, what that iteration needs."""
        call = self._call("compute_at", parent, scope)
        self._check_moves(call)
        self._check_parent(call, parent)
        parent.leaf(call, scope)
        self.attachment = Attachment("at", call, parent, scope)

    def _check_parent(self, call: MethodCall, parent: Stage) -> None:
        """A stage can be computed inside one that needs it."""
        if not isinstance(parent, Stage):
            call.fail(f"the parent is a stage, not {_kind_of(parent)}", "s[...] of a tensor")
        if parent is self:
            call.fail("a stage cannot be computed inside itself")
        if parent.schedule is not self.schedule:
            call.fail(f"{parent.name} is a stage of another schedule")
        if not self.schedule.needs(parent, self):
            users = [x.name for x in self.schedule.consumers(self)]
            call.fail(
                f"{parent.name} does not use {self.name}",
                f"an axis of {listed(users)}, or of a stage that uses it in turn",
            )
        outer = self.group
        inner = parent.group
        while inner is not None and inner is not outer:
            inner = inner.group
        if inner is not outer:
            call.fail(
                f"{parent.name} stands outside the group of {self.name}",
                "a stage of the same group, or compute_at of the whole group",
            )

    def compute_inline(self) -> None:
        """Compute each element where it is used."""
        call = self._call("compute_inline")
        self._check_moves(call)
        if not isinstance(self.op, ComputeOp):
            call.fail(f"{self.name} is written by a statement, not by an expression")
        if self.reduce:
            call.fail(
                f"{self.name} is a reduction: its result has to be stored before it can be used",
                "compute_at, compute_root",
            )
        self.attachment = Attachment("inline", call)

    def compute_root(self) -> None:
        """Compute all of it at once, before the first use."""
        self.attachment = Attachment("root", self._call("compute_root"))

    def _check_moves(self, call: MethodCall) -> None:
        if isinstance(self.op, PlaceholderOp):
            call.fail(f"{self.name} is given, not computed", "cache_read makes a copy of it")
        if self.is_output:
            call.fail(
                f"{self.name} is what the schedule computes: all of it has to be stored",
                "cache_write computes it somewhere else first",
            )

    # ------------------------------------------------------------------------------- storage

    def set_scope(self, scope: str) -> None:
        """Keep the result in another kind of memory."""
        call = self._call("set_scope", scope)
        check_scope(call, scope)
        if isinstance(self.op, PlaceholderOp):
            call.fail(f"{self.name} is given: the caller decides where it lives", "cache_read")
        self.scope = scope

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Ask for a stride of factor * n + offset elements along a dimension of the result."""
        call = self._call("storage_align", axis, factor, offset)
        places = [k for k, a in enumerate(self.space) if a is axis]
        if not places:
            names = ", ".join([a.var.name for a in self.space])
            call.fail(f"the dimensions of {self.name} are those of its own axes", names or "none")
        if factor < 1:
            call.fail(f"the factor {factor} is not positive", "factor >= 1")
        self.aligned.append((call, places[0], factor, offset))

    def double_buffer(self) -> None:
        """Ask for two copies of the result, to fill one while the other is used."""
        call = self._call("double_buffer")
        if len(self.op.outputs) > 1:
            call.fail(f"{self.name} makes {listed(self.op.outputs)}", "a stage of one result")
        self.double = call

    def rolling_buffer(self) -> None:
        """Keep what neighbouring iterations share in place of computing it again."""
        self.rolling = self._call("rolling_buffer")

    # ------------------------------------------------------------------------------- refused

    def env_threads(self, threads: ThreadAxis | Sequence[ThreadAxis]) -> None:
        """Not supported: threads that are there before a stage starts."""
        self._call("env_threads", threads).unsupported(
            "a stage cannot be started by threads that are there already",
            "bind the axes of the stage to the threads",
        )

    def set_store_predicate(self, predicate: ExprLike) -> None:
        """Not supported: a condition under which results are stored."""
        self._call("set_store_predicate", predicate).unsupported(
            "the elements for which the condition is false would never be made",
            "leave it out: threads that reduce together store their result once",
        )

    def prefetch(self, tensor: Tensor, var: IterVar, offset: ExprLike) -> None:
        """Ask for a tensor's elements ahead of time: those that an axis comes to `offset` later."""
        call = self._call("prefetch", tensor, var, offset)
        axis = self.leaf(call, var)
        ahead = value_of(convert(offset))
        if ahead is None or ahead < 1:
            call.fail(f"{offset} iterations ahead", "a number from 1 on")
        read = [t.name for t in self.op.input_tensors] if self.op is not None else []
        if tensor.name not in read:
            call.fail(f"{self.name} does not read {tensor.name}", ", ".join(read))
        pragmas = self._treatment(axis).pragmas
        _, wanted = pragmas.get(PREFETCH, (call, {}))
        pragmas[PREFETCH] = call, {**wanted, tensor.name: ahead}

    # ------------------------------------------------------------------------------- within

    def _call(self, name: str, *args: Any, **options: Any) -> MethodCall:
        """The call of a method, for messages."""
        return MethodCall(repr(self), name, *args, **options)

    def _take(self, call: MethodCall, step: Relation) -> tuple[IterVar, ...]:
        """Note a step; the axes that it makes."""
        self.steps.append((call, step))
        self.leaf_iter_vars = after(self.leaf_iter_vars, step)
        return step.made

    def _position(self, axis: IterVar) -> int:
        return [a is axis for a in self.leaf_iter_vars].index(True)

    def leaf(self, call: MethodCall, axis: Any) -> IterVar:
        """An axis that can be worked on now; where it is none, what has become of it."""
        if not isinstance(axis, IterVar):
            call.fail(f"an axis is expected, {_kind_of(axis)} was given", self._axes())
        if among(axis, self.leaf_iter_vars):
            return axis
        name = axis.var.name
        for step, r in self.steps:
            if among(axis, r.used):
                made = listed(r.made)
                call.fail(
                    f"{name} is no axis of {self.name} any more: {step} made {made} of it",
                    self._axes(),
                )
        for other in self.schedule.stages:
            if among(axis, other.all_iter_vars):
                call.fail(f"{name} is an axis of {other.name}, not of {self.name}", self._axes())
        return call.fail(f"{name} is no axis of {self.name}", self._axes())

    def _axes(self) -> str:
        names = ", ".join([a.var.name for a in self.leaf_iter_vars])
        return f"an axis of {self.name}: {names}" if names else f"none: {self.name} has no axes"

    def _treatment(self, axis: IterVar) -> Treatment:
        return self.treatments.setdefault(axis, Treatment())

    def _split(
        self,
        call: MethodCall,
        parent: IterVar,
        factor: ExprLike | None,
        nparts: ExprLike | None,
        exact: bool,
    ) -> tuple[IterVar, IterVar]:
        parent = self._plain_leaf(call, parent)
        if factor is None and nparts is None:
            call.fail("how far to split is not said", "factor= or nparts=")
        if factor is not None and nparts is not None:
            call.fail("factor and nparts are both given", "one of them: the other one follows")
        width = None if factor is None else _count(call, factor)
        parts = None if nparts is None else _count(call, nparts)
        outer, inner = self._take(call, split_axis(parent, width, parts, exact))
        return outer, inner

    def _fuse(self, call: MethodCall, outer: IterVar, inner: IterVar) -> IterVar:
        outer, inner = self._plain_leaf(call, outer), self._plain_leaf(call, inner)
        first, second = self._position(outer), self._position(inner)
        if second + 1 == first:
            outer, inner = inner, outer
        elif first + 1 != second:
            order = ", ".join([a.var.name for a in self.leaf_iter_vars])
            call.fail(
                f"{outer.var.name} and {inner.var.name} are not neighbours in {order}",
                "neighbouring axes, outermost first; reorder makes them neighbours",
            )
        return self._take(call, fuse_axes(outer, inner))[0]

    def _plain_leaf(self, call: MethodCall, axis: Any) -> IterVar:
        """A leaf of which nothing has been asked: what was would be lost with it."""
        leaf = self.leaf(call, axis)
        t = self.treatments.get(leaf, Treatment())
        for asked in (t.call, t.intrin and t.intrin[0], *[c for c, _ in t.pragmas.values()]):
            if asked is not None:
                call.fail(
                    f"{asked} was asked of {leaf.var.name}, which this takes away",
                    "split and fuse first, then say what becomes of the new axes",
                )
        return leaf

    def _reorder(self, call: MethodCall, axes: Sequence[IterVar]) -> None:
        order = [self.leaf(call, a) for a in axes]
        for k, a in enumerate(order):
            if among(a, order[:k]):
                call.fail(f"{a.var.name} is named twice", "each axis once")
        rest = iter(order)
        leaves = [next(rest) if among(a, order) else a for a in self.leaf_iter_vars]
        self._take(call, Reorder(order=tuple(leaves)))

    def _treat(
        self, call: MethodCall, axis: IterVar, kind: str, thread: ThreadAxis | None = None
    ) -> None:
        """Say what kind of loop an axis becomes; a later word replaces an earlier one."""
        leaf = self.leaf(call, axis)
        name = leaf.var.name
        together = thread is not None and thread.thread_tag.startswith("threadIdx")
        if leaf.kind == "reduce" and kind != "unrolled" and not together:
            spatial = [a.var.name for a in self.leaf_iter_vars if a.kind != "reduce"]
            call.fail(
                f"{name} is a reduction axis: its iterations add to the same elements",
                f"{', '.join(spatial) or 'no axis'} of {self.name}; "
                "rfactor makes a reduction parallel",
            )
        t = self._treatment(leaf)
        if t.thread is not None:
            call.fail(f"{name} is bound to {t.thread.thread_tag} already by {t.call}")
        t.kind, t.thread, t.call = kind, thread, call


def check_scope(call: MethodCall, scope: str) -> None:
    """Refuse a kind of memory that there is not."""
    if scope.split(".")[0] not in SCOPES:
        call.fail(f"there is no scope {scope!r}", ", ".join(SCOPES))


def _count(call: MethodCall, value: Any) -> Expr:
    """A factor: a positive number, or an expression of sizes."""
    if isinstance(value, IterVar) or not isinstance(value, Expr | int) or isinstance(value, bool):
        call.fail(f"a number of iterations is expected, {_kind_of(value)} was given")
    count = convert(value, INDEX)
    known = value_of(count)
    if known is not None and known < 1:
        call.fail(f"{known} is no number of iterations", "a number from 1 on")
    return count


def _kind_of(v: Any) -> str:
    """A thing given in the place of another, for messages."""
    if isinstance(v, Tensor):
        return f"the tensor {v.name}"
    if isinstance(v, IterVar):
        return f"the axis {v.var.name}"
    if isinstance(v, Var):
        return f"the variable {v.name}"
    return f"{type(v).__name__} {v!r}"


def _plain(call: MethodCall, v: Any) -> Any:
    """The value of an annotation: a number or text."""
    value = v.value if isinstance(v, IntImm | FloatImm | StringImm) else v
    if not isinstance(value, str | int | float):
        call.fail(f"{type(v).__name__} cannot be the value of a pragma", "a number or a text")
    return value
