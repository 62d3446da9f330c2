"""cache_index: indices that cost something computed once, into tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from smelt.ir.expr import INDEX, Binary, Expr
from smelt.ir.walk import free_vars, substitute
from smelt.tir.rewrite import Indices, Rewriter, loads
from smelt.tir.script_ops import expressions

from .. import nodes
from .exchange import is_outer, stage, stored
from .handles import BlockRV
from .primitive import Base, primitive
from .region import refreshed
from .require import require_top
from .state import State


class CacheIndexPrimitives(Base):
    """cache_index."""

    @primitive
    def cache_index(self, block: str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute the indices at which a block reads beforehand; gives the computing blocks.

        cse_thresh  how many indices have to be the same expression for it to be computed
                    beforehand; 0 or 1 for all. Where none is more than a variable, nothing changes.

        Before
            for i, j in T.grid(8, 8):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v // 4 + w // 4, w // 2]
        Step    cache_index("B", "global", 1)
        After
            index_var_0 = T.alloc_buffer((8, 8), "int64")
            index_var_1 = T.alloc_buffer((8,), "int64")
            for ax0, ax1 in T.grid(8, 8):
                with T.block("index_0"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    index_var_0[v0, v1] = v0 // 4 + v1 // 4
            for ax0_1 in range(8):
                with T.block("index_1"):
                    v0_1 = T.axis.spatial(8, ax0_1)
                    index_var_1[v0_1] = v0_1 // 2
            for i, j in T.grid(8, 8):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[index_var_0[v, w], index_var_1[w]]
        Needs   a block directly in the function, without blocks inside.
        """
        s, b = self._at(block)
        require_top(s, b)
        if is_outer(b.block):
            s.fail(
                f"{b.block.name} has blocks inside",
                legal="a block whose body reads elements itself",
            )
        names, nests, tables = [], [], {}
        for k, e in enumerate(_indices(b, max(cse_thresh, 1))):
            name, nest, tables[e] = _table(s, b, e, k, storage_scope)
            names.append(BlockRV(name))
            nests.append(nest)
        if names:
            swap = refreshed(s, _LookUp(tables).stmt(b.block))
            buffers = [load.buffer for load in tables.values()]
            stage(s, buffers, [b], swap, nodes.seq(*nests), s.top(b, s.scope(b).block), False)
        return names


def _indices(b: nodes.BlockRealize, least: int) -> list[Expr]:
    """The index expressions worth a table, in the order of the text: with that many uses."""
    own = {i.var for i in b.block.iter_vars}
    inside = expressions(*nodes.walk(b.block.body))
    indices = [e for x in inside if isinstance(x, nodes.BufferLoad) for e in x.indices]
    count = Counter(e for e in indices if isinstance(e, Binary) and e.dtype == INDEX)
    return [e for e, n in count.items() if n >= least and free_vars(e) <= own and not loads(e)]


def _table(
    s: State, b: nodes.BlockRealize, e: Expr, number: int, scope: str
) -> tuple[str, nodes.Stmt, nodes.BufferLoad]:
    """A buffer of an index expression's values, and the block that fills it."""
    used = [i for i in b.block.iter_vars if i.var in free_vars(e)]
    shape = tuple([i.dom.extent for i in used])
    buffer = nodes.Buffer(s.fresh(f"index_var_{number}"), shape, INDEX, scope)
    load = nodes.BufferLoad(buffer, tuple([i.var - i.dom.min for i in used]))

    def fill(point: Indices) -> nodes.BufferStore:
        own = dict(zip([i.var for i in used], point, strict=True))
        here = tuple([substitute(i, own) for i in load.indices])
        return nodes.BufferStore(buffer, substitute(e, own), here)

    return *stored(s, f"index_{number}", [i.dom for i in used], fill), load


class _LookUp(Rewriter):
    """Replaces indices of loads."""

    def __init__(self, tables: Mapping[Expr, nodes.BufferLoad]) -> None:
        super().__init__()
        self.tables = tables

    def visit_expr(self, e: Expr) -> Expr:
        new = super().visit_expr(e)
        if isinstance(new, nodes.BufferLoad):
            return nodes.BufferLoad(new.buffer, tuple([self.tables.get(i, i) for i in new.indices]))
        return new

    def visit_Block(self, s: nodes.Block) -> nodes.Block:
        return s.replace(body=self.stmt(s.body))
