"""Who is who in a contraction: its operands, and the axes that move them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, Call, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.target import Machine
from smelt.tir.intrin.fit import Fit, fitting
from smelt.tir.nodes import Buffer, BufferLoad, IterVar, Range
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from .analysis import BlockInfo, analyzer_for, guess, quotient_of, step_of, stride_of
from .nest import continues


class Divided(NamedTuple):
    """An axis of rows that come in groups, each with a part of B of its own: it becomes two."""

    whole: IterVar
    group: IterVar
    within: IterVar


@dataclass(frozen=True)
class Roles:
    """Who is who in a contraction.

    wide     axes around the vector axis that are walked with it as one, the outermost first
    group    what the vector axis is divided by in A, where it is grouped: 0 elsewhere
    divided  the axis of the block that is one of batch and one of rows
    dot      the last axis of the reduction, where an instruction sums along it: an element of
             either operand is a group of so many then
    fit      the instruction
    """

    info: BlockInfo
    a: BufferLoad
    b: BufferLoad
    batch: list[IterVar]
    rows: list[IterVar]
    columns: list[IterVar]
    wide: list[IterVar]
    vector: IterVar
    analyzer: Analyzer
    group: int = 0
    divided: Divided | None = None
    dot: IterVar | None = None
    fit: Fit | None = None

    @property
    def reduce(self) -> list[IterVar]:
        """The reduced axes; what an instruction sums along is within elements."""
        return [i for i in self.info.reduce if i is not self.dot]

    @property
    def dots(self) -> list[IterVar]:
        """The axis that an instruction sums along, if one does."""
        return [] if self.dot is None else [self.dot]

    @property
    def within(self) -> int:
        """How many numbers of an operand are an element."""
        return 1 if self.fit is None else self.fit.group

    @property
    def axes(self) -> list[IterVar]:
        """All of them."""
        return [*self.batch, *self.rows, *self.columns, *self.wide, self.vector, *self.reduce]

    @property
    def plain(self) -> bool:
        """Whether B is read at the block's variables, so that it may be laid out anew."""
        return all(isinstance(i, Var) for i in self.b.indices)

    @property
    def as_given(self) -> bool:
        """Whether each axis is one of the block's."""
        return not (self.group or self.wide or self.divided)

    def step(self, access: BufferLoad, i: IterVar) -> int | None:
        """Elements from one to the next; None where that is not constant."""
        found = step_of(access, i.var, self.analyzer)
        return None if found is None or found % self.within else found // self.within

    def elements(self, buffer: Buffer) -> int:
        """How many an operand has."""
        return prod(map(guess, buffer.shape)) // self.within


@dataclass(frozen=True)
class Axes:
    """The loops of a contraction, sorted.

    dot  what an instruction sums along, if one does
    """

    batch: list[str]
    columns: list[str]
    rows: list[str]
    vector: str
    reduce: list[str]
    dot: list[str]

    @staticmethod
    def of(roles: Roles, loops: dict[Var, str]) -> Axes:
        """The loops that are a variable each."""
        batch, columns, rows, reduce, dot = (
            [loops[i.var] for i in axes]
            for axes in (roles.batch, roles.columns, roles.rows, roles.reduce, roles.dots)
        )
        return Axes(batch, columns, rows, loops[roles.vector.var], reduce, dot)


