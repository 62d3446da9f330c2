"""Random classic schedules that are legal by construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from smelt import te
from smelt.ir.build import value_of
from smelt.tir.nodes import IterVar

from .programs import COMPUTATIONS, Args, outputs

Place = tuple[te.Stage, IterVar]


class Scheduler:
    """One random schedule of one computation; `log` has the calls as text."""

    def __init__(self, draw: Any, args: Args) -> None:
        self.draw, self.args = draw, args
        self.log: list[str] = []
        self.s = te.create_schedule(outputs(args))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) < percent)

    def pick(self, items: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def note(self, text: str) -> None:
        self.log.append(text)

    def computed(self) -> list[te.Stage]:
        return [x for x in self.s.stages if isinstance(x.op, te.ComputeOp)]

    def run(self) -> te.Schedule:
        for _ in range(self.draw(st.integers(0, 2))):
            self.rewrite()
        for x in reversed(self.computed()):
            if x.is_output or x.reduce or not self.chance(30):
                self.shape(x)
                self.attach(x)
            else:
                self.note(f"{x}.compute_inline()")
                x.compute_inline()
        for x in self.computed():
            self.treat(x)
        return self.s

    # ------------------------------------------------------------------------------- rewriting

    def rewrite(self) -> None:
        {"read": self.cache_read, "write": self.cache_write, "rfactor": self.rfactor}[
            self.pick(["read", "write", "rfactor"])
        ]()

    def cache_read(self) -> None:
        used = [(t, x) for x in self.computed() for t in x.op.inputs]
        t, x = self.pick(used)
        scope = self.pick(["local", "global", "shared"])
        self.note(f"s.cache_read({t.name}, {scope!r}, [{x.name}])")
        self.s.cache_read(t, scope, [x.op])

    def cache_write(self) -> None:
        x = self.pick(self.computed())
        scope = self.pick(["local", "global"])
        if self.chance(25):
            self.shape(x, fusing=not x.reduce)
        self.note(f"s.cache_write({[t.name for t in x.op.outputs]}, {scope!r})")
        self.s.cache_write(list(x.op.outputs), scope)

    def rfactor(self) -> None:
        reductions = [x for x in self.computed() if x.reduce]
        if not reductions:
            return
        x = self.pick(reductions)
        axis = self.pick([a for a in x.leaf_iter_vars if a.kind == "reduce"])
        if self.chance(70):
            factor = self.pick([2, 3, 4])
            self.note(f"{x}.split({axis.var.name}, {factor})")
            axis = self.pick(x.split(axis, factor=factor))
        place = self.draw(st.integers(-1 - len(x.op.axis), len(x.op.axis)))
        self.note(f"s.rfactor({x.op.outputs[0].name}, {axis.var.name}, {place})")
        self.s.rfactor(x.op.outputs[0], axis, place)

    # ------------------------------------------------------------------------------- axes

    def shape(self, x: te.Stage, fusing: bool = True) -> None:
        for _ in range(self.draw(st.integers(0, 3))):
            leaves = x.leaf_iter_vars
            if not leaves:
                return
            what = self.pick(["split", "nparts", "reorder", "fuse"])
            if what in ("split", "nparts"):
                axis, count = self.pick(leaves), self.pick([1, 2, 3, 4, 5, 8, 16])
                self.note(f"{x}.split({axis.var.name}, {what}={count})")
                x.split(axis, **{"factor" if what == "split" else what: count})
            elif what == "reorder":
                order = self.draw(st.permutations(leaves))[: self.draw(st.integers(1, len(leaves)))]
                self.note(f"{x}.reorder({', '.join(a.var.name for a in order)})")
                x.reorder(*order)
            elif fusing and len(leaves) > 1:
                at = self.draw(st.integers(0, len(leaves) - 2))
                a, b = leaves[at : at + 2]
                if a.kind == b.kind:
                    self.note(f"{x}.fuse({a.var.name}, {b.var.name})")
                    x.fuse(a, b)

    # ------------------------------------------------------------------------------- place

    def attach(self, x: te.Stage) -> None:
        places = self.places(x)
        if x.is_output or not places or not self.chance(70):
            return
        parent, axis = self.pick(places)
        self.note(f"{x}.compute_at({parent}, {axis.var.name})")
        x.compute_at(parent, axis)

    def places(self, x: te.Stage) -> list[Place]:
        """The axes that stand around all uses of a stage's results."""
        common: list[Place] | None = None
        for user in self.users(x):
            around = self.around(user)
            common = around if common is None else [p for p in common if _has(around, p)]
        return common or []

    def users(self, x: te.Stage) -> list[te.Stage]:
        out: list[te.Stage] = []
        for c in self.s.consumers(x):
            out += self.users(c) if c.attachment.kind == "inline" else [c]
        return out

    def around(self, x: te.Stage) -> list[Place]:
        """All axes around a stage's computation, its own included."""
        own = [(x, a) for a in x.leaf_iter_vars]
        parent, axis = x.attachment.parent, x.attachment.axis
        if parent is None:
            return own
        outer = self.around(parent)
        cut = [p[0] is parent and p[1] is axis for p in outer].index(True)
        return outer[: cut + 1] + own

    # ------------------------------------------------------------------------------- kinds

    def treat(self, x: te.Stage) -> None:
        if x.attachment.kind == "inline":
            return
        for axis in x.leaf_iter_vars:
            small = (value_of(axis.dom.extent) or 99) <= 16
            kinds = ["serial"] * 4 + (["unroll"] if small else [])
            if axis.kind == "spatial":
                kinds += ["parallel"] + (["vectorize"] if small and not self.holds(x, axis) else [])
            kind = self.pick(kinds)
            if kind != "serial":
                self.note(f"{x}.{kind}({axis.var.name})")
                getattr(x, kind)(axis)

    def holds(self, x: te.Stage, axis: IterVar) -> bool:
        """Whether another stage is computed inside an axis: lanes have nothing for themselves."""
        places = [y.attachment for y in self.s.stages if y.attachment.parent is x]
        inner = x.leaf_iter_vars[x.leaf_iter_vars.index(axis) :]
        return any(at.axis is a for at in places for a in inner)


def _has(places: Sequence[Place], p: Place) -> bool:
    return any(q[0] is p[0] and q[1] is p[1] for q in places)


@st.composite
def schedules(draw: Any, computation: str) -> tuple[te.Schedule, Args, list[str]]:
    """A schedule of a computation, its arguments, and the calls that made it."""
    args = COMPUTATIONS[computation]()
    scheduler = Scheduler(draw, args)
    return scheduler.run(), args, scheduler.log
