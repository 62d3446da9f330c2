"""Gathers of neighbouring columns become loads of rows and an exchange in registers.

    out[0:16]  = x[0 : 16*s : s]          r0 = x[0:16]; r1 = x[s:s+16]; ...
    out[p:p+16] = x[1 : 16*s+1 : s]  ->   exchange rows and columns by shuffles
    ...                                   out[0:16] = c0; out[p:p+16] = c1; ...

A copy that reads along one dimension and writes along another needs lanes * lanes scalar loads;
exchanged, it needs lanes loads, lanes * log2(lanes) shuffles and lanes stores. Rows whose elements
are stored in turn are such a copy to one place:

    out[0 : 2*16 : 2] = a[0:16]           r0 = a[0:16]; r1 = b[0:16]
    out[1 : 2*16 : 2] = b[0:16]      ->   out[0:32] = r0 and r1, an element of each in turn
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, Expr, IntImm, Ramp, Shuffle, Var, const
from smelt.tir.nodes import BufferLoad, BufferStore, PrimFunc, Seq, Stmt, lets, seq
from smelt.tir.rewrite import map_stmts

_Copy = tuple[BufferStore, BufferLoad, Ramp]
"""A store, what it stores, and the indices that are no neighbours."""


def exchange_gathers(func: PrimFunc) -> PrimFunc:
    """Rewrite runs of strided vector copies whose sources are neighbours."""
    return func.replace(body=map_stmts(func.body, Seq, _exchange))


def _exchange(s: Seq) -> Stmt:
    out: list[Stmt] = []
    analyzer = Analyzer()
    at = 0
    while at < len(s.stmts):
        run, made = _run(s.stmts, at, analyzer), _exchanged
        if run is None:
            run, made = _in_turn(s.stmts, at, analyzer), _interleaved
        out.append(s.stmts[at] if run is None else made(run))
        at += 1 if run is None else len(run)
    return seq(*out)


def _strided(s: Stmt) -> _Copy | None:
    """A vector copy from elements that are not neighbours."""
    match s:
        case BufferStore(
            target, BufferLoad(buffer, (Ramp(_, step) as source,)) as load, (Ramp(_, IntImm(_, 1)),)
        ):
            near = isinstance(step, IntImm) and abs(step.value) <= 1
            if buffer is not target and not near and dt.scalar(load.dtype) != "bool":
                return s, load, source
    return None


def _run(stmts: Sequence[Stmt], at: int, analyzer: Analyzer) -> list[BufferStore] | None:
    """As many copies as a vector has lanes, each from one element further."""
    first = _strided(stmts[at])
    lanes = 0 if first is None else first[2].lanes
    if lanes & (lanes - 1) or lanes < 4:
        return None
    found = [_strided(s) for s in stmts[at : at + lanes]]
    return _in_a_row(found, lanes, lambda s, load: load.buffer, analyzer)


def _exchanged(run: list[BufferStore]) -> Stmt:
    """Rows loaded, exchanged, stored."""
    load = run[0].value
    assert isinstance(load, BufferLoad)
    source = load.indices[0]
    assert isinstance(source, Ramp)
    lanes = source.lanes
    one = const(1, INDEX)
    rows: list[Expr] = [
        BufferLoad(load.buffer, (Ramp(source.base + source.stride * i, one, lanes),))
        for i in range(lanes)
    ]
    bindings: list[tuple[Var, Expr]] = []

    def name(e: Expr) -> Var:
        v = Var(f"row{len(bindings)}", e.dtype)
        bindings.append((v, e))
        return v

    columns: list[Expr] = [name(r) for r in rows]
    width = 1
    while width < lanes:
        # blocks of `width` elements of rows `width` apart change places
        new: list[Expr] = list(columns)
        low = tuple([i if (i // width) % 2 == 0 else lanes + i - width for i in range(lanes)])
        high = tuple([i + width if (i // width) % 2 == 0 else lanes + i for i in range(lanes)])
        for i in range(lanes):
            if (i // width) % 2 == 0:
                a, b = columns[i], columns[i + width]
                new[i], new[i + width] = name(Shuffle(a, b, low)), name(Shuffle(a, b, high))
        columns = new
        width *= 2
    stmt = seq(*[BufferStore(s.buffer, c, s.indices) for s, c in zip(run, columns, strict=True)])
    return lets(bindings, stmt)


def _spread(s: Stmt) -> _Copy | None:
    """A vector copy of neighbours to every second or fourth element."""
    match s:
        case BufferStore(
            target,
            BufferLoad(buffer, (Ramp(_, IntImm(_, 1)),)) as load,
            (Ramp(_, IntImm(_, 2 | 4)) as place,),
        ):
            if buffer is not target and dt.scalar(load.dtype) != "bool":
                return s, load, place
    return None


def _in_turn(stmts: Sequence[Stmt], at: int, analyzer: Analyzer) -> list[BufferStore] | None:
    """As many copies as elements are left between those of the first, each one further."""
    first = _spread(stmts[at])
    step = 0 if first is None else value_of(first[2].stride) or 0
    found = [_spread(s) for s in stmts[at : at + step]]
    return _in_a_row(found, step, lambda s, load: (s.buffer, load.dtype), analyzer)


def _in_a_row(
    copies: Sequence[_Copy | None],
    count: int,
    kind: Callable[[BufferStore, BufferLoad], object],
    analyzer: Analyzer,
) -> list[BufferStore] | None:
    """So many copies of one kind, each at one element further than the one before."""
    found = [c for c in copies if c is not None]
    if not count or len(found) < count:
        return None
    store, source, first = found[0]
    for n, (s, load, ramp) in enumerate(found):
        alike = ramp.stride is first.stride and ramp.lanes == first.lanes
        if not alike or kind(s, load) != kind(store, source):
            return None
        if analyzer.simplify(ramp.base - first.base) is not const(n, INDEX):
            return None
    return [s for s, _, _ in found]


def _interleaved(run: list[BufferStore]) -> Stmt:
    """Rows loaded, an element of each in turn, stored at once."""
    place = run[0].indices[0]
    assert isinstance(place, Ramp)
    rows = [Var(f"row{n}", s.value.dtype) for n, s in enumerate(run)]
    bindings: list[tuple[Var, Expr]] = list(zip(rows, [s.value for s in run], strict=True))
    parts: list[Expr] = list(rows)
    width = place.lanes
    while len(parts) > 1:
        half = len(parts) // 2
        order = tuple([n for i in range(width) for n in (i, i + width)])
        parts = [Shuffle(a, b, order) for a, b in zip(parts[:half], parts[half:], strict=True)]
        width *= 2
    whole = Ramp(place.base, const(1, INDEX), width)
    return lets(bindings, BufferStore(run[0].buffer, parts[0], (whole,)))
