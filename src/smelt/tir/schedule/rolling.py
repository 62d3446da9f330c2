"""rolling_buffer: a buffer of which only a window is kept while a loop moves it along."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.ir.build import all_of, any_of
from smelt.ir.expr import Expr, Var
from smelt.ir.walk import free_vars, substitute
from smelt.tir.nodes import BlockRealize, Buffer, For

from .cache import buffer_at
from .exchange import Relayout, is_outer, transform_accesses
from .predicate import require_unguarded
from .primitive import Base, primitive
from .region import touched
from .require import Kind, require_finished, require_kind, require_readers
from .state import State


class RollingPrimitives(Base):
    """rolling_buffer."""

    @primitive
    def rolling_buffer(self, block: str, write_buffer_index: int | str | Buffer) -> None:
        """Keep just the window of a buffer that a loop moves along, and compute what is new in it.

        The block's variable along the window becomes opaque: its iterations depend on each other.

        Before
            B = T.alloc_buffer((10,))
            for i in range(4):
                for ax0 in range(4):
                    with T.block("B"):
                        v = T.axis.spatial(10, i * 2 + ax0)
                        B[v] = A[v] + 1.0
                for j in range(2):
                    with T.block("C"):
                        w = T.axis.spatial(8, i * 2 + j)
                        C[w] = B[w] + B[w + 2]
        Step    rolling_buffer("B", 0)
        After
            B = T.alloc_buffer((4,))
            for i in range(4):
                for ax0 in range(4):
                    with T.block("B"):
                        T.where(i < 1 or ax0 >= 2)
                        v = T.axis.opaque(10, i * 2 + ax0)
                        B[v % 4] = A[v] + 1.0
                for j in range(2):
                    with T.block("C"):
                        w = T.axis.spatial(8, i * 2 + j)
                        C[w] = B[w % 4] + B[(w + 2) % 4]
        Needs   a complete or reduction block, all of whose consumers stand behind it in one loop of
                its nest (see compute_at), that writes an intermediate buffer there; a serial loop
                by which the part written moves on by less than its length.
        """
        s, b = self._at(block)
        buffer = buffer_at(s, b, "write", write_buffer_index)
        _Rolling(s, b, buffer).carry_out()


@dataclass
class _Window:
    """A dimension whose part in use moves along with a loop.

    low      where the part begins, in terms of the loops
    extent   its length
    overlap  how much of it the iteration before has had too
    """

    dim: int
    loop: For
    low: Expr
    extent: Expr
    overlap: Expr


class _Rolling:
    """One call of rolling_buffer."""

    def __init__(self, s: State, b: BlockRealize, buffer: Buffer) -> None:
        """Find the loop that moves the window and check that it may."""
        self.s, self.b, self.buffer = s, b, buffer
        require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
        require_unguarded(s, b, "elements that are skipped would never be made")
        self.consumers = self._consumers()
        self.shared = self._shared_loops()
        inner = s.loops_between(b, self.shared[-1])
        region = next(w for w in b.block.writes if w.buffer is buffer)
        self.box = touched(s, b, region, inner)
        self.region = region
        self._check_covered()
        self.windows = self._windows()

    def _consumers(self) -> list[BlockRealize]:
        s, b, buffer = self.s, self.b, self.buffer
        if buffer in s.func.params or buffer not in s.scope(b).block.alloc_buffers:
            s.fail(
                f"{buffer.name} is a parameter, or belongs to another block",
                mark={b: f"writes {buffer.name}"},
                legal="an intermediate buffer",
            )
        found = require_readers(s, b, buffer)
        for r in found:
            if is_outer(r.block) or is_outer(b.block):
                s.fail(
                    f"{r.block.name if is_outer(r.block) else b.block.name} has blocks inside",
                    mark={r: "consumer", b: "producer"},
                    legal="blocks without blocks inside",
                )
        return found

    def _shared_loops(self) -> list[For]:
        """The loops around the block and all its consumers, outermost first."""
        s, b = self.s, self.b
        shared = [x for x in s.loops_above(b) if all(s.is_under(c, x) for c in self.consumers)]
        if not shared:
            s.fail(
                f"no loop holds {b.block.name} and all its consumers",
                mark={b: "producer", self.consumers[0]: "consumer"},
                legal=f"the same after compute_at({b.block.name!r}, ...)",
            )
        require_finished(s, b, shared)
        return shared

    def _check_covered(self) -> None:
        """What the consumers use in one iteration is what the block makes in it."""
        s, inside = self.s, self.shared[-1]
        for c in self.consumers:
            for r in c.block.reads:
                if r.buffer is not self.buffer:
                    continue
                need = touched(s, c, r, s.loops_between(c, inside))
                if not s.facts.covers(self.box, need, self.buffer.shape):
                    s.cannot_prove(
                        f"{c.block.name} uses only what {self.b.block.name} makes in the same "
                        f"iteration of {inside.var.name}",
                        mark={c: f"uses {self.buffer.name}", self.b: "makes it"},
                        legal="a producer as compute_at places it",
                    )

    def _windows(self) -> list[_Window]:
        """The dimensions with an overlap, that of the outermost loop first."""
        s = self.s
        found = [w for d in range(self.buffer.rank) if (w := self._window(d)) is not None]
        found.sort(key=lambda w: self.shared.index(w.loop))
        if not found:
            s.cannot_prove(
                f"the part of {self.buffer.name} in use overlaps that of the next iteration",
                mark={self.b: "producer", self.shared[-1]: "loop"},
                legal="a loop that moves one dimension only, by less than the length in use",
            )
        for w in found:
            if w.loop.kind != "serial":
                s.fail(
                    f"{w.loop.var.name} is {w.loop.kind}: its iterations would need what earlier "
                    "ones have made",
                    mark={w.loop: w.loop.kind},
                    legal="a serial loop",
                )
        return found

    def _window(self, dim: int) -> _Window | None:
        """How a dimension moves; None where it does not, or not with one loop, or no overlap.

        A loop that moves other dimensions too is none: an overlap then holds new elements.
        """
        facts = self.s.facts
        low, high = self.box[dim]
        extent = facts.extent(low, high)
        moving = [x for x in self.shared if x.var in free_vars(low)]
        if len(moving) != 1 or any(x.var in free_vars(extent) for x in self.shared):
            return None
        others = [e for d, ends in enumerate(self.box) if d != dim for e in ends]
        if any(moving[0].var in free_vars(e) for e in others):
            return None
        step = facts.step(low, moving[0].var)
        if step is None or not facts.prove(step >= 1) or not facts.prove(extent > step):
            return None
        return _Window(dim, moving[0], low, extent, facts.simplify(extent - step))

    def carry_out(self) -> None:
        """Change the program."""
        s, b, first = self.s, self.b, self.windows[0]
        values: dict[Var, Expr] = b.var_values
        fresh = []
        for w in self.windows:
            at = s.facts.simplify(substitute(self.region.region[w.dim].min, values) - w.low)
            begins = w.loop.var < s.facts.simplify(w.loop.min + 1)
            fresh.append(any_of(begins, s.facts.simplify(at >= w.overlap)))
        shape = list(self.buffer.shape)
        shape[first.dim] = first.extent
        new = self.buffer.replace(shape=tuple(shape), strides=())

        def at_window(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
            out = list(indices)
            out[first.dim] = s.facts.simplify(out[first.dim] % first.extent)
            return tuple(out)

        name = b.block.name
        transform_accesses(s, self.buffer, new, Relayout(self.buffer, new, at_window))
        moved = s.realize(name)
        carried = {w.loop.var for w in self.windows}
        iters = tuple(
            [i.replace(kind="opaque") if free_vars(v) & carried else i for i, v in moved.bindings]
        )
        guard, block = all_of(moved.predicate, *fresh), moved.block.replace(iter_vars=iters)
        s.replace({moved: BlockRealize(moved.values, guard, block)})
