"""Legality of loops: which may change places, run at once, or run together."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import Expr, Var
from smelt.ir.node import Node
from smelt.ir.walk import free_vars
from smelt.tir.facts import conjuncts

from .. import nodes
from .injective import is_injective
from .predicate import conditions
from .region import touched
from .state import State

_ANY_ORDER = "a statement outside any block may run in another order"


def opaque_statement(s: nodes.Stmt) -> nodes.Stmt | None:
    """A statement with an effect that stands in no block."""
    inside = nodes.walk(s, nodes.is_block)
    return next((x for x in inside if isinstance(x, nodes.BufferStore | nodes.Evaluate)), None)


def _require_blocks(state: State, body: nodes.Stmt, claim: str, loops: str) -> None:
    """Refuse statements outside blocks, of which nothing is known."""
    bare = opaque_statement(body)
    if bare is not None:
        state.cannot_prove(
            claim, mark={bare: "not in a block"}, legal=f"{loops} with nothing but blocks inside"
        )


def check_reorder(state: State, loops: Sequence[nodes.For]) -> None:
    """Refuse to let the iterations of a perfect nest (outermost first) run in another order."""
    body = loops[-1].body
    _require_blocks(state, body, _ANY_ORDER, "loops")
    blocks = state.blocks_in(body)
    for b in blocks:
        for i, value in b.bindings:
            if i.kind == "opaque" and free_vars(value) & {x.var for x in loops}:
                state.cannot_prove(
                    f"the order of {i.var.name} in block {b.block.name} does not matter",
                    mark={b: "an opaque variable"},
                    legal="loops of spatial and reduce variables",
                )
        if any(i.kind == "reduce" for i in b.block.iter_vars):
            _check_accumulation(state, b, loops)
    if len(blocks) > 1:
        _check_covered(state, blocks, loops, "run in another order")


def _check_accumulation(state: State, b: nodes.BlockRealize, loops: Sequence[nodes.For]) -> None:
    """Each element is added to once a value of the reduce variables, its initial value first."""
    if not is_injective(state, b, [*loops, *state.loops_between(b, loops[-1])]):
        names = ", ".join(x.var.name for x in loops)
        state.cannot_prove(
            f"{b.block.name} adds each term once in the loops {names}",
            mark={b: "a reduction"},
            legal="loops of which each is seen in a variable of the block",
        )
    if b.block.init is None:
        return
    used: dict[str, set[Var]] = {"spatial": set(), "reduce": set()}
    for i, value in b.bindings:
        used.setdefault(i.kind, set()).update(free_vars(value))
    for x in loops:
        if x.var in used["spatial"] & used["reduce"]:
            state.cannot_prove(
                f"{b.block.name} sets its initial values before it adds to them",
                mark={x: "binds spatial and reduce variables", b: "has initial values"},
                legal="the same after decompose_reduction",
            )


def check_concurrent(state: State, loop: nodes.For, how: str, thread: str | None) -> None:
    """Refuse to run the iterations of a loop at once.

    thread  the axis that it is bound to; threads of a block may reduce together
    """
    together = (thread or "").startswith("threadIdx")
    if is_const(loop.extent, 1):
        return
    _require_blocks(
        state, loop.body, f"the iterations of {loop.var.name} are independent", "a loop"
    )
    blocks = state.blocks_in(loop.body)
    for b in blocks:
        uses = False
        for i, value in b.bindings:
            if loop.var not in free_vars(value):
                continue
            uses = True
            if i.kind == "spatial" or (together and i.kind == "reduce"):
                continue
            state.fail(
                f"{loop.var.name} cannot be {how}: its iterations all "
                f"{'add to the same elements' if i.kind == 'reduce' else 'depend on each other'} "
                f"(block {b.block.name}, variable {i.var.name} is {i.kind})",
                mark={loop: f"binds {i.kind} variable {i.var.name} of {b.block.name}"},
                legal="a loop that binds spatial variables only"
                + ("; rfactor makes a reduction parallel" if i.kind == "reduce" else ""),
            )
        if not uses or not _splits_writes(state, b, loop):
            _check_private(state, b, loop, how, uses)
    if len(blocks) > 1:
        _check_covered(state, blocks, [loop], f"be {how}")


def recheck(state: State, s: nodes.Stmt) -> None:
    """Refuse what a statement that is new here does to the concurrent loops around it."""
    for up in [s, *state.above(s)]:
        if isinstance(up, nodes.For) and up.kind in ("parallel", "vectorized", "thread_binding"):
            check_concurrent(state, up, up.kind, up.thread)


def check_merged(state: State, loop: nodes.For) -> None:
    """Refuse a merged loop whose blocks use what other iterations make."""
    _require_blocks(state, loop.body, _ANY_ORDER, "loops")
    _check_covered(state, state.blocks_in(loop.body), [loop], "run together")


def _splits_writes(state: State, b: nodes.BlockRealize, loop: nodes.For) -> bool:
    """Whether different iterations of `loop` certainly write different elements."""
    loops = [loop, *state.loops_between(b, loop)]
    return is_injective(state, b, loops) or _boxes_disjoint(state, b, loop)


def _boxes_disjoint(state: State, b: nodes.BlockRealize, loop: nodes.For) -> bool:
    """Whether a spatial variable's range moves on by its own width or more each iteration."""
    facts, inner = state.facts, state.loops_between(b, loop)
    for i, value in b.bindings:
        moves = i.kind == "spatial" and loop.var in free_vars(value)
        ends = facts.relax(value, inner) if moves else None
        step = None if ends is None else facts.step(ends[0], loop.var)
        if ends is not None and step is not None and facts.prove(ends[1] - ends[0] < step):
            return True
    return False


