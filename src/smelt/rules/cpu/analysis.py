"""What a rule needs to know of a block: which operand is read along which iteration variable."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, Add, Call, Cast, Expr, FloorDiv, IntImm, Mul, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.access import flat_offset
from smelt.tir.facts import analyzer_of, sizes_of
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

_UNKNOWN = 224
"""The extent assumed where it is symbolic: that of images, and enough tokens or rows."""


class BlockInfo:
    """A block with its store, its operands and its iteration variables by role."""

    def __init__(self, block: tir.Block) -> None:
        """Read the block's body."""
        self.block = block
        self.name = block.name
        self.spatial = [i for i in block.iter_vars if i.kind == "spatial"]
        self.reduce = [i for i in block.iter_vars if i.kind == "reduce"]
        self.store = _store(block.body)
        own = None if self.store is None else self.store.buffer
        read = [] if self.store is None else loads(self.store.value)
        self.reads = [x for x in read if x.buffer is not own]

    @property
    def is_reduction(self) -> bool:
        """Whether values are accumulated."""
        return bool(self.reduce)

    def product(self) -> tuple[tir.BufferLoad, tir.BufferLoad] | None:
        """The loads of the two factors, where the block sums products."""
        if self.store is None or not self.reduce or not isinstance(self.store.value, Add):
            return None
        a, b = self.store.value.a, self.store.value.b
        own = isinstance(a, tir.BufferLoad) and a.buffer is self.store.buffer
        term = _unguarded(b if own else a)
        if not isinstance(term, Mul):
            return None
        left, right = loads(term.a), loads(term.b)
        return (left[0], right[0]) if len(left) == 1 and len(right) == 1 else None

    @property
    def instructions(self) -> int:
        """How many a product takes that is added to a sum: of integers two."""
        whole = self.store is not None and dt.is_int(self.store.buffer.type)
        return 2 if whole and self.product() is not None else 1

    def is_elementwise(self) -> bool:
        """Whether every element depends on others only at indices without reduction."""
        point = tuple([i.var for i in self.spatial])
        return not self.reduce and self.store is not None and self.store.indices == point


def _store(s: tir.Stmt) -> tir.BufferStore | None:
    if isinstance(s, tir.IfThenElse) and s.else_body is None:
        return _store(s.then_body)
    return s if isinstance(s, tir.BufferStore) else None


def _unguarded(e: Expr) -> Expr:
    """The value behind guards and casts."""
    while True:
        if isinstance(e, Call) and e.op == "if_then_else":
            e = e.args[1]
        elif isinstance(e, Cast):
            e = e.value
        else:
            return e


def block_info(sch: Schedule, name: str) -> BlockInfo:
    """What is known of a block of a schedule."""
    realize = sch.state.realize(name)
    return BlockInfo(realize.block)


def stride_of(
    access: tir.BufferLoad | tir.BufferStore, var: Var, analyzer: Analyzer
) -> Expr | None:
    """How far one step of `var` moves in memory, in elements; None where that is not constant."""
    return stride_in(analyzer.simplify(flat_offset(access.buffer, access.indices)), var, analyzer)


def stride_in(offset: Expr, var: Var, analyzer: Analyzer) -> Expr | None:
    """How much a step of `var` adds to a simplified offset; None where that is not constant."""
    if var not in free_vars(offset):
        return const(0, INDEX)
    linear = analyzer.linear(offset, [var])
    if linear is None or var in free_vars(linear[1]):
        return None
    step = linear[0].get(var)
    return None if step is None or var in free_vars(step) else step


def step_of(access: tir.BufferLoad | tir.BufferStore, var: Var, analyzer: Analyzer) -> int | None:
    """`stride_of` where it is a number; None elsewhere."""
    stride = stride_of(access, var, analyzer)
    return None if stride is None else value_of(stride)


def analyzer_for(func: tir.PrimFunc, block: tir.Block) -> Analyzer:
    """An Analyzer that knows a block's iteration variables and the function's sizes."""
    sizes: dict[Expr, int] = {p: 0 for p in func.params if isinstance(p, Var)}
    analyzer = analyzer_of(sizes | sizes_of(func))
    for i in block.iter_vars:
        analyzer.bind(i.var, i.dom.min, i.dom.extent)
    return analyzer


def quotient_of(x: tir.BufferLoad | tir.BufferStore, v: Var) -> int | None:
    """The divisor c where an access mentions a variable only as v // c."""
    found: set[int] = set()
    for index in x.indices:
        if index is v:
            return None
        for e in expr_nodes(index):
            if v not in e.children():
                continue
            if not (isinstance(e, FloorDiv) and isinstance(e.b, IntImm)):
                return None
            found.add(e.b.value)
    return found.pop() if len(found) == 1 else None


def guess(e: Expr, size: int = _UNKNOWN) -> int:
    """The value of an expression, symbolic sizes taken as a typical one."""
    if isinstance(e, IntImm):
        return e.value
    sizes: dict[Var, Expr] = {v: const(size, INDEX) for v in free_vars(e)}
    found = Analyzer().simplify(substitute(e, sizes))
    return found.value if isinstance(found, IntImm) else size


def certain(extent: Expr) -> int:
    """The iterations that a loop has at least: a factor of its extent, 1 for a symbolic size."""
    if isinstance(extent, IntImm):
        return extent.value
    return certain(extent.a) * certain(extent.b) if isinstance(extent, Mul) else 1


def power(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()
