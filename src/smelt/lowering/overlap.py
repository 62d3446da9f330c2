"""Iterations of a loop overlap: while one computes, the next one's data are fetched already.

    for i in range(n):          load(0)
        load(i)                 for i in range(1, n):
        use(i)           ->         load(i)
                                    use(i - 1)
                                use(n - 1)

What an iteration keeps in buffers of its own has as many copies as iterations are under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from smelt.arith import Analyzer
from smelt.ir.build import all_of
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, IntImm, Var, const
from smelt.ir.walk import substitute
from smelt.tir import nodes as tir
from smelt.tir.rewrite import Indices, Rewriter, renamed
from smelt.tir.script_ops import is_pure

from .accesses import Access, accesses
from .ranges import RangeRewriter, analyzer_for
from .safe import require_flat

STAGE, ORDER = "software_pipeline_stage", "software_pipeline_order"
DOUBLE_BUFFER = "double_buffer_scope"


class _Part(NamedTuple):
    """A statement of the body: how many iterations later it runs, its place among the others."""

    stmt: tir.Stmt
    stage: int
    order: int
    accesses: list[Access]

    def touches(self, b: tir.Buffer) -> bool:
        return any(a.buffer is b for a in self.accesses)


class _Pipeline:
    """One loop on its way."""

    def __init__(
        self,
        who: str,
        loop: tir.For,
        stages: Sequence[int],
        order: Sequence[int],
        analyzer: Analyzer,
    ) -> None:
        self.who, self.loop, self.analyzer = who, loop, analyzer
        self.own: list[tir.Allocate] = []
        body = loop.body
        while isinstance(body, tir.Allocate):
            self.own.append(body)
            body = body.body
        stmts = body.stmts if isinstance(body, tir.Seq) else (body,)
        for name, given in ((STAGE, stages), (ORDER, order)):
            if len(given) != len(stmts):
                raise CompileError(
                    f"{who}: {name} of the loop {loop.var.name} has {len(given)} entries; the "
                    f"body has {len(stmts)} statements"
                )
        if sorted(order) != list(range(len(order))):
            raise CompileError(
                f"{who}: {ORDER} of the loop {loop.var.name} is {list(order)}; legal: each of "
                f"0 ... {len(order) - 1} once"
            )
        first = min(stages)
        self.parts = [
            _Part(s, n - first, o, accesses(s))
            for s, n, o in zip(stmts, stages, order, strict=True)
        ]
        self.last = max(stages) - first
        self.copies: dict[tir.Buffer, tuple[tir.Buffer, int]] = {}

    # ------------------------------------------------------------------------------ legality

    def check(self) -> None:
        """Refuse an order in which a statement would not see what it sees now."""
        if self.loop.kind != "serial":
            raise CompileError(
                f"{self.who}: the loop {self.loop.var.name} is {self.loop.kind}; legal: serial"
            )
        for p in self.parts:
            if any(_has_effect(s) for s in tir.walk(p.stmt)):
                raise CompileError(
                    f"{self.who}: a statement in the loop {self.loop.var.name} has an effect other "
                    "than storing, so that it cannot run at another time"
                )
        own = {a.buffer for a in self.own}
        for n, x in enumerate(self.parts):
            for m, y in enumerate(self.parts):
                for b in {a.buffer for a in x.accesses}:
                    self._keeps(x, y, b, 0 if n < m else 1, b in own)

    def _keeps(self, x: _Part, y: _Part, b: tir.Buffer, first: int, own: bool) -> None:
        """x in one iteration stays before y in it or a later one, where both touch an element.

        first  1 where y is not behind x in one iteration
        own    each iteration has the buffer for itself
        """
        for later in range(first, 1 if own else x.stage - y.stage + 1):
            if (x.stage, x.order) < (later + y.stage, y.order):
                continue
            pairs = [
                (p, q)
                for p in x.accesses
                for q in y.accesses
                if p.buffer is b and q.buffer is b and (p.store or q.store)
            ]
            if not all(self._disjoint(p, q, later) for p, q in pairs):
                raise CompileError(
                    f"{self.who}: cannot prove that the statements of the loop "
                    f"{self.loop.var.name} may change places: both touch {b.name}, "
                    + (f"{later} iterations apart" if later else "in one iteration")
                )

    def _disjoint(self, x: Access, y: Access, later: int) -> bool:
        """Whether an access and one some iterations later certainly touch different elements."""
        v = self.loop.var
        inside = self.analyzer.inside({v: (self.loop.min, self.loop.extent)})
        moved = {v: v + const(later, v.type)}
        domains = {w: tuple(substitute(e, moved) for e in d) for w, d in y.domains.items()}
        for i, j in zip(x.indices, y.indices, strict=True):
            a = inside.interval(i, x.domains)
            b = inside.interval(substitute(j, moved), domains)  # type: ignore[arg-type]
            if a is None or b is None:
                continue
            if inside.can_prove(a[1] < b[0]) or inside.can_prove(b[1] < a[0]):
                return True
        return False

    # --------------------------------------------------------------------------------- result

    def result(self) -> tir.Stmt:
        """The loop with its parts at their times, and what runs before and after it."""
        self.check()
        for a in self.own:
            users = [p.stage for p in self.parts if p.touches(a.buffer)]
            count = max(users) - min(users) + 1 if users else 1
            self.copies[a.buffer] = (_wide(a.buffer, count), count)
        low, extent, last = self.loop.min, self.loop.extent, self.last
        if isinstance(extent, IntImm) or self.analyzer.can_prove(extent >= last):
            n = extent.value if isinstance(extent, IntImm) else last
            before = [self.at(low + k, k, n) for k in range(min(last, n + last))]
            rest = range(last, n + last) if n < last else range(n, n + last)
            if isinstance(extent, IntImm):
                after = [self.at(low + k, k, n) for k in rest]
            else:
                after = [self.at(low + extent + k, last + k, last) for k in range(last)]
            middle = [self.steady()] if not isinstance(extent, IntImm) or n > last else []
            stmt = tir.seq(*before, *middle, *after)
        else:
            stmt = self.guarded()
        for a in reversed(self.own):
            notes = {k: v for k, v in a.annotations.items() if k != DOUBLE_BUFFER}
            stmt = tir.Allocate(self.copies[a.buffer][0], stmt, notes)
        return stmt

    def in_order(self) -> list[_Part]:
        return sorted(self.parts, key=lambda p: p.order)

    def at(self, time: Expr, k: int, iterations: int) -> tir.Stmt:
        """What runs at one time, `k` after the beginning of a loop of so many iterations."""
        found = [p for p in self.in_order() if 0 <= k - p.stage < iterations]
        return tir.seq(*[self.iteration(p, time - p.stage) for p in found])

    def steady(self) -> tir.Stmt:
        """The loop in which all stages run."""
        v = Var(self.loop.var.name, self.loop.var.type)
        body = tir.seq(*[self.iteration(p, v - p.stage) for p in self.in_order()])
        return self._loop(v, self.loop.min + self.last, self.loop.extent - self.last, body)

    def guarded(self) -> tir.Stmt:
        """One loop with a condition for each stage: for an extent that may be small."""
        v = Var(self.loop.var.name, self.loop.var.type)
        end = self.loop.min + self.loop.extent
        parts: list[tir.Stmt] = []
        for p in self.in_order():
            conditions = [v - p.stage >= self.loop.min] if p.stage else []
            conditions += [v - p.stage < end] if p.stage < self.last else []
            stmt = self.iteration(p, v - p.stage)
            parts.append(tir.IfThenElse(all_of(conditions), stmt) if conditions else stmt)
        return self._loop(v, self.loop.min, self.loop.extent + self.last, tir.seq(*parts))

    def _loop(self, v: Var, low: Expr, extent: Expr, body: tir.Stmt) -> tir.Stmt:
        notes = {k: x for k, x in self.loop.annotations.items() if k not in (STAGE, ORDER)}
        return tir.For(v, low, extent, body, "serial", None, notes)

    def iteration(self, p: _Part, value: Expr) -> tir.Stmt:
        """A statement for one value of the loop's variable, with its own copies of buffers."""
        return _Iteration(self, value).stmt(renamed(p.stmt))


