"""Gathers of neighbouring columns become loads of rows and an exchange in registers.

    out[0:16]  = x[0 : 16*s : s]          r0 = x[0:16]; r1 = x[s:s+16]; ...
    out[p:p+16] = x[1 : 16*s+1 : s]  ->   exchange rows and columns by shuffles
    ...                                   out[0:16] = c0; out[p:p+16] = c1; ...

A copy that reads along one dimension and writes along another needs lanes * lanes scalar loads;
exchanged, it needs lanes loads, lanes * log2(lanes) shuffles and lanes stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, IntImm, Ramp, Shuffle, Var, const
from smelt.tir.nodes import BufferLoad, BufferStore, PrimFunc, Seq, Stmt, lets, seq
from smelt.tir.rewrite import map_stmts


def exchange_gathers(func: PrimFunc) -> PrimFunc:
    """Rewrite runs of strided vector copies whose sources are neighbours."""
    return func.replace(body=map_stmts(func.body, Seq, _exchange))


def _exchange(s: Seq) -> Stmt:
    out: list[Stmt] = []
    analyzer = Analyzer()
    at = 0
    while at < len(s.stmts):
        run = _run(s.stmts, at, analyzer)
        out.append(s.stmts[at] if run is None else _exchanged(run))
        at += 1 if run is None else len(run)
    return seq(*out)


def _strided(s: Stmt) -> tuple[BufferStore, BufferLoad, Ramp] | None:
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
    if first is None:
        return None
    lanes = first[2].lanes
    if lanes & (lanes - 1) or lanes < 4 or at + lanes > len(stmts):
        return None
    run = [first[0]]
    for n in range(1, lanes):
        found = _strided(stmts[at + n])
        if (
            found is None
            or found[1].buffer is not first[1].buffer
            or found[2].stride is not first[2].stride
            or found[2].lanes != lanes
        ):
            return None
        if analyzer.simplify(found[2].base - first[2].base) is not const(n, INDEX):
            return None
        run.append(found[0])
    return run


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
