"""Loops bound to thread axes: one variable an axis, virtual threads written out, threads outside.

The meaning of a bound loop is that of a serial one whose iterations do not depend on each other.
"""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, IntImm, Var
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter, loads, map_stmts, renamed, substitute_stmt

from .accesses import Access, Moved, accesses
from .ranges import analyzer_for
from .safe import require_flat, require_one_dimension

UNROLLED = 16
"""Virtual threads up to which their loops are marked to be unrolled."""


def is_virtual(s: tir.Stmt) -> bool:
    """Whether a statement is a loop over virtual threads."""
    return isinstance(s, tir.For) and (s.thread or "").startswith("vthread")


# -------------------------------------------------------------------------------------- unify


class _Unify(Rewriter):
    """Gives the loops of one axis one variable."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.first: dict[str, tir.For] = {}
        self.around: list[str] = []

    def visit_For(self, s: tir.For) -> tir.Stmt:
        if s.thread is None:
            return super().visit_For(s)
        if s.thread in self.around:
            raise CompileError(
                f"UnifyThreadBinding: in {self.name}, the loop {s.var.name} over {s.thread} stands "
                "inside another loop over it; an axis is bound once around a statement"
            )
        first = self.first.setdefault(s.thread, s)
        if s.extent is not first.extent or s.min is not first.min:
            raise CompileError(
                f"UnifyThreadBinding: in {self.name}, {first.var.name} and {s.var.name} are "
                f"both bound to {s.thread}, but their extents are {_text(first.extent)} and "
                f"{_text(s.extent)}; the loops of one axis have one extent"
            )
        self.around.append(s.thread)
        new = super().visit_For(s)
        self.around.pop()
        if first.var is s.var:
            return new
        return substitute_stmt(new, {s.var: first.var}).replace(var=first.var)


def _text(e: Expr) -> str:
    return script(e).strip()


def unify_thread_bindings(func: tir.PrimFunc) -> tir.PrimFunc:
    """All loops of a thread axis run over one variable, and over one extent."""
    return _Unify(func.name).program(func)


# ----------------------------------------------------------------------------- virtual threads


def _spread(s: tir.For) -> tir.Stmt:
    """A loop over virtual threads, whose body has none, moved inwards."""
    if not is_virtual(s):
        return s
    if not isinstance(s.extent, IntImm):
        raise CompileError(
            f"InjectVirtualThread: the extent of {s.var.name} is {_text(s.extent)}; "
            "virtual threads are as many as a constant says"
        )
    return _Spread(s, s.extent.value).stmt(s.body)


class _Spread(Rewriter):
    """Moves a loop over virtual threads inwards, so that they share the loops around statements.

    Each thread has its own part of every buffer that is allocated inside.
    """

    def __init__(self, loop: tir.For, count: int) -> None:
        super().__init__()
        self.loop, self.count = loop, count
        self.own: dict[tir.Buffer, tuple[tir.Buffer, Expr]] = {}

    def visit_Allocate(self, s: tir.Allocate) -> tir.Stmt:
        size = s.buffer.shape[0]
        wide = tir.Buffer(s.buffer.name, (size * self.count,), s.buffer.type, s.buffer.scope)
        self.own[s.buffer] = (wide, (self.loop.var - self.loop.min) * size)
        return tir.Allocate(wide, self.stmt(s.body), s.annotations)

    def visit_For(self, s: tir.For) -> tir.Stmt:
        """A loop that all threads run in step; one whose bounds differ stands inside of theirs."""
        mine = {self.loop.var}
        if (free_vars(s.min) | free_vars(s.extent)) & mine or loads(s.min) or loads(s.extent):
            return self.threads(s)
        return s.replace(body=self.stmt(s.body))

    def visit_Seq(self, s: tir.Seq) -> tir.Stmt:
        return tir.seq(*[self.stmt(x) for x in s.stmts])

    def stmt(self, s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.For | tir.Seq | tir.Allocate):
            return super().stmt(s)
        return self.threads(s)

    def threads(self, s: tir.Stmt) -> tir.Stmt:
        """A statement once for each thread."""
        var = Var(self.loop.var.name, self.loop.var.type)
        body = substitute_stmt(Moved(self.own).stmt(renamed(s)), {self.loop.var: var})
        kind = "unrolled" if self.count <= UNROLLED else "serial"
        return tir.For(var, self.loop.min, self.loop.extent, body, kind)


def inject_virtual_threads(func: tir.PrimFunc) -> tir.PrimFunc:
    """Loops over virtual threads become loops around the single statements inside.

    for v in vthread: (A(v); for k: B(v, k))   ->   for v: A(v); for k: for v: B(v, k)
    """
    if not any(map(is_virtual, tir.walk(func.body))):
        return func
    require_one_dimension(func, "InjectVirtualThread")
    return func.replace(body=map_stmts(func.body, tir.For, _spread))


# ----------------------------------------------------------------------------------- outwards


def lift_thread_bindings(func: tir.PrimFunc) -> tir.PrimFunc:
    """Several loops of one axis become one around the smallest statement that holds them all.

    Refused where threads could meet: what one thread writes there, no other one may touch.
    """
    require_flat(func, "LiftThreadBinding")
    func = unify_thread_bindings(func)
    axes = dict.fromkeys(
        s.thread for s in tir.walk(func.body) if isinstance(s, tir.For) and s.thread
    )
    for axis in axes:
        func = func.replace(body=_lifted(func, func.body, axis))
    return func


def _lifted(func: tir.PrimFunc, s: tir.Stmt, axis: str) -> tir.Stmt:
    inside = [x for x in tir.sub_statements(s) if any(_runs(y, axis) for y in tir.walk(x))]
    if _runs(s, axis) or not inside:
        return s
    if len(inside) == 1:
        new = _lifted(func, inside[0], axis)
        made: tir.Stmt = s.with_children(lambda c: new if c is inside[0] else c)
        return made
    loop = next(x for x in tir.walk(s) if _runs(x, axis))
    assert isinstance(loop, tir.For)
    _require_disjoint(func, s, loop)
    return loop.replace(body=map_stmts(s, tir.For, lambda x: x.body if x.var is loop.var else x))


def _runs(s: tir.Stmt, axis: str) -> bool:
    return isinstance(s, tir.For) and s.thread == axis


def _require_disjoint(func: tir.PrimFunc, region: tir.Stmt, loop: tir.For) -> None:
    """Refuse a region in which a thread may touch what another one writes."""
    where = f"LiftThreadBinding: in {func.name}, the loops over {loop.thread}"
    found = accesses(region)
    for a in found:
        if a.store and loop.var not in a.domains:
            raise CompileError(
                f"{where} cannot become one: {a.buffer.name} is written beside them, which every "
                "thread would repeat"
            )
    analyzer = analyzer_for(func)
    for b in dict.fromkeys(a.buffer for a in found if a.store):
        if not _disjoint([a for a in found if a.buffer is b], loop, analyzer):
            raise CompileError(
                f"{where} cannot become one: cannot prove that no thread touches what another one "
                f"writes to {b.name}; they would need a barrier, which GPU targets will bring"
            )


def _disjoint(uses: list[Access], loop: tir.For, analyzer: Analyzer) -> bool:
    """Whether some dimension gives each thread an interval of its own, one behind the other."""
    inside = analyzer.inside({loop.var: (loop.min, loop.extent)})
    for d in range(uses[0].buffer.rank):
        ends = []
        for u in uses:
            others = {v: r for v, r in u.domains.items() if v is not loop.var}
            ends.append(inside.interval(u.indices[d], others))
        known = [e for e in ends if e is not None]
        if len(known) < len(ends):
            continue
        following = [
            (substitute(a, {loop.var: loop.var + 1}), substitute(b, {loop.var: loop.var + 1}))
            for a, b in known
        ]
        if all(inside.can_prove(high < low) for _, high in known for low, _ in following):
            return True
    return False