class _Iteration(Rewriter):
    def __init__(self, pipeline: _Pipeline, value: Expr) -> None:
        super().__init__()
        self.memo[pipeline.loop.var] = value
        self.copies = pipeline.copies
        self.iteration = pipeline.analyzer.simplify(value - pipeline.loop.min)

    def access(self, b: tir.Buffer, indices: Indices) -> tuple[tir.Buffer, Indices]:
        """Where an element of an iteration's buffer stands."""
        wide, count = self.copies.get(b, (b, 1))
        if count == 1:
            return wide, indices
        copy = self.iteration % count
        if not b.shape:
            return wide, (copy,)
        return wide, (indices[0] + copy * b.shape[0], *indices[1:])


def _wide(b: tir.Buffer, count: int) -> tir.Buffer:
    """A buffer with room for some copies, one behind the other."""
    if count == 1:
        return b
    shape = (b.shape[0] * count, *b.shape[1:]) if b.shape else (const(count),)
    return b.replace(shape=shape, strides=())


def _has_effect(s: tir.Stmt) -> bool:
    return isinstance(s, tir.AssertStmt | tir.While) or (
        isinstance(s, tir.Evaluate) and not is_pure(s.value)
    )


class _Annotated(RangeRewriter):
    """Pipelines the loops that ask for it, from the inside out."""

    def loop(self, s: tir.For) -> tir.Stmt:
        new = self.parts(s)
        if STAGE not in new.annotations:
            return new
        stages = _numbers(new, STAGE)
        order = _numbers(new, ORDER) if ORDER in new.annotations else list(range(len(stages)))
        return _Pipeline("InjectSoftwarePipeline", new, stages, order, self.analyzer).result()