def _check_private(
    state: State, b: nodes.BlockRealize, loop: nodes.For, how: str, uses: bool
) -> None:
    """Where several iterations write the same elements, each must have them for itself."""
    params = set(state.func.buffers)
    inside = set(state.blocks_in(loop.body))
    scope = state.scope(loop)
    for w in b.block.writes:
        users = {*state.readers(scope, w.buffer), *state.writers(scope, w.buffer)}
        if w.buffer in params or how == "vectorized" or not users <= inside:
            text = (
                f"{b.block.name} writes the same elements of {w.buffer.name} in several iterations "
                f"of {loop.var.name}"
            )
            mark: dict[Node, str] = {b: f"writes {w.buffer.name}"}
            if not uses:
                state.fail(
                    f"{loop.var.name} cannot be {how}: {text}",
                    mark=mark,
                    legal="a loop that every block inside depends on",
                )
            state.cannot_prove(
                f"{loop.var.name} can be {how}: it may be that {text}",
                mark=mark,
                legal="loops whose iterations write separate elements",
            )


def _check_covered(
    state: State, blocks: Sequence[nodes.BlockRealize], loops: Sequence[nodes.For], what: str
) -> None:
    """What a block under `loops` takes from another one there is of the same iteration."""
    first_writer = {w.buffer: b for b in reversed(blocks) for w in b.block.writes}
    for b in blocks:
        for r in (*b.block.reads, *b.block.writes):
            first = first_writer.get(r.buffer, b)
            if first is b:
                continue
            overwritten = any(w.buffer is r.buffer for w in b.block.writes)
            if overwritten or blocks.index(first) > blocks.index(b):
                _check_written_once(state, first, b, r.buffer, loops, what)
            _check_pair(state, first, b, r, loops, what)


def _check_written_once(
    state: State,
    first: nodes.BlockRealize,
    then: nodes.BlockRealize,
    buffer: nodes.Buffer,
    loops: Sequence[nodes.For],
    what: str,
) -> None:
    """No other iteration of the loops writes again what this one has given to another block."""
    if not is_injective(state, first, [*loops, *state.loops_between(first, loops[-1])]):
        state.cannot_prove(
            f"the iterations of {' and '.join(x.var.name for x in loops)} may {what}: "
            f"{first.block.name} may write elements of {buffer.name} again in another iteration, "
            f"after {then.block.name} has changed or read them",
            mark={first: f"writes {buffer.name}", then: f"uses {buffer.name}"},
            legal="loops of which each is seen in a variable of the writing block",
        )


def _shared(state: State, first: nodes.BlockRealize, then: nodes.BlockRealize) -> list[Expr]:
    """The conditions of a block on the loops that stand around another one too."""
    around = {x.var for x in state.loops_above(first)} & {x.var for x in state.loops_above(then)}
    loops = {x.var for x in state.loops_above(then)}
    return [c for c in conjuncts(then.predicate) if free_vars(c) & loops <= around]


def _check_pair(
    state: State,
    first: nodes.BlockRealize,
    then: nodes.BlockRealize,
    region: nodes.BufferRegion,
    loops: Sequence[nodes.For],
    what: str,
) -> None:
    inside = loops[-1]
    need = touched(state, then, region, state.loops_between(then, inside))
    write = next(w for w in first.block.writes if w.buffer is region.buffer)
    guard = conditions(state, first, _shared(state, first, then))
    if guard is None or guard:
        state.cannot_prove(
            f"the iterations of {' and '.join(x.var.name for x in loops)} may {what}: "
            f"{first.block.name} runs under a condition, and {then.block.name} may use elements "
            f"of {region.buffer.name} that it wrote in another iteration",
            mark={first: "its guard", then: f"uses {region.buffer.name}"},
            legal="a writer without conditions of its own",
        )
    have = touched(state, first, write, state.loops_between(first, inside))
    if not state.facts.covers(have, need, region.buffer.shape):
        names = " and ".join(x.var.name for x in loops)
        state.cannot_prove(
            f"the iterations of {names} may {what}: {then.block.name} may use elements of "
            f"{region.buffer.name} that {first.block.name} writes in another iteration",
            mark={first: f"writes {region.buffer.name}", then: f"uses {region.buffer.name}"},
            legal="loops whose blocks use only what their own iteration writes",
        )
    for i, value in first.bindings:
        if i.kind != "spatial" and free_vars(value) & {x.var for x in loops}:
            state.fail(
                f"the iterations of {', '.join(x.var.name for x in loops)} may not "
                f"{what}: {then.block.name} "
                f"uses {region.buffer.name} while {first.block.name} still adds to it",
                mark={first: f"{i.var.name} is a {i.kind} variable"},
                legal="loops in whose iterations the writing block finishes",
            )