def roles_of(sch: Schedule, info: BlockInfo, joins: bool = True) -> Roles | str:
    """Sort the operands and iteration variables; a reason where the block does not fit.

    joins  whether columns that follow one another in memory may be walked as one axis
    """
    product = info.product()
    if product is None or info.store is None or not info.spatial:
        return "no sum of products of two operands"
    analyzer = analyzer_for(sch.func, info.block)
    left, right = product
    in_left, in_right = vars_of(left), vars_of(right)
    vector = _vector_var(info, analyzer)
    group = 0
    if vector.var in in_left and vector.var in in_right:
        found = [quotient_of(x, vector.var) for x in product]
        if found.count(None) != 1:
            return "both operands move along the result's contiguous axis"
        group = next(c for c in found if c is not None)
        a, b = (left, right) if found[0] is not None else (right, left)
        if group == 1 or guess(vector.dom.extent) % group:
            return "a group has one column"
        if list(info.store.indices) != [i.var for i in info.spatial]:
            return "groups whose results do not stand at the block's variables"
    else:
        a, b = (left, right) if vector.var in in_right else (right, left)
    divided = None if group else _divided(info, a, b)
    if divided is not None:
        whole, outer, inner = divided
        place: dict[Var, Expr] = {whole.var: outer.var * inner.dom.extent + inner.var}
        for i in (outer, inner):
            analyzer.bind(i.var, i.dom.min, i.dom.extent)
        a, b = (_at(x, place, analyzer) for x in (a, b))
    in_a, in_b = vars_of(a), vars_of(b)
    split = {} if divided is None else {divided.whole: divided[1:]}
    others = [x for i in info.spatial if i is not vector for x in split.get(i, (i,))]
    batch = [i for i in others if (i.var in in_a) == (i.var in in_b)]
    rows = [i for i in others if i.var in in_a and i.var not in in_b]
    columns = [i for i in others if i.var in in_b and i.var not in in_a]
    wide: list[IterVar] = []
    joins = joins and not group
    while joins and columns and _goes_on(info, b, columns[-1], [*wide, vector][0], analyzer):
        wide.insert(0, columns.pop())
    return Roles(info, a, b, batch, rows, columns, wide, vector, analyzer, group, divided)


