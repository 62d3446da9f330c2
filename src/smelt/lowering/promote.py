"""Elements that a loop updates again and again stay in registers while it runs."""

from __future__ import annotations

from functools import cache

from smelt.arith import Analyzer, Answer
from smelt.ir import dtype as dt
from smelt.ir.build import any_of
from smelt.ir.expr import INDEX, Call, Expr, IntImm, Ramp, Var, const
from smelt.ir.walk import free_vars
from smelt.tir import nodes as tir
from smelt.tir.rewrite import Indices, Rewriter, loads
from smelt.tir.script_ops import expressions

from .ranges import RangeRewriter, analyzer_for

_ROOM = 28 * 64
"""Bytes of accumulators in one loop: more would not stay in the registers of any CPU."""


def promote_accumulators(func: tir.PrimFunc) -> tir.PrimFunc:
    """Elements at a place that a serial loop does not change are loaded before it, stored after it.

    Only where the loop surely stores it, and all that the loop does with the buffer is at such
    places, each the same as another or disjoint from it. Buffers are taken not to overlap.
    """
    return _Promote(analyzer_for(func)).program(func)


class _Uses:
    """What a loop's body does with each buffer, but for its loads."""

    def __init__(self) -> None:
        self.stored: dict[tir.Buffer, dict[Expr, bool]] = {}  # index: whether it is surely stored
        self.inner: set[Var] = set()
        self.made: set[tir.Buffer] = set()
        self.opaque = False

    def store(self, buffer: tir.Buffer, index: Expr, surely: bool) -> None:
        places = self.stored.setdefault(buffer, {})
        places[index] = surely or places.get(index, False)

    def include(self, loop: tir.For, uses: _Uses, surely: bool) -> None:
        """A loop inside, whose body has these uses."""
        surely = surely and isinstance(loop.extent, IntImm) and loop.extent.value > 0
        for b, places in uses.stored.items():
            for index, always in places.items():
                self.store(b, index, surely and always)
        self.inner |= uses.inner | {loop.var}
        self.made |= uses.made
        kinds = ("serial", "unrolled", "vectorized")
        self.opaque = self.opaque or uses.opaque or loop.kind not in kinds


class _Promote(RangeRewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.uses = cache(self._uses)

    def expr(self, e: Expr) -> Expr:
        return e

    def _uses(self, loop: tir.For) -> _Uses:
        """What a loop does; remembered for the loops around it."""
        found = _Uses()
        self._visit(loop.body, True, found)
        return found

    def _visit(self, s: tir.Stmt, surely: bool, uses: _Uses) -> None:
        match s:
            case tir.BufferStore():
                uses.store(s.buffer, s.indices[0], surely)
                return
            case tir.For():
                uses.include(s, self.uses(s), surely)
                return
            case tir.LetStmt():
                uses.inner.add(s.var)
            case tir.Allocate() | tir.AllocateConst():
                uses.made.add(s.buffer)
            case tir.IfThenElse() | tir.While() | tir.AssertStmt():
                surely = False
            case tir.Evaluate():
                uses.opaque = uses.opaque or not tir.is_no_op(s)
        for part in tir.sub_statements(s):
            self._visit(part, surely, uses)

    def loop(self, s: tir.For) -> tir.Stmt:
        """The outermost loop that can keep a place does: those inside then find it kept."""
        uses = self.uses(s) if s.kind == "serial" else None
        found = {} if uses is None or uses.opaque else self._accumulators(s, uses)
        if not found:
            return super().loop(s)
        places, before, after, registers = _kept(found)
        inner = super().loop(s.replace(body=_Replace(places).stmt(s.body)))
        stmt = tir.seq(*before, inner, *after)
        for register in reversed(registers):
            stmt = tir.Allocate(register, stmt)
        sure = isinstance(s.extent, IntImm) and s.extent.value > 0
        return stmt if sure else tir.IfThenElse(s.extent > 0, stmt)

    def _accumulators(self, loop: tir.For, uses: _Uses) -> dict[tir.Buffer, list[Expr]]:
        """Per buffer the places that can stay in registers: all of them or none."""
        inside = uses.inner | {loop.var}
        found = {
            b: list(places)
            for b, places in uses.stored.items()
            if b not in uses.made
            and b.scope != "local"
            and all(places.values())
            and not any(free_vars(i) & inside or loads(i) for i in places)
        }
        for e in expressions(*tir.walk(loop.body)) if found else ():
            if isinstance(e, Call) and e.op.startswith(("smelt.", "call_llvm_intrin")):
                return {}
            if isinstance(e, tir.BufferLoad) and e.indices[0] not in found.get(e.buffer, e.indices):
                del found[e.buffer]
        room = _ROOM
        for b, places in list(found.items()):
            size = sum(dt.bytes_of(b.type) * dt.lanes(i.dtype) for i in places)
            disjoint = all(self._disjoint(x, y) for n, x in enumerate(places) for y in places[:n])
            if size <= room and disjoint and all(_is_dense(i) for i in places):
                room -= size
            else:
                del found[b]
        return found

    def _disjoint(self, x: Expr, y: Expr) -> bool:
        """Whether two places have no element in common, surely."""
        (a, m), (b, n) = _extent(x), _extent(y)
        separate = any_of(a + m <= b, b + n <= a)
        return self.analyzer.prove(separate) is Answer.YES


_Places = dict[tuple[tir.Buffer, Expr], tuple[tir.Buffer, Expr]]


def _kept(
    found: dict[tir.Buffer, list[Expr]],
) -> tuple[_Places, list[tir.Stmt], list[tir.Stmt], list[tir.Buffer]]:
    """Registers for places: which for which, and the statements that fill and store them."""
    places: _Places = {}
    before: list[tir.Stmt] = []
    after: list[tir.Stmt] = []
    for b, indices in found.items():
        for n, i in enumerate(indices):
            lanes = dt.lanes(i.dtype)
            name = f"{b.name}_acc" + (f"_{n}" if n else "")
            register = tir.Buffer(name, (const(lanes, INDEX),), b.type, "local")
            zero = const(0, INDEX)
            at = zero if lanes == 1 else Ramp(zero, const(1, INDEX), lanes)
            places[b, i] = register, at
            before.append(tir.BufferStore(register, tir.BufferLoad(b, (i,)), (at,)))
            after.append(tir.BufferStore(b, tir.BufferLoad(register, (at,)), (i,)))
    return places, before, after, [register for register, _ in places.values()]


def _extent(place: Expr) -> tuple[Expr, int]:
    return (place.base, place.lanes) if isinstance(place, Ramp) else (place, 1)


def _is_dense(place: Expr) -> bool:
    if isinstance(place, Ramp):
        return isinstance(place.stride, IntImm) and place.stride.value == 1
    return dt.lanes(place.dtype) == 1


class _Replace(Rewriter):
    """The loop's body with registers in place of elements."""

    def __init__(self, places: _Places) -> None:
        super().__init__()
        self.places = places

    def access(self, b: tir.Buffer, indices: Indices) -> tuple[tir.Buffer, Indices]:
        register, at = self.places.get((b, indices[0]), (b, indices[0]))
        return register, (at,)
