"""Programs that no single rule fits: block by block, the best rule for each.

Contractions get theirs, with the elementwise block behind each as its epilogue; what stands between
them is taken row by row where its reductions allow, otherwise every block by itself.

Of a recurrence, whose steps follow one another, the blocks of one step are scheduled likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Expr
from smelt.target import Machine
from smelt.tir.nodes import BlockRealize, walk
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule

from .analysis import BlockInfo, block_info
from .contraction import schedule_contraction
from .elementwise import inline_blocks, nest_of, schedule_nest, share_out
from .reduce import reduce_block
from .rows import schedule_rows_of
from .window import accumulate, is_window


def schedule_fallback(sch: Schedule, machine: Machine) -> bool:
    """Inline what can be, then schedule block by block."""
    inline_blocks(sch)
    for b in sch.get_child_blocks("root"):
        _block(sch, b, machine)
    return True


def is_contraction(info: BlockInfo) -> bool:
    """Whether a block sums products of two different operands, neither of which slides alone."""
    product = info.product()
    return product is not None and product[0] is not product[1]


def schedule_blocks(sch: Schedule, machine: Machine, constants: frozenset[str]) -> bool:
    """A program with contractions in it; False where there is but one and its rule does not fit."""
    names = [b for b in sch.get_child_blocks("root") if is_contraction(block_info(sch, b))]
    inline_blocks(sch, frozenset(_operands(sch, names)))
    blocks = [str(b) for b in sch.get_child_blocks("root")]
    between: list[str] = []
    done = 0
    while blocks:
        name = blocks.pop(0)
        if name not in names:
            between.append(name)
            continue
        _between(sch, between, machine)
        between = []
        epilogue = blocks[0] if blocks and _is_epilogue(sch, name, blocks[0]) else None
        if _contract(sch, name, epilogue, machine, constants):
            done += 1
            if epilogue is not None:
                blocks.pop(0)
        elif len(names) == 1:
            return False
        else:
            _block(sch, name, machine)
    _between(sch, between, machine)
    return bool(done)


def has_steps(sch: Schedule) -> bool:
    """Whether a program has a recurrence: a loop whose iterations are steps in order."""
    return any(_steps(sch, b) for b in sch.get_child_blocks("root"))


def _steps(sch: Schedule, name: str) -> list[str]:
    """The steps inside a block."""
    inside = [s for s in walk(sch.state.realize(name).block.body) if isinstance(s, BlockRealize)]
    return [s.block.name for s in inside if any(i.kind == "opaque" for i in s.block.iter_vars)]


def schedule_steps(sch: Schedule, machine: Machine, constants: frozenset[str]) -> bool:
    """A program with a recurrence: the blocks around the steps and those in a step by their rules.

    for steps: in order
        for column tiles of the state's product with the weights: parallel
        for the elementwise work on it: parallel where there is enough
    """
    inline_blocks(sch)
    for b in sch.get_child_blocks("root"):
        if not _steps(sch, b):
            _block(sch, b, machine)
            continue
        for inner in sch.get_child_blocks(b):
            for name in sch.get_child_blocks(inner) or [inner]:
                product = is_contraction(block_info(sch, name))
                if not product or not _contract(sch, name, None, machine, constants):
                    _block(sch, name, machine)
    return True


def _operands(sch: Schedule, names: Sequence[str]) -> list[str]:
    """The blocks that compute an operand of a contraction from several values."""
    found = []
    for name in names:
        for p in sch.get_producers(name):
            info = block_info(sch, p)
            if info.store is not None and not info.reduce and len(loads(info.store.value)) > 1:
                found.append(str(p))
    return found


def _is_epilogue(sch: Schedule, name: str, behind: str) -> bool:
    """Whether a block is the only one that uses a contraction's result, element by element."""
    if [str(c) for c in sch.get_consumers(name)] != [behind]:
        return False
    info, made = block_info(sch, behind), block_info(sch, name)
    if not info.is_elementwise() or made.store is None:
        return False
    reads: list[tuple[Expr, ...]] = [x.indices for x in info.reads if x.buffer is made.store.buffer]
    ranks = [i.var for i in info.spatial]
    return len(reads) == 1 and list(reads[0]) == ranks


def _contract(
    sch: Schedule, name: str, epilogue: str | None, machine: Machine, constants: frozenset[str]
) -> bool:
    def contraction(s: Schedule) -> bool:
        return schedule_contraction(s, name, epilogue, machine, constants)

    return contraction(sch) if epilogue is None else _attempt(sch, contraction)


def _between(sch: Schedule, names: list[str], machine: Machine) -> None:
    """Blocks that follow one another."""
    reductions = [b for b in names if block_info(sch, b).is_reduction]

    def rows(s: Schedule) -> bool:
        return schedule_rows_of(s, names, machine)

    if reductions and len(names) > 1 and _attempt(sch, rows):
        return
    for b in names:
        _block(sch, b, machine)


def _block(sch: Schedule, name: str, machine: Machine) -> None:
    """The best that a block at the root allows; what every rule refuses stays as it is."""
    rules: list[Callable[[Schedule], bool]] = [lambda s: schedule_nest(s, name, machine)]
    if block_info(sch, name).is_reduction:
        rules = [lambda s: reduce_block(s, name, None, machine)]
        if is_window(sch, name):
            rules.insert(0, lambda s: accumulate(s, name, None, machine))
    for rule in [*rules, lambda s: _parallel_only(s, name, machine)]:
        if _attempt(sch, rule):
            return


def _attempt(sch: Schedule, rule: Callable[[Schedule], bool]) -> bool:
    """Apply a rule if it works: to a copy, since it may fail half way."""
    tried = sch.copy()
    try:
        if not rule(tried):
            return False
    except ScheduleError:
        return False
    sch.adopt(tried)
    return True


def _parallel_only(sch: Schedule, name: str, machine: Machine) -> bool:
    nest = nest_of(sch, name)
    if nest is None:
        return False
    share_out(sch, [a.loop for a in nest.spatial], nest.cost(), machine)
    return True