def by_instruction(roles: Roles, machine: Machine, packed: bool, rounded: bool) -> Roles:
    """The same with the instruction that sums along the last axis of the reduction, where there is
    one: that whose vectors hold the columns in the least time, the widest of equals.

    packed   whether B may be laid out anew; else groups of neighbouring columns are neighbours
    rounded  whether there may be more columns than B has; else they fill vectors
    """
    *_, last = roles.info.reduce
    group = value_of(last.dom.extent)
    along = [step_of(x, last.var, roles.analyzer) for x in (roles.a, roles.b)]
    columns = roles.group or value_of(roles.vector.dom.extent) or 1
    beside = packed or step_of(roles.b, roles.vector.var, roles.analyzer) == group
    factors = roles.info.product()
    in_order = factors is not None and factors[0].buffer is roles.a.buffer  # as in the tiles
    if along != [1, 1] or not (beside and in_order) or roles.wide or roles.divided:
        return roles
    block = roles.info.block
    found = [
        f
        for f in fitting(block, machine.arch, machine.dot)
        if f.group == group and f.picks_nothing and f.instruction.llvm is not None
        and f.lanes > 1 and f.lanes <= machine.lanes(4) and (rounded or columns % f.lanes == 0)
    ]  # fmt: skip

    def wasted(f: Fit) -> tuple[int, int]:
        vectors = -(-columns // f.lanes)
        return vectors * max(4 * f.lanes, machine.unit_bytes), vectors * f.lanes

    return replace(roles, dot=last, fit=min(found, key=wasted)) if found else roles


def _divided(info: BlockInfo, a: BufferLoad, b: BufferLoad) -> Divided | None:
    """The axis of rows of which so many in turn share what they need of B, if there is one."""
    assert info.store is not None
    for i in info.spatial:
        size, whole = quotient_of(b, i.var), value_of(i.dom.extent)
        known = (
            i.var in vars_of(a) and quotient_of(a, i.var) is None and i.var in info.store.indices
        )
        if size is None or whole is None or size == 1 or whole % size or not known:
            continue
        outer, inner = (
            IterVar(Var(f"{i.var.name}_{end}", i.var.type), Range(const(0, INDEX), const(n, INDEX)))
            for end, n in (("group", whole // size), ("within", size))
        )
        return Divided(i, outer, inner)
    return None


def _at(load: BufferLoad, place: Mapping[Var, Expr], analyzer: Analyzer) -> BufferLoad:
    """A load with other expressions for some variables."""
    indices = [analyzer.simplify(substitute(i, place)) for i in load.indices]
    return BufferLoad(load.buffer, tuple(indices))


def _goes_on(
    info: BlockInfo, b: BufferLoad, outer: IterVar, inner: IterVar, analyzer: Analyzer
) -> bool:
    """Whether B and the result go on with an outer axis where an inner one ends: known sizes, no
    guards, places that are variables of the block."""
    assert info.store is not None
    own, extent = {outer.var, inner.var}, value_of(inner.dom.extent)
    if extent is None or value_of(outer.dom.extent) is None:
        return False
    if not own <= set(info.store.indices) or guarded(info, own):
        return False
    wide, step = ([stride_of(x, i.var, analyzer) for x in (b, info.store)] for i in (outer, inner))
    return continues(wide, step, extent)


def vars_of(load: BufferLoad) -> set[Var]:
    """The variables that move an access."""
    return {v for i in load.indices for v in free_vars(i)}


def _vector_var(info: BlockInfo, analyzer: Analyzer) -> IterVar:
    """The spatial variable along which the result is contiguous."""
    assert info.store is not None
    for i in reversed(info.spatial):
        if step_of(info.store, i.var, analyzer) == 1 and value_of(i.dom.extent) != 1:
            return i
    return info.spatial[-1]


def guarded(info: BlockInfo, variables: set[Var]) -> bool:
    """Whether a condition in the block's body mentions some variables."""
    assert info.store is not None
    return any(
        isinstance(e, Call) and e.op == "if_then_else" and free_vars(e.args[0]) & variables
        for e in expr_nodes(info.store.value)
    )


# ------------------------------------------------------------------------------- loops in order


def normalize(sch: Schedule, anchor: str, roles: Roles, joined: Sequence[IterVar]) -> Axes:
    """Bring the loops into order, rows walked as one and groups split off.

    joined  the axes of rows that are walked as one
    """
    info = roles.info
    if len(joined) < 2 and roles.as_given:
        given = sch.get_loops(anchor)
        return Axes.of(roles, dict(zip([i.var for i in info.block.iter_vars], given, strict=True)))
    sch.transform_block_layout(anchor, _form(roles, info.block.iter_vars, joined))
    loops = [str(x) for x in sch.get_loops(anchor)]
    counts = [len(roles.batch) + bool(roles.group), len(roles.columns),
              len(roles.rows) - max(0, len(joined) - 1), 1, len(roles.reduce),
              len(roles.dots)]  # fmt: skip
    parts, at = [], 0
    for c in counts:
        parts.append(loops[at : at + c])
        at += c
    batch, columns, rows, (vector,), reduce, dot = parts
    return Axes(batch, columns, rows, vector, reduce, dot)


def _form(
    roles: Roles, given: Sequence[IterVar], joined: Sequence[IterVar]
) -> Callable[..., list[Expr]]:
    """The index map from some of a block's variables to batch, columns, rows, vector, reduce;
    groups are split off the vector axis or off rows."""
    divided = roles.divided
    place = {i: k for k, i in enumerate(given)}

    def form(*index: Expr) -> list[Expr]:
        known = {i: index[k] for i, k in place.items()}
        if divided is not None:
            whole, size = known[divided.whole], divided.within.dom.extent
            known |= {divided.group: whole // size, divided.within: whole % size}

        def at(axes: Sequence[IterVar]) -> list[Expr]:
            return [known[i] for i in axes if i in known]

        def as_one(axes: Sequence[IterVar]) -> list[Expr]:
            flat: list[Expr] = []
            for i in axes:
                flat = [flat[0] * i.dom.extent + known[i]] if flat else [known[i]]
            return flat

        alone, flat = at([i for i in roles.rows if i not in joined]), as_one(joined)
        group, column = [], as_one([*roles.wide, roles.vector])
        if roles.group:
            group, column = [column[0] // roles.group], [column[0] % roles.group]
        return [*at(roles.batch), *group, *at(roles.columns), *alone, *flat, *column,
                *at(roles.reduce), *at(roles.dots)]  # fmt: skip

    return form


def normalize_result(
    sch: Schedule, anchor: str, roles: Roles, epilogue: str, joined: Sequence[IterVar]
) -> None:
    """The registers and the block that empties them, in the same order as the sums."""
    if len(joined) < 2 and roles.as_given:
        return
    form = _form(roles, roles.info.spatial, joined)
    sch.transform_layout(anchor, ("write", 0), form)
    sch.transform_block_layout(epilogue, form)
