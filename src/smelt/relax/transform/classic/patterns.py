"""The fusion kind of a tensor program, read off its blocks."""

from __future__ import annotations

from smelt.ir.expr import Expr, IntImm, Mul, Var
from smelt.ir.node import postorder
from smelt.tir.nodes import Block, BufferLoad, BufferStore, PrimFunc, walk
from smelt.tir.rewrite import loads

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSIBLE, OPAQUE = 0, 1, 2, 3, 4, 8


def op_pattern(func: PrimFunc) -> int:
    """0 element by element, 1 broadcast, 2 injective, 3 reduction, 4 sum of products, 8 else."""
    blocks = [s for s in walk(func.body) if isinstance(s, Block) and s.iter_vars]
    if not blocks:
        return OPAQUE
    kinds = [_kind(b) for b in blocks]
    heavy = [k for k in kinds if k >= REDUCTION]
    if OPAQUE in kinds or len(heavy) > 1:
        return OPAQUE
    return heavy[0] if heavy else max(kinds)


def _kind(block: Block) -> int:
    """The kind of one block, which has to store one value."""
    stores = [s for s in walk(block.body) if isinstance(s, BufferStore)]
    if len(stores) != 1 or stores[0] is not block.body:
        return OPAQUE
    store = stores[0]
    if any(v.kind == "reduce" for v in block.iter_vars):
        read = {x.buffer for x in loads(store) if x.buffer is not store.buffer}
        return FUSIBLE if len(read) >= 2 and _multiplies(store.value) else REDUCTION
    point = store.indices
    if not all(isinstance(i, Var | IntImm) for i in point):
        return OPAQUE
    return max([_load(x, point) for x in loads(store)], default=ELEMENTWISE)


def _load(x: BufferLoad, point: tuple[Expr, ...]) -> int:
    if x.indices == point:
        return ELEMENTWISE
    used = [i for i in x.indices if not isinstance(i, IntImm)]
    places = [point.index(i) for i in used if i in point]
    ordered = len(places) == len(used) and places == sorted(set(places))
    return BROADCAST if ordered else INJECTIVE


def _multiplies(e: Expr) -> bool:
    return any(isinstance(n, Mul) and loads(n.a) and loads(n.b) for n in postorder(e))