def _numbers(s: tir.For, key: str) -> list[int]:
    given: Any = s.annotations[key]
    items = list(given) if isinstance(given, list | tuple) else [given]
    values = [x.value if isinstance(x, IntImm) else x for x in items]
    if not values or not all(isinstance(x, int) and x >= 0 for x in values):
        raise CompileError(
            f"InjectSoftwarePipeline: {key} of the loop {s.var.name} is {given!r}; legal: a list "
            "of integers from 0, one for each statement of its body"
        )
    return values


def software_pipeline(func: tir.PrimFunc) -> tir.PrimFunc:
    """Loops annotated with "software_pipeline_stage": statement n runs so many iterations later."""
    require_flat(func, "InjectSoftwarePipeline")
    return _Annotated(analyzer_for(func)).program(func)


class _Doubled(RangeRewriter):
    """Pipelines loops that fill a buffer marked with "double_buffer_scope" and then use it."""

    def loop(self, s: tir.For) -> tir.Stmt:
        new = self.parts(s)
        marked: set[tir.Buffer] = set()
        body = new.body
        while isinstance(body, tir.Allocate):
            if body.annotations.get(DOUBLE_BUFFER):
                marked.add(body.buffer)
            body = body.body
        if not marked:
            return new
        stmts = body.stmts if isinstance(body, tir.Seq) else (body,)
        filling = 0
        while filling < len(stmts) and _fills(stmts[filling], marked):
            filling += 1
        if filling in (0, len(stmts)):
            names = ", ".join(sorted(b.name for b in marked))
            raise CompileError(
                f"InjectDoubleBuffer: the loop {new.var.name} has no statements that fill {names} "
                "and others behind them that use it"
            )
        stages = [0] * filling + [1] * (len(stmts) - filling)
        order = list(range(len(stmts)))
        return _Pipeline("InjectDoubleBuffer", new, stages, order, self.analyzer).result()


def _fills(s: tir.Stmt, marked: set[tir.Buffer]) -> bool:
    """Whether a statement writes marked buffers, and nothing else."""
    stores = [x.buffer for x in tir.walk(s) if isinstance(x, tir.BufferStore)]
    return bool(stores) and all(b in marked for b in stores)


def double_buffers(func: tir.PrimFunc) -> tir.PrimFunc:
    """Buffers marked with "double_buffer_scope" are filled for the next iteration meanwhile."""
    require_flat(func, "InjectDoubleBuffer")
    return _Doubled(analyzer_for(func)).program(func)
